"""An endpoint in front of a model, with the APIs of OpenAI and of Anthropic: `endpoint_app`.

Clients only change their base URL. Their messages are stored, their model gets our context instead, and its
answer is returned unchanged. Other requests of the APIs are passed through.
"""

from __future__ import annotations

import logging
import re
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from functools import partial
from socket import socket
from typing import Any, Unpack
from urllib.parse import quote, unquote

import anyio
import anyio.to_thread
from starlette.requests import Request
from starlette.responses import Response
from starlette.types import Receive, Scope, Send

from autonomy_ctx.agents.turn_queue import TURN_WAIT_SECONDS
from autonomy_ctx.background import AsyncResource, Urgent
from autonomy_ctx.callables import await_call
from autonomy_ctx.engine.engine import ContextEngine, EngineOptions
from autonomy_ctx.memory.memory import Memory
from autonomy_ctx.server.anthropic.messages import Messages
from autonomy_ctx.server.common.app import BODY_LIMIT, ActiveRequests, RequestGate
from autonomy_ctx.server.common.arguments import BodyTooLarge, is_encoded, is_json, read_bytes
from autonomy_ctx.server.common.auth import METRICS_PATH, AccessPolicy, has_token
from autonomy_ctx.server.common.errors import RequestRefused
from autonomy_ctx.server.common.limits import ServerLimits
from autonomy_ctx.server.common.listener import run_on
from autonomy_ctx.server.common.prometheus import MEDIA_TYPE, prometheus_text
from autonomy_ctx.server.common.responses import json_response
from autonomy_ctx.server.endpoint.client_api import ClientApi, ClientRequest, parse_body
from autonomy_ctx.server.endpoint.conversations import LARGE_BODY, Conversations
from autonomy_ctx.server.endpoint.errors import EndpointError, to_endpoint_error
from autonomy_ctx.server.endpoint.relay import ModelAnswer, PassedThrough
from autonomy_ctx.server.endpoint.translation import UPSTREAM_APIS, Translation, UpstreamApi, client_apis
from autonomy_ctx.server.endpoint.upstream import SILENCE_SECONDS, Upstream
from autonomy_ctx.server.inspector.app import InspectedServer
from autonomy_ctx.server.openai.chat_completions import ChatCompletions
from autonomy_ctx.server.tenants.api import (
    Authenticate,
    RateLimit,
    TenantAccess,
    admitted_scope,
    answer_lifespan,
    check_access,
)
from autonomy_ctx.validation import check_int, check_seconds

logger = logging.getLogger("autonomy_ctx.server")

_KEY_NAME = "autonomy_ctx.upstream_key"
# What shows and changes nothing of anybody: it may be asked with a key that all tenants share.
_SHARED_ROUTES = re.compile(
    r"(?:GET|HEAD) models(?:/.+)?"
    r"|POST (?:embeddings|moderations|completions|rerank)"
    r"|POST audio/(?:speech|transcriptions|translations)"
    r"|POST images/(?:generations|edits|variations)"
)
# What a tenant may do with a response that it was given.
_RESPONSE_ROUTES = re.compile(r"(?:GET|HEAD|POST|DELETE) responses/([^/]+)(?:/(?:input_items|cancel))?")
# How often a path is decoded: a server behind may do it once more than the one before it.
_MAX_DECODINGS = 5
# How many routes are logged that are only passed through.
_MAX_LOGGED = 100
# The statuses of a server that does not count tokens.
_NO_ROUTE = (404, 405, 501)


@dataclass(frozen=True, slots=True)
class EndpointTenant:
    """The scope of a request, and optionally the upstream key for it; returned by `authenticate`."""

    scope: str
    api_key: str | None = field(default=None, repr=False)


