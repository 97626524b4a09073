"""Whether another process has ended is said only where it is known."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest

from autonomy_ctx.memory.processes import has_ended, process_name

_CHILD = "from autonomy_ctx.memory.processes import process_name; print(process_name(), flush=True); input()"


def changed(name: str, part: int, value: str) -> str:
    parts = name.split("/")
    parts[part] = value
    return "/".join(parts)


def test_a_process_that_runs_has_not_ended() -> None:
    assert not has_ended(process_name())
    assert not has_ended(f"{process_name()}/turn-1")


def test_a_child_has_ended_once_it_was_killed_also_before_it_was_waited_for() -> None:
    child = subprocess.Popen(
        [sys.executable, "-c", _CHILD], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    )
    assert child.stdin is not None
    assert child.stdout is not None
    name = child.stdout.readline().strip()
    assert not has_ended(f"{name}/turn-1")
    child.kill()
    # Its pipe is closed when it has ended; nobody has asked for its exit code yet.
    assert child.stdout.read() == ""
    os.waitid(os.P_PID, child.pid, os.WEXITED | os.WNOWAIT)
    assert has_ended(f"{name}/turn-1")
    child.wait()
    assert has_ended(f"{name}/turn-1")
    child.stdin.close()
    child.stdout.close()


def test_a_process_id_that_was_used_again_is_another_process() -> None:
    assert has_ended(changed(process_name(), 4, "1"))


@pytest.mark.parametrize("part", [0, 1, 2])
def test_nothing_is_said_of_another_host_boot_or_container(part: int) -> None:
    other = changed(changed(process_name(), 3, "999999999"), part, "other")
    assert not has_ended(other)


@pytest.mark.parametrize("name", ["", "a", "a/b/c/d/e", "a/b/c/no-number/e"])
def test_nothing_is_said_of_other_names(name: str) -> None:
    assert not has_ended(name)
    assert not has_ended("/".join([*process_name().split("/")[:3], name]))
