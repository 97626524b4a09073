"""The SQL of summary segments: inserting, reading the active ones, and restoring replaced ones."""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Sequence
from dataclasses import fields
from typing import Any

from autonomy_ctx.memory.sqlite.connection import UnreadableRow
from autonomy_ctx.memory.store import StoredSegment, restorable_segments

REPLACED_BY_UNDO = -1
# The columns have the names of the fields.
_FIELDS = [field.name for field in fields(StoredSegment)]
_INSERT_FIELDS = [name for name in _FIELDS if name != "number"]
_SELECT_ACTIVE = f"""
    SELECT {", ".join(_FIELDS)} FROM segment
    WHERE conversation_id = ? AND replaced_by IS NULL ORDER BY first
"""  # noqa: S608  # our names
_INSERT_SEGMENT = f"""
    INSERT INTO segment ({", ".join(_INSERT_FIELDS)}, conversation_id, rest_of)
    VALUES ({", ".join("?" * len(_INSERT_FIELDS))}, ?, ?) RETURNING number
"""  # noqa: S608  # our names
# Neither in force nor taken back, but what stood for them is gone.
_SELECT_RESTORABLE = f"""
    SELECT {", ".join(_FIELDS)} FROM segment
    WHERE conversation_id = ?1 AND replaced_by > 0
      AND replaced_by NOT IN (SELECT number FROM segment WHERE conversation_id = ?1)
"""  # noqa: S608  # our names
_SELECT_SOURCES = f"""
    SELECT {", ".join(_FIELDS)} FROM segment WHERE conversation_id = ? AND replaced_by = ?
"""  # noqa: S608  # our names


def read_active_segments(connection: sqlite3.Connection, conversation_id: int) -> list[StoredSegment]:
    return [_decode_segment(row) for row in connection.execute(_SELECT_ACTIVE, (conversation_id,)).fetchall()]


def read_sources(connection: sqlite3.Connection, conversation_id: int, number: int) -> list[StoredSegment]:
    """The segments that one stands for."""
    rows = connection.execute(_SELECT_SOURCES, (conversation_id, number)).fetchall()
    return [_decode_segment(row) for row in rows]


def restore_segments(connection: sqlite3.Connection, conversation_id: int) -> None:
    """Bring back what deleted segments stood for, as far as it is whole."""
    rows = connection.execute(_SELECT_RESTORABLE, (conversation_id,)).fetchall()
    if not rows:
        return
    for segment in restorable_segments(
        read_active_segments(connection, conversation_id), [_decode_segment(row) for row in rows]
    ):
        connection.execute("UPDATE segment SET replaced_by = NULL WHERE number = ?", (segment.number,))


def insert_segment(
    connection: sqlite3.Connection, conversation_id: int, segment: StoredSegment, rest_of: int | None
) -> int:
    given = [
        encode_text(segment.text) if name == "text" else getattr(segment, name) for name in _INSERT_FIELDS
    ]
    [(number,)] = connection.execute(_INSERT_SEGMENT, (*given, conversation_id, rest_of))
    return int(number)


def _decode_segment(row: Sequence[Any]) -> StoredSegment:
    values = dict(zip(_FIELDS, row, strict=True))
    try:
        values.update(text=json.loads(values["text"]), provisional=bool(values["provisional"]))
    except ValueError:
        # Why not might quote what users said.
        raise UnreadableRow(f"the segment with number {values['number']} cannot be read") from None
    return StoredSegment(**values)


def encode_text(text: str) -> str:
    """A text as JSON; with escapes only when no file could hold it otherwise."""
    try:
        text.encode()
    except UnicodeEncodeError:
        return json.dumps(text)
    return json.dumps(text, ensure_ascii=False)
