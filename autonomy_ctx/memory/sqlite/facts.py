"""The SQL of facts: reading those that hold, writing changes, and undoing changes.

Every batch of messages reads the facts that hold, and a long conversation has thousands. `FactCache` keeps
them, so that only those that are new are read.
"""

from __future__ import annotations

import sqlite3
import threading
from collections.abc import Iterable, Mapping, Sequence
from typing import NamedTuple

from autonomy_ctx.items.fact import Fact, FactChange, FactState, fact_number
from autonomy_ctx.memory.conversation_cache import ConversationCache
from autonomy_ctx.memory.encoding import encode_text
from autonomy_ctx.memory.facts import (
    ENDED_BY_REMOVAL,
    FACT_COLUMNS,
    NO_SEGMENT,
    EndedFact,
    FactRow,
    decode_fact_row,
    ended_state,
    make_fact,
    make_rows,
)
from autonomy_ctx.memory.store import Head, Key, ProfileFact

# All conversations together.
CACHED_FACTS = 20_000
# With more new ones than this, all are read: that is one statement.
MAX_SINGLE_READS = 128
_OF_ROW = ", ".join(f"f.{name}" for name in FACT_COLUMNS)
_SELECT_HOLDING = f"""
    SELECT {_OF_ROW} FROM fact f INDEXED BY fact_in_force
    WHERE f.conversation_id = ? AND f.ended_by IS NULL AND f.is_done = 0 ORDER BY f.number
"""  # noqa: S608  # our names
# The ones that those stand for.
_SELECT_REPLACED = f"""
    SELECT {_OF_ROW} FROM fact h INDEXED BY fact_in_force
    CROSS JOIN fact f ON f.conversation_id = h.conversation_id AND f.number = h.target
    WHERE h.conversation_id = ? AND h.ended_by IS NULL AND h.is_done = 0 ORDER BY h.number
"""  # noqa: S608  # our names
# What tells these rows from any other, as one text: SQLite gives up the interpreter's lock for each row that
# it reads, and then waits for it behind whatever else runs.
_MARK = "f.number || ':' || f.position || ':' || f.created"
_SELECT_HOLDING_MARKS = f"""
    SELECT group_concat({_MARK}) FROM fact f INDEXED BY fact_in_force
    WHERE f.conversation_id = ? AND f.ended_by IS NULL AND f.is_done = 0
"""  # noqa: S608  # our names
_SELECT_REPLACED_MARKS = f"""
    SELECT group_concat({_MARK}) FROM fact h INDEXED BY fact_in_force
    CROSS JOIN fact f ON f.conversation_id = h.conversation_id AND f.number = h.target
    WHERE h.conversation_id = ? AND h.ended_by IS NULL AND h.is_done = 0
"""  # noqa: S608  # our names
_ROWS_OF_MARKS = {_SELECT_HOLDING_MARKS: _SELECT_HOLDING, _SELECT_REPLACED_MARKS: _SELECT_REPLACED}
_SELECT_ONE = f"SELECT {_OF_ROW} FROM fact f WHERE f.conversation_id = ? AND f.number = ?"  # noqa: S608  # our names
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
_DROP = "SELECT number FROM fact WHERE conversation_id = ? AND source != 'user' AND "
DROP_RANGE = f"{_DROP} position BETWEEN ? AND ?"
DROP_OF_SEGMENT = f"{_DROP} segment = ?"
DROP_ALL = f"{_DROP} 1"
# Of segments that are gone.
DROP_LOST = f"{_DROP} segment <> 0 AND segment NOT IN (SELECT number FROM segment WHERE conversation_id = ?)"  # noqa: S608


class _FactsInForce(NamedTuple):
    """What was read, and what it was read from."""

    # A file, a conversation in it, and its generation.
    past: tuple[object, int, int]
    revision: int
    facts: tuple[Fact, ...]
    # Those of them that hold and those that they stand for, by their marks.
    holding: Mapping[str, Fact]
    replaced: Mapping[str, Fact]


class FactCache:
    """The facts in force of the conversations that were read last.

    A row stays as it is but for what ends it. So only which rows hold is read, and the rows that are new.
    With another file or generation, all is read again.
    """

    def __init__(self, max_facts: int = CACHED_FACTS) -> None:
        self._cached: ConversationCache[Key, _FactsInForce] = ConversationCache(
            max_facts, getsizeof=lambda one: 1 + len(one.facts)
        )
        self._lock = threading.Lock()

    def read(
        self, connection: sqlite3.Connection, identity: object, key: Key, conversation_id: int, head: Head
    ) -> tuple[Fact, ...]:
        """The facts that hold, and the ones that each stands for, in the snapshot that the head is of."""
        past = (identity, conversation_id, head.generation)
        with self._lock:
            known = self._cached.get(key)
        if known is None or known.past != past:
            known = _FactsInForce(past, -1, (), {}, {})
        if known.revision == head.revision:
            return known.facts
        holding = _read_marked(connection, _SELECT_HOLDING_MARKS, conversation_id, known.holding, "holds")
        replaced: dict[str, Fact] = {}
        if any(fact.replaces for fact in holding.values()):
            statement = _SELECT_REPLACED_MARKS
            replaced = _read_marked(connection, statement, conversation_id, known.replaced, "replaced")
        in_order = sorted(holding.values(), key=lambda fact: fact_number(fact.id) or 0)
        by_id = {fact.id: fact for fact in replaced.values()}
        before = (by_id.get(fact.replaces) for fact in in_order if fact.replaces)
        facts = (*(fact for fact in before if fact is not None), *in_order)
        with self._lock:
            self._cached.pop(key, None)
            if 1 + len(facts) <= self._cached.maxsize:
                self._cached[key] = _FactsInForce(past, head.revision, facts, holding, replaced)
        return facts

    def forget(self, scope: str, conversation: str | None = None) -> None:
        """Drop what is kept of a scope, or of a conversation."""
        with self._lock:
            self._cached.forget(scope=scope, conversation=conversation)


