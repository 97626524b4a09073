"""Memory in one SQLite file, for any number of processes on one machine.

Writes go through one thread that commits all waiting jobs together, durably, under a file lock
that makes processes wait in line. Small reads run where they are asked for, because a trip to a
thread costs four times the read; a read that is large or would have to wait goes to a thread.
"""

from __future__ import annotations

import logging
import os
import sqlite3
import threading
import time
import weakref
from collections.abc import Callable, Sequence
from contextlib import suppress
from typing import Any, Literal, TypeVar

import anyio

from autonomy_ctx.errors import AutonomyCtxError, StoreBusy, StoreClosed, StoreUnavailable
from autonomy_ctx.memory.filelock import FileLock
from autonomy_ctx.memory.key import Key
from autonomy_ctx.memory.location import check_location
from autonomy_ctx.memory.migrate import is_current, migrate
from autonomy_ctx.memory.sqlite_errors import UnreadableRow, translated
from autonomy_ctx.memory.sqlite_rows import Transaction, read_head, read_rows, read_whole
from autonomy_ctx.memory.store import Draft, Head, Window
from autonomy_ctx.memory.worker import Job, Outcome, Worker, finish

T = TypeVar("T")
Synchronous = Literal["FULL", "NORMAL"]

SMALL_READ = 64 * 1024
MANY_ROWS = 512
CHECKPOINT_BYTES = 4 * 1024 * 1024
_UNBOUNDED = 2**60
_CLOSE_SECONDS = 5.0
_BUSY_SLICE_MS = 100
# A look at the file costs a system call, and with it the interpreter's lock.
_LOOK_SECONDS = 0.02
_BATCHES_PER_LOOK = 32
# Before this version, two connections that checkpoint and write at once could damage the file.
_WAL_RESET_MENDED = (3, 51, 3)

logger = logging.getLogger("autonomy_ctx.memory")
_warned = False
_stores: weakref.WeakSet[SqliteStore] = weakref.WeakSet()


