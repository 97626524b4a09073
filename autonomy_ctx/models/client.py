"""The HTTP client of models: building requests, sending them, retrying, and pooling connections.

One request loop serves all providers; what differs between them is in their wire formats. Attempts return
failures instead of raising them, so that no error carries the HTTP client's own error, which holds the
request and its key.
"""

from __future__ import annotations

import asyncio
import json
import logging
import os
import ssl
import sys
import time
from collections.abc import Awaitable, Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field, fields
from random import random
from typing import Any, TypeVar
from weakref import WeakKeyDictionary

import anyio
import anyio.to_thread

from autonomy_ctx.background import current_loop
from autonomy_ctx.errors import InsecureAddress, InvalidModelReply, MissingKey, ModelError, ModelTimeout
from autonomy_ctx.formats.base import ModelReply, ReplyFormat, StreamReader, WireRequest
from autonomy_ctx.formats.outgoing import encode_request
from autonomy_ctx.messages.message import TextContent
from autonomy_ctx.models.providers import Provider, join_url, sends_in_clear
from autonomy_ctx.models.retry import (
    RequestFailure,
    body_failure,
    broken_off,
    connection_failure,
    parse_body,
    response_failure,
)
from autonomy_ctx.models.streaming import (
    MAX_REPLY_BYTES,
    MAX_STREAM_BYTES,
    ModelStream,
    ResponseBody,
    UnreadableBody,
)
from autonomy_ctx.validation import check_int, check_seconds

# Requests that one client has at a time before there is another one. For each request, a client looks through
# all its connections: of 50 at a time, each takes 8 ms of CPU with one client, and 1.4 ms with 8 per client.
REQUESTS_PER_CLIENT = 8
MAX_CLIENTS = 64
MAX_CONNECTIONS, MAX_IDLE_CONNECTIONS = 1000, 200
CLOSE_TIMEOUT_SECONDS = 5.0
# Where an HTTP client looks for certificates and proxies.
CERTIFICATE_VARIABLES = ("SSL_CERT_FILE", "SSL_CERT_DIR")
PROXY_VARIABLES = ("HTTP_PROXY", "http_proxy", "ALL_PROXY", "all_proxy")


class ClientLease:
    """A client for one request, until that has ended."""

    __slots__ = ("_request_counts", "client")

    def __init__(self, client: Any, request_counts: dict[Any, int]) -> None:
        self.client, self._request_counts = client, request_counts
        request_counts[client] = request_counts.get(client, 0) + 1

    def release(self) -> None:
        """The request has ended; twice is harmless."""
        request_counts, self._request_counts = self._request_counts, {}
        if self.client in request_counts:
            request_counts[self.client] -= 1


class TlsContexts:
    """The TLS contexts of all clients of the process: one for what the environment says of certificates.

    Reading the certificates takes 50 ms of CPU, and importing an HTTP client as long. A thread does both.
    """

    def __init__(self) -> None:
        # That of None is for http, which has no use for certificates: with it every certificate is refused.
        self._made: dict[tuple[str | None, ...] | None, ssl.SSLContext] = {}
        # One thread for each loop, however many requests wait for it.
        self._locks: WeakKeyDictionary[Any, anyio.Lock] = WeakKeyDictionary()

    async def get(self, *, certificates: bool) -> ssl.SSLContext:
        """The context for clients that have to do with certificates, or for others; made when first needed.

        Raises `OSError` when the certificates cannot be read.
        """
        found = self._find(certificates)
        if found is None:
            async with self._locks.setdefault(current_loop(), anyio.Lock()):
                found = self._find(certificates)
                if found is None:
                    # If the caller is cancelled, the thread ends by itself.
                    found = await anyio.to_thread.run_sync(self._make, certificates, abandon_on_cancel=True)
        return found

    def _find(self, certificates: bool) -> ssl.SSLContext | None:
        return self._made.get(_certificate_sources() if certificates else None)

    def _make(self, certificates: bool) -> ssl.SSLContext:
        # Imported here: they take longer to import than all the rest.
        import httpcore  # noqa: F401  # which the first client imports
        import httpx

        context = httpx.create_ssl_context() if certificates else ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
        # Two loops may make one at the same time; a lock could stay locked in a forked child.
        return self._made.setdefault(_certificate_sources() if certificates else None, context)


tls_contexts = TlsContexts()


def _certificate_sources() -> tuple[str | None, ...]:
    return tuple(map(os.environ.get, CERTIFICATE_VARIABLES))


def _needs_certificates(url: str) -> bool:
    # A proxy may be asked over TLS also for a URL without.
    return not url.startswith("http:") or any(map(os.environ.get, PROXY_VARIABLES))


