"""The upstream server behind the endpoint: requests to it, its answers, and its failures.

Errors of the HTTP client are neither raised nor logged here, because they contain the request with its key.
"""

from __future__ import annotations

import json
import re
from collections.abc import AsyncIterable, AsyncIterator, Awaitable, Callable, Iterable, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass
from functools import partial
from typing import Any, NamedTuple
from urllib.parse import urlsplit

import anyio

from autonomy_ctx.models.client import ClientLease, ClientPool, Secret
from autonomy_ctx.models.providers import join_url
from autonomy_ctx.models.retry import connection_problem
from autonomy_ctx.models.streaming import DONE_MARKER, MAX_STREAM_BYTES, ResponseBody, UnreadableBody
from autonomy_ctx.server.endpoint.connections import CONNECTION_ERRORS, Connections, uses_proxy
from autonomy_ctx.validation import check_seconds

CONNECT_SECONDS = 5.0
SILENCE_SECONDS = 600.0
# How long to wait for the end of an answer whose last event is there: then its connection is used again.
DRAIN_SECONDS = 0.1
MAX_EVENT_BYTES = 64 * 2**20
# Of one connection, not of a request.
_HOP_HEADERS = frozenset(
    (
        *("connection", "keep-alive", "proxy-authenticate", "proxy-authorization", "proxy-connection"),
        *("te", "trailer", "transfer-encoding", "upgrade"),
    )
)
# Ours to say, or of no use to a server.
_OWN_HEADERS = frozenset(
    ["host", "content-length", "accept-encoding", "x-conversation-id", "cookie", "expect"]
)
# With these a server behind may read another address or method than the one that was checked.
_ADDRESS_HEADERS = re.compile(
    r"x-(?:original|forwarded|envoy)-.*|x-rewrite-url|x-(?:http-)?method(?:-override)?|forwarded"
)
# Where clients send a key, and where they say which account of a key pays.
_KEY_HEADERS = frozenset(["authorization", "api-key", "x-api-key", "x-goog-api-key"])
_ACCOUNT_HEADERS = frozenset(["openai-organization", "openai-project", "x-goog-user-project"])
# A body is passed on decoded; cookies of the server behind are none of the client's.
_ANSWER_HEADERS = frozenset(["content-length", "content-encoding", "set-cookie", "date", "server"])
_EVENT_END = re.compile(rb"\n\r?\n|\r\r")
_LINE_END = re.compile(r"\r\n|\n|\r")


class UpstreamFailure(Exception):
    """Upstream gave no complete answer. The text is for the client; the status is 502 or 504."""

    def __init__(self, message: str, *, status: int = 502, code: str = "upstream_unavailable") -> None:
        super().__init__(message)
        self.message, self.status, self.code = message, status, code


@dataclass(frozen=True, slots=True)
class UpstreamResponse:
    """The status and headers of an answer; the body is read in pieces."""

    status: int
    headers: list[tuple[str, str]]
    # The next bytes, None at the end; raises `UpstreamFailure` if they do not arrive.
    read_chunk: Callable[[], Awaitable[bytes | None]]

    @property
    def content_type(self) -> str:
        """The type of the body, without its parameters."""
        found = next((value for name, value in self.headers if name == "content-type"), "")
        return found.partition(";")[0].strip().lower()

    async def read_all(self) -> bytes:
        """The rest of the body."""
        chunks = []
        while (chunk := await self.read_chunk()) is not None:
            chunks.append(chunk)
        return b"".join(chunks)

    async def drain(self) -> None:
        """Wait a moment for the end, so that the connection can be used again."""
        with anyio.move_on_after(DRAIN_SECONDS):
            try:
                while await self.read_chunk() is not None:
                    pass
            except UpstreamFailure:
                pass


