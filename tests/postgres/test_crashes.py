"""What a write has done when the server crashes during its commit, and others go on in its place.

A crash undoes a commit that was not written to disk yet. Its transaction number is then given to another
transaction: a server that is asked for the outcome by this number may answer for somebody else.
"""

from __future__ import annotations

import asyncio
import os
import signal
from collections.abc import Awaitable, Callable, Coroutine
from typing import Any, LiteralString

import psycopg
import pytest
from anyio.lowlevel import checkpoint
from postgres_server import PostgresServer, wait_until

from autonomy_ctx import Memory
from autonomy_ctx.memory.postgres.store import PostgresStore
from autonomy_ctx.memory.sql.store import Store
from autonomy_ctx.testing import MAIN, make_drafts, make_message
from postgres.proxy import COMMIT, CuttingProxy

Write = Callable[[Store], Coroutine[Any, Any, object]]


async def pin(store: Store) -> object:
    return await store.pin(MAIN, "one", True)


async def delete_scope(store: Store) -> object:
    return await Memory(store=store).delete_scope("ana")


async def say(store: Store) -> object:
    return await store.append(MAIN, make_drafts(make_message("three", id="three")))


async def count_pins(store: Store) -> int:
    return len((await store.summary(MAIN)).pins)


async def count_messages(store: Store) -> int:
    return (await store.head(MAIN)).count


async def begin(server: PostgresServer, proxy: CuttingProxy) -> PostgresStore:
    """A store with two messages, on a server that writes no commit of it to disk by itself from then on."""
    # As slow disks do: the commit is made, and not yet on disk.
    server.execute("ALTER ROLE postgres SET synchronous_commit = off")
    store = PostgresStore(proxy.url(), listen_dsn="")
    await store.append(MAIN, make_drafts(make_message("one", id="one"), make_message("two", id="two")))
    server.execute("CHECKPOINT")
    os.kill(find_process(server, "walwriter"), signal.SIGSTOP)
    return store


def find_process(server: PostgresServer, kind: str) -> int:
    [(process,)] = server.execute("SELECT pid FROM pg_stat_activity WHERE backend_type = %s", kind)
    return int(process)


def use_numbers(server: PostgresServer) -> None:
    """Commit transactions of somebody else, which get the numbers of those that were lost."""
    for _ in range(50):
        server.execute("SELECT pg_current_xact_id()")


def stop_at_once(server: PostgresServer) -> None:
    """End all processes of a server without warning, and start it again."""
    kill_a_process(server)
    server.restart("immediate")


def kill_a_process(server: PostgresServer) -> None:
    """Kill a process of a server, which ends all others but the one that starts them again."""
    start: LiteralString = "SELECT pg_postmaster_start_time()"
    before = server.execute(start)
    os.kill(find_process(server, "walwriter"), signal.SIGKILL)

    def is_back() -> bool:
        try:
            return server.execute(start) == before
        except psycopg.OperationalError:
            return False

    wait_until(is_back, "the server goes on")


@pytest.mark.parametrize("crash", [stop_at_once, kill_a_process])
@pytest.mark.parametrize(
    ("write", "at", "result", "count", "expected"),
    [
        (pin, COMMIT, True, count_pins, 1),
        (delete_scope, COMMIT, 2, count_messages, 0),
        (say, b"INSERT INTO autonomy_ctx.message", [3], count_messages, 3),
    ],
    ids=["pin", "delete_scope", "append"],
)
async def test_a_write_that_a_crash_undid_is_not_acknowledged(
    own_server: PostgresServer,
    crash: Callable[[PostgresServer], None],
    write: Write,
    at: bytes,
    result: object,
    count: Callable[[Store], Awaitable[int]],
    expected: int,
) -> None:
    async with CuttingProxy(own_server.url()) as proxy:
        store = await begin(own_server, proxy)
        direct = PostgresStore(own_server.url(), listen_dsn="")
        before = await count(direct)
        proxy.fall_silent_at(at, forward=True)
        writing = asyncio.create_task(write(store))
        while await count(direct) != expected:
            await checkpoint()
        await direct.close()
        await asyncio.to_thread(crash, own_server)
        direct = PostgresStore(own_server.url(), listen_dsn="")
        assert await count(direct) == before, "the crash has undone it"
        use_numbers(own_server)
        proxy.cut()
        assert await writing == result
        assert await count(direct) == expected
        await store.close()
        await direct.close()


async def test_a_write_that_did_not_reach_the_new_primary_is_not_acknowledged(
    own_server: PostgresServer,
) -> None:
    replica = await asyncio.to_thread(own_server.make_replica, synchronous=False)
    try:
        async with CuttingProxy(own_server.url()) as proxy:
            store = await begin(own_server, proxy)
            reached: LiteralString = "SELECT count(*) FROM autonomy_ctx.message"
            while replica.execute("SELECT to_regclass('autonomy_ctx.message')::text") == [(None,)]:
                await checkpoint()
            while replica.execute(reached) != [(2,)]:
                await checkpoint()
            proxy.fall_silent_at(COMMIT, forward=True)
            writing = asyncio.create_task(pin(store))
            while own_server.execute("SELECT count(*) FROM autonomy_ctx.pin") != [(1,)]:
                await checkpoint()
            os.kill(find_process(own_server, "walwriter"), signal.SIGKILL)
            await asyncio.to_thread(own_server.stop, "immediate")
            await asyncio.to_thread(replica.promote)
            use_numbers(replica)
            proxy.lead_to(replica.url())
            proxy.cut()
            assert await writing is True
            assert await count_pins(store) == 1
            await store.close()
    finally:
        await asyncio.to_thread(replica.close)


async def test_a_commit_that_arrives_after_its_write_was_made_again_is_refused(
    own_server: PostgresServer,
) -> None:
    own_server.execute("CREATE TABLE note (text text)")
    async with CuttingProxy(own_server.url()) as proxy:
        store = PostgresStore(proxy.url(), listen_dsn="")
        await store.check()

        async def write(connection: psycopg.AsyncConnection[Any]) -> int:
            await connection.execute("INSERT INTO note VALUES ('kept')")
            return 1

        proxy.hold_at(COMMIT)
        assert await store._database.write(write) == 1
        assert await store._database.write(write) == 1, "the same writer goes on"
        assert b"null value" in await proxy.deliver()
        assert own_server.execute("SELECT count(*) FROM note") == [(2,)]
        await store.close()


async def test_a_writer_has_one_row_and_old_rows_go(own_server: PostgresServer) -> None:
    writers: LiteralString = "SELECT count(*) FROM autonomy_ctx.writer"
    store = PostgresStore(own_server.url(), listen_dsn="")
    assert await store.claim_next(owner="a", task="sum", seconds=1) is None
    assert own_server.execute(writers) == [(0,)], "nothing was changed"
    await say(store)
    for pinned in (True, False, True):
        assert await store.pin(MAIN, "three", pinned)
    assert own_server.execute(writers) == [(1,)]
    own_server.execute("UPDATE autonomy_ctx.writer SET at = at - 8 * 24 * 3600")
    other = PostgresStore(own_server.url(), listen_dsn="")
    assert await other.pin(MAIN, "three", False)
    assert own_server.execute(writers) == [(1,)]
    assert await store.pin(MAIN, "three", True), "also the one whose row is gone goes on"
    assert own_server.execute(writers) == [(2,)]
    await store.close()
    await other.close()
