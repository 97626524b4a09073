"""The SQL of summary segments: inserting, reading the active ones, and restoring replaced ones."""

from __future__ import annotations

import sqlite3

from autonomy_ctx.memory.encoding import SEGMENT_COLUMNS, decode_segment, encode_text
from autonomy_ctx.memory.store import StoredSegment, restorable_segments

_INSERT_FIELDS = [name for name in SEGMENT_COLUMNS if name != "number"]
_SELECT_ACTIVE = f"""
    SELECT {", ".join(SEGMENT_COLUMNS)} FROM segment
    WHERE conversation_id = ? AND replaced_by IS NULL ORDER BY first
"""  # noqa: S608  # our names
_INSERT_SEGMENT = f"""
    INSERT INTO segment ({", ".join(_INSERT_FIELDS)}, conversation_id, rest_of)
    VALUES ({", ".join("?" * len(_INSERT_FIELDS))}, ?, ?) RETURNING number
"""  # noqa: S608  # our names
# Neither in force nor taken back, but what stood for them is gone.
_SELECT_RESTORABLE = f"""
    SELECT {", ".join(SEGMENT_COLUMNS)} FROM segment
    WHERE conversation_id = ?1 AND replaced_by > 0
      AND replaced_by NOT IN (SELECT number FROM segment WHERE conversation_id = ?1)
"""  # noqa: S608  # our names
_SELECT_ALL = f"""
    SELECT {", ".join(SEGMENT_COLUMNS)}, replaced_by, rest_of FROM segment
    WHERE conversation_id = ? ORDER BY number
"""  # noqa: S608  # our names
_SELECT_SOURCES = f"""
    SELECT {", ".join(SEGMENT_COLUMNS)} FROM segment WHERE conversation_id = ? AND replaced_by = ?
"""  # noqa: S608  # our names


def read_active_segments(connection: sqlite3.Connection, conversation_id: int) -> list[StoredSegment]:
    return [decode_segment(row) for row in connection.execute(_SELECT_ACTIVE, (conversation_id,)).fetchall()]


def read_sources(connection: sqlite3.Connection, conversation_id: int, number: int) -> list[StoredSegment]:
    """The segments that one stands for."""
    rows = connection.execute(_SELECT_SOURCES, (conversation_id, number)).fetchall()
    return [decode_segment(row) for row in rows]


def read_all_segments(
    connection: sqlite3.Connection, conversation_id: int
) -> list[tuple[StoredSegment, int | None, int | None]]:
    """Every segment that is kept, in the order of numbers, with `replaced_by` and `rest_of`."""
    rows = connection.execute(_SELECT_ALL, (conversation_id,)).fetchall()
    return [(decode_segment(row[:-2]), row[-2], row[-1]) for row in rows]


def restore_segments(connection: sqlite3.Connection, conversation_id: int) -> None:
    """Bring back what deleted segments stood for, as far as it is whole."""
    rows = connection.execute(_SELECT_RESTORABLE, (conversation_id,)).fetchall()
    if not rows:
        return
    for segment in restorable_segments(
        read_active_segments(connection, conversation_id), [decode_segment(row) for row in rows]
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
