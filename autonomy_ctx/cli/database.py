"""Looks at a database without changing it: its kind, its schema, and what a user may do.

Opening a `Memory` makes tables where there are none and upgrades old ones. Commands that only read look here
first.
"""

from __future__ import annotations

import os
import sqlite3
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, closing, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any
from uuid import uuid4

import anyio

from autonomy_ctx.memory.sqlite.migrate import APPLICATION_ID

if TYPE_CHECKING:
    import psycopg

# An SQLite file begins with a header of this size, and the header with these bytes.
HEADER_SIZE, MAGIC = 100, b"SQLite format 3\0"
# A connection is made, and a notification arrives, within so many seconds.
SERVER_SECONDS, NOTIFICATION_SECONDS = 10.0, 2.0
_SELECT_RIGHTS = """
    SELECT c.relname, bool_and(has_table_privilege(c.oid, wanted.name))
    FROM pg_catalog.pg_class c
    JOIN pg_catalog.pg_namespace n ON n.oid = c.relnamespace
    CROSS JOIN (VALUES ('SELECT'), ('INSERT'), ('UPDATE'), ('DELETE')) AS wanted (name)
    WHERE n.nspname = 'autonomy_ctx' AND c.relkind IN ('r', 'p')
    GROUP BY c.relname ORDER BY c.relname
"""


def sqlite_schema_version(path: Path) -> int | None:
    """The schema version of an SQLite file of ours; None when it is none.

    It leaves nothing behind: SQLite would make files beside a database that it opens.
    """
    try:
        if not path.is_file():
            return None
        with path.open("rb") as file:
            header = file.read(HEADER_SIZE)
    except OSError:
        return None
    if len(header) < HEADER_SIZE or not header.startswith(MAGIC):
        return None
    application, version = int.from_bytes(header[68:72], "big"), int.from_bytes(header[60:64], "big")
    if not _has_open_log(path):
        return version if application == APPLICATION_ID else None
    # The header lags behind the write-ahead log. A damaged file is left to those who open it.
    with suppress(sqlite3.Error), closing(connect_read_only(path)) as found:
        [[application]] = found.execute("PRAGMA application_id").fetchall()
        [[version]] = found.execute("PRAGMA user_version").fetchall()
    return version if application == APPLICATION_ID else None


def _has_open_log(path: Path) -> bool:
    """Tell whether there is a write-ahead log with commits, and the index that a reader of it needs."""
    try:
        return os.stat(f"{path}-wal").st_size > 0 and os.path.exists(f"{path}-shm")
    except OSError:
        return False


def connect_read_only(path: Path) -> sqlite3.Connection:
    """A connection that cannot change the file."""
    return sqlite3.connect(f"{path.absolute().as_uri()}?mode=ro", uri=True)


@dataclass(frozen=True, slots=True, kw_only=True)
class ServerState:
    """The state of a PostgreSQL database, and what the user of the URL may do there."""

    # Without user and password.
    name: str
    server_version: int
    # None where there are no tables of ours yet.
    schema_version: int | None
    encoding: str
    is_behind_pooler: bool
    may_create: bool
    # Tables of ours that the user may not read and write.
    refused_tables: tuple[str, ...]


async def read_server_state(url: str) -> ServerState:
    """Look at a PostgreSQL database; the error of the store when it cannot be reached."""
    from autonomy_ctx.memory.postgres.errors import server_name
    from autonomy_ctx.memory.postgres.migrate import read_version

    async with _connect(url) as connection:
        version = await read_version(connection)
        [encoding] = await _fetch(connection, "SHOW server_encoding")
        [process] = await _fetch(connection, "SELECT pg_backend_pid()")
        [may_create] = await _fetch(connection, "SELECT has_database_privilege(current_database(), 'CREATE')")
        tables = await (await connection.execute(_SELECT_RIGHTS)).fetchall()
        return ServerState(
            name=server_name(url),
            server_version=connection.info.server_version,
            schema_version=None if version is None else version[0],
            encoding=encoding,
            # A pooler tells of a process of its own making.
            is_behind_pooler=process != connection.info.backend_pid,
            may_create=may_create,
            refused_tables=tuple(name for name, is_allowed in tables if not is_allowed),
        )


async def hears_notifications(url: str) -> bool:
    """Tell whether a connection hears another one, which it does not behind most poolers."""
    from psycopg import sql

    channel = f"autonomy_ctx_doctor_{uuid4().hex}"
    async with _connect(url) as listener, _connect(url) as speaker:
        await listener.execute(sql.SQL("LISTEN {}").format(sql.Identifier(channel)))
        await speaker.execute("SELECT pg_notify(%s, '')", (channel,))
        async for _ in listener.notifies(timeout=NOTIFICATION_SECONDS, stop_after=1):
            return True
    return False


@asynccontextmanager
async def _connect(url: str) -> AsyncIterator[psycopg.AsyncConnection[Any]]:
    try:
        import psycopg
    except ImportError as error:
        raise ImportError(f"PostgreSQL needs {error.name}: pip install 'autonomy-ctx[postgres]'") from None
    from autonomy_ctx.memory.postgres.connection import connect_options
    from autonomy_ctx.memory.postgres.errors import outage_error, server_name, translate

    name = server_name(url)
    try:
        with anyio.fail_after(SERVER_SECONDS):
            connection = await psycopg.AsyncConnection.connect(url, **connect_options(url))
        async with connection:
            yield connection
    except TimeoutError:
        raise outage_error(name, "the server did not answer", SERVER_SECONDS) from None
    except psycopg.Error as error:
        raise translate(error, name, SERVER_SECONDS) from None


async def _fetch(connection: psycopg.AsyncConnection[Any], query: Any) -> Any:
    return await (await connection.execute(query)).fetchone()
