"""Message search in the SQLite store.

The index is updated by the next search, one block per transaction, so that appends are not slowed down and do
not have to wait. A block is read and split into terms before the transaction that writes it. Deleted messages
are purged from the index in steps. Messages that were indexed with an older folding of words stay searchable
until they are indexed again, in the same blocks.
"""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Sequence
from typing import NamedTuple

from autonomy_ctx.memory.search_terms import FOLDING_VERSION, index_terms
from autonomy_ctx.memory.search_text import IndexBlock, QueryTerms, RowHit, SearchScope, row_text
from autonomy_ctx.memory.sql.forks import SharedRange, read_ranges
from autonomy_ctx.memory.sql.log import read_indexed
from autonomy_ctx.memory.sqlite import fulltext
from autonomy_ctx.memory.sqlite.connection import snapshot
from autonomy_ctx.memory.sqlite.session import SqliteSession, Transaction
from autonomy_ctx.memory.store import SearchHit

# How much of the log one transaction takes into the index, so that appends of others get their turn: about
# 10 milliseconds.
_BLOCK_ROWS, _BLOCK_BYTES = 256, 128 * 1024

# How far a conversation is in the index; what was taken in with another folding does not count.
_INDEX_POSITION = f"CASE folding WHEN {FOLDING_VERSION} THEN indexed ELSE 0 END"
_SELECT_UNINDEXED = f"""
    SELECT id, head FROM conversation
    WHERE agent = ?1 AND scope = ?2 AND {_INDEX_POSITION} < head
      AND (?3 IS NULL OR conversation = ?3 OR id IN (
        SELECT r.source_id FROM conversation f JOIN shared_range r ON r.conversation_id = f.id
        WHERE f.agent = ?1 AND f.scope = ?2 AND f.conversation = ?3))
"""  # noqa: S608  # our number
_SELECT_INDEX_STATE = f"""
    SELECT {_INDEX_POSITION}, generation, head FROM conversation WHERE id = ?
"""  # noqa: S608  # our number
_UPDATE_INDEXED = "UPDATE conversation SET indexed = ?, folding = ? WHERE id = ?"
# How far the next block goes: rows up to the one that fills it.
_SELECT_BLOCK_END = """
    SELECT max(position), count(*), sum(size) FROM (
        SELECT position, size, sum(size) OVER (ORDER BY position) - size AS size_before FROM (
            SELECT position, size FROM message
            WHERE conversation_id = ? AND position > ? ORDER BY position LIMIT ?
        )
    ) WHERE size_before < ?
"""
# As one row: with each row that SQLite steps to, a thread may have to wait for the interpreter lock.
_SELECT_BLOCK = """
    SELECT json_group_array(json_array(position, id, created, tokens, counter, body)) FROM message
    WHERE conversation_id = ? AND position > ? AND position <= ?
"""
_SELECT_CONVERSATION_NAME = "SELECT conversation FROM conversation WHERE id = ? AND agent = ? AND scope = ?"
_SELECT_CONVERSATION = """
    SELECT id, (SELECT count(*) FROM (SELECT 1 FROM conversation WHERE agent = ?1 AND scope = ?2 LIMIT 2))
    FROM conversation WHERE agent = ?1 AND scope = ?2 AND conversation = ?3
"""


class PendingIndexWork(NamedTuple):
    """The work before a search: conversations to index up to a position, and a purge if needed."""

    unindexed: list[tuple[int, int]]
    needs_purge: bool


def pending_index_work(connection: sqlite3.Connection, search_scope: SearchScope) -> PendingIndexWork | None:
    """Find what the index lacks; None when it has everything."""
    unindexed = connection.execute(_SELECT_UNINDEXED, search_scope).fetchall()
    needs_purge = fulltext.needs_purge(connection)
    return PendingIndexWork(unindexed, needs_purge) if unindexed or needs_purge else None


