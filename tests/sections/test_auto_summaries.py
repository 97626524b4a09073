"""`context_summary="auto"` in a section: when a summary is written, and what it leaves."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from datetime import timedelta
from time import monotonic
from typing import Any

from anyio import fail_after
from summary_models import HeldModel, ScriptedModel, shown, summarized

from autonomy_ctx import ContextTemplate, Memory, Message, SummarizedHistorySection
from autonomy_ctx.compaction.job import MAX_REFUSALS
from autonomy_ctx.compaction.plan import MAX_BATCH_TOKENS
from autonomy_ctx.messages.tokens import TokenCounter
from autonomy_ctx.testing import StoppedClock

WORDS = "the order was moved to another depot because the first one had no room left " * 8


@asynccontextmanager
async def automatic(
    name: str = "claude-opus-5-5", model: Any = None, **options: Any
) -> AsyncIterator[tuple[SummarizedHistorySection, StoppedClock]]:
    """A section that decides by cost, with a clock that stands still."""
    writer, clock = model or ScriptedModel("a short summary"), StoppedClock()
    writer.name = name
    given = {"clock": lambda: clock().timestamp(), **options}
    async with summarized(writer, None, None, auto=True, reader=writer, **given) as section:
        yield section, clock


async def talked(
    section: SummarizedHistorySection,
    memory: Memory,
    clock: StoppedClock,
    turns: int,
    gap: float = 30.0,
    words: str = WORDS,
) -> int:
    """So many turns; the number of messages that a summary covers then."""
    for _ in range(turns):
        clock.advance(gap)
        await memory.append("ana", "trip", Message("user", words, created_at=clock()))
        await shown(section, memory)
        await section.settled()
        await memory.append("ana", "trip", Message("assistant", words, created_at=clock()))
    return (await memory.summary("ana", "trip")).covered


async def test_a_summary_is_written_when_it_pays_and_the_window_keeps_the_floor() -> None:
    memory = Memory()
    async with automatic() as (section, clock):
        assert await talked(section, memory, clock, 15) == 0
        assert await talked(section, memory, clock, 65) > 0
        segments = (await memory.summary("ana", "trip")).segments
        assert len(segments) > 1
        found = await shown(section, memory)
        assert len(found.window) >= section.floor


async def test_cheaper_reads_put_the_first_summary_off() -> None:
    firsts = []
    for name in ("claude-opus-5", "claude-opus-5-5", "claude-fable-5-2"):
        memory, turns = Memory(), 0
        async with automatic(name) as (section, clock):
            while not await talked(section, memory, clock, 1):
                turns += 1
        firsts.append(turns)
    assert firsts == sorted(firsts)
    assert len(set(firsts)) == 3


async def test_a_summary_that_pays_before_the_cache_expires_is_written_when_the_conversation_is_idle() -> (
    None
):
    memory = Memory()
    async with automatic() as (section, clock):
        assert await talked(section, memory, clock, 12) == 0
        section.summarize_before_expiry(memory, "ana", "trip")
        await section.settled()
        assert (await memory.summary("ana", "trip")).covered > 0


async def test_a_short_conversation_is_not_summarized_when_it_is_idle() -> None:
    memory = Memory()
    async with automatic() as (section, clock):
        await talked(section, memory, clock, 4)
        section.summarize_before_expiry(memory, "ana", "trip")
        await section.settled()
        assert (await memory.summary("ana", "trip")).covered == 0


async def test_shortly_before_the_cache_expires_it_is_written_without_a_request() -> None:
    memory, model = Memory(), HeldModel()
    async with automatic() as (section, clock):
        assert await talked(section, memory, clock, 12, gap=0) == 0
    # By the real clock, and with a cache that lives for a moment.
    async with automatic(model=model, cache_seconds=0.05, clock=monotonic) as (section, _):
        await shown(section, memory)
        with fail_after(5):
            (await model.wait_for_call()).answer("a short summary")
        await section.settled()
        assert (await memory.summary("ana", "trip")).covered > 0


async def test_what_pays_is_summarized_whole_also_if_it_takes_several_calls() -> None:
    memory, counter = Memory(), TokenCounter()
    long = "the file has a line that nobody has read before " * 120
    async with automatic("gpt-5.6-sol") as (section, clock):
        covered = turns = 0
        while not covered and turns < 60:
            await memory.append("ana", "trip", Message("user", long, created_at=clock()))
            covered = await talked(section, memory, clock, 1)
            turns += 1
        segments = (await memory.summary("ana", "trip")).segments
        assert len(segments) > 1
        assert counter.count_messages([{"role": "user", "content": long}]) * covered > MAX_BATCH_TOKENS
        assert len((await shown(section, memory)).window) < 2 * section.floor


async def test_long_pauses_ask_for_the_longer_life_of_the_cache() -> None:
    memory = Memory()
    async with automatic("gpt-6.1-sol") as (section, clock):
        template = ContextTemplate([section])
        await talked(section, memory, clock, 4)
        assert not (await template.compose(memory, "ana", "trip")).long_cache
        for _ in range(4):
            clock.advance(timedelta(hours=5).total_seconds())
            await talked(section, memory, clock, 3)
        assert (await template.compose(memory, "ana", "trip")).long_cache


async def test_a_summary_that_was_refused_is_tried_again_when_twice_as_many_messages_wait() -> None:
    writer = ScriptedModel([*[""] * MAX_REFUSALS, "a short summary"])
    # So few tokens that all of them fit into one call.
    how: Any = {"gap": 4_000.0, "words": WORDS[: len(WORDS) // 4]}
    async with automatic(model=writer) as (section, clock):
        memory = Memory(clock=clock)
        while section.get_metrics()["summaries_refused"] < MAX_REFUSALS:
            assert await talked(section, memory, clock, 1, **how) == 0
        refused = (await memory.head("ana", "trip")).position
        assert await talked(section, memory, clock, refused // 2 + 1, **how) > 0
