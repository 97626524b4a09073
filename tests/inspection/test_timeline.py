"""A conversation over time, at any length."""

from __future__ import annotations

import json
from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from typing import Any, NoReturn

import pytest

from autonomy_ctx import Agent, ContextTemplate, Memory, Message, SummarizedHistorySection
from autonomy_ctx.errors import UnknownConversation
from autonomy_ctx.inspection import inspect_conversation, inspect_timeline
from autonomy_ctx.memory.in_process import InProcessStore
from autonomy_ctx.memory.store import Key, StoredSegment
from autonomy_ctx.testing import ScriptedModel, StoppedClock

ANA = ("ana", "trip")
KEY = Key("", *ANA)
START = datetime(2030, 1, 1, tzinfo=UTC)


async def fill(memory: Memory, count: int) -> None:
    """Messages one second apart: the user's at odd positions."""
    roles = ["user", "assistant"]
    await memory.append(
        *ANA,
        *(
            Message(roles[at % 2], f"m{at + 1}", created_at=START + timedelta(seconds=at))
            for at in range(count)
        ),
    )


async def commit(memory: Memory, first: int, last: int, **fields: Any) -> None:
    segment = StoredSegment(first=first, last=last, text="a summary", tokens=3, model="m", **fields)
    generation = (await memory.head(*ANA)).generation
    assert await memory.store.commit_segment(KEY, segment, generation=generation, fence=None)


async def test_each_turn_says_how_far_the_summary_reached_then() -> None:
    clock = StoppedClock(START)
    store = InProcessStore(clock=lambda: clock().timestamp())
    memory = Memory(store=store)
    await fill(memory, 12)
    clock.advance(5.5)
    await commit(memory, 1, 3)
    clock.advance(3)
    await commit(memory, 4, 6, provisional=True)
    timeline = await inspect_timeline(memory, *ANA)
    assert [(one.position, one.covered, one.summarized, one.window) for one in timeline.points] == [
        (1, 0, 0, 1),
        (3, 0, 0, 3),
        (5, 0, 0, 5),
        (7, 3, 3, 4),
        (9, 3, 3, 6),
        (11, 6, 3, 5),
    ]
    assert (timeline.bucket, timeline.first, timeline.last, timeline.head) == (1, 1, 12, 12)
    assert [(one.first, one.last, one.is_digest, one.state) for one in timeline.segments] == [
        (1, 3, False, "in force"),
        (4, 6, True, "in force"),
    ]
    assert json.loads(json.dumps(timeline.to_dict())) == timeline.to_dict()


async def test_segments_that_were_replaced_or_taken_back_are_told(memory: Memory) -> None:
    await fill(memory, 12)
    await commit(memory, 1, 3)
    await commit(memory, 4, 6)
    await commit(memory, 1, 6, level=1)
    timeline = await inspect_timeline(memory, *ANA)
    assert [one.state for one in timeline.segments] == ["replaced", "replaced", "in force"]
    assert {one.replaced_by for one in timeline.segments[:2]} == {timeline.segments[2].number}
    assert timeline.segments[0].replaced_at == timeline.segments[2].created_at
    await memory.undo_summary(*ANA)
    timeline = await inspect_timeline(memory, *ANA)
    assert [one.state for one in timeline.segments] == ["in force", "in force", "taken back"]


async def test_facts_are_ranges_and_a_part_of_the_log_has_its_own(memory: Memory) -> None:
    await fill(memory, 4)
    facts = memory.facts(*ANA)
    first = await facts.add("value", "The ferry leaves at 9:40.")
    await fill_more(memory, 4)
    second = await facts.replace(first.id, "The ferry leaves at 10:20.")
    timeline = await inspect_timeline(memory, *ANA)
    assert [(one.id, one.position, one.ended_position) for one in timeline.facts] == [
        (first.id, 4, 8),
        (second.id, 8, None),
    ]
    part = await inspect_timeline(memory, *ANA, first=1, last=6)
    assert [one.id for one in part.facts] == [first.id]
    assert [one.position for one in part.points] == [1, 3, 5]


async def fill_more(memory: Memory, count: int) -> None:
    head = (await memory.head(*ANA)).position
    roles = ["user", "assistant"]
    await memory.append(*ANA, *(Message(roles[at % 2], f"more {head + at}") for at in range(count)))


class WithoutReads(InProcessStore):
    """A store that refuses to read messages, and counts the places that it is asked for."""

    places = 0

    async def read(self, *args: Any, **options: Any) -> NoReturn:
        raise AssertionError("a timeline reads no messages")

    async def outline(self, key: Key, ranges: Sequence[tuple[int, int]]) -> Any:
        self.places += len(ranges)
        assert all(last - first < 64 for first, last in ranges)
        return await super().outline(key, ranges)


async def test_a_long_conversation_costs_its_points_and_no_messages() -> None:
    store = WithoutReads()
    memory = Memory(store=store)
    await fill(memory, 20_000)
    timeline = await inspect_timeline(memory, *ANA, points=100)
    assert (timeline.bucket, len(timeline.points), store.places) == (200, 100, 100)
    assert all(point.is_user for point in timeline.points)
    part = await inspect_timeline(memory, *ANA, first=10_001, last=10_100, points=100)
    assert (part.bucket, len(part.points)) == (1, 50)


async def test_a_long_run_without_a_user_is_no_turn(memory: Memory) -> None:
    await memory.append(*ANA, Message("user", "go"), *(Message("assistant", f"step {n}") for n in range(30)))
    timeline = await inspect_timeline(memory, *ANA, points=5)
    assert [point.position for point in timeline.points] == [1]


async def test_a_summary_that_fails_is_told(memory: Memory) -> None:
    history = SummarizedHistorySection(ScriptedModel([RuntimeError("down")]), floor=2, ceiling=4)
    template = ContextTemplate([history])
    agent = Agent("helper", model=ScriptedModel("ok"), memory=memory, context_template=template)
    for number in range(4):
        await agent.send(f"number {number}", scope="ana", conversation="trip")
        await history.settled()
    # A failed summary is tried again after a pause, which may end between two looks.
    await history.close()
    view = memory.for_agent("helper")
    timeline = await inspect_timeline(view, *ANA)
    assert timeline.work is not None
    assert timeline.work.failures >= 1
    assert not timeline.work.is_running
    assert (timeline.floor, timeline.ceiling) == (2, 4)
    assert (await inspect_conversation(view, *ANA)).work == timeline.work
    await agent.close()


async def test_what_is_not_there_or_wrong_is_refused(memory: Memory) -> None:
    with pytest.raises(UnknownConversation):
        await inspect_timeline(memory, *ANA)
    await fill(memory, 3)
    wrong: list[dict[str, Any]] = [{"points": 0}, {"points": 5_000}, {"first": 0}, {"last": -1}]
    for options in wrong:
        with pytest.raises(ValueError, match=next(iter(options))):
            await inspect_timeline(memory, *ANA, **options)
    beyond = await inspect_timeline(memory, *ANA, first=10)
    assert (beyond.points, beyond.first) == ((), 10)
