"""What happens when the server goes away, answers nothing, takes no writes, or has no connection left."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Coroutine, Iterator
from typing import Any

import anyio.lowlevel
import psycopg
import pytest
import pytest_asyncio
from postgres_server import PostgresServer, StopMode
from stores.facts import make_change

from autonomy_ctx import Memory
from autonomy_ctx.errors import StoreBusy, StoreClosed, StoreUnavailable
from autonomy_ctx.memory.postgres.store import PostgresStore
from autonomy_ctx.memory.sql.store import Store
from autonomy_ctx.memory.store import Key, Lease
from autonomy_ctx.messages.fact import FactChange
from autonomy_ctx.testing import MAIN, make_drafts, make_message
from autonomy_ctx.testing.values import make_segment
from postgres.proxy import COMMIT, CuttingProxy

LOCK = "SELECT 1 FROM autonomy_ctx.conversation FOR UPDATE"


async def say(store: Store, name: str, key: Key = MAIN) -> int:
    [position] = await store.append(key, make_drafts(make_message(name, id=name)))
    return position


def set_timeout(store: PostgresStore, seconds: float) -> None:
    """Short only where a call must fail: on a busy machine, a call that must not may take a while."""
    store._database.timeout = seconds


async def texts(store: Store, key: Key = MAIN) -> list[str]:
    return [entry.message.text for entry in (await store.read(key)).entries]


@pytest_asyncio.fixture
async def store(database_url: str) -> AsyncIterator[PostgresStore]:
    store = PostgresStore(database_url)
    yield store
    await store.close()


@pytest_asyncio.fixture
async def proxy(database_url: str) -> AsyncIterator[CuttingProxy]:
    async with CuttingProxy(database_url) as proxy:
        yield proxy


@pytest_asyncio.fixture
async def proxied(proxy: CuttingProxy) -> AsyncIterator[PostgresStore]:
    store = PostgresStore(proxy.url())
    assert await say(store, "one") == 1
    yield store
    await store.close()


@pytest.fixture
def other(database_url: str) -> Iterator[psycopg.Connection[tuple[int]]]:
    """Somebody else's session."""
    with psycopg.connect(database_url) as connection:
        yield connection


async def test_nobody_notices_that_connections_were_ended(own_server: PostgresServer) -> None:
    store = PostgresStore(own_server.url())
    for number in range(1, 4):
        assert await say(store, f"m{number}") == number
        assert own_server.terminate_backends() >= 1
    assert own_server.terminate_backends() == 0
    assert await texts(store) == ["m1", "m2", "m3"]
    await store.close()


@pytest.mark.parametrize("mode", ["fast", "immediate"])
async def test_a_restart_loses_nothing_and_doubles_nothing(
    own_server: PostgresServer, mode: StopMode
) -> None:
    store = PostgresStore(own_server.url(), pool_size=4)
    await say(store, "first")
    is_over = False

    async def speak(task: int) -> list[tuple[int, str]]:
        given: list[tuple[int, str]] = []
        while not is_over or len(given) < 5:
            name = f"{task}.{len(given)}"
            given.append((await say(store, name), name))
        return given

    tasks = [asyncio.create_task(speak(task)) for task in range(6)]
    await asyncio.to_thread(own_server.restart, mode)
    is_over = True
    given = sorted(one for answers in await asyncio.gather(*tasks) for one in answers)
    assert [position for position, _ in given] == list(range(2, len(given) + 2))
    assert await texts(store) == ["first", *(name for _, name in given)]
    await store.close()


async def test_a_server_that_is_gone_is_told_within_the_deadline_and_used_again_when_it_is_back(
    own_server: PostgresServer,
) -> None:
    url = own_server.url().replace("postgres@", "postgres:secret@")
    store = PostgresStore(url)
    await say(store, "one")
    await asyncio.to_thread(own_server.stop)
    set_timeout(store, 0.6)
    uses: list[Callable[[], Awaitable[object]]]
    uses = [lambda: say(store, "two"), lambda: texts(store), store.check]
    for use in uses:
        with pytest.raises(StoreUnavailable, match=r"refused.*0\.6 s") as caught:
            await use()
        assert f"127.0.0.1:{own_server.port}/postgres" in str(caught.value)
        assert "secret" not in str(caught.value)
        assert caught.value.__cause__ is None
    await asyncio.to_thread(own_server.start)
    set_timeout(store, 30)
    assert await say(store, "two") == 2
    assert await texts(store) == ["one", "two"]
    await store.close()


