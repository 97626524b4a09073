"""`PostgresStore`: a store in a PostgreSQL database, for many processes and machines.

A read or an append is one statement, and one round trip. All other writes are transactions that are made
exactly once, whatever happens to the connection. All times are those of the server's clock.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Coroutine, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import anyio

from autonomy_ctx.memory.postgres import append as append_rows
from autonomy_ctx.memory.postgres import vectors as vector_rows
from autonomy_ctx.memory.postgres.connection import Connection, Database, connect_options
from autonomy_ctx.memory.postgres.notifications import Notifications
from autonomy_ctx.memory.postgres.search import TSVECTOR
from autonomy_ctx.memory.postgres.session import EmbedderInForce, PostgresSession
from autonomy_ctx.memory.postgres.window import probe, read_summary, read_window
from autonomy_ctx.memory.sql import turns
from autonomy_ctx.memory.sql.leases import work_topic
from autonomy_ctx.memory.sql.store import P, Script, Store, T, reads
from autonomy_ctx.memory.sql.transfer import export_conversation
from autonomy_ctx.memory.store import Key, Lease
from autonomy_ctx.validation import check_int, check_seconds

if TYPE_CHECKING:
    from autonomy_ctx.memory.vectors import VectorBlock

logger = logging.getLogger("autonomy_ctx.memory")

DEFAULT_POOL_SIZE = 10
# How often a turn looks whether it is next, when no notification comes.
TURN_POLL_SECONDS = 2.0
_MIN_TURN_POLL_SECONDS = 0.01
_TRIAL_POLL_SECONDS = 0.1
# What is tried first in place of a script, outside of a transaction; None means that nothing was done.
_IN_ONE_STATEMENT: Mapping[Any, Callable[..., Coroutine[Any, Any, Any]]] = {
    turns.begin_turn: append_rows.begin_free_turn,
    turns.append: append_rows.append,
}
# The statements of one copy see one snapshot. It is that of the transaction: nothing is set for a session.
_BEGIN_SNAPSHOT = "BEGIN ISOLATION LEVEL REPEATABLE READ, READ ONLY"


class PostgresStore(Store):
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
        self._embedder: EmbedderInForce | None = None
        self._has_warned = False
        dsn = url if listen_dsn is None else listen_dsn or None
        self._notifications = Notifications(dsn, {} if dsn is None else connect_options(dsn))

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

    read = reads(read_window)
    summary = reads(read_summary)
    fulltext = TSVECTOR

    def check_usable(self) -> None:
        self._database.check_usable()

    async def claim_next(self, *, owner: str, task: str, seconds: float) -> Lease | float | None:
        self._database.check_usable()
        self._notifications.here().note_look(work_topic(task))
        return await super().claim_next(owner=owner, task=task, seconds=seconds)

    async def wait_for_work(self, *, task: str, seconds: float) -> None:
        self._database.check_usable()
        await self._notifications.here().wait_since_look(work_topic(task), seconds)

    async def use_embedder(self, name: str, dimensions: int) -> int:
        trial = await self._try_pgvector()
        self._embedder = embedder = await self.write_script(vector_rows.use_embedder, name, dimensions, trial)
        if embedder.problem and not self._has_warned:
            self._has_warned = True
            logger.warning(
                "each search by meaning reads all vectors of its scope or conversation, because pgvector "
                "cannot be used: %s",
                embedder.problem,
            )
        return embedder.number

    async def put_vectors(self, blocks: Sequence[VectorBlock], *, embedder: int) -> bool:
        if self._embedder is None or self._embedder.number != embedder:
            return False
        return await super().put_vectors(blocks, embedder=embedder)

    nearest = reads(vector_rows.nearest)

    @property
    def identity(self) -> object:
        return self._database.identity

    async def check(self) -> None:
        await self.repeat_script(probe)

    async def close(self) -> None:
        try:
            await self._database.close()
        finally:
            # After that, waiting tasks are woken and find that the store is closed.
            await self._notifications.close()

    async def _try_pgvector(self) -> vector_rows.Trial:
        """Find out whether the server can compare vectors, once for all processes."""
        trial = await self.write_script(vector_rows.begin_trial)
        with anyio.move_on_after(vector_rows.TRIAL_SECONDS):
            while trial.is_running:
                await anyio.sleep(_TRIAL_POLL_SECONDS)
                trial = await self.write_script(vector_rows.begin_trial)
        if not trial.is_due:
            return trial
        if not await self._database.survives(trial.distance_statement()):
            return await self.write_script(vector_rows.begin_trial)
        await self.write_script(vector_rows.pass_trial, trial)
        return trial

    async def read_script(self, script: Script[P, T], *given: P.args, **options: P.kwargs) -> T:
        async def run(connection: Connection) -> T:
            is_copy = script is export_conversation
            if is_copy:
                await connection.execute(_BEGIN_SNAPSHOT)
            found = await script(PostgresSession(connection, self._embedder), *given, **options)
            if is_copy:
                await connection.execute("COMMIT")
            return found

        return await self._database.read(run)

    async def repeat_script(self, script: Script[P, T], *given: P.args, **options: P.kwargs) -> T:
        return await self.read_script(script, *given, **options)

    async def write_script(self, script: Script[P, T], *given: P.args, **options: P.kwargs) -> T:
        def run(connection: Connection) -> Coroutine[Any, Any, T]:
            return script(PostgresSession(connection, self._embedder), *given, **options)

        statement = _IN_ONE_STATEMENT.get(script)
        if statement is None:
            return await self._database.write(run)
        return await self._database.append(lambda connection: statement(connection, *given, **options), run)
