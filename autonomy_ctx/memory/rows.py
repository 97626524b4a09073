"""Segments, pins, turns, leased work and records in plain objects, for `InProcessStore`.

They can be used in other stores too. The rows of facts are in `facts`.
"""

from __future__ import annotations

from collections.abc import Callable, Container, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace

from autonomy_ctx.memory.forks import ReplacedSegment, fork_segments
from autonomy_ctx.memory.outline import DueTask, SegmentVersion
from autonomy_ctx.memory.store import (
    Head,
    Key,
    Lease,
    PinRow,
    PinSource,
    Record,
    StoredSegment,
    TurnToken,
    is_current_lease,
    restorable_segments,
    segment_replacement,
)

REPLACED_BY_UNDO = -1


@dataclass(slots=True)
class _SegmentRow:
    """A segment, the number of the one that stands for it now, and of the one that left it as a rest."""

    segment: StoredSegment
    replaced_by: int | None = None
    rest_of: int | None = None


class SegmentRows:
    """Every segment ever committed, by number; numbers are never used again."""

    __slots__ = ("_last_number", "_rows", "in_force")

    def __init__(self) -> None:
        self._rows: dict[int, _SegmentRow] = {}
        self._last_number = 0
        self.in_force: tuple[StoredSegment, ...] = ()

    def commit(self, segment: StoredSegment, head: Head, now: float) -> int | None:
        """Store a segment as current, and return its number; None if it does not fit."""
        swap = segment_replacement(self.in_force, segment, head.position)
        if swap is None:
            return None
        new, *rests = (replace(one, generation=head.generation) for one in swap.added)
        number = self._add(replace(new, created=now), None)
        for rest in rests:
            self._add(rest, number)
        for one in swap.removed:
            self._rows[one.number].replaced_by = number
        self._sort()
        return number

    def undo(self) -> int | None:
        """Take back the newest commit, and give its number; None when there is none."""
        commits = (
            number for number, row in self._rows.items() if row.replaced_by is None and row.rest_of is None
        )
        newest = max(commits, default=None)
        if newest is None:
            return None
        self._rows = {number: row for number, row in self._rows.items() if row.rest_of != newest}
        for row in self._rows.values():
            if row.replaced_by == newest:
                row.replaced_by = None
        self._rows[newest].replaced_by = REPLACED_BY_UNDO
        self._sort()
        return newest

    def __contains__(self, number: object) -> bool:
        """True for the number of a stored segment, current or replaced."""
        return number in self._rows

    def versions(self) -> Iterator[SegmentVersion]:
        """Every segment that is kept, without its text, and what stands for it now."""
        for row in self._rows.values():
            yield SegmentVersion(replace(row.segment, text=""), row.replaced_by)

    def delete_from(self, first: int) -> int:
        """Delete the segments, current or replaced, that reach a position, and return their number.

        Segments that a deleted one had replaced, and that are not deleted themselves, are current again.
        """
        before = len(self._rows)
        self._rows = {number: row for number, row in self._rows.items() if row.segment.last < first}
        self._sort()
        replaced = [
            row.segment
            for row in self._rows.values()
            if row.replaced_by not in (None, REPLACED_BY_UNDO) and row.replaced_by not in self._rows
        ]
        for segment in restorable_segments(self.in_force, replaced):
            self._rows[segment.number].replaced_by = None
        self._sort()
        return before - len(self._rows)

    def fork(self, at: int) -> SegmentRows:
        """The rows of a fork at a position, numbered in their order: an undo takes the last one back."""
        replaced = (
            ReplacedSegment(row.replaced_by, row.segment)
            for row in self._rows.values()
            if row.replaced_by is not None
        )
        made = SegmentRows()
        for segment in fork_segments(self.in_force, replaced, at):
            made._add(segment, None)
        made._sort()
        return made

    def _add(self, segment: StoredSegment, rest_of: int | None) -> int:
        self._last_number += 1
        self._rows[self._last_number] = _SegmentRow(
            replace(segment, number=self._last_number), rest_of=rest_of
        )
        return self._last_number

    def _sort(self) -> None:
        active = (row.segment for row in self._rows.values() if row.replaced_by is None)
        self.in_force = tuple(sorted(active, key=lambda segment: segment.first))


