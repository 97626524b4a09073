"""An OpenAI-compatible endpoint in front of a real one: `openai_app`, for any client with a base URL.

Clients only change their base URL. Their messages are stored, their model gets our context instead, and its
answer is returned unchanged. Other requests of the API are passed through.
"""

from __future__ import annotations

import re
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from functools import partial
from typing import Any, Unpack
from urllib.parse import quote, unquote

import anyio
import anyio.to_thread
from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route
from starlette.types import Receive, Scope, Send

from autonomy_ctx.agents.turn_lease import TURN_WAIT_SECONDS
from autonomy_ctx.background import AsyncResource, Urgent
from autonomy_ctx.callables import await_call, check_callable
from autonomy_ctx.engine.engine import ContextEngine, EngineOptions
from autonomy_ctx.errors import AutonomyCtxError
from autonomy_ctx.memory.memory import Memory
from autonomy_ctx.server.common.app import BODY_LIMIT, ActiveRequests, RequestGate
from autonomy_ctx.server.common.arguments import BodyTooLarge, is_encoded, is_json, read_bytes
from autonomy_ctx.server.common.auth import AccessPolicy
from autonomy_ctx.server.common.errors import NODE_CLOSING, ClientError, RequestRefused
from autonomy_ctx.server.common.limits import BODY_SECONDS, GRACE_SECONDS, IDLE_SECONDS, ServerLimits
from autonomy_ctx.server.common.listener import run_server
from autonomy_ctx.server.inspector.app import InspectedServer
from autonomy_ctx.server.openai.conversations import Conversations
from autonomy_ctx.server.openai.errors import ENDPOINT_CLOSING, OpenAIError, to_openai_error
from autonomy_ctx.server.openai.relay import LARGE_BODY, Exchanges, ModelAnswer, PassedThrough
from autonomy_ctx.server.openai.requests import (
    ChatCompletions,
    ClientRequest,
    OpenAIApi,
    Responses,
    parse_body,
)
from autonomy_ctx.server.openai.upstream import SILENCE_SECONDS, Upstream, UpstreamFailure
from autonomy_ctx.server.tenants.api import (
    Authenticate,
    RateLimit,
    TenantAccess,
    admitted_scope,
    answer_lifespan,
    check_scope,
)
from autonomy_ctx.validation import check_int, check_seconds

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


@dataclass(frozen=True, slots=True)
class OpenAITenant:
    """The scope of a request, and optionally the upstream key for it; returned by `authenticate`."""

    scope: str
    api_key: str | None = field(default=None, repr=False)


def openai_app(
    upstream: str,
    *,
    scope: str | None = None,
    authenticate: Authenticate | None = None,
    rate_limit: RateLimit | None = None,
    api_key: str | None = None,
    conversation_by_user: bool = False,
    cache_fields: bool = False,
    turn_wait_seconds: float | None = TURN_WAIT_SECONDS,
    allowed_hosts: Sequence[str] = (),
    timeout: float = SILENCE_SECONDS,
    body_seconds: float = BODY_SECONDS,
    max_body_bytes: int = BODY_LIMIT,
    http_client: Any = None,
    **options: Unpack[EngineOptions],
) -> OpenAIApp:
    """An endpoint with the API of OpenAI, in front of the server at `upstream`, as an ASGI application.

    `upstream` is a base URL such as `https://api.openai.com/v1`. It is called with the client's own key, or
    with `api_key`. All requests belong to one `scope`, or `authenticate(request)`, plain or async, returns a
    scope, an `OpenAITenant` with its own key, or None, which means status 401. `rate_limit(request, scope)`
    returns None, or the seconds to wait, which means 429. With `conversation_by_user`, the field `user` of a
    request names its conversation: one for each user. With `cache_fields`, each conversation is named for the
    prompt cache of OpenAI, in the field `prompt_cache_key`. Requests of a named conversation are answered one
    after the other; one that waited for `turn_wait_seconds` gets 409. Pages of other sites are refused,
    except those of `allowed_hosts`. Without `authenticate`, or with `allowed_hosts`, the Host header must
    name this machine or one of them. Upstream may be silent for `timeout` seconds. Other arguments are those
    of an adapter: `memory`, `agent`, `context_summary`, `context_template`, `max_tokens`, `reserve_output`,
    and for how long contexts are recorded.

    Run it with any ASGI server, or mount it in a FastAPI or Starlette application and close it there.
    """
    if (authenticate is None) == (scope is None):
        raise TypeError(
            "openai_app() needs either `authenticate`, which gives the scope of each request, "
            "or a `scope` for all requests"
        )
    if scope is not None:
        check_scope(scope)
    else:
        check_callable(authenticate, "authenticate")
    if rate_limit is not None:
        check_callable(rate_limit, "rate_limit")
    if isinstance(allowed_hosts, str):
        raise TypeError("allowed_hosts must be a list of host names, not one string")
    hosts = frozenset(["localhost", *(host.lower() for host in allowed_hosts)])
    check_seconds("turn_wait_seconds", turn_wait_seconds, zero=True, endless=True, optional=True)
    check_seconds("body_seconds", body_seconds)
    check_int("max_body_bytes", max_body_bytes)
    return OpenAIApp(
        Upstream(upstream, api_key=api_key, timeout=timeout, http_client=http_client),
        ContextEngine(scope=_same_scope if scope is None else scope, **options),
        TenantAccess(partial(_authenticate, authenticate, scope), rate_limit),
        # Who is authenticated by a key needs no other protection from pages that point their name here.
        AccessPolicy(loopback=authenticate is None or bool(allowed_hosts), hosts=hosts),
        shares_key=scope is None and api_key is not None,
        conversation_by_user=conversation_by_user,
        cache_fields=cache_fields,
        turn_wait_seconds=turn_wait_seconds,
        body_seconds=body_seconds,
        max_body_bytes=max_body_bytes,
    )


