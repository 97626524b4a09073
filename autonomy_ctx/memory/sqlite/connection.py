"""Opening the SQLite file: its path, the checks before it is opened, the file lock, and connections.

`OpenFile` notices when the file was replaced or deleted. `translate_error` turns errors of SQLite and the
operating system into this library's errors. Connections and locks are never used in a forked child.
"""

from __future__ import annotations

import errno
import logging
import os
import sqlite3
import tempfile
import time
import weakref
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from types import TracebackType
from typing import Any
from urllib.parse import quote

from autonomy_ctx.errors import (
    AutonomyCtxError,
    StoreBusy,
    StoreCorrupt,
    StoreError,
    StoreFull,
    StoreUnavailable,
)
from autonomy_ctx.memory.encoding import UnreadableRow

logger = logging.getLogger("autonomy_ctx.memory")


def translate_error(error: BaseException, path: str, seconds: float) -> BaseException:
    """The error that a user should see. Errors that are already ours, or not of a store, stay unchanged."""
    if isinstance(error, AutonomyCtxError):
        return error
    if isinstance(error, OSError):
        return StoreUnavailable(
            path=path, problem=f"the operating system refused ({error.strerror})", advice="nothing was stored"
        )
    if isinstance(error, UnreadableRow):
        return _damage_error(path, str(error))
    if not isinstance(error, sqlite3.Error):
        return error
    if "decode to UTF-8" in str(error):
        return _damage_error(path, "it holds text that is not UTF-8")
    if isinstance(error, sqlite3.IntegrityError):
        # What is there already is looked for first.
        return _damage_error(path, "the head of a conversation contradicts its log")
    if "no such module: fts5" in str(error):
        return StoreUnavailable(
            path=path,
            problem=f"SQLite {sqlite3.sqlite_version} was built without FTS5, which search needs",
            advice="use a Python whose SQLite has FTS5",
        )
    code = getattr(error, "sqlite_errorcode", None)
    name = getattr(error, "sqlite_errorname", None) or type(error).__name__
    match None if code is None else code & 0xFF:
        case sqlite3.SQLITE_FULL:
            return StoreFull(path=path, problem="the disk is full")
        case sqlite3.SQLITE_CORRUPT | sqlite3.SQLITE_NOTADB:
            return _damage_error(path, name)
        case sqlite3.SQLITE_BUSY | sqlite3.SQLITE_LOCKED:
            return StoreBusy(path=path, seconds=seconds)
        case sqlite3.SQLITE_IOERR:
            return StoreUnavailable(
                path=path,
                problem=f"the disk reported an error ({name}), nothing was stored",
                advice="check the disk and its free space; this memory works again as soon as the disk does",
            )
        case sqlite3.SQLITE_READONLY | sqlite3.SQLITE_PERM | sqlite3.SQLITE_CANTOPEN | sqlite3.SQLITE_AUTH:
            return _gone_error(path) or StoreUnavailable(
                path=path,
                problem=f"cannot be opened for writing ({name})",
                advice="check that the file and its folder belong to this user and are not read-only",
            )
    return StoreError(f"{path}: SQLite refused the statement with {name}; nothing was stored")


def _damage_error(path: str, problem: str) -> StoreError:
    """The error of a file that cannot be read: it is damaged, or its file system is gone."""
    advice = None
    if problem == "SQLITE_NOTADB":
        advice = (
            "If it never was an SQLite database, name another file. Else restore a backup, or save what can "
            f"be saved with `sqlite3 {path} .recover`"
        )
    return _gone_error(path) or StoreCorrupt(path=path, problem=problem, advice=advice)


# What a file system answers that was removed or has failed; one that fails is often made read-only.
_GONE_ERRORS = frozenset(
    getattr(errno, name)
    for name in (
        *("EIO", "ENOENT", "ENODEV", "ENXIO", "ENOTCONN", "ESTALE", "EROFS", "ETIMEDOUT"),
        *("EUCLEAN", "EREMOTEIO", "EHOSTDOWN", "ESHUTDOWN"),
    )
    if hasattr(errno, name)
)


def _gone_error(path: str) -> StoreError | None:
    """The error of a file system that does not work; None if a small file can be written beside the database.

    The database itself is not opened: to close it again would drop this process's locks on it.
    """
    try:
        os.stat(path)
        with tempfile.TemporaryFile(dir=os.path.dirname(os.path.abspath(path)), buffering=0) as file:
            file.write(bytes(4096))
            os.fsync(file.fileno())
    except OSError as error:
        if error.errno in _GONE_ERRORS:
            return StoreUnavailable(
                path=path,
                problem=f"the file or its file system is gone or has failed ({error.strerror})",
                advice="nothing was stored; this memory works again when the file is back",
            )
    return None


