"""A runtime's file, and the journal of what changed since it was last written: one line of JSON per change.

The cost of a line does not depend on the size of the contexts. Replaying lines that the file already contains
changes nothing, so it does not matter whether the process was killed before or after the journal was removed.
Only the last line can be cut off by a kill, and then its change was never made. So changes that belong
together are on one line.
"""

from __future__ import annotations

import json
import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal, TypeAlias

from autonomy_ctx.containers.context_file import (
    REPAIR_ADVICE,
    LockedFile,
    file_stamp,
    invalid_file,
    list_text,
    message_fields,
    open_beside,
    overwrite_end,
    parse_messages,
    read_file,
    replace_file,
    save_truncated_copy,
    sibling_path,
    write_at,
)
from autonomy_ctx.messages.message import Message

Verb: TypeAlias = Literal["new", "add", "put", "drop", "set"]
VERSION = 1
JOURNAL = ".journal"
# A journal this long, and several times as long as the file, is folded in without being asked.
LONG_JOURNAL_BYTES, LONG_JOURNAL_RATIO = 1 << 20, 4
# The messages of each context, by its name.
State: TypeAlias = dict[str, list[Message]]


@dataclass(frozen=True, slots=True)
class JournalEntry:
    """One change: a context is new, or messages are added, put in another's place, dropped, or all set."""

    context: str
    verb: Verb
    messages: Sequence[Message] = ()
    ids: Sequence[str] = ()

    def to_json(self) -> str:
        """The change as JSON."""
        forms = [message_fields(message) for message in self.messages]
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


def edit_entries(context: str, before: Mapping[str, Message], after: Sequence[Message]) -> list[JournalEntry]:
    """The shortest list of changes from one state of a context to another."""
    by_id = {message.id: message for message in after}
    if not after or list(by_id) != [message_id for message_id in before if message_id in by_id]:
        return [JournalEntry(context, "set", after)]
    dropped = [message_id for message_id in before if message_id not in by_id]
    changed = [message for message in after if before[message.id] != message]
    entries = [JournalEntry(context, "put", [message]) for message in changed]
    return [*entries, JournalEntry(context, "drop", ids=dropped)] if dropped else entries


class Journal:
    """The journal's file. All methods are called with the lock of the runtime's file held."""

    def __init__(self, owner: Path) -> None:
        self._owner = owner
        self.path = sibling_path(owner, JOURNAL)
        self.offset = 0

    @property
    def size(self) -> int:
        """The number of bytes; a missing file has none."""
        try:
            return self.path.stat().st_size
        except FileNotFoundError:
            return 0

    def read(self, start: int = 0, *, repair: bool = True) -> list[JournalEntry]:
        """The changes from a place in the file on; a truncated last line is cut off and saved elsewhere."""
        content = read_file(self.path, start)
        if content is None:
            self.offset = 0
            return []
        data = content.data
        *lines, tail = data.split(b"\n")
        complete = _is_complete(tail)
        if tail and repair:
            self._repair(start + len(data) - len(tail), tail, complete=complete)
        if complete:
            lines.append(tail)
        self.offset = start + sum(len(line) + 1 for line in lines)
        return [parse_entry(line, self.path) for line in lines if line]

    def append(self, entries: Sequence[JournalEntry]) -> None:
        """Write changes at the end, in one write."""
        data = "".join(entry.to_json() + "\n" for entry in entries).encode()
        handle = open_beside(self._owner, JOURNAL)
        try:
            overwrite_end(handle, self.offset, data, b"", self.path)
        finally:
            os.close(handle)
        self.offset += len(data)

    def remove(self) -> None:
        """Forget all changes: the runtime's file has them."""
        self.path.unlink(missing_ok=True)
        self.offset = 0

    def _repair(self, at: int, tail: bytes, *, complete: bool) -> None:
        handle = os.open(self.path, os.O_RDWR | os.O_CLOEXEC)
        try:
            if complete:
                write_at(handle, at + len(tail), b"\n", self.path)
            else:
                save_truncated_copy(self.path, tail)
                os.ftruncate(handle, at)
        finally:
            os.close(handle)


def _is_complete(line: bytes) -> bool:
    try:
        return isinstance(json.loads(line), dict)
    except (ValueError, RecursionError):
        return False


