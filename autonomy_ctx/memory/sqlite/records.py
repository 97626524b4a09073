"""The SQL of records: how rows beside the messages of a conversation are stored, read and dropped."""

from __future__ import annotations

import sqlite3
from collections.abc import Sequence
from contextlib import closing
from typing import Any

from autonomy_ctx.memory.encoding import encode_text
from autonomy_ctx.memory.joint_append import RecordDraft, decode_record
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
_SELECT_EXPECTED = """
    SELECT number, body, number = (SELECT max(number) FROM record WHERE conversation_id = ?1 AND kind = ?2)
    FROM record WHERE conversation_id = ?1 AND kind = ?2 AND name = ?3
"""
_UPDATE_NEWEST = "UPDATE record SET at = ?, size = ?, body = ? WHERE number = ?"
_RAISE_GENERATION = "UPDATE conversation SET generation = generation + 1 WHERE id = ?"
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
    found = _find_place(transaction, key, generation, refs)
    if found is None:
        return []
    conversation_id, places = found
    connection = transaction.flushed_connection()
    return _insert_records(connection, conversation_id, now, kind, records, keep, derived, places)


def put_draft(transaction: Transaction, now: float, key: Key, draft: RecordDraft) -> None:
    """Store a record and its parts, if what it expects is there."""
    found = _find_place(transaction, key, draft.generation, draft.refs)
    if found is None:
        return
    conversation_id, places = found
    connection = transaction.flushed_connection()
    records: Sequence[tuple[str, str]] = [(draft.name, draft.body)]
    keep = draft.keep
    if draft.expected is not None:
        values = (conversation_id, draft.kind, draft.name)
        row = connection.execute(_SELECT_EXPECTED, values).fetchone()
        if (row[1] if row else encode_text("")) != encode_text(draft.expected):
            return
        if row:
            # One that is replaced is not one more; the newest stays where it is.
            keep = None
            if row[2] and not places:
                body = encode_text(draft.body)
                connection.execute(_UPDATE_NEWEST, (now, len(body.encode()), body, row[0]))
                records = ()
    _insert_records(connection, conversation_id, now, draft.kind, records, keep, draft.derived, places)
    if draft.parts:
        kind = draft.parts_kind
        _insert_records(connection, conversation_id, now, kind, draft.parts, None, draft.derived, places)
    if draft.ends_quotes:
        transaction.end_quotes(conversation_id)
        connection.execute(_RAISE_GENERATION, (conversation_id,))


def _find_place(
    transaction: Transaction, key: Key, generation: int | None, refs: Sequence[MessageRef]
) -> tuple[int, list[tuple[int, int]]] | None:
    """The conversation for records, and the messages that they quote; None if they must not be stored."""
    connection = transaction.flushed_connection()
    found = find_conversation(connection, key)
    if generation not in (None, 0 if found is None else found[1].generation):
        return None
    for ref in refs:
        if ref.generation == 0:
            # Nothing is in it yet; it must be there to be quoted.
            transaction.conversation_id(ref.key(key))
            transaction.flush()
    places = [_find_quoted(connection, ref.key(key), ref) for ref in refs]
    known = [place for place in places if place is not None]
    if len(known) < len(places):
        return None
    return (transaction.conversation_id(key) if found is None else found[0]), known


def _insert_records(
    connection: sqlite3.Connection,
    conversation_id: int,
    now: float,
    kind: str,
    records: Sequence[tuple[str, str]],
    keep: int | None,
    derived: bool,
    places: Sequence[tuple[int, int]],
) -> list[int]:
    numbers: list[int] = []
    bodies = [encode_text(body) for _, body in records]
    for (name, _), body in zip(records, bodies, strict=True):
        row = (conversation_id, kind, name, now, derived, len(body.encode()), body)
        number = connection.execute(_INSERT_RECORD, row).lastrowid
        assert number is not None
        numbers.append(number)
        if places:
            connection.executemany(_INSERT_REF, [(*place, number) for place in places])
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


def _find_quoted(connection: sqlite3.Connection, key: Key, ref: MessageRef) -> tuple[int, int] | None:
    """A quoted message, or for no position its conversation, as a row of `record_ref`; None if it is gone."""
    found, position = find_conversation(connection, key), ref.position
    if found is None or ref.generation not in (None, found[1].generation):
        return None
    if position is None or has_position(connection, found[0], position):
        return found[0], position or 0
    return None
