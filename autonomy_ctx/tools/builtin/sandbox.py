"""Files beneath a folder, opened so that nothing outside it can be reached.

A path is opened one component at a time, each relative to the one before and never through a link. The checks
use the opened file, so nothing can change between a check and its use. Text is written to a new file that
then replaces the old one; the old file is never written to.
"""

from __future__ import annotations

import errno
import os
import secrets
import stat
import unicodedata
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from typing import Any

from autonomy_ctx.errors import FileRefused

fcntl: Any
try:
    import fcntl
except ImportError:  # not a POSIX system; `check_system` says so when the tools are made
    fcntl = None

MAX_DEPTH = 64
MAX_PATH_LENGTH = 4096
# A file that is replaced whole while it is opened is opened again.
_ATTEMPTS = 10
_PROBLEMS = {
    errno.ENOENT: "does not exist",
    errno.ELOOP: "is a link, and links are not followed",
    errno.ENOTDIR: "is not a folder, or is a link; links are not followed",
    errno.EISDIR: "is a folder",
    errno.ENOTEMPTY: "is a folder",
    errno.EACCES: "may not be opened",
    errno.EPERM: "may not be changed",
    errno.ENXIO: "is not a file",
    errno.ENAMETOOLONG: "has a name that is too long",
    errno.ENOSPC: "could not be written: there is no room left",
    errno.EROFS: "could not be written: nothing can be written here",
}


def _flags(*names: str) -> int:
    """Flags of `os.open`; a system that lacks one of them is refused by `check_system`."""
    return sum(getattr(os, name, 0) for name in names)


_FOLDER = _flags("O_RDONLY", "O_DIRECTORY", "O_NOFOLLOW", "O_CLOEXEC")
# Opening a FIFO must not block, and a terminal must not become the controlling terminal.
_FILE = _flags("O_RDONLY", "O_NOFOLLOW", "O_NONBLOCK", "O_NOCTTY", "O_CLOEXEC")
_NEW = _flags("O_WRONLY", "O_CREAT", "O_EXCL", "O_NOFOLLOW", "O_CLOEXEC")


@dataclass(frozen=True, slots=True)
class RootFolder:
    """An open folder that paths start from; `hidden` is a folder in it that is not there for anybody."""

    fd: int
    device: int
    hidden: tuple[int, int] | None = None
    hidden_name: str | None = None

    def hides(self, found: os.stat_result) -> bool:
        """Tell whether this is the folder that is kept for others."""
        return self.hidden == (found.st_dev, found.st_ino)


def check_system(root: str) -> None:
    """Refuse a system where a path cannot be opened without following links."""
    if fcntl is None or not hasattr(os, "O_NOFOLLOW"):
        raise FileRefused(root, "cannot be used here: the file tools need Linux, macOS or WSL")


def split_path(path: str) -> list[str]:
    """The components of a relative path; empty for the base itself."""
    if len(path) > MAX_PATH_LENGTH:
        raise FileRefused(path, f"is longer than {MAX_PATH_LENGTH:,} characters")
    if not is_plain_name(path):
        raise FileRefused(repr(path)[1:-1], "has a character that names may not have")
    if path.startswith("/"):
        raise FileRefused(path, "starts with `/`; paths are relative to your own folder, leave it out")
    parts = [part for part in path.split("/") if part not in ("", ".")]
    if ".." in parts:
        raise FileRefused(path, "has `..` in it; paths only lead down from your own folder")
    if len(parts) > MAX_DEPTH:
        raise FileRefused(path, f"is more than {MAX_DEPTH} folders deep")
    return parts


def is_plain_name(name: str) -> bool:
    """Tell whether a name is as it looks: a line break forges lines, a lone surrogate is a raw byte."""
    return not any(unicodedata.category(one) in ("Cc", "Cs", "Zl", "Zp") for one in name)


@contextmanager
def refuse_os_errors(path: str) -> Iterator[None]:
    """Turn errors of the system into `FileRefused` with a sentence that names no folder of the host."""
    try:
        yield
    except FileRefused:
        raise
    except OSError as error:
        problem = _PROBLEMS.get(error.errno or 0) or f"failed: {os.strerror(error.errno or 0)}"
        raise FileRefused(path, problem) from None


def open_subfolder(base: RootFolder, fd: int, name: str, *, make: bool = False, mode: int = 0o777) -> int:
    """The folder of that name in an open folder, opened; the caller closes it."""
    if make:
        with suppress(FileExistsError):
            os.mkdir(name, mode, dir_fd=fd)
    found = os.open(name, _FOLDER, dir_fd=fd)
    try:
        info = os.fstat(found)
        if info.st_dev != base.device:
            raise FileRefused(name, "is on another device, such as /proc, and is not entered")
        if base.hides(info):
            raise OSError(errno.ENOENT, "hidden")
    except BaseException:
        os.close(found)
        raise
    return found


