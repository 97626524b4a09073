"""The schema: numbered steps, and a file that is always as if it had been made today."""

from __future__ import annotations

import asyncio
import sqlite3
import subprocess
import sys
from collections.abc import Iterator
from contextlib import closing
from importlib import resources
from pathlib import Path

import pytest

from autonomy_ctx import Memory
from autonomy_ctx.errors import SchemaTooNew, StoreUnavailable
from autonomy_ctx.memory.sqlite.migrate import (
    APPLICATION_ID,
    latest_version,
    migrate,
    migration_steps,
    split_statements,
)
from autonomy_ctx.memory.store import Lease, StoredSegment
from autonomy_ctx.stores import Head
from autonomy_ctx.testing import MAIN, make_message

VERSIONS = range(latest_version() + 1)


@pytest.fixture
def connection(tmp_path: Path) -> Iterator[sqlite3.Connection]:
    with closing(sqlite3.connect(tmp_path / "memory.db", isolation_level=None)) as made:
        yield made


def bring_to(connection: sqlite3.Connection, version: int) -> None:
    """Make a file as a library of that version left it."""
    for number, script in migration_steps():
        if number <= version:
            connection.executescript(script)
    if version:
        connection.execute(f"PRAGMA application_id = {APPLICATION_ID}")
        connection.execute(f"PRAGMA user_version = {version}")


def shape(connection: sqlite3.Connection) -> list[tuple[str, ...]]:
    """Everything the schema consists of."""
    made = connection.execute(
        "SELECT type, name, tbl_name, coalesce(sql, '') FROM sqlite_master ORDER BY type, name"
    ).fetchall()
    columns = connection.execute(
        "SELECT m.name, c.* FROM sqlite_master m, pragma_table_xinfo(m.name) c "
        "WHERE m.type = 'table' ORDER BY 1, 2"
    ).fetchall()
    pragmas = [
        (name, connection.execute(f"PRAGMA {name}").fetchone()[0])
        for name in ("user_version", "application_id")
    ]
    return made + columns + pragmas


@pytest.mark.parametrize("version", VERSIONS)
def test_a_file_of_any_version_becomes_the_same_as_a_fresh_one(
    version: int, connection: sqlite3.Connection
) -> None:
    bring_to(connection, version)
    migrate(connection, "memory.db")
    with closing(sqlite3.connect(":memory:", isolation_level=None)) as fresh:
        migrate(fresh, "memory.db")
        assert shape(connection) == shape(fresh)
    assert connection.execute("PRAGMA integrity_check").fetchone() == ("ok",)


def test_a_file_of_the_first_schema_keeps_its_messages_and_gets_summaries(tmp_path: Path) -> None:
    path = tmp_path / "memory.db"
    with closing(sqlite3.connect(path, isolation_level=None)) as connection:
        bring_to(connection, 1)
        connection.execute("INSERT INTO conversation VALUES (7, '', 'ana', 'trip', 3, 2, 1, 2)")
        row = "INSERT INTO message VALUES (7, ?, ?, 0, 1, 1, 'letters', ?, ?)"
        for position, text in ((2, "two"), (3, "three")):
            body = f'{{"role":"user","content":"{text}"}}'
            connection.execute(row, (position, f"m{position}", len(body), body))

    async def use() -> None:
        async with Memory(f"sqlite:///{path}") as memory:
            window = await memory.read("ana", "trip")
            assert window.head == Head(position=3, count=2, generation=1, last_user=2, revision=0)
            assert [entry.message.text for entry in window.entries] == ["two", "three"]
            [info] = await memory.conversations("ana")
            assert (info.key, info.messages, info.first_at.year) == (MAIN, 2, 1970)
            segment = StoredSegment(first=1, last=2, text="one and two", tokens=3)
            assert await memory._store.commit_segment(MAIN, segment, generation=1, fence=None)
            assert await memory._store.pin(MAIN, "m3", True)
            lease = await memory._store.claim(MAIN, owner="a", task="sum", seconds=10)
            assert isinstance(lease, Lease)
            state = await memory._store.summary(MAIN)
            assert ([one.text for one in state.segments], [pin[:2] for pin in state.pins]) == (
                ["one and two"],
                [window.entries[1]],
            )

    asyncio.run(use())


