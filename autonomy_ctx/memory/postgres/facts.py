"""The SQL of facts: writing changes, reading all facts, and undoing changes."""

from __future__ import annotations

from collections.abc import Sequence

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
    decode_fact_row,
    ended_state,
    make_fact,
    make_rows,
)
from autonomy_ctx.memory.postgres.connection import Connection, fetch_all
from autonomy_ctx.memory.store import ProfileFact

COLUMNS_OF_FACT = ", ".join(f"f.{name}" for name in FACT_COLUMNS)
_SELECT_HOLDING = f"""
    SELECT {COLUMNS_OF_FACT} FROM autonomy_ctx.fact f
    WHERE f.conversation_id = %s AND f.ended_by IS NULL AND NOT f.is_done ORDER BY f.number
"""  # noqa: S608  # our names
_SELECT_ALL = f"""
    SELECT {COLUMNS_OF_FACT}, CASE WHEN f.ended_by IS NULL THEN NULL ELSE NOT coalesce(e.is_done, false) END
    FROM autonomy_ctx.fact f
    LEFT JOIN autonomy_ctx.fact e ON e.conversation_id = f.conversation_id AND e.number = f.ended_by
    WHERE f.conversation_id = %s AND NOT f.is_done ORDER BY f.number
"""  # noqa: S608  # our names
_SELECT_PROFILE = f"""
    SELECT c.conversation, {COLUMNS_OF_FACT} FROM autonomy_ctx.conversation c
    JOIN autonomy_ctx.fact f ON f.conversation_id = c.id
    WHERE c.scope = %s AND c.agent = %s AND f.in_profile AND f.ended_by IS NULL AND NOT f.is_done
    ORDER BY f.created, c.id, f.number
"""  # noqa: S608  # our names
_SELECT_ROWS = f"""
    SELECT {COLUMNS_OF_FACT}, f.ended_by FROM autonomy_ctx.fact f
    WHERE f.conversation_id = %s ORDER BY f.number
"""  # noqa: S608  # our names
# Those that hold at a position or might, the ones they stand for, and the ones that ended them after it.
_SELECT_FORKABLE = f"""
    WITH held AS (
        SELECT number, target, ended_by FROM autonomy_ctx.fact
        WHERE conversation_id = %(id)s AND ended_by IS NULL AND NOT is_done AND position <= %(at)s
        UNION ALL
        SELECT h.number, h.target, h.ended_by FROM autonomy_ctx.fact e
        JOIN autonomy_ctx.fact h ON h.conversation_id = e.conversation_id AND h.number = e.target
        WHERE e.conversation_id = %(id)s AND e.position > %(covered)s AND NOT h.is_done
          AND h.position <= %(at)s
    )
    SELECT {COLUMNS_OF_FACT}, f.ended_by FROM autonomy_ctx.fact f
    WHERE f.conversation_id = %(id)s AND f.number IN
        (SELECT number FROM held UNION SELECT target FROM held UNION SELECT ended_by FROM held)
"""  # noqa: S608  # our names
_TYPES = {
    "kind": "text",
    "text": "text",
    "source": "text",
    "created": "float8",
    "is_done": "bool",
    "in_profile": "bool",
}
_INSERT = f"""
    INSERT INTO autonomy_ctx.fact (conversation_id, {", ".join(FACT_COLUMNS)})
    SELECT %s, * FROM unnest({", ".join(f"%s::{_TYPES.get(name, 'int8')}[]" for name in FACT_COLUMNS)})
"""  # noqa: S608  # our names
_END = """
    UPDATE autonomy_ctx.fact f SET ended_by = d.ended_by
    FROM unnest(%s::int8[], %s::int8[]) AS d (number, ended_by)
    WHERE f.conversation_id = %s AND f.number = d.number
"""
_DROP = "DELETE FROM autonomy_ctx.fact f WHERE conversation_id = %s AND source <> 'user'"
DROP_RANGE = f"{_DROP} AND position BETWEEN %s AND %s RETURNING number"
_DROP_COVERED = f"{_DROP} AND position BETWEEN %s AND %s RETURNING {COLUMNS_OF_FACT}, f.ended_by"
DROP_OF_SEGMENT = f"{_DROP} AND segment = %s RETURNING number"
DROP_ALL = f"{_DROP} RETURNING number"
# Of segments that are gone.
DROP_LOST = f"""
    {_DROP} AND segment <> 0 AND NOT EXISTS
        (SELECT 1 FROM autonomy_ctx.segment s
         WHERE s.number = f.segment AND s.conversation_id = f.conversation_id) RETURNING number
"""  # noqa: S608  # our names


async def read_profile_facts(connection: Connection, agent: str, scope: str) -> list[ProfileFact]:
    """The facts of all conversations of a scope with an agent that hold in all of them, oldest first."""
    rows = await fetch_all(connection, _SELECT_PROFILE, (scope, agent))
    return [ProfileFact(name, make_fact(decode_fact_row(row), "holds")) for name, *row in rows]


async def read_all_facts(connection: Connection, conversation_id: int) -> list[Fact]:
    """All stored facts in the order of writing, with their states."""
    rows = await fetch_all(connection, _SELECT_ALL, (conversation_id,))
    return [make_fact(decode_fact_row(row[:-1]), ended_state(row[-1])) for row in rows]


