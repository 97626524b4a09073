"""Vectors of messages in the PostgreSQL store.

If the database has the extension pgvector, the vectors are in a column of its type, and the server compares
all vectors of the scope or conversation that is searched. Otherwise they are bytes, which each search reads
and compares in this process. The extension is never created here; an administrator does that. A transaction
that blocks a deletion of the same conversation does not block appends.

If pgvector was compiled for another processor, the first computed distance crashes the server. So one
distance is computed once per server, outside of all transactions, before a column of its type is made.
"""

from __future__ import annotations

import asyncio
import struct
from collections.abc import Sequence
from typing import Any, NamedTuple

import psycopg
from psycopg import sql

from autonomy_ctx.memory.encoding import decode_entry
from autonomy_ctx.memory.postgres.connection import Connection, fetch_all, fetch_one
from autonomy_ctx.memory.postgres.migrate import LOCK_NUMBER
from autonomy_ctx.memory.postgres.session import PostgresSession, key_digest
from autonomy_ctx.memory.search_text import RowHit, SearchScope
from autonomy_ctx.memory.sql.log import read_indexed
from autonomy_ctx.memory.store import Key, SearchHit
from autonomy_ctx.memory.vectors import (
    BYTES_PER_NUMBER,
    EmbeddingBlock,
    VectorBlock,
    make_embedding_block,
)

