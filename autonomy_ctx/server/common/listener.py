"""The uvicorn server behind the HTTP API, and the socket it listens on.

It runs as a task in the node's event loop and leaves signals and logging to the application.
"""

from __future__ import annotations

import asyncio
import errno
import socket
from collections.abc import AsyncIterator, Generator
from contextlib import asynccontextmanager, contextmanager
from functools import partial
from http import HTTPStatus
from typing import Any

import anyio
import h11
from starlette.types import ASGIApp
from uvicorn import Config, Server
from uvicorn.protocols.http.h11_impl import H11Protocol

from autonomy_ctx.background import Background
from autonomy_ctx.errors import AddressUnavailable, ServerError
from autonomy_ctx.server.common.app import ActiveRequests
from autonomy_ctx.server.common.errors import SLOW_HEAD, TOO_MANY_CONNECTIONS, ClientError, encode_json
from autonomy_ctx.server.common.limits import ServerLimits

_BACKLOG = 2048
# For cancelled requests to say so and be gone.
_LAST_SECONDS = 1.0
_ADVICE = {
    errno.EADDRINUSE: "stop the program that listens there, or give another port (0 chooses a free port)",
    errno.EACCES: "give a port of 1024 or more, or the right to listen there",
    errno.EADDRNOTAVAIL: "give an address of this machine",
}


class _Connection(H11Protocol):
    """A connection within limits, whose requests are not logged: addresses name scopes and conversations."""

    def __init__(self, limits: ServerLimits, *args: Any, **options: Any) -> None:
        super().__init__(*args, **options)
        self.access_log = False
        self._limits = limits
        # Declared as whole seconds, and used as any number of them.
        self.timeout_keep_alive = limits.idle_seconds  # type: ignore[assignment]
        self._refused = False
        self._head_timer: asyncio.TimerHandle | None = None
        self._write_timer: asyncio.TimerHandle | None = None

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        """Accept a connection, or refuse it at once if there are too many and none of them is idle."""
        if len(self.connections) >= self._limits.max_connections and not self._close_oldest_idle():
            self._refused, self.transport = True, transport
            self._end_with(TOO_MANY_CONNECTIONS)
            return
        super().connection_made(transport)
        self._watch_head()

    def _close_oldest_idle(self) -> bool:
        """Close the connection that was between two requests for longest; false if none is."""
        idle = {
            one: one.timeout_keep_alive_task.when()
            for one in self.connections
            if isinstance(one, _Connection)
            # Set between two requests; what is still being sent to a client is not cut off.
            and one.timeout_keep_alive_task is not None
            and not one.transport.get_write_buffer_size()
        }
        if not idle:
            return False
        oldest = min(idle, key=idle.__getitem__)
        # Now, because it is gone only when the event loop comes to it.
        self.connections.discard(oldest)
        oldest.shutdown()
        return True

    def connection_lost(self, exc: Exception | None) -> None:
        """Release the resources of a connection."""
        for timer in (self._head_timer, self._write_timer):
            if timer is not None:
                timer.cancel()
        self._head_timer = self._write_timer = None
        if not self._refused:
            super().connection_lost(exc)

    def data_received(self, data: bytes) -> None:
        """Read data; the time limit for the headers does not restart with each piece."""
        if not self._refused:
            super().data_received(data)
            self._watch_head()

    def on_response_complete(self) -> None:
        """Wait for the next request; the unread part of this response keeps its own time limit."""
        super().on_response_complete()
        self._watch_head()
        self._watch_writing()

    def pause_writing(self) -> None:
        """The client reads too slowly: the sender waits, but not forever."""
        if not self._refused:
            super().pause_writing()
            self._watch_writing()

    def resume_writing(self) -> None:
        """The client has caught up."""
        if not self._refused:
            super().resume_writing()
            if self._write_timer is not None:
                self._write_timer.cancel()
                self._write_timer = None
            if self.cycle is not None and self.cycle.response_complete:
                self._watch_writing()

    def _watch_head(self) -> None:
        """Limit the time for the headers of a request; between requests, uvicorn has its own limit."""
        if self.conn.their_state is not h11.IDLE or self.transport.is_closing():
            if self._head_timer is not None:
                self._head_timer.cancel()
                self._head_timer = None
        elif self._head_timer is None and self.timeout_keep_alive_task is None:
            self._head_timer = self.loop.call_later(self._limits.header_seconds, self._end_slow_head)

    def _end_slow_head(self) -> None:
        self._head_timer = None
        if not self.transport.is_closing():
            self._end_with(SLOW_HEAD)

    def _watch_writing(self) -> None:
        """Check later whether the client has read something."""
        unread = self.transport.get_write_buffer_size()
        if unread and self._write_timer is None:
            self._write_timer = self.loop.call_later(self._limits.write_seconds, self._check_progress, unread)

    def _check_progress(self, unread: int) -> None:
        """Drop a client that has read nothing within the limit; its turn ends as after a disconnect."""
        self._write_timer = None
        if self.transport.get_write_buffer_size() >= unread:
            self.transport.abort()
        else:
            self._watch_writing()

    def _end_with(self, error: ClientError) -> None:
        """Send an error and close, when there is no complete request to answer."""
        body = encode_json(error.body())
        self.transport.write(
            b"HTTP/1.1 %d %b\r\ncontent-type: application/json\r\ncontent-length: %d\r\n"
            b"connection: close\r\n\r\n%b"
            % (error.status, HTTPStatus(error.status).phrase.encode(), len(body), body)
        )
        self.transport.close()


