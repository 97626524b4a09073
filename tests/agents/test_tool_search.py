"""Tools on demand: a few are listed, the others are found, and the list that is sent never changes."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from itertools import pairwise
from pathlib import Path
from typing import Any

import anyio
import pytest
from agents.kit import call, calls, made
from hypothesis import given
from hypothesis import strategies as st
from strategies import few

from autonomy_ctx import Agent, AgentHook, Memory, Model, ToolAnswered, hook, tool
from autonomy_ctx.errors import InvalidTool
from autonomy_ctx.messages.message import ToolCall
from autonomy_ctx.testing import ProviderServer, ScriptedModel
from autonomy_ctx.tools.tool import Tool
from autonomy_ctx.tools.tool_index import IndexedTool, ToolIndex, write_catalog

pytestmark = pytest.mark.anyio


class Server:
    """Tools of a server, which may list others later."""

    def __init__(self, name: str, *tools: Tool[..., Any]) -> None:
        self.name, self.tools = name, tools

    async def prepare(self, user: object) -> None: ...

    def listed_tools(self) -> Sequence[Tool[..., Any]]:
        return self.tools

    async def release(self, user: object) -> None: ...


def make_tool(number: int) -> Tool[..., Any]:
    def run(place: str, nights: int = 1) -> str:
        return f"{number}: {nights} nights in {place}"

    words = "A long description of the arguments and the results. " * 10
    return Tool(run, name=f"book_room_{number}", description=f"Book a room of kind {number}. {words}")


@tool
def cancel_trip(reason: str) -> str:
    """Cancel the trip and get the money back."""
    return f"cancelled: {reason}"


def server_of(count: int = 40) -> Server:
    return Server("hotels", *(make_tool(number) for number in range(count)), cancel_trip)


def booked(name: str, **arguments: Any) -> dict[str, Any]:
    return calls(call("call_tool", name=name, arguments=arguments))


async def test_a_model_finds_a_tool_and_calls_it() -> None:
    search = calls(call("find_tools", query="cancel and refund the trip"))
    model = ScriptedModel([search, booked("cancel_trip", reason="rain"), "Done."])
    async with Memory() as memory, made(memory, model, server_of(), tool_budget=2_000) as agent:
        events = [event async for event in agent.stream("Cancel it.")]
        results = [one for one in events if isinstance(one, ToolAnswered)]
        sent = await agent.explain()
    assert "cancel_trip: Cancel the trip" in results[0].message.text
    assert '"reason"' in results[0].message.text
    assert (results[1].message.text, results[1].message.name) == ("cancelled: rain", "call_tool")
    assert results[1].call.name == "call_tool"
    names = [spec["name"] for spec in model.calls[0].options["tools"]]
    assert names == [
        "get_current_time_utc",
        "get_current_time",
        "read_result",
        "find_tools",
        "call_tool",
    ]
    assert "hotels (41)" in str(sent.messages)
    assert "book_room_3" in str(sent.messages)
    assert "A long description" not in sent.messages[2].text


async def test_wrong_arguments_show_the_schema_and_an_unknown_tool_says_what_to_do() -> None:
    model = ScriptedModel([booked("cancel_trip", why="rain"), booked("cancel_all"), "Sorry."])
    async with Memory() as memory, made(memory, model, server_of(), tool_budget=2_000) as agent:
        events = [event async for event in agent.stream("Cancel it.")]
    wrong, unknown = (one.message for one in events if isinstance(one, ToolAnswered))
    assert wrong.is_error
    assert 'arguments of cancel_trip: {"type":"object"' in wrong.text
    assert unknown.is_error
    assert "cancel_all" in unknown.text
    assert "find_tools" in unknown.text


async def test_a_hook_is_told_of_the_tool_itself_and_may_refuse_it() -> None:
    told: list[ToolCall] = []

    @hook(AgentHook.BEFORE_CALL)
    def refuse(scope: str, conversation: str, asked: ToolCall) -> None:
        told.append(asked)
        raise PermissionError("not this one")

    model = ScriptedModel([booked("cancel_trip", reason="rain"), "Sorry."])
    async with (
        Memory() as memory,
        made(memory, model, server_of(), tool_budget=2_000, hooks=[refuse]) as agent,
    ):
        reply = await agent.send("Cancel it.")
    assert [(one.name, json.loads(one.arguments)) for one in told] == [("cancel_trip", {"reason": "rain"})]
    assert "it was not run" in reply.messages[1].text


async def test_with_an_embedder_tools_are_found_by_meaning_too() -> None:
    def embed(texts: list[str]) -> list[list[float]]:
        return [[1.0, 0.0] if "ferry" in text or "book_room_7" in text else [0.0, 1.0] for text in texts]

    model = ScriptedModel([calls(call("find_tools", query="ferry", limit=1)), "Done."])
    async with (
        Memory(embedder=embed) as memory,
        made(memory, model, server_of(), tool_budget=2_000) as agent,
    ):
        reply = await agent.send("A ferry, please.")
    assert reply.messages[1].text.startswith("book_room_7: ")


async def test_few_tools_are_listed_as_ever() -> None:
    model = ScriptedModel()
    async with Memory() as memory, made(memory, model, server_of(2), tool_budget=8_000) as agent:
        await agent.send("hello")
        sent = await agent.explain()
    names = [spec["name"] for spec in model.calls[0].options["tools"]]
    assert names[2:] == ["read_result", "book_room_0", "book_room_1", "cancel_trip"]
    assert "Tools on demand" not in str(sent.messages)


async def test_own_tools_are_found_too_when_they_are_too_many() -> None:
    own = [make_tool(number) for number in range(60)]
    model = ScriptedModel()
    async with Memory() as memory, made(memory, model, *own, tool_budget=2_000) as agent:
        await agent.send("hello")
        sent = await agent.explain()
    names = [spec["name"] for spec in model.calls[0].options["tools"]]
    assert "book_room_7" not in names
    assert names[-2:] == ["find_tools", "call_tool"]
    assert "own tools (60)" in str(sent.messages)


async def test_the_names_of_the_search_are_taken() -> None:
    taken = Tool(lambda: "", name="find_tools", description="Mine.")
    with pytest.raises(InvalidTool, match="on demand"):
        Agent("a", tools=[taken], tool_budget=2_000)
    with pytest.raises(ValueError, match="tool_budget"):
        Agent("a", tool_budget=10)


@pytest.mark.parametrize(("name", "provider"), [("claude-opus-5-5", None), ("gpt-5.2", "openai-responses")])
async def test_a_server_that_lists_other_tools_ends_no_epoch(
    name: str, provider: str | None, sqlite_path: Path
) -> None:
    asked = 0

    def answer(body: Mapping[str, Any]) -> list[dict[str, Any]]:
        nonlocal asked
        asked += 1
        thought = {"type": "thinking", "thinking": ""}
        found = {"name": "find_tools", "input": {"query": "refund"}}
        used: dict[str, Any] = {"name": "cancel_trip", "input": {"reason": "rain"}}
        if provider is not None:
            used = {"name": "call_tool", "input": {"name": used["name"], "arguments": used["input"]}}
        match asked % 3:
            case 1 | 2:
                one = found if asked % 3 == 1 else used
                return [thought, {"type": "tool_use", "id": f"call_{asked}", **one}]
        return [thought, {"type": "text", "text": "Done."}]

    server, hotels = ProviderServer(answer), server_of()
    binding: dict[str, Any] = {"thinking": {"type": "adaptive"}} if provider is None else {}

    async def talk(*texts: str) -> int:
        async with server.client() as client, Memory(f"sqlite:///{sqlite_path}") as memory:
            model = Model(name, provider=provider, client=client, api_key="key", retries=0, **binding)
            async with made(memory, model, hotels, tool_budget=2_000) as agent:
                for number, text in enumerate(texts):
                    await agent.send(text)
                    hotels.tools = (*hotels.tools, make_tool(90)) if number % 2 else hotels.tools[1:]
                ended: int = agent.get_metrics()["epochs_ended"]
                return ended

    assert await talk("One.", "Two.", "Three.") == 0
    assert await talk("After a restart.") == 0
    assert server.refused == []
    requests = [one.body for one in server.requests]
    key = "messages" if provider is None else "input"
    listed = [[tool for tool in one["tools"] if "defer_loading" not in tool] for one in requests]
    assert all(one == listed[0] for one in listed)
    assert all(one.transformations == [] for one in server.requests)
    assert "book_room_90" in json.dumps(requests[-1][key])


ORDERS = st.permutations(range(400)).map(lambda order: order[:3])


@given(ORDERS)
@few
def test_definitions_that_are_found_are_appended_and_the_prefix_stays(order: list[int]) -> None:
    anyio.run(find_with_claude, order)


@given(ORDERS)
@few
def test_gpt_gets_definitions_with_the_search_that_found_them(order: list[int]) -> None:
    anyio.run(find_with_gpt, order)


async def find_with_gpt(order: Sequence[int]) -> None:
    """Find and call tools, of 400, in this order; only what was found is sent, behind all that was said."""
    bodies = await find_in_order(order, "gpt-6.1-sol", provider="openai-responses")
    for before, after in pairwise(bodies):
        assert after["input"][: len(before["input"])] == before["input"]
        assert after["tools"] == before["tools"]
    sent = bodies[-1]["tools"]
    assert [tool for tool in sent if tool["type"] == "tool_search"] == [sent[-1]]
    assert sent[-1]["execution"] == "client"
    assert not any("book_room" in str(tool) for tool in sent)
    items = bodies[-1]["input"]
    found = [item for item in items if item.get("type") == "tool_search_output"]
    assert [(item["call_id"], [tool["name"] for tool in item["tools"]]) for item in found] == [
        (f"find_{number}", [f"book_room_{number}"]) for number in order
    ]
    assert all(tool["defer_loading"] and tool["parameters"] for item in found for tool in item["tools"])
    asked = [item["arguments"]["query"] for item in items if item.get("type") == "tool_search_call"]
    assert asked == [f"book_room_{number}" for number in order]
    assert [item["output"] for item in items if item.get("type") == "function_call_output"] == [
        f"{number}: 1 nights in Porto" for number in order
    ]


async def find_in_order(order: Sequence[int], name: str, **options: Any) -> list[dict[str, Any]]:
    """Find and call tools, of 400, in this order, with a provider that has the rules of today."""
    steps = [
        {"type": "tool_use", "id": f"{kind}_{number}", "name": name, "input": given}
        for number in order
        for kind, name, given in (
            ("find", "find_tools", {"query": f"book_room_{number}", "limit": 1}),
            ("call", f"book_room_{number}", {"place": "Porto"}),
        )
    ]
    replies = iter([[{"type": "thinking", "thinking": ""}, step] for step in steps])
    done = [{"type": "text", "text": "Done."}]
    server = ProviderServer(lambda body: next(replies, done), max_tokens=400_000)  # type: ignore[arg-type]
    hotels = Server("hotels", *map(make_tool, range(400)))
    async with server.client() as client, Memory() as memory:
        model = Model(name, client=client, api_key="key", retries=0, **options)
        # Without a budget: the model defers, and these are many.
        async with made(memory, model, hotels, limits={"steps": 20}) as agent:
            reply = await agent.send("Book all of them.")
            assert agent.get_metrics()["epochs_ended"] == 0
    assert (reply.text, server.refused) == ("Done.", [])
    assert all(not one.transformations for one in server.requests)
    return [dict(one.body) for one in server.requests]


async def find_with_claude(order: Sequence[int]) -> None:
    """Find and call tools, of 400, with a provider that binds thinking to the prefix."""
    bodies = await find_in_order(order, "claude-opus-5-5", thinking={"type": "adaptive"})
    for before, after in pairwise(bodies):
        assert [unmarked(one) for one in after["messages"]][: len(before["messages"])] == [
            unmarked(one) for one in before["messages"]
        ]
        assert after["tools"] == before["tools"]
    results = [block for one in bodies[-1]["messages"] for block in one["content"] if "tool_use_id" in block]
    assert [unmarked(block)["content"] for block in results if block["tool_use_id"].startswith("find")] == [
        [{"type": "tool_reference", "tool_name": f"book_room_{number}"}] for number in order
    ]
    assert [str(block["content"]) for block in results if block["tool_use_id"].startswith("call")] == [
        str([{"type": "text", "text": f"{number}: 1 nights in Porto"}]) for number in order
    ]


def unmarked(value: Any) -> Any:
    """A message without marks for the cache."""
    if isinstance(value, list):
        return [unmarked(one) for one in value]
    if isinstance(value, dict):
        return {name: unmarked(one) for name, one in value.items() if name != "cache_control"}
    return value


@pytest.mark.parametrize(
    ("tools", "told"),
    [
        ([{"name": "a", "defer_loading": True}], "at least one"),
        ([{"name": "a"}, {"name": "b", "defer_loading": True, "cache_control": {}}, {"name": "c"}], "b"),
        ([{"name": "a"}, {"name": "b", "defer_loading": True}], "gone is not in"),
    ],
)
async def test_the_test_server_refuses_what_claude_refuses(tools: list[dict[str, Any]], told: str) -> None:
    server = ProviderServer()
    found = {"type": "tool_reference", "tool_name": "gone"}
    used = {"type": "tool_use", "id": "1", "name": "a", "input": {}}
    asked = [{"type": "tool_result", "tool_use_id": "1", "content": [found]}]
    messages = [
        {"role": "user", "content": "Hi."},
        {"role": "assistant", "content": [used]},
        {"role": "user", "content": asked},
    ]
    if "cache_control" in str(tools):
        tools[1]["cache_control"] = {"type": "ephemeral"}
    async with server.client() as client:
        body = {"model": "claude-opus-5-5", "max_tokens": 9, "messages": messages, "tools": tools}
        response = await client.post("https://api.anthropic.com/v1/messages", json=body)
    assert response.status_code == 400
    assert told in response.text or "cache_control" in response.text


@pytest.mark.parametrize(
    ("model", "tools", "told"),
    [
        ("gpt-5.2", [{"type": "tool_search"}], "not supported"),
        ("gpt-5.4", [{"type": "function", "name": "a", "defer_loading": True}], "require"),
    ],
)
async def test_the_test_server_refuses_what_gpt_refuses(
    model: str, tools: list[dict[str, Any]], told: str
) -> None:
    server = ProviderServer()
    async with server.client() as client:
        body = {"model": model, "input": "Hi.", "tools": tools}
        response = await client.post("https://api.openai.com/v1/responses", json=body)
    assert response.status_code == 400
    assert told in response.text


# -- the index ---------------------------------------------------------------------------------------------


def indexed(name: str, description: str = "", group: str = "own", **parameters: str) -> IndexedTool:
    properties = {one: {"type": "string", "description": text} for one, text in parameters.items()}
    return IndexedTool(
        group,
        {
            "name": name,
            "description": description,
            "parameters": {"type": "object", "properties": properties},
        },
    )


TOOLS = [
    indexed("listOpenIssues", "List issues. With all fields.", "github", owner="The owner of the repository"),
    indexed("create_issue", "Create an issue", "github"),
    indexed("slack_post_message", "Post a message", "slack"),
    indexed("read_file", "", "files"),
]


@pytest.mark.parametrize(
    ("request_text", "first"),
    [
        ("issues that are open", "listOpenIssues"),
        ("repositories of an owner", "listOpenIssues"),
        ("slack", "slack_post_message"),
        ("slack_post_message", "slack_post_message"),
        ("show me a document", "read_file"),
        ("posting", "slack_post_message"),
    ],
)
def test_a_tool_is_found_by_its_name_its_words_and_related_words(request_text: str, first: str) -> None:
    assert ToolIndex(TOOLS).find(request_text, 5)[0].name == first


def test_a_tool_is_found_by_the_values_that_an_argument_may_have() -> None:
    kind = {"type": "string", "enum": ["invoice", "receipt"]}
    spec = {"name": "make_pdf", "parameters": {"type": "object", "properties": {"kind": kind}}}
    [found] = ToolIndex([*TOOLS, IndexedTool("own", spec)]).find("an invoice", 5)
    assert found.name == "make_pdf"


def test_nothing_is_found_for_other_words() -> None:
    assert ToolIndex(TOOLS).find("zebra", 5) == []
    assert ToolIndex(TOOLS).find("", 5) == []
    assert ToolIndex([]).find("issue", 5) == []
    assert len(ToolIndex(TOOLS).find("issue file message", 2)) == 2


def test_a_catalog_gets_shorter_until_it_fits() -> None:
    def words(text: str) -> int:
        return len(text.split())

    whole = write_catalog(TOOLS, 100, words)
    assert "github (2):\n- listOpenIssues: List issues\n- create_issue: Create an issue" in whole
    names = write_catalog(TOOLS, words(whole) - 1, words)
    assert names.splitlines()[0] == "github (2): listOpenIssues, create_issue"
    many = [indexed(f"tool_{number}", group="one") for number in range(50)]
    assert write_catalog(many, 20, words) == "one (50): tool_0, tool_1, tool_2, tool_3, ..."
    assert write_catalog(many, 2, words) == "one (50)"
