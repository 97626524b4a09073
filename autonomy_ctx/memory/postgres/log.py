"""The SQL of the message log: finding conversations, appending, reading windows, and deletion.

Every function takes a connection in autocommit mode, perhaps with an open transaction. Statements name their
tables with the schema and change no session settings, because a pooler may give each transaction another
session.
"""

from __future__ import annotations

from collections.abc import Sequence
from hashlib import sha256
from typing import Any

import anyio.lowlevel
import psycopg

from autonomy_ctx.errors import ConflictingMessage
from autonomy_ctx.memory.encoding import (
    UnreadableRow,
    check_complete,
    decode_entry,
    same_content,
    to_microseconds,
)
from autonomy_ctx.memory.postgres.connection import Connection, fetch_all, fetch_one
from autonomy_ctx.memory.store import MAX_POSITION, Draft, Entry, Head, Key, Window
from autonomy_ctx.messages.message import ChatRole

# Longer texts are in an index by their beginning and a digest: PostgreSQL indexes at most 2,704 bytes.
MAX_INDEXED_BYTES = 250
# So many rows are decoded at a time: others get their turn in between.
CHUNK_ROWS = 256


class KnownMessage(Exception):
    """One of the messages has, or in a fork may have, an id that is there already."""


_SELECT_CONVERSATION = """
    SELECT id, head, count, generation, last_user, revision FROM autonomy_ctx.conversation WHERE key = %s
"""
# The messages of a conversation `c` by `m`: of a fork those of its ranges, of any other its own rows.
MESSAGES_OF_CONVERSATION = f"""
    autonomy_ctx.conversation c
    LEFT JOIN autonomy_ctx.shared_range r ON r.conversation_id = c.id
    JOIN autonomy_ctx.message m ON m.conversation_id = coalesce(r.source_id, c.id)
        AND m.position BETWEEN coalesce(r.first, 1) AND coalesce(r.last, {MAX_POSITION})
"""
# To a fork it appends nothing and gives no head, unless told to: an id that it shares has to be looked for.
_MOVE_HEAD = """
    WITH head AS (
        INSERT INTO autonomy_ctx.conversation AS c
            (key, agent, scope, conversation, head, count, last_user, has_messages)
        VALUES (%s, %s, %s, %s, %s, %s, %s, true)
        ON CONFLICT (key) DO UPDATE SET
            head = c.head + %s, count = c.count + %s, has_messages = true,
            last_user = CASE WHEN %s > 0 THEN c.head + %s ELSE c.last_user END
            WHERE NOT c.is_fork OR %s
        RETURNING c.id, c.head
"""
# After a `head` that was moved.
_INSERT_MESSAGES = """
    ), new AS (
        INSERT INTO autonomy_ctx.message
            (conversation_id, position, id, long_id, created, is_user, tokens, counter, size, body)
        SELECT head.id, head.head - %s + d.number,
            d.id, d.long_id, d.created, d.is_user, d.tokens, d.counter, d.size, d.body
        FROM head, unnest(%s::text[], %s::text[], %s::int8[], %s::bool[], %s::int8[], %s::text[], %s::int8[],
            %s::text[])
            WITH ORDINALITY AS d (id, long_id, created, is_user, tokens, counter, size, body, number)
"""
_INSERT_WHOLES = """
    ), whole AS (
        INSERT INTO autonomy_ctx.whole (conversation_id, position, body)
        SELECT head.id, head.head - %s + d.number, d.body
        FROM head, unnest(%s::text[]) WITH ORDINALITY AS d (body, number) WHERE d.body IS NOT NULL
"""
_SELECT_BY_MESSAGE_ID = f"""
    SELECT coalesce(m.long_id, m.id), m.position, coalesce(w.body, m.body) FROM {MESSAGES_OF_CONVERSATION}
    LEFT JOIN autonomy_ctx.whole w ON w.conversation_id = m.conversation_id AND w.position = m.position
    WHERE c.id = %s AND m.id = ANY(%s)
"""  # noqa: S608  # our names
# One statement is one snapshot: the head and the rows it was read with, newest first.
_SELECT_WINDOW = """
    SELECT c.head, c.count, c.generation, c.last_user, c.revision,
           m.position, coalesce(m.long_id, m.id), m.created, m.tokens, m.counter, m.body, c.is_fork
    FROM autonomy_ctx.conversation c
    LEFT JOIN LATERAL (
        SELECT * FROM autonomy_ctx.message m
        WHERE NOT c.is_fork AND m.conversation_id = c.id
          AND m.position > %(after)s AND m.position < %(before)s
        ORDER BY m.position DESC LIMIT %(limit)s
    ) m ON true
    WHERE c.key = %(key)s
"""
# A window of a fork: from each of its ranges no more rows than are wanted of all.
_SELECT_FORK_WINDOW = f"""
    {_SELECT_WINDOW.partition("LEFT JOIN")[0]}
    LEFT JOIN LATERAL (
        SELECT m.* FROM autonomy_ctx.shared_range r CROSS JOIN LATERAL (
            SELECT * FROM autonomy_ctx.message m
            WHERE m.conversation_id = r.source_id
              AND m.position BETWEEN greatest(r.first, %(after)s + 1) AND least(r.last, %(before)s - 1)
            ORDER BY m.position DESC LIMIT %(limit)s
        ) m
        WHERE r.conversation_id = c.id ORDER BY r.first DESC, m.position DESC LIMIT %(limit)s
    ) m ON true
    WHERE c.key = %(key)s AND c.is_fork
"""  # noqa: S608  # our names
_SELECT_WHOLE = f"""
    SELECT w.body FROM {MESSAGES_OF_CONVERSATION}
    JOIN autonomy_ctx.whole w ON w.conversation_id = m.conversation_id AND w.position = m.position
    WHERE c.key = %s AND m.id = %s
"""  # noqa: S608  # our names
_SELECT_CONVERSATION_IDS = """
    SELECT id FROM autonomy_ctx.conversation
    WHERE scope = %s AND (%s::text IS NULL OR agent = %s) AND (%s::text IS NULL OR conversation = %s)
    ORDER BY id
"""


