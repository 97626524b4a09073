"""`PostgresStore`: the store protocols on a PostgreSQL database, for many processes and machines.

A read or an append is one statement, and one round trip. All other writes are transactions that are made
exactly once, whatever happens to the connection. All times are those of the server's clock.
"""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Callable, Sequence
from typing import TYPE_CHECKING, Concatenate

import anyio

from autonomy_ctx.memory.joint_append import RecordDraft, check_record
from autonomy_ctx.memory.postgres import append as append_rows
from autonomy_ctx.memory.postgres import search as search_rows
from autonomy_ctx.memory.postgres import vectors as vector_rows
from autonomy_ctx.memory.postgres.connection import Connection, Database, connect_options
from autonomy_ctx.memory.postgres.notifications import Notifications
from autonomy_ctx.memory.postgres.session import PostgresSession
from autonomy_ctx.memory.postgres.window import probe, read_summary, read_window
from autonomy_ctx.memory.search_text import SearchScope, query_terms
from autonomy_ctx.memory.sql import turns
from autonomy_ctx.memory.sql.leases import work_topic
from autonomy_ctx.memory.sql.store import P, Script, SqlStore, T, append_with_records
from autonomy_ctx.memory.store import (
    Draft,
    Key,
    Lease,
    SearchHit,
    SummaryState,
    TurnStart,
    TurnToken,
    Window,
)
from autonomy_ctx.validation import check_int, check_seconds

if TYPE_CHECKING:
    from autonomy_ctx.memory.transfer import ConversationCopy
    from autonomy_ctx.memory.vectors import EmbeddingBlock, VectorBlock

logger = logging.getLogger("autonomy_ctx.memory")

DEFAULT_POOL_SIZE = 10
# How often a turn looks whether it is next, when no notification comes.
TURN_POLL_SECONDS = 2.0
_MIN_TURN_POLL_SECONDS = 0.01
_TRIAL_POLL_SECONDS = 0.1
# The statements of one copy see one snapshot. It is that of the transaction: nothing is set for a session.
_BEGIN_SNAPSHOT = "BEGIN ISOLATION LEVEL REPEATABLE READ, READ ONLY"


