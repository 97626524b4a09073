"""`SqliteStore`: the store protocols on one SQLite file.

Writes run on the writer thread. Small reads run in the caller's thread, because handing them to another
thread costs four times the read; large reads and reads that would block run on the reader thread.
"""

from __future__ import annotations

import logging
import os
import sqlite3
import time
from collections.abc import Callable, Sequence
from types import ModuleType
from typing import TYPE_CHECKING, Concatenate, ParamSpec, TypeVar

import anyio

from autonomy_ctx.errors import StoreBusy, StoreClosed, StoreUnavailable
from autonomy_ctx.language.fact import Fact, FactChange
from autonomy_ctx.memory.joint_append import RecordDraft, check_record
from autonomy_ctx.memory.outline import ConversationOutline
from autonomy_ctx.memory.processes import machine_clock
from autonomy_ctx.memory.search_text import SearchScope, query_terms
from autonomy_ctx.memory.sqlite import facts as fact_rows
from autonomy_ctx.memory.sqlite import forks, leases, listing, summaries, turns
from autonomy_ctx.memory.sqlite import records as record_rows
from autonomy_ctx.memory.sqlite import search as search_rows
from autonomy_ctx.memory.sqlite import vectors as vector_rows
from autonomy_ctx.memory.sqlite.connection import WAL_RESET_FIX_VERSION, check_location, connect
from autonomy_ctx.memory.sqlite.fulltext import needs_purge
from autonomy_ctx.memory.sqlite.log import Transaction, read_blocks, read_full_text, read_head, read_rows
from autonomy_ctx.memory.sqlite.outline import read_outline
from autonomy_ctx.memory.sqlite.threads import Reader, SchemaNotReady, Synchronous, Writer
from autonomy_ctx.memory.store import (
    MAX_LEASE_SECONDS,
    ConversationInfo,
    Draft,
    Head,
    IndexedMessage,
    Key,
    Lease,
    MessageRef,
    PinSource,
    ProfileFact,
    Record,
    SearchHit,
    StoredSegment,
    SummaryState,
    TurnStart,
    TurnToken,
    Window,
    check_drop,
    check_put,
    check_read,
)
from autonomy_ctx.memory.turn_signals import TurnSignals
from autonomy_ctx.memory.worker_thread import JobOutcome, WorkerJob
from autonomy_ctx.validation import check_seconds

if TYPE_CHECKING:
    from autonomy_ctx.memory.sqlite.vector_cache import VectorCache
    from autonomy_ctx.memory.transfer import ConversationCopy, MessageRow
    from autonomy_ctx.memory.vectors import EmbeddingBlock, VectorBlock

P = ParamSpec("P")
T = TypeVar("T")

SMALL_READ_BYTES = 64 * 1024
SMALL_READ_ROWS = 512
_CLOSE_SECONDS = 5.0

logger = logging.getLogger("autonomy_ctx.memory")
_has_warned = False


