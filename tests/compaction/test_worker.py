"""`Worker`: summaries written by another process than the one whose turns need them."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import anyio
import pytest
from summary_models import HeldModel, ScriptedModel, asks, shown, summarized

from autonomy_ctx import ContextSummaryConfig, Memory, Worker
from autonomy_ctx.errors import InvalidKey
from autonomy_ctx.stores import Key

LIMITS = {"floor": 4, "ceiling": 8}


async def owe_summary(memory: Memory, conversation: str = "trip", **options: Any) -> None:
    """Let a process that leaves summaries to a worker compose a context that is over its ceiling."""
    async with summarized(None, worker="summaries", **options) as section:
        await asks(memory, 12, conversation=conversation)
        await shown(section, memory, conversation=conversation)
        await section.settled()


async def test_an_agent_with_a_worker_asks_no_model_and_owes_the_summary(memory: Memory) -> None:
    model = ScriptedModel()
    async with summarized(model, worker="summaries") as section:
        await asks(memory, 12)
        found = await shown(section, memory)
        await section.settled()
        assert (len(model.calls), len(found.window)) == (0, 12)
        writer = ScriptedModel("They said things, from said 1 to said 8.")
        async with Worker(memory, writer, config=LIMITS) as worker:
            assert await worker.catch_up() is None
            assert worker.get_metrics()["summaries_committed"] == 1
        after = await shown(section, memory)
    assert (len(writer.calls), after.window) == (1, [9, 10, 11, 12])
    assert "said 1 to said 8" in after.summary_text


async def test_a_worker_that_runs_writes_what_is_owed_later_and_stops_when_closed(memory: Memory) -> None:
    model = HeldModel()
    async with (
        Worker(memory, model, config=LIMITS, poll_seconds=0.01) as worker,
        anyio.create_task_group() as group,
    ):
        group.start_soon(worker.run)
        await owe_summary(memory)
        (await model.wait_for_call()).answer("They said things, from said 1 to said 8.")
        while not (await memory.summary("ana", "trip")).segments:
            await anyio.lowlevel.checkpoint()
        await worker.close()
    assert (await memory.summary("ana", "trip")).covered == 8


async def test_a_slow_summary_does_not_keep_others_waiting(memory: Memory) -> None:
    model = HeldModel()
    worker = Worker(memory, model, config={**LIMITS, "parallel": 2}, poll_seconds=0.01)
    async with anyio.create_task_group() as group:
        group.start_soon(worker.run)
        await owe_summary(memory, "first")
        await model.wait_for_call()
        await owe_summary(memory, "second")
        await model.wait_for_call(2)
        assert worker.get_metrics()["background_tasks_started"] == 2, "and neither has ended"
        await worker.close()
    assert [(await memory.summary("ana", name)).covered for name in ("first", "second")] == [0, 0]


async def test_two_workers_ask_once_for_each_conversation(tmp_path: Path) -> None:
    model = ScriptedModel("They said things, from said 1 to said 8.")
    url = f"sqlite:///{tmp_path}/memory.db"
    async with Memory(url) as first, Memory(url) as second:
        names = [f"talk {number}" for number in range(10)]
        for name in names:
            await owe_summary(first, name)
        one, other = (Worker(one, model, config=LIMITS) for one in (first, second))
        async with one, other, anyio.create_task_group() as group:
            group.start_soon(one.catch_up)
            group.start_soon(other.catch_up)
        assert [(await first.summary("ana", name)).covered for name in names] == [8] * 10
    assert len(model.calls) == 10


async def test_a_worker_takes_only_what_is_owed_to_its_name(memory: Memory) -> None:
    await owe_summary(memory)
    model = ScriptedModel()
    async with Worker(memory, model, name="other", config=LIMITS) as worker:
        assert await worker.catch_up() is None
    assert len(model.calls) == 0


async def test_what_a_closed_worker_gave_up_is_taken_at_once_by_another(memory: Memory) -> None:
    await owe_summary(memory)
    held = HeldModel()
    async with anyio.create_task_group() as group, Worker(memory, held, config=LIMITS) as worker:
        group.start_soon(worker.run)
        await held.wait_for_call()
    async with Worker(memory, ScriptedModel("They said things, said 1 to 8."), config=LIMITS) as worker:
        await worker.catch_up()
    assert (await memory.summary("ana", "trip")).covered == 8


async def test_a_store_that_is_closed_ends_the_run(memory: Memory) -> None:
    async with Worker(memory, None, config=LIMITS) as worker:
        await memory.close()
        await worker.run()
        assert worker.get_metrics()["background_tasks_failed"] == 0


async def test_a_worker_follows_the_budget_of_the_agents(memory: Memory) -> None:
    async with Worker(memory, None, config={"ceiling": 1000, "hard_limit": 2000}, budget=1_000) as worker:
        long = [{"role": "user", "content": "word " * 60, "id": f"m{at}"} for at in range(30)]
        await memory.append("ana", "trip", *long)
        await memory.store.enqueue_task(Key("", "ana", "trip"), task="worker:summaries")
        await worker.catch_up()
    assert (await memory.summary("ana", "trip")).covered > 10


async def test_it_runs_once_at_a_time_and_not_after_its_close(memory: Memory) -> None:
    model = HeldModel()
    worker = Worker(memory, model, config=LIMITS)
    await owe_summary(memory)
    async with anyio.create_task_group() as group:
        group.start_soon(worker.run)
        await model.wait_for_call()
        with pytest.raises(RuntimeError, match="is already running"):
            await worker.run()
        await worker.close()
    with pytest.raises(RuntimeError, match="is closed"):
        await worker.run()


@pytest.mark.parametrize(
    ("options", "error", "text"),
    [
        ({"name": ""}, ValueError, "name is empty"),
        ({"name": 3}, TypeError, "name is 3; it must be the name of a Worker"),
        ({"name": "a\0b"}, InvalidKey, "NUL"),
        ({"config": False}, ValueError, "config is False"),
        ({"config": {"flor": 3}}, ValueError, "does not know flor"),
        ({"budget": 0}, ValueError, "budget"),
        ({"model": object()}, TypeError, "complete_chat"),
    ],
)
def test_bad_options_are_refused(options: dict[str, Any], error: type[Exception], text: str) -> None:
    with pytest.raises(error, match=text):
        Worker(Memory(), **options)


def test_a_worker_needs_a_memory() -> None:
    with pytest.raises(TypeError, match="memory is str; it must be a Memory"):
        Worker("sqlite:///memory.db")  # type: ignore[arg-type]


@pytest.mark.parametrize("name", ["", 3])
def test_the_option_of_an_agent_is_checked(name: Any) -> None:
    with pytest.raises((ValueError, TypeError), match="worker"):
        ContextSummaryConfig(worker=name)
