"""The API of a node for the users of an application, made by `asgi`. Each user sees one scope.

The application's `authenticate` returns the scope of a request. The request reads and changes only this
scope; no argument of a client names a scope.
"""

from __future__ import annotations

import logging
import math
from collections.abc import Awaitable, Callable, Mapping
from functools import cached_property, partial
from typing import Any, Literal, NotRequired, TypedDict

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
from autonomy_ctx.inspection.conversation import ConversationReport, FactReport
from autonomy_ctx.inspection.message import (
    MAX_PAGE_MESSAGES,
    PAGE_CHARACTERS,
    MessagePage,
    MessageReport,
)
from autonomy_ctx.inspection.report import to_json
from autonomy_ctx.inspection.turn import TurnInfo, TurnReport
from autonomy_ctx.memory.memory import Memory
from autonomy_ctx.memory.store import ConversationInfo, Key, check_name
from autonomy_ctx.messages.fact import Fact, FactAction, FactKind
from autonomy_ctx.server.common.app import ActiveRequests, AgentRoutes, RequestGate
from autonomy_ctx.server.common.arguments import Arguments, read_body, read_query
from autonomy_ctx.server.common.auth import Headers
from autonomy_ctx.server.common.conversation_edits import ConversationEdits
from autonomy_ctx.server.common.conversation_reads import (
    MAX_HITS,
    MAX_LISTED,
    ConversationReads,
    last_of_page,
    read_limit,
)
from autonomy_ctx.server.common.errors import (
    NODE_CLOSING,
    UNEXPECTED_ERROR,
    ClientError,
    RequestRefused,
    log_unexpected,
)
from autonomy_ctx.server.common.limits import BODY_SECONDS, MAX_BUFFERED, ServerLimits
from autonomy_ctx.server.common.responses import EXCEPTION_HANDLERS, large_json_response
from autonomy_ctx.server.node.http import KEEP_ALIVE_SECONDS
from autonomy_ctx.server.tenants.openapi import Operation, Parameter, make_routes, openapi_document
from autonomy_ctx.validation import check_seconds, number_problem

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
    message="this application does not know who sends this; send what it gave you to sign in with",
    headers={"www-authenticate": "Bearer"},
)


class AgentInfo(TypedDict):
    """An agent of the node."""

    name: str
    description: str


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
    stop: str
    question: str | None
    steps: int
    usage: Usage


class ConversationList(TypedDict):
    """A page of conversations; `next` is the `after` of the next page."""

    conversations: list[ConversationInfo]
    next: str | None


class SearchResult(TypedDict):
    """A message that was found."""

    agent: str
    scope: str
    conversation: str
    score: float
    message: MessageReport


class SearchResults(TypedDict):
    """Messages that were found, best first."""

    hits: list[SearchResult]


class TurnList(TypedDict):
    """The newest recorded turns, oldest first."""

    turns: list[TurnInfo]


class FactList(TypedDict):
    """Every fact that is kept, also those replaced or done."""

    facts: list[FactReport]


class FactBody(TypedDict):
    """A fact to add, to replace or to mark as done, by its `fact_id`."""

    conversation: str
    action: NotRequired[FactAction]
    fact_id: NotRequired[str | None]
    kind: NotRequired[FactKind | None]
    text: NotRequired[str | None]


class FactAnswer(TypedDict):
    """The fact that holds now; null for one that is done."""

    fact: Fact | None


class Removal(TypedDict):
    """A fact was removed."""

    removed: bool


class PinBody(TypedDict):
    """A message to pin, optionally instead of another."""

    conversation: str
    message_id: str
    replaces: NotRequired[str | None]


class Confirmation(TypedDict):
    """The change was made."""

    done: bool


class UndoBody(TypedDict):
    """The thing to undo: the last turn, or the newest segment of the summary."""

    conversation: str
    what: Literal["turn", "summary"]


class UndoAnswer(TypedDict):
    """The number of messages or segments that were removed."""

    undone: int


class DeletionAnswer(TypedDict):
    """The number of messages that were deleted."""

    deleted: int


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


