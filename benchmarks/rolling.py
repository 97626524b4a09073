"""The cost of a long conversation, beside a summary that is rewritten each time and beside a bare window.

120 turns with 57 tool calls of 300 tokens, 42,000 tokens in all, over a provider that caches beginnings. The
same words in every way; summaries and what they cost are part of the bill. A section of 500 tokens that
changes with every turn is put where it does harm and where it does not.

The floor of the figures for `context_summary` is no way to keep history: every token that was said is read
once at the full price, the instructions are read from the cache, and what the agent writes is paid. What a
summary, a window or facts cost comes on top.
"""

from __future__ import annotations

import asyncio
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

from autonomy_ctx import (
    AdditionalContextSection,
    ComposedContext,
    ContextTemplate,
    ConversationHistorySection,
    Memory,
    Message,
    SummarizedHistorySection,
    SystemInstructionsSection,
)
from autonomy_ctx.compaction.config import read_config
from autonomy_ctx.messages import wire
from autonomy_ctx.messages.cuts import find_window_start
from autonomy_ctx.messages.token_estimate import estimate_tokens
from benchmarks.honest import SHARE, record
from benchmarks.provider import CACHED, BilledModel, FactWriter, Provider, rendered
from benchmarks.table import Figure
from benchmarks.talk import FACTS, SYSTEM_TOKENS, TURNS, planted_fact, said, steps

VOLATILE = 500
FLOOR, CEILING, DEFAULT_CEILING, WINDOW = 10, 40, 20, 20
# The figure's summary, and the usual one.
LARGE, USUAL = 4096, 2048
TURN_SECONDS, PAUSE_SECONDS, PAUSE_EVERY = 30.0, 900.0, 8
SCOPE, CONVERSATION = "shop", "orders"


class RollingSummarySection:
    """History with one summary, written anew at the ceiling while the turn waits."""

    name, enabled, required, kind = "conversation_history", True, True, "slow"

    def __init__(self, provider: Provider, size: int) -> None:
        self._provider, self._size = provider, size
        self._summary, self._covered = "", 0
        self.waited = 0

    async def get_messages(self, memory: Any, scope: str, conversation: str, params: Any) -> list[Any]:
        new = await memory.get_messages_only(scope, conversation, after=self._covered)
        if len(new) > CEILING:
            self.waited += 1
            cut = find_window_start([wire.from_dict(message) for message in new], FLOOR)
            told = rendered(new[:cut])
            tokens = estimate_tokens(self._summary) + estimate_tokens(told) // SHARE
            made = record(f"{self._summary}\n{told}", min(self._size, tokens))
            asked = f"Summarize; keep what the summary so far says.\n\n{self._summary}\n\n{told}"
            self._provider.ask([{"role": "user", "content": asked}], made)
            self._summary, self._covered, new = made, self._covered + cut, new[cut:]
        if not self._summary:
            return list(new)
        return [{"role": "system", "content": f"Conversation summary: {self._summary}"}, *new]


@dataclass
class Way:
    """One way to keep history, its conversation, and what a provider bills for it."""

    section: Any
    provider: Provider
    before: list[Any] = field(default_factory=list)
    after: list[Any] = field(default_factory=list)
    arrange: Literal["given", "cache"] = "given"
    pauses: bool = False
    seconds: float = 0.0
    said: int = 0
    context: ComposedContext | None = None

    def __post_init__(self) -> None:
        self.memory = Memory()
        self.template = ContextTemplate(
            [SystemInstructionsSection(said(0, SYSTEM_TOKENS)), *self.before, self.section, *self.after],
            arrange=self.arrange,
        )

    async def run(self) -> Way:
        for number in range(TURNS):
            self.seconds += TURN_SECONDS
            if self.pauses and number % PAUSE_EVERY == PAUSE_EVERY - 1:
                self.seconds += PAUSE_SECONDS
                self.provider.forget()
            await self._turn(steps(number))
            if isinstance(self.section, SummarizedHistorySection):
                await self.section.settled()
        if isinstance(self.section, SummarizedHistorySection):
            await self.section.close()
        return self

    async def _turn(self, steps: list[list[dict[str, Any]]]) -> None:
        for step, after in zip(steps, [*steps[1:], None], strict=True):
            await self.memory.append(SCOPE, CONVERSATION, *step)
            self.said += self.memory.token_counter.count_messages(step)
            if after is not None:
                self.context = await self.template.compose(
                    self.memory, SCOPE, CONVERSATION, previous=self.context
                )
                # As it is sent. What the model writes is what the next step begins with, without its role.
                self.provider.ask(self.context.to_dicts(), rendered(after[:1]).partition("\n")[2])

    async def lost(self) -> list[int]:
        """The planted facts that are neither in the last context nor found by a search."""
        assert self.context is not None
        shown, found = rendered(self.context.messages), []
        for number in FACTS:
            hits = await self.memory.search(SCOPE, f"pass phrase of customer C-{number:04d}", limit=3)
            fact = planted_fact(number)
            if fact not in shown and not any(fact in hit.message.text for hit in hits):
                found.append(number)
        return found


