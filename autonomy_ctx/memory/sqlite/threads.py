"""The reader and the writer thread of the SQLite store.

The writer commits all queued jobs in one transaction. Processes take turns through a file lock, and only
its holder checkpoints, because old versions of SQLite can otherwise damage the file. The reader never
waits for a writer.
"""

from __future__ import annotations

import sqlite3
import threading
from collections.abc import Callable
from contextlib import suppress
from typing import Any, Literal, TypeVar

from autonomy_ctx.errors import AutonomyCtxError
from autonomy_ctx.memory.sqlite.connection import (
    FileLock,
    OpenFile,
    UnreadableRow,
    check_file_present,
    file_size,
    translate_error,
)
from autonomy_ctx.memory.sqlite.log import Transaction
from autonomy_ctx.memory.sqlite.migrate import is_current, migrate
from autonomy_ctx.memory.worker import Worker, WorkerJob, finish_jobs

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
        self.inline_connection: sqlite3.Connection | None = None
        self.thread_connection: sqlite3.Connection | None = None
        self._inline_lock = threading.Lock()

    @property
    def ready(self) -> bool:
        """Whether small reads can run; if not, any job for the worker will see to it."""
        return self.inline_connection is not None and self.file.matches_path()

    def try_inline(self, work: Callable[[sqlite3.Connection], T]) -> T | None:
        """Run a small read in the caller's thread; None when it would have to wait."""
        if not self._inline_lock.acquire(blocking=False):
            return None
        try:
            return None if self.inline_connection is None else work(self.inline_connection)
        except (sqlite3.Error, UnreadableRow) as error:
            if getattr(error, "sqlite_errorcode", 0) & 0xFF in (sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED):
                return None
            problem = translate_error(error, self.file.path, self._timeout)
        finally:
            self._inline_lock.release()
        # Raised out here, without the error it stands for: SQLite's may quote what users said.
        raise problem

    def _batch(self, worker: Worker) -> None:
        for job in worker.take_batch():
            try:
                job.result = job.work(self._ensure_open())
            except Exception as error:
                job.error = translate_error(error, self.file.path, self._timeout)
                self._close()
            finish_jobs([job])

    def _ensure_open(self) -> sqlite3.Connection:
        if self.thread_connection is None or not self.file.matches_path():
            self._close()
            if self.file.was_open:
                check_file_present(self.file.path)
            elif file_size(self.file.path) < 0:
                raise SchemaNotReady
            thread_connection = self._connect(self._timeout, False)
            try:
                if not is_current(thread_connection, self.file.path):
                    raise SchemaNotReady
                inline_connection = self._connect(0, False)
                self.file.note_open()
            except BaseException:
                thread_connection.close()
                raise
            self.thread_connection, self.inline_connection = thread_connection, inline_connection
        return self.thread_connection

    def _close(self) -> None:
        with self._inline_lock:
            inline_connection, self.inline_connection = self.inline_connection, None
        thread_connection, self.thread_connection = self.thread_connection, None
        for connection in (inline_connection, thread_connection):
            if connection is not None:
                with suppress(sqlite3.Error):
                    connection.close()
        self.file.note_closed()


class SchemaNotReady(Exception):
    """The file has no tables yet, or old ones: the writer has to see to it first."""


Synchronous = Literal["FULL", "NORMAL"]

CHECKPOINT_BYTES = 4 * 1024 * 1024
_BATCHES_PER_WAL_CHECK = 32
_BUSY_TIMEOUT_SECONDS = 0.1


