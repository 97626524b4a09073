"""Turns of one conversation in several processes: each has a memory and an agent of its own on one store."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import anyio
import pytest
from agents.kit import assert_valid, call, calls, made, spoken, stored, users

from autonomy_ctx import Memory, MemoryHook, hook, tool
from autonomy_ctx.agents.agent import Agent
from autonomy_ctx.agents.options import AgentHook
from autonomy_ctx.errors import AgentClosed, TurnLost, TurnWaitTimeout
from autonomy_ctx.memory.in_process import InProcessStore
from autonomy_ctx.memory.store import Key
from autonomy_ctx.testing import HeldModel, ScriptedModel, StoppedClock

KEY = Key("helper", "default", "default")


@pytest.fixture
def clock() -> StoppedClock:
    return StoppedClock()


@pytest.fixture
async def memories(tmp_path: Path, clock: StoppedClock) -> AsyncIterator[list[Memory]]:
    """As two processes have them."""
    opened = [Memory(f"sqlite:///{tmp_path}/memory.db", clock=clock) for _ in range(2)]
    yield opened
    for memory in opened:
        await memory.close()


async def take_turn(memory: Memory, key: Key = KEY) -> bool:
    """Whether nobody has the turn now; then it is taken."""
    return (await memory.store.begin_turn(key, [], owner="test", seconds=10)).positions is not None


# -- given back ------------------------------------------------------------------------------------------


@pytest.mark.usefixtures("short_grace")
@pytest.mark.parametrize(
    "how", ["answer", "error", "cancel", "close", "stream", "empty", "steps", "question"]
)
async def test_the_turn_is_given_back_however_it_ends(memories: list[Memory], how: str) -> None:
    held = HeldModel()
    options: dict[str, Any] = {"limits": {"steps": 1}, "enable_ask_for_user_input": True}
    agent = made(memories[0], held, **options)

    events = agent.stream("hi")

    async def close() -> None:
        asked = await held.wait_for_call()
        match how:
            case "answer":
                asked.answer("ok")
            case "error":
                asked.answer(RuntimeError("broken"))
            case "close":
                await agent.close()
            case "stream":
                await events.aclose()
            case "empty":
                asked.answer("")
            case "steps":
                asked.answer(calls(call("get_current_time_utc")))
            case "question":
                asked.answer(calls(call("ask_user_for_input", question="Which?")))
            case _:
                scope.cancel()

    async with anyio.create_task_group() as group:
        group.start_soon(close)
        with anyio.CancelScope() as scope:
            if how == "error":
                with pytest.raises(RuntimeError):
                    await agent.send("hi")
            elif how == "close":
                with pytest.raises(AgentClosed):
                    await agent.send("hi")
            elif how == "stream":
                assert [event async for event in events] == []
            else:
                await agent.send("hi")
    assert await take_turn(memories[1])
    history = await stored(agent.memory)
    assert users(history) == ["hi"]
    assert_valid(history)
    await agent.close()


async def test_who_is_cancelled_in_the_line_leaves_it(memories: list[Memory]) -> None:
    held = HeldModel()
    first, second = made(memories[0], held), made(memories[1], ScriptedModel())
    async with anyio.create_task_group() as group:
        group.start_soon(first.send, "one")
        asked = await held.wait_for_call()
        async with anyio.create_task_group() as waiting:
            waiting.start_soon(second.send, "two")
            while not second.get_metrics()["turns_waited"]:
                await anyio.lowlevel.checkpoint()
            waiting.cancel_scope.cancel()
        asked.answer("1")
    assert users(await stored(first.memory)) == ["one"]
    assert await take_turn(memories[0])


@pytest.mark.usefixtures("short_grace")
async def test_a_close_waits_until_the_turns_are_given_back(tmp_path: Path) -> None:
    held = HeldModel()
    memory = Memory(f"sqlite:///{tmp_path}/memory.db")
    agent = made(memory, held)

    async def send(text: str) -> None:
        with pytest.raises(AgentClosed):
            await agent.send(text)

    async with anyio.create_task_group() as group:
        for text in ("one", "two"):
            group.start_soon(send, text)
        await held.wait_for_call()
        await agent.close()
        await memory.close()
    async with Memory(f"sqlite:///{tmp_path}/memory.db") as again:
        assert await take_turn(again)


# -- order -----------------------------------------------------------------------------------------------


async def test_turns_of_two_processes_do_not_interleave(memories: list[Memory]) -> None:
    model = HeldModel()
    agents = [made(memory, model) for memory in memories]
    async with anyio.create_task_group() as group:
        for number in range(6):
            group.start_soon(agents[number % 2].send, str(number))
            await anyio.wait_all_tasks_blocked()
            # Whoever has not begun has a place in the line of the store.
            while await _tickets(memories[0]) != number + 1:
                await anyio.lowlevel.checkpoint()
        for number in range(6):
            asked = await model.wait_for_call(number + 1)
            assert asked.messages[-1]["content"] == str(number)
            assert users(await stored(agents[0].memory)) == [str(n) for n in range(number + 1)]
            asked.answer(f"answer {number}")
    said = [text for _, text in spoken(await stored(agents[0].memory))]
    assert said == [text for number in range(6) for text in (str(number), f"answer {number}")]
    assert sum(int(agent.get_metrics()["turns_waited"]) for agent in agents) == 5
    assert await take_turn(memories[0])


async def _tickets(memory: Memory) -> int:
    """How many tickets were given."""
    store: Any = memory.store
    return int(await store.run_read(_last_ticket))


def _last_ticket(connection: Any) -> int:
    found = connection.execute(
        "SELECT last_ticket FROM conversation WHERE agent = ? AND scope = ? AND conversation = ?", KEY
    ).fetchone()
    return 0 if found is None else found[0]


async def test_an_answer_in_another_process_answers_the_question(memories: list[Memory]) -> None:
    question = calls(call("ask_user_for_input", question="Which?"))
    held = HeldModel()
    asks = made(memories[0], held, enable_ask_for_user_input=True)
    answers = made(memories[1], ScriptedModel("done"), enable_ask_for_user_input=True)
    replies: list[str] = []

    async def answer() -> None:
        replies.append((await answers.send("the red one")).text)

    async with anyio.create_task_group() as group:
        group.start_soon(asks.send, "paint it")
        asked = await held.wait_for_call()
        # It was sent before there was a question, and its turn comes after.
        group.start_soon(answer)
        while not answers.get_metrics()["turns_waited"]:
            await anyio.lowlevel.checkpoint()
        asked.answer(question)
    assert replies == ["done"]
    history = await stored(asks.memory)
    assert [message.role.value for message in history] == ["user", "assistant", "tool", "assistant"]
    assert history[2].text == "the red one"


async def test_hooks_are_asked_in_the_turn(memories: list[Memory]) -> None:
    heard: list[str] = []

    @hook(AgentHook.BEFORE_TURN)
    def before(scope: str, conversation: str, message: Any) -> None:
        heard.append(message.text)

    @hook(MemoryHook.BEFORE_APPEND)
    def append(scope: str, conversation: str, messages: Any) -> None:
        heard.extend(message.text for message in messages)

    memories[1].hooks.append(append)
    held = HeldModel()
    first, second = made(memories[0], held), made(memories[1], ScriptedModel("2"), hooks=[before])
    async with anyio.create_task_group() as group:
        group.start_soon(first.send, "one")
        asked = await held.wait_for_call()
        group.start_soon(second.send, "two")
        while not second.get_metrics()["turns_waited"]:
            await anyio.lowlevel.checkpoint()
        assert heard == []
        asked.answer("1")
    assert heard == ["two", "two", "2"]
    assert users(await stored(first.memory)) == ["one", "two"]


async def test_mail_comes_with_the_turn_that_reads_it(memories: list[Memory]) -> None:
    held = HeldModel()
    first, second = made(memories[0], held), made(memories[1], ScriptedModel("2"))
    writer = Agent("writer", memory=memories[1], model=ScriptedModel())
    async with anyio.create_task_group() as group:
        group.start_soon(first.send, "one")
        asked = await held.wait_for_call()
        await writer.message("helper", "a note")
        group.start_soon(second.send, "two")
        while not second.get_metrics()["turns_waited"]:
            await anyio.lowlevel.checkpoint()
        asked.answer("1")
    texts = [text for _, text in spoken(await stored(first.memory))]
    assert texts[:2] == ["one", "1"]
    assert "a note" in texts[2]
    assert texts[3:] == ["two", "2"]


async def test_edits_of_the_log_wait_for_a_turn_of_another_process(memories: list[Memory]) -> None:
    held = HeldModel()
    first, second = made(memories[0], held), made(memories[1], ScriptedModel())
    dropped: list[int] = []

    async def drop() -> None:
        dropped.append(await second.drop_last_turn())

    async with anyio.create_task_group() as group:
        group.start_soon(first.send, "one")
        asked = await held.wait_for_call()
        group.start_soon(drop)
        while not second.get_metrics()["turns_waited"]:
            await anyio.lowlevel.checkpoint()
        asked.answer("1")
    assert dropped == [2]
    assert await take_turn(memories[0])


async def test_agents_that_share_a_log_may_ask_each_other_inside_a_turn(memory: Memory) -> None:
    """What the inner one writes belongs to the turn of the outer one."""
    log = memory.for_agent("team")
    inner = Agent("inner", model=ScriptedModel("inside"), memory=log)
    outer = Agent(
        "outer",
        tools=[inner.as_tool()],
        model=ScriptedModel([calls(call("inner", message="you?")), "outside"]),
        memory=log,
    )
    with anyio.fail_after(20):
        assert (await outer.send("hi")).text == "outside"
    texts = [message.text for message in await stored(log)]
    assert texts == ["hi", "you?", "inside", "", "inside", "outside"]
    assert await take_turn(memory, KEY._replace(agent="team"))


async def test_a_turn_gives_up_after_the_time_it_may_wait(memories: list[Memory]) -> None:
    held = HeldModel()
    first = made(memories[0], held)
    second = made(memories[1], ScriptedModel(), turn_wait_seconds=0.01)
    async with anyio.create_task_group() as group:
        group.start_soon(first.send, "one")
        asked = await held.wait_for_call()
        with pytest.raises(TurnWaitTimeout, match="turn_wait_seconds"):
            await second.send("two")
        asked.answer("1")
    assert users(await stored(first.memory)) == ["one"]
    assert await take_turn(memories[0]), "it has left the line"


@pytest.mark.parametrize("lease", [None, 10.0])
async def test_the_time_to_wait_holds_in_one_process_too(memory: Memory, lease: float | None) -> None:
    held = HeldModel()
    agent = made(memory, held, turn_lease_seconds=lease, turn_wait_seconds=0.01)
    async with anyio.create_task_group() as group:
        group.start_soon(agent.send, "one")
        asked = await held.wait_for_call()
        with pytest.raises(TurnWaitTimeout):
            await agent.send("two")
        asked.answer("1")
    assert users(await stored(agent.memory)) == ["one"]


@pytest.mark.parametrize("options", [{"turn_lease_seconds": 0}, {"turn_wait_seconds": -1}])
def test_seconds_that_mean_nothing_are_refused(options: dict[str, Any]) -> None:
    with pytest.raises(ValueError, match=next(iter(options))):
        Agent("helper", model=ScriptedModel(), **options)


async def test_without_leases_turns_of_two_processes_interleave(memories: list[Memory]) -> None:
    held = HeldModel()
    agents = [made(memory, held, turn_lease_seconds=None) for memory in memories]
    async with anyio.create_task_group() as group:
        for number, agent in enumerate(agents, start=1):
            group.start_soon(agent.send, str(number))
            await held.wait_for_call(number)
        for asked in held.calls:
            asked.answer("ok")
    assert users(await stored(agents[0].memory)) == ["1", "2"]


# -- lost ------------------------------------------------------------------------------------------------


async def test_a_turn_that_was_replaced_writes_nothing_more(
    memories: list[Memory], clock: StoppedClock
) -> None:
    held, heard = HeldModel(), list[str]()
    slow, other = made(memories[0], held), made(memories[1], ScriptedModel("quick"))

    async def send() -> None:
        with pytest.raises(TurnLost):
            await slow.send("one")
        heard.append("lost")

    async with anyio.create_task_group() as group:
        group.start_soon(send)
        asked = await held.wait_for_call()
        clock.advance(10)
        assert (await other.send("two")).text == "quick"
        asked.answer("late")
    assert heard == ["lost"]
    history = await stored(slow.memory)
    assert spoken(history) == [("user", "one"), ("user", "two"), ("assistant", "quick")]
    assert_valid(history)
    assert slow.get_metrics()["turns_lost"] == other.get_metrics()["turns_taken_over"] == 1
    # What the lost turn was shown is not kept either: the newest turn is that of the other one.
    assert (await slow.explain()).messages[-1].text == "two"


async def test_tools_of_a_lost_turn_write_nothing_more(memories: list[Memory], clock: StoppedClock) -> None:
    other = made(memories[1], ScriptedModel("quick"))

    @tool
    async def note(memory: Any, scope: str, conversation: str) -> str:
        """Write into the log."""
        clock.advance(10)
        await other.send("two")
        await memory.add_message(scope, conversation, {"role": "user", "content": "a note"})
        return "noted"

    slow = made(memories[0], ScriptedModel([calls(call("note")), "late"]), note)
    with pytest.raises(TurnLost):
        await slow.send("one")
    assert [text for _, text in spoken(await stored(slow.memory))] == ["one", "two", "quick"]


class NotingStore(InProcessStore):
    """Counts the renewals."""

    def __init__(self, **options: Any) -> None:
        super().__init__(**options)
        self.renewals = 0
        self.renewed = anyio.Event()

    async def renew_turn(self, key: Key, ticket: int, *, owner: str, seconds: float) -> bool:
        self.renewals += 1
        found = await super().renew_turn(key, ticket, owner=owner, seconds=seconds)
        self.renewed.set()
        self.renewed = anyio.Event()
        return found


async def test_leases_are_renewed_beside_the_turns(clock: StoppedClock) -> None:
    # By a clock that stands still no lease ends, however late a busy machine renews it.
    store, held = NotingStore(clock=lambda: clock().timestamp()), HeldModel()
    agent = made(Memory(store=store), held, turn_lease_seconds=0.05)
    async with anyio.create_task_group() as group:
        for text in ("one", "two"):
            group.start_soon(agent.send, text)
        with anyio.fail_after(30):
            while store.renewals < 6:
                await store.renewed.wait()
        for number in (1, 2):
            (await held.wait_for_call(number)).answer("ok")
    assert len(await stored(agent.memory)) == 4
    await agent.close()


async def test_a_turn_that_finds_out_by_a_renewal_is_ended(clock: StoppedClock) -> None:
    """Its model does not answer: nothing else would tell it."""
    store, held = NotingStore(clock=lambda: clock().timestamp()), HeldModel()
    slow = made(Memory(store=store), held, turn_lease_seconds=0.05)
    other = made(Memory(store=store), ScriptedModel("quick"))
    async with anyio.create_task_group() as group:

        async def send() -> None:
            with pytest.raises(TurnLost):
                await slow.send("one")

        group.start_soon(send)
        await held.wait_for_call()
        clock.advance(10)
        with anyio.fail_after(30):
            # A renewal may come first: then it has the turn for longer.
            with anyio.CancelScope():
                while (await store.begin_turn(KEY, [], owner="test", seconds=10)).positions is None:
                    await store.leave_turn(KEY, None, owner="test")
                    clock.advance(10)
    await store.leave_turn(KEY, None, owner="test")
    assert (await other.send("two")).text == "quick"
    assert users(await stored(other.memory)) == ["one", "two"]
    await slow.close()


async def test_agents_can_be_used_in_one_loop_after_another(tmp_path: Path) -> None:
    agent = made(Memory(f"sqlite:///{tmp_path}/memory.db"), ScriptedModel("ok"))

    def run(text: str) -> None:
        anyio.run(agent.send, text)

    for text in ("one", "two"):
        await anyio.to_thread.run_sync(run, text)
    assert users(await stored(agent.memory)) == ["one", "two"]
    await agent.memory.close()
