"""`EmbeddedStore`: the store protocols on SQLite, wherever the database is.

A subclass has the connections, and the threads that use them. Small reads run in the caller's thread, because
handing them to another thread costs four times the read.
"""

from __future__ import annotations

import sqlite3
import time
from abc import abstractmethod
from collections.abc import Awaitable, Callable, Coroutine, Sequence
from functools import partial
from random import uniform
from typing import TYPE_CHECKING, Any

import anyio

from autonomy_ctx.background import current_loop
from autonomy_ctx.memory.processes import machine_clock
from autonomy_ctx.memory.search_text import SearchScope, query_terms
from autonomy_ctx.memory.sql import records as record_rows
from autonomy_ctx.memory.sql import turns
from autonomy_ctx.memory.sql.log import read_head
from autonomy_ctx.memory.sql.session import run_script
from autonomy_ctx.memory.sql.store import P, Script, SqlStore, T
from autonomy_ctx.memory.sqlite import search as search_rows
from autonomy_ctx.memory.sqlite import vectors as vector_rows
from autonomy_ctx.memory.sqlite.connection import snapshot
from autonomy_ctx.memory.sqlite.fact_cache import FactCache
from autonomy_ctx.memory.sqlite.fulltext import needs_purge
from autonomy_ctx.memory.sqlite.session import SqliteSession, Transaction
from autonomy_ctx.memory.sqlite.window import read_blocks, read_rows, read_small_summary, read_summary
from autonomy_ctx.memory.store import Head, Key, Record, SearchHit, SummaryState, Window, check_read

if TYPE_CHECKING:
    from autonomy_ctx.memory.sqlite.vector_cache import VectorCache
    from autonomy_ctx.memory.vectors import EmbeddingBlock, VectorBlock

# How often a turn looks whether it is next: by chance a little more or less, so that turns that began to
# wait together, in many processes, do not all ask the store at once.
POLL_SECONDS = 0.05
POLL_JITTER = 0.2
SMALL_READ_BYTES = 64 * 1024
SMALL_READ_ROWS = 512


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


class EmbeddedStore(SqlStore):
    """A store on SQLite."""

    def __init__(self, clock: Callable[[], float], lease_clock: Callable[[], float] | None = None) -> None:
        # Not the wall clock: one that is set would end the lease of a turn that runs, or keep a dead one.
        # A clock that was given, as in a test, is that of the leases too.
        leases = lease_clock or (machine_clock() if clock is time.time else clock)
        self._clocks = {"now": clock, "lease_now": leases}
        self._turn_signals = TurnSignals()
        self._fact_cache = FactCache()
        # Made by the first search by meaning.
        self._vector_cache: VectorCache | None = None

    @property
    @abstractmethod
    def identity(self) -> object:
        """The database that is read."""

    @abstractmethod
    def written_identity(self) -> object:
        """The database that is read, if the same one is written; else None."""

    @abstractmethod
    def check_usable(self) -> None:
        """Raise an error if the store was closed."""

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
            found = await self._read_small(turns.seconds_until_turn, key, ticket)
            return not (
                await self.read_script(turns.seconds_until_turn, key, ticket) if found is None else found
            )

        await self._turn_signals.wait_until(key, may_begin, seconds)

    async def read(
        self, key: Key, *, after: int = 0, before: int | None = None, limit: int | None = None
    ) -> Window:
        given = (key, after, before, limit)
        window = await self._read_small(read_rows, *given, SMALL_READ_BYTES, SMALL_READ_ROWS)
        return await self.read_script(read_blocks, *given) if window is None else window

    async def head(self, key: Key) -> Head:
        head = await self._read_small(read_head, key)
        return await self.read_script(read_head, key) if head is None else head

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
            await self.run_read(lambda connection: self._forget_vectors(scope))
        if await self.run_read(needs_purge):
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
        return await self.read_script(read_summary, key) if state is None else state

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
            self.check_usable()
            return []
        given = (search_scope, terms, limit)
        found = await self.read_script(search_rows.search_messages, *given, even_if_stale=False)
        if isinstance(found, search_rows.PendingIndexWork):
            if found.needs_purge:
                await self._purge()
            await self._update_index(search_scope, found.unindexed)
            found = await self.read_script(search_rows.search_messages, *given, even_if_stale=True)
        assert not isinstance(found, search_rows.PendingIndexWork)
        return found

    async def use_embedder(self, name: str, dimensions: int) -> int:
        return await self.run_write(
            lambda transaction: vector_rows.use_embedder(transaction.connection, name, dimensions)
        )

    async def read_unembedded(
        self, agent: str, scope: str, *, embedder: int, conversation: str | None = None, limit: int
    ) -> list[EmbeddingBlock] | None:
        return await self.run_read(
            lambda connection: vector_rows.read_unembedded(
                connection, agent, scope, conversation, embedder, limit
            )
        )

    async def put_vectors(self, blocks: Sequence[VectorBlock], *, embedder: int) -> bool:
        return await self.run_write(
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
        return await self.read_script(self._vector_cache.search, search_scope, vector, embedder, limit)

    async def check(self) -> None:
        await self.run_write(Transaction.probe)

    async def _update_index(self, search_scope: SearchScope, unindexed: list[tuple[int, int]]) -> None:
        """Index new messages, one writer at a time."""
        while blocks := await self.run_read(partial(search_rows.read_index_blocks, unindexed=unindexed)):
            await self.run_write(
                partial(search_rows.write_index_blocks, search_scope=search_scope, blocks=blocks)
            )

    async def _purge(self) -> None:
        """Take what was deleted out of the search index."""
        while await self.run_write(search_rows.purge_step):
            pass

    async def write_script(self, script: Script[P, T], *given: P.args, **options: P.kwargs) -> T:
        identity = self.written_identity()
        return await self.run_write(
            lambda transaction: run_script(
                script(self._session(transaction.connection, identity, transaction), *given, **options)
            )
        )

    async def read_script(
        self, script: Callable[..., Coroutine[Any, Any, T]], *given: Any, **options: Any
    ) -> T:
        return await self.run_read(lambda connection: self._snapshot(connection, script, *given, **options))

    async def _read_small(
        self, script: Callable[..., Coroutine[Any, Any, T | None]], *given: Any, **options: Any
    ) -> T | None:
        """Run a small read in the caller's thread; None when it should not run there."""
        return await self.run_small_read(
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
