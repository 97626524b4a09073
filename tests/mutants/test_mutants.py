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
from typing import NamedTuple

import pytest

ROOT = Path(__file__).resolve().parents[2]


class Mutant(NamedTuple):
    """What is broken, where, how, and who should notice."""

    promise: str
    file: str
    old: str
    new: str
    tests: str


STORES = "tests/memory/test_stores.py"
MUTANTS = [
    Mutant(
        "acknowledged after the commit",
        "memory/sqlite/writing.py",
        '        connection.execute("COMMIT")\n        self._fold',
        '        connection.execute("ROLLBACK")\n        self._fold',
        STORES,
    ),
    Mutant(
        "synced before it is acknowledged",
        "memory/sqlite/writing.py",
        'f"PRAGMA synchronous = {self._synchronous}"',
        '"PRAGMA synchronous = OFF"',
        "tests/memory/test_power_cut.py",
    ),
    Mutant(
        "the write lock is taken at the start",
        "memory/sqlite/writing.py",
        'start: str = "BEGIN IMMEDIATE"',
        'start: str = "BEGIN"',
        "tests/black_box/test_processes.py tests/black_box/test_write_lock.py",
    ),
    Mutant(
        "checkpoints only under the lock",
        "memory/sqlite/opening.py",
        '    connection.execute("PRAGMA wal_autocheckpoint = 0")\n',
        "",
        "tests/memory/test_sqlite_faults.py",
    ),
    Mutant(
        "a file that vanished is not made anew",
        "memory/sqlite/opening.py",
        "{'rwc' if create else 'rw'}",
        "rwc",
        "tests/memory/test_sqlite_faults.py",
    ),
    Mutant(
        "a file that is gone is noticed",
        "memory/sqlite/opening.py",
        "        if _file_at(self.path) != self.identity[:2]:\n            return False\n",
        "",
        "tests/memory/test_sqlite_faults.py tests/memory/test_hot.py",
    ),
    Mutant(
        "a child of a fork is refused",
        "memory/sqlite/opening.py",
        "    if _file_at(path) in _inherited:",
        "    if False:",
        "tests/memory/test_sqlite_faults.py tests/black_box/test_fork.py",
    ),
    Mutant(
        "deleted text leaves the log",
        "memory/sqlite/writing.py",
        "        self._fold = self._fold or transaction.deleted\n",
        "",
        "tests/memory/test_sqlite_faults.py",
    ),
    Mutant(
        "a spoilt job fails alone",
        "memory/sqlite/writing.py",
        "            if len(jobs) == 1:\n                raise\n",
        "            raise\n",
        "tests/memory/test_sqlite_faults.py",
    ),
    Mutant(
        "an id is kept once",
        "memory/sqlite/schema/0001_messages.sql",
        "CREATE UNIQUE INDEX message_id",
        "CREATE INDEX message_id",
        STORES,
    ),
    Mutant(
        "a refused append is taken back whole",
        "memory/sqlite/rows.py",
        "                    self._undo(kept, before, last_user)\n",
        "",
        STORES,
    ),
    Mutant(
        "deleting raises the generation",
        "memory/sqlite/rows.py",
        "generation = generation + 1, ",
        "",
        STORES,
    ),
    Mutant(
        "deleting takes only what was named",
        "memory/sqlite/rows.py",
        "AND (?2 IS NULL OR agent = ?2) AND (?3 IS NULL OR conversation = ?3)",
        "AND (?2 IS NULL OR agent = ?2)",
        STORES,
    ),
    Mutant(
        "messages that are missing are noticed",
        "memory/sqlite/rows.py",
        '        raise UnreadableRow("messages are missing from the log")',
        "        pass",
        "tests/memory/test_sqlite_faults.py",
    ),
    Mutant(
        "positions are never used again",
        "memory/in_process.py",
        "    kept.head = Head(kept.head.position, len(kept.entries)",
        "    kept.head = Head(kept.entries[-1].position if kept.entries else 0, len(kept.entries)",
        STORES,
    ),
    Mutant(
        "keys are tuples",
        "memory/in_process.py",
        "        kept = self._conversations.get(key)\n"
        "        if kept is None:\n            return Window(Head(), [])",
        '        joined = {":".join(k): v for k, v in self._conversations.items()}\n'
        '        kept = joined.get(":".join(key))\n'
        "        if kept is None:\n            return Window(Head(), [])",
        STORES,
    ),
    Mutant(
        "a kept window is checked against the head",
        "memory/hot.py",
        "            elif head != kept.head:",
        "            elif False:",
        "tests/memory/test_hot.py",
    ),
    Mutant(
        "a kept window knows which file it came from",
        "memory/hot.py",
        "            if kept.identity != self._log.identity:",
        "            if False:",
        "tests/memory/test_hot.py",
    ),
    Mutant(
        "what nobody waits for is let go",
        "memory/worker.py",
        "        self.work = _nothing\n",
        "",
        "tests/memory/test_sqlite_faults.py",
    ),
    Mutant(
        "a dict comes back as it was given",
        "items/wire.py",
        '    put(message, "_form", form)\n',
        '    put(message, "_form", None)\n',
        "tests/items/test_wire.py",
    ),
    Mutant(
        "what is handed out is a copy",
        "items/wire.py",
        "    form: dict[str, Any] = thaw(message._form)\n",
        "    form: dict[str, Any] = message._form\n",
        "tests/items/test_wire.py",
    ),
    Mutant(
        "what JSON cannot hold is refused",
        "items/frozen.py",
        "        return float(value) if math.isfinite(value) else _NOT_JSON",
        "        return float(value)",
        "tests/items/test_bad_input.py",
    ),
    Mutant(
        "a message over the limit is refused",
        "memory/rows.py",
        "    if size > MESSAGE_LIMIT:",
        "    if False:",
        "tests/items/test_bad_input.py tests/memory/test_sqlite_faults.py",
    ),
    Mutant(
        "a large result is kept whole beside the log",
        "memory/rows.py",
        "        whole, message = body, shortened(message)",
        "        whole, message = None, shortened(message)",
        STORES,
    ),
    Mutant(
        "a call and its result stay together",
        "items/cuts.py",
        "        change[stop + 1] -= 1",
        "        change[stop] -= 1",
        "tests/items/test_cuts.py",
    ),
    Mutant(
        "an unanswered call blocks until the user speaks",
        "items/cuts.py",
        "users[at] - 1 if at < len(users) else end",
        "start",
        "tests/items/test_cuts.py",
    ),
    Mutant(
        "a window does not start with a result",
        "items/cuts.py",
        "    return role is ChatRole.TOOL\n",
        "    return False\n",
        "tests/items/test_cuts.py",
    ),
    Mutant(
        "the newest user message is there",
        "sections/history.py",
        "            window = await self._passing(newest.entries) + window\n",
        "",
        "tests/sections/test_history.py",
    ),
    Mutant(
        "what is left out is named",
        "sections/history.py",
        "            omitted = (_omission(head, entries, self._reason()),)\n",
        "            pass\n",
        "tests/sections/test_history.py",
    ),
    Mutant(
        "a required section that fails leaves no context",
        "template/template.py",
        'raise SectionError(section=section.name, problem=f"failed: {_sentence(error)}") from error',
        "pass",
        "tests/template",
    ),
    Mutant(
        "sections keep their order",
        "template/template.py",
        "        for (section, placement), outcome in zip(sections, outcomes, strict=True):",
        "        for (section, placement), outcome in reversed(list(zip(sections, outcomes, strict=True))):",
        "tests/template",
    ),
    Mutant(
        "calibration moves in steps",
        "items/calibration.py",
        "        if abs(self._average / self.factor - 1) <= STEP:",
        "        if False:",
        "tests/items/test_tokens.py",
    ),
]


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
    for mutant in MUTANTS:
        text = (ROOT / "autonomy_ctx" / mutant.file).read_text(encoding="utf-8")
        assert text.count(mutant.old) == 1, mutant.promise