# Before this version, two connections that checkpoint and write at once could damage the file.
WAL_RESET_FIX_VERSION = (3, 51, 3)

# SQLite's WAL needs memory shared between processes, which these cannot give.
NETWORK_FILESYSTEMS = frozenset(
    {"nfs", "nfs4", "cifs", "smb3", "smbfs", "9p", "afs", "fuse.sshfs", "glusterfs", "ceph"}
)


def path_from_url(url: str) -> str:
    """The path in `sqlite:///relative.db` or `sqlite:////absolute.db`."""
    prefix = "sqlite:///"
    if not url.startswith(prefix):
        # The rest of a URL may hold a password: it is not repeated.
        raise StoreUnavailable(
            path="sqlite://...",
            problem="names a host, but an SQLite file must be on this machine",
            advice="write sqlite:///relative.db or sqlite:////absolute.db",
        )
    path = url[len(prefix) :].split("?", 1)[0]
    if not path or path == ":memory:":
        raise StoreUnavailable(
            path=url,
            problem="this URL names no file",
            advice="use Memory() to keep messages in this process only",
        )
    return path


def check_location(path: str, mounts: str | None = None) -> None:
    """Raise the error a user should see if no database can be opened or made at `path`."""
    check_folder(path)
    file = Path(path).absolute()
    folder = file.parent
    kind = filesystem_type(file, _read_mounts() if mounts is None else mounts)
    if kind in NETWORK_FILESYSTEMS:
        raise StoreUnavailable(
            path=path,
            problem=f"it is on a network filesystem ({kind}), where several processes can damage it",
            advice="use a local disk, or a server database for several machines",
        )
    if not os.access(folder, os.W_OK | os.X_OK):
        raise StoreUnavailable(
            path=path,
            problem=f"the folder {folder} is not writable for this user",
            advice="SQLite makes files beside the database: change the owner or choose another folder",
        )
    # By its permissions only: to open and close the file here would drop this process's locks on it.
    if file.exists() and not os.access(file, os.R_OK | os.W_OK):
        raise StoreUnavailable(
            path=path,
            problem="this user may not read and write the file",
            advice="change its owner or permissions",
        )


def check_folder(path: str) -> None:
    """Raise the error that a user should see, if no file can be at `path`."""
    file = Path(path).absolute()
    if not file.parent.is_dir():
        raise StoreUnavailable(
            path=path, problem=f"the folder {file.parent} does not exist", advice="make it first"
        )
    if file.is_dir():
        raise StoreUnavailable(
            path=path, problem="this is a folder", advice="name a file in it, such as memory.db"
        )
    if file.exists() and not file.is_file():
        raise StoreUnavailable(
            path=path, problem="this is a pipe, a socket or a device", advice="name a file, such as memory.db"
        )


def filesystem_type(file: Path, mounts: str) -> str | None:
    """The kind of filesystem a path is on, from the text of /proc/mounts."""
    best, kind = -1, None
    for line in mounts.splitlines():
        fields = line.split()
        if len(fields) < 3:
            continue
        point = Path(fields[1].replace("\\040", " "))
        if (file == point or point in file.parents) and len(point.parts) >= best:
            best, kind = len(point.parts), fields[2]
    return kind


def _read_mounts() -> str:
    try:
        return Path("/proc/mounts").read_text()
    except OSError:
        return ""


# What is made here holds what users said: nobody else may read it.
NEW_FILE_MODE = 0o600

fcntl: Any
try:
    import fcntl
except ImportError:  # not a POSIX system; memory in process works there
    fcntl = None


# The first interval and the last, and how many polls come before it is doubled.
MIN_LOCK_POLL_SECONDS, MAX_LOCK_POLL_SECONDS, LOCK_POLLS = 0.0001, 0.01, 100
_locks: weakref.WeakSet[FileLock] = weakref.WeakSet()


