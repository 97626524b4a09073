"""The servers that the other tests of this folder need do what they are told."""

from __future__ import annotations

import asyncio
import os
import signal
import subprocess
import sys
from pathlib import Path

import psycopg
import pytest
from anyio.lowlevel import checkpoint
from postgres_server import Databases, PgBouncer, PostgresServer, wait_until
from tcp_proxy import TcpProxy

TESTS = Path(__file__).parent.parent
CREATE = "CREATE TABLE note (text text)"
INSERT = "INSERT INTO note VALUES ('kept')"
READ = "SELECT text FROM note"
# Says where its servers are, and waits to be killed.
HOLDER = """
def test_hold(server_files, own_server, pgbouncer):
    folders = (server_files.parent, own_server.folder, pgbouncer.folder)
    print("\\nHELD", *folders, own_server.port, flush=True)
    input()
"""


async def connect(url: str) -> psycopg.AsyncConnection:
    return await psycopg.AsyncConnection.connect(url, autocommit=True)


def port_of(url: str) -> int:
    return int(psycopg.conninfo.conninfo_to_dict(url).get("port") or 5432)


async def test_each_test_has_an_empty_database(
    databases: Databases, database: str, database_url: str
) -> None:
    other = databases.create()
    async with await connect(database_url) as one, await connect(databases.url_of(other)) as two:
        await one.execute(CREATE)
        await two.execute(CREATE)
    databases.drop(other)
    assert database != other


async def test_a_server_takes_connections_over_its_socket(own_server: PostgresServer) -> None:
    async with await connect(own_server.socket_url()) as connection:
        assert await (await connection.execute("SELECT 1")).fetchone() == (1,)


@pytest.mark.parametrize("mode", ["fast", "immediate"])
async def test_a_restarted_server_has_what_was_committed(own_server: PostgresServer, mode: str) -> None:
    connection = await connect(own_server.url())
    await connection.execute(CREATE)
    await connection.execute(INSERT)
    own_server.restart("fast" if mode == "fast" else "immediate")
    with pytest.raises(psycopg.OperationalError):
        await connection.execute(READ)
    await connection.close()
    assert own_server.execute(READ) == [("kept",)]


async def test_a_stopped_server_refuses_and_a_started_one_is_at_the_same_port(
    own_server: PostgresServer,
) -> None:
    url = own_server.url()
    own_server.stop()
    with pytest.raises(psycopg.OperationalError):
        await connect(url)
    own_server.start()
    await (await connect(url)).close()


async def test_all_connections_of_a_database_are_ended(own_server: PostgresServer) -> None:
    connection = await connect(own_server.url())
    assert own_server.terminate_backends("template1") == 0
    assert own_server.terminate_backends() == 1
    with pytest.raises(psycopg.OperationalError):
        await connection.execute("SELECT 1")
    await connection.close()


async def test_a_read_only_server_refuses_writes_until_it_is_no_more(own_server: PostgresServer) -> None:
    async with await connect(own_server.url()) as connection:
        await connection.execute(CREATE)
        own_server.set_read_only(True)
        with pytest.raises(psycopg.errors.ReadOnlySqlTransaction):
            await connection.execute(INSERT)
        own_server.set_read_only(False)
        await connection.execute(INSERT)


async def test_a_replica_has_what_was_committed_and_takes_over(own_server: PostgresServer) -> None:
    own_server.execute(CREATE)
    replica = own_server.make_replica()
    try:
        own_server.execute(INSERT)
        with pytest.raises(psycopg.errors.ReadOnlySqlTransaction):
            replica.execute("CREATE TABLE other ()")
        own_server.stop("immediate")
        replica.promote()
        assert replica.execute(READ) == [("kept",)]
        replica.execute(INSERT)
    finally:
        replica.close()


async def test_clients_of_pgbouncer_share_few_connections(
    databases: Databases, database: str, pgbouncer: PgBouncer
) -> None:
    clients = [await connect(pgbouncer.url(database)) for _ in range(12)]
    backends = {
        (await (await client.execute("SELECT pg_backend_pid()")).fetchone() or ())[0] for client in clients
    }
    assert 1 <= len(backends) <= 4
    for client in clients:
        await client.close()


async def test_a_proxy_cuts_resets_and_refuses(database_url: str) -> None:
    async with TcpProxy(port_of(database_url)) as proxy:
        url = f"{database_url.rpartition(':')[0]}:{proxy.port}/{database_url.rpartition('/')[2]}"
        for end in (proxy.cut, proxy.reset):
            connection = await connect(url)
            assert proxy.open_links == 1
            await end()
            with pytest.raises(psycopg.OperationalError):
                await connection.execute("SELECT 1")
            await connection.close()
        await proxy.refuse()
        with pytest.raises(psycopg.OperationalError):
            await connect(url)
        await proxy.listen()
        await (await connect(url)).close()
        assert proxy.accepted == 3


async def test_a_proxy_stalls_until_it_is_told_to_go_on(database_url: str) -> None:
    async with TcpProxy(port_of(database_url)) as proxy:
        url = f"{database_url.rpartition(':')[0]}:{proxy.port}/{database_url.rpartition('/')[2]}"
        async with await connect(url) as connection:
            proxy.stall()
            task = asyncio.create_task(connection.execute("SELECT 1"))
            while not proxy.waiting_blocks:
                await checkpoint()
            assert not task.done()
            proxy.resume()
            await task


async def test_a_lost_reply_leaves_what_was_written(database_url: str) -> None:
    async with TcpProxy(port_of(database_url)) as proxy, await connect(database_url) as direct:
        url = f"{database_url.rpartition(':')[0]}:{proxy.port}/{database_url.rpartition('/')[2]}"
        await direct.execute(CREATE)
        connection = await connect(url)
        proxy.lose_next_reply()
        with pytest.raises(psycopg.OperationalError):
            await connection.execute(INSERT)
        await connection.close()
        assert proxy.lost_replies == 1
        assert await (await direct.execute(READ)).fetchall() == [("kept",)]


def test_servers_go_when_pytest_is_killed(tmp_path: Path) -> None:
    # A folder of tests with the fixtures of this one.
    (tmp_path / "conftest.py").write_text(Path(__file__).with_name("conftest.py").read_text())
    (tmp_path / "test_hold.py").write_text(HOLDER)
    command = [sys.executable, "-m", "pytest", "-q", "-s", "-p", "no:cacheprovider", str(tmp_path)]
    killed = subprocess.Popen(
        command,
        cwd=tmp_path,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
        env=os.environ | {"PYTHONPATH": str(TESTS)},
    )
    with killed:
        assert killed.stdout is not None
        line = next(line for line in killed.stdout if line.startswith("HELD"))
        _, *folders, port = line.split()
        assert all(Path(folder).is_dir() for folder in folders)
        killed.send_signal(signal.SIGKILL)
    wait_until(lambda: not any(Path(folder).exists() for folder in folders), "the folders are gone")
    with pytest.raises(psycopg.OperationalError):
        psycopg.connect(f"postgresql://postgres@127.0.0.1:{port}/postgres")
