"""The scripts of copying: conversations row by row, out of a database and into one."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any, TypeAlias

from autonomy_ctx.memory.encoding import REPLACED_BY_UNDO, SEGMENT_COLUMNS, MessageRow, UnreadableRow
from autonomy_ctx.memory.facts import FACT_COLUMNS
from autonomy_ctx.memory.sql.facts import read_last_fact
from autonomy_ctx.memory.sql.forks import SharedRange, insert_ranges
from autonomy_ctx.memory.sql.log import MESSAGE_ID, ensure_conversation, find_conversation, message_values
from autonomy_ctx.memory.sql.query import load_queries
from autonomy_ctx.memory.sql.records import QuotedPlace, insert_quotes, insert_records
from autonomy_ctx.memory.sql.session import Session
from autonomy_ctx.memory.store import Head, Key

# The columns of each table that are copied, in the order of its query.
_COLUMNS = {
    "segment": (*SEGMENT_COLUMNS, "replaced_by", "rest_of"),
    "fact": (*FACT_COLUMNS, "ended_by"),
    "pin": ("position", "pinned_at", "source"),
    # `quotes`: whether it quotes messages. In the target, any message of the scope counts as quoted.
    "record": ("number", "kind", "name", "at", "derived", "body", "quotes"),
    "shared_range": ("agent", "scope", "conversation", "first", "last"),
}
# These are integers in SQLite; and these are JSON strings.
_FLAGS = ("provisional", "is_done", "in_profile", "derived", "quotes")
_TEXTS = ("text", "body")
_NEW_SEGMENT = [name for name in _COLUMNS["segment"] if name != "number"]
_DELETIONS = ("delete_segment", "delete_fact", "delete_pin", "delete_record", "delete_shared_range")
_QUERIES = load_queries(
    "transfer",
    message_id=MESSAGE_ID,
    segment=", ".join(_COLUMNS["segment"]),
    new_segment=", ".join(_NEW_SEGMENT),
    new_segment_values=":" + ", :".join(_NEW_SEGMENT),
    fact=", ".join(_COLUMNS["fact"]),
    fact_values=":" + ", :".join(_COLUMNS["fact"]),
    record_name="{sqlite: name}{postgres: coalesce(long_name, name)}",
    greatest="{sqlite: max}{postgres: greatest}",
)

# A row by columns.
Row: TypeAlias = dict[str, Any]


@dataclass(frozen=True, slots=True)
class ConversationCopy:
    """All of a conversation but its own messages: rows by table, in the order of their numbers."""

    head: Head
    last_fact: int
    tables: Mapping[str, Sequence[Row]]

    def digest(self) -> str:
        """A digest that is equal for equal content: numbers that only name rows do not count."""
        places = {row["number"]: place for place, row in enumerate(self.tables["segment"], start=1)}
        segments = [{**row, "generation": 0} for row in self.renumbered("segment", places)]
        said = (
            (self.head.position, self.head.count, self.head.last_user, self.last_fact),
            *(segments, self.renumbered("fact", places), self.tables["pin"], self.tables["shared_range"]),
            [{**row, "number": 0} for row in self.tables["record"]],
        )
        return hashlib.sha256(repr(said).encode("utf-8", "surrogatepass")).hexdigest()

    def renumbered(self, table: str, numbers: Mapping[int, int]) -> list[Row]:
        """The rows of a table with other numbers of segments; one that has gone counts as taken back."""
        named = ("number", "replaced_by", "rest_of") if table == "segment" else ("segment",)
        return [
            {**row, **{one: row[one] and numbers.get(row[one], REPLACED_BY_UNDO) for one in named}}
            for row in self.tables[table]
        ]


async def count_conversations(session: Session, scope: str | None) -> int:
    """Count the conversations, also those without messages."""
    [(number,)] = await session.fetch(_QUERIES["count"], scope=scope)
    return int(number)


async def export_keys(
    session: Session, scope: str | None, *, after: int, limit: int
) -> list[tuple[int, Key]]:
    """The next conversations after a number, in the order they were made."""
    rows = await session.fetch(_QUERIES["select_keys"], scope=scope, after=after, limit=limit)
    return [(number, Key(*names)) for number, *names in rows]


async def last_own_position(session: Session, key: Key) -> int:
    """The position of the newest message of a conversation's own; 0 when it has none."""
    [(position,)] = await session.fetch(_QUERIES["select_last_position"], **session.key_values(key))
    return int(position)


