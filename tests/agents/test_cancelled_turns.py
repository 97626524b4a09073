"""Cancel a turn at every point where it waits: the history stays usable and the next turn works."""

from __future__ import annotations

import gc
from collections.abc import AsyncIterator, Coroutine, Iterator
from pathlib import Path
from typing import Any

import anyio
import pytest
from agents.kit import assert_valid, call, calls, stored, users
from memory.test_cancel import Cancelled, Suspended

from autonomy_ctx import ChatRole, ContextItem, Memory, MemoryHook, hook, tool
from autonomy_ctx.agents.agent import Agent
from autonomy_ctx.agents.node import Node
from autonomy_ctx.agents.reply import ToolAnswered, TurnEnded
from autonomy_ctx.formats.outgoing import repair_messages
from autonomy_ctx.testing import ScriptedModel


@pytest.fixture(params=["asyncio scope", "asyncio task", "trio scope"])
def setting(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture
def anyio_backend(setting: str) -> str:
    return setting.split()[0]


@pytest.fixture
def cancelled(setting: str) -> Cancelled:
    return Cancelled(setting.split()[1])


@pytest.fixture(autouse=True)
def _no_task_is_lost(caplog: pytest.LogCaptureFixture) -> Iterator[None]:
    yield
    gc.collect()
    assert [record for record in caplog.records if record.name == "asyncio"] == []


@tool
async def find(place: str) -> AsyncIterator[Any]:
    """Find things."""
    await anyio.lowlevel.checkpoint()
    yield ContextItem(f"seen in {place}")
    await anyio.lowlevel.checkpoint()
    yield ContextItem("a map", "a map", "map")


@tool
def count(upto: int) -> list[int]:
    """Count, in a thread."""
    return list(range(upto))


def script() -> ScriptedModel:
    """Every turn calls three tools at once, then one, then answers."""

    def answer(asked: Any) -> Any:
        since = [message["role"] for message in asked.messages]
        rounds = since[::-1].index("user")
        made = [role for role in since[len(since) - rounds :] if role == "assistant"]
        match len(made):
            case 0:
                return calls(call("find", place="Rome"), call("count", upto=3), call("nothing"))
            case 1:
                return calls(call("count", upto=2), text="one more")
        return "done"

    return ScriptedModel([answer])


@pytest.mark.parametrize("store", ["in_process", "sqlite"])
async def test_a_turn_cancelled_anywhere_leaves_a_history_for_the_next_one(
    tmp_path: Path, cancelled: Cancelled, store: str
) -> None:
    url = None if store == "in_process" else f"sqlite:///{tmp_path}/memory.db"
    memory = Memory(url, hooks=[hesitate])
    agent = Agent("helper", tools=[find, count], model=script(), memory=memory)
    await agent.send("warm up", conversation="other")

    def turn(at: int) -> Coroutine[Any, Any, Any]:
        return agent.send(f"try {at}", conversation=f"c{at}", message_id=f"m{at}")

    async def check(at: int) -> None:
        name = f"c{at}"
        history = await stored(agent.memory, "default", name)
        assert_valid(history)
        assert len(agent._turn_queue) == 0
        assert users(history) in ([], [f"try {at}"])
        reply = await agent.send(f"try {at}", conversation=name, message_id=f"m{at}")
        assert reply.stop == "end"
        after = await stored(agent.memory, "default", name)
        assert users(after) == [f"try {at}"]
        assert after[: len(history)] == history, "facts are never rewritten"
        results = [message.tool_call_id for message in after if message.role is ChatRole.TOOL]
        assert len(set(results)) == len(results), "no result is kept twice"
        assert (await agent.send("next", conversation=name)).text == "done"
        assert_valid(await stored(agent.memory, "default", name))
        assert await agent.explain(conversation=name)

    with anyio.fail_after(120):
        await cancelled.everywhere(turn, check)
    await agent.close()
    await memory.close()


@hook(MemoryHook.BEFORE_APPEND)
async def hesitate(*what: Any) -> None:
    """A place to be cancelled before anything is stored."""
    await anyio.lowlevel.checkpoint()


@pytest.mark.parametrize("store", ["in_process", "sqlite"])
async def test_what_a_tool_has_done_is_kept_wherever_the_turn_is_cancelled_after_it(
    tmp_path: Path, cancelled: Cancelled, store: str
) -> None:
    done: list[int] = []

    @tool
    async def pay(number: int) -> str:
        """Pay."""
        await anyio.lowlevel.checkpoint()
        done.append(number)
        return "paid"

    url = None if store == "in_process" else f"sqlite:///{tmp_path}/memory.db"
    memory = Memory(url, hooks=[hesitate])

    def answer(asked: Any) -> Any:
        return calls(call("pay", number=1)) if asked.messages[-1]["role"] == "user" else "ok"

    agent = Agent("helper", tools=[pay], model=ScriptedModel([answer]), memory=memory)

    async def check(at: int) -> None:
        history = await stored(agent.memory, "default", f"c{at}")
        kept = [message for message in history if message.role is ChatRole.TOOL]
        assert len(kept) == len(done)
        assert_valid(history)
        done.clear()

    await cancelled.everywhere(lambda at: agent.send("pay", conversation=f"c{at}"), check)
    await agent.close()
    await memory.close()


async def test_what_has_ended_is_kept_when_a_call_beside_it_is_cancelled() -> None:
    @tool
    async def pay() -> list[Any]:
        """Pay."""
        return ["paid", ContextItem("all of it", "a receipt", "receipt"), ContextItem("a remark")]

    @tool
    async def hang() -> None:
        """Hang."""
        await anyio.sleep_forever()

    model = ScriptedModel([calls(call("hang"), call("pay")), "ok"])
    agent = Agent("helper", tools=[pay, hang], model=model)
    async with agent.stream("pay") as stream:
        assert isinstance(await anext(stream), ToolAnswered)
    user, called, result = await stored(agent.memory)
    assert len(called.tool_calls) == 2
    assert result.text.startswith("paid")
    assert [item.content for item in (*agent.context_queue, *agent.context_pool)] == ["a remark", "all of it"]
    assert_valid([user, called, result])
    assert (await agent.send("and?")).text == "ok"
    assert "interrupted" in str(repair_messages(await stored(agent.memory)).messages).lower()
    await agent.close()


async def test_listening_cancelled_anywhere_leaves_a_history_for_the_next_turn(cancelled: Cancelled) -> None:
    memory = Memory()
    agent = Agent("helper", tools=[find, count], model=script(), memory=memory)

    async def listen(at: int) -> None:
        async for _ in agent.stream("hi", conversation=f"c{at}"):
            await anyio.lowlevel.checkpoint()

    async def check(at: int) -> None:
        with anyio.fail_after(20):
            await agent._background.idle()
            assert len(agent._turn_queue) == 0
            history = await stored(agent.memory, "default", f"c{at}")
            assert_valid(history)
            events = [event async for event in agent.stream("next", conversation=f"c{at}")]
        assert isinstance(events[-1], TurnEnded)
        assert events[-1].reply.text == "done"

    await cancelled.everywhere(listen, check)
    await agent.close()


async def test_turns_that_wait_can_be_cancelled_anywhere_and_disturb_nobody(cancelled: Cancelled) -> None:
    agent = Agent("helper", tools=[find, count], model=script(), memory=Memory())
    measured = Suspended(agent.send("measure", conversation="m"), 0, bool)
    await measured
    for at in range(1, measured.count + 1):
        name = f"c{at}"
        async with anyio.create_task_group() as group:
            for text in ("one", "two"):

                async def send(text: str = text, name: str = name) -> None:
                    await agent.send(text, conversation=name)

                group.start_soon(send)
            await anyio.lowlevel.checkpoint()
            await cancelled(agent.send("gives up", conversation=name), at)
        said = users(await stored(agent.memory, "default", name))
        assert sorted(set(said) - {"gives up"}) == ["one", "two"]
        assert len(agent._turn_queue) == 0
    await agent.close()


@pytest.mark.parametrize("owner", ["agent", "node"])
async def test_close_cancelled_anywhere_still_closes_everything(
    cancelled: Cancelled, tmp_path: Path, owner: str
) -> None:
    closed: list[int] = []

    class Closing(ScriptedModel):
        async def close(self) -> None:
            closed.append(1)

    at = 0
    while True:
        at += 1
        model = Closing("ok")
        node = Node(memory=f"sqlite:///{tmp_path}/{at}.db") if owner == "node" else None
        if node is not None:
            agent = await Agent.start(node=node, name="helper", instructions="", model=model)
        else:
            agent = Agent("helper", model=model)
        await agent.send("hi")
        reached = await cancelled((node or agent).close(), at)
        assert len(closed) == at
        if not reached:
            break
    assert at > 1 or owner == "agent", "it was never suspended, so nothing was tested"
