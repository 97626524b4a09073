"""The SQL of copying: conversations row by row, out of a database and into one."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

from autonomy_ctx.memory.encoding import UnreadableRow, encode_text
from autonomy_ctx.memory.postgres.connection import Connection, fetch_all
from autonomy_ctx.memory.postgres.facts import insert_ended_facts, read_fact_rows
from autonomy_ctx.memory.postgres.log import ensure_conversation, find_conversation, index_text, key_digest
from autonomy_ctx.memory.postgres.segments import insert_segment, read_all_segments
from autonomy_ctx.memory.store import Head, Key, PinRow
from autonomy_ctx.memory.transfer import (
    ConversationCopy,
    MessageRow,
    RangeCopy,
    RecordCopy,
    SegmentCopy,
    renumber,
)

_COUNT = "SELECT count(*) FROM autonomy_ctx.conversation WHERE %s::text IS NULL OR scope = %s"
_SELECT_KEYS = """
    SELECT id, agent, scope, conversation FROM autonomy_ctx.conversation
    WHERE id > %s AND (%s::text IS NULL OR scope = %s) ORDER BY id LIMIT %s
"""
_SELECT_LAST_POSITION = """
    SELECT coalesce(max(m.position), 0) FROM autonomy_ctx.conversation c
    JOIN autonomy_ctx.message m ON m.conversation_id = c.id WHERE c.key = %s
"""
_SELECT_MESSAGES = """
    SELECT m.position, coalesce(m.long_id, m.id), m.created, m.is_user, m.tokens, m.counter, m.size, m.body,
           w.body
    FROM autonomy_ctx.conversation c JOIN autonomy_ctx.message m ON m.conversation_id = c.id
    LEFT JOIN autonomy_ctx.whole w ON w.conversation_id = m.conversation_id AND w.position = m.position
    WHERE c.key = %s AND m.position > %s AND m.position <= %s ORDER BY m.position LIMIT %s
"""
# The statements of one copy see one snapshot. It is that of the transaction: nothing is set for a session.
_BEGIN_SNAPSHOT = "BEGIN ISOLATION LEVEL REPEATABLE READ, READ ONLY"
_SELECT_RANGES = """
    SELECT s.agent, s.scope, s.conversation, r.first, r.last FROM autonomy_ctx.shared_range r
    JOIN autonomy_ctx.conversation s ON s.id = r.source_id WHERE r.conversation_id = %s ORDER BY r.first
"""
_SELECT_RECORDS = """
    SELECT number, kind, coalesce(long_name, name), at, derived, body,
           EXISTS (SELECT 1 FROM autonomy_ctx.record_ref f WHERE f.number = r.number)
    FROM autonomy_ctx.record r WHERE conversation_id = %s ORDER BY number
"""
_INSERT_MESSAGES = """
    INSERT INTO autonomy_ctx.message
        (conversation_id, position, id, long_id, created, is_user, tokens, counter, size, body)
    SELECT %s, * FROM unnest(%s::int8[], %s::text[], %s::text[], %s::int8[], %s::bool[], %s::int8[],
        %s::text[], %s::int8[], %s::text[])
"""
_INSERT_WHOLES = """
    INSERT INTO autonomy_ctx.whole (conversation_id, position, body)
    SELECT %s, * FROM unnest(%s::int8[], %s::text[])
"""
# Positions that it had before its messages were deleted are used again: what was read of it is void, and
# the search index begins anew there.
_MOVE_HEAD = """
    UPDATE autonomy_ctx.conversation
    SET generation = greatest(generation, %(generation)s) + (head >= %(first)s)::int,
        head = greatest(head, %(last)s), count = count + %(number)s,
        last_user = greatest(last_user, %(last_user)s), has_messages = true
    WHERE id = %(id)s
"""
_MOVE_PROGRESS = """
    UPDATE autonomy_ctx.search_progress SET indexed = %(first)s - 1
    WHERE conversation_id = %(id)s AND indexed >= %(first)s
"""
_INSERT_SOURCE = """
    INSERT INTO autonomy_ctx.conversation (key, agent, scope, conversation) VALUES (%s, %s, %s, %s)
    ON CONFLICT (key) DO NOTHING
"""
_INSERT_RANGES = """
    INSERT INTO autonomy_ctx.shared_range (conversation_id, source_id, first, last)
    SELECT %s, s.id, r.first, r.last
    FROM unnest(%s::bytea[], %s::int8[], %s::int8[]) AS r (key, first, last)
    JOIN autonomy_ctx.conversation s ON s.key = r.key
