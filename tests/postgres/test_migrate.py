"""The schema: numbered steps that many processes may run at once, and users with few rights."""

from __future__ import annotations

import asyncio
import subprocess
import sys
from collections.abc import Iterator
from typing import Any

import psycopg
import pytest
from postgres_server import Databases, PostgresServer

from autonomy_ctx.errors import SchemaTooNew, StoreUnavailable
from autonomy_ctx.memory.postgres.migrate import latest_version, migration_steps
from autonomy_ctx.memory.postgres.store import PostgresStore
from autonomy_ctx.memory.store import Window
from autonomy_ctx.testing import MAIN, make_drafts, make_message

# Everything the schema consists of, by the words with which PostgreSQL would make it again.
SHAPE = """
    SELECT 'column', c.relname, a.attname, a.attnum::text, format_type(a.atttypid, a.atttypmod),
           a.attnotnull::text, a.attidentity::text, a.attcollation::regcollation::text,
           coalesce(pg_get_expr(d.adbin, d.adrelid), ''), coalesce(c.reloptions::text, '')
    FROM pg_class c JOIN pg_attribute a ON a.attrelid = c.oid AND a.attnum > 0
    LEFT JOIN pg_attrdef d ON d.adrelid = c.oid AND d.adnum = a.attnum
    WHERE c.relnamespace = 'autonomy_ctx'::regnamespace
    UNION ALL
    SELECT 'index', indexname, indexdef, '', '', '', '', '', '', '' FROM pg_indexes
    WHERE schemaname = 'autonomy_ctx'
    UNION ALL
    SELECT 'constraint', conname, pg_get_constraintdef(oid), '', '', '', '', '', '', '' FROM pg_constraint
    WHERE connamespace = 'autonomy_ctx'::regnamespace
    UNION ALL
    SELECT 'function', proname, pg_get_functiondef(oid), '', '', '', '', '', '', '' FROM pg_proc
    WHERE pronamespace = 'autonomy_ctx'::regnamespace
    UNION ALL
    SELECT 'version', version::text, '', '', '', '', '', '', '', '' FROM autonomy_ctx.schema_version
    ORDER BY 1, 2, 3, 4
"""


@pytest.fixture
def connection(database_url: str) -> Iterator[psycopg.Connection[Any]]:
    with psycopg.connect(database_url, autocommit=True) as connection:
        yield connection


def bring_to(connection: psycopg.Connection[Any], version: int) -> None:
    """Make a database as a library of that version left it."""
    connection.execute("CREATE SCHEMA autonomy_ctx")
    connection.execute(
        "CREATE TABLE autonomy_ctx.schema_version (version integer NOT NULL, database text NOT NULL)"
    )
    connection.execute("INSERT INTO autonomy_ctx.schema_version VALUES (%s, 'ours')", (version,))
    for number, script in migration_steps():
        if number <= version:
            connection.execute(script)


async def use(url: str, timeout: float = 10.0) -> None:
    store = PostgresStore(url, timeout=timeout)
    try:
        await store.append(MAIN, make_drafts(make_message("hello", id="m1")))
        assert len((await store.read(MAIN)).entries) == 1
    finally:
        await store.close()


@pytest.mark.parametrize("version", range(latest_version() + 1))
async def test_a_database_of_any_version_becomes_the_same_as_a_fresh_one(
    version: int, databases: Databases, database_url: str, connection: psycopg.Connection[Any]
) -> None:
    if version:
        bring_to(connection, version)
    await use(database_url)
    fresh = databases.create()
    try:
        await use(databases.url_of(fresh))
        with psycopg.connect(databases.url_of(fresh)) as other:
            assert connection.execute(SHAPE).fetchall() == other.execute(SHAPE).fetchall()
    finally:
        databases.drop(fresh)


def test_the_steps_are_numbered_from_one_without_gaps() -> None:
    assert [number for number, _ in migration_steps()] == list(range(1, latest_version() + 1))


async def test_a_newer_schema_is_refused_and_left_untouched(
    database_url: str, connection: psycopg.Connection[Any]
) -> None:
    await use(database_url)
    newer = latest_version() + 1
    connection.execute("UPDATE autonomy_ctx.schema_version SET version = %s", (newer,))
    store = PostgresStore(database_url)
    with pytest.raises(SchemaTooNew, match=rf"version {newer}.*upgrade"):
        await store.append(MAIN, make_drafts(make_message("again", id="m2")))
    with pytest.raises(SchemaTooNew):
        await store.read(MAIN)
    await store.close()
    assert connection.execute("SELECT count(*) FROM autonomy_ctx.message").fetchone() == (1,)
    assert connection.execute("SELECT version FROM autonomy_ctx.schema_version").fetchone() == (newer,)