@contextmanager
def open_folder(base: RootFolder, parts: Sequence[str], *, make: bool = False) -> Iterator[int]:
    """The folder at the end of a walk from the base, open."""
    if parts and base.hidden_name is not None and parts[0].casefold() == base.hidden_name:
        # By its name, too: it may not exist yet, and nobody may prepare it for others.
        raise OSError(errno.ENOENT, "hidden")
    fd = os.dup(base.fd)
    try:
        for part in parts:
            inner = open_subfolder(base, fd, part, make=make)
            os.close(fd)
            fd = inner
        yield fd
    finally:
        os.close(fd)


def open_file(fd: int, name: str) -> int:
    """A file in an open folder, opened for reading; the caller closes it."""
    for _ in range(_ATTEMPTS):
        # Looked at first only because opening some devices does something; what counts is the check below.
        _check_name(fd, name)
        found = os.open(name, _FILE, dir_fd=fd)
        try:
            # The name is looked up again, and must be that of what was opened: a hard link that was gone
            # by now would leave a file from outside with one name, like any other.
            named = _check_name(fd, name)
            _wait_for_changes(fd, name)
            again = _check_name(fd, name)
            opened = os.fstat(found)
            same = (
                os.path.samestat(named, opened)
                and os.path.samestat(again, opened)
                and named.st_ctime_ns == again.st_ctime_ns
            )
        except BaseException:
            os.close(found)
            raise
        if same:
            return found
        os.close(found)
    raise FileRefused(name, "is being changed by somebody else; try again")


def _wait_for_changes(fd: int, name: str) -> None:
    """Wait until a change of this name that has begun is done.

    While a hard link is being replaced, its file is counted as having one name less and is still found by
    that name. To rename a file to itself changes nothing, and waits until its folder is free.
    """
    # Refused if the name is gone, which the next look at it says, or where nothing can be changed.
    with suppress(OSError):
        os.rename(name, name, src_dir_fd=fd, dst_dir_fd=fd)


def _check_name(fd: int, name: str) -> os.stat_result:
    info = os.stat(name, dir_fd=fd, follow_symlinks=False)
    check_file(info, name)
    return info


def check_file(info: os.stat_result, name: str) -> None:
    """Refuse everything but a plain file that has no other name."""
    if stat.S_ISLNK(info.st_mode):
        raise FileRefused(name, "is a link, and links are not followed")
    if stat.S_ISDIR(info.st_mode):
        raise FileRefused(name, "is a folder")
    if not stat.S_ISREG(info.st_mode):
        raise FileRefused(name, "is not a plain file")
    if info.st_nlink > 1:
        # The other name may well be outside.
        raise FileRefused(name, "has a second name (a hard link) and is not touched")


def read_bytes(fd: int, name: str, limit: int) -> bytes:
    """All of a file in an open folder, which may have at most `limit` bytes."""
    found = open_file(fd, name)
    with os.fdopen(found, "rb") as file:
        # Read to the bound, not to the size it says it has: it may grow meanwhile.
        data = file.read(limit + 1)
    if len(data) > limit:
        raise FileRefused(name, f"is larger than {limit:,} bytes")
    return data


def lock(fd: int) -> None:
    """Wait until nobody else, here or in another process, changes files in an open folder.

    The lock goes when the folder is closed. Where a disk knows no locks there is none.
    """
    with suppress(OSError):
        fcntl.flock(fd, fcntl.LOCK_EX)


def write_bytes(fd: int, name: str, data: bytes) -> bool:
    """Make or replace a file in an open folder; whether it was there before."""
    mode = None
    with suppress(FileNotFoundError):
        info = _check_name(fd, name)
        mode = stat.S_IMODE(info.st_mode) & 0o777
    made = f".{secrets.token_hex(8)}.tmp"
    new = os.open(made, _NEW, 0o666, dir_fd=fd)
    try:
        with os.fdopen(new, "wb") as file:
            if mode is not None:
                os.fchmod(new, mode)
            file.write(data)
            file.flush()
            os.fsync(new)
        os.rename(made, name, src_dir_fd=fd, dst_dir_fd=fd)
    except BaseException:
        with suppress(OSError):
            os.unlink(made, dir_fd=fd)
        raise
    return mode is not None


def remove_file(fd: int, name: str) -> None:
    """Delete a file in an open folder."""
    _check_name(fd, name)
    os.unlink(name, dir_fd=fd)
