"""Background tasks with an owner, and small helpers for async code.

`Background` runs jobs, each in a task of its own, and ends all of them when it is closed. So the caller does
not wait for a job, a job is not cancelled with its caller, and any task may close the `Background`.
`AsyncResource` gives a class with `close` the `async with` statement; `Chunks` goes through a long list with
pauses.

Background work shares the interpreter with requests. `run_in_steps` runs it in small steps, and `Urgent` work
goes first. What cannot be divided goes through `run_in_thread`, and calls `pause` in its loops.
"""

from __future__ import annotations

import inspect
import logging
import threading
import time
from abc import ABC, abstractmethod
from collections.abc import Awaitable, Callable, Generator, Iterable, Iterator, Sequence
from contextlib import contextmanager
from contextvars import copy_context
from functools import partial
from types import TracebackType
from typing import Any, Generic, Protocol, Self, TypeVar, cast, runtime_checkable

import anyio
import anyio.lowlevel
import anyio.to_thread

T = TypeVar("T")
CHUNK_SIZE = 500


class Chunks(Generic[T]):
    """A list in pieces; a short one in one piece, without a pause.

    Not an async generator: one that is left by an exception would linger until it is collected.
    """

    def __init__(self, items: Sequence[T], size: int = CHUNK_SIZE) -> None:
        self._items, self._size, self._next = items, size, 0

    def __aiter__(self) -> Chunks[T]:
        return self

    async def __anext__(self) -> Sequence[T]:
        start = self._next
        if start >= len(self._items):
            raise StopAsyncIteration
        if start:
            await anyio.lowlevel.checkpoint()
        self._next = start + self._size
        return self._items[start : self._next]


# How long something stays urgent: who waits longer than this waits for somebody else.
URGENT_SECONDS = 0.1
# How long a step in the background waits for what is urgent. Then it goes on, however much is.
GIVE_WAY_SECONDS = 0.02
_LOOK_SECONDS = 0.002
# Who was just answered often asks again at once. A long step waits for a moment that is quiet for so long.
_QUIET_SECONDS = 0.01
_WAIT_FOR_QUIET_SECONDS = 0.05
# Small steps are done in a row for so long: others notice no delay, and the work waits less often.
STEP_SECONDS = 0.001
# A step that reads more than this runs in a thread.
STEP_CHARACTERS = 8_000


class UrgentStep:
    """Until its end, a turn computes what it needs next: work in the background comes later."""

    def __init__(self) -> None:
        _urgent[self] = time.monotonic() + URGENT_SECONDS

    def end(self) -> None:
        """The turn has what it needs. Twice is harmless."""
        _urgent.pop(self, None)


class Urgent(UrgentStep):
    """Until its end, somebody waits for an answer, and may ask again as soon as it is there."""

    def end(self) -> None:
        """Nobody waits any more. Twice is harmless."""
        global _last_urgent
        if _urgent.pop(self, None) is not None:
            _last_urgent = time.monotonic()


def begin_urgent_step() -> UrgentStep | None:
    """A step of a turn; None while no thread works in the background, as most of the time."""
    return UrgentStep() if _thread_jobs else None


# In this process, until when.
_urgent: dict[UrgentStep, float] = {}
_last_urgent = 0.0


async def give_way() -> None:
    """Let others go on between two steps in the background; what is urgent for a while longer."""
    await anyio.lowlevel.checkpoint()
    if _last_urgent:
        # A request that has just come is read in one round of the loop and begins in the next: only then is
        # it known to be urgent.
        await anyio.lowlevel.checkpoint()
        await anyio.lowlevel.checkpoint()
    end = time.monotonic() + GIVE_WAY_SECONDS
    # Not an event: it may be of the loop of another thread.
    while time.monotonic() < end and somebody_waits():  # noqa: ASYNC110
        await anyio.sleep(_LOOK_SECONDS)


async def wait_for_quiet() -> None:
    """Before a long step in the background: wait until nothing is urgent, and nothing was just before."""
    await give_way()
    end = time.monotonic() + _WAIT_FOR_QUIET_SECONDS
    while (now := time.monotonic()) < end and (  # noqa: ASYNC110
        somebody_waits() or now < _last_urgent + _QUIET_SECONDS
    ):
        await anyio.sleep(_LOOK_SECONDS)