class SqliteStore:
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
        self._turn_signals = TurnSignals()
        self._fact_cache = fact_rows.FactCache()
        # Made by the first search by meaning.
        self._vector_cache: VectorCache | None = None
        self._closed = False
        self._start()
        _warn_about_old_sqlite()

    async def append(
        self, key: Key, drafts: Sequence[Draft], *, turn: TurnToken | None = None, ends: bool = False
    ) -> list[int]:
        if turn is None:
            return await self._write(Transaction.append, key, drafts)
        positions = await self._write(turns.append_in_turn, key, drafts, turn, ends)
        if ends:
            self._turn_signals.notify(key)
        return positions

    async def append_with_records(
        self,
        key: Key,
        drafts: Sequence[Draft],
        records: Sequence[RecordDraft],
        *,
        turn: TurnToken | None = None,
        ends: bool = False,
    ) -> list[int]:
        for record in records:
            check_record(record)

        def work(transaction: Transaction) -> list[int]:
            if turn is None:
                positions = transaction.append(key, drafts)
            else:
                positions = turns.append_in_turn(transaction, key, drafts, turn, ends)
            for record in records:
                record_rows.put_draft(transaction, self._clock(), key, record)
            return positions

        positions = await self._write(work)
        if ends:
            self._turn_signals.notify(key)
        return positions

    async def begin_turn(
        self,
        key: Key,
        drafts: Sequence[Draft],
        *,
        owner: str,
        seconds: float,
        ticket: int | None = None,
        after: int | None = None,
    ) -> TurnStart:
        return await self._write_at(
            self._lease_clock, turns.begin_turn, key, drafts, owner, seconds, ticket, after
        )

    async def renew_turn(self, key: Key, ticket: int, *, owner: str, seconds: float) -> bool:
        return await self._write_at(self._lease_clock, turns.renew_turn, key, ticket, owner, seconds)

    async def leave_turn(self, key: Key, ticket: int | None, *, owner: str) -> None:
        await self._write(turns.leave_turn, key, ticket, owner)
        self._turn_signals.notify(key)

    async def wait_for_turn(self, key: Key, ticket: int, *, seconds: float) -> None:
        def look(connection: sqlite3.Connection) -> bool:
            return turns.may_begin(connection, key, ticket, self._lease_clock())

        async def may_begin() -> bool:
            found = await self._read_inline(look)
            return await self._read(look) if found is None else found

        await self._turn_signals.wait_until(key, may_begin, seconds)

    async def read(
        self, key: Key, *, after: int = 0, before: int | None = None, limit: int | None = None
    ) -> Window:
        window = await self._read_inline(
            read_rows, key, after, before, limit, SMALL_READ_BYTES, SMALL_READ_ROWS
        )
        if window is None:
            window = await self._read(read_blocks, key, after, before, limit)
        return window

    async def head(self, key: Key) -> Head:
        head = await self._read_inline(read_head, key)
        return await self._read(read_head, key) if head is None else head

    async def full_text(self, key: Key, message_id: str) -> str | None:
        return await self._read(read_full_text, key, message_id)

    async def delete(
        self,
        scope: str,
        agent: str | None = None,
        conversation: str | None = None,
        ids: Sequence[str] | None = None,
    ) -> int:
        def work(transaction: Transaction) -> tuple[int, bool]:
            deleted = transaction.delete(scope, agent, conversation, ids)
            return deleted, needs_purge(transaction.flushed_connection())

        deleted, purge = await self._write(work)
        self._fact_cache.forget(scope)
        if self._vector_cache is not None:
            await self._read(self._vector_cache.forget, scope)
        if purge:
            await self._purge()
        return deleted

    async def summary(self, key: Key) -> SummaryState:
        def read(
            connection: sqlite3.Connection, key: Key, conversation_id: int, head: Head
        ) -> tuple[Fact, ...]:
            return self._fact_cache.read(connection, self.identity, key, conversation_id, head)

        state = await self._read_inline(summaries.read_small_summary, key, SMALL_READ_BYTES, read)
        if state is None:
            state = await self._read(summaries.read_summary, key, read)
        return state

    async def commit_segment(
        self,
        key: Key,
        segment: StoredSegment,
        *,
        generation: int,
        fence: int | None,
        facts: Sequence[FactChange] | None = None,
        merged: StoredSegment | None = None,
    ) -> bool:
        return await self._write_at(
            self._clock,
            summaries.commit_segment,
            key,
            segment,
            merged,
            generation,
            fence,
            facts,
            self._fact_cache,
            self._shared_identity(),
        )

    async def undo_segment(self, key: Key) -> bool:
        done = await self._write(summaries.undo_segment, key)
        self._fact_cache.forget(key.scope, key.conversation)
        return done

    async def drop_segments(
        self, scope: str, agent: str | None = None, conversation: str | None = None
    ) -> int:
        dropped = await self._write(summaries.drop_segments, scope, agent, conversation)
        self._fact_cache.forget(scope)
        return dropped

    async def pin(
        self,
        key: Key,
        message_id: str,
        pinned: bool,
        *,
        replaces: str | None = None,
        source: PinSource = "user",
    ) -> bool:
        return await self._write_at(self._clock, summaries.pin, key, message_id, pinned, replaces, source)

    async def facts(self, key: Key) -> list[Fact]:
        return await self._read(summaries.read_facts, key, self._fact_cache, self.identity)

    async def write_facts(
        self, key: Key, changes: Sequence[FactChange], *, generation: int | None = None
    ) -> list[Fact]:
        return await self._write(
            summaries.write_facts, key, changes, generation, self._fact_cache, self._shared_identity()
        )

    async def remove_fact(self, key: Key, number: int) -> bool:
        removed = await self._write(summaries.remove_fact, key, number)
        self._fact_cache.forget(key.scope, key.conversation)
        return removed

    async def profile_facts(self, agent: str, scope: str) -> list[ProfileFact]:
        return await self._read(fact_rows.read_profile_facts, agent, scope)

    async def enqueue_task(self, key: Key, *, task: str) -> bool:
        return await self._write_at(self._lease_clock, leases.enqueue_task, key, task)

    async def claim(self, key: Key, *, owner: str, task: str, seconds: float) -> Lease | float | None:
        return await self._write_at(self._lease_clock, leases.claim, key, owner, task, seconds)

    async def claim_next(self, *, owner: str, task: str, seconds: float) -> Lease | float | None:
        return await self._write_at(self._lease_clock, leases.claim_next, owner, task, seconds)

    async def extend(self, lease: Lease, seconds: float) -> bool:
        return await self._write_at(self._lease_clock, leases.extend, lease, seconds)

    async def complete_task(self, lease: Lease, *, again_in: float | None = None) -> bool:
        return await self._write_at(self._lease_clock, leases.complete_task, lease, again_in)

    async def put_records(
        self,
        key: Key,
        kind: str,
        records: Sequence[tuple[str, str]],
        *,
        keep: int | None = None,
        derived: bool = False,
        generation: int | None = None,
        refs: Sequence[MessageRef] = (),
    ) -> list[int]:
        check_put(kind, records, keep)
        return await self._write_at(
            self._clock, record_rows.put_records, key, kind, records, keep, derived, generation, refs
        )

    async def read_records(
        self, key: Key, kind: str, *, name: str | None = None, after: int = 0, limit: int | None = None
    ) -> list[Record]:
        check_read(kind, limit)

        given = (key, kind, name, after, limit)
        found = await self._read_inline(record_rows.read_records, *given, SMALL_READ_BYTES, SMALL_READ_ROWS)
        if found is None:
            found = await self._read(record_rows.read_records, *given)
        return found or []

    async def drop_records(
        self, key: Key, kind: str, names: Sequence[str] | None = None, *, before: float | None = None
    ) -> list[str]:
        check_drop(kind, names)
        return await self._write(record_rows.drop_records, key, kind, names, before)

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

    async def read_indexed(
        self, agent: str, scope: str, places: Sequence[tuple[str, int]]
    ) -> list[IndexedMessage]:
        return await self._read(search_rows.read_indexed, agent, scope, places)

    async def use_embedder(self, name: str, dimensions: int) -> int:
        return await self._write(
            lambda transaction: vector_rows.use_embedder(transaction.flushed_connection(), name, dimensions)
        )

    async def read_unembedded(
        self, agent: str, scope: str, *, embedder: int, conversation: str | None = None, limit: int
    ) -> list[EmbeddingBlock] | None:
        return await self._read(vector_rows.read_unembedded, agent, scope, conversation, embedder, limit)

    async def put_vectors(self, blocks: Sequence[VectorBlock], *, embedder: int) -> bool:
        return await self._write(
            lambda transaction: vector_rows.put_vectors(transaction.flushed_connection(), blocks, embedder)
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
        return await self._read(
            self._vector_cache.search, self.identity, search_scope, vector, embedder, limit
        )

    async def list_agents(self, *, scope: str | None, after: str | None, limit: int) -> list[str]:
        return await self._read(listing.list_agents, scope, after, limit)

    async def list_scopes(self, *, agent: str | None, after: str | None, limit: int) -> list[str]:
        return await self._read(listing.list_scopes, agent, after, limit)

    async def list_conversations(
        self, scope: str, *, agent: str | None, after: Key | None, limit: int
    ) -> list[ConversationInfo]:
        return await self._read(listing.list_conversations, scope, agent, after, limit)

    async def outline(self, key: Key, ranges: Sequence[tuple[int, int]]) -> ConversationOutline:
        outline = await self._read(read_outline, key, ranges)
        if outline.work is None or self._lease_clock is self._clock:
            return outline
        # Work that has long been due, or since another boot, is due now.
        seconds = outline.work.due - self._lease_clock()
        due = self._clock() + (seconds if abs(seconds) <= MAX_LEASE_SECONDS else 0.0)
        # Rounded: two clocks are read one after the other, and the time must be the same next time.
        return outline._replace(work=outline.work._replace(due=round(due, 1)))

    async def fork(self, key: Key, at: int | None, name: str) -> None:
        await self._write(lambda transaction: forks.fork(transaction.flushed_connection(), key, at, name))

    async def shared_until(self, key: Key) -> int:
        return await self._read(forks.shared_until, key)

    async def count_conversations(self, scope: str | None) -> int:
        return await self._read(_transfer().count_conversations, scope)

    async def export_keys(self, scope: str | None, *, after: int, limit: int) -> list[tuple[int, Key]]:
        return await self._read(_transfer().export_keys, scope, after, limit)

    async def export_messages(self, key: Key, *, after: int, last: int, limit: int) -> list[MessageRow]:
        return await self._read(_transfer().export_messages, key, after, last, limit)

    async def last_own_position(self, key: Key) -> int:
        return await self._read(_transfer().last_own_position, key)

    async def export_conversation(self, key: Key) -> ConversationCopy:
        return await self._read(_transfer().export_conversation, key)

    async def import_messages(self, key: Key, rows: Sequence[MessageRow], *, generation: int) -> None:
        await self._write(_transfer().import_messages, key, rows, generation)

    async def import_conversation(self, key: Key, copy: ConversationCopy) -> None:
        await self._write(_transfer().import_conversation, key, copy)

    @property
    def identity(self) -> object:
        return self._reader.file.identity

    def _shared_identity(self) -> object:
        """The file that the reader has open, if the writer has the same one open."""
        reading, writing = self._reader.file.identity, self._writer.file.identity
        is_same = reading is not None and writing is not None and reading[:2] == writing[:2]
        return reading if is_same else None

    async def check(self) -> None:
        await self._write(Transaction.probe)

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
        while blocks := await self._read(search_rows.read_index_blocks, unindexed):
            await self._write(search_rows.write_index_blocks, search_scope, blocks)

    async def _purge(self) -> None:
        """Take what was deleted out of the search index."""
        while await self._write(search_rows.purge_step):
            pass

    async def _write(
        self, work: Callable[Concatenate[Transaction, P], T], *given: P.args, **options: P.kwargs
    ) -> T:
        self._check_usable()
        job = self._writer.worker.submit(lambda transaction: work(transaction, *given, **options))
        return self._result_of(job, await job.wait())

    async def _write_at(
        self,
        clock: Callable[[], float],
        work: Callable[Concatenate[Transaction, float, P], T],
        *given: P.args,
        **options: P.kwargs,
    ) -> T:
        """Write with the time at which the transaction runs, which may be long after the call."""
        return await self._write(lambda transaction: work(transaction, clock(), *given, **options))

    async def _read_inline(
        self, work: Callable[Concatenate[sqlite3.Connection, P], T], *given: P.args, **options: P.kwargs
    ) -> T | None:
        """Run a small read in the caller's thread; None when it should not run there."""
        self._check_usable()
        if not self._reader.ready:
            await self._read(lambda connection: None)
        return self._reader.try_inline(lambda connection: work(connection, *given, **options))

    async def _read(
        self, work: Callable[Concatenate[sqlite3.Connection, P], T], *given: P.args, **options: P.kwargs
    ) -> T:
        """Run a read in the reader's thread."""

        async def read() -> T:
            self._check_usable()
            job = self._reader.worker.submit(lambda connection: work(connection, *given, **options))
            return self._result_of(job, await job.wait())

        try:
            return await read()
        except SchemaNotReady:
            # Any job of the writer makes the tables.
            await self._write(lambda transaction: None)
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


def _transfer() -> ModuleType:
    """Imported here: few programs copy a memory."""
    from autonomy_ctx.memory.sqlite import transfer

    return transfer


def _warn_about_old_sqlite() -> None:
    global _has_warned
    if not _has_warned and sqlite3.sqlite_version_info < WAL_RESET_FIX_VERSION:
        _has_warned = True
        logger.warning(
            "SQLite %s can damage a file that two connections write and checkpoint at once (fixed in "
            "3.51.3). Processes that use autonomy_ctx take turns; let no other program write to the file.",
            sqlite3.sqlite_version,
        )
