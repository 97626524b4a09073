"""House rules that would otherwise need a reader to notice them."""

from __future__ import annotations

import ast
import importlib
import os
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
SOURCES = sorted((ROOT / "autonomy_ctx").rglob("*.py"))
TESTS = sorted((ROOT / "tests").rglob("*.py"))


def relative(path: Path) -> str:
    return str(path.relative_to(ROOT))


@pytest.mark.parametrize("path", SOURCES, ids=relative)
def test_every_module_imports_and_says_why_it_exists(path: Path) -> None:
    parts = path.relative_to(ROOT).with_suffix("").parts
    name = ".".join(part for part in parts if part != "__init__")
    assert ast.get_docstring(ast.parse(path.read_text(encoding="utf-8")))
    try:
        importlib.import_module(name)
    except ImportError as error:
        # Adapters are imported where their frameworks are; here they say what they need.
        assert name.startswith("autonomy_ctx.adapters.")
        assert "pip install 'autonomy-ctx[" in str(error)  # noqa: PT017


WITHOUT_POSIX = """
import asyncio, os, sys

sys.modules["fcntl"] = None
for name in ("O_CLOEXEC", "O_DIRECTORY", "O_NOCTTY", "O_NOFOLLOW", "O_NONBLOCK", "fork", "register_at_fork"):
    delattr(os, name)

import autonomy_ctx
from autonomy_ctx import AutonomyCtxError, Context, Memory
from autonomy_ctx.tools import filesystem_tools

for name in autonomy_ctx.__all__:
    getattr(autonomy_ctx, name)


async def remember(url):
    memory = Memory(url)
    try:
        await memory.append("ana", "trip", {"role": "user", "content": "Hello"})
        print([message["content"] for message in await memory.get_messages_only("ana", "trip")])
    finally:
        await memory.close()


def save():
    context = Context.from_file("trip.json")
    context.user("Hello")
    context.save()


asyncio.run(remember(None))
for use in (lambda: asyncio.run(remember("sqlite:///memory.db")), save, lambda: filesystem_tools("files")):
    try:
        use()
    except AutonomyCtxError as error:
        print(error)
"""


def test_without_posix_the_library_imports_and_says_what_needs_it(tmp_path: Path) -> None:
    """As on Windows: no `fcntl`, and fewer names in `os`."""
    environment = os.environ | {"PYTHONPATH": str(ROOT)}
    command = [sys.executable, "-c", WITHOUT_POSIX]
    ran = subprocess.run(command, cwd=tmp_path, env=environment, capture_output=True, text=True)
    assert ran.returncode == 0, ran.stderr
    remembered, *refused = ran.stdout.splitlines()
    assert remembered == "['Hello']"
    assert len(refused) == 3
    assert all("Linux, macOS or WSL" in line for line in refused)


def sleeps(path: Path) -> list[int]:
    """The lines of a file on which something sleeps for a time."""
    found = []
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Call):
            called = node.func
            name = called.attr if isinstance(called, ast.Attribute) else getattr(called, "id", "")
            if name == "sleep":
                found.append(node.lineno)
    return found


# Programs that tests drive from outside may wait; the tests themselves wait for something to happen.
@pytest.mark.parametrize("path", [path for path in TESTS if path.name.startswith("test_")], ids=relative)
def test_no_test_sleeps(path: Path) -> None:
    assert sleeps(path) == []
