"""House rules that would otherwise need a reader to notice them."""

from __future__ import annotations

import ast
import importlib
import inspect
import os
import subprocess
import sys
from pathlib import Path
from types import ModuleType

import pytest

import autonomy_ctx

ROOT = Path(__file__).parent.parent
SOURCES = sorted((ROOT / "autonomy_ctx").rglob("*.py"))
TESTS = sorted((ROOT / "tests").rglob("*.py"))
LONGEST = 700


def relative(path: Path) -> str:
    return str(path.relative_to(ROOT))


def test_the_public_names_are_exactly_those_imported_and_sorted() -> None:
    imported = {
        name
        for name, value in vars(autonomy_ctx).items()
        if not name.startswith("_") and not isinstance(value, ModuleType)
    }
    assert autonomy_ctx.__all__ == sorted(autonomy_ctx.__all__)
    assert set(autonomy_ctx.__all__) == imported
    assert len(autonomy_ctx.__all__) == len(imported)


@pytest.mark.parametrize("name", autonomy_ctx.__all__)
def test_every_public_name_comes_from_inside_and_says_what_it_is(name: str) -> None:
    thing = getattr(autonomy_ctx, name)
    assert thing.__module__.startswith("autonomy_ctx.")
    written = inspect.getdoc(thing) or ""
    # A dataclass or named tuple without a docstring gets its signature as one.
    assert written.split("(")[0] not in ("", name)


@pytest.mark.parametrize("path", SOURCES, ids=relative)
def test_every_module_imports_and_says_why_it_exists(path: Path) -> None:
    parts = path.relative_to(ROOT).with_suffix("").parts
    module = importlib.import_module(".".join(part for part in parts if part != "__init__"))
    assert module.__doc__


def test_no_module_is_too_long_to_read() -> None:
    lengths = {relative(path): len(path.read_text(encoding="utf-8").splitlines()) for path in SOURCES}
    assert {path for path, lines in lengths.items() if lines > LONGEST} == set()


def test_importing_the_library_imports_nothing_that_is_optional() -> None:
    code = "import sys, autonomy_ctx; print(*sys.modules)"
    ran = subprocess.run([sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, check=True)
    loaded = {name.partition(".")[0] for name in ran.stdout.split()}
    assert "autonomy_ctx" in loaded
    assert loaded.isdisjoint(
        {"httpx", "trio", "splintr", "apsw", "model2vec", "numpy", "hypothesis", "pytest"}
    )
    assert "autonomy_ctx.testing" not in ran.stdout.split()


WITHOUT_POSIX = """
import asyncio, os, sys

sys.modules["fcntl"] = None
for name in ("O_CLOEXEC", "O_DIRECTORY", "O_NOCTTY", "O_NOFOLLOW", "O_NONBLOCK", "fork", "register_at_fork"):
    delattr(os, name)

from autonomy_ctx import AutonomyCtxError, Context, Memory, filesystem_tools


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