_LOCK = "SELECT pg_advisory_xact_lock(%s)"
_HAS_COLUMN = """
    SELECT EXISTS (
        SELECT 1 FROM pg_catalog.pg_attribute a JOIN pg_catalog.pg_class c ON c.oid = a.attrelid
        JOIN pg_catalog.pg_namespace n ON n.oid = c.relnamespace
        WHERE n.nspname = 'autonomy_ctx' AND c.relname = 'vector' AND a.attname = 'halfvec'
          AND NOT a.attisdropped
    )
"""
# The schema that pgvector is in; its type for half-precision numbers came with version 0.7.
_SELECT_EXTENSION = """
    SELECT n.nspname FROM pg_catalog.pg_extension e
    JOIN pg_catalog.pg_namespace n ON n.oid = e.extnamespace
    JOIN pg_catalog.pg_type t ON t.typnamespace = n.oid AND t.typname = 'halfvec'
    WHERE e.extname = 'vector'
"""
_SELECT_SERVER = """
    SELECT extversion || ' on ' || version() FROM pg_catalog.pg_extension WHERE extname = 'vector'
"""
_SELECT_TRIAL = """
    SELECT passed, autonomy_ctx.now_seconds() - began FROM autonomy_ctx.vector_trial WHERE server = %s
"""
_INSERT_TRIAL = "INSERT INTO autonomy_ctx.vector_trial VALUES (%s, autonomy_ctx.now_seconds(), false)"
_UPDATE_TRIAL = "UPDATE autonomy_ctx.vector_trial SET passed = true WHERE server = %s"
TRIAL_DISTANCE = "SELECT '[1,2,3]'::{schema}.halfvec OPERATOR({schema}.<#>) '[1,2,3]'::{schema}.halfvec"
# Somebody who has begun to try is done within this time.
TRIAL_SECONDS = 5.0
_HAS_EXTENSION = "SELECT EXISTS (SELECT 1 FROM pg_catalog.pg_extension WHERE extname = 'vector')"
_IS_AVAILABLE = "SELECT EXISTS (SELECT 1 FROM pg_catalog.pg_available_extensions WHERE name = 'vector')"
_SELECT_EMBEDDER = "SELECT number, name, dimensions, has_halfvec FROM autonomy_ctx.embedder"
_IS_IN_FORCE = "SELECT EXISTS (SELECT 1 FROM autonomy_ctx.embedder WHERE number = %s)"
_SELECT_UNEMBEDDED = """
    SELECT c.id, c.conversation, c.head, coalesce(p.embedded, 0)
    FROM autonomy_ctx.conversation c
    LEFT JOIN autonomy_ctx.vector_progress p ON p.conversation_id = c.id AND p.embedder = %(embedder)s
    WHERE c.has_messages AND {condition} AND c.head > coalesce(p.embedded, 0)
    ORDER BY c.id LIMIT %(limit)s
"""
_SELECT_UNEMBEDDED_OF_SCOPE = _SELECT_UNEMBEDDED.format(
    condition="c.scope = %(scope)s AND c.agent = %(agent)s"
)
_SELECT_UNEMBEDDED_OF_CONVERSATION = _SELECT_UNEMBEDDED.format(condition="c.key = %(key)s")
_SELECT_ROWS = """
    SELECT position, coalesce(long_id, id), created, tokens, counter, body FROM autonomy_ctx.message
    WHERE conversation_id = %s AND position > %s ORDER BY position LIMIT %s
"""
# This lock lets appends go on; a deletion has to wait, or has taken its messages before.
_LOCK_CONVERSATIONS = """
    SELECT key, id FROM autonomy_ctx.conversation WHERE key = ANY (%s) ORDER BY id FOR KEY SHARE
"""
# Of several that embed the same messages one moves the mark; the others wait, and find it moved.
_MOVE_PROGRESS = """
    INSERT INTO autonomy_ctx.vector_progress AS p (conversation_id, embedder, embedded)
    VALUES (%(id)s, %(embedder)s, %(end)s)
    ON CONFLICT (conversation_id) DO UPDATE SET embedder = excluded.embedder, embedded = excluded.embedded
    WHERE CASE WHEN p.embedder = excluded.embedder THEN p.embedded ELSE 0 END = %(start)s
    RETURNING conversation_id
"""
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
# How many vectors of an embedder before it one transaction takes out.
_OUTDATED_ROWS = 256
_DELETE_OUTDATED = """
    DELETE FROM autonomy_ctx.vector v USING (
        SELECT conversation_id, position FROM autonomy_ctx.vector WHERE embedder < %s LIMIT %s
        FOR UPDATE SKIP LOCKED
    ) d WHERE v.conversation_id = d.conversation_id AND v.position = d.position
"""
_SCOPE_VECTORS = """
    autonomy_ctx.conversation c JOIN autonomy_ctx.vector v ON v.conversation_id = c.id
    WHERE c.scope = %(scope)s AND c.agent = %(agent)s AND c.has_messages
"""
# A fork has those of its ranges.
_CONVERSATION_VECTORS = """
    autonomy_ctx.conversation c LEFT JOIN autonomy_ctx.shared_range r ON r.conversation_id = c.id
    JOIN autonomy_ctx.vector v ON v.conversation_id = coalesce(r.source_id, c.id)
        AND (r.source_id IS NULL OR v.position BETWEEN r.first AND r.last)
    WHERE c.key = %(key)s
"""
# Of vectors of length 1 the inner product is the cosine; pgvector gives it with the other sign.
_SELECT_NEAREST = """
    SELECT hit.conversation, -hit.distance, hit.position,
           coalesce(m.long_id, m.id), m.created, m.tokens, m.counter, m.body
    FROM (
        SELECT c.conversation, v.conversation_id, v.position,
               v.halfvec OPERATOR({schema}.<#>) %(vector)s::{schema}.halfvec AS distance
        FROM {vectors} AND v.embedder = %(embedder)s
          AND EXISTS (SELECT 1 FROM autonomy_ctx.embedder WHERE number = %(embedder)s)
        ORDER BY distance, v.position DESC LIMIT %(limit)s
    ) hit
    JOIN autonomy_ctx.message m ON m.conversation_id = hit.conversation_id AND m.position = hit.position
    ORDER BY hit.distance, hit.position DESC
"""
_SELECT_VECTORS = """
    SELECT c.conversation, v.conversation_id, v.position, v.vector
    FROM {vectors} AND v.embedder = %(embedder)s
      AND EXISTS (SELECT 1 FROM autonomy_ctx.embedder WHERE number = %(embedder)s)
"""


class Trial(NamedTuple):
    """A test of pgvector on a server: where it is, whether it works, or why it cannot be used."""

    vector_schema: str | None = None
    server: str = ""
    # Whether this is the one to try it now, or somebody else is at it.
    is_due: bool = False
    is_running: bool = False
    problem: str = ""

    def distance_statement(self) -> sql.Composed:
        """The statement that computes a distance."""
        return sql.SQL(TRIAL_DISTANCE).format(schema=sql.Identifier(self.vector_schema or ""))


class EmbedderInForce(NamedTuple):
    """The number of an embedder, and the schema of pgvector where that is used."""

    number: int
    vector_schema: str | None
    # Why it is not used.
    problem: str = ""


async def begin_trial(connection: Connection) -> Trial:
    """Find out whether the database has pgvector and whether that works; in a transaction."""
    await connection.execute(_LOCK, (LOCK_NUMBER,))
    schema = await _find_schema(connection)
    if schema is None:
        return Trial(problem=await _missing_because(connection))
    [[server]] = await fetch_all(connection, _SELECT_SERVER)
    found = await fetch_one(connection, _SELECT_TRIAL, (server,))
    if found is None:
        await connection.execute(_INSERT_TRIAL, (server,))
        return Trial(schema, server, is_due=True)
    passed, age = found
    if passed:
        return Trial(schema, server)
    problem = "its distance functions end the server; it was compiled for another processor"
    return Trial(schema, server, is_running=age < TRIAL_SECONDS, problem=problem)


