"""What changed in a runtime's contexts since its file was last written, one line of JSON per change.

A line costs the same however long the contexts are. Replaying the lines over a file that has them
already changes nothing, so it does not matter whether a kill came before or after the journal was
removed. A line torn by a kill is the last one, and its change was never made: what must be there
together or not at all is on one line.
"""

from __future__ import annotations

import json
import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal, TypeAlias

from autonomy_ctx.containers.context_file import (
    BROKEN,
    READ_ONLY,
    Stamp,
    absolute,
    beside,
    fields,
    grow,
    keep_torn,
    list_text,
    locked,
    parse_messages,
    replace,
    stamp_of,
    write_at,
)
from autonomy_ctx.errors import InvalidContextFile
from autonomy_ctx.items.message import Message

Verb: TypeAlias = Literal["new", "add", "put", "drop", "set"]


@dataclass(frozen=True, slots=True)
class Entry:
    """One change: a context is new, or messages are added, put in another's place, dropped, or all set."""

    context: str
    verb: Verb
    messages: Sequence[Message] = ()
    ids: Sequence[str] = ()

    def line(self) -> str:
        """The change as JSON."""
        forms = [fields(message) for message in self.messages]
        value: Any = True
        if self.verb == "drop":
            value = list(self.ids)
        elif self.verb != "new":
            value = forms[0] if len(forms) == 1 and self.verb != "set" else forms
        return json.dumps({"context": self.context, self.verb: value})

    def apply(self, messages: dict[str, Message]) -> None:
        """Make the change in a context's messages, given by their ids."""
        match self.verb:
            case "new":
                pass
            case "add":
                for message in self.messages:
                    messages.setdefault(message.id, message)
            case "put":
                messages.update((message.id, message) for message in self.messages if message.id in messages)
            case "drop":
                for message_id in self.ids:
                    messages.pop(message_id, None)
            case "set":
                messages.clear()
                messages.update((message.id, message) for message in self.messages)


def edits(context: str, before: Mapping[str, Message], after: Sequence[Message]) -> list[Entry]:
    """The changes that lead from one state of a context to another, as short as they can be told."""
    kept = {message.id: message for message in after}
    if not after or list(kept) != [message_id for message_id in before if message_id in kept]:
        return [Entry(context, "set", after)]
    dropped = [message_id for message_id in before if message_id not in kept]
    changed = [message for message in after if before[message.id] != message]
    entries = [Entry(context, "put", [message]) for message in changed]
    return [*entries, Entry(context, "drop", ids=dropped)] if dropped else entries


class Journal:
    """The journal's file. All methods are called with the lock of the runtime's file held."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.offset = 0

    @property
    def size(self) -> int:
        """How many bytes it has; a missing one has none."""
        try:
            return self.path.stat().st_size
        except FileNotFoundError:
            return 0

    def read(self, start: int = 0, *, mend: bool = True) -> list[Entry]:
        """The changes from a place in the file on; a torn last line is cut off and put aside."""
        try:
            with self.path.open("rb") as file:
                file.seek(start)
                data = file.read()
        except FileNotFoundError:
            self.offset = 0
            return []
        *lines, tail = data.split(b"\n")
        whole = _is_whole(tail)
        if tail and mend:
            self._mend(start + len(data) - len(tail), tail, whole=whole)
        if whole:
            lines.append(tail)
        self.offset = start + sum(len(line) + 1 for line in lines)
        return [parse_entry(line, self.path) for line in lines if line]

    def append(self, entries: Sequence[Entry]) -> None:
        """Write changes at the end, in one write."""
        data = "".join(entry.line() + "\n" for entry in entries).encode()
        handle = os.open(self.path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o666)
        try:
            grow(handle, self.offset, data, b"", self.path)
        finally:
            os.close(handle)
        self.offset += len(data)

    def remove(self) -> None:
        """Forget all changes: the runtime's file has them."""
        self.path.unlink(missing_ok=True)
        self.offset = 0

    def _mend(self, at: int, tail: bytes, *, whole: bool) -> None:
        handle = os.open(self.path, os.O_RDWR | os.O_CLOEXEC)
        try:
            if whole:
                write_at(handle, at + len(tail), b"\n", self.path)
            else:
                keep_torn(self.path, tail)
                os.ftruncate(handle, at)
        finally:
            os.close(handle)


def _is_whole(line: bytes) -> bool:
    try:
        return isinstance(json.loads(line), dict)
    except (ValueError, RecursionError):
        return False


