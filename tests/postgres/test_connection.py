"""Where a store connects: its URL, users, event loops and forks; and texts of all kinds."""

from __future__ import annotations

import asyncio
import os
import subprocess
import sys
from pathlib import Path

import pytest
import trio
from postgres_server import PostgresServer
from psycopg.pq import ExecStatus

from autonomy_ctx import Memory
from autonomy_ctx.errors import AutonomyCtxError, StoreUnavailable
from autonomy_ctx.memory.postgres.store import PostgresStore
from autonomy_ctx.memory.store import Key
from autonomy_ctx.testing import MAIN, make_drafts, make_message

ROOT = Path(__file__).parent.parent.parent


async def say(store: PostgresStore, name: str, key: Key = MAIN) -> int:
    [position] = await store.append(key, make_drafts(make_message(name, id=name)))
    return position


@pytest.mark.parametrize(
    "url",
    [
        "postgresql://ana:sec ret@host:port/db",
        "postgresql://ana:secret@[::1/db",
        "postgresql://h/db?x=secret",
    ],
)
def test_a_url_that_cannot_be_read_is_refused_without_being_repeated(url: str) -> None:
    with pytest.raises(StoreUnavailable, match="postgresql://user:password@host") as caught:
        Memory(url)
    assert "sec" not in str(caught.value)
    assert caught.value.__context__ is None


@pytest.mark.parametrize("scheme", ["postgresql", "postgres"])
async def test_both_schemes_are_known(database_url: str, scheme: str) -> None:
    async with Memory(f"{scheme}://{database_url.partition('://')[2]}", pool_size=2) as memory:
        assert await memory.append("ana", "trip", {"role": "user", "content": "hi"}) == [1]


@pytest.mark.parametrize("pool_size", [0, -1, 1.5, "10"])
def test_a_pool_has_at_least_one_connection(pool_size: object) -> None:
    with pytest.raises((ValueError, TypeError), match="pool_size"):
        Memory("postgresql://localhost/memory", pool_size=pool_size)  # type: ignore[arg-type]


def test_without_the_extra_it_says_what_to_install() -> None:
    program = """
import sys
sys.modules["psycopg"] = None
from autonomy_ctx import Memory
try:
    Memory("postgresql://localhost/memory")
except ImportError as error:
    print(error)
"""
    ran = subprocess.run(
        [sys.executable, "-c", program], cwd=ROOT, capture_output=True, text=True, check=True
    )
    assert "psycopg" in ran.stdout
    assert "pip install 'autonomy-ctx[postgres]'" in ran.stdout


def test_psycopg_is_imported_when_a_url_needs_it() -> None:
    program = """
import sys
import autonomy_ctx, autonomy_ctx.stores
autonomy_ctx.Memory("sqlite:///unused.db")
assert not any(name.startswith("psycopg") for name in sys.modules)
"""
    subprocess.run([sys.executable, "-c", program], cwd=ROOT, check=True)


async def test_who_is_not_let_in_is_told_at_once(own_server: PostgresServer) -> None:
    own_server.execute("CREATE ROLE app LOGIN PASSWORD 'right'")
    rules = own_server.folder / "data" / "pg_hba.conf"
    rules.write_text("host all app 127.0.0.1/32 scram-sha-256\n" + rules.read_text())
    own_server.execute("SELECT pg_reload_conf()")
    urls = {
        "password": own_server.url().replace("postgres@", "app:s3cret@"),
        "user": own_server.url().replace("postgres@", "nobody:s3cret@"),
        "no such database": own_server.url("nowhere").replace("postgres@", "postgres:s3cret@"),
    }
    for word, url in urls.items():
        store = PostgresStore(url, timeout=20)
        with pytest.raises(StoreUnavailable, match=word) as caught:
            await say(store, "one")
        assert "s3cret" not in str(caught.value)
        await store.close()


async def test_a_socket_can_be_used(own_server: PostgresServer) -> None:
    store = PostgresStore(own_server.socket_url())
    assert await say(store, "one") == 1
    await store.close()


def test_trio_is_refused_in_plain_words(database_url: str) -> None:
    async def use() -> None:
        async with Memory(database_url):
            pass

    with pytest.raises(StoreUnavailable, match="needs asyncio"):
        trio.run(use)


def test_one_store_can_be_used_in_several_event_loops(database_url: str) -> None:
    store = PostgresStore(database_url)
    assert [asyncio.run(say(store, f"m{number}")) for number in range(3)] == [1, 2, 3]
    asyncio.run(store.close())


def test_a_store_that_nobody_closed_is_no_trouble(database_url: str) -> None:
    program = """
import asyncio, sys
from autonomy_ctx import Memory
memory = Memory(sys.argv[1])
for number in range(2):
    asyncio.run(memory.append("ana", "trip", {"role": "user", "content": "hi"}))
"""
    command = [sys.executable, "-W", "error", "-c", program, database_url]
    ran = subprocess.run(command, cwd=ROOT, capture_output=True, text=True)
    assert (ran.returncode, ran.stderr) == (0, "")


