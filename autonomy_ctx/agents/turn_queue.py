"""Turns of one conversation one after the other, turns of different ones side by side."""

from __future__ import annotations

from collections.abc import AsyncIterator, Hashable, Iterator, Sequence
from contextlib import asynccontextmanager, contextmanager
from contextvars import ContextVar
from typing import Any, TypeAlias

import anyio

from autonomy_ctx.background import current_loop
from autonomy_ctx.errors import AgentClosed, TurnWithinTurn

# When all turns are to end: what those that run are given for it, and then once more when cancelled.
GRACE_SECONDS = 1.5
LAST_SECONDS = 1.0


class _Line:
    """Those who want a turn of one conversation, and the turn that goes on."""

    __slots__ = ("holder", "lock", "standing")

    def __init__(self) -> None:
        self.lock = anyio.Lock()
        self.standing = 0
        self.holder: _Held | None = None


class _Held:
    """A turn that goes on, and the lines in which the code inside it stands."""

    __slots__ = ("over", "waits")

    def __init__(self) -> None:
        self.over = False
        self.waits: list[_Line] = []


Around: TypeAlias = tuple[_Held, ...]
# The turns that the running code is inside of. Tasks and threads that it starts inherit it.
_around: ContextVar[Around] = ContextVar("autonomy_ctx_turns", default=())


def turns_around() -> Around:
    """The turns that the running code is inside of; a task elsewhere can be told by `go_inside`."""
    return tuple(held for held in _around.get() if not held.over)


def go_inside(turns: Around) -> None:
    """Let the running task count as being inside these turns."""
    _around.set(turns)


class _Hall:
    """The lines of one event loop."""

    def __init__(self) -> None:
        self._loop: Any = None
        self._lines: dict[Hashable, _Line] = {}

    def lines(self) -> dict[Hashable, _Line]:
        loop = current_loop()
        if loop is not self._loop:
            # Whoever stood in line in a loop that has ended is gone.
            self._loop, self._lines = loop, {}
        return self._lines


class Lines:
    """One line of those who wait for each conversation; a line goes when nobody stands in it.

    An agent that shares another one's log stands in the same lines, `beside` it.
    """

    def __init__(self, agent: str, *, beside: Lines | None = None) -> None:
        self._agent = agent
        self._hall: _Hall = _Hall() if beside is None else beside._hall
        self._loop: Any = None
        self._standing: set[anyio.CancelScope] = set()
        self._going: dict[_Held, anyio.CancelScope] = {}
        self._ended = anyio.Event()
        self._closed = False

    def __len__(self) -> int:
        return len(self._hall.lines())

    @asynccontextmanager
    async def turn(self, key: Hashable) -> AsyncIterator[None]:
        """Wait for the turn, first come first served, and hold it.

        `TurnWithinTurn` when it could never come: whoever holds it waits, perhaps by way of others, for
        a turn that the caller is inside of. `AgentClosed` when it is closed meanwhile.
        """
        if self._closed:
            raise AgentClosed(self._agent)
        loop = current_loop()
        if loop is not self._loop:
            self._loop, self._standing, self._going = loop, set(), {}
        lines, around, held = self._hall.lines(), turns_around(), _Held()
        line = lines.setdefault(key, _Line())
        if _waits_for(line, around):
            raise TurnWithinTurn(agent=self._agent)
        line.standing += 1
        try:
            with anyio.CancelScope() as scope:
                with self._stood(line, around, scope):
                    await line.lock.acquire()
                try:
                    with self._held(line, held, scope):
                        _around.set((*around, held))
                        yield
                finally:
                    _around.set(around)
                    line.lock.release()
            if scope.cancelled_caught:
                raise AgentClosed(self._agent)
        finally:
            line.standing -= 1
            if not line.standing:
                lines.pop(key, None)

    async def close(self) -> None:
        """End all turns: those that wait at once, those that go on after a little while."""
        self._closed = True
        if self._loop is not current_loop():
            return
        for scope in list(self._standing):
            scope.cancel()
        # Whoever closes from inside a turn cannot wait for it.
        own = set(turns_around())
        for seconds in (GRACE_SECONDS, LAST_SECONDS):
            with anyio.move_on_after(seconds):
                while self._going.keys() - own or self._standing:
                    await self._ended.wait()
                return
            for held in self._going.keys() - own:
                self._going[held].cancel()

    @contextmanager
    def _stood(self, line: _Line, around: Around, scope: anyio.CancelScope) -> Iterator[None]:
        self._standing.add(scope)
        for held in around:
            held.waits.append(line)
        try:
            yield
        finally:
            for held in around:
                held.waits.remove(line)
            self._standing.discard(scope)
            self._tell()

    @contextmanager
    def _held(self, line: _Line, held: _Held, scope: anyio.CancelScope) -> Iterator[None]:
        line.holder = held
        self._going[held] = scope
        try:
            yield
        finally:
            held.over, line.holder = True, None
            self._going.pop(held, None)
            self._tell()

    def _tell(self) -> None:
        self._ended.set()
        self._ended = anyio.Event()


def _waits_for(line: _Line, turns: Sequence[_Held]) -> bool:
    """Whether this line moves only after one of the turns has ended."""
    seen: set[_Held] = set()
    lines = [line]
    while lines:
        holder = lines.pop().holder
        if holder is None or holder in seen:
            continue
        if holder in turns:
            return True
        seen.add(holder)
        lines += holder.waits
    return False
