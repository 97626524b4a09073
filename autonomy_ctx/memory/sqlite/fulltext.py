"""The full-text index of messages: two FTS5 tables, and the SQL that fills, searches and purges them.

Terms are split, normalised and stemmed in Python. SQLite only cuts at spaces. The table of an older file
stems once more, the terms of messages and of questions alike. Other forms of words are in a separate table,
because they must not count towards the length of a message. This module uses connections, not stores or logs.
"""

from __future__ import annotations

import json
import math
import sqlite3
from collections.abc import Mapping, Sequence

from autonomy_ctx.memory.ranking import score_texts
from autonomy_ctx.memory.search_terms import FORM_MARK, IndexTerms, fts_or_query
from autonomy_ctx.memory.search_text import FOLDED_WEIGHT, FULL_MATCH_GAIN, QueryTerms, RowHit
from autonomy_ctx.memory.sql.query import load_statements

_SQL = load_statements("sqlite", "fulltext", full_match_gain=FULL_MATCH_GAIN, folded_weight=FOLDED_WEIGHT)

_TABLES = ("search_term", "search_form")
# Makes the forms of a message as long as its words, which a rank depends on. Nobody can look for it.
_FILLER = " f"


def _fill_conditions(statement: str) -> tuple[str, str]:
    """A statement for all rows and for those of a fork."""
    listed, shared = (
        statement.format(**{table: condition.format(table=table) for table in _TABLES})
        for condition in (_SQL["is_listed"], _SQL["is_shared"])
    )
    return listed, shared


_SELECT_EXACT = _fill_conditions(_SQL["select_exact_hits"])
_SELECT_ALL = _fill_conditions(_SQL["select_hits"])
# Up to so many rows, all that have one of the words are ranked. In a larger index that would take longer and
# longer, so there the rare words choose the candidates: of a word in more rows than this, the newest.
MAX_RANKED_ROWS, MAX_CANDIDATES = 20_000, 1_000
# For each hit that is wanted, so many candidates are read to rank them exactly.
READ_PER_HIT = 3
# How much one transaction does, so that others get their turn.
_PURGE_ROWS, _PURGE_PAGES = 200, 128


def create_index(connection: sqlite3.Connection) -> None:
    """Make the index if there is none."""
    for statement in (_SQL["create_terms"], _SQL["create_forms"]):
        connection.execute(statement)


def has_one_conversation(connection: sqlite3.Connection, agent: str, scope: str) -> bool:
    """True for a scope of an agent with one conversation."""
    return len(connection.execute(_SQL["select_two"], (agent, scope)).fetchall()) == 1


def add_messages(
    connection: sqlite3.Connection, scope_number: int, conversation_id: int, terms: Mapping[int, IndexTerms]
) -> None:
    """Put messages into the index, their terms by their positions; together it is much faster."""
    if not terms:
        return
    connection.execute(_SQL["insert_entries"], (conversation_id, json.dumps(list(terms))))
    mark = f"{scope_number}x"
    words = {position: _mark_terms(mark, found.words) for position, found in terms.items()}
    forms = {
        position: _mark_terms(mark, found.forms) + _FILLER * (len(found.words) - len(found.forms))
        for position, found in terms.items()
        if found.forms
    }
    if forms:
        connection.execute(_SQL["note_forms"], (scope_number,))
    for table, texts in zip(_TABLES, (words, forms), strict=True):
        if texts:
            connection.execute(_SQL["insert_terms"].format(table=table), (conversation_id, json.dumps(texts)))


def remove_messages(connection: sqlite3.Connection, conversation_id: int, after: int, last: int) -> None:
    """Remove the index entries of messages that are indexed again."""
    old = connection.execute(_SQL["select_entries"], (conversation_id, after, last)).fetchall()
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
    if connection.execute(_SQL["scope_has_forms"], (scope_number,)).fetchone() != (0,):
        forms += (f'"{mark}{form}"' for form in folded.forms)
        forms += (f'"{mark}{prefix}" *' for prefix in folded.prefixes)
    is_small = is_shared or READ_PER_HIT * limit > MAX_CANDIDATES
    if not is_small and connection.execute(_SQL["count_rows"]).fetchone()[0] > MAX_RANKED_ROWS:
        others = dict.fromkeys(words, "search_term") | dict.fromkeys(forms, "search_form")
        exact = [f'"{mark}{term}"' for term in terms.exact]
        return _find_by_rare_words(connection, exact, others, place, limit)
    # No text has a mark alone.
    nothing = f'"{mark}{FORM_MARK}"'
    form_query = f"(text : ({' OR '.join(forms) or nothing})){place}"
    statements = _SELECT_EXACT
    is_single = len(terms.exact) == 1
    all_terms = nothing if is_single else " AND ".join(f'"{mark}{term}"' for term in terms.exact)
    values["all"] = f"(text : ({all_terms})){place}"
    # Mostly there are no other forms, and it takes little time to see that.
    if words or (forms and connection.execute(_SQL["has_forms"], (form_query,)).fetchone()[0]):
        statements = _SELECT_ALL
        values["words"] = f"(text : ({' OR '.join(words) or nothing})){place}"
        values["forms"], values["is_single"] = form_query, is_single
    rows = connection.execute(statements[is_shared], values).fetchall()
    return [RowHit(*row) for row in rows]


