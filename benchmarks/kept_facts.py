"""What a context still contains at the end of a long conversation, without a model and with a perfect one.

Conversations run through the real pipeline with its defaults, and the background catches up after every turn.
With outages, the perfect model is down for 40 of every 100 messages, and digests take its place meanwhile.
Then each case is looked for in the whole context. What is shown must stand in one line: half of a rule is
another rule. A part of the corpus is held out; both parts and their sum are printed.
"""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from functools import partial
from pathlib import Path
from typing import Any

from autonomy_ctx import ContextTemplate, Memory, SummarizedHistorySection
from autonomy_ctx.messages import wire
from autonomy_ctx.messages.summary import Summary
from benchmarks.fact_corpus import HALVES, Case, Conversation, Step, has_keys, is_long, make_corpus
from benchmarks.fact_model import PerfectSummarizer
from benchmarks.table import Figure

DIGEST = "27bd214f9c4bfbf99d0941a90828ceed6be4a8eb692771f4c665057108b00097"
SCOPE = "ana"
# How often a context is composed, ten minutes apart, after the last outage.
CATCH_UP = 12
START = datetime(2026, 5, 4, 9, tzinfo=UTC)
RULES, OPEN, DECISIONS, NEWEST = "rules and preferences", "open items", "decisions", "newest value"
OLD, FINISHED, NAMES = "old value as if it held", "done item as if open", "key identifiers"
# The old value and what it is of, in any line of the summary without the newest: also as dated history.
ANYWHERE = "old value in a line of its own"
ROWS = {
    "rule": RULES,
    "preference": RULES,
    "open": OPEN,
    "decision": DECISIONS,
    "value": NEWEST,
    "id": NAMES,
    "artifact": NAMES,
}
BAD_ROWS = (OLD, FINISHED, ANYWHERE)


@dataclass(frozen=True, slots=True)
class Column:
    """One way to summarize conversations of one length, and the aim of each row in percent."""

    name: str
    long: bool
    perfect: bool
    aims: dict[str, float]
    size: int | None = None
    schema: str | None = None
    outages: bool = False


_PERFECT = {
    RULES: 100.0,
    OPEN: 100.0,
    DECISIONS: 100.0,
    NEWEST: 100.0,
    OLD: 0.0,
    ANYWHERE: 0.0,
    FINISHED: 0.0,
}
COLUMNS = (
    Column(
        "digest, 400",
        False,
        False,
        {RULES: 85, OPEN: 90, DECISIONS: 70, NEWEST: 90, OLD: 10, FINISHED: 10, NAMES: 55},
    ),
    Column(
        "digest, 2,000",
        True,
        False,
        {RULES: 75, OPEN: 80, DECISIONS: 60, NEWEST: 85, OLD: 10, FINISHED: 10, NAMES: 25},
    ),
    Column("perfect model, 400", False, True, {**_PERFECT, NAMES: 95}),
    Column("perfect model, 2,000", True, True, {**_PERFECT, NAMES: 60}),
    Column("perfect model with outages, 400", False, True, {**_PERFECT, NAMES: 95}, outages=True),
    Column("perfect model, 2,000, size 4,096", True, True, {**_PERFECT, NAMES: 80}, 4096),
    Column(
        "digest, 400, coding schema",
        False,
        False,
        {RULES: 85, OPEN: 90, DECISIONS: 70, NEWEST: 90, OLD: 10, FINISHED: 10, NAMES: 55},
        schema="coding",
    ),
    Column("perfect model, 400, coding schema", False, True, {**_PERFECT, NAMES: 95}, schema="coding"),
    Column("perfect model, 2,000, coding schema", True, True, {**_PERFECT, NAMES: 60}, schema="coding"),
)


@dataclass(frozen=True, slots=True)
class View:
    """A context as text: the parts of its summary in order, and the messages after it."""

    summary: list[str]
    window: list[str]

    @property
    def parts(self) -> list[str]:
        return [*self.summary, *self.window]

    def last_part(self, keys: Sequence[Sequence[str]]) -> int:
        """The last part with a line that has all the keys; -1 for none."""
        found = [at for at, part in enumerate(self.parts) if _has_line(part, keys)]
        return found[-1] if found else -1

    def stale(self, old: Sequence[Sequence[str]], new: Sequence[Sequence[str]]) -> bool:
        """Whether the summary says the old, and neither the same part nor a later one says the new."""
        last = max((at for at, part in enumerate(self.summary) if _has_line(part, old)), default=-1)
        return last > self.last_part(new)

    def has_line_without(self, steps: Sequence[Step], new: Sequence[Sequence[str]]) -> bool:
        """Whether a line of the summary says one of the steps and not the new, which the window has not."""
        if any(_has_line(message, new) for message in self.window):
            return False
        lines = [line for part in self.summary for line in part.split("\n")]
        return any(step.stands_in(line) and not has_keys(line, new) for line in lines for step in steps)


def _has_line(text: str, keys: Sequence[Sequence[str]]) -> bool:
    return any(has_keys(line, keys) for line in text.split("\n"))


@dataclass(slots=True)
class Tally:
    """Of each half and row, how many cases there were and how many of them were found."""

    cases: Counter[tuple[str, str]] = field(default_factory=Counter)
    found: Counter[tuple[str, str]] = field(default_factory=Counter)
    compactions: list[int] = field(default_factory=list)
    repaired: int = 0
    refused: int = 0

    def count(self, half: str, row: str, found: bool) -> None:
        self.cases[half, row] += 1
        self.found[half, row] += found

    def percent(self, row: str, *halves: str) -> float:
        cases = sum(self.cases[half, row] for half in halves)
        return 100 * sum(self.found[half, row] for half in halves) / cases if cases else 0.0

    def counts(self, row: str, *halves: str) -> str:
        found, cases = (sum(of[half, row] for half in halves) for of in (self.found, self.cases))
        return f"{found} of {cases}"


