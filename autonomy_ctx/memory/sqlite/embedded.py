"""`EmbeddedStore`: a store on SQLite, wherever the database is.

A subclass has the connections, and the threads that use them. Small reads run in the caller's thread, because
handing them to another thread costs four times the read.
"""

from __future__ import annotations

import sqlite3
import time
from abc import abstractmethod
from collections.abc import Awaitable, Callable, Coroutine, Mapping, Sequence
from contextlib import suppress
from random import uniform
from typing import TYPE_CHECKING, Any

import anyio

from autonomy_ctx.background import current_loop
from autonomy_ctx.memory.processes import machine_clock
from autonomy_ctx.memory.search_text import IndexBlock, QueryTerms, RowHit, SearchScope
from autonomy_ctx.memory.sql import turns
from autonomy_ctx.memory.sql.forks import SharedRange
from autonomy_ctx.memory.sql.log import read_head
from autonomy_ctx.memory.sql.records import read_records
from autonomy_ctx.memory.sql.search import FullText
from autonomy_ctx.memory.sql.session import NO_LIMIT, LargeRead, ReadLimit, run_script
from autonomy_ctx.memory.sql.store import P, Script, Store, T, reads, writes
from autonomy_ctx.memory.sql.vectors import use_embedder
from autonomy_ctx.memory.sqlite import fulltext
from autonomy_ctx.memory.sqlite.connection import snapshot
from autonomy_ctx.memory.sqlite.session import SqliteSession, Transaction
from autonomy_ctx.memory.sqlite.window import read_summary, read_window
from autonomy_ctx.memory.store import Key, SearchHit

if TYPE_CHECKING:
    from autonomy_ctx.memory.sqlite.vector_cache import VectorCache

# How often a turn looks whether it is next: by chance a little more or less, so that turns that began to
# wait together, in many processes, do not all ask the store at once.
POLL_SECONDS = 0.05
POLL_JITTER = 0.2
_SMALL = ReadLimit(max_bytes=64 * 1024, max_rows=512)
# What is tried in the caller's thread, as far as it is small.
_SMALL_READS = frozenset((read_head, read_window, read_summary, read_records, turns.seconds_until_turn))


def _begin_index(session: SqliteSession) -> bool:
    if not session.transaction.take_index_step():
        return False
    fulltext.create_index(session.connection)
    return True


async def _write_block(session: SqliteSession, scope_number: int, block: IndexBlock) -> None:
    fulltext.remove_messages(session.connection, block.conversation_id, block.start, block.end)
    fulltext.add_messages(session.connection, scope_number, block.conversation_id, block.terms)


async def _find_rows(
    session: SqliteSession,
    scope_number: int,
    search_scope: SearchScope,
    ranges: Sequence[SharedRange],
    terms: QueryTerms,
    limit: int,
) -> list[RowHit]:
    connection = session.connection
    # To tell conversations apart takes as long as to search; where there is one, nothing is to be told.
    conversation_id = ranges[0].conversation_id if ranges else None
    if len(ranges) == 1 and fulltext.has_one_conversation(connection, *search_scope[:2]):
        conversation_id = None
    return fulltext.find_hits(connection, scope_number, conversation_id, terms, limit, ranges)


FTS5 = FullText(find=_find_rows, begin=_begin_index, write=_write_block)


def purge_step(transaction: Transaction) -> bool:
    """Take a step of the purge; the last one also folds the write-ahead log."""
    # Rows that were taken out reach the parts of the index with the commit; merged before, they stay.
    if not transaction.take_index_step():
        return True
    more = fulltext.purge_index_step(transaction.connection)
    transaction.has_deleted = transaction.has_deleted or not more
    return more


