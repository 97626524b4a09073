"""Outlines on each store."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path

import pytest
from stores.outline import OutlineContract

from autonomy_ctx.memory.in_process import InProcessStore
from autonomy_ctx.memory.sql.store import Store
from autonomy_ctx.memory.sqlite.store import SqliteStore
from autonomy_ctx.testing import StoppedClock

pytestmark = pytest.mark.anyio


@pytest.fixture
def clock() -> StoppedClock:
    return StoppedClock()


class TestInProcessOutlines(OutlineContract):
    @pytest.fixture
    async def store(self, clock: StoppedClock) -> AsyncIterator[Store]:
        store = InProcessStore(clock=lambda: clock().timestamp())
        yield store
        await store.close()


class TestSqliteOutlines(OutlineContract):
    @pytest.fixture
    async def store(self, tmp_path: Path, clock: StoppedClock) -> AsyncIterator[Store]:
        store = SqliteStore(str(tmp_path / "memory.db"), clock=lambda: clock().timestamp())
        yield store
        await store.close()
