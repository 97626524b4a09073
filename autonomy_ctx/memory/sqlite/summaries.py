"""The SQL of summaries, pins and facts: what one transaction does to their rows, and how they are read."""

from __future__ import annotations

import sqlite3
from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial
from typing import TypeAlias

from autonomy_ctx.errors import NotPinned
from autonomy_ctx.language.fact import Fact, FactChange
from autonomy_ctx.memory.encoding import decode_entry, make_pin
from autonomy_ctx.memory.facts import replaces_fact_of_user
from autonomy_ctx.memory.rows import REPLACED_BY_UNDO
from autonomy_ctx.memory.sqlite import facts as fact_rows
from autonomy_ctx.memory.sqlite.connection import snapshot
from autonomy_ctx.memory.sqlite.facts import FactCache, WrittenFacts
from autonomy_ctx.memory.sqlite.forks import find_message
from autonomy_ctx.memory.sqlite.leases import is_leased
from autonomy_ctx.memory.sqlite.log import Transaction, find_conversation, find_conversation_ids
from autonomy_ctx.memory.sqlite.segments import insert_segment, read_active_segments
from autonomy_ctx.memory.store import Head, Key, PinSource, StoredSegment, SummaryState, segment_replacement

_SELECT_PINS = """
    SELECT p.pinned_at, p.source, m.position, m.id, m.created, m.tokens, m.counter, m.body FROM pin p
    LEFT JOIN shared_range r ON r.conversation_id = p.conversation_id
        AND p.position BETWEEN r.first AND r.last
    JOIN message m ON m.conversation_id = coalesce(r.source_id, p.conversation_id) AND m.position = p.position
    WHERE p.conversation_id = ? ORDER BY p.position
"""
# A pin of a user belongs to the user, also if a model has pinned the message before.
_INSERT_PIN = """
    INSERT INTO pin (conversation_id, position, pinned_at, source) VALUES (?, ?, ?, ?)
    ON CONFLICT DO UPDATE SET source = 'user' WHERE excluded.source = 'user' AND source <> 'user'
"""
_DELETE_PIN = "DELETE FROM pin WHERE conversation_id = ? AND position = ?"
_SELECT_PINNED_BYTES = """
    SELECT coalesce(sum(m.size), 0) FROM pin p
    LEFT JOIN shared_range r ON r.conversation_id = p.conversation_id
        AND p.position BETWEEN r.first AND r.last
    JOIN message m ON m.conversation_id = coalesce(r.source_id, p.conversation_id) AND m.position = p.position
    WHERE p.conversation_id = ?
"""


# Reads the facts of a conversation as its head says that they are.
ReadFacts: TypeAlias = Callable[[sqlite3.Connection, Key, int, Head], tuple[Fact, ...]]


def read_summary(connection: sqlite3.Connection, key: Key, read: ReadFacts) -> SummaryState:
    """The current segments, the pins and the facts, in one snapshot."""
    with snapshot(connection):
        found = find_conversation(connection, key)
        return SummaryState(Head()) if found is None else _read_state(connection, key, *found, read)


def read_small_summary(
    connection: sqlite3.Connection, key: Key, max_bytes: int, read: ReadFacts
) -> SummaryState | None:
    """A summary as `read_summary` reads it, or None when its pinned messages are larger than that."""
    with snapshot(connection):
        found = find_conversation(connection, key)
        if found is None:
            return SummaryState(Head())
        [(pinned,)] = connection.execute(_SELECT_PINNED_BYTES, found[:1])
        return _read_state(connection, key, *found, read) if pinned <= max_bytes else None


def commit_segment(
    transaction: Transaction,
    now: float,
    key: Key,
    segment: StoredSegment,
    merged: StoredSegment | None,
    generation: int,
    fence: int | None,
    facts: Sequence[FactChange] | None,
    cache: FactCache,
    identity: object,
) -> bool:
    """Store a segment and its facts as current, then a merge; nothing if the segment no longer fits."""
    connection = transaction.flushed_connection()
    found = find_conversation(connection, key)
    if found is None or found[1].generation != generation:
        return False
    conversation_id, head = found
    if fence is not None and not is_leased(connection, conversation_id, fence):
        return False
    number = _store_segment(connection, conversation_id, head, segment, now)
    if number is None:
        return False
    if merged is not None:
        _store_segment(connection, conversation_id, head, merged, now)
    known = cache.find(identity, key, conversation_id, head)
    given = (connection, conversation_id)
    dropped = [] if facts is None else fact_rows.drop_covered_facts(*given, segment.first, segment.last)
    if dropped:
        known = None
    written = fact_rows.write_facts(*given, facts or (), known=known, segment=number, dropped=dropped)
    _keep_when_committed(transaction, key, written, cache)
    _increment_revision(connection, conversation_id, new_generation=False)
    return True


def _store_segment(
    connection: sqlite3.Connection, conversation_id: int, head: Head, segment: StoredSegment, now: float
) -> int | None:
    """Store a segment as current, and return its number; None if it does not fit."""
    swap = segment_replacement(read_active_segments(connection, conversation_id), segment, head.position)
    if swap is None:
        return None
    new, *rests = (replace(one, generation=head.generation) for one in swap.added)
    number = insert_segment(connection, conversation_id, replace(new, created=now), None)
    for rest in rests:
        insert_segment(connection, conversation_id, rest, number)
    for one in swap.removed:
        connection.execute("UPDATE segment SET replaced_by = ? WHERE number = ?", (number, one.number))
    return number


