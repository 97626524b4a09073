"""Who waits is woken by a notification, and looks for itself where none comes."""

from __future__ import annotations

import asyncio
import logging
import os
import subprocess
import sys
from collections.abc import AsyncIterator, Callable
from pathlib import Path
from urllib.parse import urlsplit

import pytest
import pytest_asyncio
from postgres_server import Databases, PgBouncer, PostgresServer
from tcp_proxy import TcpProxy

from autonomy_ctx import Memory
from autonomy_ctx.errors import StoreClosed
from autonomy_ctx.memory.postgres import notifications
from autonomy_ctx.memory.postgres import store as store_module
from autonomy_ctx.memory.postgres.store import PostgresStore
from autonomy_ctx.memory.store import Lease, TurnToken
from autonomy_ctx.testing import MAIN, make_drafts, make_message

ROOT = Path(__file__).parent.parent.parent
HOUR = 3600.0
TASK = "summaries"
# Seconds: who is not woken by now will not be.
PATIENCE = 60


class Line:
    """A turn that one store holds, and one that waits for it in another."""

    def __init__(self, holding: PostgresStore, waiting: PostgresStore) -> None:
        self.holding, self.waiting = holding, waiting

    async def begin(self) -> asyncio.Task[None]:
        assert (await self.holding.begin_turn(MAIN, [], owner="a", seconds=HOUR)).positions == []
        start = await self.waiting.begin_turn(MAIN, [], owner="b", seconds=HOUR)
        assert start.positions is None
        return asyncio.create_task(self.waiting.wait_for_turn(MAIN, start.ticket, seconds=HOUR))

    async def end(self) -> None:
        drafts = make_drafts(make_message("answer", id="answer"))
        await self.holding.append(MAIN, drafts, turn=TurnToken(MAIN, 1, "a"), ends=True)


@pytest_asyncio.fixture
async def holding(database_url: str) -> AsyncIterator[PostgresStore]:
    store = PostgresStore(database_url)
    await store.check()
    yield store
    await store.close()