class Writer:
    """The connection that writes, and the thread that has it to itself."""

    def __init__(self, path: str, timeout: float, synchronous: Synchronous, connect: Connect) -> None:
        self.file = OpenFile(path)
        self.worker = Worker("autonomy_ctx-writer", timeout, self._batch, self._close)
        self._path, self._timeout, self._synchronous, self._connect = path, timeout, synchronous, connect
        # A file that was there once is never made anew: history would silently start again.
        self._may_create = file_size(path) < 0
        self.connection: sqlite3.Connection | None = None
        self.lock: FileLock | None = None
        # After a deletion: what was deleted stands in the write-ahead log until that is folded in.
        self._must_truncate_wal = False
        self._batches = 0

    def _batch(self, worker: Worker) -> None:
        jobs: list[WorkerJob[Any]] = []
        try:
            connection, lock = self._ensure_open(worker)
            with lock:
                if not self._begin(connection, worker):
                    worker.drop_withdrawn()
                    return
                jobs = worker.take_batch()
                self._run(connection, jobs)
                if self._must_truncate_wal:
                    self._checkpoint(connection, "TRUNCATE")
                finish_jobs(jobs)
                jobs = []
                if self._wal_is_large():
                    self._checkpoint(connection, "PASSIVE")
        except Exception as error:
            # First the answer, then the clean-up: closing may have to wait for the lock.
            failed, shown = jobs or worker.take_batch(), translate_error(error, self._path, self._timeout)
            for job in failed:
                job.error = shown
            finish_jobs(failed)
            self._close()

    def _begin(self, connection: sqlite3.Connection, worker: Worker, start: str = "BEGIN IMMEDIATE") -> bool:
        """Start a transaction, for as long as somebody waits for it."""
        while worker.has_waiters():
            try:
                connection.execute(start)
            except sqlite3.OperationalError as error:
                if getattr(error, "sqlite_errorcode", 0) & 0xFF != sqlite3.SQLITE_BUSY:
                    raise
            else:
                return True
        return False

    def _run(self, connection: sqlite3.Connection, jobs: list[WorkerJob[Any]]) -> None:
        """All jobs in the transaction that is open; if one spoils it, each in one of its own."""
        try:
            self._commit(connection, jobs)
        except Exception:
            if len(jobs) == 1:
                raise
            for job in jobs:
                job.result = job.error = None
                try:
                    _roll_back(connection)
                    connection.execute("BEGIN IMMEDIATE")
                    self._commit(connection, [job])
                except Exception as error:
                    job.error = translate_error(error, self._path, self._timeout)
            _roll_back(connection)

    def _commit(self, connection: sqlite3.Connection, jobs: list[WorkerJob[Any]]) -> None:
        transaction = Transaction(connection)
        for job in jobs:
            try:
                job.result = job.work(transaction)
            except AutonomyCtxError as error:
                # It has taken back what it did, so the others can go on.
                job.error = error
        transaction.flush()
        connection.execute("COMMIT")
        self._must_truncate_wal = self._must_truncate_wal or transaction.has_deleted

    def _ensure_open(self, worker: Worker) -> tuple[sqlite3.Connection, FileLock]:
        # Every time: what is written to a file that is gone is gone with it.
        self.file.invalidate()
        if self.connection is None or self.lock is None or not self.file.matches_path():
            self._close()
            self._open(worker)
        assert self.connection is not None
        assert self.lock is not None
        return self.connection, self.lock

    def _open(self, worker: Worker) -> None:
        if self.file.was_open:
            check_file_present(self._path)
        self.lock = FileLock(f"{self._path}.lock")
        connection = self._connect(_BUSY_TIMEOUT_SECONDS, self._may_create and not self.file.was_open)
        try:
            with self.lock:
                self._set_up(connection, worker)
            connection.execute(f"PRAGMA synchronous = {self._synchronous}")
            connection.execute("PRAGMA secure_delete = ON")
            self.file.note_open()
        except BaseException:
            connection.close()
            raise
        self.connection = connection

    def _set_up(self, connection: sqlite3.Connection, worker: Worker) -> None:
        """Make or bring up to date the tables, for as long as somebody waits for it."""
        while True:
            try:
                if not is_current(connection, self._path):
                    migrate(connection, self._path)
                return
            except sqlite3.OperationalError as error:
                if (
                    getattr(error, "sqlite_errorcode", 0) & 0xFF != sqlite3.SQLITE_BUSY
                    or not worker.has_waiters()
                ):
                    raise

    def _wal_is_large(self) -> bool:
        self._batches += 1
        return (
            self._batches % _BATCHES_PER_WAL_CHECK == 0 and file_size(f"{self._path}-wal") >= CHECKPOINT_BYTES
        )

    def _checkpoint(self, connection: sqlite3.Connection, mode: str) -> None:
        """Fold the write-ahead log into the file. A reader may be in the way: then a later batch does it."""
        with suppress(sqlite3.OperationalError):
            busy, _, _ = connection.execute(f"PRAGMA wal_checkpoint({mode})").fetchone()
            if mode == "TRUNCATE":
                self._must_truncate_wal = bool(busy)

    def _close(self) -> None:
        """Close under the lock: closing may checkpoint."""
        connection, self.connection = self.connection, None
        lock, self.lock = self.lock, None
        if lock is not None:
            with suppress(sqlite3.Error, OSError), lock:
                if connection is not None:
                    connection.close()
            lock.close()
        self.file.note_closed()


def _roll_back(connection: sqlite3.Connection) -> None:
    # SQLite has rolled back by itself after some errors; asking again would be one more.
    with suppress(sqlite3.OperationalError):
        connection.execute("ROLLBACK")