def read_index_blocks(
    connection: sqlite3.Connection, unindexed: Sequence[tuple[int, int]]
) -> list[IndexBlock]:
    """The next messages that the index lacks, in one snapshot; none when it has all that was asked for."""
    blocks: list[IndexBlock] = []
    rows, size = _BLOCK_ROWS, _BLOCK_BYTES
    with snapshot(connection):
        for conversation_id, target in unindexed:
            start, generation, head = connection.execute(_SELECT_INDEX_STATE, (conversation_id,)).fetchone()
            # Another process may have been here.
            if start >= target:
                continue
            end, block_rows, block_size = connection.execute(
                _SELECT_BLOCK_END, (conversation_id, start, rows, size)
            ).fetchone()
            rows, size = rows - block_rows, size - (block_size or 0)
            is_full = rows <= 0 or size <= 0
            [block] = connection.execute(_SELECT_BLOCK, (conversation_id, start, end)).fetchone()
            terms = {row[0]: index_terms(row_text(*row)) for row in json.loads(block)}
            blocks.append(IndexBlock(conversation_id, generation, start, end if is_full else head, terms))
            if is_full:
                break
    return blocks


def write_index_blocks(
    transaction: Transaction, search_scope: SearchScope, blocks: Sequence[IndexBlock]
) -> None:
    """Take messages into the index, but none of a conversation that was indexed or cut meanwhile."""
    if transaction.has_indexed:
        return
    transaction.has_indexed = True
    connection = transaction.connection
    fulltext.create_index(connection)
    number = fulltext.ensure_scope_number(connection, search_scope.agent, search_scope.scope)
    for block in blocks:
        indexed, generation, _ = connection.execute(_SELECT_INDEX_STATE, (block.conversation_id,)).fetchone()
        if (indexed, generation) == (block.start, block.generation):
            fulltext.remove_messages(connection, block.conversation_id, block.start, block.end)
            fulltext.add_messages(connection, number, block.conversation_id, block.terms)
            connection.execute(_UPDATE_INDEXED, (block.end, FOLDING_VERSION, block.conversation_id))


def purge_step(transaction: Transaction) -> bool:
    """Take a step of the purge; the last one also folds the write-ahead log."""
    # Rows that were taken out reach the parts of the index with the commit; merged before, they stay.
    if transaction.has_indexed:
        return True
    transaction.has_indexed = True
    more = fulltext.purge_index_step(transaction.connection)
    transaction.has_deleted = transaction.has_deleted or not more
    return more


async def search_messages(
    session: SqliteSession, search_scope: SearchScope, terms: QueryTerms, limit: int, *, even_if_stale: bool
) -> list[SearchHit] | PendingIndexWork:
    """Search in one snapshot, or return the work that has to be done first."""
    first = None if even_if_stale else pending_index_work(session.connection, search_scope)
    return await _find(session, search_scope, terms, limit) if first is None else first


async def read_hits(
    session: SqliteSession, search_scope: SearchScope, found: Sequence[RowHit]
) -> list[SearchHit]:
    """The messages that were found; what one conversation shares with others has its name."""
    agent, scope, conversation = search_scope
    names: dict[int, str] = {}
    for number in {one.conversation_id for one in found}:
        row = session.connection.execute(_SELECT_CONVERSATION_NAME, (number, agent, scope)).fetchone()
        if conversation is not None or row is not None:
            names[number] = conversation or row[0]
    known = [(names[one.conversation_id], one) for one in found if one.conversation_id in names]
    read = await read_indexed(session, agent, scope, [(name, one.position) for name, one in known])
    messages = {(name, position): message for name, position, message in read}
    return [
        SearchHit(conversation=name, position=one.position, message=message, score=one.score)
        for name, one in known
        if (message := messages.get((name, one.position))) is not None
    ]


async def _find(
    session: SqliteSession, search_scope: SearchScope, terms: QueryTerms, limit: int
) -> list[SearchHit]:
    connection = session.connection
    number = fulltext.find_scope_number(connection, search_scope.agent, search_scope.scope)
    if number is None:
        return []
    conversation_id, ranges = None, list[SharedRange]()
    if search_scope.conversation is not None:
        one = connection.execute(_SELECT_CONVERSATION, search_scope).fetchone()
        if one is None:
            return []
        # To tell conversations apart takes as long as to search; where there is one, nothing is to be told.
        if one[1] > 1:
            conversation_id, ranges = one[0], await read_ranges(session, one[0])
    hits = fulltext.find_hits(connection, number, conversation_id, terms, limit, ranges)
    return await read_hits(session, search_scope, hits)
