"""The scripts of the message log: finding conversations, appending, and finding single messages."""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from dataclasses import replace
from typing import Any, NamedTuple

from autonomy_ctx.errors import ConflictingMessage
from autonomy_ctx.memory.encoding import (
    MessageRow,
    UnreadableRow,
    decode_entry,
    same_content,
    to_microseconds,
)
from autonomy_ctx.memory.sql.query import load_queries
from autonomy_ctx.memory.sql.session import Session
from autonomy_ctx.memory.store import MAX_POSITION, AppendResult, Draft, Head, IndexedMessage, Key
from autonomy_ctx.messages.message import ChatRole

# The messages of a conversation `c` by `m`: of a fork those of its ranges, of any other its own rows. With
# the plus, SQLite does not look for messages by these positions, which are all, but by what else is asked.
MESSAGES = f"""
    @conversation c LEFT JOIN @shared_range r ON r.conversation_id = c.id
    JOIN @message m ON m.conversation_id = coalesce(r.source_id, c.id)
        AND {{sqlite: +}}m.position BETWEEN coalesce(r.first, 1) AND coalesce(r.last, {MAX_POSITION})
"""
MESSAGE_ID = "{sqlite: m.id}{postgres: coalesce(m.long_id, m.id)}"
# The columns of a `Head`, after the number of the conversation.
HEAD = "c.id, c.head, c.count, c.generation, c.last_user, c.revision"
# Pairs of what has messages and a position, as JSON. SQLite begins with them.
PLACES = {
    "places": "{sqlite: json_each(:places)}{postgres: json_array_elements(:places::json)} AS p",
    "place_id": "{sqlite: json_extract(p.value, '$[0]')}{postgres: (p.value ->> 0)}",
    "place_position": "{sqlite: json_extract(p.value, '$[1]')}{postgres: (p.value ->> 1)::int8}",
}
# Names have no NUL, so no two scopes join to the same text.
SCOPE_BYTES = "convert_to(:agent::text, 'UTF8') || '\\x00'::bytea || convert_to(:scope::text, 'UTF8')"
_QUERIES = load_queries(
    "log",
    **PLACES,
    scope_bytes=SCOPE_BYTES,
    head=HEAD,
    messages=MESSAGES,
    messages_by_id=MESSAGES.replace("@message m", "@message m {sqlite: INDEXED BY message_id}"),
    # PostgreSQL would rather read all messages than look for some dozens that it cannot count.
    messages_by_place=MESSAGES.replace("JOIN @message m ON", "{message_by_place}")
    + "{postgres: OFFSET 0) m}",
    message_id=MESSAGE_ID,
)


class LockedLog(NamedTuple):
    """A conversation that is locked for writing: its number, its state, and whether it is a fork."""

    conversation_id: int
    head: Head
    is_fork: bool


class MessagePlace(NamedTuple):
    """The conversation whose row a message is, and its position."""

    conversation_id: int
    position: int


async def find_conversation(session: Session, key: Key, *, lock: bool = False) -> tuple[int, Head] | None:
    """The number of a conversation, and its state; with `lock`, it stays so until the transaction ends."""
    query = _QUERIES["lock" if lock else "find"]
    rows = await session.fetch(query, **session.key_values(key))
    return (rows[0][0], Head(*rows[0][1:])) if rows else None


async def ensure_conversation(session: Session, key: Key) -> tuple[int, Head]:
    """Find a conversation and lock it; a row is made for one that is new."""
    while (found := await find_conversation(session, key, lock=True)) is None:
        await session.execute(_QUERIES["make"], **session.key_values(key))
    return found


async def find_conversation_ids(
    session: Session, scope: str, agent: str | None, conversation: str | None, *, lock: bool = False
) -> list[int]:
    """The numbers of the conversations of a scope, optionally of one agent or one name."""
    if agent is not None and conversation is not None:
        found = await find_conversation(session, Key(agent, scope, conversation), lock=lock)
        return [] if found is None else [found[0]]
    query = _QUERIES["lock_ids" if lock else "find_ids"]
    rows = await session.fetch(query, scope=scope, agent=agent, conversation=conversation)
    return [number for (number,) in rows]


async def append_drafts(session: Session, log: LockedLog, drafts: Sequence[Draft]) -> AppendResult:
    """Store those of the drafts that are new, all or none; the others have the positions of before."""
    conversation_id, head, is_fork = log
    # Of a fork, they may be rows of another conversation; of any other, the index knows them.
    known = await find_messages(session, conversation_id, drafts) if is_fork and drafts else {}
    positions: list[int] = []
    last, last_user = head.position, head.last_user
    for draft in drafts:
        row = make_row(last + 1, draft)
        stored = known.get(row.id)
        if stored is None and not await insert_message(session, conversation_id, row):
            stored = (await find_messages(session, conversation_id, [draft])).get(row.id)
            if stored is None:
                raise UnreadableRow("the head of a conversation contradicts its log")
        if stored is None:
            last += 1
            last_user = last if row.is_user else last_user
        elif not same_content(stored[1], draft.whole or draft.body):
            for name in ("delete_after", "delete_wholes_after"):
                await session.execute(_QUERIES[name], id=conversation_id, position=head.position)
            raise ConflictingMessage(message_id=row.id, position=stored[0])
        positions.append(last if stored is None else stored[0])
    if number := last - head.position:
        values = {"head": last, "number": number, "last_user": last_user}
        await session.execute(_QUERIES["move_head"], id=conversation_id, **values)
        if not head.count:
            await session.execute(_QUERIES["note_first"], id=conversation_id)
        session.note_appended(number)
    return AppendResult(
        positions, replace(head, position=last, count=head.count + number, last_user=last_user)
    )