class Upstream:
    """A server with the API of its clients, called with the client's key or with a fixed key."""

    def __init__(
        self,
        url: str,
        *,
        api_key: str | None = None,
        timeout: float = SILENCE_SECONDS,
        http_client: Any = None,
    ) -> None:
        if not isinstance(url, str):
            raise TypeError(f"upstream must be a URL, not {type(url).__name__}")
        found = urlsplit(url)
        if found.scheme not in ("http", "https") or not found.hostname:
            raise ValueError("upstream must be the URL of a model's API, such as https://api.openai.com/v1")
        if found.username or found.password or found.query or found.fragment:
            raise ValueError("upstream must be a URL without a key, a query or a fragment; give an `api_key`")
        check_seconds("timeout", timeout)
        self.url, self.host = url.rstrip("/"), found.netloc
        self._secret = None if api_key is None else Secret(api_key, "api_key")
        self._seconds = timeout
        # A client of httpx knows proxies, and costs more.
        uses_httpx = http_client is not None or uses_proxy()
        self._clients = ClientPool(http_client) if uses_httpx else None
        self._connections = Connections(self.url)

    def headers(
        self,
        given: Iterable[tuple[str, str]],
        *,
        api_key: str | None,
        is_json: bool,
        key_header: str = "authorization",
    ) -> dict[str, str]:
        """The headers of a request: the client's, without its key if another one is used.

        With the key of all clients, a client does not choose the account that pays.
        """
        own = Secret(api_key, "api_key") if api_key is not None else self._secret
        given = [(name.lower(), value) for name, value in given]
        dropped = _hop_headers(given) | _OWN_HEADERS | (_KEY_HEADERS if own is not None else frozenset())
        if own is not None and own is self._secret:
            dropped |= _ACCOUNT_HEADERS
        headers: dict[str, str] = {}
        for name, value in given:
            if name not in dropped and not _ADDRESS_HEADERS.fullmatch(name):
                headers[name] = f"{headers[name]}, {value}" if name in headers else value
        if own is not None:
            is_bearer = key_header == "authorization"
            headers[key_header] = f"Bearer {own.value}" if is_bearer else own.value
        # Compressing a stream would only hold its pieces back.
        headers["accept-encoding"] = "identity"
        return headers | ({"content-type": "application/json"} if is_json else {})

    @asynccontextmanager
    async def send(
        self,
        method: str,
        path: str,
        headers: Mapping[str, str],
        content: bytes | AsyncIterable[bytes] | None,
        *,
        max_bytes: int = MAX_STREAM_BYTES,
    ) -> AsyncIterator[UpstreamResponse]:
        """An answer while the context is open; `UpstreamFailure` when there is none."""
        body = await self._send(method, join_url(self.url, path, None), headers, content, max_bytes)
        try:
            found = [(name.lower(), value) for name, value in body.headers.items()]
            dropped = _hop_headers(found) | _ANSWER_HEADERS
            kept = [(name, value) for name, value in found if name not in dropped]
            yield UpstreamResponse(body.status, kept, partial(self._read_chunk, body))
        finally:
            await body.aclose()

    async def _read_chunk(self, body: ResponseBody) -> bytes | None:
        failure: UpstreamFailure
        try:
            return await body.read_chunk()
        except UnreadableBody as unreadable:
            failure = UpstreamFailure(f"{self.host} sent an answer that {unreadable.problem}")
        except self._errors() as error:
            failure = UpstreamFailure(f"{self.host} broke off its answer", code="upstream_broke_off")
            if connection_problem(self.host, error).reason == "timeout":
                failure = self._timed_out()
        # Out here, without its cause.
        raise failure

    async def close(self) -> None:
        """Close the connections of the running loop."""
        await self._connections.aclose()
        if self._clients is not None:
            await self._clients.aclose()

    async def _send(
        self, method: str, url: str, headers: Mapping[str, str], content: Any, max_bytes: int
    ) -> ResponseBody:
        lease: ClientLease | None = None
        failure: UpstreamFailure
        try:
            if self._clients is None:
                await self._connections.prepare()
            else:
                lease = await self._clients.lease(url)
        except OSError:
            raise UpstreamFailure(
                "the certificates that SSL_CERT_FILE or SSL_CERT_DIR name cannot be read"
            ) from None
        sent = False
        try:
            if lease is None:
                reply = await self._connections.send(
                    method, url, headers, content, connect_seconds=CONNECT_SECONDS, seconds=self._seconds
                )
                return ResponseBody(reply, max_bytes=max_bytes)
            # To connect, for each read and write, and for a free connection.
            timeout = (CONNECT_SECONDS, self._seconds, self._seconds, self._seconds)
            request = lease.client.build_request(
                method, url, headers=dict(headers), content=content, timeout=timeout
            )
            response = await lease.client.send(request, stream=True, follow_redirects=False)
            sent = True
            return ResponseBody(response, max_bytes=max_bytes, on_close=lease.release)
        except self._errors() as error:
            reason, text = connection_problem(self.host, error)
            failure = self._timed_out() if reason == "timeout" else UpstreamFailure(text)
        finally:
            if lease is not None and not sent:
                lease.release()
        # Out here, without its cause.
        raise failure

    def _errors(self) -> tuple[type[Exception], ...]:
        return CONNECTION_ERRORS if self._clients is None else self._clients.errors()

    def _timed_out(self) -> UpstreamFailure:
        return UpstreamFailure(f"{self.host} did not answer in time", status=504, code="upstream_timeout")


