"""`replay`: runs a recorded conversation against many settings and measures each turn.

It uses the parts of an agent: memory in this process, the summarized history, a template. Summaries are
digests unless a model is given. Background work is finished after every request, so the same record gives the
same numbers. Time is taken from the record, so nothing waits.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, field, replace
from itertools import pairwise
from typing import Any

from autonomy_ctx.compaction.config import ContextSummaryConfig
from autonomy_ctx.errors import BudgetExceeded
from autonomy_ctx.formats.model_info import model_name
from autonomy_ctx.formats.model_table import MIN_CACHED_TOKENS, Price
from autonomy_ctx.memory.memory import Memory
from autonomy_ctx.memory.store import StoredSegment
from autonomy_ctx.messages.excerpt import Room, make_excerpt
from autonomy_ctx.messages.message import ChatRole, Message
from autonomy_ctx.messages.summary import Summary
from autonomy_ctx.messages.tokens import TokenCounter
from autonomy_ctx.models.catalog import cache_rule, find_context_window, price_of
from autonomy_ctx.models.model import tool_spec
from autonomy_ctx.replay.conversation import FIRST_TIME, RecordedConversation, RecordedTurn
from autonomy_ctx.replay.grid import ReplaySetting, SettingGrid, make_grid
from autonomy_ctx.replay.recommendation import recommend
from autonomy_ctx.replay.result import ReplayReport, ReplayRun, TurnMeasure
from autonomy_ctx.replay.retention import ConversationIndex, RetentionMeter, SaidBefore
from autonomy_ctx.replay.tools import SEARCH_TOKENS, ReplayedTools
from autonomy_ctx.sections.instructions import SystemInstructionsSection
from autonomy_ctx.sections.summarized import SummarizedHistorySection
from autonomy_ctx.template.composed import ComposedContext
from autonomy_ctx.template.template import ContextTemplate
from autonomy_ctx.validation import check_int, check_seconds

# Whose list price counts unless another is named.
DEFAULT_PRICE_NAME = "claude-sonnet-4-5"
# Seconds for which providers keep a cached beginning.
CACHE_SECONDS = 300.0
# The tokens of a summarizer's prompt beside what is summarized, for the cost of summaries that were digests.
# After a cached request it is shorter, but not counted so.
SUMMARY_PROMPT_TOKENS = 900
SCOPE, CONVERSATION = "replay", "replay"
# Settings that are replayed together; each has all messages in a memory of its own.
SIDE_BY_SIDE = 16

# Told after each turn: how many turns of all settings are done, and how many there are.
Progress = Callable[[int, int], None]


async def replay(
    conversation: RecordedConversation,
    grid: SettingGrid | None = None,
    *,
    price: Price | str = DEFAULT_PRICE_NAME,
    limit: int | None = None,
    model: Any = None,
    cache_seconds: float = CACHE_SECONDS,
    tools: Sequence[Any] = (),
    on_progress: Progress | None = None,
) -> ReplayReport:
    """Run a conversation against each setting of a grid, and recommend one.

    `price` is the price of the model that reads the contexts: the name of a model, or a `Price`. `model`
    writes the summaries; without it they are digests, and their cost is estimated as if the priced model had
    written them, after the cached request where that costs less. Turns with a context of more than `limit`
    tokens are counted; the default limit is the context window of the priced model. After a pause of more
    than `cache_seconds`, nothing is cached. `tools` are the definitions that each request had; a setting with
    a `tool_budget` needs them.
    """
    name, known_price = _read_price(price)
    check_int("limit", limit, optional=True)
    check_seconds("cache_seconds", cache_seconds)
    grid = grid or make_grid()
    if not tools and any(setting.tool_budget is not None for setting in grid.settings):
        raise ValueError("a setting has a `tool_budget`; give the definitions of the tools")
    turns = conversation.turns()
    if not turns:
        raise ValueError(
            f"conversation {conversation.name!r} has no message of a user; there is nothing to replay"
        )
    limit = find_context_window(name) if limit is None else limit
    record = _Record(
        name=name,
        conversation=conversation,
        turns=turns,
        index=ConversationIndex(conversation),
        price=known_price,
        summary_price=known_price if model is None else price_of(model) or known_price,
        limit=limit,
        cache_seconds=cache_seconds,
        tools=[tool_spec(tool) for tool in tools],
    )
    total = len(turns) * len(grid.settings)
    runs: list[ReplayRun] = []
    for start in range(0, len(grid.settings), SIDE_BY_SIDE):
        some = grid.settings[start : start + SIDE_BY_SIDE]

        def advance(done: int, before: int = start * len(turns)) -> None:
            if on_progress is not None:
                on_progress(before + done, total)

        runs += await _replay_settings(record, some, model, advance)
    # With a budget that not even the instructions and the newest message fit, there is nothing to compare.
    usable = [run for run in runs if not _is_refused(run)]
    refused = [
        f"{run.label}: what may not be left out of a context is larger than the budget in every turn"
        for run in runs
        if _is_refused(run)
    ]
    if not usable:
        raise ValueError(f"no setting is left to compare; {refused[0]}")
    whole = _measure_whole(record)
    return ReplayReport(
        conversation=conversation.name,
        turns=len(turns),
        has_stored_numbers=bool(conversation.turn_numbers),
        messages=len(conversation.messages),
        facts=tuple(fact.text for fact in record.index.at_end.facts),
        identifiers=record.index.at_end.names,
        pauses=_count_pauses(record),
        price_name=name,
        price=known_price,
        summary_model=None if model is None else model_name(model) or type(model).__name__,
        limit=limit,
        skipped=(*grid.skipped, *refused),
        whole=whole,
        runs=tuple(usable),
        recommendation=recommend(usable, whole),
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class _Record:
    """The parts that all settings of a replay have in common."""

    # The model whose price it is.
    name: str
    conversation: RecordedConversation
    turns: Sequence[RecordedTurn]
    index: ConversationIndex
    price: Price
    summary_price: Price
    limit: int | None
    cache_seconds: float
    tools: Sequence[dict[str, Any]]
    counter: TokenCounter = field(default_factory=TokenCounter)

    def tokens(self, message: Message | None) -> int:
        return 0 if message is None else self.counter.count_uncalibrated(message)

    def is_pause(self, before: Message, after: Message) -> bool:
        """Tell whether so much time lies between two messages that a cache has forgotten the first."""
        # Answers of a model may have times of another clock; what a request ends with is said by others.
        gap = (after.created_at - before.created_at).total_seconds()
        return self.conversation.has_times and gap > self.cache_seconds


@dataclass(slots=True)
class _TurnTotals:
    """The sums over the requests of one turn, with the names that they have in a `TurnMeasure`."""

    requests: int = 0
    context_tokens: int = 0
    context_messages: int = 0
    sent_tokens: int = 0
    cached_tokens: int = 0
    output_tokens: int = 0
    cost: float = 0.0
    was_cut: bool = False
    was_refused: bool = False

    def add(self, price: Price, tokens: int, messages: int, cached: int, output: int) -> None:
        cached = cached if cached >= MIN_CACHED_TOKENS else 0
        self.requests += 1
        self.sent_tokens += tokens
        self.cached_tokens += cached
        self.output_tokens += output
        self.cost += price.cost(cached=cached, written=tokens - cached, output=output)
        if tokens > self.context_tokens:
            self.context_tokens, self.context_messages = tokens, messages

    def measure(
        self, turn: RecordedTurn, said: SaidBefore, facts_shown: int, names_shown: int
    ) -> TurnMeasure:
        return TurnMeasure(
            number=turn.number,
            position=turn.position,
            **asdict(self),
            facts_said=len(said.facts),
            facts_shown=facts_shown,
            names_said=said.names,
            names_shown=names_shown,
        )


async def _replay_settings(
    record: _Record, settings: Sequence[ReplaySetting], model: Any, on_progress: Callable[[int], None]
) -> list[ReplayRun]:
    """All turns with some settings, turn by turn: what one has read of a message, the next one knows."""
    runs = [_SettingRun(record, setting, model) for setting in settings]
    try:
        for number, (turn, said) in enumerate(zip(record.turns, record.index.before, strict=True)):
            for index, run in enumerate(runs, 1):
                await run.replay_turn(turn, said)
                on_progress(number * len(runs) + index)
        return [await run.finish() for run in runs]
    finally:
        for run in runs:
            await run.close()


class _SettingRun:
    """A conversation that grows in a memory of its own, and the contexts that are composed of it."""

    def __init__(self, record: _Record, setting: ReplaySetting, model: Any) -> None:
        self._record, self._setting = record, setting
        self._now = FIRST_TIME
        self._memory = Memory(token_counter=record.counter, clock=lambda: self._now)
        config = setting.config(model)
        if setting.auto:
            self._section: SummarizedHistorySection = _PricedHistorySection(record, config, self._seconds)
        else:
            self._section = SummarizedHistorySection.of(config, clock=self._seconds)
        self._arguments: dict[str | None, str] = {}
        instructions = record.conversation.instructions
        self._template = ContextTemplate(
            [*([SystemInstructionsSection(instructions)] if instructions else []), self._section],
            max_tokens=setting.budget,
        )
        self._tools = ReplayedTools(record.tools, setting.tool_budget, record.counter)
        self._meter = RetentionMeter(record.index)
        self._summaries = _SummaryCosts(record, model is not None)
        self._measures: list[TurnMeasure] = []
        self._context: ComposedContext | None = None
        # The message before which the last request was sent: its cache is as old.
        self._last: Message | None = None

    def _seconds(self) -> float:
        return self._now.timestamp()

    async def replay_turn(self, turn: RecordedTurn, said: SaidBefore) -> None:
        totals = _TurnTotals()
        shown = (0, 0)
        for number, request in enumerate(turn.requests):
            await self._wait_for(request.said[-1])
            await self._append(request.said)
            context = await self._compose(request.said[-1], totals)
            if context is None:
                continue
            output = self._record.tokens(request.answer)
            if context.shared is None or context.end_reason is not None:
                self._tools.begin_epoch()
            tokens, cached = context.tokens + self._tools.tokens, 0
            if context.shared is not None:
                cached = context.shared.tokens + self._tools.tokens
            # The model that wants to call a tool which is not listed asks for it first.
            for found in self._tools.find(request.answer):
                totals.add(self._record.price, tokens, len(context.messages), cached, SEARCH_TOKENS)
                cached, tokens = tokens, tokens + found
            totals.add(self._record.price, tokens, len(context.messages), cached, output)
            totals.was_cut |= bool(context.cut)
            if number == 0:
                whole, meter = self._record.conversation.messages, self._meter
                facts = meter.facts_shown(said.facts, context.messages, context.positions(), whole)
                names = meter.names_shown(context.messages, context.positions(), whole, turn.position)
                shown = len(facts), len(names)
        await self._append(turn.rest)
        self._measures.append(totals.measure(turn, said, *shown))

    async def finish(self) -> ReplayRun:
        """The whole run, with what a last context would not show."""
        record = self._record
        index, whole = record.index, record.conversation.messages
        lost_facts: tuple[str, ...] = ()
        lost_names: tuple[str, ...] = ()
        try:
            context = await self._template.compose(self._memory, SCOPE, CONVERSATION)
        except BudgetExceeded:
            context = None
        if context is not None:
            messages, positions = context.messages, context.positions()
            shown = {
                fact.id for fact in self._meter.facts_shown(index.at_end.facts, messages, positions, whole)
            }
            names = self._meter.names_shown(messages, positions, whole, len(whole) + 1)
            lost_facts = tuple(fact.text for fact in index.at_end.facts if fact.id not in shown)
            lost_names = tuple(name for key, (name, _) in index.spelling.items() if key not in names)
        metrics = self._section.get_metrics()
        return ReplayRun(
            setting=self._setting,
            turns=tuple(self._measures),
            limit=record.limit,
            summaries=metrics["summaries_committed"] + metrics["summaries_merged"],
            summary_cost=self._summaries.cost(metrics),
            failed_summaries=metrics["background_tasks_failed"],
            lost_facts=lost_facts,
            lost_names=lost_names,
        )

    async def close(self) -> None:
        await self._template.close()
        await self._memory.close()

    async def _wait_for(self, message: Message) -> None:
        """Let the time pass until a message: `auto` summarizes before the cache expires."""
        if self._setting.auto and self._last is not None and self._record.is_pause(self._last, message):
            self._section.summarize_before_expiry(self._memory, SCOPE, CONVERSATION)
            await self._note_summaries()

    async def _append(self, messages: Sequence[Message]) -> None:
        if messages:
            self._now = max(self._now, messages[-1].created_at)
            await self._memory.append(SCOPE, CONVERSATION, *map(self._shorten, messages))

    def _shorten(self, message: Message) -> Message:
        """The message as an agent stores it: a long result as an excerpt."""
        self._arguments |= {call.id: call.arguments for call in message.tool_calls}
        tokens = self._setting.result_tokens
        if message.role is not ChatRole.TOOL or tokens is None or isinstance(message.content, tuple):
            return message
        room = Room(sys.maxsize, tokens, self._record.counter.count_text)
        arguments = self._arguments.get(message.tool_call_id, "")
        text = make_excerpt(message.text, room, result_id=message.id, arguments=arguments)
        return replace(message, content=text)

    async def _compose(self, last: Message, totals: _TurnTotals) -> ComposedContext | None:
        """The context of a request; None when the budget leaves nothing to send."""
        is_cached = self._last is not None and not self._record.is_pause(self._last, last)
        previous = self._context if is_cached else None
        self._last = last
        try:
            self._context = await self._template.compose(self._memory, SCOPE, CONVERSATION, previous=previous)
        except BudgetExceeded:
            self._context = None
            totals.was_refused = True
        await self._note_summaries()
        return self._context

    async def _note_summaries(self) -> None:
        """Wait for summaries that are being written, and add up their cost."""
        await self._section.settled()
        self._summaries.note((await self._memory.summary(SCOPE, CONVERSATION)).segments, self._context)


class _PricedHistorySection(SummarizedHistorySection):
    """History of `auto`, which decides by the prices of the replay, also if its summaries are digests."""

    def __init__(self, record: _Record, config: ContextSummaryConfig, clock: Callable[[], float]) -> None:
        config = replace(config, cache_seconds=record.cache_seconds)
        super().__init__(config.model, config=config, clock=clock)
        self._record = record

    def _learn_limits(self, budget: int | None) -> None:
        super()._learn_limits(budget)
        record, costs = self._record, self._settings.costs
        if costs is not None and costs.price != record.price:
            cache = replace(cache_rule(record.name), seconds=record.cache_seconds, long_seconds=None)
            costs = replace(
                costs, price=record.price, writer=record.summary_price, cache=cache, shares_prefix=True
            )
            self._settings = self._summarizer.settings = replace(self._settings, costs=costs)


class _SummaryCosts:
    """The cost of the summaries of a run: by the tokens a model used, or would have used."""

    def __init__(self, record: _Record, has_model: bool) -> None:
        self._record, self._has_model = record, has_model
        self._segments: tuple[StoredSegment, ...] = ()
        self._calls, self._cost = 0, 0.0

    def note(self, segments: Sequence[StoredSegment], context: ComposedContext | None) -> None:
        """Count what is new in a summary: its source was read, and it was written.

        The context was sent just before. A summary of what it shows is asked for after it, as agents do
        where that costs less.
        """
        before = self._segments
        if self._has_model or tuple(segments) == before:
            return
        known = {segment.number for segment in before}
        covered = before[-1].last if before else 0
        messages = self._record.conversation.messages
        for segment in segments:
            if segment.number in known:
                continue
            merged = [one for one in before if segment.first <= one.first and one.last <= segment.last]
            new = range(max(covered + 1, segment.first), segment.last + 1)
            source = sum(one.tokens for one in merged)
            source += sum(self._record.tokens(messages[position - 1]) for position in new)
            price, prompt = self._record.summary_price, SUMMARY_PROMPT_TOKENS
            cost = price.cost(uncached=source + prompt, output=segment.tokens)
            if context is not None and _is_cached(context, new, with_summary=bool(merged)):
                after = price.cost(cached=context.tokens, written=prompt, output=segment.tokens)
                cost = min(cost, after)
            self._calls += 1
            self._cost += cost
        self._segments = tuple(segments)

    def cost(self, metrics: dict[str, Any]) -> float:
        price = self._record.summary_price
        if self._has_model:
            return price.cost(
                uncached=metrics["summarizer_input_tokens"], output=metrics["summarizer_output_tokens"]
            )
        # One that was merged at once was not seen.
        unseen = max(metrics["summaries_committed"] + metrics["summaries_merged"] - self._calls, 0)
        return self._cost + price.cost(uncached=unseen * SUMMARY_PROMPT_TOKENS)


def _is_cached(context: ComposedContext, positions: Sequence[int], *, with_summary: bool) -> bool:
    """Tell whether a provider has the messages at these positions, and the summary, from a request."""
    if context.tokens < MIN_CACHED_TOKENS:
        return False
    if with_summary and not any(isinstance(message, Summary) for message in context.messages):
        return False
    return set(positions) <= set(context.positions())


def _measure_whole(record: _Record) -> ReplayRun:
    """Measure the turns with the whole history in every context: arithmetic, nothing is composed."""
    instructions = record.conversation.instructions
    start = record.tokens(Message("system", instructions)) if instructions else 0
    start += ReplayedTools(record.tools, None, record.counter).tokens
    tokens, count = start, bool(instructions) + 0
    cached, last = 0, None
    measures = []
    for turn, known in zip(record.turns, record.index.before, strict=True):
        totals = _TurnTotals()
        for request in turn.requests:
            tokens += sum(map(record.tokens, request.said))
            count += len(request.said)
            is_cached = last is not None and not record.is_pause(last, request.said[-1])
            totals.add(record.price, tokens, count, cached if is_cached else 0, record.tokens(request.answer))
            cached, last = tokens, request.said[-1]
        tokens += sum(map(record.tokens, turn.rest))
        count += len(turn.rest)
        measures.append(totals.measure(turn, known, len(known.facts), known.names))
    return ReplayRun(setting=None, turns=tuple(measures), limit=record.limit)


def _is_refused(run: ReplayRun) -> bool:
    return all(turn.was_refused for turn in run.turns)


def _read_price(price: Price | str) -> tuple[str, Price]:
    if isinstance(price, Price):
        return "the given price", price
    known = price_of(price)
    if known is None:
        raise ValueError(
            f"no price of {price!r} is known; name another model, such as {DEFAULT_PRICE_NAME}, "
            "or give a Price"
        )
    return price, known


def _count_pauses(record: _Record) -> int:
    """Count the requests that came so late that nothing of the one before was cached."""
    ends = [request.said[-1] for turn in record.turns for request in turn.requests]
    return sum(record.is_pause(before, after) for before, after in pairwise(ends))