class PinRows:
    """The pins of one conversation, in the order of their positions."""

    __slots__ = ("_rows",)

    def __init__(self, rows: Iterable[PinRow] = ()) -> None:
        self._rows = {row.position: row for row in rows}

    def __iter__(self) -> Iterator[PinRow]:
        return iter(sorted(self._rows.values()))

    def __len__(self) -> int:
        return len(self._rows)

    def add(self, position: int, now: float, source: PinSource) -> bool:
        """Pin a message. Returns whether that changed something."""
        known = self._rows.get(position)
        if known is not None and (known.source == source or source == "model"):
            return False
        self._rows[position] = PinRow(position, now if known is None else known.pinned_at, source)
        return True

    def drop(self, positions: Iterable[int]) -> int:
        """Unpin messages, and return how many were pinned."""
        return sum(self._rows.pop(position, None) is not None for position in positions)

    def fork(self, at: int) -> PinRows:
        """The pins of a fork at a position."""
        return PinRows(row for row in self._rows.values() if row.position <= at)


@dataclass(slots=True)
class _WorkRow:
    """The work of one conversation; without an owner while no process works on it."""

    task: str
    due: float
    attempts: int = 0
    refusals: int = 0
    refused: str = ""
    owner: str | None = None
    lease_until: float = 0.0

    def seconds_until_free(self, now: float) -> float:
        """Seconds until it can be taken."""
        times = [self.due] if self.owner is None else [self.due, self.lease_until]
        return max(_seconds_until(time, now) for time in times)


class WorkRows:
    """One row for each conversation with due work; fences outlive the rows."""

    def __init__(self) -> None:
        self._rows: dict[Key, _WorkRow] = {}
        self._fences: dict[Key, int] = {}

    def enqueue_task(self, key: Key, task: str, now: float) -> _WorkRow:
        """Owe a conversation a task."""
        row = self._rows.setdefault(key, _WorkRow(task, now))
        if row.task != task:
            # Another configuration: what went wrong under the old one says nothing about it.
            row = self._rows[key] = _WorkRow(task, now, owner=row.owner, lease_until=row.lease_until)
        return row

    def claim(self, key: Key, owner: str, task: str, seconds: float, now: float) -> Lease | float | None:
        """Owe a conversation a task and take it if it is free and due."""
        row = self.enqueue_task(key, task, now)
        if row.owner is not None and _seconds_until(row.lease_until, now):
            return None
        return _seconds_until(row.due, now) or self._acquire(key, row, owner, now + seconds)

    def claim_next(self, owner: str, task: str, seconds: float, now: float) -> Lease | float | None:
        """Take what has been due for the longest time, or say when something could be."""
        owed = [(key, row) for key, row in self._rows.items() if row.task == task]
        free = [(key, row) for key, row in owed if not row.seconds_until_free(now)]
        if free:
            key, row = min(free, key=lambda one: one[1].due)
            return self._acquire(key, row, owner, now + seconds)
        return min((row.seconds_until_free(now) for _, row in owed), default=None)

    def extend(self, lease: Lease, seconds: float, now: float) -> bool:
        """Move the end of a lease; false when it was lost."""
        row = self._leased_row(lease)
        if row is not None:
            row.lease_until = now + seconds
        return row is not None

    def complete_task(self, lease: Lease, again_in: float | None, now: float) -> bool:
        """Release a lease, and delete the row unless it is due again; false if the lease was lost."""
        row = self._leased_row(lease)
        if row is None:
            return False
        if again_in is None:
            del self._rows[lease.key]
        else:
            self._rows[lease.key] = _WorkRow(
                row.task, now + again_in, lease.attempts, lease.refusals, lease.refused
            )
        return True

    def is_leased(self, key: Key, fence: int) -> bool:
        """True while the lease with this fence is the newest and not released; it may have expired."""
        row = self._rows.get(key)
        return row is not None and row.owner is not None and self._fences.get(key) == fence

    def owed(self, key: Key) -> DueTask | None:
        """The due work of a conversation."""
        row = self._rows.get(key)
        if row is None:
            return None
        return DueTask(row.due, row.attempts, row.refusals, is_leased=row.owner is not None)

    def delete(self, key: Key) -> None:
        """Owe a conversation nothing any more."""
        self._rows.pop(key, None)

    def _acquire(self, key: Key, row: _WorkRow, owner: str, until: float) -> Lease:
        self._fences[key] = fence = self._fences.get(key, 0) + 1
        row.owner, row.lease_until = owner, until
        return Lease(
            key=key,
            owner=owner,
            fence=fence,
            until=until,
            attempts=row.attempts,
            refusals=row.refusals,
            refused=row.refused,
        )

    def _leased_row(self, lease: Lease) -> _WorkRow | None:
        row = self._rows.get(lease.key)
        valid = row is not None and row.owner == lease.owner and self._fences.get(lease.key) == lease.fence
        return row if valid else None


