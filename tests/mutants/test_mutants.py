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
SUMMARIZED = "tests/sections/test_summarized.py"
LIMITS = "tests/sections/test_summarized_limits.py"
FAULTS = "tests/compaction/test_summarizer_faults.py"
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
    Mutant(
        "a summary of another past is refused",
        "memory/sqlite/summaries.py",
        "    if found is None or found[1].generation != generation:",
        "    if found is None:",
        STORES,
    ),
    Mutant(
        "a summary under a lost lease is refused",
        "memory/sqlite/summaries.py",
        "    if fence is not None and not is_leased(connection, conversation_id, fence):",
        "    if False:",
        STORES,
    ),
    Mutant(
        "one process at a time writes a summary",
        "memory/sqlite/leases.py",
        "    if lease_until is not None and now < lease_until <= now + LONGEST:",
        "    if False:",
        STORES,
    ),
    Mutant(
        "coverage has no gaps",
        "memory/segments.py",
        "    if not new.provisional and new.first == written(active) + 1:",
        "    if not new.provisional and new.first > written(active):",
        "tests/memory/test_segments.py",
    ),
    Mutant(
        "deleting messages drops the summaries of them",
        "memory/sqlite/rows.py",
        "        derived = self._delete_derived(conversation_id, first)",
        "        derived = 0",
        STORES,
    ),
    Mutant(
        "a kept summary is shown only while it is in force",
        "compaction/lookout.py",
        "            if _same_summary(window.head, state.head):",
        "            if True:",
        SUMMARIZED,
    ),
    Mutant(
        "after a summary the floor is shown",
        "compaction/plan.py",
        "    wanted = max(len(entries) - limits.floor, 0)",
        "    wanted = max(len(entries) - limits.floor + 1, 0)",
        SUMMARIZED,
    ),
    Mutant(
        "up to the ceiling all is verbatim",
        "compaction/plan.py",
        "    if len(entries) > limits.ceiling - min(lead, limits.batch - 1):",
        "    if len(entries) >= limits.ceiling - min(lead, limits.batch - 1):",
        SUMMARIZED,
    ),
    Mutant(
        "no context passes the hard limit",
        "compaction/plan.py",
        "    over = max(len(entries) - limits.hard, 0)",
        "    over = 0",
        LIMITS,
    ),
    Mutant(
        "no context passes the hard limit in tokens",
        "compaction/view.py",
        "    return max(settings.limits.hard_tokens - summary - pins - HEADING_TOKENS, SHORTEST)",
        "    return settings.limits.hard_tokens",
        LIMITS,
    ),
    Mutant(
        "a digest is marked",
        "compaction/standin.py",
        "        provisional=True,",
        "        provisional=False,",
        LIMITS,
    ),
    Mutant(
        "an empty answer is no summary",
        "compaction/gate.py",
        '    if not text:\n        return verdict("empty")\n',
        "",
        "tests/compaction/test_gate.py",
    ),
    Mutant(
        "an answer that is not fit leaves history as it was",
        "compaction/writing.py",
        '                raise Unfit(verdict.problem or "unfit")',
        "                pass",
        SUMMARIZED,
    ),
    Mutant(
        "a failing model is asked less and less",
        "compaction/breaker.py",
        "    return float(min(FIRST_DELAY * 2",
        "    return 0.0 * float(min(FIRST_DELAY * 2",
        FAULTS,
    ),
    Mutant(
        "two refusals of the same messages are enough",
        "compaction/summarizer.py",
        "                if lease.refusals >= REFUSALS and lease.refused == batch.name:",
        "                if False:",
        FAULTS,
    ),
    Mutant(
        "what there is no room for is owed",
        "compaction/summarizer.py",
        "            await memory.store.owe(key, task=self._task)",
        "            pass",
        FAULTS,
    ),
    Mutant(
        "what users say is data in a prompt",
        "items/untrusted.py",
        "    inside = harmless(text, secret)\n",
        "    inside = text\n",
        "tests/compaction/test_prompt.py",
    ),
    Mutant(
        "the newest user message is there",
        "sections/summarized.py",
        "        if newest and newest <= shown.before:",
        "        if False:",
        SUMMARIZED,
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
