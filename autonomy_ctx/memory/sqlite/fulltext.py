"""The full-text index of messages: two FTS5 tables, and the SQL that fills, searches and purges them.

Terms are split, normalised and stemmed in Python. SQLite only cuts at spaces. The table of an older file
stems once more, the terms of messages and of questions alike. Other forms of words are in a separate table,
because they must not count towards the length of a message. This module uses connections, not stores or logs.
"""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Mapping, Sequence

from autonomy_ctx.memory.search_terms import FORM_MARK, IndexTerms, fts_or_query, index_terms
from autonomy_ctx.memory.search_text import FOLDED_WEIGHT, FULL_MATCH_GAIN, QueryTerms, RowHit

_CREATE_TERMS = """
    CREATE VIRTUAL TABLE IF NOT EXISTS search_term USING fts5 (text, place, tokenize = 'ascii')
"""
_CREATE_FORMS = """
    CREATE VIRTUAL TABLE IF NOT EXISTS search_form USING fts5 (text, place, tokenize = 'ascii')
"""
_TABLES = ("search_term", "search_form")
# Makes the forms of a message as long as its words, which a rank depends on. Nobody can look for it.
_FILLER = " f"
# One statement for many rows: with each row that SQLite steps to, a thread may have to wait for the
# interpreter lock.
_INSERT_ENTRIES = "INSERT INTO search_entry (conversation_id, position) SELECT ?, value FROM json_each(?)"
_SELECT_ENTRIES = """
    SELECT id FROM search_entry WHERE conversation_id = ? AND position > ? AND position <= ?
"""
_INSERT_TERMS = """
    INSERT INTO {table} (rowid, text, place)
    SELECT e.id, t.value, 'c' || ?1 FROM json_each(?2) t
    CROSS JOIN search_entry e ON e.conversation_id = ?1 AND e.position = CAST(t.key AS INTEGER)
"""
_SELECT_EXACT_HITS = f"""
    WITH exact AS MATERIALIZED (
        SELECT rowid AS id, -bm25(search_term, 1.0, 0.0) AS score FROM search_term
        WHERE search_term MATCH :exact AND {{search_term}}
    )
    SELECT e.conversation_id, e.position, f.score FROM (
        SELECT id, score + CASE WHEN id IN (SELECT rowid FROM search_term WHERE search_term MATCH :all)
            THEN {FULL_MATCH_GAIN} * (SELECT max(score) FROM exact) ELSE 0 END AS score
        FROM exact ORDER BY 2 DESC, 1 DESC LIMIT :limit
    ) f JOIN search_entry e ON e.id = f.id ORDER BY f.score DESC, f.id DESC
"""  # noqa: S608  # our number
_NOTE_FORMS = "UPDATE search_place SET has_forms = 1 WHERE id = ? AND NOT has_forms"
_SCOPE_HAS_FORMS = "SELECT has_forms FROM search_place WHERE id = ?"
_HAS_FORMS = "SELECT EXISTS (SELECT 1 FROM search_form WHERE search_form MATCH ?)"
# What matches exactly, and what matches in another form. For a single word every exact match comes before all
# others. For more it takes part in the sum, but the best of the others stays below the best exact one: a form
# that is rare must not count for more than a word that is common. A message with all words of several comes
# before every other, however short that one is. The place says which conversation it is,
# and nothing about how well a message fits.
_SELECT_HITS = f"""
    WITH exact AS (
        SELECT rowid AS id, -bm25(search_term, 1.0, 0.0) AS score FROM search_term
        WHERE search_term MATCH :exact AND {{search_term}}
    ), gain AS (
        SELECT id, {FULL_MATCH_GAIN} * (SELECT max(score) FROM exact) AS score FROM exact
        WHERE id IN (SELECT rowid FROM search_term WHERE search_term MATCH :all)
    ), folded AS (
        SELECT rowid AS id, -bm25(search_term, 1.0, 0.0) AS score FROM search_term
        WHERE search_term MATCH :words AND {{search_term}}
        UNION ALL
        SELECT rowid AS id, -bm25(search_form, 1.0, 0.0) AS score FROM search_form
        WHERE search_form MATCH :forms AND {{search_form}}
    ), best AS (
        SELECT (SELECT min(score) FROM exact) AS worst_exact, (SELECT max(score) FROM exact) AS best_exact,
               (SELECT max(score) FROM (SELECT sum(score) AS score FROM folded GROUP BY id)) AS best_folded
    ), weight AS (
        SELECT CASE
            WHEN best_exact IS NULL THEN 1.0
            WHEN :is_single THEN {FOLDED_WEIGHT} * worst_exact / best_folded
            ELSE {FOLDED_WEIGHT} * min(1.0, best_exact / best_folded)
        END AS weight FROM best
    )
    SELECT e.conversation_id, e.position, f.score FROM (
        SELECT id, sum(score) AS score FROM (
            SELECT id, score FROM exact UNION ALL SELECT id, score FROM gain
            UNION ALL SELECT id, score * weight FROM folded CROSS JOIN weight
        ) GROUP BY id ORDER BY 2 DESC, 1 DESC LIMIT :limit
    ) f JOIN search_entry e ON e.id = f.id ORDER BY f.score DESC, f.id DESC
"""  # noqa: S608  # our number
_IS_LISTED = "{table}.rowid NOT IN (SELECT id FROM search_entry WHERE conversation_id = 0)"
# Of a fork: what it has of other conversations, and its own.
_IS_SHARED = """EXISTS (
    SELECT 1 FROM search_entry s CROSS JOIN json_each(:ranges) r
    WHERE s.id = {table}.rowid AND s.conversation_id = json_extract(r.value, '$[0]')
      AND s.position BETWEEN json_extract(r.value, '$[1]') AND json_extract(r.value, '$[2]'))"""


