"""The store contract on PostgreSQL, directly and through pgbouncer."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator

import psycopg
import pytest
import pytest_asyncio
from postgres_server import Databases, PgBouncer
from stores.all import AllContracts

from autonomy_ctx.memory.postgres.store import PostgresStore
from autonomy_ctx.memory.sql.store import Store
from autonomy_ctx.testing import StoppedClock


class ServerClock(StoppedClock):
    """The clock of the server, which shows the same time until it is told to go on."""

    def __init__(self, url: str) -> None:
        super().__init__()
        self.connection = psycopg.connect(url, autocommit=True)
        self.connection.execute("CREATE TABLE clock AS SELECT %s::float8 AS seconds", (self.seconds,))
        # In place of the function by which every statement of the store asks for the time.
        self.connection.execute(
            "CREATE OR REPLACE FUNCTION autonomy_ctx.now_seconds() RETURNS double precision "
            "LANGUAGE sql VOLATILE AS 'SELECT seconds FROM public.clock'"
        )

    @property
    def seconds(self) -> float:
        return self().timestamp()

    def advance(self, seconds: float) -> None:
        super().advance(seconds)
        self.connection.execute("UPDATE clock SET seconds = %s", (self.seconds,))


@pytest_asyncio.fixture(scope="session", loop_scope="session")
async def prepared_database(databases: Databases) -> AsyncIterator[str]:
    """A database with our tables, to be copied."""
    name = databases.create()
    store = PostgresStore(databases.url_of(name))
    await store.check()
    await store.close()
    yield name
    databases.drop(name)


@pytest.fixture
def stores_database(databases: Databases, prepared_database: str) -> Iterator[str]:
    name = databases.create(prepared_database)
    yield name
    databases.drop(name)


class TestPostgresStore(AllContracts):
    @pytest.fixture
    def clock(self, databases: Databases, stores_database: str) -> Iterator[StoppedClock]:
        clock = ServerClock(databases.url_of(stores_database))
        yield clock
        clock.connection.close()

    @pytest.fixture
    def store_url(self, databases: Databases, stores_database: str) -> str:
        return databases.url_of(stores_database)

    @pytest_asyncio.fixture
    async def store(self, store_url: str, clock: StoppedClock) -> AsyncIterator[Store]:
        store = PostgresStore(store_url, timeout=10.0)
        yield store
        await store.close()


class TestPostgresStoreBehindPgBouncer(TestPostgresStore):
    @pytest.fixture
    def store_url(self, request: pytest.FixtureRequest, stores_database: str) -> str:
        pgbouncer: PgBouncer = request.getfixturevalue("pgbouncer")
        return pgbouncer.url(stores_database)