def test_a_pin_of_before_stays_and_its_date_is_not_known(tmp_path: Path) -> None:
    path = tmp_path / "memory.db"
    with closing(sqlite3.connect(path, isolation_level=None)) as connection:
        bring_to(connection, 10)
        connection.execute(
            "INSERT INTO conversation (id, agent, scope, conversation, head, count, has_messages) "
            "VALUES (7, '', 'ana', 'trip', 1, 1, 1)"
        )
        body = '{"role":"user","content":"one"}'
        row = (7, 1, "m1", 0, 1, 1, "letters", len(body), body)
        connection.execute("INSERT INTO message VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?)", row)
        connection.execute("INSERT INTO pin (conversation_id, position) VALUES (7, 1)")

    async def use() -> None:
        async with Memory(f"sqlite:///{path}") as memory:
            [pin] = (await memory.summary("ana", "trip")).pins
            assert (pin.message.text, pin.pinned_at, pin.source) == ("one", None, "user")

    asyncio.run(use())


def test_a_context_of_before_is_deleted_with_any_message_of_its_scope(tmp_path: Path) -> None:
    """It is not known what it quotes."""
    path = tmp_path / "memory.db"
    with closing(sqlite3.connect(path, isolation_level=None)) as connection:
        bring_to(connection, 13)
        for number, (scope, name) in enumerate([("ana", "trip"), ("ana", "other"), ("bob", "trip")], 1):
            connection.execute(
                "INSERT INTO conversation (id, agent, scope, conversation, head, count, has_messages) "
                "VALUES (?, '', ?, ?, 1, 1, 1)",
                (number, scope, name),
            )
            body = '{"role":"user","content":"one"}'
            row = (number, 1, "m1", 0, 1, 1, "letters", len(body), body)
            connection.execute("INSERT INTO message VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?)", row)
            for kind, derived in (("context", True), ("mail", False)):
                connection.execute(
                    "INSERT INTO record (conversation_id, kind, name, at, derived, size, body) "
                    "VALUES (?, ?, 'n1', 0, ?, 3, '\"x\"')",
                    (number, kind, derived),
                )

    async def use() -> None:
        async with Memory(f"sqlite:///{path}") as memory:
            other, bob = MAIN._replace(conversation="other"), MAIN._replace(scope="bob")
            assert not await memory.delete_message("ana", "trip", "unknown")
            assert len(await memory.store.read_records(other, "context")) == 1
            assert await memory.delete_message("ana", "trip", "m1")
            assert await memory.store.read_records(other, "context") == []
            assert len(await memory.store.read_records(other, "mail")) == 1
            assert len(await memory.store.read_records(bob, "context")) == 1

    asyncio.run(use())


def test_migrating_twice_changes_nothing(connection: sqlite3.Connection) -> None:
    migrate(connection, "memory.db")
    before = shape(connection)
    migrate(connection, "memory.db")
    assert shape(connection) == before


def test_the_steps_are_numbered_from_one_without_gaps() -> None:
    assert [number for number, _ in migration_steps()] == list(range(1, latest_version() + 1))
    folder = resources.files("autonomy_ctx.memory.sqlite") / "schema"
    names = sorted(file.name for file in folder.iterdir() if file.name.endswith(".sql"))
    assert [int(name[:4]) for name in names] == list(range(1, latest_version() + 1))
    assert all(name[4] == "_" for name in names)


@pytest.mark.parametrize("number", VERSIONS[1:])
def test_no_statement_of_a_step_is_lost(number: int) -> None:
    script = dict(migration_steps())[number]
    assert "".join(split_statements(script)).strip() == script.strip()


def test_a_script_is_split_into_its_statements() -> None:
    script = """-- A comment; with a semicolon.
CREATE TABLE a (
    x TEXT DEFAULT ';' /* ; */
);

CREATE TRIGGER t AFTER INSERT ON a BEGIN
    UPDATE a SET x = 'one;';
    DELETE FROM a;
END;
INSERT INTO a VALUES ('two
;lines');
"""
    made = split_statements(script)
    assert [text.split()[0] for text in made] == ["--", "CREATE", "INSERT"]
    assert "".join(made).strip() == script.strip()
    with closing(sqlite3.connect(":memory:")) as connection:
        for statement in made:
            connection.execute(statement)