def undo_segment(transaction: Transaction, key: Key) -> bool:
    """Take back the newest commit; false when there is none."""
    connection = transaction.flushed_connection()
    found = find_conversation(connection, key)
    if found is None:
        return False
    conversation_id = found[0]
    [(number,)] = connection.execute(
        "SELECT max(number) FROM segment "
        "WHERE conversation_id = ? AND replaced_by IS NULL AND rest_of IS NULL",
        (conversation_id,),
    )
    if number is None:
        return False
    meant = (conversation_id, number)
    connection.execute("DELETE FROM segment WHERE conversation_id = ? AND rest_of = ?", meant)
    connection.execute(
        "UPDATE segment SET replaced_by = NULL WHERE conversation_id = ? AND replaced_by = ?", meant
    )
    connection.execute("UPDATE segment SET replaced_by = ? WHERE number = ?", (REPLACED_BY_UNDO, number))
    fact_rows.drop_facts(connection, conversation_id, fact_rows.DROP_OF_SEGMENT, number)
    _increment_revision(connection, conversation_id, new_generation=True)
    return True


def drop_segments(transaction: Transaction, scope: str, agent: str | None, conversation: str | None) -> int:
    """Delete all segments and due work, and return how many segments were current."""
    connection = transaction.flushed_connection()
    in_force = 0
    for conversation_id in find_conversation_ids(connection, scope, agent, conversation):
        meant = (conversation_id,)
        connection.execute("DELETE FROM work WHERE conversation_id = ?", meant)
        [(active,)] = connection.execute(
            "SELECT count(*) FROM segment WHERE conversation_id = ? AND replaced_by IS NULL", meant
        )
        in_force += active
        facts = fact_rows.drop_facts(connection, conversation_id, fact_rows.DROP_ALL)
        if connection.execute("DELETE FROM segment WHERE conversation_id = ?", meant).rowcount or facts:
            transaction.has_deleted = True
            _increment_revision(connection, conversation_id, new_generation=True)
    return in_force


def pin(
    transaction: Transaction,
    now: float,
    key: Key,
    message_id: str,
    pinned: bool,
    replaces: str | None,
    source: PinSource,
) -> bool:
    """Pin a message, optionally instead of another, or unpin it; false if there is no such message."""
    connection = transaction.flushed_connection()
    found = find_conversation(connection, key)
    place = None if found is None else find_message(connection, found[0], message_id)
    if found is None or place is None:
        return False
    conversation_id, changed = found[0], 0
    if replaces is not None:
        before = find_message(connection, conversation_id, replaces)
        if before is not None:
            changed = connection.execute(_DELETE_PIN, (conversation_id, before.position)).rowcount
        if not changed:
            raise NotPinned(replaces)
    if pinned:
        row = (conversation_id, place.position, now, source)
        changed += connection.execute(_INSERT_PIN, row).rowcount
    else:
        changed += connection.execute(_DELETE_PIN, (conversation_id, place.position)).rowcount
    if changed:
        _increment_revision(connection, conversation_id, new_generation=False)
    return True


def read_facts(connection: sqlite3.Connection, key: Key, cache: FactCache, identity: object) -> list[Fact]:
    """Every fact that is kept of a conversation."""
    with snapshot(connection):
        found = find_conversation(connection, key)
        if found is None:
            return []
        return fact_rows.read_all_facts(connection, found[0], cache.find(identity, key, *found))


def write_facts(
    transaction: Transaction,
    key: Key,
    changes: Sequence[FactChange],
    generation: int | None,
    cache: FactCache,
    identity: object,
) -> list[Fact]:
    """Make changes without a segment; the facts that they add."""
    conversation_id = transaction.conversation_id(key)
    connection = transaction.flushed_connection()
    known = find_conversation(connection, key)
    if generation is not None and (known is None or known[1].generation != generation):
        return []
    before = None if known is None else cache.find(identity, key, *known)
    written = fact_rows.write_facts(connection, conversation_id, changes, known=before)
    if replaces_fact_of_user(changes):
        transaction.end_quotes(conversation_id)
    _keep_when_committed(transaction, key, written, cache)
    _increment_revision(connection, conversation_id, new_generation=False)
    return written.added


def remove_fact(transaction: Transaction, key: Key, number: int) -> bool:
    """Forget a fact that holds; false when none has the number."""
    connection = transaction.flushed_connection()
    found = find_conversation(connection, key)
    if found is None or not fact_rows.remove_fact(connection, found[0], number):
        return False
    transaction.end_quotes(found[0])
    _increment_revision(connection, found[0], new_generation=False)
    return True


def _keep_when_committed(transaction: Transaction, key: Key, written: WrittenFacts, cache: FactCache) -> None:
    if written.known is not None:
        transaction.when_committed.append(partial(cache.keep, key, written.known))


def _read_state(
    connection: sqlite3.Connection, key: Key, conversation_id: int, head: Head, read: ReadFacts
) -> SummaryState:
    pins = [
        make_pin(decode_entry(*row), pinned_at, source)
        for pinned_at, source, *row in connection.execute(_SELECT_PINS, (conversation_id,)).fetchall()
    ]
    segments = tuple(read_active_segments(connection, conversation_id))
    return SummaryState(head, segments, tuple(pins), read(connection, key, conversation_id, head))


def _increment_revision(
    connection: sqlite3.Connection, conversation_id: int, *, new_generation: bool
) -> None:
    connection.execute(
        "UPDATE conversation SET revision = revision + 1, generation = generation + ? WHERE id = ?",
        (new_generation, conversation_id),
    )
