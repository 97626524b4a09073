"""The SQL of copying: conversations row by row, out of a file and into one."""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Sequence

from autonomy_ctx.memory.encoding import encode_text
from autonomy_ctx.memory.sqlite.connection import snapshot
from autonomy_ctx.memory.sqlite.facts import insert_ended_fact, read_fact_rows
from autonomy_ctx.memory.sqlite.log import Transaction, find_conversation
from autonomy_ctx.memory.sqlite.segments import insert_segment, read_all_segments
from autonomy_ctx.memory.store import Head, Key, PinRow
from autonomy_ctx.memory.transfer import (
    ConversationCopy,
    MessageRow,
    RangeCopy,
    RecordCopy,
    SegmentCopy,
    renumber,
)

_SELECT_KEYS = """
    SELECT id, agent, scope, conversation FROM conversation
    WHERE id > ?1 AND (?2 IS NULL OR scope = ?2) ORDER BY id LIMIT ?3
"""
_SELECT_MESSAGES = """
    SELECT m.position, m.id, m.created, m.is_user, m.tokens, m.counter, m.size, m.body, w.body FROM message m
    LEFT JOIN whole w ON w.conversation_id = m.conversation_id AND w.position = m.position
    WHERE m.conversation_id = ? AND m.position > ? AND m.position <= ? ORDER BY m.position LIMIT ?
"""
_INSERT_MESSAGE = """
    INSERT INTO message (conversation_id, position, id, created, is_user, tokens, counter, size, body)
    VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?)
"""
_SELECT_RANGES = """
    SELECT s.agent, s.scope, s.conversation, r.first, r.last FROM shared_range r
    JOIN conversation s ON s.id = r.source_id WHERE r.conversation_id = ? ORDER BY r.first
"""
_SELECT_RECORDS = """
    SELECT kind, name, at, derived, body, EXISTS (SELECT 1 FROM record_ref f WHERE f.number = r.number)
    FROM record r WHERE conversation_id = ? ORDER BY r.number
"""
_INSERT_RECORD = """
    INSERT INTO record (conversation_id, kind, name, at, derived, size, body) VALUES (?, ?, ?, ?, ?, ?, ?)
"""
# Positions that it had before its messages were deleted are used again: what was read of it is void, and
# the search index begins anew there.
_MOVE_HEAD = """
    UPDATE conversation SET head = max(head, ?2), count = count + ?3, last_user = max(last_user, ?4),
        generation = max(generation, ?5) + (head >= ?6), indexed = min(indexed, ?6 - 1), has_messages = 1
    WHERE id = ?1
"""
_UPDATE_CONVERSATION = """
    UPDATE conversation SET head = ?2, count = ?3, generation = max(generation, ?4), last_user = ?5,
        revision = max(revision + 1, ?6), last_fact = ?7, is_fork = ?8, has_messages = ?3 > 0
    WHERE id = ?1
"""


def count_conversations(connection: sqlite3.Connection, scope: str | None) -> int:
    """Count the conversations, also those without messages."""
    [(number,)] = connection.execute(
        "SELECT count(*) FROM conversation WHERE ?1 IS NULL OR scope = ?1", (scope,)
    )
    return int(number)


def export_keys(
    connection: sqlite3.Connection, scope: str | None, after: int, limit: int
) -> list[tuple[int, Key]]:
    """The next conversations after a number, in the order they were made."""
    found = connection.execute(_SELECT_KEYS, (after, scope, limit)).fetchall()
    return [(number, Key(*names)) for number, *names in found]


def last_own_position(connection: sqlite3.Connection, key: Key) -> int:
    """The position of the newest message of a conversation's own; 0 when it has none."""
    found = find_conversation(connection, key)
    if found is None:
        return 0
    [(position,)] = connection.execute(
        "SELECT max(position) FROM message WHERE conversation_id = ?", found[:1]
    ).fetchall()
    return position or 0


def export_messages(
    connection: sqlite3.Connection, key: Key, after: int, last: int, limit: int
) -> list[MessageRow]:
    """The next messages of a conversation's own."""
    found = find_conversation(connection, key)
    if found is None:
        return []
    rows = connection.execute(_SELECT_MESSAGES, (found[0], after, last, limit)).fetchall()
    return [MessageRow(*row)._replace(is_user=bool(row[3])) for row in rows]