def endpoint_app(
    upstream: str,
    *,
    scope: str | None = None,
    authenticate: Authenticate | None = None,
    rate_limit: RateLimit | None = None,
    api_key: str | None = None,
    conversation_by_user: bool = False,
    cache_fields: bool = False,
    upstream_api: UpstreamApi | None = None,
    turn_wait_seconds: float | None = TURN_WAIT_SECONDS,
    allowed_hosts: Sequence[str] = (),
    timeout: float = SILENCE_SECONDS,
    body_seconds: float = ServerLimits.body_seconds,
    max_body_bytes: int = BODY_LIMIT,
    http_client: Any = None,
    **options: Unpack[EngineOptions],
) -> EndpointApp:
    """An endpoint with the APIs of OpenAI and Anthropic, in front of `upstream`, as an ASGI application.

    `upstream` is a base URL such as `https://api.openai.com/v1` or `https://api.anthropic.com/v1`. It is
    called with the client's own key, or with `api_key`. All requests belong to one `scope`, or
    `authenticate(request)`, plain or async, returns a scope, an `EndpointTenant` with its own key, or None,
    which means status 401. `rate_limit(request, scope)` returns None, or the seconds to wait, which means
    429. With `conversation_by_user`, the user that a request names is its conversation: one for each user.
    With `cache_fields`, each conversation is named for the prompt cache of OpenAI, in the field
    `prompt_cache_key`. Requests of a named conversation are answered one after the other; one that waited for
    `turn_wait_seconds` gets 409. `upstream_api` says which API upstream speaks: `chat`, `responses`
    or `messages`. Requests of other APIs are translated, and so are the answers. Without it, only those to
    the hosts of Anthropic and OpenAI are. Pages of other sites are refused, except those of `allowed_hosts`.
    Without `authenticate`, or with `allowed_hosts`, the Host header must name this machine or one of them.
    Upstream may be silent for `timeout` seconds. Other arguments are those of an adapter: `memory`, `agent`,
    `context_summary`, `context_template`, `max_tokens`, `reserve_output`, and for how long contexts are
    recorded.

    Run it with any ASGI server, or mount it in a FastAPI or Starlette application and close it there.
    """
    check_access("endpoint_app", authenticate, scope, rate_limit)
    if isinstance(allowed_hosts, str):
        raise TypeError("allowed_hosts must be a list of host names, not one string")
    hosts = frozenset(["localhost", *(host.lower() for host in allowed_hosts)])
    check_seconds("turn_wait_seconds", turn_wait_seconds, zero=True, endless=True, optional=True)
    check_seconds("body_seconds", body_seconds)
    check_int("max_body_bytes", max_body_bytes)
    if upstream_api not in (None, *UPSTREAM_APIS):
        raise ValueError(f"upstream_api must be one of {', '.join(UPSTREAM_APIS)}, not {upstream_api!r}")
    behind = Upstream(upstream, api_key=api_key, timeout=timeout, http_client=http_client)
    engine = ContextEngine(scope=str if scope is None else scope, **options)
    return EndpointApp(
        behind,
        Conversations(engine, turn_wait_seconds=turn_wait_seconds, names_conversations=cache_fields),
        client_apis(behind.url, upstream_api, by_user=conversation_by_user),
        TenantAccess(partial(_authenticate, authenticate, scope), rate_limit),
        # Who is authenticated by a key needs no other protection from pages that point their name here.
        AccessPolicy(loopback=authenticate is None or bool(allowed_hosts), hosts=hosts),
        shares_key=scope is None and api_key is not None,
        has_tenants=scope is None,
        body_seconds=body_seconds,
        max_body_bytes=max_body_bytes,
    )


async def _authenticate(ask: Callable[[Request], Any] | None, scope: str | None, request: Request) -> Any:
    """The scope of a request; a key that comes with it goes where the request is."""
    if ask is None:
        return scope
    found = await await_call(partial(ask, request))
    if found is None or isinstance(found, str):
        return found
    request.scope[_KEY_NAME] = getattr(found, "api_key", None)
    return getattr(found, "scope", found)


