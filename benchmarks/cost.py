"""The cost of five conversations with six models: `context_summary="auto"` beside the least that is possible.

The conversations are a long one of 120 turns with 57 tool calls, and those of the four kinds of agents in
"Choose numbers". Cache rules, tiers and prices are those of the server for tests; summaries are part of every
bill. The oracle knows all later requests, and ends epochs where that is cheapest. 0.2.0 itself is not run: a
floor of 10 and a ceiling of 20, which it had, stand in for it. Last comes our part of the time to the first
token.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime, timedelta
from itertools import accumulate, pairwise
from pathlib import Path
from typing import Any, NamedTuple

from autonomy_ctx import (
    ComposedContext,
    ContextTemplate,
    ConversationHistorySection,
    Memory,
    Message,
    SummarizedHistorySection,
    SystemInstructionsSection,
)
from autonomy_ctx.compaction.config import read_config
from autonomy_ctx.compaction.snapshot import EXPIRY_SHARE
from autonomy_ctx.messages import wire
from autonomy_ctx.messages.summary import Summary
from autonomy_ctx.models.catalog import find_context_window
from autonomy_ctx.replay import RecordedConversation
from autonomy_ctx.sections.section import ComposeParams, Composition
from benchmarks import send_cpu
from benchmarks.bill import COUNTER, Bill
from benchmarks.kinds import make_kinds
from benchmarks.oracle import Oracle, SummarySizes
from benchmarks.provider import FactWriter
from benchmarks.table import Figure
from benchmarks.talk import SYSTEM_TOKENS, TURNS, said, steps

MODELS = (
    "gpt-6.1-sol",
    "gpt-5.6-sol",
    "claude-opus-5-5",
    "claude-fable-5-2",
    "claude-haiku-5-5",
    "gemini-3.8-flash",
)
SCOPE, CONVERSATION = "shop", "orders"
TURN_SECONDS, MESSAGE_SECONDS = 30, 2
OLD = {"floor": 10, "ceiling": 20}
# Often enough to see how long summaries of any part of a conversation get.
OFTEN = {"auto": True, "ceiling": 20}
# With its model: which rules count here does not matter.
USUAL_MODEL = "claude-opus-5-5"


def make_talks() -> dict[str, RecordedConversation]:
    """The conversations, by name."""
    time, messages = datetime(2026, 5, 4, 9, tzinfo=UTC), list[dict[str, Any]]()
    for number in range(TURNS):
        time += timedelta(seconds=TURN_SECONDS)
        for at, message in enumerate(message for step in steps(number) for message in step):
            created = time + timedelta(seconds=MESSAGE_SECONDS * at)
            messages.append({**message, "created_at": created.isoformat()})
    long = RecordedConversation(messages, name="120 turns", instructions=said(0, SYSTEM_TOKENS))
    return {one.name: one for one in (long, *(kind.conversation for kind in make_kinds()))}


class Sent(NamedTuple):
    """A request as it was sent; without breakpoints, one for a summary."""

    at: float
    messages: Sequence[Mapping[str, Any]]
    answer: str = ""
    breakpoints: Sequence[int] | None = None
    output: int = 0


class Shown(NamedTuple):
    """The last position that the summary of a request covers, and the tokens that it has."""

    covered: int
    tokens: int


@dataclass
class Run:
    """A conversation with one model, kept in one way."""

    talk: RecordedConversation
    model: str
    context_summary: Any
    now: datetime = datetime(2026, 1, 1, tzinfo=UTC)
    # Further arguments of its history section.
    options: Mapping[str, Any] = field(default_factory=dict)
    # The facts at the end, and why epochs ended.
    facts: set[str] = field(default_factory=set)
    reasons: list[str] = field(default_factory=list)
    sent: list[Sent] = field(default_factory=list)
    shown: list[Shown] = field(default_factory=list)
    # By the number of a segment: the tokens that it stands for, and those of the reply.
    written: dict[int, tuple[float, float]] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.bill = Bill(self.model, lambda: self.now.timestamp())

    @property
    def ends(self) -> list[int | None]:
        """For each request the end of its summary where that is new, else None."""
        covered = [one.covered for one in self.shown]
        return [None, *(new if new != old else None for old, new in pairwise(covered))]

    @property
    def sizes(self) -> list[tuple[float, float]]:
        """The tokens that summaries cover, and those that they have."""
        before = [0, *accumulate(COUNTER.count_uncalibrated(one) for one in self.talk.messages)]
        return sorted({(before[one.covered], one.tokens) for one in self.shown if one.covered})

    @property
    def calls(self) -> float:
        """The calls for one segment: some are asked for twice, or merged later."""
        metrics = self.section.get_metrics()
        written: int = max(metrics["summaries_committed"], 1)
        calls: int = metrics["summarizer_calls"]
        return max(calls / written, 1.0)

    def ask(self, messages: Sequence[Mapping[str, Any]], answer: str) -> None:
        """Bill a summary."""
        self.sent.append(Sent(self.now.timestamp(), messages, answer))
        self.bill.ask(messages, answer)

    async def hold(self) -> Run:
        """Hold the conversation as an agent does, with summaries that are ready before the reply."""
        writer = FactWriter(self, asyncio.current_task())  # type: ignore[arg-type]
        writer.name, writer.context_window = self.model, find_context_window(self.model)  # type: ignore[attr-defined]
        config = read_config(self.context_summary, model=writer)
        section: Any
        if config is None:
            section = ConversationHistorySection(reader=writer, **self.options)
        else:
            clock = lambda: self.now.timestamp()  # noqa: E731
            config = replace(config, **self.options)
            section = SummarizedHistorySection.of(config, reader=writer, clock=clock)
        self.section = section
        memory = Memory(clock=lambda: self.now, token_counter=COUNTER)
        template = ContextTemplate(
            [SystemInstructionsSection(self.talk.instructions), section], arrange="cache"
        )
        context, last = None, None
        for turn in self.talk.turns():
            for request in turn.requests:
                await self._wait(memory, request.said[-1].created_at, last)
                await self._append(memory, request.said)
                params = ComposeParams({}, Composition(turn_position=turn.position))
                context = await template.compose(memory, SCOPE, CONVERSATION, params, previous=context)
                self._send(context, request.answer)
                last = self.now
                await template.settled()
                self._note_segments((await memory.summary(SCOPE, CONVERSATION)).segments)
            self.facts = {fact.text for fact in (await memory.summary(SCOPE, CONVERSATION)).facts}
            await self._append(memory, turn.rest)
        await template.close()
        await memory.close()
        return self

    async def _wait(self, memory: Memory, until: datetime, last: datetime | None) -> None:
        """Let the time pass until the next request, as in a process that waits for it."""
        life = self.bill.life
        if self.context_summary and last is not None and (until - last).total_seconds() >= life:
            self.now = last + timedelta(seconds=EXPIRY_SHARE * life)
            self.section.summarize_before_expiry(memory, SCOPE, CONVERSATION)
            await self.section.settled()

    async def _append(self, memory: Memory, messages: Sequence[Message]) -> None:
        if messages:
            self.now = max(self.now, messages[-1].created_at)
            await memory.append(SCOPE, CONVERSATION, *messages)

    def _send(self, context: ComposedContext, answer: Message | None) -> None:
        if context.end_reason is not None:
            self.reasons.append(context.end_reason)
        rule = self.bill.rule
        self.bill.life = (rule.long_seconds if context.long_cache else None) or rule.seconds
        output = 0 if answer is None else COUNTER.count_uncalibrated(answer)
        sent = Sent(self.now.timestamp(), context.to_dicts(), breakpoints=context.breakpoints, output=output)
        self.sent.append(sent)
        self.bill.send(sent.messages, context.breakpoints, output)
        summaries = [message for message in context.messages if isinstance(message, Summary)]
        first = next((position for position in context.positions() if position is not None), 1)
        self.shown.append(
            Shown(first - 1 if summaries else 0, sum(map(COUNTER.count_uncalibrated, summaries)))
        )

    def _note_segments(self, segments: Sequence[Any]) -> None:
        for segment in segments:
            if segment.level == 0 and segment.output_tokens:
                told = self.talk.messages[segment.first - 1 : segment.last]
                self.written[segment.number] = COUNTER.count_messages(told), segment.output_tokens


def bill_again(run: Run, model: str) -> Bill:
    """The bill of another model for the same requests."""
    now = 0.0
    bill = Bill(model, lambda: now)
    for sent in run.sent:
        now = sent.at
        if sent.breakpoints is None:
            bill.ask(sent.messages, sent.answer)
        else:
            bill.send(sent.messages, sent.breakpoints, sent.output)
    return bill


def bill_whole(talk: RecordedConversation, model: str) -> Bill:
    """The bill with the whole history in every request."""
    now = 0.0
    bill = Bill(model, lambda: now)
    history: list[dict[str, Any]] = [{"role": "system", "content": talk.instructions}]
    for turn in talk.turns():
        for request in turn.requests:
            before = len(history)
            history += [wire.to_dict(message) for message in request.said]
            now = request.said[-1].created_at.timestamp()
            output = 0 if request.answer is None else COUNTER.count_uncalibrated(request.answer)
            bill.send(history, [0, max(before - 1, 0), len(history) - 1], output)
        history += [wire.to_dict(message) for message in turn.rest]
    return bill


@dataclass(frozen=True, slots=True, kw_only=True)
class Costs:
    """What a conversation costs with one model, by how it is kept."""

    talk: str
    model: str
    auto: Run
    whole: float
    old: float
    oracle: float
    # What the formula of the oracle says that `"auto"` costs, and would without its last summary.
    formula: float
    without_last: float

    @property
    def name(self) -> str:
        return f"{self.talk}, {self.model}"

    @property
    def summaries(self) -> int:
        """How often a new summary is shown."""
        return sum(end is not None for end in self.auto.ends)

    def figures(self) -> Iterator[Figure]:
        bill = self.auto.bill
        yield Figure(
            name=f"oracle: {self.name}",
            ours=f"${bill.cost:.4f} ({self.summaries} summaries, {bill.summary_cost / bill.cost:.0%} of it)",
            floor=f"${self.oracle:.4f}; formula / bill {self.formula / bill.cost:.2f}; without the last "
            f"summary {self.without_last / self.oracle:.2f}",
            value=round(bill.cost / self.oracle, 4),
            bound=1.08,
        )
        yield Figure(
            name=f"whole history: {self.name}",
            ours=f"{bill.share:.0%} from the cache",
            floor=f"${self.whole:.4f}; 0.2.0 ${self.old:.4f}: {bill.cost / self.old:.2f}",
            value=round(bill.cost / self.whole, 4),
            bound=1,
        )


async def list_costs(talks: Mapping[str, RecordedConversation], models: Sequence[str]) -> list[Costs]:
    """Hold each conversation with each model, and find what it costs in the other ways."""
    found: list[Costs] = []
    for name, talk in talks.items():
        old = await Run(talk, USUAL_MODEL, OLD).hold()
        often = await Run(talk, USUAL_MODEL, OFTEN).hold()
        for model in models:
            auto = await Run(talk, model, "auto").hold()
            known = auto if auto.written else often
            sizes = SummarySizes(
                [(0.0, 150.0), *(auto.sizes or often.sizes)],
                sorted({*often.written.values(), *auto.written.values()}),
                calls=known.calls,
            )
            oracles = [Oracle(talk, model, sizes)]
            if oracles[0].rule.long_seconds is not None:
                oracles.append(Oracle(talk, model, sizes, is_long=True))
            costs = [oracle.find_cost() for oracle in oracles]
            earlier = _drop_last(auto.ends)
            found.append(
                Costs(
                    talk=name,
                    model=model,
                    auto=auto,
                    whole=bill_whole(talk, model).cost,
                    old=bill_again(old, model).cost,
                    oracle=min(costs),
                    formula=min(oracle.find_cost(ends=auto.ends) for oracle in oracles),
                    without_last=min(oracle.find_cost(ends=earlier) for oracle in oracles),
                )
            )
    return found


def _drop_last(ends: Sequence[int | None]) -> list[int | None]:
    last = max((at for at, end in enumerate(ends) if end is not None), default=-1)
    return [None if at == last else end for at, end in enumerate(ends)]


async def measure(folder: Path) -> list[Figure]:
    found = await list_costs(make_talks(), MODELS)
    figures = [figure for kind in zip(*(costs.figures() for costs in found), strict=True) for figure in kind]
    return [*figures, *await send_cpu.measure(folder)]
