"""Vectors on PostgreSQL: with pgvector, without it, and for users with few rights."""

from __future__ import annotations

import logging
import os
import re
from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from typing import Any

import psycopg
import pytest
import pytest_asyncio
from postgres_server import Databases, PgBouncer, PostgresServer, start_server
from stores.vectors import BlocksContract

from autonomy_ctx import Memory, Message
from autonomy_ctx.memory.postgres.store import PostgresStore
from autonomy_ctx.memory.sql.store import Store

ROOT = Path(__file__).parents[2]
HAS_COLUMN = "SELECT count(*) FROM information_schema.columns WHERE column_name = 'halfvec'"


def execute(url: str, statement: str) -> list[tuple[Any, ...]]:
    with psycopg.connect(url, autocommit=True) as connection:
        cursor = connection.execute(statement)
        return cursor.fetchall() if cursor.description else []


DISTANCE = "SELECT '[1,2]'::halfvec <#> '[1,2]'::halfvec"


@pytest.fixture(scope="session")
def pgvector_works(databases: Databases, server_files: Path) -> Iterator[bool]:
    """Whether the server computes distances. That of the wheel is tried on a copy, which may end with it."""
    server = None if os.environ.get("AUTONOMY_CTX_PG_DSN") else start_server(server_files)
    name = databases.create()
    url = databases.url_of(name) if server is None else server.url()
    try:
        execute(url, "CREATE EXTENSION vector")
        works = bool(execute(url, DISTANCE))
    except psycopg.Error:
        works = False
    yield works
    databases.drop(name)
    if server is not None:
        server.close()


@pytest.fixture
def pgvector(pgvector_works: bool) -> None:
    if not pgvector_works:
        pytest.skip("the pgvector of this server was compiled for another processor")


class TestPostgresVectors(BlocksContract):
    @pytest_asyncio.fixture
    async def store(self, pgvector: None, database_url: str) -> AsyncIterator[Store]:
        execute(database_url, "CREATE EXTENSION vector")
        store = PostgresStore(database_url, timeout=10.0)
        yield store
        await store.close()
        assert execute(database_url, HAS_COLUMN) == [(1,)]


@pytest.fixture
def limited_url(databases: Databases, database_url: str) -> Iterator[str]:
    """The URL of a user who may make the tables of the library, and nothing else."""
    name = database_url.rpartition("/")[2].partition("?")[0]
    execute(database_url, f"DROP ROLE IF EXISTS limited_{name}")
    execute(database_url, f"CREATE ROLE limited_{name} LOGIN")
    execute(database_url, f"GRANT CREATE ON DATABASE {name} TO limited_{name}")
    with psycopg.connect(database_url) as connection:
        user = connection.info.user
    yield database_url.replace(f"//{user}@", f"//limited_{name}@")
    execute(database_url, f"DROP OWNED BY limited_{name} CASCADE")
    execute(database_url, f"DROP ROLE limited_{name}")


class TestPostgresVectorsAsBytes(BlocksContract):
    @pytest_asyncio.fixture
    async def store(self, limited_url: str, database_url: str) -> AsyncIterator[Store]:
        store = PostgresStore(limited_url, timeout=10.0)
        yield store
        await store.close()
        assert execute(database_url, HAS_COLUMN) == [(0,)]


class TestPostgresVectorsBehindPgBouncer(BlocksContract):
    @pytest_asyncio.fixture
    async def store(self, pgvector: None, pgbouncer: PgBouncer, database_url: str) -> AsyncIterator[Store]:
        execute(database_url, "CREATE EXTENSION vector")
        store = PostgresStore(pgbouncer.url(database_url.rpartition("/")[2]), timeout=10.0)
        yield store
        await store.close()


def embed(texts: list[str]) -> list[list[float]]:
    return [["dog" in text or "animal" in text, "train" in text, 0.01] for text in texts]


async def test_the_reason_to_do_without_pgvector_is_logged(
    limited_url: str, caplog: pytest.LogCaptureFixture
) -> None:
    with caplog.at_level(logging.WARNING, logger="autonomy_ctx.memory"):
        async with Memory(limited_url, embedder=embed, embedder_timeout=30) as memory:
            await memory.append("ana", "trip", Message("user", "my dog"), Message("user", "a train"))
            await memory.embed_messages("ana")
            [hit] = await memory.search("ana", "animal", limit=1)
            assert hit.message.text == "my dog"
    [record] = [one for one in caplog.records if "pgvector" in one.getMessage()]
    assert "let an administrator run CREATE EXTENSION vector" in record.getMessage()


