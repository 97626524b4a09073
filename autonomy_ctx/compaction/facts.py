"""Changes of the facts by a batch of messages: from the lines of a model, or by rules."""

from __future__ import annotations

import logging
from collections.abc import Callable, Container, Generator, Iterator, Sequence
from dataclasses import replace
from datetime import tzinfo
from operator import attrgetter
from typing import NamedTuple, TypeAlias

from autonomy_ctx.background import pause
from autonomy_ctx.compaction.voices import Voices, is_said_by_user
from autonomy_ctx.errors import StoreError
from autonomy_ctx.language.dates import resolve_dates
from autonomy_ctx.language.facts import find_facts_in_steps
from autonomy_ctx.language.name_index import NameIndex, unknown_names
from autonomy_ctx.language.profile import find_profile_statements, profile_subject
from autonomy_ctx.language.reported_speech import split_speech
from autonomy_ctx.language.sentences import sentence_spans, text_languages
from autonomy_ctx.language.statement import read_languages
from autonomy_ctx.language.words import split_words
from autonomy_ctx.memory.memory import Memory
from autonomy_ctx.memory.outline import FactEnd
from autonomy_ctx.memory.search_terms import folded_words
from autonomy_ctx.memory.search_text import searchable_text
from autonomy_ctx.memory.store import Entry, Key, StoredSegment
from autonomy_ctx.messages.fact import (
    EndedText,
    Fact,
    FactChange,
    FactLine,
    active_facts,
    add_note,
    normalize_fact,
    short_fact_line,
    stated_text,
)
from autonomy_ctx.messages.message import Message
from autonomy_ctx.messages.tokens import TokenCounter

# The fewest tokens of facts that a summarizer is shown, however short its batch is, and how much of a fact.
MIN_LISTED_TOKENS, MAX_LISTED_CHARACTERS = 96, 120
# Which part of its words a fact for the profile has from the user's message, where a model wrote it.
MIN_OWN_WORDS = 0.5
# Says of a fact that a user stated whether it holds in all conversations of the scope.
ProfileRule: TypeAlias = Callable[[Fact], bool]

logger = logging.getLogger("autonomy_ctx.compaction")


def changes_by_rules(
    entries: Sequence[Entry], standing: Sequence[Fact], zone: tzinfo, before: Entry | None = None
) -> Generator[int, None, list[FactChange]]:
    """The facts that messages state, found by rules without a model, one message per step."""
    spoken = [(entry.position, entry.message) for entry in entries]
    previous = None if before is None else (before.position, before.message)
    return find_facts_in_steps(spoken, standing, zone, previous)


def changes_from_lines(
    lines: Sequence[FactLine], entries: Sequence[Entry], standing: Sequence[Fact], zone: tzinfo
) -> list[FactChange]:
    """The changes that a model wrote, each with the message that it most likely comes from.

    A line is left out if it names something which is neither in the messages nor in the facts, if it ends an
    unknown fact, or if it takes what somebody else said for the user's. A fact of the user is replaced or
    ended only if the user's own words support it; otherwise a new value stands beside the old one.
    """
    holding = {fact.id: fact for fact in standing if fact.state == "holds"}
    texts = [searchable_text(entry.message) for entry in entries]
    known = NameIndex(*texts, more=[fact.text for fact in holding.values()])
    voices = Voices(entries)
    changes: list[FactChange] = []
    for line in lines:
        fact = holding.get(line.target or "")
        if (line.action == "done" and fact is None) or unknown_names(line.text, known):
            continue
        support = voices.check(line, fact)
        if support is None:
            continue
        at = support.entry.message.created_at
        changes.append(
            FactChange(
                action=support.action,
                position=support.entry.position,
                created_at=at,
                kind=line.kind,
                text=add_note(resolve_dates(line.text, at.astimezone(zone)), support.note),
                target=None if support.action == "add" else line.target,
                source="model",
            )
        )
    return changes


class FoundDone(NamedTuple):
    """A fact that a digest found done, as it held before, and the message that says so."""

    fact: Fact
    end: FactEnd


