"""The protocol of a store that tells how a conversation came to be without reading its messages.

It is for those who look at a conversation, such as a timeline. It is no part of `Store`: without it, a
timeline goes by what is in force now. `autonomy_ctx.testing.outline_contract.OutlineContract` tests it.
"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime
from typing import NamedTuple, Protocol, runtime_checkable

from autonomy_ctx.items.fact import fact_id
from autonomy_ctx.memory.encoding import SEGMENT_COLUMNS
from autonomy_ctx.memory.store import Key, StoredSegment

# The columns of a segment in their order, without its text.
SEGMENT_OUTLINE = ", ".join("'\"\"'" if name == "text" else name for name in SEGMENT_COLUMNS)


class MessageMark(NamedTuple):
    """Where a message stands, when it was said, and whether a user said it."""

    position: int
    created_at: datetime
    is_user: bool


class SegmentVersion(NamedTuple):
    """A segment that is or was in force, without its text.

    `replaced_by` is the number of the one that stands for it now, None in force, -1 when it was taken back.
    """

    segment: StoredSegment
    replaced_by: int | None


class OwedWork(NamedTuple):
    """What is owed to a conversation: when it is due, in seconds since 1970, and how often it has failed.

    `attempts` are calls in a row that failed, `refusals` answers in a row that were not fit to keep.
    """

    due: float
    attempts: int
    refusals: int
    is_leased: bool


class FactEnd(NamedTuple):
    """Which fact is done, and the position and time of the message that says so."""

    fact_id: str
    position: int
    created_at: datetime


class ConversationOutline(NamedTuple):
    """One mark for each range that has messages, every segment that is kept, ends of facts, and what is owed.

    `done_facts` are those that somebody called done; a fact that was replaced ends with the one in its place.
    """

    marks: tuple[MessageMark, ...] = ()
    segments: tuple[SegmentVersion, ...] = ()
    done_facts: tuple[FactEnd, ...] = ()
    work: OwedWork | None = None


def make_fact_end(number: int, position: int, created: float) -> FactEnd:
    """The end of a fact, by the columns of the row that tells it."""
    return FactEnd(fact_id(number), position, datetime.fromtimestamp(created, UTC))


@runtime_checkable
class OutlineReader(Protocol):
    """A store that gives outlines. What one costs follows the ranges, not the messages between them."""

    async def outline(self, key: Key, ranges: Sequence[tuple[int, int]]) -> ConversationOutline:
        """For each range of positions, both included, its first message of a user, or else its first.

        Segments are in the order of their numbers. Ranges go up and do not overlap.
        """
