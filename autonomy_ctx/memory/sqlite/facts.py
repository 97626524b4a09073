"""The SQL of facts: reading those that hold, writing changes, and undoing changes.

Every batch of messages reads the facts that hold, and a long conversation has thousands. `FactCache` keeps
them, so that only those that are new are read. What this process writes is kept as soon as it is committed.
"""

from __future__ import annotations

import sqlite3
import threading
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from typing import NamedTuple

from autonomy_ctx.language.fact import Fact, FactChange, FactState, fact_id, fact_number
from autonomy_ctx.memory.cache import ConversationCache
from autonomy_ctx.memory.encoding import encode_text
from autonomy_ctx.memory.facts import (
    ENDED_BY_REMOVAL,
    FACT_COLUMNS,
    NO_SEGMENT,
    DroppedFacts,
    EndedFact,
    FactIndex,
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
_MARK = "f.number || ':' || f.segment || ':' || f.position || ':' || f.created"
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
_SELECT_ENDED = _SELECT_ALL.replace("ORDER BY", "AND f.ended_by IS NOT NULL ORDER BY")
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


class FactsInForce(NamedTuple):
    """Facts that were read, and what they were read from."""

    # A file, a conversation in it, and its generation.
    past: tuple[object, int, int]
    revision: int
    facts: tuple[Fact, ...]
    # Those that were read and held, and those that they stand for, by their marks.
    holding: Mapping[str, Fact]
    replaced: Mapping[str, Fact]
    # Made by the first change.
    fact_index: FactIndex | None = None

    def changeable_index(self) -> FactIndex:
        """An index of the facts that hold, for one transaction."""
        if self.fact_index is not None:
            return self.fact_index.copy()
        holding = (fact for fact in self.facts if fact.state == "holds")
        return FactIndex((int(fact.id[1:]), fact.source, fact.text) for fact in holding)

    def change(self, rows: Sequence[FactRow], index: FactIndex | None) -> FactsInForce:
        """The facts after these rows, of the next revision."""
        return self._replace(
            revision=self.revision + 1,
            facts=_change_facts(self.facts, rows) if rows else self.facts,
            fact_index=None if index is None or not index.is_unambiguous else index,
        )


class FactCache:
    """The facts in force of the conversations that were read last.

    A row stays as it is but for what ends it. So only which rows hold is read, and the rows that are new.
    With another file or generation, all is read again.
    """

    def __init__(self, max_facts: int = CACHED_FACTS) -> None:
        self._cached: ConversationCache[Key, FactsInForce] = ConversationCache(
            max_facts, getsizeof=lambda one: 1 + len(one.facts)
        )
        self._lock = threading.Lock()

    def read(
        self, connection: sqlite3.Connection, identity: object, key: Key, conversation_id: int, head: Head
    ) -> tuple[Fact, ...]:
        """The facts that hold, and the ones that each stands for, in the snapshot that the head is of."""
        past = (identity, conversation_id, head.generation)
        known = self._find(key, past) or FactsInForce(past, -1, (), {}, {})
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
        self.keep(key, FactsInForce(past, head.revision, facts, holding, replaced))
        return facts

    def find(self, identity: object, key: Key, conversation_id: int, head: Head) -> FactsInForce | None:
        """Find what is kept of a conversation, if it is as its head says."""
        if identity is None:
            return None
        known = self._find(key, (identity, conversation_id, head.generation))
        return known if known is not None and known.revision == head.revision else None

    def keep(self, key: Key, found: FactsInForce) -> None:
        """Keep what was read or committed; what is larger than the cache is not kept."""
        with self._lock:
            self._cached.pop(key, None)
            if 1 + len(found.facts) <= self._cached.maxsize:
                self._cached[key] = found

    def _find(self, key: Key, past: tuple[object, int, int]) -> FactsInForce | None:
        with self._lock:
            known = self._cached.get(key)
        return known if known is not None and known.past == past else None

    def forget(self, scope: str, conversation: str | None = None) -> None:
        """Drop what is kept of a scope, or of a conversation."""
        with self._lock:
            self._cached.forget(scope=scope, conversation=conversation)


def _change_facts(facts: tuple[Fact, ...], rows: Sequence[FactRow]) -> tuple[Fact, ...]:
    """The facts in force after rows that are written next."""
    ended = {row.target for row in rows if row.target is not None}
    new = [make_fact(row, "holds") for row in rows if not row.is_done and row.number not in ended]
    if not ended:
        return (*facts, *new)
    names = set(map(fact_id, ended))
    holding = [fact for fact in facts if fact.state == "holds" and fact.id not in names] + new
    # Those that the facts stand for: the ones before, and those that have ended now.
    before = {fact.id: fact for fact in facts if fact.state == "replaced"}
    before |= {fact.id: replace(fact, state="replaced") for fact in facts if fact.id in names}
    before |= {fact_id(row.number): make_fact(row, "replaced") for row in rows if row.number in ended}
    return (*(before[fact.replaces] for fact in holding if fact.replaces in before), *holding)


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


def read_all_facts(
    connection: sqlite3.Connection, conversation_id: int, known: FactsInForce | None = None
) -> list[Fact]:
    """All stored facts in the order of writing, with their states. Those that are `known` are not read."""
    statement = _SELECT_ALL if known is None else _SELECT_ENDED
    rows = connection.execute(statement, (conversation_id,)).fetchall()
    states = [ended_state(None if row[-1] is None else bool(row[-1])) for row in rows]
    read = [make_fact(decode_fact_row(row[:-1]), state) for row, state in zip(rows, states, strict=True)]
    if known is None:
        return read
    holding = [fact for fact in known.facts if fact.state == "holds"]
    return sorted([*holding, *read], key=lambda fact: int(fact.id[1:]))


def read_fact_rows(connection: sqlite3.Connection, conversation_id: int) -> list[EndedFact]:
    """Every row that is kept, and what ended it."""
    rows = connection.execute(_SELECT_ROWS, (conversation_id,)).fetchall()
    return [EndedFact(decode_fact_row(row[:-1]), row[-1]) for row in rows]


class WrittenFacts(NamedTuple):
    """The facts that changes have added, and all facts in force after them, if they were known before."""

    added: list[Fact]
    known: FactsInForce | None


def write_facts(
    connection: sqlite3.Connection,
    conversation_id: int,
    changes: Sequence[FactChange],
    *,
    known: FactsInForce | None = None,
    segment: int = NO_SEGMENT,
    dropped: Sequence[EndedFact] = (),
) -> WrittenFacts:
    """Make changes. If it is `known` which facts hold, they are not read."""
    if not changes:
        return WrittenFacts([], None if known is None else known.change((), known.fact_index))
    [(last,)] = connection.execute("SELECT last_fact FROM conversation WHERE id = ?", (conversation_id,))
    if known is None:
        index = FactIndex.of_rows(_read(connection, _SELECT_HOLDING, (conversation_id,)))
    else:
        index = known.changeable_index()
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
    ended = {row.target: row.is_done for row in rows}
    added = [
        make_fact(row, ended_state(None if row.number not in ended else not ended[row.number]))
        for row in rows
        if not row.is_done
    ]
    return WrittenFacts(added, None if known is None else known.change(rows, index))


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


def _read(connection: sqlite3.Connection, statement: str, values: Iterable[int]) -> list[FactRow]:
    return [decode_fact_row(row) for row in connection.execute(statement, tuple(values)).fetchall()]
