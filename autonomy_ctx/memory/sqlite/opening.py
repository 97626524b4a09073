"""Opening the file, and noticing when it is not the same file any more."""

from __future__ import annotations

import os
import sqlite3
import time
from urllib.parse import quote

from autonomy_ctx.errors import StoreUnavailable

# A look at the file costs a system call, and with it the interpreter's lock.
LOOK_SECONDS = 0.02

# Files that are open in this process, and those that were when it was forked off another; by their
# numbers on the disk, because one file may have many names.
_open: dict[tuple[int, int], int] = {}
_inherited: set[tuple[int, int]] = set()


class OpenFile:
    """The file at a path as one thread has it open."""

    def __init__(self, path: str) -> None:
        self.path = path
        # Its numbers on the disk, which another file may get later, and how often it was opened.
        self.identity: tuple[int, int, int] | None = None
        self._opens = 0
        self.was_open = False
        self._seen = 0.0

    def in_place(self) -> bool:
        """Whether what is open is still what is at the path; looked up now and then."""
        if self.identity is None:
            return False
        now = time.monotonic()
        if now - self._seen < LOOK_SECONDS:
            return True
        if _file_at(self.path) != self.identity[:2]:
            return False
        self._seen = now
        return True

    def look_again(self) -> None:
        """Look at the file the next time, however soon that is."""
        self._seen = 0.0

    def opened(self) -> None:
        """Note which file is open now."""
        found = os.stat(self.path)
        self._opens += 1
        self.identity = (found.st_dev, found.st_ino, self._opens)
        self.was_open = True
        file = self.identity[:2]
        _open[file] = _open.get(file, 0) + 1

    def closed(self) -> None:
        """Note that it is no longer open."""
        if self.identity is None:
            return
        file, self.identity = self.identity[:2], None
        _open[file] = _open.get(file, 0) - 1
        if _open[file] <= 0:
            del _open[file]


def check_still_there(path: str) -> None:
    """Raise if a file that was open has gone, or an empty one has taken its place."""
    found = size_of(path)
    if found <= 0:
        raise StoreUnavailable(
            path=path,
            problem="the file is gone" if found < 0 else "the file is empty now",
            advice="put it back: the same memory goes on with it; nothing is written to a new, empty one",
        )


def size_of(path: str) -> int:
    """The size of a file; -1 when there is none."""
    try:
        return os.stat(path).st_size
    except OSError:
        return -1


def _file_at(path: str) -> tuple[int, int] | None:
    try:
        found = os.stat(path)
    except OSError:
        return None
    return found.st_dev, found.st_ino


def connect(path: str, timeout: float, *, create: bool) -> sqlite3.Connection:
    """A connection in autocommit mode that never checkpoints by itself.

    Only `create` may make the file: in place of one that has vanished, history would silently start
    again. Checkpoints are made by the writer alone, under the file lock.
    """
    if _file_at(path) in _inherited:
        raise StoreUnavailable(
            path=path,
            problem="was open when this process was forked, and SQLite cannot be used across a fork",
            advice="close memory before the fork, or start workers with `spawn` or `forkserver`",
        )
    uri = f"file:{quote(path)}?mode={'rwc' if create else 'rw'}"
    connection = sqlite3.connect(
        uri, timeout=timeout, isolation_level=None, check_same_thread=False, uri=True
    )
    connection.execute("PRAGMA wal_autocheckpoint = 0")
    return connection


def _inherit() -> None:
    """In the child of a fork: SQLite still counts the parent's locks as this process's own."""
    _inherited.update(_open)
    _open.clear()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_inherit)
