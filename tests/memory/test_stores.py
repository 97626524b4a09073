"""Every store keeps the contract."""

# ruff: noqa: ASYNC240  # a test may wait for its own small files

from __future__ import annotations

import asyncio
import threading
from collections.abc import AsyncIterator, Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any, cast

import pytest
from stores.all import AllContracts

from autonomy_ctx import Memory
from autonomy_ctx.memory.cache import WindowCache
from autonomy_ctx.memory.in_process import InProcessStore
from autonomy_ctx.memory.sqlite.store import SqliteStore
from autonomy_ctx.memory.store import Lease, StoredSegment
from autonomy_ctx.stores import Store
from autonomy_ctx.testing import MAIN, StoppedClock, make_drafts, make_message


@pytest.fixture
def clock() -> StoppedClock:
    return StoppedClock()


def seconds(clock: StoppedClock) -> Callable[[], float]:
    return lambda: clock().timestamp()


class TestInProcessStore(AllContracts):
    @pytest.fixture
    async def store(self, clock: StoppedClock) -> AsyncIterator[Store]:
        store = InProcessStore(clock=seconds(clock))
        yield store
        await store.close()


class TestSqliteStore(AllContracts):
    @pytest.fixture
    async def store(self, sqlite_path: Path, clock: StoppedClock) -> AsyncIterator[Store]:
        store = SqliteStore(str(sqlite_path), clock=seconds(clock))
        yield store
        await store.close()


class _HotStore:
    """Windows over SQLite that are read from a cache."""

    def __init__(self, store: SqliteStore) -> None:
        self._store, self._windows = store, WindowCache(store)
        self.read = self._windows.read

    def __getattr__(self, name: str) -> Any:
        return getattr(self._store, name)

    async def delete(self, scope: str, agent: str | None = None, *given: Any) -> int:
        deleted = await self._store.delete(scope, agent, *given)
        self._windows.forget(agent, scope, given[0] if given else None)
        return deleted


class TestHotWindows(AllContracts):
    @pytest.fixture
    async def store(self, sqlite_path: Path, clock: StoppedClock) -> AsyncIterator[Store]:
        store = cast(Store, _HotStore(SqliteStore(str(sqlite_path), clock=seconds(clock))))
        yield store
        await store.close()


def test_threads_with_stores_of_their_own_that_claim_at_once_get_one_lease(tmp_path: Path) -> None:
    """As processes would: each with its own connections, in line for the same file lock."""
    path, clock = str(tmp_path / "memory.db"), StoppedClock()
    together = threading.Barrier(8)

    async def fill() -> None:
        store = SqliteStore(path)
        await store.append(MAIN, make_drafts(make_message("hello", id="m1")))
        await store.close()

    async def claims(owner: str) -> list[Lease | float | None]:
        store = SqliteStore(path, clock=seconds(clock))
        await store.check()
        together.wait(timeout=30)
        found = [
            await store.claim(MAIN, owner=owner, task="sum", seconds=10),
            await store.claim_next(owner=owner, task="sum", seconds=10),
        ]
        await store.close()
        return found

    asyncio.run(fill())
    with ThreadPoolExecutor(8) as pool:
        answers = list(pool.map(lambda number: asyncio.run(claims(str(number))), range(8)))
    found = [answer for pair in answers for answer in pair]
    assert len([answer for answer in found if isinstance(answer, Lease)]) == 1
    assert {answer for answer in found if isinstance(answer, float)} == {10.0}


def test_threads_with_stores_of_their_own_that_drop_at_once_share_the_records_out(tmp_path: Path) -> None:
    path, together = str(tmp_path / "memory.db"), threading.Barrier(4)
    names = [f"mail {number}" for number in range(25)]

    async def fill() -> None:
        store = SqliteStore(path)
        await store.put_records(MAIN, "mail", [(name, "body") for name in names])
        await store.close()

    async def take() -> list[str]:
        store = SqliteStore(path)
        await store.check()
        together.wait(timeout=30)
        taken = [name for each in names for name in await store.drop_records(MAIN, "mail", [each])]
        await store.close()
        return taken

    asyncio.run(fill())
    with ThreadPoolExecutor(4) as pool:
        taken = [name for some in pool.map(lambda _: asyncio.run(take()), range(4)) for name in some]
    assert sorted(taken) == sorted(names)


@pytest.mark.parametrize("how", ["delete a message", "delete the conversation", "drop and delete"])
async def test_no_record_stays_in_the_files_when_it_has_to_go(tmp_path: Path, how: str) -> None:
    store = SqliteStore(str(tmp_path / "memory.db"))
    if how == "delete a message":
        await store.append(MAIN, make_drafts(make_message("hello", id="m1")))
    for text in ("secret one", "secret two"):
        await store.put_records(MAIN, "shown", [("latest", text), (text, text)], keep=2, derived=True)
    assert any(b"secret" in file.read_bytes() for file in tmp_path.iterdir())
    match how:
        case "delete a message":
            await store.delete("ana", "", "trip", ["m1"])
        case "drop and delete":
            await store.drop_records(MAIN, "shown")
            await store.delete("ana", "", "trip")
        case _:
            await store.delete("ana")
    for file in tmp_path.iterdir():
        assert b"secret" not in file.read_bytes()
    await store.close()


@pytest.mark.parametrize("how", ["drop", "delete a message", "delete the conversation"])
async def test_no_summary_stays_in_the_files_when_it_has_to_go(tmp_path: Path, how: str) -> None:
    store = SqliteStore(str(tmp_path / "memory.db"))
    await store.append(MAIN, make_drafts(*(make_message(str(n), id=f"m{n}") for n in range(1, 5))))
    for first, last in ((1, 2), (3, 4), (1, 4)):
        segment = StoredSegment(first=first, last=last, text=f"secret {first}", tokens=1)
        assert await store.commit_segment(MAIN, segment, generation=0, fence=None)
    assert any(b"secret" in file.read_bytes() for file in tmp_path.iterdir())
    match how:
        case "drop":
            await store.drop_segments("ana")
        case "delete a message":
            await store.delete("ana", "", "trip", ["m1"])
        case _:
            await store.delete("ana")
    for file in tmp_path.iterdir():
        assert b"secret" not in file.read_bytes()
    await store.close()


@pytest.mark.parametrize("url", [None, "sqlite:///{}/memory.db"], ids=["in process", "sqlite"])
async def test_memory_gives_its_clock_to_the_store(tmp_path: Path, url: str | None) -> None:
    clock = StoppedClock()
    memory = Memory(url and url.format(tmp_path), clock=clock)
    await memory.append("ana", "trip", make_message("hello", id="m1"))
    lease = await memory._store.claim(MAIN, owner="a", task="sum", seconds=10)
    assert isinstance(lease, Lease)
    assert lease.until == clock().timestamp() + 10
    await memory.close()
