"""Reading windows of messages and summaries from SQLite.

Small windows are read row by row. Large ones are read in a thread as JSON arrays of many rows, because a
thread has to wait for the interpreter lock after each row that SQLite steps to.
"""

from __future__ import annotations

import json
from contextlib import closing
from typing import Any

from autonomy_ctx.memory.encoding import UnreadableRow, check_complete, decode_entries, decode_entry, make_pin
from autonomy_ctx.memory.sql.facts import read_ended_texts
from autonomy_ctx.memory.sql.forks import read_ranges
from autonomy_ctx.memory.sql.log import find_conversation
from autonomy_ctx.memory.sql.segments import read_active_segments
from autonomy_ctx.memory.sqlite.session import SqliteSession
from autonomy_ctx.memory.store import MAX_POSITION, Head, Key, SummaryState, Window

_SELECT_CONVERSATION = """
    SELECT id, head, count, generation, last_user, revision, is_fork FROM conversation
    WHERE agent = ? AND scope = ? AND conversation = ?
"""
_ROW_COLUMNS = (
    "m.position, m.id, m.created, m.tokens, m.counter, m.size, CASE WHEN m.size <= ?4 THEN m.body END"
)
_SELECT_ROWS = f"""
    SELECT {_ROW_COLUMNS} FROM message m
    WHERE m.conversation_id = ?1 AND m.position > ?2 AND m.position < ?3
    ORDER BY m.position DESC LIMIT ?5
"""  # noqa: S608  # our names
# A fork reads range by range, newest first.
_SELECT_FORK_ROWS = f"""
    SELECT {_ROW_COLUMNS} FROM shared_range r
    CROSS JOIN message m ON m.conversation_id = r.source_id
        AND m.position BETWEEN max(r.first, ?2 + 1) AND min(r.last, ?3 - 1)
    WHERE r.conversation_id = ?1
    ORDER BY r.first DESC, m.position DESC LIMIT ?5
"""  # noqa: S608  # our names


async def read_rows(
    session: SqliteSession,
    key: Key,
    after: int,
    before: int | None,
    limit: int | None,
    max_bytes: int,
    max_rows: int,
) -> Window | None:
    """A window, or None when it holds more than it may: then not all of it was read."""
    found = session.connection.execute(_SELECT_CONVERSATION, key).fetchone()
    if found is None:
        return Window(Head(), [])
    conversation_id, is_fork, head = found[0], found[6], Head(*found[1:6])
    if type(head.position) is not int or type(head.count) is not int:
        raise UnreadableRow("the head of a conversation cannot be read")
    if 0 < head.position <= after or limit == 0:
        return Window(head, [])
    row_limit, end = MAX_POSITION if limit is None else limit, MAX_POSITION if before is None else before
    if min(head.count, head.position - after, end - after - 1, row_limit) > max_rows:
        return None
    rows: list[tuple[Any, ...]] = []
    total = 0
    statement = _SELECT_FORK_ROWS if is_fork else _SELECT_ROWS
    values = (conversation_id, after, end, max_bytes, row_limit)
    # Closed also when an error keeps this frame alive: an open cursor holds on to an old snapshot.
    with closing(session.connection.execute(statement, values)) as cursor:
        for row in cursor:
            total += row[5]
            if total > max_bytes:
                return None
            rows.append(row)
    entries = decode_entries(rows[::-1])
    if before is None:
        check_complete(head, after, limit, len(entries))
    return Window(head, entries)


BLOCK_ROWS = 256
# A body larger than this is read by itself, so that a block stays within 16 MB.
LARGE_BODY_BYTES = 64 * 1024
_SELECT_BLOCK = f"""
    SELECT json_group_array(json_array(position, id, created, tokens, counter, size,
        CASE WHEN size <= {LARGE_BODY_BYTES} THEN body END))
    FROM (SELECT * FROM message WHERE conversation_id = ? AND position > ? AND position < ?
          ORDER BY position DESC LIMIT ?)
"""  # noqa: S608  # our number
_SELECT_BODY = "SELECT body FROM message WHERE conversation_id = ? AND position = ?"


async def read_blocks(
    session: SqliteSession, key: Key, after: int, before: int | None, limit: int | None
) -> Window:
    """A window of any length, in one snapshot."""
    found = await find_conversation(session, key)
    if found is None:
        return Window(Head(), [])
    conversation_id, head = found
    rows: list[tuple[Any, ...]] = []
    row_limit = MAX_POSITION if limit is None else limit
    for source_id, first, last in await read_ranges(session, conversation_id):
        start, end = max(after, first - 1), last + 1 if before is None else min(before, last + 1)
        while len(rows) < row_limit:
            size = min(BLOCK_ROWS, row_limit - len(rows))
            block = _read_block(session, source_id, start, end, size)
            rows += block
            if len(block) < size:
                break
            end = block[-1][0]
    entries = decode_entries(rows[::-1])
    if before is None:
        check_complete(head, after, limit, len(entries))
    return Window(head, entries)


def _read_block(
    session: SqliteSession, conversation_id: int, after: int, before: int, size: int
) -> list[tuple[Any, ...]]:
    """The last rows before a position, newest first."""
    [(text,)] = session.connection.execute(_SELECT_BLOCK, (conversation_id, after, before, size))
    rows = []
    for *values, body in json.loads(text):
        if body is None:
            [(body,)] = session.connection.execute(_SELECT_BODY, (conversation_id, values[0]))
        rows.append((*values, body))
    # The order within a group is not promised.
    return sorted(rows, reverse=True)


_FROM_PINS = """
    FROM pin p LEFT JOIN shared_range r ON r.conversation_id = p.conversation_id
        AND p.position BETWEEN r.first AND r.last
    JOIN message m ON m.conversation_id = coalesce(r.source_id, p.conversation_id) AND m.position = p.position
    WHERE p.conversation_id = ?
"""
_SELECT_PINS = f"""
    SELECT p.pinned_at, p.source, m.position, m.id, m.created, m.tokens, m.counter, m.body
    {_FROM_PINS} ORDER BY p.position
"""  # our names
_SELECT_PINNED_BYTES = f"SELECT coalesce(sum(m.size), 0) {_FROM_PINS}"  # our names


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
    ended = await read_ended_texts(session, conversation_id)
    return SummaryState(head, segments, tuple(pins), facts, ended)
