"""An agent's turns: what is kept and when, how a turn may end, and what may stand in for a model."""

from __future__ import annotations

import base64
from collections.abc import AsyncIterator, Mapping
from pathlib import Path
from typing import Any

import anyio
import anyio.from_thread
import pytest
from agents.kit import add_up, assert_valid, broken, call, calls, made, spoken, stored, users
from formats.test_foreign import SHAPES, objects
from summary_models import refusing

from autonomy_ctx import (
    ContextOverflow,
    ContextSection,
    ContextTemplate,
    ConversationHistorySection,
    ImageContent,
    InvalidMessage,
    Memory,
    MemoryHook,
    Message,
    ModelReply,
    StoreError,
    SystemInstructionsSection,
    TextContent,
    TextDelta,
    ToolCall,
    TurnEnded,
    Usage,
    hook,
    tool,
)
from autonomy_ctx.agents.agent import Agent
from autonomy_ctx.agents.options import TurnLimits
from autonomy_ctx.errors import ConflictingMessage, InvalidAgent, InvalidModelReply, UserMessageMissing
from autonomy_ctx.memory.page import read_page
from autonomy_ctx.messages.message import Part
from autonomy_ctx.testing import HeldModel, ScriptedModel, StoppedClock

# -- one turn --------------------------------------------------------------------------------------------


async def test_a_turn_answers_and_keeps_both_sides(memory: Memory) -> None:
    agent = made(memory, ScriptedModel("Hello Ana."))
    reply = await agent.send("hi", scope="ana", conversation="trip")
    assert (str(reply), reply.stop, reply.steps, reply.question) == ("Hello Ana.", "end", 1, None)
    history = await stored(agent.memory, "ana", "trip")
    assert spoken(history) == [("user", "hi"), ("assistant", "Hello Ana.")]
    assert [message.agent for message in history] == [None, "helper"]
    assert [message.id for message in reply.messages] == [history[1].id]
    shown = await agent.history(scope="ana", conversation="trip", limit=1)
    assert [message["content"] for message in shown] == ["Hello Ana."]
    assert await stored(agent.memory, "ana", "other") == []
    await agent.close()


async def test_all_messages_of_a_turn_are_dated_by_the_clock_of_the_agent(memory: Memory) -> None:
    clock = StoppedClock()
    model = ScriptedModel([calls(call("add_up", a=1, b=2)), "3"])
    agent = made(memory, model, add_up, clock=clock)
    await agent.send("What is 1 + 2?")
    history = await stored(agent.memory)
    assert [message.role for message in history] == ["user", "assistant", "tool", "assistant"]
    assert {message.created_at for message in history} == {clock()}


async def test_the_message_is_stored_before_the_model_is_called(memory: Memory) -> None:
    model = HeldModel()
    agent = made(memory, model)
    async with anyio.create_task_group() as group:
        group.start_soon(agent.send, "hi")
        asked = await model.wait_for_call()
        assert spoken(await stored(agent.memory)) == [("user", "hi")]
        assert asked.messages[-1]["content"] == "hi"
        asked.answer("yes")
    assert spoken(await stored(agent.memory))[-1] == ("assistant", "yes")


async def test_the_model_is_told_the_instructions_and_the_tools(memory: Memory) -> None:
    model = ScriptedModel("ok")
    agent = made(memory, model, add_up, instructions="Be brief.", limits={"output_tokens": 50})
    await agent.send("hi")
    [asked] = model.calls
    assert asked.messages[0]["content"] == {"type": "text", "text": "Be brief."}
    assert "add_up" in [spec["name"] for spec in asked.options["tools"]]
    assert (asked.options["max_tokens"], asked.options["stream"]) == (50, False)


