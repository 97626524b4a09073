"""The one owner of background tasks: who starts one need not stay, and a close ends them all."""

from __future__ import annotations

import asyncio
import gc
import logging

import anyio
import anyio.lowlevel
import pytest
import trio
import trio.testing

from autonomy_ctx.compaction import Background


class Gate:
    """A job that waits until it is let through, and notes how it went."""

    def __init__(self) -> None:
        self.open = anyio.Event()
        self.began = anyio.Event()
        self.done = False
        self.cancelled = False

    async def __call__(self) -> None:
        self.began.set()
        try:
            await self.open.wait()
        except BaseException:
            self.cancelled = True
            raise
        self.done = True


async def test_whoever_starts_a_job_does_not_wait_for_it() -> None:
    async with Background(grace_seconds=0) as background:
        gate = Gate()
        assert background.start(gate)
        assert (background.running, gate.done) == (1, False)
        gate.open.set()
        await background.idle()
        assert (background.running, gate.done) == (0, True)


async def test_a_job_outlives_the_task_and_the_scope_that_started_it() -> None:
    async with Background(grace_seconds=0) as background:
        gate = Gate()
        with anyio.CancelScope() as scope:
            background.start(gate)
            await gate.began.wait()
            scope.cancel()
            await anyio.lowlevel.checkpoint()
        async with anyio.create_task_group() as group:
            second = Gate()
            group.start_soon(_start, background, second)
        await second.began.wait()
        gate.open.set()
        second.open.set()
        await background.idle()
        assert (gate.done, second.done) == (True, True)


async def _start(background: Background, gate: Gate) -> None:
    background.start(gate)


async def test_a_close_gives_running_jobs_the_grace_to_end() -> None:
    background = Background(grace_seconds=60)
    gate = Gate()
    background.start(gate)
    await gate.began.wait()
    async with anyio.create_task_group() as group:
        group.start_soon(background.aclose)
        await anyio.lowlevel.checkpoint()
        gate.open.set()
    assert gate.done


async def test_a_close_cancels_what_hangs_and_takes_no_more() -> None:
    background = Background(grace_seconds=0)
    gate, late = Gate(), Gate()
    background.start(gate)
    await gate.began.wait()
    await background.aclose()
    assert gate.cancelled
    assert not background.start(late)
    assert background.running == 0
    await background.aclose()
    await background.idle()
    assert not late.began.is_set()


async def test_closing_what_was_never_used_is_harmless() -> None:
    background = Background()
    await background.aclose()
    assert background.running == 0
    assert not background.start(Gate()), "what is closed takes no jobs"


async def test_a_job_that_is_not_lasting_is_what_a_close_waits_for() -> None:
    background = Background(grace_seconds=60)
    waits = Gate()
    background.start(waits, daemon=True)
    await waits.began.wait()
    assert background.running == 0
    await background.idle()
    await background.aclose()
    assert waits.cancelled


async def test_a_job_that_fails_takes_no_other_with_it(caplog: pytest.LogCaptureFixture) -> None:
    async def fails() -> None:
        raise RuntimeError("boom")

    async with Background(grace_seconds=0) as background:
        gate = Gate()
        background.start(gate)
        background.start(fails)
        await gate.began.wait()
        gate.open.set()
        await background.idle()
        assert gate.done
        assert background.start(fails)
        await background.idle()
    assert [record.levelno for record in caplog.records] == [logging.ERROR, logging.ERROR]


async def test_a_job_may_start_another() -> None:
    async with Background(grace_seconds=0) as background:
        done: list[int] = []

        async def one() -> None:
            background.start(two)
            done.append(1)

        async def two() -> None:
            done.append(2)

        background.start(one)
        await background.idle()
        assert done == [1, 2]


async def test_a_running_job_survives_a_garbage_collection() -> None:
    async with Background(grace_seconds=0) as background:
        gate = Gate()
        background.start(gate)
        await gate.began.wait()
        for _ in range(3):
            gc.collect()
            await anyio.lowlevel.checkpoint()
        gate.open.set()
        await background.idle()
        assert gate.done


async def test_a_close_inside_a_cancelled_scope_still_ends_everything() -> None:
    background = Background(grace_seconds=0)
    gate = Gate()
    background.start(gate)
    await gate.began.wait()
    with anyio.CancelScope() as scope:
        scope.cancel()
        await background.aclose()
    assert gate.cancelled


def test_one_owner_serves_one_event_loop_after_the_other() -> None:
    background = Background(grace_seconds=0)
    done: list[int] = []

    async def use(number: int) -> None:
        async def job() -> None:
            done.append(number)

        hangs = Gate()
        assert background.start(job)
        assert background.start(hangs)
        await hangs.began.wait()

    for number in range(3):
        asyncio.run(use(number))
    assert done == [0, 1, 2]


async def test_a_close_leaves_no_task_behind(anyio_backend_name: str) -> None:
    if anyio_backend_name != "asyncio":
        pytest.skip("trio has no list of tasks")
    before = asyncio.all_tasks()
    background = Background(grace_seconds=0)
    for _ in range(5):
        background.start(Gate())
    await anyio.lowlevel.checkpoint()
    await background.aclose()
    await anyio.lowlevel.checkpoint()
    assert {task for task in asyncio.all_tasks() - before if not task.done()} == set()


@pytest.mark.parametrize(("passed", "left"), [(0.0, 2.0), (1.5, 0.5), (60.0, 0.5)])
def test_the_grace_runs_while_others_are_still_closing(passed: float, left: float) -> None:
    clock = trio.testing.MockClock(autojump_threshold=0)  # No second of this is real.

    async def close() -> float:
        background = Background(grace_seconds=2.0)
        background.start(anyio.sleep_forever)
        background.begin_closing()
        await trio.testing.wait_all_tasks_blocked()
        clock.jump(passed)
        began = anyio.current_time()
        await background.aclose()
        return anyio.current_time() - began

    assert trio.run(close, clock=clock) == pytest.approx(left)