def facts_beside(
    facts: Sequence[Fact], entries: Sequence[Entry], done: Sequence[FoundDone] = ()
) -> tuple[Fact, ...]:
    """The facts as they were before these messages, although a digest has read them already.

    What was learned of them goes when they are summarized, and is to be found again. What they had replaced
    or ended holds then.
    """
    first, last = entries[0].position, entries[-1].position
    found = (*facts, *(one.fact for one in done if one.end.position <= last)) if done else tuple(facts)
    gone = {fact.id for fact in found if first <= fact.position <= last and fact.source != "user"}
    if not gone:
        return found
    replaced = {fact.replaces for fact in found if fact.id in gone}
    beside = (fact for fact in found if fact.id not in gone)
    return tuple(replace(fact, state="holds") if fact.id in replaced else fact for fact in beside)


def still_done(
    done: Sequence[FoundDone], entries: Sequence[Entry], changes: Sequence[FactChange], listed: Container[str]
) -> list[FactChange]:
    """The ends of facts that a model could not decide on, because it was not shown them."""
    last, stated = entries[-1].position, {normalize_fact(change.text) for change in changes}
    return [
        FactChange(
            action="done", position=end.position, created_at=end.created_at, kind=fact.kind, target=fact.id
        )
        for fact, end in done
        if end.position <= last and fact.id not in listed and normalize_fact(fact.text) not in stated
    ]


def add_profile_changes(
    changes: Sequence[FactChange],
    entries: Sequence[Entry],
    standing: Sequence[Fact],
    zone: tzinfo,
    rule: bool | ProfileRule,
) -> list[FactChange]:
    """Mark the changes that go into the profile: by our rules (True), or by a function of the user.

    Only facts from the user's own messages get into a profile, never those of a tool, another agent or the
    assistant.
    """
    if callable(rule):
        said = {entry.position: entry.message for entry in entries if is_said_by_user(entry.message)}
        return [_mark_if_chosen(change, said.get(change.position), rule) for change in changes]
    if not rule:
        return list(changes)
    found = list(changes)
    indexes = {normalize_fact(change.text): at for at, change in enumerate(found)}
    targets = {
        profile_subject(fact.text): fact.id for fact in standing if fact.in_profile and fact.state == "holds"
    }
    for change, subject in _profile_statements(entries, zone):
        at = indexes.get(normalize_fact(change.text), len(found))
        target = targets.get(subject) if subject else None
        if at < len(found):
            found[at] = replace(found[at], in_profile=True)
        elif target is None:
            found.append(change)
        else:
            found.append(replace(change, action="replace", target=target))
        indexes[normalize_fact(change.text)] = at
        targets[subject] = f"+{at}"
    return found


async def learn_profile(
    memory: Memory,
    key: Key,
    said: Sequence[Entry],
    standing: Sequence[Fact],
    zone: tzinfo,
    generation: int,
) -> None:
    """Store what messages say for the profile at once: most conversations end before a summary."""
    known = {normalize_fact(fact.text) for fact in standing}
    found = add_profile_changes((), said, standing, zone, True)
    changes = [change for change in found if normalize_fact(change.text) not in known]
    if not changes:
        return
    try:
        await memory.store.write_facts(key, changes, generation=generation)
    except StoreError as error:
        # The summary of these messages finds it again.
        logger.warning("entries of the profile could not be stored yet: %s", type(error).__name__)


def _profile_statements(entries: Sequence[Entry], zone: tzinfo) -> Iterator[tuple[FactChange, str | None]]:
    languages: tuple[str, ...] = ()
    for position, message in entries:
        if not is_said_by_user(message):
            continue
        at, languages = message.created_at, read_languages(message.text, languages)
        for statement in find_profile_statements(message.text, languages):
            change = FactChange(
                action="add",
                position=position,
                created_at=at,
                kind=statement.kind,
                text=resolve_dates(statement.text, at.astimezone(zone)),
                in_profile=True,
            )
            yield change, statement.subject


def _mark_if_chosen(change: FactChange, said: Message | None, rule: ProfileRule) -> FactChange:
    if said is None or change.action == "done":
        return change
    words, own = set(folded_words(change.text)), set(folded_words(split_speech(said.text).own))
    if len(words & own) < MIN_OWN_WORDS * len(words):
        return change
    fact = Fact(
        id="",
        kind=change.kind,
        text=change.text,
        position=change.position,
        created_at=change.created_at,
        source=change.source,
    )
    try:
        return replace(change, in_profile=bool(rule(fact)))
    except Exception as error:
        # This is a function of the application; its error must not fail a summary.
        logger.warning("the `profile` function failed: %s", type(error).__name__)
        return change


