"""Who waits for whom, who never has to, and how all of them end."""

from __future__ import annotations

from typing import Any

import anyio
import anyio.from_thread
import pytest
from agents.kit import call, calls, made, spoken, stored, users

from autonomy_ctx import Memory, tool
from autonomy_ctx.agents.agent import Agent
from autonomy_ctx.errors import AgentClosed, TurnWithinTurn
from autonomy_ctx.testing import HeldModel, ScriptedModel

# -- who waits for whom ----------------------------------------------------------------------------------


async def test_turns_of_one_conversation_queue_and_others_run_side_by_side(memory: Memory) -> None:
    model = HeldModel()
    agent = made(memory, model)
    async with anyio.create_task_group() as group:
        for text in ("one", "two", "three"):
            group.start_soon(agent.send, text)
            await anyio.wait_all_tasks_blocked()
        await model.wait_for_call()

        async def beside(scope: str, conversation: str) -> None:
            await agent.send("beside", scope=scope, conversation=conversation)

        group.start_soon(beside, "default", "other")
        group.start_soon(beside, "other", "default")
        with anyio.fail_after(10):
            await model.wait_for_call(3)
        assert [asked.messages[-1]["content"] for asked in model.calls] == ["one", "beside", "beside"]
        for number, asked in enumerate(list(model.calls)):
            asked.answer(f"answer {number}")
        (await model.wait_for_call(4)).answer("2")
        (await model.wait_for_call(5)).answer("3")
    said = spoken(await stored(agent.memory))
    assert [text for _, text in said] == ["one", "answer 0", "two", "2", "three", "3"]
    assert len(agent._turn_queue) == 0


async def test_an_agent_asked_from_inside_its_own_turn_says_so_at_once(memory: Memory) -> None:
    problems: list[BaseException] = []

    @tool
    async def ask_again(agent: Any) -> str:
        """Ask the same agent."""
        try:
            return str(await agent.send("me?"))
        except TurnWithinTurn as error:
            problems.append(error)
            raise

    @tool
    def ask_from_a_thread(agent: Any) -> str:
        """Ask the same agent from a worker thread."""
        try:
            return str(anyio.from_thread.run(agent.send, "me?"))
        except TurnWithinTurn as error:
            problems.append(error)
            raise

    @tool
    async def listen(agent: Any) -> str:
        """Listen to the same agent."""
        try:
            return "".join([str(event) async for event in agent.stream("me?")])
        except TurnWithinTurn as error:
            problems.append(error)
            raise

    made_at_once = calls(call("ask_again"), call("ask_from_a_thread"), call("listen"))
    model = ScriptedModel([made_at_once, calls(call("listen")), "gave up"])
    agent = made(memory, model, ask_again, ask_from_a_thread, listen)
    with anyio.fail_after(20):
        assert (await agent.send("hi")).text == "gave up"
    assert len(problems) == 4
    assert users(await stored(agent.memory)) == ["hi"]


async def test_two_agents_that_ask_each_other_do_not_wait_for_ever(memory: Memory) -> None:
    async def ask_right(message: str, scope: str, conversation: str) -> str:
        """Ask the right one."""
        return (await right.send(message, scope=scope, conversation=conversation)).text

    left = Agent(
        "left",
        tools=[ask_right],
        model=ScriptedModel([calls(call("ask_right", message="you?"), call("ask_right")), "left is done"]),
        memory=memory,
    )
    right = Agent(
        "right",
        tools=[left.as_tool()],
        model=ScriptedModel([calls(call("left", message="you?")), "right is done"]),
        memory=memory,
    )
    with anyio.fail_after(20):
        assert (await left.send("hi", conversation="c")).text == "left is done"
    answers = await stored(memory.for_agent("right"), "default", "c")
    assert "TurnWithinTurn" in answers[2].text
    assert users(await stored(left.memory, "default", "c")) == ["hi"]


