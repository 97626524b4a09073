"""The scripts of leased work: which conversations have work due, and who holds the lease on each."""

from __future__ import annotations

from hashlib import sha256
from typing import Any

from autonomy_ctx.memory.sql.query import load_queries
from autonomy_ctx.memory.sql.session import Session
from autonomy_ctx.memory.store import MAX_LEASE_SECONDS, Key, Lease, is_current_lease

_QUERIES = load_queries(
    "leases",
    longest=str(MAX_LEASE_SECONDS),
    greatest="{sqlite: max}{postgres: greatest}",
    # The time is asked for once; by the rows of a query, SQLite would sort what it has in order.
    clock="{postgres: WITH clock AS MATERIALIZED (SELECT @lease_now() AS now)}",
    of_clock="{postgres: clock,}",
    now="{sqlite: @lease_now()}{postgres: clock.now}",
)


def work_topic(task: str) -> str:
    """The notification topic of a task."""
    return f"work {sha256(task.encode()).hexdigest()}"


async def enqueue_task(session: Session, key: Key, *, task: str) -> bool:
    """Mark a `task` as due for this conversation; false if it has no messages."""
    conversation_id, is_new = await _owe(session, key, task)
    if is_new:
        await session.notify(work_topic(task))
    return conversation_id is not None


async def claim(session: Session, key: Key, *, owner: str, task: str, seconds: float) -> Lease | float | None:
    """Mark a `task` as due for this conversation and claim it.

    Returns a lease if it is free and due, the seconds until it is due, or None if another has it.
    """
    conversation_id, _ = await _owe(session, key, task)
    if conversation_id is None:
        return None
    return await _take(session, conversation_id, key, owner, seconds)


async def claim_next(session: Session, *, owner: str, task: str, seconds: float) -> Lease | float | None:
    """Claim the conversation for which this `task` is free and has been due for the longest time.

    Returns a lease, or the seconds until the next one could be due, or None if there is no work.
    """
    for conversation_id, *names in await session.fetch(_QUERIES["select_due"], task=task):
        # Looked at again: somebody else may have taken it just before it was locked.
        lease = await _take(session, conversation_id, Key(*names), owner, seconds)
        if isinstance(lease, Lease):
            return lease
    [(soonest,)] = await session.fetch(_QUERIES["select_soonest"], task=task)
    return None if soonest is None else float(soonest)


async def extend(session: Session, lease: Lease, seconds: float) -> bool:
    """Renew a lease; false if another process has it now."""
    return await _change_leased(session, "extend", lease, seconds=seconds)


async def complete_task(session: Session, lease: Lease, *, again_in: float | None = None) -> bool:
    """Release a lease and delete the row, unless `again_in` is given; false if the lease was lost.

    With `again_in`, in seconds, the work is due again then, with the same attempts and refusals.
    """
    if again_in is None:
        return await _change_leased(session, "settle", lease)
    past = {"attempts": lease.attempts, "refusals": lease.refusals, "refused": lease.refused}
    return await _change_leased(session, "postpone", lease, seconds=again_in, **past)


async def is_leased(session: Session, conversation_id: int, fence: int) -> bool:
    """True while the lease with this fence is the newest and not released; it may have expired."""
    return bool(await session.fetch(_QUERIES["find_fence"], id=conversation_id, fence=fence))


async def _owe(session: Session, key: Key, task: str) -> tuple[int | None, bool]:
    """Mark a task as due; the conversation, and whether the task is new there."""
    rows = await session.fetch(_QUERIES["find_spoken"], **session.key_values(key))
    if not rows:
        return None, False
    return rows[0][0], await session.execute(_QUERIES["owe"], id=rows[0][0], task=task) > 0


async def _take(
    session: Session, conversation_id: int, key: Key, owner: str, seconds: float
) -> Lease | float | None:
    """Take the work of a conversation that is locked, if it is free and due."""
    rows = await session.fetch(_QUERIES["select_work"], id=conversation_id)
    if not rows:
        return None
    [(due, lease_until, now)] = rows
    if lease_until is not None and is_current_lease(lease_until, now):
        return None
    if is_current_lease(due, now):
        return float(due - now)
    until = now + seconds
    [(fence,)] = await session.fetch(_QUERIES["raise_fence"], id=conversation_id)
    [(attempts, refusals, refused)] = await session.fetch(
        _QUERIES["lease"], id=conversation_id, owner=owner, until=until
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


async def _change_leased(session: Session, name: str, lease: Lease, **values: Any) -> bool:
    """Change the row of a lease, if it is the newest one of its conversation."""
    key = session.key_values(lease.key)
    rows = await session.fetch(_QUERIES["lock_fence"], **key, fence=lease.fence)
    if not rows:
        return False
    return await session.execute(_QUERIES[name], id=rows[0][0], owner=lease.owner, **values) > 0