def export_conversation(connection: sqlite3.Connection, key: Key) -> ConversationCopy:
    """All of a conversation but its messages, in one snapshot."""
    with snapshot(connection):
        found = find_conversation(connection, key)
        if found is None:
            return ConversationCopy(Head())
        conversation_id, head = found
        meant = (conversation_id,)
        [(last_fact,)] = connection.execute(
            "SELECT last_fact FROM conversation WHERE id = ?", meant
        ).fetchall()
        pins = connection.execute(
            "SELECT position, pinned_at, source FROM pin WHERE conversation_id = ? ORDER BY position", meant
        )
        return ConversationCopy(
            head,
            last_fact,
            tuple(
                RangeCopy(Key(*names), first, last)
                for *names, first, last in connection.execute(_SELECT_RANGES, meant).fetchall()
            ),
            tuple(SegmentCopy(*row) for row in read_all_segments(connection, conversation_id)),
            tuple(read_fact_rows(connection, conversation_id)),
            tuple(PinRow(*row) for row in pins.fetchall()),
            tuple(
                RecordCopy(kind, name, at, bool(derived), json.loads(body), bool(quotes))
                for kind, name, at, derived, body, quotes in connection.execute(
                    _SELECT_RECORDS, meant
                ).fetchall()
            ),
        )


def import_messages(transaction: Transaction, key: Key, rows: Sequence[MessageRow], generation: int) -> None:
    """Store messages at their positions; the head follows them."""
    conversation_id = transaction.conversation_id(key)
    connection = transaction.flushed_connection()
    for row in rows:
        connection.execute(_INSERT_MESSAGE, (conversation_id, *row[:-1]))
        if row.whole is not None:
            connection.execute(
                "INSERT INTO whole VALUES (?, ?, ?)", (conversation_id, row.position, row.whole)
            )
    users = [row.position for row in rows if row.is_user]
    first, last = rows[0].position, rows[-1].position
    values = (conversation_id, last, len(rows), max(users, default=0), generation, first)
    connection.execute(_MOVE_HEAD, values)
    transaction.note_appended(len(rows))


def import_conversation(transaction: Transaction, key: Key, copy: ConversationCopy) -> None:
    """Replace all data of a conversation except its messages."""
    conversation_id = transaction.conversation_id(key)
    connection = transaction.flushed_connection()
    for table in ("segment", "fact", "pin", "record", "shared_range"):
        connection.execute(f"DELETE FROM {table} WHERE conversation_id = ?", (conversation_id,))  # noqa: S608  # our names
    for source, first, last in copy.ranges:
        connection.execute(
            "INSERT INTO shared_range (conversation_id, source_id, first, last) VALUES (?, ?, ?, ?)",
            (conversation_id, transaction.conversation_id(source), first, last),
        )
    numbers = {
        one.segment.number: insert_segment(connection, conversation_id, one.segment, None)
        for one in copy.segments
    }
    for one in copy.segments:
        connection.execute(
            "UPDATE segment SET replaced_by = ?, rest_of = ? WHERE number = ?",
            (renumber(one.replaced_by, numbers), renumber(one.rest_of, numbers), numbers[one.segment.number]),
        )
    for fact in copy.facts:
        row = fact.row._replace(segment=numbers.get(fact.row.segment, fact.row.segment and -1))
        insert_ended_fact(connection, conversation_id, fact._replace(row=row))
    connection.executemany(
        "INSERT INTO pin (conversation_id, position, pinned_at, source) VALUES (?, ?, ?, ?)",
        [(conversation_id, *pin) for pin in copy.pins],
    )
    for kind, name, at, derived, body, quotes in copy.records:
        encoded = encode_text(body)
        row_values = (conversation_id, kind, name, at, derived, len(encoded.encode()), encoded)
        number = connection.execute(_INSERT_RECORD, row_values).lastrowid
        if quotes:
            connection.execute("INSERT INTO record_ref VALUES (0, 0, ?)", (number,))
    head = copy.head
    connection.execute(
        _UPDATE_CONVERSATION,
        (
            conversation_id,
            head.position,
            head.count,
            head.generation,
            head.last_user,
            head.revision,
            copy.last_fact,
            bool(copy.ranges),
        ),
    )
    transaction.has_deleted = True