def _same_scope(scope: Any) -> str:
    return str(scope)


async def _authenticate(ask: Callable[[Request], Any] | None, scope: str | None, request: Request) -> Any:
    """The scope of a request; a key that comes with it goes where the request is."""
    if ask is None:
        return scope
    found = await await_call(partial(ask, request))
    if found is None or isinstance(found, str):
        return found
    request.scope[_KEY_NAME] = getattr(found, "api_key", None)
    return getattr(found, "scope", found)


class OpenAIApp(AsyncResource):
    """An endpoint with the API of OpenAI, as an ASGI application; `openai_app` makes it."""

    def __init__(
        self,
        upstream: Upstream,
        engine: ContextEngine,
        access: TenantAccess,
        policy: AccessPolicy,
        *,
        shares_key: bool,
        conversation_by_user: bool,
        cache_fields: bool,
        turn_wait_seconds: float | None,
        body_seconds: float,
        max_body_bytes: int,
    ) -> None:
        self.engine, self.requests = engine, ActiveRequests()
        self._upstream, self._access, self._shares_key = upstream, access, shares_key
        self._body_seconds, self._max_body_bytes = body_seconds, max_body_bytes
        self._conversations = Conversations(engine, turn_wait_seconds=turn_wait_seconds)
        self._exchanges = Exchanges(engine, self._conversations, names_conversations=cache_fields)
        chat, responses = (api(by_user=conversation_by_user) for api in (ChatCompletions, Responses))
        app = Starlette(
            routes=[
                Route("/v1/chat/completions", partial(self._answer, chat), methods=["POST"]),
                Route("/v1/responses", partial(self._answer, responses), methods=["POST"]),
                Route("/v1/{path:path}", self._pass_through, methods=_METHODS),
            ],
            exception_handlers=_HANDLERS,
        )
        app.router.redirect_slashes = False
        self._gate = RequestGate(app, access=policy, requests=self.requests, respond=_refuse)

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

    async def _answer(self, api: OpenAIApi, request: Request) -> Response:
        """Store what is new, compose, and answer with what upstream says."""
        tenant = await self._admit(request)
        urgent = Urgent()
        try:
            raw = await self._read_body(request)
            read = partial(_read_request, api, raw, request.headers)
            asked = await anyio.to_thread.run_sync(read) if len(raw) >= LARGE_BODY else read()
            headers = self._upstream.headers(request.headers.items(), api_key=tenant.api_key, is_json=True)
        except BaseException:
            urgent.end()
            raise
        return ModelAnswer(
            self._exchanges, self._upstream, tenant.scope, asked, headers, self.requests, urgent
        )

    async def _pass_through(self, request: Request) -> Response:
        """Any other request of the API, as it is."""
        tenant = await self._admit(request)
        path = _upstream_path(request.scope)
        await self._check_route(tenant, request.method, path)
        headers = self._upstream.headers(request.headers.items(), api_key=tenant.api_key, is_json=False)
        has_body = "content-length" in request.headers or "transfer-encoding" in request.headers
        if "content-length" in request.headers:
            headers["content-length"] = request.headers["content-length"]
        content = request.stream() if has_body else None
        query = request.scope.get("query_string", b"").decode("latin-1")
        target = f"{path}?{query}" if query else path
        return PassedThrough(self._upstream, request.method, target, headers, content)

    async def _admit(self, request: Request) -> OpenAITenant:
        try:
            await self._access.admit(request)
        except RequestRefused as refused:
            raise to_openai_error(refused) from None
        return OpenAITenant(admitted_scope(request), request.scope.get(_KEY_NAME))

    async def _check_route(self, tenant: OpenAITenant, method: str, path: str) -> None:
        """With a key that tenants share, each may only ask for what is nobody's, or was given to them."""
        decoded = _decode_path(path)
        if not (self._shares_key and tenant.api_key is None):
            return
        route = f"{method} {decoded.removeprefix('/')}"
        if _SHARED_ROUTES.fullmatch(route):
            return
        found = _RESPONSE_ROUTES.fullmatch(route)
        if found is None or not await self._conversations.owns_response(tenant.scope, found[1]):
            raise OpenAIError("there is nothing of yours at this address", status=404)

    async def _read_body(self, request: Request) -> bytes:
        if is_encoded(request):
            raise OpenAIError("send the body as it is, without a content-encoding", status=415)
        most = self._max_body_bytes
        try:
            raw = await read_bytes(request, most=most, seconds=self._body_seconds)
        except TimeoutError:
            raise OpenAIError("the body of the request did not come in time", status=408) from None
        except BodyTooLarge:
            message = f"a body may have {most:,} bytes; send less, or a reference to a file"
            raise OpenAIError(message, status=413) from None
        if not is_json(request):
            raise OpenAIError("send the header `Content-Type: application/json`", status=415)
        return raw


