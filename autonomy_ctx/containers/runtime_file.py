"""The file of a runtime: `{"contexts": {name: [messages]}}`, and the journal beside it.

The file is plain JSON after every save. Between two saves the journal has the changes; whoever reads
the file reads both. All writers hold one lock, and none writes before it has seen the others' changes.
"""

from __future__ import annotations

import json
import os
from collections.abc import Mapping, Sequence
from typing import Any, TypeAlias

from autonomy_ctx.containers.disk import READ_ONLY, Stamp, absolute, beside, locked, replace, stamp_of
from autonomy_ctx.containers.files import BROKEN, list_text
from autonomy_ctx.containers.journal import Entry, Journal
from autonomy_ctx.containers.records import parse_messages
from autonomy_ctx.errors import InvalidContextFile
from autonomy_ctx.items.message import Message

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
