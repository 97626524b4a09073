"""One started sub-agent: its tasks one after the other, and an end that leaves nothing running."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Protocol, TypeAlias, TypeVar

import anyio

from autonomy_ctx.errors import SubagentError

T = TypeVar("T")
_STOPPED = "was stopped before it answered"


class Delegate(Protocol):
    """A sub-agent that was started."""

    async def ask(self, task: str) -> str:
        """Do a task and give the answer; called for one task at a time."""

    async def stop(self) -> None:
        """End for good; called once, after the tasks have ended."""


# The configured name, the number of the instance, the scope and the conversation it is for.
Spawn: TypeAlias = Callable[[str, int, str, str], Awaitable[Delegate]]


class Instance:
    """A sub-agent from the moment it is asked for: its first task starts it, the others queue.

    To be stopped, its tasks have `grace` seconds to end, and then it has as long itself.
    """

    def __init__(
        self, name: str, number: int, start: Callable[[], Awaitable[Delegate]], *, grace: float
    ) -> None:
        self.name, self.number, self.id = name, number, f"{name}-{number}"
        self.tasks_done = 0
        # Why it takes no more tasks.
        self.gone: str | None = None
        self._start, self._grace = start, grace
        self._delegate: Delegate | None = None
        self._turn = anyio.Lock()
        self._tasks: set[anyio.CancelScope] = set()
        self._ended = anyio.Event()

    @property
    def tasks_open(self) -> int:
        """How many tasks run or wait, its start among them."""
        return len(self._tasks)

    async def start(self) -> None:
        """Start it, unless it has started."""
        await self._in_turn(_nothing)

    async def ask(self, task: str) -> str:
        """Its answer to a task, after those that came before; `SubagentError` says why there is none."""

        async def work(delegate: Delegate) -> str:
            answer = await delegate.ask(task)
            self.tasks_done += 1
            return answer

        return await self._in_turn(work)

    async def stop(self) -> None:
        """End its tasks, then itself; `SubagentError` if it does not end."""
        self.gone = self.gone or _STOPPED
        for scope in list(self._tasks):
            scope.cancel()
        with anyio.move_on_after(self._grace, shield=True):
            while self._tasks:
                await self._ended.wait()
        delegate, self._delegate = self._delegate, None
        if delegate is None:
            return
        # Shielded: it is forgotten by now, so nobody else would stop it.
        with anyio.move_on_after(self._grace, shield=True):
            try:
                await delegate.stop()
            except Exception as error:
                raise SubagentError(self.id, f"did not stop properly: {_reason(error)}") from error
            return
        raise SubagentError(self.id, f"did not stop within {self._grace:g} s and was left alone")

    async def _in_turn(self, work: Callable[[Delegate], Awaitable[T]]) -> T:
        # Nothing is awaited before the lock, which is fair: tasks run in the order they came.
        with anyio.CancelScope() as scope:
            self._tasks.add(scope)
            try:
                async with self._turn:
                    return await work(await self._started())
            except SubagentError:
                raise
            except Exception as error:
                raise SubagentError(self.id, f"failed: {_reason(error)}") from error
            finally:
                self._tasks.discard(scope)
                self._ended.set()
                self._ended = anyio.Event()
        raise SubagentError(self.id, _STOPPED)

    async def _started(self) -> Delegate:
        if self.gone is not None:
            raise SubagentError(self.id, self.gone)
        if self._delegate is None:
            try:
                self._delegate = await self._start()
            except BaseException as error:
                # Also when it is cancelled: those who wait must not wait for a start that nobody makes.
                why = _reason(error) if isinstance(error, Exception) else "it was given up"
                self.gone = self.gone or f"could not be started: {why}"
                if not isinstance(error, Exception):
                    raise
                raise SubagentError(self.id, self.gone) from error
        return self._delegate


async def _nothing(delegate: Delegate) -> None:
    """To be started is all."""


def _reason(error: BaseException) -> str:
    return f"{type(error).__name__}: {error}".removesuffix(": ")
