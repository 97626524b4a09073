"""The ASGI application of a node's HTTP API: the checks of requests, and the routes.

`application` makes it, and `http.py` runs it.
"""

from __future__ import annotations

import json
import math
import time
from collections.abc import AsyncIterator, Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, NoReturn, TypedDict

import anyio
import anyio.lowlevel
import anyio.to_thread
from starlette.applications import Starlette
from starlette.requests import ClientDisconnect, Request
from starlette.responses import Response, StreamingResponse
from starlette.routing import Route
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from autonomy_ctx.agents.agent import CONVERSATION, SCOPE, Agent
from autonomy_ctx.agents.node import Node
from autonomy_ctx.server.common.arguments import BodyTooLarge, is_encoded, is_json, read_bytes
from autonomy_ctx.server.common.auth import HEALTH_PATH, METRICS_PATH, Access, AccessPolicy
from autonomy_ctx.server.common.errors import (
    NODE_CLOSING,
    SLOW_BODY,
    YIELD_BYTES,
    ClientError,
    RequestRefused,
    bad_request,
    client_error,
    encode_large_json,
)
from autonomy_ctx.server.common.events import EventStream, cancel_on_disconnect, reply_body
from autonomy_ctx.server.common.limits import ServerLimits
from autonomy_ctx.server.common.prometheus import MEDIA_TYPE, prometheus_text
from autonomy_ctx.server.common.responses import (
    EXCEPTION_HANDLERS,
    answer_error,
    error_response,
    json_response,
)

BODY_LIMIT = 16 * 1024 * 1024
# Of the message in a body.
MAX_PARTS = 1_000
# From here on a body is parsed in a thread.
_LARGE_BODY = 64 * 1024
DEFAULT_HISTORY = 100
MAX_HISTORY = 1000
HEALTH_SECONDS = 1.0

_FIELDS = ("message", "scope", "conversation", "stream", "message_id", "params")
# A section may look up what params name, and believes them as it believes the scope.
_TENANT_FIELDS = ("message", "conversation", "stream", "message_id")


@dataclass(frozen=True, slots=True, kw_only=True)
class TurnRequest:
    """The request of a client for one turn."""

    message: str | list[Any]
    scope: str = SCOPE
    conversation: str = CONVERSATION
    stream: bool = False
    message_id: str | None = None
    params: dict[str, Any] | None = None

    def options(self) -> dict[str, Any]:
        """The arguments of `send` and `stream` besides the message."""
        return {
            "scope": self.scope,
            "conversation": self.conversation,
            "message_id": self.message_id,
            "params": self.params,
        }


async def read_turn_request(
    request: Request, *, body_seconds: float, scope: str | None = None
) -> TurnRequest:
    """The turn of a POST request; in `scope`, if the client may not name one."""
    if not is_json(request):
        raise _unsupported_encoding("send JSON, with the header `content-type: application/json`")
    if is_encoded(request):
        raise _unsupported_encoding("send the body unencoded, without a content-encoding")
    try:
        raw = await read_bytes(request, most=BODY_LIMIT, seconds=body_seconds)
    except TimeoutError:
        raise RequestRefused(SLOW_BODY) from None
    except BodyTooLarge:
        message = f"a body may have {BODY_LIMIT:,} bytes; send less, or a reference to a file"
        raise RequestRefused(ClientError(status=413, type="BodyTooLarge", message=message)) from None
    if len(raw) < _LARGE_BODY:
        return parse_turn_request(raw, scope)
    return await anyio.to_thread.run_sync(parse_turn_request, raw, scope)