class PostgresStore(SqlStore):
    """A store in a PostgreSQL database, in the schema `autonomy_ctx`, which is made when it is not there.

    `listen_dsn` is where to listen for notifications: a URL straight to the server, for a `url` that leads to
    a pooler. None for the same URL; empty not to listen, but to look every two seconds.
    """

    def __init__(
        self,
        url: str,
        *,
        timeout: float = 30.0,
        pool_size: int = DEFAULT_POOL_SIZE,
        listen_dsn: str | None = None,
    ) -> None:
        self.timeout = check_seconds("timeout", timeout)
        check_int("pool_size", pool_size)
        self._database = Database(url, timeout=timeout, pool_size=pool_size)
        # How the vectors of the embedder are kept that this store was told to use.
        self._embedder: vector_rows.EmbedderInForce | None = None
        self._has_warned = False
        dsn = url if listen_dsn is None else listen_dsn or None
        self._notifications = Notifications(dsn, {} if dsn is None else connect_options(dsn))

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
        if not drafts and not records and turn is None:
            self._database.check_usable()
            return []

        async def append(connection: Connection) -> list[int] | None:
            # What a record quotes is locked and looked up first.
            if not drafts or any(record.refs for record in records):
                return None
            if turn is not None:
                return await append_rows.append_held(connection, key, drafts, turn, ends, records)
            return None if records else await append_rows.append_new(connection, key, drafts)

        async def append_known(connection: Connection) -> list[int]:
            session = PostgresSession(connection)
            return await append_with_records(session, key, drafts, records, turn, ends)

        positions = await self._database.append(append, append_known)
        if ends:
            self.wake_turns(key)
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
        unless: str | None = None,
        records: str | None = None,
    ) -> TurnStart:
        given = (key, drafts, owner, seconds, after, unless, records)
        # A turn with a ticket has competition.
        if ticket is not None:
            return await self.write_script(turns.begin_turn, *given)
        return await self._database.append(
            lambda connection: append_rows.begin_free_turn(connection, *given),
            lambda connection: turns.begin_turn(PostgresSession(connection), *given),
        )

    def wake_turns(self, key: Key) -> None:
        self._notifications.here().note(turns.turn_topic(key))

    async def wait_for_turn(self, key: Key, ticket: int, *, seconds: float) -> None:
        self._database.check_usable()
        topic = turns.turn_topic(key)
        listener = self._notifications.here()
        with anyio.move_on_after(seconds), listener.line_up(topic, ticket) as line:
            while True:
                since, wait = listener.number, seconds
                # Only the first of this process looks: the others come after it in any case.
                if ticket <= min(line, default=ticket):
                    lease_seconds = await self.read_script(turns.seconds_until_turn, key, ticket)
                    if not lease_seconds:
                        return
                    # When the leases before it expire, for which there is no notification.
                    wait = max(min(lease_seconds, TURN_POLL_SECONDS), _MIN_TURN_POLL_SECONDS)
                await listener.wait(topic, since, wait)

    async def read(
        self, key: Key, *, after: int = 0, before: int | None = None, limit: int | None = None
    ) -> Window:
        return await self.run_read(read_window, key, after, before, limit)

    async def summary(self, key: Key) -> SummaryState:
        return await self.run_read(read_summary, key)

    async def claim_next(self, *, owner: str, task: str, seconds: float) -> Lease | float | None:
        self._database.check_usable()
        self._notifications.here().note_look(work_topic(task))
        return await super().claim_next(owner=owner, task=task, seconds=seconds)

    async def wait_for_work(self, *, task: str, seconds: float) -> None:
        self._database.check_usable()
        await self._notifications.here().wait_since_look(work_topic(task), seconds)

    async def export_conversation(self, key: Key) -> ConversationCopy:
        # Imported here: few programs copy a memory.
        from autonomy_ctx.memory.sql.transfer import export_conversation

        async def export(connection: Connection) -> ConversationCopy:
            await connection.execute(_BEGIN_SNAPSHOT)
            copy = await export_conversation(PostgresSession(connection), key)
            await connection.execute("COMMIT")
            return copy

        return await self._database.read(export)

    async def search(
        self, agent: str, scope: str, query: str, *, conversation: str | None = None, limit: int = 10
    ) -> list[SearchHit]:
        terms = query_terms(query, limit)
        if not terms:
            self._database.check_usable()
            return []
        search_scope = SearchScope(agent, scope, conversation)
        return await search_rows.search(self._database, search_scope, terms, limit)

    async def use_embedder(self, name: str, dimensions: int) -> int:
        trial = await self._try_pgvector()
        self._embedder = embedder = await self.run_write(vector_rows.use_embedder, name, dimensions, trial)
        if embedder.problem and not self._has_warned:
            self._has_warned = True
            logger.warning(
                "each search by meaning reads all vectors of its scope or conversation, because pgvector "
                "cannot be used: %s",
                embedder.problem,
            )
        return embedder.number

    async def read_unembedded(
        self, agent: str, scope: str, *, embedder: int, conversation: str | None = None, limit: int
    ) -> list[EmbeddingBlock] | None:
        search_scope = SearchScope(agent, scope, conversation)
        return await self.run_read(vector_rows.read_unembedded, search_scope, embedder, limit)

    async def put_vectors(self, blocks: Sequence[VectorBlock], *, embedder: int) -> bool:
        in_use = self._embedder
        if in_use is None or in_use.number != embedder:
            return False
        return await self.run_write(vector_rows.put_vectors, blocks, in_use)

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
        in_use, search_scope = self._embedder, SearchScope(agent, scope, conversation)
        if in_use is None or in_use.number != embedder:
            self._database.check_usable()
            return []
        look = vector_rows.nearest_by_bytes if in_use.vector_schema is None else vector_rows.nearest
        return await self.run_read(look, search_scope, vector, in_use, limit)

    @property
    def identity(self) -> object:
        return self._database.identity

    async def check(self) -> None:
        await self.run_read(probe)

    async def close(self) -> None:
        try:
            await self._database.close()
        finally:
            # After that, waiting tasks are woken and find that the store is closed.
            await self._notifications.close()

    async def _try_pgvector(self) -> vector_rows.Trial:
        """Find out whether the server can compare vectors, once for all processes."""
        trial = await self.run_write(vector_rows.begin_trial)
        with anyio.move_on_after(vector_rows.TRIAL_SECONDS):
            while trial.is_running:
                await anyio.sleep(_TRIAL_POLL_SECONDS)
                trial = await self.run_write(vector_rows.begin_trial)
        if not trial.is_due:
            return trial
        if not await self._database.survives(trial.distance_statement()):
            return await self.run_write(vector_rows.begin_trial)
        await self.run_write(vector_rows.pass_trial, trial)
        return trial

    async def read_script(self, script: Script[P, T], *given: P.args, **options: P.kwargs) -> T:
        return await self._database.read(
            lambda connection: script(PostgresSession(connection), *given, **options)
        )

    async def repeat_script(self, script: Script[P, T], *given: P.args, **options: P.kwargs) -> T:
        return await self.read_script(script, *given, **options)

    async def write_script(self, script: Script[P, T], *given: P.args, **options: P.kwargs) -> T:
        return await self._database.write(
            lambda connection: script(PostgresSession(connection), *given, **options)
        )

    async def run_read(
        self, work: Callable[Concatenate[Connection, P], Awaitable[T]], *given: P.args, **options: P.kwargs
    ) -> T:
        """Do what may be repeated: a read, or a write that does nothing the second time."""
        return await self._database.read(lambda connection: work(connection, *given, **options))

    async def run_write(
        self, work: Callable[Concatenate[Connection, P], Awaitable[T]], *given: P.args, **options: P.kwargs
    ) -> T:
        """Do something in one transaction, exactly once."""
        return await self._database.write(lambda connection: work(connection, *given, **options))
