"""`Notifications`: wakes waiting tasks when another process has written, by LISTEN on one connection.

A notification only wakes a task; the state is in the tables. A waiting task also reads the tables from time
to time. So without a connection that can listen, such as behind a pooler, waiting becomes polling.
"""

from __future__ import annotations

import asyncio
import logging
import os
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from contextvars import Context
from typing import Any

import psycopg

from autonomy_ctx.memory.postgres.errors import describe, parse_url
from autonomy_ctx.memory.postgres.session import CHANNEL

logger = logging.getLogger("autonomy_ctx.memory")

RECONNECT_SECONDS = 0.25
MAX_RECONNECT_SECONDS = 5.0
# Many topics are told of once: which ones is forgotten when there are more than this.
MAX_TOPICS = 10_000
# Nothing is ever sent on the connection: only the system finds out that its other end is gone.
_KEEPALIVES = {"keepalives_idle": 10, "keepalives_interval": 5, "keepalives_count": 3}


class Listener:
    """The connection of one event loop, and who waits there. It is opened with the first wait."""

    def __init__(self, dsn: str | None, options: dict[str, Any], loop: asyncio.AbstractEventLoop) -> None:
        self.loop = loop
        self._dsn, self._options = dsn, options
        self._task: asyncio.Task[None] | None = None
        self._connection: psycopg.AsyncConnection[Any] | None = None
        self._is_closed = False
        # Notifications are counted: whoever reads a table asks first, so that none is missed. Of each topic
        # the last one is known; of others, that it was no later.
        self.number = 0
        self._last: dict[str, int] = {}
        self._last_of_others = 0
        self._waiting: dict[str, set[asyncio.Future[None]]] = {}
        # What number there was when somebody last looked for work.
        self._looks: dict[str, int] = {}
        # The tickets that wait here for a turn, by topic.
        self._lines: dict[str, set[int]] = {}

    @contextmanager
    def line_up(self, topic: str, ticket: int) -> Iterator[set[int]]:
        """Wait with a ticket; those of this loop that wait for the topic, until the listener is stopped."""
        line = self._lines.setdefault(topic, set())
        line.add(ticket)
        try:
            yield line
        finally:
            line.discard(ticket)
            if line:
                self.note(topic)
            elif self._lines.get(topic) is line:
                del self._lines[topic]

    async def wait(self, topic: str, since: int, seconds: float) -> None:
        """Wait for a notification of a topic after the one with a number, at most so many seconds."""
        self._open()
        if self._last.get(topic, self._last_of_others) > since or self._is_closed:
            return
        future: asyncio.Future[None] = self.loop.create_future()
        self._waiting.setdefault(topic, set()).add(future)
        try:
            await asyncio.wait([future], timeout=seconds)
        finally:
            future.cancel()
            waiting = self._waiting.get(topic)
            if waiting is not None:
                waiting.discard(future)
                if not waiting:
                    del self._waiting[topic]

    def note_look(self, topic: str) -> None:
        """Note that a task reads a table now, and may later wait for changes from here on."""
        self._looks[topic] = self.number

    async def wait_since_look(self, topic: str, seconds: float) -> None:
        """Wait until a topic was notified since the last read, at most so many seconds."""
        await self.wait(topic, self._looks.get(topic, 0), seconds)

    def note(self, topic: str) -> None:
        """Wake those who wait for a topic."""
        if len(self._last) >= MAX_TOPICS:
            self._last.clear()
            self._last_of_others = self.number
        self.number += 1
        self._last[topic] = self.number
        _wake(self._waiting.pop(topic, ()))

    def note_all(self) -> None:
        """Wake all waiting tasks, because notifications may have been missed."""
        self.number += 1
        self._last.clear()
        self._last_of_others = self.number
        for waiting in self._waiting.values():
            _wake(waiting)
        self._waiting.clear()

    def stop(self) -> asyncio.Task[None] | None:
        """Stop listening, and let all go who wait; the task that is ending."""
        self._is_closed = True
        for line in self._lines.values():
            # Each looks for itself, and finds that the store is closed.
            line.clear()
        self.note_all()
        if self._task is not None:
            self._task.cancel()
        return self._task

    def abandon(self) -> None:
        """Close the socket of a loop that has ended."""
        if self._connection is not None:
            self._connection.pgconn.finish()

    def _open(self) -> None:
        if self._dsn is not None and not self._is_closed and (self._task is None or self._task.done()):
            # In a context of its own: it outlives the turn that happened to wait first.
            self._task = self.loop.create_task(self._run(self._dsn), context=Context())

    async def _run(self, dsn: str) -> None:
        wait = RECONNECT_SECONDS
        while True:
            try:
                self._connection = await psycopg.AsyncConnection.connect(dsn, **self._options)
                try:
                    await self._connection.execute(f"LISTEN {CHANNEL}")
                    wait = RECONNECT_SECONDS
                    self.note_all()
                    async for notification in self._connection.notifies():
                        self.note(notification.payload)
                finally:
                    # Not awaited: a cancelled task must not go on.
                    self._connection.pgconn.finish()
                    self._connection = None
            except (psycopg.Error, OSError) as error:
                if wait == RECONNECT_SECONDS:
                    problem = describe(error) if isinstance(error, psycopg.Error) else type(error).__name__
                    logger.warning(
                        "notifications are not received, so tables are polled instead: %s", problem
                    )
            await asyncio.sleep(wait)
            wait = min(2 * wait, MAX_RECONNECT_SECONDS)


class Notifications:
    """Wakes those of this process who wait, in each event loop.

    `dsn` is a direct connection to the server, to listen on; with None, all tasks poll.
    """

    def __init__(self, dsn: str | None, options: dict[str, Any]) -> None:
        self._dsn, self._options = dsn, options
        if dsn is not None:
            given = parse_url(dsn)
            self._options = {
                **options,
                **{name: value for name, value in _KEEPALIVES.items() if name not in given},
            }
        self._listeners: dict[asyncio.AbstractEventLoop, Listener] = {}
        self._process = os.getpid()
        self._is_closed = False

    async def close(self) -> None:
        """Stop listening, and let all go who wait."""
        self._is_closed = True
        if os.getpid() != self._process:
            return
        running = asyncio.get_running_loop() if self._listeners else None
        for listener in self._listeners.values():
            if listener.loop.is_closed():
                listener.abandon()
            elif listener.loop is running:
                task = listener.stop()
                if task is not None:
                    await asyncio.wait([task])
            else:
                with suppress(RuntimeError):
                    # It may end meanwhile.
                    listener.loop.call_soon_threadsafe(listener.stop)
        self._listeners.clear()

    def here(self) -> Listener:
        """The listener of the running event loop."""
        if self._process != os.getpid():
            # In the child of a fork, the connections are the parent's: they must not even be closed.
            _inherited_listeners.extend(self._listeners.values())
            self._listeners, self._process = {}, os.getpid()
        loop = asyncio.get_running_loop()
        listener = self._listeners.get(loop)
        if listener is None:
            for other in list(self._listeners):
                if other.is_closed():
                    self._listeners.pop(other).abandon()
            listener = self._listeners[loop] = Listener(self._dsn, self._options, loop)
            if self._is_closed:
                listener.stop()
        return listener


_inherited_listeners: list[Listener] = []


def _wake(waiting: Any) -> None:
    for future in waiting:
        if not future.done():
            future.set_result(None)
