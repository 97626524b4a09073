"""The session that a script gets on PostgreSQL: each statement is a wait for the server."""

from __future__ import annotations

import struct
from collections.abc import Sequence
from hashlib import sha256
from typing import Any, NamedTuple, TypeAlias

import psycopg
from psycopg import sql

from autonomy_ctx.memory.sql.query import Query
from autonomy_ctx.memory.sql.session import NO_LIMIT
from autonomy_ctx.memory.store import Key
from autonomy_ctx.memory.vectors import BYTES_PER_NUMBER, VectorBlock

Connection: TypeAlias = "psycopg.AsyncConnection[Any]"

CHANNEL = "autonomy_ctx"
# Longer texts are in an index by their beginning and a digest: PostgreSQL indexes at most 2,704 bytes.
MAX_INDEX_COLUMNS_BYTES = 250


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


# A position is never used again, so what is there under the same id is the same message.
_INSERT_VECTORS = sql.SQL(
    """
    INSERT INTO autonomy_ctx.vector (conversation_id, position, embedder, {column})
    SELECT m.conversation_id, m.position, %(embedder)s, new.vector::{type}
    FROM unnest(%(positions)s::int8[], %(ids)s::text[], %(vectors)s::{given}[]) AS new (position, id, vector)
    JOIN autonomy_ctx.message m ON m.conversation_id = %(id)s AND m.position = new.position
        AND coalesce(m.long_id, m.id) = new.id
    ON CONFLICT (conversation_id, position)
    DO UPDATE SET embedder = excluded.embedder, {column} = excluded.{column}
    """
)


class EmbedderInForce(NamedTuple):
    """The number of an embedder, and the schema of pgvector where that is used."""

    number: int
    vector_schema: str | None
    # Why it is not used.
    problem: str = ""


def vector_text(vector: bytes) -> str:
    """A vector as pgvector reads it."""
    numbers = struct.unpack(f"<{len(vector) // BYTES_PER_NUMBER}e", vector)
    return f"[{','.join(map(repr, numbers))}]"


class PostgresSession:
    """A session on a connection in autocommit mode, perhaps with an open transaction."""

    # No read is small enough not to wait for the server.
    read_limit = NO_LIMIT

    def __init__(self, connection: Connection, embedder: EmbedderInForce | None = None) -> None:
        self.connection, self.embedder = connection, embedder

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

    async def put_vectors(self, conversation_id: int, embedder: int, block: VectorBlock) -> None:
        schema = None if self.embedder is None else self.embedder.vector_schema
        is_native = schema is not None
        statement = _INSERT_VECTORS.format(
            column=sql.Identifier("halfvec" if is_native else "vector"),
            type=sql.SQL("bytea") if schema is None else sql.Identifier(schema, "halfvec"),
            given=sql.SQL("text" if is_native else "bytea"),
        )
        values = {
            "id": conversation_id,
            "embedder": embedder,
            "positions": [one.position for one in block.vectors],
            "ids": [one.message_id for one in block.vectors],
            "vectors": [vector_text(one.vector) if is_native else one.vector for one in block.vectors],
        }
        await self.connection.execute(statement, values)

    def note_appended(self, messages: int) -> None:
        """Nothing is counted: the server does not lose what it has committed."""

    def note_deletion(self) -> None:
        """The server sees to it."""