def somebody_waits() -> bool:
    """Tell whether something is urgent, in this thread or another."""
    now = time.monotonic()
    return any(until > now for until in list(_urgent.values()))


async def run_in_steps(steps: Generator[int, None, T]) -> T:
    """Run a generator that gives the characters of each step before it does it; what it returns."""
    ended: list[T] = []

    def advance() -> int:
        try:
            return next(steps)
        except StopIteration as end:
            # It must not be raised through a thread.
            ended.append(end.value)
            return 0

    size, free_until = advance(), 0.0
    while not ended:
        if time.monotonic() >= free_until:
            await give_way()
            free_until = time.monotonic() + STEP_SECONDS
        size = advance() if size <= STEP_CHARACTERS else await run_in_thread(advance)
    return ended[0]


# A thread that computes without a break keeps others from running for 5 ms each time. So it works for so
# long, and then stops for a moment.
_WORK_SECONDS, _PAUSE_SECONDS = 0.001, 0.0002


class _ThreadState(threading.local):
    # Not an attribute that is missing: `pause` is called thousands of times where there is nothing to do.
    works_until: float | None = None
    # Whether it has given way for as long as it must: then it works for a while, whoever waits.
    is_overdue = False


_thread = _ThreadState()
# What runs in threads now; in a set, because several threads change it.
_thread_jobs: set[object] = set()


async def run_in_thread(work: Callable[[], T], *, abandon_on_cancel: bool = False) -> T:
    """Run long work in a thread that lets others go first wherever it calls `pause`."""

    def run() -> T:
        _thread.works_until, _thread.is_overdue = time.monotonic() + _WORK_SECONDS, False
        job = object()
        _thread_jobs.add(job)
        try:
            return work()
        finally:
            _thread_jobs.discard(job)
            _thread.works_until = None

    return await anyio.to_thread.run_sync(run, abandon_on_cancel=abandon_on_cancel)


def pause() -> None:
    """Let others go on, if this is a thread in the background and has worked for long enough.

    What is urgent goes on at once, and for a while longer.
    """
    works_until = _thread.works_until
    if works_until is None:
        return
    if time.monotonic() < works_until and (_thread.is_overdue or not _urgent or not somebody_waits()):
        return
    time.sleep(_PAUSE_SECONDS)
    # From now on: beside a busy event loop, a thread may wake up much later than it wanted to.
    end = time.monotonic() + GIVE_WAY_SECONDS
    while time.monotonic() < end and somebody_waits():
        time.sleep(_LOOK_SECONDS)
    _thread.works_until, _thread.is_overdue = time.monotonic() + _WORK_SECONDS, somebody_waits()


BackgroundJob = Callable[[], Awaitable[None]]
logger = logging.getLogger("autonomy_ctx.background")

GRACE_SECONDS = 2.0
# For jobs that began while their owner was closing.
LEAST_GRACE_SECONDS = 0.5


@runtime_checkable
class Closeable(Protocol):
    """Something that has connections, threads or tasks to close."""

    def close(self) -> Awaitable[None] | None:
        """Close them; may be a plain or an async function."""


async def close_resource(resource: Any) -> None:
    """Close an object if it is `Closeable`."""
    try:
        # Not `isinstance`, which does not see what a wrapper passes on through `__getattr__`.
        close = cast(Closeable, resource).close
    except AttributeError:
        return
    closing = close() if callable(close) else None
    if inspect.isawaitable(closing):
        await closing


async def close_resources(resources: Iterable[Any]) -> None:
    """Close objects, each once. If one fails, the others are closed nevertheless."""
    for resource in {id(resource): resource for resource in resources}.values():
        try:
            await close_resource(resource)
        except Exception as error:
            # It may be any object of a user, such as a model.
            logger.warning("a %s did not close: %s", type(resource).__name__, type(error).__name__)


class AsyncResource(ABC):
    """Closes at the end of an `async with`."""

    @abstractmethod
    async def close(self) -> None:
        """Close what this object has opened."""

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.close()