class TenantRequests:
    """Requests for one scope, to the agent in the path."""

    def __init__(self, node: Node, *, body_seconds: float) -> None:
        self._node, self._body_seconds = node, body_seconds

    def query(self, request: Request) -> Arguments:
        """The arguments in the address of a request."""
        return read_query(request, fixed=self._fixed(request))

    async def body(self, request: Request) -> Arguments:
        """The arguments in the JSON body of a request; then its address has none."""
        with read_query(request):
            pass
        return await read_body(request, seconds=self._body_seconds, fixed=self._fixed(request))

    def view(self, agent: str) -> Memory:
        """The memory of an agent that runs."""
        return self._node.agent(agent).memory

    def agent(self, name: str) -> Agent:
        """The agent with this name. Raises `UnknownAgent` if there is none."""
        return self._node.agent(name)

    def _fixed(self, request: Request) -> dict[str, str]:
        return {"scope": admitted_scope(request), "agent": request.path_params.get("agent", "")}


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
        *,
        keep_alive_seconds: float,
        limits: ServerLimits,
        security_schemes: Mapping[str, Mapping[str, Any]],
    ) -> None:
        self._security_schemes = security_schemes
        self._agents = AgentRoutes(node, keep_alive_seconds=keep_alive_seconds, limits=limits)
        self._requests = TenantRequests(node, body_seconds=limits.body_seconds)
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

    async def agents(self, request: Request) -> Response:
        """Names and descriptions."""
        with self._requests.query(request):
            return await self._agents.agents(request)

    async def ask(self, request: Request) -> Response:
        """One turn, whole or as events."""
        with self._requests.query(request) as query:
            agent, scope = query.text("agent"), query.text("scope")
        return await self._agents.take_turn(request, agent, scope)

    async def conversations(self, request: Request) -> Response:
        """The conversations of a scope with an agent, a page at a time."""
        with self._requests.query(request) as query:
            scope, view = query.text("scope"), self._requests.view(query.text("agent"))
            after, limit = query.optional_text("after"), read_limit(query)
        key = None if after is None else Key(view.agent, scope, after)
        found = await view.conversations(scope, agent=view.agent, limit=limit, after=key)
        last = last_of_page(found, limit)
        following = None if last is None else last.conversation
        return await large_json_response({"conversations": to_json(found), "next": following})

    async def _openapi(self, request: Request) -> Response:
        # Where it is mounted is known from a request alone.
        servers = [{"url": request.scope.get("root_path", "") or "/"}]
        return await large_json_response({**self.document, "servers": servers})

    def _list_operations(self) -> tuple[Operation, ...]:
        """All operations; the routes and the OpenAPI document are made from this list."""
        reads, edits = ConversationReads(self._requests), ConversationEdits(self._requests)
        agent = "/agents/{agent}"
        conversation = Parameter(name="conversation", description="which of yours", required=True)
        message_id = Parameter(name="message_id", description="the id of a message", required=True)
        return (
            Operation(
                method="GET",
                path="/agents",
                name="listAgents",
                summary="The agents that can be asked.",
                handler=self.agents,
                answer=AgentList,
            ),
            Operation(
                method="POST",
                path=agent,
                name="takeTurn",
                summary="One turn with an agent; with `stream`, its events as they come.",
                handler=self.ask,
                body=TurnBody,
                answer=TurnAnswer,
                streams=True,
                errors=_TURN_ERRORS,
            ),
            Operation(
                method="GET",
                path=f"{agent}/conversations",
                name="listConversations",
                summary="Your conversations with an agent, by name, a page at a time.",
                handler=self.conversations,
                query=(
                    Parameter(name="after", description="`next` of the page before"),
                    _limit_parameter(MAX_LISTED),
                ),
                answer=ConversationList,
            ),
            Operation(
                method="GET",
                path=f"{agent}/conversation",
                name="getConversation",
                summary="Where a conversation stands: counts, summary, facts, pins, turns.",
                handler=reads.conversation,
                query=(conversation,),
                answer=ConversationReport,
            ),
            Operation(
                method="DELETE",
                path=f"{agent}/conversation",
                name="deleteConversation",
                summary="Delete a conversation with all that was made from it.",
                handler=edits.delete_conversation,
                query=(conversation,),
                answer=DeletionAnswer,
            ),
            Operation(
                method="GET",
                path=f"{agent}/history",
                name="readHistory",
                summary="A page of messages: the newest, or those next to a position.",
                handler=reads.messages,
                query=(
                    conversation,
                    Parameter(name="after", description="the position before the page", type=int),
                    Parameter(name="before", description="the position after the page", type=int),
                    _limit_parameter(MAX_PAGE_MESSAGES),
                    Parameter(
                        name="max_characters",
                        description="how much of each text",
                        type=int,
                        most=PAGE_CHARACTERS,
                    ),
                ),
                answer=MessagePage,
            ),
            Operation(
                method="GET",
                path=f"{agent}/message",
                name="readMessage",
                summary="One message with all of its text.",
                handler=reads.message,
                query=(
                    conversation,
                    Parameter(name="position", description="of the message", required=True, type=int),
                ),
                answer=MessageReport,
            ),
            Operation(
                method="DELETE",
                path=f"{agent}/message",
                name="deleteMessage",
                summary="Delete one message with all that was made from it.",
                handler=edits.delete_message,
                query=(conversation, message_id),
                answer=Confirmation,
            ),
            Operation(
                method="GET",
                path=f"{agent}/search",
                name="search",
                summary="Your messages that share a word with a query, best first.",
                handler=reads.search,
                query=(
                    Parameter(name="conversation", description="only in this one"),
                    Parameter(name="query", description="words to look for", required=True),
                    _limit_parameter(MAX_HITS),
                ),
                answer=SearchResults,
            ),
            Operation(
                method="GET",
                path=f"{agent}/turns",
                name="listTurns",
                summary="The newest recorded turns of a conversation.",
                handler=reads.turns,
                query=(conversation, _limit_parameter(MAX_LISTED)),
                answer=TurnList,
            ),
            Operation(
                method="GET",
                path=f"{agent}/explain",
                name="explainTurn",
                summary="What the model was shown in a turn, and where each token came from.",
                handler=reads.turn,
                query=(
                    conversation,
                    Parameter(name="turn", description="the id of a turn; the newest without one"),
                    Parameter(name="step", description="a step of it; the last without one", type=int),
                ),
                answer=TurnReport,
            ),
            Operation(
                method="GET",
                path=f"{agent}/facts",
                name="listFacts",
                summary="Every fact of a conversation, also those replaced or done.",
                handler=reads.facts,
                query=(conversation,),
                answer=FactList,
            ),
            Operation(
                method="POST",
                path=f"{agent}/facts",
                name="changeFact",
                summary="Add a fact, replace one, or call one done.",
                handler=edits.add_fact,
                body=FactBody,
                answer=FactAnswer,
                errors=(408,),
            ),
            Operation(
                method="DELETE",
                path=f"{agent}/facts",
                name="removeFact",
                summary="Forget a fact.",
                handler=edits.remove_fact,
                query=(
                    conversation,
                    Parameter(name="fact_id", description="the id of a fact", required=True),
                ),
                answer=Removal,
            ),
            Operation(
                method="POST",
                path=f"{agent}/pins",
                name="pinMessage",
                summary="Show a message verbatim in every later context.",
                handler=edits.pin,
                body=PinBody,
                answer=Confirmation,
                errors=(408,),
            ),
            Operation(
                method="DELETE",
                path=f"{agent}/pins",
                name="unpinMessage",
                summary="Let a pinned message go.",
                handler=edits.unpin,
                query=(conversation, message_id),
                answer=Confirmation,
            ),
            Operation(
                method="POST",
                path=f"{agent}/undo",
                name="undo",
                summary="Take back the last turn, or the newest segment of the summary.",
                handler=edits.undo,
                body=UndoBody,
                answer=UndoAnswer,
                errors=(408, 409),
            ),
        )