async def pass_trial(connection: Connection, trial: Trial) -> None:
    """Note that pgvector works."""
    await connection.execute(_UPDATE_TRIAL, (trial.server,))


async def use_embedder(connection: Connection, name: str, dimensions: int, trial: Trial) -> EmbedderInForce:
    """Make an embedder the active one, under a new number; in a transaction."""
    await connection.execute(_LOCK, (LOCK_NUMBER,))
    problem = trial.problem
    if not problem and not await _is_true(connection, _HAS_COLUMN):
        problem = await _add_column(connection, trial.vector_schema or "")
    schema = None if problem else trial.vector_schema
    found = await fetch_one(connection, _SELECT_EMBEDDER)
    wanted = (name, dimensions, schema is not None)
    if found is None:
        await connection.execute("INSERT INTO autonomy_ctx.embedder VALUES (1, %s, %s, %s)", wanted)
        return EmbedderInForce(1, schema, problem)
    number = int(found[0])
    if found[1:] != wanted:
        number += 1
        await connection.execute(
            "UPDATE autonomy_ctx.embedder SET number = %s, name = %s, dimensions = %s, has_halfvec = %s",
            (number, *wanted),
        )
    return EmbedderInForce(number, schema, problem)


async def _missing_because(connection: Connection) -> str:
    """Why this database has no pgvector that can be used."""
    if await _is_true(connection, _HAS_EXTENSION):
        return "it is older than version 0.7"
    if await _is_true(connection, _IS_AVAILABLE):
        return "this database does not have it; let an administrator run CREATE EXTENSION vector"
    return "the server does not have it"


async def _add_column(connection: Connection, schema: str) -> str:
    """Have a column of pgvector's type; why that is not possible, or nothing."""
    await connection.execute("SAVEPOINT pgvector")
    statement = sql.SQL("ALTER TABLE autonomy_ctx.vector ADD COLUMN halfvec {}.halfvec")
    try:
        await connection.execute(statement.format(sql.Identifier(schema)))
    except psycopg.errors.InsufficientPrivilege:
        await connection.execute("ROLLBACK TO SAVEPOINT pgvector")
        return "this user may not change the tables, or may not use the schema of pgvector"
    return ""


async def read_unembedded(
    connection: Connection, search_scope: SearchScope, embedder: int, limit: int
) -> list[EmbeddingBlock] | None:
    """The next blocks without vectors; None if the embedder is not active."""
    if not await _is_true(connection, _IS_IN_FORCE, (embedder,)):
        return None
    agent, scope, conversation = search_scope
    values: dict[str, Any] = {"embedder": embedder, "limit": limit, "agent": agent, "scope": scope}
    statement = _SELECT_UNEMBEDDED_OF_SCOPE
    if conversation is not None:
        statement = _SELECT_UNEMBEDDED_OF_CONVERSATION
        values["key"] = key_digest(Key(agent, scope, conversation))
    blocks: list[EmbeddingBlock] = []
    for conversation_id, name, head, start in await fetch_all(connection, statement, values):
        rows = await fetch_all(connection, _SELECT_ROWS, (conversation_id, start, limit + 1))
        blocks.append(make_embedding_block(Key(agent, scope, name), start, head, rows, limit))
        limit -= len(blocks[-1].texts)
        if limit <= 0:
            break
    return blocks


async def put_vectors(
    connection: Connection, blocks: Sequence[VectorBlock], embedder: EmbedderInForce
) -> bool:
    """Store vectors and the progress, if their embedder is active; in a transaction."""
    if not await _is_true(connection, _IS_IN_FORCE, (embedder.number,)):
        return False
    digests = {block.key: key_digest(block.key) for block in blocks}
    found = await fetch_all(connection, _LOCK_CONVERSATIONS, (list(digests.values()),))
    ids = {bytes(digest): number for digest, number in found}
    # In one order for all, as the marks are locked too.
    known = [(ids[digests[block.key]], block) for block in blocks if digests[block.key] in ids]
    for conversation_id, block in sorted(known, key=lambda one: one[0]):
        place = {
            "id": conversation_id,
            "embedder": embedder.number,
            "start": block.start,
            "end": block.end,
        }
        moved = await fetch_one(connection, _MOVE_PROGRESS, place)
        if moved is not None and block.vectors:
            await connection.execute(*_insert_statement(embedder, conversation_id, block))
    await connection.execute(_DELETE_OUTDATED, (embedder.number, _OUTDATED_ROWS))
    return True