class Background:
    """Runs jobs in the background. The first job opens it; close it, or use it in an `async with`."""

    def __init__(self, *, grace_seconds: float = GRACE_SECONDS) -> None:
        self.grace_seconds = grace_seconds
        self._jobs: _LoopJobs | None = None
        self._closed = False
        self._closing_since: float | None = None

    @property
    def running(self) -> int:
        """The number of jobs that have started and not ended."""
        return 0 if self._jobs is None else self._jobs.running

    def start(self, job: BackgroundJob, *, daemon: bool = False) -> bool:
        """Run a job in the background of the running event loop. Returns false after a close.

        A `daemon` job only waits for something to do, so a close does not wait for it.
        """
        if self._closed:
            return False
        loop = current_loop()
        if self._jobs is None or self._jobs.loop is not loop:
            # The tasks of an ended event loop are gone; their due work is in the store.
            self._jobs = _LoopJobs(loop)
        self._jobs.start(job, daemon)
        return True

    @contextmanager
    def busy(self) -> Iterator[None]:
        """In a daemon job: the code in this block counts as a running job."""
        jobs = self._jobs
        if jobs is None:
            yield
            return
        jobs.running += 1
        try:
            yield
        finally:
            jobs.note_end()

    async def idle(self) -> None:
        """Wait until no job is running; daemon jobs count while they are `busy`."""
        if self._jobs is not None:
            await self._jobs.idle()

    def begin_closing(self) -> None:
        """Start the grace period now. New jobs are accepted until `aclose`."""
        self._closing_since = anyio.current_time()

    async def aclose(self) -> None:
        """Accept no more jobs, let running ones end within the grace period, and cancel the rest.

        A second call does nothing.
        """
        self._closed = True
        jobs, self._jobs = self._jobs, None
        if jobs is not None and jobs.loop is current_loop():
            with anyio.CancelScope(shield=True):
                await jobs.stop(self._remaining_grace())

    def _remaining_grace(self) -> float:
        """The seconds that are left of the grace period."""
        if self._closing_since is None:
            return self.grace_seconds
        passed = anyio.current_time() - self._closing_since
        return max(self.grace_seconds - passed, min(LEAST_GRACE_SECONDS, self.grace_seconds))

    async def __aenter__(self) -> Background:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.aclose()


class _LoopJobs:
    """The jobs of one event loop, each in a task and a cancel scope of its own."""

    def __init__(self, loop: Any) -> None:
        self.loop, self.running = loop, 0
        # With their tasks: a loop holds only a weak reference to those.
        self._scopes: dict[anyio.CancelScope, object] = {}
        self._one_ended = anyio.Event()

    def start(self, job: BackgroundJob, daemon: bool) -> None:
        self.running += not daemon
        scope = anyio.CancelScope()
        self._scopes[scope] = _spawn(partial(self._run, job, daemon, scope))

    async def idle(self) -> None:
        while self.running:
            await self._one_ended.wait()

    async def stop(self, grace_seconds: float) -> None:
        with anyio.move_on_after(grace_seconds):
            await self.idle()
        while self._scopes:
            for scope in self._scopes:
                scope.cancel()
            await self._one_ended.wait()

    async def _run(self, job: BackgroundJob, daemon: bool, scope: anyio.CancelScope) -> None:
        """Run one job. If it fails, the others go on."""
        try:
            with scope:
                await anyio.lowlevel.checkpoint()
                await job()
        except Exception:
            logger.exception("a background job failed")
        finally:
            del self._scopes[scope]
            self.note_end(daemon)

    def note_end(self, daemon: bool = False) -> None:
        """Note that a job, or what a daemon was busy with, has ended."""
        self.running -= not daemon
        self._one_ended.set()
        self._one_ended = anyio.Event()


def current_loop() -> Any:
    """An object that identifies the running event loop."""
    # Imported here: it is large, and a program with an asyncio loop has imported it already.
    import asyncio

    try:
        return asyncio.get_running_loop()
    except RuntimeError:
        import trio

        return trio.lowlevel.current_trio_token()


def _spawn(run: BackgroundJob) -> object:
    import asyncio  # as above

    try:
        loop = asyncio.get_running_loop()
    except RuntimeError:
        import trio

        name, context = "autonomy_ctx-background", copy_context()
        return trio.lowlevel.spawn_system_task(run, name=name, context=context)
    task: asyncio.Task[None] = loop.create_task(run(), name="autonomy_ctx-background")  # type: ignore[arg-type]
    return task
