"""The SQL of the SQLite store: what one transaction does to the rows. No threads, no locks."""

from __future__ import annotations

import sqlite3
from collections.abc import Sequence

from autonomy_ctx.errors import ConflictingMessage
from autonomy_ctx.items.message import ChatRole
from autonomy_ctx.memory.key import Key
from autonomy_ctx.memory.rows import restored, same_content, to_microseconds
from autonomy_ctx.memory.store import Draft, Entry, Head, Window

_END = 2**62

_CONVERSATION = """
    SELECT id, head, count, generation, last_user FROM conversation
    WHERE agent = ? AND scope = ? AND conversation = ?
"""
_KNOWN = """
    SELECT m.position, coalesce(w.body, m.body) FROM message m
    LEFT JOIN whole w ON w.conversation_id = m.conversation_id AND w.position = m.position
    WHERE m.conversation_id = ? AND m.id = ?
"""
_INSERT = """
    INSERT INTO message (conversation_id, position, id, created, is_user, tokens, counter, size, body)
    VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?)
"""
# One statement is one snapshot: the head and the rows it was read with.
_WINDOW = """
    SELECT c.head, c.count, c.generation, c.last_user,
           m.position, m.id, m.created, m.tokens, m.counter, m.size,
           CASE WHEN m.size <= ? THEN m.body END
    FROM conversation c
    LEFT JOIN message m ON m.conversation_id = c.id AND m.position > ? AND m.position < ?
    WHERE c.agent = ? AND c.scope = ? AND c.conversation = ?
    ORDER BY m.position DESC LIMIT ?
"""


def append_rows(connection: sqlite3.Connection, key: Key, drafts: Sequence[Draft]) -> list[int]:
    """Store drafts at the next positions. Everything that can be refused is refused before a write."""
    found = connection.execute(_CONVERSATION, key).fetchone()
    conversation_id, head, count, _, last_user = found or (None, 0, 0, 0, 0)
    positions: dict[str, int] = {}
    fresh: list[Draft] = []
    for draft in drafts:
        position = _known_position(connection, conversation_id, draft, positions, fresh)
        if position is None:
            fresh.append(draft)
            position = head + len(fresh)
        positions[draft.message.id] = position
    if fresh:
        if conversation_id is None:
            made = connection.execute(
                "INSERT INTO conversation (agent, scope, conversation) VALUES (?, ?, ?)", key
            )
            conversation_id = made.lastrowid
        for draft in fresh:
            head += 1
            message = draft.message
            is_user = message.role is ChatRole.USER
            if is_user:
                last_user = head
            created = to_microseconds(message.created_at)
            connection.execute(
                _INSERT,
                (
                    conversation_id,
                    head,
                    message.id,
                    created,
                    is_user,
                    draft.tokens,
                    draft.counter,
                    draft.size,
                    draft.body,
                ),
            )
            if draft.whole is not None:
                connection.execute("INSERT INTO whole VALUES (?, ?, ?)", (conversation_id, head, draft.whole))
        connection.execute(
            "UPDATE conversation SET head = ?, count = ?, last_user = ? WHERE id = ?",
            (head, count + len(fresh), last_user, conversation_id),
        )
    return [positions[draft.message.id] for draft in drafts]


def _known_position(
    connection: sqlite3.Connection,
    conversation_id: int | None,
    draft: Draft,
    positions: dict[str, int],
    fresh: Sequence[Draft],
) -> int | None:
    """Where this message already is, in the log or earlier in the same call."""
    message_id = draft.message.id
    if message_id in positions:
        position = positions[message_id]
        body = next((_uncut(other) for other in fresh if other.message.id == message_id), _uncut(draft))
    elif conversation_id is not None:
        row = connection.execute(_KNOWN, (conversation_id, message_id)).fetchone()
        if row is None:
            return None
        position, body = row
    else:
        return None
    if not same_content(body, _uncut(draft)):
        raise ConflictingMessage(message_id=message_id, position=position)
    return position


def read_rows(
    connection: sqlite3.Connection,
    key: Key,
    after: int,
    before: int | None,
    limit: int | None,
    most_bytes: int,
) -> Window | None:
    """A window, or None when it holds more than `most_bytes`: then not all of it was read."""
    head = Head()
    entries: list[Entry] = []
    cursor = connection.execute(
        _WINDOW, (most_bytes, after, _END if before is None else before, *key, -1 if limit is None else limit)
    )
    total = 0
    for (
        last,
        count,
        generation,
        last_user,
        position,
        message_id,
        created,
        tokens,
        counter,
        size,
        body,
    ) in cursor:
        if position is None or not entries:
            head = Head(last, count, generation, last_user)
            if position is None:
                break
        total += size
        if total > most_bytes:
            cursor.close()
            return None
        entries.append(Entry(position, restored(message_id, created, tokens, counter, body)))
    entries.reverse()
    return Window(head, entries)


def read_head(connection: sqlite3.Connection, key: Key) -> Head:
    """Where a conversation stands."""
    found = connection.execute(_CONVERSATION, key).fetchone()
    return Head() if found is None else Head(*found[1:])


def read_whole(connection: sqlite3.Connection, key: Key, message_id: str) -> str | None:
    """The uncut body of a message that was too large for the log."""
    found = connection.execute(
        """
        SELECT w.body FROM conversation c
        JOIN message m ON m.conversation_id = c.id AND m.id = ?
        JOIN whole w ON w.conversation_id = c.id AND w.position = m.position
        WHERE c.agent = ? AND c.scope = ? AND c.conversation = ?
        """,
        (message_id, *key),
    ).fetchone()
    return None if found is None else str(found[0])


def delete_rows(
    connection: sqlite3.Connection,
    scope: str,
    agent: str | None,
    conversation: str | None,
    ids: Sequence[str] | None,
) -> int:
    """Delete messages and raise the generation of every conversation that lost one."""
    touched = connection.execute(
        """
        SELECT id FROM conversation
        WHERE scope = ?1 AND (?2 IS NULL OR agent = ?2) AND (?3 IS NULL OR conversation = ?3) AND count > 0
        """,
        (scope, agent, conversation),
    ).fetchall()
    return sum(_delete_from(connection, conversation_id, ids) for (conversation_id,) in touched)


def _delete_from(connection: sqlite3.Connection, conversation_id: int, ids: Sequence[str] | None) -> int:
    if ids is None:
        connection.execute("DELETE FROM whole WHERE conversation_id = ?", (conversation_id,))
        deleted = connection.execute(
            "DELETE FROM message WHERE conversation_id = ?", (conversation_id,)
        ).rowcount
    else:
        deleted = 0
        for message_id in ids:
            row = connection.execute(
                "DELETE FROM message WHERE conversation_id = ? AND id = ? RETURNING position",
                (conversation_id, message_id),
            ).fetchone()
            if row is not None:
                deleted += 1
                connection.execute(
                    "DELETE FROM whole WHERE conversation_id = ? AND position = ?", (conversation_id, row[0])
                )
    if deleted:
        connection.execute(
            """
            UPDATE conversation SET count = count - ?2, generation = generation + 1, last_user = coalesce(
                (SELECT max(position) FROM message WHERE conversation_id = ?1 AND is_user), 0)
            WHERE id = ?1
            """,
            (conversation_id, deleted),
        )
    return deleted


def _uncut(draft: Draft) -> str:
    return draft.whole or draft.body
