"""The API for the users of an application, mounted and behind uvicorn: who sees what."""

from __future__ import annotations

import logging
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import anyio
import httpx
import pytest
from fastapi import FastAPI
from fastapi.openapi.models import OpenAPI
from server.serving import Hanging, error_of, events_of
from server.tenants import (
    SECRET,
    Asked,
    add_content,
    open_node,
    requests_of,
    schema_problem,
    scope_of_key,
    uvicorn_client,
)
from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.routing import Mount

from autonomy_ctx import Node
from autonomy_ctx.errors import AccessDenied
from autonomy_ctx.server import asgi

OPERATIONS = {one.name: one for one in asgi(Node(), scope="any").operations}
each_operation = pytest.mark.parametrize("name", OPERATIONS)
BOB = {"x-api-key": "key-of-bob"}


@asynccontextmanager
async def mounted(node: Node, **options: Any) -> AsyncIterator[httpx.AsyncClient]:
    """The API at `/v1/assistant` of an application, and a client of tenant ana."""
    options = options or {"authenticate": scope_of_key}
    outer = Starlette(routes=[Mount("/v1/assistant", asgi(node, **options))])
    async with uvicorn_client(outer) as client:
        client.base_url = client.base_url.join("/v1/assistant")
        yield client


async def ask(client: httpx.AsyncClient, name: str, asked: Asked, **options: Any) -> httpx.Response:
    operation = OPERATIONS[name]
    path = operation.path.replace("{agent}", options.pop("agent", "helper"))
    return await client.request(operation.method, path, params=asked.query, json=asked.body, **options)


async def test_every_route_answers_as_the_document_says(tmp_path: Path) -> None:
    node = await open_node(f"sqlite:///{tmp_path}/memory.db")
    async with node, mounted(node) as client:
        asked = requests_of(await add_content(node, "ana"))
        document = (await client.get("/openapi.json")).json()
        assert set(asked) == set(OPERATIONS)
        for name, one in asked.items():
            answer = await ask(client, name, one)
            assert answer.status_code == 200, (name, answer.text)
            assert answer.headers["cache-control"] == "no-store"
            schema = document["components"]["schemas"][OPERATIONS[name].answer.__name__]
            assert schema_problem(answer.json(), schema) is None
        assert await node.agent("helper").conversations(scope="ana") == []


KEY = {"key": {"type": "apiKey", "in": "header", "name": "x-api-key"}}


@pytest.mark.parametrize(
    ("options", "schemes"),
    [
        ({"authenticate": scope_of_key}, {"bearer": {"type": "http", "scheme": "bearer"}}),
        ({"authenticate": scope_of_key, "security_schemes": KEY}, KEY),
        ({"scope": "ana"}, {}),
    ],
)
async def test_the_document_says_how_clients_sign_in(
    options: dict[str, Any], schemes: dict[str, Any]
) -> None:
    node = await open_node()
    async with node, mounted(node, **options) as client:
        document = (await client.get("/openapi.json")).json()
        OpenAPI.model_validate(document)
        assert document["components"]["securitySchemes"] == schemes
        assert document["security"] == [{name: []} for name in schemes]


async def test_the_document_has_every_route_and_no_other() -> None:
    node = await open_node()
    async with node, mounted(node) as client:
        document = (await client.get("/openapi.json", headers={"x-api-key": ""})).json()
        assert OpenAPI.model_validate(document).openapi == "3.1.0"
        assert document["servers"] == [{"url": "/v1/assistant"}]
        told = {
            (method.upper(), path): told
            for path, methods in document["paths"].items()
            for method, told in methods.items()
        }
        assert set(told) == {(one.method, one.path) for one in OPERATIONS.values()}
        assert len({one["operationId"] for one in told.values()}) == len(told)
        for one in OPERATIONS.values():
            parameters = told[one.method, one.path]["parameters"]
            assert [p["name"] for p in parameters if p["in"] == "path"] == ["agent"][: "{" in one.path]
            assert {"200", "400", "401", "403", "404", "429"} <= set(told[one.method, one.path]["responses"])
        assert all(ref in document["components"]["schemas"] for ref in _references(document))
        for method in ("GET", "POST", "PUT", "PATCH", "DELETE"):
            for path in document["paths"]:
                answer = await client.request(method, path.replace("{agent}", "helper"), headers=BOB)
                assert (answer.status_code == 405) == ((method, path) not in told)


