"""What tools find goes to the queue and the pool, and is there again after a restart."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from agents.kit import call, calls, find_report, find_things, made, stored

from autonomy_ctx import ContextItem, ContextPool, ContextQueue, Memory, tool
from autonomy_ctx.agents.agent import Agent
from autonomy_ctx.template import EndReason
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


# -- which built-in tools a model is sent ----------------------------------------------------------------

TIME = ["get_current_time_utc", "get_current_time"]


def sent(model: ScriptedModel, step: int = -1) -> list[str]:
    """The names of the tools that a model was sent."""
    return [spec["name"] for spec in model.calls[step].options.get("tools", ())]


def framework(model: ScriptedModel, step: int = -1) -> str:
    """What it was told of the built-in ones."""
    return "".join(
        str(message["content"]) for message in model.calls[step].messages if message["role"] == "system"
    )


async def test_the_item_tool_is_sent_with_a_queue_or_a_pool_alone(memory: Memory) -> None:
    options: list[tuple[dict[str, Any], bool]] = [
        ({}, False),
        ({"context_queue": ContextQueue(limit=3)}, True),
        ({"context_pool": ContextPool()}, True),
    ]
    for given, there in options:
        model = ScriptedModel("ok")
        agent = made(memory, model, find_things, **given)
        for one in (agent, agent.branch(), Agent.from_dict(agent.to_dict(), model=model, memory=memory)):
            await one.send("look", conversation="first")
            items = ["read_context_item"] if there else []
            assert sent(model) == ["find_things", *TIME, *items, "read_result"]
            assert ("read_context_item" in framework(model)) is there
            assert ("read_context_item" in [tool.name for tool in one.tools]) is there


async def test_the_item_tool_is_sent_from_the_first_request_on_if_a_tool_returns_items(
    memory: Memory,
) -> None:
    model = ScriptedModel([calls(call("find_report")), "ok"])
    agent = made(memory, model, find_report)
    await agent.send("look")
    await agent.send("and now?")
    await agent.send("here?", conversation="another")
    for step in range(len(model.calls)):
        assert "read_context_item" in sent(model, step)
        assert "read_context_item" in framework(model, step)


async def test_the_item_tool_is_sent_from_when_a_tool_has_kept_an_item(memory: Memory) -> None:
    model = ScriptedModel([calls(call("find_things")), "ok"])
    agent = made(memory, model, find_things)
    await agent.send("look")
    for step, there in ((0, False), (1, True)):
        assert ("read_context_item" in sent(model, step)) is there
        assert ("read_context_item" in framework(model, step)) is there
    assert (await agent.explain()).end_reason is EndReason.TOOLS
    await agent.send("here?", conversation="another")
    assert "read_context_item" not in sent(model)


async def test_the_item_tool_is_sent_with_a_pool_that_is_assigned(memory: Memory) -> None:
    model = ScriptedModel("ok")
    agent = made(memory, model, find_report)
    agent.context_pool = ContextPool()
    await agent.send("look")
    assert "read_context_item" in sent(model)


@pytest.mark.parametrize("names", [[], TIME[:1], TIME[1:], TIME])
async def test_the_time_tools_go_together_with_what_is_said_of_them(memory: Memory, names: list[str]) -> None:
    model = ScriptedModel("ok")
    agent = made(memory, model, builtin_tools=names)
    for one in (agent, agent.branch(), Agent.from_dict(agent.to_dict(), model=model, memory=memory)):
        await one.send("hi")
        assert sent(model) == names
        assert [name for name in TIME if f"`{name}`" in framework(model)] == names
        context = await one.explain()
        report = context.section("framework_instructions")
        assert report is not None
        assert report.messages == (1 if names else 0)


def test_unknown_built_in_tools_are_refused() -> None:
    with pytest.raises(ValueError, match="unknown names now; give some of get_current_time_utc, "):
        Agent("helper", builtin_tools=["now"])
    wrong: Any = "get_current_time"
    with pytest.raises(TypeError, match="must be a list of names, not str"):
        Agent("helper", builtin_tools=wrong)