async def nearest(
    connection: Connection, search_scope: SearchScope, vector: bytes, embedder: EmbedderInForce, limit: int
) -> list[SearchHit]:
    """The nearest messages, as the server compares them."""
    assert embedder.vector_schema is not None
    statement = sql.SQL(_SELECT_NEAREST).format(
        schema=sql.Identifier(embedder.vector_schema), vectors=_source_of(search_scope)
    )
    values = _search_values(search_scope, embedder) | {"vector": _vector_text(vector), "limit": limit}
    rows = await fetch_all(connection, statement, values)
    return [
        SearchHit(conversation=name, position=row[0], message=decode_entry(*row).message, score=score)
        for name, score, *row in rows
    ]


async def nearest_by_bytes(
    connection: Connection, search_scope: SearchScope, vector: bytes, embedder: EmbedderInForce, limit: int
) -> list[SearchHit]:
    """The nearest messages, compared here, for a server without pgvector."""
    statement = sql.SQL(_SELECT_VECTORS).format(vectors=_source_of(search_scope))
    async with connection.cursor(binary=True) as cursor:
        await cursor.execute(statement, _search_values(search_scope, embedder))
        rows = await cursor.fetchall()
    found = await asyncio.to_thread(_compare, rows, vector, limit)
    names = {number: name for name, number, _, _ in rows}
    places = [(names[one.conversation_id], one.position) for one in found]
    read = await read_indexed(PostgresSession(connection), search_scope.agent, search_scope.scope, places)
    messages = {(name, position): message for name, position, message in read}
    return [
        SearchHit(conversation=place[0], position=place[1], message=messages[place], score=one.score)
        for one, place in zip(found, places, strict=True)
        # It may have been deleted meanwhile.
        if place in messages
    ]


def _compare(rows: Sequence[tuple[str, int, int, bytes]], vector: bytes, limit: int) -> list[RowHit]:
    """The nearest of vectors that were read. It takes a while: call it in a thread."""
    # Imported here: it needs numpy.
    from autonomy_ctx.memory.vector_matrix import VectorMatrix

    matrix = VectorMatrix(len(vector) // BYTES_PER_NUMBER)
    matrix.add([(number, position, one) for _, number, position, one in rows])
    return matrix.nearest(vector, limit)


def _insert_statement(
    embedder: EmbedderInForce, conversation_id: int, block: VectorBlock
) -> tuple[sql.Composed, dict[str, Any]]:
    """The statement that stores the vectors of a block in the column of their type, and its values."""
    is_native = embedder.vector_schema is not None
    made: list[Any] = [_vector_text(one.vector) if is_native else one.vector for one in block.vectors]
    statement = _INSERT_VECTORS.format(
        column=sql.Identifier("halfvec" if is_native else "vector"),
        type=sql.Identifier(embedder.vector_schema, "halfvec")
        if embedder.vector_schema is not None
        else sql.SQL("bytea"),
        given=sql.SQL("text" if is_native else "bytea"),
    )
    return statement, {
        "id": conversation_id,
        "embedder": embedder.number,
        "positions": [one.position for one in block.vectors],
        "ids": [one.message_id for one in block.vectors],
        "vectors": made,
    }


def _source_of(search_scope: SearchScope) -> sql.SQL:
    return sql.SQL(_SCOPE_VECTORS if search_scope.conversation is None else _CONVERSATION_VECTORS)


def _search_values(search_scope: SearchScope, embedder: EmbedderInForce) -> dict[str, Any]:
    agent, scope, conversation = search_scope
    values: dict[str, Any] = {"agent": agent, "scope": scope, "embedder": embedder.number}
    if conversation is not None:
        values["key"] = key_digest(Key(agent, scope, conversation))
    return values


def _vector_text(vector: bytes) -> str:
    """A vector as pgvector reads it."""
    numbers = struct.unpack(f"<{len(vector) // BYTES_PER_NUMBER}e", vector)
    return f"[{','.join(map(repr, numbers))}]"


async def _find_schema(connection: Connection) -> str | None:
    """The schema of pgvector, if the database has it."""
    found = await fetch_one(connection, _SELECT_EXTENSION)
    return None if found is None else str(found[0])


async def _is_true(connection: Connection, question: str, values: Sequence[object] = ()) -> bool:
    found = await fetch_one(connection, question, values)
    return found is not None and bool(found[0])