def _references(value: Any) -> list[str]:
    if isinstance(value, dict):
        own = [value["$ref"].rpartition("/")[2]] if "$ref" in value else []
        return own + [one for inside in value.values() for one in _references(inside)]
    return [one for inside in value for one in _references(inside)] if isinstance(value, list) else []


async def test_a_route_takes_what_the_document_says_and_nothing_else() -> None:
    node = await open_node()
    async with node, mounted(node) as client:
        schemas = (await client.get("/openapi.json")).json()["components"]["schemas"]
        for name, asked in requests_of(await add_content(node, "ana")).items():
            operation = OPERATIONS[name]
            if operation.body is None:
                answer = await ask(client, name, Asked({**asked.query, "extra": "x"}))
                told = [one.name for one in operation.query]
                required = [one.name for one in operation.query if one.required]
            else:
                answer = await ask(client, name, Asked(body={**(asked.body or {}), "extra": "x"}))
                schema = schemas[operation.body.__name__]
                told, required = list(schema["properties"]), schema["required"]
            assert error_of(answer) == (400, "BadRequest")
            taken = answer.json()["error"]["message"].partition("it takes ")[2]
            assert sorted(taken.split(", ")) == (sorted(told) or ["nothing"]), name
            for missing in required:
                left = {one: value for one, value in (asked.body or asked.query).items() if one != missing}
                incomplete = Asked(left) if asked.body is None else Asked(body=left)
                assert error_of(await ask(client, name, incomplete))[0] == 400, (name, missing)


@each_operation
async def test_a_tenant_sees_and_changes_nothing_of_another(name: str) -> None:
    node = await open_node()
    async with node, mounted(node) as client:
        asked = requests_of(await add_content(node, "ana"))[name]
        before = await _everything(client)
        answer = await ask(client, name, asked, headers=BOB)
        # The name of a conversation is bob's own as long as he does not read ana's with it.
        if name != "takeTurn":
            assert SECRET not in answer.text
        for field in ("scope", "params", "tenant"):
            for named in (
                Asked({**asked.query, field: "ana"}, asked.body),
                Asked(asked.query, {**(asked.body or {}), field: "ana"}),
            ):
                refused = await ask(client, name, named, headers=BOB)
                # A body that a route does not read says nothing to it.
                if named.query != asked.query or asked.body is not None:
                    assert refused.status_code == 400, (named, refused.text)
                assert name == "takeTurn" or SECRET not in refused.text
        for header in ("x-scope", "scope", "x-forwarded-user"):
            other = await ask(client, name, asked, headers={**BOB, header: "ana"})
            assert name == "takeTurn" or SECRET not in other.text
        assert await _everything(client) == before


async def _everything(client: httpx.AsyncClient) -> list[Any]:
    """All that ana has."""
    trip = Asked({"conversation": "trip"})
    names = ("getConversation", "readHistory", "listTurns", "listFacts", "explainTurn")
    found = [(await ask(client, name, trip)).json() for name in names]
    return [*found, (await ask(client, "listConversations", Asked())).json()]


@each_operation
async def test_tenants_with_conversations_of_the_same_name_have_their_own(name: str) -> None:
    node = await open_node()
    async with node, mounted(node) as client:
        await add_content(node, "ana")
        before = await _everything(client)
        await node.agent("helper").send("Where is my train?", scope="bob", conversation="trip")
        content = await add_content(node, "bob")
        assert (await ask(client, name, requests_of(content)[name], headers=BOB)).status_code == 200
        assert await _everything(client) == before