def _read_marked(
    connection: sqlite3.Connection,
    statement: str,
    conversation_id: int,
    known: Mapping[str, Fact],
    state: FactState,
) -> dict[str, Fact]:
    """The facts of a statement's marks by these; those that are known are not read."""
    [(text,)] = connection.execute(statement, (conversation_id,))
    marks = text.split(",") if text else []
    missing = [mark for mark in marks if mark not in known]
    if len(missing) > MAX_SINGLE_READS:
        rows = _read(connection, _ROWS_OF_MARKS[statement], (conversation_id,))
    else:
        values = ((conversation_id, int(mark.partition(":")[0])) for mark in missing)
        rows = [row for one in values for row in _read(connection, _SELECT_ONE, one)]
    new = {row.number: row for row in rows}
    found = {mark: int(mark.partition(":")[0]) for mark in missing}
    made = {mark: make_fact(new[number], state) for mark, number in found.items()}
    return {mark: made[mark] if mark in made else known[mark] for mark in marks}


def read_profile_facts(connection: sqlite3.Connection, agent: str, scope: str) -> list[ProfileFact]:
    """The facts of all conversations of a scope with an agent that hold in all of them, oldest first."""
    rows = connection.execute(_SELECT_PROFILE, (agent, scope)).fetchall()
    return [ProfileFact(name, make_fact(decode_fact_row(row), "holds")) for name, *row in rows]


def read_all_facts(connection: sqlite3.Connection, conversation_id: int) -> list[Fact]:
    """All stored facts in the order of writing, with their states."""
    rows = connection.execute(_SELECT_ALL, (conversation_id,)).fetchall()
    states = [ended_state(None if row[-1] is None else bool(row[-1])) for row in rows]
    return [make_fact(decode_fact_row(row[:-1]), state) for row, state in zip(rows, states, strict=True)]


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
) -> list[Fact]:
    """Make changes; the facts that they add."""
    if not changes:
        return []
    [(last,)] = connection.execute("SELECT last_fact FROM conversation WHERE id = ?", (conversation_id,))
    holding = _read(connection, _SELECT_HOLDING, (conversation_id,))
    rows = make_rows(holding, changes, last=last, segment=segment)
    for row in rows:
        _insert(connection, conversation_id, row)
        if row.target is not None:
            _end(connection, conversation_id, row.target, row.number)
    if rows:
        connection.execute(
            "UPDATE conversation SET last_fact = ? WHERE id = ?", (rows[-1].number, conversation_id)
        )
    ended = {row.target: row.is_done for row in rows}
    return [
        make_fact(row, ended_state(None if row.number not in ended else not ended[row.number]))
        for row in rows
        if not row.is_done
    ]


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


def read_forkable_facts(
    connection: sqlite3.Connection, conversation_id: int, at: int, covered: int
) -> tuple[dict[int, FactRow], dict[int, int]]:
    """What `fork_facts` has to know of a fork at a position: rows by number, and what ended them."""
    found = connection.execute(_SELECT_FORKABLE, (conversation_id, at, covered)).fetchall()
    ended_by = {row[0]: row[-1] for row in found if row[-1] is not None}
    return {row[0]: decode_fact_row(row[:-1]) for row in found}, ended_by


def insert_ended_fact(connection: sqlite3.Connection, conversation_id: int, fact: EndedFact) -> None:
    """Write a row of a fork."""
    _insert(connection, conversation_id, fact.row)
    if fact.ended_by is not None:
        _end(connection, conversation_id, fact.row.number, fact.ended_by)


def _insert(connection: sqlite3.Connection, conversation_id: int, row: FactRow) -> None:
    given = [encode_text(row.text) if name == "text" else getattr(row, name) for name in FACT_COLUMNS]
    connection.execute(_INSERT, (conversation_id, *given))


def _end(connection: sqlite3.Connection, conversation_id: int, number: int, by: int) -> None:
    connection.execute(
        "UPDATE fact SET ended_by = ? WHERE conversation_id = ? AND number = ?", (by, conversation_id, number)
    )


def _read(connection: sqlite3.Connection, statement: str, values: Iterable[int]) -> list[FactRow]:
    return [decode_fact_row(row) for row in connection.execute(statement, tuple(values)).fetchall()]