def parse_entry(line: bytes, path: Path) -> Entry:
    """A change from its line; raises `InvalidContextFile` when it is none that this version knows."""
    try:
        form = json.loads(line)
    except (ValueError, RecursionError):
        form = None
    match form:
        case {"context": str(context), "new": True}:
            return Entry(context, "new")
        case {"context": str(context), "add": dict(value)}:
            return Entry(context, "add", parse_messages([value], path))
        case {"context": str(context), "add": list(values)}:
            return Entry(context, "add", parse_messages(values, path))
        case {"context": str(context), "put": dict(value)}:
            return Entry(context, "put", parse_messages([value], path))
        case {"context": str(context), "drop": list(ids)}:
            return Entry(context, "drop", ids=[str(message_id) for message_id in ids])
        case {"context": str(context), "set": list(values)}:
            return Entry(context, "set", parse_messages(values, path))
    raise InvalidContextFile(
        path=str(path),
        problem="holds a line that is no change of a context, or one of a newer version",
        advice="Upgrade autonomy_ctx, mend the line by hand, or move the journal away to do without it",
    )


VERSION = 1
# A journal this long, and several times as long as the file, is folded in without being asked.
LONG_JOURNAL, TIMES = 1 << 20, 4

# The messages of each context, by its name.
State: TypeAlias = dict[str, list[Message]]


class RuntimeFile:
    """One runtime's file. All methods but `load` are called with `locked(path)` held."""

    def __init__(self, path: str | os.PathLike[str]) -> None:
        self.path = absolute(path)
        self.journal = Journal(beside(self.path, ".journal"))
        self._stamp: Stamp | None = None
        # Keys of the file that are not ours; they stay in it.
        self._other: dict[str, Any] = {}

    @property
    def removed(self) -> bool:
        """Whether there was a file and somebody took it away."""
        return self._stamp is not None and not self.path.exists()

    def load(self) -> State:
        """All contexts; a missing file has none. Takes the lock itself."""
        if not self.path.exists() and not self.journal.path.exists():
            return {}
        try:
            with locked(self.path):
                return self.read()
        except OSError as error:
            if error.errno not in READ_ONLY:
                raise
            return self.read(mend=False)

    def read(self, *, mend: bool = True) -> State:
        """All contexts, as the file and the journal together have them."""
        self._stamp = stamp_of(self.path)
        state = {name: {message.id: message for message in held} for name, held in self._saved().items()}
        for entry in self.journal.read(mend=mend):
            entry.apply(state.setdefault(entry.context, {}))
        return {name: list(held.values()) for name, held in state.items()}

    def news(self) -> State | list[Entry] | None:
        """What others did since this one last read or wrote: all there is now, some changes, or nothing."""
        size = self.journal.size
        if stamp_of(self.path) != self._stamp or size < self.journal.offset:
            return self.read()
        return self.journal.read(self.journal.offset) if size > self.journal.offset else None

    def log(self, entries: Sequence[Entry]) -> None:
        """Write changes to the journal."""
        self.journal.append(entries)

    def write(self, state: Mapping[str, Sequence[Message]]) -> None:
        """Write the whole file; the journal is no longer needed then."""
        lists = ",\n".join(f"{json.dumps(name)}: {list_text(held)}" for name, held in state.items())
        parts = [f"{json.dumps(key)}: {json.dumps(value)}" for key, value in self._other.items()]
        text = ",\n".join([*parts, f'"contexts": {{{lists}}}'])
        self._stamp = replace(self.path, f"{{{text}}}".encode())
        self.journal.remove()

    @property
    def plain(self) -> bool:
        """Whether the file alone says everything."""
        return self._stamp is not None and self._stamp.size > 0 and self.journal.size == 0

    @property
    def long(self) -> bool:
        """Whether the journal has grown so much that it is time to fold it in."""
        saved = self._stamp.size if self._stamp else 0
        return self.journal.offset > max(LONG_JOURNAL, TIMES * saved)

    def _saved(self) -> State:
        """What the file says without the journal."""
        self._other = {}
        try:
            data = self.path.read_bytes()
        except FileNotFoundError:
            return {}
        if not data.strip():
            return {}
        try:
            values = json.loads(data)
        except (ValueError, RecursionError):
            raise self._invalid("is not JSON", BROKEN) from None
        if isinstance(values, list):
            raise self._invalid("is the file of one context", "Open it with Context.from_file")
        if not isinstance(values, dict):
            raise self._invalid(f"holds a JSON {type(values).__name__}, not a runtime", BROKEN)
        version = values.get("version")
        if isinstance(version, int | float) and version > VERSION:
            raise self._invalid(
                f"has version {version:g}, this version of autonomy_ctx knows up to {VERSION}",
                "Upgrade autonomy_ctx to open it",
            )
        contexts = values.pop("contexts", {})
        if not isinstance(contexts, dict) or not all(isinstance(held, list) for held in contexts.values()):
            raise self._invalid("has `contexts` that are not lists of messages by name", BROKEN)
        self._other = values
        return {name: parse_messages(held, self.path) for name, held in contexts.items()}

    def _invalid(self, problem: str, advice: str) -> InvalidContextFile:
        return InvalidContextFile(path=str(self.path), problem=problem, advice=advice)
