"""One change of a container at a time, each with all its hooks, and no way to wait for oneself.

The containers make every change in one step, without awaiting anything in the middle, so their
limits hold whatever runs beside. What needs turns is hooks: those of one change are all called
before the next change begins, so a listener never hears of two changes mixed up.

A hook may change the container it is called for. It does not wait for its turn then, because that
comes only when the hook has ended: its change is made at once, inside the one it was called for.
The same goes for hooks of several containers that change each other.
"""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from contextvars import ContextVar
from typing import Any

import anyio

from autonomy_ctx.background import current_loop


class Change:
    """A change under way."""

    __slots__ = ("incoming", "open", "turns", "waits_for")

    def __init__(self, turns: Turns) -> None:
        self.turns = turns
        self.open = True
        # The id of an item that is about to come in, while its hooks are asked.
        self.incoming: str | None = None
        # The containers for which something that its hooks do is waiting.
        self.waits_for: list[Turns] = []


# Tasks that a hook starts inherit it: what they do is still inside the change, until that has ended.
_changes: ContextVar[tuple[Change, ...]] = ContextVar("autonomy_ctx_changes", default=())


class Turns:
    """Whose turn it is to change a container."""

    def __init__(self) -> None:
        self._loop: Any = None
        self._lock: anyio.Lock | None = None
        self._holder: Change | None = None

    def __reduce__(self) -> tuple[type[Turns], tuple[()]]:
        # A copy of a container is another container.
        return Turns, ()

    def incoming(self) -> list[str]:
        """The ids of the items about which the running code, or a hook that called it, is being asked."""
        changes = (change for change in _changes.get() if change.turns is self)
        return [change.incoming for change in changes if change.incoming is not None]

    @asynccontextmanager
    async def change(self) -> AsyncIterator[Change]:
        """A change with its hooks, when its turn has come."""
        # Without those that have ended: tasks that hooks start may start others without end.
        around = tuple(change for change in _changes.get() if change.open)
        here = self._lock_here()
        lock = None if self._leads_to(around) else here
        if lock is not None:
            await self._wait(lock, around)
        change = Change(self)
        if lock is not None:
            self._holder = change
        token = _changes.set((*around, change))
        try:
            yield change
        finally:
            change.open, change.incoming = False, None
            if lock is not None:
                self._holder = None if self._holder is change else self._holder
                lock.release()
            _changes.reset(token)

    def _leads_to(self, around: tuple[Change, ...]) -> bool:
        """Whether whoever has the turn waits, in the end, for one of the changes around us."""
        holder = self._holder
        return holder is not None and (
            holder in around or any(turns._leads_to(around) for turns in holder.waits_for)
        )

    async def _wait(self, lock: anyio.Lock, around: tuple[Change, ...]) -> None:
        for change in around:
            change.waits_for.append(self)
        try:
            await lock.acquire()
        finally:
            for change in around:
                change.waits_for.remove(self)

    def _lock_here(self) -> anyio.Lock:
        """A loop that has ended may have left its lock taken, and locks of two loops do not mix."""
        loop = current_loop()
        if self._lock is None or self._loop is not loop:
            self._loop, self._lock, self._holder = loop, anyio.Lock(fast_acquire=True), None
        return self._lock
