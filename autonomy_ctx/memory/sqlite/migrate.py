"""Schema migration: brings a database file to the current version by numbered SQL scripts."""

from __future__ import annotations

import re
import sqlite3
from contextlib import suppress
from functools import partial

from autonomy_ctx.errors import SchemaTooNew, StoreUnavailable
from autonomy_ctx.memory.sql.query import load_steps

# "actx" in ASCII: tells our files from those of other programs.
APPLICATION_ID = 0x61637478


# All steps as (number, SQL), in order.
migration_steps = partial(load_steps, "sqlite")


def latest_version() -> int:
    """The schema version this library writes."""
    return migration_steps()[-1][0]


def is_current(connection: sqlite3.Connection, path: str) -> bool:
    """True when there is nothing to set up; raises, untouched, for a file that is not ours to write."""
    # In one transaction: another process may be making the tables right now.
    connection.execute("BEGIN")
    try:
        version, application = (
            _pragma_value(connection, "user_version"),
            _pragma_value(connection, "application_id"),
        )
        tables = connection.execute("SELECT 1 FROM sqlite_master").fetchone()
    finally:
        connection.execute("COMMIT")
    if application != APPLICATION_ID and tables:
        raise StoreUnavailable(
            path=path,
            problem="is a database of another program",
            advice="give autonomy_ctx a file of its own; this one was left untouched",
        )
    if version > latest_version():
        raise SchemaTooNew(path=path, found=version, known=latest_version())
    return version == latest_version() and connection.execute("PRAGMA journal_mode").fetchone()[0] == "wal"


def migrate(connection: sqlite3.Connection, path: str) -> None:
    """Run the steps the file does not have yet, all or none. The caller holds the write lock."""
    if is_current(connection, path):
        return
    # Waits as long as the connection may; the change of mode itself gives up at once.
    connection.execute("BEGIN IMMEDIATE")
    connection.execute("ROLLBACK")
    connection.execute("PRAGMA journal_mode = WAL")
    version = _pragma_value(connection, "user_version")
    connection.execute("BEGIN IMMEDIATE")
    try:
        for number, script in migration_steps():
            if number > version:
                for statement in split_statements(script):
                    connection.execute(statement)
        connection.execute(f"PRAGMA application_id = {APPLICATION_ID}")
        connection.execute(f"PRAGMA user_version = {latest_version()}")
        connection.execute("COMMIT")
    except BaseException:
        # SQLite has rolled back by itself after some errors; asking again would hide the first one.
        with suppress(sqlite3.Error):
            connection.execute("ROLLBACK")
        raise


def split_statements(script: str) -> list[str]:
    """A script's statements one by one: `executescript` would commit before the first."""
    found, pending = [], ""
    for piece in re.split("(;)", script):
        pending += piece
        if sqlite3.complete_statement(pending):
            found.append(pending)
            pending = ""
    return [*found, pending] if pending.strip() else found


def _pragma_value(connection: sqlite3.Connection, pragma: str) -> int:
    return int(connection.execute(f"PRAGMA {pragma}").fetchone()[0])
