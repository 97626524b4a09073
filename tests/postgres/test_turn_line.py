"""Turns that wait on PostgreSQL, beyond what the contract of every store says."""

from __future__ import annotations

import asyncio

import psycopg
import pytest

from autonomy_ctx.errors import StoreClosed
from autonomy_ctx.memory.postgres.store import PostgresStore
from autonomy_ctx.testing import MAIN

BLOCKED = """
    SELECT count(*) FROM pg_stat_activity
    WHERE datname = current_database() AND wait_event_type = 'Lock' AND query LIKE '%turn_wait%'
"""


async def test_of_those_who_wait_in_a_process_only_the_first_asks_the_server(database_url: str) -> None:
    store = PostgresStore(database_url)
    starts = [await store.begin_turn(MAIN, [], owner=f"turn {n}", seconds=60) for n in range(4)]
    async with await psycopg.AsyncConnection.connect(database_url, autocommit=True) as other:

        async def count_blocked() -> int:
            [(blocked,)] = await (await other.execute(BLOCKED)).fetchall()
            return int(blocked)

        # Whoever asks has to wait for the lock, and can be counted.
        async with await psycopg.AsyncConnection.connect(database_url) as locking:
            await locking.execute("LOCK TABLE autonomy_ctx.turn_wait IN ACCESS EXCLUSIVE MODE")
            waiting = [
                asyncio.create_task(store.wait_for_turn(MAIN, start.ticket, seconds=60))
                for start in starts[1:]
            ]
            while not await count_blocked():
                await store.head(MAIN)
            assert await count_blocked() == 1
            await locking.rollback()
    # Each of the others looks once it is the first.
    for number in (0, 1):
        await store.leave_turn(MAIN, starts[number].ticket, owner=f"turn {number}")
        await waiting[number]
    assert not waiting[2].done()
    await store.close()
    with pytest.raises(StoreClosed):
        await waiting[2]
