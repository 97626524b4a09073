"""The transaction of the SQLite store: a batch of jobs in one commit, and the session that a script gets."""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any

from autonomy_ctx.memory.facts import FactsInForce
from autonomy_ctx.memory.processes import has_ended
from autonomy_ctx.memory.sql.query import Query
from autonomy_ctx.memory.sql.session import NOW, insert_rows
from autonomy_ctx.memory.sqlite.fact_cache import FactCache
from autonomy_ctx.memory.sqlite.fulltext import unlist_entries
from autonomy_ctx.memory.sqlite.progress import Progress
from autonomy_ctx.memory.sqlite.vectors import delete_vectors
from autonomy_ctx.memory.store import Head, Key

# An append of a few messages writes 3 to 13 pages of 4 KB.
PROBE_BYTES = 12 * 4096
# SQLite takes no more values in one statement.
_MAX_VALUES = 32_000
_COUNT_COMMIT = "UPDATE progress SET commits = commits + 1, messages = messages + ?"
_SELECT_PROGRESS = "SELECT database, commits, messages FROM progress"


class Transaction:
    """Many jobs in one commit."""

    def __init__(self, connection: sqlite3.Connection) -> None:
        self.connection = connection
        self._changes_before = connection.total_changes
        self.appended = 0
        self.has_deleted = False
        # Called by the writer's thread right after the commit, before anybody learns of it.
        self.when_committed: list[Callable[[], None]] = []
        # Whether this transaction has taken a step of the search index: one is enough for a commit.
        self.has_indexed = False

    def probe(self) -> None:
        """Write as much as an append of ordinary size, so that a disk without room for one refuses it."""
        # Random: SQLite does not write a page again that stays the same.
        self.connection.execute("REPLACE INTO health VALUES (1, randomblob(?))", (PROBE_BYTES,))

    def count(self) -> Progress | None:
        """Count this transaction, as the last thing before its commit; None when it has changed nothing."""
        if self.connection.total_changes == self._changes_before:
            return None
        self.connection.execute(_COUNT_COMMIT, (self.appended,))
        [row] = self.connection.execute(_SELECT_PROGRESS).fetchall()
        return Progress(*row)


class SqliteSession:
    """The session of a script on SQLite. Nothing in it waits."""

    def __init__(
        self,
        connection: sqlite3.Connection,
        clocks: dict[str, Callable[[], float]],
        facts: FactCache,
        identity: object,
        transaction: Transaction | None = None,
    ) -> None:
        self.connection = connection
        self._clocks, self._facts, self.identity = clocks, facts, identity
        self._transaction = transaction

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

    async def insert(self, table: str, columns: Mapping[str, Any], *, returning: str = "") -> list[Any]:
        statement = f"INSERT INTO {table} ({', '.join(columns)}) VALUES "  # noqa: S608  # our names
        places, end = f"({', '.join('?' * len(columns))})", f" RETURNING {returning}" if returning else ""
        found: list[Any] = []
        for rows in insert_rows(columns, _MAX_VALUES):
            values: list[Any] = []
            for row in rows:
                values += row
            if NOW in values:
                now = self._clocks["now"]()
                values = [now if value is NOW else value for value in values]
            all_places = ", ".join([places] * len(rows))
            found += self.connection.execute(f"{statement}{all_places}{end}", values).fetchall()
        if not found:
            return found
        # They grow with each row, and SQLite does not promise an order.
        return sorted(number for (number,) in found)

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
            delete_vectors(self.connection, conversation_id, position)

    def note_appended(self, messages: int) -> None:
        if self._transaction is not None:
            self._transaction.appended += messages

    def note_deletion(self) -> None:
        if self._transaction is not None:
            self._transaction.has_deleted = True

    def known_facts(self, key: Key, conversation_id: int, head: Head) -> FactsInForce | None:
        return self._facts.find(self.identity, key, conversation_id, head)

    def keep_facts(self, key: Key, facts: FactsInForce) -> None:
        if self._transaction is not None:
            self._transaction.when_committed.append(partial(self._facts.keep, key, facts))

    def facts_in_force(self, key: Key, conversation_id: int, head: Head) -> tuple[Any, ...]:
        """The facts that hold, of which only those that are new are read."""
        return self._facts.read(self.connection, self.identity, key, conversation_id, head)
