"""The connections of one model: a client for each event loop, opened when first needed.

A connection belongs to the loop that opened it, so a model that is used in a second loop gets a
second client instead of an error deep in a socket.
"""

from __future__ import annotations

import asyncio
import sys
from typing import Any
from weakref import WeakKeyDictionary

import anyio

from autonomy_ctx.background import current_loop

MOST_CONNECTIONS, MOST_IDLE = 1000, 200
CLOSING_SECONDS = 5.0


class Pool:
    """HTTP clients by event loop, or the one client that was given, which stays its owner's."""

    def __init__(self, client: Any = None) -> None:
        self._given = client
        self._clients: WeakKeyDictionary[Any, Any] = WeakKeyDictionary()

    def client(self) -> Any:
        """The client for the loop that runs now."""
        if self._given is not None:
            return self._given
        loop = current_loop()
        client = self._clients.get(loop)
        if client is None:
            # Imported here: it takes longer to import than all the rest.
            import httpx

            for other in list(self._clients):
                # Its sockets went with it.
                if isinstance(other, asyncio.AbstractEventLoop) and other.is_closed():
                    del self._clients[other]
            limits = httpx.Limits(max_connections=MOST_CONNECTIONS, max_keepalive_connections=MOST_IDLE)
            client = self._clients[loop] = httpx.AsyncClient(limits=limits, follow_redirects=False)
        return client

    def errors(self) -> tuple[type[Exception], ...]:
        """What clients raise when a connection fails; the two packages share no root."""
        loaded = (sys.modules.get(name) for name in ("httpx", "httpx2"))
        return tuple(module.HTTPError for module in loaded if module is not None)

    async def aclose(self) -> None:
        """Close the connections of the running loop. The next use opens new ones."""
        client = self._clients.pop(current_loop(), None)
        if client is not None:
            with anyio.move_on_after(CLOSING_SECONDS, shield=True):
                await client.aclose()
