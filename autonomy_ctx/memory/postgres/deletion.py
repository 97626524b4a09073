"""The SQL of deletion: messages are deleted from every conversation that has them, with all derived data.

Every affected conversation is locked first, in the order of ids, so that two deletions cannot deadlock. If a
fork was made meanwhile, it is locked too, and the check is repeated.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from typing import NamedTuple

from autonomy_ctx.memory.postgres.connection import Connection, fetch_all
from autonomy_ctx.memory.postgres.facts import DROP_LOST, DROP_RANGE, drop_facts
from autonomy_ctx.memory.postgres.forks import SELECT_NEWEST_USER
from autonomy_ctx.memory.postgres.log import find_conversation_ids, index_text
from autonomy_ctx.memory.postgres.segments import restore_segments
from autonomy_ctx.memory.store import MAX_POSITION

_OF_THESE = "WHERE conversation_id = ANY(%(these)s)"
# All of some conversations, in one statement however many they are.
_DELETE_WHOLLY = f"""
    WITH messages AS (DELETE FROM autonomy_ctx.message {_OF_THESE} RETURNING conversation_id),
    segments AS (DELETE FROM autonomy_ctx.segment {_OF_THESE} RETURNING conversation_id),
    pins AS (DELETE FROM autonomy_ctx.pin {_OF_THESE} RETURNING conversation_id),
    facts AS (DELETE FROM autonomy_ctx.fact {_OF_THESE} RETURNING conversation_id),
    wholes AS (DELETE FROM autonomy_ctx.whole {_OF_THESE}),
    entries AS (DELETE FROM autonomy_ctx.search_entry {_OF_THESE}),
    vectors AS (DELETE FROM autonomy_ctx.vector {_OF_THESE}),
    records AS (DELETE FROM autonomy_ctx.record {_OF_THESE}),
    owed AS (DELETE FROM autonomy_ctx.work {_OF_THESE}),
    ranges AS (
        DELETE FROM autonomy_ctx.shared_range
        WHERE conversation_id = ANY(%(these)s) OR source_id = ANY(%(these)s)
    ),
    derived AS (SELECT * FROM segments UNION SELECT * FROM pins UNION SELECT * FROM facts),
    lost AS (
        SELECT c.id, count(d.conversation_id) AS derived
        FROM autonomy_ctx.conversation c LEFT JOIN derived d ON d.conversation_id = c.id
        WHERE c.id = ANY(%(these)s) GROUP BY c.id
    ),
    changes AS (
        UPDATE autonomy_ctx.conversation c
        SET count = 0, last_user = 0, has_messages = false, is_fork = false,
            generation = generation + (count > 0 OR derived > 0)::int, revision = revision + derived
        FROM lost WHERE c.id = lost.id AND (count > 0 OR derived > 0 OR is_fork)
    )
    SELECT count(*) FROM messages
"""  # noqa: S608  # our names
_LOCK = "SELECT id FROM autonomy_ctx.conversation WHERE id = ANY(%s) ORDER BY id FOR UPDATE"
# What other conversations have of the rows of some.
_SELECT_RANGE_LOSSES = """
    SELECT r.conversation_id, r.first, r.last, (
        SELECT count(*) FROM autonomy_ctx.message m
        WHERE m.conversation_id = r.source_id AND m.position BETWEEN r.first AND r.last)
    FROM autonomy_ctx.shared_range r
    WHERE r.source_id = ANY(%(these)s) AND r.conversation_id <> ALL(%(these)s)
"""
# Where messages are by their ids, and each conversation that has them.
_SELECT_PLACES = """
    WITH place AS (
        SELECT conversation_id, position FROM autonomy_ctx.message
        WHERE conversation_id = ANY(%(these)s) AND id = ANY(%(ids)s)
        UNION
        SELECT m.conversation_id, m.position FROM autonomy_ctx.shared_range r
        JOIN autonomy_ctx.message m ON m.conversation_id = r.source_id AND m.id = ANY(%(ids)s)
            AND m.position BETWEEN r.first AND r.last
        WHERE r.conversation_id = ANY(%(these)s)
    )
    SELECT conversation_id, position, conversation_id FROM place
    UNION
    SELECT p.conversation_id, p.position, r.conversation_id FROM place p
    JOIN autonomy_ctx.shared_range r
        ON r.source_id = p.conversation_id AND p.position BETWEEN r.first AND r.last
"""
_DELETE_ROWS = """
    DELETE FROM autonomy_ctx.{table} t USING unnest(%s::int8[], %s::int8[]) AS d (conversation_id, position)
    WHERE t.conversation_id = d.conversation_id AND t.position = d.position
"""
_DELETE_PINS = """
    DELETE FROM autonomy_ctx.pin p USING unnest(%s::int8[], %s::int8[]) AS d (first, last)
    WHERE p.conversation_id = %s AND p.position BETWEEN d.first AND d.last
"""
# Position 0 is any of a conversation, and conversation 0 any of the scope.
_DELETE_QUOTING = """
    DELETE FROM autonomy_ctx.record WHERE number IN (
        SELECT f.number FROM unnest(%s::int8[], %s::int8[], %s::int8[]) AS d (conversation_id, first, last)
        JOIN autonomy_ctx.record_ref f ON f.conversation_id = d.conversation_id
            AND (f.position = 0 OR f.position BETWEEN d.first AND d.last))