def test_a_program_that_ends_while_connections_are_made_ends(database_url: str) -> None:
    program = """
import asyncio, sys
from autonomy_ctx import Memory

async def main():
    memory = Memory(sys.argv[1], pool_size=4)
    await memory.head("ana", "trip")
    tasks = [asyncio.create_task(memory.head("ana", "trip")) for _ in range(20)]
    for _ in range(int(sys.argv[2])):
        await asyncio.sleep(0)

asyncio.run(main())
"""
    for steps in ("1", "3", "8", "20"):
        command = [sys.executable, "-c", program, database_url, steps]
        assert subprocess.run(command, cwd=ROOT, timeout=60).returncode == 0


@pytest.mark.filterwarnings("ignore:.*fork.*:DeprecationWarning")
def test_a_forked_process_has_connections_of_its_own(database_url: str) -> None:
    store = PostgresStore(database_url)

    async def main() -> None:
        await say(store, "parent")
        child = os.fork()
        if not child:
            code = 1
            try:
                # Its own loop: the one of the parent is a copy that cannot go on.
                asyncio.events._set_running_loop(None)
                code = 0 if asyncio.run(say(store, "child")) == 2 else 2
            finally:
                os._exit(code)
        _, status = await asyncio.to_thread(os.waitpid, child, 0)
        assert os.waitstatus_to_exitcode(status) == 0
        assert await say(store, "parent again") == 3
        await store.close()

    asyncio.run(main())


@pytest.mark.filterwarnings("ignore:.*fork.*:DeprecationWarning")
def test_a_forked_process_does_not_close_what_its_parent_has_open(database_url: str) -> None:
    """It forgets the pools of loops that have ended; those of its parent have their sockets in common."""
    store = PostgresStore(database_url)
    asyncio.run(say(store, "parent"))
    [pool] = store._database._pools.values()
    [connection] = pool.connections
    child = os.fork()
    if not child:
        code = 1
        try:
            code = 0 if asyncio.run(say(store, "child")) == 2 else 2
        finally:
            os._exit(code)
    _, status = os.waitpid(child, 0)
    assert os.waitstatus_to_exitcode(status) == 0
    # If the child has said goodbye on it, the server has read that before this.
    connection.pgconn.nonblocking = 0
    assert connection.pgconn.exec_(b"SELECT 1").status == ExecStatus.TUPLES_OK

    async def go_on() -> None:
        assert await say(store, "parent again") == 3
        await store.close()

    asyncio.run(go_on())


async def test_names_and_ids_of_any_length_are_told_apart(database_url: str) -> None:
    """Random, so that no index can compress them; PostgreSQL indexes at most 2,704 bytes."""
    store = PostgresStore(database_url)
    name = "".join(os.urandom(512).hex()[:1023])
    keys = [Key(name + a, name + b, name + c) for a, b, c in ("xxx", "xxy", "xyx", "yxx")]
    for key in keys:
        assert await say(store, "one", key) == 1
    for key in keys:
        [info] = await store.list_conversations(key.scope, agent=key.agent, after=None, limit=1)
        assert info.key == key or (key.conversation.endswith("y") and info.key == keys[0])
    assert len(await store.list_conversations(name + "x", agent=name + "x", after=None, limit=9)) == 2
    long = os.urandom(5000).hex()
    drafts = make_drafts(make_message("a", id=long), make_message("b", id=long + "x"))
    assert await store.append(MAIN, drafts) == [1, 2]
    assert await store.append(MAIN, drafts[1:]) == [2]
    assert await store.pin(MAIN, long + "x", True)
    assert [pin.message.id for pin in (await store.summary(MAIN)).pins] == [long + "x"]
    assert [entry.message.id for entry in (await store.read(MAIN)).entries] == [long, long + "x"]
    assert await store.delete("ana", "", "trip", [long]) == 1
    await store.close()


async def test_what_postgresql_cannot_hold_is_refused_before_it_is_sent(database_url: str) -> None:
    async with Memory(database_url) as memory:
        for name in ("a\0b", "a\ud800b"):
            for scope, conversation, message_id in ((name, "c", "m"), ("s", name, "m"), ("s", "c", name)):
                with pytest.raises(AutonomyCtxError, match=r"NUL|surrogate"):
                    await memory.append(
                        scope, conversation, {"role": "user", "content": "x", "id": message_id}
                    )
        await memory.append("s", "c", {"role": "user", "content": "a\0b \ud800", "own": "\0"})
        [kept] = await memory.get_messages_only("s", "c")
        assert (kept["content"], kept["own"]) == ("a\0b \ud800", "\0")
