"""The scripts of summary segments: storing one, taking it back, and restoring replaced ones."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, replace

from autonomy_ctx.memory.encoding import REPLACED_BY_UNDO, SEGMENT_COLUMNS, decode_segment, encode_text
from autonomy_ctx.memory.forks import ReplacedSegment
from autonomy_ctx.memory.sql.query import load_queries
from autonomy_ctx.memory.sql.session import Session
from autonomy_ctx.memory.store import Head, StoredSegment, restorable_segments, segment_replacement

_OWN_COLUMNS = [name for name in SEGMENT_COLUMNS if name not in ("number", "created")]
_QUERIES = load_queries(
    "segments",
    columns=", ".join(SEGMENT_COLUMNS),
    names=", ".join(_OWN_COLUMNS),
    values=":" + ", :".join(_OWN_COLUMNS),
)


async def read_active_segments(session: Session, conversation_id: int) -> list[StoredSegment]:
    """The current segments in order."""
    return [decode_segment(row) for row in await session.fetch(_QUERIES["select_active"], id=conversation_id)]


async def read_sources(
    session: Session, conversation_id: int, numbers: Sequence[int]
) -> list[ReplacedSegment]:
    """The segments that others stand for."""
    values = {"id": conversation_id, "numbers": session.array(numbers)}
    rows = await session.fetch(_QUERIES["select_sources"], **values)
    return [ReplacedSegment(row[-1], decode_segment(row[:-1])) for row in rows]


async def insert_segments(
    session: Session,
    conversation_id: int,
    segments: Sequence[StoredSegment],
    *,
    rest_of: int | None = None,
    are_new: bool = False,
) -> list[int]:
    """Store segments as current, those that are new with the time of now; their numbers."""
    values = [
        {**asdict(one), "id": conversation_id, "text": encode_text(one.text), "rest_of": rest_of}
        | ({"created": None} if are_new else {})
        for one in segments
    ]
    return [number for [(number,)] in await session.fetch_each(_QUERIES["insert"], values)]


async def store_segment(
    session: Session, conversation_id: int, head: Head, segment: StoredSegment
) -> int | None:
    """Store a segment as current instead of those that it covers; its number, or None if it does not fit."""
    active = await read_active_segments(session, conversation_id)
    swap = segment_replacement(active, segment, head.position)
    if swap is None:
        return None
    new, *rests = (replace(one, generation=head.generation) for one in swap.added)
    [number] = await insert_segments(session, conversation_id, [new], are_new=True)
    await insert_segments(session, conversation_id, rests, rest_of=number)
    if swap.removed:
        await replace_segments(session, [one.number for one in swap.removed], number)
    return int(number)


async def replace_segments(session: Session, numbers: Sequence[int], by: int) -> None:
    """Note which segment replaces others."""
    await session.execute(_QUERIES["replace"], by=by, numbers=session.array(numbers))


async def undo_newest(session: Session, conversation_id: int) -> int | None:
    """Take back the newest segment, so that those it replaced are current again; its number."""
    [(number,)] = await session.fetch(_QUERIES["select_newest"], id=conversation_id)
    if number is None:
        return None
    for name in ("delete_rests", "restore_sources"):
        await session.execute(_QUERIES[name], id=conversation_id, number=number)
    await replace_segments(session, [number], REPLACED_BY_UNDO)
    return int(number)


async def delete_segments(session: Session, conversation_id: int, first: int = 0) -> int:
    """Delete the segments that end at a position or later, and restore what they stood for."""
    deleted = await session.execute(_QUERIES["delete_from"], id=conversation_id, first=first)
    rows = await session.fetch(_QUERIES["select_restorable"], id=conversation_id) if deleted else []
    if rows:
        active = await read_active_segments(session, conversation_id)
        back = restorable_segments(active, [decode_segment(row) for row in rows])
        numbers = session.array([segment.number for segment in back])
        await session.execute(_QUERIES["restore"], numbers=numbers)
    return deleted


async def drop_segments(session: Session, conversation_id: int) -> tuple[int, int]:
    """Delete all segments and the work that is due; how many were current, and how many there were."""
    await session.execute(_QUERIES["delete_work"], id=conversation_id)
    [(active,)] = await session.fetch(_QUERIES["count_active"], id=conversation_id)
    return active, await session.execute(_QUERIES["delete_from"], id=conversation_id, first=0)