async def test_a_call_and_its_results_are_stored_together(memory: Memory) -> None:
    held = anyio.Event()
    running = anyio.Event()

    @tool
    async def wait() -> str:
        """Wait."""
        running.set()
        await held.wait()
        return "waited"

    kept: list[list[str]] = []

    @hook(MemoryHook.AFTER_APPEND)
    def note(scope: str, conversation: str, messages: list[Message]) -> None:
        kept.append([message.role.value for message in messages])

    memory.hooks.append(note)
    model = ScriptedModel([calls(call("wait"), call("add_up", a=1, b=2), text="Let me see."), "done"])
    agent = made(memory, model, wait, add_up)
    async with anyio.create_task_group() as group:
        group.start_soon(agent.send, "go")
        await running.wait()
        assert spoken(await stored(agent.memory)) == [("user", "go")]
        held.set()
    assert spoken(await stored(agent.memory)) == [
        ("user", "go"),
        ("assistant", "Let me see."),
        ("tool", "waited"),
        ("tool", "3"),
        ("assistant", "done"),
    ]
    # In one step, so that no kill can come between them.
    assert kept == [["user"], ["assistant", "tool", "tool"], ["assistant"]]
    assert [message["role"] for message in model.calls[1].messages[-3:]] == ["assistant", "tool", "tool"]
    assert agent.get_metrics()["tool_calls"] == 2


async def test_what_goes_wrong_in_a_tool_is_told_to_the_model(memory: Memory) -> None:
    wrong = calls(call("broken"), call("nonsense"), call("add_up", a="x"))
    model = ScriptedModel([wrong, "I see."])
    agent = made(memory, model, broken, add_up)
    assert (await agent.send("go")).text == "I see."
    results = (await stored(agent.memory))[2:5]
    assert all(result.is_error for result in results)
    assert "the pipe is frozen" in results[0].text
    assert "nonsense" in results[1].text
    assert agent.get_metrics()["tool_errors"] == 3
    assert_valid(await stored(agent.memory))


@pytest.mark.parametrize("failure", [RuntimeError("away"), {"garbage": 1}, None, 42], ids=repr)
async def test_a_failed_turn_leaves_a_history_that_the_next_turn_can_use(
    memory: Memory, failure: Any
) -> None:
    model = ScriptedModel([calls(call("add_up", a=1, b=2)), failure, "there"])
    agent = made(memory, model, add_up)
    with pytest.raises(RuntimeError if isinstance(failure, Exception) else InvalidModelReply):
        await agent.send("first")
    assert agent.get_metrics()["turns_failed"] == 1
    assert_valid(await stored(agent.memory))
    assert (await agent.send("second")).text == "there"
    assert users(await stored(agent.memory)) == ["first", "second"]
    assert len(agent._turn_queue) == 0


async def test_a_message_without_an_answer_is_refused_before_it_is_kept(memory: Memory) -> None:
    agent = made(memory, ScriptedModel("ok"))
    with pytest.raises(InvalidMessage, match="must have the role 'user'"):
        await agent.send(Message("assistant", "I am you"))
    with pytest.raises(InvalidAgent, match="no model"):
        await Agent("mute", memory=memory).send("hi")
    assert await stored(agent.memory) == []


async def test_a_message_sent_twice_under_its_id_is_kept_once(memory: Memory) -> None:
    model = ScriptedModel([RuntimeError("cut off"), "second try"])
    agent = made(memory, model)
    with pytest.raises(RuntimeError):
        await agent.send("pay 5", message_id="m-1")
    assert (await agent.send("pay 5", message_id="m-1")).text == "second try"
    assert users(await stored(agent.memory)) == ["pay 5"]
    with pytest.raises(ConflictingMessage):
        await agent.send("pay 500", message_id="m-1")
    assert len(model.calls) == 2
    for said in (Message("user", "pay 5"), {"role": "user", "content": "pay 5", "id": "other"}):
        await agent.send(said, message_id="m-1")
    assert users(await stored(agent.memory)) == ["pay 5"]


async def test_a_message_sent_again_after_its_answer_runs_no_tool_and_asks_no_model(memory: Memory) -> None:
    paid: list[int] = []

    @tool
    def pay(amount: int) -> str:
        """Pay."""
        paid.append(amount)
        return "paid"

    model = ScriptedModel([calls(call("pay", amount=5)), "Paid 5.", "Hello."])
    agent = made(memory, model, pay)
    first = await agent.send("pay 5", message_id="m-1")
    history = await stored(agent.memory)
    again = await agent.send("pay 5", message_id="m-1")
    assert (again.text, again.stop, again.steps) == ("Paid 5.", "end", 0)
    assert again.messages == first.messages
    # Also when the conversation has gone on.
    await agent.send("hello")
    streamed = [event async for event in agent.stream("pay 5", message_id="m-1")]
    assert [event.text for event in streamed if isinstance(event, TextDelta)] == ["Paid 5."]
    assert isinstance(streamed[-1], TurnEnded)
    assert streamed[-1].reply.text == "Paid 5."
    assert (paid, len(model.calls)) == ([5], 3)
    assert (await stored(agent.memory))[: len(history)] == history
    assert agent.get_metrics()["turns_answered_before"] == 2