def _find_by_rare_words(
    connection: sqlite3.Connection, terms: Sequence[str], others: Mapping[str, str], place: str, limit: int
) -> list[RowHit]:
    """Find the best of the rows with rare words of a question, and of those with all words.

    `terms` are quoted, and `others` are other forms of words, each with its table. No statement gives
    more than a fixed number of rows, however many there are. `bm25` would count the rows of every word.
    """
    [size] = connection.execute(_SQL["count_rows"]).fetchone()
    tables = dict(others) | dict.fromkeys(terms, _TABLES[0])

    def find_newest(query: str, table: str) -> list[int]:
        values = (f"(text : ({query})){place}", MAX_CANDIDATES)
        return [row[0] for row in connection.execute(_SQL["select_newest"].format(table=table), values)]

    rows = {term: some for term, table in tables.items() if (some := find_newest(term, table))}
    # A word in more rows than were read is in the others about as often.
    counts = {
        term: len(some) if len(some) < MAX_CANDIDATES else len(some) * size // (size - some[-1] + 1)
        for term, some in rows.items()
    }
    weights = {term: math.log(1 + (size - count + 0.5) / (count + 0.5)) for term, count in counts.items()}
    most = max((weights[term] for term in terms if term in weights), default=math.inf)
    weights |= {term: FOLDED_WEIGHT * min(weights[term], most) for term in others if term in weights}
    candidates: set[int] = set()
    rare: list[str] = []
    for term in sorted(rows, key=counts.__getitem__):
        if not rare or len(candidates) + len(rows[term]) <= MAX_CANDIDATES:
            rare.append(term)
            candidates.update(rows[term])
    found = dict.fromkeys(candidates, 0.0)
    among = " OR ".join(term for term in rare if tables[term] == _TABLES[0])
    for term, weight in weights.items():
        is_common = term not in rare and among and tables[term] == _TABLES[0]
        for row in find_newest(f"({among}) AND {term}", _TABLES[0]) if is_common else rows[term]:
            if row in found:
                found[row] += weight
    if len(terms) > 1:
        found |= dict.fromkeys(find_newest(" AND ".join(terms), _TABLES[0]), sum(weights.values()))
    best = sorted(found, key=lambda row: (found[row], row), reverse=True)[: READ_PER_HIT * limit]
    texts = connection.execute(_SQL["select_texts"], (json.dumps(best),)).fetchall()
    by_word = {term.strip('"'): weight for term, weight in weights.items() if term in terms}
    scores = score_texts({row: text.split() for row, _, _, text in texts}, by_word)
    for term in others:
        for row in scores.keys() & rows.get(term, ()):
            scores[row] += weights[term]
    hits = [(scores[row], row, RowHit(number, position, scores[row])) for row, number, position, _ in texts]
    return [hit for _, _, hit in sorted(hits, reverse=True)[:limit]]


def unlist_entries(connection: sqlite3.Connection, conversation_id: int, position: int | None = None) -> None:
    """Let nothing find a deleted message any more, and note that the index has to be purged."""
    if position is None:
        changed = connection.execute(_SQL["unlist_entries"], (conversation_id,))
    else:
        changed = connection.execute(
            _SQL["unlist_entries"] + " AND position = ?", (conversation_id, position)
        )
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
            connection.execute(_SQL["set_merge"].format(table=table))
        before = connection.total_changes
        connection.execute(
            _SQL["merge_index"].format(table=table), (-_PURGE_PAGES if stage == 1 else _PURGE_PAGES,)
        )
        # One change is the command itself.
        ended = ended and connection.total_changes - before < 2
    connection.execute("UPDATE search_purge SET stage = ?", (0 if ended else 2,))
    return not ended