async def test_nobody_is_let_in_without_being_known() -> None:
    node = await open_node()
    async with node, mounted(node) as client:
        for name, asked in requests_of(await add_content(node, "ana")).items():
            for key in ("", "wrong", "ana"):
                refused = await ask(client, name, asked, headers={"x-api-key": key})
                assert error_of(refused) == (401, "Unauthorized"), name
                assert refused.headers["www-authenticate"] == "Bearer"
        assert await node.agent("helper").get_message_count(scope="ana", conversation="trip") == 2


def _deny(error: Exception) -> Callable[[Request], str]:
    def authenticate(request: Request) -> str:
        raise error

    return authenticate


async def _scope_awaited(request: Request) -> str | None:
    await anyio.lowlevel.checkpoint()
    return scope_of_key(request)


async def _body_first(request: Request) -> str:
    await request.body()
    return "ana"


@pytest.mark.parametrize(
    ("authenticate", "status", "kind"),
    [
        (_scope_awaited, 200, None),
        (_deny(AccessDenied("the plan has ended")), 403, "AccessDenied"),
        (_deny(HTTPException(401, "sign in")), 401, "Unauthorized"),
        (_deny(HTTPException(403)), 403, "AccessDenied"),
        (_deny(HTTPException(503)), 500, "InternalError"),
        (_deny(PermissionError("/etc/keys")), 500, "InternalError"),
        (_deny(LookupError("key-of-ana")), 500, "InternalError"),
        (lambda request: "", 500, "InternalError"),
        (lambda request: True, 500, "InternalError"),
        (lambda request: 7, 500, "InternalError"),
        (lambda request: ["ana"], 500, "InternalError"),
        (lambda request: "a" * 10_000, 500, "InternalError"),
        (_body_first, 500, "InternalError"),
    ],
)
async def test_what_authenticate_says_is_what_happens(
    authenticate: Any, status: int, kind: str | None, caplog: pytest.LogCaptureFixture
) -> None:
    node = await open_node()
    async with node, mounted(node, authenticate=authenticate) as client:
        with caplog.at_level(logging.ERROR, logger="autonomy_ctx.server"):
            answer = await ask(client, "takeTurn", Asked(body={"message": "hello", "conversation": "trip"}))
        assert answer.status_code == status
        if kind is None:
            return
        assert error_of(answer) == (status, kind)
        assert "etc" not in answer.text
        assert "key-of-ana" not in answer.text + caplog.text
        assert bool(caplog.records) == (status == 500)
        assert await node.memory.scopes() == []


async def test_a_reason_reaches_the_client() -> None:
    node = await open_node()
    async with node, mounted(node, authenticate=_deny(AccessDenied("the plan has ended"))) as client:
        answer = await ask(client, "listAgents", Asked())
        assert answer.json()["error"]["message"] == "access is denied: the plan has ended"


async def test_a_scope_is_never_a_default() -> None:
    async with Node() as node:
        for options in ({}, {"authenticate": None}, {"authenticate": scope_of_key, "scope": "ana"}):
            with pytest.raises(TypeError, match="either `authenticate`"):
                asgi(node, **options)
        for scope, error in (("", ValueError), (7, TypeError), ("a" * 10_000, ValueError)):
            with pytest.raises(error, match="scope"):
                asgi(node, scope=scope)  # type: ignore[arg-type]
        with pytest.raises(TypeError, match="authenticate must be a function"):
            asgi(node, authenticate="ana")  # type: ignore[arg-type]
        with pytest.raises(TypeError, match="rate_limit must be a function"):
            asgi(node, scope="ana", rate_limit=5)  # type: ignore[arg-type]
    with pytest.raises(TypeError, match="serves a Node, not str"):
        asgi("node", scope="ana")  # type: ignore[arg-type]


async def test_one_fixed_scope_can_be_given() -> None:
    node = await open_node()
    async with node, mounted(node, scope="ana") as client:
        await add_content(node, "ana")
        await add_content(node, "bob", "other")
        listed = (await ask(client, "listConversations", Asked())).json()["conversations"]
        assert [(one["scope"], one["conversation"]) for one in listed] == [("ana", "trip")]
        assert error_of(await ask(client, "listConversations", Asked({"scope": "bob"})))[0] == 400


