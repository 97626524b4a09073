"""`SqliteStore`: the store protocols on one SQLite file, and `InProcessStore`, in the memory of this process.

Writes run on the writer thread. Small reads run in the caller's thread, because handing them to another
thread costs four times the read; large reads and reads that would block run on the reader thread.
"""

from __future__ import annotations

import logging
import os
import sqlite3
import time
from collections.abc import Callable
from typing import TypeVar

import anyio

from autonomy_ctx.errors import StoreBusy, StoreClosed, StoreUnavailable
from autonomy_ctx.memory.sqlite.connection import WAL_RESET_FIX_VERSION, check_location, connect
from autonomy_ctx.memory.sqlite.embedded import EmbeddedStore
from autonomy_ctx.memory.sqlite.session import Transaction
from autonomy_ctx.memory.sqlite.threads import Reader, SchemaNotReady, Synchronous, Writer
from autonomy_ctx.memory.worker_thread import JobOutcome, WorkerJob
from autonomy_ctx.validation import check_seconds

T = TypeVar("T")

_CLOSE_SECONDS = 5.0

logger = logging.getLogger("autonomy_ctx.memory")
_has_warned = False


class SqliteStore(EmbeddedStore):
    """A store in one file. `synchronous="NORMAL"` may lose the last commits in a power cut.

    With `accept_shorter`, the file may have less than it once had, as after a backup was restored.
    """

    def __init__(
        self,
        path: str,
        *,
        timeout: float = 30.0,
        synchronous: Synchronous = "FULL",
        accept_shorter: bool = False,
        clock: Callable[[], float] = time.time,
        lease_clock: Callable[[], float] | None = None,
    ) -> None:
        if synchronous not in ("FULL", "NORMAL"):
            raise ValueError(f"synchronous is {synchronous!r}; it must be FULL or NORMAL")
        self.timeout = check_seconds("timeout", timeout)
        check_location(path)
        self.path = os.path.abspath(path)
        self.synchronous: Synchronous = synchronous
        self._accept_shorter = accept_shorter
        super().__init__(clock, lease_clock)
        self._closed = False
        self._start()
        _warn_about_old_sqlite()

    @property
    def identity(self) -> object:
        return self._reader.file.identity

    async def close(self) -> None:
        if self._closed:
            return
        self._closed = True
        if os.getpid() != self._pid:
            return
        # Both are told before anybody waits: a close that is cancelled has still let go of everything.
        ends = [side.worker.stop(_CLOSE_SECONDS) for side in (self._reader, self._writer)]
        with anyio.CancelScope(shield=True):
            for end in ends:
                if end is not None:
                    await end.wait()

    async def run_write(self, work: Callable[[Transaction], T]) -> T:
        self.check_usable()
        job = self._writer.worker.submit(work)
        return self._result_of(job, await job.wait())

    async def run_read(self, work: Callable[[sqlite3.Connection], T]) -> T:
        async def read() -> T:
            self.check_usable()
            job = self._reader.worker.submit(work)
            return self._result_of(job, await job.wait())

        try:
            return await read()
        except SchemaNotReady:
            # Any job of the writer makes the tables.
            await self.run_write(lambda transaction: None)
            return await read()

    async def run_small_read(self, work: Callable[[sqlite3.Connection], T | None]) -> T | None:
        self.check_usable()
        if not self._reader.ready:
            await self.run_read(lambda connection: None)
        return self._reader.try_inline(work)

    def _result_of(self, job: WorkerJob[T], outcome: JobOutcome) -> T:
        """The result of a job after the wait for it, or the error that says why there is none."""
        if outcome is JobOutcome.WITHDRAWN:
            raise StoreBusy(path=self.path, seconds=self.timeout)
        if outcome is JobOutcome.UNKNOWN:
            raise StoreUnavailable(
                path=self.path,
                problem=f"the disk gave no answer for {2 * self.timeout:g} s; the outcome is not known",
                advice="send the same message with the same id again: it is stored once",
            )
        if job.error is not None:
            raise job.error
        return job.result  # type: ignore[return-value]  # set by the thread when there is no error

    def check_usable(self) -> None:
        if self._closed:
            raise StoreClosed(self.path)
        if os.getpid() != self._pid:
            # In the child of a fork there are no threads; the connections are the parent's.
            _forked_connections.extend((self._writer, self._reader))
            self._start()

    def _start(self) -> None:
        self._pid = os.getpid()
        options = {"accept_shorter": self._accept_shorter}
        self._reader = Reader(self.path, self.timeout, self._connect, **options)
        reader = self._reader.worker
        self._writer = Writer(self.path, self.timeout, self.synchronous, self._connect, reader, **options)

    def _connect(self, timeout: float, create: bool) -> sqlite3.Connection:
        # A file that was read here and is gone is not made again.
        return connect(self.path, timeout, create=create and not self._reader.file.was_open)


# SQLite connections must not be used in the child of a fork, and closing one there is a use.
_forked_connections: list[object] = []


def _warn_about_old_sqlite() -> None:
    global _has_warned
    if not _has_warned and sqlite3.sqlite_version_info < WAL_RESET_FIX_VERSION:
        _has_warned = True
        logger.warning(
            "SQLite %s can damage a file that two connections write and checkpoint at once (fixed in "
            "3.51.3). Processes that use autonomy_ctx take turns; let no other program write to the file.",
            sqlite3.sqlite_version,
        )
