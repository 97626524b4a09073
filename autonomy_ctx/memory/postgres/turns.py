"""The SQL of turns: who holds the turn of a conversation, and who waits for it, by ticket.

All of it happens under the lock of the conversation's row. A place counts as gone when its lease has ended by
the server's clock, or at once when its process has ended on this machine.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import psycopg

from autonomy_ctx.errors import TurnLost
from autonomy_ctx.memory.encoding import same_content
from autonomy_ctx.memory.postgres.log import append_known, ensure_conversation, find_messages, key_digest
from autonomy_ctx.memory.processes import has_ended
from autonomy_ctx.memory.store import Draft, Key, TurnHold, TurnStart, is_current_lease

_SELECT_LINE = """
    SELECT id, head, turn_ticket, turn_owner, turn_until, last_ticket, turns_waiting,
           autonomy_ctx.now_seconds()
    FROM autonomy_ctx.conversation WHERE key = %s
"""
_SELECT_BEFORE = """
    SELECT owner, until FROM autonomy_ctx.turn_wait
    WHERE conversation_id = %s AND ticket < %s ORDER BY ticket
"""
_TAKE = """
    UPDATE autonomy_ctx.conversation
    SET turn_ticket = %s, turn_owner = %s, turn_until = %s, last_ticket = %s WHERE id = %s
"""
_GIVE_BACK = """
    UPDATE autonomy_ctx.conversation SET turn_ticket = 0, turn_owner = '', turn_until = 0 WHERE id = %s
"""
_RENEW_PLACE = """
    UPDATE autonomy_ctx.turn_wait SET until = %s
    WHERE conversation_id = %s AND ticket = %s::int8 AND owner = %s
