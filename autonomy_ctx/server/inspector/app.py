"""The inspector: a page that shows conversations and turns, and the JSON API that it reads.

`inspector_app` is an ASGI application; `inspector_server` runs it as a server. The API needs a token, answers
only on host names of this machine unless others are allowed, and is read-only unless `write` is set.
"""

from __future__ import annotations

import secrets
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from importlib import metadata, resources
from typing import Any

from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import RedirectResponse, Response
from starlette.routing import Route
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from autonomy_ctx.agents.node import Node
from autonomy_ctx.memory.memory import PAGE_SIZE, Memory
from autonomy_ctx.memory.store import Key
from autonomy_ctx.messages.fact import FACT_KINDS
from autonomy_ctx.server.common.app import ActiveRequests, RequestGate
from autonomy_ctx.server.common.arguments import RequestReader, answers, read_query
from autonomy_ctx.server.common.auth import InspectorAccess, check_token_text
from autonomy_ctx.server.common.conversation_edits import ConversationEdits
from autonomy_ctx.server.common.conversation_reads import ConversationReads, ListLimit, last_of_page
from autonomy_ctx.server.common.errors import ClientError, RequestRefused
from autonomy_ctx.server.common.limits import ServerLimits
from autonomy_ctx.server.common.listener import run_server
from autonomy_ctx.server.common.responses import EXCEPTION_HANDLERS, error_response
from autonomy_ctx.server.inspector.watch import POLL_SECONDS, ChangeStream, ChangeStreams, ConversationWatch
from autonomy_ctx.validation import check_seconds, format_url

PAGE_FOLDER = "page"
# Where it is beside the API of a node.
MOUNT_PATH = "/inspector"
MAX_STREAMS = 32
# Everything comes from the same place, and nothing is written into the page itself.
CONTENT_SECURITY_POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; font-src 'self'; "
    "connect-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
)
_HEADERS = {
    "content-security-policy": CONTENT_SECURITY_POLICY,
    "x-content-type-options": "nosniff",
    "x-frame-options": "DENY",
    "cache-control": "no-store",
    "referrer-policy": "no-referrer",
    "cross-origin-opener-policy": "same-origin",
    "cross-origin-resource-policy": "same-origin",
}
_MEDIA_TYPES = {
    "html": "text/html; charset=utf-8",
    "js": "text/javascript; charset=utf-8",
    "css": "text/css; charset=utf-8",
    "svg": "image/svg+xml",
    "png": "image/png",
    "ico": "image/x-icon",
    "woff2": "font/woff2",
}
# What can be read: the routes below the API, and the methods that answer them.
_LISTS = ("info", "agents", "scopes", "conversations")
_READS = (
    "conversation",
    "messages",
    "message",
    "timeline",
    "turns",
    "turn",
    "diff",
    "facts",
    "search",
)
_READ_ONLY = ClientError(
    status=403,
    type="ReadOnly",
    message="this inspector is read-only; start it with `write` to allow changes",
)
_NO_PAGE = ClientError(status=404, type="NotFound", message="the page is not installed; the API is at api/")
_TOO_MANY_STREAMS = ClientError(
    status=503, type="TooManyStreams", message="too many pages listen for changes; close some pages"
)
_WRONG_TOKEN = ClientError(
    status=401,
    type="Unauthorized",
    message="this is not the token of this inspector; open the address that its last start printed",
)


