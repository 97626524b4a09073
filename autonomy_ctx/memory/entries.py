"""`EntryColumns`: entries as their positions and their messages, without an object for each; and ranges."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import repeat
from operator import itemgetter
from typing import Any, overload

from autonomy_ctx.memory.store import Entry
from autonomy_ctx.messages.message import Message

# For tuples of many, without a step of Python for each.
_position_of: Callable[[Entry], int] = itemgetter(0)
_message_of: Callable[[Entry], Message] = itemgetter(1)


class EntryColumns(Sequence[Entry]):
    """Entries whose positions and messages are kept apart; an entry is made when somebody looks at it."""

    __slots__ = ("messages", "positions")

    def __init__(self, positions: Sequence[int], messages: Sequence[Message]) -> None:
        self.positions, self.messages = positions, messages

    @classmethod
    def of(cls, entries: Sequence[Entry]) -> EntryColumns:
        """The columns of entries."""
        # To ask whether it is an instance takes longer: `Sequence` answers that by a method.
        if type(entries) is cls:
            return entries
        return cls(tuple(map(_position_of, entries)), tuple(map(_message_of, entries)))

    def __len__(self) -> int:
        return len(self.messages)

    def __iter__(self) -> Iterator[Entry]:
        # What `map(Entry, ...)` comes to, without a step of Python for each.
        return map(tuple.__new__, repeat(Entry), zip(self.positions, self.messages, strict=True))

    @overload
    def __getitem__(self, index: int) -> Entry: ...

    @overload
    def __getitem__(self, index: slice) -> EntryColumns: ...

    def __getitem__(self, index: int | slice) -> Entry | EntryColumns:
        if isinstance(index, slice):
            return EntryColumns(self.positions[index], self.messages[index])
        return Entry(self.positions[index], self.messages[index])

    def __add__(self, other: EntryColumns) -> EntryColumns:
        return EntryColumns((*self.positions, *other.positions), (*self.messages, *other.messages))

    def __eq__(self, other: object) -> bool:
        return isinstance(other, list | EntryColumns) and list(self) == list(other)

    __hash__: Any = None

    def __repr__(self) -> str:
        return f"EntryColumns({list(self)!r})"


def position_ranges(positions: Iterable[int], *, max_gap: int) -> Iterator[tuple[int, int]]:
    """Ranges that hold the positions; those at most `max_gap` apart share one."""
    first = last = None
    for position in sorted(positions):
        if first is None or last is None:
            first = position
        elif position > last + max_gap:
            yield first, last
            first = position
        last = position
    if first is not None and last is not None:
        yield first, last
