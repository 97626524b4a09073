"""The SQL of facts: reading those that hold, writing changes, and undoing changes."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterable, Sequence

from autonomy_ctx.language.fact import Fact, FactChange
from autonomy_ctx.memory.encoding import encode_text
from autonomy_ctx.memory.facts import (
    ENDED_BY_REMOVAL,
    FACT_COLUMNS,
    NO_SEGMENT,
    DroppedFacts,
    EndedFact,
    FactIndex,
    FactRow,
    added_facts,
    decode_fact_row,
    ended_state,
    make_fact,
    make_rows,
)
from autonomy_ctx.memory.store import ProfileFact

_OF_ROW = ", ".join(f"f.{name}" for name in FACT_COLUMNS)
_SELECT_HOLDING = f"""
    SELECT {_OF_ROW} FROM fact f INDEXED BY fact_in_force
    WHERE f.conversation_id = ? AND f.ended_by IS NULL AND f.is_done = 0 ORDER BY f.number
"""  # noqa: S608  # our names
_COUNT_HOLDING = """
    SELECT count(*) FROM fact INDEXED BY fact_in_force
    WHERE conversation_id = ? AND ended_by IS NULL AND is_done = 0
"""
# The ones that those stand for.
_SELECT_REPLACED = f"""
    SELECT {_OF_ROW} FROM fact h INDEXED BY fact_in_force
    CROSS JOIN fact f ON f.conversation_id = h.conversation_id AND f.number = h.target
    WHERE h.conversation_id = ? AND h.ended_by IS NULL AND h.is_done = 0 ORDER BY h.number
"""  # noqa: S608  # our names
_SELECT_ALL = f"""
    SELECT {_OF_ROW}, CASE WHEN f.ended_by IS NULL THEN NULL ELSE NOT coalesce(e.is_done, 0) END
    FROM fact f LEFT JOIN fact e ON e.conversation_id = f.conversation_id AND e.number = f.ended_by
    WHERE f.conversation_id = ? AND f.is_done = 0 ORDER BY f.number
"""  # noqa: S608  # our names
_SELECT_PROFILE = f"""
    SELECT c.conversation, {_OF_ROW} FROM conversation c CROSS JOIN fact f INDEXED BY fact_in_profile
    WHERE c.agent = ? AND c.scope = ? AND f.conversation_id = c.id
      AND f.in_profile = 1 AND f.ended_by IS NULL AND f.is_done = 0
    ORDER BY f.created, c.id, f.number
"""  # noqa: S608  # our names
_SELECT_ROWS = f"SELECT {_OF_ROW}, f.ended_by FROM fact f WHERE f.conversation_id = ? ORDER BY f.number"  # noqa: S608
_INSERT = f"""
    INSERT INTO fact (conversation_id, {", ".join(FACT_COLUMNS)}) VALUES (?{", ?" * len(FACT_COLUMNS)})
"""  # noqa: S608  # our names
# Those that hold at a position or might, the ones they stand for, and the ones that ended them after it.
_SELECT_FORKABLE = f"""
    WITH held (number, target, ended_by) AS (
        SELECT number, target, ended_by FROM fact INDEXED BY fact_in_force
        WHERE conversation_id = ?1 AND ended_by IS NULL AND is_done = 0 AND position <= ?2
        UNION ALL
        SELECT h.number, h.target, h.ended_by FROM fact e INDEXED BY fact_position
        CROSS JOIN fact h ON h.conversation_id = e.conversation_id AND h.number = e.target
        WHERE e.conversation_id = ?1 AND e.position > ?3 AND h.is_done = 0 AND h.position <= ?2
    )
    SELECT {_OF_ROW}, f.ended_by FROM fact f WHERE f.conversation_id = ?1 AND f.number IN
        (SELECT number FROM held UNION SELECT target FROM held UNION SELECT ended_by FROM held)
"""  # noqa: S608  # our names
_SELECT_COVERED = f"""
    SELECT {_OF_ROW}, f.ended_by FROM fact f
    WHERE f.conversation_id = ? AND f.source != 'user' AND f.position BETWEEN ? AND ?