def parse_turn_request(raw: bytes, scope: str | None = None) -> TurnRequest:
    """A body as a turn. With a `scope`, the body may name none, and must name a conversation of it."""
    known = _FIELDS if scope is None else _TENANT_FIELDS
    try:
        data = json.loads(raw, parse_constant=_refuse_constant)
    except json.JSONDecodeError as error:
        raise bad_request(
            f"the body is not JSON: {error.msg} at line {error.lineno}, column {error.colno}"
        ) from None
    except UnicodeDecodeError:
        raise bad_request("the body is not JSON: it is not UTF-8") from None
    except (ValueError, RecursionError):
        raise bad_request(
            "the body cannot be read as JSON: a number is too large, or it is nested too deeply"
        ) from None
    if not isinstance(data, dict):
        raise bad_request(f"the body must be a JSON object with {', '.join(known)}")
    unknown = next((name for name in data if name not in known), None)
    if unknown is not None:
        raise bad_request(f"the body has an unknown field {unknown[:40]!r}; it takes {', '.join(known)}")
    if "message" not in data:
        raise bad_request("the body has no `message`; give a text, or a list of parts")
    _check_field(data, "message", str | list, "a text or a list of parts")
    if isinstance(data["message"], list) and len(data["message"]) > MAX_PARTS:
        raise bad_request(f"`message` has {len(data['message']):,} parts; it may have {MAX_PARTS:,}")
    for name in ("scope", "conversation"):
        _check_field(data, name, str, "a string")
    _check_field(data, "stream", bool, "true or false")
    _check_field(data, "message_id", str | None, "a string")
    _check_field(data, "params", dict | None, "an object")
    if data.get("message_id") == "":
        raise bad_request("`message_id` is empty; leave it out, or give an id")
    if scope is None:
        return TurnRequest(**data)
    if "conversation" not in data:
        raise bad_request("the body has no `conversation`; name one of yours, or a new one")
    return TurnRequest(**data, scope=scope)


def parse_history(query: Mapping[str, str]) -> dict[str, Any]:
    """The arguments for `history` of an agent."""
    known = ("scope", "conversation", "limit")
    unknown = next((name for name in query if name not in known), None)
    if unknown is not None:
        raise bad_request(f"the query has an unknown parameter {unknown[:40]!r}; it takes {', '.join(known)}")
    text = query.get("limit", str(DEFAULT_HISTORY))
    limit = int(text) if text.isascii() and text.isdigit() and len(text) < 10 else 0
    if not 1 <= limit <= MAX_HISTORY:
        raise bad_request(f"`limit` must be a whole number from 1 to {MAX_HISTORY}")
    return {**query, "limit": limit}


def _check_field(data: Mapping[str, Any], name: str, kind: Any, expected: str) -> None:
    if name in data and not isinstance(data[name], kind):
        raise bad_request(f"`{name}` must be {expected}")


def _refuse_constant(text: str) -> NoReturn:
    raise bad_request(f"the body is not JSON: {text} is not a number")


def _unsupported_encoding(message: str) -> RequestRefused:
    return RequestRefused(ClientError(status=415, type="UnsupportedMediaType", message=message))


class HealthState:
    """The health of a node, as it was within the last second.

    The check needs a write, and clients without a token may request it, so the result is cached.
    """

    def __init__(self, node: Node, *, clock: Callable[[], float] = time.monotonic) -> None:
        self._node, self._clock = node, clock
        self._lock = anyio.Lock()
        self._healthy, self._until = False, -math.inf

    async def healthy(self) -> bool:
        """The last result, or a new one if it is older than a second; concurrent requests share it."""
        async with self._lock:
            if self._clock() >= self._until:
                self._healthy = await self._node.healthy()
                self._until = self._clock() + HEALTH_SECONDS
            return self._healthy


class AgentInfo(TypedDict):
    """An agent of the node."""

    name: str
    description: str


class AgentRoutes:
    """The routes to the agents of a node, for its owner and for tenants."""

    def __init__(self, node: Node, limits: ServerLimits) -> None:
        self._node, self._limits = node, limits

    def listed(self) -> list[AgentInfo]:
        """Names and descriptions."""
        return [{"name": agent.name, "description": agent.description} for agent in self._node.agents]

    async def take_turn(self, request: Request, name: str, scope: str | None = None) -> Response:
        """Take one turn, and answer whole or as events; in `scope`, if the client may not name one."""
        agent = self._node.agent(name)
        turn = await read_turn_request(request, body_seconds=self._limits.body_seconds, scope=scope)
        if not turn.stream:
            return await _answer_whole_turn(agent, turn, request.receive)
        stream = agent.stream(turn.message, **turn.options())
        stream.max_buffered = self._limits.max_buffered
        return EventStream(stream, keep_alive_seconds=self._limits.keep_alive_seconds)


class Routes(AgentRoutes):
    """The routes of the API of a node."""

    def __init__(self, node: Node, limits: ServerLimits) -> None:
        super().__init__(node, limits)
        self._health = HealthState(node)

    async def agents(self, request: Request) -> Response:
        """List names and descriptions."""
        return json_response({"agents": self.listed()})

    async def ask(self, request: Request) -> Response:
        """Take one turn, and answer whole or as events."""
        return await self.take_turn(request, request.path_params["name"])

    async def history(self, request: Request) -> Response:
        """The newest messages of a conversation."""
        agent = self._node.agent(request.path_params["name"])
        messages = await agent.history(**parse_history(request.query_params))
        return StreamingResponse(_history_body(messages), media_type="application/json")

    async def health(self, request: Request) -> Response:
        """Tell whether the node can take turns, as of the last second."""
        if await self._health.healthy():
            return json_response({"status": "ok"})
        return json_response({"status": "unavailable"}, status=503)

    async def metrics(self, request: Request) -> Response:
        """Counters for Prometheus."""
        text = prometheus_text(await self._node.get_metrics())
        return Response(text, headers={"content-type": MEDIA_TYPE})


