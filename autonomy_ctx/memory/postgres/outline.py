"""The SQL of outlines: times of messages and the history of the summary, without any text.

All marks are one statement: each range is one step in the index of positions.
"""

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
from autonomy_ctx.memory.postgres.connection import Connection, fetch_all, fetch_one
from autonomy_ctx.memory.postgres.log import find_conversation
from autonomy_ctx.memory.store import MAX_POSITION, Key
from autonomy_ctx.messages.message import from_microseconds

# A fork has its messages in the rows of several conversations, an ordinary one has no row in `shared_range`.
_SELECT_MARKS = f"""
    WITH source AS (
        SELECT source_id, first, last FROM autonomy_ctx.shared_range WHERE conversation_id = %(id)s
        UNION ALL
        SELECT %(id)s, 1, {MAX_POSITION} WHERE NOT EXISTS
            (SELECT 1 FROM autonomy_ctx.shared_range WHERE conversation_id = %(id)s)
    )
    SELECT DISTINCT ON (asked.first) mark.position, mark.created, mark.is_user
    FROM unnest(%(firsts)s::bigint[], %(lasts)s::bigint[]) AS asked (first, last)
    JOIN source ON source.first <= asked.last AND asked.first <= source.last
    CROSS JOIN LATERAL (
        (SELECT position, created, is_user FROM autonomy_ctx.message
         WHERE conversation_id = source.source_id AND is_user
           AND position BETWEEN greatest(asked.first, source.first) AND least(asked.last, source.last)
         ORDER BY position LIMIT 1)
        UNION ALL
        (SELECT position, created, is_user FROM autonomy_ctx.message
         WHERE conversation_id = source.source_id
           AND position BETWEEN greatest(asked.first, source.first) AND least(asked.last, source.last)
         ORDER BY position LIMIT 1)
        LIMIT 1
    ) mark
    ORDER BY asked.first, mark.is_user DESC, mark.position
"""  # noqa: S608  # our number
_SELECT_SEGMENTS = f"""
    SELECT {SEGMENT_OUTLINE}, replaced_by FROM autonomy_ctx.segment WHERE conversation_id = %s ORDER BY number
"""  # noqa: S608  # our names
_SELECT_DONE = """
    SELECT target, position, created, source FROM autonomy_ctx.fact
    WHERE conversation_id = %s AND is_done AND target IS NOT NULL ORDER BY number
"""
_SELECT_WORK = (
    "SELECT due, attempts, refusals, owner IS NOT NULL FROM autonomy_ctx.work WHERE conversation_id = %s"
)


async def read_outline(
    connection: Connection, key: Key, ranges: Sequence[tuple[int, int]]
) -> ConversationOutline:
    """Read the history of a conversation."""
    found = await find_conversation(connection, key)
    if found is None:
        return ConversationOutline()
    meant = {"id": found[0], "firsts": [one for one, _ in ranges], "lasts": [one for _, one in ranges]}
    marks = await fetch_all(connection, _SELECT_MARKS, meant)
    segments = await fetch_all(connection, _SELECT_SEGMENTS, found[:1])
    done = await fetch_all(connection, _SELECT_DONE, found[:1])
    work = await fetch_one(connection, _SELECT_WORK, found[:1])
    return ConversationOutline(
        tuple(MessageMark(at, from_microseconds(time), is_user) for at, time, is_user in marks),
        tuple(SegmentVersion(decode_segment(row[:-1]), row[-1]) for row in segments),
        tuple(make_fact_end(*row) for row in done),
        None if work is None else DueTask(*work),
    )