def parse_entry(line: bytes, path: Path) -> JournalEntry:
    """A change from its line; raises `InvalidContextFile` when it is none that this version knows."""
    try:
        form = json.loads(line)
    except (ValueError, RecursionError):
        form = None
    match form:
        case {"context": str(context), "new": True}:
            return JournalEntry(context, "new")
        case {"context": str(context), "add": dict(value)}:
            return JournalEntry(context, "add", parse_messages([value], path))
        case {"context": str(context), "add": list(values)}:
            return JournalEntry(context, "add", parse_messages(values, path))
        case {"context": str(context), "put": dict(value)}:
            return JournalEntry(context, "put", parse_messages([value], path))
        case {"context": str(context), "drop": list(ids)}:
            return JournalEntry(context, "drop", ids=[str(message_id) for message_id in ids])
        case {"context": str(context), "set": list(values)}:
            return JournalEntry(context, "set", parse_messages(values, path))
    raise invalid_file(
        path,
        "has a line that is not a change of a context, or is from a newer version",
        "Upgrade autonomy_ctx, fix the line by hand, or move the journal away to continue without it",
    )


class RuntimeFile(LockedFile[State]):
    """One runtime's file."""

    def __init__(self, path: str | os.PathLike[str]) -> None:
        super().__init__(path)
        self.journal = Journal(self.path)
        # Keys of the file that are not ours; they stay in it.
        self._other_keys: dict[str, Any] = {}

    @property
    def exists(self) -> bool:
        """Tell whether there is a file, or a journal of one that was not written yet."""
        return self.path.exists() or self.journal.path.exists()

    def read(self, *, repair: bool = True) -> State:
        """All contexts, as the file and the journal together have them."""
        self._stamp = file_stamp(self.path)
        state = {
            name: {message.id: message for message in messages}
            for name, messages in self._read_file().items()
        }
        for entry in self.journal.read(repair=repair):
            entry.apply(state.setdefault(entry.context, {}))
        return {name: list(messages.values()) for name, messages in state.items()}

    def read_changes(self) -> State | list[JournalEntry] | None:
        """Read what others did since this one last read or wrote: all contexts, some changes, or nothing."""
        size = self.journal.size
        if file_stamp(self.path) != self._stamp or size < self.journal.offset:
            return self.read()
        return self.journal.read(self.journal.offset) if size > self.journal.offset else None

    def write_journal(self, entries: Sequence[JournalEntry]) -> None:
        """Write changes to the journal."""
        self.journal.append(entries)

    def write(self, state: Mapping[str, Sequence[Message]]) -> None:
        """Write the whole file; the journal is no longer needed then."""
        lists = ",\n".join(f"{json.dumps(name)}: {list_text(messages)}" for name, messages in state.items())
        parts = [f"{json.dumps(key)}: {json.dumps(value)}" for key, value in self._other_keys.items()]
        text = ",\n".join([*parts, f'"contexts": {{{lists}}}'])
        self._stamp = replace_file(self.path, f"{{{text}}}".encode())
        self.journal.remove()

    @property
    def is_complete(self) -> bool:
        """Tell whether the file alone says everything."""
        return self._stamp is not None and self._stamp.size > 0 and self.journal.size == 0

    @property
    def journal_is_long(self) -> bool:
        """Tell whether the journal has grown so much that it is time to fold it in."""
        saved = self._stamp.size if self._stamp else 0
        return self.journal.offset > max(LONG_JOURNAL_BYTES, LONG_JOURNAL_RATIO * saved)

    def _read_file(self) -> State:
        """Read the file without the journal."""
        self._other_keys = {}
        content = read_file(self.path)
        if content is None or not content.data.strip():
            return {}
        try:
            values = json.loads(content.data)
        except (ValueError, RecursionError):
            raise invalid_file(self.path, "is not JSON", REPAIR_ADVICE) from None
        if isinstance(values, list):
            raise invalid_file(self.path, "is the file of one context", "Open it with Context.from_file")
        if not isinstance(values, dict):
            raise invalid_file(
                self.path, f"contains a JSON {type(values).__name__}, not a runtime", REPAIR_ADVICE
            )
        version = values.get("version")
        if isinstance(version, int | float) and version > VERSION:
            raise invalid_file(
                self.path,
                f"has version {version:g}, and this version of autonomy_ctx reads up to {VERSION}",
                "Upgrade autonomy_ctx to open it",
            )
        contexts = values.pop("contexts", {})
        if not isinstance(contexts, dict) or not all(
            isinstance(messages, list) for messages in contexts.values()
        ):
            raise invalid_file(
                self.path, "has `contexts` that are not lists of messages by name", REPAIR_ADVICE
            )
        self._other_keys = values
        return {name: parse_messages(messages, self.path) for name, messages in contexts.items()}