async def test_two_turns_that_need_each_other_end_instead_of_waiting(memory: Memory) -> None:
    """Each agent is in a turn of its own, started by a user, and asks the other one."""
    models = {"left": HeldModel(), "right": HeldModel()}

    async def ask_left(message: str, scope: str, conversation: str) -> str:
        """Ask the left one."""
        return (await agents["left"].send(message, scope=scope, conversation=conversation)).text

    async def ask_right(message: str, scope: str, conversation: str) -> str:
        """Ask the right one."""
        return (await agents["right"].send(message, scope=scope, conversation=conversation)).text

    agents = {
        "left": Agent("left", tools=[ask_right], model=models["left"], memory=memory),
        "right": Agent("right", tools=[ask_left], model=models["right"], memory=memory),
    }
    with anyio.fail_after(20):
        async with anyio.create_task_group() as group:
            for name in agents:
                group.start_soon(agents[name].send, "hi")
            asked = [await models[name].wait_for_call() for name in agents]
            asked[0].answer(calls(call("ask_right", message="you?")))
            await anyio.wait_all_tasks_blocked()
            asked[1].answer(calls(call("ask_left", message="you?")))
            # The one that would have closed the circle is told, and so the other one gets its turn.
            (await models["right"].wait_for_call(2)).answer("right is done")
            (await models["right"].wait_for_call(3)).answer("right answers left")
            (await models["left"].wait_for_call(2)).answer("left is done")
    told = await stored(memory.for_agent("right"))
    assert "TurnWithinTurn" in told[2].text
    assert (await stored(memory.for_agent("left")))[2].text == "right answers left"


async def test_what_a_turn_started_may_ask_once_the_turn_is_over(memory: Memory) -> None:
    model = ScriptedModel([calls(call("later")), "first", "second"])
    async with anyio.create_task_group() as group:
        over = anyio.Event()

        async def ask_later(agent: Agent) -> None:
            await over.wait()
            assert (await agent.send("later")).text == "second"

        @tool
        async def later(agent: Any) -> str:
            """Ask later."""
            group.start_soon(ask_later, agent)
            return "will do"

        agent = made(memory, model, later)
        await agent.send("now")
        over.set()
    assert users(await stored(agent.memory)) == ["now", "later"]


async def test_a_cancelled_turn_lets_the_next_one_go_on(memory: Memory) -> None:
    model = HeldModel()
    agent = made(memory, model)
    async with anyio.create_task_group() as group:
        with anyio.CancelScope() as scope:
            group.start_soon(agent.send, "second")
            scope.cancel()
            await agent.send("never begun")
        asked = await model.wait_for_call()
        asked.answer("ok")
    assert users(await stored(agent.memory)) == ["second"]


# -- closing ---------------------------------------------------------------------------------------------


@pytest.mark.usefixtures("short_grace")
async def test_close_ends_turns_that_hang_and_those_that_wait(memory: Memory) -> None:
    model = HeldModel()
    agent = made(memory, model)
    ended: list[str] = []

    async def ask(text: str) -> None:
        with pytest.raises(AgentClosed):
            await agent.send(text)
        ended.append(text)

    with anyio.fail_after(5):
        async with anyio.create_task_group() as group:
            group.start_soon(ask, "hangs")
            await model.wait_for_call()
            group.start_soon(ask, "waits")
            await anyio.wait_all_tasks_blocked()
            await agent.close()
    assert ended == ["waits", "hangs"]
    assert users(await stored(agent.memory)) == ["hangs"]
    with pytest.raises(AgentClosed):
        await agent.send("too late")
    await agent.close()


async def test_close_lets_a_turn_end_that_is_about_to(memory: Memory) -> None:
    model = HeldModel()
    agent = made(memory, model)
    replies: list[str] = []

    async def ask() -> None:
        replies.append((await agent.send("hi")).text)

    async with anyio.create_task_group() as group:
        group.start_soon(ask)
        asked = await model.wait_for_call()
        group.start_soon(agent.close)
        await anyio.wait_all_tasks_blocked()
        asked.answer("just in time")
    assert replies == ["just in time"]


async def test_a_tool_may_close_its_own_agent(memory: Memory) -> None:
    @tool
    async def stop(agent: Any) -> str:
        """Stop."""
        await agent.close()
        return "stopped"

    agent = made(memory, ScriptedModel([calls(call("stop")), "bye"]), stop)
    with anyio.fail_after(5):
        assert (await agent.send("stop")).text == "bye"
    with pytest.raises(AgentClosed):
        await agent.send("hi")


async def test_a_model_that_cannot_be_closed_keeps_nothing_open() -> None:
    class Odd(ScriptedModel):
        closed = 0

        def close(self) -> None:
            self.closed += 1
            raise OSError("odd")

    model = Odd("ok")
    async with Agent("helper", model=model, subagents={"one": {"model": model}}) as agent:
        await agent.send("hi")
    assert model.closed == 1
