"""A task waits, another thread wakes it: on asyncio and on trio, with a deadline.

One of these is made for every write, so the asyncio one is a bare future and timer: a cancel scope
and an event would cost more than the rest of the write's bookkeeping.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterable
from contextlib import suppress
from typing import Any, Protocol

import anyio


class Bell(Protocol):
    """Rung once by any thread; waited for by one task, in the loop that made it."""

    loop: Any

    def ring(self) -> None:
        """Wake the task. Only called in `loop`; use `ring_all` from elsewhere."""

    async def rung(self, timeout: float) -> bool:
        """Wait; false when the timeout passed first."""


def bell() -> Bell:
    """A bell of the loop that runs now."""
    try:
        return _AsyncioBell(asyncio.get_running_loop())
    except RuntimeError:
        return _TrioBell()


def ring_all(bells: Iterable[Bell]) -> None:
    """Ring bells from any thread, with one call into each loop."""
    by_loop: dict[Any, list[Bell]] = {}
    for one in bells:
        by_loop.setdefault(one.loop, []).append(one)
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
    for one in bells:
        one.ring()


class _AsyncioBell:
    __slots__ = ("_future", "_rung", "loop")

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self.loop = loop
        self._rung = False
        self._future: asyncio.Future[None] | None = None

    def ring(self) -> None:
        # Kept as a fact: it may come between the end of one wait and the start of the next.
        self._rung = True
        self._wake()

    async def rung(self, timeout: float) -> bool:
        if not self._rung:
            self._future = self.loop.create_future()
            timer = self.loop.call_later(timeout, self._wake)
            try:
                await self._future
            finally:
                timer.cancel()
        return self._rung

    def _wake(self) -> None:
        if self._future is not None and not self._future.done():
            self._future.set_result(None)


class _TrioBell:
    __slots__ = ("_event", "loop")

    def __init__(self) -> None:
        import trio

        self.loop = trio.lowlevel.current_trio_token()
        self._event = anyio.Event()

    def ring(self) -> None:
        self._event.set()

    async def rung(self, timeout: float) -> bool:
        with anyio.move_on_after(timeout):
            await self._event.wait()
        return self._event.is_set()