@pytest.mark.parametrize(
    "script", ["CREATE TABLE a (x);\nCREATE TABLE b (x)", "CREATE TABLE a (x); CREATE TABLE b (x);"]
)
def test_a_script_written_carelessly_loses_no_statement(script: str) -> None:
    """The last semicolon forgotten, or two statements on one line."""
    with closing(sqlite3.connect(":memory:")) as connection:
        for statement in split_statements(script):
            connection.execute(statement)
        tables = connection.execute("SELECT name FROM sqlite_master ORDER BY name").fetchall()
    assert tables == [("a",), ("b",)]


def test_a_step_that_fails_leaves_the_file_as_it_was(connection: sqlite3.Connection) -> None:
    """All steps or none: a table of the same name is in the way of the last statements."""
    connection.execute("PRAGMA journal_mode = WAL")
    connection.execute(f"PRAGMA application_id = {APPLICATION_ID}")
    connection.execute("CREATE TABLE whole (x)")
    connection.execute("PRAGMA user_version = -1")
    before = shape(connection)
    with pytest.raises(sqlite3.OperationalError, match="whole"):
        migrate(connection, "memory.db")
    assert not connection.in_transaction
    assert shape(connection) == before


def test_a_newer_schema_is_refused_and_the_file_left_untouched(tmp_path: Path) -> None:
    path = tmp_path / "memory.db"
    with closing(sqlite3.connect(path, isolation_level=None)) as connection:
        migrate(connection, str(path))
        connection.execute(f"PRAGMA user_version = {latest_version() + 1}")
    before = path.read_bytes()

    async def use() -> None:
        memory = Memory(f"sqlite:///{path}")
        with pytest.raises(SchemaTooNew, match=f"version {latest_version() + 1}.*upgrade"):
            await memory.append("ana", "trip", make_message("hello", id="m1"))
        with pytest.raises(SchemaTooNew):
            await memory.read("ana", "trip")
        await memory.close()

    asyncio.run(use())
    assert path.read_bytes() == before


@pytest.mark.parametrize("version", [0, 1, 7])
def test_a_database_of_another_program_is_refused_and_left_untouched(tmp_path: Path, version: int) -> None:
    """Whatever number that program keeps in `user_version`."""
    path = tmp_path / "theirs.db"
    with closing(sqlite3.connect(path, isolation_level=None)) as connection:
        connection.execute("CREATE TABLE theirs (x)")
        connection.execute(f"PRAGMA user_version = {version}")
    before = path.read_bytes()

    async def use() -> None:
        memory = Memory(f"sqlite:///{path}")
        with pytest.raises(StoreUnavailable, match="another program"):
            await memory.append("ana", "trip", make_message("hello", id="m1"))
        with pytest.raises(StoreUnavailable, match="another program"):
            await memory.read("ana", "trip")
        await memory.close()

    asyncio.run(use())
    assert path.read_bytes() == before


APPEND = """
import asyncio, sys
from autonomy_ctx import Memory
from autonomy_ctx.testing import make_message

async def main() -> None:
    print("ready", flush=True)
    sys.stdin.readline()
    async with Memory(f"sqlite:///{sys.argv[1]}") as memory:
        for number in range(5):
            await memory.append("ana", "trip", make_message("hello", id=f"{sys.argv[2]}.{number}"))

asyncio.run(main())
"""


@pytest.mark.parametrize("there", [False, True], ids=["no file yet", "an empty file"])
def test_processes_may_open_the_same_new_file_at_once(tmp_path: Path, there: bool) -> None:
    path = tmp_path / "memory.db"
    if there:
        path.touch()
    children = [
        subprocess.Popen(
            [sys.executable, "-c", APPEND, str(path), str(number)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        for number in range(4)
    ]
    for child in children:
        assert child.stdout is not None
        assert child.stdout.readline() == "ready\n"
    for child in children:
        assert child.stdin is not None
        child.stdin.write("go\n")
        child.stdin.flush()
    for child in children:
        _, said_on_stderr = child.communicate(timeout=60)
        assert child.returncode == 0, said_on_stderr
    with closing(sqlite3.connect(path)) as connection:
        found = connection.execute("SELECT position, id FROM message ORDER BY position").fetchall()
        assert connection.execute("PRAGMA integrity_check").fetchone() == ("ok",)
    assert [position for position, _ in found] == list(range(1, 21))
    assert {name for _, name in found} == {f"{child}.{number}" for child in range(4) for number in range(5)}
