"""What is urgent goes before work in the background, and never for good."""

from __future__ import annotations

import threading
from collections.abc import Generator, Iterator
from contextlib import contextmanager, nullcontext
from itertools import count
from typing import Any

import anyio
import anyio.lowlevel
import anyio.to_thread
import pytest

from autonomy_ctx import ContextSection, ContextTemplate, Memory, background
from autonomy_ctx.background import (
    STEP_CHARACTERS,
    Urgent,
    UrgentStep,
    pause,
    run_in_steps,
    run_in_thread,
    wait_for_quiet,
)
from autonomy_ctx.errors import SectionError


def set_seconds(monkeypatch: pytest.MonkeyPatch, **seconds: float) -> None:
    for name, value in seconds.items():
        monkeypatch.setattr(background, name, value)


@contextmanager
def urgent_step() -> Iterator[None]:
    step = UrgentStep()
    try:
        yield
    finally:
        step.end()


def steps(sizes: list[int], done: list[str]) -> Generator[int, None, int]:
    for size in sizes:
        yield size
        done.append(threading.current_thread().name)
    return len(sizes)


async def test_steps_run_in_order_and_long_ones_in_a_thread() -> None:
    done: list[str] = []
    assert await run_in_steps(steps([0, STEP_CHARACTERS, STEP_CHARACTERS + 1], done)) == 3
    here = threading.current_thread().name
    assert [name == here for name in done] == [True, True, False]


async def test_an_error_of_a_step_is_raised() -> None:
    def fail() -> Generator[int, None, None]:
        yield STEP_CHARACTERS + 1
        raise ValueError("no")

    with pytest.raises(ValueError, match="no"):
        await run_in_steps(fail())


async def test_a_step_waits_while_somebody_does(monkeypatch: pytest.MonkeyPatch) -> None:
    set_seconds(monkeypatch, URGENT_SECONDS=1000, GIVE_WAY_SECONDS=1000)
    done: list[str] = []
    urgent = Urgent()
    async with anyio.create_task_group() as group:
        group.start_soon(run_in_steps, steps([0, 0, 0], done))
        for _ in range(50):
            await anyio.lowlevel.checkpoint()
        assert not done
        urgent.end()
    assert len(done) == 3


@pytest.mark.parametrize("name", ["GIVE_WAY_SECONDS", "URGENT_SECONDS"])
async def test_a_step_does_not_wait_for_ever(monkeypatch: pytest.MonkeyPatch, name: str) -> None:
    set_seconds(monkeypatch, URGENT_SECONDS=1000, GIVE_WAY_SECONDS=1000)
    monkeypatch.setattr(background, name, 0.0)
    urgent, done = Urgent(), list[str]()
    try:
        with anyio.fail_after(30):
            await run_in_steps(steps([0, 0], done))
        assert len(done) == 2
    finally:
        urgent.end()


@pytest.mark.parametrize("name", ["GIVE_WAY_SECONDS", "URGENT_SECONDS"])
async def test_a_thread_does_not_wait_for_ever(monkeypatch: pytest.MonkeyPatch, name: str) -> None:
    set_seconds(monkeypatch, _WORK_SECONDS=0.0, URGENT_SECONDS=1000, GIVE_WAY_SECONDS=1000)
    monkeypatch.setattr(background, name, 0.0)
    urgent, done = Urgent(), list[str]()

    def work() -> None:
        pause()
        done.append("work")

    try:
        await run_in_thread(work)
        assert done == ["work"]
    finally:
        urgent.end()


async def test_a_thread_waits_where_it_pauses_while_somebody_does(monkeypatch: pytest.MonkeyPatch) -> None:
    set_seconds(monkeypatch, _WORK_SECONDS=0.0, URGENT_SECONDS=1000, GIVE_WAY_SECONDS=1000)
    urgent, looks, done = Urgent(), count(1), list[str]()
    waits_or_ended, somebody_waits = threading.Event(), background.somebody_waits

    def look() -> bool:
        if next(looks) == 3:
            waits_or_ended.set()
        return somebody_waits()

    def work() -> None:
        pause()
        done.append("work")
        waits_or_ended.set()

    monkeypatch.setattr(background, "somebody_waits", look)
    async with anyio.create_task_group() as group:
        group.start_soon(run_in_thread, work)
        await anyio.to_thread.run_sync(waits_or_ended.wait)
        is_waiting = not done
        urgent.end()
    assert is_waiting
    assert done


async def test_a_thread_stops_at_once_for_what_is_urgent(monkeypatch: pytest.MonkeyPatch) -> None:
    set_seconds(monkeypatch, _WORK_SECONDS=1000, URGENT_SECONDS=1000, GIVE_WAY_SECONDS=0.0)

    def stops() -> bool:
        before = background._thread.works_until
        pause()
        return background._thread.works_until != before

    assert not await run_in_thread(stops)
    with urgent_step():
        assert await run_in_thread(stops)


