"""The SQL of records: how rows beside the messages of a conversation are stored, read and dropped."""

from __future__ import annotations

import sqlite3
from collections.abc import Sequence
from contextlib import closing
from typing import Any

from autonomy_ctx.memory.encoding import encode_text
from autonomy_ctx.memory.joint_append import decode_record
from autonomy_ctx.memory.sqlite.forks import has_position
from autonomy_ctx.memory.sqlite.log import Transaction, find_conversation
from autonomy_ctx.memory.store import Key, MessageRef, Record

_INSERT_RECORD = """
    INSERT OR REPLACE INTO record (conversation_id, kind, name, at, derived, size, body)
    VALUES (?, ?, ?, ?, ?, ?, ?)
"""
_INSERT_REF = "INSERT OR IGNORE INTO record_ref (conversation_id, position, number) VALUES (?, ?, ?)"
_DELETE_OLDEST = """
    DELETE FROM record WHERE conversation_id = ?1 AND kind = ?2 AND number <=
        (SELECT number FROM record WHERE conversation_id = ?1 AND kind = ?2
         ORDER BY number DESC LIMIT 1 OFFSET ?3)
"""
_SELECT_RECORDS = """
    SELECT r.number, r.name, r.at, r.size, CASE WHEN r.size <= ? THEN r.body END
    FROM conversation c JOIN record r ON r.conversation_id = c.id
    WHERE c.agent = ? AND c.scope = ? AND c.conversation = ? AND r.kind = ? AND r.number > ?
"""
_SELECT_NEWEST = f"{_SELECT_RECORDS} ORDER BY r.number DESC LIMIT ?"
_SELECT_BY_NAME = f"{_SELECT_RECORDS} AND r.name = ? LIMIT ?"
_SELECT_OLD = """
    SELECT number, name FROM record
    WHERE conversation_id = ?1 AND kind = ?2 AND (?3 IS NULL OR at < ?3) ORDER BY number
"""
_SELECT_OLD_BY_NAME = """
    SELECT number, name FROM record
    WHERE conversation_id = ?1 AND kind = ?2 AND (?3 IS NULL OR at < ?3) AND name = ?4
"""
_NO_LIMIT = 2**62


def put_records(
    transaction: Transaction,
    now: float,
    key: Key,
    kind: str,
    records: Sequence[tuple[str, str]],
    keep: int | None,
    derived: bool,
    generation: int | None,
    refs: Sequence[MessageRef] = (),
) -> list[int]:
    """Store records at the end; none for another generation, or if a quoted message is gone."""
    bodies = [encode_text(body) for _, body in records]
    connection = transaction.flushed_connection()
    found = find_conversation(connection, key)
    if generation not in (None, 0 if found is None else found[1].generation):
        return []
    places = [_find_quoted(connection, ref.key(key), ref.position) for ref in refs]
    if None in places:
        return []
    conversation_id = transaction.conversation_id(key) if found is None else found[0]
    numbers: list[int] = []
    for (name, _), body in zip(records, bodies, strict=True):
        row = (conversation_id, kind, name, now, derived, len(body.encode()), body)
        number = connection.execute(_INSERT_RECORD, row).lastrowid
        assert number is not None
        numbers.append(number)
        connection.executemany(_INSERT_REF, [(*place, number) for place in places if place is not None])
    if keep is not None:
        connection.execute(_DELETE_OLDEST, (conversation_id, kind, keep))
    return numbers


def read_records(
    connection: sqlite3.Connection,
    key: Key,
    kind: str,
    name: str | None,
    after: int,
    limit: int | None,
    max_bytes: int = _NO_LIMIT,
    max_rows: int = _NO_LIMIT,
) -> list[Record] | None:
    """Records, or None when they are more than they may be: then not all were read."""
    parameters: list[Any] = [max_bytes, *key, kind, after, *([] if name is None else [name])]
    parameters.append(-1 if limit is None else limit)
    total = 0
    rows: list[tuple[int, str, float, str]] = []
    # Closed also when an error keeps this frame alive: an open cursor holds on to an old snapshot.
    with closing(
        connection.execute(_SELECT_NEWEST if name is None else _SELECT_BY_NAME, parameters)
    ) as cursor:
        for number, called, at, size, body in cursor:
            total += size
            if total > max_bytes or len(rows) >= max_rows:
                return None
            rows.append((number, called, at, body))
    return [decode_record(*row) for row in reversed(rows)]


def drop_records(
    transaction: Transaction, key: Key, kind: str, names: Sequence[str] | None, before: float | None
) -> list[str]:
    """Remove records; the names of those that were there, oldest first."""
    connection = transaction.flushed_connection()
    found = find_conversation(connection, key)
    if found is None:
        return []
    meant = (found[0], kind, before)
    if names is None:
        rows = connection.execute(_SELECT_OLD, meant).fetchall()
    else:
        rows = sorted(
            row
            for name in set(names)
            for row in connection.execute(_SELECT_OLD_BY_NAME, (*meant, name)).fetchall()
        )
    for number, _ in rows:
        connection.execute("DELETE FROM record WHERE number = ?", (number,))
    return [name for _, name in rows]


def _find_quoted(connection: sqlite3.Connection, key: Key, position: int | None) -> tuple[int, int] | None:
    """A quoted message, or for no position its conversation, as a row of `record_ref`; None if it is gone."""
    found = find_conversation(connection, key)
    if found is None:
        return None
    return (
        (found[0], position or 0)
        if position is None or has_position(connection, found[0], position)
        else None
    )
