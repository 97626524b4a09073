"""The store of `Memory()`: a database in the memory of this process, which is lost when the process ends."""

from __future__ import annotations

import atexit
import sqlite3
import threading
import time
import weakref
from collections.abc import Callable, Coroutine
from functools import cache
from typing import Any, TypeVar

import anyio.to_thread

from autonomy_ctx.errors import StoreClosed
from autonomy_ctx.memory.sql.session import NO_LIMIT
from autonomy_ctx.memory.sqlite.connection import translate_error
from autonomy_ctx.memory.sqlite.embedded import EmbeddedStore
from autonomy_ctx.memory.sqlite.migrate import migrate
from autonomy_ctx.memory.sqlite.session import Transaction

T = TypeVar("T")

_PATH = "this process"


class InProcessStore(EmbeddedStore):
    """SQLite in memory. No disk is waited for, so writes and small reads run in the caller's thread."""

    def __init__(self, *, clock: Callable[[], float] = time.time) -> None:
        super().__init__(clock)
        self._closed = False
        self._lock = threading.Lock()
        # Made by the first use.
        self._connection: sqlite3.Connection | None = None

    @property
    def identity(self) -> object:
        return self

    async def check(self) -> None:
        self._open()

    async def close(self) -> None:
        with self._lock:
            self._closed = True
            if self._connection is not None:
                self._connection.close()
                self._connection = None

    async def run_write(self, work: Callable[[Transaction], T]) -> T:
        with self._lock:
            connection = self._open()
            connection.execute("BEGIN")
            transaction = Transaction(connection)
            try:
                result = work(transaction)
                connection.execute("COMMIT")
            except BaseException as error:
                connection.execute("ROLLBACK")
                problem = translate_error(error, _PATH, 0)
            else:
                return result
        # Raised here without its cause, because an error of SQLite may quote a user's text.
        raise problem

    async def run_read(self, work: Callable[[sqlite3.Connection], T]) -> T:
        # It may be a part of a search: the event loop goes on meanwhile.
        return await anyio.to_thread.run_sync(self._read_now, work)

    async def read_script(
        self, script: Callable[..., Coroutine[Any, Any, T]], *given: Any, **options: Any
    ) -> T:
        # Not in a thread: what waits for the same connection would wait longer.
        return self._read_now(
            lambda connection: self._run_read_script(connection, NO_LIMIT, script, given, options)
        )

    async def run_small_read(self, work: Callable[[sqlite3.Connection], T | None]) -> T | None:
        return self._read_now(work)

    def _read_now(self, work: Callable[[sqlite3.Connection], T]) -> T:
        with self._lock:
            connection = self._open()
            try:
                return work(connection)
            except Exception as error:
                problem = translate_error(error, _PATH, 0)
        raise problem

    def check_usable(self) -> None:
        if self._closed:
            raise StoreClosed(_PATH)

    def _open(self) -> sqlite3.Connection:
        self.check_usable()
        if self._connection is None:
            self._connection = _connect()
            # Also of a memory that nobody closes: from Python 3.13 on, that is warned of.
            weakref.finalize(self, self._connection.close)
            _empty_database().backup(self._connection)
            self._connection.execute("PRAGMA recursive_triggers = ON")
        return self._connection


def _connect() -> sqlite3.Connection:
    return sqlite3.connect(":memory:", isolation_level=None, check_same_thread=False)


@cache
def _empty_database() -> sqlite3.Connection:
    """A database with all tables: a copy of it is made 40 times as fast as the tables."""
    connection = _connect()
    atexit.register(connection.close)
    migrate(connection, _PATH)
    return connection