class EmbeddedServer(Server):
    """Serves an application inside the caller's event loop; `state_changed` when it has started or ended."""

    def __init__(self, app: ASGIApp, limits: ServerLimits) -> None:
        config = Config(
            app,
            http=partial(_Connection, limits),  # type: ignore[arg-type]  # called like the class
            ws="none",
            lifespan="off",
            interface="asgi3",
            log_config=None,
            proxy_headers=False,
            server_header=False,
            # So many are accepted at a time: the next one is for the process that has time for it.
            backlog=1,
        )
        # Declared as whole seconds, and used as any number of them.
        config.timeout_graceful_shutdown = limits.grace_seconds + _LAST_SECONDS  # type: ignore[assignment]
        config.load()
        # At the lowest log level uvicorn wraps the application in one that logs headers.
        config.loaded_app = app
        super().__init__(config)
        self.state_changed = anyio.Event()
        self.ended = anyio.Event()

    async def serve_on(self, listener: socket.socket) -> None:
        """Serve until `should_exit` is set."""
        try:
            await self.serve(sockets=[listener])
        finally:
            # Those whose clients do not read what they are sent.
            for connection in list(self.server_state.connections):
                connection.transport.abort()
            self.state_changed.set()
            self.ended.set()

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        """Begin to listen."""
        await super().startup(sockets=sockets)
        self.state_changed.set()

    @contextmanager
    def capture_signals(self) -> Generator[None, None, None]:
        """Do nothing: the node handles signals."""
        yield


@asynccontextmanager
async def run_server(
    app: ASGIApp,
    requests: ActiveRequests,
    limits: ServerLimits,
    *,
    host: str,
    port: int,
) -> AsyncIterator[int]:
    """Serve an application while the context is open, and yield its port; 0 means any free port."""
    listener = await listen(host, port)
    async with run_on(listener, app, requests, limits):
        yield int(listener.getsockname()[1])


@asynccontextmanager
async def run_on(
    listener: socket.socket, app: ASGIApp, requests: ActiveRequests, limits: ServerLimits
) -> AsyncIterator[None]:
    """Serve an application on a listening socket, and close it at the end."""
    try:
        asyncio.get_running_loop()
    except RuntimeError:
        listener.close()
        raise ServerError(
            "the HTTP API runs on asyncio only; start the node with backend='asyncio'"
        ) from None
    server = EmbeddedServer(app, limits)
    # A separate task, because another task may close it.
    background = Background(grace_seconds=0.0)
    try:
        background.start(lambda: server.serve_on(listener))
        await server.state_changed.wait()
        if not server.started:
            raise ServerError("the HTTP server ended before it had started; its log says why")
        listener.listen(_BACKLOG)
        yield
    finally:
        with anyio.CancelScope(shield=True):
            # It stops listening within 0.1 s, and ends when the open connections have ended.
            server.should_exit = True
            await requests.close(limits.grace_seconds)
            with anyio.move_on_after(_LAST_SECONDS):
                await server.ended.wait()
            await background.aclose()
        listener.close()


async def listen(host: str, port: int) -> socket.socket:
    """A socket that listens, or `AddressUnavailable`."""
    try:
        [(family, kind, protocol, _, address), *_] = await anyio.getaddrinfo(
            host or None, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE
        )
    except OSError:
        raise AddressUnavailable(
            host=host, port=port, problem="the host is not known", advice="give an address of this machine"
        ) from None
    # With its protocol: asyncio sends small pieces at once only where it knows that it is TCP.
    listener = socket.socket(family, kind, protocol)
    try:
        # So that a restart does not wait for connections that have just ended.
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listener.setblocking(False)
        listener.bind(address)
        # Now, because two sockets may be bound to one port as long as neither listens.
        listener.listen(_BACKLOG)
    except OSError as error:
        listener.close()
        raise AddressUnavailable(
            host=host,
            port=port,
            problem=(error.strerror or type(error).__name__).lower(),
            advice=_ADVICE.get(error.errno or 0, "give another host or port"),
        ) from None
    return listener
