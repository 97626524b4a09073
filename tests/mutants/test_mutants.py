"""Each promise is broken once on purpose, and the tests must notice.

A mutant is the library with one change that breaks a promise. It is made in a copy; the tests named
with it run against the copy and have to fail. Too long for every run: `make nightly`.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from mutants import (
    broken_adapters,
    broken_agents,
    broken_command_line,
    broken_contexts,
    broken_edges,
    broken_endpoint,
    broken_mcp,
    broken_memory,
    broken_pins_and_profiles,
    broken_postgres,
    broken_postgres_search,
    broken_postgres_turns,
    broken_replay,
    broken_tracing,
    broken_turns,
    broken_vectors,
)
from mutants.mutant import Mutant

ROOT = Path(__file__).resolve().parents[2]
BROKEN = [
    *(broken_memory, broken_postgres, broken_postgres_search, broken_postgres_turns),
    *(broken_contexts, broken_agents, broken_edges, broken_turns),
    *(broken_vectors, broken_pins_and_profiles, broken_command_line, broken_tracing, broken_replay),
    *(broken_adapters, broken_endpoint, broken_mcp),
]
MUTANTS = [mutant for broken in BROKEN for mutant in broken.MUTANTS]


@pytest.mark.nightly
@pytest.mark.parametrize("mutant", MUTANTS, ids=[mutant.promise for mutant in MUTANTS])
def test_the_tests_notice_when_a_promise_is_broken(mutant: Mutant, tmp_path: Path) -> None:
    broken = tmp_path / "autonomy_ctx" / mutant.file
    shutil.copytree(ROOT / "autonomy_ctx", tmp_path / "autonomy_ctx")
    text = broken.read_text(encoding="utf-8")
    assert text.count(mutant.old) == 1, "the place to break has moved: mend the mutant"
    broken.write_text(text.replace(mutant.old, mutant.new), encoding="utf-8")
    # Safe path: without it the checkout itself would come before the broken copy.
    environment = {**os.environ, "PYTHONPATH": str(tmp_path), "PYTHONSAFEPATH": "1"}
    command = [sys.executable, "-m", "pytest", "-q", "-x", "-m", "not nightly", "-p", "no:cacheprovider"]
    ran = subprocess.run(
        [*command, *mutant.tests.split()],
        cwd=ROOT,
        env=environment,
        capture_output=True,
        text=True,
        timeout=300,
    )
    assert ran.returncode == 1, f"survived: {ran.stdout[-2000:]}"


def test_every_place_to_break_is_still_there() -> None:
    """In the ordinary suite: whoever moves such a line mends its mutant, and not the night after."""
    moved = [
        f"{mutant.file}: {mutant.promise}"
        for mutant in MUTANTS
        if (ROOT / "autonomy_ctx" / mutant.file).read_text(encoding="utf-8").count(mutant.old) != 1
    ]
    assert moved == []


def test_every_mutant_changes_something_and_names_tests_that_exist() -> None:
    assert [mutant.promise for mutant in MUTANTS if mutant.old == mutant.new] == []
    tests = {path for mutant in MUTANTS for path in mutant.tests.split()}
    assert [path for path in sorted(tests) if not (ROOT / path).exists()] == []
