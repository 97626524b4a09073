"""Connections to upstream that are kept between requests.

They are httpcore's, without httpx and its pool, which looks through all its connections for each request: one
takes 0.5 ms of CPU instead of 1.2 ms.
"""

from __future__ import annotations

import ssl
from collections.abc import AsyncIterable, AsyncIterator, Mapping
from typing import Any
from urllib.parse import quote, urlsplit
from weakref import WeakKeyDictionary

import anyio
import httpcore

from autonomy_ctx.background import current_loop
from autonomy_ctx.models.client import CLOSE_TIMEOUT_SECONDS, MAX_IDLE_CONNECTIONS, tls_contexts

# As long as most clients keep a connection that nobody uses.
IDLE_SECONDS = 5.0
CONNECTION_ERRORS = (httpcore.NetworkError, httpcore.TimeoutException, httpcore.ProtocolError)
# What may stand in an address; what is encoded already stays as it is.
_URL_CHARACTERS = "%/:?[]@!$&'()*+,;=-._~"


def uses_proxy() -> bool:
    """Tell whether requests of this process go through a proxy."""
    # Imported here: it is large.
    from urllib.request import getproxies

    return not {"http", "https", "all"}.isdisjoint(getproxies())


class Connections:
    """The connections of each event loop to one server."""

    def __init__(self, url: str) -> None:
        place = urlsplit(url)
        self._is_secure = place.scheme == "https"
        host = (place.hostname or "").encode("ascii" if (place.hostname or "").isascii() else "idna")
        self._origin = httpcore.Origin(
            place.scheme.encode(), host, place.port or (443 if self._is_secure else 80)
        )
        self._host = place.netloc.encode("ascii" if place.netloc.isascii() else "idna")
        self._tls: ssl.SSLContext | None = None
        # Those that no request uses, the newest last.
        self._idle: WeakKeyDictionary[Any, list[httpcore.AsyncHTTPConnection]] = WeakKeyDictionary()

    async def prepare(self) -> None:
        """Read the certificates, if the server needs some. Raises `OSError` when they cannot be read."""
        if self._is_secure:
            self._tls = await tls_contexts.get(certificates=True)

    async def send(
        self,
        method: str,
        url: str,
        headers: Mapping[str, str],
        content: bytes | AsyncIterable[bytes] | None,
        *,
        connect_seconds: float,
        seconds: float,
    ) -> UpstreamReply:
        """Send a request, and wait for the head of its answer: `seconds` for each read and write.

        Raises one of `CONNECTION_ERRORS`.
        """
        idle = self._idle.setdefault(current_loop(), [])
        sent = [(name.encode("latin-1"), value.encode("latin-1")) for name, value in headers.items()]
        sent.append((b"host", self._host))
        if isinstance(content, bytes):
            sent.append((b"content-length", str(len(content)).encode()))
        elif content is not None and "content-length" not in headers:
            sent.append((b"transfer-encoding", b"chunked"))
        target = quote("/" + url.partition("://")[2].partition("/")[2], safe=_URL_CHARACTERS)
        request = httpcore.Request(
            method,
            httpcore.URL(
                scheme=self._origin.scheme,
                host=self._origin.host,
                port=self._origin.port,
                target=target.encode(),
            ),
            headers=sent,
            content=content,
            extensions={"timeout": {"connect": connect_seconds, "read": seconds, "write": seconds}},
        )
        connection = await self._take(idle)
        try:
            response = await connection.handle_async_request(request)
        except BaseException:
            await _close(connection)
            raise
        return UpstreamReply(response, connection, idle)

    async def aclose(self) -> None:
        """Close the connections of the running loop that no request uses."""
        for connection in self._idle.pop(current_loop(), []):
            await _close(connection)

    async def _take(self, idle: list[httpcore.AsyncHTTPConnection]) -> httpcore.AsyncHTTPConnection:
        while idle:
            # The newest may still be of use when the oldest are not.
            connection = idle.pop()
            if not connection.has_expired():
                return connection
            await _close(connection)
        return httpcore.AsyncHTTPConnection(self._origin, self._tls, keepalive_expiry=IDLE_SECONDS)


class UpstreamReply:
    """An answer whose body is not read yet; its connection is kept when it was read to the end."""

    def __init__(
        self,
        response: httpcore.Response,
        connection: httpcore.AsyncHTTPConnection,
        idle: list[httpcore.AsyncHTTPConnection],
    ) -> None:
        self.status_code = response.status
        self.headers: dict[str, str] = {}
        for raw_name, raw_value in response.headers:
            name, value = raw_name.decode("latin-1").lower(), raw_value.decode("latin-1")
            self.headers[name] = f"{self.headers[name]}, {value}" if name in self.headers else value
        self._response, self._connection, self._idle = response, connection, idle
        self._is_open = True

    async def aiter_raw(self) -> AsyncIterator[bytes]:
        """The body in pieces, as it comes."""
        async for chunk in self._response.aiter_stream():
            yield chunk
        await self.aclose()

    async def aclose(self) -> None:
        """Give the connection back, or close it when there is more to read."""
        if not self._is_open:
            return
        self._is_open = False
        with anyio.CancelScope(shield=True):
            await self._response.aclose()
        if self._connection.is_idle() and len(self._idle) < MAX_IDLE_CONNECTIONS:
            self._idle.append(self._connection)
        else:
            await _close(self._connection)


async def _close(connection: httpcore.AsyncHTTPConnection) -> None:
    with anyio.move_on_after(CLOSE_TIMEOUT_SECONDS, shield=True):
        await connection.aclose()
