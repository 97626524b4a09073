"""The SQL of records: how rows beside the messages of a conversation are stored, read and dropped.

Records are put under the lock of their conversation, so that a higher number is never seen before a lower
one. Their times are those of the server.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from autonomy_ctx.memory.encoding import encode_text
from autonomy_ctx.memory.joint_append import RecordDraft, decode_record
from autonomy_ctx.memory.postgres.connection import Connection, fetch_all
from autonomy_ctx.memory.postgres.log import (
    MESSAGES_OF_CONVERSATION,
    ensure_conversation,
    find_conversation,
    index_text,
    key_digest,
)
from autonomy_ctx.memory.store import Key, MessageRef, Record

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
_DELETE_OLDEST = """
    DELETE FROM autonomy_ctx.record
    WHERE conversation_id = %(conversation)s AND kind = %(kind)s AND number <=
        (SELECT number FROM autonomy_ctx.record WHERE conversation_id = %(conversation)s AND kind = %(kind)s
         ORDER BY number DESC LIMIT 1 OFFSET %(keep)s)
"""
# No deletion can have this lock at the same time: it has happened by now, or it sees what is put here.
_LOCK_QUOTED = """
    SELECT key, id, generation FROM autonomy_ctx.conversation WHERE key = ANY(%s) ORDER BY id FOR KEY SHARE
"""
_COUNT_QUOTED = f"""
    SELECT count(*) FROM unnest(%s::int8[], %s::int8[]) AS d (conversation_id, position)
    WHERE d.position = 0 OR EXISTS (
        SELECT 1 FROM {MESSAGES_OF_CONVERSATION} WHERE c.id = d.conversation_id AND m.position = d.position)
"""  # noqa: S608  # our names
_INSERT_REFS = """
    INSERT INTO autonomy_ctx.record_ref (conversation_id, position, number)
    SELECT DISTINCT d.conversation_id, d.position, r.number
    FROM unnest(%s::int8[], %s::int8[]) AS d (conversation_id, position),
         autonomy_ctx.record r WHERE r.number = ANY(%s)
"""
_DELETE_QUOTING = """
    DELETE FROM autonomy_ctx.record WHERE number IN
        (SELECT number FROM autonomy_ctx.record_ref WHERE conversation_id = %s AND position = 0)
"""
_LOCK = "SELECT 1 FROM autonomy_ctx.conversation WHERE id = %s FOR UPDATE"
_RAISE_GENERATION = "UPDATE autonomy_ctx.conversation SET generation = generation + 1 WHERE id = %s"
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
    connection: Connection,
    key: Key,
    kind: str,
    records: Sequence[tuple[str, str]],
    keep: int | None,
    derived: bool,
    generation: int | None,
    refs: Sequence[MessageRef] = (),
) -> list[int]:
    """Store records at the end; none for another generation, or if a quoted message is gone.

    It needs a transaction.
    """
    if generation is not None:
        found = await find_conversation(connection, key, lock=True)
        if generation != (0 if found is None else found[1].generation):
            return []
    quoted = await _find_quoted(connection, key, refs) if refs else ([], [])
    if quoted is None:
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
    numbers = [number for (number,) in await fetch_all(connection, _PUT_RECORDS, values)]
    if refs:
        await connection.execute(_INSERT_REFS, (*quoted, numbers))
    if keep is not None:
        await connection.execute(_DELETE_OLDEST, values)
    return numbers


async def put_draft(connection: Connection, key: Key, draft: RecordDraft) -> None:
    """Store a record and its parts in a transaction, if what it expects is there."""
    if draft.expected is not None:
        await find_conversation(connection, key, lock=True)
        found = await read_records(connection, key, draft.kind, draft.name, 0, 1)
        if draft.expected != "".join(record.body for record in found):
            return
    derived, generation, refs = draft.derived, draft.generation, draft.refs
    record = (draft.name, draft.body)
    await put_records(connection, key, draft.kind, [record], draft.keep, derived, generation, refs)
    if draft.parts:
        await put_records(connection, key, draft.parts_kind, draft.parts, None, derived, generation, refs)
    if draft.ends_quotes:
        conversation_id, _ = await ensure_conversation(connection, key)
        await end_quotes(connection, conversation_id)
        await connection.execute(_RAISE_GENERATION, (conversation_id,))


async def end_quotes(connection: Connection, conversation_id: int) -> None:
    """Delete the records that quote a conversation as a whole; what is put meanwhile waits, and is seen."""
    await connection.execute(_LOCK, (conversation_id,))
    await connection.execute(_DELETE_QUOTING, (conversation_id,))


def insert_records(drafts: Sequence[RecordDraft]) -> tuple[str, list[Any]]:
    """The part of a statement after `head` that stores records without quotes; and its values."""
    statement, values = "", list[Any]()
    rows = [(draft, draft.kind, draft.name, draft.body, draft.keep) for draft in drafts]
    rows += [(draft, draft.parts_kind, *part, None) for draft in drafts for part in draft.parts]
    nothing = encode_text("")
    for index, (draft, kind, name, body, keep) in enumerate(rows):
        indexed = index_text(name)
        expected = None if draft.expected is None else encode_text(draft.expected)
        statement += _INSERT_BESIDE.format(index=index)
        values += [kind, indexed, None if indexed == name else name, draft.derived, encode_text(body)]
        values += [draft.generation, draft.generation]
        values += [expected, expected, draft.kind, index_text(draft.name), nothing]
        if keep is not None:
            statement += _DELETE_BESIDE.format(index=index)
            values += [kind, indexed, kind, indexed, keep - 1]
    return statement, values


async def _find_quoted(
    connection: Connection, key: Key, refs: Sequence[MessageRef]
) -> tuple[list[int], list[int]] | None:
    """The conversations and positions of quoted messages, as in `record_ref`; None if one is not there."""
    keys = [key_digest(ref.key(key)) for ref in refs]
    for ref in refs:
        if ref.generation == 0:
            # Nothing is in it yet; it must be there to be quoted.
            await ensure_conversation(connection, ref.key(key))
    found = {bytes(one): rest for one, *rest in await fetch_all(connection, _LOCK_QUOTED, (keys,))}
    if not found.keys() >= set(keys):
        return None
    if any(ref.generation not in (None, found[one][1]) for one, ref in zip(keys, refs, strict=True)):
        return None
    columns = [found[one][0] for one in keys], [ref.position or 0 for ref in refs]
    # Another statement: after waiting for a lock, this one sees what the other has deleted.
    [(count,)] = await fetch_all(connection, _COUNT_QUOTED, columns)
    return columns if count == len(refs) else None


async def read_records(
    connection: Connection, key: Key, kind: str, name: str | None, after: int, limit: int | None
) -> list[Record]:
    """The newest records after a number, oldest first."""
    values = {
        "key": key_digest(key),
        "kind": kind,
        "name": None if name is None else index_text(name),
        "after": after,
        "limit": limit,
    }
    return [decode_record(*row) for row in reversed(await fetch_all(connection, _SELECT_RECORDS, values))]


async def drop_records(
    connection: Connection, key: Key, kind: str, names: Sequence[str] | None, before: float | None
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
    return [name for _, name in sorted(await fetch_all(connection, _DROP_RECORDS, values))]