def _fill_conditions(statement: str) -> tuple[str, str]:
    """A statement for all rows and for those of a fork."""
    listed, shared = (
        statement.format(**{table: condition.format(table=table) for table in _TABLES})
        for condition in (_IS_LISTED, _IS_SHARED)
    )
    return listed, shared


_SELECT_EXACT = _fill_conditions(_SELECT_EXACT_HITS)
_SELECT_ALL = _fill_conditions(_SELECT_HITS)
_UNLIST_ENTRIES = "UPDATE search_entry SET conversation_id = 0, position = id WHERE conversation_id = ?"
_SET_MERGE = "INSERT INTO {table} ({table}, rank) VALUES ('usermerge', 2)"
_MERGE_INDEX = "INSERT INTO {table} ({table}, rank) VALUES ('merge', ?)"
# How much one transaction does, so that others get their turn.
_PURGE_ROWS, _PURGE_PAGES = 200, 128


def create_index(connection: sqlite3.Connection) -> None:
    """Make the index if there is none."""
    for statement in (_CREATE_TERMS, _CREATE_FORMS):
        connection.execute(statement)


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
    connection: sqlite3.Connection, scope_number: int, conversation_id: int, terms: Mapping[int, IndexTerms]
) -> None:
    """Put messages into the index, their terms by their positions; together it is much faster."""
    if not terms:
        return
    connection.execute(_INSERT_ENTRIES, (conversation_id, json.dumps(list(terms))))
    mark = f"{scope_number}x"
    words = {position: _mark_terms(mark, found.words) for position, found in terms.items()}
    forms = {
        position: _mark_terms(mark, found.forms) + _FILLER * (len(found.words) - len(found.forms))
        for position, found in terms.items()
        if found.forms
    }
    if forms:
        connection.execute(_NOTE_FORMS, (scope_number,))
    for table, texts in zip(_TABLES, (words, forms), strict=True):
        if texts:
            connection.execute(_INSERT_TERMS.format(table=table), (conversation_id, json.dumps(texts)))


def remove_messages(connection: sqlite3.Connection, conversation_id: int, after: int, last: int) -> None:
    """Remove the index entries of messages that are indexed again."""
    old = connection.execute(_SELECT_ENTRIES, (conversation_id, after, last)).fetchall()
    _delete_rows(connection, old)


def _delete_rows(connection: sqlite3.Connection, rows: Sequence[tuple[int]]) -> None:
    for table in _TABLES:
        connection.executemany(f"DELETE FROM {table} WHERE rowid = ?", rows)  # noqa: S608  # our names
    connection.executemany("DELETE FROM search_entry WHERE id = ?", rows)


def _mark_terms(mark: str, terms: Sequence[str]) -> str:
    return mark + f" {mark}".join(terms) if terms else ""


