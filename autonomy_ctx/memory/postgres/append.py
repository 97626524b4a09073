"""Writes of an ordinary turn, in one statement each: it is one wait for the server.

Appending, beginning a turn that nobody else wants, and appending while a turn is held, with records. Their
conditions are checked on the newest version of the conversation's row. A statement that does nothing says so,
and a transaction that has locked the row decides.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

import psycopg

from autonomy_ctx.memory.encoding import UnreadableRow, encode_text, to_microseconds
from autonomy_ctx.memory.joint_append import RecordDraft, decode_record
from autonomy_ctx.memory.postgres.connection import Connection, fetch_one
from autonomy_ctx.memory.postgres.session import CHANNEL, index_text, key_digest, long_text
from autonomy_ctx.memory.sql.turns import turn_topic
from autonomy_ctx.memory.store import Draft, Key, TurnStart, TurnToken
from autonomy_ctx.messages.message import ChatRole

# To a fork it appends nothing and gives no head: an id that it shares has to be looked for.
_MOVE_HEAD = """
    WITH head AS (
        INSERT INTO autonomy_ctx.conversation AS c
            (key, agent, scope, conversation, head, count, last_user, has_messages)
        VALUES (%s, %s, %s, %s, %s, %s, %s, true)
        ON CONFLICT (key) DO UPDATE SET
            head = c.head + %s, count = c.count + %s, has_messages = true,
            last_user = CASE WHEN %s > 0 THEN c.head + %s ELSE c.last_user END
            WHERE NOT c.is_fork
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
_BEGIN_TURN = """
    WITH head AS (
        INSERT INTO autonomy_ctx.conversation AS c
            (key, agent, scope, conversation, head, count, last_user, has_messages,
             turn_ticket, last_ticket, turn_owner, turn_until)
        VALUES (%s, %s, %s, %s, %s, %s, %s, %s, 1, 1, %s, autonomy_ctx.now_seconds() + %s)
        ON CONFLICT (key) DO UPDATE SET
            head = c.head + excluded.head, count = c.count + excluded.count,
            has_messages = c.has_messages OR excluded.has_messages,
            last_user = CASE WHEN excluded.last_user > 0 THEN c.head + excluded.last_user
                ELSE c.last_user END,
            turn_ticket = c.last_ticket + 1, last_ticket = c.last_ticket + 1,
            turn_owner = excluded.turn_owner, turn_until = autonomy_ctx.now_seconds() + %s
        WHERE c.turn_ticket = 0 AND c.turns_waiting = 0 AND NOT c.is_fork AND ({condition})
            AND NOT EXISTS (
                SELECT 1 FROM autonomy_ctx.record r WHERE r.conversation_id = c.id AND r.kind = %s)
        RETURNING c.id, c.head, c.turn_ticket, c.generation
"""
_SELECT_BEGUN = """
    SELECT head.head, head.turn_ticket, head.generation,
        (SELECT json_agg(json_build_array(r.number, coalesce(r.long_name, r.name), r.at, r.body)
                         ORDER BY r.number)::text
         FROM autonomy_ctx.record r WHERE r.conversation_id = head.id AND r.kind = %s)
    FROM head
"""
_BEGIN_LOG = _BEGIN_TURN.format(condition="c.head = 0")
_BEGIN = _BEGIN_TURN.format(condition="true")
_CHANGE = """
    WITH head AS (
        UPDATE autonomy_ctx.conversation c SET
            head = c.head + %s, count = c.count + %s, has_messages = c.has_messages OR %s > 0,
            last_user = CASE WHEN %s > 0 THEN c.head + %s ELSE c.last_user END{changes}
        WHERE c.key = %s AND NOT c.is_fork AND {condition}
        RETURNING c.id, c.head, c.turn_ticket, c.turns_waiting, c.generation
"""
# For a log that was read: a new conversation is never begun by it.
_BEGIN_AFTER = _CHANGE.format(
    changes=""",
            turn_ticket = c.last_ticket + 1, last_ticket = c.last_ticket + 1,
            turn_owner = %s, turn_until = autonomy_ctx.now_seconds() + %s""",
    condition="""c.turn_ticket = 0 AND c.turns_waiting = 0 AND c.head = %s
        AND NOT EXISTS (
            SELECT 1 FROM autonomy_ctx.record r WHERE r.conversation_id = c.id AND r.kind = %s)""",
)
_IS_HELD = "c.turn_ticket = %s AND c.turn_owner = %s"
_APPEND = _CHANGE.format(changes="", condition=_IS_HELD)
_APPEND_AT_END = _CHANGE.format(
    changes=", turn_ticket = 0, turn_owner = '', turn_until = 0", condition=_IS_HELD
)
_NOTIFY_WAITING = "SELECT head, CASE WHEN turns_waiting > 0 THEN pg_notify(%s, %s) END FROM head"
# One record beside messages, in the statement that moves the `head` of their conversation. What is expected
# is looked up without a lock: only the holder of the turn writes it, or a deletion, which changes the
# generation.
_INSERT_BESIDE = """), stored_{index} AS (
        INSERT INTO autonomy_ctx.record (number, conversation_id, kind, name, long_name, at, derived, body)
        SELECT nextval('autonomy_ctx.record_number'), head.id, %s, %s, %s, autonomy_ctx.now_seconds(), %s, %s
        FROM head WHERE (%s::int8 IS NULL OR head.generation = %s)
        AND (%s::text IS NULL OR %s = coalesce(
            (SELECT e.body FROM autonomy_ctx.record e
             WHERE e.conversation_id = head.id AND e.kind = %s AND e.name = %s), %s))
        ON CONFLICT ON CONSTRAINT record_name DO UPDATE SET
            number = excluded.number, at = excluded.at, derived = excluded.derived, body = excluded.body
        RETURNING conversation_id
"""
# This statement does not see the new record, which is one of those that are kept.
_DELETE_BESIDE = """), dropped_{index} AS (
        DELETE FROM autonomy_ctx.record r USING stored_{index} stored
        WHERE r.conversation_id = stored.conversation_id AND r.kind = %s AND r.name <> %s AND r.number <=
            (SELECT o.number FROM autonomy_ctx.record o
             WHERE o.conversation_id = stored.conversation_id AND o.kind = %s AND o.name <> %s
             ORDER BY o.number DESC LIMIT 1 OFFSET %s)
"""


async def append_new(connection: Connection, key: Key, drafts: Sequence[Draft]) -> list[int] | None:
    """Store drafts; None, with nothing stored, for an id that is there or, in a fork, may be there."""
    number, last_user = len(drafts), _last_user_draft(drafts)
    counts = (number, number, last_user)
    names = (key_digest(key), *key, *counts, *counts, last_user)
    found = await _insert(connection, _MOVE_HEAD, names, drafts, "SELECT head FROM head", ())
    return None if found is None else list(range(found[0] - number + 1, found[0] + 1))


def _insert_rows(drafts: Sequence[Draft]) -> tuple[str, tuple[Any, ...]]:
    """The part of a statement that stores drafts after it has moved a `head`, and its values."""
    number = len(drafts)
    columns = [list(column) for column in zip(*map(_row, drafts), strict=True)]
    wholes = [draft.whole for draft in drafts]
    if not any(wholes):
        return _INSERT_MESSAGES, (number, *columns)
    return f"{_INSERT_MESSAGES}{_INSERT_WHOLES}", (number, *columns, number, wholes)


def _row(draft: Draft) -> tuple[str, str | None, int, bool, int, str, int, str]:
    message = draft.message
    return (
        index_text(message.id),
        long_text(message.id),
        to_microseconds(message.created_at),
        message.role is ChatRole.USER,
        draft.tokens,
        draft.counter,
        draft.size,
        draft.body,
    )


def _last_user_draft(drafts: Sequence[Draft]) -> int:
    """Which of the drafts is the last of a user, counted from one; 0 when none is."""
    for number in range(len(drafts), 0, -1):
        if drafts[number - 1].message.role is ChatRole.USER:
            return number
    return 0


async def begin_free_turn(
    connection: Connection,
    key: Key,
    drafts: Sequence[Draft],
    owner: str,
    seconds: float,
    after: int | None,
    unless: str | None,
    records: str | None,
) -> TurnStart | None:
    """Acquire a free turn without waiters and append, in one statement; None if that was not possible."""
    number, last_user, digest = len(drafts), _last_user_draft(drafts), key_digest(key)
    values: tuple[Any, ...]
    if after:
        statement = _BEGIN_AFTER
        values = (number, number, number, last_user, last_user, owner, seconds, digest, after, unless)
    else:
        statement = _BEGIN if after is None else _BEGIN_LOG
        values = (digest, *key, number, number, last_user, number > 0, owner, seconds, seconds, unless)
    begun = await _insert(connection, statement, values, drafts, _SELECT_BEGUN, (records,))
    if begun is None:
        return None
    head, ticket, generation, rows = begun
    found = [decode_record(*row) for row in json.loads(rows)] if rows else ()
    positions = list(range(head - number + 1, head + 1))
    return TurnStart(ticket, positions, False, head - number, generation, found)


async def append_held(
    connection: Connection,
    key: Key,
    drafts: Sequence[Draft],
    turn: TurnToken,
    ends: bool,
    records: Sequence[RecordDraft] = (),
) -> list[int] | None:
    """Append while the turn is held, with records, in one statement; None if it did not.

    At its end, the turn is given back.
    """
    number, last_user = len(drafts), _last_user_draft(drafts)
    counts = (number, number, number, last_user, last_user)
    values = (*counts, key_digest(key), turn.ticket, turn.owner)
    if ends:
        notification = (CHANNEL, turn_topic(key))
        head = await _insert(
            connection, _APPEND_AT_END, values, drafts, _NOTIFY_WAITING, notification, records
        )
    else:
        head = await _insert(connection, _APPEND, values, drafts, "SELECT head FROM head", (), records)
    return None if head is None else list(range(head[0] - number + 1, head[0] + 1))


async def _insert(
    connection: Connection,
    head: str,
    head_values: Sequence[Any],
    drafts: Sequence[Draft],
    select: str,
    select_values: Sequence[Any],
    records: Sequence[RecordDraft] = (),
) -> tuple[Any, ...] | None:
    """Move the head and store drafts and records in one statement; None when nothing was done.

    That is so when its condition does not hold, or an id is there already.
    """
    rows, values = _insert_rows(drafts) if drafts else ("", ())
    beside, record_values = _insert_records(records)
    statement = f"{head}{rows}{beside}) {select}"
    try:
        return await fetch_one(connection, statement, (*head_values, *values, *record_values, *select_values))
    except psycopg.errors.UniqueViolation as error:
        _check_known(error)
        return None


def _check_known(error: psycopg.errors.UniqueViolation) -> None:
    """Tell an id that is there already from a position that should be free."""
    # By the end of the name: where `message` has partitions, each has names of its own.
    if (error.diag.constraint_name or "").endswith("_pkey"):
        raise UnreadableRow("the head of a conversation contradicts its log") from None


def _insert_records(drafts: Sequence[RecordDraft]) -> tuple[str, list[Any]]:
    """The part of a statement after `head` that stores records without quotes; and its values."""
    statement, values = "", list[Any]()
    rows = [(draft, draft.kind, draft.name, draft.body, draft.keep) for draft in drafts]
    rows += [(draft, draft.parts_kind, *part, None) for draft in drafts for part in draft.parts]
    nothing = encode_text("")
    for index, (draft, kind, name, body, keep) in enumerate(rows):
        indexed = index_text(name)
        expected = None if draft.expected is None else encode_text(draft.expected)
        statement += _INSERT_BESIDE.format(index=index)
        values += [kind, indexed, long_text(name), draft.derived, encode_text(body)]
        values += [draft.generation, draft.generation]
        values += [expected, expected, draft.kind, index_text(draft.name), nothing]
        if keep is not None:
            statement += _DELETE_BESIDE.format(index=index)
            values += [kind, indexed, kind, indexed, keep - 1]
    return statement, values