async def test_once_the_server_has_pgvector_vectors_are_made_anew_in_its_type(
    pgvector: None, limited_url: str, database_url: str
) -> None:
    async with Memory(limited_url, embedder=embed, embedder_timeout=30) as memory:
        await memory.append("ana", "trip", Message("user", "my dog"), Message("user", "a train"))
        await memory.embed_messages("ana")
    execute(database_url, "CREATE EXTENSION vector")
    async with Memory(limited_url, embedder=embed, embedder_timeout=30) as memory:
        assert await memory.embed_messages("ana") == 2
        [hit] = await memory.search("ana", "animal", limit=1)
        assert hit.message.text == "my dog"
    assert execute(database_url, "SELECT count(halfvec), count(*) FROM autonomy_ctx.vector") == [(2, 2)]


async def test_pgvector_may_be_in_a_schema_of_its_own(pgvector: None, database_url: str) -> None:
    execute(database_url, 'CREATE SCHEMA "the Extensions"')
    execute(database_url, 'CREATE EXTENSION vector WITH SCHEMA "the Extensions"')
    async with Memory(database_url, embedder=embed, embedder_timeout=30) as memory:
        await memory.append("ana", "trip", Message("user", "my dog"), Message("user", "a train"))
        await memory.embed_messages("ana")
        [hit] = await memory.search("ana", "animal", limit=1)
        assert hit.message.text == "my dog"


async def test_the_extension_is_left_to_administrators_even_where_it_could_be_created(
    database_url: str,
) -> None:
    async with Memory(database_url, embedder=embed, embedder_timeout=30) as memory:
        await memory.append("ana", "trip", Message("user", "my dog"))
        await memory.embed_messages("ana")
    assert execute(database_url, "SELECT count(*) FROM pg_extension WHERE extname = 'vector'") == [(0,)]


async def test_a_deletion_leaves_no_vector_in_the_table(limited_url: str, database_url: str) -> None:
    async with Memory(limited_url, embedder=embed, embedder_timeout=30) as memory:
        for scope in ("ana", "bob"):
            await memory.append(scope, "trip", Message("user", "my dog", id="m1"), Message("user", "a train"))
            await memory.embed_messages(scope)
        await memory.delete_message("ana", "trip", "m1")
        count = "SELECT count(*) FROM autonomy_ctx.vector"
        assert execute(database_url, count) == [(3,)]
        await memory.delete_scope("ana")
        assert execute(database_url, count) == [(2,)]


async def test_a_build_of_pgvector_that_ends_the_server_is_tried_once(
    own_server: PostgresServer, caplog: pytest.LogCaptureFixture
) -> None:
    async def search() -> str:
        async with Memory(own_server.url(), embedder=embed, embedder_timeout=30) as memory:
            await memory.append("ana", "trip", Message("user", "my dog"), Message("user", "a train"))
            await memory.embed_messages("ana")
            [hit] = await memory.search("ana", "animal", limit=1)
            return hit.message.text

    own_server.execute("CREATE EXTENSION vector")
    assert await search() == "my dog"
    if own_server.execute("SELECT passed FROM autonomy_ctx.vector_trial") == [(True,)]:
        # As if this build had ended the server.
        own_server.execute("UPDATE autonomy_ctx.vector_trial SET passed = false")
        own_server.execute("ALTER TABLE autonomy_ctx.vector DROP COLUMN halfvec")
    own_server.execute("UPDATE autonomy_ctx.vector_trial SET began = 0")
    caplog.clear()
    with caplog.at_level(logging.WARNING, logger="autonomy_ctx.memory"):
        assert await search() == "my dog"
    [record] = caplog.records
    assert "another processor" in record.getMessage()


async def test_a_user_who_only_writes_rows_uses_the_column_that_the_owner_has_added(
    pgvector: None, limited_url: str, database_url: str, caplog: pytest.LogCaptureFixture
) -> None:
    async with Memory(database_url):
        pass
    page = (ROOT / "docs" / "how-to" / "recall-by-meaning.md").read_text(encoding="utf-8")
    [statements] = re.findall("```sql\n(.*?)```", page, re.DOTALL)
    execute(database_url, statements)
    user = limited_url.partition("//")[2].partition("@")[0]
    execute(database_url, f"GRANT USAGE ON SCHEMA autonomy_ctx TO {user}")
    execute(database_url, f"GRANT ALL ON ALL TABLES IN SCHEMA autonomy_ctx TO {user}")
    execute(database_url, f"GRANT USAGE ON ALL SEQUENCES IN SCHEMA autonomy_ctx TO {user}")
    with caplog.at_level(logging.WARNING, logger="autonomy_ctx.memory"):
        async with Memory(limited_url, embedder=embed, embedder_timeout=30) as memory:
            await memory.append("ana", "trip", Message("user", "my dog"), Message("user", "a train"))
            await memory.embed_messages("ana")
            [hit] = await memory.search("ana", "animal", limit=1)
            assert hit.message.text == "my dog"
    assert caplog.records == []
    assert execute(database_url, "SELECT count(halfvec) FROM autonomy_ctx.vector") == [(2,)]
