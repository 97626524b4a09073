"""`SqliteStore`: the store protocols on one SQLite file, and `InProcessStore`, in the memory of this process.

Writes run on the writer thread. Small reads run in the caller's thread, because handing them to another
thread costs four times the read; large reads and reads that would block run on the reader thread.
"""

from __future__ import annotations

import logging
import os
import sqlite3
import time
from collections.abc import Callable, Coroutine, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any, TypeVar

import anyio

from autonomy_ctx.errors import StoreBusy, StoreClosed, StoreUnavailable
from autonomy_ctx.memory.processes import machine_clock
from autonomy_ctx.memory.search_text import SearchScope, query_terms
from autonomy_ctx.memory.sql import records as record_rows
from autonomy_ctx.memory.sql import turns
from autonomy_ctx.memory.sql.log import read_head
from autonomy_ctx.memory.sql.session import run_script
from autonomy_ctx.memory.sql.store import P, Script, SqlStore
from autonomy_ctx.memory.sqlite import search as search_rows
from autonomy_ctx.memory.sqlite import vectors as vector_rows
from autonomy_ctx.memory.sqlite.connection import WAL_RESET_FIX_VERSION, check_location, connect, snapshot
from autonomy_ctx.memory.sqlite.fact_cache import FactCache
from autonomy_ctx.memory.sqlite.fulltext import needs_purge
from autonomy_ctx.memory.sqlite.session import SqliteSession, Transaction
from autonomy_ctx.memory.sqlite.summary import read_small_summary, read_summary
from autonomy_ctx.memory.sqlite.threads import Reader, SchemaNotReady, Synchronous, Writer
from autonomy_ctx.memory.sqlite.window import read_blocks, read_rows
from autonomy_ctx.memory.store import Head, Key, Record, SearchHit, SummaryState, Window, check_read
from autonomy_ctx.memory.turn_signals import TurnSignals
from autonomy_ctx.memory.worker_thread import JobOutcome, WorkerJob
from autonomy_ctx.validation import check_seconds

if TYPE_CHECKING:
    from autonomy_ctx.memory.sqlite.vector_cache import VectorCache
    from autonomy_ctx.memory.vectors import EmbeddingBlock, VectorBlock

T = TypeVar("T")

SMALL_READ_BYTES = 64 * 1024
SMALL_READ_ROWS = 512
_CLOSE_SECONDS = 5.0

logger = logging.getLogger("autonomy_ctx.memory")
_has_warned = False


