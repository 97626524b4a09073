"""Each promise is broken once on purpose, and the tests named with it must notice.

A broken build is the library with one function replaced, in a process of its own: see `broken_builds.py`.
They take minutes together: `make nightly` runs them.
"""

from __future__ import annotations

import pkgutil
import re
import subprocess
import sys
from collections import Counter
from pathlib import Path

import pytest
from mutants.broken_builds import BUILDS, BrokenBuild

ROOT = Path(__file__).resolve().parents[2]


@pytest.mark.nightly
@pytest.mark.parametrize("build", BUILDS, ids=[build.name for build in BUILDS])
def test_the_tests_notice_when_a_promise_is_broken(build: BrokenBuild) -> None:
    command = [sys.executable, "-m", "pytest", "-q", "-rfE", "-m", "not nightly", "-p", "no:cacheprovider"]
    ran = subprocess.run(
        [*command, f"--broken={build.name}", *build.tests],
        cwd=ROOT,
        capture_output=True,
        text=True,
        timeout=600,
    )
    assert ran.returncode == 1, f"survived, or could not run: {ran.stdout[-2000:]}{ran.stderr[-2000:]}"
    failed = "\n".join(line for line in ran.stdout.splitlines() if line.startswith("FAILED "))
    assert [test for test in build.tests if test not in failed] == []


def test_every_function_that_is_broken_is_still_there() -> None:
    """In the ordinary suite: whoever moves such a function mends its build, and not the night after."""
    for build in BUILDS:
        assert callable(pkgutil.resolve_name(build.function)), build.name


def test_every_build_breaks_a_promise_and_names_tests_that_exist() -> None:
    promises = re.findall(
        r"^### (.*)$", (ROOT / "docs" / "promises.md").read_text(encoding="utf-8"), flags=re.MULTILINE
    )
    assert {build.promise for build in BUILDS} <= set(promises)
    assert [name for name, times in Counter(build.name for build in BUILDS).items() if times > 1] == []
    for test in {test for build in BUILDS for test in build.tests}:
        file, name, *_ = test.split("::")
        # The tests of a contract stand elsewhere; their class is in the file.
        assert re.search(rf"(def|class) {name}\b", (ROOT / file).read_text(encoding="utf-8")), test