async def test_a_call_waits_for_a_server_that_comes_back(own_server: PostgresServer) -> None:
    store = PostgresStore(own_server.url())
    await say(store, "one")
    await asyncio.to_thread(own_server.stop)
    waiting = asyncio.create_task(say(store, "two"))
    reading = asyncio.create_task(store.head(MAIN))
    await asyncio.to_thread(own_server.start)
    assert (await waiting, (await reading).count in (1, 2)) == (2, True)
    await store.close()


@pytest.mark.parametrize("forward", [True, False], ids=["committed", "not committed"])
async def test_an_append_without_an_answer_is_kept_once(
    proxy: CuttingProxy, proxied: PostgresStore, forward: bool
) -> None:
    proxy.cut_at(b"INSERT INTO autonomy_ctx.message", forward=forward)
    assert await say(proxied, "two") == 2
    proxy.cut_at(b"INSERT INTO autonomy_ctx.message", forward=forward)
    drafts = make_drafts(make_message("three", id="three"), make_message("four", id="four"))
    assert await proxied.append(MAIN, drafts) == [3, 4]
    assert proxy.cuts == 2
    assert await texts(proxied) == ["one", "two", "three", "four"]


@pytest.mark.parametrize("forward", [True, False], ids=["committed", "not committed"])
async def test_a_transaction_without_an_answer_to_its_commit_is_made_once(
    proxy: CuttingProxy, proxied: PostgresStore, forward: bool
) -> None:
    """What would be something else the second time: a lease, facts, records, deletions."""

    async def add_fact() -> list[str]:
        change: FactChange = make_change(1, "budget 9,200", source="user")
        return [fact.id for fact in await proxied.write_facts(MAIN, [change])]

    async def take() -> int:
        lease = await proxied.claim(MAIN, owner="a", task="sum", seconds=10)
        assert isinstance(lease, Lease)
        return lease.fence

    async def commit() -> bool:
        return await proxied.commit_segment(MAIN, make_segment(1, 1), generation=0, fence=1)

    async def put() -> int:
        return len(await proxied.put_records(MAIN, "mail", [("a", "x"), ("b", "y")], keep=5))

    async def drop() -> list[str]:
        return await proxied.drop_records(MAIN, "mail", ["a"])

    async def forget() -> int:
        return await proxied.delete("ana", "", "trip", ["one"])

    expected: dict[Callable[[], Awaitable[object]], object]
    expected = {add_fact: ["F1"], take: 1, commit: True, put: 2, drop: ["a"], forget: 1}
    for number, (work, result) in enumerate(expected.items(), start=1):
        proxy.cut_at(COMMIT, forward=forward)
        assert await work() == result, str(work)
        assert proxy.cuts == number
    assert [record.name for record in await proxied.read_records(MAIN, "mail")] == ["b"]


async def test_an_append_whose_answer_never_comes_says_that_its_outcome_is_not_known(
    proxy: CuttingProxy, database_url: str
) -> None:
    store = PostgresStore(proxy.url())
    await say(store, "one")
    set_timeout(store, 0.5)
    proxy.fall_silent_at(b"INSERT INTO autonomy_ctx.message", forward=True)
    with pytest.raises(StoreUnavailable, match=r"outcome is not known.*same id"):
        await say(store, "two")
    set_timeout(store, 30)
    assert await say(store, "two") == 2, "and sent again it is kept once"
    await store.close()


async def test_an_append_that_got_no_answer_and_then_has_to_wait_says_so_too(
    proxy: CuttingProxy, proxied: PostgresStore, other: psycopg.Connection[tuple[int]]
) -> None:
    set_timeout(proxied, 2)
    proxy.fall_silent_at(b"INSERT INTO autonomy_ctx.message", forward=True)
    saying = asyncio.create_task(say(proxied, "two"))
    while other.execute("SELECT count(*) FROM autonomy_ctx.message").fetchone() != (2,):
        await anyio.lowlevel.checkpoint()
    other.execute(LOCK)
    proxy.cut()
    with pytest.raises(StoreUnavailable, match=r"outcome is not known.*same id"):
        await saying
    other.rollback()
    set_timeout(proxied, 30)
    assert await say(proxied, "two") == 2