async def test_a_turn_that_failed_after_its_tools_goes_on_from_there_when_sent_again(memory: Memory) -> None:
    model = ScriptedModel([calls(call("add_up", a=2, b=3)), RuntimeError("cut off"), "It is 5."])
    agent = made(memory, model, add_up)
    with pytest.raises(RuntimeError):
        await agent.send("2 and 3?", message_id="m-1")
    again = await agent.send("2 and 3?", message_id="m-1")
    assert (again.text, again.steps) == ("It is 5.", 1)
    roles = [message.role.value for message in await stored(agent.memory)]
    assert roles == ["user", "assistant", "tool", "assistant"]


async def test_a_message_may_have_parts_and_pictures(memory: Memory) -> None:
    model = ScriptedModel("a cat")
    agent = made(memory, model)
    picture = ImageContent.from_bytes(base64.b64decode("iVBORw0KGgo="))
    parts: list[Part] = [TextContent("what is this?"), picture]
    await agent.send(parts)
    await agent.send({"role": "user", "content": "and a dict?"})
    await agent.send(Message("user", "and a message?"))
    first, _, second, _, third, _ = await stored(agent.memory)
    assert first.parts == tuple(parts)
    assert (second.text, third.text) == ("and a dict?", "and a message?")
    assert "image" in str(model.calls[0].messages[-1]["content"])


# -- how a turn may end ----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("answer", "stop", "text"),
    [
        ("", "end", ""),
        (ModelReply(stop="end"), "end", ""),
        (ModelReply(parts=(TextContent("no"),), stop="refused"), "refused", "no"),
        (ModelReply(stop="refused"), "refused", ""),
        ({"content": "half an ans", "finish_reason": "length"}, "length", "half an ans"),
        (ModelReply(parts=(TextContent("x"),), stop="pause_turn"), "pause_turn", "x"),
        (ModelReply(parts=(TextContent("x"),)), "end", "x"),
    ],
)
async def test_the_reply_says_why_the_model_stopped(
    memory: Memory, answer: Any, stop: str, text: str
) -> None:
    agent = made(memory, ScriptedModel([answer, "next"]))
    reply = await agent.send("hi")
    assert (reply.stop, reply.text) == (stop, text)
    assert_valid(await stored(agent.memory))
    assert (await agent.send("again")).text == "next"


async def test_a_turn_ends_at_its_limit_of_steps_with_all_kept(memory: Memory) -> None:
    def again(_: object) -> Any:
        return calls(call("add_up", a=1, b=1), text="once more")

    agent = made(memory, ScriptedModel([again]), add_up, limits=TurnLimits(steps=3))
    reply = await agent.send("count")
    assert (reply.stop, reply.steps, reply.text) == ("steps", 3, "once more")
    history = await stored(agent.memory)
    assert [message.role.value for message in history] == ["user", *(["assistant", "tool"] * 3)]
    assert tuple(history[1:]) == reply.messages
    assert_valid(history)


async def test_a_turn_ends_at_its_limit_of_tokens(memory: Memory) -> None:
    def again(_: object) -> ModelReply:
        usage = Usage(input_tokens=400, output_tokens=100, cached_tokens=7)
        added = ToolCall(None, "add_up", '{"a": 1, "b": 1}')
        return ModelReply(tool_calls=(added,), usage=usage, stop="tools")

    agent = made(memory, ScriptedModel([again]), add_up, limits={"tokens": 1000})
    reply = await agent.send("count")
    assert (reply.stop, reply.steps) == ("tokens", 2)
    assert (reply.usage.input_tokens, reply.usage.output_tokens, reply.usage.cached_tokens) == (800, 200, 14)
    assert agent.get_metrics()["input_tokens"] == 800


