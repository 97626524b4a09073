"""The file of a context: a plain JSON list that anybody can read, and that only grows at its end.

An append overwrites the closing bracket with the next message and a new bracket, in one write, so it
costs the same at any length. A writer killed in the middle leaves a list without its end; the next
one to read it keeps every whole message. Everything else replaces the file as a whole.

All writers hold a lock on a file beside it, and none writes before it has seen what the others wrote.
"""

from __future__ import annotations

import codecs
import json
import os
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from autonomy_ctx.containers.disk import (
    READ_ONLY,
    Stamp,
    absolute,
    grow,
    keep_torn,
    locked,
    replace,
    stamp_of,
)
from autonomy_ctx.containers.records import parse_messages, record
from autonomy_ctx.containers.torn import whole_values
from autonomy_ctx.errors import InvalidContextFile
from autonomy_ctx.items.message import Message

BROKEN = "Restore a backup, mend it by hand, or use another path"
# The file's own form of a list's end, and the one that `json.dump` writes.
_ENDS = (b"}\n]", b"}]", b"[]")


@dataclass(frozen=True, slots=True)
class News:
    """What others wrote: messages that come after those known, or all that there are now."""

    messages: list[Message]
    whole: bool


class ContextFile:
    """One context's file. All methods but `load` are called with `locked(path)` held."""

    def __init__(self, path: str | os.PathLike[str]) -> None:
        self.path = absolute(path)
        self._stamp: Stamp | None = None
        # The bytes after the last message; None when the end is not one that can be overwritten.
        self._end: bytes | None = None

    @property
    def removed(self) -> bool:
        """Whether there was a file and somebody took it away."""
        return self._stamp is not None and not self.path.exists()

    def load(self) -> list[Message]:
        """All messages; a missing file has none. Takes the lock itself."""
        if not self.path.exists():
            return []
        try:
            with locked(self.path):
                return self.read()
        except OSError as error:
            if error.errno not in READ_ONLY:
                raise
            # Nobody can write in this folder, so there is nobody to wait for.
            return self._read(mend=False)

    def read(self) -> list[Message]:
        """All messages; a torn file is mended."""
        return self._read(mend=True)

    def news(self) -> News | None:
        """What others wrote since this one last read or wrote; None when they wrote nothing."""
        stamp, known = stamp_of(self.path), self._stamp
        if stamp == known:
            return None
        if stamp and known and self._end and stamp[:2] == known[:2] and stamp.size > known.size:
            added = self._added(known.size - len(self._end))
            if added is not None:
                return News(added, whole=False)
        return News(self.read(), whole=True)

    def append(self, messages: Sequence[Message], before: Sequence[Message]) -> None:
        """Write messages after those that are there; `before` is what is there."""
        stamp, end = self._stamp, self._end
        if stamp is None or not end:
            self.write([*before, *messages])
            return
        text = ",\n".join(map(record, messages))
        comma = b"" if end == b"]" and not before else b","
        handle = os.open(self.path, os.O_RDWR | os.O_CLOEXEC)
        try:
            grow(handle, stamp.size - len(end), comma + b"\n" + text.encode() + b"\n]", end, self.path)
            self._stamp, self._end = Stamp.of(os.fstat(handle)), b"\n]"
        finally:
            os.close(handle)

    def write(self, messages: Sequence[Message]) -> None:
        """Replace all that is there."""
        data = list_text(messages).encode()
        self._stamp = replace(self.path, data)
        self._end = _end_of(data)

    def _read(self, *, mend: bool) -> list[Message]:
        try:
            data = self.path.read_bytes()
        except FileNotFoundError:
            self._stamp = self._end = None
            return []
        stamp = stamp_of(self.path)
        try:
            values = json.loads(data)
        except (ValueError, RecursionError):
            return self._torn(data, mend=mend)
        messages = parse_messages(_list(values, self.path), self.path)
        self._stamp, self._end = stamp, _end_of(data)
        return messages

    def _torn(self, data: bytes, *, mend: bool) -> list[Message]:
        """What is whole of a file that is no JSON; mended, or an error when it was never a list."""
        try:
            # Not `data.decode()`: the kill may have left half a character at the very end.
            whole = whole_values(codecs.getincrementaldecoder("utf-8")().decode(data))
        except (ValueError, RecursionError) as error:
            raise InvalidContextFile(
                path=str(self.path), problem=f"is not a JSON list of messages ({_said(error)})", advice=BROKEN
            ) from None
        messages = parse_messages(whole.values, self.path)
        if mend:
            if whole.cut:
                keep_torn(self.path, data)
            self.write(messages)
        return messages

    def _added(self, at: int) -> list[Message] | None:
        """The messages after a place in the file; None when they cannot be told apart from the rest."""
        with self.path.open("rb") as file:
            stamp = Stamp.of(os.fstat(file.fileno()))
            file.seek(at)
            data = file.read()
        try:
            values = json.loads(b"[" + data.removeprefix(b","))
            messages = parse_messages(values, self.path)
        except (ValueError, RecursionError):
            return None
        # Without an id of its own a message is known by its place in the whole list.
        if not all("id" in value for value in values):
            return None
        self._stamp, self._end = stamp, _end_of(data)
        return messages


def list_text(messages: Sequence[Message]) -> str:
    """Messages as a JSON list, one to a line."""
    return "[\n" + ",\n".join(map(record, messages)) + "\n]" if messages else "[]"


def _end_of(data: bytes) -> bytes | None:
    end = next((end for end in _ENDS if data.endswith(end)), None)
    return end[1:] if end else None


def _list(values: Any, path: Path) -> list[Any]:
    if isinstance(values, list):
        return values
    if isinstance(values, dict) and "contexts" in values:
        problem, advice = "is the file of a runtime", "Open it with Runtime.from_file"
    elif isinstance(values, dict) and isinstance(values.get("version"), int | float):
        problem = f"has version {values['version']:g}, which this version of autonomy_ctx does not know"
        advice = "Upgrade autonomy_ctx to open it"
    else:
        problem, advice = f"holds a JSON {type(values).__name__}, not a list of messages", BROKEN
    raise InvalidContextFile(path=str(path), problem=problem, advice=advice)


def _said(error: BaseException) -> str:
    return "nested too deep" if isinstance(error, RecursionError) else str(error)