async def test_conversations_and_history_come_a_page_at_a_time() -> None:
    node = await open_node()
    async with node, mounted(node) as client:
        for name in ("a", "b", "c/d"):
            await add_content(node, "ana", name)
        page = (await ask(client, "listConversations", Asked({"limit": 2}))).json()
        assert [one["conversation"] for one in page["conversations"]] == ["a", "b"]
        rest = (await ask(client, "listConversations", Asked({"after": page["next"]}))).json()
        assert ([one["conversation"] for one in rest["conversations"]], rest["next"]) == (["c/d"], None)
        newest = (await ask(client, "readHistory", Asked({"conversation": "c/d", "limit": 1}))).json()
        assert [one["role"] for one in newest["messages"]] == ["assistant"]
        before = Asked({"conversation": "c/d", "limit": 1, "before": newest["older"]})
        older = (await ask(client, "readHistory", before)).json()
        assert [one["role"] for one in older["messages"]] == ["user"]
        assert older["older"] is None


async def test_a_client_that_asks_too_often_is_told_when_to_come_back() -> None:
    seen: list[str] = []
    waits: list[Any] = [None, 0, 1.5]

    async def rate_limit(request: Request, scope: str) -> Any:
        seen.append(scope)
        return waits.pop(0)

    node = await open_node()
    async with node, mounted(node, authenticate=scope_of_key, rate_limit=rate_limit) as client:
        assert (await ask(client, "listAgents", Asked())).status_code == 200
        assert (await ask(client, "listAgents", Asked(), headers=BOB)).status_code == 200
        refused = await ask(client, "takeTurn", Asked(body={"message": "hello", "conversation": "trip"}))
        assert error_of(refused) == (429, "RateLimited")
        assert refused.headers["retry-after"] == "2"
        assert refused.json()["error"]["retry_after"] == 1.5
        assert await node.memory.scopes() == []
        assert (await ask(client, "listAgents", Asked(), headers={"x-api-key": ""})).status_code == 401
        assert seen == ["ana", "bob", "ana"]


@pytest.mark.parametrize("wait", [float("nan"), float("inf"), True, "5"])
async def test_a_limit_that_is_no_number_lets_nobody_in(wait: Any) -> None:
    node = await open_node()
    async with node, mounted(node, scope="ana", rate_limit=lambda request, scope: wait) as client:
        assert error_of(await ask(client, "listAgents", Asked())) == (500, "InternalError")


@pytest.mark.parametrize(
    ("content", "kind", "expected"),
    [
        (b"{", "application/json", (400, "BadRequest")),
        (b"[]", "application/json", (400, "BadRequest")),
        (b'{"message": "hello"}', "application/json", (400, "BadRequest")),
        (b'{"message": 7, "conversation": "trip"}', "application/json", (400, "BadRequest")),
        (b'{"message": "hello", "conversation": "\\u0000"}', "application/json", (400, "InvalidKey")),
        (b'{"message": "hello", "conversation": "trip"}', "text/plain", (415, "UnsupportedMediaType")),
    ],
)
async def test_a_turn_that_cannot_be_read_is_refused(
    content: bytes, kind: str, expected: tuple[int, str]
) -> None:
    node = await open_node()
    async with node, mounted(node) as client:
        answer = await client.post("/agents/helper", content=content, headers={"content-type": kind})
        assert error_of(answer) == expected


async def test_an_agent_that_is_not_there_is_not_found() -> None:
    node = await open_node()
    async with node, mounted(node) as client:
        for name, asked in requests_of(await add_content(node, "ana")).items():
            answer = await ask(client, name, asked, agent="nobody")
            assert name == "listAgents" or error_of(answer) == (404, "UnknownAgent"), name


async def test_a_method_that_is_not_there_is_told_which_are() -> None:
    node = await open_node()
    async with node, mounted(node) as client:
        answer = await client.put("/agents/helper/facts", json={})
        assert error_of(answer) == (405, "MethodNotAllowed")
        assert {"GET", "POST", "DELETE"} <= set(answer.headers["allow"].split(", "))