class ClientPool:
    """HTTP clients by event loop, or the one client that was given, which stays its owner's."""

    def __init__(self, client: Any = None) -> None:
        self._external_client = client
        # For each loop its clients, and how many requests each of them has; those for http apart.
        self._clients: WeakKeyDictionary[Any, dict[bool, dict[Any, int]]] = WeakKeyDictionary()

    async def lease(self, url: str) -> ClientLease:
        """The client of the running loop that has least to do, or a new one when all have enough.

        Raises `OSError` when the certificates for it cannot be read.
        """
        if self._external_client is not None:
            return ClientLease(self._external_client, {})
        certificates = _needs_certificates(url)
        context = await tls_contexts.get(certificates=certificates)
        clients = self._clients.get(loop := current_loop())
        if clients is None:
            self._forget_closed_loops()
            clients = self._clients[loop] = {}
        request_counts = clients.setdefault(certificates, {})
        client = min(request_counts, key=request_counts.__getitem__, default=None)
        if client is None or (
            request_counts[client] >= REQUESTS_PER_CLIENT and len(request_counts) < MAX_CLIENTS
        ):
            client = _new_client(context)
        return ClientLease(client, request_counts)

    def build_request(self, client: Any, request: HttpRequest, connect_seconds: float) -> Any:
        """The request as a client sends it: one that was given has settings of its own, ours have cookies."""
        url, headers, content = request.url, dict(request.headers), request.content
        # Without limits to read, to write and to wait for a connection.
        if self._external_client is not None or client.cookies:
            # As a tuple, which clients of every kind take.
            timeout = (connect_seconds, None, None, None)
            return client.build_request(
                request.method, url, headers=headers, content=content, timeout=timeout
            )
        import httpx

        timeouts = {"timeout": {"connect": connect_seconds}}
        return httpx.Request(request.method, url, headers=headers, content=content, extensions=timeouts)

    def errors(self) -> tuple[type[Exception], ...]:
        """The exceptions of both HTTP clients for failed connections; they have no common base class."""
        loaded = (sys.modules.get(name) for name in ("httpx", "httpx2"))
        return tuple(module.HTTPError for module in loaded if module is not None)

    async def aclose(self) -> None:
        """Close the connections of the running loop. The next use opens new ones."""
        with anyio.move_on_after(CLOSE_TIMEOUT_SECONDS, shield=True):
            for clients in self._clients.pop(current_loop(), {}).values():
                for client in clients:
                    await client.aclose()

    def _forget_closed_loops(self) -> None:
        for loop in list(self._clients):
            # Its sockets went with it.
            if isinstance(loop, asyncio.AbstractEventLoop) and loop.is_closed():
                del self._clients[loop]


def _new_client(context: ssl.SSLContext) -> Any:
    # Imported by the thread that made the context.
    import httpx

    limits = httpx.Limits(max_connections=MAX_CONNECTIONS, max_keepalive_connections=MAX_IDLE_CONNECTIONS)
    return httpx.AsyncClient(limits=limits, follow_redirects=False, verify=context)


logger = logging.getLogger("autonomy_ctx.models")
Result = TypeVar("Result")


@dataclass(frozen=True, slots=True, kw_only=True)
class Timeouts:
    """Seconds to connect, to the first token of a stream, and for all of a request with its retries."""

    connect: float = 5.0
    first_token: float = 300.0
    total: float = 600.0

    def __post_init__(self) -> None:
        for name in (one.name for one in fields(self)):
            check_seconds(name, getattr(self, name), where="timeout")

    @classmethod
    def of(cls, value: float | Mapping[str, float] | Timeouts | None) -> Timeouts:
        """From the argument `timeout`: seconds in all, or a dict of those that differ from the usual."""
        if value is None:
            return cls()
        if isinstance(value, Timeouts):
            return value
        if not isinstance(value, Mapping):
            return cls(total=value)
        known = [one.name for one in fields(cls)]
        unknown = sorted(str(name) for name in value if name not in known)
        if unknown:
            raise ValueError(f"timeout does not know {', '.join(unknown)}; it takes {', '.join(known)}")
        return cls(**value)


@dataclass(frozen=True, slots=True, kw_only=True)
class HttpRequest:
    """A request as it goes out. Shows neither its headers nor its content."""

    url: str
    method: str = "POST"
    headers: Mapping[str, str] = field(repr=False)
    content: bytes = field(repr=False)


@dataclass(frozen=True, slots=True, kw_only=True)
class RetryPolicy:
    """The number of retries, and the functions to wait and to jitter with."""

    retries: int = 2
    sleep: Callable[[float], Awaitable[None]] = anyio.sleep
    random: Callable[[], float] = random
    now: Callable[[], float] = time.time

    def __post_init__(self) -> None:
        check_int("retries", self.retries, least=0)


