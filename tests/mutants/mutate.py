"""Changes single expressions of a file, one after the other, and lists those that no test notices.

`make mutate FILES="autonomy_ctx/messages/cuts.py"` does it to some files, and `make mutate` to those that
have changed since the last tag. Cosmic Ray makes the changes, in a copy of the repository, and runs the
tests of the folder that mirrors the file's. Of each file a random sample is tried: `--most 30`.
"""

from __future__ import annotations

import argparse
import random
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

from cosmic_ray.work_db import WorkDB, use_db
from cosmic_ray.work_item import TestOutcome, WorkerOutcome, WorkResult

ROOT = Path(__file__).resolve().parents[2]
CONFIG = Path(__file__).with_name("cosmic-ray.toml")
COPIED = ("autonomy_ctx", "tests", "docs", "examples", "benchmarks", "pyproject.toml", "README.md")


def run_git(*arguments: str) -> list[str]:
    ran = subprocess.run(["git", *arguments], cwd=ROOT, capture_output=True, text=True, check=True)
    return ran.stdout.split()


def changed_files() -> list[str]:
    """Modules of the package that have changed since the last tag."""
    try:
        [tag] = run_git("describe", "--tags", "--abbrev=0")
    except subprocess.CalledProcessError:
        print("there is no tag to compare with; name the files: make mutate FILES=autonomy_ctx/...")
        return []
    named = run_git("diff", "--name-only", "--diff-filter=d", tag, "--", "autonomy_ctx")
    return [name for name in named if name.endswith(".py") and not name.endswith("__init__.py")]


def find_tests(file: str) -> str:
    """The tests of a module: the folder of the same name, or the file for a module of the root."""
    _, *folders, name = Path(file).parts
    tests = ROOT / "tests" / (folders[0] if folders else f"test_{name}")
    if not tests.exists():
        raise SystemExit(f"{file} has no tests of its own: {tests.relative_to(ROOT)} does not exist")
    return str(tests.relative_to(ROOT))


def skip_all_but(database: WorkDB, most: int, dice: random.Random) -> None:
    jobs = sorted(item.job_id for item in database.pending_work_items)
    for job in dice.sample(jobs, max(0, len(jobs) - most)):
        database.set_result(job, WorkResult(worker_outcome=WorkerOutcome.SKIPPED))


def survivors(database: WorkDB) -> Iterator[str]:
    """The changes that no test has noticed."""
    for _, result in database.results:
        if result.test_outcome is TestOutcome.SURVIVED:
            yield result.diff or ""


def mutate(file: str, *, python: str, most: int, dice: random.Random) -> list[str]:
    """Try changes of one file in a copy of the repository."""
    programs = Path(sys.executable).parent
    with tempfile.TemporaryDirectory() as folder:
        for name in COPIED:
            if (ROOT / name).is_dir():
                shutil.copytree(
                    ROOT / name, Path(folder, name), ignore=shutil.ignore_patterns("node_modules")
                )
            else:
                shutil.copy(ROOT / name, folder)
        config, session = Path(folder, "cosmic-ray.toml"), Path(folder, "session.sqlite")
        text = CONFIG.read_text(encoding="utf-8")
        filled = text.replace("{module}", file).replace("{python}", python)
        config.write_text(filled.replace("{tests}", find_tests(file)), encoding="utf-8")

        def call(program: str, *arguments: str | Path) -> None:
            subprocess.run([programs / program, *arguments], cwd=folder, check=True)

        call("cosmic-ray", "init", config, session)
        call("cr-filter-operators", session, config)
        # Without a change the tests pass; otherwise every change would count as noticed.
        call("cosmic-ray", "baseline", config)
        with use_db(session, WorkDB.Mode.open) as database:
            skip_all_but(database, most, dice)
        call("cosmic-ray", "exec", config, session)
        with use_db(session, WorkDB.Mode.open) as database:
            done = [result for _, result in database.results if result.test_outcome is not None]
            left = list(survivors(database))
    print(f"{file}: {len(done) - len(left)} of {len(done)} changes were noticed")
    for diff in left:
        print(diff)
    return left


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument(
        "files", nargs="*", help="modules of the package; without any, those changed since the tag"
    )
    parser.add_argument(
        "--python", default=sys.executable, help="the interpreter that has the tests' packages"
    )
    parser.add_argument("--most", type=int, default=30, help="changes of each file")
    parser.add_argument("--seed", type=int, default=None, help="for the same sample again")
    given = parser.parse_args()
    seed = random.randrange(2**32) if given.seed is None else given.seed
    print(f"--seed {seed}")
    dice = random.Random(seed)
    for file in given.files or changed_files():
        mutate(file, python=given.python, most=given.most, dice=dice)


if __name__ == "__main__":
    main()
