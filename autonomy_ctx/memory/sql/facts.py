"""The scripts of facts: writing changes, reading facts, and undoing changes."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

from autonomy_ctx.memory.encoding import encode_text
from autonomy_ctx.memory.facts import (
    ENDED_BY_REMOVAL,
    FACT_COLUMNS,
    MAX_ENDED_TEXTS,
    MAX_FACTS_OF_KIND,
    NO_SEGMENT,
    DroppedFacts,
    EndedFact,
    FactRow,
    decode_fact_row,
    ended_state,
    make_active_facts,
    make_ended_texts,
    make_fact,
    make_rows,
    read_fact_index,
)
from autonomy_ctx.memory.sql.query import load_queries
from autonomy_ctx.memory.sql.session import LargeRead, Session
from autonomy_ctx.memory.store import MAX_POSITION, ProfileFact
from autonomy_ctx.messages.fact import FACT_KINDS, EndedText, Fact, FactChange, fact_number

_QUERIES = load_queries(
    "facts",
    columns=", ".join(f"f.{name}" for name in FACT_COLUMNS),
    replaced=", ".join(f"r.{name}" for name in FACT_COLUMNS),
    names=", ".join(FACT_COLUMNS),
    values=":" + ", :".join(FACT_COLUMNS),
    kinds=", ".join(f"('{kind}', {is_own})" for kind in FACT_KINDS for is_own in ("TRUE", "FALSE")),
    most=str(MAX_FACTS_OF_KIND),
    max_ended=str(MAX_ENDED_TEXTS),
    is_fact="{sqlite: f.is_done = 0}{postgres: NOT f.is_done}",
    json_rows="{sqlite: json_group_array(json_array}{postgres: json_agg(json_build_array}",
)
# The facts of a summary. PostgreSQL reads them with the rest of it, in one statement.
NEWEST_FACTS, ENDED_TEXTS = _QUERIES["select_newest"], _QUERIES["select_ended_last"]


async def read_profile_facts(session: Session, agent: str, scope: str) -> list[ProfileFact]:
    """The facts of all conversations of a scope with an agent that hold in all of them, oldest first."""
    rows = await session.fetch(_QUERIES["select_profile"], agent=agent, scope=scope)
    return [ProfileFact(name, make_fact(decode_fact_row(row), "holds")) for name, *row in rows]


async def read_all_facts(session: Session, conversation_id: int) -> list[Fact]:
    """All stored facts in the order of writing, with their states."""
    return [
        make_fact(decode_fact_row(row[:-1]), ended_state(None if row[-1] is None else bool(row[-1])))
        for row in await session.fetch(_QUERIES["select_all"], id=conversation_id)
    ]


async def read_active_facts(session: Session, conversation_id: int) -> tuple[Fact, ...]:
    """The newest facts of each kind that hold, and the ones that they stand for."""
    rows = await session.fetch(NEWEST_FACTS, id=conversation_id)
    if len(rows) > session.read_limit.max_rows:
        raise LargeRead
    return make_active_facts(rows)


async def read_ended_texts(session: Session, conversation_id: int) -> tuple[EndedText, ...]:
    """The facts that ended last."""
    return make_ended_texts(await session.fetch(ENDED_TEXTS, id=conversation_id))


def _ended_fact(row: Sequence[Any]) -> EndedFact:
    return EndedFact(decode_fact_row(row[:-1]), row[-1])


async def write_facts(
    session: Session,
    conversation_id: int,
    changes: Sequence[FactChange],
    *,
    segment: int = NO_SEGMENT,
    dropped: Sequence[EndedFact] = (),
) -> list[Fact]:
    """Make changes, and return the added facts. What they state is compared with the newest facts."""
    if not changes:
        return []
    last = await read_last_fact(session, conversation_id)
    targets = [*(fact_number(change.target) for change in changes), *(fact.row.target for fact in dropped)]
    numbers = session.array([number for number in targets if number is not None])
    [(known,)] = await session.fetch(_QUERIES["select_known"], id=conversation_id, numbers=numbers)
    index = read_fact_index(known)
    before = DroppedFacts(dropped)
    rows = make_rows(index, changes, last=last, segment=segment, dropped=before)
    if rows:
        await _insert_rows(session, conversation_id, rows)
        ended = [(row.target, row.number) for row in rows if row.target is not None]
        await _end_facts(session, conversation_id, [*ended, *before.ends(rows)])
        last = max(last, *(row.number for row in rows))
        await session.execute(_QUERIES["update_last"], id=conversation_id, last=last)
    by_target = {row.target: row.is_done for row in rows}
    return [
        make_fact(row, ended_state(None if row.number not in by_target else not by_target[row.number]))
        for row in rows
        if not row.is_done
    ]


async def read_last_fact(session: Session, conversation_id: int) -> int:
    """The last number given to a fact."""
    [(last,)] = await session.fetch(_QUERIES["select_last"], id=conversation_id)
    return int(last)


async def remove_fact(session: Session, conversation_id: int, number: int) -> bool:
    """Remove a fact that holds. The fact that it replaced does not come back."""
    rows = await session.fetch(_QUERIES["remove"], id=conversation_id, number=number)
    ended = [(target, ENDED_BY_REMOVAL) for (target,) in rows if target is not None]
    await _end_facts(session, conversation_id, ended)
    return bool(rows)


async def drop_facts_of_segment(session: Session, conversation_id: int, segment: int) -> int:
    """Delete the facts that were written with a segment."""
    rows = await session.fetch(_QUERIES["select_of_segment"], id=conversation_id, segment=segment)
    return await _delete_facts(session, conversation_id, [number for (number,) in rows])


async def drop_lost_facts(session: Session, conversation_id: int) -> int:
    """Delete the facts of segments that are gone."""
    rows = await session.fetch(_QUERIES["select_lost"], id=conversation_id)
    return await _delete_facts(session, conversation_id, [number for (number,) in rows])


async def drop_derived_facts(
    session: Session, conversation_id: int, first: int = 0, last: int = MAX_POSITION
) -> list[EndedFact]:
    """Delete the facts of messages in a range that no user wrote, and return them."""
    values = {"id": conversation_id, "first": first, "last": last}
    facts = list(map(_ended_fact, await session.fetch(_QUERIES["select_derived"], **values)))
    await _delete_facts(session, conversation_id, [fact.row.number for fact in facts])
    return facts


async def _delete_facts(session: Session, conversation_id: int, numbers: Sequence[int]) -> int:
    """Delete rows; facts that they ended hold again."""
    if numbers:
        values = {"id": conversation_id, "numbers": session.array(numbers)}
        await session.execute(_QUERIES["restore_ended"], **values)
        await session.execute(_QUERIES["delete"], **values)
    return len(numbers)


async def read_forkable_facts(
    session: Session, conversation_id: int, at: int, covered: int
) -> tuple[dict[int, FactRow], dict[int, int]]:
    """The input of `fork_facts` for a fork at a position: rows by number, and what ended them."""
    found = await session.fetch(_QUERIES["select_forkable"], id=conversation_id, at=at, covered=covered)
    ended_by = {row[0]: row[-1] for row in found if row[-1] is not None}
    return {row[0]: decode_fact_row(row[:-1]) for row in found}, ended_by


async def insert_ended_facts(session: Session, conversation_id: int, facts: Sequence[EndedFact]) -> None:
    """Write the rows of a fork or of a copy."""
    await _insert_rows(session, conversation_id, [fact.row for fact in facts])
    ended = [(fact.row.number, fact.ended_by) for fact in facts if fact.ended_by is not None]
    await _end_facts(session, conversation_id, ended)


async def _insert_rows(session: Session, conversation_id: int, rows: Sequence[FactRow]) -> None:
    values = [{**row._asdict(), "id": conversation_id, "text": encode_text(row.text)} for row in rows]
    await session.execute_many(_QUERIES["insert"], values)


async def _end_facts(session: Session, conversation_id: int, ended: Iterable[tuple[int, int]]) -> None:
    """Mark facts as ended by rows."""
    rows = [{"id": conversation_id, "number": number, "by": by} for number, by in ended]
    if rows:
        await session.execute_many(_QUERIES["end_fact"], rows)
