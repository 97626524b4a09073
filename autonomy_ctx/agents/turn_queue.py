"""Runs the turns of one conversation one after the other, and those of different conversations in parallel.

The order of turns in all processes is that of the leases in the store (`turn_lease`). The queue keeps the
order in one process, also for a store without leases, and ends all turns when the agent is closed. A turn
that waits for a turn around it could never begin. `TurnQueue` detects this and raises an error instead of
waiting.
"""

from __future__ import annotations

import math
from collections.abc import AsyncIterator, Awaitable, Callable, Hashable, Iterator, Sequence
from contextlib import asynccontextmanager, contextmanager, nullcontext
from contextvars import ContextVar
from typing import Any, TypeAlias

import anyio

from autonomy_ctx.agents.turn_lease import TurnLease
from autonomy_ctx.background import current_loop
from autonomy_ctx.errors import AgentClosed, TurnWaitTimeout, TurnWithinTurn

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
    return tuple(turn for turn in _enclosing_turns.get() if not turn.ended)


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
                    with self._wait_in(queue, enclosing, scope):
                        await self._wait_for_turn(queue, lease, begin, wait_seconds)
                    try:
                        with self._activate(queue, turn, scope):
                            _enclosing_turns.set((*enclosing, turn))
                            yield
                    finally:
                        _enclosing_turns.set(enclosing)
                        queue.lock.release()
            if scope.cancelled_caught:
                raise AgentClosed(self._agent)
        finally:
            self._turns.discard(turn)
            self._notify()
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

    @contextmanager
    def _wait_in(
        self, queue: _ConversationQueue, enclosing: EnclosingTurns, scope: anyio.CancelScope
    ) -> Iterator[None]:
        self._waiting.add(scope)
        for turn in enclosing:
            turn.waits_in.append(queue)
        try:
            yield
        finally:
            for turn in enclosing:
                turn.waits_in.remove(queue)
            self._waiting.discard(scope)
            self._notify()

    @contextmanager
    def _activate(
        self, queue: _ConversationQueue, turn: ActiveTurn, scope: anyio.CancelScope
    ) -> Iterator[None]:
        queue.active = turn
        self._active[turn] = scope
        try:
            yield
        finally:
            turn.ended, queue.active = True, None
            self._active.pop(turn, None)
            self._notify()

    def _notify(self) -> None:
        changed, self._changed = self._changed, None
        if changed is not None:
            changed.set()


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
