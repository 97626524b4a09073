"""Reading summaries from SQLite: the current segments, the pins and the facts that hold."""

from __future__ import annotations

from autonomy_ctx.memory.encoding import decode_entry, make_pin
from autonomy_ctx.memory.sql.log import find_conversation
from autonomy_ctx.memory.sql.segments import read_active_segments
from autonomy_ctx.memory.sqlite.session import SqliteSession
from autonomy_ctx.memory.store import Head, Key, SummaryState

_PINNED = """
    FROM pin p LEFT JOIN shared_range r ON r.conversation_id = p.conversation_id
        AND p.position BETWEEN r.first AND r.last
    JOIN message m ON m.conversation_id = coalesce(r.source_id, p.conversation_id) AND m.position = p.position
    WHERE p.conversation_id = ?
"""
_SELECT_PINS = f"""
    SELECT p.pinned_at, p.source, m.position, m.id, m.created, m.tokens, m.counter, m.body
    {_PINNED} ORDER BY p.position
"""  # our names
_SELECT_PINNED_BYTES = f"SELECT coalesce(sum(m.size), 0) {_PINNED}"  # our names


async def read_summary(session: SqliteSession, key: Key) -> SummaryState:
    """The current segments, the pins and the facts."""
    found = await find_conversation(session, key)
    return SummaryState(Head()) if found is None else await _read_state(session, key, *found)


async def read_small_summary(session: SqliteSession, key: Key, max_bytes: int) -> SummaryState | None:
    """A summary, or None when its pinned messages are larger than that."""
    found = await find_conversation(session, key)
    if found is None:
        return SummaryState(Head())
    [(pinned,)] = session.connection.execute(_SELECT_PINNED_BYTES, found[:1])
    return await _read_state(session, key, *found) if pinned <= max_bytes else None


async def _read_state(session: SqliteSession, key: Key, conversation_id: int, head: Head) -> SummaryState:
    pins = [
        make_pin(decode_entry(*row), pinned_at, source)
        for pinned_at, source, *row in session.connection.execute(_SELECT_PINS, (conversation_id,)).fetchall()
    ]
    segments = tuple(await read_active_segments(session, conversation_id))
    facts = session.facts_in_force(key, conversation_id, head)
    return SummaryState(head, segments, tuple(pins), facts)