@pytest.mark.parametrize(
    "limits", [{"steps": 0}, {"tokens": -1}, {"tool_timeout": 0}, {"steps": True}, {"stepz": 1}]
)
def test_a_limit_that_means_nothing_is_refused(limits: Any) -> None:
    with pytest.raises(
        ValueError, match=r"TurnLimits: \w+ must be .*(>= 1|> 0)|known names are steps, tokens"
    ):
        Agent("helper", limits=limits)


async def test_why_summaries_were_refused_is_among_the_counters(memory: Memory) -> None:
    agent = Agent(
        "helper",
        model=ScriptedModel("ok"),
        memory=memory,
        context_summary={"model": ScriptedModel(""), "floor": 2, "ceiling": 4},
    )
    for _ in range(4):
        await agent.send("and now?")
        await agent.settled()
    metrics = agent.get_metrics()
    assert metrics["summary_refused_by_reason"] == {"empty": 1}
    assert metrics["summaries_refused"] == 1
    # No word stands twice, and the names of 0.2 are found.
    assert [name for name in metrics if name.startswith("summary_summar")] == []
    for former in ("summary_summaries_refused", "summary_summarizer_calls", "summary_summary_seconds"):
        with pytest.warns(DeprecationWarning, match=former):
            assert metrics[former] == metrics[former.removeprefix("summary_")]
    for unknown in ("summary_turns", "summary_summaries", "turn"):
        with pytest.raises(KeyError, match=unknown):
            metrics[unknown]
    await agent.close()


async def test_overflow_is_met_with_one_smaller_context(memory: Memory) -> None:
    overflow = ContextOverflow("scripted", window=None)
    model = ScriptedModel(["a", overflow, "fits", overflow, overflow, "fine"])
    agent = made(memory, model)
    await agent.send("long " * 500)
    reply = await agent.send("short")
    assert (reply.text, reply.steps) == ("fits", 2)
    assert len(model.calls[2].prompt) < len(model.calls[1].prompt)
    assert model.calls[2].messages[-1]["content"] == "short"
    with pytest.raises(ContextOverflow):
        await agent.send("once more")
    assert len(model.calls) == 5
    assert (await agent.send("and again")).text == "fine"
    assert agent.get_metrics()["overflow_retries"] == 2


async def test_the_overflow_of_a_foreign_client_is_met_with_a_smaller_context(
    memory: Memory,
) -> None:
    refused = refusing(400, "This model's maximum context length is 4096 tokens. You sent more.")
    model = ScriptedModel(["a", refused, "fits"])
    agent = made(memory, model)
    await agent.send("long " * 500)
    assert (await agent.send("short")).text == "fits"
    assert len(model.calls[2].prompt) < len(model.calls[1].prompt)
    assert agent.get_metrics()["overflow_retries"] == 1


async def test_a_known_window_is_never_overfilled(memory: Memory) -> None:
    model = ScriptedModel("ok", context_window=2000)
    agent = made(memory, model)
    for number in range(12):
        await agent.send(f"{number} " + "word " * 300)
    last = await agent.explain()
    assert last.budget is not None
    assert last.budget.used <= 1800
    assert model.calls[-1].messages[-1]["content"].startswith("11 ")


async def test_a_context_without_the_newest_message_is_not_sent(memory: Memory) -> None:
    class Forgetful(ContextSection):
        async def get_messages(self, memory: Any, scope: str, conversation: str, params: Any) -> list[Any]:
            return [{"role": "user", "content": "something else"}]

    template = ContextTemplate([SystemInstructionsSection("Be."), Forgetful("odd")])
    model = ScriptedModel("never")
    agent = made(memory, model, context_template=template)
    with pytest.raises(UserMessageMissing, match="odd"):
        await agent.send("hi")
    assert model.calls == []
    assert users(await stored(agent.memory)) == ["hi"]


