"""Schema migration: brings a database to the current version by numbered SQL scripts, in one transaction."""

from __future__ import annotations

from functools import partial
from typing import Any

import psycopg

from autonomy_ctx.errors import SchemaTooNew, StoreUnavailable
from autonomy_ctx.memory.sql.query import load_statements, load_steps

MIN_SERVER_VERSION = 130000
# "actx" in ASCII. One process migrates, the others wait; the lock goes with the transaction.
LOCK_NUMBER = 0x61637478
_SQL = load_statements("postgres", "migrate")


# All steps as (number, SQL), in order.
migration_steps = partial(load_steps, "postgres")


def latest_version() -> int:
    """The schema version this library writes."""
    return migration_steps()[-1][0]


async def prepare_schema(
    connection: psycopg.AsyncConnection[Any], path: str, *, create: bool, begin: str
) -> str:
    """Make or upgrade the tables where that is needed; the name that the database was given at first.

    Only `create` may make them: in place of tables that have vanished, history would silently start again.
    `begin` begins a transaction in which what others have made while this one waited is seen.
    """
    found = await read_version(connection)
    if found is None and not create:
        raise StoreUnavailable(
            path=path,
            problem="the tables of autonomy_ctx are gone",
            advice="restore a backup; nothing is written to new, empty tables in their place",
        )
    if found is None or found[0] < latest_version():
        await connection.execute(begin)
        try:
            await connection.execute("SELECT pg_advisory_xact_lock(%s)", (LOCK_NUMBER,))
            await _migrate(connection, path)
        except BaseException:
            await connection.rollback()
            raise
        await connection.execute("COMMIT")
        found = await read_version(connection)
        assert found is not None
    version, database = found
    if version > latest_version():
        raise SchemaTooNew(path=path, found=version, known=latest_version())
    return database


async def _migrate(connection: psycopg.AsyncConnection[Any], path: str) -> None:
    """Run the steps that the database does not have yet, all or none."""
    found = await read_version(connection)
    if found is None:
        await _check_server(connection, path)
        # Who may create tables in a schema that was made for them need not be able to create schemas.
        if not await is_true(connection, _SQL["has_schema"]):
            await connection.execute("CREATE SCHEMA autonomy_ctx")
        await connection.execute(_SQL["create_version"])
    version = 0 if found is None else found[0]
    for number, script in migration_steps():
        if number > version:
            await connection.execute(script)
    await connection.execute(
        "UPDATE autonomy_ctx.schema_version SET version = greatest(version, %s)", (latest_version(),)
    )


async def read_version(connection: psycopg.AsyncConnection[Any]) -> tuple[int, str] | None:
    """The version of the tables, and the database's name; None where there are none yet."""
    if not await is_true(connection, _SQL["has_tables"]):
        return None
    row = await (await connection.execute(_SQL["select_version"])).fetchone()
    return None if row is None else (row[0], row[1])


async def is_true(connection: psycopg.AsyncConnection[Any], question: str) -> bool:
    """The answer to a question of one row."""
    row = await (await connection.execute(question)).fetchone()
    return row is not None and bool(row[0])


async def _check_server(connection: psycopg.AsyncConnection[Any], path: str) -> None:
    """Refuse a server or a database that cannot hold what will be stored."""
    if connection.info.server_version < MIN_SERVER_VERSION:
        raise StoreUnavailable(
            path=path,
            problem=f"is PostgreSQL {connection.info.server_version // 10000}, which is too old",
            advice=f"use version {MIN_SERVER_VERSION // 10000} or a later one",
        )
    [encoding] = await (await connection.execute("SHOW server_encoding")).fetchone() or [""]
    if encoding != "UTF8":
        raise StoreUnavailable(
            path=path,
            problem=f"the database has the encoding {encoding}, which cannot hold every text",
            advice="create it with ENCODING 'UTF8'",
        )
