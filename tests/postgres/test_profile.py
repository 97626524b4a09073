"""Profiles in PostgreSQL."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Iterator

import pytest
import pytest_asyncio
from postgres_server import Databases
from stores.profile import ProfileContract

from autonomy_ctx import Memory
from autonomy_ctx.memory.postgres.store import PostgresStore
from autonomy_ctx.memory.sql.store import Store
from autonomy_ctx.testing import StoppedClock
from postgres.test_stores import ServerClock


class TestPostgresProfiles(ProfileContract):
    @pytest.fixture
    def database(self, databases: Databases) -> Iterator[str]:
        async def make_tables() -> None:
            store = PostgresStore(databases.url_of(name))
            await store.check()
            await store.close()

        name = databases.create()
        asyncio.run(make_tables())
        yield name
        databases.drop(name)

    @pytest.fixture
    def clock(self, databases: Databases, database: str) -> Iterator[StoppedClock]:
        clock = ServerClock(databases.url_of(database))
        yield clock
        clock.connection.close()

    @pytest_asyncio.fixture
    async def store(self, databases: Databases, database: str, clock: StoppedClock) -> AsyncIterator[Store]:
        store = PostgresStore(databases.url_of(database), timeout=10.0)
        yield store
        await store.close()

    async def test_what_many_write_at_once_is_all_kept(self, databases: Databases, database: str) -> None:
        memories = [Memory(databases.url_of(database)) for _ in range(3)]
        await asyncio.gather(
            *(
                memory.profile("ana").add("rule", f"rule {number % 4}")
                for number, memory in enumerate(memories * 4)
            )
        )
        assert {entry.text for entry in await memories[0].profile("ana")} == {f"rule {n}" for n in range(4)}
        for memory in memories:
            await memory.close()
