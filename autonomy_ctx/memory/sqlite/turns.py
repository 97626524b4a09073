"""The SQL of turns: who holds the turn of a conversation, and who waits for it, by ticket.

A place is gone when its lease has expired, or at once when its process on this machine has ended.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Sequence
from typing import NamedTuple

from autonomy_ctx.errors import TurnLost
from autonomy_ctx.memory.encoding import same_content
from autonomy_ctx.memory.processes import has_ended
from autonomy_ctx.memory.sqlite.log import Transaction, find_stored
from autonomy_ctx.memory.store import Draft, Key, TurnStart, TurnToken, is_current_lease

_SELECT_LINE = """
    SELECT id, head, turn_ticket, turn_owner, turn_until, last_ticket, turns_waiting FROM conversation
    WHERE agent = ? AND scope = ? AND conversation = ?
"""
_SELECT_BEFORE = """
    SELECT owner, until FROM turn_wait WHERE conversation_id = ? AND ticket < ? ORDER BY ticket
"""
_SELECT_HELD_CONVERSATION = """
    SELECT id FROM conversation
    WHERE agent = ? AND scope = ? AND conversation = ? AND turn_ticket = ? AND turn_owner = ?
"""
_TAKE = (
    "UPDATE conversation SET turn_ticket = ?, turn_owner = ?, turn_until = ?, last_ticket = ? WHERE id = ?"
)
_GIVE_BACK = "UPDATE conversation SET turn_ticket = 0, turn_owner = '', turn_until = 0 WHERE id = ?"


class QueueRow(NamedTuple):
    """The line of one conversation, as its row has it."""

    conversation_id: int
    head: int
    holder: int
    owner: str
    until: float
    last_ticket: int
    waiting: int


def begin_turn(
    transaction: Transaction,
    now: float,
    key: Key,
    drafts: Sequence[Draft],
    owner: str,
    seconds: float,
    ticket: int | None,
    after: int | None,
) -> TurnStart:
    """Take the turn and append, or keep a place in the line."""
    connection, line = transaction.flushed_connection(), None
    while line is None:
        line = _read_line(connection, key)
        if line is None:
            transaction.conversation_id(key)
    if not _may_begin(connection, line, ticket, now):
        return TurnStart(_wait(connection, line, ticket, owner, now + seconds), None)
    # First: what it refuses, such as other content under a known id, must not take the turn.
    positions = transaction.append(key, drafts) if drafts and after in (None, line.head) else []
    again = line.holder == ticket
    if not again and (ticket is None or not _has_place(connection, line, ticket)):
        ticket = line.last_ticket + 1
    if line.waiting:
        # Deletes its own place and the expired places before it.
        connection.execute(
            "DELETE FROM turn_wait WHERE conversation_id = ? AND ticket <= ?", (line.conversation_id, ticket)
        )
        _count_waiting(connection, line.conversation_id)
    assert ticket is not None
    last_ticket = max(ticket, line.last_ticket)
    connection.execute(_TAKE, (ticket, owner, now + seconds, last_ticket, line.conversation_id))
    return TurnStart(ticket, positions, line.holder != 0 and not again)


def append_in_turn(
    transaction: Transaction, key: Key, drafts: Sequence[Draft], turn: TurnToken, ends: bool
) -> list[int]:
    """Append while the turn is held; what is stored already also later."""
    connection = transaction.flushed_connection()
    held = connection.execute(_SELECT_HELD_CONVERSATION, (*key, turn.ticket, turn.owner)).fetchone()
    if held is None and not _is_stored(connection, key, drafts):
        raise TurnLost
    positions = transaction.append(key, drafts)
    if ends and held is not None:
        connection.execute(_GIVE_BACK, held)
    return positions


def renew_turn(
    transaction: Transaction, now: float, key: Key, ticket: int, owner: str, seconds: float
) -> bool:
    """Move the end of a lease; false when the place is gone."""
    connection = transaction.flushed_connection()
    line = _read_line(connection, key)
    if line is None:
        return False
    until = now + seconds
    if (line.holder, line.owner) == (ticket, owner):
        connection.execute(
            "UPDATE conversation SET turn_until = ? WHERE id = ?", (until, line.conversation_id)
        )
        return True
    changed = connection.execute(
        "UPDATE turn_wait SET until = ? WHERE conversation_id = ? AND ticket = ? AND owner = ?",
        (until, line.conversation_id, ticket, owner),
    )
    return changed.rowcount > 0


def leave_turn(transaction: Transaction, key: Key, ticket: int | None, owner: str) -> None:
    """Give back what an owner has."""
    connection = transaction.flushed_connection()
    line = _read_line(connection, key)
    if line is None:
        return
    if line.owner == owner and ticket in (None, line.holder):
        connection.execute(_GIVE_BACK, (line.conversation_id,))
    elif line.waiting:
        gone = connection.execute(
            "DELETE FROM turn_wait WHERE conversation_id = ? AND owner = ? AND ticket = coalesce(?, ticket)",
            (line.conversation_id, owner, ticket),
        )
        if gone.rowcount:
            _count_waiting(connection, line.conversation_id)


def may_begin(connection: sqlite3.Connection, key: Key, ticket: int, now: float) -> bool:
    """True when the turn of a ticket may have come, or its place is gone."""
    line = _read_line(connection, key)
    if line is None or not _has_place(connection, line, ticket):
        return True
    return _may_begin(connection, line, ticket, now)


def _may_begin(connection: sqlite3.Connection, line: QueueRow, ticket: int | None, now: float) -> bool:
    """True when the turn is free and no other waits before a ticket, or before the end of the queue."""
    if line.holder and line.holder == ticket:
        return True
    if line.holder and _is_live(line.owner, line.until, now):
        return False
    if not line.waiting:
        return True
    end = ticket if ticket is not None and _has_place(connection, line, ticket) else line.last_ticket + 1
    before = connection.execute(_SELECT_BEFORE, (line.conversation_id, end)).fetchall()
    return not any(_is_live(owner, until, now) for owner, until in before)


def _wait(
    connection: sqlite3.Connection, line: QueueRow, ticket: int | None, owner: str, until: float
) -> int:
    kept = connection.execute(
        "UPDATE turn_wait SET until = ? WHERE conversation_id = ? AND ticket = ? AND owner = ?",
        (until, line.conversation_id, ticket, owner),
    )
    if kept.rowcount and ticket is not None:
        return ticket
    new = line.last_ticket + 1
    connection.execute("INSERT INTO turn_wait VALUES (?, ?, ?, ?)", (line.conversation_id, new, owner, until))
    connection.execute(
        "UPDATE conversation SET last_ticket = ?, turns_waiting = turns_waiting + 1 WHERE id = ?",
        (new, line.conversation_id),
    )
    return new


def _read_line(connection: sqlite3.Connection, key: Key) -> QueueRow | None:
    found = connection.execute(_SELECT_LINE, key).fetchone()
    return None if found is None else QueueRow(*found)


def _has_place(connection: sqlite3.Connection, line: QueueRow, ticket: int) -> bool:
    found = connection.execute(
        "SELECT 1 FROM turn_wait WHERE conversation_id = ? AND ticket = ?", (line.conversation_id, ticket)
    )
    return found.fetchone() is not None


def _count_waiting(connection: sqlite3.Connection, conversation_id: int) -> None:
    connection.execute(
        """
        UPDATE conversation SET turns_waiting =
            (SELECT count(*) FROM turn_wait WHERE conversation_id = ?1) WHERE id = ?1
        """,
        (conversation_id,),
    )


def _is_live(owner: str, until: float, now: float) -> bool:
    return is_current_lease(until, now) and not has_ended(owner)


def _is_stored(connection: sqlite3.Connection, key: Key, drafts: Sequence[Draft]) -> bool:
    """True when all drafts are in the log already."""
    for draft in drafts:
        found = find_stored(connection, key, draft.message.id)
        if found is None or not same_content(found, draft.whole or draft.body):
            return False
    return True
