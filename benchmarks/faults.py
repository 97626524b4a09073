"""The effect of a failing summarizer on 1,000 turns: no turn waits, nothing grows, nothing is lost.

Turns follow one another as fast as they can, and each moves the clocks on by half a minute, so that
every backoff comes to its end many times within the run. Afterwards the model is well again and the
conversation has to come back to where it would have been.
"""

from __future__ import annotations

import asyncio
import time
from collections import Counter
from pathlib import Path
from typing import Any

from autonomy_ctx import ComposedContext, ContextTemplate, Memory, SummarizedHistorySection
from autonomy_ctx.messages import Summary
from benchmarks.faulty import FAULTS, FaultyModel, Time
from benchmarks.table import Figure
from benchmarks.talk import answer, lookup, question

TURNS, AFTERWARDS = 1000, 30
FLOOR, CEILING, HARD, HARD_TOKENS, SIZE = 10, 20, 40, 6144, 1024
TIMEOUT_SECONDS = 0.05
# A turn that takes this long has waited, and so has one in which nothing was computed for half a timeout.
WAITED_SECONDS, IDLE_SECONDS = 0.25, 0.025
TURN_SECONDS = 30.0
# Every so many turns a tool is called, and every so many its result is larger than the hard limit.
TOOL_EVERY, LARGE_EVERY, LARGE_TOKENS = 3, 60, 9000
PLACE = ("shop", "orders")


class Run:
    """One conversation under one fault, and what went wrong in it."""

    def __init__(self, fault: str) -> None:
        self.time = Time()
        self.model = FaultyModel(fault, asyncio.current_task())
        self.memory = Memory(clock=self.time.of_day)
        self.section = SummarizedHistorySection(
            self.model,
            FLOOR,
            CEILING,
            SIZE,
            hard_limit=HARD,
            hard_limit_tokens=HARD_TOKENS,
            timeout=TIMEOUT_SECONDS,
            # By the clocks that jump, a lease of the usual length would run out within every call.
            lease=3600,
            clock=self.time.monotonic,
        )
        self.template = ContextTemplate([self.section])
        self.wrong: Counter[str] = Counter()
        self.worst = 0.0
        self.times: list[float] = []
        self.window = self.provisional = 0

    async def turn(self, number: int) -> None:
        await self.memory.append(*PLACE, question(number, 60))
        await self.compose()
        if number % TOOL_EVERY == 0:
            large = number % LARGE_EVERY == LARGE_EVERY // 2
            await self.memory.append(*PLACE, *lookup(number, LARGE_TOKENS if large else 60))
            await self.compose()
        await self.memory.append(*PLACE, answer(number, 60))
        self.time.seconds += TURN_SECONDS
        # The turn's own model would take its time here: let the background have some.
        await asyncio.sleep(0.001)

    async def compose(self) -> None:
        started, busy = time.perf_counter(), time.process_time()
        context = await self.template.compose(self.memory, *PLACE)
        took, busy = time.perf_counter() - started, time.process_time() - busy
        self.worst = max(self.worst, took)
        self.times.append(took)
        self.wrong["waited"] += took > WAITED_SECONDS or took - busy > IDLE_SECONDS
        shown = [origin.position for origin in context.origins() if origin.position is not None]
        self.window = len(shown)
        self.wrong["over"] += self.window > HARD or context.tokens > HARD_TOKENS
        self.wrong["lost"] += _lost(context, shown, (await self.memory.head(*PLACE)).position)
        summaries = [message for message in context.messages if isinstance(message, Summary)]
        self.provisional = sum(part.provisional for one in summaries for part in one.segments)

    async def recover(self) -> None:
        """The model is well again: some more turns, with time to catch up in between."""
        self.model.fault = None
        for number in range(TURNS, TURNS + AFTERWARDS):
            await self.turn(number)
            await self.section.settled()
            await self.section.catch_up(self.memory)
        await self.compose()

    async def close(self) -> dict[str, Any]:
        await self.section.close()
        await self.memory.close()
        return self.section.get_metrics()


async def measure(folder: Path) -> list[Figure]:
    figures: list[Figure] = []
    for fault in FAULTS:
        run = Run(fault)
        for number in range(TURNS):
            await run.turn(number)
        calls, under = run.model.calls, run.section.get_metrics()
        served = under["digests_served"] + under["omissions_served"]
        await run.recover()
        await run.close()
        run.wrong["waited"] += run.model.waited
        kept = f"{under['summaries_committed']} written, {served} digests"
        figures += [
            _none(f"{fault}: turns that waited", f"worst {run.worst * 1000:.0f} ms", run.wrong["waited"]),
            _p99(fault, run.times),
            _none(f"{fault}: contexts over a hard limit", f"{calls} calls", run.wrong["over"]),
            _none(f"{fault}: messages neither shown nor accounted for", kept, run.wrong["lost"]),
            _none(
                f"{fault}: over the ceiling, or stand-ins left, afterwards",
                f"{run.window} shown, {run.provisional} stand-ins",
                max(run.window - CEILING, 0) + run.provisional,
            ),
        ]
    return figures


def _none(name: str, ours: str, value: float) -> Figure:
    return Figure(name=name, ours=ours, floor="0", value=value, bound=0)


def _p99(fault: str, times: list[float]) -> Figure:
    """What composing takes at p99 while the summarizer fails, in milliseconds."""
    slow = sorted(times)[int(len(times) * 0.99)] * 1000
    middle = sorted(times)[len(times) // 2] * 1000
    return Figure(
        name=f"{fault}: compose at p99, ms",
        ours=f"{slow:.1f} ms",
        floor=f"p50 {middle:.1f} ms",
        value=slow,
        bound=3 if fault == "dead" else 5,
    )


def _lost(context: ComposedContext, shown: list[int], head: int) -> int:
    """Positions up to the head that no segment, no message and no omission of a context stands for."""
    spans = [(position, position) for position in shown]
    spans += [(omission.first, omission.last) for omission in context.omitted]
    for message in context.messages:
        if isinstance(message, Summary):
            spans += [(part.first, part.last) for part in message.segments]
    missing, reached = 0, 0
    for first, last in sorted(spans):
        missing += max(first - reached - 1, 0)
        reached = max(reached, last)
    return missing + max(head - reached, 0)