class InspectorRoutes:
    """The routes with information about the inspector, and the listings of a memory."""

    def __init__(self, requests: RequestReader, access: InspectorAccess, *, write: bool) -> None:
        self.requests, self._access, self._write = requests, access, write

    @answers
    async def info(self) -> dict[str, Any]:
        """The version, and whether changes are allowed."""
        return {"version": metadata.version("autonomy-ctx"), "write": self._write, "fact_kinds": FACT_KINDS}

    async def open_session(self, request: Request) -> Response:
        """Give a browser that has the token a cookie instead."""
        response = Response(status_code=204)
        self.set_cookie(request, response)
        return response

    def set_cookie(self, request: Request, response: Response) -> None:
        """Have the browser send the cookie from now on, to this inspector only."""
        response.set_cookie(
            self._access.cookie_name,
            self._access.cookie_value,
            path=request.scope.get("root_path", "") + "/",
            httponly=True,
            samesite="strict",
            secure=request.url.scheme == "https",
        )

    @answers
    async def agents(
        self, scope: str | None = None, after: str | None = None, limit: ListLimit = PAGE_SIZE
    ) -> dict[str, Any]:
        """Names of agents, a page at a time."""
        found = await self.requests.memory.agents(scope=scope, after=after, limit=limit)
        return {"agents": found, "next": last_of_page(found, limit)}

    @answers
    async def scopes(
        self, agent: str | None = None, after: str | None = None, limit: ListLimit = PAGE_SIZE
    ) -> dict[str, Any]:
        """Names of scopes, a page at a time."""
        found = await self.requests.memory.scopes(agent=agent, after=after, limit=limit)
        return {"scopes": found, "next": last_of_page(found, limit)}

    @answers
    async def conversations(
        self,
        scope: str,
        agent: str | None = None,
        limit: ListLimit = PAGE_SIZE,
        after_agent: str | None = None,
        after: str | None = None,
    ) -> dict[str, Any]:
        """The conversations of a scope, a page at a time."""
        key = None if after is None else Key(after_agent or agent or "", scope, after)
        found = await self.requests.memory.conversations(scope, agent=agent, limit=limit, after=key)
        last = last_of_page(found, limit)
        following = None if last is None else {"after_agent": last.agent, "after": last.conversation}
        return {"conversations": found, "next": following}


class Inspector:
    """The inspector as an ASGI application; `inspector_app` makes it."""

    def __init__(
        self,
        memory_or_node: Memory | Node,
        access: InspectorAccess,
        *,
        write: bool,
        poll_seconds: float,
        requests: ActiveRequests,
    ) -> None:
        node = memory_or_node if isinstance(memory_or_node, Node) else None
        memory = memory_or_node.memory if isinstance(memory_or_node, Node) else memory_or_node
        self._memory, self._access, self.requests = memory, access, requests
        self._streams = ChangeStreams(poll_seconds=poll_seconds, is_closing=lambda: requests.closing)
        reader = RequestReader(memory, node, body_seconds=ServerLimits.body_seconds)
        self._routes = routes = InspectorRoutes(reader, access, write=write)
        reads, edits = ConversationReads(reader), ConversationEdits(reader)
        self._files = _read_page()
        app = Starlette(
            routes=[
                Route("/", self._page),
                Route("/{name}", self._file),
                Route("/api/session", routes.open_session, methods=["POST"]),
                Route("/api/events", self._events),
                *[Route(f"/api/{name}", getattr(routes, name)) for name in _LISTS],
                *[Route(f"/api/{name}", getattr(reads, name)) for name in _READS],
                *[
                    Route(f"/api/{path}", edit if write else _refuse_edit, methods=[method])
                    for method, path, edit in (
                        ("POST", "pin", edits.pin),
                        ("DELETE", "pin", edits.unpin),
                        ("POST", "facts", edits.add_fact),
                        ("DELETE", "facts", edits.remove_fact),
                        ("POST", "undo", edits.undo),
                        ("DELETE", "message", edits.delete_message),
                        ("DELETE", "conversation", edits.delete_conversation),
                    )
                ],
            ],
            exception_handlers=EXCEPTION_HANDLERS,
        )
        app.router.redirect_slashes = False
        self._gate = RequestGate(app, access=access, requests=self.requests)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer a request, with headers that keep a browser from anything but this page."""

        async def send_safely(message: Message) -> None:
            if message["type"] == "http.response.start":
                given = [one for one in message.get("headers", ()) if one[0].decode() not in _HEADERS]
                own = [(name.encode(), value.encode()) for name, value in _HEADERS.items()]
                message = {**message, "headers": [*given, *own]}
            await send(message)

        await self._gate(scope, receive, send_safely)

    async def _page(self, request: Request) -> Response:
        """The page; a token in the address is taken out of it and becomes a cookie."""
        token = request.query_params.get("token")
        if token is not None:
            if not self._access.is_token(token):
                return error_response(_WRONG_TOKEN)
            response: Response = RedirectResponse(request.scope.get("root_path", "") + "/", status_code=303)
            self._routes.set_cookie(request, response)
            return response
        return self._files.get("index.html") or error_response(_NO_PAGE)

    async def _file(self, request: Request) -> Response:
        found = self._files.get(request.path_params["name"])
        if found is None:
            raise RequestRefused(
                ClientError(status=404, type="NotFound", message="there is nothing at this address")
            )
        return found

    async def _events(self, request: Request) -> Response:
        """Changes of conversations as events."""
        with read_query(request) as query:
            scope, agent = query.text("scope"), query.optional_text("agent")
            conversation = query.optional_text("conversation")
        # Looked at now: later there is no status to tell wrong names with.
        watch = ConversationWatch(self._memory, scope, agent, conversation)
        await watch.changes()
        if self._streams.count >= MAX_STREAMS:
            return error_response(_TOO_MANY_STREAMS)
        return ChangeStream(watch, self._streams)


def inspector_app(
    memory_or_node: Memory | Node,
    *,
    token: str,
    write: bool = False,
    allowed_hosts: Sequence[str] = (),
    poll_seconds: float = POLL_SECONDS,
) -> Inspector:
    """The inspector of a memory, or of a node and its memory, as an ASGI application.

    Requests need the `token`: as `Authorization: Bearer`, or as the cookie that the page gets. Their Host
    header must name this machine or one of `allowed_hosts`. Only with `write` can the inspector pin messages,
    change facts, undo summaries and delete. While a page listens for changes, the store is read every
    `poll_seconds`.
    """
    if isinstance(allowed_hosts, str):
        raise TypeError("allowed_hosts must be a list of host names, not one string")
    if not isinstance(memory_or_node, Memory | Node):
        raise TypeError(f"the inspector shows a Memory or a Node, not {type(memory_or_node).__name__}")
    check_seconds("poll_seconds", poll_seconds)
    hosts = frozenset(host.lower() for host in allowed_hosts)
    return Inspector(
        memory_or_node,
        InspectorAccess(token=check_token_text(token), hosts=hosts),
        write=write,
        poll_seconds=poll_seconds,
        requests=ActiveRequests(),
    )


class InspectedServer:
    """An API with the inspector of its memory at `/inspector/`."""

    def __init__(
        self,
        api: ASGIApp,
        memory_or_node: Memory | Node,
        *,
        token: str,
        write: bool,
        host: str,
        requests: ActiveRequests,
    ) -> None:
        self._api = api
        access = InspectorAccess(token=token, hosts=frozenset(own_names(host)))
        self._inspector = Inspector(
            memory_or_node, access, write=write, poll_seconds=POLL_SECONDS, requests=requests
        )

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer a request."""
        path = scope.get("path", "")
        if path == MOUNT_PATH:
            await RedirectResponse(f"{MOUNT_PATH}/", status_code=308)(scope, receive, send)
        elif path.startswith(f"{MOUNT_PATH}/"):
            await self._inspector({**scope, "root_path": MOUNT_PATH}, receive, send)
        else:
            await self._api(scope, receive, send)


