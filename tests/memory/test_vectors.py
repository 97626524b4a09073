"""Vectors beside the log: every store keeps the contract, and memory fills and searches them."""

from __future__ import annotations

import sqlite3
from collections.abc import AsyncIterator
from contextlib import closing
from pathlib import Path

import pytest
from memory.scripts import run_on
from stores.vectors import BlocksContract

from autonomy_ctx.memory.in_process import InProcessStore
from autonomy_ctx.memory.sqlite.store import SqliteStore
from autonomy_ctx.memory.sqlite.vector_cache import VectorCache
from autonomy_ctx.stores import Store
from autonomy_ctx.testing import MAIN
from autonomy_ctx.testing.values import OTHER
from autonomy_ctx.testing.vector_contract import pack_topic


class TestInProcessVectors(BlocksContract):
    @pytest.fixture
    async def store(self) -> AsyncIterator[Store]:
        store = InProcessStore()
        yield store
        await store.close()


class TestSqliteVectors(BlocksContract):
    @pytest.fixture
    async def store(self, tmp_path: Path) -> AsyncIterator[Store]:
        store = SqliteStore(str(tmp_path / "memory.db"))
        yield store
        await store.close()

    async def test_no_vector_of_a_deleted_message_stays_in_the_file(
        self, store: Store, tmp_path: Path
    ) -> None:
        def count() -> int:
            with closing(sqlite3.connect(tmp_path / "memory.db")) as connection:
                [(number,)] = connection.execute("SELECT count(*) FROM vector")
                return int(number)

        await self.say(store, "first cat", "second cat", "a train")
        await self.say(store, "a soup", key=OTHER)
        await self.embed_all(store)
        assert count() == 4
        await store.delete("ana", "", "trip", ["second cat"])
        assert count() == 3
        await store.delete("ana", "", "trip")
        assert count() == 1
        await store.delete("ana")
        assert count() == 0

    async def test_vectors_of_an_embedder_before_go_as_new_ones_come(
        self, store: Store, tmp_path: Path
    ) -> None:
        await self.say(store, "first cat", "second cat")
        await self.say(store, "a soup", key=OTHER)
        await self.embed_all(store)
        number = await store.use_embedder("others", 3)
        [block] = await self.blocks(store, number, conversation="other")
        assert await store.put_vectors(self.embed([block]), embedder=number)
        with closing(sqlite3.connect(tmp_path / "memory.db")) as connection:
            assert connection.execute("SELECT DISTINCT embedder FROM vector").fetchall() == [(number,)]

    async def test_what_another_process_deletes_is_not_found(self, store: Store, tmp_path: Path) -> None:
        await self.say(store, "first cat", "second cat")
        number = await self.embed_all(store)
        assert len(await self.find(store, "cat", number)) == 2
        other = SqliteStore(str(tmp_path / "memory.db"))
        await other.delete("ana", "", "trip", ["second cat"])
        await other.close()
        assert await self.find(store, "cat", number, limit=1) == ["first cat"]

    async def test_what_another_process_embeds_is_found(self, store: Store, tmp_path: Path) -> None:
        await self.say(store, "first cat")
        number = await self.embed_all(store)
        assert await self.find(store, "cat", number) == ["first cat"]
        other = SqliteStore(str(tmp_path / "memory.db"))
        await self.say(other, "second cat")
        await self.embed_all(other)
        await other.close()
        for whole_scope in (True, False):
            found = await self.find(store, "cat", number, whole_scope=whole_scope)
            assert found == ["second cat", "first cat"]

    async def test_the_cache_stays_within_its_limit(self, store: Store, tmp_path: Path) -> None:
        scopes = [MAIN._replace(scope=f"user {number}") for number in range(10)]
        for key in scopes:
            await self.say(store, "a cat", key=key)
        number = await self.embed_all(store, *scopes)
        # Room for two matrices of 64 rows, each with three numbers, a conversation and a position.
        cache = VectorCache(max_bytes=2 * 64 * (3 * 4 + 2 * 8))
        with closing(sqlite3.connect(tmp_path / "memory.db", isolation_level=None)) as connection:
            for key in scopes * 2:
                given = (key.agent, key.scope, pack_topic("cat"))
                [hit] = run_on(connection, cache.nearest, *given, embedder=number, limit=9)
                assert hit.message.text == "a cat"
        assert 0 < cache.size_bytes <= 2 * 64 * (3 * 4 + 2 * 8)