def _ours(ceiling: int, size: int, *, pauses: bool = False, volatile: str = "", **options: Any) -> Way:
    provider = Provider()
    model = BilledModel(provider, asyncio.current_task())
    ticks: list[Way] = []
    section = SummarizedHistorySection(
        model, FLOOR, ceiling, size, clock=lambda: ticks[0].seconds if ticks else 0.0, **options
    )

    changing = AdditionalContextSection("now", provider_fn=lambda *_: [_changing(ticks[0])])
    arrange: Literal["given", "cache"] = "cache" if volatile == "placed" else "given"
    way = Way(section, provider, [changing] if volatile else [], arrange=arrange, pauses=pauses)
    ticks.append(way)
    return way


async def measure(folder: Path) -> list[Figure]:
    ours = await _ours(CEILING, LARGE, share_prefix=True).run()
    usual = await _ours(CEILING, USUAL, share_prefix=True).run()
    alone = await _ours(CEILING, USUAL).run()
    rolling = {size: await _rolling(size).run() for size in (LARGE, USUAL)}
    window = await Way(ConversationHistorySection(max_messages=WINDOW), Provider()).run()
    early = await _ours(DEFAULT_CEILING, USUAL, volatile="early").run()
    placed = await _ours(DEFAULT_CEILING, USUAL, volatile="placed").run()
    swaps = {
        (pauses, swap): await _ours(DEFAULT_CEILING, USUAL, pauses=pauses, swap=swap).run()
        for pauses in (False, True)
        for swap in ("eager", "cost")
    }
    plain = swaps[False, "eager"]
    model, lost = ours.section.summary_model, await ours.lost()
    return [
        *await _by_itself(),
        _against(f"a rolling summary, size {LARGE}", ours, rolling[LARGE], 0.75),
        _against(f"a rolling summary, size {USUAL}", usual, rolling[USUAL], 0.75),
        _against(f"the same without share_prefix, size {USUAL}", alone, rolling[USUAL], 0.85),
        _against(f"a window of {WINDOW}, size {LARGE}", ours, window, 0.55),
        _against(f"a window of {WINDOW}, size {USUAL}", usual, window, 0.55),
        Figure(
            name=f"tokens from the cache / tokens sent, {FLOOR}/{CEILING}, size {LARGE}",
            ours=f"{ours.provider.cached:,} (size {USUAL}: {usual.provider.share:.3f})",
            floor=f"{ours.provider.sent:,}, rolling {rolling[LARGE].provider.share:.2f}, "
            f"window {window.provider.share:.2f}",
            value=ours.provider.share,
            bound=0.92,
            at_most=False,
        ),
        Figure(
            name="planted facts neither shown nor found",
            ours=f"{len(lost)} of {len(FACTS)}, {ours.said:,} tokens said",
            floor=f"window {len(await _unseen(window))} not shown",
            value=len(lost),
            bound=0,
        ),
        Figure(
            name="turns that waited for a summary",
            ours=f"{model.waited} of {model.calls} calls",
            floor=f"rolling {rolling[LARGE].section.waited}",
            value=model.waited,
            bound=0,
        ),
        _against("no such section: 500 tokens that change, before the history", early, plain, 2, least=True),
        _against("no such section: the same, placed by arrange=cache", placed, plain, 1.25),
        _against('swap="cost" / "eager", ceiling 20', swaps[False, "cost"], swaps[False, "eager"], 1),
        _against("the same, a long pause every 8 turns", swaps[True, "cost"], swaps[True, "eager"], 1),
    ]


