"""The file of one context: a JSON list of messages that survives a kill at any byte and several writers.

The first part is shared with the file of a runtime: locks, atomic replacement, messages as JSON, the
complete part of a truncated list, and `LockedFile`. `ContextFile` is at the end.
"""

from __future__ import annotations

import codecs
import errno
import json
import logging
import os
import re
import stat
from abc import ABC, abstractmethod
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from functools import partial
from hashlib import sha256
from pathlib import Path
from typing import Any, Generic, NamedTuple, TypeVar

from autonomy_ctx.errors import InvalidContextFile, InvalidMessage, StoreUnavailable
from autonomy_ctx.messages import wire
from autonomy_ctx.messages.message import Message, now
from autonomy_ctx.messages.summary import Summary

fcntl: Any
try:
    import fcntl
except ImportError:  # not a POSIX system; contexts without a file work there
    fcntl = None

T = TypeVar("T")
logger = logging.getLogger("autonomy_ctx.containers")
READ_ONLY_ERRORS = (errno.EACCES, errno.EPERM, errno.EROFS)
_ALWAYS = ("role", "content", "id", "created_at")
_decoder = json.JSONDecoder()
_SPACE = re.compile(r"[ \t\n\r]*")
_WORDS = ("true", "false", "null", "NaN", "Infinity", "-Infinity")
_PARTIAL_NUMBER = re.compile(r"\.|[eE][+-]?")
_PARTIAL_ESCAPE = re.compile(r"\\u[0-9a-fA-F]{0,4}\Z")
REPAIR_ADVICE = "Restore a backup, mend it by hand, or use another path"
# The file's own form of a list's end, and the one that `json.dump` writes.
_ENDS = (b"}\n]", b"}]", b"[]")


class FileStamp(NamedTuple):
    """The values by which an unchanged file is recognised."""

    device: int
    inode: int
    size: int
    modified: int

    @classmethod
    def of(cls, found: os.stat_result) -> FileStamp:
        return cls(found.st_dev, found.st_ino, found.st_size, found.st_mtime_ns)


class FileContent(NamedTuple):
    """The bytes of a file, and its stamp when they were read."""

    data: bytes
    stamp: FileStamp


def file_stamp(path: Path) -> FileStamp | None:
    """A file's stamp; None when there is no such file."""
    try:
        return FileStamp.of(path.stat())
    except FileNotFoundError:
        return None


def real_path(path: str | os.PathLike[str]) -> Path:
    """The real place of a file: it stays the same when the working folder or a link changes.

    Raises `InvalidContextFile` if the path is not a regular file.
    """
    if not isinstance(path, str | os.PathLike):
        raise TypeError(f"file_path must be a path, not {type(path).__name__}")
    real = Path(os.path.realpath(path))
    with suppress(OSError):
        _check_is_file(real, real.stat().st_mode)
    return real


def _check_is_file(path: Path, mode: int) -> None:
    if not stat.S_ISREG(mode):
        kind = "a folder" if stat.S_ISDIR(mode) else "a pipe, a socket or a device"
        raise invalid_file(path, f"is {kind}, not a file", "Use the path of a file")


def invalid_file(path: Path, problem: str, advice: str) -> InvalidContextFile:
    """The error for a file that is not what it should be."""
    return InvalidContextFile(path=str(path), problem=problem, advice=advice)


def sibling_path(path: Path, suffix: str) -> Path:
    """The path of a file that belongs to another one."""
    return path.with_name(path.name + suffix)


@contextmanager
def file_lock(path: Path) -> Iterator[None]:
    """Hold `<path>.lock`; other processes and threads wait for their turn."""
    if fcntl is None:
        raise StoreUnavailable(
            path=str(path),
            problem="this system has no POSIX file locks",
            advice="files of contexts need Linux, macOS or WSL; contexts without a file work everywhere",
        )
    handle = _open_lock(path)
    try:
        fcntl.flock(handle, fcntl.LOCK_EX)
        # The file was removed meanwhile; later processes lock another file.
        while not _is_same_file(handle, sibling_path(path, ".lock")):
            os.close(handle)
            handle = _open_lock(path)
            fcntl.flock(handle, fcntl.LOCK_EX)
        try:
            yield
        finally:
            # Explicit, not left to close(), because a forked child may hold a copy of the handle.
            fcntl.flock(handle, fcntl.LOCK_UN)
    finally:
        os.close(handle)


