"""What tools find goes to the queue and the pool, and is there again after a restart."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from agents.kit import call, calls, find_report, find_things, made, stored

from autonomy_ctx import ContextItem, ContextPool, ContextQueue, Memory, tool
from autonomy_ctx.testing import ScriptedModel


async def test_items_go_to_the_queue_and_the_pool_and_the_model_reads_them(memory: Memory) -> None:
    model = ScriptedModel(
        [
            calls(call("find_things"), call("find_report")),
            calls(call("read_context_item", item_id="report"), call("read_context_item", item_id="x")),
            "read",
        ]
    )
    agent = made(memory, model, find_things, find_report)
    assert (agent.context_queue.limit, len(agent.context_pool)) == (10, 0)
    await agent.send("look")
    assert [item.content for item in agent.context_queue] == ["a remark"]
    assert agent.context_pool.get("table").content == {"rows": [1, 2]}
    history = await stored(agent.memory)
    found, one, read, missing = [message for message in history if message.role.value == "tool"]
    assert "a remark" in found.text
    assert "0 there before" in found.text
    assert "all of a long report" not in one.text
    assert "report" in one.text
    assert read.text == "all of a long report"
    assert missing.is_error


async def test_items_are_there_again_after_a_restart_and_what_was_taken_out_is_not(tmp_path: Path) -> None:
    url = f"sqlite:///{tmp_path}/memory.db"
    script: list[Any] = [calls(call("find_things"), call("find_report")), "ok"]
    async with Memory(url) as memory:
        agent = made(memory, ScriptedModel(script * 2), find_things, find_report)
        await agent.send("look")
        await agent.send("look", scope="bo", conversation="trip")
        await agent.context_pool.remove("table")
        agent.context_queue.clear()
        await agent.context_queue.append(ContextItem("put by hand"))
        await agent.send("nothing new")
    async with Memory(url) as memory:
        agent = made(memory, ScriptedModel([calls(call("find_report")), "ok"]), find_report)
        await agent.send("again")
        assert [item.id for item in agent.context_pool] == ["report"]
        items = await agent._items.load(agent._key("bo", "trip"))
        assert [item.content for item in items.queue] == ["a remark"]
        assert [item.id for item in items.pool] == ["table", "report"]
    async with Memory(url) as memory:
        agent = made(memory, ScriptedModel("ok"), find_report)
        items = await agent._items.load(agent._key("default", "default"))
        assert list(items.queue) == []
        await items.pool.remove("report")
        await agent.close()
        later = made(memory, ScriptedModel("ok"))
        assert list((await later._items.load(later._key("default", "default"))).pool) == []


async def test_queue_and_pool_can_be_given_and_assigned(memory: Memory) -> None:
    queue, pool = ContextQueue(limit=2), ContextPool(limit=1)
    script: list[Any] = [calls(call("find_things"), call("find_report")), "ok"]
    agent = made(
        memory, ScriptedModel(script * 3), find_things, find_report, context_queue=queue, context_pool=pool
    )
    await agent.send("look")
    assert agent.context_queue is queue
    assert [item.id for item in pool] == ["report"]
    agent.context_queue, agent.context_pool = ContextQueue(limit=5), ContextPool()
    await agent.send("look again")
    assert len(queue) == 1
    assert len(agent.context_queue) == 1
    assert [item.id for item in agent.context_pool] == ["table", "report"]
    for wrong in ("context_queue", "context_pool"):
        with pytest.raises(TypeError, match=wrong):
            setattr(agent, wrong, [])


async def test_an_item_that_cannot_be_kept_is_an_error_for_the_model(memory: Memory) -> None:
    @tool
    def undescribed() -> ContextItem[str]:
        """Find something without a description."""
        return ContextItem("x", None, "x")

    agent = made(memory, ScriptedModel([calls(call("undescribed")), "ok"]), undescribed)
    await agent.send("look")
    result = (await stored(agent.memory))[2]
    assert result.is_error
    assert "description" in result.text
    assert len(agent.context_pool) == 0


async def test_deleting_a_conversation_deletes_its_items_and_records(memory: Memory) -> None:
    agent = made(
        memory,
        ScriptedModel([calls(call("find_things"), call("find_report")), "ok"]),
        find_things,
        find_report,
    )
    await agent.send("look")
    assert await agent.delete_conversation() == 5
    assert (len(agent.context_queue), len(agent.context_pool)) == (0, 0)
    assert await stored(agent.memory) == []
    with pytest.raises(LookupError):
        await agent.explain()
    fresh = made(memory, ScriptedModel("ok"), find_things)
    await fresh.send("look")
    assert (len(fresh.context_queue), len(fresh.context_pool)) == (0, 0)