def find_hits(
    connection: sqlite3.Connection,
    scope_number: int,
    conversation_id: int | None,
    terms: QueryTerms,
    limit: int,
    ranges: Sequence[tuple[int, int, int]] = (),
) -> list[RowHit]:
    """Find what matches any of the terms, best first; of equals the newest.

    With several `ranges`, in those: each a conversation, its first and its last position.
    """
    mark, folded = f"{scope_number}x", terms.folded
    numbers = {number for number, _, _ in ranges} if len(ranges) > 1 else {conversation_id} - {None}
    place = f" AND (place : ({' OR '.join(f'c{number}' for number in numbers)}))" if numbers else ""
    values: dict[str, object] = {
        "exact": f"(text : ({fts_or_query(mark + term for term in terms.exact)})){place}",
        # SQLite takes no larger number; no index has so many rows.
        "limit": min(limit, 2**62),
    }
    is_shared = len(ranges) > 1
    if is_shared:
        values["ranges"] = json.dumps(ranges)
    words = [
        *(f'"{mark}{word}"' for word in folded.words),
        *(f'("{mark}{first}" AND "{mark}{second}")' for first, second in folded.pairs),
    ]
    forms: list[str] = []
    if connection.execute(_SCOPE_HAS_FORMS, (scope_number,)).fetchone() != (0,):
        forms += (f'"{mark}{form}"' for form in folded.forms)
        forms += (f'"{mark}{prefix}" *' for prefix in folded.prefixes)
    # No text has a mark alone.
    nothing = f'"{mark}{FORM_MARK}"'
    form_query = f"(text : ({' OR '.join(forms) or nothing})){place}"
    statements = _SELECT_EXACT
    is_single = len(terms.exact) == 1
    all_terms = nothing if is_single else " AND ".join(f'"{mark}{term}"' for term in terms.exact)
    values["all"] = f"(text : ({all_terms})){place}"
    # Mostly there are no other forms, and it takes little time to see that.
    if words or (forms and connection.execute(_HAS_FORMS, (form_query,)).fetchone()[0]):
        statements = _SELECT_ALL
        values["words"] = f"(text : ({' OR '.join(words) or nothing})){place}"
        values["forms"], values["is_single"] = form_query, is_single
    rows = connection.execute(statements[is_shared], values).fetchall()
    return [RowHit(*row) for row in rows]


def unlist_entries(connection: sqlite3.Connection, conversation_id: int, position: int | None = None) -> None:
    """Let nothing find a deleted message any more, and note that the index has to be purged."""
    if position is None:
        changed = connection.execute(_UNLIST_ENTRIES, (conversation_id,))
    else:
        changed = connection.execute(f"{_UNLIST_ENTRIES} AND position = ?", (conversation_id, position))
    if changed.rowcount:
        connection.execute("UPDATE search_purge SET stage = 1")


def needs_purge(connection: sqlite3.Connection) -> bool:
    """True while something of deleted messages may still stand in the index."""
    return bool(connection.execute("SELECT stage FROM search_purge").fetchone()[0])


def purge_index_step(connection: sqlite3.Connection) -> bool:
    """Purge some deleted text from the index. Returns whether more steps are needed.

    FTS5 only marks what is deleted; its words are gone when all parts of the index are merged into one.
    """
    [stage] = connection.execute("SELECT stage FROM search_purge").fetchone()
    if not stage:
        return False
    gone = connection.execute(
        "SELECT id FROM search_entry WHERE conversation_id = 0 ORDER BY position LIMIT ?", (_PURGE_ROWS,)
    ).fetchall()
    if gone:
        create_index(connection)
        _delete_rows(connection, gone)
        return True
    create_index(connection)
    ended = stage == 2
    for table in _TABLES:
        if stage == 1:
            # With a higher number, FTS5 leaves a merge unfinished where newer parts are more than in it.
            connection.execute(_SET_MERGE.format(table=table))
        before = connection.total_changes
        connection.execute(_MERGE_INDEX.format(table=table), (-_PURGE_PAGES if stage == 1 else _PURGE_PAGES,))
        # One change is the command itself.
        ended = ended and connection.total_changes - before < 2
    connection.execute("UPDATE search_purge SET stage = ?", (0 if ended else 2,))
    return not ended