def key_digest(key: Key) -> bytes:
    """A key to find a conversation by. Names have no NUL, so no two keys join to the same text."""
    return sha256("\0".join(key).encode()).digest()


def index_text(text: str) -> str:
    """A text that fits into an index: itself, or for a long one its beginning and its digest.

    The latter is longer than any text that stands for itself.
    """
    encoded = text.encode()
    if len(encoded) <= MAX_INDEXED_BYTES:
        return text
    return f"{text[:MAX_INDEXED_BYTES]}:{sha256(encoded).hexdigest()}"


async def find_conversation(
    connection: Connection, key: Key, *, lock: bool = False
) -> tuple[int, Head] | None:
    """A conversation's number in the tables, and where it stands; with `lock`, until the transaction ends."""
    # Others may quote its messages meanwhile (`FOR KEY SHARE`), but not while a deletion has its lock.
    statement = _SELECT_CONVERSATION + (" FOR NO KEY UPDATE" if lock else "")
    found = await fetch_one(connection, statement, (key_digest(key),))
    return None if found is None else (found[0], Head(*found[1:]))


async def ensure_conversation(connection: Connection, key: Key) -> tuple[int, Head]:
    """Find a conversation and lock it; a row is made for one that is new."""
    found = await find_conversation(connection, key, lock=True)
    while found is None:
        await connection.execute(
            "INSERT INTO autonomy_ctx.conversation (key, agent, scope, conversation) VALUES (%s, %s, %s, %s) "
            "ON CONFLICT (key) DO NOTHING",
            (key_digest(key), *key),
        )
        found = await find_conversation(connection, key, lock=True)
    return found


async def find_conversation_ids(
    connection: Connection, scope: str, agent: str | None, conversation: str | None, *, lock: bool
) -> list[int]:
    """The row ids of the conversations of a scope, optionally of one agent or one name."""
    if agent is not None and conversation is not None:
        found = await find_conversation(connection, Key(agent, scope, conversation), lock=lock)
        return [] if found is None else [found[0]]
    # In the same order for all: two that delete at once would wait for each other.
    statement = _SELECT_CONVERSATION_IDS + (" FOR UPDATE" if lock else "")
    rows = await fetch_all(connection, statement, (scope, agent, agent, conversation, conversation))
    return [number for (number,) in rows]


async def append_new(
    connection: Connection, key: Key, drafts: Sequence[Draft], *, to_fork: bool = False
) -> list[int]:
    """Store drafts in one statement.

    Raises `KnownMessage`, with nothing stored, for an id that is there. Also for a fork, unless `to_fork`
    says that the ids it shares were looked at.
    """
    try:
        if positions := await _append(connection, key, drafts, to_fork):
            return positions
    except psycopg.errors.UniqueViolation as error:
        # By the end of the name: where `message` has partitions, each has names of its own.
        if (error.diag.constraint_name or "").endswith("_pkey"):
            raise UnreadableRow("the head of a conversation contradicts its log") from None
    raise KnownMessage


async def _append(connection: Connection, key: Key, drafts: Sequence[Draft], to_fork: bool) -> list[int]:
    number, last_user = len(drafts), last_user_draft(drafts)
    counts = (number, number, last_user)
    names = (key_digest(key), *key, *counts, *counts, last_user, to_fork)
    rows, values = insert_rows(drafts)
    statement = f"{_MOVE_HEAD}{rows}) SELECT head FROM head"  # noqa: S608  # our names
    found = await fetch_one(connection, statement, (*names, *values))
    return [] if found is None else list(range(found[0] - number + 1, found[0] + 1))


