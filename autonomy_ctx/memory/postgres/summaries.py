"""The SQL of summaries, pins and facts: what one transaction does to their rows, and how they are read."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from autonomy_ctx.errors import NotPinned
from autonomy_ctx.language.fact import Fact, FactChange
from autonomy_ctx.memory.encoding import (
    SEGMENT_COLUMNS,
    UnreadableRow,
    decode_entry,
    decode_segment,
    make_pin,
)
from autonomy_ctx.memory.facts import decode_fact_row, make_fact, replaces_fact_of_user
from autonomy_ctx.memory.postgres import facts as fact_rows
from autonomy_ctx.memory.postgres.connection import Connection, fetch_all, fetch_one
from autonomy_ctx.memory.postgres.leases import is_leased
from autonomy_ctx.memory.postgres.log import (
    MESSAGES_OF_CONVERSATION,
    ensure_conversation,
    find_conversation,
    find_conversation_ids,
    index_text,
    key_digest,
)
from autonomy_ctx.memory.postgres.records import end_quotes
from autonomy_ctx.memory.postgres.segments import insert_segment, read_active_segments
from autonomy_ctx.memory.rows import REPLACED_BY_UNDO
from autonomy_ctx.memory.store import Head, Key, PinSource, StoredSegment, SummaryState, segment_replacement

# Everything in one statement: one round trip, and one snapshot.
_SELECT_SUMMARY = f"""
    SELECT c.head, c.count, c.generation, c.last_user, c.revision,
        (SELECT json_agg(json_build_array({", ".join(SEGMENT_COLUMNS)}) ORDER BY first)::text
         FROM autonomy_ctx.segment WHERE conversation_id = c.id AND replaced_by IS NULL),
        (SELECT json_agg(json_build_array(
             p.pinned_at, p.source,
             m.position, coalesce(m.long_id, m.id), m.created, m.tokens, m.counter, m.body
         ) ORDER BY m.position)::text
         FROM autonomy_ctx.pin p
         LEFT JOIN autonomy_ctx.shared_range r
             ON r.conversation_id = p.conversation_id AND p.position BETWEEN r.first AND r.last
         JOIN autonomy_ctx.message m
             ON m.conversation_id = coalesce(r.source_id, p.conversation_id) AND m.position = p.position
         WHERE p.conversation_id = c.id),
        (SELECT json_agg(json_build_array({fact_rows.COLUMNS_OF_FACT}) ORDER BY h.number)::text
         FROM autonomy_ctx.fact h
         JOIN autonomy_ctx.fact f ON f.conversation_id = h.conversation_id AND f.number = h.target
         WHERE h.conversation_id = c.id AND h.ended_by IS NULL AND NOT h.is_done),
        (SELECT json_agg(json_build_array({fact_rows.COLUMNS_OF_FACT}) ORDER BY f.number)::text
         FROM autonomy_ctx.fact f
         WHERE f.conversation_id = c.id AND f.ended_by IS NULL AND NOT f.is_done)
    FROM autonomy_ctx.conversation c WHERE c.key = %s
"""  # noqa: S608  # our names
_SELECT_POSITION = f"SELECT m.position FROM {MESSAGES_OF_CONVERSATION} WHERE c.id = %s AND m.id = %s"  # noqa: S608

# A pin of a user belongs to the user, also if a model has pinned the message before.
_INSERT_PIN = """
    INSERT INTO autonomy_ctx.pin AS p (conversation_id, position, pinned_at, source)
    VALUES (%s, %s, autonomy_ctx.now_seconds(), %s)
    ON CONFLICT (conversation_id, position) DO UPDATE SET source = 'user'
    WHERE excluded.source = 'user' AND p.source <> 'user'
