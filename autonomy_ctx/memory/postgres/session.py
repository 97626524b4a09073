"""The session that a script gets on PostgreSQL: each statement is a wait for the server."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from hashlib import sha256
from typing import Any, TypeAlias

import psycopg

from autonomy_ctx.memory.facts import FactsInForce
from autonomy_ctx.memory.sql.query import Query
from autonomy_ctx.memory.sql.session import NOW, insert_rows
from autonomy_ctx.memory.store import Head, Key

Connection: TypeAlias = "psycopg.AsyncConnection[Any]"

CHANNEL = "autonomy_ctx"
# Longer texts are in an index by their beginning and a digest: PostgreSQL indexes at most 2,704 bytes.
MAX_INDEX_COLUMNS_BYTES = 250
# PostgreSQL takes no more values in one statement.
_MAX_VALUES = 65_000
# The columns that are in an index, and that have all of a long text.
_INDEX_COLUMNS = {"message": ("id", "long_id"), "record": ("name", "long_name")}


def key_digest(key: Key) -> bytes:
    """A key to find a conversation by. Names have no NUL, so no two keys join to the same text."""
    return sha256("\0".join(key).encode()).digest()


def index_text(text: str) -> str:
    """A text that fits into an index: itself, or for a long one its beginning and its digest.

    The latter is longer than any text that stands for itself.
    """
    encoded = text.encode()
    if len(encoded) <= MAX_INDEX_COLUMNS_BYTES:
        return text
    return f"{text[:MAX_INDEX_COLUMNS_BYTES]}:{sha256(encoded).hexdigest()}"


def long_text(text: str) -> str | None:
    """The text, if it does not fit into an index."""
    return None if index_text(text) == text else text


class PostgresSession:
    """A session on a connection in autocommit mode, perhaps with an open transaction."""

    def __init__(self, connection: Connection) -> None:
        self.connection = connection

    async def fetch(self, query: Query, **values: Any) -> list[Any]:
        return await (await self.connection.execute(query.postgres, values)).fetchall()

    async def fetch_each(self, query: Query, rows: Sequence[dict[str, Any]]) -> list[list[Any]]:
        if len(rows) < 2 or not psycopg.Pipeline.is_supported():
            return [await self.fetch(query, **values) for values in rows]
        async with self.connection.pipeline():
            cursors = [await self.connection.execute(query.postgres, values) for values in rows]
        return [await cursor.fetchall() for cursor in cursors]

    async def execute(self, query: Query, **values: Any) -> int:
        return (await self.connection.execute(query.postgres, values)).rowcount

    async def execute_many(self, query: Query, rows: Sequence[dict[str, Any]]) -> None:
        if rows:
            await self.connection.cursor().executemany(query.postgres, rows)

    async def insert(self, table: str, columns: Mapping[str, Any], *, returning: str = "") -> list[Any]:
        columns = dict(columns)
        if table == "record":
            del columns["size"]
        if table in _INDEX_COLUMNS:
            short, long = _INDEX_COLUMNS[table]
            texts = columns[short]
            columns[short], columns[long] = list(map(index_text, texts)), list(map(long_text, texts))
        start = f"INSERT INTO autonomy_ctx.{table} ({', '.join(columns)}) VALUES "  # noqa: S608  # our names
        end = f" RETURNING {returning}" if returning else ""
        found: list[Any] = []
        for rows in insert_rows(columns, _MAX_VALUES):
            places = ", ".join(f"({', '.join(map(_place, row))})" for row in rows)
            values = [value for row in rows for value in row if value is not NOW]
            cursor = await self.connection.execute(f"{start}{places}{end}", values)
            found += await cursor.fetchall() if returning else []
        return [number for (number,) in found]

    def key_values(self, key: Key) -> dict[str, Any]:
        return {
            "key": key_digest(key),
            "agent": key.agent,
            "scope": key.scope,
            "conversation": key.conversation,
        }

    def array(self, values: Sequence[Any]) -> Any:
        return list(values)

    def index_text(self, text: str) -> str:
        return index_text(text)

    def has_ended(self, owner: str) -> bool:
        """Processes of other machines are not known here."""
        return False

    async def notify(self, topic: str) -> None:
        await self.connection.execute("SELECT pg_notify(%s, %s)", (CHANNEL, topic))

    async def unindex(self, places: Sequence[tuple[int, int | None]]) -> None:
        for table in ("search_entry", "vector"):
            await self.connection.execute(
                f"""
                DELETE FROM autonomy_ctx.{table} t
                USING unnest(%s::int8[], %s::int8[]) AS d (conversation_id, position)
                WHERE t.conversation_id = d.conversation_id AND t.position = coalesce(d.position, t.position)
                """,  # noqa: S608  # our names
                ([one for one, _ in places], [position for _, position in places]),
            )

    def note_appended(self, messages: int) -> None:
        """Nothing is counted: the server does not lose what it has committed."""

    def note_deletion(self) -> None:
        """The server sees to it."""

    def known_facts(self, key: Key, conversation_id: int, head: Head) -> FactsInForce | None:
        return None

    def keep_facts(self, key: Key, facts: FactsInForce) -> None:
        """Facts are read each time: other processes change them."""


def _place(value: object) -> str:
    return "autonomy_ctx.now_seconds()" if value is NOW else "%s"