"""


class _Line(NamedTuple):
    """The line of one conversation, as its row has it, and the time when it was read."""

    conversation_id: int
    head: int
    holder: int
    owner: str
    until: float
    last_ticket: int
    waiting: int
    now: float


async def begin_turn(
    connection: psycopg.AsyncConnection[Any],
    key: Key,
    drafts: Sequence[Draft],
    owner: str,
    seconds: float,
    ticket: int | None,
    after: int | None,
) -> TurnStart:
    """Take the turn and append, or keep a place in the line."""
    await ensure_conversation(connection, key)
    line = await _read_line(connection, key)
    assert line is not None
    if not await _may_begin(connection, line, ticket):
        return TurnStart(await _wait(connection, line, ticket, owner, seconds), None)
    # First: what it refuses, such as other content under a known id, must not take the turn.
    may_append = drafts and after in (None, line.head)
    positions = await append_known(connection, key, drafts) if may_append else []
    again = line.holder == ticket
    if not again and (ticket is None or not await _has_place(connection, line, ticket)):
        ticket = line.last_ticket + 1
    if line.waiting:
        # With its own place also those before it, which are gone.
        await connection.execute(
            "DELETE FROM autonomy_ctx.turn_wait WHERE conversation_id = %s AND ticket <= %s",
            (line.conversation_id, ticket),
        )
        await _count_waiting(connection, line.conversation_id)
    assert ticket is not None
    last_ticket = max(ticket, line.last_ticket)
    await connection.execute(_TAKE, (ticket, owner, line.now + seconds, last_ticket, line.conversation_id))
    return TurnStart(ticket, positions, line.holder != 0 and not again)


async def append_in_turn(
    connection: psycopg.AsyncConnection[Any], key: Key, drafts: Sequence[Draft], turn: TurnHold, ends: bool
) -> list[int]:
    """Append while the turn is held; what is stored already also later."""
    line = await _read_line(connection, key, lock=True)
    is_held = line is not None and (line.holder, line.owner) == (turn.ticket, turn.owner)
    if not is_held and not (line is not None and await _is_stored(connection, line.conversation_id, drafts)):
        raise TurnLost
    positions = await append_known(connection, key, drafts)
    if ends and is_held and line is not None:
        await connection.execute(_GIVE_BACK, (line.conversation_id,))
    return positions


async def renew_turn(
    connection: psycopg.AsyncConnection[Any], key: Key, ticket: int, owner: str, seconds: float
) -> bool:
    """Move the end of a lease; false when the place is gone."""
    line = await _read_line(connection, key, lock=True)
    if line is None:
        return False
    until = line.now + seconds
    if (line.holder, line.owner) == (ticket, owner):
        await connection.execute(
            "UPDATE autonomy_ctx.conversation SET turn_until = %s WHERE id = %s",
            (until, line.conversation_id),
        )
        return True
    changed = await connection.execute(_RENEW_PLACE, (until, line.conversation_id, ticket, owner))
    return changed.rowcount > 0


async def leave_turn(
    connection: psycopg.AsyncConnection[Any], key: Key, ticket: int | None, owner: str
) -> None:
    """Give back what an owner has."""
    line = await _read_line(connection, key, lock=True)
    if line is None:
        return
    if line.owner == owner and ticket in (None, line.holder):
        await connection.execute(_GIVE_BACK, (line.conversation_id,))
    elif line.waiting:
        gone = await connection.execute(
            "DELETE FROM autonomy_ctx.turn_wait "
            "WHERE conversation_id = %s AND owner = %s AND ticket = coalesce(%s::int8, ticket)",
            (line.conversation_id, owner, ticket),
        )
        if gone.rowcount:
            await _count_waiting(connection, line.conversation_id)


async def may_begin(connection: psycopg.AsyncConnection[Any], key: Key, ticket: int) -> bool:
    """Whether the turn of a ticket may have come, or its place is gone."""
    line = await _read_line(connection, key)
    if line is None or not await _has_place(connection, line, ticket):
        return True
    return await _may_begin(connection, line, ticket)


async def _may_begin(connection: psycopg.AsyncConnection[Any], line: _Line, ticket: int | None) -> bool:
    """Whether nobody holds the turn and nobody waits before a ticket, or before the end of the line."""
    if line.holder and line.holder == ticket:
        return True
    if line.holder and _is_live(line.owner, line.until, line.now):
        return False
    if not line.waiting:
        return True
    has_place = ticket is not None and await _has_place(connection, line, ticket)
    end = ticket if has_place else line.last_ticket + 1
    before = await (await connection.execute(_SELECT_BEFORE, (line.conversation_id, end))).fetchall()
    return not any(_is_live(owner, until, line.now) for owner, until in before)


async def _wait(
    connection: psycopg.AsyncConnection[Any], line: _Line, ticket: int | None, owner: str, seconds: float
) -> int:
    until = line.now + seconds
    renewed = await connection.execute(_RENEW_PLACE, (until, line.conversation_id, ticket, owner))
    if renewed.rowcount and ticket is not None:
        return ticket
    new = line.last_ticket + 1
    await connection.execute(
        "INSERT INTO autonomy_ctx.turn_wait (conversation_id, ticket, owner, until) VALUES (%s, %s, %s, %s)",
        (line.conversation_id, new, owner, until),
    )
    await connection.execute(
        "UPDATE autonomy_ctx.conversation SET last_ticket = %s, turns_waiting = turns_waiting + 1 "
        "WHERE id = %s",
        (new, line.conversation_id),
    )
    return new


async def _read_line(
    connection: psycopg.AsyncConnection[Any], key: Key, *, lock: bool = False
) -> _Line | None:
    statement = _SELECT_LINE + (" FOR UPDATE" if lock else "")
    found = await (await connection.execute(statement, (key_digest(key),))).fetchone()
    return None if found is None else _Line(*found)


async def _has_place(connection: psycopg.AsyncConnection[Any], line: _Line, ticket: int) -> bool:
    cursor = await connection.execute(
        "SELECT 1 FROM autonomy_ctx.turn_wait WHERE conversation_id = %s AND ticket = %s",
        (line.conversation_id, ticket),
    )
    return await cursor.fetchone() is not None


async def _count_waiting(connection: psycopg.AsyncConnection[Any], conversation_id: int) -> None:
    await connection.execute(
        """
        UPDATE autonomy_ctx.conversation c SET turns_waiting =
            (SELECT count(*) FROM autonomy_ctx.turn_wait w WHERE w.conversation_id = c.id) WHERE id = %s
        """,
        (conversation_id,),
    )


def _is_live(owner: str, until: float, now: float) -> bool:
    return is_current_lease(until, now) and not has_ended(owner)


async def _is_stored(
    connection: psycopg.AsyncConnection[Any], conversation_id: int, drafts: Sequence[Draft]
) -> bool:
    """Whether all of it is in the log already."""
    stored = await find_messages(connection, conversation_id, [draft.message.id for draft in drafts])
    return all(
        draft.message.id in stored and same_content(stored[draft.message.id][1], draft.whole or draft.body)
        for draft in drafts
    )
