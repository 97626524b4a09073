"""A turn that is listened to: what is told and in which order, and what becomes of it when nobody listens."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Any

import anyio
import pytest
from agents.kit import assert_valid, call, calls, spoken, stored, users

from autonomy_ctx import (
    CallStarted,
    ContextOverflow,
    Memory,
    Message,
    Model,
    ModelReply,
    ReplyFinished,
    TextContent,
    TextDelta,
    ThinkingContent,
    ThinkingDelta,
    ToolCall,
    tool,
)
from autonomy_ctx.agents.agent import Agent
from autonomy_ctx.agents.node import Node
from autonomy_ctx.agents.reply import ToolAnswered, TurnEnded
from autonomy_ctx.errors import AgentClosed, InvalidModelReply
from autonomy_ctx.testing import HeldModel, ScriptedModel


@tool
async def look(place: str) -> str:
    """Look somewhere."""
    return f"nothing in {place}"


class Speaking:
    """Streams the events it is given, one list after the other; an exception among them is raised."""

    name = "speaking"

    def __init__(self, *turns: list[Any]) -> None:
        self._turns = list(turns)
        self.closed = 0

    async def complete_chat(self, messages: Any, **options: Any) -> AsyncIterator[Any]:
        assert options["stream"]
        return self._events(self._turns.pop(0))

    async def _events(self, events: list[Any]) -> AsyncIterator[Any]:
        try:
            for event in events:
                await anyio.lowlevel.checkpoint()
                if isinstance(event, Exception):
                    raise event
                yield event
        finally:
            self.closed += 1


def finished(*parts: Any, made: tuple[ToolCall, ...] = ()) -> ReplyFinished:
    return ReplyFinished(ModelReply(parts=parts, tool_calls=made, stop="tools" if made else "end"))


def helper(memory: Memory, model: Any, *tools: Any) -> Agent:
    return Agent("helper", tools=tools, model=model, memory=memory)


async def test_events_come_in_order_and_their_text_is_the_reply(memory: Memory) -> None:
    looked = ToolCall("c1", "look", '{"place": "Rome"}')
    model = Speaking(
        [
            ThinkingDelta("hm"),
            TextDelta("I look"),
            TextDelta("."),
            CallStarted("c1", "look"),
            finished(ThinkingContent("hm"), TextContent("I look."), made=(looked,)),
        ],
        [TextDelta("Nothing "), TextDelta("there."), finished(TextContent("Nothing there."))],
    )
    agent = helper(memory, model, look)
    stream = agent.stream("what is in Rome?", scope="ana", conversation="trip", message_id="m1")
    events = [event async for event in stream]
    assert [type(event) for event in events] == [
        ThinkingDelta,
        TextDelta,
        TextDelta,
        CallStarted,
        ToolAnswered,
        TextDelta,
        TextDelta,
        TurnEnded,
    ]
    answered, ended = events[4], events[-1]
    assert isinstance(answered, ToolAnswered)
    assert isinstance(ended, TurnEnded)
    assert (answered.call, answered.message.text) == (looked, "nothing in Rome")
    told = "".join(event.text for event in events[5:] if isinstance(event, TextDelta))
    assert told == ended.reply.text == "Nothing there."
    history = await stored(agent.memory, "ana", "trip")
    assert history[0].id == "m1"
    assert tuple(history[1:]) == ended.reply.messages
    assert history[2] == answered.message or history[2].text == answered.message.text
    assert model.closed == 2
    assert [event async for event in stream] == []
    assert_valid(history)


async def test_a_model_that_knows_nothing_of_streams_answers_in_one_piece(memory: Memory) -> None:
    events = [event async for event in helper(memory, ScriptedModel("hello")).stream("hi")]
    assert events[:1] == [TextDelta("hello")]
    assert isinstance(events[1], TurnEnded)
    quiet = [event async for event in helper(memory, ScriptedModel("")).stream("hi")]
    assert [type(event) for event in quiet] == [TurnEnded]


async def test_a_real_model_is_streamed(memory: Memory) -> None:
    agent = helper(memory, Model("offline"))
    events = [event async for event in agent.stream("hello there")]
    ended = events[-1]
    assert isinstance(ended, TurnEnded)
    assert "".join(event.text for event in events if isinstance(event, TextDelta)) == ended.reply.text
    assert spoken(await stored(agent.memory))[-1] == ("assistant", ended.reply.text)


async def test_a_stream_of_plain_text_is_an_answer(memory: Memory) -> None:
    agent = helper(memory, Speaking(["some ", "text"]))
    events = [event async for event in agent.stream("hi")]
    assert events[:2] == [TextDelta("some "), TextDelta("text")]
    assert spoken(await stored(agent.memory))[-1] == ("assistant", "some text")


@pytest.mark.parametrize(
    "events", [[], [CallStarted("c1", "look")], [{"odd": 1}], [TextDelta("so"), 42]], ids=repr
)
async def test_a_stream_that_gives_no_answer_is_an_invalid_reply(memory: Memory, events: list[Any]) -> None:
    model = Speaking(events, [TextDelta("fine"), finished(TextContent("fine"))])
    agent = helper(memory, model)
    with pytest.raises(InvalidModelReply):
        [event async for event in agent.stream("hi")]
    assert model.closed == 1
    assert users(await stored(agent.memory)) == ["hi"]
    assert isinstance([event async for event in agent.stream("again")][-1], TurnEnded)


async def test_an_error_reaches_the_listener_once_after_what_was_said(memory: Memory) -> None:
    agent = helper(memory, Speaking([TextDelta("well, "), RuntimeError("cut off")]))
    stream = agent.stream("hi")
    assert await anext(stream) == TextDelta("well, ")
    with pytest.raises(RuntimeError, match="cut off"):
        await anext(stream)
    assert [event async for event in stream] == []
    assert spoken(await stored(agent.memory)) == [("user", "hi")]


async def test_after_some_of_an_answer_was_heard_no_other_follows_it(memory: Memory) -> None:
    overflow = ContextOverflow("speaking", window=None)
    model = Speaking([TextDelta("well, "), overflow], ["never"])
    late = helper(memory, model)
    # Something to leave out: without it there is no smaller context to try.
    await late.memory.append("default", "default", Message("user", "long " * 2000))
    stream = late.stream("hi")
    assert await anext(stream) == TextDelta("well, ")
    with pytest.raises(ContextOverflow):
        await anext(stream)
    assert model.closed == 1
    early = helper(memory, Speaking([overflow], ["a shorter way"]))
    events = [event async for event in early.stream("hi")]
    assert events[0] == TextDelta("a shorter way")


async def test_leaving_the_loop_lets_the_turn_end_by_itself(memory: Memory) -> None:
    model = HeldModel()
    agent = helper(memory, model, look)
    async with anyio.create_task_group() as group:

        async def listen() -> None:
            async for event in agent.stream("hi"):
                assert isinstance(event, ToolAnswered)
                break

        group.start_soon(listen)
        (await model.wait_for_call()).answer(calls(call("look", place="Rome")))
        last = await model.wait_for_call(2)
    last.answer("done")
    # The next turn of the conversation waits for the one that nobody listens to.
    async with anyio.create_task_group() as group:
        group.start_soon(agent.send, "next")
        (await model.wait_for_call(3)).answer("ok")
    said = [text for _, text in spoken(await stored(agent.memory))]
    assert said == ["hi", "", "nothing in Rome", "done", "next", "ok"]
    await agent.close()


async def test_closing_the_stream_cancels_the_turn(memory: Memory) -> None:
    model = HeldModel()
    agent = helper(memory, model, look)
    with anyio.fail_after(10):
        async with agent.stream("hi") as stream:
            async with anyio.create_task_group() as group:

                async def first() -> None:
                    assert isinstance(await anext(stream), ToolAnswered)

                group.start_soon(first)
                (await model.wait_for_call()).answer(calls(call("look", place="Rome")))
            await model.wait_for_call(2)
    assert agent._background.running == 0
    assert len(agent._turn_queue) == 0
    assert [event async for event in stream] == []
    history = await stored(agent.memory)
    assert [message.role.value for message in history] == ["user", "assistant", "tool"]
    assert_valid(history)


async def test_a_stream_closed_before_it_began_begins_nothing(memory: Memory) -> None:
    model = ScriptedModel("never")
    agent = helper(memory, model)
    stream = agent.stream("hi")
    await stream.aclose()
    assert [event async for event in stream] == []
    assert model.calls == []
    assert await stored(agent.memory) == []


async def test_cancelling_whoever_listens_cancels_the_turn(memory: Memory) -> None:
    model = HeldModel()
    agent = helper(memory, model)
    async with anyio.create_task_group() as group:

        async def listen() -> None:
            async for _ in agent.stream("hi"):
                pass

        group.start_soon(listen)
        await model.wait_for_call()
        group.cancel_scope.cancel()
    await agent._background.idle()
    assert len(agent._turn_queue) == 0
    assert users(await stored(agent.memory)) == ["hi"]


async def test_streams_of_one_conversation_queue_too(memory: Memory) -> None:
    model = HeldModel()
    agent = helper(memory, model)
    async with anyio.create_task_group() as group:

        async def listen(text: str) -> None:
            async for _ in agent.stream(text):
                pass

        group.start_soon(listen, "one")
        await model.wait_for_call()
        group.start_soon(listen, "two")
        await anyio.wait_all_tasks_blocked()
        model.calls[0].answer("1")
        (await model.wait_for_call(2)).answer("2")
    assert [text for _, text in spoken(await stored(agent.memory))] == ["one", "1", "two", "2"]


@pytest.mark.usefixtures("short_grace")
@pytest.mark.parametrize("hosted", [False, True])
async def test_closing_the_agent_meanwhile_is_told_to_the_listener(memory: Memory, hosted: bool) -> None:
    model = HeldModel()
    async with Node(memory=memory) as node:
        agent = (
            await Agent.start(node=node, name="helper", instructions="", model=model)
            if hosted
            else helper(memory, model)
        )
        ended: list[str] = []

        async def listen(text: str) -> None:
            with pytest.raises(AgentClosed):
                async for _ in agent.stream(text):
                    pass
            ended.append(text)

        with anyio.fail_after(5):
            async with anyio.create_task_group() as group:
                group.start_soon(listen, "hangs")
                await model.wait_for_call()
                group.start_soon(listen, "waits")
                await anyio.wait_all_tasks_blocked()
                await agent.close()
        assert sorted(ended) == ["hangs", "waits"]
        with pytest.raises(AgentClosed):
            [event async for event in agent.stream("too late")]
        assert users(await stored(agent.memory)) == ["hangs"]


async def test_a_bad_message_is_refused_before_there_is_a_stream(memory: Memory) -> None:
    agent = helper(memory, ScriptedModel("ok"))
    with pytest.raises(ValueError, match="role"):
        agent.stream({"role": "tool", "content": "x"})


# -- readers that are slow ----------------------------------------------------------------------------


@pytest.mark.parametrize("bounded", [True, False])
async def test_a_turn_waits_for_its_reader_only_where_there_is_a_bound(bounded: bool) -> None:
    memory = Memory()
    model = Speaking([*[TextDelta("x" * 1000)] * 50, finished(TextContent("x" * 50_000))])
    async with helper(memory, model) as agent:
        stream = agent.stream("Go on.")
        if bounded:
            stream.max_buffered = 3_000
        assert await anext(stream) == TextDelta("x" * 1000)
        await anyio.wait_all_tasks_blocked()
        if bounded:
            assert 3_000 < stream.buffered <= 3_000 + 1_200
            assert not model.closed
        else:
            assert stream.buffered > 49 * 1000
            assert model.closed
        *rest, last = [event async for event in stream]
        assert (len(rest), type(last), stream.buffered) == (49, TurnEnded, 0)


async def test_a_turn_that_waits_for_its_reader_ends_when_the_stream_is_closed() -> None:
    memory = Memory()
    model = Speaking([TextDelta("x" * 1000)] * 50)
    async with helper(memory, model) as agent:
        async with agent.stream("Go on.") as stream:
            stream.max_buffered = 1
            await anext(stream)
            await anyio.wait_all_tasks_blocked()
        assert model.closed
        assert users(await stored(memory.for_agent("helper"))) == ["Go on."]


async def test_results_of_tools_wait_for_the_reader_too() -> None:
    memory, begun = Memory(), list[str]()

    @tool
    async def fetch(page: str) -> str:
        """Fetch a page."""
        begun.append(page)
        return page * 1000

    made = calls(*(call("fetch", page=page) for page in "abcdef"))
    model, limits = ScriptedModel([made, "ok"]), {"parallel_tools": 1}
    async with Agent("helper", tools=[fetch], model=model, memory=memory, limits=limits) as agent:
        stream = agent.stream("All of it.")
        stream.max_buffered = 1_500
        assert isinstance(await anext(stream), ToolAnswered)
        await anyio.wait_all_tasks_blocked()
        assert begun == ["a", "b", "c"]
        assert isinstance([event async for event in stream][-1], TurnEnded)
        assert len(begun) == 6