class ModelWithOutages:
    """A model that is down at the end of every `PERIOD` messages, one a minute, and up after the last one."""

    PERIOD, UP = 100, 60

    def __init__(self, model: PerfectSummarizer) -> None:
        self.name, self._model = model.name, model
        self.messages, self._waited = 0, 0

    @property
    def seconds(self) -> float:
        """What the clock says, by which a model that failed is asked again."""
        return 60.0 * (self.messages + self._waited)

    @property
    def now(self) -> datetime:
        return START + timedelta(seconds=self.seconds)

    def wait(self) -> None:
        """Ten minutes after the last message."""
        self._waited += 10

    async def complete_chat(
        self, messages: list[dict[str, Any]], stream: bool = False, max_tokens: int = 2048
    ) -> str:
        if self.messages % self.PERIOD >= self.UP and not self._waited:
            raise ConnectionError("the model is down")
        return await self._model.complete_chat(messages, stream, max_tokens)


async def run_conversation(
    section: SummarizedHistorySection, conversation: Conversation, outages: ModelWithOutages | None = None
) -> View:
    """Say everything, compose as an agent would, and look at the last context."""
    memory = Memory() if outages is None else Memory(clock=lambda: outages.now)
    template, place = ContextTemplate([section]), (SCOPE, conversation.name)
    for message in conversation.messages:
        if outages is not None:
            outages.messages += 1
        await memory.append(*place, message)
        if message["role"] in ("user", "tool"):
            await template.compose(memory, *place)
            await section.settled()
    await section.settled()
    if outages is not None:
        for _ in range(CATCH_UP):
            outages.wait()
            await template.compose(memory, *place)
            await section.settled()
    view = view_of((await template.compose(memory, *place)).messages)
    await memory.close()
    return view


def view_of(messages: Sequence[Any]) -> View:
    summary: list[str] = []
    window: list[str] = []
    for given in messages:
        message = wire.from_dict(given)
        texts = [text for part in message.parts if (text := getattr(part, "text", ""))]
        if isinstance(message, Summary):
            summary += texts
        else:
            calls = [f"{call.name}({call.arguments})" for call in message.tool_calls]
            window.append("\n".join([*texts, *calls]))
    return View(summary, window)


def judge_cases(view: View, cases: Sequence[Case]) -> Iterator[tuple[str, bool]]:
    """The rows that each case counts for, and whether it was found there."""
    for case in cases:
        if case.done:
            yield FINISHED, view.stale(case.steps[0].keys, case.last.keys)
            continue
        yield ROWS[case.kind], view.last_part(case.last.keys) >= 0
        if case.kind == "value":
            new = case.last.keys[:1]
            olds = [step.keys[:1] for step in case.steps[:-1]]
            yield OLD, any(view.stale(old, new) for old in olds)
            yield ANYWHERE, view.has_line_without(case.steps[:-1], new)


async def tally_column(column: Column, conversations: Sequence[Conversation]) -> Tally:
    tally = Tally()
    for conversation in conversations:
        if is_long(conversation) != column.long:
            continue
        perfect = PerfectSummarizer(conversation) if column.perfect else None
        outages = ModelWithOutages(perfect) if column.outages and perfect else None
        section = SummarizedHistorySection(
            outages or perfect,
            size=column.size,
            schema=column.schema,
            clock=time.monotonic if outages is None else partial(getattr, outages, "seconds"),
        )
        view = await run_conversation(section, conversation, outages)
        metrics = section.get_metrics()
        await section.close()
        tally.compactions.append(metrics["summaries_committed"])
        tally.repaired += metrics["summaries_repaired"]
        tally.refused += metrics["summaries_refused"]
        for row, found in judge_cases(view, conversation.cases):
            tally.count(conversation.half, row, found)
    return tally


async def measure(folder: Path) -> list[Figure]:
    conversations = make_corpus()
    tallies = {column.name: await tally_column(column, conversations) for column in COLUMNS}
    _print_table(tallies)
    return [
        Figure(
            name=f"{column.name}: {row}, percent",
            ours=", ".join(
                [tally.counts(row, *HALVES), *(f"{half} {tally.counts(row, half)}" for half in HALVES)]
            ),
            floor=f"{aim:g}",
            value=tally.percent(row, *HALVES),
            bound=aim,
            at_most=row in BAD_ROWS,
        )
        for column in COLUMNS
        for tally in (tallies[column.name],)
        for row, aim in column.aims.items()
    ]


def _print_table(tallies: dict[str, Tally]) -> None:
    """The table with percentages: development, held out, all, and the aim."""
    print("\n| in the context at the end: development / held out / all (aim) | " + " | ".join(tallies) + " |")
    print("|---" * (len(tallies) + 1) + "|")
    for row in (RULES, OPEN, DECISIONS, NEWEST, OLD, FINISHED, NAMES, ANYWHERE):
        cells = []
        for column in COLUMNS:
            tally = tallies[column.name]
            values = [tally.percent(row, *halves) for halves in (*((half,) for half in HALVES), HALVES)]
            aim = f" ({column.aims[row]:g})" if row in column.aims else ""
            cells.append(" / ".join(f"{value:.0f}" for value in values) + f" %{aim}")
        print(f"| {row} | " + " | ".join(cells) + " |")
    for name, tally in tallies.items():
        made = tally.compactions
        print(
            f"{name}: {len(made)} conversations, {min(made)} to {max(made)} compactions each, "
            f"{tally.repaired} repaired, {tally.refused} refused of {sum(made)}"
        )
