"""Every store keeps the contract."""

# ruff: noqa: ASYNC240  # a test may wait for its own small files

from __future__ import annotations

import asyncio
import threading
from collections.abc import AsyncIterator, Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from autonomy_ctx import Memory
from autonomy_ctx.memory.cache import WindowCache
from autonomy_ctx.memory.in_process import InProcessStore
from autonomy_ctx.memory.sqlite.store import SqliteStore
from autonomy_ctx.memory.store import Lease, StoredSegment
from autonomy_ctx.stores import Store
from autonomy_ctx.testing import MAIN, StoppedClock, StoreContract, make_drafts, make_message


@pytest.fixture
def clock() -> StoppedClock:
    return StoppedClock()


def seconds(clock: StoppedClock) -> Callable[[], float]:
    return lambda: clock().timestamp()


class TestInProcessStore(StoreContract):
    @pytest.fixture
    async def store(self, clock: StoppedClock) -> AsyncIterator[Store]:
        store = InProcessStore(clock=seconds(clock))
        yield store
        await store.close()


class TestSqliteStore(StoreContract):
    @pytest.fixture
    async def store(self, sqlite_path: Path, clock: StoppedClock) -> AsyncIterator[Store]:
        store = SqliteStore(str(sqlite_path), clock=seconds(clock))
        yield store
        await store.close()


class _HotStore(WindowCache):
    """Kept windows over SQLite, with all that is no log of the store below."""

    def __init__(self, store: SqliteStore) -> None:
        super().__init__(store)
        self.check, self.close = store.check, store.close
        self.summary, self.pin = store.summary, store.pin
        self.commit_segment, self.undo_segment = store.commit_segment, store.undo_segment
        self.drop_segments = store.drop_segments
        self.facts, self.write_facts, self.remove_fact = store.facts, store.write_facts, store.remove_fact
        self.enqueue_task, self.claim, self.claim_next = store.enqueue_task, store.claim, store.claim_next
        self.extend, self.complete_task = store.extend, store.complete_task
        self.begin_turn, self.renew_turn = store.begin_turn, store.renew_turn
        self.leave_turn, self.wait_for_turn = store.leave_turn, store.wait_for_turn
        self.put_records, self.read_records = store.put_records, store.read_records
        self.drop_records, self.search = store.drop_records, store.search
        self.append_with_records = store.append_with_records
        self.list_agents, self.list_scopes = store.list_agents, store.list_scopes
        self.list_conversations = store.list_conversations
        self.fork, self.shared_until = store.fork, store.shared_until
        self._store = store

    @property
    def identity(self) -> object:
        return self._store.identity


class TestHotWindows(StoreContract):
    @pytest.fixture
    async def store(self, sqlite_path: Path, clock: StoppedClock) -> AsyncIterator[Store]:
        store = _HotStore(SqliteStore(str(sqlite_path), clock=seconds(clock)))
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
