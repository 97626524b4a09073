"""Large reads, many rows in one step.

Every row that SQLite steps to costs the thread the interpreter's lock, and beside a busy event
loop it waits milliseconds to get it back. So a block of rows comes as one text.
"""

from __future__ import annotations

import json
import sqlite3

from autonomy_ctx.memory.encoding import restored_form
from autonomy_ctx.memory.sqlite.errors import UnreadableRow
from autonomy_ctx.memory.sqlite.rows import conversation_of, expected, read_rows
from autonomy_ctx.memory.store import Entry, Head, Key, Window

ROWS = 256
# A body larger than this is read by itself, so that a block stays within 16 MB.
LARGE = 64 * 1024
_END = 2**62

_BLOCK = f"""
    SELECT group_concat(
        '[' || position || ',' || json_quote(id) || ',' || created || ',' || tokens || ','
        || json_quote(counter) || ',' || CASE WHEN size <= {LARGE} THEN body ELSE 'null' END || ']')
    FROM (SELECT * FROM message WHERE conversation_id = ? AND position > ? AND position < ?
          ORDER BY position DESC LIMIT ?)
"""  # noqa: S608  # our number


def read_blocks(
    connection: sqlite3.Connection, key: Key, after: int, before: int | None, limit: int | None
) -> Window:
    """A window of any length, in one snapshot."""
    connection.execute("BEGIN")
    try:
        found = conversation_of(connection, key)
        if found is None:
            return Window(Head(), [])
        conversation_id, head = found
        entries: list[Entry] = []
        end, wanted = _END if before is None else before, _END if limit is None else limit
        while len(entries) < wanted:
            size = min(ROWS, wanted - len(entries))
            block = _block(connection, key, conversation_id, after, end, size)
            entries += block
            if len(block) < size:
                break
            end = block[-1].position
    finally:
        connection.execute("COMMIT")
    entries.reverse()
    if before is None and len(entries) != expected(head, after, limit, len(entries)):
        raise UnreadableRow("messages are missing from the log")
    return Window(head, entries)


def _block(
    connection: sqlite3.Connection, key: Key, conversation_id: int, after: int, before: int, size: int
) -> list[Entry]:
    """The last rows before a position, newest first."""
    [text] = connection.execute(_BLOCK, (conversation_id, after, before, size)).fetchone()
    if text is None:
        return []
    try:
        rows = json.loads(f"[{text}]")
        entries = [
            _one_by_one(connection, key, row[0] - 1, row[0] + 1, 1)[0]
            if row[5] is None
            else Entry(row[0], restored_form(*row[1:]))
            for row in rows
        ]
    except (ValueError, TypeError):
        # Row by row it is known which one cannot be read.
        return _one_by_one(connection, key, after, before, size)
    # The order within a group is not promised.
    return sorted(entries, key=lambda entry: -entry.position)


def _one_by_one(connection: sqlite3.Connection, key: Key, after: int, before: int, size: int) -> list[Entry]:
    window = read_rows(connection, key, after, before, size, _END, _END)
    return [] if window is None else list(reversed(window.entries))
