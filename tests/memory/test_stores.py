"""Every store keeps the contract."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from autonomy_ctx import Store
from autonomy_ctx.memory.hot import HotWindows
from autonomy_ctx.memory.in_process import InProcessStore
from autonomy_ctx.memory.sqlite.store import SqliteStore
from autonomy_ctx.testing import StoreContract


class TestInProcessStore(StoreContract):
    @pytest.fixture
    async def store(self) -> AsyncIterator[Store]:
        store = InProcessStore()
        yield store
        await store.close()


class TestSqliteStore(StoreContract):
    @pytest.fixture
    async def store(self, tmp_path: Path) -> AsyncIterator[Store]:
        store = SqliteStore(str(tmp_path / "memory.db"))
        yield store
        await store.close()


class _HotStore(HotWindows):
    """Kept windows over SQLite, with the life of the store below."""

    def __init__(self, store: SqliteStore) -> None:
        super().__init__(store)
        self.check, self.close = store.check, store.close
        self._store = store

    @property
    def identity(self) -> object:
        return self._store.identity


class TestHotWindows(StoreContract):
    @pytest.fixture
    async def store(self, tmp_path: Path) -> AsyncIterator[Store]:
        store = _HotStore(SqliteStore(str(tmp_path / "memory.db")))
        yield store
        await store.close()