async def test_params_reach_the_sections(memory: Memory) -> None:
    class Weather(ContextSection):
        async def get_messages(self, memory: Any, scope: str, conversation: str, params: Any) -> list[Any]:
            return [{"role": "system", "content": f"It is {params['weather']} for {scope}."}]

    template = ContextTemplate([Weather("weather"), ConversationHistorySection()])
    model = ScriptedModel("ok")
    await made(memory, model, context_template=template).send("hi", scope="ana", params={"weather": "wet"})
    assert model.calls[0].messages[0]["content"] == "It is wet for ana."


async def test_one_can_wait_until_no_summary_is_being_written(memory: Memory) -> None:
    writer = HeldModel()
    summary = {"model": writer, "floor": 2, "ceiling": 4}
    agent = Agent("helper", model=ScriptedModel("Noted."), memory=memory, context_summary=summary)
    await agent.settled()
    for number in range(1, 4):
        await agent.send(f"Night {number} is in Porto.")
    held = await writer.wait_for_call()
    with anyio.move_on_after(0):
        await agent.settled()
        pytest.fail("a summary is still being written")
    held.answer("Done\n- Night 1 is in Porto.")
    await agent.settled()
    assert len((await agent.summary()).segments) == 1
    await agent.close()


def test_a_summary_and_a_template_together_are_refused_with_advice() -> None:
    template = ContextTemplate([ConversationHistorySection()])
    for summary in (True, {}, {"floor": 5}):
        with pytest.raises(ValueError, match=r"context_summary .*context_template"):
            Agent("helper", context_summary=summary, context_template=template)
    Agent("helper", context_summary=False, context_template=template)


# -- the store fails -------------------------------------------------------------------------------------


class Failing(ScriptedModel):
    """Takes the store away, then fails itself, or answers."""

    def __init__(self, memory: Memory, answer: Any) -> None:
        super().__init__([answer])
        self._memory = memory

    async def complete_chat(self, messages: Any, **options: Any) -> Any:
        await self._memory.close()
        return await super().complete_chat(messages, **options)


async def test_a_store_that_is_away_does_not_hide_why_a_turn_failed(tmp_path: Path) -> None:
    memory = Memory(f"sqlite:///{tmp_path}/away.db")
    with pytest.raises(KeyError, match="the first reason"):
        await made(memory, Failing(memory, KeyError("the first reason"))).send("hi")
    again = Memory(f"sqlite:///{tmp_path}/away.db")
    agent = made(again, Failing(again, "an answer that cannot be kept"))
    with pytest.raises(StoreError):
        await agent.send("hi")
    last = Memory(f"sqlite:///{tmp_path}/away.db")
    assert users(await stored(last.for_agent("helper"))) == ["hi", "hi"]
    await last.close()


# -- stand-ins for a model -------------------------------------------------------------------------------


class Plain:
    """A plain function, which knows no options."""

    def complete_chat(self, messages: list[Any]) -> str:
        return f"plain: {messages[-1]['content']}"


class Awaitable:
    """A plain function that gives something to await."""

    def complete_chat(self, messages: list[Any], tools: Any = None) -> Any:
        async def answer() -> Mapping[str, Any]:
            return {"content": f"{len(tools)} tools"}

        return answer()


class Pieces:
    """Answers in pieces, whether or not anybody listens."""

    async def complete_chat(self, messages: list[Any], **options: Any) -> AsyncIterator[str]:
        for piece in ("in ", "pieces"):
            yield piece


@pytest.mark.parametrize(
    ("model", "text"), [(Plain(), "plain: hi"), (Awaitable(), "2 tools"), (Pieces(), "in pieces")]
)
async def test_anything_with_complete_chat_can_answer(memory: Memory, model: Any, text: str) -> None:
    agent = made(memory, model)
    assert (await agent.send("hi")).text == text
    assert spoken(await stored(agent.memory)) == [("user", "hi"), ("assistant", text)]


@pytest.mark.parametrize("as_objects", [False, True])
@pytest.mark.parametrize("shape", SHAPES)
async def test_replies_of_every_provider_call_tools(memory: Memory, shape: str, as_objects: bool) -> None:
    looked: list[str] = []

    @tool
    def look(city: str, finish_reason: Any = None) -> str:
        """Look."""
        looked.append(city)
        return "nice"

    reply = objects(SHAPES[shape]) if as_objects else SHAPES[shape]
    agent = made(memory, ScriptedModel([reply, "It is nice."]), look)
    assert (await agent.send("how is it?")).text == "It is nice."
    assert looked == ["Rome"]
    assert_valid(await stored(agent.memory))


