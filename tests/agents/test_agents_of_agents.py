"""Sub-agents are agents of their own: their memory, their limits, and their end with the conversation."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import anyio
import pytest
from agents.kit import assert_valid, call, calls, spoken, stored, users

from autonomy_ctx import ContextItem, Memory, tool
from autonomy_ctx.agents.agent import Agent
from autonomy_ctx.errors import InvalidAgent
from autonomy_ctx.testing import HeldModel, ScriptedModel

RESEARCHER = "helper/researcher-1"


def delegate(task: str, to: str = "researcher") -> Any:
    return call("delegate_to_subagent", subagent=to, task=task)


def parent(
    memory: Memory, *answers: Any, sub: Any = "found it", name: str = "helper", **config: Any
) -> Agent:
    config = {"instructions": "Research.", "model": ScriptedModel(sub), **config}
    return Agent(name, model=ScriptedModel(list(answers)), memory=memory, subagents={"researcher": config})


async def test_a_task_is_delegated_and_the_answer_comes_back(memory: Memory) -> None:
    model = ScriptedModel("Rome has 7 hills.")
    agent = parent(memory, calls(delegate("count the hills")), "There are 7.", model=model)
    assert (await agent.send("how many hills?", scope="ana", conversation="trip")).text == "There are 7."
    result = (await stored(agent.memory, "ana", "trip"))[2]
    assert result.text == "Rome has 7 hills."
    [asked] = model.calls
    assert [message["role"] for message in asked.messages] == ["system", "system", "user"]
    assert "how many hills?" not in asked.prompt
    own = await stored(memory.for_agent(RESEARCHER), "ana", "trip")
    assert spoken(own) == [("user", "count the hills"), ("assistant", "Rome has 7 hills.")]
    await agent.close()


async def test_a_sub_agent_without_a_model_asks_its_parents(memory: Memory) -> None:
    model = ScriptedModel([calls(delegate("look")), "by the sub-agent", "by the parent"])
    agent = Agent("helper", model=model, memory=memory, subagents={"researcher": {"instructions": "Look."}})
    assert (await agent.send("hi")).text == "by the parent"
    assert len(model.calls) == 3
    await agent.close()


async def test_a_sub_agent_goes_on_with_its_own_conversation_also_after_a_restart(tmp_path: Path) -> None:
    url = f"sqlite:///{tmp_path}/memory.db"
    for turn in range(2):
        async with Memory(url) as memory:
            model = ScriptedModel("ok")
            agent = parent(
                memory, calls(delegate(f"a{turn}")), calls(delegate(f"b{turn}")), "done", model=model
            )
            await agent.send("go")
            assert [
                message["content"] for message in model.calls[-1].messages if message["role"] == "user"
            ] == [f"{task}{number}" for number in range(turn + 1) for task in "ab"]
            await agent.close()


async def test_conversations_and_parents_have_sub_agents_of_their_own(memory: Memory) -> None:
    secret = calls(delegate("SECRET"))
    one = parent(memory, secret, "ok", calls(delegate("plain")), "ok", name="one")
    two = parent(memory, calls(delegate("plain")), "ok", name="two")
    await one.send("hi", scope="ana")
    await one.send("hi", scope="bo")
    await two.send("hi", scope="ana")
    for name, scope, task in (("one", "ana", "SECRET"), ("one", "bo", "plain"), ("two", "ana", "plain")):
        own = await stored(memory.for_agent(f"{name}/researcher-1"), scope)
        assert users(own) == [task]
    await one.close()
    await two.close()


async def test_what_goes_wrong_in_a_sub_agent_is_told_to_the_parent(memory: Memory) -> None:
    agent = parent(
        memory, calls(delegate("x")), calls(delegate("y")), "gave up", sub=[RuntimeError("lost"), "fine"]
    )
    assert (await agent.send("go")).text == "gave up"
    history = await stored(agent.memory)
    assert history[2].is_error
    assert "lost" in history[2].text
    assert history[4].text == "fine"
    assert users(await stored(memory.for_agent(RESEARCHER))) == ["x", "y"]
    assert_valid(history)
    await agent.close()


async def test_sub_agents_go_four_deep_and_no_deeper(memory: Memory) -> None:
    models: list[ScriptedModel] = []

    def config(depth: int) -> dict[str, Any]:
        deeper = depth < 6
        models.append(ScriptedModel([calls(delegate(f"level {depth}", "sub")), f"answer {depth}"]))
        return {"model": models[-1], "subagents": {"sub": config(depth + 1)} if deeper else {}}

    agent = Agent(
        "top",
        model=ScriptedModel([calls(delegate("level 0", "sub")), "done"]),
        memory=memory,
        subagents={"sub": config(1)},
    )
    assert (await agent.send("go")).text == "done"
    assert [len(model.calls) for model in models] == [2, 2, 2, 2, 0, 0]
    offered = [spec["name"] for spec in models[3].calls[0].options["tools"]]
    assert "delegate_to_subagent" not in offered
    deepest = await stored(memory.for_agent("top/sub-1/sub-1/sub-1/sub-1"))
    assert deepest[2].is_error
    await agent.close()


async def test_only_so_many_run_at_a_time(memory: Memory) -> None:
    starts = [calls(*(call("start_subagent", name="researcher") for _ in range(10))), "done"]
    agent = parent(memory, *starts)
    await agent.send("start many")
    results = [message for message in await stored(agent.memory) if message.role.value == "tool"]
    assert sum(result.is_error for result in results) == 2
    assert {result.text for result in results if not result.is_error} == {
        f"researcher-{number}" for number in range(1, 9)
    }
    await agent.close()


@tool
def keep(text: str) -> ContextItem[str]:
    """Keep something."""
    return ContextItem(f"kept {text}", "a secret", "secret")


@pytest.mark.parametrize("restarted", [False, True])
async def test_a_deleted_conversation_takes_all_of_its_sub_agents_along(
    tmp_path: Path, restarted: bool
) -> None:
    """Also those with high numbers, those below them, and what running ones hold."""
    url = f"sqlite:///{tmp_path}/memory.db"
    low = ScriptedModel(
        [calls(call("keep", text="SECRET")), "low", calls(call("read_context_item", item_id="secret")), "?"]
    )
    subs = {
        "researcher": {
            "model": ScriptedModel(
                [calls(delegate("SECRET low", "low")), "middle", calls(delegate("again", "low")), "x"]
            ),
            "subagents": {"low": {"model": low, "tools": [keep]}},
        }
    }
    script: list[Any] = [
        calls(delegate("SECRET", "researcher-8")),
        "ok",
        calls(delegate("again", "researcher-8")),
        "ok",
    ]
    paths = ["helper", "helper/researcher-8", "helper/researcher-8/low-1"]
    async with Memory(url) as memory:
        agent = Agent("helper", model=ScriptedModel(script), memory=memory, subagents=subs)
        for scope in ("ana", "bo"):
            await agent.memory.append(scope, "trip", {"role": "user", "content": "before"})
        await agent.send("go", scope="ana", conversation="trip")
        sizes = [len(await stored(memory.for_agent(path), "ana", "trip")) for path in paths]
        assert sizes == [5, 4, 4]
        if restarted:
            await agent.close()
            agent = Agent("helper", model=ScriptedModel("ok"), memory=memory, subagents=subs)
        assert await agent.delete_conversation(scope="ana", conversation="trip") == 13
        for path in paths:
            assert await stored(memory.for_agent(path), "ana", "trip") == []
        assert len(await stored(agent.memory, "bo", "trip")) == 1
        if not restarted:
            await agent.send("go on", scope="ana", conversation="trip")
            told = await stored(memory.for_agent(paths[2]), "ana", "trip")
            assert told[2].is_error, "its pool is empty"
            assert "SECRET" not in "".join(message.text for message in told)
        await agent.close()


@pytest.mark.usefixtures("short_grace")
async def test_closing_a_parent_ends_what_its_sub_agents_do(memory: Memory) -> None:
    model = HeldModel()
    agent = parent(memory, calls(delegate("hang")), "never", model=model)
    with anyio.fail_after(5):
        async with anyio.create_task_group() as group:

            async def ask() -> None:
                with pytest.raises(RuntimeError, match="closed"):
                    await agent.send("go")

            group.start_soon(ask)
            await model.wait_for_call()
            await agent.close()
    assert users(await stored(memory.for_agent(RESEARCHER))) == ["hang"]
    assert_valid(await stored(agent.memory))


async def test_a_cancelled_parent_leaves_a_sub_agent_that_works(memory: Memory) -> None:
    model = HeldModel()
    agent = parent(memory, calls(delegate("hang")), calls(delegate("again")), "done", model=model)
    async with anyio.create_task_group() as group:
        group.start_soon(agent.send, "go")
        await model.wait_for_call()
        group.cancel_scope.cancel()
    async with anyio.create_task_group() as group:
        group.start_soon(agent.send, "go on")
        (await model.wait_for_call(2)).answer("here I am")
    history = await stored(agent.memory)
    assert history[-2].text == "here I am"
    assert_valid(history)
    await agent.close()


@pytest.mark.parametrize(
    "subagents",
    [{"a": {"nonsense": 1}}, {"a": {"memory": None}}, {"": {}}, {"a": {}, "a-1": {}}, {"a\nb": {}}],
    ids=repr,
)
def test_sub_agents_that_cannot_be_are_refused(subagents: Any) -> None:
    with pytest.raises(ValueError, match="sub-agent"):
        Agent("helper", model=ScriptedModel("ok"), subagents=subagents)


def test_a_sub_agents_model_must_be_able_to_answer() -> None:
    with pytest.raises(InvalidAgent, match="complete_chat"):
        Agent("helper", model=ScriptedModel("ok"), subagents={"a": {"model": 5}})
