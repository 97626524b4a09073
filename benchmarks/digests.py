"""The content of digests: small talk, key identifiers, and lines that say less than their source.

The conversations of `fact_corpus` run through the real pipeline without a model. Every line of the last
summary is looked up in the messages that it quotes. Small talk is a line without an identifier that comes
from the talk around the cases. A line is altered when it quotes a sentence in part, and the missing part has
an identifier, a denial or a condition.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from autonomy_ctx import SummarizedHistorySection
from autonomy_ctx.language.identifiers import identifiers
from autonomy_ctx.language.sentences import is_binding, sentence_spans
from benchmarks.fact_corpus import HALVES, Conversation, is_long, make_corpus
from benchmarks.kept_facts import NAMES, judge_cases, run_conversation
from benchmarks.table import Figure

OMISSION = "[...]"
MAX_SMALL_TALK = 25.0
MIN_NAMES = {False: 55.0, True: 25.0}
_LINE = re.compile(r"- (?:User|Assistant|Tool)\b[^:\n]{0,120}: (.*)")


@dataclass(slots=True)
class Tally:
    """Of one half and length: lines, those of small talk, those altered, and the key identifiers."""

    counts: Counter[str] = field(default_factory=Counter)

    def percent(self, part: str, whole: str) -> float:
        return 100 * self.counts[part] / max(self.counts[whole], 1)


def _flat(text: str) -> str:
    return " ".join(text.split())


class Source:
    """The messages of a conversation, to find what a line quotes and whether it is a case."""

    def __init__(self, conversation: Conversation) -> None:
        said = [one.get("content") or "" for one in conversation.messages if one["role"] != "tool"]
        of_cases = [text for case in conversation.cases for step in case.steps for _, text in step.lines]
        self._said, self._cases = list(map(_flat, said)), "\n".join(map(_flat, of_cases))

    def is_small_talk(self, quoted: str) -> bool:
        return not identifiers(quoted) and not any(one in self._cases for one in self._pieces(quoted))

    def is_altered(self, quoted: str) -> bool:
        """Whether each message that it may come from says more: a name, a denial or a condition."""
        pieces = self._pieces(quoted)
        found = [_missing(said, pieces) for said in self._said if all(piece in said for piece in pieces)]
        return bool(found) and all(any(identifiers(one) or is_binding(one) for one in some) for some in found)

    @staticmethod
    def _pieces(quoted: str) -> list[str]:
        return [piece for one in quoted.split(OMISSION) if (piece := _flat(one))]


def _missing(said: str, pieces: Sequence[str]) -> list[str]:
    """What is left of the sentences of a message that are quoted in part."""
    sentences = [said[start:end].strip() for start, end in sentence_spans(said)]
    found: list[str] = []
    for sentence in sentences:
        inside = [piece for piece in pieces if piece in sentence and piece != sentence]
        if inside and not any(sentence in piece for piece in pieces):
            for piece in inside:
                sentence = sentence.replace(piece, "\n")
            found.append(sentence)
    return found


def count_lines(parts: Sequence[str], source: Source, tally: Tally) -> None:
    """Count the lines of digests in the parts of a summary."""
    for line in "\n".join(parts).split("\n"):
        if found := _LINE.fullmatch(line):
            tally.counts["lines"] += 1
            is_spoken = not line.startswith("- Tool")
            tally.counts["small talk"] += is_spoken and source.is_small_talk(found[1])
            tally.counts["altered"] += is_spoken and source.is_altered(found[1])


async def tally_digests(conversations: Sequence[Conversation]) -> dict[tuple[str, bool], Tally]:
    """The tallies of each half, of short and of long conversations."""
    tallies: dict[tuple[str, bool], Tally] = {}
    for conversation in conversations:
        tally = tallies.setdefault((conversation.half, is_long(conversation)), Tally())
        section: Any = SummarizedHistorySection(None)
        view = await run_conversation(section, conversation)
        await section.close()
        count_lines(view.summary, Source(conversation), tally)
        for row, is_found in judge_cases(view, conversation.cases):
            tally.counts["names"] += row == NAMES
            tally.counts["named"] += row == NAMES and is_found
    return tallies


async def measure(folder: Path) -> list[Figure]:
    tallies = await tally_digests(make_corpus())
    figures: list[Figure] = []
    for half in HALVES:
        for long in (False, True):
            tally = tallies[half, long]
            counts, name = tally.counts, f"{half}, {'2,000' if long else '400'} messages"
            lines = f"{counts['lines']} lines"
            figures += [
                Figure(
                    name=f"{name}: lines of small talk, percent",
                    ours=f"{counts['small talk']} of {lines}",
                    floor=f"{MAX_SMALL_TALK:g}",
                    value=tally.percent("small talk", "lines"),
                    bound=MAX_SMALL_TALK,
                ),
                Figure(
                    name=f"{name}: key identifiers, percent",
                    ours=f"{counts['named']} of {counts['names']}",
                    floor=f"{MIN_NAMES[long]:g}",
                    value=tally.percent("named", "names"),
                    bound=MIN_NAMES[long],
                    at_most=False,
                ),
                Figure(
                    name=f"{name}: lines that lost a name, denial or condition",
                    ours=f"{counts['altered']} of {lines}",
                    floor="0",
                    value=counts["altered"],
                    bound=0,
                ),
            ]
    return figures
