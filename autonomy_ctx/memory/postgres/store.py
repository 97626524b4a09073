"""`PostgresStore`: the store protocols on a PostgreSQL database, for many processes and machines.

A read or an append is one statement, and one round trip. All other writes are transactions that are made
exactly once, whatever happens to the connection. All times are those of the server's clock.
"""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Callable, Sequence
from types import ModuleType
from typing import TYPE_CHECKING, Concatenate, ParamSpec, TypeVar

import anyio

from autonomy_ctx.language.fact import Fact, FactChange
from autonomy_ctx.memory.joint_append import RecordDraft, check_record
from autonomy_ctx.memory.outline import ConversationOutline
from autonomy_ctx.memory.postgres import deletion, forks, leases, listing, log, summaries, turns
from autonomy_ctx.memory.postgres import facts as fact_rows
from autonomy_ctx.memory.postgres import records as record_rows
from autonomy_ctx.memory.postgres import search as search_rows
from autonomy_ctx.memory.postgres import vectors as vector_rows
from autonomy_ctx.memory.postgres.connection import Connection, Database, connect_options
from autonomy_ctx.memory.postgres.notifications import Notifications
from autonomy_ctx.memory.postgres.outline import read_outline
from autonomy_ctx.memory.search_text import SearchScope, query_terms
from autonomy_ctx.memory.store import (
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
from autonomy_ctx.validation import check_int, check_seconds

if TYPE_CHECKING:
    from autonomy_ctx.memory.transfer import ConversationCopy, MessageRow
    from autonomy_ctx.memory.vectors import EmbeddingBlock, VectorBlock

logger = logging.getLogger("autonomy_ctx.memory")

P = ParamSpec("P")
T = TypeVar("T")

DEFAULT_POOL_SIZE = 10
# How often a turn looks whether it is next, when no notification comes.
TURN_POLL_SECONDS = 2.0
_MIN_TURN_POLL_SECONDS = 0.01
_TRIAL_POLL_SECONDS = 0.1


class PostgresStore:
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

    async def append(
        self, key: Key, drafts: Sequence[Draft], *, turn: TurnToken | None = None, ends: bool = False
    ) -> list[int]:
        if turn is not None:
            return await self._append_in_turn(key, drafts, turn, ends)
        if not drafts:
            self._database.check_usable()
            return []

        async def append_new(connection: Connection) -> list[int] | None:
            try:
                return await log.append_new(connection, key, drafts)
            except log.KnownMessage:
                return None

        return await self._database.append(
            append_new, lambda connection: log.append_known(connection, key, drafts)
        )

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
        if turn is not None:
            return await self._append_in_turn(key, drafts, turn, ends, records)

        async def append(connection: Connection) -> list[int]:
            positions = await log.append_known(connection, key, drafts) if drafts else []
            for record in records:
                await record_rows.put_draft(connection, key, record)
            return positions

        return await self._database.write(append)

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
        given = (key, drafts, owner, seconds, after)
        # A turn with a ticket has competition.
        if ticket is not None:
            return await self._write(turns.begin_turn, *given)
        return await self._database.append(
            lambda connection: turns.begin_free_turn(connection, *given),
            lambda connection: turns.begin_turn(connection, *given),
        )

    async def renew_turn(self, key: Key, ticket: int, *, owner: str, seconds: float) -> bool:
        # Repeated, it does the same again.
        return await self._read(turns.renew_turn, key, ticket, owner, seconds)

    async def leave_turn(self, key: Key, ticket: int | None, *, owner: str) -> None:
        await self._write(turns.leave_turn, key, ticket, owner)
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
                    lease_seconds = await self._read(turns.seconds_until_turn, key, ticket)
                    if not lease_seconds:
                        return
                    # When the leases before it expire, for which there is no notification.
                    wait = max(min(lease_seconds, TURN_POLL_SECONDS), _MIN_TURN_POLL_SECONDS)
                await listener.wait(topic, since, wait)

    async def read(
        self, key: Key, *, after: int = 0, before: int | None = None, limit: int | None = None
    ) -> Window:
        return await self._read(log.read_window, key, after, before, limit)

    async def head(self, key: Key) -> Head:
        return await self._read(log.read_head, key)

    async def full_text(self, key: Key, message_id: str) -> str | None:
        return await self._read(log.read_full_text, key, message_id)

    async def delete(
        self,
        scope: str,
        agent: str | None = None,
        conversation: str | None = None,
        ids: Sequence[str] | None = None,
    ) -> int:
        return await self._write(deletion.delete, scope, agent, conversation, ids)

    async def summary(self, key: Key) -> SummaryState:
        return await self._read(summaries.read_summary, key)

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
        return await self._write(summaries.commit_segment, key, segment, merged, generation, fence, facts)

    async def undo_segment(self, key: Key) -> bool:
        return await self._write(summaries.undo_segment, key)

    async def drop_segments(
        self, scope: str, agent: str | None = None, conversation: str | None = None
    ) -> int:
        return await self._write(summaries.drop_segments, scope, agent, conversation)

    async def pin(
        self,
        key: Key,
        message_id: str,
        pinned: bool,
        *,
        replaces: str | None = None,
        source: PinSource = "user",
    ) -> bool:
        return await self._write(summaries.pin, key, message_id, pinned, replaces, source)

    async def facts(self, key: Key) -> list[Fact]:
        return await self._read(summaries.read_facts, key)

    async def write_facts(
        self, key: Key, changes: Sequence[FactChange], *, generation: int | None = None
    ) -> list[Fact]:
        return await self._write(summaries.write_facts, key, changes, generation)

    async def remove_fact(self, key: Key, number: int) -> bool:
        return await self._write(summaries.remove_fact, key, number)

    async def profile_facts(self, agent: str, scope: str) -> list[ProfileFact]:
        return await self._read(fact_rows.read_profile_facts, agent, scope)

    async def enqueue_task(self, key: Key, *, task: str) -> bool:
        # Repeated, it does the same again.
        return await self._read(leases.enqueue_task, key, task)

    async def claim(self, key: Key, *, owner: str, task: str, seconds: float) -> Lease | float | None:
        return await self._write(leases.claim, key, owner, task, seconds)

    async def claim_next(self, *, owner: str, task: str, seconds: float) -> Lease | float | None:
        self._database.check_usable()
        self._notifications.here().note_look(leases.work_topic(task))
        return await self._write(leases.claim_next, owner, task, seconds)

    async def wait_for_work(self, *, task: str, seconds: float) -> None:
        self._database.check_usable()
        await self._notifications.here().wait_since_look(leases.work_topic(task), seconds)

    async def extend(self, lease: Lease, seconds: float) -> bool:
        # Repeated, it does the same again.
        return await self._read(leases.extend, lease, seconds)

    async def complete_task(self, lease: Lease, *, again_in: float | None = None) -> bool:
        return await self._write(leases.complete_task, lease, again_in)

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
        return await self._write(record_rows.put_records, key, kind, records, keep, derived, generation, refs)

    async def read_records(
        self, key: Key, kind: str, *, name: str | None = None, after: int = 0, limit: int | None = None
    ) -> list[Record]:
        check_read(kind, limit)
        return await self._read(record_rows.read_records, key, kind, name, after, limit)

    async def drop_records(
        self, key: Key, kind: str, names: Sequence[str] | None = None, *, before: float | None = None
    ) -> list[str]:
        check_drop(kind, names)
        return await self._write(record_rows.drop_records, key, kind, names, before)

    async def search(
        self, agent: str, scope: str, query: str, *, conversation: str | None = None, limit: int = 10
    ) -> list[SearchHit]:
        terms = query_terms(query, limit)
        if not terms:
            self._database.check_usable()
            return []
        search_scope = SearchScope(agent, scope, conversation)
        return await search_rows.search(self._database, search_scope, terms, limit)

    async def read_indexed(
        self, agent: str, scope: str, places: Sequence[tuple[str, int]]
    ) -> list[IndexedMessage]:
        return await self._read(search_rows.read_indexed, agent, scope, places)

    async def use_embedder(self, name: str, dimensions: int) -> int:
        trial = await self._try_pgvector()
        self._embedder = embedder = await self._write(vector_rows.use_embedder, name, dimensions, trial)
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
        return await self._read(vector_rows.read_unembedded, search_scope, embedder, limit)

    async def put_vectors(self, blocks: Sequence[VectorBlock], *, embedder: int) -> bool:
        in_use = self._embedder
        if in_use is None or in_use.number != embedder:
            return False
        return await self._write(vector_rows.put_vectors, blocks, in_use)

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
        return await self._read(look, search_scope, vector, in_use, limit)

    async def list_agents(self, *, scope: str | None, after: str | None, limit: int) -> list[str]:
        return await self._read(listing.list_agents, scope, after, limit)

    async def list_scopes(self, *, agent: str | None, after: str | None, limit: int) -> list[str]:
        return await self._read(listing.list_scopes, agent, after, limit)

    async def list_conversations(
        self, scope: str, *, agent: str | None, after: Key | None, limit: int
    ) -> list[ConversationInfo]:
        return await self._read(listing.list_conversations, scope, agent, after, limit)

    async def outline(self, key: Key, ranges: Sequence[tuple[int, int]]) -> ConversationOutline:
        return await self._read(read_outline, key, ranges)

    async def fork(self, key: Key, at: int | None, name: str) -> None:
        await self._write(forks.fork, key, at, name)

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
        return self._database.identity

    async def check(self) -> None:
        await self._read(log.probe)

    async def close(self) -> None:
        try:
            await self._database.close()
        finally:
            # After that, waiting tasks are woken and find that the store is closed.
            await self._notifications.close()

    async def _try_pgvector(self) -> vector_rows.Trial:
        """Find out whether the server can compare vectors, once for all processes."""
        trial = await self._write(vector_rows.begin_trial)
        with anyio.move_on_after(vector_rows.TRIAL_SECONDS):
            while trial.is_running:
                await anyio.sleep(_TRIAL_POLL_SECONDS)
                trial = await self._write(vector_rows.begin_trial)
        if not trial.is_due:
            return trial
        if not await self._database.survives(trial.distance_statement()):
            return await self._write(vector_rows.begin_trial)
        await self._write(vector_rows.pass_trial, trial)
        return trial

    async def _append_in_turn(
        self,
        key: Key,
        drafts: Sequence[Draft],
        turn: TurnToken,
        ends: bool,
        records: Sequence[RecordDraft] = (),
    ) -> list[int]:
        async def append(connection: Connection) -> list[int]:
            positions = await turns.append_in_turn(connection, key, drafts, turn, ends)
            for record in records:
                await record_rows.put_draft(connection, key, record)
            return positions

        # What a record quotes is locked and looked up first.
        if drafts and not any(record.refs for record in records):
            positions = await self._database.append(
                lambda connection: turns.append_held(connection, key, drafts, turn, ends, records), append
            )
        else:
            positions = await self._database.write(append)
        if ends:
            self._notifications.here().note(turns.turn_topic(key))
        return positions

    async def _read(
        self, work: Callable[Concatenate[Connection, P], Awaitable[T]], *given: P.args, **options: P.kwargs
    ) -> T:
        """Do what may be repeated: a read, or a write that does nothing the second time."""
        return await self._database.read(lambda connection: work(connection, *given, **options))

    async def _write(
        self, work: Callable[Concatenate[Connection, P], Awaitable[T]], *given: P.args, **options: P.kwargs
    ) -> T:
        """Do something in one transaction, exactly once."""
        return await self._database.write(lambda connection: work(connection, *given, **options))


def _transfer() -> ModuleType:
    """Imported here: few programs copy a memory."""
    from autonomy_ctx.memory.postgres import transfer

    return transfer