def insert_rows(drafts: Sequence[Draft]) -> tuple[str, tuple[Any, ...]]:
    """The part of a statement that stores drafts after it has moved a `head`, and its values."""
    number = len(drafts)
    columns = [list(column) for column in zip(*map(_row, drafts), strict=True)]
    wholes = [draft.whole for draft in drafts]
    if not any(wholes):
        return _INSERT_MESSAGES, (number, *columns)
    return f"{_INSERT_MESSAGES}{_INSERT_WHOLES}", (number, *columns, number, wholes)


async def append_known(connection: Connection, key: Key, drafts: Sequence[Draft]) -> list[int]:
    """Store those of the drafts that are new; for the others, give the positions they have.

    Call it in a transaction, so that no other append comes in between.
    """
    conversation_id, head = await ensure_conversation(connection, key)
    known = await find_messages(connection, conversation_id, [draft.message.id for draft in drafts])
    positions: list[int] = []
    new: list[Draft] = []
    for draft in drafts:
        body = draft.whole or draft.body
        position, other = known.setdefault(draft.message.id, (head.position + len(new) + 1, body))
        if position > head.position + len(new):
            new.append(draft)
        elif not same_content(other, body):
            raise ConflictingMessage(message_id=draft.message.id, position=position)
        positions.append(position)
    if new:
        await append_new(connection, key, new, to_fork=True)
    return positions


async def find_messages(
    connection: Connection, conversation_id: int, ids: Sequence[str]
) -> dict[str, tuple[int, str]]:
    """Positions and uncut bodies of messages, by id."""
    rows = await fetch_all(
        connection, _SELECT_BY_MESSAGE_ID, (conversation_id, [index_text(message_id) for message_id in ids])
    )
    return {message_id: (position, body) for message_id, position, body in rows}


def _row(draft: Draft) -> tuple[str, str | None, int, bool, int, str, int, str]:
    message = draft.message
    indexed = index_text(message.id)
    return (
        indexed,
        None if indexed == message.id else message.id,
        to_microseconds(message.created_at),
        message.role is ChatRole.USER,
        draft.tokens,
        draft.counter,
        draft.size,
        draft.body,
    )


def last_user_draft(drafts: Sequence[Draft]) -> int:
    """Which of the drafts is the last of a user, counted from one; 0 when none is."""
    for number in range(len(drafts), 0, -1):
        if drafts[number - 1].message.role is ChatRole.USER:
            return number
    return 0


async def read_window(
    connection: Connection, key: Key, after: int, before: int | None, limit: int | None
) -> Window:
    """A window of any length, in one statement, which is one snapshot."""
    if limit == 0:
        return Window(await read_head(connection, key), [])
    cursor = connection.cursor()
    before_or_end = MAX_POSITION if before is None else before
    values = {"after": after, "before": before_or_end, "limit": limit, "key": key_digest(key)}

    async def begin(statement: str) -> list[Any]:
        return await (await cursor.execute(statement, values)).fetchmany(CHUNK_ROWS)

    rows = await begin(_SELECT_WINDOW)
    while rows and rows[0][-1]:
        rows = await begin(_SELECT_FORK_WINDOW)
        if rows:
            break
        # All of it was deleted meanwhile: it is no fork any more.
        rows = await begin(_SELECT_WINDOW)
    if not rows:
        return Window(Head(), [])
    head = Head(*rows[0][:5])
    entries: list[Entry] = []
    while rows and rows[0][5] is not None:
        entries += [decode_entry(*row[5:-1]) for row in rows]
        if len(rows) < CHUNK_ROWS:
            break
        await anyio.lowlevel.checkpoint()
        rows = await cursor.fetchmany(CHUNK_ROWS)
    entries.reverse()
    if before is None:
        check_complete(head, after, limit, len(entries))
    return Window(head, entries)


async def read_head(connection: Connection, key: Key) -> Head:
    """Where a conversation stands."""
    found = await find_conversation(connection, key)
    return Head() if found is None else found[1]


async def read_full_text(connection: Connection, key: Key, message_id: str) -> str | None:
    """The uncut body of a message that was too large for the log."""
    found = await fetch_one(connection, _SELECT_WHOLE, (key_digest(key), index_text(message_id)))
    return None if found is None else str(found[0])


async def probe(connection: Connection) -> None:
    """Write a row, so that a server that takes no writes refuses it."""
    await connection.execute(
        "INSERT INTO autonomy_ctx.health VALUES (1, autonomy_ctx.now_seconds()) "
        "ON CONFLICT (id) DO UPDATE SET at = excluded.at"
    )
