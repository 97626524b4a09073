"""Brings a database file to the schema this version knows, one numbered step after the other."""

from __future__ import annotations

import sqlite3
from functools import cache
from importlib import resources

from autonomy_ctx.errors import SchemaTooNew, StoreUnavailable

# "actx" in ASCII: tells our files from those of other programs.
APPLICATION_ID = 0x61637478


@cache
def steps() -> tuple[tuple[int, str], ...]:
    """All steps as (number, SQL), in order."""
    folder = resources.files("autonomy_ctx.memory") / "schema"
    files = sorted(file.name for file in folder.iterdir() if file.name.endswith(".sql"))
    return tuple((int(name.split("_")[0]), (folder / name).read_text(encoding="utf-8")) for name in files)


def latest() -> int:
    """The schema version this library writes."""
    return steps()[-1][0]


def is_current(connection: sqlite3.Connection) -> bool:
    """Whether there is nothing to set up; asked without a lock."""
    version = connection.execute("PRAGMA user_version").fetchone()[0]
    journal = connection.execute("PRAGMA journal_mode").fetchone()[0]
    return bool(version == latest() and journal == "wal")


def migrate(connection: sqlite3.Connection, path: str) -> None:
    """Run the steps the file does not have yet, all or none. The caller holds the write lock."""
    version = connection.execute("PRAGMA user_version").fetchone()[0]
    if version > latest():
        raise SchemaTooNew(path=path, found=version, known=latest())
    if version == 0:
        _refuse_foreign(connection, path)
    if version == latest():
        return
    connection.execute("BEGIN IMMEDIATE")
    try:
        for number, script in steps():
            if number > version:
                for statement in statements(script):
                    connection.execute(statement)
        connection.execute(f"PRAGMA application_id = {APPLICATION_ID}")
        connection.execute(f"PRAGMA user_version = {latest()}")
        connection.execute("COMMIT")
    except BaseException:
        connection.execute("ROLLBACK")
        raise


def statements(script: str) -> list[str]:
    """A script's statements one by one: `executescript` would commit before the first."""
    found, pending = [], ""
    for line in script.splitlines(keepends=True):
        pending += line
        if sqlite3.complete_statement(pending):
            found.append(pending)
            pending = ""
    return found


def _refuse_foreign(connection: sqlite3.Connection, path: str) -> None:
    if connection.execute("SELECT count(*) FROM sqlite_master").fetchone()[0]:
        raise StoreUnavailable(
            path=path,
            problem="is a database of another program",
            advice="give autonomy_ctx a file of its own; this one was left untouched",
        )
