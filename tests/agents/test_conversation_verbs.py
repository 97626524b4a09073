"""What can be done with an agent's conversations besides taking turns in them."""

from __future__ import annotations

import inspect
from typing import Any

import anyio
import pytest
from agents.kit import add_up, assert_valid, call, calls, made, spoken, stored

from autonomy_ctx import (
    Agent,
    ContextTemplate,
    ConversationHistorySection,
    InboxSection,
    Memory,
    Message,
    tool,
)
from autonomy_ctx.errors import AgentClosed, InvalidKey, InvalidMessage, TurnWithinTurn, UnknownTurn
from autonomy_ctx.memory.encoding import RESULT_LIMIT
from autonomy_ctx.stores import StoredSegment
from autonomy_ctx.testing import HeldModel, ScriptedModel

WHERE: dict[str, Any] = {"scope": "ana", "conversation": "trip"}
# Verbs of a memory that an agent has under the same name: what they take besides scope and conversation.
SHARED = (
    "read",
    "get_message_count",
    "get_full_message",
    "search",
    "summary",
    "pin",
    "unpin",
    "undo_summary",
    "drop_summaries",
    "delete_message",
    "drop_last_turn",
    "fork",
    "delete_conversation",
    "conversations",
    "profile",
)


@pytest.mark.parametrize("verb", SHARED)
def test_a_verb_takes_the_same_as_that_of_a_memory(verb: str) -> None:
    def parameters(kind: type) -> set[str]:
        return set(inspect.signature(getattr(kind, verb)).parameters)

    # An agent lists its own conversations.
    assert parameters(Agent) == parameters(Memory) - ({"agent"} if verb == "conversations" else set())
    for name, parameter in inspect.signature(getattr(Agent, verb)).parameters.items():
        if name == "scope":
            assert parameter.default == "default"
        if name == "conversation" and verb != "search":
            assert parameter.default == "default"


async def test_an_agent_answers_about_its_conversations_where_the_plain_memory_knows_none(
    memory: Memory,
) -> None:
    agent = made(memory, ScriptedModel("At 9:40."))
    await agent.send("When is my ferry?", **WHERE)
    assert await memory.get_message_count("ana", "trip") == 0
    assert await agent.get_message_count(**WHERE) == 2
    window = await agent.read(limit=1, **WHERE)
    assert [(entry.position, entry.message.text) for entry in window.entries] == [(2, "At 9:40.")]
    [hit] = await agent.search("ferry", scope="ana")
    assert (hit.conversation, hit.position) == ("trip", 1)
    assert await agent.search("ferry", scope="ana", conversation="other") == []
    assert await agent.search("ferry") == []


async def test_scope_and_conversation_are_those_of_a_turn_when_they_are_left_out(memory: Memory) -> None:
    agent = made(memory, ScriptedModel("yes"))
    await agent.send("first")
    [entry, _] = (await agent.read()).entries
    assert await agent.get_message_count() == 2
    assert [hit.message.text for hit in await agent.search("first")] == ["first"]
    assert await agent.pin(entry.message.id)
    assert [pinned.message.text for pinned in (await agent.summary()).pins] == ["first"]
    assert await agent.unpin(entry.message.id)
    assert (await agent.summary()).pins == ()
    assert await agent.delete_message(entry.message.id)
    assert not await agent.delete_message(entry.message.id)
    assert not await agent.pin(entry.message.id)
    [info] = await agent.conversations()
    assert (info.agent, info.scope, info.conversation, info.messages) == ("helper", "default", "default", 1)
    assert await agent.delete_conversation() == 1
    assert await agent.conversations() == []


async def test_an_agent_lists_its_own_conversations_and_no_others(memory: Memory) -> None:
    agent = made(memory, ScriptedModel("yes"))
    other = Agent("other", model=ScriptedModel("yes"), memory=memory)
    for name in ("a", "b", "c"):
        await agent.send("hi", scope="ana", conversation=name)
    await other.send("hi", scope="ana", conversation="theirs")
    await agent.send("hi", scope="bob", conversation="d")
    first = await agent.conversations(scope="ana", limit=2)
    rest = await agent.conversations(scope="ana", limit=2, after=first[-1].key)
    assert [info.conversation for info in [*first, *rest]] == ["a", "b", "c"]
    assert [info.agent for info in await memory.conversations("ana")] == ["helper"] * 3 + ["other"]
    assert await memory.agents() == ["helper", "other"]
    assert await memory.scopes() == ["ana", "bob"]


