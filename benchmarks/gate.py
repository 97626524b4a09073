"""Which bad replies of a summarizer the checks let through, and which good ones they refuse.

Every reply goes through the writer of segments, with one repair that is just as bad. Half of the
conversations and kinds were written first and never tuned on; both halves are printed. A broken reply may
never be kept; a poor one, about something else, may be kept only as doubtful. A third list has plain but
true replies of simple summarizers, none of which may be refused. A fresh set by another hand has all of
these; its failures are counted by kind, and no case of it is shown.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from itertools import cycle, product
from pathlib import Path
from types import ModuleType
from typing import Any

from autonomy_ctx.compaction.calls import CircuitBreaker
from autonomy_ctx.compaction.config import ContextSummaryConfig, resolve_settings
from autonomy_ctx.compaction.metrics import SummaryMetrics
from autonomy_ctx.compaction.schema import READY_SCHEMAS, SummarySchema
from autonomy_ctx.compaction.writer import SegmentWriter, UnfitSummary
from autonomy_ctx.messages.fact import Fact
from autonomy_ctx.testing import ModelCall, ScriptedModel
from autonomy_ctx.tokens import TokenCounter
from benchmarks.gate_cases import fresh, held_out, plain, tuned
from benchmarks.gate_cases.source import BadReply, Source, TurnedRule
from benchmarks.table import Figure

NOON = datetime(2026, 5, 4, 12, tzinfo=UTC)
# What these replies say may be true or not, but it is a text: no check can tell it from a plain record.
POOR = frozenset(
    [
        "answer",
        "invented identifiers",
        "half unknown",
        "another conversation",
        "lorem ipsum",
        "vague",
        "talk about the task",
    ]
)
HALVES = {"tuned": tuned, "held out": held_out}
_LONG_NUMBER = re.compile(r"(?<![\w.,/:-])(\d{1,3})(\d{3})(?![\w.,/:-])")
_GROUPED_NUMBER = re.compile(r"(?<=\d)[.,](?=\d{3}\b)")
_ITEM = re.compile(r"^- ", re.MULTILINE)
_LABELS = ("kept", "unmarked", "refused", "repaired")


@dataclass(frozen=True, slots=True)
class Failure:
    """A reply that was judged wrongly: its kind, and the case as it is shown."""

    kind: str
    case: str


@dataclass(slots=True)
class Tally:
    """What became of the replies of one half."""

    bad: int = 0
    trials: int = 0
    kept: list[Failure] = field(default_factory=list)
    poor: int = 0
    poor_kept: int = 0
    unmarked: list[Failure] = field(default_factory=list)
    good: int = 0
    refused: list[Failure] = field(default_factory=list)
    repaired: list[Failure] = field(default_factory=list)
    reasons: Counter[str] = field(default_factory=Counter)


@dataclass(frozen=True, slots=True)
class Outcome:
    """What the writer made of one reply."""

    text: str | None
    repaired: bool
    reason: str = ""
    is_doubtful: bool = False


async def measure(folder: Path) -> list[Figure]:
    figures: list[Figure] = []
    for (half_name, half), schema in product(HALVES.items(), (None, "coding")):
        name = half_name if schema is None else f"{half_name}, {schema} schema"
        tally = await judge_half(half.SOURCES, half.BAD, schema)
        kinds = len({one.kind for one in half.BAD})
        print(f"  gate, {name}: {tally.bad} bad replies of {kinds} kinds, {len(half.SOURCES)} conversations")
        print(f"    {tally.poor_kept} of {tally.poor} poor replies kept")
        _print_cases(tally)
        figures += _half_figures(name, tally)
    tally = await judge_plain()
    print(f"  gate, plain: {tally.good} true replies, {len(tally.repaired)} of them kept as doubtful")
    _print_cases(tally)
    return [*figures, *_plain_figures("plain", tally), *await _measure_fresh()]


async def _measure_fresh() -> list[Figure]:
    """The set by another hand, apart from the others: what fails is told by kind only."""
    tally = await judge_half(fresh.SOURCES, fresh.BAD)
    kinds = len({one.kind for one in fresh.BAD})
    print(f"  gate, fresh: {tally.bad} bad replies of {kinds} kinds, {len(fresh.SOURCES)} conversations")
    print(f"    {tally.poor_kept} of {tally.poor} poor replies kept")
    _print_kinds(tally)
    said = await judge_plain(fresh)
    print(f"  gate, fresh and plain: {said.good} true replies, {said.bad} rules turned into their opposite")
    _print_kinds(said)
    return [*_half_figures("fresh", tally), *_plain_figures("fresh and plain", said)]


def _half_figures(name: str, tally: Tally) -> list[Figure]:
    return [
        _share(f"{name}: bad replies kept", len(tally.kept), tally.trials, 0.0),
        _share(f"{name}: poor replies kept as good ones", len(tally.unmarked), tally.poor, 0.1),
        _share(f"{name}: good replies refused", len(tally.refused), tally.good, 0.02),
        _share(f"{name}: good replies asked for twice", len(tally.repaired), tally.good, 0.05),
    ]


def _plain_figures(name: str, tally: Tally) -> list[Figure]:
    return [
        _share(f"{name}: broken replies kept", len(tally.kept), tally.trials, 0.0),
        _share(f"{name}: true replies refused", len(tally.refused), tally.good, 0.0),
    ]


def _print_cases(tally: Tally) -> None:
    for label in _LABELS:
        for failure in getattr(tally, label):
            print(f"    {label}: {failure.case}")


def _print_kinds(tally: Tally) -> None:
    for label in _LABELS:
        counted = Counter(failure.kind for failure in getattr(tally, label))
        if counted:
            print(
                f"    {label}: " + ", ".join(f"{kind} {number}" for kind, number in sorted(counted.items()))
            )


def _share(name: str, number: int, of: int, bound: float) -> Figure:
    value = number / of
    return Figure(name=name, ours=f"{number} of {of}", floor="0", value=value, bound=bound)


async def judge_half(
    sources: Sequence[Source], replies: Sequence[BadReply], schema: str | None = None
) -> Tally:
    """Try every bad reply on every conversation, and every form of the good records on its own."""
    tally = Tally(bad=len(replies))
    for source in sources:
        for bad in replies:
            outcome = await write(source, bad, schema)
            kept = outcome.text is not None and not _is_source_itself(source, bad)
            case = Failure(bad.kind, f"{bad.kind} for {source.name}: {(outcome.text or '')[:200]!r}")
            if bad.kind in POOR:
                tally.poor += 1
                tally.poor_kept += kept
                tally.unmarked += [case] if kept and not outcome.is_doubtful else []
            else:
                tally.trials += 1
                tally.kept += [case] if kept else []
            tally.reasons[outcome.reason] += 1
        good = good_replies(source)
        for form, text in good if schema is None else with_headings(good, READY_SCHEMAS[schema]):
            outcome = await write(source, BadReply(form, text), schema)
            tally.good += 1
            case = Failure(form, f"{form} of {source.name} ({outcome.reason}): {text[:200]!r}")
            if outcome.text is None:
                tally.refused.append(case)
            elif outcome.repaired:
                tally.repaired.append(case)
    return tally


async def judge_plain(given: ModuleType = plain) -> Tally:
    """Try every plain reply on its own conversation, every broken one on all, and what says of a rule."""
    tally = Tally(bad=len(given.BROKEN) + len(given.TURNED))
    good = [(case.source, "", style, text) for case in given.CASES for style, text in case.good]
    good += [(source, rule, "rule", text) for source, rule, text in given.SAID_OTHERWISE]
    for source, rule, style, text in good:
        outcome = await write(source, BadReply(style, text), rule=rule)
        case = Failure(style, f"{style} of {source.name} ({outcome.reason}): {text[:200]!r}")
        tally.good += 1
        tally.refused += [case] if outcome.text is None else []
        tally.repaired += [case] if outcome.is_doubtful else []
    turned = [one if isinstance(one, TurnedRule) else TurnedRule(*one) for one in given.TURNED]
    bad = [(case.source, "", reply, "") for case in given.CASES for reply in given.BROKEN]
    bad += [(one.source, one.rule, BadReply(one.kind, one.text), one.claim) for one in turned]
    for source, rule, reply, claim in bad:
        outcome = await write(source, reply, rule=rule)
        tally.trials += 1
        tally.reasons[outcome.reason] += 1
        if outcome.text is not None and claim in outcome.text:
            case = Failure(reply.kind, f"{reply.kind} for {source.name}: {outcome.text[:200]!r}")
            tally.kept.append(case)
    return tally


def _is_source_itself(source: Source, bad: BadReply) -> bool:
    """Whether a reply that is bad for the others happens to be right for this conversation."""
    return bad.text in source.records


async def write(source: Source, bad: BadReply, schema: str | None = None, rule: str = "") -> Outcome:
    """Have the writer ask a model that always gives this reply, where a rule may hold."""

    def answer(call: ModelCall) -> Any:
        prompt = str(call.messages[0]["content"])
        return {
            "choices": [
                {
                    "message": {"role": "assistant", "content": bad.reply_to(source, prompt)},
                    "finish_reason": bad.stop,
                }
            ]
        }

    metrics = SummaryMetrics()
    settings = resolve_settings(ContextSummaryConfig(model=ScriptedModel([answer]), schema=schema))
    writer = SegmentWriter(settings, metrics, CircuitBreaker())
    try:
        standing = [Fact(id="F1", kind="rule", text=rule, position=1, created_at=NOON)] if rule else []
        draft = await writer.write_batch(source.messages(), [], TokenCounter(), None, standing)
    except UnfitSummary as error:
        return Outcome(None, bool(metrics.dump()["summaries_repaired"]), error.reason)
    repaired = bool(metrics.dump()["summaries_repaired"])
    return Outcome(draft.segment.text, repaired, is_doubtful=draft.is_doubtful)


def good_replies(source: Source) -> Iterator[tuple[str, str]]:
    """The records of a conversation, each in many forms."""
    for number, record in enumerate(source.records):
        lines = record.split("\n")
        yield f"record {number}", record
        yield f"grouped numbers {number}", _LONG_NUMBER.sub(r"\1,\2", record)
        yield f"plain numbers {number}", _GROUPED_NUMBER.sub("", record)
        yield f"fenced {number}", f"```markdown\n{record}\n```"
        yield f"thoughts {number}", f"<think>\nThe user wants a record. Let me list it.\n</think>\n\n{record}"
        yield (
            f"analysis {number}",
            f"<analysis>\nSeveral parts.\n</analysis>\n<summary>\n{record}\n</summary>",
        )
        yield f"preamble {number}", f"Here is the record of the conversation:\n\n{record}"
        yield (
            f"polite preamble {number}",
            f"Sure! Here's a summary:\n\n{record}\n\nLet me know if you need anything else.",
        )
        yield f"bold {number}", "\n".join(line if line.startswith("- ") else f"**{line}**" for line in lines)
        yield (
            f"headings {number}",
            "\n".join(line if line.startswith("- ") else f"## {line}" for line in lines),
        )
        yield f"stars {number}", _ITEM.sub("* ", record)
        yield f"numbered {number}", _ITEM.sub("1. ", record)
        yield f"shorter {number}", _shorter(record)
        yield f"other order {number}", _other_order(record)
        yield (
            f"upper case headings {number}",
            "\n".join(line if line.startswith("- ") or number else line.upper() for line in lines),
        )
        if number == 0:
            yield "prose", " ".join(line.removeprefix("- ").rstrip(".:") + "." for line in lines)
            yield "items only", "\n".join(line for line in lines if line.startswith("- "))


def with_headings(replies: Iterator[tuple[str, str]], schema: SummarySchema) -> Iterator[tuple[str, str]]:
    """Replies as they are, and those with lists also under the headings of a schema, in three forms."""
    for form, text in replies:
        yield form, text
        if form.startswith("record") and "\n- " in text:
            for mark, end in (("## ", ""), ("**", ":**"), ("", "")):
                names = cycle(section.name for section in schema.sections)
                lines = [
                    line if line.startswith("- ") else mark + next(names) + end for line in text.split("\n")
                ]
                yield f"{form} below {mark}headings", "\n".join(lines)


def _shorter(record: str) -> str:
    """Without the last item or sentence."""
    if "\n" in record:
        return record.rsplit("\n", 1)[0]
    end = ". " if ". " in record else "。"
    return record.rstrip(".。").rsplit(end, 1)[0] + end.strip()


def _other_order(record: str) -> str:
    if "\n" in record:
        parts = re.split(r"\n(?!- )", record)
        return "\n".join(reversed(parts))
    end = ". " if ". " in record else "。"
    return end.join(reversed(record.rstrip(".。").split(end))) + end.strip()
