"""A lock between processes that waits its turn.

SQLite's own busy handler polls with growing pauses: under load one writer can starve for seconds.
The kernel's queue for a file lock is fair, so writers take this lock before SQLite's.
"""

from __future__ import annotations

import os
import weakref
from types import TracebackType
from typing import Any

from autonomy_ctx.errors import StoreUnavailable

fcntl: Any
try:
    import fcntl
except ImportError:  # not a POSIX system; memory in process works there
    fcntl = None


_locks: weakref.WeakSet[FileLock] = weakref.WeakSet()


class FileLock:
    """An exclusive lock on a file of its own, held from `with` to the end of it.

    A forked child must not keep the parent's place in the queue, so it closes what it inherits.
    """

    def __init__(self, path: str) -> None:
        if fcntl is None:
            raise StoreUnavailable(
                path=path,
                problem="this system has no POSIX file locks",
                advice="SQLite memory needs Linux, macOS or WSL; Memory() in process works everywhere",
            )
        self.path = path
        self._file = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o644)
        _locks.add(self)

    def __enter__(self) -> None:
        fcntl.flock(self._file, fcntl.LOCK_EX)

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        fcntl.flock(self._file, fcntl.LOCK_UN)

    def close(self) -> None:
        """Let go of the file; in a forked child this leaves the parent's lock alone."""
        if self._file >= 0:
            os.close(self._file)
            self._file = -1


def _let_go() -> None:
    for lock in list(_locks):
        lock.close()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_let_go)
