"""A node's HTTP API: `Node(serve=http(port=8000))`.

Starlette and uvicorn are imported when an API is made, so that whoever has none pays for none.
"""

from __future__ import annotations

import asyncio
import errno
import importlib
import importlib.util
import socket
from collections.abc import AsyncIterator, Generator
from contextlib import AbstractAsyncContextManager, asynccontextmanager, contextmanager
from typing import Any

import anyio
from uvicorn import Config, Server
from uvicorn.protocols.http.h11_impl import H11Protocol

from autonomy_ctx.agents.node import Node
from autonomy_ctx.background import Background
from autonomy_ctx.errors import AddressUnavailable, ServerError
from autonomy_ctx.server.app import Gate
from autonomy_ctx.server.auth import Guard, checked_token, is_loopback
from autonomy_ctx.validation import check_int, check_seconds

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


class GuestServer(Server):
    """Serves an application inside the caller's event loop; `turned` when it has started or ended."""

    def __init__(self, app: Gate, *, closing_seconds: float) -> None:
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
        self.turned = anyio.Event()
        self.ended = anyio.Event()

    async def run_on(self, listener: socket.socket) -> None:
        """Serve until `should_exit`."""
        try:
            await self.serve(sockets=[listener])
        finally:
            # Those whose clients do not read what they are sent.
            for connection in list(self.server_state.connections):
                connection.transport.abort()
            self.turned.set()
            self.ended.set()

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        """Begin to listen."""
        await super().startup(sockets=sockets)
        self.turned.set()

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


# Node and background need two more seconds at most: all is closed within five.
GRACE_SECONDS = 2.0
KEEP_ALIVE_SECONDS = 15.0
# For cancelled requests to say so and be gone.
_LAST_SECONDS = 1.0
_NEEDED = ("starlette", "uvicorn")


def http(
    *,
    host: str = "127.0.0.1",
    port: int = 8000,
    token: str | None = None,
    grace_seconds: float = GRACE_SECONDS,
    keep_alive_seconds: float = KEEP_ALIVE_SECONDS,
) -> HttpServer:
    """An HTTP API for a node, to be given as its `serve`; needs `pip install 'autonomy-ctx[server]'`.

    Port 0 takes any free one. Any host but this machine's own addresses needs a `token`, which clients
    send as `Authorization: Bearer`. At a close, requests get `grace_seconds` to end. A stream that has
    nothing to say sends a comment every `keep_alive_seconds`.
    """
    missing = [name for name in _NEEDED if importlib.util.find_spec(name) is None]
    if missing:
        raise ImportError(f"the HTTP API needs {' and '.join(missing)}: pip install 'autonomy-ctx[server]'")
    if not isinstance(host, str):
        raise TypeError(f"host must be a string, not {type(host).__name__}")
    check_int("port", port, least=0, most=65535)
    check_seconds("grace_seconds", grace_seconds, zero=True)
    check_seconds("keep_alive_seconds", keep_alive_seconds)
    # Now, outside the node's event loop, which it would hold.
    importlib.import_module("autonomy_ctx.server.listening")
    return HttpServer(
        host,
        port,
        Guard(loopback=is_loopback(host), token=checked_token(host, token)),
        grace_seconds=grace_seconds,
        keep_alive_seconds=keep_alive_seconds,
    )


class HttpServer:
    """Serves one node at a time; `http` makes it."""

    def __init__(
        self, host: str, port: int, guard: Guard, *, grace_seconds: float, keep_alive_seconds: float
    ) -> None:
        # Names are looked up, and this one must not lead anywhere else.
        self.host = "127.0.0.1" if host.lower() == "localhost" else host
        self._wanted_port = port
        self._guard = guard
        self._grace_seconds, self._keep_alive_seconds = grace_seconds, keep_alive_seconds
        # While it serves.
        self._port: int | None = None

    @property
    def port(self) -> int:
        """Where it listens; with port 0 known once it does."""
        port = self._port or self._wanted_port
        if not port:
            raise ServerError("the port is any free one, and is known once the node has started")
        return port

    @property
    def url(self) -> str:
        """The address of the API."""
        return f"http://{f'[{self.host}]' if ':' in self.host else self.host}:{self.port}"

    def __call__(self, node: Node) -> AbstractAsyncContextManager[HttpServer]:
        """Serve a node while the context is open."""
        return self._serving(node)

    def __repr__(self) -> str:
        token = "..." if self._guard.token else None
        return f"http(host={self.host!r}, port={self._wanted_port}, token={token})"

    @asynccontextmanager
    async def _serving(self, node: Node) -> AsyncIterator[HttpServer]:
        try:
            asyncio.get_running_loop()
        except RuntimeError:
            raise ServerError(
                "the HTTP API runs on asyncio only; start the node with backend='asyncio'"
            ) from None
        if self._port is not None:
            raise ServerError("this HTTP API already serves a node; make another with http()")
        # DROPPED
        from autonomy_ctx.server.app import Underway, application

        underway = Underway()
        app = application(
            node, guard=self._guard, underway=underway, keep_alive_seconds=self._keep_alive_seconds
        )
        server = GuestServer(app, closing_seconds=self._grace_seconds + _LAST_SECONDS)
        # Its own task: whoever closes the node need not be who started it.
        background = Background(grace=0.0)
        listener = await listen(self.host, self._wanted_port)
        self._port = int(listener.getsockname()[1])
        try:
            background.start(lambda: server.run_on(listener))
            await server.turned.wait()
            if not server.started:
                raise ServerError("the HTTP server ended before it had started; its log says why")
            yield self
        finally:
            with anyio.CancelScope(shield=True):
                server.should_exit = True
                await underway.close(self._grace_seconds)
                with anyio.move_on_after(_LAST_SECONDS):
                    await server.ended.wait()
                await background.aclose()
            listener.close()
            self._port = None