async def test_a_turn_is_streamed_to_its_tenant() -> None:
    node = await open_node()
    async with node, mounted(node) as client:
        body = {"message": "When?", "conversation": "trip", "stream": True}
        async with client.stream("POST", "/agents/helper", json=body, headers=BOB) as response:
            assert response.headers["content-type"] == "text/event-stream"
            events = [event async for event in events_of(response)]
        assert [event.event for event in events][-1] == "done"
        assert SECRET in events[-1].data["text"]
        assert await node.memory.scopes() == ["bob"]


@pytest.mark.parametrize("stream", [True, False])
async def test_a_client_that_hangs_up_ends_its_turn(stream: bool) -> None:
    model = Hanging()
    node = await open_node(model=model)
    app = FastAPI()
    app.mount("/assistant", asgi(node, authenticate=scope_of_key))

    @app.middleware("http")
    async def add_header(request: Request, call_next: Any) -> Any:
        response = await call_next(request)
        response.headers["x-application"] = "yes"
        return response

    async with node, uvicorn_client(app) as client:
        body = {"message": "hello", "conversation": "trip", "stream": stream}
        async with anyio.create_task_group() as group:
            group.start_soon(lambda: client.post("/assistant/agents/helper", json=body))
            await model.asked.wait()
            group.cancel_scope.cancel()
        with anyio.fail_after(10):
            await model.left.wait()
        answer = await client.get("/assistant/agents/helper/conversations")
        assert answer.headers["x-application"] == "yes"
        assert [one["messages"] for one in answer.json()["conversations"]] == [1]


@pytest.mark.usefixtures("short_grace")
async def test_a_stream_ends_with_an_error_when_the_node_is_closed() -> None:
    model = Hanging()
    node = await open_node(model=model)
    async with node, mounted(node) as client:
        body = {"message": "hello", "conversation": "trip", "stream": True}
        async with client.stream("POST", "/agents/helper", json=body) as response:
            await model.asked.wait()
            await node.close()
            events = [event async for event in events_of(response)]
        assert [event.event for event in events] == ["error"]
        assert events[0].data["error"]["type"] == "AgentClosed"
        assert error_of(await ask(client, "listAgents", Asked())) == (503, "Closing")


async def test_the_application_around_it_opens_and_closes_the_node(tmp_path: Path) -> None:
    opened: list[Node] = []

    @asynccontextmanager
    async def lifespan(app: FastAPI) -> AsyncIterator[None]:
        async with await open_node(f"sqlite:///{tmp_path}/memory.db") as node:
            app.mount("/assistant", asgi(node, authenticate=scope_of_key))
            opened.append(node)
            yield

    app = FastAPI(lifespan=lifespan)

    @app.get("/hello")
    async def hello() -> str:
        return "hello"

    async with uvicorn_client(app) as client:
        assert (await client.get("/hello")).json() == "hello"
        assert (await client.get("/assistant/agents")).json()["agents"][0]["name"] == "helper"
        is_closed = [opened[0].closed]
        api = asgi(opened[0], scope="ana")
    assert [*is_closed, opened[0].closed] == [False, True]
    async with uvicorn_client(api) as client:
        assert error_of(await client.get("/agents")) == (503, "Closing")


async def test_it_runs_without_an_application_around_it_and_leaves_the_node_open() -> None:
    node = await open_node()
    async with node:
        async with uvicorn_client(asgi(node, authenticate=scope_of_key)) as client:
            assert (await client.get("/agents")).status_code == 200
            assert (await client.get("/openapi.json")).json()["servers"] == [{"url": "/"}]
            assert error_of(await client.get("/")) == (404, "NotFound")
        assert not node.closed


async def test_a_web_socket_is_refused() -> None:
    sent: list[Any] = []

    async def receive() -> Any:
        return {"type": "websocket.connect"}

    async def send(message: Any) -> None:
        sent.append(message)

    await asgi(Node(), scope="ana")({"type": "websocket", "path": "/agents"}, receive, send)
    assert sent == [{"type": "websocket.close", "code": 1000}]
