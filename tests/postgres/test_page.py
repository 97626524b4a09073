"""The page about PostgreSQL: its Python and its SQL, with the rights that it gives."""

from __future__ import annotations

import re
from pathlib import Path

import psycopg
import pytest
import pytest_asyncio
from docs.snippets import ROOT, run
from postgres_server import PostgresServer

from autonomy_ctx import Memory
from autonomy_ctx.errors import StoreUnavailable
from autonomy_ctx.memory.store import Key

PAGE = ROOT / "docs" / "how-to" / "use-postgresql.md"


def statements(heading: str) -> list[str]:
    """The SQL below a heading, block by block."""
    [section] = re.findall(
        rf"^##+ {re.escape(heading)}\n(.*?)(?=^##|\Z)", PAGE.read_text(encoding="utf-8"), re.M | re.S
    )
    found: list[str] = re.findall(r"^```sql\n(.*?)^```$", section, re.M | re.S)
    assert found, f"no SQL under {heading}"
    return found


def execute(url: str, block: str) -> None:
    """Run the statements of a block one by one, as `psql` does: a vacuum cannot be run with others."""
    with psycopg.connect(url, autocommit=True) as connection:
        for statement in re.sub(r"^--.*$", "", block, flags=re.M).split(";"):
            if statement.strip():
                connection.execute(statement.encode())


@pytest.fixture
def roles(own_server: PostgresServer) -> dict[str, str]:
    """The URLs of a database for the roles of the page, which has no tables yet."""
    own_server.execute("CREATE DATABASE app")
    [block] = statements("Roles and rights")
    execute(own_server.url("app"), block)
    names = ("postgres", "memory_owner", "memory_app")
    return {name: own_server.url("app").replace("postgres@", f"{name}@") for name in names}


@pytest_asyncio.fixture
async def urls(roles: dict[str, str]) -> dict[str, str]:
    """The same, once the owner has made the tables."""
    async with Memory(roles["memory_owner"]):
        return roles


def test_the_page_runs_with_the_rights_that_it_gives(
    own_server: PostgresServer, urls: dict[str, str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("DATABASE_URL", urls["memory_app"])
    monkeypatch.setenv("DIRECT_DATABASE_URL", urls["memory_app"])
    monkeypatch.setenv("MIGRATION_URL", urls["memory_owner"])
    own_server.execute("CREATE DATABASE app_us")
    monkeypatch.setenv("DATABASE_URL_US", own_server.url("app_us"))
    run(PAGE, tmp_path)


async def test_the_application_cannot_change_the_tables(urls: dict[str, str]) -> None:
    for statement in (
        "DROP TABLE autonomy_ctx.message",
        "ALTER TABLE autonomy_ctx.message ADD COLUMN own text",
        "TRUNCATE autonomy_ctx.message",
        "CREATE TABLE autonomy_ctx.own (id int)",
        "CREATE TABLE public.own (id int)",
    ):
        with (
            psycopg.connect(urls["memory_app"], autocommit=True) as connection,
            pytest.raises(psycopg.errors.InsufficientPrivilege),
        ):
            connection.execute(statement.encode())


async def test_the_application_can_use_all_of_a_memory(urls: dict[str, str]) -> None:
    async with Memory(urls["memory_app"]) as memory:
        await memory.append("ana", "trip", {"role": "user", "content": "Two nights in Porto.", "id": "m1"})
        await memory.append("ana", "trip", {"role": "user", "content": "Two nights in Porto.", "id": "m1"})
        assert [hit.message.id for hit in await memory.search("ana", "porto")] == ["m1"]
        assert await memory.pin("ana", "trip", "m1")
        await memory.facts("ana", "trip").add("preference", "Ana likes trains.")
        assert await memory.drop_summaries("ana") == 0
        assert await memory.scopes() == ["ana"]
        key = Key("", "ana", "trip")
        assert len(await memory.store.put_records(key, "note", [("n1", "text")])) == 1
        assert await memory.store.enqueue_task(key, task="summary")
        assert await memory.store.claim(key, owner="me", task="summary", seconds=10)
        assert await memory.delete_scope("ana") == 1


async def test_an_application_waits_for_tables_that_only_the_owner_can_make(roles: dict[str, str]) -> None:
    memory = Memory(roles["memory_app"])
    with pytest.raises(StoreUnavailable, match="right"):
        await memory.append("ana", "trip", {"role": "user", "content": "hi"})
    async with Memory(roles["memory_owner"]):
        pass
    assert await memory.append("ana", "trip", {"role": "user", "content": "hi"}) == [1]
    await memory.close()


@pytest.mark.parametrize(
    ("heading", "role"),
    [
        ("Set timeouts and handle errors", "postgres"),
        ("Erase a tenant", "memory_owner"),
        ("Monitor the database", "postgres"),
        ("Plan the size", "memory_owner"),
    ],
)
async def test_the_sql_of_the_page_runs(urls: dict[str, str], heading: str, role: str) -> None:
    for block in statements(heading):
        execute(urls[role], block)


async def test_messages_can_be_kept_in_partitions(urls: dict[str, str]) -> None:
    async with Memory(urls["memory_app"]) as memory:
        for number in range(20):
            await memory.append("ana", f"c{number}", {"role": "user", "content": "hi", "id": "m1"})
        [block] = statements("Partition the messages")
        with psycopg.connect(urls["memory_owner"], autocommit=True) as connection:
            connection.execute(block.encode())
        for number in range(20):
            name = f"c{number}"
            assert await memory.append("ana", name, {"role": "user", "content": "more", "id": "m2"}) == [2]
            # An id that is there is met in the index of a partition, which has a name of its own.
            assert await memory.append("ana", name, {"role": "user", "content": "hi", "id": "m1"}) == [1]
            assert len((await memory.read("ana", name)).entries) == 2
        assert await memory.delete_scope("ana") == 40
