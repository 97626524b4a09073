"""The store of the page passes the contract under pytest-asyncio and under anyio's plugin."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest
from docs.snippets import ROOT, snippets

from autonomy_ctx.testing import StoreContract

PAGE = ROOT / "docs" / "how-to" / "write-a-store.md"
TESTS = [name for name in dir(StoreContract) if name.startswith("test_")]


def page_source() -> str:
    """The store of the page and the subclass of the contract that tests it."""
    sources = [snippet.source for snippet in snippets(PAGE)]
    [store] = [source for source in sources if "class TableStore" in source]
    [tests] = [source for source in sources if "(StoreContract)" in source]
    return store + tests


def strict_source() -> str:
    """The same for pytest-asyncio's strict mode: a mark, and its own decorator on async fixtures."""
    source = page_source().replace("class TestTableStore", "@pytest.mark.asyncio\nclass TestTableStore")
    source = source.replace("@pytest.fixture\n    async def", "@pytest_asyncio.fixture\n    async def")
    return "import pytest_asyncio\n" + source


def passed(folder: Path, source: str, *options: str) -> int:
    """How many tests of a source pass in a pytest of their own; any other outcome fails."""
    (folder / "test_page.py").write_text(source, encoding="utf-8")
    (folder / "pytest.ini").touch()
    command = [sys.executable, "-m", "pytest", "-q", "-W", "error", "-p", "no:cacheprovider", *options]
    environment = os.environ | {"PYTHONPATH": str(ROOT)}
    ran = subprocess.run(command, cwd=folder, env=environment, capture_output=True, text=True, timeout=300)
    assert ran.returncode == 0, ran.stdout + ran.stderr
    number, *outcome = ran.stdout.splitlines()[-1].split()
    assert outcome[:2] == ["passed", "in"], f"not everything passed: {ran.stdout}"
    return int(number)


@pytest.mark.parametrize("mode", ["strict", "auto"])
def test_the_contract_runs_under_pytest_asyncio(tmp_path: Path, mode: str) -> None:
    source = strict_source() if mode == "strict" else page_source()
    options = ["-o", f"asyncio_mode={mode}", "-o", "asyncio_default_fixture_loop_scope=function"]
    assert passed(tmp_path, source, "-p", "no:anyio", *options) == len(TESTS) > 0


def test_the_contract_runs_under_anyio_on_asyncio_and_trio(tmp_path: Path) -> None:
    source = page_source()
    assert passed(tmp_path, source, "-p", "no:asyncio", "-o", "anyio_mode=auto") == 2 * len(TESTS) > 0
