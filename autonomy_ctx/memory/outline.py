"""The history of a conversation without its messages: for reports such as a timeline."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from datetime import UTC, datetime
from typing import NamedTuple

from autonomy_ctx.memory.encoding import SEGMENT_COLUMNS
from autonomy_ctx.memory.store import StoredSegment
from autonomy_ctx.messages.fact import FactSource, fact_id

# The columns of a segment in their order, without its text.
SEGMENT_OUTLINE = ", ".join("'\"\"'" if name == "text" else name for name in SEGMENT_COLUMNS)


class MessageMark(NamedTuple):
    """The position and time of a message, and whether a user wrote it."""

    position: int
    created_at: datetime
    is_user: bool


class SegmentVersion(NamedTuple):
    """A current or replaced segment, without its text.

    `replaced_by` is the number of the segment that replaced it, None if it is current, -1 if it was undone.
    """

    segment: StoredSegment
    replaced_by: int | None


class DueTask(NamedTuple):
    """The due work of a conversation: the time in seconds since 1970, and how often it has failed.

    `attempts` are failed calls in a row, `refusals` are rejected answers in a row.
    """

    due: float
    attempts: int
    refusals: int
    is_leased: bool


class FactEnd(NamedTuple):
    """Which fact is done, the position and time of the message that says so, and who found it."""

    fact_id: str
    position: int
    created_at: datetime
    source: FactSource


class ConversationOutline(NamedTuple):
    """One message for each range, all stored segments, the ends of facts, and the work that is due.

    `done_facts` are facts that were marked as done. A replaced fact is not listed: it ends with the fact that
    replaced it.
    """

    marks: tuple[MessageMark, ...] = ()
    segments: tuple[SegmentVersion, ...] = ()
    done_facts: tuple[FactEnd, ...] = ()
    work: DueTask | None = None


def make_fact_end(number: int, position: int, created: float, source: FactSource) -> FactEnd:
    """The end of a fact, by the columns of the row that tells it."""
    return FactEnd(fact_id(number), position, datetime.fromtimestamp(created, UTC), source)


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