class ModelClient:
    """Asks one model."""

    def __init__(
        self,
        name: str,
        reply_format: ReplyFormat,
        pool: ClientPool,
        timeouts: Timeouts,
        retry_policy: RetryPolicy,
    ) -> None:
        self._name, self._format, self._pool = name, reply_format, pool
        self._timeouts, self._retry_policy = timeouts, retry_policy

    async def complete(self, request: HttpRequest) -> ModelReply:
        """The whole answer."""
        return await self._retry(lambda deadline: self._attempt_complete(request))

    async def fetch(self, request: HttpRequest) -> bytes:
        """The content of a response with the status of a success; there is one attempt."""
        with anyio.CancelScope(deadline=anyio.current_time() + self._timeouts.total):
            found = await self._attempt_fetch(request)
            if isinstance(found, RequestFailure):
                raise found.error
            return found
        raise ModelTimeout(self._name, what="no answer", seconds=self._timeouts.total)

    async def stream(self, request: HttpRequest, reader: Callable[[], StreamReader]) -> ModelStream:
        """The answer in pieces. It returns with the first piece; retries happen only before that.

        Each attempt has a `reader` of its own.
        """
        return await self._retry(lambda deadline: self._attempt_stream(request, reader(), deadline))

    async def _retry(self, attempt: Callable[[float], Awaitable[Result | RequestFailure]]) -> Result:
        """The result of the first attempt that succeeds; each is told the deadline of all."""
        policy, tries = self._retry_policy, 0
        deadline = anyio.current_time() + self._timeouts.total
        with anyio.CancelScope(deadline=deadline):
            while True:
                found = await attempt(deadline)
                if not isinstance(found, RequestFailure):
                    return found
                delay = found.delay(tries, policy.random)
                is_last = tries >= policy.retries or anyio.current_time() + delay > deadline
                if is_last or not found.retryable:
                    raise found.error
                tries += 1
                kind, status, next_try = type(found.error).__name__, found.error.status_code, tries + 1
                logger.info(
                    "model %s: %s (%s); attempt %d follows in %.2f s",
                    self._name,
                    kind,
                    status,
                    next_try,
                    delay,
                )
                await policy.sleep(delay)
        raise ModelTimeout(self._name, what="no answer", seconds=self._timeouts.total)

    async def _send(self, request: HttpRequest, max_bytes: int) -> ResponseBody:
        try:
            lease = await self._pool.lease(request.url)
        except OSError as error:
            problem = (
                "was not called: the certificates that SSL_CERT_FILE or SSL_CERT_DIR name cannot be read"
            )
            reason = error.strerror or type(error).__name__
            raise ModelError(self._name, f"{problem} ({reason}); correct or unset the variable") from error
        try:
            sent = self._pool.build_request(lease.client, request, self._timeouts.connect)
            response = await lease.client.send(sent, stream=True, follow_redirects=False)
        except BaseException:
            lease.release()
            raise
        return ResponseBody(response, max_bytes=max_bytes, on_close=lease.release)

    async def _attempt_complete(self, request: HttpRequest) -> ModelReply | RequestFailure:
        found = await self._attempt_fetch(request)
        return found if isinstance(found, RequestFailure) else self._parse_reply(found)

    async def _attempt_fetch(self, request: HttpRequest) -> bytes | RequestFailure:
        body: ResponseBody | None = None
        try:
            body = await self._send(request, MAX_REPLY_BYTES)
            if not 200 <= body.status < 300:
                return await self._response_failure(body)
            return await body.read_all()
        except UnreadableBody as unreadable:
            return RequestFailure(InvalidModelReply(self._name, unreadable.problem))
        except self._pool.errors() as error:
            return self._connection_failure(request, body, error)
        finally:
            if body is not None:
                await body.aclose()

    async def _attempt_stream(
        self, request: HttpRequest, reader: StreamReader, deadline: float
    ) -> ModelStream | RequestFailure:
        body: ResponseBody | None = None
        begun = False
        try:
            with anyio.CancelScope(deadline=anyio.current_time() + self._timeouts.first_token):
                body = await self._send(request, MAX_STREAM_BYTES)
                if not 200 <= body.status < 300:
                    return await self._response_failure(body)
                stream = ModelStream(
                    self._name,
                    reader,
                    body,
                    self._pool.errors(),
                    deadline=deadline,
                    seconds=self._timeouts.total,
                )
                failure = await stream.begin()
                begun = failure is None
                return failure or stream
        except self._pool.errors() as error:
            return self._connection_failure(request, body, error)
        finally:
            if body is not None and not begun:
                await body.aclose()
        return RequestFailure(
            ModelTimeout(self._name, what="no first token", seconds=self._timeouts.first_token)
        )

    async def _response_failure(self, body: ResponseBody) -> RequestFailure:
        """Read an error response; one whose body cannot be read still has its status."""
        said: Any = None
        with suppress(UnreadableBody, *self._pool.errors()):
            said = parse_body(await body.read_all())
        now = self._retry_policy.now()
        return response_failure(self._name, body.status, body.headers, said, now=now)

    def _connection_failure(
        self, request: HttpRequest, body: ResponseBody | None, error: Exception
    ) -> RequestFailure:
        is_reached = body is not None
        return broken_off(self._name) if is_reached else connection_failure(self._name, request.url, error)

    def _parse_reply(self, data: bytes) -> ModelReply | RequestFailure:
        try:
            body = json.loads(data)
        except (ValueError, RecursionError):
            return RequestFailure(
                InvalidModelReply(self._name, "is empty" if not data.strip() else "is not JSON")
            )
        if not isinstance(body, dict):
            return RequestFailure(InvalidModelReply(self._name, "is not a JSON object"))
        if body.get("error") or body.get("type") == "error":
            return body_failure(self._name, body, streamed=False)
        try:
            reply = self._format.reply(body)
        except Exception:  # a format may stumble in any way over a body that is none of its own
            reply = ModelReply()
        if is_empty_reply(reply):
            return RequestFailure(InvalidModelReply(self._name, "has no answer"))
        return reply


