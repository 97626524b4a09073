"""The inspector's API over real HTTP: what it shows, and how a page hears of changes."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import httpx
import pytest
import pytest_asyncio
from server.inspecting import TOKEN, TRIP, client_of, inspected, serving
from server.serving import error_of, events_of
from starlette.applications import Starlette
from starlette.routing import Mount

from autonomy_ctx import Agent, Memory, Message, Node
from autonomy_ctx.inspection import (
    diff_turns,
    inspect_conversation,
    inspect_timeline,
    inspect_turn,
    list_turns,
    read_message,
    read_messages,
)
from autonomy_ctx.server import http, inspector_app
from autonomy_ctx.server.inspector import app as inspector_module
from autonomy_ctx.testing import ScriptedModel


@pytest_asyncio.fixture
async def memory(tmp_path: Path) -> AsyncIterator[Memory]:
    made = Memory(f"sqlite:///{tmp_path}/memory.db")
    yield made
    await made.close()


@pytest_asyncio.fixture
async def agent(memory: Memory) -> AsyncIterator[Agent]:
    made = Agent("helper", instructions="Be brief.", model=ScriptedModel("The ferry is late."), memory=memory)
    for text in ("When is the ferry?", "And the train?"):
        await made.send(text, scope="ana", conversation="trip")
    yield made
    await made.close()


async def test_every_route_gives_what_the_function_of_its_name_does(memory: Memory, agent: Agent) -> None:
    view = memory.for_agent("helper")
    place = ("ana", "trip")
    turns = await list_turns(view, *place)
    first = turns[0].id
    expected: dict[str, Any] = {
        "conversation": (await inspect_conversation(view, *place)).to_dict(),
        "messages?after=1&limit=2": (await read_messages(view, *place, after=1, limit=2)).to_dict(),
        "message?position=2": (await read_message(view, *place, 2)).to_dict(),
        "timeline?points=10": (await inspect_timeline(view, *place, points=10)).to_dict(),
        "turns": {"turns": [turn.to_dict() for turn in turns]},
        "turn": (await inspect_turn(view, *place)).to_dict(),
        f"turn?turn={first}&step=1": (await inspect_turn(view, *place, first, step=1)).to_dict(),
        f"diff?before={first}": (await diff_turns(view, *place, first)).to_dict(),
        "facts": {"facts": []},
    }
    async with inspected(memory) as client:
        for path, body in expected.items():
            name, _, query = path.partition("?")
            answer = await client.get(f"/api/{name}", params={**TRIP, **httpx.QueryParams(query)})
            assert answer.status_code == 200, answer.text
            assert answer.json() == body


async def test_what_there_is_is_listed_a_page_at_a_time(memory: Memory, agent: Agent) -> None:
    for name in ("a", "b", "c"):
        await memory.append("bob", name, Message("user", "hello"))
    async with inspected(memory) as client:
        assert (await client.get("/api/agents")).json() == {"agents": ["", "helper"], "next": None}
        assert (await client.get("/api/agents?limit=1")).json() == {"agents": [""], "next": ""}
        assert (await client.get("/api/scopes?limit=1")).json() == {"scopes": ["ana"], "next": "ana"}
        assert (await client.get("/api/scopes?limit=1&after=ana")).json()["scopes"] == ["bob"]
        page = (await client.get("/api/conversations?scope=bob&limit=2")).json()
        assert [one["conversation"] for one in page["conversations"]] == ["a", "b"]
        assert page["next"] == {"after_agent": "", "after": "b"}
        more = (await client.get("/api/conversations", params={"scope": "bob", **page["next"]})).json()
        assert [one["conversation"] for one in more["conversations"]] == ["c"]
        assert more["next"] is None
        [trip] = (await client.get("/api/conversations?scope=ana")).json()["conversations"]
        assert (trip["agent"], trip["messages"]) == ("helper", 4)


async def test_messages_are_found_by_their_words(memory: Memory, agent: Agent) -> None:
    async with inspected(memory) as client:
        answer = await client.get("/api/search?agent=helper&scope=ana&query=train")
        [hit] = answer.json()["hits"]
        assert (hit["conversation"], hit["message"]["position"]) == ("trip", 3)
        assert (await client.get("/api/search?agent=&scope=ana&query=train")).json() == {"hits": []}
        # With all agents, when none is named.
        await memory.append("ana", "plain", Message("user", "The train is late, the train!"))
        hits = (await client.get("/api/search?scope=ana&query=train")).json()["hits"]
        assert {(hit["agent"], hit["conversation"]) for hit in hits} == {("", "plain"), ("helper", "trip")}
        assert [hit["score"] for hit in hits] == sorted((hit["score"] for hit in hits), reverse=True)
        assert len((await client.get("/api/search?scope=ana&query=train&limit=1")).json()["hits"]) == 1


async def test_what_is_not_there_or_wrong_is_told(memory: Memory, agent: Agent) -> None:
    wrong = {
        "conversation": (400, "BadRequest"),
        "conversation?scope=ana": (400, "BadRequest"),
        "conversation?scope=ana&conversation=nope": (404, "UnknownConversation"),
        "turn?agent=helper&scope=ana&conversation=trip&turn=nope": (404, "UnknownTurn"),
        "turn?agent=helper&scope=ana&conversation=trip&step=9": (404, "UnknownTurn"),
        "message?agent=helper&scope=ana&conversation=trip&position=99": (404, "UnknownPosition"),
        "message?agent=helper&scope=ana&conversation=trip": (400, "BadRequest"),
        "messages?agent=helper&scope=ana&conversation=trip&limit=1001": (400, "BadRequest"),
        "messages?agent=helper&scope=ana&conversation=trip&limit=ten": (400, "BadRequest"),
        "timeline?agent=helper&scope=ana&conversation=trip&points=-1": (400, "BadRequest"),
        "turns?agent=helper&scope=ana&conversation=trip&typo=1": (400, "BadRequest"),
        "turns?agent=helper&scope=ana&scope=bob&conversation=trip": (400, "BadRequest"),
        "conversation?scope=%00&conversation=trip": (400, "InvalidKey"),
        "events": (400, "BadRequest"),
        "events?scope=%00": (400, "InvalidKey"),
        "nothing": (404, "NotFound"),
    }
    async with inspected(memory) as client:
        for path, expected in wrong.items():
            assert error_of(await client.get(f"/api/{path}")) == expected, path
        answer = await client.get("/api/turns?scope=ana&conversation=trip&agent=helper&typo=1")
        assert answer.json()["error"]["message"] == (
            "the query has an unknown `typo`; it takes agent, scope, conversation, before, limit"
        )
        assert error_of(await client.post("/api/turns")) == (405, "MethodNotAllowed")


async def test_hostile_text_comes_as_json_and_nothing_else(memory: Memory) -> None:
    text = "</script><script>alert(1)</script> \x1b[31m \u202e \ud800"
    await memory.append("ana", "trip", Message("user", text))
    async with inspected(memory) as client:
        answer = await client.get("/api/messages?scope=ana&conversation=trip")
        assert answer.headers["content-type"] == "application/json"
        assert answer.headers["x-content-type-options"] == "nosniff"
        assert answer.json()["messages"][0]["text"] == text


async def test_a_page_hears_of_a_conversation_that_changes(memory: Memory, agent: Agent) -> None:
    app = inspector_app(memory, token=TOKEN, poll_seconds=0.01)
    async with serving(app) as client, client.stream("GET", "/api/events", params=TRIP) as response:
        assert response.headers["content-type"] == "text/event-stream"
        events = events_of(response)
        assert (await anext(events)).event == "ready"
        reply = await agent.send("And the bus?", scope="ana", conversation="trip")
        async for event in events:
            assert event.event == "changed"
            if event.data["turn"] == reply.turn:
                break
        assert event.data | {"messages": 6, "head": 6} == event.data
        assert event.data | TRIP == event.data


async def test_a_page_hears_of_all_conversations_of_a_scope(memory: Memory, agent: Agent) -> None:
    app = inspector_app(memory, token=TOKEN, poll_seconds=0.01)
    async with serving(app) as client, client.stream("GET", "/api/events?scope=ana") as response:
        events = events_of(response)
        assert (await anext(events)).event == "ready"
        await memory.append("bob", "other", Message("user", "not for ana"))
        await memory.append("ana", "new", Message("user", "hello"))
        event = await anext(events)
        assert (event.event, event.data["conversation"], event.data["messages"]) == ("changed", "new", 1)
        await memory.delete_conversation("ana", "new")
        event = await anext(events)
        assert (event.data["conversation"], event.data["messages"]) == ("new", 0)


async def test_pages_that_listen_are_limited_and_end_with_the_server(
    memory: Memory, agent: Agent, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(inspector_module, "MAX_STREAMS", 1)
    app = inspector_app(memory, token=TOKEN, poll_seconds=0.01)
    async with serving(app) as client:
        async with client.stream("GET", "/api/events?scope=ana") as response:
            events = events_of(response)
            assert (await anext(events)).event == "ready"
            assert error_of(await client.get("/api/events?scope=ana")) == (503, "TooManyStreams")
            app.requests.closing = True
            assert [event async for event in events] == []
            app.requests.closing = False
        async with client.stream("GET", "/api/events?scope=ana") as response:
            assert response.status_code == 200


async def test_it_can_be_mounted_in_another_application(
    memory: Memory, agent: Agent, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "index.html").write_text("<!doctype html>")
    monkeypatch.setattr(inspector_module, "PAGE_FOLDER", str(tmp_path))
    outer = Starlette(routes=[Mount("/tools/inspector", inspector_app(memory, token=TOKEN))])
    async with serving(outer) as client:
        assert (await client.get("/tools/inspector/api/conversation", params=TRIP)).status_code == 200
        assert (await client.get("/tools/inspector/")).text == "<!doctype html>"
        opened = await client.get(f"/tools/inspector/?token={TOKEN}")
        assert (opened.status_code, opened.headers["location"]) == (303, "/tools/inspector/")
        assert "Path=/tools/inspector/;" in opened.headers["set-cookie"]
        del client.headers["authorization"]
        assert (await client.get("/tools/inspector/api/conversation", params=TRIP)).status_code == 200


async def test_a_node_is_inspected_with_its_memory(memory: Memory) -> None:
    async with Node(memory=memory) as node:
        made = await Agent.start(node=node, name="helper", instructions="Brief.", model=ScriptedModel("ok"))
        await made.send("hello", scope="ana", conversation="trip")
        async with inspected(node) as client:
            assert (await client.get("/api/conversation", params=TRIP)).json()["messages"] == 2


def test_only_a_memory_or_a_node_can_be_inspected() -> None:
    with pytest.raises(TypeError, match="a Memory or a Node, not str"):
        inspector_app("sqlite:///memory.db", token=TOKEN)  # type: ignore[arg-type]
    with pytest.raises(TypeError, match="a list of host names"):
        inspector_app(Memory(), token=TOKEN, allowed_hosts="example.org")
    for token in ("", "with space", None):
        with pytest.raises(ValueError, match="token"):
            inspector_app(Memory(), token=token)  # type: ignore[arg-type]


async def test_a_node_serves_the_inspector_beside_its_api(memory: Memory) -> None:
    serving_node = http(port=0, inspector="read")
    assert http().inspector_page is None
    async with Node(memory=memory, serve=serving_node) as node, client_of(serving_node.url) as client:
        agent = await Agent.start(node=node, name="helper", instructions="Brief.", model=ScriptedModel("ok"))
        await agent.send("hello", scope="ana", conversation="trip")
        page, _, token = str(serving_node.inspector_page).partition("#token=")
        assert page == f"{serving_node.url}/inspector/"
        assert (await client.get("/inspector")).headers["location"] == "/inspector/"
        assert error_of(await client.get("/inspector/api/info")) == (401, "Unauthorized")
        client.headers["authorization"] = f"Bearer {token}"
        assert (await client.get("/inspector/api/info")).json()["write"] is False
        assert (await client.get("/inspector/api/conversation", params=TRIP)).json()["messages"] == 2
        # The API itself is as it was.
        assert (await client.get("/agents")).json()["agents"][0]["name"] == "helper"
        assert error_of(await client.get("/inspectors")) == (404, "NotFound")


async def test_with_a_token_of_the_api_the_inspector_has_the_same(memory: Memory) -> None:
    serving_node = http(port=0, token=TOKEN, inspector="write")
    async with Node(memory=memory, serve=serving_node), client_of(serving_node.url) as client:
        assert str(serving_node.inspector_page).endswith(f"/inspector/#token={TOKEN}")
        assert error_of(await client.get("/agents")) == (401, "Unauthorized")
        assert error_of(await client.get("/inspector/api/info")) == (401, "Unauthorized")
        assert error_of(await client.get("/inspector/", headers={"host": "evil.test"})) == (403, "Forbidden")
        client.headers["authorization"] = f"Bearer {TOKEN}"
        assert (await client.get("/inspector/api/info")).json()["write"] is True


def test_an_inspector_is_for_reading_or_for_writing() -> None:
    with pytest.raises(ValueError, match="None, 'read' or 'write'"):
        http(inspector="both")  # type: ignore[arg-type]
