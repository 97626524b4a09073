"""The scripts of records: how rows beside the messages of a conversation are stored, read and dropped.

Records are put under the lock of their conversation, so that a higher number is never seen before a lower
one.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from autonomy_ctx.errors import InvalidKey
from autonomy_ctx.memory.encoding import decode_record, encode_text
from autonomy_ctx.memory.sql.log import (
    MESSAGES,
    LockedLog,
    ensure_conversation,
    find_conversation,
    indexed_text,
    raise_generation,
)
from autonomy_ctx.memory.sql.query import load_queries
from autonomy_ctx.memory.sql.session import LargeRead, Session
from autonomy_ctx.memory.store import (
    MAX_POSITION,
    Key,
    MessageRef,
    Record,
    RecordDraft,
    check_name,
    check_put,
)
from autonomy_ctx.validation import check_int

_QUERIES = load_queries(
    "records",
    messages=MESSAGES,
    record_name="{sqlite: r.name}{postgres: coalesce(r.long_name, r.name)}",
    own_name="{sqlite: name}{postgres: coalesce(long_name, name)}",
    # A body that is too large is not read.
    size="{sqlite: r.size}{postgres: 0}",
    body="{sqlite: CASE WHEN r.size <= :max_bytes THEN r.body END}{postgres: r.body}",
)


class QuotedPlace(NamedTuple):
    """A message that a record quotes; position 0 is any of the conversation."""

    conversation_id: int
    position: int


class RecordPlace(NamedTuple):
    """The conversation of a record, and the messages that the record quotes."""

    conversation_id: int
    quoted: list[QuotedPlace]


async def put_records(
    session: Session,
    key: Key,
    kind: str,
    records: Sequence[tuple[str, str]],
    keep: int | None = None,
    derived: bool = False,
    generation: int | None = None,
    refs: Sequence[MessageRef] = (),
) -> list[int]:
    """Store (name, body) pairs, all or none, and return their numbers.

    A record with a known name is replaced and moves to the end. With `keep`, only that many of the newest
    records of this kind stay. `derived` records are made from messages: they are deleted when any message of
    the conversation is deleted. Records that quote messages are deleted with any of `refs`. Nothing is stored
    and the list is empty if the conversation now has another generation than `generation`, or if a message of
    `refs` is not there.
    """
    check_put(kind, records, keep)
    place = await _find_place(session, key, generation, refs)
    return [] if place is None else await _insert_records(session, place, kind, records, keep, derived)


async def put_draft(session: Session, key: Key, draft: RecordDraft, log: LockedLog | None = None) -> None:
    """Store a record and its parts, if what it expects is there; `log` is the conversation, once locked."""
    place = await _find_place(session, key, draft.generation, draft.refs, log)
    if place is None:
        return
    records: Sequence[tuple[str, str]] = [(draft.name, draft.body)]
    keep = draft.keep
    if draft.expected is not None:
        expected, body = encode_text(draft.expected), encode_text(draft.body)
        values = {"id": place.conversation_id, "kind": draft.kind, "name": session.index_text(draft.name)}
        new = {"size": len(body.encode()), "derived": draft.derived, "body": body}
        # One that is replaced is not one more; the newest stays where it is.
        if not place.quoted and await session.execute(
            _QUERIES["update_newest"], **values, **new, expected=expected
        ):
            records = ()
        else:
            rows = await session.fetch(_QUERIES["select_body"], **values)
            if (rows[0][0] if rows else encode_text("")) != expected:
                return
            keep = None if rows else keep
    if records:
        await _insert_records(session, place, draft.kind, records, keep, draft.derived)
    if draft.parts:
        await _insert_records(session, place, draft.parts_kind, draft.parts, None, draft.derived)
    if draft.ends_quotes:
        await end_quotes(session, place.conversation_id)
        await raise_generation(session, place.conversation_id)


async def _insert_records(
    session: Session,
    place: RecordPlace,
    kind: str,
    records: Sequence[tuple[str, str]],
    keep: int | None,
    derived: bool,
) -> list[int]:
    # Of several with one name each gets a number, and the last one stays.
    batches = [records] if len(dict(records)) == len(records) else [[one] for one in records]
    numbers: list[int] = []
    for batch in batches:
        if batch:
            numbers += await _insert_batch(session, place, kind, batch, derived)
    if keep is not None:
        values = {"id": place.conversation_id, "kind": kind, "keep": keep}
        await session.execute(_QUERIES["delete_oldest"], **values)
    return numbers


async def _insert_batch(
    session: Session, place: RecordPlace, kind: str, records: Sequence[tuple[str, str]], derived: bool
) -> list[int]:
    """Store records with different names instead of those that have them."""
    rows = [
        {"kind": kind, "name": name, "at": None, "derived": derived, "body": encode_text(body)}
        for name, body in records
    ]
    names = session.array([session.index_text(name) for name, _ in records])
    await session.execute(_QUERIES["delete_named"], id=place.conversation_id, kind=kind, names=names)
    numbers = await insert_records(session, place.conversation_id, rows)
    if place.quoted:
        await insert_quotes(session, place.quoted, numbers)
    return numbers


async def insert_records(
    session: Session, conversation_id: int, rows: Sequence[Mapping[str, Any]]
) -> list[int]:
    """Store records with the time of now where they have none; their numbers."""
    values = [
        {
            **row,
            **indexed_text(session, "name", row["name"]),
            "id": conversation_id,
            "size": len(row["body"].encode()),
        }
        for row in rows
    ]
    return [number for [(number,)] in await session.fetch_each(_QUERIES["insert"], values)]


async def insert_quotes(session: Session, quoted: Sequence[QuotedPlace], numbers: Sequence[int]) -> None:
    """Note which messages records quote."""
    refs = [{**one._asdict(), "number": number} for one in dict.fromkeys(quoted) for number in numbers]
    await session.execute_many(_QUERIES["insert_ref"], refs)


async def _find_place(
    session: Session,
    key: Key,
    generation: int | None,
    refs: Sequence[MessageRef],
    log: LockedLog | None = None,
) -> RecordPlace | None:
    """The conversation for records, and the messages that they quote; None if they must not be stored."""
    if refs:
        # A conversation in which nothing was deleted may not be there yet, and must be, to be quoted.
        is_new = {ref.key(key): ref.generation == 0 for ref in refs}
        await _lock_in_order(session, {key: False, **is_new})
    found = log[:2] if log is not None else await find_conversation(session, key, lock=True)
    if generation not in (None, 0 if found is None else found[1].generation):
        return None
    quoted = await _find_quoted(session, key, refs) if refs else []
    if quoted is None:
        return None
    return RecordPlace((await ensure_conversation(session, key) if found is None else found)[0], quoted)


async def _lock_in_order(session: Session, keys: Mapping[Key, bool]) -> None:
    """Lock conversations in the order in which a deletion does, so that neither waits for the other.

    Those that may be new are made. One that is there is never locked for more than a quote: a deletion would
    wait for this one, and this one for the deletion.
    """
    places = []
    for key, may_be_new in sorted(keys.items()):
        found = await find_conversation(session, key)
        places.append(await ensure_conversation(session, key) if found is None and may_be_new else found)
    ids = sorted(place[0] for place in places if place is not None)
    await session.fetch(_QUERIES["lock_in_order"], ids=session.array(ids))


async def _find_quoted(session: Session, key: Key, refs: Sequence[MessageRef]) -> list[QuotedPlace] | None:
    """The quoted messages, whose conversations are locked; None if one is not there."""
    known: dict[Key, tuple[int, int]] = {}
    # In one order for all, so that nobody waits for one who waits for them.
    for ref in sorted(refs, key=lambda one: one.key(key)):
        quoted = ref.key(key)
        if quoted not in known:
            rows = await session.fetch(_QUERIES["lock_quoted"], **session.key_values(quoted))
            if not rows:
                return None
            known[quoted] = rows[0]
        if ref.generation not in (None, known[quoted][1]):
            return None
    places: list[QuotedPlace] = []
    for ref in refs:
        conversation_id = known[ref.key(key)][0]
        # Another statement: after waiting for a lock, this one sees what the other has deleted.
        if ref.position is not None and not await session.fetch(
            _QUERIES["find_quoted"], id=conversation_id, position=ref.position
        ):
            return None
        places.append(QuotedPlace(conversation_id, ref.position or 0))
    return places


async def end_quotes(session: Session, conversation_id: int) -> None:
    """Delete the records that quote a conversation as a whole; what is put meanwhile waits, and is seen."""
    await session.fetch(_QUERIES["lock_quotes"], id=conversation_id)
    await delete_quoting(session, conversation_id, 0, 0)


async def delete_quoting(session: Session, conversation_id: int, first: int, last: int) -> None:
    """Delete the records of any conversation that quote messages of a range, or the conversation."""
    session.note_deletion()
    values = {"id": conversation_id, "first": first, "last": last}
    await session.execute(_QUERIES["delete_quoting"], **values)


async def delete_unknown(session: Session, scope: str) -> None:
    """Delete the records of a scope of which it is not known what they quote."""
    await session.execute(_QUERIES["delete_unknown"], scope=scope)


async def read_records(
    session: Session,
    key: Key,
    kind: str,
    *,
    name: str | None = None,
    after: int = 0,
    limit: int | None = None,
) -> list[Record]:
    """The newest `limit` records with a number greater than `after`, oldest first."""
    check_name("kind", kind)
    check_int("limit", limit, least=0, most=MAX_POSITION, optional=True)
    max_bytes, max_rows = session.read_limit
    values: dict[str, Any] = {**session.key_values(key), "kind": kind, "after": after}
    values |= {"limit": min(MAX_POSITION if limit is None else limit, max_rows + 1), "max_bytes": max_bytes}
    query = _QUERIES["select_newest"]
    if name is not None:
        query, values["name"] = _QUERIES["select_named"], session.index_text(name)
    rows = await session.fetch(query, **values)
    if len(rows) > max_rows or (max_bytes < MAX_POSITION and sum(row[3] for row in rows) > max_bytes):
        raise LargeRead
    return [decode_record(number, name, at, body) for number, name, at, _, body in reversed(rows)]


async def drop_records(
    session: Session, key: Key, kind: str, names: Sequence[str] | None = None, *, before: float | None = None
) -> list[str]:
    """Remove all records or the named ones, optionally only older ones; returns the removed names.

    If several callers remove the same record, only one of them gets its name.
    """
    check_name("kind", kind)
    if isinstance(names, str):
        # Its letters would be taken for names.
        raise InvalidKey("names", "must be a list of strings, not one string")
    found = await find_conversation(session, key)
    if found is None:
        return []
    values: dict[str, Any] = {"id": found[0], "kind": kind, "before": before}
    query = _QUERIES["drop"]
    if names is not None:
        query = _QUERIES["drop_named"]
        values["names"] = session.array([session.index_text(name) for name in names])
    return [name for _, name in sorted(await session.fetch(query, **values))]