def is_empty_reply(reply: ModelReply) -> bool:
    """Tell whether there is neither an answer nor a reason why there is none."""
    spoken = any(not isinstance(part, TextContent) or part.text for part in reply.parts)
    return not spoken and not reply.tool_calls and reply.stop is None


class Secret:
    """Text for a header that shows itself nowhere."""

    __slots__ = ("value",)

    def __init__(self, value: str, name: str) -> None:
        if not isinstance(value, str):
            raise TypeError(f"{name} must be a string, not {type(value).__name__}")
        self.value = value.strip()
        # Said here, because the HTTP client would show the value.
        if not self.value or not self.value.isascii() or not self.value.isprintable():
            raise ValueError(
                f"{name} is empty or has characters that no HTTP header may have; check how it was copied"
            )

    def __repr__(self) -> str:
        return "***"


class RequestBuilder:
    """Writes requests to one server for one model. Keys come from the environment unless given.

    `version` is that of the Anthropic API.
    """

    def __init__(
        self,
        name: str,
        provider: Provider,
        *,
        base_url: str | None,
        api_key: str | None,
        headers: Mapping[str, str] | None,
        insecure: bool,
        version: str | None = None,
    ) -> None:
        if not isinstance(insecure, bool):
            raise TypeError(f"insecure must be True or False, not {type(insecure).__name__}")
        self._name, self._provider, self.explicit_base_url = name, provider, base_url
        self._insecure, self._version = insecure, version
        self._api_key = None if api_key is None else Secret(api_key, "api_key")
        self._headers = {name: Secret(value, f"header {name}") for name, value in (headers or {}).items()}

    @property
    def base_url(self) -> str | None:
        """The base URL: as given, or from the environment."""
        return self._provider.resolve_base_url(self.explicit_base_url)

    def build_request(self, request: WireRequest, *, stream: bool = False) -> HttpRequest:
        """A request with its headers."""
        base = self.base_url
        if base is None:
            raise ValueError(f"model {self._name!r} has no address; give its `base_url`")
        headers = self._provider.headers(self._key(base), request.body, version=self._version)
        # Compressing a stream would only hold its pieces back.
        headers |= {"accept-encoding": "identity" if stream else "gzip", "user-agent": "autonomy-ctx"}
        headers |= {name.lower(): secret.value for name, secret in self._headers.items()}
        if request.betas:
            # Beside those of the user's headers.
            own = headers.get("anthropic-beta")
            headers["anthropic-beta"] = ",".join([*([own] if own else ()), *request.betas])
        return HttpRequest(
            url=join_url(base, request.path, self._provider.version),
            headers=headers,
            content=encode_request(request.body).encode(),
        )

    def check_key(self) -> None:
        """Raise `MissingKey` if a key is needed that is neither given nor in the environment."""
        provider = self._provider
        if self._api_key is not None or self._headers or not provider.key_variables:
            return
        # A server at another address than the provider's own may well need none.
        if provider.read_key() is None and self.base_url == provider.default_base_url():
            raise MissingKey(self._name, provider.key_variables)

    def _key(self, base: str) -> str | None:
        if self._api_key is not None:
            return self._api_key.value
        found = self._provider.read_key()
        if found is not None:
            # A caller who passes a key knows its target. A key from the environment would be sent to any
            # address.
            if sends_in_clear(base) and not self._insecure:
                raise InsecureAddress(self._name, base, self._provider.key_variables)
            return Secret(found, "the key in the environment").value
        if self._provider.key_variables:
            self.check_key()
        return None
