"""A task waits, another thread wakes it: on asyncio and on trio, with a timeout.

One bell is made for every write. On asyncio it is a bare future, and all waits share one timer:
they have the same timeout, so they run out in the order they began. A cancel scope for each would
cost more than the rest of the write's bookkeeping.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Iterable
from contextlib import suppress
from typing import Any, Protocol

import anyio


class Bell(Protocol):
    """Rung once by any thread; waited for by one task, in the loop that made it."""

    loop: Any

    def ring(self) -> None:
        """Wake the task. Only called in `loop`; use `ring_all` from elsewhere."""

    async def rung(self) -> bool:
        """Wait; false when the timeout passed first. May be asked again."""


class Bells:
    """Makes bells with one timeout."""

    def __init__(self, timeout: float) -> None:
        self.timeout = timeout
        self._timeouts: dict[asyncio.AbstractEventLoop, _Timeouts] = {}

    def make(self) -> Bell:
        """A bell of the loop that runs now."""
        try:
            loop = asyncio.get_running_loop()
        except RuntimeError:
            return _TrioBell(self.timeout)
        timeouts = self._timeouts.get(loop)
        if timeouts is None:
            self._timeouts = {old: kept for old, kept in self._timeouts.items() if not old.is_closed()}
            timeouts = self._timeouts[loop] = _Timeouts(loop, self.timeout)
        return _AsyncioBell(timeouts)


def ring_all(bells: Iterable[Bell]) -> None:
    """Ring bells from any thread, with one call into each loop."""
    by_loop: dict[Any, list[Bell]] = {}
    for bell in bells:
        by_loop.setdefault(bell.loop, []).append(bell)
    for loop, together in by_loop.items():
        _call_in(loop, together)


def _call_in(loop: Any, bells: list[Bell]) -> None:
    """A loop that has ended has nobody left to wake."""
    if isinstance(loop, asyncio.AbstractEventLoop):
        with suppress(RuntimeError):
            loop.call_soon_threadsafe(_ring, bells)
    else:
        import trio

        with suppress(trio.RunFinishedError):
            loop.run_sync_soon(_ring, bells)


def _ring(bells: list[Bell]) -> None:
    for bell in bells:
        bell.ring()


class _AsyncioBell:
    __slots__ = ("_future", "_rung", "_timeouts", "loop")

    def __init__(self, timeouts: _Timeouts) -> None:
        self.loop = timeouts.loop
        self._timeouts = timeouts
        self._rung = False
        self._future: asyncio.Future[None] | None = None

    def ring(self) -> None:
        # Kept as a fact: it may come between the end of one wait and the start of the next.
        self._rung = True
        self.wake()

    async def rung(self) -> bool:
        if not self._rung:
            self._future = self.loop.create_future()
            self._timeouts.add(self)
            await self._future
        return self._rung

    @property
    def waiting(self) -> bool:
        return self._future is not None and not self._future.done()

    def wake(self) -> None:
        if self._future is not None and not self._future.done():
            self._future.set_result(None)


class _Timeouts:
    """The waits of one loop in the order they began, and a timer for the first of them."""

    def __init__(self, loop: asyncio.AbstractEventLoop, seconds: float) -> None:
        self.loop, self._seconds = loop, seconds
        self._waits: deque[tuple[float, _AsyncioBell]] = deque()
        self._armed = False

    def add(self, bell: _AsyncioBell) -> None:
        waits = self._waits
        while waits and not waits[0][1].waiting:
            waits.popleft()
        waits.append((self.loop.time() + self._seconds, bell))
        if not self._armed:
            self._arm()

    def _arm(self) -> None:
        self._armed = True
        self.loop.call_at(self._waits[0][0], self._expire)

    def _expire(self) -> None:
        self._armed = False
        waits, now = self._waits, self.loop.time()
        while waits and (waits[0][0] <= now or not waits[0][1].waiting):
            waits.popleft()[1].wake()
        if waits:
            self._arm()


class _TrioBell:
    __slots__ = ("_event", "_timeout", "loop")

    def __init__(self, timeout: float) -> None:
        import trio

        self.loop = trio.lowlevel.current_trio_token()
        self._timeout = timeout
        self._event = anyio.Event()

    def ring(self) -> None:
        self._event.set()

    async def rung(self) -> bool:
        with anyio.move_on_after(self._timeout):
            await self._event.wait()
        return self._event.is_set()
