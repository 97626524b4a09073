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

from autonomy_ctx.memory.encoding import MessageRow, UnreadableRow, decode_record, encode_text
from autonomy_ctx.memory.postgres.connection import Connection, fetch_one
from autonomy_ctx.memory.postgres.session import CHANNEL, index_text, key_digest, long_text
from autonomy_ctx.memory.sql.log import make_row
from autonomy_ctx.memory.sql.query import load_statements
from autonomy_ctx.memory.sql.turns import turn_topic
from autonomy_ctx.memory.store import AppendResult, Draft, Head, Key, RecordDraft, TurnStart, TurnToken

_SQL = load_statements("postgres", "turns")


def _move_head(name: str, *conditions: str, changes: str = "", columns: str = "", values: str = "") -> str:
    """The beginning of a statement: `add` or `change`, which moves the head if the conditions hold."""
    return _SQL[name].format(
        condition=" AND ".join(_SQL[one] for one in conditions),
        moves=_SQL["moves"],
        changes=changes,
        columns=columns,
        values=values,
    )


# By whether the log has messages for sure: then the conversation is there.
_APPEND = {False: _move_head("add", "ends_there"), True: _move_head("change", "ends_there")}
_BEGIN = {
    False: _move_head(
        "add",
        *("ends_there", "is_free"),
        changes=_SQL["take"],
        columns=_SQL["turn_columns"],
        values=_SQL["turn_values"],
    ),
    True: _move_head("change", "ends_there", "is_free", changes=_SQL["take"]),
}
# By whether the turn ends.
_APPEND_HELD = {
    False: _move_head("change", "is_held"),
    True: _move_head("change", "is_held", changes=_SQL["release"]),
}


async def append(
    connection: Connection,
    key: Key,
    drafts: Sequence[Draft],
    records: Sequence[RecordDraft],
    *,
    turn: TurnToken | None = None,
    ends: bool = False,
    after: int | None = None,
) -> AppendResult | None:
    """Append, with records in a turn that is held, in one statement; None if it did not.

    With `ends`, the turn is given back.
    """
    # What a record quotes is locked and looked up first.
    if not drafts or any(record.refs for record in records) or (records and turn is None):
        return None
    select, values = "select_head", dict[str, Any](after=after)
    if turn is None:
        head = _APPEND[bool(after)]
    else:
        head = _APPEND_HELD[ends]
        values |= {"ticket": turn.ticket, "owner": turn.owner}
        if ends:
            select = "notify_waiting"
            values |= {"channel": CHANNEL, "topic": turn_topic(key)}
    found = await _insert(connection, key, head, drafts, select, values, records)
    return None if found is None else AppendResult(_positions(found[0], drafts), Head(*found[:5]))


async def begin_free_turn(
    connection: Connection,
    key: Key,
    drafts: Sequence[Draft],
    *,
    ticket: int | None = None,
    after: int | None = None,
    unless: str | None = None,
    records: str | None = None,
    **lease: Any,
) -> TurnStart | None:
    """Acquire a free turn without waiters and append, in one statement; None if that was not possible."""
    # A turn with a ticket has competition.
    if ticket is not None:
        return None
    values = {**lease, "after": after, "unless": unless, "records": records}
    begun = await _insert(connection, key, _BEGIN[bool(after)], drafts, "select_begun", values)
    if begun is None:
        return None
    head, (own_ticket, rows) = Head(*begun[:5]), begun[5:]
    found = [decode_record(*row) for row in json.loads(rows)] if rows else ()
    before, positions = head.position - len(drafts), _positions(head.position, drafts)
    return TurnStart(own_ticket, positions, False, before, head.generation, found, head)


def _positions(head: int, drafts: Sequence[Draft]) -> list[int]:
    return list(range(head - len(drafts) + 1, head + 1))


async def _insert(
    connection: Connection,
    key: Key,
    head: str,
    drafts: Sequence[Draft],
    select: str,
    values: dict[str, Any],
    records: Sequence[RecordDraft] = (),
) -> tuple[Any, ...] | None:
    """Move the head and store drafts and records in one statement; None when nothing was done.

    That is so when its condition does not hold, or an id is there already.
    """
    rows = [make_row(0, draft) for draft in drafts]
    last_user = max((number for number, row in enumerate(rows, start=1) if row.is_user), default=0)
    values |= {"key": key_digest(key), **key._asdict(), "number": len(rows), "last_user": last_user}
    statement = head
    if rows:
        values |= zip(MessageRow._fields, map(list, zip(*rows, strict=True)), strict=True)
        ids = values["id"]
        values |= {"id": list(map(index_text, ids)), "long_id": list(map(long_text, ids))}
        statement += _SQL["insert_messages"]
        if any(row.whole for row in rows):
            statement += _SQL["insert_wholes"]
    statement += _insert_records(records, values)
    try:
        return await fetch_one(connection, f"{statement}) {_SQL[select]}", values)
    except psycopg.errors.UniqueViolation as error:
        # By the end of the name: where `message` has partitions, each has names of its own.
        if not (error.diag.constraint_name or "").endswith("_pkey"):
            return None
    # An id that is there already is known by another constraint.
    raise UnreadableRow("the head of a conversation contradicts its log")


def _insert_records(drafts: Sequence[RecordDraft], values: dict[str, Any]) -> str:
    """The part of a statement after `head` that stores records without quotes; their values are added."""
    statement, values["nothing"] = "", encode_text("")
    rows = [(draft, draft.kind, draft.name, draft.body, draft.keep) for draft in drafts]
    rows += [(draft, draft.parts_kind, *part, None) for draft in drafts for part in draft.parts]
    for index, (draft, kind, name, body, keep) in enumerate(rows):
        own = {
            "kind": kind,
            "name": index_text(name),
            "long_name": long_text(name),
            "derived": draft.derived,
            "body": encode_text(body),
            "generation": draft.generation,
            "expected": None if draft.expected is None else encode_text(draft.expected),
            "expected_kind": draft.kind,
            "expected_name": index_text(draft.name),
            "others": None if keep is None else keep - 1,
        }
        values |= {f"{name}_{index}": value for name, value in own.items()}
        statement += _SQL["insert_beside"].format(index=index)
        if keep is not None:
            statement += _SQL["delete_beside"].format(index=index)
    return statement