def asgi(
    node: Node,
    *,
    authenticate: Authenticate | None = None,
    scope: str | None = None,
    rate_limit: RateLimit | None = None,
    keep_alive_seconds: float = KEEP_ALIVE_SECONDS,
    body_seconds: float = BODY_SECONDS,
    max_buffered: int = MAX_BUFFERED,
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
    if (authenticate is None) == (scope is None):
        raise TypeError(
            "asgi() needs either `authenticate`, which gives the scope of each request, "
            "or a `scope` for all requests"
        )
    if authenticate is None:
        fixed = check_scope(scope)

        async def authenticate(request: Request) -> str:
            return fixed

        security_schemes = security_schemes or {}

    check_callable(authenticate, "authenticate")
    if rate_limit is not None:
        check_callable(rate_limit, "rate_limit")
    check_seconds("keep_alive_seconds", keep_alive_seconds)
    return TenantApi(
        node,
        TenantAccess(authenticate, rate_limit),
        keep_alive_seconds=keep_alive_seconds,
        limits=ServerLimits(body_seconds=body_seconds, max_buffered=max_buffered),
        security_schemes=BEARER if security_schemes is None else security_schemes,
    )


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


def _limit_parameter(most: int) -> Parameter:
    return Parameter(name="limit", description="how many at most", type=int, most=most)


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