async def _history_body(messages: Sequence[Mapping[str, Any]]) -> AsyncIterator[bytes]:
    """Messages as JSON in pieces, so that little is prepared ahead for a client that reads slowly."""
    piece = bytearray(b'{"messages":[')
    for number, message in enumerate(messages):
        piece += (b"," if number else b"") + await encode_large_json(message)
        if len(piece) > YIELD_BYTES:
            yield bytes(piece)
            piece.clear()
            await anyio.lowlevel.checkpoint()
    yield bytes(piece + b"]}")


async def _answer_whole_turn(agent: Agent, turn: TurnRequest, receive: Receive) -> Response:
    """The whole turn; if the client disconnects, the turn is cancelled."""
    response = error_response(NODE_CLOSING)
    async with anyio.create_task_group() as group:
        group.start_soon(cancel_on_disconnect, receive, group.cancel_scope)
        try:
            body = reply_body(await agent.send(turn.message, **turn.options()))
            response = Response(await encode_large_json(body), media_type="application/json")
        except Exception as error:
            response = error_response(client_error(error))
        group.cancel_scope.cancel()
    return response


class ActiveRequests:
    """The running requests; a close accepts no more and ends them."""

    def __init__(self) -> None:
        self.closing = False
        self._scopes: set[anyio.CancelScope] = set()
        self._empty = anyio.Event()

    def __len__(self) -> int:
        return len(self._scopes)

    @contextmanager
    def request(self) -> Iterator[anyio.CancelScope]:
        """A scope that a close cancels."""
        with anyio.CancelScope() as scope:
            self._scopes.add(scope)
            try:
                yield scope
            finally:
                self._scopes.discard(scope)
                if not self._scopes:
                    self._empty.set()
                    self._empty = anyio.Event()

    async def close(self, grace_seconds: float) -> None:
        """Wait for running requests, at most so many seconds, then cancel them."""
        self.closing = True
        with anyio.move_on_after(grace_seconds):
            while self._scopes:
                await self._empty.wait()
        for scope in self._scopes:
            scope.cancel()


class RequestGate:
    """Rejects requests that are not allowed, counts the others, and turns every error into a response."""

    def __init__(
        self,
        app: ASGIApp,
        *,
        access: Access,
        requests: ActiveRequests,
        respond: Callable[[Exception], Response] = answer_error,
    ) -> None:
        self._app, self._access, self._requests, self._respond = app, access, requests, respond

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer a request."""
        if scope["type"] != "http":
            return
        # Without the prefix that it may be mounted at.
        path = scope["path"].removeprefix(scope.get("root_path", ""))
        refusal = NODE_CLOSING if self._requests.closing else self._access.refusal(path, scope["headers"])
        if refusal is not None:
            await self._respond(RequestRefused(refusal))(scope, receive, send)
            return
        started = False

        async def send_noted(message: Message) -> None:
            nonlocal started
            started = True
            await send(message)

        with self._requests.request() as cancelled:
            try:
                await self._app(scope, receive, send_noted)
            except ClientDisconnect:
                return
            except Exception as error:
                # Also if the request was answered: it logs the error. The outer server would log its text.
                response = self._respond(error)
                if not started:
                    await response(scope, receive, send)
        if cancelled.cancelled_caught and not started:
            await self._respond(RequestRefused(NODE_CLOSING))(scope, receive, send)


def application(
    node: Node, *, access: AccessPolicy, requests: ActiveRequests, limits: ServerLimits
) -> RequestGate:
    """The whole API of a node."""
    routes = Routes(node, limits)
    app = Starlette(
        routes=[
            Route("/agents", routes.agents),
            Route("/agents/{name}", routes.ask, methods=["POST"]),
            Route("/agents/{name}/history", routes.history),
            Route(HEALTH_PATH, routes.health),
            Route(METRICS_PATH, routes.metrics),
        ],
        exception_handlers=EXCEPTION_HANDLERS,
    )
    app.router.redirect_slashes = False
    return RequestGate(app, access=access, requests=requests)