def own_names(host: str) -> list[str]:
    """The names of the host that is listened on; an address such as 0.0.0.0 is not a name."""
    return [] if host in ("", "0.0.0.0", "::") else [host.lower()]  # noqa: S104


@dataclass(frozen=True, slots=True, kw_only=True)
class InspectorAddress:
    """The address and the token of an inspector. `page` is the address to open in a browser."""

    url: str
    token: str

    @property
    def page(self) -> str:
        """The address of the page, with the token in the fragment, which is not sent to any server."""
        return f"{self.url}/#token={self.token}"


@asynccontextmanager
async def inspector_server(
    memory_or_node: Memory | Node,
    *,
    host: str = "127.0.0.1",
    port: int = 0,
    token: str | None = None,
    write: bool = False,
    allowed_hosts: Sequence[str] = (),
) -> AsyncIterator[InspectorAddress]:
    """Run the inspector as a server while the context is open. Without a `token`, a new one is made."""
    token = secrets.token_urlsafe(32) if token is None else token
    # Names are looked up, and this one must not lead anywhere else.
    host = "127.0.0.1" if host.lower() == "localhost" else host
    names = [*own_names(host), *allowed_hosts]
    app = inspector_app(memory_or_node, token=token, write=write, allowed_hosts=names)
    async with run_server(app, app.requests, ServerLimits(), host=host, port=port) as number:
        yield InspectorAddress(url=format_url(host, number), token=token)


def _read_page() -> dict[str, Response]:
    """The files of the page, by name; empty where it is not installed."""
    folder = resources.files("autonomy_ctx.server.inspector") / PAGE_FOLDER
    if not folder.is_dir():
        return {}
    found: dict[str, Response] = {}
    for file in folder.iterdir():
        kind = _MEDIA_TYPES.get(file.name.rpartition(".")[2])
        if kind is not None and file.is_file():
            found[file.name] = Response(file.read_bytes(), headers={"content-type": kind})
    return found


async def _refuse_edit(request: Request) -> Response:
    return error_response(_READ_ONLY)