def test_what_cannot_answer_is_refused_as_a_model() -> None:
    with pytest.raises(InvalidAgent, match="complete_chat"):
        Agent("helper", model=object())  # type: ignore[arg-type]  # that is the mistake


async def test_a_context_takes_no_more_than_the_limit_says(memory: Memory) -> None:
    model = ScriptedModel("fine")
    agent = Agent("short", "You help.", model=model, memory=memory, limits={"context_tokens": 400})
    await agent.memory.append("default", "default", *(Message("user", f"{n} " * 50) for n in range(40)))
    await agent.send("What now?")
    context = await agent.explain()
    assert context.budget is not None
    assert context.budget.used <= 400
    assert context.messages[-1].text == "What now?"
    assert context.cut


@pytest.mark.parametrize(
    "nothing",
    ["", " \n\t", [], [TextContent("")], Message("user", ""), {"role": "user", "content": ""}],
    ids=["text", "spaces", "no parts", "a part", "message", "dict"],
)
async def test_a_message_that_says_nothing_is_refused_and_not_stored(memory: Memory, nothing: Any) -> None:
    model = ScriptedModel("ok")
    agent = made(memory, model)
    with pytest.raises(InvalidMessage, match=r"`content` is empty; send a text or an image"):
        await agent.send(nothing)
    with pytest.raises(InvalidMessage, match="is empty"):
        agent.stream(nothing)
    assert (await stored(agent.memory), model.calls) == ([], [])
    image = ImageContent("https://example.org/map.png")
    await agent.send([image])
    assert len(model.calls) == 1
    await agent.close()


# -- long results ----------------------------------------------------------------------------------------


def lines(count: int) -> str:
    return "".join(f"{number:09}\n" for number in range(count))


async def send_with_result(memory: Memory, text: str, **options: Any) -> tuple[Agent, ScriptedModel]:
    @tool
    def read_log() -> str:
        """Read the log."""
        return text

    model = ScriptedModel([calls(call("read_log")), "done"])
    agent = made(memory, model, read_log, **options)
    await agent.send("what does it say?")
    return agent, model


async def test_64_kb_of_a_long_result_are_shown_and_all_of_it_is_kept(memory: Memory) -> None:
    whole = lines(90_000)
    agent, model = await send_with_result(memory, whole, limits={"tool_result_tokens": None})
    shown = model.calls[-1].messages[-1]["content"]
    assert len(shown.encode()) <= 64_000
    assert shown.startswith(whole[:40_000])
    assert shown.endswith(whole[-20_000:])
    assert "of 900,000 bytes are not shown here" in shown
    [result] = [message for message in await stored(agent.memory) if message.role == "tool"]
    assert result.text == shown
    kept = await agent.memory.get_full_message("default", "default", result.id)
    assert kept is not None
    assert kept["content"] == whole
    page = await read_page(agent.memory, "default", "default", first=3, last=3, offset=300_000)
    assert f"{30_000:09}" in page.text
    await agent.close()


async def test_of_a_result_over_1_mb_its_ends_are_kept(memory: Memory) -> None:
    whole = lines(300_000)
    agent, _ = await send_with_result(memory, whole)
    [result] = [message for message in await stored(agent.memory) if message.role == "tool"]
    kept = await agent.memory.get_full_message("default", "default", result.id)
    assert kept is not None
    assert 990_000 < len(kept["content"].encode()) <= 1_000_000
    assert "of 3,000,000 bytes are not shown here" in kept["content"]
    await agent.close()


async def test_the_limit_of_a_turn_is_what_the_model_is_shown(memory: Memory) -> None:
    agent, model = await send_with_result(memory, lines(1_000), limits={"tool_output": 500})
    assert len(model.calls[-1].messages[-1]["content"].encode()) <= 500
    await agent.close()
    short = lines(10)
    agent, model = await send_with_result(memory, short, limits={"tool_output": 500})
    assert model.calls[-1].messages[-1]["content"] == short
    await agent.close()