def _open_lock(path: Path) -> int:
    try:
        return open_beside(path, ".lock")
    except FileNotFoundError:
        path.parent.mkdir(parents=True, exist_ok=True)
        return open_beside(path, ".lock")


def open_beside(path: Path, suffix: str) -> int:
    """Open a file beside another one; a new file gets the permissions of the other."""
    flags = os.O_RDWR | os.O_CREAT | os.O_CLOEXEC
    return os.open(sibling_path(path, suffix), flags, _mode_of(path) | 0o600)


def _is_same_file(handle: int, path: Path) -> bool:
    try:
        return os.path.samestat(os.fstat(handle), path.stat())
    except FileNotFoundError:
        return False


def _mode_of(path: Path) -> int:
    """The permissions of a file; of one that is still to be made, those for its owner alone."""
    try:
        return stat.S_IMODE(path.stat().st_mode)
    except OSError:
        return 0o600


def read_file(path: Path, start: int = 0) -> FileContent | None:
    """The content of a file from an offset on, and its stamp; None if there is no file.

    A folder, a pipe or a device is refused. Reading a pipe would wait for ever.
    """
    try:
        handle = os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK)
    except FileNotFoundError:
        return None
    try:
        _check_is_file(path, os.fstat(handle).st_mode)
        with os.fdopen(handle, "rb", closefd=False) as file:
            file.seek(start)
            data = file.read()
        return FileContent(data, FileStamp.of(os.fstat(handle)))
    finally:
        os.close(handle)


def replace_file(path: Path, data: bytes) -> FileStamp:
    """Put a whole new file in a file's place: a reader sees the old or the new one, never a part."""
    made = sibling_path(path, ".tmp")
    mode = _mode_of(path)
    handle = os.open(made, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC, mode)
    try:
        # Set explicitly, so that neither the umask nor a leftover file of this name decides.
        os.fchmod(handle, mode)
        write_at(handle, 0, data, path)
        os.fsync(handle)
        stamp = FileStamp.of(os.fstat(handle))
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


def overwrite_end(handle: int, at: int, data: bytes, end: bytes, path: Path) -> None:
    """Overwrite a file's `end`, which begins at `at`; when that fails the file is as it was."""
    try:
        write_at(handle, at, data, path)
    except BaseException:
        os.pwrite(handle, end, at)
        os.ftruncate(handle, at + len(end))
        raise


def save_truncated_copy(path: Path, data: bytes) -> None:
    """Save a truncated file under another name, before it is repaired."""
    names = (sibling_path(path, f".torn{number or ''}") for number in range(1_000_000))
    aside = next(name for name in names if not name.exists())
    replace_file(aside, data)
    logger.warning(
        "%s was cut off; all complete messages were read, and a copy of the file is %s", path, aside
    )


def message_fields(message: Message) -> dict[str, Any]:
    """A message's fields that are not empty, as JSON values."""
    if isinstance(message, Summary):
        return wire.to_dict(message)
    # An empty text was set on purpose; None, False and empty lists are defaults and are left out.
    return {
        name: value for name, value in message.model_dump().items() if value or value == "" or name in _ALWAYS
    }


def message_line(message: Message) -> str:
    """A message as one line of JSON."""
    # ASCII only: any program reads it, whatever encoding it takes the file for.
    return json.dumps(message_fields(message))


def parse_messages(values: Sequence[Any], path: Path) -> list[Message]:
    """Messages from JSON values read from a file; raises `InvalidContextFile` naming the first bad one.

    One without an id gets the same one at every reading, and so does the second of two different
    messages under one id. One that is there twice is taken once.
    """
    read_at = now()
    messages: dict[str, Message] = {}
    for index, value in enumerate(values):
        try:
            message = wire.from_dict(value, new_id=partial(_stable_id, index, value), now=lambda: read_at)
            known = messages.get(message.id)
            if known is not None and known != message:
                value = {**message_fields(message), "id": _stable_id(index, value)}
                message = wire.from_dict(value)
        except InvalidMessage as error:
            problem = f"has something at index {index} that is not a message ({error})"
            raise invalid_file(path, problem, "Fix it by hand, or use another path") from None
        messages[message.id] = message
    return list(messages.values())


