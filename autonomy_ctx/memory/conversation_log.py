"""`ConversationLog`: one conversation of the in-process store, in plain lists."""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Sequence
from dataclasses import replace
from typing import NamedTuple

from autonomy_ctx.memory.encoding import encode_row
from autonomy_ctx.memory.facts import FactRows
from autonomy_ctx.memory.outline import MessageMark
from autonomy_ctx.memory.rows import PinRows, RecordRows, SegmentRows
from autonomy_ctx.memory.store import MAX_POSITION, Entry, Head, Key
from autonomy_ctx.messages.message import ChatRole, Message


class LogRange(NamedTuple):
    """The positions `first` to `last` of a log."""

    log: ConversationLog
    first: int
    last: int


class ConversationLog:
    """One log: its own messages and their positions, positions by id; and what was made from it.

    A fork also has ranges of other logs, all before its own messages.
    """

    def __init__(self, key: Key) -> None:
        self.key = key
        self.head = Head()
        self.shared: Sequence[LogRange] = ()
        # The logs that have a range of this one.
        self.forks: list[ConversationLog] = []
        self.messages: list[Message] = []
        # The position of each message.
        self._numbers: list[int] = []
        self.positions: dict[str, int] = {}
        self.wholes: dict[int, str] = {}
        self.segments, self.facts = SegmentRows(), FactRows()
        self.records, self.pins = RecordRows(), PinRows()

    def append(self, messages: Sequence[Message]) -> None:
        """Put messages at the next positions."""
        head = self.head
        new = range(head.position + 1, head.position + 1 + len(messages))
        self.messages += messages
        self._numbers += new
        last_user = head.last_user
        for position, message in zip(new, messages, strict=True):
            self.positions[message.id] = position
            if message.role is ChatRole.USER:
                last_user = position
        self.head = replace(
            head, position=new.stop - 1, count=head.count + len(messages), last_user=last_user
        )

    def body(self, message_id: str) -> str | None:
        """The full body of a message id, to distinguish a retry from a conflict."""
        found = self.find(message_id)
        if found is None:
            return None
        owner, position = found
        return owner.wholes.get(position) or encode_row(owner.entry(position).message)

    def find(self, message_id: str) -> tuple[ConversationLog, int] | None:
        """The log that a message is kept in, and its position."""
        own = self.positions.get(message_id)
        if own is not None:
            return self, own
        for log, first, last in self.shared:
            position = log.positions.get(message_id)
            if position is not None and first <= position <= last:
                return log, position
        return None

    def ranges(self) -> list[LogRange]:
        """Where the entries are: those of other logs, then its own."""
        return [*self.shared, LogRange(self, 1 + self.shared_until, MAX_POSITION)]

    @property
    def shared_until(self) -> int:
        """The last position of other logs; its own entries come after it."""
        return self.shared[-1].last if self.shared else 0

    def entry(self, position: int) -> Entry:
        """The entry at a position where there is one."""
        [entry] = self.between(position - 1, position + 1, None)
        return entry

    def after(self, position: int) -> list[Entry]:
        """Its own entries after a position."""
        return self._slice(position, None, None)

    def between(self, after: int, before: int | None, limit: int | None) -> list[Entry]:
        """The newest `limit` entries between two positions."""
        found = self._slice(after, before, limit)
        if not self.shared:
            return found
        for log, first, last in reversed(self.shared):
            if last <= after or (limit is not None and len(found) >= limit):
                break
            end = last + 1 if before is None else min(last + 1, before)
            rest = None if limit is None else limit - len(found)
            found = log._slice(max(after, first - 1), end, rest) + found
        return found

    def _slice(self, after: int, before: int | None, limit: int | None) -> list[Entry]:
        """The newest `limit` of its own entries between two positions."""
        numbers = self._numbers
        start = bisect_right(numbers, after) if after else 0
        stop = len(numbers) if before is None else bisect_left(numbers, before)
        if limit is not None:
            start = max(start, stop - limit)
        return list(map(Entry, numbers[start:stop], self.messages[start:stop]))

    def first_entry(self) -> Entry:
        """The oldest entry of a log that has one."""
        for log, first, last in self.ranges():
            numbers = log._numbers
            at = bisect_left(numbers, first)
            if at < len(numbers) and numbers[at] <= last:
                return Entry(numbers[at], log.messages[at])
        raise AssertionError("a log without entries has no first one")

    def count_between(self, first: int, last: int) -> int:
        """Count its own entries at these positions."""
        numbers = self._numbers
        return bisect_right(numbers, last) - bisect_left(numbers, first)

    def newest_user(self) -> int:
        """The position of the newest message of a user; 0 when there is none."""
        for log, first, last in reversed(self.ranges()):
            numbers = log._numbers
            for index in range(bisect_right(numbers, last) - 1, bisect_left(numbers, first) - 1, -1):
                if log.messages[index].role is ChatRole.USER:
                    return numbers[index]
        return 0

    def mark(self, first: int, last: int) -> MessageMark | None:
        """The first message of a user at these positions, or else the first one; None when there is none."""
        found = self.between(first - 1, last + 1, None)
        entry = next((one for one in found if one.message.role is ChatRole.USER), found[0] if found else None)
        if entry is None:
            return None
        message = entry.message
        return MessageMark(entry.position, message.created_at, message.role is ChatRole.USER)

    def has(self, position: int) -> bool:
        """True when there is an entry at a position."""
        return bool(self.between(position - 1, position + 1, None))

    def remove(self, positions: set[int]) -> None:
        """Take out entries of its own."""
        for position in positions:
            self.wholes.pop(position, None)
        kept = [entry for entry in self.after(0) if entry.position not in positions]
        self.messages = [entry.message for entry in kept]
        self._numbers = [entry.position for entry in kept]
        self.positions = {entry.message.id: entry.position for entry in kept}

    def leave_sources(self) -> None:
        """Stop sharing messages with other logs."""
        for one in self.shared:
            one.log.forks.remove(self)
        self.shared = ()

    def revise(self, *, new_generation: bool = False) -> None:
        """Note that the current segments, the pins or the facts have changed."""
        head = self.head
        self.head = replace(head, revision=head.revision + 1, generation=head.generation + new_generation)


def shared_positions(fork: ConversationLog, owner: ConversationLog, positions: set[int]) -> set[int]:
    """The positions of the owner that a fork has too."""
    return {
        position
        for log, first, last in fork.shared
        if log is owner
        for position in positions
        if first <= position <= last
    }