@asynccontextmanager
async def endpoint_server(
    app: OpenAIApp,
    *,
    host: str,
    port: int,
    token: str,
    write: bool,
    idle_seconds: float = IDLE_SECONDS,
) -> AsyncIterator[int]:
    """Run an endpoint with the inspector of its memory while the context is open, and give the port."""
    host = "127.0.0.1" if host.lower() == "localhost" else host
    inspected = InspectedServer(app, app.memory, token=token, write=write, host=host, requests=app.requests)
    limits = ServerLimits(idle_seconds=idle_seconds)
    running = run_server(
        inspected, app.requests, host=host, port=port, grace_seconds=GRACE_SECONDS, limits=limits
    )
    async with running as found:
        yield found


_METHODS = ["GET", "POST", "PUT", "PATCH", "DELETE", "HEAD", "OPTIONS"]


def _read_request(api: OpenAIApi, raw: bytes, headers: Mapping[str, str]) -> ClientRequest:
    return api.read_request(parse_body(raw), headers, len(raw))


def _upstream_path(scope: Scope) -> str:
    """Take what comes after `/v1` in the address of a request, as the client wrote it."""
    raw = scope.get("raw_path") or quote(scope["path"]).encode()
    path = raw.decode("latin-1").removeprefix(quote(scope.get("root_path", "")))
    return path.partition("?")[0].removeprefix("/v1")


def _decode_path(path: str) -> str:
    """A path as the last of several servers may read it; refused if it leads out of its folder."""
    for _ in range(_MAX_DECODINGS):
        before, path = path, unquote(path).replace("\\", "/")
        if path == before:
            break
    # Some servers drop what follows a semicolon.
    parts = [part.partition(";")[0] for part in path.split("/")]
    if path != before or any(part in (".", "..") for part in parts):
        raise OpenAIError("there is nothing at this address", status=404)
    return path


def _refuse(error: ClientError) -> Response:
    failure = ENDPOINT_CLOSING if error is NODE_CLOSING else to_openai_error(RequestRefused(error))
    return failure.response()


async def _answer_error(request: Request, error: Exception) -> Response:
    return to_openai_error(error).response()


async def _answer_unexpected(request: Request, error: Exception) -> Response:
    """No more than that it failed; it is logged where it is caught in the end."""
    return OpenAIError("the request failed inside the endpoint", status=500).response()


async def _answer_no_route(request: Request, error: Exception) -> Response:
    status = error.status_code if isinstance(error, HTTPException) else 404
    message = "this address takes other methods"
    if status != 405:
        message = "there is nothing at this address; the base URL that a client is given ends with /v1"
    headers = dict(getattr(error, "headers", None) or {})
    return OpenAIError(message, status=status, headers=headers).response()


_HANDLERS: dict[Any, Any] = {
    OpenAIError: _answer_error,
    AutonomyCtxError: _answer_error,
    UpstreamFailure: _answer_error,
    HTTPException: _answer_no_route,
    Exception: _answer_unexpected,
}
