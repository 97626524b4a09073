"""The API of a node for the users of an application, made by `asgi`. Each user sees one scope.

The application's `authenticate` returns the scope of a request. The request reads and changes only this
scope; no argument of a client names a scope.
"""

from __future__ import annotations

import logging
import math
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import replace
from functools import cached_property, partial
from typing import Annotated, Any, NotRequired, TypedDict

from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route
from starlette.types import Message, Receive, Scope, Send

from autonomy_ctx.agents.agent import Agent
from autonomy_ctx.agents.node import Node
from autonomy_ctx.callables import await_call, check_callable
from autonomy_ctx.errors import AccessDenied, InvalidKey
from autonomy_ctx.formats.base import Usage
from autonomy_ctx.memory.memory import PAGE_SIZE, Memory
from autonomy_ctx.memory.store import ConversationInfo, Key, check_name
from autonomy_ctx.server.common.app import ActiveRequests, AgentInfo, AgentRoutes, RequestGate
from autonomy_ctx.server.common.arguments import Argument, Arguments, RequestReader, answers, read_query
from autonomy_ctx.server.common.auth import Headers
from autonomy_ctx.server.common.conversation_edits import ConversationEdits
from autonomy_ctx.server.common.conversation_reads import ConversationReads, ListLimit, last_of_page
from autonomy_ctx.server.common.errors import (
    NODE_CLOSING,
    UNEXPECTED_ERROR,
    ClientError,
    RequestRefused,
    log_unexpected,
)
from autonomy_ctx.server.common.limits import ServerLimits
from autonomy_ctx.server.common.responses import EXCEPTION_HANDLERS, large_json_response
from autonomy_ctx.server.tenants.openapi import Operation, make_routes, openapi_document, operation
from autonomy_ctx.validation import number_problem

logger = logging.getLogger("autonomy_ctx.server")

# Each may be plain or async.
Authenticate = Callable[[Request], Any]
RateLimit = Callable[[Request, str], Any]

OPENAPI_PATH = "/openapi.json"
# How clients sign in, unless the application says it.
BEARER: Mapping[str, Mapping[str, Any]] = {"bearer": {"type": "http", "scheme": "bearer"}}
# Where the scope of a request is while it is answered.
_SCOPE_KEY = "autonomy_ctx.scope"
# What every operation may answer.
_ERRORS = (400, 401, 403, 404, 429, 500, 503)
_TURN_ERRORS = (402, 408, 409, 413, 415, 422, 501, 502, 504)
_UNKNOWN_CLIENT = ClientError(
    status=401,
    type="Unauthorized",
    message="this request is not authenticated; send the credentials of this application",
    headers={"www-authenticate": "Bearer"},
)


class AgentList(TypedDict):
    """The agents of a node."""

    agents: list[AgentInfo]


class TurnBody(TypedDict):
    """A turn to take; `message` is a text or a list of content parts."""

    message: str | list[Any]
    conversation: str
    stream: NotRequired[bool]
    message_id: NotRequired[str | None]


class TurnAnswer(TypedDict):
    """The answer of an agent."""

    text: str
    turn: str
    number: int | None
    stop: str
    question: str | None
    steps: int
    usage: Usage


class ConversationList(TypedDict):
    """A page of conversations; `next` is the `after` of the next page."""

    conversations: list[ConversationInfo]
    next: str | None


class TenantAccess:
    """Calls the application's `authenticate` and `rate_limit` for a request."""

    def __init__(self, authenticate: Authenticate, rate_limit: RateLimit | None) -> None:
        self._authenticate, self._rate_limit = authenticate, rate_limit

    async def admit(self, request: Request) -> None:
        """Give a request its scope, or refuse it."""
        # Without its body: whoever read that would take it from the route.
        head = Request(request.scope)
        scope = self._check_scope(await self._ask("authenticate", partial(self._authenticate, head)))
        if self._rate_limit is not None:
            wait = await self._ask("rate_limit", partial(self._rate_limit, head, scope))
            self._check_wait(wait)
        request.scope[_SCOPE_KEY] = scope

    async def _ask(self, name: str, call: Callable[[], Any]) -> Any:
        """The result of a function of the application; if it fails, the request is refused."""
        try:
            return await await_call(call)
        except AccessDenied as denied:
            raise RequestRefused(ClientError(status=403, type="AccessDenied", message=str(denied))) from None
        except HTTPException as error:
            if 400 <= error.status_code < 500:
                raise RequestRefused(_from_http_exception(error)) from None
            logger.error("`%s` raised an HTTPException with status %d", name, error.status_code)
        except Exception as error:
            log_unexpected(error)
        raise RequestRefused(UNEXPECTED_ERROR)

    def _check_scope(self, scope: Any) -> str:
        if scope is None:
            raise RequestRefused(_UNKNOWN_CLIENT)
        try:
            return check_scope(scope)
        except (InvalidKey, TypeError, ValueError) as error:
            logger.error("`authenticate` must return a scope, or None for nobody: %s", error)
        raise RequestRefused(UNEXPECTED_ERROR)

    def _check_wait(self, wait: Any) -> None:
        if wait is None:
            return
        if problem := number_problem(wait):
            logger.error("`rate_limit` must return None, or seconds to wait: what it returned %s", problem)
            raise RequestRefused(UNEXPECTED_ERROR)
        if wait > 0:
            seconds = math.ceil(wait)
            message = f"too many requests; try again in {seconds:,} second{'' if seconds == 1 else 's'}"
            raise RequestRefused(
                ClientError(status=429, type="RateLimited", message=message, retry_after=float(wait))
            )


