"""Both event loops for every async test, and memories on every store."""

from __future__ import annotations

import gc
import os
import shutil
import sqlite3
from collections.abc import AsyncIterator
from contextlib import closing
from pathlib import Path

import pytest
from hypothesis import HealthCheck, Phase, settings
from slow_tests import FEW, choose_few, find_few, has_only_slow, is_nightly, is_slow

from autonomy_ctx import Memory
from autonomy_ctx.agents import turn_queue
from autonomy_ctx.compaction.word_tables import load_lazy_parts
from autonomy_ctx.memory.sqlite.migrate import migrate

# How long an example takes says more about the machine than about the library. `make test` chooses the
# quick profile with `--hypothesis-profile`; numbers of examples that tests name are multiples of it.
settings.register_profile("suite", deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.register_profile("quick", settings.get_profile("suite"), max_examples=20)
settings.load_profile("suite")

# No test speaks TLS. Reading all root certificates takes most of the time that making an HTTP client takes.
os.environ.pop("SSL_CERT_FILE", None)
os.environ["SSL_CERT_DIR"] = os.devnull

# They need the frameworks, each in a version of its own: `make test-adapters` runs them.
collect_ignore = ["adapters"]

TESTS = Path(__file__).parent
IN_RAM, ROOM = Path("/dev/shm"), 2**30


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption(
        "--broken", metavar="NAME", help="replace one function: run a build of tests/mutants/broken_builds.py"
    )


def pytest_configure(config: pytest.Config) -> None:
    """Files of tests are kept in RAM where there is room: what a sync keeps, no test can see.

    Power cuts are tested on a simulated disk, and a killed process leaves its files as they are.
    """
    # Until all tests are collected: nothing of them is garbage, and looking takes a quarter of that time.
    gc.disable()
    # What the first summary of a process loads, so that no test depends on being the first.
    load_lazy_parts()
    if name := config.getoption("--broken"):
        from mutants.broken_builds import install

        install(name)
        # That an example fails is enough.
        settings.register_profile("broken", settings.get_profile("suite"), phases=[Phase.generate])
        settings.load_profile("broken")
    if IN_RAM.is_dir() and shutil.disk_usage(IN_RAM).free > ROOM:
        os.environ.setdefault("PYTEST_DEBUG_TEMPROOT", str(IN_RAM))


def pytest_ignore_collect(collection_path: Path, config: pytest.Config) -> bool | None:
    """Files that hold only slow tests are not even imported by `make test`."""
    if "not slow" not in config.getoption("markexpr") or not collection_path.is_relative_to(TESTS):
        return None
    return has_only_slow(collection_path.relative_to(TESTS).as_posix()) or None


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    few: dict[str, list[pytest.Function]] = {name: [] for name in FEW}
    for item in items:
        if isinstance(item, pytest.Function):
            name = item.nodeid.removeprefix("tests/")
            on_trio = hasattr(item, "callspec") and item.callspec.params.get("anyio_backend") == "trio"
            if is_slow(name, fixtures=item.fixturenames, on_trio=on_trio):
                item.add_marker(pytest.mark.slow)
                if is_nightly(name, on_trio=on_trio):
                    item.add_marker(pytest.mark.nightly)
            elif (group := find_few(name)) and item.get_closest_marker("nightly") is None:
                few[group].append(item)
            if {"node_folder", "claude_code"} & {*item.fixturenames}:
                item.add_marker(pytest.mark.node)
    for group, found in few.items():
        chosen = choose_few(len(found), FEW[group])
        for place, item in enumerate(found):
            if place not in chosen:
                item.add_marker(pytest.mark.slow)


def pytest_collection_finish() -> None:
    """Thousands of tests are millions of objects, which the garbage collector need not walk each time."""
    gc.collect()
    gc.freeze()
    gc.enable()


@pytest.fixture(params=["asyncio", "trio"])
def anyio_backend(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture
def short_grace(monkeypatch: pytest.MonkeyPatch) -> None:
    """Turns that hang are cancelled soon when their agent is closed."""
    monkeypatch.setattr(turn_queue, "GRACE_SECONDS", 0.1)


@pytest.fixture(scope="session")
def empty_database(tmp_path_factory: pytest.TempPathFactory) -> bytes:
    """A SQLite file with our tables and no rows: a copy takes a quarter of the time of a new one."""
    path = tmp_path_factory.mktemp("empty") / "memory.db"
    with closing(sqlite3.connect(path, isolation_level=None)) as connection:
        migrate(connection, str(path))
    return path.read_bytes()


@pytest.fixture
def sqlite_path(tmp_path: Path, empty_database: bytes) -> Path:
    """A SQLite file of our own that nobody has used."""
    path = tmp_path / "memory.db"
    path.write_bytes(empty_database)
    return path


@pytest.fixture(params=["in_process", "sqlite"])
async def memory(request: pytest.FixtureRequest, sqlite_path: Path) -> AsyncIterator[Memory]:
    """A memory on each kind of store."""
    made = Memory() if request.param == "in_process" else Memory(f"sqlite:///{sqlite_path}")
    yield made
    await made.close()
