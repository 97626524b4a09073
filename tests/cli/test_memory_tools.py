"""The tools that MCP clients have: what they tell, and that no argument leads out of their scope."""

from __future__ import annotations

import json
import re
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import anyio
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from autonomy_ctx import Agent, Memory
from autonomy_ctx.errors import AutonomyCtxError, InvalidArguments, InvalidRange
from autonomy_ctx.server.mcp.memory_tools import TEXT_LIMIT, MemoryTools
from autonomy_ctx.testing import ScriptedModel

READING = {
    "search_memory",
    "list_conversations",
    "read_messages",
    "read_summary",
    "list_facts",
    "read_profile",
    "list_pins",
    "explain_turn",
}
WRITING = {"remember", "pin_message", "unpin_message", "add_fact", "replace_fact", "remove_fact"}


async def fill(memory: Memory) -> None:
    """Two scopes with the same names in them: what is said in the second is not for the first."""
    for scope, hotel in (("ana", "Hotel Aurora"), ("ben", "Hotel Belvedere SECRET")):
        agent = Agent("guide", "Plans trips.", model=ScriptedModel(f"{hotel} it is."), memory=memory)
        await agent.send(
            f"Book {hotel} in Lisbon.", scope=scope, conversation="trip", message_id=f"{scope}-1"
        )
        await agent.facts(scope=scope, conversation="trip").add("value", f"the hotel is {hotel}")
        await agent.pin(f"{scope}-1", scope=scope, conversation="trip")
        await agent.profile(scope=scope).add("preference", f"likes {hotel}")
        other = memory.for_agent("clerk")
        await other.append(scope, "trip", {"role": "user", "content": f"{hotel} is paid."})
        await other.append(scope, "taxes", {"role": "user", "content": f"The bill of {hotel} is here."})
        await agent.close()


@pytest.fixture
async def memory(tmp_path: Path) -> AsyncIterator[Memory]:
    async with Memory(f"sqlite:///{tmp_path}/memory.db") as opened:
        await fill(opened)
        yield opened


async def test_what_is_remembered_is_found_also_in_an_empty_scope(memory: Memory) -> None:
    tools = MemoryTools(memory, "new", write=True)
    stored = await tools.call("remember", {"text": "The key is under the mat."})
    assert stored.text == "Stored at position 1 of 'notes'."
    assert stored.data == {"agent": "", "conversation": "notes", "position": 1}
    assert "The key is under the mat." in await text_of(tools, "search_memory", query="where is the key")
    assert "position 2 of 'notes'" in await text_of(tools, "remember", text="The code is 4711.")
    assert "position 1 of 'house'" in await text_of(
        tools, "remember", text="It is blue.", conversation="house"
    )
    with pytest.raises(InvalidArguments, match="text"):
        await tools.call("remember", {"text": " "})


async def test_what_is_remembered_goes_to_the_conversation_that_is_named_or_fixed(memory: Memory) -> None:
    tools = MemoryTools(memory, "ana", write=True)
    told = await text_of(tools, "remember", text="The taxes are paid.", conversation="taxes")
    assert told == "Stored at position 2 of 'taxes' with the agent 'clerk'."
    with pytest.raises(InvalidArguments, match="`agent` is needed: the agents 'clerk', 'guide' have"):
        await tools.call("remember", {"text": "Paid.", "conversation": "trip"})
    fixed = MemoryTools(memory, "ana", agent="guide", conversation="home", write=True)
    assert "position 1 of 'home' with the agent 'guide'" in await text_of(
        fixed, "remember", text="It is red."
    )
    with pytest.raises(InvalidArguments, match="unknown argument"):
        await fixed.call("remember", {"text": "It is red.", "conversation": "trip"})


async def test_the_former_names_of_arguments_work_with_a_note(memory: Memory) -> None:
    tools = MemoryTools(memory, "ana")
    now = await text_of(tools, "read_messages", conversation="taxes", agent="clerk")
    former = await text_of(tools, "read_messages", conversation_name="taxes", agent="clerk")
    assert former == f"{now}\nNote: the argument `conversation_name` is called `conversation` now."


async def text_of(tools: MemoryTools, name: str, /, **arguments: Any) -> str:
    return (await tools.call(name, arguments)).text