class TurnSignals:
    """Wakes the turns of this process that wait: one signal for each conversation.

    A signal only saves time. The rows of the store decide which turn is next, and turns of other processes
    read them at intervals.
    """

    def __init__(self) -> None:
        # By event loop, too: an event belongs to one.
        self._events: dict[tuple[Any, Key], anyio.Event] = {}

    async def wait_until(self, key: Key, may_begin: Callable[[], Awaitable[bool]], seconds: float) -> None:
        """Look at every signal and in intervals; return when it may begin, or after so many seconds."""
        with anyio.move_on_after(seconds):
            while not await may_begin():
                # It stays until the turn is given back, which every turn that waited does in the end.
                event = self._events.setdefault((current_loop(), key), anyio.Event())
                with anyio.move_on_after(POLL_SECONDS * uniform(1 - POLL_JITTER, 1 + POLL_JITTER)):
                    await event.wait()

    def notify(self, key: Key) -> None:
        """Wake those of the running event loop that wait for a conversation."""
        event = self._events.pop((current_loop(), key), None) if self._events else None
        if event is not None:
            event.set()


class EmbeddedStore(Store):
    """A store on SQLite."""

    def __init__(self, clock: Callable[[], float], lease_clock: Callable[[], float] | None = None) -> None:
        # Not the wall clock: one that is set would end the lease of a turn that runs, or keep a dead one.
        # A clock that was given, as in a test, is that of the leases too.
        leases = lease_clock or (machine_clock() if clock is time.time else clock)
        self._clocks = {"now": clock, "lease_now": leases}
        self._turn_signals = TurnSignals()
        # Made by the first search by meaning.
        self._vector_cache: VectorCache | None = None

    @abstractmethod
    async def run_write(self, work: Callable[[Transaction], T]) -> T:
        """Run a job in a transaction."""

    @abstractmethod
    async def run_read(self, work: Callable[[sqlite3.Connection], T]) -> T:
        """Run a job that only reads."""

    @abstractmethod
    async def run_small_read(self, work: Callable[[sqlite3.Connection], T | None]) -> T | None:
        """Run a small read in the caller's thread; None when it should not run there."""

    def wake_turns(self, key: Key) -> None:
        self._turn_signals.notify(key)

    async def wait_for_turn(self, key: Key, ticket: int, *, seconds: float) -> None:
        async def may_begin() -> bool:
            return not await self.read_script(turns.seconds_until_turn, key, ticket)

        await self._turn_signals.wait_until(key, may_begin, seconds)

    read = reads(read_window)
    summary = reads(read_summary)

    fulltext = FTS5
    use_embedder = writes(use_embedder)

    async def nearest(self, *given: Any, **options: Any) -> list[SearchHit]:
        if self._vector_cache is None:
            # Imported here: it needs numpy.
            from autonomy_ctx.memory.sqlite.vector_cache import VectorCache

            self._vector_cache = VectorCache()
        return await self.read_script(self._vector_cache.nearest, *given, **options)

    async def check(self) -> None:
        await self.run_write(Transaction.probe)

    async def purge(self) -> None:
        self._vector_cache = None
        while await self.run_read(fulltext.needs_purge):
            await self.run_write(purge_step)

    async def write_script(self, script: Script[P, T], *given: P.args, **options: P.kwargs) -> T:
        def run(transaction: Transaction) -> T:
            session = SqliteSession(transaction, self._clocks, self.identity)
            return run_script(script(session, *given, **options))

        return await self.run_write(run)

    async def read_script(
        self, script: Callable[..., Coroutine[Any, Any, T]], *given: Any, **options: Any
    ) -> T:
        if script in _SMALL_READS:
            with suppress(LargeRead):
                done = await self.run_small_read(
                    lambda connection: [self._run_read_script(connection, _SMALL, script, given, options)]
                )
                if done is not None:
                    return done[0]
        return await self.run_read(
            lambda connection: self._run_read_script(connection, NO_LIMIT, script, given, options)
        )

    def _run_read_script(
        self,
        connection: sqlite3.Connection,
        read_limit: ReadLimit,
        script: Callable[..., Coroutine[Any, Any, T]],
        given: Sequence[Any],
        options: Mapping[str, Any],
    ) -> T:
        with snapshot(connection):
            session = SqliteSession(Transaction(connection), self._clocks, self.identity, read_limit)
            return run_script(script(session, *given, **options))
