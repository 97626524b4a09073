"""The tiers of memory as tools: what mattered, summaries, everything, and never another scope."""

from __future__ import annotations

import json
from typing import Any

import anyio
import pytest
from hypothesis import given
from hypothesis import strategies as st
from strategies import few, names

from autonomy_ctx import Memory, Tool, ToolCall
from autonomy_ctx.memory.store import Key, StoredSegment
from autonomy_ctx.testing import make_message
from autonomy_ctx.tools import memory_tools
from autonomy_ctx.tools.run import CallOutcome, run_calls


async def call(tools: Any, name: str, inject: Any = None, **arguments: Any) -> CallOutcome:
    [ran] = await run_calls([ToolCall("c1", name, json.dumps(arguments))], tools, inject=inject or {})
    return ran


async def test_what_weighs_most_comes_first_and_pins_before_that(memory: Memory) -> None:
    await memory.append(
        "default",
        "trip",
        make_message("Well, hello there", id="m1"),
        make_message("We must never deploy ORD-4711 on 2030-01-01 before 9:00", id="m2"),
        make_message("ok", id="m3", role="assistant"),
        make_message("My cat is called Tom", id="m4"),
    )
    await memory.pin("default", "trip", "m3")
    tools = memory_tools(memory)
    rows = (await call(tools, "query_l2_memory", session_id="trip", limit=3)).value
    assert [row["position"] for row in rows] == [3, 2, 4]
    assert rows[0] == {
        "session_id": "trip",
        "position": 3,
        "role": "assistant",
        "content": "ok",
        "pinned": True,
    }
    only = (await call(tools, "query_l2_memory", session_id="trip", limit=1)).value
    assert [row["position"] for row in only] == [3]


async def test_summaries_are_given_oldest_first_the_newest_of_them(memory: Memory) -> None:
    await memory.append("default", "trip", *[make_message(f"message {n}", id=f"m{n}") for n in range(6)])
    for first in (1, 3, 5):
        segment = StoredSegment(first=first, last=first + 1, text=f"from {first}", tokens=3, provisional=True)
        key = Key("", "default", "trip")
        assert await memory.store.commit_segment(key, segment, generation=0, fence=None)
    tools = memory_tools(memory)
    rows = (await call(tools, "query_l3_memory", session_id="trip", limit=2)).value
    assert rows == [
        {"session_id": "trip", "first": 3, "last": 4, "summary": "from 3"},
        {"session_id": "trip", "first": 5, "last": 6, "summary": "from 5"},
    ]
    assert (await call(tools, "query_l3_memory", session_id="other")).value == []


async def test_everything_of_the_scope_is_searched_or_one_session(memory: Memory) -> None:
    await memory.append("default", "trip", make_message("The ferry leaves at noon", id="m1"))
    await memory.append("default", "work", make_message("A ferry of invoices", id="m2"))
    await memory.append("secret", "trip", make_message("The secret ferry", id="m3"))
    await memory.for_agent("eve").append("default", "trip", make_message("The ferry of eve", id="m4"))
    tools = memory_tools(memory)
    rows = (await call(tools, "query_l4_memory", query="ferries")).value
    assert sorted(row["session_id"] for row in rows) == ["trip", "work"]
    rows = (await call(tools, "query_l4_memory", query="ferries", session_id="work")).value
    assert [row["content"] for row in rows] == ["A ferry of invoices"]


@given(st.lists(st.tuples(names, names, names), min_size=2, max_size=4, unique=True))
@few
def test_no_tier_reaches_another_agent_scope_or_unasked_session(places: list[tuple[str, str, str]]) -> None:
    async def check() -> None:
        memory = Memory()
        for agent, scope, session in places:
            said_here = make_message(f"ferry of {(agent, scope, session)}", id="m1")
            await memory.for_agent(agent).append(scope, session, said_here)
        for agent, scope, session in places:
            # As an agent runs them: what is not bound is that of the agent.
            inject = {"memory": memory.for_agent(agent), "scope": scope, "conversation": session}
            for tools in (memory_tools(), memory_tools(memory.for_agent(agent), scope=scope)):
                near = (await call(tools, "query_l2_memory", inject)).value
                assert [row["content"] for row in near] == [f"ferry of {(agent, scope, session)}"]
                far = (await call(tools, "query_l4_memory", inject, query="ferry")).value
                reached = {row["content"] for row in far}
                mine = {f"ferry of {one}" for one in places if one[:2] == (agent, scope)}
                assert reached == mine
        await memory.close()

    anyio.run(check)


async def test_a_scope_that_was_bound_is_not_the_callers_to_choose(memory: Memory) -> None:
    await memory.append("default", "trip", make_message("mine", id="m1"))
    await memory.append("other", "trip", make_message("not mine", id="m2"))
    tools = memory_tools(memory, scope="default")
    inject = {"scope": "other", "conversation": "trip"}
    rows = (await call(tools, "query_l2_memory", inject)).value
    assert [row["content"] for row in rows] == ["mine"]
    refused = await call(tools, "query_l2_memory", scope="other")
    assert refused.error is not None


async def test_long_messages_are_shortened_and_only_the_newest_are_weighed() -> None:
    memory = Memory()
    await memory.append("default", "trip", make_message("We must never forget ORD-1", id="old"))
    await memory.append(
        "default", "trip", *[make_message(f"word {n} " * 2000, id=f"m{n}") for n in range(200)]
    )
    rows = (await call(memory_tools(memory), "query_l2_memory", session_id="trip", limit=500)).value
    assert len(rows) == 100
    assert all(len(row["content"]) < 4000 and row["position"] > 1 for row in rows)


async def test_a_limit_that_means_nothing_and_a_missing_memory_are_told_to_the_model() -> None:
    for name, more in (("query_l2_memory", {}), ("query_l3_memory", {}), ("query_l4_memory", {"query": "x"})):
        ran = await call(memory_tools(Memory()), name, limit=0, **more)
        assert "limit must be >= 1, not 0" in str(ran.error)
        ran = await call(memory_tools(), name, **more)
        assert "memory_tools(memory)" in str(ran.error)


def test_a_model_sees_the_limit_the_session_and_the_query_and_nothing_else() -> None:
    tools = memory_tools()
    assert all(isinstance(tool, Tool) for tool in tools)
    seen = {tool.name: list(tool.spec["parameters"]["properties"]) for tool in tools}
    assert seen == {
        "query_l2_memory": ["limit", "session_id"],
        "query_l3_memory": ["limit", "session_id"],
        "query_l4_memory": ["query", "limit", "session_id"],
    }


@pytest.mark.parametrize("name", ["query_l2_memory", "query_l3_memory"])
async def test_a_session_that_does_not_exist_is_empty(memory: Memory, name: str) -> None:
    assert (await call(memory_tools(memory), name, session_id="nowhere")).value == []