"""
_UPDATE_SEGMENTS = """
    UPDATE autonomy_ctx.segment s SET replaced_by = d.replaced_by, rest_of = d.rest_of
    FROM unnest(%s::int8[], %s::int8[], %s::int8[]) AS d (number, replaced_by, rest_of)
    WHERE s.number = d.number
"""
_SELECT_PINS = """
    SELECT position, pinned_at, source FROM autonomy_ctx.pin WHERE conversation_id = %s ORDER BY position
"""
_INSERT_PINS = """
    INSERT INTO autonomy_ctx.pin (conversation_id, position, pinned_at, source)
    SELECT %s, position, pinned_at, source
    FROM unnest(%s::int8[], %s::float8[], %s::text[]) AS given (position, pinned_at, source)
"""
_INSERT_RECORDS = """
    WITH given AS MATERIALIZED (
        SELECT nextval('autonomy_ctx.record_number') AS number, ordered.*
        FROM (SELECT * FROM unnest(%s::text[], %s::text[], %s::text[], %s::float8[], %s::bool[], %s::text[],
            %s::bool[]) WITH ORDINALITY AS d (kind, name, long_name, at, derived, body, quotes, place)
            ORDER BY place) ordered
    ), quoting AS (
        INSERT INTO autonomy_ctx.record_ref (conversation_id, position, number)
        SELECT 0, 0, number FROM given WHERE quotes
    )
    INSERT INTO autonomy_ctx.record (number, conversation_id, kind, name, long_name, at, derived, body)
    SELECT number, %s, kind, name, long_name, at, derived, body FROM given
"""
_UPDATE_CONVERSATION = """
    UPDATE autonomy_ctx.conversation
    SET head = %(head)s, count = %(count)s, generation = greatest(generation, %(generation)s),
        last_user = %(last_user)s, revision = greatest(revision + 1, %(revision)s),
        last_fact = %(last_fact)s, is_fork = %(is_fork)s, has_messages = %(count)s > 0
    WHERE id = %(id)s
"""


async def count_conversations(connection: Connection, scope: str | None) -> int:
    """Count the conversations, also those without messages."""
    [(number,)] = await fetch_all(connection, _COUNT, (scope, scope))
    return int(number)


async def export_keys(
    connection: Connection, scope: str | None, after: int, limit: int
) -> list[tuple[int, Key]]:
    """The next conversations after a number, in the order they were made."""
    rows = await fetch_all(connection, _SELECT_KEYS, (after, scope, scope, limit))
    return [(number, Key(*names)) for number, *names in rows]


async def last_own_position(connection: Connection, key: Key) -> int:
    """The position of the newest message of a conversation's own; 0 when it has none."""
    [(position,)] = await fetch_all(connection, _SELECT_LAST_POSITION, (key_digest(key),))
    return int(position)


async def export_messages(
    connection: Connection, key: Key, after: int, last: int, limit: int
) -> list[MessageRow]:
    """The next messages of a conversation's own."""
    rows = await fetch_all(connection, _SELECT_MESSAGES, (key_digest(key), after, last, limit))
    return [MessageRow(*row) for row in rows]


async def export_conversation(connection: Connection, key: Key) -> ConversationCopy:
    """All of a conversation but its messages, in one snapshot."""
    await connection.execute(_BEGIN_SNAPSHOT)
    copy = await _read_conversation(connection, key)
    await connection.execute("COMMIT")
    return copy


async def _read_conversation(connection: Connection, key: Key) -> ConversationCopy:
    found = await find_conversation(connection, key)
    if found is None:
        return ConversationCopy(Head())
    conversation_id, head = found

    async def select(statement: str) -> list[Any]:
        return await fetch_all(connection, statement, (conversation_id,))

    [(last_fact,)] = await select("SELECT last_fact FROM autonomy_ctx.conversation WHERE id = %s")
    pins = await select(_SELECT_PINS)
    return ConversationCopy(
        head,
        last_fact,
        tuple(RangeCopy(Key(*names), first, last) for *names, first, last in await select(_SELECT_RANGES)),
        tuple(SegmentCopy(*row) for row in await read_all_segments(connection, conversation_id)),
        tuple(await read_fact_rows(connection, conversation_id)),
        tuple(PinRow(*row) for row in pins),
        tuple(_decode_record(*row) for row in await select(_SELECT_RECORDS)),
    )


