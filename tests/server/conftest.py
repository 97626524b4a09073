"""uvicorn runs on asyncio only, so these tests do, too, and pytest-asyncio runs them."""

from __future__ import annotations

import inspect
from pathlib import Path

import pytest
from server.node_sdk import find_claude_code, find_package


@pytest.fixture
def anyio_backend() -> str:
    """One value: with two, anyio's auto mode would let pytest-asyncio run every test twice."""
    return "asyncio"


@pytest.fixture(scope="session")
def node_folder() -> Path:
    """The folder with the clients for Node."""
    return find_package()


@pytest.fixture(scope="session")
def claude_code() -> Path:
    """The program of Claude Code."""
    return find_claude_code()


def pytest_pycollect_makeitem(collector: pytest.Module | pytest.Class, name: str, obj: object) -> None:
    """Mark every async test of this folder; a mark on the module would be refused on the others."""
    if collector.istestfunction(obj, name) and inspect.iscoroutinefunction(obj):
        pytest.mark.asyncio(obj)
