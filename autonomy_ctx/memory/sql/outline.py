"""The script of outlines: times of messages and the history of the summary, without any text."""

from __future__ import annotations

from collections.abc import Sequence

from autonomy_ctx.memory.encoding import decode_segment
from autonomy_ctx.memory.outline import (
    SEGMENT_OUTLINE,
    ConversationOutline,
    DueTask,
    MessageMark,
    SegmentVersion,
    make_fact_end,
)
from autonomy_ctx.memory.sql.forks import SharedRange, read_ranges
from autonomy_ctx.memory.sql.log import find_conversation
from autonomy_ctx.memory.sql.query import load_queries
from autonomy_ctx.memory.sql.session import Session
from autonomy_ctx.memory.store import MAX_LEASE_SECONDS, Key
from autonomy_ctx.messages.message import from_microseconds

_QUERIES = load_queries("outline", segment=SEGMENT_OUTLINE)


async def read_outline(session: Session, key: Key, ranges: Sequence[tuple[int, int]]) -> ConversationOutline:
    """For each range of positions, ends included, its first user message, or else its first message.

    Segments are ordered by number. Ranges are ascending and do not overlap. The cost depends on the number of
    ranges, not of messages.
    """
    found = await find_conversation(session, key)
    if found is None:
        return ConversationOutline()
    conversation_id = found[0]
    marks = await _read_marks(session, await read_ranges(session, conversation_id), ranges)
    segments = await session.fetch(_QUERIES["select_segments"], id=conversation_id)
    done = await session.fetch(_QUERIES["select_done"], id=conversation_id)
    work = await session.fetch(_QUERIES["select_work"], id=conversation_id)
    return ConversationOutline(
        tuple(marks),
        tuple(SegmentVersion(decode_segment(row[:-1]), row[-1]) for row in segments),
        tuple(make_fact_end(*row) for row in done),
        _due_task(*work[0]) if work else None,
    )


async def _read_marks(
    session: Session, sources: Sequence[SharedRange], ranges: Sequence[tuple[int, int]]
) -> list[MessageMark]:
    """The marks of ranges; a fork has its messages in the rows of several conversations."""
    asked = [
        (first, SharedRange(one.conversation_id, max(first, one.first), min(last, one.last)))
        for first, last in ranges
        for one in sources
        if max(first, one.first) <= min(last, one.last)
    ]
    values = [{"id": one.conversation_id, "first": one.first, "last": one.last} for _, one in asked]
    found: dict[int, list[MessageMark]] = {}
    answers = await session.fetch_each(_QUERIES["select_mark"], values)
    for (first, _), rows in zip(asked, answers, strict=True):
        for position, created, is_user in rows:
            mark = MessageMark(position, from_microseconds(created), bool(is_user))
            found.setdefault(first, []).append(mark)
    return [min(marks, key=lambda mark: (not mark.is_user, mark.position)) for marks in found.values()]


def _due_task(seconds: float, now: float, attempts: int, refusals: int, is_leased: bool) -> DueTask:
    # Work that has long been due, or since another boot, is due now. Rounded: two clocks are read one after
    # the other, and the time must be the same next time.
    due = round(now + (seconds if abs(seconds) <= MAX_LEASE_SECONDS else 0.0), 1)
    return DueTask(due, attempts, refusals, bool(is_leased))
