"""The SQL of segments: inserting, reading the current ones, and restoring replaced ones."""

from __future__ import annotations

from collections.abc import Sequence

from autonomy_ctx.memory.encoding import SEGMENT_COLUMNS, decode_segment, encode_text
from autonomy_ctx.memory.forks import ReplacedSegment
from autonomy_ctx.memory.postgres.connection import Connection, fetch_all, fetch_one
from autonomy_ctx.memory.store import StoredSegment, restorable_segments

_COLUMNS = ", ".join(SEGMENT_COLUMNS)
_INSERT_COLUMNS = [name for name in SEGMENT_COLUMNS if name != "number"]
_SELECT_ACTIVE = f"""
    SELECT {_COLUMNS} FROM autonomy_ctx.segment
    WHERE conversation_id = %s AND replaced_by IS NULL ORDER BY first
"""  # noqa: S608  # our names
_INSERT_SEGMENT = f"""
    INSERT INTO autonomy_ctx.segment ({", ".join(_INSERT_COLUMNS)}, conversation_id, rest_of)
    VALUES ({", ".join(["%s"] * len(_INSERT_COLUMNS))}, %s, %s) RETURNING number
"""  # noqa: S608  # our names
# Neither in force nor taken back, but what stood for them is gone.
_SELECT_RESTORABLE = f"""
    SELECT {_COLUMNS} FROM autonomy_ctx.segment s
    WHERE conversation_id = %s AND replaced_by > 0 AND NOT EXISTS
        (SELECT 1 FROM autonomy_ctx.segment o
         WHERE o.number = s.replaced_by AND o.conversation_id = s.conversation_id)
"""  # noqa: S608  # our names
_SELECT_SOURCES = f"""
    SELECT {_COLUMNS}, replaced_by FROM autonomy_ctx.segment
    WHERE conversation_id = %s AND replaced_by = ANY(%s)
"""  # noqa: S608  # our names
_SELECT_ALL = f"""
    SELECT {_COLUMNS}, replaced_by, rest_of FROM autonomy_ctx.segment
    WHERE conversation_id = %s ORDER BY number
"""  # noqa: S608  # our names


async def read_active_segments(connection: Connection, conversation_id: int) -> list[StoredSegment]:
    return [decode_segment(row) for row in await fetch_all(connection, _SELECT_ACTIVE, (conversation_id,))]


async def read_sources(
    connection: Connection, conversation_id: int, numbers: Sequence[int]
) -> list[ReplacedSegment]:
    """The segments that others stand for."""
    rows = await fetch_all(connection, _SELECT_SOURCES, (conversation_id, numbers))
    return [ReplacedSegment(row[-1], decode_segment(row[:-1])) for row in rows]


async def read_all_segments(
    connection: Connection, conversation_id: int
) -> list[tuple[StoredSegment, int | None, int | None]]:
    """Every segment that is kept, in the order of numbers, with `replaced_by` and `rest_of`."""
    rows = await fetch_all(connection, _SELECT_ALL, (conversation_id,))
    return [(decode_segment(row[:-2]), row[-2], row[-1]) for row in rows]


async def restore_segments(connection: Connection, conversation_id: int) -> None:
    """Bring back what deleted segments stood for, as far as it is whole."""
    rows = await fetch_all(connection, _SELECT_RESTORABLE, (conversation_id,))
    if not rows:
        return
    active = await read_active_segments(connection, conversation_id)
    back = restorable_segments(active, [decode_segment(row) for row in rows])
    await connection.execute(
        "UPDATE autonomy_ctx.segment SET replaced_by = NULL WHERE number = ANY(%s)",
        ([segment.number for segment in back],),
    )


async def insert_segment(
    connection: Connection, conversation_id: int, segment: StoredSegment, rest_of: int | None
) -> int:
    given = [
        encode_text(segment.text) if name == "text" else getattr(segment, name) for name in _INSERT_COLUMNS
    ]
    row = await fetch_one(connection, _INSERT_SEGMENT, (*given, conversation_id, rest_of))
    assert row is not None
    return int(row[0])