async def _by_itself() -> list[Figure]:
    """What an agent costs that has `context_summary` and no other option, with all facts in its context."""
    plain = await _agent({"share_prefix": False}).run()
    usual, auto = await _agent(True).run(), await _agent("auto").run()
    orders = [await _agent("auto", order).run() for order in ("before", "after")]
    dearest = max(orders, key=lambda way: way.provider.cost)
    figures = [
        _bill("context_summary=True (10/20)", usual, 330_000, f", {plain.provider.cost:,.0f} plain"),
        _bill('context_summary="auto"', auto, 260_000),
        _bill(f'"auto", {VOLATILE} tokens that change, arrange="cache"', dearest, 355_000, volatile=VOLATILE),
    ]
    unseen = [len(await _unseen(way)) for way in (usual, auto, *orders)]
    waited = [way.section.summary_model.waited for way in (usual, auto, *orders)]
    return [
        *figures,
        Figure(
            name="planted facts that these contexts do not show",
            ours=f"{sum(unseen)}, {sum(waited)} turns waited",
            floor=f"of {len(FACTS)} each",
            value=sum(unseen) + sum(waited),
            bound=0,
        ),
    ]


def _agent(context_summary: Any, volatile: str = "") -> Way:
    """As an agent has it: the model that answers writes the summaries and the facts."""
    provider, ticks = Provider(), list[Way]()
    model = FactWriter(provider, asyncio.current_task())
    config = read_config(context_summary, model=model)
    assert config is not None
    section = SummarizedHistorySection.of(
        config, reader=model, clock=lambda: ticks[0].seconds if ticks else 0.0
    )
    changing = AdditionalContextSection("now", provider_fn=lambda *_: [_changing(ticks[0])])
    way = Way(
        section,
        provider,
        [changing] if volatile == "before" else [],
        [changing] if volatile == "after" else [],
        "cache",
    )
    ticks.append(way)
    return way


def _changing(way: Way) -> Message:
    """500 tokens that are others in every turn."""
    return Message("system", said(100_000 + int(way.seconds), VOLATILE))


def _bill(name: str, ours: Way, bound: float, beside: str = "", *, volatile: int = 0) -> Figure:
    provider = Provider()
    requests = said_once = 0
    for number in range(TURNS):
        parts = steps(number)
        requests += len(parts) - 1
        said_once += sum(estimate_tokens(rendered(step)) for step in parts)
        for after in parts[1:]:
            provider.output += estimate_tokens(rendered(after[:1]).partition("\n")[2])
    floor = said_once + SYSTEM_TOKENS * (1 + CACHED * (requests - 1)) + provider.cost + volatile * TURNS
    return Figure(
        name=f"cost, {name}",
        ours=f"{ours.provider.cost:,.0f}{beside}",
        floor=f"{floor:,.0f}",
        value=ours.provider.cost,
        bound=bound,
    )


def _rolling(size: int) -> Way:
    provider = Provider()
    return Way(RollingSummarySection(provider, size), provider)


async def _unseen(way: Way) -> list[int]:
    assert way.context is not None
    shown = rendered(way.context.messages)
    # Without the article and the full stop: a list of facts has neither.
    return [number for number in FACTS if planted_fact(number)[4:-1] not in shown]


def _against(name: str, ours: Way, floor: Way, bound: float, *, least: bool = False) -> Figure:
    return Figure(
        name=f"cost / {name}" if "/" not in name else f"cost, {name}",
        ours=f"{ours.provider.cost:,.0f}",
        floor=f"{floor.provider.cost:,.0f}",
        value=ours.provider.cost / floor.provider.cost,
        bound=bound,
        at_most=not least,
    )
