"""The scripts of forks: making one, and finding the messages that it shares with other conversations.

A fork has its messages in ranges of positions, each of which is in the rows of one conversation. The range of
its own rows is the last one, so one statement reads all of them in order.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from autonomy_ctx.memory.facts import fork_facts
from autonomy_ctx.memory.forks import ReplacedSegment, fork_position, fork_segments
from autonomy_ctx.memory.search_terms import FOLDING_VERSION
from autonomy_ctx.memory.sql.facts import insert_ended_facts, read_forkable_facts
from autonomy_ctx.memory.sql.query import load_queries
from autonomy_ctx.memory.sql.segments import insert_segments, read_active_segments, read_sources
from autonomy_ctx.memory.sql.session import Session
from autonomy_ctx.memory.store import MAX_POSITION, Head, Key, StoredSegment

_QUERIES = load_queries("forks")


class SharedRange(NamedTuple):
    """The positions `first` to `last` of a conversation, its own or another's."""

    conversation_id: int
    first: int
    last: int


async def fork(session: Session, key: Key, at: int | None, name: str) -> None:
    """Make the conversation `name`, with the same agent and scope, from the messages up to `at`.

    None means the head. The fork continues at the next position. Raises `UnknownConversation` if the source
    is empty, and `InvalidFork` for a name that is or was in use, or a position after the head.
    """
    source = await session.fetch(_QUERIES["select_source"], **session.key_values(key))
    head = Head(*source[0][2:]) if source else Head()
    # What is not possible is refused first. Then the row is made, unless another has made one meanwhile.
    fork_position(key, head, at, name, name_exists=False)
    target = session.key_values(key._replace(conversation=name))
    made = await session.fetch(_QUERIES["make_fork"], **target)
    at = fork_position(key, head, at, name, name_exists=not made)
    [(fork_id,)] = made
    source_id, last_fact = source[0][:2]
    sources = await read_ranges(session, source_id)
    ranges = [one._replace(last=min(one.last, at)) for one in sources if one.first <= at]
    await insert_ranges(session, fork_id, [*ranges, SharedRange(fork_id, at + 1, MAX_POSITION)])
    await session.execute(
        _QUERIES["update_fork"],
        id=fork_id,
        at=at,
        count=await _count_until(session, source_id, head, at),
        generation=head.generation,
        revision=head.revision,
        last_fact=last_fact,
        last_user=await newest_user(session, fork_id),
    )
    await session.execute(_QUERIES["copy_pins"], id=fork_id, source=source_id, at=at)
    await session.execute(_QUERIES["note_indexed"], id=fork_id, at=at, folding=FOLDING_VERSION)
    segments = await _read_segments(session, source_id, at)
    facts = await read_forkable_facts(session, source_id, at, segments[-1].last if segments else 0)
    # In the order of positions: an undo takes back the last one, so that there is never a gap.
    await insert_segments(session, fork_id, segments)
    own_segments = await read_active_segments(session, fork_id)
    await insert_ended_facts(session, fork_id, fork_facts(*facts, own_segments, at))


async def insert_ranges(session: Session, conversation_id: int, ranges: list[SharedRange]) -> None:
    """Have a conversation share the rows of others, and its own."""
    values = [{"id": conversation_id, "source": source, "first": a, "last": b} for source, a, b in ranges]
    await session.execute_many(_QUERIES["insert_range"], values)


async def read_ranges(session: Session, conversation_id: int) -> list[SharedRange]:
    """Where the messages of a conversation are, newest first; of an ordinary one, all in its own rows."""
    rows = await session.fetch(_QUERIES["select_ranges"], id=conversation_id)
    return [SharedRange(*row) for row in rows] or [SharedRange(conversation_id, 1, MAX_POSITION)]


async def read_forks(session: Session, owners: Sequence[int]) -> list[tuple[int, SharedRange]]:
    """The forks that have rows of conversations: the owner of the rows, and which of its positions."""
    rows = await session.fetch(_QUERIES["select_forks"], ids=session.array(owners))
    return [(owner, SharedRange(*shared)) for owner, *shared in rows]


async def newest_user(session: Session, conversation_id: int) -> int:
    """The position of the newest message of a user; 0 when there is none."""
    for one in await read_ranges(session, conversation_id):
        values = {"id": one.conversation_id, "first": one.first, "last": one.last}
        [(position,)] = await session.fetch(_QUERIES["select_newest_user"], **values)
        if position is not None:
            return int(position)
    return 0


async def count_messages(session: Session, one: SharedRange) -> int:
    """Count the rows of a range."""
    values = {"id": one.conversation_id, "first": one.first, "last": one.last}
    [(number,)] = await session.fetch(_QUERIES["count_rows"], **values)
    return int(number)


async def shared_until(session: Session, key: Key) -> int:
    """The last position shared with a fork or with the source of this fork; 0 if there is none."""
    [(position,)] = await session.fetch(_QUERIES["select_shared_until"], **session.key_values(key))
    return int(position)


async def _read_segments(session: Session, conversation_id: int, at: int) -> list[StoredSegment]:
    """The segments of a fork; replaced segments are read only if they are needed."""
    active = await read_active_segments(session, conversation_id)
    pending, replaced = active, list[ReplacedSegment]()
    while reaching := [one.number for one in pending if one.first <= at < one.last]:
        sources = await read_sources(session, conversation_id, reaching)
        replaced += sources
        pending = [one.segment for one in sources]
    return fork_segments(active, replaced, at)


async def _count_until(session: Session, conversation_id: int, head: Head, at: int) -> int:
    """Count the messages up to a position; rows are read only if some were deleted."""
    if at == head.position:
        return head.count
    if head.count == head.position:
        return at
    is_near_end = at > head.position // 2
    first, last = (at + 1, head.position) if is_near_end else (1, at)
    counted = 0
    for one in await read_ranges(session, conversation_id):
        part = SharedRange(one.conversation_id, max(one.first, first), min(one.last, last))
        counted += await count_messages(session, part)
    return head.count - counted if is_near_end else counted
