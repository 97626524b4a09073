"""The SQL of turns: who holds the turn of a conversation, and who waits for it, by ticket.

Without competition, a turn begins in one statement and ends in one statement. Their conditions are checked on
the newest version of the conversation's row. Everything else is a transaction that has locked this row. A
place is gone when its lease has expired, by the server's clock. An owner names one turn, so that a turn which
asks again after a lost connection gets the same place.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import psycopg

from autonomy_ctx.errors import TurnLost
from autonomy_ctx.memory.encoding import same_content
from autonomy_ctx.memory.joint_append import RecordDraft
from autonomy_ctx.memory.postgres import log
from autonomy_ctx.memory.postgres.connection import Connection, fetch_all, fetch_one
from autonomy_ctx.memory.postgres.notifications import CHANNEL
from autonomy_ctx.memory.postgres.records import insert_records
from autonomy_ctx.memory.store import Draft, Key, TurnStart, TurnToken, is_current_lease

_BEGIN_TURN = """
    WITH head AS (
        INSERT INTO autonomy_ctx.conversation AS c
            (key, agent, scope, conversation, head, count, last_user, has_messages,
             turn_ticket, last_ticket, turn_owner, turn_until)
        VALUES (%s, %s, %s, %s, %s, %s, %s, %s, 1, 1, %s, autonomy_ctx.now_seconds() + %s)
        ON CONFLICT (key) DO UPDATE SET
            head = c.head + excluded.head, count = c.count + excluded.count,
            has_messages = c.has_messages OR excluded.has_messages,
            last_user = CASE WHEN excluded.last_user > 0 THEN c.head + excluded.last_user
                ELSE c.last_user END,
            turn_ticket = c.last_ticket + 1, last_ticket = c.last_ticket + 1,
            turn_owner = excluded.turn_owner, turn_until = autonomy_ctx.now_seconds() + %s
        WHERE c.turn_ticket = 0 AND c.turns_waiting = 0 AND NOT c.is_fork AND ({condition})
        RETURNING c.id, c.head, c.turn_ticket
"""
_BEGIN_LOG = _BEGIN_TURN.format(condition="c.head = 0")
_BEGIN = _BEGIN_TURN.format(condition="true")
_CHANGE = """
    WITH head AS (
        UPDATE autonomy_ctx.conversation c SET
            head = c.head + %s, count = c.count + %s, has_messages = c.has_messages OR %s > 0,
            last_user = CASE WHEN %s > 0 THEN c.head + %s ELSE c.last_user END{changes}
        WHERE c.key = %s AND NOT c.is_fork AND {condition}
        RETURNING c.id, c.head, c.turn_ticket, c.turns_waiting, c.generation
"""
# For a log that was read: a new conversation is never begun by it.
_BEGIN_AFTER = _CHANGE.format(
    changes=""",
            turn_ticket = c.last_ticket + 1, last_ticket = c.last_ticket + 1,
            turn_owner = %s, turn_until = autonomy_ctx.now_seconds() + %s""",
    condition="c.turn_ticket = 0 AND c.turns_waiting = 0 AND c.head = %s",
)
_IS_HELD = "c.turn_ticket = %s AND c.turn_owner = %s"
_APPEND = _CHANGE.format(changes="", condition=_IS_HELD)
_APPEND_AT_END = _CHANGE.format(
    changes=", turn_ticket = 0, turn_owner = '', turn_until = 0", condition=_IS_HELD
)
_NOTIFY_WAITING = "SELECT head, CASE WHEN turns_waiting > 0 THEN pg_notify(%s, %s) END FROM head"
_LOCK_LINE = """
    SELECT id, head, turn_ticket, turn_owner, turn_until, last_ticket FROM autonomy_ctx.conversation
    WHERE key = %s FOR NO KEY UPDATE
"""
# The time with the places: asked for when the row is locked, however long that took.
_SELECT_PLACES = """
    SELECT clock.now, w.ticket, w.owner, w.until
    FROM (SELECT autonomy_ctx.now_seconds() AS now OFFSET 0) clock
    LEFT JOIN autonomy_ctx.turn_wait w ON w.conversation_id = %s
    ORDER BY w.ticket
"""
_TAKE = """
    UPDATE autonomy_ctx.conversation SET
        turn_ticket = %s, turn_owner = %s, turn_until = autonomy_ctx.now_seconds() + %s,
        last_ticket = greatest(last_ticket, %s), turns_waiting = %s
    WHERE id = %s
"""
_GIVE_BACK = """
    UPDATE autonomy_ctx.conversation SET turn_ticket = 0, turn_owner = '', turn_until = 0 WHERE id = %s
"""
_RENEW_HOLDER = """
    UPDATE autonomy_ctx.conversation SET turn_until = autonomy_ctx.now_seconds() + %s
    WHERE key = %s AND turn_ticket = %s AND turn_owner = %s
"""
_RENEW_PLACE = """
    UPDATE autonomy_ctx.turn_wait w SET until = autonomy_ctx.now_seconds() + %s
    FROM autonomy_ctx.conversation c
    WHERE c.key = %s AND w.conversation_id = c.id AND w.ticket = %s AND w.owner = %s
"""
# When those who come before a ticket are gone; nothing when the ticket has no place.
_SELECT_LEASES_BEFORE = """
    SELECT autonomy_ctx.now_seconds(), c.turn_until, b.until
    FROM autonomy_ctx.conversation c
    JOIN autonomy_ctx.turn_wait w ON w.conversation_id = c.id AND w.ticket = %s
    LEFT JOIN autonomy_ctx.turn_wait b ON b.conversation_id = c.id AND b.ticket < w.ticket
    WHERE c.key = %s
"""


class QueueTicket(NamedTuple):
    """A place in the line for a turn."""

    ticket: int
    owner: str
    until: float


class LockedQueue(NamedTuple):
    """The line of one conversation, which is locked."""

    conversation_id: int
    head: int
    holder: int
    owner: str
    until: float
    last_ticket: int
    places: list[QueueTicket]
    now: float

    def find(self, owner: str) -> QueueTicket | None:
        """The place of an owner."""
        return next((place for place in self.places if place.owner == owner), None)

    def may_begin(self, owner: str) -> bool:
        """True when the owner holds the turn, or the turn is free and no other waits before it."""
        if self.holder and self.owner == owner:
            return True
        own = self.find(owner)
        before = [place.until for place in self.places if own is None or place.ticket < own.ticket]
        return not any(is_current_lease(until, self.now) for until in (self.until, *before))


def turn_topic(key: Key) -> str:
    """The notification topic of a conversation's turns."""
    return f"turn {log.key_digest(key).hex()}"


async def begin_free_turn(
    connection: Connection, key: Key, drafts: Sequence[Draft], owner: str, seconds: float, after: int | None
) -> TurnStart | None:
    """Acquire a free turn without waiters and append, in one statement; None if that was not possible."""
    number, last_user, digest = len(drafts), log.last_user_draft(drafts), log.key_digest(key)
    values: tuple[Any, ...]
    if after:
        statement = _BEGIN_AFTER
        values = (number, number, number, last_user, last_user, owner, seconds, digest, after)
    else:
        statement = _BEGIN if after is None else _BEGIN_LOG
        values = (digest, *key, number, number, last_user, number > 0, owner, seconds, seconds)
    found = await _insert(connection, statement, values, drafts, "SELECT head, turn_ticket FROM head", ())
    if found is None:
        return None
    head, ticket = found
    return TurnStart(ticket, list(range(head - number + 1, head + 1)))


async def begin_turn(
    connection: Connection, key: Key, drafts: Sequence[Draft], owner: str, seconds: float, after: int | None
) -> TurnStart:
    """Take the turn and append, or keep a place in the line; in a transaction."""
    line = await _lock_line(connection, key)
    while line is None:
        await log.ensure_conversation(connection, key)
        line = await _lock_line(connection, key)
    place = line.find(owner)
    if not line.may_begin(owner):
        return TurnStart(await _wait(connection, line, place, owner, seconds), None)
    again = line.holder != 0 and line.owner == owner
    positions: list[int] = []
    if drafts and (
        after in (None, line.head) or (again and await _is_stored(connection, line.conversation_id, drafts))
    ):
        positions = await log.append_known(connection, key, drafts)
    ticket = line.holder if again else line.last_ticket + 1 if place is None else place.ticket
    waiting = [one for one in line.places if one.ticket > ticket]
    if len(waiting) < len(line.places):
        # Deletes its own place and the expired places before it.
        await connection.execute(
            "DELETE FROM autonomy_ctx.turn_wait WHERE conversation_id = %s AND ticket <= %s",
            (line.conversation_id, ticket),
        )
    await connection.execute(_TAKE, (ticket, owner, seconds, ticket, len(waiting), line.conversation_id))
    return TurnStart(ticket, positions, line.holder != 0 and not again)


async def append_held(
    connection: Connection,
    key: Key,
    drafts: Sequence[Draft],
    turn: TurnToken,
    ends: bool,
    records: Sequence[RecordDraft] = (),
) -> list[int] | None:
    """Append while the turn is held, with records, in one statement; None if it did not.

    At its end, the turn is given back.
    """
    number, last_user = len(drafts), log.last_user_draft(drafts)
    counts = (number, number, number, last_user, last_user)
    values = (*counts, log.key_digest(key), turn.ticket, turn.owner)
    if ends:
        notification = (CHANNEL, turn_topic(key))
        head = await _insert(
            connection, _APPEND_AT_END, values, drafts, _NOTIFY_WAITING, notification, records
        )
    else:
        head = await _insert(connection, _APPEND, values, drafts, "SELECT head FROM head", (), records)
    return None if head is None else list(range(head[0] - number + 1, head[0] + 1))


async def append_in_turn(
    connection: Connection, key: Key, drafts: Sequence[Draft], turn: TurnToken, ends: bool
) -> list[int]:
    """Append while the turn is held; what is stored already also later. In a transaction."""
    line = await _lock_line(connection, key)
    is_held = line is not None and (line.holder, line.owner) == (turn.ticket, turn.owner)
    if drafts and not is_held:
        is_stored = line is not None and await _is_stored(connection, line.conversation_id, drafts)
        if not is_stored:
            raise TurnLost
    positions = await log.append_known(connection, key, drafts) if drafts else []
    if ends and is_held and line is not None:
        await connection.execute(_GIVE_BACK, (line.conversation_id,))
        await _notify(connection, key, line)
    return positions


async def renew_turn(connection: Connection, key: Key, ticket: int, owner: str, seconds: float) -> bool:
    """Move the end of a lease; false when the place is gone."""
    values = (seconds, log.key_digest(key), ticket, owner)
    # A waiting turn may become the holder in between, but never the reverse.
    for statement in (_RENEW_HOLDER, _RENEW_PLACE, _RENEW_HOLDER):
        if (await connection.execute(statement, values)).rowcount:
            return True
    return False


async def leave_turn(connection: Connection, key: Key, ticket: int | None, owner: str) -> None:
    """Give back what an owner has. In a transaction."""
    line = await _lock_line(connection, key)
    if line is None:
        return
    place = line.find(owner)
    if line.holder and line.owner == owner and ticket in (None, line.holder):
        await connection.execute(_GIVE_BACK, (line.conversation_id,))
    elif place is not None and ticket in (None, place.ticket):
        await connection.execute(
            "DELETE FROM autonomy_ctx.turn_wait WHERE conversation_id = %s AND ticket = %s",
            (line.conversation_id, place.ticket),
        )
        await connection.execute(
            "UPDATE autonomy_ctx.conversation SET turns_waiting = %s WHERE id = %s",
            (len(line.places) - 1, line.conversation_id),
        )
    else:
        return
    await _notify(connection, key, line)


async def seconds_until_turn(connection: Connection, key: Key, ticket: int) -> float:
    """The seconds until all before a ticket are gone, unless they renew.

    0 when its turn may have come, or its place is gone.
    """
    rows = await fetch_all(connection, _SELECT_LEASES_BEFORE, (ticket, log.key_digest(key)))
    if not rows:
        return 0.0
    now: float = rows[0][0]
    ends = (rows[0][1], *(until for _, _, until in rows if until is not None))
    return max((until - now for until in ends if is_current_lease(until, now)), default=0.0)


async def _insert(
    connection: Connection,
    head: str,
    head_values: Sequence[Any],
    drafts: Sequence[Draft],
    select: str,
    select_values: Sequence[Any],
    records: Sequence[RecordDraft] = (),
) -> tuple[Any, ...] | None:
    """Move the head and store drafts and records in one statement; None when nothing was done.

    That is so when its condition does not hold, or an id is there already.
    """
    rows, values = log.insert_rows(drafts) if drafts else ("", ())
    beside, record_values = insert_records(records)
    statement = f"{head}{rows}{beside}) {select}"
    try:
        return await fetch_one(connection, statement, (*head_values, *values, *record_values, *select_values))
    except psycopg.errors.UniqueViolation:
        return None


async def _lock_line(connection: Connection, key: Key) -> LockedQueue | None:
    found = await fetch_one(connection, _LOCK_LINE, (log.key_digest(key),))
    if found is None:
        return None
    conversation_id, head, holder, owner, until, last_ticket = found
    rows = await fetch_all(connection, _SELECT_PLACES, (conversation_id,))
    places = [QueueTicket(*place) for _, *place in rows if place[0] is not None]
    return LockedQueue(conversation_id, head, holder, owner, until, last_ticket, places, rows[0][0])


async def _wait(
    connection: Connection, line: LockedQueue, place: QueueTicket | None, owner: str, seconds: float
) -> int:
    """Keep a place in the line, or take one at its end; its ticket."""
    if place is not None:
        await connection.execute(
            "UPDATE autonomy_ctx.turn_wait SET until = autonomy_ctx.now_seconds() + %s "
            "WHERE conversation_id = %s AND ticket = %s",
            (seconds, line.conversation_id, place.ticket),
        )
        return place.ticket
    ticket = line.last_ticket + 1
    await connection.execute(
        "INSERT INTO autonomy_ctx.turn_wait VALUES (%s, %s, %s, autonomy_ctx.now_seconds() + %s)",
        (line.conversation_id, ticket, owner, seconds),
    )
    await connection.execute(
        "UPDATE autonomy_ctx.conversation SET last_ticket = %s, turns_waiting = %s WHERE id = %s",
        (ticket, len(line.places) + 1, line.conversation_id),
    )
    return ticket


async def _notify(connection: Connection, key: Key, line: LockedQueue) -> None:
    if line.places:
        await connection.execute("SELECT pg_notify(%s, %s)", (CHANNEL, turn_topic(key)))


async def _is_stored(connection: Connection, conversation_id: int, drafts: Sequence[Draft]) -> bool:
    """True when all drafts are in the log already."""
    known = await log.find_messages(connection, conversation_id, [draft.message.id for draft in drafts])
    return all(
        draft.message.id in known and same_content(known[draft.message.id][1], draft.whole or draft.body)
        for draft in drafts
    )