class EndpointApp(AsyncResource):
    """An endpoint with the APIs of clients, as an ASGI application; `endpoint_app` makes it."""

    def __init__(
        self,
        upstream: Upstream,
        conversations: Conversations,
        apis: list[ClientApi],
        access: TenantAccess,
        policy: AccessPolicy,
        *,
        shares_key: bool,
        has_tenants: bool,
        body_seconds: float,
        max_body_bytes: int,
    ) -> None:
        self.engine, self.requests = conversations.engine, ActiveRequests()
        self._upstream, self._access, self._shares_key = upstream, access, shares_key
        self._has_tenants = has_tenants
        # With it, `/metrics` answers beside tenants, too.
        self.metrics_token: str | None = None
        self._body_seconds, self._max_body_bytes = body_seconds, max_body_bytes
        self._conversations, self._apis = conversations, apis
        # The first parts of addresses that were only passed through, each to be logged once.
        self._unknown_routes: set[str] = set()
        # What is posted there is answered; any other request is passed through.
        self._routes: dict[str, Callable[[Request], Awaitable[Response]]] = {
            **{f"/v1{api.path}": partial(self._answer, api) for api in apis},
            "/v1/messages/count_tokens": partial(self._count, apis[-1]),
        }
        self._gate = RequestGate(self._route, access=policy, requests=self.requests, respond=_ErrorAnswer)

    @property
    def memory(self) -> Memory:
        """Where conversations are kept, with search, facts, pins and summaries."""
        return self.engine.memory

    async def settled(self) -> None:
        """Wait until no summary is being written. For tests and shutdowns; a request never waits."""
        await self.engine.background.idle()

    async def close(self) -> None:
        """End the background work, and close the memory unless it was passed in.

        A second call does nothing.
        """
        await self.requests.close(0.0)
        with anyio.CancelScope(shield=True):
            try:
                await self._upstream.close()
            finally:
                await self.engine.close()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer a request; no error gets out."""
        if scope["type"] == "lifespan":
            await answer_lifespan(receive, send, self.close)
        elif scope["type"] == "websocket":
            await send({"type": "websocket.close", "code": 1000})
        else:
            await self._gate(scope, receive, send)

    async def _route(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer a request by its address; errors are raised."""
        request, path = Request(scope, receive), scope["path"].removeprefix(scope.get("root_path", ""))
        if path == METRICS_PATH and request.method in ("GET", "HEAD") and self._shows_metrics(request):
            text = prometheus_text(await self._conversations.get_metrics())
            await Response(text, headers={"content-type": MEDIA_TYPE})(scope, receive, send)
            return
        if not path.startswith("/v1/"):
            raise EndpointError(_NO_ADDRESS, status=404)
        if request.method not in _METHODS:
            allowed = {"allow": ", ".join(_METHODS)}
            raise EndpointError("this address does not take this method", status=405, headers=allowed)
        own = self._routes.get(path) if request.method == "POST" else None
        response = await (self._pass_through if own is None else own)(request)
        await response(scope, receive, send)

    def _shows_metrics(self, request: Request) -> bool:
        """Tell whether a request may see the counters of all clients: tenants may not."""
        token = self.metrics_token
        return not self._has_tenants or (token is not None and has_token(request.scope["headers"], token))

    async def _answer(self, api: ClientApi, request: Request) -> Response:
        """Store what is new, compose, and answer with what upstream says."""
        tenant = await self._admit(request)
        urgent = Urgent()
        try:
            asked = await self._read(api, request)
            headers = self._headers(asked.api, request, tenant)
        except BaseException:
            urgent.end()
            raise
        return ModelAnswer(
            self._conversations,
            self._upstream,
            tenant.scope,
            asked,
            headers,
            self.requests,
            urgent,
            path=api.target_path or _with_query(api.path, request),
        )

    async def _count(self, api: ClientApi, request: Request) -> Response:
        """Have upstream count what would be sent; nothing is stored."""
        tenant = await self._admit(request)
        asked = await self._read(api, request)
        preview = await self._conversations.preview(tenant.scope, asked)
        if api.target_path is not None:
            return json_response({"input_tokens": preview.tokens})
        path, headers = _upstream_path(request.scope), self._headers(api, request, tenant)
        sending = self._upstream.send("POST", _with_query(path, request), headers, preview.content)
        async with sending as response:
            if response.status in _NO_ROUTE:
                return json_response({"input_tokens": preview.tokens})
            content = await response.read_all()
            return Response(content, response.status, dict(response.headers))

    async def _read(self, api: ClientApi, request: Request) -> ClientRequest:
        raw = await self._read_body(request)

        def read() -> ClientRequest:
            return api.read_request(parse_body(raw), request.headers, len(raw))

        return await anyio.to_thread.run_sync(read) if len(raw) >= LARGE_BODY else read()

    def _headers(self, api: ClientApi, request: Request, tenant: EndpointTenant) -> dict[str, str]:
        given, key_header = request.headers.items(), api.key_header
        return api.upstream_headers(
            self._upstream.headers(given, api_key=tenant.api_key, is_json=True, key_header=key_header)
        )

    async def _pass_through(self, request: Request) -> Response:
        """Any other request of the API, as it is."""
        tenant = await self._admit(request)
        path = _upstream_path(request.scope)
        await self._check_route(tenant, request.method, path)
        part = path.lstrip("/").partition("/")[0]
        chat, messages = self._apis[0], self._apis[-1]
        # Some clients of Anthropic ask for models with their key alone.
        has_its_key = part == "models" and messages.key_header in request.headers
        is_anthropic = has_its_key and isinstance(messages, Translation)
        api = messages if is_anthropic or _api_of(request.scope) is _MESSAGES else chat
        headers = self._upstream.headers(
            request.headers.items(), api_key=tenant.api_key, is_json=False, key_header=api.key_header
        )
        if isinstance(api, Translation) and request.method == "GET" and part == "models":
            return await api.show_models(self._upstream, path, headers)
        if part not in self._unknown_routes and len(self._unknown_routes) < _MAX_LOGGED:
            self._unknown_routes.add(part)
            logger.warning("%s is passed through: nothing of it is stored or composed", f"/v1/{part}")
        has_body = "content-length" in request.headers or "transfer-encoding" in request.headers
        if "content-length" in request.headers:
            headers["content-length"] = request.headers["content-length"]
        content = request.stream() if has_body else None
        return PassedThrough(self._upstream, request.method, _with_query(path, request), headers, content)

    async def _admit(self, request: Request) -> EndpointTenant:
        try:
            await self._access.admit(request)
        except RequestRefused as refused:
            raise to_endpoint_error(refused) from None
        return EndpointTenant(admitted_scope(request), request.scope.get(_KEY_NAME))

    async def _check_route(self, tenant: EndpointTenant, method: str, path: str) -> None:
        """With a key that tenants share, each may only ask for what is nobody's, or was given to them."""
        decoded = _decode_path(path)
        if not (self._shares_key and tenant.api_key is None):
            return
        route = f"{method} {decoded.removeprefix('/')}"
        if _SHARED_ROUTES.fullmatch(route):
            return
        found = _RESPONSE_ROUTES.fullmatch(route)
        if found is None or not await self._conversations.owns_response(tenant.scope, found[1]):
            raise EndpointError("you have no response at this address", status=404)

    async def _read_body(self, request: Request) -> bytes:
        if is_encoded(request):
            raise EndpointError("send the body unencoded, without a content-encoding", status=415)
        most = self._max_body_bytes
        try:
            raw = await read_bytes(request, most=most, seconds=self._body_seconds)
        except TimeoutError:
            raise EndpointError("the body of the request did not arrive in time", status=408) from None
        except BodyTooLarge:
            message = f"a body may have {most:,} bytes; send less, or a reference to a file"
            raise EndpointError(message, status=413) from None
        if not is_json(request):
            raise EndpointError("send the header `Content-Type: application/json`", status=415)
        return raw