async def export_messages(
    session: Session, key: Key, *, after: int, last: int, limit: int
) -> list[MessageRow]:
    """The next messages of a conversation's own."""
    values = {**session.key_values(key), "after": after, "last": last, "limit": limit}
    rows = await session.fetch(_QUERIES["select_messages"], **values)
    return [MessageRow(*row)._replace(is_user=bool(row[3])) for row in rows]


async def export_conversation(session: Session, key: Key) -> ConversationCopy:
    """All of a conversation but its messages."""
    found = await find_conversation(session, key)
    if found is None:
        return ConversationCopy(Head(), 0, dict.fromkeys(_COLUMNS, ()))
    conversation_id, head = found
    tables = {
        table: [_read_row(table, row) for row in await session.fetch(_QUERIES[table], id=conversation_id)]
        for table in _COLUMNS
    }
    return ConversationCopy(head, await read_last_fact(session, conversation_id), tables)


def _read_row(table: str, values: Sequence[Any]) -> Row:
    row = dict(zip(_COLUMNS[table], values, strict=True))
    try:
        for name in _TEXTS:
            json.loads(row.get(name, '""'))
    except ValueError:
        # Without the cause, which might quote a user's text.
        raise UnreadableRow(f"the {table} with number {row['number']} cannot be read") from None
    return row | {name: bool(row[name]) for name in _FLAGS if name in row}


async def import_messages(session: Session, key: Key, rows: Sequence[MessageRow], *, generation: int) -> None:
    """Store messages at their positions; the head follows them."""
    conversation_id, _ = await ensure_conversation(session, key)
    values = [message_values(session, conversation_id, row) for row in rows]
    await session.execute_many(_QUERIES["insert_message"], values)
    large = [one for one in values if one["whole"] is not None]
    await session.execute_many(_QUERIES["insert_whole"], large)
    session.note_appended(len(rows))
    head = {
        "generation": generation,
        "first": rows[0].position,
        "last": rows[-1].position,
        "number": len(rows),
        "last_user": max((row.position for row in rows if row.is_user), default=0),
    }
    await session.execute(_QUERIES["move_head"], id=conversation_id, **head)
    await session.execute(_QUERIES["rewind_index"], id=conversation_id, first=rows[0].position)


async def import_conversation(session: Session, key: Key, copy: ConversationCopy) -> None:
    """Replace all data of a conversation except its messages."""
    conversation_id, _ = await ensure_conversation(session, key)
    for name in _DELETIONS:
        await session.execute(_QUERIES[name], id=conversation_id)
    ranges = [
        SharedRange((await ensure_conversation(session, Key(*names)))[0], first, last)
        for *names, first, last in (row.values() for row in copy.tables["shared_range"])
    ]
    await insert_ranges(session, conversation_id, ranges)
    own = {"id": conversation_id}
    segments = [{**row, **own, "replaced_by": None, "rest_of": None} for row in copy.tables["segment"]]
    made = [number for [(number,)] in await session.fetch_each(_QUERIES["insert_segment"], segments)]
    numbers = {row["number"]: number for row, number in zip(segments, made, strict=True)}
    await session.execute_many(_QUERIES["link"], copy.renumbered("segment", numbers))
    facts = [{**row, **own} for row in copy.renumbered("fact", numbers)]
    await session.execute_many(_QUERIES["insert_fact"], facts)
    await session.execute_many(_QUERIES["insert_pin"], [{**row, **own} for row in copy.tables["pin"]])
    records = copy.tables["record"]
    made = await insert_records(session, conversation_id, records)
    quoting = [number for row, number in zip(records, made, strict=True) if row["quotes"]]
    await insert_quotes(session, [QuotedPlace(0, 0)], quoting)
    head = {**asdict(copy.head), "head": copy.head.position, "last_fact": copy.last_fact}
    await session.execute(_QUERIES["update_conversation"], id=conversation_id, is_fork=bool(ranges), **head)
    session.note_deletion()
