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
from collections.abc import Sequence
from typing import NamedTuple

import psycopg
from psycopg import sql

from autonomy_ctx.memory.postgres.connection import Connection, fetch_all, fetch_one
from autonomy_ctx.memory.postgres.migrate import LOCK_NUMBER, is_true
from autonomy_ctx.memory.postgres.session import EmbedderInForce, PostgresSession, vector_text
from autonomy_ctx.memory.search_text import RowHit, SearchScope
from autonomy_ctx.memory.sql import vectors as vector_rows
from autonomy_ctx.memory.sql.query import load_statements
from autonomy_ctx.memory.sql.search import read_hits
from autonomy_ctx.memory.store import Key, SearchHit
from autonomy_ctx.memory.vectors import BYTES_PER_NUMBER

_SQL = load_statements("postgres", "vectors")

# Somebody who has begun to try is done within this time.
TRIAL_SECONDS = 5.0


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
        return sql.SQL(_SQL["trial_distance"]).format(schema=sql.Identifier(self.vector_schema or ""))


async def begin_trial(session: PostgresSession) -> Trial:
    """Find out whether the database has pgvector and whether that works; in a transaction."""
    await session.connection.execute(_SQL["lock"], (LOCK_NUMBER,))
    schema = await _find_schema(session.connection)
    if schema is None:
        return Trial(problem=await _missing_because(session.connection))
    [[server]] = await fetch_all(session.connection, _SQL["select_server"])
    found = await fetch_one(session.connection, _SQL["select_trial"], (server,))
    if found is None:
        await session.connection.execute(_SQL["insert_trial"], (server,))
        return Trial(schema, server, is_due=True)
    passed, age = found
    if passed:
        return Trial(schema, server)
    problem = "its distance functions end the server; it was compiled for another processor"
    return Trial(schema, server, is_running=age < TRIAL_SECONDS, problem=problem)


async def pass_trial(session: PostgresSession, trial: Trial) -> None:
    """Note that pgvector works."""
    await session.connection.execute(_SQL["update_trial"], (trial.server,))


async def use_embedder(session: PostgresSession, name: str, dimensions: int, trial: Trial) -> EmbedderInForce:
    """Make an embedder the active one, under a new number; in a transaction."""
    await session.connection.execute(_SQL["lock"], (LOCK_NUMBER,))
    problem = trial.problem
    if not problem and not await is_true(session.connection, _SQL["has_column"]):
        problem = await _add_column(session.connection, trial.vector_schema or "")
    schema = None if problem else trial.vector_schema
    has_halfvec = schema is not None
    number = await vector_rows.use_embedder(session, name, dimensions, has_halfvec=has_halfvec)
    return EmbedderInForce(number, schema, problem)


async def _missing_because(connection: Connection) -> str:
    """Why this database has no pgvector that can be used."""
    if await is_true(connection, _SQL["has_extension"]):
        return "it is older than version 0.7"
    if await is_true(connection, _SQL["is_available"]):
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


async def nearest(
    session: PostgresSession,
    agent: str,
    scope: str,
    vector: bytes,
    *,
    embedder: int,
    conversation: str | None = None,
    limit: int,
) -> list[SearchHit]:
    """The messages of a scope with an agent, or of one conversation, nearest in meaning; best first.

    The score is the cosine. Empty if the embedder is not active.
    """
    if session.embedder is None or session.embedder.number != embedder:
        return []
    search_scope, schema = SearchScope(agent, scope, conversation), session.embedder.vector_schema
    source = sql.SQL(_SQL["scope_vectors"] if conversation is None else _SQL["conversation_vectors"])
    values = session.key_values(Key(agent, scope, conversation or "")) | {"embedder": embedder}
    if schema is not None:
        statement = sql.SQL(_SQL["select_nearest"]).format(schema=sql.Identifier(schema), vectors=source)
        values |= {"vector": vector_text(vector), "limit": limit}
        near = [RowHit(*row) for row in await fetch_all(session.connection, statement, values)]
        return await read_hits(session, search_scope, near)
    # A server without pgvector: compared here.
    statement = sql.SQL(_SQL["select_vectors"]).format(vectors=source)
    async with session.connection.cursor(binary=True) as cursor:
        await cursor.execute(statement, values)
        rows = await cursor.fetchall()
    return await read_hits(session, search_scope, await asyncio.to_thread(_compare, rows, vector, limit))


def _compare(rows: Sequence[tuple[int, int, bytes]], vector: bytes, limit: int) -> list[RowHit]:
    """The nearest of vectors that were read. It takes a while: call it in a thread."""
    # Imported here: it needs numpy.
    from autonomy_ctx.memory.vector_matrix import VectorMatrix

    matrix = VectorMatrix(len(vector) // BYTES_PER_NUMBER)
    matrix.add(rows)
    return matrix.nearest(vector, limit)


async def _find_schema(connection: Connection) -> str | None:
    """The schema of pgvector, if the database has it."""
    found = await fetch_one(connection, _SQL["select_extension"])
    return None if found is None else str(found[0])
