"""Agents without a model, saved, branched, and as tools of others."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import anyio
import anyio.from_thread
import pytest
from agents.kit import add_up, broken, call, calls, find_report, find_things, made, spoken, stored

from autonomy_ctx import ContextPool, ContextQueue, Memory, hook, tool
from autonomy_ctx.agents.agent import Agent
from autonomy_ctx.agents.options import AgentHook, TurnLimits
from autonomy_ctx.agents.tool_runner import Turn
from autonomy_ctx.errors import AutonomyCtxError, ToolTimeout, TurnWithinTurn, UnknownTool
from autonomy_ctx.testing import HeldModel, ScriptedModel

# -- without a model -------------------------------------------------------------------------------------


async def test_without_a_model_turns_are_put_and_run(memory: Memory) -> None:
    queue, pool = ContextQueue(limit=4), ContextPool()
    agent = Agent(
        "worker",
        "Works.",
        [add_up, find_things, broken],
        context_queue=queue,
        context_pool=pool,
        memory=memory,
    )
    turns = [Turn("add_up", kwargs={"a": 1, "b": 2}), Turn(find_things), Turn("broken"), Turn("add_up")]
    for turn in turns:
        await agent.put(turn)
    came: list[tuple[str, Any]] = []

    async def run() -> None:
        async for turn, value in agent.run():
            came.append((turn.tool, value))

    with pytest.raises(RuntimeError, match="frozen"):
        await run()
    assert came[0] == ("add_up", 3)
    assert [name for name, _ in came] == ["add_up", "find_things", "find_things", "find_things"]
    assert turns[0].output == 3
    assert isinstance(turns[2].error, RuntimeError)
    assert list(agent.waiting) == [turns[3]]
    assert ([item.content for item in queue], [item.id for item in pool]) == (["a remark"], ["table"])


async def test_a_turn_for_no_tool_is_refused_when_it_is_put() -> None:
    agent = Agent("worker", tools=[add_up])
    with pytest.raises(UnknownTool):
        await agent.put(Turn("nothing"))
    wrong: Any = "add_up"
    with pytest.raises(TypeError, match="Turn"):
        await agent.put(wrong)
    assert not agent.waiting
    await agent.close()


async def test_a_turn_has_a_time_of_its_own() -> None:
    @tool
    async def hang() -> None:
        """Hang."""
        await anyio.sleep_forever()

    agent = Agent("worker", tools=[hang])
    await agent.put(Turn("hang", timeout=0.01))
    with pytest.raises(ToolTimeout):
        async for _ in agent.run():
            pass
    await agent.close()


# -- copies ----------------------------------------------------------------------------------------------


@hook(AgentHook.AFTER_TURN)
def told_after(*what: Any) -> None:
    """Something to be saved by name."""


async def test_an_agent_saved_and_read_is_the_same_with_queue_pool_and_hooks(memory: Memory) -> None:
    script: list[Any] = [calls(call("find_things"), call("find_report")), "ok"]
    agent = made(
        memory,
        ScriptedModel(script),
        find_things,
        find_report,
        hooks=[told_after],
        limits={"steps": 7},
        context_summary={"floor": 40, "ceiling": 90},
        enable_ask_for_user_input=True,
        filesystem_root=Path("files"),
        explain_turns=3,
        context_queue=ContextQueue(limit=3),
    )
    await agent.send("look")
    await agent.put(Turn("find_report", timeout=5))
    data = json.loads(json.dumps(agent.to_dict()))
    again = Agent.from_dict(data, memory=memory, model=ScriptedModel([calls(call("find_things")), "ok"]))
    assert again.to_dict() == data
    assert again.hooks == [told_after]
    assert again.limits == TurnLimits(steps=7)
    assert [tool.name for tool in again.tools] == [tool.name for tool in agent.tools]
    assert [turn.tool for turn in again.waiting] == ["find_report"]
    await again.send("look")
    assert [item.content for item in again.context_queue] == ["a remark", "a remark"], "none of them twice"
    assert [item.id for item in again.context_pool] == ["report", "table"]


async def test_a_branch_has_the_same_log_and_its_own_items(memory: Memory) -> None:
    script: list[Any] = [calls(call("find_things"), call("find_report")), "ok"]
    agent = made(memory, ScriptedModel(script), find_things, find_report, hooks=[told_after])
    await agent.send("look")
    branch = agent.branch()
    assert [item.content for item in branch.context_queue] == ["a remark"]
    await branch.context_pool.remove("table")
    assert "table" in agent.context_pool
    assert len(await branch.history()) == 5
    assert branch.hooks == [told_after]
    await branch.send("go on")
    assert [item.content for item in branch.context_queue] == ["a remark"]
    other = agent.branch("other")
    assert await other.history() == []
    assert [item.id for item in other.context_pool] == ["table", "report"]
    await branch.close()
    assert (await agent.send("still here")).text == "ok"


async def test_turns_of_an_agent_and_its_branch_queue(memory: Memory) -> None:
    model = HeldModel()
    agent = made(memory, model)
    branch = agent.branch()
    async with anyio.create_task_group() as group:
        group.start_soon(agent.send, "one")
        await model.wait_for_call()
        group.start_soon(branch.send, "two")
        await anyio.wait_all_tasks_blocked()
        assert len(model.calls) == 1
        model.calls[0].answer("1")
        (await model.wait_for_call(2)).answer("2")
    assert [text for _, text in spoken(await stored(agent.memory))] == ["one", "1", "two", "2"]


async def test_a_turn_of_a_branch_within_one_of_its_agent_is_refused(memory: Memory) -> None:
    """It would wait for the turn around it, for ever."""
    refused: list[type[Exception]] = []

    @tool
    async def ask_branch() -> str:
        """Ask the branch."""
        try:
            await branch.send("and you?")
        except AutonomyCtxError as error:
            refused.append(type(error))
        return "asked"

    agent = made(memory, ScriptedModel([calls(call("ask_branch")), "ok"]), ask_branch, turn_wait_seconds=0.5)
    branch = agent.branch()
    assert (await agent.send("go")).text == "ok"
    assert refused == [TurnWithinTurn]


@pytest.mark.parametrize(
    "data",
    [
        {},
        [],
        {"name": 3},
        {"name": "a", "options": 5},
        {"name": "a", "options": {"nonsense": 1}},
        {"name": "a", "tools": "find_things"},
        {"name": "a", "turns": [{}]},
        {"name": "a", "tools": ["no such tool"]},
        {"name": "a", "hooks": {"after_turn": ["no such hook"]}},
        {"name": "a", "subagents": ["helper"]},
        {"name": "a/b"},
    ],
    ids=repr,
)
def test_a_broken_dict_is_refused_with_an_error_of_ours(data: Any) -> None:
    from autonomy_ctx import AutonomyCtxError

    with pytest.raises(AutonomyCtxError):
        Agent.from_dict(data)


async def test_an_agent_is_a_tool_of_another_in_its_scope_and_conversation(memory: Memory) -> None:
    expert = Agent("the expert", "Knows.\nMore.", model=ScriptedModel("42"), memory=memory)
    as_tool = expert.as_tool()
    assert (as_tool.name, as_tool.description) == ("the_expert", "Knows.")
    named = expert.as_tool(name="oracle", description="Ask it.")
    assert (named.name, named.description) == ("oracle", "Ask it.")
    model = ScriptedModel([calls(call("the_expert", message="what is it?")), "It is 42."])
    agent = made(memory, model, as_tool)
    assert (await agent.send("ask", scope="ana", conversation="trip")).text == "It is 42."
    assert spoken(await stored(expert.memory, "ana", "trip")) == [
        ("user", "what is it?"),
        ("assistant", "42"),
    ]
    assert await expert(question="again?") == "42"


@pytest.mark.parametrize("name", ["", "a/b", "x" * 129, "a\nb", "a\0b", 5])
def test_a_name_that_cannot_be_is_refused(name: Any) -> None:
    with pytest.raises(ValueError, match="agent"):
        Agent(name)
