"""The scripts of summaries: committing and undoing segments with their facts, pins, and facts of users."""

from __future__ import annotations

from collections.abc import Sequence

from autonomy_ctx.errors import NotPinned
from autonomy_ctx.memory.facts import replaces_fact_of_user
from autonomy_ctx.memory.sql import facts as fact_rows
from autonomy_ctx.memory.sql import segments
from autonomy_ctx.memory.sql.leases import is_leased
from autonomy_ctx.memory.sql.log import (
    ensure_conversation,
    find_conversation,
    find_conversation_ids,
    find_place,
    raise_revision,
)
from autonomy_ctx.memory.sql.query import load_queries
from autonomy_ctx.memory.sql.records import end_quotes
from autonomy_ctx.memory.sql.session import Session
from autonomy_ctx.memory.store import Key, PinSource, StoredSegment
from autonomy_ctx.messages.fact import Fact, FactChange

_QUERIES = load_queries("summaries")


async def commit_segment(
    session: Session,
    key: Key,
    segment: StoredSegment,
    *,
    generation: int,
    fence: int | None,
    facts: Sequence[FactChange] | None = None,
    merged: StoredSegment | None = None,
) -> bool:
    """Store a segment as current. Returns whether generation, coverage and lease still allow it.

    `fence` is that of the lease under which it was made; None for a provisional segment. With `facts`, these
    changes replace all facts of messages of its range; a fact that they state again keeps its id. `merged`
    then replaces neighbours, mostly this segment too, in the same transaction, if it fits.
    """
    found = await find_conversation(session, key, lock=True)
    if found is None or found[1].generation != generation:
        return False
    conversation_id, head = found
    if fence is not None and not await is_leased(session, conversation_id, fence):
        return False
    number = await segments.store_segment(session, conversation_id, head, segment)
    if number is None:
        return False
    if merged is not None:
        await segments.store_segment(session, conversation_id, head, merged)
    if facts is not None:
        dropped = await fact_rows.drop_derived_facts(session, conversation_id, segment.first, segment.last)
        await fact_rows.write_facts(session, conversation_id, facts, segment=number, dropped=dropped)
    await raise_revision(session, conversation_id, new_generation=False)
    return True


async def undo_segment(session: Session, key: Key) -> bool:
    """Undo the newest segment and restore the segments that it replaced; starts a new generation."""
    found = await find_conversation(session, key, lock=True)
    number = None if found is None else await segments.undo_newest(session, found[0])
    if found is None or number is None:
        return False
    await fact_rows.drop_facts_of_segment(session, found[0], number)
    await raise_revision(session, found[0], new_generation=True)
    return True


async def drop_segments(
    session: Session, scope: str, agent: str | None = None, conversation: str | None = None
) -> int:
    """Remove all segments and due work of a conversation or scope; starts a new generation.

    Returns how many segments were current.
    """
    in_force = 0
    for conversation_id in await find_conversation_ids(session, scope, agent, conversation, lock=True):
        active, dropped = await segments.drop_segments(session, conversation_id)
        in_force += active
        facts = await fact_rows.drop_derived_facts(session, conversation_id)
        if dropped or facts:
            session.note_deletion()
            await raise_revision(session, conversation_id, new_generation=True)
    return in_force


async def pin(
    session: Session,
    key: Key,
    message_id: str,
    pinned: bool,
    replaces: str | None = None,
    source: PinSource = "user",
) -> bool:
    """Pin or unpin a message; false if there is no such message.

    The message with the id `replaces` is unpinned in the same transaction; `NotPinned` is raised if it is not
    pinned. A pin of the user stays the user's, also if a model has pinned the message before.
    """
    found = await find_conversation(session, key, lock=True)
    place = None if found is None else await find_place(session, found[0], message_id)
    if found is None or place is None:
        return False
    conversation_id, changed = found[0], 0
    if replaces is not None:
        before = await find_place(session, conversation_id, replaces)
        if before is not None:
            changed = await _unpin(session, conversation_id, before.position)
        if not changed:
            raise NotPinned(replaces)
    if pinned:
        values = {"id": conversation_id, "position": place.position, "source": source}
        changed += await session.execute(_QUERIES["insert_pin"], **values)
    else:
        changed += await _unpin(session, conversation_id, place.position)
    if changed:
        await raise_revision(session, conversation_id, new_generation=False)
    return True


async def _unpin(session: Session, conversation_id: int, position: int) -> int:
    return await session.execute(_QUERIES["delete_pin"], id=conversation_id, position=position)


async def read_facts(session: Session, key: Key) -> list[Fact]:
    """All stored facts, also replaced and done ones, in the order of writing."""
    found = await find_conversation(session, key)
    if found is None:
        return []
    return await fact_rows.read_all_facts(session, found[0])


async def write_facts(
    session: Session, key: Key, changes: Sequence[FactChange], *, generation: int | None = None
) -> list[Fact]:
    """Make changes without a segment, and return the added facts.

    Facts of a user stay until they are removed. Other facts stay until a segment covers their message, or the
    message is deleted. With `generation`, nothing is written if the conversation now has another one.
    """
    conversation_id, head = await ensure_conversation(session, key)
    if generation not in (None, head.generation):
        return []
    added = await fact_rows.write_facts(session, conversation_id, changes)
    if replaces_fact_of_user(changes):
        await end_quotes(session, conversation_id)
    await raise_revision(session, conversation_id, new_generation=False)
    return added


async def remove_fact(session: Session, key: Key, number: int) -> bool:
    """Remove a current fact. What it replaced does not come back. False if there is none."""
    found = await find_conversation(session, key, lock=True)
    if found is None or not await fact_rows.remove_fact(session, found[0], number):
        return False
    await end_quotes(session, found[0])
    await raise_revision(session, found[0], new_generation=False)
    return True
