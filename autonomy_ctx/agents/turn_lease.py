"""The lease of a turn: one turn of a conversation at a time, in all processes that share a store.

A `TurnLease` is acquired in the transaction that stores the user's message, and released in the one that
stores the answer. `TurnRenewer` renews all leases of a node in the background. A turn that has lost its lease
is cancelled and ends with `TurnLost`.
"""

from __future__ import annotations

import logging
import math
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from itertools import count
from typing import Any
from uuid import uuid4
from weakref import WeakKeyDictionary

import anyio

from autonomy_ctx.agents.metrics import AgentMetrics
from autonomy_ctx.background import Background, current_loop
from autonomy_ctx.errors import TurnLost
from autonomy_ctx.memory.memory import Memory
from autonomy_ctx.memory.processes import process_name
from autonomy_ctx.memory.store import Key, TurnStart, TurnToken

logger = logging.getLogger("autonomy_ctx.agents")

# How long a lease is unless it is renewed, in seconds, and how long a turn waits for its turn.
TURN_LEASE_SECONDS = 10.0
TURN_WAIT_SECONDS = 600.0
# A lease is renewed when this part of it is over; others that are due a little later are renewed with it.
RENEWAL_SHARE, SLACK_SHARE = 0.3, 0.1
# How long the release of a lease may take; after that, the lease is left to expire.
LEAVE_SECONDS = 5.0
# A unique name for each turn of a process, also where the system gives little information about processes.
_RANDOM, _numbers = uuid4().hex[:12], count(1)


class TurnLease:
    """The lease of one turn of a conversation, or its place in the queue."""

    def __init__(
        self, memory: Memory, key: Key, seconds: float, background: Background, metrics: AgentMetrics
    ) -> None:
        self.memory, self.key, self.seconds = memory, key, seconds
        self._background, self._metrics = background, metrics
        self._renewer = _renewers.get(background) or _renewers.setdefault(background, TurnRenewer())
        self._owner = f"{process_name()}/{_RANDOM}-{next(_numbers)}"
        self._ticket: int | None = None
        self._holds = self._waited = self._begun = False
        self._scope = anyio.CancelScope()
        self.renew_at = math.inf
        # Whether another turn has taken over, and whether the lease was released.
        self.lost = self.released = False

    @property
    def hold(self) -> TurnToken | None:
        """The right to write, while the turn holds the lease."""
        if self._ticket is None or not self._holds or self.released:
            return None
        return TurnToken(self.key, self._ticket, self._owner)

    async def begin(
        self,
        *messages: Any,
        after: int | None = None,
        unless: str | None = None,
        records: str | None = None,
    ) -> TurnStart | None:
        """Acquire the lease and store the first messages, see `Memory.begin_turn`.

        Returns None if the turn must wait.
        """
        self._begun = True
        start = await self.memory.begin_turn(
            self.key.scope,
            self.key.conversation,
            *messages,
            owner=self._owner,
            seconds=self.seconds,
            ticket=self._ticket,
            after=after,
            unless=unless,
            records=records,
        )
        self._ticket, self._holds = start.ticket, start.positions is not None
        self._renewer.add(self, self._background)
        if start.took_over:
            self._metrics.count("turns_taken_over")
        return start if self._holds else None

    async def wait(self) -> None:
        """Wait until `begin` may succeed."""
        if not self._waited:
            self._waited = True
            self._metrics.count("turns_waited")
        if self._ticket is not None:
            await self.memory.store.wait_for_turn(self.key, self._ticket, seconds=self.seconds)

    async def renew(self) -> None:
        """Renew the lease; a turn that has lost it is cancelled."""
        self.set_renewal()
        if self._ticket is None:
            return
        try:
            renewed = await self.memory.store.renew_turn(
                self.key, self._ticket, owner=self._owner, seconds=self.seconds
            )
        except Exception as error:
            # The renewal is tried again. If that is too late, the store refuses the writes of the turn.
            logger.warning("the lease of a turn could not be renewed: %s", type(error).__name__)
            return
        # A waiting turn that has lost its place takes a new one; a lease that is being released does not
        # matter.
        if not renewed and self._holds and self in self._renewer.leases:
            self.lost = True
            self._scope.cancel()

    def set_renewal(self) -> None:
        """Note that the lease was renewed now."""
        self.renew_at = anyio.current_time() + self.seconds * RENEWAL_SHARE

    def stop_renewal(self) -> None:
        """Stop renewals: the next write of the turn releases the lease."""
        self._renewer.leases.discard(self)

    @asynccontextmanager
    async def leave_at_end(self) -> AsyncIterator[None]:
        """Release the lease at the end of the block, also after an error.

        Raises `TurnLost` if it was lost.
        """
        try:
            with self._scope:
                yield
        except TurnLost:
            self.lost = True
            raise
        finally:
            self.stop_renewal()
            if self.lost:
                self._metrics.count("turns_lost")
            elif self._begun and not self.released:
                await self._leave()
        if self._scope.cancelled_caught:
            raise TurnLost

    async def _leave(self) -> None:
        with anyio.move_on_after(LEAVE_SECONDS, shield=True):
            try:
                # There is no ticket if the turn was cancelled before the store answered; the owner identifies
                # its lease.
                await self.memory.store.leave_turn(self.key, self._ticket, owner=self._owner)
            except Exception as error:
                logger.warning(
                    "the lease of a turn could not be released and will expire: %s", type(error).__name__
                )
        self.released = True


class TurnRenewer:
    """Renews the leases of all turns that share a background, in one task."""

    def __init__(self) -> None:
        self.leases: set[TurnLease] = set()
        self._loop: Any = None
        self._wakeup = anyio.Event()
        self._wake_at = math.inf

    def add(self, lease: TurnLease, background: Background) -> None:
        """Renew a lease from now on, in this background."""
        loop = current_loop()
        if loop is not self._loop:
            # The task and the turns of an ended event loop are gone.
            self.leases, self._wake_at = set(), -math.inf
            self._loop = loop if background.start(self._run, daemon=True) else None
        lease.set_renewal()
        self.leases.add(lease)
        if lease.renew_at < self._wake_at:
            self._wakeup.set()

    async def _run(self) -> None:
        loop = self._loop
        try:
            while True:
                self._wakeup = anyio.Event()
                self._wake_at = min((lease.renew_at for lease in self.leases), default=math.inf)
                with anyio.CancelScope(deadline=self._wake_at):
                    await self._wakeup.wait()
                await self._renew_due()
        finally:
            if self._loop is loop:
                self._loop = None

    async def _renew_due(self) -> None:
        now = anyio.current_time()
        due = [lease for lease in self.leases if lease.renew_at <= now + lease.seconds * SLACK_SHARE]
        # A store that does not answer must not block the renewal of leases in other stores.
        with anyio.move_on_after(min((lease.seconds for lease in due), default=0)):
            async with anyio.create_task_group() as group:
                for lease in due:
                    group.start_soon(lease.renew)


# The one of each background, without which it is of no use.
_renewers: WeakKeyDictionary[Background, TurnRenewer] = WeakKeyDictionary()
