"""The reader and the writer thread of the SQLite store.

The writer commits all queued jobs in one transaction. A file lock lets only one process write at a time. It
is held only during the transaction, because a process that is stopped while it holds the lock blocks all
others. Checkpoints take the lock separately, because old versions of SQLite can damage a file that is written
and checkpointed at once. The reader never waits for a writer.
"""

from __future__ import annotations

import sqlite3
import threading
import time
from collections.abc import Callable
from contextlib import suppress
from typing import Any, Literal, TypeVar

from autonomy_ctx.errors import AutonomyCtxError
from autonomy_ctx.memory.encoding import UnreadableRow
from autonomy_ctx.memory.sqlite.connection import (
    WAL_RESET_FIX_VERSION,
    FileLock,
    OpenFile,
    check_file_present,
    file_size,
    translate_error,
)
from autonomy_ctx.memory.sqlite.migrate import is_current, migrate
from autonomy_ctx.memory.sqlite.progress import Progress, ProgressFile, check_progress
from autonomy_ctx.memory.sqlite.session import Transaction
from autonomy_ctx.memory.worker_thread import WorkerJob, WorkerThread, finish_jobs

T = TypeVar("T")
Connect = Callable[[float, bool], sqlite3.Connection]


class Reader:
    """Two connections: one that any thread may use for a moment, one for the reading thread.

    The reader thread opens and closes both. It never waits for a writer.
    """

    def __init__(self, path: str, timeout: float, connect: Connect, *, accept_shorter: bool = False) -> None:
        self.file = OpenFile(path)
        self._progress, self._accept_shorter = ProgressFile(path), accept_shorter
        self.worker = WorkerThread("autonomy_ctx-reader", timeout, self._batch, self._close)
        self._timeout, self._connect = timeout, connect
        self.inline_connection: sqlite3.Connection | None = None
        self.thread_connection: sqlite3.Connection | None = None
        self._inline_lock = threading.Lock()

    @property
    def ready(self) -> bool:
        """True when small reads can run; if not, any job for the worker opens the file."""
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
        # Raised here without its cause, because an error of SQLite may quote a user's text.
        raise problem

    def _batch(self, worker: WorkerThread) -> None:
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
            # Before the database: what is committed in between must not look like what is missing.
            known = None if self._accept_shorter else self._progress.read()
            thread_connection = self._connect(self._timeout, False)
            try:
                if not is_current(thread_connection, self.file.path):
                    raise SchemaNotReady
                check_progress(thread_connection, self.file.path, known)
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
# How long a deletion, which is committed, and a close wait for their turn to fold the log.
_FOLD_SECONDS, _CLOSE_SECONDS = 5.0, 2.0


