"""The SQL of vectors: which messages lack one, storing them, and deleting them with their messages.

This module uses connections, not stores. It needs no numpy, because every memory uses it for deletion.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Sequence

from autonomy_ctx.memory.sqlite.connection import snapshot
from autonomy_ctx.memory.store import Key
from autonomy_ctx.memory.vectors import EmbeddingBlock, VectorBlock, make_embedding_block

_SELECT_EMBEDDER = "SELECT number, name, dimensions FROM embedder"
_SELECT_UNEMBEDDED = """
    SELECT c.id, c.conversation, c.head, coalesce(p.embedded, 0)
    FROM conversation c LEFT JOIN vector_progress p ON p.conversation_id = c.id AND p.embedder = ?4
    WHERE c.agent = ?1 AND c.scope = ?2 AND (?3 IS NULL OR c.conversation = ?3)
      AND c.head > coalesce(p.embedded, 0)
    ORDER BY c.id LIMIT ?5
"""
_SELECT_ROWS = """
    SELECT position, id, created, tokens, counter, body FROM message
    WHERE conversation_id = ? AND position > ? ORDER BY position LIMIT ?
"""
_SELECT_PROGRESS = """
    SELECT c.id, coalesce(p.embedded, 0)
    FROM conversation c LEFT JOIN vector_progress p ON p.conversation_id = c.id AND p.embedder = ?4
    WHERE c.agent = ?1 AND c.scope = ?2 AND c.conversation = ?3
"""
_ENSURE_SCOPE = """
    INSERT INTO vector_scope (agent, scope) VALUES (?, ?)
    ON CONFLICT (agent, scope) DO UPDATE SET removals = removals RETURNING id
"""
# A position is never used again, so what is there under the same id is the same message.
_INSERT_VECTOR = """
    INSERT OR REPLACE INTO vector (scope_id, conversation_id, position, embedder, vector)
    SELECT ?1, conversation_id, position, ?2, ?3 FROM message
    WHERE conversation_id = ?4 AND position = ?5 AND id = ?6
"""
# How many vectors of an embedder before it one transaction takes out.
_OUTDATED_ROWS = 256
_DELETE_OUTDATED = "DELETE FROM vector WHERE id IN (SELECT id FROM vector WHERE embedder < ? LIMIT ?)"
_COUNT_REMOVAL = """
    UPDATE vector_scope SET removals = removals + 1
    WHERE (agent, scope) = (SELECT agent, scope FROM conversation WHERE id = ?)
"""


def use_embedder(connection: sqlite3.Connection, name: str, dimensions: int) -> int:
    """Make an embedder the active one, under a new number."""
    found = connection.execute(_SELECT_EMBEDDER).fetchone()
    if found is None:
        connection.execute("INSERT INTO embedder VALUES (1, ?, ?)", (name, dimensions))
        return 1
    number = int(found[0])
    if found[1:] != (name, dimensions):
        number += 1
        connection.execute(
            "UPDATE embedder SET number = ?, name = ?, dimensions = ?", (number, name, dimensions)
        )
    return number


def is_in_force(connection: sqlite3.Connection, embedder: int) -> bool:
    """True while vectors are kept under this number."""
    found = connection.execute(_SELECT_EMBEDDER).fetchone()
    return found is not None and found[0] == embedder


def read_unembedded(
    connection: sqlite3.Connection,
    agent: str,
    scope: str,
    conversation: str | None,
    embedder: int,
    limit: int,
) -> list[EmbeddingBlock] | None:
    """The next blocks without vectors, in one snapshot; None if the embedder is not active."""
    blocks: list[EmbeddingBlock] = []
    with snapshot(connection):
        if not is_in_force(connection, embedder):
            return None
        lacking = connection.execute(
            _SELECT_UNEMBEDDED, (agent, scope, conversation, embedder, limit)
        ).fetchall()
        for conversation_id, name, head, start in lacking:
            rows = connection.execute(_SELECT_ROWS, (conversation_id, start, limit + 1)).fetchall()
            blocks.append(make_embedding_block(Key(agent, scope, name), start, head, rows, limit))
            limit -= len(blocks[-1].texts)
            if limit <= 0:
                break
    return blocks


def put_vectors(connection: sqlite3.Connection, blocks: Sequence[VectorBlock], embedder: int) -> bool:
    """Store vectors and the progress, if their embedder is active."""
    if not is_in_force(connection, embedder):
        return False
    for key, start, end, vectors in blocks:
        found = connection.execute(_SELECT_PROGRESS, (*key, embedder)).fetchone()
        # Somebody else may have been here.
        if found is None or found[1] != start:
            continue
        conversation_id = found[0]
        connection.execute("REPLACE INTO vector_progress VALUES (?, ?, ?)", (conversation_id, embedder, end))
        if vectors:
            [(scope_id,)] = connection.execute(_ENSURE_SCOPE, (key.agent, key.scope)).fetchall()
            connection.executemany(
                _INSERT_VECTOR,
                [
                    (scope_id, embedder, one.vector, conversation_id, one.position, one.message_id)
                    for one in vectors
                ],
            )
    connection.execute(_DELETE_OUTDATED, (embedder, _OUTDATED_ROWS))
    return True


def delete_vectors(connection: sqlite3.Connection, conversation_id: int, position: int | None = None) -> None:
    """Delete the vectors of a conversation's own messages, or of one of them."""
    deleted = connection.execute(
        "DELETE FROM vector WHERE conversation_id = ?1 AND (?2 IS NULL OR position = ?2)",
        (conversation_id, position),
    ).rowcount
    if deleted:
        connection.execute(_COUNT_REMOVAL, (conversation_id,))