def _decode_record(
    number: int, kind: str, name: str, at: float, derived: bool, body: str, quotes: bool
) -> RecordCopy:
    try:
        return RecordCopy(kind, name, at, derived, json.loads(body), quotes)
    except ValueError:
        # Without the cause, which might quote a user's text.
        raise UnreadableRow(f"the record with number {number} cannot be read") from None


async def import_messages(
    connection: Connection, key: Key, rows: Sequence[MessageRow], generation: int
) -> None:
    """Store messages at their positions; the head follows them."""
    conversation_id, _ = await ensure_conversation(connection, key)
    positions, ids, *others = zip(*(row[:-1] for row in rows), strict=True)
    columns = [positions, *_index_columns(ids), *others]
    await connection.execute(_INSERT_MESSAGES, (conversation_id, *([*column] for column in columns)))
    if large := [(row.position, row.whole) for row in rows if row.whole is not None]:
        places, bodies = zip(*large, strict=True)
        await connection.execute(_INSERT_WHOLES, (conversation_id, [*places], [*bodies]))
    values = {
        "id": conversation_id,
        "generation": generation,
        "first": rows[0].position,
        "last": rows[-1].position,
        "number": len(rows),
        "last_user": max((row.position for row in rows if row.is_user), default=0),
    }
    await connection.execute(_MOVE_HEAD, values)
    await connection.execute(_MOVE_PROGRESS, values)


async def import_conversation(connection: Connection, key: Key, copy: ConversationCopy) -> None:
    """Replace all data of a conversation except its messages."""
    conversation_id, _ = await ensure_conversation(connection, key)
    for table in ("segment", "fact", "pin", "record", "shared_range"):
        await connection.execute(
            f"DELETE FROM autonomy_ctx.{table} WHERE conversation_id = %s",  # noqa: S608  # our names
            (conversation_id,),
        )
    await _import_ranges(connection, conversation_id, copy.ranges)
    numbers = await _import_segments(connection, conversation_id, copy.segments)
    facts = [
        fact._replace(row=fact.row._replace(segment=numbers.get(fact.row.segment, fact.row.segment and -1)))
        for fact in copy.facts
    ]
    await insert_ended_facts(connection, conversation_id, facts)
    columns = [[pin[at] for pin in copy.pins] for at in range(len(PinRow._fields))]
    await connection.execute(_INSERT_PINS, (conversation_id, *columns))
    await _import_records(connection, conversation_id, copy.records)
    head = copy.head
    values = {
        "id": conversation_id,
        "head": head.position,
        "count": head.count,
        "generation": head.generation,
        "last_user": head.last_user,
        "revision": head.revision,
        "last_fact": copy.last_fact,
        "is_fork": bool(copy.ranges),
    }
    await connection.execute(_UPDATE_CONVERSATION, values)


async def _import_ranges(connection: Connection, conversation_id: int, ranges: Sequence[RangeCopy]) -> None:
    for source in dict.fromkeys(one.source for one in ranges):
        await connection.execute(_INSERT_SOURCE, (key_digest(source), *source))
    keys = [key_digest(one.source) for one in ranges]
    columns = (keys, [one.first for one in ranges], [one.last for one in ranges])
    await connection.execute(_INSERT_RANGES, (conversation_id, *columns))


async def _import_segments(
    connection: Connection, conversation_id: int, segments: Sequence[SegmentCopy]
) -> dict[int, int]:
    """The numbers that segments have here, by those they had."""
    numbers = {
        one.segment.number: await insert_segment(connection, conversation_id, one.segment, None)
        for one in segments
    }
    replaced_by = [renumber(one.replaced_by, numbers) for one in segments]
    rest_of = [renumber(one.rest_of, numbers) for one in segments]
    await connection.execute(_UPDATE_SEGMENTS, ([*numbers.values()], replaced_by, rest_of))
    return numbers


async def _import_records(
    connection: Connection, conversation_id: int, records: Sequence[RecordCopy]
) -> None:
    names, long_names = _index_columns([one.name for one in records])
    columns = [
        [one.kind for one in records],
        names,
        long_names,
        [one.at for one in records],
        [one.derived for one in records],
        [encode_text(one.body) for one in records],
        [one.quotes for one in records],
    ]
    await connection.execute(_INSERT_RECORDS, (*columns, conversation_id))


def _index_columns(texts: Sequence[str]) -> tuple[list[str], list[str | None]]:
    """Texts as they are in an index, and those that do not fit into one."""
    indexed = [index_text(text) for text in texts]
    return indexed, [None if one == text else text for one, text in zip(indexed, texts, strict=True)]
