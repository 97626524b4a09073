"""The SQL of forks: making one, and how far a conversation is shared.

A fork has its messages in ranges of positions, each of which is in the rows of one conversation. The range
of its own rows is the last one, so one statement reads all of them in order.
"""

from __future__ import annotations

from autonomy_ctx.language.folding import FOLDING_VERSION
from autonomy_ctx.memory.facts import fork_facts
from autonomy_ctx.memory.forks import ReplacedSegment, fork_position, fork_segments
from autonomy_ctx.memory.postgres.connection import Connection, fetch_all, fetch_one
from autonomy_ctx.memory.postgres.facts import insert_ended_facts, read_forkable_facts
from autonomy_ctx.memory.postgres.log import MESSAGES_OF_CONVERSATION, key_digest
from autonomy_ctx.memory.postgres.segments import insert_segment, read_active_segments, read_sources
from autonomy_ctx.memory.store import MAX_POSITION, Head, Key, StoredSegment

# Nothing is appended to it, deleted from it or summarized in it until the fork is made; others may fork it.
_LOCK_SOURCE = """
    SELECT id, last_fact, is_fork, head, count, generation, last_user, revision FROM autonomy_ctx.conversation
    WHERE key = %s FOR SHARE
"""
# Of several that fork to the same name one makes the row; the others wait, and find it made.
_INSERT_FORK = """
    INSERT INTO autonomy_ctx.conversation (key, agent, scope, conversation, is_fork)
    VALUES (%s, %s, %s, %s, true) ON CONFLICT (key) DO NOTHING RETURNING id
"""
_INSERT_RANGES = """
    INSERT INTO autonomy_ctx.shared_range (conversation_id, source_id, first, last)
    SELECT %(fork)s, source_id, first, least(last, %(at)s) FROM autonomy_ctx.shared_range
    WHERE conversation_id = %(source)s AND first <= %(at)s
    UNION ALL SELECT %(fork)s, %(source)s, 1, %(at)s WHERE NOT %(source_is_fork)s
    UNION ALL SELECT %(fork)s, %(fork)s, %(at)s + 1, %(end)s
"""
# The position of the newest message of a user; of a fork by its ranges, newest first.
SELECT_NEWEST_USER = """
    coalesce(CASE WHEN c.is_fork
        THEN (SELECT m.position FROM autonomy_ctx.shared_range r CROSS JOIN LATERAL (
                  SELECT position FROM autonomy_ctx.message
                  WHERE conversation_id = r.source_id AND is_user AND position BETWEEN r.first AND r.last
                  ORDER BY position DESC LIMIT 1
              ) m WHERE r.conversation_id = c.id ORDER BY r.first DESC LIMIT 1)
        ELSE (SELECT position FROM autonomy_ctx.message WHERE conversation_id = c.id AND is_user
              ORDER BY position DESC LIMIT 1)
    END, 0)
"""
# A new revision: not that of a conversation that nobody has used.
_UPDATE_FORK = f"""
    UPDATE autonomy_ctx.conversation c
    SET head = %(at)s, count = %(count)s, has_messages = %(count)s > 0, generation = %(generation)s,
        revision = %(revision)s + 1, last_fact = %(last_fact)s, last_user = {SELECT_NEWEST_USER}
    WHERE id = %(fork)s
"""  # noqa: S608  # our names
_COUNT_MESSAGES = f"""
    SELECT count(*) FROM {MESSAGES_OF_CONVERSATION} WHERE c.id = %s AND m.position BETWEEN %s AND %s
"""  # noqa: S608  # our names
_INSERT_PINS = """
    INSERT INTO autonomy_ctx.pin (conversation_id, position, pinned_at, source)
    SELECT %(fork)s, position, pinned_at, source FROM autonomy_ctx.pin
    WHERE conversation_id = %(source)s AND position <= %(at)s
"""
# The index has its messages as those of the source.
_INSERT_PROGRESS = f"""
    INSERT INTO autonomy_ctx.search_progress (conversation_id, indexed, folding)
    VALUES (%(fork)s, %(at)s, {FOLDING_VERSION})
"""  # noqa: S608  # our number
_SELECT_SHARED_UNTIL = """
    SELECT coalesce(max(r.last), 0) FROM autonomy_ctx.conversation c
    JOIN autonomy_ctx.shared_range r ON r.conversation_id = c.id OR r.source_id = c.id
    WHERE c.key = %s AND r.source_id <> r.conversation_id
"""


async def fork(connection: Connection, key: Key, at: int | None, name: str) -> None:
    """Make a conversation that shares the messages of another up to a position, in a transaction."""
    found = await fetch_one(connection, _LOCK_SOURCE, (key_digest(key),))
    head = Head() if found is None else Head(*found[3:])
    target = key._replace(conversation=name)
    made = await fetch_one(connection, _INSERT_FORK, (key_digest(target), *target))
    # What it refuses is rolled back.
    at = fork_position(key, head, at, name, name_exists=made is None)
    assert found is not None
    assert made is not None
    source_id, last_fact, source_is_fork = found[:3]
    values = {
        "fork": made[0],
        "source": source_id,
        "source_is_fork": source_is_fork,
        "at": at,
        "end": MAX_POSITION,
        "count": await _count_until(connection, source_id, head, at),
        "generation": head.generation,
        "revision": head.revision,
        "last_fact": last_fact,
    }
    for statement in (_INSERT_RANGES, _UPDATE_FORK, _INSERT_PINS, _INSERT_PROGRESS):
        await connection.execute(statement, values)
    segments = await _read_segments(connection, source_id, at)
    facts = await read_forkable_facts(connection, source_id, at, segments[-1].last if segments else 0)
    # In the order of positions: an undo takes back the last one, so that there is never a gap.
    for segment in segments:
        await insert_segment(connection, made[0], segment, None)
    own_segments = await read_active_segments(connection, made[0])
    await insert_ended_facts(connection, made[0], fork_facts(*facts, own_segments, at))


async def shared_until(connection: Connection, key: Key) -> int:
    """The last position that another conversation has too; 0 when there is none."""
    [(position,)] = await fetch_all(connection, _SELECT_SHARED_UNTIL, (key_digest(key),))
    return int(position)


async def _read_segments(connection: Connection, conversation_id: int, at: int) -> list[StoredSegment]:
    """The segments of a fork; replaced segments are read only if they are needed."""
    active = await read_active_segments(connection, conversation_id)
    pending, replaced = active, list[ReplacedSegment]()
    while reaching := [one.number for one in pending if one.first <= at < one.last]:
        sources = await read_sources(connection, conversation_id, reaching)
        replaced += sources
        pending = [one.segment for one in sources]
    return fork_segments(active, replaced, at)


async def _count_until(connection: Connection, conversation_id: int, head: Head, at: int) -> int:
    """Count the messages up to a position; rows are read only if some were deleted."""
    if at == head.position:
        return head.count
    if head.count == head.position:
        return at
    is_near_end = at > head.position // 2
    first, last = (at + 1, head.position) if is_near_end else (1, at)
    [(counted,)] = await fetch_all(connection, _COUNT_MESSAGES, (conversation_id, first, last))
    return head.count - int(counted) if is_near_end else int(counted)