def listed_facts(facts: Sequence[Fact], source: str, tokens: int, counter: TokenCounter) -> list[str]:
    """The lines of facts for the summary prompt, within a number of tokens.

    Those come first that the source most likely changes. The words of such a fact stand in the source, except
    its numbers: a new value has others.
    """
    holding = active_facts(facts)
    known: set[str] = set()
    for line in source.split("\n"):
        pause()
        known |= folded_words(line)

    def unknown_share(fact: Fact) -> float:
        pause()
        words = folded_words(fact.text)
        return sum(word not in known and not word.isdecimal() for word in words) / max(len(words), 1)

    left = max(tokens, MIN_LISTED_TOKENS)
    lines: dict[str, str] = {}
    newest_first = sorted(holding, key=attrgetter("position"), reverse=True)
    for fact in sorted(newest_first, key=unknown_share):
        line = short_fact_line(fact, MAX_LISTED_CHARACTERS)
        left -= counter.count_text(line + "\n")
        if left < 0:
            break
        lines[fact.id] = line
    return [lines[fact.id] for fact in holding if fact.id in lines]


# -- segments that state what no longer holds ---------------------------------------------------------------
# A segment is history and stays as it was written. Where it states a fact that was replaced or is done, the
# summary says so behind that sentence, or a model would take the old value for the present one.

# A longer text than this is not repeated: the current facts have it.
MAX_MARK_CHARACTERS = 120
# The share of the words of a fact that a sentence that states it has as well: of a value those of its
# subject, while the value itself must be there in full; of what is done, nearly all.
MIN_SUBJECT_SHARE, MIN_DONE_SHARE = 0.5, 0.8
MIN_WORDS = 2
DONE_MARK = " (done since)"


def mark_segments(
    segments: Sequence[StoredSegment], ended: Sequence[EndedText], covered: int, counter: TokenCounter
) -> tuple[StoredSegment, ...]:
    """The segments as they are shown; what ended after the last message that they cover is not known yet."""
    known = [_EndedWords(one) for one in ended if one.position <= covered]
    return tuple(_mark_segment(segment, known, counter) if known else segment for segment in segments)


class _EndedWords:
    """The words of a fact that has ended, and of the one in its place."""

    def __init__(self, ended: EndedText) -> None:
        old, new = _content_words(stated_text(ended.text)), _content_words(stated_text(ended.now))
        self.position = ended.position
        self.is_done = not ended.now
        self.subject, self.old, self.new = old & new, old - new, new - old
        now = stated_text(ended.now)
        short = f": now {now}" if len(now) <= MAX_MARK_CHARACTERS else ""
        self.mark = DONE_MARK if self.is_done else f" (no longer{short})"

    def may_be_stated(self, words: frozenset[str]) -> bool:
        """Tell whether a text of these words may state the fact."""
        if self.is_done:
            return len(self.old) >= MIN_WORDS and len(self.old & words) >= MIN_DONE_SHARE * len(self.old)
        return bool(self.old) and self.old <= words

    def is_stated(self, words: frozenset[str]) -> bool:
        """Tell whether a sentence of these words states the fact as if it held."""
        if self.is_done or not self.may_be_stated(words) or (self.new and self.new <= words):
            return self.is_done and self.may_be_stated(words)
        shared = len(self.subject & words)
        return len(self.old) + shared >= MIN_WORDS and shared >= MIN_SUBJECT_SHARE * len(self.subject)


def _mark_segment(
    segment: StoredSegment, ended: Sequence[_EndedWords], counter: TokenCounter
) -> StoredSegment:
    whole = frozenset(split_words(segment.text).folded)
    before_end = (one for one in ended if not one.position or segment.first < one.position)
    near = [one for one in before_end if one.may_be_stated(whole)]
    if not near:
        return segment
    parts: list[str] = []
    end = 0
    for start, stop in sentence_spans(segment.text):
        sentence = segment.text[start:stop].rstrip()
        words = frozenset(split_words(sentence).folded)
        mark = next((one.mark for one in near if one.is_stated(words)), "")
        if mark:
            parts += [segment.text[end : start + len(sentence)], mark]
            end = start + len(sentence)
    text = "".join([*parts, segment.text[end:]])
    return replace(segment, text=text, tokens=counter.count_text(text)) if parts else segment


def _content_words(text: str) -> frozenset[str]:
    """The words of a text but the most frequent ones of its language, and commas."""
    words = frozenset(split_words(text).folded) - {",", ":"}
    return words.difference(*(language.words["function"] for language in text_languages(text)))