def _seconds_until(time: float, now: float) -> float:
    """Seconds from now to a time; 0 for one that is past."""
    return time - now if is_current_lease(time, now) else 0.0


@dataclass(slots=True)
class _TurnPlace:
    """The turn of a conversation, or a place in the line for it."""

    ticket: int
    owner: str
    until: float


class _TurnLine:
    """Who has the turn of one conversation, and who waits for it, by ticket."""

    __slots__ = ("holder", "last_ticket", "waiting")

    def __init__(self) -> None:
        self.holder: _TurnPlace | None = None
        self.waiting: dict[int, _TurnPlace] = {}
        self.last_ticket = 0

    def find(self, ticket: int | None, owner: str) -> _TurnPlace | None:
        """The place of an owner; with a ticket only if it is that one."""
        places = [*self.waiting.values()] if self.holder is None else [self.holder, *self.waiting.values()]
        return next((one for one in places if one.owner == owner and ticket in (None, one.ticket)), None)


class TurnRows:
    """The line of each conversation. Tickets are given once, so lines outlive their turns."""

    def __init__(self) -> None:
        self._lines: dict[Key, _TurnLine] = {}

    def may_begin(self, key: Key, ticket: int | None, now: float) -> bool:
        """True when the turn is free and no other waits before a ticket, or before the end of the queue."""
        line = self._lines.get(key)
        if line is None:
            return True
        if line.holder is not None and (
            line.holder.ticket == ticket or is_current_lease(line.holder.until, now)
        ):
            return line.holder.ticket == ticket
        return not any(
            is_current_lease(one.until, now)
            for one in line.waiting.values()
            if ticket not in line.waiting or one.ticket < (ticket or 0)
        )

    def has_place(self, key: Key, ticket: int) -> bool:
        """True while a ticket is in the line."""
        line = self._lines.get(key)
        return line is not None and ticket in line.waiting

    def wait(self, key: Key, ticket: int | None, owner: str, until: float) -> int:
        """Keep a place in the line, or take one at its end; its ticket."""
        line = self._lines.setdefault(key, _TurnLine())
        place = None if ticket is None else line.waiting.get(ticket)
        if place is None:
            line.last_ticket += 1
            place = line.waiting[line.last_ticket] = _TurnPlace(line.last_ticket, owner, until)
        place.until = until
        return place.ticket

    def take(self, key: Key, ticket: int | None, owner: str, until: float) -> tuple[int, bool]:
        """Take the turn, which may begin; its ticket, and whether the holder before did not give it back.

        Places before it are gone: their leases have ended.
        """
        line = self._lines.setdefault(key, _TurnLine())
        again = line.holder is not None and line.holder.ticket == ticket
        if not again and ticket not in line.waiting:
            line.last_ticket += 1
            ticket = line.last_ticket
        number = ticket or 0
        line.waiting = {other: one for other, one in line.waiting.items() if other > number}
        took_over, line.holder = line.holder is not None and not again, _TurnPlace(number, owner, until)
        return number, took_over

    def renew(self, key: Key, ticket: int, owner: str, until: float) -> bool:
        """Move the end of a lease; false when the place is gone."""
        place = self._lines.get(key, _TurnLine()).find(ticket, owner)
        if place is not None:
            place.until = until
        return place is not None

    def leave(self, key: Key, ticket: int | None, owner: str) -> None:
        """Give back what an owner has."""
        line = self._lines.get(key, _TurnLine())
        place = line.find(ticket, owner)
        if place is not None and place is line.holder:
            line.holder = None
        elif place is not None:
            del line.waiting[place.ticket]

    def is_held(self, turn: TurnToken) -> bool:
        """True while no other turn has begun since; its lease may have expired."""
        line = self._lines.get(turn.key)
        holder = None if line is None else line.holder
        return holder is not None and (holder.ticket, holder.owner) == (turn.ticket, turn.owner)