async def test_a_statement_that_waits_too_long_is_taken_back(
    store: PostgresStore, database_url: str, other: psycopg.Connection[tuple[int]]
) -> None:
    await say(store, "one")
    impatient = PostgresStore(database_url)
    await impatient.head(MAIN)
    other.execute(LOCK)
    set_timeout(impatient, 0.4)
    with pytest.raises(StoreBusy, match="nothing was stored"):
        await say(impatient, "two")
    with pytest.raises(StoreBusy, match="nothing was stored"):
        await impatient.pin(MAIN, "one", True)
    other.rollback()
    set_timeout(impatient, 30)
    assert await texts(impatient) == ["one"]
    assert (await store.summary(MAIN)).pins == ()
    assert await say(impatient, "three") == 2
    await impatient.close()


async def test_a_limit_of_the_server_is_named(own_server: PostgresServer) -> None:
    store = PostgresStore(own_server.url(), timeout=60)
    await say(store, "one")
    own_server.execute("ALTER ROLE postgres SET lock_timeout = '50ms'")
    own_server.terminate_backends()
    with psycopg.connect(own_server.url()) as other:
        other.execute(LOCK)
        with pytest.raises(StoreBusy, match=r"lock_timeout.*nothing was stored"):
            await say(store, "two")
    assert await texts(store) == ["one"]
    await store.close()


async def test_a_server_without_room_for_another_connection_is_used_as_soon_as_there_is(
    own_server: PostgresServer,
) -> None:
    own_server.execute("CREATE ROLE app LOGIN CONNECTION LIMIT 2")
    owner = PostgresStore(own_server.url())
    await say(owner, "one")
    await owner.close()
    own_server.execute("GRANT USAGE ON SCHEMA autonomy_ctx TO app")
    own_server.execute("GRANT ALL ON ALL TABLES IN SCHEMA autonomy_ctx TO app")
    url = own_server.url().replace("postgres@", "app@")
    with psycopg.connect(url), psycopg.connect(url) as second:
        impatient = PostgresStore(url, timeout=0.6)
        with pytest.raises(StoreUnavailable, match="no more connections"):
            await say(impatient, "two")
        patient = PostgresStore(url)
        tasks = [asyncio.create_task(say(patient, f"m{number}")) for number in range(4)]
        second.close()
        assert sorted(await asyncio.gather(*tasks)) == [2, 3, 4, 5], "by one connection"
    await patient.close()
    await impatient.close()


async def test_a_pool_without_a_free_connection_says_so(
    store: PostgresStore, database_url: str, other: psycopg.Connection[tuple[int]]
) -> None:
    await say(store, "one")
    small = PostgresStore(database_url, pool_size=1)
    await small.head(MAIN)
    other.execute(LOCK)
    first = asyncio.create_task(say(small, "two"))
    while other.execute("SELECT count(*) FROM pg_locks WHERE NOT granted").fetchone() == (0,):
        await anyio.lowlevel.checkpoint()
    set_timeout(small, 0.2)
    with pytest.raises(StoreBusy, match=r"no free connection \(all 1"):
        await say(small, "three", Key("", "ana", "other"))
    other.rollback()
    assert await first == 2
    await small.close()


async def test_a_caller_that_is_cancelled_leaves_nothing_behind(
    store: PostgresStore, database_url: str, other: psycopg.Connection[tuple[int]]
) -> None:
    await say(store, "one")
    small = PostgresStore(database_url, pool_size=1)
    await small.head(MAIN)

    async def is_blocked() -> bool:
        with psycopg.connect(database_url, autocommit=True) as looking:
            found = looking.execute("SELECT count(*) FROM pg_locks WHERE NOT granted").fetchone()
        return found != (0,)

    works: list[Callable[[], Coroutine[Any, Any, object]]]
    works = [lambda: say(small, "two"), lambda: small.pin(MAIN, "one", True)]
    for work in works:
        other.execute(LOCK)
        task = asyncio.create_task(work())
        while not await is_blocked():
            await asyncio.wait([task], timeout=0.01)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        other.rollback()
        assert await texts(small) == ["one"]
        assert (await small.summary(MAIN)).pins == ()
    await small.close()


