"""The SQL of records: how rows beside the messages of a conversation are stored, read and dropped.

Records are put under the lock of their conversation, so that a higher number is never seen before a lower
one. Their times are those of the server.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

import psycopg

from autonomy_ctx.memory.encoding import UnreadableRow, encode_text
from autonomy_ctx.memory.postgres.log import (
    ensure_conversation,
    find_conversation,
    index_text,
    key_digest,
)
from autonomy_ctx.memory.store import Key, Record

# Each record given gets a number, in order. Of those with one name only the last is stored.
_PUT_RECORDS = """
    WITH numbered AS MATERIALIZED (
        SELECT nextval('autonomy_ctx.record_number') AS number, name, long_name, body, is_last
        FROM unnest(%(names)s::text[], %(long_names)s::text[], %(bodies)s::text[], %(are_last)s::boolean[])
            WITH ORDINALITY AS given (name, long_name, body, is_last, place)
        ORDER BY place
    ), stored AS (
        INSERT INTO autonomy_ctx.record
            (number, conversation_id, kind, name, long_name, at, derived, body)
        SELECT number, %(conversation)s, %(kind)s, name, long_name,
               autonomy_ctx.now_seconds(), %(derived)s, body
        FROM numbered WHERE is_last
        ON CONFLICT ON CONSTRAINT record_name DO UPDATE SET
            number = excluded.number, at = excluded.at, derived = excluded.derived, body = excluded.body
    )
    SELECT number FROM numbered ORDER BY number
"""
_DELETE_OLDEST = """
    DELETE FROM autonomy_ctx.record
    WHERE conversation_id = %(conversation)s AND kind = %(kind)s AND number <=
        (SELECT number FROM autonomy_ctx.record WHERE conversation_id = %(conversation)s AND kind = %(kind)s
         ORDER BY number DESC LIMIT 1 OFFSET %(keep)s)
"""
_SELECT_RECORDS = """
    SELECT r.number, coalesce(r.long_name, r.name), r.at, r.body
    FROM autonomy_ctx.conversation c JOIN autonomy_ctx.record r ON r.conversation_id = c.id
    WHERE c.key = %(key)s AND r.kind = %(kind)s AND r.number > %(after)s
    AND (%(name)s::text IS NULL OR r.name = %(name)s)
    ORDER BY r.number DESC LIMIT %(limit)s
"""
_DROP_RECORDS = """
    DELETE FROM autonomy_ctx.record
    WHERE conversation_id = %(conversation)s AND kind = %(kind)s
    AND (%(names)s::text[] IS NULL OR name = ANY (%(names)s))
    AND (%(before)s::double precision IS NULL OR at < %(before)s)
    RETURNING number, coalesce(long_name, name)
"""


async def put_records(
    connection: psycopg.AsyncConnection[Any],
    key: Key,
    kind: str,
    records: Sequence[tuple[str, str]],
    keep: int | None,
    derived: bool,
    generation: int | None,
) -> list[int]:
    """Store records at the end, or none of them when the conversation has another generation.

    It needs a transaction.
    """
    if generation is not None:
        found = await find_conversation(connection, key, lock=True)
        if generation != (0 if found is None else found[1].generation):
            return []
    conversation_id, _ = await ensure_conversation(connection, key)
    last_places = {name: place for place, (name, _) in enumerate(records)}
    names = [index_text(name) for name, _ in records]
    values = {
        "conversation": conversation_id,
        "kind": kind,
        "names": names,
        "long_names": [
            None if short == name else name for short, (name, _) in zip(names, records, strict=True)
        ],
        "bodies": [encode_text(body) for _, body in records],
        "are_last": [last_places[name] == place for place, (name, _) in enumerate(records)],
        "derived": derived,
        "keep": keep,
    }
    cursor = await connection.execute(_PUT_RECORDS, values)
    numbers = [number for (number,) in await cursor.fetchall()]
    if keep is not None:
        await connection.execute(_DELETE_OLDEST, values)
    return numbers


async def read_records(
    connection: psycopg.AsyncConnection[Any],
    key: Key,
    kind: str,
    name: str | None,
    after: int,
    limit: int | None,
) -> list[Record]:
    """The newest records after a number, oldest first."""
    values = {
        "key": key_digest(key),
        "kind": kind,
        "name": None if name is None else index_text(name),
        "after": after,
        "limit": limit,
    }
    cursor = await connection.execute(_SELECT_RECORDS, values)
    return [_decode_record(*row) for row in reversed(await cursor.fetchall())]


async def drop_records(
    connection: psycopg.AsyncConnection[Any],
    key: Key,
    kind: str,
    names: Sequence[str] | None,
    before: float | None,
) -> list[str]:
    """Remove records; the names of those that were there, oldest first."""
    found = await find_conversation(connection, key)
    if found is None:
        return []
    values = {
        "conversation": found[0],
        "kind": kind,
        "names": None if names is None else [index_text(name) for name in names],
        "before": before,
    }
    cursor = await connection.execute(_DROP_RECORDS, values)
    return [name for _, name in sorted(await cursor.fetchall())]


def _decode_record(number: int, name: str, at: float, body: str) -> Record:
    try:
        return Record(number, name, at, json.loads(body))
    except (ValueError, TypeError):
        # Without the cause, which might quote a user's text.
        raise UnreadableRow(f"the record with number {number} cannot be read") from None