async def test_a_large_result_is_read_whole(memory: Memory) -> None:
    agent = made(memory, ScriptedModel("yes"))
    large = Message("tool", "x" * (RESULT_LIMIT + 10), tool_call_id="c1", id="big")
    await agent.memory.append("ana", "trip", large)
    whole = await agent.get_full_message("big", **WHERE)
    assert whole is not None
    assert len(whole["content"]) == RESULT_LIMIT + 10


async def test_summaries_are_taken_back_and_dropped(memory: Memory) -> None:
    agent = made(memory, ScriptedModel("yes"))
    for text in ("one", "two", "three"):
        await agent.send(text, **WHERE)
    key = (await agent.conversations(scope="ana"))[0].key
    for first, last in ((1, 2), (3, 4)):
        segment = StoredSegment(first=first, last=last, text="said", tokens=1)
        generation = (await memory.store.head(key)).generation
        assert await memory.store.commit_segment(key, segment, generation=generation, fence=None)
    assert len((await agent.summary(**WHERE)).segments) == 2
    assert await agent.undo_summary(**WHERE)
    assert await agent.drop_summaries(**WHERE) == 1
    assert (await agent.summary(**WHERE)).segments == ()
    assert await agent.get_message_count(**WHERE) == 6


# -- the last turn -----------------------------------------------------------------------------------


async def test_the_last_turn_goes_with_its_calls_results_and_records(memory: Memory) -> None:
    model = ScriptedModel(["Hello.", calls(call("add_up", a=1, b=2)), "3", "Four."])
    agent = made(memory, model, add_up)
    await agent.send("hi", **WHERE)
    reply = await agent.send("1 + 2?", **WHERE)
    assert await agent.drop_last_turn(**WHERE) == 4
    history = await stored(agent.memory, "ana", "trip")
    assert spoken(history) == [("user", "hi"), ("assistant", "Hello.")]
    assert_valid(history)
    with pytest.raises(UnknownTurn):
        await agent.explain(reply.turn, **WHERE)
    await agent.send("2 + 2?", **WHERE)
    assert not any("1 + 2?" in str(message) for message in model.calls[-1].messages)
    assert await agent.explain(**WHERE)


async def test_another_answer_is_tried_in_a_fork(memory: Memory) -> None:
    model = ScriptedModel(["At 9:40.", "By the river.", "On the hill."])
    agent = made(memory, model)
    await agent.send("When is my ferry?", **WHERE)
    await agent.send("Which hotel?", **WHERE)
    name = await agent.fork(at=2, **WHERE)
    await agent.send("Which hotel, on a hill?", scope="ana", conversation=name)
    assert spoken(await stored(agent.memory, "ana", name)) == [
        ("user", "When is my ferry?"),
        ("assistant", "At 9:40."),
        ("user", "Which hotel, on a hill?"),
        ("assistant", "On the hill."),
    ]
    assert [message.text for message in await stored(agent.memory, "ana", "trip")][2:] == [
        "Which hotel?",
        "By the river.",
    ]
    assert "Which hotel?" not in str(model.calls[-1].messages)


async def test_a_fork_waits_for_the_turn_that_runs(memory: Memory) -> None:
    model = HeldModel()
    agent = made(memory, model)
    async with anyio.create_task_group() as group:
        group.start_soon(lambda: agent.send("hi", **WHERE))
        asked = await model.wait_for_call()
        group.start_soon(lambda: agent.fork(name="fork", **WHERE))
        await anyio.wait_all_tasks_blocked()
        asked.answer("Hello.")
    assert spoken(await stored(agent.memory, "ana", "fork")) == [("user", "hi"), ("assistant", "Hello.")]