class RecordRows:
    """Records by kind and name, oldest first; numbers are never used again."""

    __slots__ = ("_derived", "_kinds", "_last_number", "_refs")

    def __init__(self) -> None:
        self._kinds: dict[str, dict[str, Record]] = {}
        self._derived: set[int] = set()
        # What a record quotes, by its number: conversations and positions, None for any position.
        self._refs: dict[int, Sequence[tuple[Key, int | None]]] = {}
        self._last_number = 0

    def put(
        self,
        kind: str,
        records: Sequence[tuple[str, str]],
        keep: int | None,
        derived: bool,
        now: float,
        refs: Sequence[tuple[Key, int | None]] = (),
    ) -> list[int]:
        """Store records at the end."""
        rows = self._kinds.setdefault(kind, {})
        numbers = []
        for name, body in records:
            self._remove(kind, name)
            self._last_number += 1
            rows[name] = Record(self._last_number, name, now, body)
            numbers.append(self._last_number)
            if derived:
                self._derived.add(self._last_number)
            if refs:
                self._refs[self._last_number] = refs
        if keep is not None:
            for name in list(rows)[:-keep]:
                self._remove(kind, name)
        return numbers

    def read(self, kind: str, name: str | None, after: int, limit: int | None) -> list[Record]:
        """The newest records after a number, oldest first."""
        rows = self._kinds.get(kind, {})
        found = list(rows.values()) if name is None else [rows[name]] if name in rows else []
        found = [record for record in found if record.number > after]
        return found if limit is None else found[max(len(found) - limit, 0) :]

    def drop(self, kind: str, names: Sequence[str] | None, before: float | None) -> list[str]:
        """Remove records; the names of those that were there, oldest first."""
        meant = None if names is None else set(names)
        gone = [
            name
            for name, record in self._kinds.get(kind, {}).items()
            if (meant is None or name in meant) and (before is None or record.at < before)
        ]
        for name in gone:
            self._remove(kind, name)
        return gone

    def delete_all(self, *, only_derived: bool) -> None:
        """Remove all records, or those that are made from messages."""
        self._delete_if(lambda number: not only_derived or number in self._derived)

    def delete_quoting(self, key: Key, positions: Container[int] | None) -> None:
        """Remove the records that quote a message of a conversation, or one of those at some positions."""
        self._delete_if(
            lambda number: any(
                quoted == key and (positions is None or position is None or position in positions)
                for quoted, position in self._refs.get(number, ())
            )
        )

    def _delete_if(self, is_gone: Callable[[int], bool]) -> None:
        for kind, rows in self._kinds.items():
            for name in [name for name, record in rows.items() if is_gone(record.number)]:
                self._remove(kind, name)

    def _remove(self, kind: str, name: str) -> None:
        gone = self._kinds[kind].pop(name, None)
        if gone is not None:
            self._derived.discard(gone.number)
            self._refs.pop(gone.number, None)
