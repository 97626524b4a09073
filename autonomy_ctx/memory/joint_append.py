"""An append and a record that belongs to it, in one transaction where the store can do that.

The record of what a turn was shown goes with the turn's last messages: that saves a commit for each turn,
and no error can come between them. A store without `append_with_record` stores the record right after the
messages, in which case an error must not say that nothing was stored. In the store in this process, nothing
comes between the two either.
"""

from __future__ import annotations

import json
import logging
from collections.abc import Sequence
from typing import NamedTuple, Protocol, TypeGuard

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


class JointAppend(Protocol):
    """A store that appends and puts a record in one transaction."""

    async def append_with_record(
        self,
        key: Key,
        drafts: Sequence[Draft],
        record: RecordDraft,
        *,
        turn: TurnToken | None = None,
        ends: bool = False,
    ) -> list[int]:
        """As `append`; the record is put too, or not if the conversation has another generation by now."""


async def append_with_record(
    store: Store,
    key: Key,
    drafts: Sequence[Draft],
    record: RecordDraft,
    *,
    turn: TurnToken | None = None,
    ends: bool = False,
) -> list[int]:
    """Append and put a record; the messages first, if it cannot be done at once.

    Then a record that cannot be put is left out, because the messages are stored.
    """
    if _can_append_with_record(store):
        return await store.append_with_record(key, drafts, record, turn=turn, ends=ends)
    check_put(record.kind, [(record.name, record.body)], record.keep)
    positions = await store.append(key, drafts, turn=turn, ends=ends)
    try:
        await put_record(store, key, record)
    except Exception as error:
        logger.warning("messages were stored without the record beside them: %s", type(error).__name__)
    return positions


def _can_append_with_record(store: Store) -> TypeGuard[JointAppend]:
    # By the attribute: an `isinstance` check of a protocol takes 90 times as long, and every turn does it.
    return hasattr(store, "append_with_record")


async def put_record(store: Store, key: Key, record: RecordDraft) -> None:
    """Put a record by itself."""
    kind, name, body, keep, derived, generation, refs = record
    await store.put_records(
        key, kind, [(name, body)], keep=keep, derived=derived, generation=generation, refs=refs
    )


def decode_record(number: int, name: str, at: float, body: str) -> Record:
    """The record of a row of a database, whose body is a JSON string."""
    try:
        return Record(number, name, at, json.loads(body))
    except (ValueError, TypeError):
        # Without the cause, which might quote a user's text.
        raise UnreadableRow(f"the record with number {number} cannot be read") from None
