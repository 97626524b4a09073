"""The SQL of forks: making one, and finding the messages that it shares with the conversations it came from.

A fork has its messages in ranges of positions, each of which is in the rows of one conversation. The range of
its own rows is the last one, so one statement reads all of them in order. This module uses connections, not
stores.
"""

from __future__ import annotations

import sqlite3
from typing import NamedTuple

from autonomy_ctx.language.folding import FOLDING_VERSION
from autonomy_ctx.memory.facts import fork_facts
from autonomy_ctx.memory.forks import ReplacedSegment, fork_position, fork_segments
from autonomy_ctx.memory.sqlite.facts import insert_ended_fact, read_forkable_facts
from autonomy_ctx.memory.sqlite.segments import insert_segment, read_active_segments, read_sources
from autonomy_ctx.memory.store import MAX_POSITION, Head, Key, StoredSegment

_SELECT_SOURCE = """
    SELECT id, last_fact, head, count, generation, last_user, revision FROM conversation
    WHERE agent = ? AND scope = ? AND conversation = ?
"""
_INSERT_FORK = f"""
    INSERT INTO conversation
        (agent, scope, conversation, head, indexed, folding, count, has_messages, generation, revision,
         last_fact, is_fork)
    VALUES (?1, ?2, ?3, ?4, ?4, {FOLDING_VERSION}, ?5, ?5 > 0, ?6, ?7, ?8, 1) RETURNING id
"""  # noqa: S608  # our number
_SELECT_RANGES = """
    SELECT source_id, first, last FROM shared_range WHERE conversation_id = ? ORDER BY first DESC
"""
_INSERT_RANGE = "INSERT INTO shared_range (conversation_id, source_id, first, last) VALUES (?, ?, ?, ?)"
_SELECT_PLACE = """
    SELECT conversation_id, position FROM message WHERE conversation_id = ?1 AND id = ?2
    UNION ALL
    SELECT m.conversation_id, m.position FROM shared_range r CROSS JOIN message m
    WHERE r.conversation_id = ?1 AND r.source_id <> ?1
      AND m.conversation_id = r.source_id AND m.id = ?2 AND m.position BETWEEN r.first AND r.last
"""
_SELECT_FORKS = (
    "SELECT conversation_id, first, last FROM shared_range WHERE source_id = ?1 AND conversation_id <> ?1"
)
_SELECT_NEWEST_USER = """
    SELECT CASE WHEN c.is_fork
        THEN (SELECT m.position FROM shared_range r CROSS JOIN message m
              WHERE r.conversation_id = c.id AND m.is_user
                AND m.conversation_id = r.source_id AND m.position BETWEEN r.first AND r.last
              ORDER BY r.first DESC, m.position DESC LIMIT 1)
        ELSE (SELECT max(position) FROM message WHERE conversation_id = c.id AND is_user)
    END FROM conversation c WHERE c.id = ?
"""
_SELECT_SHARED_UNTIL = """
    SELECT max(r.last) FROM conversation c CROSS JOIN shared_range r
    WHERE c.agent = ?1 AND c.scope = ?2 AND c.conversation = ?3
      AND (r.conversation_id = c.id OR r.source_id = c.id) AND r.source_id <> r.conversation_id
"""


class MessagePlace(NamedTuple):
    """The conversation whose row a message is, and its position."""

    conversation_id: int
    position: int


class SharedRange(NamedTuple):
    """The positions `first` to `last` of a conversation, its own or another's."""

    conversation_id: int
    first: int
    last: int


def fork(connection: sqlite3.Connection, key: Key, at: int | None, name: str) -> None:
    """Make a conversation that shares the messages of another up to a position."""
    found = connection.execute(_SELECT_SOURCE, key).fetchone()
    head = Head() if found is None else Head(*found[2:])
    target = key._replace(conversation=name)
    name_exists = connection.execute(_SELECT_SOURCE, target).fetchone() is not None
    at = fork_position(key, head, at, name, name_exists=name_exists)
    source_id, last_fact = found[:2]
    ranges = [
        (one.conversation_id, one.first, min(one.last, at))
        for one in read_ranges(connection, source_id)
        if one.first <= at
    ]
    segments = _read_segments(connection, source_id, at)
    facts = read_forkable_facts(connection, source_id, at, segments[-1].last if segments else 0)
    count = _count_until(connection, source_id, head, at)
    # A new revision: not that of a conversation that nobody has used.
    row = (*target, at, count, head.generation, head.revision + 1, last_fact)
    [(fork_id,)] = connection.execute(_INSERT_FORK, row).fetchall()
    for shared in [*ranges, (fork_id, at + 1, MAX_POSITION)]:
        connection.execute(_INSERT_RANGE, (fork_id, *shared))
    connection.execute(
        "UPDATE conversation SET last_user = ? WHERE id = ?", (newest_user(connection, fork_id), fork_id)
    )
    connection.execute(
        "INSERT INTO pin (conversation_id, position, pinned_at, source) "
        "SELECT ?, position, pinned_at, source FROM pin WHERE conversation_id = ? AND position <= ?",
        (fork_id, source_id, at),
    )
    # In the order of positions: an undo takes back the last one, so that there is never a gap.
    for segment in segments:
        insert_segment(connection, fork_id, segment, None)
    for fact in fork_facts(*facts, read_active_segments(connection, fork_id), at):
        insert_ended_fact(connection, fork_id, fact)