class StreamPiece(NamedTuple):
    """One server-sent event: its bytes, its name, and its data as an object, or None."""

    raw: bytes
    event: str | None = None
    data: dict[str, Any] | None = None
    is_done: bool = False

    @property
    def is_heartbeat(self) -> bool:
        """True for a comment, which says only that the server is there."""
        return self.data is None and not self.is_done


class EventSplitter:
    """Splits a stream of bytes into server-sent events, independent of how it is chunked."""

    def __init__(self) -> None:
        self._rest = bytearray()

    @property
    def rest(self) -> bytes:
        """The bytes of an incomplete event."""
        return bytes(self._rest)

    def feed(self, chunk: bytes) -> list[StreamPiece]:
        """The events that are complete now."""
        # Only what is new is searched, and the bytes before it that an end may have begun with.
        start, searched = 0, max(len(self._rest) - 2, 0)
        self._rest += chunk
        pieces = []
        for found in _EVENT_END.finditer(self._rest, searched):
            pieces.append(_read_piece(bytes(self._rest[start : found.end()])))
            start = found.end()
        del self._rest[:start]
        if len(self._rest) > MAX_EVENT_BYTES:
            raise UpstreamFailure("an event of the answer is too large")
        return pieces


def _hop_headers(headers: Iterable[tuple[str, str]]) -> frozenset[str]:
    """The headers of one connection: the usual ones, and those that `Connection` names."""
    named = [value.split(",") for name, value in headers if name == "connection"]
    return _HOP_HEADERS.union(one.strip().lower() for names in named for one in names)


def _read_piece(raw: bytes) -> StreamPiece:
    name: str | None = None
    lines: list[str] = []
    for line in _LINE_END.split(raw.decode("utf-8", "replace").removeprefix("\ufeff")):
        field, _, value = line.partition(":")
        if field == "data":
            lines.append(value.removeprefix(" "))
        elif field == "event":
            name = value.removeprefix(" ") or None
    text = "\n".join(lines)
    if text.strip() == DONE_MARKER:
        return StreamPiece(raw, name, None, is_done=True)
    return StreamPiece(raw, name, read_object(text))


def read_object(text: str | bytes) -> dict[str, Any] | None:
    """A JSON object; None for anything else."""
    try:
        data = json.loads(text)
    except (ValueError, RecursionError):
        return None
    return data if isinstance(data, dict) else None