class Writer:
    """The connection that writes, and the thread that has it to itself."""

    def __init__(
        self,
        path: str,
        timeout: float,
        synchronous: Synchronous,
        connect: Connect,
        reader: WorkerThread,
        *,
        accept_shorter: bool = False,
    ) -> None:
        self.file, self._reader = OpenFile(path), reader
        self._progress, self._accept_shorter = ProgressFile(path), accept_shorter
        # What was committed last, until the progress file says so.
        self._committed: Progress | None = None
        self.worker = WorkerThread("autonomy_ctx-writer", timeout, self._batch, self._close)
        self._path, self._timeout, self._synchronous, self._connect = path, timeout, synchronous, connect
        # A file that was there once is never made anew: history would silently start again.
        self._may_create = file_size(path) < 0
        self.connection: sqlite3.Connection | None = None
        self.lock: FileLock | None = None
        # After a deletion: what was deleted stands in the write-ahead log until that is folded in.
        self._must_truncate_wal = False
        self._batches = 0

    def _batch(self, worker: WorkerThread) -> None:
        jobs: list[WorkerJob[Any]] = []
        try:
            opened = self._ensure_open(worker)
            if opened is None or not self._begin(*opened, worker):
                worker.drop_withdrawn()
                return
            connection, lock = opened
            try:
                jobs = worker.take_batch()
                self._run(connection, jobs)
            except BaseException:
                _roll_back(connection)
                raise
            finally:
                lock.release()
            self._write_progress()
            if self._must_truncate_wal:
                self._checkpoint(connection, lock, "TRUNCATE")
            finish_jobs(jobs)
            jobs = []
            if self._wal_is_large():
                self._checkpoint(connection, lock, "PASSIVE")
        except Exception as error:
            # First the answer, then the clean-up: closing may have to wait for the lock.
            failed, shown = jobs or worker.take_batch(), translate_error(error, self._path, self._timeout)
            for job in failed:
                job.error = shown
            finish_jobs(failed)
            self._close()

    def _begin(self, connection: sqlite3.Connection, lock: FileLock, worker: WorkerThread) -> bool:
        """Acquire the lock and start a transaction, while a caller still waits for it."""
        while worker.has_waiters() and lock.acquire(worker.has_waiters):
            try:
                connection.execute("BEGIN IMMEDIATE")
                return True
            except BaseException as error:
                # While another program writes, other processes must not wait for this one.
                lock.release()
                if not _is_busy(error):
                    raise
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
                # The job was rolled back, so the others can continue.
                job.error = error
        progress = transaction.count()
        connection.execute("COMMIT")
        self._committed = progress or self._committed
        self._must_truncate_wal = self._must_truncate_wal or transaction.has_deleted

    def _write_progress(self) -> None:
        progress, self._committed = self._committed, None
        # A commit that was not synced may be lost in a power cut: the progress file would lead.
        if progress is not None and self._synchronous == "FULL":
            self._progress.write(progress)

    def _ensure_open(self, worker: WorkerThread) -> tuple[sqlite3.Connection, FileLock] | None:
        """The connection and the lock; None if no caller waits any more."""
        if self.connection is None or self.lock is None or not self.file.matches_path():
            self._close()
            self.connection = self._open(worker)
        return None if self.connection is None or self.lock is None else (self.connection, self.lock)

    def _open(self, worker: WorkerThread) -> sqlite3.Connection | None:
        if self.file.was_open:
            check_file_present(self._path)
        self.lock = lock = FileLock(f"{self._path}.lock")
        if not lock.acquire(worker.has_waiters):
            return None
        try:
            create = self._may_create and not self.file.was_open
            if self._accept_shorter or (create and file_size(self._path) < 0):
                # It speaks of what was lost, or of a database that somebody has deleted.
                self._progress.remove()
            connection = self._connect(_BUSY_TIMEOUT_SECONDS, create)
            try:
                self._set_up(connection, worker)
                connection.execute(f"PRAGMA synchronous = {self._synchronous}")
                connection.execute("PRAGMA secure_delete = ON")
                connection.execute("PRAGMA recursive_triggers = ON")
                self.file.note_open()
            except BaseException:
                connection.close()
                raise
        finally:
            lock.release()
        return connection

    def _set_up(self, connection: sqlite3.Connection, worker: WorkerThread) -> None:
        """Create or migrate the tables, while a caller still waits for it."""
        while True:
            try:
                current = is_current(connection, self._path)
                check_progress(connection, self._path, self._progress.read())
                if not current:
                    migrate(connection, self._path)
                return
            except sqlite3.OperationalError as error:
                if not _is_busy(error) or not worker.has_waiters():
                    raise

    def _wal_is_large(self) -> bool:
        self._batches += 1
        return (
            self._batches % _BATCHES_PER_WAL_CHECK == 0 and file_size(f"{self._path}-wal") >= CHECKPOINT_BYTES
        )

    def _checkpoint(
        self, connection: sqlite3.Connection, lock: FileLock, mode: Literal["PASSIVE", "TRUNCATE"]
    ) -> None:
        """Fold the write-ahead log into the file. Somebody may be in the way: then a later batch does it."""
        in_turn = mode == "TRUNCATE" or sqlite3.sqlite_version_info < WAL_RESET_FIX_VERSION
        patience = min(self._timeout, _FOLD_SECONDS) if mode == "TRUNCATE" else 0
        with suppress(sqlite3.OperationalError, OSError):
            if in_turn and not lock.acquire(_until(patience)):
                return
            try:
                busy, _, _ = connection.execute(f"PRAGMA wal_checkpoint({mode})").fetchone()
                if mode == "TRUNCATE":
                    self._must_truncate_wal = bool(busy)
            finally:
                if in_turn:
                    lock.release()

    def _close(self) -> None:
        """Close in turn with others, because closing may checkpoint; after some time in any case."""
        if self.worker.is_stopping:
            # Of two that close at the same time, each would leave the write-ahead log to the other.
            self._reader.join(_CLOSE_SECONDS)
        connection, self.connection = self.connection, None
        lock, self.lock = self.lock, None
        self._progress.close()
        if lock is not None:
            with suppress(sqlite3.Error, OSError):
                if connection is not None:
                    # A process that holds the lock for so long has the file open, and the last process that
                    # closes it checkpoints.
                    lock.acquire(_until(_CLOSE_SECONDS))
                    connection.close()
                lock.release()
            lock.close()
        self.file.note_closed()


def _until(seconds: float) -> Callable[[], bool]:
    """A condition that holds for so many seconds from now."""
    end = time.monotonic() + seconds
    return lambda: time.monotonic() < end


def _is_busy(error: BaseException) -> bool:
    return getattr(error, "sqlite_errorcode", 0) & 0xFF == sqlite3.SQLITE_BUSY


def _roll_back(connection: sqlite3.Connection) -> None:
    # SQLite has rolled back by itself after some errors; asking again would be one more.
    with suppress(sqlite3.OperationalError):
        connection.execute("ROLLBACK")