class FileLock:
    """An exclusive lock on a file of its own, by which processes take turns.

    It is polled, because a wait inside the system could not be given up. A forked child must not keep
    the parent's lock, so it closes what it inherits.
    """

    def __init__(self, path: str) -> None:
        if fcntl is None:
            raise StoreUnavailable(
                path=path,
                problem="this system has no POSIX file locks",
                advice="SQLite memory needs Linux, macOS or WSL; Memory() in process works everywhere",
            )
        self.path = path
        self._open()
        _locks.add(self)

    def acquire(self, wanted: Callable[[], bool]) -> bool:
        """Wait for the lock while the caller still wants it. Returns whether it was acquired."""
        polls = 0
        while not self.try_acquire():
            if not wanted():
                return False
            # Short at first, to get a turn between two batches of another process; then ever less often.
            time.sleep(min(MIN_LOCK_POLL_SECONDS * 2 ** (polls // LOCK_POLLS), MAX_LOCK_POLL_SECONDS))
            polls += 1
        return True

    def try_acquire(self) -> bool:
        """Take the lock if it is free."""
        try:
            fcntl.flock(self._file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            while not self._in_place():
                logger.warning(
                    "%s was removed while it was in use, and was created again. Do not remove it", self.path
                )
                removed = self._file
                # If this fails, the removed file stays open: its number must not become another's.
                self._open()
                os.close(removed)
                fcntl.flock(self._file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            return False
        return True

    def release(self) -> None:
        """Let others have their turn."""
        fcntl.flock(self._file, fcntl.LOCK_UN)

    def __enter__(self) -> None:
        self.acquire(lambda: True)

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.release()

    def _open(self) -> None:
        self._file = os.open(self.path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, NEW_FILE_MODE)
        # Asked once: the numbers of an open file on the disk never change.
        self._own = os.fstat(self._file)

    def _in_place(self) -> bool:
        """True while the file at the path is the locked one; other processes lock the file at the path."""
        own = self._own
        return _file_identity(self.path) == (own.st_dev, own.st_ino)

    def close(self) -> None:
        """Close the file; in a forked child this does not affect the parent's lock."""
        if self._file >= 0:
            os.close(self._file)
            self._file = -1


# Files that are open in this process, and those that were when it was forked off another; by their
# numbers on the disk, because one file may have many names.
_open_files: dict[tuple[int, int], int] = {}
_inherited_files: set[tuple[int, int]] = set()


class OpenFile:
    """The file at a path as one thread has it open."""

    def __init__(self, path: str) -> None:
        self.path = path
        # Its numbers on the disk, which another file may get later, and how often it was opened.
        self.identity: tuple[int, int, int] | None = None
        self._opens = 0
        self.was_open = False

    def matches_path(self) -> bool:
        """True while the open file is the one at the path."""
        return self.identity is not None and _file_identity(self.path) == self.identity[:2]

    def note_open(self) -> None:
        """Note which file is open now."""
        found = os.stat(self.path)
        self._opens += 1
        self.identity = (found.st_dev, found.st_ino, self._opens)
        self.was_open = True
        file = self.identity[:2]
        _open_files[file] = _open_files.get(file, 0) + 1

    def note_closed(self) -> None:
        """Note that it is no longer open."""
        if self.identity is None:
            return
        file, self.identity = self.identity[:2], None
        _open_files[file] = _open_files.get(file, 0) - 1
        if _open_files[file] <= 0:
            del _open_files[file]


def check_file_present(path: str) -> None:
    """Raise if a file that was open has gone, or an empty one has taken its place."""
    found = file_size(path)
    if found <= 0:
        raise StoreUnavailable(
            path=path,
            problem="the file is gone" if found < 0 else "the file is empty now",
            advice="put it back, and this memory works again; no new, empty file is written",
        )


def file_size(path: str) -> int:
    """The size of a file; -1 when there is none."""
    try:
        return os.stat(path).st_size
    except OSError:
        return -1


def _file_identity(path: str) -> tuple[int, int] | None:
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
    if _file_identity(path) in _inherited_files:
        raise StoreUnavailable(
            path=path,
            problem="was open when this process was forked, and SQLite cannot be used across a fork",
            advice="close memory before the fork, or start workers with `spawn` or `forkserver`",
        )
    # A new file gets the permissions of the lock file; SQLite gives its other files those of the database.
    mode = f"rwc&modeof={quote(path)}.lock" if create else "rw"
    uri = f"file:{quote(path)}?mode={mode}"
    connection = sqlite3.connect(
        uri, timeout=timeout, isolation_level=None, check_same_thread=False, uri=True
    )
    connection.execute("PRAGMA wal_autocheckpoint = 0")
    return connection


@contextmanager
def snapshot(connection: sqlite3.Connection) -> Iterator[None]:
    """Have all reads in the block see the database at one moment."""
    connection.execute("BEGIN")
    try:
        yield
    finally:
        connection.execute("COMMIT")


def _leave_parent_process() -> None:
    """In the child of a fork: SQLite still counts the parent's locks as this process's own."""
    for lock in list(_locks):
        lock.close()
    _inherited_files.update(_open_files)
    _open_files.clear()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_leave_parent_process)
