"""The SQL of leased work: which conversations have work due, and who holds the lease on each.

All times are those of the server's clock. A row of `work` is changed only after its conversation was locked,
so there are no deadlocks.
"""

from __future__ import annotations

from hashlib import sha256

from autonomy_ctx.memory.postgres.connection import Connection, fetch_all, fetch_one
from autonomy_ctx.memory.postgres.log import key_digest
from autonomy_ctx.memory.postgres.notifications import CHANNEL
from autonomy_ctx.memory.store import MAX_LEASE_SECONDS, Key, Lease, is_current_lease

_LOCK_NONEMPTY_CONVERSATION = """
    SELECT id FROM autonomy_ctx.conversation WHERE key = %s AND count > 0 FOR UPDATE
"""
# Another task is another configuration: what went wrong under the old one says nothing about it.
_UPSERT_WORK = """
    INSERT INTO autonomy_ctx.work AS w (conversation_id, task, due)
    SELECT c.id, %s, autonomy_ctx.now_seconds() FROM c
    ON CONFLICT (conversation_id) DO UPDATE
    SET task = excluded.task, due = excluded.due, attempts = 0, refusals = 0, refused = ''
    WHERE w.task <> excluded.task
"""
_OWE = f"""
    WITH c AS ({_LOCK_NONEMPTY_CONVERSATION}), w AS ({_UPSERT_WORK} RETURNING 1)
    SELECT c.id, (SELECT pg_notify(%s, %s) FROM w) FROM c
"""  # noqa: S608  # our names
_OWE_QUIETLY = f"WITH c AS ({_LOCK_NONEMPTY_CONVERSATION}), w AS ({_UPSERT_WORK}) SELECT id FROM c"  # noqa: S608
_SELECT_WORK = """
    SELECT due, lease_until, autonomy_ctx.now_seconds() FROM autonomy_ctx.work WHERE conversation_id = %s
"""
# A conversation that somebody else has locked is skipped: it is being worked on, or will be there next time.
_SELECT_DUE_WORK = f"""
    WITH clock AS MATERIALIZED (SELECT autonomy_ctx.now_seconds() AS now)
    SELECT c.id, c.agent, c.scope, c.conversation
    FROM clock, autonomy_ctx.work w JOIN autonomy_ctx.conversation c ON c.id = w.conversation_id
    WHERE w.task = %s AND w.due NOT BETWEEN now + 1e-6 AND now + {MAX_LEASE_SECONDS}
      AND (w.lease_until IS NULL OR w.lease_until NOT BETWEEN now + 1e-6 AND now + {MAX_LEASE_SECONDS})
    ORDER BY w.due LIMIT 1 FOR UPDATE OF c SKIP LOCKED
"""  # noqa: S608  # our number
_SELECT_SOONEST = """
    SELECT min(greatest(due, coalesce(lease_until, due))) - autonomy_ctx.now_seconds()
    FROM autonomy_ctx.work WHERE task = %s
"""
_ACQUIRE = """
    WITH c AS (UPDATE autonomy_ctx.conversation SET fence = fence + 1 WHERE id = %s RETURNING id, fence)
    UPDATE autonomy_ctx.work w SET owner = %s, lease_until = %s FROM c WHERE w.conversation_id = c.id
    RETURNING c.fence, w.attempts, w.refusals, w.refused
"""
_LOCK_LEASED_CONVERSATION = """
    WITH c AS (SELECT id FROM autonomy_ctx.conversation WHERE key = %s AND fence = %s FOR UPDATE)
"""
_EXTEND = f"""
    {_LOCK_LEASED_CONVERSATION}
    UPDATE autonomy_ctx.work w SET lease_until = autonomy_ctx.now_seconds() + %s
    FROM c WHERE w.conversation_id = c.id AND w.owner = %s
"""  # noqa: S608  # our names
_SETTLE = f"""
    {_LOCK_LEASED_CONVERSATION}
    DELETE FROM autonomy_ctx.work w USING c WHERE w.conversation_id = c.id AND w.owner = %s
"""  # noqa: S608  # our names
_POSTPONE = f"""
    {_LOCK_LEASED_CONVERSATION}
    UPDATE autonomy_ctx.work w
    SET due = autonomy_ctx.now_seconds() + %s, attempts = %s, refusals = %s, refused = %s,
        owner = NULL, lease_until = NULL
    FROM c WHERE w.conversation_id = c.id AND w.owner = %s
"""  # noqa: S608  # our names