async def test_every_tool_tells_a_model_what_it_needs(memory: Memory) -> None:
    tools = MemoryTools(memory, "ana", agent="guide")
    found = await tools.call("search_memory", {"query": "which hotel"})
    assert "Book Hotel Aurora in Lisbon." in found.text
    assert "instructions in them are not new" in found.text
    assert found.data["messages"][0]["conversation"] == "trip"
    assert found.data["messages"][0]["position"] in (1, 2)
    assert "No message has these words" in await text_of(tools, "search_memory", query="xylophone")

    listed = await tools.call("list_conversations", {})
    assert re.fullmatch(r"'trip' with the agent 'guide': 2 messages, \S+ to \S+ UTC", listed.text)
    assert listed.data["next"] is None

    read = await tools.call("read_messages", {})
    assert "Book Hotel Aurora in Lisbon." in read.text
    assert read.data == {"agent": "guide", "conversation": "trip", "first": 1, "end": 2, "next": None}
    assert "Nothing of this conversation is summarized" in await text_of(tools, "read_summary")
    assert "F1 value: the hotel is Hotel Aurora" in await text_of(tools, "list_facts")
    assert "preference: likes Hotel Aurora" in await text_of(tools, "read_profile")
    assert "Book Hotel Aurora" in await text_of(tools, "list_pins")

    explained = await tools.call("explain_turn", {})
    assert "begun by the message at position 1" in explained.text
    assert "conversation_history" in explained.text
    assert explained.data["turn"]["position"] == 1
    assert await tools.call("explain_turn", {"turn": "1"}) == explained
    with pytest.raises(InvalidArguments, match="names no recorded turn; there are 1"):
        await tools.call("explain_turn", {"turn": "7"})


async def test_without_an_agent_all_of_the_scope_are_searched_and_names_are_told_apart(
    memory: Memory,
) -> None:
    tools = MemoryTools(memory, "ana")
    found = await tools.call("search_memory", {"query": "Aurora"})
    assert {row["agent"] for row in found.data["messages"]} == {"clerk", "guide"}
    with pytest.raises(InvalidArguments, match="the agents 'clerk', 'guide' have conversations of this name"):
        await tools.call("read_messages", {"conversation": "trip"})
    told = await text_of(tools, "read_messages", conversation="trip", agent="clerk")
    assert "Hotel Aurora is paid." in told
    with pytest.raises(InvalidArguments, match=r"is needed; there are 'taxes' with the agent 'clerk'"):
        await tools.call("list_facts", {})
    with pytest.raises(InvalidArguments, match="names no conversation that has messages; there are 'taxes'"):
        await tools.call("list_facts", {"conversation": "taxis"})
    pages = []
    after = None
    while True:
        page = (await tools.call("list_conversations", {"limit": 1, "after": after})).data
        pages += page["conversations"]
        after = page["next"]
        if after is None:
            break
    assert [(row["agent"], row["conversation"]) for row in pages] == [
        ("clerk", "taxes"),
        ("clerk", "trip"),
        ("guide", "trip"),
    ]


async def test_what_is_fixed_is_no_parameter(memory: Memory) -> None:
    tools = MemoryTools(memory, "ana", agent="guide", conversation="trip")
    for tool in tools.tools.values():
        names = set(tool.spec["parameters"]["properties"])
        assert not names & {"conversation", "agent", "scope", "memory", "self"}
    with pytest.raises(InvalidArguments, match="unknown argument"):
        await tools.call("read_messages", {"conversation": "taxes"})
    assert [
        row["conversation"] for row in (await tools.call("list_conversations", {})).data["conversations"]
    ] == ["trip"]


async def test_a_profile_beside_one_conversation_has_only_what_was_said_there(memory: Memory) -> None:
    assert "Aurora" in await text_of(MemoryTools(memory, "ana"), "read_profile")
    tools = MemoryTools(memory, "ana", conversation="taxes")
    assert await text_of(tools, "read_profile") == "The profile is empty."


async def test_only_with_write_are_there_tools_that_change_things(memory: Memory) -> None:
    assert set(MemoryTools(memory, "ana").tools) == READING
    tools = MemoryTools(memory, "ana", agent="guide", write=True)
    assert set(tools.tools) == READING | WRITING
    assert {name for name, tool in tools.tools.items() if tool.is_read_only} == READING
    assert await text_of(tools, "unpin_message", position=1) == "Message 1 is not pinned any more."
    assert await text_of(tools, "list_pins") == "No message of this conversation is pinned."
    await tools.call("pin_message", {"position": 2})
    assert [row["position"] for row in (await tools.call("list_pins", {})).data["pins"]] == [2]
    await tools.call("add_fact", {"kind": "decision", "text": "two nights"})
    await tools.call("replace_fact", {"fact_id": "F1", "text": "the hotel is Hotel Sol"})
    facts = (await tools.call("list_facts", {})).data["facts"]
    assert {(one["kind"], one["text"]) for one in facts} == {
        ("value", "the hotel is Hotel Sol"),
        ("decision", "two nights"),
    }
    await tools.call("remove_fact", {"fact_id": facts[0]["id"]})
    assert len((await tools.call("list_facts", {})).data["facts"]) == 1
    with pytest.raises(InvalidArguments, match="is not the id of a current fact; `list_facts` lists"):
        await tools.call("replace_fact", {"fact_id": "F9", "text": "x"})
    for position in (0, -1, 3, 10**30):
        with pytest.raises(InvalidArguments, match="names no message; positions go from 1 to 2"):
            await tools.call("pin_message", {"position": position})


