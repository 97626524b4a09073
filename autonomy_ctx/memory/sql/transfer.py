"""The scripts of copying: conversations row by row, out of a database and into one."""

from __future__ import annotations

import json
from collections.abc import Sequence

from autonomy_ctx.memory.encoding import MessageRow, UnreadableRow, encode_text
from autonomy_ctx.memory.sql.facts import insert_ended_facts, read_fact_rows, read_last_fact
from autonomy_ctx.memory.sql.forks import SharedRange, insert_ranges
from autonomy_ctx.memory.sql.log import MESSAGE_ID, ensure_conversation, find_conversation
from autonomy_ctx.memory.sql.query import load_queries
from autonomy_ctx.memory.sql.segments import insert_segments, link_segments, read_all_segments
from autonomy_ctx.memory.sql.session import Session
from autonomy_ctx.memory.store import Head, Key
from autonomy_ctx.memory.transfer import (
    ConversationCopy,
    PinRow,
    RangeCopy,
    RecordCopy,
    SegmentCopy,
    renumber,
)

_QUERIES = load_queries(
    "transfer",
    message_id=MESSAGE_ID,
    record_name="{sqlite: name}{postgres: coalesce(long_name, name)}",
    greatest="{sqlite: max}{postgres: greatest}",
)


async def count_conversations(session: Session, scope: str | None) -> int:
    """Count the conversations, also those without messages."""
    [(number,)] = await session.fetch(_QUERIES["count"], scope=scope)
    return int(number)


async def export_keys(session: Session, scope: str | None, after: int, limit: int) -> list[tuple[int, Key]]:
    """The next conversations after a number, in the order they were made."""
    rows = await session.fetch(_QUERIES["select_keys"], scope=scope, after=after, limit=limit)
    return [(number, Key(*names)) for number, *names in rows]


async def last_own_position(session: Session, key: Key) -> int:
    """The position of the newest message of a conversation's own; 0 when it has none."""
    [(position,)] = await session.fetch(_QUERIES["select_last_position"], **session.key_values(key))
    return int(position)


async def export_messages(session: Session, key: Key, after: int, last: int, limit: int) -> list[MessageRow]:
    """The next messages of a conversation's own."""
    values = {**session.key_values(key), "after": after, "last": last, "limit": limit}
    rows = await session.fetch(_QUERIES["select_messages"], **values)
    return [MessageRow(*row)._replace(is_user=bool(row[3])) for row in rows]


async def export_conversation(session: Session, key: Key) -> ConversationCopy:
    """All of a conversation but its messages."""
    found = await find_conversation(session, key)
    if found is None:
        return ConversationCopy(Head())
    conversation_id, head = found
    ranges = await session.fetch(_QUERIES["select_ranges"], id=conversation_id)
    pins = await session.fetch(_QUERIES["select_pins"], id=conversation_id)
    records = await session.fetch(_QUERIES["select_records"], id=conversation_id)
    return ConversationCopy(
        head,
        await read_last_fact(session, conversation_id),
        tuple(RangeCopy(Key(*names), first, last) for *names, first, last in ranges),
        tuple(SegmentCopy(*row) for row in await read_all_segments(session, conversation_id)),
        tuple(await read_fact_rows(session, conversation_id)),
        tuple(PinRow(*row) for row in pins),
        tuple(_decode_record(*row) for row in records),
    )


def _decode_record(
    kind: str, name: str, at: float, derived: bool, body: str, quotes: bool, number: int
) -> RecordCopy:
    try:
        return RecordCopy(kind, name, at, bool(derived), json.loads(body), bool(quotes))
    except ValueError:
        # Without the cause, which might quote a user's text.
        raise UnreadableRow(f"the record with number {number} cannot be read") from None


async def import_messages(session: Session, key: Key, rows: Sequence[MessageRow], generation: int) -> None:
    """Store messages at their positions; the head follows them."""
    conversation_id, _ = await ensure_conversation(session, key)
    *columns, wholes = map(list, zip(*rows, strict=True))
    named = dict(zip(MessageRow._fields, columns, strict=False))
    await session.insert("message", {"conversation_id": conversation_id, **named})
    if any(wholes):
        large = [row for row in rows if row.whole is not None]
        places, bodies = [row.position for row in large], [row.whole for row in large]
        await session.insert(
            "whole", {"conversation_id": conversation_id, "position": places, "body": bodies}
        )
    session.note_appended(len(rows))
    values = {
        "id": conversation_id,
        "generation": generation,
        "first": rows[0].position,
        "last": rows[-1].position,
        "number": len(rows),
        "last_user": max((row.position for row in rows if row.is_user), default=0),
    }
    await session.execute(_QUERIES["move_head"], **values)
    await session.execute(_QUERIES["rewind_index"], id=conversation_id, first=rows[0].position)


async def import_conversation(session: Session, key: Key, copy: ConversationCopy) -> None:
    """Replace all data of a conversation except its messages."""
    conversation_id, _ = await ensure_conversation(session, key)
    for name in ("delete_segments", "delete_facts", "delete_pins", "delete_records", "delete_ranges"):
        await session.execute(_QUERIES[name], id=conversation_id)
    sources = {one.source: (await ensure_conversation(session, one.source))[0] for one in copy.ranges}
    ranges = [SharedRange(sources[one.source], one.first, one.last) for one in copy.ranges]
    await insert_ranges(session, conversation_id, ranges)
    numbers = await _import_segments(session, conversation_id, copy.segments)
    facts = [
        fact._replace(row=fact.row._replace(segment=numbers.get(fact.row.segment, fact.row.segment and -1)))
        for fact in copy.facts
    ]
    await insert_ended_facts(session, conversation_id, facts)
    if copy.pins:
        columns = {name: [pin[place] for pin in copy.pins] for place, name in enumerate(PinRow._fields)}
        await session.insert("pin", {"conversation_id": conversation_id, **columns})
    await _import_records(session, conversation_id, copy.records)
    await session.execute(
        _QUERIES["update_conversation"],
        id=conversation_id,
        head=copy.head.position,
        count=copy.head.count,
        generation=copy.head.generation,
        last_user=copy.head.last_user,
        revision=copy.head.revision,
        last_fact=copy.last_fact,
        is_fork=bool(copy.ranges),
    )
    session.note_deletion()


async def _import_segments(
    session: Session, conversation_id: int, segments: Sequence[SegmentCopy]
) -> dict[int, int]:
    """The numbers that segments have here, by those they had."""
    made = await insert_segments(session, conversation_id, [one.segment for one in segments])
    numbers = {one.segment.number: number for one, number in zip(segments, made, strict=True)}
    links = [
        (numbers[one.segment.number], renumber(one.replaced_by, numbers), renumber(one.rest_of, numbers))
        for one in segments
    ]
    await link_segments(session, links)
    return numbers


async def _import_records(session: Session, conversation_id: int, records: Sequence[RecordCopy]) -> None:
    if not records:
        return
    bodies = [encode_text(one.body) for one in records]
    columns = {
        "conversation_id": conversation_id,
        "kind": [one.kind for one in records],
        "name": [one.name for one in records],
        "at": [one.at for one in records],
        "derived": [one.derived for one in records],
        "size": [len(body.encode()) for body in bodies],
        "body": bodies,
    }
    numbers = await session.insert("record", columns, returning="number")
    if quoting := [number for one, number in zip(records, numbers, strict=True) if one.quotes]:
        await session.insert("record_ref", {"conversation_id": 0, "position": 0, "number": quoting})