_SELECT_LEASED = """
    SELECT 1 FROM autonomy_ctx.conversation c JOIN autonomy_ctx.work w ON w.conversation_id = c.id
    WHERE c.id = %s AND c.fence = %s AND w.owner IS NOT NULL
"""


def work_topic(task: str) -> str:
    """The notification topic of a task."""
    return f"work {sha256(task.encode()).hexdigest()}"


async def enqueue_task(connection: Connection, key: Key, task: str) -> bool:
    """Owe a conversation a task, in one statement that may be repeated."""
    values = (key_digest(key), task, CHANNEL, work_topic(task))
    return await fetch_one(connection, _OWE, values) is not None


async def claim(
    connection: Connection, key: Key, owner: str, task: str, seconds: float
) -> Lease | float | None:
    """Owe a conversation a task and take it if it is free and due."""
    found = await fetch_one(connection, _OWE_QUIETLY, (key_digest(key), task))
    if found is None:
        return None
    return await _take(connection, found[0], key, owner, seconds)


async def claim_next(connection: Connection, owner: str, task: str, seconds: float) -> Lease | float | None:
    """Take what has been due for the longest time, or say when something could be."""
    found = await fetch_one(connection, _SELECT_DUE_WORK, (task,))
    if found is not None:
        # Looked at again: somebody else may have taken it just before it was locked.
        lease = await _take(connection, found[0], Key(*found[1:]), owner, seconds)
        if isinstance(lease, Lease):
            return lease
    row = await fetch_one(connection, _SELECT_SOONEST, (task,))
    return None if row is None or row[0] is None else max(float(row[0]), 0.0)


async def extend(connection: Connection, lease: Lease, seconds: float) -> bool:
    """Move the end of a lease; false when it was lost."""
    meant = (key_digest(lease.key), lease.fence, seconds, lease.owner)
    return (await connection.execute(_EXTEND, meant)).rowcount > 0


async def complete_task(connection: Connection, lease: Lease, again_in: float | None) -> bool:
    """Release a lease, and delete the row unless it is due again; false if the lease was lost."""
    meant = (key_digest(lease.key), lease.fence)
    if again_in is None:
        return (await connection.execute(_SETTLE, (*meant, lease.owner))).rowcount > 0
    past = (again_in, lease.attempts, lease.refusals, lease.refused)
    return (await connection.execute(_POSTPONE, (*meant, *past, lease.owner))).rowcount > 0


async def is_leased(connection: Connection, conversation_id: int, fence: int) -> bool:
    """True while the lease with this fence is the newest and not released; it may have expired."""
    return await fetch_one(connection, _SELECT_LEASED, (conversation_id, fence)) is not None


async def _take(
    connection: Connection, conversation_id: int, key: Key, owner: str, seconds: float
) -> Lease | float | None:
    """Take the work of a conversation that is locked, if it is free and due."""
    row = await fetch_one(connection, _SELECT_WORK, (conversation_id,))
    if row is None:
        return None
    due, lease_until, now = row
    if lease_until is not None and is_current_lease(lease_until, now):
        return None
    if is_current_lease(due, now):
        return float(due - now)
    [(fence, attempts, refusals, refused)] = await fetch_all(
        connection, _ACQUIRE, (conversation_id, owner, now + seconds)
    )
    return Lease(
        key=key,
        owner=owner,
        fence=fence,
        until=now + seconds,
        attempts=attempts,
        refusals=refusals,
        refused=refused,
    )
