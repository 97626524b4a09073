"""Reading windows of messages and summaries from SQLite.

Small windows are read row by row. Large ones are read in a thread as JSON arrays of many rows, because a
thread has to wait for the interpreter lock after each row that SQLite steps to.
"""

from __future__ import annotations

import json
from contextlib import closing
from typing import Any

from autonomy_ctx.memory.encoding import UnreadableRow, check_complete, decode_entry, make_pin
from autonomy_ctx.memory.sql.facts import read_active_facts, read_ended_texts
from autonomy_ctx.memory.sql.forks import read_ranges
from autonomy_ctx.memory.sql.log import find_conversation
from autonomy_ctx.memory.sql.query import load_statements
from autonomy_ctx.memory.sql.segments import read_active_segments
from autonomy_ctx.memory.sql.session import LargeRead
from autonomy_ctx.memory.sqlite.session import SqliteSession
from autonomy_ctx.memory.store import MAX_POSITION, Head, Key, SummaryState, Window

BLOCK_ROWS = 256
# A body larger than this is read by itself, so that a block stays within 16 MB.
LARGE_BODY_BYTES = 64 * 1024
_SQL = load_statements("sqlite", "window", large_body_bytes=LARGE_BODY_BYTES)


async def read_window(
    session: SqliteSession, key: Key, *, after: int = 0, before: int | None = None, limit: int | None = None
) -> Window:
    """The newest `limit` entries between two positions, both excluded, in one snapshot."""
    if session.read_limit.max_rows == MAX_POSITION:
        return await _read_blocks(session, key, after, before, limit)
    return await _read_rows(session, key, after, before, limit)


async def _read_rows(
    session: SqliteSession, key: Key, after: int, before: int | None, limit: int | None
) -> Window:
    """A small window; of a larger one, not all is read."""
    max_bytes, max_rows = session.read_limit
    found = session.connection.execute(_SQL["select_conversation"], key).fetchone()
    if found is None:
        return Window(Head(), [])
    conversation_id, is_fork, head = found[0], found[6], Head(*found[1:6])
    if type(head.position) is not int or type(head.count) is not int:
        raise UnreadableRow("the head of a conversation cannot be read")
    if 0 < head.position <= after or limit == 0:
        return Window(head, [])
    row_limit, end = MAX_POSITION if limit is None else limit, MAX_POSITION if before is None else before
    if min(head.count, head.position - after, end - after - 1, row_limit) > max_rows:
        raise LargeRead
    rows: list[tuple[Any, ...]] = []
    total = 0
    statement = _SQL["select_fork_rows"] if is_fork else _SQL["select_rows"]
    values = (conversation_id, after, end, max_bytes, row_limit)
    # Closed also when an error keeps this frame alive: an open cursor holds on to an old snapshot.
    with closing(session.connection.execute(statement, values)) as cursor:
        for row in cursor:
            total += row[5]
            if total > max_bytes:
                raise LargeRead
            rows.append(row)
    entries = [decode_entry(*row[:5], *row[6:]) for row in reversed(rows)]
    if before is None:
        check_complete(head, after, limit, len(entries))
    return Window(head, entries)


async def _read_blocks(
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
    entries = [decode_entry(*row) for row in reversed(rows)]
    if before is None:
        check_complete(head, after, limit, len(entries))
    return Window(head, entries)


def _read_block(
    session: SqliteSession, conversation_id: int, after: int, before: int, size: int
) -> list[tuple[Any, ...]]:
    """The last rows before a position, newest first."""
    [(text,)] = session.connection.execute(_SQL["select_block"], (conversation_id, after, before, size))
    rows = []
    for *values, body in json.loads(text):
        if body is None:
            [(body,)] = session.connection.execute(_SQL["select_body"], (conversation_id, values[0]))
        rows.append((*values, body))
    # The order within a group is not promised.
    return sorted(rows, reverse=True)


async def read_summary(session: SqliteSession, key: Key) -> SummaryState:
    """The current segments, the pins and the facts."""
    found = await find_conversation(session, key)
    if found is None:
        return SummaryState(Head())
    conversation_id, head = found
    [(pinned,)] = session.connection.execute(_SQL["select_pinned_bytes"], (conversation_id,))
    if pinned > session.read_limit.max_bytes:
        raise LargeRead
    rows = session.connection.execute(_SQL["select_pins"], (conversation_id,)).fetchall()
    pins = [make_pin(decode_entry(*row), pinned_at, source) for pinned_at, source, *row in rows]
    segments = tuple(await read_active_segments(session, conversation_id))
    facts = await read_active_facts(session, conversation_id)
    ended = await read_ended_texts(session, conversation_id)
    return SummaryState(head, segments, tuple(pins), facts, ended)
