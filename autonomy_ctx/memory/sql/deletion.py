"""The scripts of deletion: messages are deleted from every conversation that has them, with all derived data.

Every affected conversation is locked first, in the order of ids, so that two deletions cannot deadlock. If a
fork was made meanwhile, it is locked too, and the check is repeated.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence

from autonomy_ctx.memory.sql.facts import drop_derived_facts, drop_lost_facts
from autonomy_ctx.memory.sql.forks import SharedRange, count_messages, newest_user, read_forks
from autonomy_ctx.memory.sql.log import MessagePlace, find_conversation_ids, find_places
from autonomy_ctx.memory.sql.query import load_queries
from autonomy_ctx.memory.sql.records import delete_quoting, delete_unknown
from autonomy_ctx.memory.sql.segments import delete_segments
from autonomy_ctx.memory.sql.session import Session
from autonomy_ctx.memory.store import MAX_POSITION

_QUERIES = load_queries("deletion")
_OF_CONVERSATIONS = (
    *("delete_wholes", "delete_records", "delete_work", "drop_batches", "delete_ranges", "delete_quoting"),
)


async def delete(
    session: Session,
    scope: str,
    agent: str | None = None,
    conversation: str | None = None,
    ids: Sequence[str] | None = None,
) -> int:
    """Delete a scope, a conversation or some of its messages, and return how many messages there were.

    The generation of every conversation that lost one is raised.
    """
    meant: list[int] = []
    places: list[MessagePlace] = []
    shared: list[tuple[int, SharedRange]] = []

    async def find_losers() -> set[int]:
        nonlocal meant, places, shared
        meant = await find_conversation_ids(session, scope, agent, conversation)
        owners = meant
        if ids is not None:
            places = await find_places(session, meant, ids)
            owners = sorted({place.conversation_id for place in places})
        shared = await read_forks(session, owners)
        return {*owners, *(fork.conversation_id for _, fork in shared)}

    await _lock_all(session, find_losers)
    if ids is None:
        deleted = await _delete_all(session, meant, shared)
    else:
        deleted = await _delete_some(session, places, shared)
    if deleted or ids is None:
        await delete_unknown(session, scope)
    return deleted


async def _lock_all(session: Session, find: Callable[[], Awaitable[set[int]]]) -> None:
    """Lock conversations, until all that are found under the locks are locked."""
    locked: set[int] = set()
    while not (found := await find()) <= locked:
        locked |= found
        await session.fetch(_QUERIES["lock"], ids=session.array(sorted(locked)))


async def _delete_all(
    session: Session, meant: Sequence[int], shared: Sequence[tuple[int, SharedRange]]
) -> int:
    """Delete conversations and all that was made from them; their messages go from their forks too."""
    ids = session.array(meant)
    losses = [
        (fork, await count_messages(session, fork._replace(conversation_id=owner)))
        for owner, fork in shared
        if fork.conversation_id not in meant
    ]
    deleted = await session.execute(_QUERIES["delete_messages"], ids=ids)
    derived: set[int] = set()
    for name in ("delete_segments", "delete_facts", "delete_pins"):
        derived |= {number for (number,) in await session.fetch(_QUERIES[name], ids=ids)}
    for name in _OF_CONVERSATIONS:
        await session.execute(_QUERIES[name], ids=ids)
    await session.unindex([(one, None) for one in meant])
    # Also when nothing is left: what was dropped before may still stand in the write-ahead log.
    session.note_deletion()
    await session.execute(_QUERIES["note_deleted"], ids=ids, derived=session.array(sorted(derived)))
    for fork, lost in losses:
        if lost:
            await _note_loss(session, lost, [fork])
    return deleted


async def _delete_some(
    session: Session, places: Sequence[MessagePlace], shared: Sequence[tuple[int, SharedRange]]
) -> int:
    """Delete messages from every conversation that has them."""
    values = [{"id": owner, "position": position} for owner, position in places]
    for name in ("delete_message", "delete_whole"):
        await session.execute_many(_QUERIES[name], values)
    await session.unindex(places)
    losses: dict[int, list[SharedRange]] = {}
    for owner, position in places:
        for other, one in [(owner, SharedRange(owner, 1, MAX_POSITION)), *shared]:
            if other == owner and one.first <= position <= one.last:
                lost = one._replace(first=position, last=position)
                losses.setdefault(one.conversation_id, []).append(lost)
    for ranges in losses.values():
        await _note_loss(session, len(ranges), ranges)
    return len(places)


async def _note_loss(session: Session, lost: int, ranges: Sequence[SharedRange]) -> None:
    """Delete what was made from messages of a conversation that are gone, and raise its generation."""
    conversation_id = ranges[0].conversation_id
    derived = await _delete_derived(session, ranges)
    session.note_deletion()
    await session.execute(_QUERIES["delete_derived"], id=conversation_id)
    last_user = await newest_user(session, conversation_id)
    values = {"lost": lost, "derived": int(derived > 0), "last_user": last_user}
    [(left,)] = await session.fetch(_QUERIES["note_loss"], id=conversation_id, **values)
    if not left:
        await session.execute(_QUERIES["note_empty"], id=conversation_id)
        for name in ("delete_work", "drop_batches"):
            await session.execute(_QUERIES[name], ids=session.array([conversation_id]))


async def _delete_derived(session: Session, ranges: Sequence[SharedRange]) -> int:
    """Delete the segments from the first lost position on, their facts, and the pins of lost messages.

    The records of any conversation that quote them are deleted, too, and not counted.
    """
    conversation_id, first = ranges[0].conversation_id, min(one.first for one in ranges)
    for one in ranges:
        await delete_quoting(session, *one)
    derived = await delete_segments(session, conversation_id, first)
    derived += await drop_lost_facts(session, conversation_id)
    for one in ranges:
        derived += len(await drop_derived_facts(session, *one))
        values = {"first": one.first, "last": one.last}
        derived += await session.execute(_QUERIES["delete_pinned"], id=conversation_id, **values)
    return derived