class SqliteStore(SqlStore):
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
        self._clock = clock
        # Not the wall clock: one that is set would end the lease of a turn that runs, or keep a dead one.
        # A clock that was given, as in a test, is that of the leases too.
        self._lease_clock = lease_clock or (machine_clock() if clock is time.time else clock)
        self._clocks = {"now": self._clock, "lease_now": self._lease_clock}
        self._turn_signals = TurnSignals()
        self._fact_cache = FactCache()
        # Made by the first search by meaning.
        self._vector_cache: VectorCache | None = None
        self._closed = False
        self._start()
        _warn_about_old_sqlite()

    def _wake_turns(self, key: Key) -> None:
        self._turn_signals.notify(key)

    async def wait_for_turn(self, key: Key, ticket: int, *, seconds: float) -> None:
        async def may_begin() -> bool:
            found = await self._read_small(turns.seconds_until_turn, key, ticket)
            return not (await self._read(turns.seconds_until_turn, key, ticket) if found is None else found)

        await self._turn_signals.wait_until(key, may_begin, seconds)

    async def read(
        self, key: Key, *, after: int = 0, before: int | None = None, limit: int | None = None
    ) -> Window:
        given = (key, after, before, limit)
        window = await self._read_small(read_rows, *given, SMALL_READ_BYTES, SMALL_READ_ROWS)
        return await self._read(read_blocks, *given) if window is None else window

    async def head(self, key: Key) -> Head:
        head = await self._read_small(read_head, key)
        return await self._read(read_head, key) if head is None else head

    async def delete(
        self,
        scope: str,
        agent: str | None = None,
        conversation: str | None = None,
        ids: Sequence[str] | None = None,
    ) -> int:
        deleted = await super().delete(scope, agent, conversation, ids)
        self._fact_cache.forget(scope)
        if self._vector_cache is not None:
            await self._run_read(lambda connection: self._forget_vectors(scope))
        if await self._run_read(needs_purge):
            await self._purge()
        return deleted

    def _forget_vectors(self, scope: str) -> None:
        if self._vector_cache is not None:
            self._vector_cache.forget(scope)

    async def drop_segments(
        self, scope: str, agent: str | None = None, conversation: str | None = None
    ) -> int:
        dropped = await super().drop_segments(scope, agent, conversation)
        self._fact_cache.forget(scope)
        return dropped

    async def remove_fact(self, key: Key, number: int) -> bool:
        removed = await super().remove_fact(key, number)
        self._fact_cache.forget(key.scope, key.conversation)
        return removed

    async def summary(self, key: Key) -> SummaryState:
        state = await self._read_small(read_small_summary, key, SMALL_READ_BYTES)
        return await self._read(read_summary, key) if state is None else state

    async def read_records(
        self, key: Key, kind: str, *, name: str | None = None, after: int = 0, limit: int | None = None
    ) -> list[Record]:
        check_read(kind, limit)
        given = (key, kind, name, after, limit)
        found = await self._read_small(record_rows.read_records, *given, SMALL_READ_BYTES, SMALL_READ_ROWS)
        return (
            await super().read_records(key, kind, name=name, after=after, limit=limit)
            if found is None
            else found
        )

    async def search(
        self, agent: str, scope: str, query: str, *, conversation: str | None = None, limit: int = 10
    ) -> list[SearchHit]:
        terms, search_scope = query_terms(query, limit), SearchScope(agent, scope, conversation)
        if not terms:
            self._check_usable()
            return []
        given = (search_scope, terms, limit)
        found = await self._read(search_rows.search_messages, *given, even_if_stale=False)
        if isinstance(found, search_rows.PendingIndexWork):
            if found.needs_purge:
                await self._purge()
            await self._update_index(search_scope, found.unindexed)
            found = await self._read(search_rows.search_messages, *given, even_if_stale=True)
        assert not isinstance(found, search_rows.PendingIndexWork)
        return found

    async def use_embedder(self, name: str, dimensions: int) -> int:
        return await self._run_write(
            lambda transaction: vector_rows.use_embedder(transaction.connection, name, dimensions)
        )

    async def read_unembedded(
        self, agent: str, scope: str, *, embedder: int, conversation: str | None = None, limit: int
    ) -> list[EmbeddingBlock] | None:
        return await self._run_read(
            lambda connection: vector_rows.read_unembedded(
                connection, agent, scope, conversation, embedder, limit
            )
        )

    async def put_vectors(self, blocks: Sequence[VectorBlock], *, embedder: int) -> bool:
        return await self._run_write(
            lambda transaction: vector_rows.put_vectors(transaction.connection, blocks, embedder)
        )

    async def nearest(
        self,
        agent: str,
        scope: str,
        vector: bytes,
        *,
        embedder: int,
        conversation: str | None = None,
        limit: int,
    ) -> list[SearchHit]:
        if self._vector_cache is None:
            # Imported here: it needs numpy.
            from autonomy_ctx.memory.sqlite.vector_cache import VectorCache

            self._vector_cache = VectorCache()
        search_scope = SearchScope(agent, scope, conversation)
        return await self._read(self._vector_cache.search, search_scope, vector, embedder, limit)

    @property
    def identity(self) -> object:
        return self._reader.file.identity

    def _written_identity(self) -> object:
        """The file that the reader has open, if the writer has the same one open."""
        reading, writing = self._reader.file.identity, self._writer.file.identity
        is_same = reading is not None and writing is not None and reading[:2] == writing[:2]
        return reading if is_same else None

    async def check(self) -> None:
        await self._run_write(Transaction.probe)

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

    async def _update_index(self, search_scope: SearchScope, unindexed: list[tuple[int, int]]) -> None:
        """Index new messages, one writer at a time."""
        while blocks := await self._run_read(partial(search_rows.read_index_blocks, unindexed=unindexed)):
            await self._run_write(
                partial(search_rows.write_index_blocks, search_scope=search_scope, blocks=blocks)
            )

    async def _purge(self) -> None:
        """Take what was deleted out of the search index."""
        while await self._run_write(search_rows.purge_step):
            pass

    async def _write(self, script: Script[P, T], *given: P.args, **options: P.kwargs) -> T:
        identity = self._written_identity()
        return await self._run_write(
            lambda transaction: run_script(
                script(self._session(transaction.connection, identity, transaction), *given, **options)
            )
        )

    async def _read(self, script: Callable[..., Coroutine[Any, Any, T]], *given: Any, **options: Any) -> T:
        return await self._run_read(lambda connection: self._snapshot(connection, script, *given, **options))

    async def _read_small(
        self, script: Callable[..., Coroutine[Any, Any, T | None]], *given: Any, **options: Any
    ) -> T | None:
        """Run a small read in the caller's thread; None when it should not run there."""
        self._check_usable()
        if not self._reader.ready:
            await self._run_read(lambda connection: None)
        return self._reader.try_inline(
            lambda connection: self._snapshot(connection, script, *given, **options)
        )

    def _snapshot(
        self,
        connection: sqlite3.Connection,
        script: Callable[..., Coroutine[Any, Any, T]],
        *given: Any,
        **options: Any,
    ) -> T:
        with snapshot(connection):
            return run_script(script(self._session(connection, self.identity), *given, **options))

    def _session(
        self, connection: sqlite3.Connection, identity: object, transaction: Transaction | None = None
    ) -> SqliteSession:
        return SqliteSession(connection, self._clocks, self._fact_cache, identity, transaction)

    async def _run_write(self, work: Callable[[Transaction], T]) -> T:
        """Run a job in a transaction of the writer's thread."""
        self._check_usable()
        job = self._writer.worker.submit(work)
        return self._result_of(job, await job.wait())

    async def _run_read(self, work: Callable[[sqlite3.Connection], T]) -> T:
        """Run a job in the reader's thread."""

        async def read() -> T:
            self._check_usable()
            job = self._reader.worker.submit(work)
            return self._result_of(job, await job.wait())

        try:
            return await read()
        except SchemaNotReady:
            # Any job of the writer makes the tables.
            await self._run_write(lambda transaction: None)
            return await read()

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

    def _check_usable(self) -> None:
        if self._closed:
            raise StoreClosed(self.path)
        if os.getpid() != self._pid:
            # In the child of a fork there are no threads; the connections are the parent's.
            _forked_connections.extend((self._writer, self._reader))
            self._start()

    def _start(self) -> None:
        self._pid = os.getpid()
        options = {"accept_shorter": self._accept_shorter}
        self._writer = Writer(self.path, self.timeout, self.synchronous, self._connect, **options)
        self._reader = Reader(self.path, self.timeout, self._connect, **options)

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
