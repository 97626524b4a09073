"""The transaction of the SQLite store: a batch of jobs in one commit, and the session that a script gets."""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Callable, Sequence
from typing import Any

from autonomy_ctx.memory.processes import has_ended
from autonomy_ctx.memory.sql.query import Query, load_statements
from autonomy_ctx.memory.sql.session import NO_LIMIT, ReadLimit
from autonomy_ctx.memory.sqlite.fulltext import unlist_entries
from autonomy_ctx.memory.sqlite.progress import Progress
from autonomy_ctx.memory.store import Key
from autonomy_ctx.memory.vectors import VectorBlock

# An append of a few messages writes 3 to 13 pages of 4 KB.
PROBE_BYTES = 12 * 4096
_SQL = load_statements("sqlite", "session")


class Transaction:
    """Many jobs in one commit."""

    def __init__(self, connection: sqlite3.Connection) -> None:
        self.connection = connection
        self._changes_before = connection.total_changes
        self.appended = 0
        self.has_deleted = False
        self._has_indexed = False

    def take_index_step(self) -> bool:
        """True for the first step of the search index in this transaction: one is enough for a commit."""
        is_first, self._has_indexed = not self._has_indexed, True
        return is_first

    def probe(self) -> None:
        """Write as much as an append of ordinary size, so that a disk without room for one refuses it."""
        self.connection.execute(_SQL["probe"], (PROBE_BYTES,))

    def count(self) -> Progress | None:
        """Count this transaction, as the last thing before its commit; None when it has changed nothing."""
        if self.connection.total_changes == self._changes_before:
            return None
        self.connection.execute(_SQL["count_commit"], (self.appended,))
        [row] = self.connection.execute(_SQL["select_progress"]).fetchall()
        return Progress(*row)


class SqliteSession:
    """The session of a script on SQLite. Nothing in it waits."""

    def __init__(
        self,
        transaction: Transaction,
        clocks: dict[str, Callable[[], float]],
        identity: object,
        read_limit: ReadLimit = NO_LIMIT,
    ) -> None:
        self.transaction, self.connection = transaction, transaction.connection
        self._clocks, self.identity, self.read_limit = clocks, identity, read_limit

    async def fetch(self, query: Query, **values: Any) -> list[Any]:
        for name in query.clocks:
            values[name] = self._clocks[name]()
        return self.connection.execute(query.sqlite, values).fetchall()

    async def fetch_each(self, query: Query, rows: Sequence[dict[str, Any]]) -> list[list[Any]]:
        return [await self.fetch(query, **values) for values in rows]

    async def execute(self, query: Query, **values: Any) -> int:
        for name in query.clocks:
            values[name] = self._clocks[name]()
        return self.connection.execute(query.sqlite, values).rowcount

    async def execute_many(self, query: Query, rows: Sequence[dict[str, Any]]) -> None:
        self.connection.executemany(query.sqlite, rows)

    def key_values(self, key: Key) -> dict[str, Any]:
        return {"agent": key.agent, "scope": key.scope, "conversation": key.conversation}

    def array(self, values: Sequence[Any]) -> Any:
        return json.dumps(values)

    def index_text(self, text: str) -> str:
        return text

    def has_ended(self, owner: str) -> bool:
        return has_ended(owner)

    async def notify(self, topic: str) -> None:
        """Other processes look at intervals."""

    async def unindex(self, places: Sequence[tuple[int, int | None]]) -> None:
        for conversation_id, position in places:
            unlist_entries(self.connection, conversation_id, position)
            if self.connection.execute(_SQL["delete_vectors"], (conversation_id, position)).rowcount:
                # Who has the vectors of this scope in memory reads them again.
                self.connection.execute(_SQL["count_removal"], (conversation_id,))

    async def put_vectors(self, conversation_id: int, embedder: int, block: VectorBlock) -> None:
        names = (block.key.agent, block.key.scope)
        [(scope_id,)] = self.connection.execute(_SQL["ensure_scope"], names).fetchall()
        rows = [
            (scope_id, embedder, one.vector, conversation_id, one.position, one.message_id)
            for one in block.vectors
        ]
        self.connection.executemany(_SQL["insert_vector"], rows)

    def note_appended(self, messages: int) -> None:
        self.transaction.appended += messages

    def note_deletion(self) -> None:
        self.transaction.has_deleted = True