def read_ranges(connection: sqlite3.Connection, conversation_id: int) -> list[SharedRange]:
    """Where the messages of a conversation are, newest first; of an ordinary one, all in its own rows."""
    found = connection.execute(_SELECT_RANGES, (conversation_id,)).fetchall()
    return [SharedRange(*row) for row in found] or [SharedRange(conversation_id, 1, MAX_POSITION)]


def find_message(
    connection: sqlite3.Connection, conversation_id: int, message_id: str
) -> MessagePlace | None:
    """Where a message of a conversation is kept."""
    found = connection.execute(_SELECT_PLACE, (conversation_id, message_id)).fetchone()
    return None if found is None else MessagePlace(*found)


def has_position(connection: sqlite3.Connection, conversation_id: int, position: int) -> bool:
    """True when a conversation has a message at a position."""
    return any(
        connection.execute(
            "SELECT 1 FROM message WHERE conversation_id = ? AND position = ?",
            (one.conversation_id, position),
        ).fetchone()
        for one in read_ranges(connection, conversation_id)
        if one.first <= position <= one.last
    )


def read_forks(connection: sqlite3.Connection, conversation_id: int) -> list[SharedRange]:
    """The forks that have rows of a conversation, and which of its positions."""
    return [SharedRange(*row) for row in connection.execute(_SELECT_FORKS, (conversation_id,)).fetchall()]


def remove_ranges(connection: sqlite3.Connection, conversation_id: int) -> None:
    """Let a conversation share nothing any more: not what it came from, nor with what came from it."""
    connection.execute(
        "DELETE FROM shared_range WHERE conversation_id = ?1 OR source_id = ?1", (conversation_id,)
    )
    connection.execute("UPDATE conversation SET is_fork = 0 WHERE id = ? AND is_fork", (conversation_id,))


def newest_user(connection: sqlite3.Connection, conversation_id: int) -> int:
    """The position of the newest message of a user; 0 when there is none."""
    [(position,)] = connection.execute(_SELECT_NEWEST_USER, (conversation_id,)).fetchall()
    return position or 0


def shared_until(connection: sqlite3.Connection, key: Key) -> int:
    """The last position that another conversation has too; 0 when there is none."""
    [(position,)] = connection.execute(_SELECT_SHARED_UNTIL, key).fetchall()
    return position or 0


def _read_segments(connection: sqlite3.Connection, conversation_id: int, at: int) -> list[StoredSegment]:
    """The segments of a fork; what replaced ones are needed is read from the top down."""
    active = read_active_segments(connection, conversation_id)
    pending, replaced = list(active), list[ReplacedSegment]()
    while pending:
        segment = pending.pop()
        if segment.first <= at < segment.last:
            sources = read_sources(connection, conversation_id, segment.number)
            replaced += [ReplacedSegment(segment.number, one) for one in sources]
            pending += sources
    return fork_segments(active, replaced, at)


def _count_until(connection: sqlite3.Connection, conversation_id: int, head: Head, at: int) -> int:
    """Count the messages up to a position; rows are read only if some were deleted."""
    if at == head.position:
        return head.count
    if head.count == head.position:
        return at
    is_near_end = at > head.position // 2
    first, last = (at + 1, head.position) if is_near_end else (1, at)
    counted = 0
    for one in read_ranges(connection, conversation_id):
        [(number,)] = connection.execute(
            "SELECT count(*) FROM message WHERE conversation_id = ? AND position BETWEEN ? AND ?",
            (one.conversation_id, max(one.first, first), min(one.last, last)),
        )
        counted += number
    return head.count - counted if is_near_end else counted