async def test_a_question_and_its_answer_belong_to_the_turn_that_asked(memory: Memory) -> None:
    model = ScriptedModel([calls(call("ask_user_for_input", question="Which day?")), "Booked.", "Hello."])
    agent = made(memory, model, enable_ask_for_user_input=True)
    await agent.send("book a table", **WHERE)
    await agent.send("Friday", **WHERE)
    assert await agent.drop_last_turn(**WHERE) == 4
    assert (await agent.send("hi", **WHERE)).stop == "end"


async def test_mail_that_came_with_a_turn_is_not_taken_for_its_beginning(memory: Memory) -> None:
    template = ContextTemplate([ConversationHistorySection(), InboxSection()])
    reader = Agent("reader", model=ScriptedModel("done"), memory=memory, context_template=template)
    await reader.send("one", **WHERE)
    await Agent("writer", memory=memory).message(to="reader", content="Now!", **WHERE)
    await reader.send("two", **WHERE)
    assert [message.text for message in await stored(reader.memory, "ana", "trip")][-1] == "done"
    await reader.drop_last_turn(**WHERE)
    left = [message.text for message in await stored(reader.memory, "ana", "trip")]
    assert left[:2] == ["one", "done"]
    assert "Now!" in left[2], "it was sent by somebody else, and stays"
    assert len(left) == 3


@pytest.mark.parametrize("verb", ["drop_last_turn", "delete_message"])
async def test_a_deletion_waits_for_the_turn_that_runs(memory: Memory, verb: str) -> None:
    model = HeldModel()
    agent = made(memory, model)
    async with anyio.create_task_group() as group:
        group.start_soon(lambda: agent.send("hi", message_id="m1", **WHERE))
        asked = await model.wait_for_call()

        async def delete() -> None:
            if verb == "drop_last_turn":
                assert await agent.drop_last_turn(**WHERE) == 2
            else:
                assert await agent.delete_message("m1", **WHERE)

        group.start_soon(delete)
        await anyio.wait_all_tasks_blocked()
        assert await agent.get_message_count(**WHERE) == 1
        asked.answer("yes")
    left = [] if verb == "drop_last_turn" else [("assistant", "yes")]
    assert spoken(await stored(agent.memory, "ana", "trip")) == left


async def test_a_tool_cannot_drop_the_turn_it_runs_in(memory: Memory) -> None:
    refused: list[Exception] = []

    @tool
    async def forget() -> str:
        """Forget this turn."""
        try:
            await agent.drop_last_turn(**WHERE)
        except TurnWithinTurn as error:
            refused.append(error)
        return "no"

    agent = made(memory, ScriptedModel([calls(call("forget")), "done"]), forget)
    await agent.send("hi", **WHERE)
    assert len(refused) == 1
    assert await agent.get_message_count(**WHERE) == 4


# -- mistakes ----------------------------------------------------------------------------------------


async def test_mistakes_are_met_as_they_are_by_the_memory(memory: Memory) -> None:
    agent = made(memory, ScriptedModel("yes"))
    with pytest.raises(InvalidMessage, match="`id` must be a string, not int"):
        await agent.delete_message(5)  # type: ignore[arg-type]
    with pytest.raises(InvalidMessage):
        await agent.pin(5)  # type: ignore[arg-type]
    for work in (
        agent.drop_last_turn(scope=None),  # type: ignore[arg-type]
        agent.get_message_count(conversation="a\0"),
        agent.conversations(after="trip"),  # type: ignore[arg-type]
    ):
        with pytest.raises(InvalidKey):
            await work
    with pytest.raises(ValueError, match="limit must be >= 1"):
        await agent.conversations(limit=0)


async def test_a_closed_agent_deletes_nothing(memory: Memory) -> None:
    agent = made(memory, ScriptedModel("yes"))
    await agent.send("hi", message_id="m1", **WHERE)
    await agent.close()
    for work in (agent.delete_message("m1", **WHERE), agent.drop_last_turn(**WHERE)):
        with pytest.raises(AgentClosed):
            await work
    assert await agent.get_message_count(**WHERE) == 2
