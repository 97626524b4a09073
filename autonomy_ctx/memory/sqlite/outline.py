"""The SQL of outlines: times of messages and the history of the summary, without any text.

Only the columns before the body of a message row are read.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator, Sequence

from autonomy_ctx.memory.encoding import decode_segment
from autonomy_ctx.memory.outline import (
    SEGMENT_OUTLINE,
    ConversationOutline,
    DueTask,
    MessageMark,
    SegmentVersion,
    make_fact_end,
)
from autonomy_ctx.memory.sqlite.connection import snapshot
from autonomy_ctx.memory.sqlite.forks import SharedRange, read_ranges
from autonomy_ctx.memory.sqlite.log import find_conversation
from autonomy_ctx.memory.store import Key
from autonomy_ctx.messages.message import from_microseconds

# Each half ends at the first row that it finds, and the second is asked only when the first has none.
_SELECT_MARK = """
    SELECT * FROM (SELECT position, created, is_user FROM message
        WHERE conversation_id = ?1 AND position BETWEEN ?2 AND ?3 AND is_user ORDER BY position LIMIT 1)
    UNION ALL
    SELECT * FROM (SELECT position, created, is_user FROM message
        WHERE conversation_id = ?1 AND position BETWEEN ?2 AND ?3 ORDER BY position LIMIT 1)
    LIMIT 1
"""
_SELECT_SEGMENTS = f"""
    SELECT {SEGMENT_OUTLINE}, replaced_by FROM segment WHERE conversation_id = ? ORDER BY number
"""  # noqa: S608  # our names
_SELECT_DONE = """
    SELECT target, position, created, source FROM fact
    WHERE conversation_id = ? AND is_done AND target IS NOT NULL ORDER BY number
"""
_SELECT_WORK = "SELECT due, attempts, refusals, owner IS NOT NULL FROM work WHERE conversation_id = ?"


def read_outline(
    connection: sqlite3.Connection, key: Key, ranges: Sequence[tuple[int, int]]
) -> ConversationOutline:
    """Read the history of a conversation, in one snapshot."""
    with snapshot(connection):
        found = find_conversation(connection, key)
        if found is None:
            return ConversationOutline()
        meant = (found[0],)
        sources = read_ranges(connection, found[0])[::-1]
        marks = tuple(_read_marks(connection, sources, ranges))
        segments = connection.execute(_SELECT_SEGMENTS, meant).fetchall()
        done = connection.execute(_SELECT_DONE, meant).fetchall()
        work = connection.execute(_SELECT_WORK, meant).fetchone()
    return ConversationOutline(
        marks,
        tuple(SegmentVersion(decode_segment(row[:-1]), row[-1]) for row in segments),
        tuple(make_fact_end(*row) for row in done),
        None if work is None else DueTask(work[0], work[1], work[2], is_leased=bool(work[3])),
    )


def _read_marks(
    connection: sqlite3.Connection, sources: Sequence[SharedRange], ranges: Sequence[tuple[int, int]]
) -> Iterator[MessageMark]:
    """One mark for each range; a fork has its messages in the rows of several conversations."""
    for first, last in ranges:
        found: list[MessageMark] = []
        for source in sources:
            meant = (source.conversation_id, max(first, source.first), min(last, source.last))
            rows = connection.execute(_SELECT_MARK, meant).fetchall() if meant[1] <= meant[2] else []
            found += [MessageMark(at, from_microseconds(time), bool(user)) for at, time, user in rows]
        if found:
            yield min(found, key=lambda mark: (not mark.is_user, mark.position))