def _stable_id(index: int, value: dict[str, Any]) -> str:
    return sha256(f"{index}:{json.dumps(value, sort_keys=True)}".encode()).hexdigest()[:32]


@dataclass(frozen=True, slots=True)
class CompleteValues:
    """The complete values of a list, and whether a part of another one had to be cut off."""

    values: list[Any]
    truncated: bool


def complete_values(text: str) -> CompleteValues:
    """The complete values of a JSON list that may be cut off; ValueError if it is not a list."""
    # A power cut can leave zeros where the end should be.
    read = text.rstrip("\0")
    truncated = read != text
    at = _skip(read, 0)
    if at == len(read):
        return CompleteValues([], truncated)
    if read[at] != "[":
        raise ValueError("does not begin with a JSON list")
    values: list[Any] = []
    at, separated = _skip(read, at + 1), True
    while at < len(read):
        # The bracket may stand right after a comma: the next value was about to overwrite it.
        if read[at] == "]":
            if read[at + 1 :].strip():
                raise ValueError("has text after the end of its list")
            break
        if not separated:
            raise ValueError(f"has no comma between two values, at character {at}")
        try:
            value, at = _decoder.raw_decode(read, at)
        except json.JSONDecodeError as error:
            if not _ends_too_early(read, error):
                raise
            return CompleteValues(values, truncated=True)
        values.append(value)
        at = _skip(read, at)
        separated = read[at : at + 1] == ","
        if separated:
            at = _skip(read, at + 1)
    return CompleteValues(values, truncated)


def _skip(text: str, at: int) -> int:
    found = _SPACE.match(text, at)
    return found.end() if found else at


def _ends_too_early(text: str, error: json.JSONDecodeError) -> bool:
    """Tell whether parsing failed only because the text ends too early."""
    rest = text[error.pos :]
    if not rest.strip() or error.msg.startswith("Unterminated string"):
        return True
    if error.msg.startswith("Invalid \\u"):
        return bool(_PARTIAL_ESCAPE.search(text))
    return any(word.startswith(rest) for word in _WORDS) or bool(_PARTIAL_NUMBER.fullmatch(rest))


@dataclass(frozen=True, slots=True)
class FileChanges:
    """Messages that others wrote: those after the known ones, or all that there are now."""

    messages: list[Message]
    replaces_all: bool


class LockedFile(ABC, Generic[T]):
    """A file of several writers. All methods but `load` are called with `file_lock(path)` held."""

    def __init__(self, path: str | os.PathLike[str]) -> None:
        self.path = real_path(path)
        self._stamp: FileStamp | None = None

    @property
    def exists(self) -> bool:
        """Tell whether there is anything to read."""
        return self.path.exists()

    @property
    def removed(self) -> bool:
        """Tell whether the file existed before and was removed."""
        return self._stamp is not None and not self.path.exists()

    def load(self) -> T | None:
        """All that is in it; None if there is no file. Takes the lock itself."""
        if not self.exists:
            return None
        try:
            with file_lock(self.path):
                return self.read()
        except OSError as error:
            if error.errno not in READ_ONLY_ERRORS:
                raise
            # No process can write in this folder, so no lock is needed.
            return self.read(repair=False)

    @abstractmethod
    def read(self, *, repair: bool = True) -> T:
        """All that is in it; a truncated file is repaired."""


