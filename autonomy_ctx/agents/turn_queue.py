"""The order of turns: one turn of a conversation at a time, those of different conversations in parallel.

A `TurnLease` orders the turns of all processes that share a store. It is acquired in the transaction that
stores the user's message, and released in the one that stores the answer. `TurnRenewer` renews all leases of
a node in the background. A turn that has lost its lease is cancelled and ends with `TurnLost`.

A `TurnQueue` keeps the order in one process, also for a store without leases, and ends all turns when the
agent is closed. A turn that waits for a turn around it could never begin: then an error is raised.
"""

from __future__ import annotations

import logging
import math
from collections.abc import AsyncIterator, Awaitable, Callable, Hashable, Sequence
from contextlib import asynccontextmanager, nullcontext
from contextvars import ContextVar
from itertools import count
from typing import Any, TypeAlias
from uuid import uuid4
from weakref import WeakKeyDictionary

import anyio

from autonomy_ctx.agents.metrics import AgentMetrics
from autonomy_ctx.background import Background, current_loop
from autonomy_ctx.errors import AgentClosed, TurnLost, TurnWaitTimeout, TurnWithinTurn
from autonomy_ctx.memory.memory import Memory
from autonomy_ctx.memory.processes import process_name
from autonomy_ctx.memory.store import Key, TurnStart, TurnToken
from autonomy_ctx.memory.turn_figures import read_newest
from autonomy_ctx.template.epoch_row import LastTurn

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
        # The number of the newest turn under this lease.
        self.number: int | None = None

    @property
    def hold(self) -> TurnToken | None:
        """The right to write, while the turn holds the lease."""
        if self._ticket is None or not self._holds or self.released:
            return None
        return TurnToken(self.key, self._ticket, self._owner)

    async def take_number(self, last: LastTurn | None, generation: int) -> int:
        """The number of the next turn under the lease; nothing is read if the turn before ran here."""
        if self.number is None:
            is_newest = last is not None and (last.ticket + 1, last.generation) == (self._ticket, generation)
            last = last if is_newest else None
            self.number = (last or await read_newest(self.memory.store, self.key)).number
        self.number += 1
        return self.number

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


# At a close: how long running turns may take to end, and how long again once they are cancelled.
GRACE_SECONDS = 1.5
LAST_SECONDS = 1.0
# The turns that the running code is inside of. Tasks and threads that it starts inherit it.
_enclosing_turns: ContextVar[EnclosingTurns] = ContextVar("autonomy_ctx_turns", default=())

# Takes the lease, whether as the only turn of this process in the conversation or not; false if others wait.
BeginTurn: TypeAlias = Callable[[bool], Awaitable[bool]]


class _ConversationQueue:
    """The turns of one conversation: how many there are, and the one that runs."""

    __slots__ = ("active", "entry", "lock", "size")

    def __init__(self) -> None:
        # Turns of this process get into the line of the store in the order in which they came.
        self.entry = anyio.Lock(fast_acquire=True)
        self.lock = anyio.Lock(fast_acquire=True)
        self.size = 0
        self.active: ActiveTurn | None = None


class ActiveTurn:
    """A running turn, its lease, and the queues in which code inside this turn waits."""

    __slots__ = ("ended", "lease", "waits_in")

    def __init__(self, lease: TurnLease | None) -> None:
        self.ended, self.lease = False, lease
        self.waits_in: list[_ConversationQueue] = []


EnclosingTurns: TypeAlias = tuple[ActiveTurn, ...]


def enclosing_turns() -> EnclosingTurns:
    """The turns around the running code; `enter_turns` passes them to another task."""
    turns = _enclosing_turns.get()
    return tuple([turn for turn in turns if not turn.ended]) if turns else ()


def enclosing_lease(store: object, key: Hashable) -> TurnLease | None:
    """The lease of this conversation that a turn around the running code holds."""
    for turn in enclosing_turns():
        lease = turn.lease
        if lease is not None and lease.hold is not None and lease.key == key and lease.memory.store is store:
            return lease
    return None


def enter_turns(turns: EnclosingTurns) -> None:
    """Mark the running task as being inside these turns."""
    _enclosing_turns.set(turns)


class _LoopQueues:
    """The queues of the running event loop, by conversation."""

    def __init__(self) -> None:
        self._loop: Any = None
        self._queues: dict[Hashable, _ConversationQueue] = {}

    def current(self) -> dict[Hashable, _ConversationQueue]:
        loop = current_loop()
        if loop is not self._loop:
            # Turns that waited in an ended event loop are gone.
            self._loop, self._queues = loop, {}
        return self._queues


