"""A node's HTTP API: `Node(serve=http(port=8000))`.

Starlette and uvicorn are imported when an API is made, so that applications without one need neither.
"""

from __future__ import annotations

import importlib
import importlib.util
import secrets
from collections.abc import AsyncIterator
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from typing import TYPE_CHECKING, Literal

from autonomy_ctx.agents.node import Node
from autonomy_ctx.errors import ServerError
from autonomy_ctx.server.common.auth import AccessPolicy, check_token
from autonomy_ctx.server.common.limits import ServerLimits
from autonomy_ctx.validation import check_int, format_url, is_loopback

if TYPE_CHECKING:
    from starlette.types import ASGIApp

_REQUIRED_PACKAGES = ("starlette", "uvicorn")


def http(
    *,
    host: str = "127.0.0.1",
    port: int = 8000,
    token: str | None = None,
    grace_seconds: float = ServerLimits.grace_seconds,
    keep_alive_seconds: float = ServerLimits.keep_alive_seconds,
    header_seconds: float = ServerLimits.header_seconds,
    body_seconds: float = ServerLimits.body_seconds,
    write_seconds: float = ServerLimits.write_seconds,
    idle_seconds: float = ServerLimits.idle_seconds,
    max_connections: int = ServerLimits.max_connections,
    max_buffered: int = ServerLimits.max_buffered,
    inspector: Literal["read", "write"] | None = None,
) -> HttpServer:
    """An HTTP API for a node: pass it as `serve`. It needs `pip install 'autonomy-ctx[server]'`.

    Port 0 means any free port. A host that other machines can reach needs a `token`, which clients send as
    `Authorization: Bearer`. When the node closes, running requests get `grace_seconds` to end. An idle stream
    sends a comment every `keep_alive_seconds`.

    A client has `header_seconds` to send the headers of a request, `body_seconds` to send its body, and must
    read something every `write_seconds`. A connection stays open for `idle_seconds` after a request. With
    `max_connections`, a new one replaces the one that was idle for longest; if none is idle, it is refused. A
    turn waits while its client has more than `max_buffered` characters unread.

    With `inspector="read"`, a page at `/inspector/` shows the conversations of the node; with "write" it can
    change them too. `inspector_page` of the returned object is its address.
    """
    missing = [name for name in _REQUIRED_PACKAGES if importlib.util.find_spec(name) is None]
    if missing:
        raise ImportError(f"the HTTP API needs {' and '.join(missing)}: pip install 'autonomy-ctx[server]'")
    if not isinstance(host, str):
        raise TypeError(f"host must be a string, not {type(host).__name__}")
    if inspector not in (None, "read", "write"):
        raise ValueError(f"inspector is {inspector!r}; it must be None, 'read' or 'write'")
    check_int("port", port, least=0, most=65535)
    limits = ServerLimits(
        grace_seconds=grace_seconds,
        keep_alive_seconds=keep_alive_seconds,
        header_seconds=header_seconds,
        body_seconds=body_seconds,
        write_seconds=write_seconds,
        idle_seconds=idle_seconds,
        max_connections=max_connections,
        max_buffered=max_buffered,
    )
    # Now, outside the node's event loop, which it would hold.
    importlib.import_module("autonomy_ctx.server.common.listener")
    return HttpServer(
        host,
        port,
        AccessPolicy(loopback=is_loopback(host), token=check_token(host, token)),
        limits,
        inspector,
    )


class HttpServer:
    """Serves one node at a time; `http` makes it."""

    def __init__(
        self,
        host: str,
        port: int,
        access: AccessPolicy,
        limits: ServerLimits,
        inspector: Literal["read", "write"] | None,
    ) -> None:
        # Names are looked up, and this one must not lead anywhere else.
        self.host = "127.0.0.1" if host.lower() == "localhost" else host
        self._requested_port, self._access, self._limits = port, access, limits
        self._inspector = inspector
        self._inspector_token = access.token or secrets.token_urlsafe(32)
        # While it serves.
        self._port: int | None = None

    @property
    def port(self) -> int:
        """The port; with port 0, it is known only after the start."""
        port = self._port or self._requested_port
        if not port:
            raise ServerError("the port is chosen when the node starts; read it after that")
        return port

    @property
    def url(self) -> str:
        """The address of the API."""
        return format_url(self.host, self.port)

    @property
    def inspector_page(self) -> str | None:
        """The address of the inspector with its token. None without an inspector."""
        if self._inspector is None:
            return None
        return f"{self.url}/inspector/#token={self._inspector_token}"

    def __call__(self, node: Node) -> AbstractAsyncContextManager[HttpServer]:
        """Serve a node while the context is open."""
        return self._serve(node)

    def __repr__(self) -> str:
        token = "..." if self._access.token else None
        return f"http(host={self.host!r}, port={self._requested_port}, token={token})"

    @asynccontextmanager
    async def _serve(self, node: Node) -> AsyncIterator[HttpServer]:
        if self._port is not None:
            raise ServerError("this HTTP API already serves a node; make another with http()")
        from autonomy_ctx.server.common.app import ActiveRequests, application
        from autonomy_ctx.server.common.listener import run_server

        requests = ActiveRequests()
        app: ASGIApp = application(node, access=self._access, requests=requests, limits=self._limits)
        if self._inspector is not None:
            from autonomy_ctx.server.inspector.app import InspectedServer

            app = InspectedServer(
                app,
                node,
                token=self._inspector_token,
                write=self._inspector == "write",
                host=self.host,
                requests=requests,
            )
        running = run_server(app, requests, self._limits, host=self.host, port=self._requested_port)
        try:
            async with running as self._port:
                yield self
        finally:
            self._port = None
