"""The connections of one model: HTTP clients for each event loop, opened when they are needed.

A connection belongs to the loop that opened it, so a model that is used in a second loop gets a
second client instead of an error deep in a socket. A client looks through all its connections for
every request, so many requests at once are spread over several: 200 at a time are then five times
as fast.
"""

from __future__ import annotations

import asyncio
import sys
from typing import Any
from weakref import WeakKeyDictionary

import anyio

from autonomy_ctx.background import current_loop

# Requests that one client has at a time before there is another one.
BUSY = 8
MOST_CLIENTS = 64
MOST_CONNECTIONS, MOST_IDLE = 1000, 200
CLOSING_SECONDS = 5.0


class Lease:
    """A client for one request, until that has ended."""

    __slots__ = ("_busy", "client")

    def __init__(self, client: Any, busy: dict[Any, int] | None) -> None:
        self.client, self._busy = client, busy
        if busy is not None:
            busy[client] += 1

    def end(self) -> None:
        """The request has ended; twice is harmless."""
        busy, self._busy = self._busy, None
        if busy is not None and self.client in busy:
            busy[self.client] -= 1


class Pool:
    """HTTP clients by event loop, or the one client that was given, which stays its owner's."""

    def __init__(self, client: Any = None) -> None:
        self._given = client
        # For each loop its clients, and how many requests each of them has.
        self._clients: WeakKeyDictionary[Any, dict[Any, int]] = WeakKeyDictionary()

    def lease(self) -> Lease:
        """The client of the running loop that has least to do, or a new one when all have enough."""
        if self._given is not None:
            return Lease(self._given, None)
        busy = self._clients.get(loop := current_loop())
        if busy is None:
            self._forget_closed_loops()
            busy = self._clients[loop] = {}
        client = min(busy, key=busy.__getitem__, default=None)
        if client is None or (busy[client] >= BUSY and len(busy) < MOST_CLIENTS):
            client = _new_client()
            busy[client] = 0
        return Lease(client, busy)

    def errors(self) -> tuple[type[Exception], ...]:
        """What clients raise when a connection fails; the two packages share no root."""
        loaded = (sys.modules.get(name) for name in ("httpx", "httpx2"))
        return tuple(module.HTTPError for module in loaded if module is not None)

    async def aclose(self) -> None:
        """Close the connections of the running loop. The next use opens new ones."""
        with anyio.move_on_after(CLOSING_SECONDS, shield=True):
            for client in self._clients.pop(current_loop(), {}):
                await client.aclose()

    def _forget_closed_loops(self) -> None:
        for loop in list(self._clients):
            # Its sockets went with it.
            if isinstance(loop, asyncio.AbstractEventLoop) and loop.is_closed():
                del self._clients[loop]


def _new_client() -> Any:
    # Imported here: it takes longer to import than all the rest.
    import httpx

    limits = httpx.Limits(max_connections=MOST_CONNECTIONS, max_keepalive_connections=MOST_IDLE)
    return httpx.AsyncClient(limits=limits, follow_redirects=False)
