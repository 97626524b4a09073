"""The full-text index of messages: an FTS5 table, and the SQL that fills, searches and purges it.

Terms are split and normalised in Python. SQLite only cuts at spaces and stems, because its Unicode tables
are old. Knows connections, not stores or logs.
"""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Mapping, Sequence
from typing import NamedTuple

from autonomy_ctx.items.terms import fts_or_query, index_terms

_CREATE_INDEX = """
    CREATE VIRTUAL TABLE IF NOT EXISTS search_term USING fts5 (text, place, tokenize = 'porter ascii')
"""
# One statement for many rows: with each row that SQLite steps to, a thread may have to wait for the
# interpreter lock.
_INSERT_ENTRIES = "INSERT INTO search_entry (conversation_id, position) SELECT ?, value FROM json_each(?)"
_INSERT_TERMS = """
    INSERT INTO search_term (rowid, text, place)
    SELECT e.id, t.value, 'c' || ?1 FROM json_each(?2) t
    CROSS JOIN search_entry e ON e.conversation_id = ?1 AND e.position = CAST(t.key AS INTEGER)
"""
# The place says which conversation it is, and nothing about how well a message fits.
_SELECT_HITS = """
    SELECT e.conversation_id, e.position, f.score FROM (
        SELECT rowid AS id, -bm25(search_term, 1.0, 0.0) AS score FROM search_term
        WHERE search_term MATCH ? AND rowid NOT IN (SELECT id FROM search_entry WHERE conversation_id = 0)
        ORDER BY 2 DESC, 1 DESC LIMIT ?
    ) f JOIN search_entry e ON e.id = f.id ORDER BY f.score DESC, f.id DESC
"""
# Of a fork: what it has of other conversations, and its own.
_SELECT_SHARED_HITS = """
    SELECT e.conversation_id, e.position, f.score FROM (
        SELECT rowid AS id, -bm25(search_term, 1.0, 0.0) AS score FROM search_term
        WHERE search_term MATCH ?1 AND EXISTS (
            SELECT 1 FROM search_entry s CROSS JOIN json_each(?3) r
            WHERE s.id = search_term.rowid AND s.conversation_id = json_extract(r.value, '$[0]')
              AND s.position BETWEEN json_extract(r.value, '$[1]') AND json_extract(r.value, '$[2]'))
        ORDER BY 2 DESC, 1 DESC LIMIT ?2
    ) f JOIN search_entry e ON e.id = f.id ORDER BY f.score DESC, f.id DESC
"""
_UNLIST_ENTRIES = "UPDATE search_entry SET conversation_id = 0, position = id WHERE conversation_id = ?"
_MERGE_INDEX = "INSERT INTO search_term (search_term, rank) VALUES ('merge', ?)"
# How much one transaction does, so that others get their turn.
_PURGE_ROWS, _PURGE_PAGES = 200, 128


class FullTextHit(NamedTuple):
    """A row of the index that matches."""

    conversation_id: int
    position: int
    score: float


def create_index(connection: sqlite3.Connection) -> None:
    """Make the index if there is none."""
    connection.execute(_CREATE_INDEX)


def find_scope_number(connection: sqlite3.Connection, agent: str, scope: str) -> int | None:
    """The number of a scope of an agent; None for one that was never searched."""
    found = connection.execute(
        "SELECT id FROM search_place WHERE agent = ? AND scope = ?", (agent, scope)
    ).fetchone()
    return None if found is None else int(found[0])


def ensure_scope_number(connection: sqlite3.Connection, agent: str, scope: str) -> int:
    """The number of a scope of an agent."""
    connection.execute("INSERT OR IGNORE INTO search_place (agent, scope) VALUES (?, ?)", (agent, scope))
    scope_number = find_scope_number(connection, agent, scope)
    assert scope_number is not None
    return scope_number


