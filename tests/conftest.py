"""Both event loops for every async test, and memories on every store."""

from __future__ import annotations

import gc
import os
import shutil
from collections.abc import AsyncIterator
from pathlib import Path

import pytest
from hypothesis import HealthCheck, settings

from autonomy_ctx import Memory
from autonomy_ctx.compaction.word_tables import load_lazy_parts

# How long an example takes says more about the machine than about the library.
settings.register_profile("suite", deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("suite")

# No test speaks TLS. Reading all root certificates takes most of the time that making an HTTP client takes.
os.environ.pop("SSL_CERT_FILE", None)
os.environ["SSL_CERT_DIR"] = os.devnull

# They need the frameworks, each in a version of its own: `make test-adapters` runs them.
collect_ignore = ["adapters"]

IN_RAM, ROOM = Path("/dev/shm"), 2**30


def pytest_configure() -> None:
    """Files of tests are kept in RAM where there is room: what a sync keeps, no test can see.

    Power cuts are tested on a simulated disk, and a killed process leaves its files as they are.
    """
    # What the first summary of a process loads, so that no test depends on being the first.
    load_lazy_parts()
    if IN_RAM.is_dir() and shutil.disk_usage(IN_RAM).free > ROOM:
        os.environ.setdefault("PYTEST_DEBUG_TEMPROOT", str(IN_RAM))


def pytest_collection_finish() -> None:
    """Thousands of tests are millions of objects, which the garbage collector need not walk each time."""
    gc.collect()
    gc.freeze()


@pytest.fixture(params=["asyncio", "trio"])
def anyio_backend(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture(params=["in_process", "sqlite"])
async def memory(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncIterator[Memory]:
    """A memory on each kind of store."""
    made = Memory() if request.param == "in_process" else Memory(f"sqlite:///{tmp_path}/memory.db")
    yield made
    await made.close()