async def test_a_thread_that_gave_way_for_long_enough_works_for_a_while(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    set_seconds(monkeypatch, _WORK_SECONDS=1000, URGENT_SECONDS=1000, GIVE_WAY_SECONDS=0.0)
    turns: list[float | None] = []

    def work() -> None:
        for _ in range(3):
            pause()
            turns.append(background._thread.works_until)

    with urgent_step():
        await run_in_thread(work)
    assert turns == turns[:1] * 3, "it stops once for what is urgent, and then it is its turn"


async def test_a_step_of_a_turn_is_no_request() -> None:
    before = background._last_urgent
    with urgent_step():
        assert background.somebody_waits()
    assert not background.somebody_waits()
    assert background._last_urgent == before


@pytest.mark.parametrize("fails", [False, True])
async def test_threads_in_the_background_wait_while_a_context_is_composed(fails: bool) -> None:
    seen: list[bool] = []

    class Watching(ContextSection):
        required = True

        async def get_messages(self, memory: Any, scope: str, conversation: str, params: Any) -> list[Any]:
            seen.append(background.somebody_waits())
            if fails:
                raise ValueError("no")
            return []

    template, memory = ContextTemplate([Watching("watching")]), Memory()
    began, ended = threading.Event(), threading.Event()

    def work() -> None:
        began.set()
        ended.wait()

    async with anyio.create_task_group() as group:
        group.start_soon(run_in_thread, work)
        await anyio.to_thread.run_sync(began.wait)
        try:
            with pytest.raises(SectionError) if fails else nullcontext():
                await template.compose(memory, "ana", "trip")
            assert not background.somebody_waits()
        finally:
            ended.set()
    assert seen == [True]


async def test_a_pause_elsewhere_does_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    set_seconds(monkeypatch, _WORK_SECONDS=0.0, URGENT_SECONDS=1000, GIVE_WAY_SECONDS=1000)
    urgent, done = Urgent(), list[str]()

    def work() -> None:
        pause()
        done.append("work")

    try:
        # Also in a thread that has done such work before: it would wait for what is urgent.
        await run_in_thread(threading.get_ident)
        await anyio.to_thread.run_sync(work)
        work()
        assert done == ["work", "work"]
    finally:
        urgent.end()


async def test_what_fails_in_a_thread_is_raised() -> None:
    def fail() -> None:
        raise ValueError("no")

    with pytest.raises(ValueError, match="no"):
        await run_in_thread(fail)


async def quiet_comes(done: list[str]) -> None:
    await wait_for_quiet()
    done.append("quiet")


async def test_a_long_step_waits_for_a_while_after_somebody_was_answered(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    set_seconds(monkeypatch, _QUIET_SECONDS=1000, _WAIT_FOR_QUIET_SECONDS=1000)
    done: list[str] = []
    Urgent().end()
    async with anyio.create_task_group() as group:
        group.start_soon(quiet_comes, done)
        for _ in range(50):
            await anyio.lowlevel.checkpoint()
        assert not done
        monkeypatch.setattr(background, "_QUIET_SECONDS", 0)
    assert done


async def test_a_step_waits_for_a_request_that_came_during_the_one_before(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    set_seconds(monkeypatch, URGENT_SECONDS=1000, GIVE_WAY_SECONDS=1000, STEP_SECONDS=0.0)
    done, came = list[int](), anyio.Event()
    Urgent().end()

    async def serve() -> None:
        # Its bytes are read in one round of the loop, and it begins in the next.
        await came.wait()
        await anyio.lowlevel.checkpoint()
        urgent = Urgent()
        try:
            for _ in range(50):
                await anyio.lowlevel.checkpoint()
            assert done == [1]
        finally:
            urgent.end()

    def steps_with_request() -> Generator[int, None, None]:
        yield 0
        done.append(1)
        came.set()
        yield 0
        done.append(2)

    async with anyio.create_task_group() as group:
        group.start_soon(serve)
        await anyio.lowlevel.checkpoint()
        await run_in_steps(steps_with_request())
    assert done == [1, 2]


async def test_a_long_step_does_not_wait_for_ever(monkeypatch: pytest.MonkeyPatch) -> None:
    set_seconds(monkeypatch, _QUIET_SECONDS=1000, _WAIT_FOR_QUIET_SECONDS=0)
    Urgent().end()
    with anyio.fail_after(20):
        await wait_for_quiet()
    assert background._last_urgent > 0


async def test_a_long_step_begins_at_once_where_nobody_ever_waited(monkeypatch: pytest.MonkeyPatch) -> None:
    set_seconds(monkeypatch, _QUIET_SECONDS=0.01, _last_urgent=0.0)
    done: list[str] = []
    async with anyio.create_task_group() as group:
        group.start_soon(quiet_comes, done)
        for _ in range(3):
            await anyio.lowlevel.checkpoint()
        assert done