@asynccontextmanager
async def endpoint_server(
    app: EndpointApp,
    listener: socket,
    *,
    host: str,
    token: str,
    write: bool,
    idle_seconds: float = ServerLimits.idle_seconds,
) -> AsyncIterator[None]:
    """Run an endpoint with the inspector of its memory while the context is open."""
    host = "127.0.0.1" if host.lower() == "localhost" else host
    app.metrics_token = token
    inspected = InspectedServer(app, app.memory, token=token, write=write, host=host, requests=app.requests)
    limits = ServerLimits(idle_seconds=idle_seconds)
    async with run_on(listener, inspected, app.requests, limits):
        yield


_NO_ADDRESS = "there is nothing at this address; the base URL that a client is given ends with /v1"
_METHODS = ["GET", "POST", "PUT", "PATCH", "DELETE", "HEAD", "OPTIONS"]


def _upstream_path(scope: Scope) -> str:
    """Take what comes after `/v1` in the address of a request, as the client wrote it."""
    raw = scope.get("raw_path") or quote(scope["path"]).encode()
    path = raw.decode("latin-1").removeprefix(quote(scope.get("root_path", "")))
    return path.partition("?")[0].removeprefix("/v1")


def _with_query(path: str, request: Request) -> str:
    query = request.scope.get("query_string", b"").decode("latin-1")
    return f"{path}?{query}" if query else path


def _decode_path(path: str) -> str:
    """A path as the last of several servers may read it; refused if it leads out of its folder."""
    for _ in range(_MAX_DECODINGS):
        before, path = path, unquote(path).replace("\\", "/")
        if path == before:
            break
    # Some servers drop what follows a semicolon.
    parts = [part.partition(";")[0] for part in path.split("/")]
    if path != before or any(part in (".", "..") for part in parts):
        raise EndpointError("there is nothing at this address", status=404)
    return path


class _ErrorAnswer(Response):
    """An error as the API of its request writes it."""

    def __init__(self, error: Exception) -> None:
        super().__init__()
        self._error = to_endpoint_error(error)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Send it."""
        await _api_of(scope).error_response(self._error)(scope, receive, send)


_CHAT, _MESSAGES = ChatCompletions(), Messages()


def _api_of(scope: Scope) -> ClientApi:
    """Find the API that writes errors and sends keys for a request, also to an address that has none."""
    is_anthropic = any(name == b"anthropic-version" for name, _ in scope["headers"])
    return _MESSAGES if is_anthropic or "/v1/messages" in scope["path"] else _CHAT
