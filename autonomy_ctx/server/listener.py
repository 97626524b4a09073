"""The uvicorn server behind the HTTP API, and the socket it listens on.

It runs as a task inside the node's event loop, so signals and logs stay the application's.
"""

from __future__ import annotations

import errno
import socket
from collections.abc import Generator
from contextlib import contextmanager
from typing import Any

import anyio
from uvicorn import Config, Server
from uvicorn.protocols.http.h11_impl import H11Protocol

from autonomy_ctx.errors import AddressUnavailable
from autonomy_ctx.server.app import RequestGate

_BACKLOG = 2048
_ADVICE = {
    errno.EADDRINUSE: "stop what listens there, or give another port (0 takes any free one)",
    errno.EACCES: "give a port of 1024 or more, or the right to listen there",
    errno.EADDRNOTAVAIL: "give an address of this machine",
}


class _Connection(H11Protocol):
    """A connection whose requests are not logged: addresses name scopes and conversations."""

    def __init__(self, *args: Any, **options: Any) -> None:
        super().__init__(*args, **options)
        self.access_log = False


class EmbeddedServer(Server):
    """Serves an application inside the caller's event loop; `state_changed` when it has started or ended."""

    def __init__(self, app: RequestGate, *, closing_seconds: float) -> None:
        config = Config(
            app,
            http=_Connection,
            ws="none",
            lifespan="off",
            interface="asgi3",
            log_config=None,
            proxy_headers=False,
            server_header=False,
            backlog=_BACKLOG,
        )
        # Declared as whole seconds, and used as any number of them.
        config.timeout_graceful_shutdown = closing_seconds  # type: ignore[assignment]
        config.load()
        # At the lowest log level uvicorn wraps the application in one that logs headers.
        config.loaded_app = app
        super().__init__(config)
        self.state_changed = anyio.Event()
        self.ended = anyio.Event()

    async def serve_on(self, listener: socket.socket) -> None:
        """Serve until `should_exit`."""
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
        """Signals are the node's."""
        yield


async def listen(host: str, port: int) -> socket.socket:
    """A socket that listens, or `AddressUnavailable`."""
    try:
        [(family, kind, protocol, _, address), *_] = await anyio.getaddrinfo(
            host or None, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE
        )
    except OSError:
        raise AddressUnavailable(
            host=host, port=port, problem="no such host is known", advice="give an address of this machine"
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