class TurnQueue:
    """One queue of turns for each conversation; an empty queue is removed.

    With `shared_with`, agents that share a log also share their queues.
    """

    def __init__(self, agent: str, *, shared_with: TurnQueue | None = None) -> None:
        self._agent = agent
        self._queues: _LoopQueues = _LoopQueues() if shared_with is None else shared_with._queues
        self._loop: Any = None
        self._waiting: set[anyio.CancelScope] = set()
        self._active: dict[ActiveTurn, anyio.CancelScope] = {}
        # All of them, until they have given back everything.
        self._turns: set[ActiveTurn] = set()
        # Set at the next change; only `close` waits for one.
        self._changed: anyio.Event | None = None
        self._closed = False

    def __len__(self) -> int:
        return len(self._queues.current())

    @asynccontextmanager
    async def turn(
        self,
        key: Hashable,
        lease: TurnLease | None = None,
        begin: BeginTurn | None = None,
        *,
        wait_seconds: float | None = None,
    ) -> AsyncIterator[None]:
        """Wait for the turn, first come first served, and hold it. With a lease, `begin` acquires the lease.

        Raises `TurnWithinTurn` if the wait could never end, because the running turn waits, directly or
        through others, for a turn around the caller. Raises `TurnWaitTimeout` after `wait_seconds`, and
        `AgentClosed` if the agent is closed meanwhile.
        """
        if self._closed:
            raise AgentClosed(self._agent)
        loop = current_loop()
        if loop is not self._loop:
            self._loop, self._waiting, self._active, self._turns = loop, set(), {}, set()
        queues, enclosing, turn = self._queues.current(), enclosing_turns(), ActiveTurn(lease)
        queue = queues.setdefault(key, _ConversationQueue())
        if _is_blocked_by(queue, enclosing):
            raise TurnWithinTurn(agent=self._agent)
        queue.size += 1
        self._turns.add(turn)
        try:
            with anyio.CancelScope() as scope:
                async with nullcontext() if lease is None else lease.leave_at_end():
                    self._waiting.add(scope)
                    for one in enclosing:
                        one.waits_in.append(queue)
                    try:
                        await self._wait_for_turn(queue, lease, begin, wait_seconds)
                    finally:
                        for one in enclosing:
                            one.waits_in.remove(queue)
                        self._waiting.discard(scope)
                    queue.active, self._active[turn] = turn, scope
                    _enclosing_turns.set((*enclosing, turn))
                    try:
                        yield
                    finally:
                        turn.ended, queue.active = True, None
                        self._active.pop(turn, None)
                        _enclosing_turns.set(enclosing)
                        queue.lock.release()
            if scope.cancelled_caught:
                raise AgentClosed(self._agent)
        finally:
            self._turns.discard(turn)
            if self._changed is not None:
                self._changed.set()
                self._changed = None
            queue.size -= 1
            if not queue.size:
                queues.pop(key, None)

    async def _wait_for_turn(
        self,
        queue: _ConversationQueue,
        lease: TurnLease | None,
        begin: BeginTurn | None,
        wait_seconds: float | None,
    ) -> None:
        limit = math.inf if wait_seconds is None else wait_seconds
        if lease is None or begin is None:
            await self._wait_until(anyio.current_time() + limit, queue.lock.acquire, limit)
            return
        async with queue.entry:
            begun = await begin(queue.size == 1)
        deadline = anyio.current_time() + limit
        while not begun:
            await self._wait_until(deadline, lease.wait, limit)
            begun = await begin(queue.active is None)
        # The turn before has given back its lease with its answer, and may still be busy with hooks.
        await queue.lock.acquire()

    async def _wait_until(self, deadline: float, wait: Callable[[], Awaitable[None]], limit: float) -> None:
        # The timeout applies only to waiting, not to storing.
        with anyio.CancelScope(deadline=deadline) as scope:
            await wait()
        if scope.cancelled_caught:
            raise TurnWaitTimeout(agent=self._agent, seconds=limit)

    async def close(self) -> None:
        """End all turns: waiting turns at once, running turns after a short time."""
        self._closed = True
        if self._loop is not current_loop():
            return
        for scope in list(self._waiting):
            scope.cancel()
        # Code that closes the agent from inside a turn cannot wait for that turn.
        own = set(enclosing_turns())
        for seconds in (GRACE_SECONDS, LAST_SECONDS):
            with anyio.move_on_after(seconds):
                while self._turns - own:
                    self._changed = self._changed or anyio.Event()
                    await self._changed.wait()
                return
            for turn in self._active.keys() - own:
                self._active[turn].cancel()


def _is_blocked_by(queue: _ConversationQueue, turns: Sequence[ActiveTurn]) -> bool:
    """Tell whether this queue can only advance after one of the turns has ended."""
    seen: set[ActiveTurn] = set()
    queues = [queue]
    while queues:
        active = queues.pop().active
        if active is None or active in seen:
            continue
        if active in turns:
            return True
        seen.add(active)
        queues += active.waits_in
    return False
