"""Forks in PostgreSQL: the machine of `tests/memory` on a server, and what many connections do at once."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Iterator

import psycopg
import pytest
import pytest_asyncio
from hypothesis import Phase, settings
from hypothesis.stateful import run_state_machine_as_test
from memory.test_fork_machine import CI, ForkMachine
from postgres_server import Databases

from autonomy_ctx import Memory
from autonomy_ctx.errors import InvalidFork
from autonomy_ctx.memory.postgres.store import PostgresStore
from autonomy_ctx.testing import make_message
from postgres.test_stores import ServerClock

# A session that waits for a lock of another.
WAITING = """
    SELECT count(*) FROM pg_stat_activity
    WHERE datname = current_database() AND cardinality(pg_blocking_pids(pid)) > 0
"""


@pytest.fixture
def stopped_database(databases: Databases) -> Iterator[str]:
    """A database with our tables whose clock does not go, to be copied."""

    async def make_tables() -> None:
        store = PostgresStore(databases.url_of(name))
        await store.check()
        await store.close()

    name = databases.create()
    asyncio.run(make_tables())
    ServerClock(databases.url_of(name)).connection.close()
    yield name
    databases.drop(name)


def test_every_conversation_is_exactly_what_was_said_in_it(
    databases: Databases, stopped_database: str
) -> None:
    class PostgresForkMachine(ForkMachine):
        def __init__(self) -> None:
            self.database = databases.create(stopped_database)
            super().__init__()

        def on_disk(self) -> Memory:
            return Memory(databases.url_of(self.database), clock=self.clock)

        def teardown(self) -> None:
            super().teardown()
            databases.drop(self.database)

    # What fails here is made shorter on SQLite, if it fails there: each try would take a database.
    options = settings(CI, max_examples=8, stateful_step_count=20, phases=[Phase.generate])
    run_state_machine_as_test(PostgresForkMachine, settings=options)


async def wait_for_lock(url: str) -> None:
    """Wait until a session waits for another."""
    async with await psycopg.AsyncConnection.connect(url, autocommit=True) as observer:
        while await (await observer.execute(WAITING)).fetchone() != (1,):
            pass


@pytest_asyncio.fixture
async def memory(database_url: str) -> AsyncIterator[Memory]:
    async with Memory(database_url, pool_size=20) as memory:
        for number in range(1, 31):
            await memory.append("ana", "trip", make_message(f"said {number}", id=f"m{number}"))
        yield memory


async def test_those_that_fork_to_one_name_at_once_make_one_fork(memory: Memory) -> None:
    made: list[int] = []

    async def fork(at: int) -> None:
        try:
            await memory.fork("ana", "trip", at=at, name="fork")
        except InvalidFork:
            return
        made.append(at)

    await asyncio.gather(*(fork(at) for at in range(1, 20)))
    [at] = made
    assert (await memory.head("ana", "fork")).position == at


async def test_forks_deletions_and_appends_at_once_leave_conversations_whole(memory: Memory) -> None:
    """Each in its own order of conversations: those that wait for each other all come to an end."""
    names = [await memory.fork("ana", "trip", at=20, name=f"f{number}") for number in range(4)]
    appended: dict[str, list[int]] = {}

    async def append(name: str) -> None:
        appended[name] = [
            (await memory.append("ana", name, make_message("new", id=f"{name} {number}")))[0]
            for number in range(10)
        ]

    async def delete(name: str, numbers: range) -> None:
        for number in numbers:
            await memory.delete_message("ana", name, f"m{number}")

    async def fork(name: str) -> None:
        for number in range(3):
            await memory.fork("ana", name, at=15, name=f"{name}, {number}")

    deletions = zip([*names, "trip"], (range(n, 20, 5) for n in range(1, 6)), strict=True)
    await asyncio.gather(
        *(append(name) for name in names),
        *(delete(name, numbers) for name, numbers in deletions),
        *(fork(name) for name in names),
    )
    for name, positions in appended.items():
        assert positions == list(range(21, 31)), name
    for info in await memory.conversations("ana"):
        # Reading compares the count with the rows.
        entries = (await memory.read("ana", info.conversation)).entries
        shared = [entry.position for entry in entries if entry.message.id.startswith("m")]
        assert shared == ([20, *range(21, 31)] if info.conversation == "trip" else [20]), info


async def test_a_fork_made_while_a_deletion_waits_loses_the_message_too(
    memory: Memory, database_url: str
) -> None:
    async with await psycopg.AsyncConnection.connect(database_url) as other:
        await other.execute("SELECT 1 FROM autonomy_ctx.conversation WHERE conversation = 'trip' FOR SHARE")
        deletion = asyncio.create_task(memory.delete_message("ana", "trip", "m3"))
        await wait_for_lock(database_url)
        await memory.fork("ana", "trip", at=5, name="fork")
        assert (await memory.head("ana", "fork")).count == 5
    assert await deletion
    assert (await memory.head("ana", "fork")).count == 4
    assert (await memory.head("ana", "trip")).count == 29


async def test_a_scope_is_deleted_with_the_forks_that_are_made_meanwhile(
    memory: Memory, database_url: str
) -> None:
    await memory.facts("ana", "trip").add("rule", "written by a user")
    async with await psycopg.AsyncConnection.connect(database_url) as other:
        await other.execute("SELECT 1 FROM autonomy_ctx.conversation WHERE conversation = 'trip' FOR SHARE")
        deletion = asyncio.create_task(memory.delete_scope("ana"))
        await wait_for_lock(database_url)
        await memory.fork("ana", "trip", name="fork")
        assert len(await memory.facts("ana", "fork")) == 1
    assert await deletion == 30
    assert await memory.conversations("ana") == []
    assert await memory.facts("ana", "fork") == []