"""
_DELETE_PIN = "DELETE FROM autonomy_ctx.pin WHERE conversation_id = %s AND position = %s"


async def read_summary(connection: Connection, key: Key) -> SummaryState:
    """The current segments, the pins and the facts, in one snapshot."""
    found = await fetch_one(connection, _SELECT_SUMMARY, (key_digest(key),))
    if found is None:
        return SummaryState(Head())
    segments, pins, replaced, holding = map(_load_rows, found[5:])
    facts = [make_fact(decode_fact_row(row), "replaced") for row in replaced]
    facts += [make_fact(decode_fact_row(row), "holds") for row in holding]
    return SummaryState(
        Head(*found[:5]),
        tuple(decode_segment(row) for row in segments),
        tuple(make_pin(decode_entry(*row), pinned_at, source) for pinned_at, source, *row in pins),
        tuple(facts),
    )


def _load_rows(text: str | None) -> list[Any]:
    try:
        rows: list[Any] = [] if text is None else json.loads(text)
    except ValueError:
        # Without the cause, which might quote a user's text.
        raise UnreadableRow("the rows of a summary cannot be read") from None
    return rows


async def commit_segment(
    connection: Connection,
    key: Key,
    segment: StoredSegment,
    merged: StoredSegment | None,
    generation: int,
    fence: int | None,
    facts: Sequence[FactChange] | None,
) -> bool:
    """Store a segment and its facts as current, then a merge; nothing if the segment no longer fits."""
    found = await find_conversation(connection, key, lock=True)
    if found is None or found[1].generation != generation:
        return False
    conversation_id, head = found
    if fence is not None and not await is_leased(connection, conversation_id, fence):
        return False
    number = await _store_segment(connection, conversation_id, head, segment)
    if number is None:
        return False
    if merged is not None:
        await _store_segment(connection, conversation_id, head, merged)
    if facts is not None:
        dropped = await fact_rows.drop_covered_facts(connection, conversation_id, segment.first, segment.last)
        await fact_rows.write_facts(connection, conversation_id, facts, segment=number, dropped=dropped)
    await _increment_revision(connection, conversation_id, new_generation=False)
    return True


async def _store_segment(
    connection: Connection, conversation_id: int, head: Head, segment: StoredSegment
) -> int | None:
    """Store a segment as current, and return its number; None if it does not fit."""
    active = await read_active_segments(connection, conversation_id)
    swap = segment_replacement(active, segment, head.position)
    if swap is None:
        return None
    [(now,)] = await fetch_all(connection, "SELECT autonomy_ctx.now_seconds()")
    new, *rests = (replace(one, generation=head.generation) for one in swap.added)
    number = await insert_segment(connection, conversation_id, replace(new, created=now), None)
    for rest in rests:
        await insert_segment(connection, conversation_id, rest, number)
    if swap.removed:
        await connection.execute(
            "UPDATE autonomy_ctx.segment SET replaced_by = %s WHERE number = ANY(%s)",
            (number, [one.number for one in swap.removed]),
        )
    return number


async def undo_segment(connection: Connection, key: Key) -> bool:
    """Take back the newest commit; false when there is none."""
    found = await find_conversation(connection, key, lock=True)
    if found is None:
        return False
    conversation_id = found[0]
    [(number,)] = await fetch_all(
        connection,
        "SELECT max(number) FROM autonomy_ctx.segment "
        "WHERE conversation_id = %s AND replaced_by IS NULL AND rest_of IS NULL",
        (conversation_id,),
    )
    if number is None:
        return False
    meant = (conversation_id, number)
    await connection.execute(
        "DELETE FROM autonomy_ctx.segment WHERE conversation_id = %s AND rest_of = %s", meant
    )
    await connection.execute(
        "UPDATE autonomy_ctx.segment SET replaced_by = NULL WHERE conversation_id = %s AND replaced_by = %s",
        meant,
    )
    await connection.execute(
        "UPDATE autonomy_ctx.segment SET replaced_by = %s WHERE number = %s", (REPLACED_BY_UNDO, number)
    )
    await fact_rows.drop_facts(connection, conversation_id, fact_rows.DROP_OF_SEGMENT, number)
    await _increment_revision(connection, conversation_id, new_generation=True)
    return True


async def drop_segments(
    connection: Connection, scope: str, agent: str | None, conversation: str | None
) -> int:
    """Delete all segments and due work, and return how many segments were current."""
    in_force = 0
    for conversation_id in await find_conversation_ids(connection, scope, agent, conversation, lock=True):
        meant = (conversation_id,)
        await connection.execute("DELETE FROM autonomy_ctx.work WHERE conversation_id = %s", meant)
        rows = await fetch_all(
            connection,
            "DELETE FROM autonomy_ctx.segment WHERE conversation_id = %s RETURNING replaced_by IS NULL",
            meant,
        )
        segments = [is_active for (is_active,) in rows]
        in_force += sum(segments)
        facts = await fact_rows.drop_facts(connection, conversation_id, fact_rows.DROP_ALL)
        if segments or facts:
            await _increment_revision(connection, conversation_id, new_generation=True)
    return in_force


async def pin(
    connection: Connection, key: Key, message_id: str, pinned: bool, replaces: str | None, source: PinSource
) -> bool:
    """Pin a message, optionally instead of another, or unpin it; false if there is no such message."""
    found = await find_conversation(connection, key, lock=True)
    if found is None:
        return False
    conversation_id = found[0]

    async def find(one: str) -> int | None:
        row = await fetch_one(connection, _SELECT_POSITION, (conversation_id, index_text(one)))
        return None if row is None else int(row[0])

    position = await find(message_id)
    if position is None:
        return False
    changed = 0
    if replaces is not None:
        before = await find(replaces)
        if before is not None:
            changed = (await connection.execute(_DELETE_PIN, (conversation_id, before))).rowcount
        if not changed:
            raise NotPinned(replaces)
    if pinned:
        changed += (await connection.execute(_INSERT_PIN, (conversation_id, position, source))).rowcount
    else:
        changed += (await connection.execute(_DELETE_PIN, (conversation_id, position))).rowcount
    if changed:
        await _increment_revision(connection, conversation_id, new_generation=False)
    return True


async def read_facts(connection: Connection, key: Key) -> list[Fact]:
    """Every fact that is kept of a conversation."""
    found = await find_conversation(connection, key)
    return [] if found is None else await fact_rows.read_all_facts(connection, found[0])


async def write_facts(
    connection: Connection, key: Key, changes: Sequence[FactChange], generation: int | None
) -> list[Fact]:
    """Make changes without a segment; the facts that they add."""
    conversation_id, head = await ensure_conversation(connection, key)
    if generation not in (None, head.generation):
        return []
    found = await fact_rows.write_facts(connection, conversation_id, changes)
    if replaces_fact_of_user(changes):
        await end_quotes(connection, conversation_id)
    await _increment_revision(connection, conversation_id, new_generation=False)
    return found


async def remove_fact(connection: Connection, key: Key, number: int) -> bool:
    """Forget a fact that holds; false when none has the number."""
    found = await find_conversation(connection, key, lock=True)
    if found is None or not await fact_rows.remove_fact(connection, found[0], number):
        return False
    await end_quotes(connection, found[0])
    await _increment_revision(connection, found[0], new_generation=False)
    return True


async def _increment_revision(connection: Connection, conversation_id: int, *, new_generation: bool) -> None:
    await connection.execute(
        "UPDATE autonomy_ctx.conversation SET revision = revision + 1, generation = generation + %s "
        "WHERE id = %s",
        (int(new_generation), conversation_id),
    )
