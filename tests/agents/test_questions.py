"""Asking the user: the turn pauses, and the next message is the answer."""

from __future__ import annotations

from typing import Any

import anyio
import anyio.from_thread
import pytest
from agents.kit import add_up, assert_valid, call, calls, made, stored, users

from autonomy_ctx import ImageContent, Memory, TextContent, tool
from autonomy_ctx.errors import ConflictingMessage
from autonomy_ctx.testing import ScriptedModel


def asked(question: str) -> Any:
    return call("ask_user_for_input", question=question)


async def test_a_question_pauses_the_turn_and_the_next_message_answers_it(memory: Memory) -> None:
    model = ScriptedModel([calls(asked("Which day?"), call("add_up", a=1, b=2)), "Booked."])
    agent = made(memory, model, add_up, enable_ask_for_user_input=True)
    reply = await agent.send("book a table")
    assert (reply.stop, reply.question, reply.text) == ("waiting_for_input", "Which day?", "Which day?")
    waiting = await stored(agent.memory)
    assert waiting[1].phase == "waiting_for_input"
    assert [message.role.value for message in waiting] == ["user", "assistant", "tool"]
    assert (await agent.send("Friday")).text == "Booked."
    history = await stored(agent.memory)
    assert users(history) == ["book a table"]
    assert (history[3].role.value, history[3].text) == ("tool", "Friday")
    assert_valid(history)
    assert agent.get_metrics()["turns_waiting_for_input"] == 1


async def test_an_answer_to_several_questions_answers_them_all(memory: Memory) -> None:
    model = ScriptedModel([calls(asked("Day?"), asked("Time?")), "Booked."])
    agent = made(memory, model, enable_ask_for_user_input=True)
    assert (await agent.send("book")).question == "Day?\nTime?"
    await agent.send([TextContent("Friday at 8, here:"), ImageContent("https://x.test/map.png")])
    history = await stored(agent.memory)
    assert [message.role.value for message in history] == ["user", "assistant", "tool", "tool", "assistant"]
    assert len(history[2].parts) == 2
    assert_valid(history)


@pytest.mark.parametrize("other", [("default", "other"), ("bob", "default")])
async def test_a_question_is_answered_in_its_own_conversation_only(
    memory: Memory, other: tuple[str, str]
) -> None:
    model = ScriptedModel([calls(asked("Which day?")), "Hello.", "Booked."])
    agent = made(memory, model, enable_ask_for_user_input=True)
    await agent.send("book a table")
    scope, conversation = other
    assert (await agent.send("hi", scope=scope, conversation=conversation)).text == "Hello."
    assert users(await stored(agent.memory, *other)) == ["hi"]
    assert (await agent.send("Friday")).text == "Booked."
    assert users(await stored(agent.memory)) == ["book a table"]


async def test_an_answer_or_a_request_sent_again_is_no_second_answer(memory: Memory) -> None:
    model = ScriptedModel([calls(asked("Day?")), RuntimeError("cut off"), "Booked.", "Booked again."])
    agent = made(memory, model, enable_ask_for_user_input=True)
    await agent.send("book", message_id="m1")
    again = await agent.send("book", message_id="m1")
    assert (again.stop, again.question) == ("waiting_for_input", "Day?")
    assert len(model.calls) == 1
    with pytest.raises(RuntimeError):
        await agent.send("Friday", message_id="m2")
    assert (await agent.send("Friday", message_id="m2")).text == "Booked."
    with pytest.raises(ConflictingMessage):
        await agent.send("Monday", message_id="m2")
    history = await stored(agent.memory)
    assert [message.role.value for message in history] == ["user", "assistant", "tool", "assistant"]


async def test_a_question_of_a_turn_that_was_cut_short_was_never_asked(memory: Memory) -> None:
    started = anyio.Event()

    @tool
    async def hang() -> None:
        """Hang."""
        started.set()
        await anyio.sleep_forever()

    model = ScriptedModel([calls(asked("Sure?"), call("hang")), "ok"])
    agent = made(memory, model, hang, enable_ask_for_user_input=True)
    async with anyio.create_task_group() as group:
        group.start_soon(agent.send, "delete all")
        await started.wait()
        group.cancel_scope.cancel()
    assert (await agent.send("yes please, tell me the time")).text == "ok"
    assert users(await stored(agent.memory)) == ["delete all", "yes please, tell me the time"]


async def test_a_question_that_asks_nothing_is_an_error_for_the_model(memory: Memory) -> None:
    model = ScriptedModel([calls(call("ask_user_for_input")), "sorry"])
    agent = made(memory, model, enable_ask_for_user_input=True)
    assert (await agent.send("hi")).text == "sorry"
    assert (await stored(agent.memory))[2].is_error