def add_message(
    connection: sqlite3.Connection, scope_number: int, conversation_id: int, position: int, text: str
) -> None:
    """Put a message into the index."""
    add_messages(connection, scope_number, conversation_id, {position: index_terms(text)})


def add_messages(
    connection: sqlite3.Connection,
    scope_number: int,
    conversation_id: int,
    terms: Mapping[int, Sequence[str]],
) -> None:
    """Put messages into the index, their terms by their positions; together it is much faster."""
    if not terms:
        return
    connection.execute(_INSERT_ENTRIES, (conversation_id, json.dumps(list(terms))))
    mark = f"{scope_number}x"
    texts = {position: _mark_terms(mark, found) for position, found in terms.items()}
    connection.execute(_INSERT_TERMS, (conversation_id, json.dumps(texts)))


def _mark_terms(mark: str, terms: Sequence[str]) -> str:
    return mark + f" {mark}".join(terms) if terms else ""


def find_hits(
    connection: sqlite3.Connection,
    scope_number: int,
    conversation_id: int | None,
    terms: Sequence[str],
    limit: int,
    ranges: Sequence[tuple[int, int, int]] = (),
) -> list[FullTextHit]:
    """What matches any of the terms, best first; of equals the newest.

    With several `ranges`, in those: each a conversation, its first and its last position.
    """
    match = f"text : ({fts_or_query(f'{scope_number}x{term}' for term in terms)})"
    numbers = {number for number, _, _ in ranges} if len(ranges) > 1 else {conversation_id} - {None}
    if numbers:
        match = f"({match}) AND (place : ({' OR '.join(f'c{number}' for number in numbers)}))"
    # SQLite takes no larger number; no index has so many rows.
    values: tuple[object, ...] = (match, min(limit, 2**62))
    statement = _SELECT_HITS
    if len(ranges) > 1:
        statement, values = _SELECT_SHARED_HITS, (*values, json.dumps(ranges))
    return [FullTextHit(*row) for row in connection.execute(statement, values).fetchall()]


def unlist_entries(connection: sqlite3.Connection, conversation_id: int, position: int | None = None) -> None:
    """Let nothing find a deleted message any more, and note that the index has to be purged."""
    if position is None:
        changed = connection.execute(_UNLIST_ENTRIES, (conversation_id,))
    else:
        changed = connection.execute(f"{_UNLIST_ENTRIES} AND position = ?", (conversation_id, position))
    if changed.rowcount:
        connection.execute("UPDATE search_purge SET stage = 1")


def needs_purge(connection: sqlite3.Connection) -> bool:
    """Whether something of deleted messages may still stand in the index."""
    return bool(connection.execute("SELECT stage FROM search_purge").fetchone()[0])


def purge_index_step(connection: sqlite3.Connection) -> bool:
    """Take a step towards an index without a byte of what was deleted; whether there are more to take.

    FTS5 only marks what is deleted; its words are gone when all parts of the index are merged into one.
    """
    [stage] = connection.execute("SELECT stage FROM search_purge").fetchone()
    if not stage:
        return False
    gone = connection.execute(
        "SELECT id FROM search_entry WHERE conversation_id = 0 ORDER BY position LIMIT ?", (_PURGE_ROWS,)
    ).fetchall()
    if gone:
        for statement in ("DELETE FROM search_term WHERE rowid = ?", "DELETE FROM search_entry WHERE id = ?"):
            connection.executemany(statement, gone)
        return True
    if stage == 1:
        # With a higher number, FTS5 leaves a merge unfinished where newer parts are more than those in it.
        connection.execute("INSERT INTO search_term (search_term, rank) VALUES ('usermerge', 2)")
    before = connection.total_changes
    connection.execute(_MERGE_INDEX, (-_PURGE_PAGES if stage == 1 else _PURGE_PAGES,))
    # One change is the command itself.
    ended = stage == 2 and connection.total_changes - before < 2
    connection.execute("UPDATE search_purge SET stage = ?", (0 if ended else 2,))
    return not ended