class TenantRequests(RequestReader):
    """Requests for one scope, to the agent in the path, which must run."""

    def __init__(self, node: Node, *, body_seconds: float) -> None:
        super().__init__(node.memory, node, body_seconds=body_seconds)
        self._node = node

    async def body(self, request: Request) -> Arguments:
        """The arguments in the JSON body of a request; then its address has none."""
        with read_query(request):
            pass
        return await super().body(request)

    def fixed(self, request: Request) -> Mapping[str, str]:
        """The scope that the request was given, and the agent in its path."""
        return {"scope": admitted_scope(request), "agent": request.path_params.get("agent", "")}

    def view(self, agent: str) -> Memory:
        """The memory of an agent that runs."""
        return self._node.agent(agent).memory

    def agent(self, name: str) -> Agent:
        """The agent with this name. Raises `UnknownAgent` if there is none."""
        return self._node.agent(name)


class NodeAccess:
    """Refuses all requests after the node is closed; the routes check who may send a request."""

    def __init__(self, node: Node) -> None:
        self._node = node

    def refusal(self, path: str, headers: Headers) -> ClientError | None:
        """Why a request is refused; None lets it in."""
        return NODE_CLOSING if self._node.closed else None


class TenantApi:
    """The API of a node for the users of an application, as an ASGI application; `asgi` makes it."""

    def __init__(
        self,
        node: Node,
        access: TenantAccess,
        limits: ServerLimits,
        security_schemes: Mapping[str, Mapping[str, Any]],
    ) -> None:
        self._security_schemes = security_schemes
        self._agents = AgentRoutes(node, limits)
        self.requests = TenantRequests(node, body_seconds=limits.body_seconds)
        self.operations = self._list_operations()
        app = Starlette(
            routes=[
                Route(OPENAPI_PATH, self._openapi),
                *make_routes(self.operations, access.admit),
            ],
            exception_handlers=EXCEPTION_HANDLERS,
        )
        app.router.redirect_slashes = False
        self._gate = RequestGate(app, access=NodeAccess(node), requests=ActiveRequests())

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer a request; headers forbid caches to store the answer."""
        if scope["type"] == "lifespan":
            await answer_lifespan(receive, send)
        elif scope["type"] == "websocket":
            await send({"type": "websocket.close", "code": 1000})
        else:
            await self._gate(scope, receive, partial(_send_uncached, send))

    @cached_property
    def document(self) -> dict[str, Any]:
        """The OpenAPI document, without the path that the API is mounted at."""
        return openapi_document(
            self.operations, title="autonomy_ctx", errors=_ERRORS, security_schemes=self._security_schemes
        )

    @answers
    async def agents(self) -> AgentList:
        """List the agents."""
        return {"agents": self._agents.listed()}

    async def ask(self, request: Request) -> Response:
        """Run a turn of an agent; with `stream`, send its events as they occur."""
        with self.requests.query(request) as query:
            agent, scope = query.text("agent"), query.text("scope")
        return await self._agents.take_turn(request, agent, scope)

    @answers
    async def conversations(
        self,
        scope: str,
        agent: str,
        after: Annotated[str | None, Argument("`next` of the previous page")] = None,
        limit: ListLimit = PAGE_SIZE,
    ) -> ConversationList:
        """List your conversations with an agent by name, a page at a time."""
        view = self.requests.view(agent)
        key = None if after is None else Key(view.agent, scope, after)
        found = await view.conversations(scope, agent=view.agent, limit=limit, after=key)
        last = last_of_page(found, limit)
        return {"conversations": found, "next": None if last is None else last.conversation}

    async def _openapi(self, request: Request) -> Response:
        # Where it is mounted is known from a request alone.
        servers = [{"url": request.scope.get("root_path", "") or "/"}]
        return await large_json_response({**self.document, "servers": servers})

    def _list_operations(self) -> tuple[Operation, ...]:
        """All operations; the routes and the OpenAPI document are made from this list."""
        reads, edits = ConversationReads(self.requests), ConversationEdits(self.requests)
        agent = "/agents/{agent}"
        return (
            operation("GET", "/agents", "listAgents", self.agents),
            # It reads the request itself.
            replace(
                operation("POST", agent, "takeTurn", self.ask, _TURN_ERRORS),
                body=TurnBody,
                answer=TurnAnswer,
                streams=True,
            ),
            operation("GET", f"{agent}/conversations", "listConversations", self.conversations),
            operation("GET", f"{agent}/conversation", "getConversation", reads.conversation),
            operation("DELETE", f"{agent}/conversation", "deleteConversation", edits.delete_conversation),
            operation("GET", f"{agent}/history", "readHistory", reads.messages),
            operation("GET", f"{agent}/message", "readMessage", reads.message),
            operation("DELETE", f"{agent}/message", "deleteMessage", edits.delete_message),
            operation("GET", f"{agent}/search", "search", reads.search),
            operation("GET", f"{agent}/turns", "listTurns", reads.turns),
            operation("GET", f"{agent}/explain", "explainTurn", reads.turn),
            operation("GET", f"{agent}/facts", "listFacts", reads.facts),
            operation("POST", f"{agent}/facts", "changeFact", edits.add_fact, (408,)),
            operation("DELETE", f"{agent}/facts", "removeFact", edits.remove_fact),
            operation("POST", f"{agent}/pins", "pinMessage", edits.pin, (408,)),
            operation("DELETE", f"{agent}/pins", "unpinMessage", edits.unpin),
            operation("POST", f"{agent}/undo", "undo", edits.undo, (408, 409)),
        )


def asgi(
    node: Node,
    *,
    authenticate: Authenticate | None = None,
    scope: str | None = None,
    rate_limit: RateLimit | None = None,
    keep_alive_seconds: float = ServerLimits.keep_alive_seconds,
    body_seconds: float = ServerLimits.body_seconds,
    max_buffered: int = ServerLimits.max_buffered,
    security_schemes: Mapping[str, Mapping[str, Any]] | None = None,
) -> TenantApi:
    """The API of a node as an ASGI application, for example to mount in FastAPI or Starlette.

    `authenticate(request)`, plain or async, returns the scope of a request, which limits all that it can read
    and change. None means status 401; `AccessDenied` means 403. An application with one user passes a `scope`
    instead. `rate_limit(request, scope)`, plain or async, returns None, or the seconds to wait, which means
    429. `security_schemes` say in the OpenAPI document how clients sign in, by default with a bearer token.

    The caller owns the node: open it before the first request, and close it after the last.
    """
    if not isinstance(node, Node):
        raise TypeError(f"asgi serves a Node, not {type(node).__name__}")
    check_access("asgi", authenticate, scope, rate_limit)
    if authenticate is None:

        async def authenticate(request: Request) -> str | None:
            return scope

        security_schemes = security_schemes or {}

    limits = ServerLimits(
        keep_alive_seconds=keep_alive_seconds, body_seconds=body_seconds, max_buffered=max_buffered
    )
    schemes = BEARER if security_schemes is None else security_schemes
    return TenantApi(node, TenantAccess(authenticate, rate_limit), limits, schemes)


def check_access(
    function: str, authenticate: Authenticate | None, scope: str | None, rate_limit: RateLimit | None
) -> None:
    """Check what a function was given to know the scopes of its requests."""
    if (authenticate is None) == (scope is None):
        raise TypeError(
            f"{function}() needs either `authenticate`, which gives the scope of each request, "
            f"or a `scope` for all requests"
        )
    if scope is not None:
        check_scope(scope)
    else:
        check_callable(authenticate, "authenticate")
    if rate_limit is not None:
        check_callable(rate_limit, "rate_limit")


def check_scope(scope: Any) -> str:
    """Check a scope that the application returned."""
    if not isinstance(scope, str):
        raise TypeError(f"the scope must be a string, not {type(scope).__name__}")
    if not scope:
        raise ValueError("the scope is empty; name the user or tenant")
    check_name("scope", scope)
    return scope


def admitted_scope(request: Request) -> str:
    """The scope of an authenticated request; fails for a request that was not authenticated."""
    scope: str = request.scope[_SCOPE_KEY]
    return scope


def _from_http_exception(error: HTTPException) -> ClientError:
    kind = {401: "Unauthorized", 403: "AccessDenied", 429: "RateLimited"}.get(error.status_code, "Refused")
    message = error.detail if isinstance(error.detail, str) else "this application refused the request"
    return ClientError(
        status=error.status_code, type=kind, message=message, headers=dict(error.headers or {})
    )


async def _send_uncached(send: Send, message: Message) -> None:
    if message["type"] == "http.response.start":
        given = [one for one in message.get("headers", ()) if one[0].lower() != b"cache-control"]
        message = {**message, "headers": [*given, (b"cache-control", b"no-store")]}
    await send(message)


async def answer_lifespan(
    receive: Receive, send: Send, close: Callable[[], Awaitable[None]] | None = None
) -> None:
    """Handle the ASGI lifespan, for an application that runs without another one around it.

    At shutdown, `close` is called for resources that the application owns. The node of an API stays open.
    """
    while True:
        event = (await receive())["type"]
        if event == "lifespan.shutdown" and close is not None:
            await close()
        await send({"type": f"{event}.complete"})
        if event == "lifespan.shutdown":
            return
