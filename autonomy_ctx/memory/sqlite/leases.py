"""The SQL of leased work: which conversations have work due, and who holds the lease on each."""

from __future__ import annotations

import sqlite3

from autonomy_ctx.memory.sqlite.log import Transaction
from autonomy_ctx.memory.store import MAX_LEASE_SECONDS, Key, Lease, is_current_lease

_SELECT_NONEMPTY_CONVERSATION = (
    "SELECT id FROM conversation WHERE agent = ? AND scope = ? AND conversation = ? AND count > 0"
)
# Another task is another configuration: what went wrong under the old one says nothing about it.
_UPSERT_WORK = """
    INSERT INTO work (conversation_id, task, due) VALUES (?, ?, ?)
    ON CONFLICT (conversation_id) DO UPDATE
    SET task = excluded.task, due = excluded.due, attempts = 0, refusals = 0, refused = ''
    WHERE task <> excluded.task
"""
_SELECT_DUE_WORK = f"""
    SELECT w.conversation_id, c.agent, c.scope, c.conversation
    FROM work w JOIN conversation c ON c.id = w.conversation_id
    WHERE w.task = ?1 AND w.due NOT BETWEEN ?2 + 1e-6 AND ?2 + {MAX_LEASE_SECONDS}
      AND (w.lease_until IS NULL OR w.lease_until NOT BETWEEN ?2 + 1e-6 AND ?2 + {MAX_LEASE_SECONDS})
    ORDER BY w.due LIMIT 1
"""  # noqa: S608  # our number
# Times that are not current are of another boot, or long past.
_SELECT_SOONEST = f"""
    SELECT min(max(
        CASE WHEN due BETWEEN ?2 AND ?2 + {MAX_LEASE_SECONDS} THEN due ELSE ?2 END,
        CASE WHEN lease_until BETWEEN ?2 AND ?2 + {MAX_LEASE_SECONDS} THEN lease_until ELSE ?2 END))
    FROM work WHERE task = ?1
"""  # noqa: S608  # our number
_SELECT_LEASED_CONVERSATION = """
    SELECT w.conversation_id FROM conversation c JOIN work w ON w.conversation_id = c.id
    WHERE c.agent = ? AND c.scope = ? AND c.conversation = ? AND c.fence = ? AND w.owner = ?
"""


def enqueue_task(transaction: Transaction, now: float, key: Key, task: str) -> bool:
    """Owe a conversation a task."""
    connection = transaction.flushed_connection()
    found = connection.execute(_SELECT_NONEMPTY_CONVERSATION, key).fetchone()
    if found is not None:
        connection.execute(_UPSERT_WORK, (*found, task, now))
    return found is not None


def claim(
    transaction: Transaction, now: float, key: Key, owner: str, task: str, seconds: float
) -> Lease | float | None:
    """Owe a conversation a task and take it if it is free and due."""
    connection = transaction.flushed_connection()
    found = connection.execute(_SELECT_NONEMPTY_CONVERSATION, key).fetchone()
    if found is None:
        return None
    connection.execute(_UPSERT_WORK, (*found, task, now))
    [(due, lease_until)] = connection.execute(
        "SELECT due, lease_until FROM work WHERE conversation_id = ?", found
    )
    if lease_until is not None and is_current_lease(lease_until, now):
        return None
    if is_current_lease(due, now):
        return float(due - now)
    return _acquire_lease(connection, found[0], key, owner, now + seconds)


def claim_next(
    transaction: Transaction, now: float, owner: str, task: str, seconds: float
) -> Lease | float | None:
    """Take what has been due for the longest time, or say when something could be."""
    connection = transaction.flushed_connection()
    found = connection.execute(_SELECT_DUE_WORK, (task, now)).fetchone()
    if found is not None:
        return _acquire_lease(connection, found[0], Key(*found[1:]), owner, now + seconds)
    [(soonest,)] = connection.execute(_SELECT_SOONEST, (task, now))
    return None if soonest is None else max(float(soonest - now), 0.0)


def extend(transaction: Transaction, now: float, lease: Lease, seconds: float) -> bool:
    """Move the end of a lease; false when it was lost."""
    connection = transaction.flushed_connection()
    conversation_id = _leased_conversation(connection, lease)
    if conversation_id is not None:
        connection.execute(
            "UPDATE work SET lease_until = ? WHERE conversation_id = ?", (now + seconds, conversation_id)
        )
    return conversation_id is not None


def complete_task(transaction: Transaction, now: float, lease: Lease, again_in: float | None) -> bool:
    """Release a lease, and delete the row unless it is due again; false if the lease was lost."""
    connection = transaction.flushed_connection()
    conversation_id = _leased_conversation(connection, lease)
    if conversation_id is None:
        return False
    if again_in is None:
        connection.execute("DELETE FROM work WHERE conversation_id = ?", (conversation_id,))
        return True
    connection.execute(
        """
        UPDATE work SET due = ?, attempts = ?, refusals = ?, refused = ?, owner = NULL, lease_until = NULL
        WHERE conversation_id = ?
        """,
        (now + again_in, lease.attempts, lease.refusals, lease.refused, conversation_id),
    )
    return True


def is_leased(connection: sqlite3.Connection, conversation_id: int, fence: int) -> bool:
    """True while the lease with this fence is the newest and not released; it may have expired."""
    found = connection.execute(
        """
        SELECT 1 FROM conversation c JOIN work w ON w.conversation_id = c.id
        WHERE c.id = ? AND c.fence = ? AND w.owner IS NOT NULL
        """,
        (conversation_id, fence),
    ).fetchone()
    return found is not None


def _acquire_lease(
    connection: sqlite3.Connection, conversation_id: int, key: Key, owner: str, until: float
) -> Lease:
    [(fence,)] = connection.execute(
        "UPDATE conversation SET fence = fence + 1 WHERE id = ? RETURNING fence", (conversation_id,)
    )
    [(attempts, refusals, refused)] = connection.execute(
        """
        UPDATE work SET owner = ?, lease_until = ? WHERE conversation_id = ?
        RETURNING attempts, refusals, refused
        """,
        (owner, until, conversation_id),
    )
    return Lease(
        key=key,
        owner=owner,
        fence=fence,
        until=until,
        attempts=attempts,
        refusals=refusals,
        refused=refused,
    )


def _leased_conversation(connection: sqlite3.Connection, lease: Lease) -> int | None:
    """The number of the conversation whose newest lease this is; None when it is not."""
    found = connection.execute(_SELECT_LEASED_CONVERSATION, (*lease.key, lease.fence, lease.owner)).fetchone()
    return None if found is None else int(found[0])
