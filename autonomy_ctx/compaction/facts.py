"""Changes of the standing facts by a batch of messages: from a model's lines, or found by rules. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import tzinfo

from autonomy_ctx.items.fact import Fact, FactChange, FactLine, fact_line, standing_facts
from autonomy_ctx.items.fact_rules import find_facts
from autonomy_ctx.items.message import ChatRole
from autonomy_ctx.items.name_index import NameIndex, unknown_names
from autonomy_ctx.items.relative_dates import resolve_dates
from autonomy_ctx.items.terms import index_terms
from autonomy_ctx.items.tokens import TokenCounter
from autonomy_ctx.memory.search_text import searchable_text
from autonomy_ctx.memory.store import Entry

# The fewest tokens of facts that a summarizer is shown, however short its batch is.
MIN_LISTED_TOKENS = 128


def changes_by_rules(
    entries: Sequence[Entry], standing: Sequence[Fact], zone: tzinfo, before: Entry | None = None
) -> list[FactChange]:
    """What the messages say that holds, found without a model; the first may answer the one before them."""
    spoken = [(entry.position, entry.message) for entry in entries]
    return find_facts(spoken, standing, zone, None if before is None else (before.position, before.message))


def changes_from_lines(
    lines: Sequence[FactLine], entries: Sequence[Entry], standing: Sequence[Fact], zone: tzinfo
) -> list[FactChange]:
    """What a model wrote, each with the message that it most likely comes from.

    A line that names what neither the messages nor the facts name is invented and left out. So is one that
    ends what does not hold.
    """
    texts = [searchable_text(entry.message) for entry in entries]
    terms = [set(index_terms(text)) for text in texts]
    holding = {fact.id: fact.text for fact in standing if fact.state == "holds"}
    known = NameIndex(*texts, *holding.values())
    changes: list[FactChange] = []
    for line in lines:
        if line.action == "done" and line.target not in holding:
            continue
        if unknown_names(line.text, known):
            continue
        entry = _source_of(line, entries, terms)
        at = entry.message.created_at
        changes.append(
            FactChange(
                action=line.action,
                position=entry.position,
                created_at=at,
                kind=line.kind,
                text=resolve_dates(line.text, at.astimezone(zone)),
                target=line.target,
                source="model",
            )
        )
    return changes


def listed_facts(facts: Sequence[Fact], source: str, tokens: int, counter: TokenCounter) -> list[str]:
    """Lines of the facts that a summarizer is shown, within so many tokens.

    Those that share most words with the source come first: these may be changed by it.
    """
    holding = standing_facts(facts)
    words = set(index_terms(source))
    lines = {fact.id: fact_line(fact) for fact in holding}
    left = max(tokens, MIN_LISTED_TOKENS)
    chosen: set[str] = set()
    terms = {fact.id: set(index_terms(fact.text)) for fact in holding}
    newest_first = sorted(holding, key=lambda fact: -fact.position)
    for fact in sorted(newest_first, key=lambda fact: -len(words & terms[fact.id])):
        left -= counter.count_text(lines[fact.id] + "\n")
        if left < 0:
            break
        chosen.add(fact.id)
    return [lines[fact.id] for fact in holding if fact.id in chosen]


def _source_of(line: FactLine, entries: Sequence[Entry], terms: Sequence[set[str]]) -> Entry:
    """The message that shares most words with a fact; of several, what the user said last."""
    words = set(index_terms(line.text))

    def fit(index: int) -> tuple[int, bool, int]:
        return len(words & terms[index]), entries[index].message.role is ChatRole.USER, index

    return entries[max(range(len(entries)), key=fit)]
