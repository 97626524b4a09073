"""What is owed: conversations that wait for a summary, and who is working on which.

A row outlives the process that wrote it, so that another one can take over when a lease has run
out. Times are seconds since 1970 by the store's clock.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

from autonomy_ctx.memory.key import Key

# No lease and no delay is longer than this, in seconds: a time further ahead is from before the clock
# was set back, and counts as past.
LONGEST = 3600.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Lease:
    """The right to work on one conversation until a time, and how it went before."""

    key: Key
    owner: str
    # Grows with every claim: a commit under an older one is refused.
    fence: int
    until: float
    # Failures in a row.
    attempts: int = 0
    # Answers in a row that were not fit to keep, and what they were made from.
    refusals: int = 0
    refused: str = ""


class Work(Protocol):
    """One row per conversation that is owed something; whoever holds its lease may do it."""

    async def owe(self, key: Key, *, task: str) -> bool:
        """Owe this conversation a `task`, for whoever has time; false when it has no messages."""

    async def claim(self, key: Key, *, owner: str, task: str, seconds: float) -> Lease | float | None:
        """Owe this conversation a `task` and take it.

        A lease when it is free and due; the seconds until it is due; None when somebody else has it.
        """

    async def claim_next(self, *, owner: str, task: str, seconds: float) -> Lease | float | None:
        """Take any conversation that is owed this `task`, is due and free.

        A lease; the seconds until the next one could be due; or None when nothing is owed.
        """

    async def extend(self, lease: Lease, seconds: float) -> bool:
        """Hold on for longer; false when somebody else has it by now."""

    async def settle(self, lease: Lease, *, again_in: float | None = None) -> bool:
        """Let go. The row goes too, unless it is due again in so many seconds; false if the lease was lost.

        With `again_in`, the attempts and refusals of the lease given are kept for the next time.
        """