class SqliteStore:
    """A log store in one file. `synchronous="NORMAL"` may lose the last commits in a power cut."""

    def __init__(self, path: str, *, timeout: float = 30.0, synchronous: Synchronous = "FULL") -> None:
        if synchronous not in ("FULL", "NORMAL"):
            raise ValueError(f"synchronous is {synchronous!r}; it must be FULL or NORMAL")
        if timeout <= 0:
            raise ValueError(f"timeout is {timeout}; it must be more than 0 seconds")
        check_location(path)
        self.path = os.path.abspath(path)
        self.timeout = timeout
        self.synchronous: Synchronous = synchronous
        self._closed = False
        self._seen = 0.0
        # The first open may make the file; later ones must find it, or history would silently restart.
        self._opened_once = os.path.exists(self.path)
        self._start()
        _stores.add(self)
        _warn_about_old_sqlite()

    async def append(self, key: Key, drafts: Sequence[Draft]) -> list[int]:
        return await self._write(lambda transaction: transaction.append(key, drafts))

    async def read(
        self, key: Key, *, after: int = 0, before: int | None = None, limit: int | None = None
    ) -> Window:
        window = await self._read_here(
            lambda connection: read_rows(connection, key, after, before, limit, SMALL_READ, MANY_ROWS)
        )
        if window is None:
            window = await self._read_there(
                lambda connection: read_rows(connection, key, after, before, limit, _UNBOUNDED, _UNBOUNDED)
            )
        return window or Window(Head(), [])

    async def head(self, key: Key) -> Head:
        def read(connection: sqlite3.Connection) -> Head:
            return read_head(connection, key)

        head = await self._read_here(read)
        return head if head is not None else await self._read_there(read)

    async def whole(self, key: Key, message_id: str) -> str | None:
        return await self._read_there(lambda connection: read_whole(connection, key, message_id))

    async def delete(
        self,
        scope: str,
        agent: str | None = None,
        conversation: str | None = None,
        ids: Sequence[str] | None = None,
    ) -> int:
        return await self._write(lambda transaction: transaction.delete(scope, agent, conversation, ids))

    @property
    def identity(self) -> object:
        return self._identity

    async def check(self) -> None:
        self._seen = 0.0
        await self._write(lambda transaction: None)

    async def close(self) -> None:
        if self._closed:
            return
        self._closed = True
        # Both are told before anybody waits: a close that is cancelled has still let go of everything.
        ends = [worker.stop(_CLOSE_SECONDS) for worker in (self._reader, self._writer)]
        with anyio.CancelScope(shield=True):
            for end in ends:
                if end is not None:
                    await end.rung()

    # -- the event loop's side ------------------------------------------------------------------

    async def _write(self, work: Callable[[Transaction], T]) -> T:
        self._usable()
        return await self._done(self._writer.submit(work))

    async def _read_here(self, work: Callable[[sqlite3.Connection], T]) -> T | None:
        """Run a small read in the caller's thread; None when it should not run there."""
        await self._ready()
        if not self._small_lock.acquire(blocking=False):
            return None
        try:
            return None if self._small is None else work(self._small)
        except (sqlite3.Error, UnreadableRow) as error:
            if getattr(error, "sqlite_errorcode", 0) & 0xFF in (sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED):
                return None
            raise translated(error, self.path, self.timeout) from error
        finally:
            self._small_lock.release()

    async def _read_there(self, work: Callable[[sqlite3.Connection], T]) -> T:
        await self._ready()
        return await self._done(self._reader.submit(work))

    async def _ready(self) -> None:
        """Open the file, or the one that has taken its place."""
        self._usable()
        if self._small is None or not self._in_place():
            # By the reader's thread: opening need not wait for whoever is writing now.
            await self._done(self._reader.submit(lambda connection: None))

    async def _done(self, job: Job[T]) -> T:
        outcome = await job.wait()
        if outcome is Outcome.WITHDRAWN:
            raise StoreBusy(path=self.path, seconds=self.timeout)
        if outcome is Outcome.UNKNOWN:
            raise StoreUnavailable(
                path=self.path,
                problem=f"the disk gave no answer for {2 * self.timeout:g} s; the outcome is not known",
                advice="send the same message with the same id again: it is kept once",
            )
        if job.error is not None:
            raise job.error
        return job.result  # type: ignore[return-value]  # set by the thread when there is no error

    def _usable(self) -> None:
        if self._closed:
            raise StoreClosed(self.path)
        if os.getpid() != self._pid:
            self._start()

    def _in_place(self) -> bool:
        """Whether the file that is open is still the one at the path; looked up now and then."""
        now = time.monotonic()
        if now - self._seen < _LOOK_SECONDS:
            return True
        try:
            found = os.stat(self.path)
        except OSError:
            return False
        if (found.st_dev, found.st_ino) != self._identity:
            return False
        self._seen = now
        return True

    def _start(self) -> None:
        """Fresh threads and no connections: at first, and again in the child of a fork."""
        self._opening = threading.Lock()
        self._pid, self._seen = os.getpid(), 0.0
        self._writer = Worker("autonomy_ctx-writer", self.timeout, self._write_batch, self._disconnect)
        self._reader = Worker("autonomy_ctx-reader", self.timeout, self._read_batch, self._disconnect_reader)
        self._connection: sqlite3.Connection | None = None
        self._small: sqlite3.Connection | None = None
        self._large: sqlite3.Connection | None = None
        self._large_identity: tuple[int, int] | None = None
        self._small_lock = threading.Lock()
        self._lock: FileLock | None = None
        self._identity: tuple[int, int] | None = None
        self._fold = False
        self._batches = 0

    # -- the writer thread's side ---------------------------------------------------------------

    def _write_batch(self, worker: Worker) -> None:
        jobs: list[Job[Any]] = []
        try:
            connection = self._connected()
            assert self._lock is not None
            with self._lock:
                if not self._begin(connection, worker):
                    return
                jobs = worker.take()
                self._run(connection, jobs)
                if self._fold:
                    # What was deleted stands in the write-ahead log until that is folded into the file.
                    self._checkpoint(connection, "TRUNCATE")
                finish(jobs)
                jobs = []
                if self._wal_is_large():
                    self._checkpoint(connection, "PASSIVE")
        except Exception as error:
            # First the answer, then the clean-up: closing may have to wait for the lock.
            self._fail(jobs or worker.take(), error)
            self._disconnect()

    def _begin(self, connection: sqlite3.Connection, worker: Worker) -> bool:
        """Start the transaction, for as long as somebody waits for it."""
        while worker.wanted():
            try:
                connection.execute("BEGIN IMMEDIATE")
            except sqlite3.OperationalError as error:
                if error.sqlite_errorcode & 0xFF != sqlite3.SQLITE_BUSY:
                    raise
            else:
                return True
        worker.take()
        return False

    def _run(self, connection: sqlite3.Connection, jobs: list[Job[Any]]) -> None:
        """All jobs in one transaction that is already open."""
        transaction = Transaction(connection)
        for job in jobs:
            try:
                job.result = job.work(transaction)
            except AutonomyCtxError as error:
                # It has taken back what it did, so the others can go on.
                job.error = error
        transaction.flush()
        connection.execute("COMMIT")
        self._fold = self._fold or transaction.deleted

    def _fail(self, jobs: list[Job[Any]], error: Exception) -> None:
        shown = translated(error, self.path, self.timeout)
        for job in jobs:
            job.error = shown
        finish(jobs)

    def _connected(self) -> sqlite3.Connection:
        """The writer's connection; opened, with the one for small reads, by whichever thread is first."""
        with self._opening:
            if self._connection is None or not self._in_place():
                self._close_connections()
                self._open()
            assert self._connection is not None
            return self._connection

    def _open(self) -> None:
        if self._opened_once and not os.path.exists(self.path):
            raise StoreUnavailable(
                path=self.path,
                problem="the file is gone",
                advice="put it back: the same memory goes on with it; nothing is written to a new, empty one",
            )
        self._lock = FileLock(f"{self.path}.lock")
        connection = self._connect(self.timeout)
        try:
            if not is_current(connection, self.path):
                with self._lock:
                    migrate(connection, self.path)
            connection.execute(f"PRAGMA synchronous = {self.synchronous}")
            connection.execute("PRAGMA secure_delete = ON")
            connection.execute(f"PRAGMA busy_timeout = {_BUSY_SLICE_MS}")
            small = self._connect(timeout=0)
            found = os.stat(self.path)
        except BaseException:
            connection.close()
            raise
        self._opened_once = True
        self._connection, self._small = connection, small
        self._identity = (found.st_dev, found.st_ino)

    def _connect(self, timeout: float) -> sqlite3.Connection:
        connection = sqlite3.connect(
            self.path, timeout=timeout, isolation_level=None, check_same_thread=False
        )
        # Checkpoints are made by the writer alone, under the file lock.
        connection.execute("PRAGMA wal_autocheckpoint = 0")
        return connection

    def _wal_is_large(self) -> bool:
        self._batches += 1
        if self._batches % _BATCHES_PER_LOOK:
            return False
        try:
            return os.stat(f"{self.path}-wal").st_size >= CHECKPOINT_BYTES
        except OSError:
            return False

    def _checkpoint(self, connection: sqlite3.Connection, mode: str) -> None:
        """Fold the write-ahead log into the file. A reader may be in the way: then a later batch does it."""
        with suppress(sqlite3.OperationalError):
            busy, _, _ = connection.execute(f"PRAGMA wal_checkpoint({mode})").fetchone()
            if mode == "TRUNCATE":
                self._fold = bool(busy)

    def _disconnect(self) -> None:
        with self._opening:
            self._close_connections()

    def _close_connections(self) -> None:
        """Close the writer's connection last and under the lock: closing may checkpoint."""
        connection, self._connection = self._connection, None
        lock, self._lock = self._lock, None
        with self._small_lock:
            small, self._small = self._small, None
        if lock is None:
            return
        with suppress(sqlite3.Error, OSError), lock:
            for open_connection in (small, connection):
                if open_connection is not None:
                    open_connection.close()
        lock.close()

    # -- the reader thread's side ---------------------------------------------------------------

    def _read_batch(self, worker: Worker) -> None:
        for job in worker.take():
            try:
                job.result = job.work(self._large_connection())
            except Exception as error:
                self._disconnect_reader()
                job.error = translated(error, self.path, self.timeout)
            finish([job])

    def _large_connection(self) -> sqlite3.Connection:
        self._connected()
        if self._large is None or self._large_identity != self._identity:
            self._disconnect_reader()
            self._large, self._large_identity = self._connect(timeout=self.timeout), self._identity
        return self._large

    def _disconnect_reader(self) -> None:
        connection, self._large = self._large, None
        if connection is not None:
            with suppress(sqlite3.Error):
                connection.close()


# SQLite connections must not be used in the child of a fork, and closing one there is a use.
_abandoned: list[sqlite3.Connection | None] = []


def _forget_in_child() -> None:
    """A forked child keeps neither the parent's place in the lock's queue nor its connections."""
    for store in list(_stores):
        _abandoned.extend((store._connection, store._small, store._large))
        if store._lock is not None:
            store._lock.close()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_forget_in_child)


def _warn_about_old_sqlite() -> None:
    global _warned
    if not _warned and sqlite3.sqlite_version_info < _WAL_RESET_MENDED:
        _warned = True
        logger.warning(
            "SQLite %s can damage a file that two connections write and checkpoint at once (mended in "
            "3.51.3). Processes that use autonomy_ctx take turns; let no other program write to the file.",
            sqlite3.sqlite_version,
        )
