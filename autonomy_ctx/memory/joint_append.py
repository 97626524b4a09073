"""An append and the records that belong to it, in one transaction where the store can do that.

What a model was shown goes with its reply: that saves a commit for each turn, and no error can come
between them. A store without `append_with_records` stores the records right after the messages, in which
case an error must not say that nothing was stored. In the store in this process, nothing comes between.
"""

from __future__ import annotations

import json
import logging
from collections.abc import Sequence
from typing import NamedTuple, Protocol, TypeGuard, runtime_checkable

from autonomy_ctx.memory.encoding import UnreadableRow
from autonomy_ctx.memory.store import Draft, Key, MessageRef, Record, Store, TurnToken, check_put

logger = logging.getLogger("autonomy_ctx.memory")


class RecordDraft(NamedTuple):
    """A record that is to be put; the fields are the arguments of `put_records`."""

    kind: str
    name: str
    body: str
    keep: int | None = None
    derived: bool = False
    generation: int | None = None
    refs: tuple[MessageRef, ...] = ()
    # Put only if the record of this name has this body now; "" means that there is none.
    expected: str | None = None
    # Names and bodies of records of the kind `parts_kind`, which are put if this one is.
    parts: tuple[tuple[str, str], ...] = ()
    # Whether the conversation has another generation then, and records that quote it as a whole are deleted.
    ends_quotes: bool = False

    @property
    def parts_kind(self) -> str:
        """The kind of the records that are its parts."""
        return f"{self.kind}_part"


class JointAppend(Protocol):
    """A store that appends and puts records in one transaction."""

    async def append_with_records(
        self,
        key: Key,
        drafts: Sequence[Draft],
        records: Sequence[RecordDraft],
        *,
        turn: TurnToken | None = None,
        ends: bool = False,
    ) -> list[int]:
        """As `append`; each record is put too, if its generation and what it expects are those of now."""


@runtime_checkable
class QuoteStore(Protocol):
    """A store that knows which records quote a conversation, and has no `append_with_records`."""

    async def end_quotes(self, key: Key) -> None:
        """Delete the records that quote a conversation as a whole, and raise its generation."""


async def append_with_records(
    store: Store,
    key: Key,
    drafts: Sequence[Draft],
    records: Sequence[RecordDraft],
    *,
    turn: TurnToken | None = None,
    ends: bool = False,
) -> list[int]:
    """Append and put records; the messages first, if it cannot be done at once.

    Then a record that cannot be put is left out, because the messages are stored.
    """
    if _can_append_with_records(store):
        return await store.append_with_records(key, drafts, records, turn=turn, ends=ends)
    for record in records:
        check_record(record)
    positions = await store.append(key, drafts, turn=turn, ends=ends)
    try:
        for record in records:
            await put_record(store, key, record)
    except Exception as error:
        logger.warning("messages were stored without the records beside them: %s", type(error).__name__)
    return positions


def _can_append_with_records(store: Store) -> TypeGuard[JointAppend]:
    # By the attribute: an `isinstance` check of a protocol takes 90 times as long, and every turn does it.
    return hasattr(store, "append_with_records")


def check_record(record: RecordDraft) -> None:
    """Refuse a record that some store could not hold, before anything changes."""
    check_put(record.kind, [(record.name, record.body), *record.parts], record.keep)


async def put_record(store: Store, key: Key, record: RecordDraft) -> None:
    """Put a record and its parts by themselves, if what it expects is there."""
    if record.expected is not None:
        found = await store.read_records(key, record.kind, name=record.name)
        if record.expected != "".join(one.body for one in found):
            return
    for kind, records, keep in (
        (record.parts_kind, record.parts, None),
        (record.kind, ((record.name, record.body),), record.keep),
    ):
        if records:
            await store.put_records(
                key,
                kind,
                records,
                keep=keep,
                derived=record.derived,
                generation=record.generation,
                refs=record.refs,
            )
    if record.ends_quotes and isinstance(store, QuoteStore):
        await store.end_quotes(key)


def decode_record(number: int, name: str, at: float, body: str) -> Record:
    """The record of a row of a database, whose body is a JSON string."""
    try:
        return Record(number, name, at, json.loads(body))
    except (ValueError, TypeError):
        # Without the cause, which might quote a user's text.
        raise UnreadableRow(f"the record with number {number} cannot be read") from None