async def write_facts(
    connection: Connection,
    conversation_id: int,
    changes: Sequence[FactChange],
    *,
    segment: int = NO_SEGMENT,
    dropped: Sequence[EndedFact] = (),
) -> list[Fact]:
    """Make changes, and return the added facts. The conversation is locked."""
    if not changes:
        return []
    [(last,)] = await fetch_all(
        connection, "SELECT last_fact FROM autonomy_ctx.conversation WHERE id = %s", (conversation_id,)
    )
    holding = await fetch_all(connection, _SELECT_HOLDING, (conversation_id,))
    index = FactIndex.of_rows(map(decode_fact_row, holding))
    before = DroppedFacts(dropped)
    rows = make_rows(index, changes, last=last, segment=segment, dropped=before)
    if not rows:
        return []
    await _insert(connection, conversation_id, rows)
    ended = [(row.target, row.number) for row in rows if row.target is not None]
    await _end(connection, conversation_id, [*ended, *before.ends(rows)])
    await connection.execute(
        "UPDATE autonomy_ctx.conversation SET last_fact = %s WHERE id = %s",
        (max(last, *(row.number for row in rows)), conversation_id),
    )
    by_target = {row.target: row.is_done for row in rows}
    return [
        make_fact(row, ended_state(None if row.number not in by_target else not by_target[row.number]))
        for row in rows
        if not row.is_done
    ]


async def remove_fact(connection: Connection, conversation_id: int, number: int) -> bool:
    """Remove a fact that holds. The fact that it replaced does not come back."""
    rows = await fetch_all(
        connection,
        "DELETE FROM autonomy_ctx.fact WHERE conversation_id = %s AND number = %s AND ended_by IS NULL "
        "AND NOT is_done RETURNING target",
        (conversation_id, number),
    )
    targets = [target for (target,) in rows]
    ended = [(target, ENDED_BY_REMOVAL) for target in targets if target is not None]
    await _end(connection, conversation_id, ended)
    return bool(targets)


async def drop_facts(connection: Connection, conversation_id: int, which: str, *values: int) -> int:
    """Delete derived rows with one of the statements of this module; facts that they ended hold again."""
    numbers = [number for (number,) in await fetch_all(connection, which, (conversation_id, *values))]
    await _restore_ended(connection, conversation_id, numbers)
    return len(numbers)


async def drop_covered_facts(
    connection: Connection, conversation_id: int, first: int, last: int
) -> list[EndedFact]:
    """Delete the derived rows of messages that a segment covers, and return them."""
    rows = await fetch_all(connection, _DROP_COVERED, (conversation_id, first, last))
    await _restore_ended(connection, conversation_id, [row[0] for row in rows])
    return [EndedFact(decode_fact_row(row[:-1]), row[-1]) for row in rows]


async def _restore_ended(connection: Connection, conversation_id: int, numbers: Sequence[int]) -> None:
    """Let facts hold again that rows had ended which are gone."""
    if numbers:
        await connection.execute(
            "UPDATE autonomy_ctx.fact SET ended_by = NULL WHERE conversation_id = %s AND ended_by = ANY(%s)",
            (conversation_id, list(numbers)),
        )


async def read_fact_rows(connection: Connection, conversation_id: int) -> list[EndedFact]:
    """All rows, and what ended each."""
    rows = await fetch_all(connection, _SELECT_ROWS, (conversation_id,))
    return [EndedFact(decode_fact_row(row[:-1]), row[-1]) for row in rows]


async def read_forkable_facts(
    connection: Connection, conversation_id: int, at: int, covered: int
) -> tuple[dict[int, FactRow], dict[int, int]]:
    """The input of `fork_facts` for a fork at a position: rows by number, and what ended them."""
    values = {"id": conversation_id, "at": at, "covered": covered}
    found = await fetch_all(connection, _SELECT_FORKABLE, values)
    ended_by = {row[0]: row[-1] for row in found if row[-1] is not None}
    return {row[0]: decode_fact_row(row[:-1]) for row in found}, ended_by


async def insert_ended_facts(
    connection: Connection, conversation_id: int, facts: Sequence[EndedFact]
) -> None:
    """Write the rows of a fork or of a copy."""
    await _insert(connection, conversation_id, [fact.row for fact in facts])
    ended = [(fact.row.number, fact.ended_by) for fact in facts if fact.ended_by is not None]
    await _end(connection, conversation_id, ended)


async def _insert(connection: Connection, conversation_id: int, rows: Sequence[FactRow]) -> None:
    columns = {name: [getattr(row, name) for row in rows] for name in FACT_COLUMNS}
    columns["text"] = [encode_text(row.text) for row in rows]
    if rows:
        await connection.execute(_INSERT, (conversation_id, *columns.values()))


async def _end(connection: Connection, conversation_id: int, ended: Sequence[tuple[int, int]]) -> None:
    """Mark facts as ended by rows."""
    if ended:
        numbers, ends = ([*column] for column in zip(*ended, strict=True))
        await connection.execute(_END, (numbers, ends, conversation_id))