async def lock_log(session: Session, key: Key) -> LockedLog:
    """Find a conversation and lock it; a row is made for one that is new."""
    while not (rows := await session.fetch(_QUERIES["lock_log"], **session.key_values(key))):
        await ensure_conversation(session, key)
    return LockedLog(rows[0][0], Head(*rows[0][1:6]), bool(rows[0][6]))


async def insert_message(session: Session, conversation_id: int, row: MessageRow) -> bool:
    """Store a message at its position; false if its id is there already, or the position is not free."""
    values = message_values(session, conversation_id, row)
    if not await session.execute(_QUERIES["insert_message"], **values):
        return False
    if row.whole is not None:
        await session.execute(_QUERIES["insert_whole"], **values)
    return True


def message_values(session: Session, conversation_id: int, row: MessageRow) -> dict[str, Any]:
    """The values of a new row."""
    return {**row._asdict(), **indexed_text(session, "id", row.id), "conversation_id": conversation_id}


def indexed_text(session: Session, column: str, text: str) -> dict[str, str | None]:
    """The values of a column that is in an index, and of the one that has all of a long text."""
    indexed = session.index_text(text)
    return {column: indexed, f"long_{column}": None if indexed == text else text}


def make_row(position: int, draft: Draft) -> MessageRow:
    """The row of a draft at a position."""
    message = draft.message
    return MessageRow(
        position,
        message.id,
        to_microseconds(message.created_at),
        message.role is ChatRole.USER,
        draft.tokens,
        draft.counter,
        draft.size,
        draft.body,
        draft.whole,
    )


async def find_messages(
    session: Session, conversation_id: int, drafts: Sequence[Draft]
) -> dict[str, tuple[int, str]]:
    """Positions and uncut bodies of those drafts that are stored, by id."""
    ids = [session.index_text(draft.message.id) for draft in drafts]
    if len(ids) == 1:
        rows = await session.fetch(_QUERIES["find_message"], id=conversation_id, message_id=ids[0])
    else:
        rows = await session.fetch(_QUERIES["find_messages"], id=conversation_id, ids=session.array(ids))
    return {message_id: (position, body) for message_id, position, body in rows}


async def is_stored(session: Session, conversation_id: int, drafts: Sequence[Draft]) -> bool:
    """True when all drafts are in the log already."""
    known = await find_messages(session, conversation_id, drafts)
    return all(
        draft.message.id in known and same_content(known[draft.message.id][1], draft.whole or draft.body)
        for draft in drafts
    )


async def find_place(session: Session, conversation_id: int, message_id: str) -> MessagePlace | None:
    """Where a message of a conversation is kept."""
    return next(iter(await find_places(session, [conversation_id], [message_id])), None)


async def find_places(
    session: Session, conversation_ids: Sequence[int], message_ids: Sequence[str]
) -> list[MessagePlace]:
    """Where messages of conversations are kept, each once."""
    indexed = [session.index_text(message_id) for message_id in message_ids]
    values = [{"id": one, "message_id": message_id} for one in conversation_ids for message_id in indexed]
    answers = await session.fetch_each(_QUERIES["find_place"], values)
    return list(dict.fromkeys(MessagePlace(*row) for rows in answers for row in rows))


async def read_head(session: Session, key: Key) -> Head:
    """The state of a conversation."""
    found = await find_conversation(session, key)
    return Head() if found is None else found[1]


async def read_full_text(session: Session, key: Key, message_id: str) -> str | None:
    """The uncut body of a message that was too large for the log."""
    values = {**session.key_values(key), "message_id": session.index_text(message_id)}
    rows = await session.fetch(_QUERIES["select_whole"], **values)
    return str(rows[0][0]) if rows else None


async def read_indexed(
    session: Session, agent: str, scope: str, places: Iterable[tuple[str, int]]
) -> list[IndexedMessage]:
    """The messages at these positions of these conversations, in any order; missing ones are left out."""
    values = {"agent": agent, "scope": scope, "places": json.dumps(list(places))}
    rows = await session.fetch(_QUERIES["select_messages"], **values)
    return [IndexedMessage(row[0], *decode_entry(*row[1:])) for row in rows]


async def raise_revision(session: Session, conversation_id: int, *, new_generation: bool) -> None:
    """Note that segments, pins or facts have changed."""
    await session.execute(_QUERIES["raise_revision"], id=conversation_id, generations=int(new_generation))


async def raise_generation(session: Session, conversation_id: int) -> None:
    """Make void what was derived from the conversation so far."""
    await session.execute(_QUERIES["raise_generation"], id=conversation_id)