async def test_a_step_that_fails_leaves_the_database_as_it_was(
    database_url: str, connection: psycopg.Connection[Any]
) -> None:
    bring_to(connection, 1)
    connection.execute("CREATE TABLE autonomy_ctx.work (x integer)")
    before = connection.execute(SHAPE).fetchall()
    with pytest.raises(Exception, match="DuplicateTable"):
        await use(database_url)
    assert connection.execute(SHAPE).fetchall() == before


async def test_tables_that_vanish_are_not_made_again_behind_the_back_of_a_store(
    own_server: PostgresServer,
) -> None:
    store = PostgresStore(own_server.url())
    await store.append(MAIN, make_drafts(make_message("hello", id="m1")))
    own_server.execute("DROP SCHEMA autonomy_ctx CASCADE")
    with pytest.raises(StoreUnavailable, match="missing"):
        await store.read(MAIN)
    own_server.terminate_backends()
    with pytest.raises(StoreUnavailable, match="gone"):
        await store.read(MAIN)
    assert own_server.execute("SELECT to_regnamespace('autonomy_ctx')") == [(None,)]
    await store.close()


ROLE = """
    CREATE ROLE app LOGIN;
    REVOKE CREATE ON SCHEMA public FROM PUBLIC;
"""
RIGHTS = """
    GRANT USAGE ON SCHEMA autonomy_ctx TO app;
    GRANT SELECT, INSERT, UPDATE, DELETE ON ALL TABLES IN SCHEMA autonomy_ctx TO app;
    GRANT USAGE ON ALL SEQUENCES IN SCHEMA autonomy_ctx TO app;
"""


async def test_a_user_who_may_not_create_tables_can_use_those_that_are_there(
    own_server: PostgresServer,
) -> None:
    own_server.execute(ROLE)
    url = own_server.url().replace("postgres@", "app@")
    with pytest.raises(StoreUnavailable, match=r"rights.*create"):
        await use(url)
    await use(own_server.url())
    with pytest.raises(StoreUnavailable, match="rights"):
        await use(url)
    own_server.execute(RIGHTS)
    store = PostgresStore(url)
    await store.check()
    await store.append(MAIN, make_drafts(make_message("again", id="m2")))
    await store.put_records(MAIN, "mail", [("a", "b")])
    assert len(await store.search("", "ana", "again")) == 1
    assert await store.delete("ana") == 2
    await store.close()


async def test_a_user_who_was_given_a_schema_makes_the_tables_in_it(own_server: PostgresServer) -> None:
    own_server.execute(ROLE)
    own_server.execute("CREATE SCHEMA autonomy_ctx AUTHORIZATION app")
    await use(own_server.url().replace("postgres@", "app@"))
    with psycopg.connect(own_server.url()) as connection:
        owners = connection.execute(
            "SELECT DISTINCT tableowner FROM pg_tables WHERE schemaname = 'autonomy_ctx'"
        ).fetchall()
    assert owners == [("app",)]


async def test_a_database_that_cannot_hold_every_text_is_refused(own_server: PostgresServer) -> None:
    own_server.execute(
        "CREATE DATABASE latin TEMPLATE template0 ENCODING 'LATIN1' LC_COLLATE 'C' LC_CTYPE 'C'"
    )
    with pytest.raises(StoreUnavailable, match=r"encoding LATIN1.*UTF8"):
        await use(own_server.url("latin"))


APPEND = """
import asyncio, sys
from autonomy_ctx import Memory
from autonomy_ctx.testing import make_message

async def main() -> None:
    print("ready", flush=True)
    sys.stdin.readline()
    async with Memory(sys.argv[1]) as memory:
        for number in range(25):
            await memory.append("ana", "trip", make_message("hello", id=f"{sys.argv[2]}.{number}"))

asyncio.run(main())
"""


def test_processes_may_use_the_same_new_database_at_once(database_url: str) -> None:
    """They make the tables once, and their messages have no gaps and no doubles."""
    children = [
        subprocess.Popen(
            [sys.executable, "-c", APPEND, database_url, str(number)],
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

    async def read() -> Window:
        store = PostgresStore(database_url)
        window = await store.read(MAIN)
        await store.close()
        return window

    window = asyncio.run(read())
    assert [entry.position for entry in window.entries] == list(range(1, 101))
    ids = {entry.message.id for entry in window.entries}
    assert ids == {f"{one}.{number}" for one in range(4) for number in range(25)}
    for one in range(4):
        mine = [entry.message.id for entry in window.entries if entry.message.id.startswith(f"{one}.")]
        assert mine == [f"{one}.{number}" for number in range(25)]


async def test_stores_that_open_at_once_make_the_tables_once(database_url: str) -> None:
    stores = [PostgresStore(database_url) for _ in range(12)]
    await asyncio.gather(*(store.check() for store in stores))
    assert len({store.identity for store in stores}) == 1
    for store in stores:
        await store.close()