@pytest.fixture
def poll_hourly(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(store_module, "TURN_POLL_SECONDS", HOUR)


async def until(condition: Callable[[], bool]) -> None:
    async with asyncio.timeout(PATIENCE):
        while not condition():
            await asyncio.to_thread(lambda: None)


def listens(databases: Databases, database: str) -> bool:
    """Whether a session of a database has listened and waits now."""
    found = databases._connect().execute(
        "SELECT 1 FROM pg_stat_activity WHERE datname = %s AND query LIKE 'LISTEN%%' AND state = 'idle'",
        (database,),
    )
    return found.fetchone() is not None


@pytest.mark.usefixtures("poll_hourly")
@pytest.mark.parametrize("listened_before", [True, False])
async def test_a_turn_that_waits_is_woken_by_the_end_of_the_one_before(
    holding: PostgresStore, database_url: str, database: str, databases: Databases, listened_before: bool
) -> None:
    waiting = PostgresStore(database_url)
    line = Line(holding, waiting)
    task = await line.begin()
    if listened_before:
        await until(lambda: listens(databases, database))
    await line.end()
    await asyncio.wait_for(task, PATIENCE)
    await waiting.close()


@pytest.mark.usefixtures("poll_hourly")
async def test_a_turn_that_waits_is_woken_when_the_one_before_leaves(
    holding: PostgresStore, database_url: str
) -> None:
    waiting = PostgresStore(database_url)
    task = await Line(holding, waiting).begin()
    await holding.leave_turn(MAIN, None, owner="a")
    await asyncio.wait_for(task, PATIENCE)
    await waiting.close()


@pytest.mark.usefixtures("poll_hourly")
async def test_behind_a_pooler_a_listener_that_goes_straight_to_the_server_is_woken(
    holding: PostgresStore, database_url: str, database: str, databases: Databases, pgbouncer: PgBouncer
) -> None:
    waiting = PostgresStore(pgbouncer.url(database), listen_dsn=database_url)
    line = Line(holding, waiting)
    task = await line.begin()
    await until(lambda: listens(databases, database))
    await line.end()
    await asyncio.wait_for(task, PATIENCE)
    await waiting.close()


@pytest.mark.parametrize("listen_dsn", [None, ""])
async def test_where_no_notification_comes_the_table_is_looked_at(
    holding: PostgresStore,
    database: str,
    pgbouncer: PgBouncer,
    listen_dsn: str | None,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    assert store_module.TURN_POLL_SECONDS == 2
    monkeypatch.setattr(store_module, "TURN_POLL_SECONDS", 0.05)
    waiting = PostgresStore(pgbouncer.url(database), listen_dsn=listen_dsn)
    line = Line(holding, waiting)
    task = await line.begin()
    await line.end()
    await asyncio.wait_for(task, PATIENCE)
    await waiting.close()


async def test_with_an_empty_url_nobody_listens(
    database_url: str, database: str, databases: Databases
) -> None:
    async with Memory(database_url, listen_dsn="") as memory:
        store = memory.store
        assert isinstance(store, PostgresStore)
        await store.wait_for_work(task=TASK, seconds=0.01)
        await store.claim_next(owner="a", task=TASK, seconds=10)
        assert not listens(databases, database)


@pytest.mark.usefixtures("poll_hourly")
async def test_nobody_waits_longer_than_the_lease_before(holding: PostgresStore, database_url: str) -> None:
    """Nobody tells of a lease that ends."""
    # Long enough for the other to connect and to find it taken.
    await holding.begin_turn(MAIN, [], owner="a", seconds=1.0)
    waiting = PostgresStore(database_url)
    start = await waiting.begin_turn(MAIN, [], owner="b", seconds=HOUR)
    await asyncio.wait_for(waiting.wait_for_turn(MAIN, start.ticket, seconds=HOUR), PATIENCE)
    assert (await waiting.begin_turn(MAIN, [], owner="b", seconds=HOUR, ticket=start.ticket)).took_over
    await waiting.close()


async def claim(store: PostgresStore) -> Lease:
    """As a worker does it: look, wait, look again."""
    while not isinstance(found := await store.claim_next(owner="w", task=TASK, seconds=HOUR), Lease):
        await store.wait_for_work(task=TASK, seconds=HOUR)
    return found


@pytest.mark.parametrize("listened_before", [True, False])
async def test_who_waits_for_work_is_woken_when_some_is_owed(
    holding: PostgresStore, database_url: str, database: str, databases: Databases, listened_before: bool
) -> None:
    await holding.append(MAIN, make_drafts(make_message("one", id="one")))
    worker = PostgresStore(database_url)
    task = asyncio.create_task(claim(worker))
    if listened_before:
        await until(lambda: listens(databases, database))
    await holding.enqueue_task(MAIN, task=TASK)
    assert (await asyncio.wait_for(task, PATIENCE)).key == MAIN
    await worker.close()


async def test_what_was_owed_after_a_look_is_not_waited_for(
    holding: PostgresStore, database_url: str, database: str, databases: Databases
) -> None:
    """The notification comes before the wait begins."""
    await holding.append(MAIN, make_drafts(make_message("one", id="one")))
    worker = PostgresStore(database_url)
    await worker.wait_for_work(task=TASK, seconds=0.01)
    await until(lambda: listens(databases, database))
    await until(lambda: worker._notifications.here().number > 0)
    assert await worker.claim_next(owner="w", task=TASK, seconds=HOUR) is None
    before = worker._notifications.here().number
    await holding.enqueue_task(MAIN, task=TASK)
    await until(lambda: worker._notifications.here().number > before)
    await asyncio.wait_for(worker.wait_for_work(task=TASK, seconds=HOUR), PATIENCE)
    await worker.close()


async def test_other_tasks_and_conversations_wake_nobody(
    holding: PostgresStore, database_url: str, database: str, databases: Databases
) -> None:
    await holding.append(MAIN, make_drafts(make_message("one", id="one")))
    worker = PostgresStore(database_url)
    await worker.wait_for_work(task=TASK, seconds=0.01)
    await until(lambda: worker._notifications.here().number > 0)
    assert await worker.claim_next(owner="w", task=TASK, seconds=HOUR) is None
    before = worker._notifications.here().number
    waiting = asyncio.create_task(worker.wait_for_work(task=TASK, seconds=HOUR))
    await holding.enqueue_task(MAIN, task="other")
    await until(lambda: worker._notifications.here().number > before)
    for _ in range(5):
        await asyncio.to_thread(lambda: None)
    assert not waiting.done()
    await worker.close()
    await asyncio.wait_for(waiting, PATIENCE)


@pytest.mark.usefixtures("poll_hourly")
async def test_a_listener_that_was_cut_off_listens_again_and_all_look(
    own_server: PostgresServer, caplog: pytest.LogCaptureFixture
) -> None:
    async with TcpProxy(own_server.port) as proxy:
        url = own_server.url()
        through_proxy = urlsplit(url)._replace(netloc=f"postgres@127.0.0.1:{proxy.port}").geturl()
        holding, waiting = PostgresStore(url), PostgresStore(url, listen_dsn=through_proxy)
        line = Line(holding, waiting)
        task = await line.begin()
        await until(lambda: waiting._notifications.here().number > 0)
        await proxy.refuse()
        with caplog.at_level(logging.WARNING, "autonomy_ctx.memory"):
            await proxy.cut()
            # Told while nobody listens.
            await line.end()
            await until(lambda: "tables are polled instead" in caplog.text)
        assert not task.done()
        await proxy.listen()
        await asyncio.wait_for(task, PATIENCE)
        await holding.close()
        await waiting.close()


@pytest.mark.usefixtures("poll_hourly")
async def test_a_close_ends_all_waits_and_leaves_no_task(
    holding: PostgresStore, database_url: str, database: str, databases: Databases
) -> None:
    waiting = PostgresStore(database_url)
    turn = await Line(holding, waiting).begin()
    work = asyncio.create_task(waiting.wait_for_work(task=TASK, seconds=HOUR))
    await until(lambda: listens(databases, database))
    await waiting.close()
    with pytest.raises(StoreClosed):
        await asyncio.wait_for(turn, PATIENCE)
    await asyncio.wait_for(work, PATIENCE)
    with pytest.raises(StoreClosed):
        await waiting.wait_for_work(task=TASK, seconds=HOUR)
    left = [task for task in asyncio.all_tasks() if "_Listener" in repr(task.get_coro())]
    assert left == []


@pytest.mark.usefixtures("poll_hourly")
async def test_a_wait_that_is_cancelled_leaves_nothing(holding: PostgresStore, database_url: str) -> None:
    waiting = PostgresStore(database_url)
    task = await Line(holding, waiting).begin()
    listener = await first_listener(waiting)
    await until(lambda: bool(listener._waiting))
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert listener._waiting == {}
    await waiting.close()


async def first_listener(store: PostgresStore) -> notifications.Listener:
    await until(lambda: bool(store._notifications._listeners))
    return next(iter(store._notifications._listeners.values()))


async def test_topics_that_are_forgotten_wake_rather_than_not(
    database_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(notifications, "MAX_TOPICS", 3)
    store = PostgresStore(database_url, listen_dsn="")
    listener = store._notifications.here()
    since = listener.number
    listener.note("mine")
    for number in range(10):
        listener.note(str(number))
    await asyncio.wait_for(listener.wait("mine", since, HOUR), PATIENCE)
    assert len(listener._last) <= 3
    await store.close()


def test_a_program_that_ends_while_it_listens_says_nothing(database_url: str) -> None:
    program = """
import asyncio, sys
from autonomy_ctx import Memory
memory = Memory(sys.argv[1])
async def main():
    await memory.health_check()
    await memory.store.wait_for_work(task="a", seconds=60)
    tasks = [asyncio.create_task(memory.store.wait_for_work(task="b", seconds=60)) for _ in range(3)]
    for _ in range(int(sys.argv[2])):
        await asyncio.sleep(0)
for number in range(2):
    asyncio.run(main())
"""
    for steps in ("0", "2"):
        command = [sys.executable, "-X", "dev", "-W", "error", "-c", program, database_url, steps]
        ran = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=60)
        assert (ran.returncode, ran.stderr) == (0, "")


def test_each_event_loop_listens_by_itself(database_url: str) -> None:
    store, other = PostgresStore(database_url), PostgresStore(database_url)

    async def once(number: int) -> None:
        name = str(number)
        await other.append(MAIN, make_drafts(make_message(name, id=name)))
        task = asyncio.create_task(claim(store))
        await until(lambda: bool(store._notifications.here().number))
        await other.enqueue_task(MAIN, task=TASK)
        lease = await asyncio.wait_for(task, PATIENCE)
        await store.complete_task(lease)

    for number in range(2):
        asyncio.run(once(number))

    async def close() -> None:
        await store.close()
        await other.close()

    asyncio.run(close())


@pytest.mark.filterwarnings("ignore:.*fork.*:DeprecationWarning")
def test_a_forked_process_listens_by_itself(database_url: str) -> None:
    store, other = PostgresStore(database_url), PostgresStore(database_url)

    async def take() -> None:
        lease = await asyncio.wait_for(claim(store), PATIENCE)
        await store.complete_task(lease)

    async def main() -> None:
        await other.append(MAIN, make_drafts(make_message("one", id="one")))
        await store.wait_for_work(task=TASK, seconds=PATIENCE)
        child = os.fork()
        if not child:
            code = 1
            try:
                asyncio.events._set_running_loop(None)
                asyncio.run(take())
                code = 0
            finally:
                os._exit(code)
        await other.enqueue_task(MAIN, task=TASK)
        _, status = await asyncio.to_thread(os.waitpid, child, 0)
        assert os.waitstatus_to_exitcode(status) == 0
        assert await store.claim_next(owner="w", task=TASK, seconds=HOUR) is None
        task = asyncio.create_task(claim(store))
        await other.enqueue_task(MAIN, task=TASK)
        await asyncio.wait_for(task, PATIENCE)
        await store.close()
        await other.close()

    asyncio.run(main())
