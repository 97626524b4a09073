"""Agents write to each other: once, in order of urgency, and never across scopes."""

from __future__ import annotations

from typing import Any

import pytest

from autonomy_ctx import (
    Agent,
    ContextItem,
    ContextTemplate,
    InboxSection,
    InvalidMessage,
    Memory,
    PoolSection,
    QueueSection,
    tool,
)
from autonomy_ctx.errors import AgentClosed
from autonomy_ctx.messages.transcript import nonce, wrap_untrusted
from autonomy_ctx.sections.history import ConversationHistorySection
from autonomy_ctx.testing import ScriptedModel, StoppedClock


def from_writer(content: str) -> str:
    """Mail as a model reads it."""
    return f"[Direct message from writer]\n{wrap_untrusted('mail', content, nonce(content))}"


WHERE: dict[str, Any] = {"scope": "ana", "conversation": "plan"}


def shown(model: ScriptedModel, at: int = -1) -> list[str]:
    return [str(message["content"]) for message in model.calls[at].messages]


async def test_mail_is_read_in_the_next_turn_most_urgent_first_and_then_part_of_the_history(
    memory: Memory,
) -> None:
    model = ScriptedModel("done")
    writer, reader = Agent("writer", memory=memory), Agent("reader", model=model, memory=memory)
    await writer.message(to="reader", content="Later: the minutes.", priority=0.2, **WHERE)
    await writer.message(to="reader", content="Now: the migration.", priority=0.9, **WHERE)

    await reader.send("Go on.", **WHERE)
    assert shown(model)[-3:] == [
        from_writer("Now: the migration."),
        from_writer("Later: the minutes."),
        "Go on.",
    ]

    await reader.send("And now?", **WHERE)
    assert sum("the migration" in text for text in shown(model)) == 1
    log = [message["content"] for message in await reader.history(**WHERE)]
    assert log[2:] == ["Go on.", "done", "And now?", "done"]


async def test_mail_of_another_scope_or_conversation_is_not_seen(memory: Memory) -> None:
    model = ScriptedModel("done")
    writer, reader = Agent("writer", memory=memory), Agent("reader", model=model, memory=memory)
    await writer.message(to="reader", content="for bob", scope="bob", conversation="plan")
    await writer.message(to="reader", content="for the trip", scope="ana", conversation="trip")
    await reader.send("Anything?", **WHERE)
    assert not [text for text in shown(model) if "for " in text]


async def test_mail_to_nobody_about_nothing_or_from_a_closed_agent_is_refused(memory: Memory) -> None:
    writer = Agent("writer", memory=memory)
    for to, content, field in (("", "hello", "to"), (" ", "hello", "to"), ("reader", " \n", "content")):
        with pytest.raises(InvalidMessage, match=f"`{field}` is empty"):
            await writer.message(to, content, **WHERE)
    await writer.close()
    with pytest.raises(AgentClosed):
        await writer.message("reader", "hello", **WHERE)


async def test_mail_that_has_expired_is_not_read(memory: Memory) -> None:
    clock, model = StoppedClock(), ScriptedModel("done")
    writer = Agent("writer", memory=memory, clock=clock)
    reader = Agent("reader", model=model, memory=memory, clock=clock)
    await writer.message(to="reader", content="quick", ttl_seconds=600, **WHERE)
    clock.advance(600)
    await reader.send("Anything?", **WHERE)
    assert not [text for text in shown(model) if "quick" in text]


async def test_mail_is_not_lost_when_the_model_fails(memory: Memory) -> None:
    model = ScriptedModel([OSError("down"), "done"])
    writer, reader = Agent("writer", memory=memory), Agent("reader", model=model, memory=memory)
    await writer.message(to="reader", content="the plan", **WHERE)
    with pytest.raises(OSError, match="down"):
        await reader.send("Go on.", **WHERE)
    await reader.send("Once more.", **WHERE)
    assert sum("the plan" in text for text in shown(model)) == 1
    assert sum("the plan" in str(message["content"]) for message in await reader.history(**WHERE)) == 1


async def test_with_an_inbox_mail_comes_into_the_log_too_and_is_shown_again_after_a_failure(
    memory: Memory,
) -> None:
    model = ScriptedModel([OSError("down"), "done"])
    template = ContextTemplate([ConversationHistorySection(), InboxSection()])
    writer = Agent("writer", memory=memory)
    reader = Agent("reader", model=model, memory=memory, context_template=template)
    await writer.message(to="reader", content="the plan", **WHERE)
    with pytest.raises(OSError, match="down"):
        await reader.send("Go on.", **WHERE)
    await reader.send("Once more.", **WHERE)
    assert shown(model) == [from_writer("the plan"), "Go on.", "Once more."]
    texts = [str(message["content"]) for message in await reader.history(**WHERE)]
    assert texts == [from_writer("the plan"), "Go on.", "Once more.", "done"]


async def test_mail_does_not_close_a_question(memory: Memory) -> None:
    ask = {"id": "c1", "name": "ask_user_for_input", "arguments": {"question": "For how many?"}}
    model = ScriptedModel([{"tool_calls": [ask]}, "booked", "fine"])
    writer = Agent("writer", memory=memory)
    reader = Agent("reader", model=model, memory=memory, enable_ask_for_user_input=True)
    await reader.send("A table.", **WHERE)
    await writer.message(to="reader", content="the plan", **WHERE)
    assert str(await reader.send("Two.", **WHERE)) == "booked"
    assert not [text for text in shown(model) if "the plan" in text]
    await reader.send("And?", **WHERE)
    assert shown(model)[-2:] == [from_writer("the plan"), "And?"]


async def test_sections_show_the_items_of_the_conversation_they_are_for(memory: Memory) -> None:
    @tool
    async def find(name: str) -> list[ContextItem[str]]:
        """Find something."""
        return [ContextItem(f"{name} in the queue"), ContextItem(name, description=f"about {name}", id=name)]

    calls = [{"tool_calls": [{"id": "c1", "name": "find", "arguments": {"name": "secret"}}]}]
    model = ScriptedModel([*calls, "found", "nothing"])
    template = ContextTemplate([QueueSection(), PoolSection(), ConversationHistorySection()])
    agent = Agent("finder", tools=[find], model=model, memory=memory, context_template=template)

    await agent.send("Find it.", scope="ana")
    # Found by a call of this turn: what the sections say now stands after its result.
    queue, pool = [text for text in shown(model) if "secret" in text][-2:]
    assert "\nsecret in the queue\n" in queue
    assert "\n- [secret] about secret\n" in pool
    await agent.send("What is there?", scope="bob")
    assert not [text for text in shown(model) if "secret" in text]
