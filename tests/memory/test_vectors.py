"""Vectors beside the log: every store keeps the contract, and memory fills and searches them."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from autonomy_ctx.memory.in_process import InProcessStore
from autonomy_ctx.memory.sqlite.store import SqliteStore
from autonomy_ctx.stores import Store
from autonomy_ctx.testing.vector_contract import VectorsContract


class TestInProcessVectors(VectorsContract):
    @pytest.fixture
    async def store(self) -> AsyncIterator[Store]:
        store = InProcessStore()
        yield store
        await store.close()


class TestSqliteVectors(VectorsContract):
    @pytest.fixture
    async def store(self, tmp_path: Path) -> AsyncIterator[Store]:
        store = SqliteStore(str(tmp_path / "memory.db"))
        yield store
        await store.close()
