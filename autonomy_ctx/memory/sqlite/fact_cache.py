"""`FactCache`: the facts in force of conversations, so that only those that are new are read.

Every batch of messages reads the facts that hold, and a long conversation has thousands. What this process
writes is kept as soon as it is committed.
"""

from __future__ import annotations

import sqlite3
import threading
from collections.abc import Iterable, Mapping

from autonomy_ctx.memory.cache import ConversationCache
from autonomy_ctx.memory.facts import FactRow, FactsInForce, decode_fact_row, make_fact
from autonomy_ctx.memory.sql.facts import COLUMNS_OF_FACT
from autonomy_ctx.memory.store import Head, Key
from autonomy_ctx.messages.fact import Fact, FactState, fact_number

# All conversations together.
CACHED_FACTS = 20_000
# With more new ones than this, all are read: that is one statement.
MAX_SINGLE_READS = 128
_SELECT_HOLDING = f"""
    SELECT {COLUMNS_OF_FACT} FROM fact f INDEXED BY fact_in_force
    WHERE f.conversation_id = ? AND f.ended_by IS NULL AND f.is_done = 0 ORDER BY f.number
"""  # noqa: S608  # our names
# The ones that those stand for.
_SELECT_REPLACED = f"""
    SELECT {COLUMNS_OF_FACT} FROM fact h INDEXED BY fact_in_force
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
_SELECT_ONE = f"SELECT {COLUMNS_OF_FACT} FROM fact f WHERE f.conversation_id = ? AND f.number = ?"  # noqa: S608  # our names


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


def _read(connection: sqlite3.Connection, statement: str, values: Iterable[int]) -> list[FactRow]:
    return [decode_fact_row(row) for row in connection.execute(statement, tuple(values)).fetchall()]