"""  # noqa: S608  # our names
_DROP = "SELECT number FROM fact WHERE conversation_id = ? AND source != 'user' AND "
DROP_RANGE = f"{_DROP} position BETWEEN ? AND ?"
DROP_OF_SEGMENT = f"{_DROP} segment = ?"
DROP_ALL = f"{_DROP} 1"
# Of segments that are gone.
DROP_LOST = f"{_DROP} segment <> 0 AND segment NOT IN (SELECT number FROM segment WHERE conversation_id = ?)"  # noqa: S608


def read_current_facts(connection: sqlite3.Connection, conversation_id: int) -> tuple[Fact, ...]:
    """The facts that hold, after those that they replaced."""
    holding = _read(connection, _SELECT_HOLDING, conversation_id)
    replaced: list[FactRow] = []
    if any(row.target is not None for row in holding):
        replaced = _read(connection, _SELECT_REPLACED, conversation_id)
    return (
        *(make_fact(row, "replaced") for row in replaced),
        *(make_fact(row, "holds") for row in holding),
    )


def count_current_facts(connection: sqlite3.Connection, conversation_id: int) -> int:
    [(count,)] = connection.execute(_COUNT_HOLDING, (conversation_id,))
    return int(count)


def read_profile_facts(connection: sqlite3.Connection, agent: str, scope: str) -> list[ProfileFact]:
    """The facts of all conversations of a scope with an agent that hold in all of them, oldest first."""
    rows = connection.execute(_SELECT_PROFILE, (agent, scope)).fetchall()
    return [ProfileFact(name, make_fact(decode_fact_row(row), "holds")) for name, *row in rows]


def read_all_facts(connection: sqlite3.Connection, conversation_id: int) -> list[Fact]:
    """All stored facts in the order of writing, with their states."""
    return [
        make_fact(decode_fact_row(row), ended_state(None if is_replaced is None else bool(is_replaced)))
        for *row, is_replaced in connection.execute(_SELECT_ALL, (conversation_id,)).fetchall()
    ]


def read_fact_rows(connection: sqlite3.Connection, conversation_id: int) -> list[EndedFact]:
    """Every row that is kept, and what ended it."""
    rows = connection.execute(_SELECT_ROWS, (conversation_id,)).fetchall()
    return [EndedFact(decode_fact_row(row[:-1]), row[-1]) for row in rows]


def write_facts(
    connection: sqlite3.Connection,
    conversation_id: int,
    changes: Sequence[FactChange],
    *,
    segment: int = NO_SEGMENT,
    dropped: Sequence[EndedFact] = (),
) -> list[Fact]:
    """Make changes, and return the added facts."""
    if not changes:
        return []
    [(last,)] = connection.execute("SELECT last_fact FROM conversation WHERE id = ?", (conversation_id,))
    index = FactIndex(_read(connection, _SELECT_HOLDING, conversation_id))
    before = DroppedFacts(dropped)
    rows = make_rows(index, changes, last=last, segment=segment, dropped=before)
    _insert(connection, conversation_id, rows)
    for row in rows:
        if row.target is not None:
            _end(connection, conversation_id, row.target, row.number)
    for number, by in before.ends(rows):
        _end(connection, conversation_id, number, by)
    last = max([last, *(row.number for row in rows)])
    connection.execute("UPDATE conversation SET last_fact = ? WHERE id = ?", (last, conversation_id))
    return added_facts(rows)


def remove_fact(connection: sqlite3.Connection, conversation_id: int, number: int) -> bool:
    """Forget a fact that holds; what it stood for does not come back."""
    found = connection.execute(
        "DELETE FROM fact WHERE conversation_id = ? AND number = ? AND ended_by IS NULL AND is_done = 0 "
        "RETURNING target",
        (conversation_id, number),
    ).fetchall()
    for (target,) in found:
        if target is not None:
            _end(connection, conversation_id, target, ENDED_BY_REMOVAL)
    return bool(found)


def drop_facts(connection: sqlite3.Connection, conversation_id: int, which: str, *values: int) -> int:
    """Drop derived rows, by one of the statements of this module; what they ended holds again."""
    gone = connection.execute(which, (conversation_id, *values)).fetchall()
    for (number,) in gone:
        connection.execute(
            "UPDATE fact SET ended_by = NULL WHERE conversation_id = ? AND ended_by = ?",
            (conversation_id, number),
        )
        connection.execute(
            "DELETE FROM fact WHERE conversation_id = ? AND number = ?", (conversation_id, number)
        )
    return len(gone)


def drop_covered_facts(
    connection: sqlite3.Connection, conversation_id: int, first: int, last: int
) -> list[EndedFact]:
    """Drop the derived rows of messages that a segment covers, and return them."""
    covered = (conversation_id, first, last)
    rows = connection.execute(_SELECT_COVERED, covered).fetchall()
    if rows:
        drop_facts(connection, conversation_id, DROP_RANGE, first, last)
    return [EndedFact(decode_fact_row(row[:-1]), row[-1]) for row in rows]


def read_forkable_facts(
    connection: sqlite3.Connection, conversation_id: int, at: int, covered: int
) -> tuple[dict[int, FactRow], dict[int, int]]:
    """The input of `fork_facts` for a fork at a position: rows by number, and what ended them."""
    found = connection.execute(_SELECT_FORKABLE, (conversation_id, at, covered)).fetchall()
    ended_by = {row[0]: row[-1] for row in found if row[-1] is not None}
    return {row[0]: decode_fact_row(row[:-1]) for row in found}, ended_by


def insert_ended_fact(connection: sqlite3.Connection, conversation_id: int, fact: EndedFact) -> None:
    """Write a row of a fork."""
    _insert(connection, conversation_id, [fact.row])
    if fact.ended_by is not None:
        _end(connection, conversation_id, fact.row.number, fact.ended_by)


def _insert(connection: sqlite3.Connection, conversation_id: int, rows: Iterable[FactRow]) -> None:
    encoded = (row._replace(text=encode_text(row.text)) for row in rows)
    connection.executemany(_INSERT, [(conversation_id, *row) for row in encoded])


def _end(connection: sqlite3.Connection, conversation_id: int, number: int, by: int) -> None:
    connection.execute(
        "UPDATE fact SET ended_by = ? WHERE conversation_id = ? AND number = ?", (by, conversation_id, number)
    )


def _read(connection: sqlite3.Connection, statement: str, conversation_id: int) -> list[FactRow]:
    return [decode_fact_row(row) for row in connection.execute(statement, (conversation_id,)).fetchall()]