"""
_DELETE_UNKNOWN = """
    DELETE FROM autonomy_ctx.record r USING autonomy_ctx.record_ref f, autonomy_ctx.conversation c
    WHERE f.conversation_id = 0 AND r.number = f.number AND c.id = r.conversation_id AND c.scope = %s
"""
_UPDATE_CONVERSATION = f"""
    UPDATE autonomy_ctx.conversation c
    SET count = count - %(deleted)s, has_messages = count > %(deleted)s, generation = generation + 1,
        revision = revision + %(derived)s, last_user = {SELECT_NEWEST_USER}
    WHERE id = %(id)s RETURNING count
"""  # noqa: S608  # our names


class RangeLoss(NamedTuple):
    """The number of messages that a conversation has lost between two positions."""

    conversation_id: int
    first: int
    last: int
    messages: int


async def delete(
    connection: Connection, scope: str, agent: str | None, conversation: str | None, ids: Sequence[str] | None
) -> int:
    """Delete messages and raise the generation of every conversation that lost one."""

    async def find() -> list[int]:
        return await find_conversation_ids(connection, scope, agent, conversation, lock=False)

    if ids is None:
        deleted = await _delete_wholly(connection, find)
    else:
        deleted = await _delete_some(connection, await find(), [index_text(one) for one in ids])
    if deleted or ids is None:
        await connection.execute(_DELETE_UNKNOWN, (scope,))
    return deleted


async def _delete_wholly(connection: Connection, find: Callable[[], Awaitable[list[int]]]) -> int:
    """Delete conversations with all derived data; their messages are deleted from their forks too."""
    meant: list[int] = []
    losses: list[RangeLoss] = []

    async def find_losers() -> set[int]:
        nonlocal meant, losses
        meant = await find()
        losses = [
            RangeLoss(*row) for row in await fetch_all(connection, _SELECT_RANGE_LOSSES, {"these": meant})
        ]
        return {*meant, *(loss.conversation_id for loss in losses)}

    await _lock_all(connection, find_losers)
    [(deleted,)] = await fetch_all(connection, _DELETE_WHOLLY, {"these": meant})
    await _delete_quoting(connection, [RangeLoss(one, 0, MAX_POSITION, 0) for one in meant])
    await _note_losses(connection, [loss for loss in losses if loss.messages])
    return int(deleted)


async def _delete_some(connection: Connection, meant: Sequence[int], ids: Sequence[str]) -> int:
    """Delete messages of conversations, from every one that has them."""
    rows: list[tuple[int, int, int]] = []

    async def find_losers() -> set[int]:
        nonlocal rows
        rows = await fetch_all(connection, _SELECT_PLACES, {"these": meant, "ids": ids})
        return {loser for _, _, loser in rows}

    await _lock_all(connection, find_losers)
    places = sorted({(owner, position) for owner, position, _ in rows})
    if not places:
        return 0
    columns = [[*column] for column in zip(*places, strict=True)]
    for table in ("message", "whole", "search_entry", "vector"):
        await connection.execute(_DELETE_ROWS.format(table=table), columns)
    await _note_losses(connection, [RangeLoss(loser, position, position, 1) for _, position, loser in rows])
    return len(places)


async def _lock_all(connection: Connection, find: Callable[[], Awaitable[set[int]]]) -> None:
    """Lock conversations, until all that are found under the locks are locked."""
    locked: set[int] = set()
    while not (found := await find()) <= locked:
        locked |= found
        await connection.execute(_LOCK, (sorted(locked),))


async def _delete_quoting(connection: Connection, ranges: Sequence[RangeLoss]) -> None:
    """Delete the records of any conversation that quote what was lost.

    A statement of its own: one that began before the locks were taken would not see what was put meanwhile.
    """
    columns = [[one[at] for one in ranges] for at in range(3)]
    await connection.execute(_DELETE_QUOTING, columns)


async def _note_losses(connection: Connection, losses: Sequence[RangeLoss]) -> None:
    for conversation_id in sorted({loss.conversation_id for loss in losses}):
        ranges = [loss for loss in losses if loss.conversation_id == conversation_id]
        await _note_loss(connection, conversation_id, ranges)


async def _note_loss(connection: Connection, conversation_id: int, ranges: Sequence[RangeLoss]) -> None:
    """Delete the segments from the first lost message on, their facts, and what else was made from them."""
    execute, meant = connection.execute, (conversation_id,)
    firsts, lasts = [loss.first for loss in ranges], [loss.last for loss in ranges]
    pins = await execute(_DELETE_PINS, (firsts, lasts, conversation_id))
    await execute("DELETE FROM autonomy_ctx.record WHERE conversation_id = %s AND derived", meant)
    await _delete_quoting(connection, ranges)
    segments = await execute(
        "DELETE FROM autonomy_ctx.segment WHERE conversation_id = %s AND last >= %s",
        (conversation_id, min(firsts)),
    )
    if segments.rowcount:
        await restore_segments(connection, conversation_id)
    facts = await drop_facts(connection, conversation_id, DROP_LOST)
    for loss in ranges:
        facts += await drop_facts(connection, conversation_id, DROP_RANGE, loss.first, loss.last)
    values = {
        "id": conversation_id,
        "deleted": sum(loss.messages for loss in ranges),
        "derived": int(segments.rowcount + pins.rowcount + facts > 0),
    }
    [(left,)] = await (await execute(_UPDATE_CONVERSATION, values)).fetchall()
    if not left:
        await execute("DELETE FROM autonomy_ctx.work WHERE conversation_id = %s", meant)