async def test_a_server_that_takes_no_writes_says_so_and_is_used_again_when_it_does(
    own_server: PostgresServer,
) -> None:
    store = PostgresStore(own_server.url())
    await say(store, "one")
    await asyncio.to_thread(own_server.set_read_only, True)
    # Long enough for an answer of the server also on a busy machine.
    set_timeout(store, 2)
    with pytest.raises(StoreUnavailable, match=r"read-only.*nothing was stored"):
        await say(store, "two")
    with pytest.raises(StoreUnavailable, match="read-only"):
        await store.check()
    set_timeout(store, 30)
    assert await texts(store) == ["one"]
    patient = PostgresStore(own_server.url())
    waiting = asyncio.create_task(say(patient, "two"))
    await asyncio.to_thread(own_server.set_read_only, False)
    assert await waiting == 2
    assert await say(store, "three") == 3
    await store.close()
    await patient.close()


async def test_after_a_failover_the_new_primary_is_used(own_server: PostgresServer) -> None:
    replica = await asyncio.to_thread(own_server.make_replica)
    try:
        hosts = f"127.0.0.1:{own_server.port},127.0.0.1:{replica.port}"
        store = PostgresStore(f"postgresql://postgres@{hosts}/postgres")
        given = [await say(store, f"m{number}") for number in range(3)]
        before = store.identity
        waiting = [asyncio.create_task(say(store, f"n{number}")) for number in range(3)]
        await asyncio.to_thread(own_server.stop, "immediate")
        await asyncio.to_thread(replica.promote)
        given += [await one for one in waiting]
        assert sorted(given) == [1, 2, 3, 4, 5, 6]
        assert sorted(await texts(store)) == ["m0", "m1", "m2", "n0", "n1", "n2"]
        assert store.identity != before, "what was cached of the old one may have been lost"
        await store.close()
    finally:
        await asyncio.to_thread(replica.close)


async def test_a_replica_is_read_from_and_refuses_writes(own_server: PostgresServer) -> None:
    primary = PostgresStore(own_server.url())
    await say(primary, "one")
    replica = await asyncio.to_thread(own_server.make_replica)
    try:
        store = PostgresStore(replica.url())
        assert await texts(store) == ["one"]
        set_timeout(store, 0.6)
        with pytest.raises(StoreUnavailable, match="read-only"):
            await say(store, "two")
        await store.close()
    finally:
        # The commits of the primary wait for the replica, which is gone then.
        await primary.close()
        await asyncio.to_thread(replica.close)


async def test_deadlocks_are_tried_again(store: PostgresStore) -> None:
    keys = [Key("", "ana", str(number)) for number in range(8)]
    for key in keys:
        await say(store, "one", key)

    async def churn(number: int) -> None:
        for step in range(6):
            key = keys[(number * 3 + step) % len(keys)]
            await store.claim_next(owner=str(number), task="sum", seconds=0.001)
            await store.enqueue_task(key, task="sum")
            await store.drop_segments("ana")
            await store.delete("ana", "", key.conversation, [f"{number}.{step - 1}"])
            await say(store, f"{number}.{step}", key)

    await asyncio.gather(*(churn(number) for number in range(8)))
    kept = [text for key in keys for text in await texts(store, key)]
    said = [f"{number}.{step}" for number in range(8) for step in range(6)]
    # What was to be deleted stands in another conversation: all of it is there, once.
    assert sorted(kept) == sorted(["one"] * len(keys) + said)


async def test_a_closed_store_says_so(store: PostgresStore) -> None:
    await say(store, "one")
    await store.close()
    uses: list[Callable[[], Awaitable[object]]]
    uses = [lambda: say(store, "two"), lambda: store.search("", "ana", "the")]
    for use in uses:
        with pytest.raises(StoreClosed):
            await use()


async def test_memory_over_a_server_that_is_not_there(own_server: PostgresServer) -> None:
    url = own_server.url()
    await asyncio.to_thread(own_server.stop)
    store = PostgresStore(url, timeout=0.3)
    memory = Memory(store=store)
    assert not await memory.health_check()
    await asyncio.to_thread(own_server.start)
    set_timeout(store, 30)
    assert await memory.health_check()
    await memory.close()
