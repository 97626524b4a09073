"""The SQL of deletion: messages go, with everything that was made from them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import psycopg

from autonomy_ctx.memory.postgres.facts import DROP_LOST, drop_facts
from autonomy_ctx.memory.postgres.log import find_conversation_ids, index_text
from autonomy_ctx.memory.postgres.search import delete_entries
from autonomy_ctx.memory.postgres.segments import restore_segments

_OF_THESE = "WHERE conversation_id = ANY(%(these)s)"
# All of some conversations, in one statement however many they are.
_DELETE_WHOLLY = f"""
    WITH messages AS (DELETE FROM autonomy_ctx.message {_OF_THESE} RETURNING conversation_id),
    segments AS (DELETE FROM autonomy_ctx.segment {_OF_THESE} RETURNING conversation_id),
    pins AS (DELETE FROM autonomy_ctx.pin {_OF_THESE} RETURNING conversation_id),
    facts AS (DELETE FROM autonomy_ctx.fact {_OF_THESE} RETURNING conversation_id),
    wholes AS (DELETE FROM autonomy_ctx.whole {_OF_THESE}),
    records AS (DELETE FROM autonomy_ctx.record {_OF_THESE}),
    owed AS (DELETE FROM autonomy_ctx.work {_OF_THESE}),
    counts AS (SELECT conversation_id, count(*) AS messages FROM messages GROUP BY 1),
    derived AS (SELECT * FROM segments UNION SELECT * FROM pins UNION SELECT * FROM facts),
    changes AS (
        UPDATE autonomy_ctx.conversation c
        SET count = 0, last_user = 0, has_messages = false, generation = generation + 1,
            revision = revision + (SELECT count(*) FROM derived d WHERE d.conversation_id = c.id)
        WHERE id IN (SELECT conversation_id FROM counts UNION SELECT conversation_id FROM derived)
    )
    SELECT coalesce(sum(messages), 0)::int8 FROM counts
"""  # noqa: S608  # our names
_DELETE_MESSAGES = """
    DELETE FROM autonomy_ctx.message WHERE conversation_id = %s AND id = ANY(%s) RETURNING position
"""
_UPDATE_CONVERSATION = """
    UPDATE autonomy_ctx.conversation c
    SET count = count - %(deleted)s, has_messages = count > %(deleted)s, generation = generation + 1,
        revision = revision + %(derived)s,
        last_user = coalesce((SELECT m.position FROM autonomy_ctx.message m
            WHERE m.conversation_id = c.id AND m.is_user ORDER BY m.position DESC LIMIT 1), 0)
    WHERE id = %(id)s RETURNING count
"""


async def delete(
    connection: psycopg.AsyncConnection[Any],
    scope: str,
    agent: str | None,
    conversation: str | None,
    ids: Sequence[str] | None,
) -> int:
    """Delete messages and raise the generation of every conversation that lost one."""
    meant = await find_conversation_ids(connection, scope, agent, conversation)
    if ids is None:
        cursor = await connection.execute(_DELETE_WHOLLY, {"these": meant})
        [(deleted,)] = await cursor.fetchall()
        await delete_entries(connection, meant)
        return int(deleted)
    return sum([await _delete_from(connection, conversation_id, ids) for conversation_id in meant])


async def _delete_from(
    connection: psycopg.AsyncConnection[Any], conversation_id: int, ids: Sequence[str]
) -> int:
    """Delete some messages, the segments from the first of them on, their facts, and their pins."""
    execute = connection.execute
    cursor = await execute(_DELETE_MESSAGES, (conversation_id, [index_text(one) for one in ids]))
    positions = [position for (position,) in await cursor.fetchall()]
    if not positions:
        return 0
    of_these = (conversation_id, positions)
    await execute(
        "DELETE FROM autonomy_ctx.whole WHERE conversation_id = %s AND position = ANY(%s)", of_these
    )
    await delete_entries(connection, [conversation_id], positions)
    pins = await execute(
        "DELETE FROM autonomy_ctx.pin WHERE conversation_id = %s AND position = ANY(%s)", of_these
    )
    await execute("DELETE FROM autonomy_ctx.record WHERE conversation_id = %s AND derived", of_these[:1])
    segments = await execute(
        "DELETE FROM autonomy_ctx.segment WHERE conversation_id = %s AND last >= %s",
        (conversation_id, min(positions)),
    )
    if segments.rowcount:
        await restore_segments(connection, conversation_id)
    facts = await drop_facts(connection, conversation_id, DROP_LOST)
    cursor = await execute(
        _UPDATE_CONVERSATION,
        {
            "id": conversation_id,
            "deleted": len(positions),
            "derived": int(segments.rowcount + pins.rowcount + facts > 0),
        },
    )
    [(left,)] = await cursor.fetchall()
    if not left:
        await execute("DELETE FROM autonomy_ctx.work WHERE conversation_id = %s", (conversation_id,))
    return len(positions)
