"""What is owed to conversations that live in this process, and who holds the lease on which."""

from __future__ import annotations

from dataclasses import dataclass

from autonomy_ctx.memory.key import Key
from autonomy_ctx.memory.work import LONGEST, Lease


@dataclass(slots=True)
class _Row:
    """One conversation's work; without an owner when nobody is at it."""

    task: str
    due: float
    attempts: int = 0
    refusals: int = 0
    refused: str = ""
    owner: str | None = None
    lease_until: float = 0.0

    def wait(self, now: float) -> float:
        """Seconds until it can be taken."""
        times = [self.due] if self.owner is None else [self.due, self.lease_until]
        return max(_ahead(time, now) for time in times)


class WorkRows:
    """One row per conversation that is owed something; fences outlive the rows."""

    def __init__(self) -> None:
        self._rows: dict[Key, _Row] = {}
        self._fences: dict[Key, int] = {}

    def owe(self, key: Key, task: str, now: float) -> _Row:
        """Owe a conversation a task."""
        row = self._rows.setdefault(key, _Row(task, now))
        if row.task != task:
            # Another configuration: what went wrong under the old one says nothing about it.
            row = self._rows[key] = _Row(task, now, owner=row.owner, lease_until=row.lease_until)
        return row

    def claim(self, key: Key, owner: str, task: str, seconds: float, now: float) -> Lease | float | None:
        """Owe a conversation a task and take it if it is free and due."""
        row = self.owe(key, task, now)
        if row.owner is not None and _ahead(row.lease_until, now):
            return None
        return _ahead(row.due, now) or self._taken(key, row, owner, now + seconds)

    def claim_next(self, owner: str, task: str, seconds: float, now: float) -> Lease | float | None:
        """Take what has been due for the longest time, or say when something could be."""
        owed = [(key, row) for key, row in self._rows.items() if row.task == task]
        free = [(key, row) for key, row in owed if not row.wait(now)]
        if free:
            key, row = min(free, key=lambda one: one[1].due)
            return self._taken(key, row, owner, now + seconds)
        return min((row.wait(now) for _, row in owed), default=None)

    def extend(self, lease: Lease, seconds: float, now: float) -> bool:
        """Move the end of a lease; false when it was lost."""
        row = self._held(lease)
        if row is not None:
            row.lease_until = now + seconds
        return row is not None

    def settle(self, lease: Lease, again_in: float | None, now: float) -> bool:
        """Let go of a lease, and of the row unless it is due again; false when the lease was lost."""
        row = self._held(lease)
        if row is None:
            return False
        if again_in is None:
            del self._rows[lease.key]
        else:
            self._rows[lease.key] = _Row(
                row.task, now + again_in, lease.attempts, lease.refusals, lease.refused
            )
        return True

    def is_leased(self, key: Key, fence: int) -> bool:
        """Whether the lease with this fence is the newest and not let go; it may have run out."""
        row = self._rows.get(key)
        return row is not None and row.owner is not None and self._fences.get(key) == fence

    def forget(self, key: Key) -> None:
        """Owe a conversation nothing any more."""
        self._rows.pop(key, None)

    def _taken(self, key: Key, row: _Row, owner: str, until: float) -> Lease:
        self._fences[key] = fence = self._fences.get(key, 0) + 1
        row.owner, row.lease_until = owner, until
        return Lease(
            key=key,
            owner=owner,
            fence=fence,
            until=until,
            attempts=row.attempts,
            refusals=row.refusals,
            refused=row.refused,
        )

    def _held(self, lease: Lease) -> _Row | None:
        row = self._rows.get(lease.key)
        held = row is not None and row.owner == lease.owner and self._fences.get(lease.key) == lease.fence
        return row if held else None


def _ahead(time: float, now: float) -> float:
    """Seconds from now to a time; 0 for one that is past."""
    return time - now if now < time <= now + LONGEST else 0.0
