"""Reading: small reads wherever they are asked for, large ones in a thread of their own."""

from __future__ import annotations

import sqlite3
import threading
from collections.abc import Callable
from contextlib import suppress
from typing import TypeVar

from autonomy_ctx.memory.sqlite.errors import UnreadableRow, translated
from autonomy_ctx.memory.sqlite.migrate import is_current
from autonomy_ctx.memory.sqlite.opening import OpenFile, check_still_there, size_of
from autonomy_ctx.memory.worker import Worker, finish

T = TypeVar("T")
Connect = Callable[[float, bool], sqlite3.Connection]


class Reader:
    """Two connections: one that any thread may use for a moment, one for the reading thread.

    The reading thread opens and closes both. It never waits for whoever is writing.
    """

    def __init__(self, path: str, timeout: float, connect: Connect) -> None:
        self.file = OpenFile(path)
        self.worker = Worker("autonomy_ctx-reader", timeout, self._batch, self._close)
        self._timeout, self._connect = timeout, connect
        self.small: sqlite3.Connection | None = None
        self.large: sqlite3.Connection | None = None
        self._small_lock = threading.Lock()

    @property
    def ready(self) -> bool:
        """Whether small reads can run; if not, any job for the worker will see to it."""
        return self.small is not None and self.file.in_place()

    def try_here(self, work: Callable[[sqlite3.Connection], T]) -> T | None:
        """Run a small read in the caller's thread; None when it would have to wait."""
        if not self._small_lock.acquire(blocking=False):
            return None
        try:
            return None if self.small is None else work(self.small)
        except (sqlite3.Error, UnreadableRow) as error:
            if getattr(error, "sqlite_errorcode", 0) & 0xFF in (sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED):
                return None
            problem = translated(error, self.file.path, self._timeout)
        finally:
            self._small_lock.release()
        # Raised out here, without the error it stands for: SQLite's may quote what users said.
        raise problem

    def _batch(self, worker: Worker) -> None:
        for job in worker.take():
            try:
                job.result = job.work(self._opened())
            except Exception as error:
                job.error = translated(error, self.file.path, self._timeout)
                self._close()
            finish([job])

    def _opened(self) -> sqlite3.Connection:
        if self.large is None or not self.file.in_place():
            self._close()
            if self.file.was_open:
                check_still_there(self.file.path)
            elif size_of(self.file.path) < 0:
                raise NotSetUp
            large = self._connect(self._timeout, False)
            try:
                if not is_current(large, self.file.path):
                    raise NotSetUp
                small = self._connect(0, False)
                self.file.opened()
            except BaseException:
                large.close()
                raise
            self.large, self.small = large, small
        return self.large

    def _close(self) -> None:
        with self._small_lock:
            small, self.small = self.small, None
        large, self.large = self.large, None
        for connection in (small, large):
            if connection is not None:
                with suppress(sqlite3.Error):
                    connection.close()
        self.file.closed()


class NotSetUp(Exception):
    """The file has no tables yet, or old ones: the writer has to see to it first."""
