"""Locks, atomic replacement and the marks by which a file is recognised: what all our files need."""

from __future__ import annotations

import errno
import logging
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple

from autonomy_ctx.errors import StoreUnavailable

fcntl: Any
try:
    import fcntl
except ImportError:  # not a POSIX system; contexts without a file work there
    fcntl = None

logger = logging.getLogger("autonomy_ctx.containers")
READ_ONLY = (errno.EACCES, errno.EPERM, errno.EROFS)


class Stamp(NamedTuple):
    """By what a file that nobody has touched since is recognised."""

    device: int
    inode: int
    size: int
    modified: int

    @classmethod
    def of(cls, found: os.stat_result) -> Stamp:
        return cls(found.st_dev, found.st_ino, found.st_size, found.st_mtime_ns)


def stamp_of(path: Path) -> Stamp | None:
    """A file's stamp; None when there is no such file."""
    try:
        return Stamp.of(path.stat())
    except FileNotFoundError:
        return None


def absolute(path: str | os.PathLike[str]) -> Path:
    """The real place of a file: it stays the same when the working folder or a link changes."""
    if not isinstance(path, str | os.PathLike):
        raise TypeError(f"file_path must be a path, not {type(path).__name__}")
    return Path(os.path.realpath(path))


def beside(path: Path, suffix: str) -> Path:
    """The path of a file that belongs to another one."""
    return path.with_name(path.name + suffix)


@contextmanager
def locked(path: Path) -> Iterator[None]:
    """Hold `<path>.lock`; other processes and threads wait for their turn."""
    if fcntl is None:
        raise StoreUnavailable(
            path=str(path),
            problem="this system has no POSIX file locks",
            advice="files of contexts need Linux, macOS or WSL; contexts without a file work everywhere",
        )
    flags = os.O_RDWR | os.O_CREAT | os.O_CLOEXEC
    try:
        handle = os.open(beside(path, ".lock"), flags, 0o666)
    except FileNotFoundError:
        path.parent.mkdir(parents=True, exist_ok=True)
        handle = os.open(beside(path, ".lock"), flags, 0o666)
    try:
        fcntl.flock(handle, fcntl.LOCK_EX)
        try:
            yield
        finally:
            # Said, not left to close(): a child forked meanwhile holds a copy of the handle.
            fcntl.flock(handle, fcntl.LOCK_UN)
    finally:
        os.close(handle)


def replace(path: Path, data: bytes) -> Stamp:
    """Put a whole new file in a file's place: a reader sees the old or the new one, never a part."""
    made = beside(path, ".tmp")
    handle = os.open(made, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC, 0o666)
    try:
        if path.exists():
            os.fchmod(handle, path.stat().st_mode & 0o7777)
        write_at(handle, 0, data, path)
        os.fsync(handle)
        stamp = Stamp.of(os.fstat(handle))
    except BaseException:
        os.unlink(made)
        raise
    finally:
        os.close(handle)
    os.replace(made, path)
    return stamp


def write_at(handle: int, at: int, data: bytes, path: Path) -> None:
    """Write all of `data`, or raise an error that names the file."""
    left = memoryview(data)
    try:
        while left:
            written = os.pwrite(handle, left, at)
            at, left = at + written, left[written:]
    except OSError as error:
        raise OSError(error.errno, error.strerror, str(path)) from error


def grow(handle: int, at: int, data: bytes, end: bytes, path: Path) -> None:
    """Overwrite a file's `end`, which begins at `at`; when that fails the file is as it was."""
    try:
        write_at(handle, at, data, path)
    except BaseException:
        os.pwrite(handle, end, at)
        os.ftruncate(handle, at + len(end))
        raise


def keep_torn(path: Path, data: bytes) -> None:
    """Put what a kill left of a file aside, before it is mended."""
    names = (beside(path, f".torn{number or ''}") for number in range(1_000_000))
    aside = next(name for name in names if not name.exists())
    replace(aside, data)
    logger.warning("%s was torn; all whole messages are kept, and the file as it was is %s", path, aside)