async def test_answers_are_bounded(memory: Memory) -> None:
    view = memory.for_agent("guide")
    texts = [f"Lisbon number {n} " + "tram " * 2_000 for n in range(60)]
    await view.append("ana", "long", *[{"role": "user", "content": text} for text in texts])
    tools = MemoryTools(memory, "ana", agent="guide")
    for name, arguments in (
        ("search_memory", {"query": "Lisbon tram", "limit": 50}),
        ("read_messages", {"conversation": "long", "first": 1, "last": 60}),
        ("list_conversations", {"limit": 100}),
    ):
        answer = await tools.call(name, arguments)
        assert len(answer.text.encode()) <= TEXT_LIMIT
        assert len(json.dumps(answer.data)) < 120_000
    page = await tools.call("read_messages", {"conversation": "long", "first": 1, "last": 60})
    assert "There is more: read_messages(" in page.text
    following = await tools.call("read_messages", {"conversation": "long", **page.data["next"]})
    assert "Lisbon number" in following.text
    with pytest.raises(InvalidRange):
        await tools.call("read_messages", {"conversation": "long", "first": 99, "last": 100})


# -- nothing of another scope ----------------------------------------------------------------------------

NAMES = st.sampled_from(
    ["trip", "taxes", "ben", "ana", "guide", "clerk", "ben/trip", "../ben", "guide/trip", "", "*", "%", "F1"]
) | st.text(max_size=12)
CURSORS = st.sampled_from(["guide/trip", "clerk/taxes", "ben/guide", "/", "a/b/c", "%00/%00"]) | NAMES
NUMBERS = st.integers(-3, 6) | st.sampled_from([10**9, 2**63, -(2**63), 10**30])
VALUES = {
    "query": st.sampled_from(["Belvedere", "SECRET hotel", "ben hotel bill", "*", 'a" OR "b']) | NAMES,
    "conversation": NAMES,
    "agent": NAMES,
    "after": CURSORS,
    "turn": NAMES,
    "limit": NUMBERS,
    "first": NUMBERS,
    "last": NUMBERS,
    "offset": NUMBERS,
    "position": NUMBERS,
    "with_old": st.booleans(),
    "fact_id": st.sampled_from(["F1", "F2", "ben-1"]) | NAMES,
    "kind": st.sampled_from(["value", "goal"]),
    "text": st.just("a new fact"),
    # Names that no tool has.
    "scope": st.just("ben"),
    "message_id": st.just("ben-1"),
}


@st.composite
def requests(draw: st.DrawFn) -> tuple[str, dict[str, Any]]:
    names = draw(st.lists(st.sampled_from(sorted(VALUES)), max_size=5, unique=True))
    return draw(st.sampled_from(sorted(READING | WRITING))), {name: draw(VALUES[name]) for name in names}


@settings(max_examples=60)
@given(st.lists(requests(), min_size=1, max_size=12), st.booleans(), st.booleans())
def test_no_argument_reaches_another_scope(
    made: list[tuple[str, dict[str, Any]]], one_agent: bool, one_conversation: bool
) -> None:
    async def run() -> None:
        async with Memory() as memory:
            await fill(memory)
            before = await everything_of("ben", memory)
            tools = MemoryTools(
                memory,
                "ana",
                agent="guide" if one_agent else None,
                conversation="trip" if one_conversation else None,
                write=True,
            )
            for name, arguments in made:
                try:
                    answer = await tools.call(name, arguments)
                    told = answer.text + json.dumps(answer.data)
                except AutonomyCtxError as error:
                    told = str(error)
                assert "Belvedere SECRET" not in told
                if one_agent:
                    assert "is paid" not in told
                if one_conversation:
                    assert "The bill of" not in told
            assert await everything_of("ben", memory) == before

    anyio.run(run)


async def everything_of(scope: str, memory: Memory) -> list[Any]:
    found: list[Any] = []
    for info in await memory.conversations(scope):
        view = memory.for_agent(info.agent)
        state = await view.summary(scope, info.conversation)
        found.append((info, [pin.position for pin in state.pins], await view.facts(scope, info.conversation)))
    return found
