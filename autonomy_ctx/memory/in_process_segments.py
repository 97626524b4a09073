"""The segments of one conversation that lives in this process, those in force and those replaced."""

from __future__ import annotations

from dataclasses import dataclass, replace

from autonomy_ctx.memory.segments import StoredSegment, revived, swapped
from autonomy_ctx.memory.store import Head

_TAKEN_BACK = -1


@dataclass(slots=True)
class _Row:
    """A segment, the number of the one that stands for it now, and of the one that left it as a rest."""

    segment: StoredSegment
    replaced_by: int | None = None
    rest_of: int | None = None


class SegmentRows:
    """Every segment ever committed, by number; numbers are never used again."""

    __slots__ = ("_last_number", "_rows", "in_force")

    def __init__(self) -> None:
        self._rows: dict[int, _Row] = {}
        self._last_number = 0
        self.in_force: tuple[StoredSegment, ...] = ()

    def commit(self, segment: StoredSegment, head: Head, now: float) -> bool:
        """Put a segment in force; false when it does not fit."""
        swap = swapped(self.in_force, segment, head.position)
        if swap is None:
            return False
        new, *rests = (replace(one, generation=head.generation) for one in swap.added)
        number = self._add(replace(new, created=now), None)
        for rest in rests:
            self._add(rest, number)
        for one in swap.removed:
            self._rows[one.number].replaced_by = number
        self._sort()
        return True

    def undo(self) -> bool:
        """Take back the newest commit; false when there is none."""
        commits = (
            number for number, row in self._rows.items() if row.replaced_by is None and row.rest_of is None
        )
        newest = max(commits, default=None)
        if newest is None:
            return False
        self._rows = {number: row for number, row in self._rows.items() if row.rest_of != newest}
        for row in self._rows.values():
            if row.replaced_by == newest:
                row.replaced_by = None
        self._rows[newest].replaced_by = _TAKEN_BACK
        self._sort()
        return True

    def forget(self, first: int) -> int:
        """Delete the segments, in force or not, that reach a position; how many it were.

        What a deleted one stood for, and is not deleted itself, is in force again.
        """
        before = len(self._rows)
        self._rows = {number: row for number, row in self._rows.items() if row.segment.last < first}
        self._sort()
        replaced = [
            row.segment
            for row in self._rows.values()
            if row.replaced_by not in (None, _TAKEN_BACK) and row.replaced_by not in self._rows
        ]
        for segment in revived(self.in_force, replaced):
            self._rows[segment.number].replaced_by = None
        self._sort()
        return before - len(self._rows)

    def _add(self, segment: StoredSegment, rest_of: int | None) -> int:
        self._last_number += 1
        self._rows[self._last_number] = _Row(replace(segment, number=self._last_number), rest_of=rest_of)
        return self._last_number

    def _sort(self) -> None:
        active = (row.segment for row in self._rows.values() if row.replaced_by is None)
        self.in_force = tuple(sorted(active, key=lambda segment: segment.first))