class ContextFile(LockedFile[list[Message]]):
    """One context's file."""

    def __init__(self, path: str | os.PathLike[str]) -> None:
        super().__init__(path)
        # The bytes after the last message; None when the end is not one that can be overwritten.
        self._end: bytes | None = None

    def read_changes(self) -> FileChanges | None:
        """Read what others wrote since this one last read or wrote; None when they wrote nothing."""
        stamp, known = file_stamp(self.path), self._stamp
        if stamp == known:
            return None
        if stamp and known and self._end and stamp[:2] == known[:2] and stamp.size > known.size:
            added = self._read_appended(known.size - len(self._end))
            if added is not None:
                return FileChanges(added, replaces_all=False)
        return FileChanges(self.read(), replaces_all=True)

    def append(self, messages: Sequence[Message], before: Sequence[Message]) -> None:
        """Write messages after those that are there; `before` is what is there."""
        stamp, end = self._stamp, self._end
        if stamp is None or not end:
            self.write([*before, *messages])
            return
        text = ",\n".join(map(message_line, messages))
        comma = b"" if end == b"]" and not before else b","
        handle = os.open(self.path, os.O_RDWR | os.O_CLOEXEC)
        try:
            overwrite_end(
                handle, stamp.size - len(end), comma + b"\n" + text.encode() + b"\n]", end, self.path
            )
            self._stamp, self._end = FileStamp.of(os.fstat(handle)), b"\n]"
        finally:
            os.close(handle)

    def write(self, messages: Sequence[Message]) -> None:
        """Replace all that is there."""
        data = list_text(messages).encode()
        self._stamp = replace_file(self.path, data)
        self._end = _end_of(data)

    def read(self, *, repair: bool = True) -> list[Message]:
        content = read_file(self.path)
        if content is None:
            self._stamp = self._end = None
            return []
        data, stamp = content
        try:
            values = json.loads(data)
        except (ValueError, RecursionError):
            return self._read_truncated(data, repair=repair)
        messages = parse_messages(_check_list(values, self.path), self.path)
        self._stamp, self._end = stamp, _end_of(data)
        return messages

    def _read_truncated(self, data: bytes, *, repair: bool) -> list[Message]:
        """The complete messages of a file that is not valid JSON; an error if it does not begin a list."""
        try:
            # Not `data.decode()`: the kill may have left half a character at the very end.
            found = complete_values(codecs.getincrementaldecoder("utf-8")().decode(data))
        except (ValueError, RecursionError) as error:
            reason = "nested too deep" if isinstance(error, RecursionError) else str(error)
            problem = f"is not a JSON list of messages ({reason})"
            raise invalid_file(self.path, problem, REPAIR_ADVICE) from None
        messages = parse_messages(found.values, self.path)
        if repair:
            if found.truncated:
                save_truncated_copy(self.path, data)
            self.write(messages)
        return messages

    def _read_appended(self, at: int) -> list[Message] | None:
        """The messages after an offset in the file; None if they cannot be separated from the rest."""
        content = read_file(self.path, at)
        if content is None:
            return None
        data, stamp = content
        try:
            values = json.loads(b"[" + data.removeprefix(b","))
            messages = parse_messages(values, self.path)
        except (ValueError, RecursionError):
            return None
        # A message without an id is identified by its index in the whole list.
        if not all("id" in value for value in values):
            return None
        self._stamp, self._end = stamp, _end_of(data)
        return messages


def list_text(messages: Sequence[Message]) -> str:
    """Messages as a JSON list, one to a line."""
    return "[\n" + ",\n".join(map(message_line, messages)) + "\n]" if messages else "[]"


def _end_of(data: bytes) -> bytes | None:
    end = next((end for end in _ENDS if data.endswith(end)), None)
    return end[1:] if end else None


def _check_list(values: Any, path: Path) -> list[Any]:
    if isinstance(values, list):
        return values
    if isinstance(values, dict) and "contexts" in values:
        problem, advice = "is the file of a runtime", "Open it with Runtime.from_file"
    elif isinstance(values, dict) and isinstance(values.get("version"), int | float):
        problem = f"has version {values['version']:g}, which this version of autonomy_ctx does not know"
        advice = "Upgrade autonomy_ctx to open it"
    else:
        problem, advice = f"contains a JSON {type(values).__name__}, not a list of messages", REPAIR_ADVICE
    raise invalid_file(path, problem, advice)
