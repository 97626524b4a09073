"""Leases on SQLite follow a clock that nobody can set, and end with the boot of the machine."""

from __future__ import annotations

import sqlite3
import sys
import time
from collections.abc import Callable
from contextlib import closing
from pathlib import Path

import pytest

from autonomy_ctx import Memory
from autonomy_ctx.errors import TurnLost
from autonomy_ctx.memory.processes import machine_clock
from autonomy_ctx.memory.sqlite.store import SqliteStore
from autonomy_ctx.memory.store import Lease, TurnStart, TurnToken
from autonomy_ctx.testing import MAIN, StoppedClock, make_drafts, make_message


def seconds(clock: StoppedClock) -> Callable[[], float]:
    return lambda: clock().timestamp()


class Clocks:
    """The clock on the wall, and the one that leases follow."""

    def __init__(self, path: Path) -> None:
        self.wall, self.lease, self._path = StoppedClock(), StoppedClock(), path

    def open(self) -> SqliteStore:
        return SqliteStore(str(self._path), clock=seconds(self.wall), lease_clock=seconds(self.lease))


@pytest.fixture
def clocks(tmp_path: Path) -> Clocks:
    return Clocks(tmp_path / "memory.db")


async def begin(store: SqliteStore, owner: str, ticket: int | None = None) -> TurnStart:
    drafts = make_drafts(make_message(owner, id=owner))
    return await store.begin_turn(MAIN, drafts, owner=owner, seconds=10, ticket=ticket)


async def test_a_clock_that_is_set_forward_takes_the_turn_from_nobody(clocks: Clocks) -> None:
    store, other = clocks.open(), clocks.open()
    turn = await begin(store, "a")
    clocks.wall.advance(60)
    waiting = await begin(other, "b")
    assert waiting.positions is None
    answer = make_drafts(make_message("answer", id="answer"))
    assert await store.append(MAIN, answer, turn=TurnToken(MAIN, turn.ticket, "a"), ends=True) == [2]
    assert (await begin(other, "b", waiting.ticket)).positions == [3]
    for one in (store, other):
        await one.close()


async def test_a_clock_that_is_set_back_keeps_no_dead_turn(clocks: Clocks) -> None:
    store = clocks.open()
    turn = await begin(store, "a")
    clocks.wall.advance(-1800)
    clocks.lease.advance(10)
    assert (await begin(store, "b")).took_over
    with pytest.raises(TurnLost):
        await store.append(
            MAIN, make_drafts(make_message("late", id="late")), turn=TurnToken(MAIN, turn.ticket, "a")
        )
    await store.close()


@pytest.mark.parametrize("wall", [60, 86_400, -1800])
async def test_leased_work_and_delays_do_not_follow_the_wall_clock(clocks: Clocks, wall: float) -> None:
    store = clocks.open()
    await store.append(MAIN, make_drafts(make_message("hello", id="m1")))
    lease = await store.claim(MAIN, owner="a", task="sum", seconds=30)
    assert isinstance(lease, Lease)
    clocks.wall.advance(wall)
    assert await store.claim(MAIN, owner="b", task="sum", seconds=30) is None
    assert await store.claim_next(owner="b", task="sum", seconds=30) == 30
    assert await store.complete_task(lease, again_in=20)
    clocks.wall.advance(wall)
    assert await store.claim_next(owner="b", task="sum", seconds=30) == 20
    work = (await store.outline(MAIN, [])).work
    assert work is not None
    assert work.due == pytest.approx(clocks.wall().timestamp() + 20), "as people read it"
    clocks.lease.advance(20)
    assert isinstance(await store.claim_next(owner="b", task="sum", seconds=30), Lease)
    await store.close()


async def take_and_owe(store: SqliteStore) -> None:
    """Hold the turn of a conversation, and work that is due in an hour."""
    assert (await begin(store, "a")).positions == [1]
    lease = await store.claim(MAIN, owner="a", task="sum", seconds=3600)
    assert isinstance(lease, Lease)
    await store.complete_task(lease, again_in=3600)


@pytest.mark.skipif(sys.platform != "linux", reason="only Linux has a boot id")
@pytest.mark.parametrize("boots", [("a", "b"), ("b", "a")])
async def test_what_another_boot_has_leased_is_free(tmp_path: Path, boots: tuple[str, str]) -> None:
    before, after = boots
    store = SqliteStore(str(tmp_path / "memory.db"), lease_clock=machine_clock(before))
    await take_and_owe(store)
    again = SqliteStore(str(tmp_path / "memory.db"), lease_clock=machine_clock(before))
    assert (await begin(again, "b")).positions is None, "it is the same boot"
    later = SqliteStore(str(tmp_path / "memory.db"), lease_clock=machine_clock(after))
    work = (await later.outline(MAIN, [])).work
    assert work is not None
    assert abs(work.due - time.time()) < 3600
    assert isinstance(await later.claim_next(owner="b", task="sum", seconds=30), Lease)
    waits = await later.claim_next(owner="c", task="sum", seconds=30)
    assert isinstance(waits, float)
    assert 0 < waits <= 30
    assert (await begin(later, "c")).took_over
    for one in (store, again, later):
        await one.close()


async def test_what_an_older_version_has_leased_by_the_wall_clock_is_free(tmp_path: Path) -> None:
    path = tmp_path / "memory.db"
    store = SqliteStore(str(path), lease_clock=time.time)
    await take_and_owe(store)
    await store.close()
    async with Memory(f"sqlite:///{path}") as memory:
        assert isinstance(await memory.store.claim_next(owner="b", task="sum", seconds=30), Lease)
        start = await memory.store.begin_turn(MAIN, [], owner="b", seconds=10)
        assert start.took_over
    with closing(sqlite3.connect(path)) as connection:
        [(until,)] = connection.execute("SELECT turn_until FROM conversation").fetchall()
    assert sys.platform != "linux" or until > 2**32, "it is not a time of the wall clock"


def test_stores_of_one_machine_share_a_clock() -> None:
    first, second = machine_clock(), machine_clock()
    times = [first(), second(), first()]
    assert times == sorted(times)
    assert times[2] - times[0] < 60


def test_without_a_boot_id_the_clock_begins_with_the_time_of_the_boot() -> None:
    assert abs(machine_clock("")() - time.time()) < 60
