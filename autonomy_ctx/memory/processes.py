"""Names of processes by which others on the same machine can tell whether they have ended, and their clock.

A name has the host, its boot id, the namespace of process ids, the process id and its start time, because
process ids are reused and each container has its own ids.
"""

from __future__ import annotations

import os
import socket
import sys
import time
from collections.abc import Callable
from hashlib import sha256
from pathlib import Path

_SEPARATOR = "/"
# Of a line in /proc/<pid>/stat, after the command: the state, and the start in ticks since the boot.
_STATE, _START = 0, 19
_ENDED_STATES = ("Z", "X")
# This process, by its id: a forked child has another.
_names: dict[int, str] = {}


def process_name() -> str:
    """The name of this process."""
    pid = os.getpid()
    if pid not in _names:
        _names.clear()
        stat = _read_stat(pid)
        start = stat[_START] if stat else ""
        _names[pid] = _SEPARATOR.join([*_machine(), str(pid), start])
    return _names[pid]


def has_ended(name: str) -> bool:
    """True when the process whose name this is, or begins with this, has surely ended."""
    own, found = process_name().split(_SEPARATOR), name.split(_SEPARATOR)
    if len(found) < len(own) or "" in own or found[:3] != own[:3] or found[: len(own)] == own:
        # Of another machine, or where nothing is known of processes, nobody can tell.
        return False
    pid, start = found[3], found[4]
    try:
        os.kill(int(pid), 0)
    except ProcessLookupError:
        return True
    except (OSError, ValueError):
        return False
    stat = _read_stat(int(pid))
    return bool(stat) and (stat[_STATE] in _ENDED_STATES or stat[_START] != start)


def machine_clock(boot: str | None = None) -> Callable[[], float]:
    """A clock in seconds that all processes of this machine share and that nobody can set.

    It goes on while the machine sleeps. A number made from the boot id is a part of each time, so no time of
    another boot, or of the wall clock, is within hours of one of this boot.
    """
    if boot is None:
        boot = _machine()[1]
    if sys.platform != "linux" or not boot:
        # The time of the boot, as this process knows it, and the monotonic clock.
        booted_at = time.time() - time.monotonic()
        return lambda: booted_at + time.monotonic()
    # Later than the wall clock until the year 2106, and still exact to a microsecond.
    first = 2.0**32 + int.from_bytes(sha256(boot.encode()).digest()[:4], "big")
    return lambda: first + time.clock_gettime(time.CLOCK_BOOTTIME)


def _machine() -> tuple[str, str, str]:
    """The host, its boot and the namespace of process ids; empty where the system does not tell."""
    try:
        boot = Path("/proc/sys/kernel/random/boot_id").read_text(encoding="ascii").strip()
        namespace = os.readlink("/proc/self/ns/pid")
    except OSError:
        boot = namespace = ""
    return socket.gethostname().replace(_SEPARATOR, "_"), boot, namespace


def _read_stat(pid: int) -> list[str]:
    try:
        text = Path(f"/proc/{pid}/stat").read_text(encoding="utf-8", errors="replace")
    except OSError:
        return []
    # The command may hold spaces and brackets.
    return text.rpartition(")")[2].split()
