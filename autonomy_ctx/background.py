"""Background tasks with an owner, and small helpers for async code.

`Background` runs jobs and ends all of them when it is closed. Its task group runs in a separate task. So the
caller does not wait for a job, a job is not cancelled with its caller, and any task may close the
`Background`. `AsyncResource` gives a class with `close` the `async with` statement; `Chunks` goes through a
long list with pauses.

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
from types import TracebackType
from typing import Any, Generic, Protocol, Self, TypeVar, cast, runtime_checkable

import anyio
import anyio.lowlevel
import anyio.to_thread
from anyio.abc import TaskGroup

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
        self._host: _LoopTaskGroup | None = None
        self._closed = False
        self._closing_since: float | None = None

    @property
    def running(self) -> int:
        """The number of jobs that have started and not ended."""
        return 0 if self._host is None else self._host.running

    def start(self, job: BackgroundJob, *, daemon: bool = False) -> bool:
        """Run a job in the background of the running event loop. Returns false after a close.

        A `daemon` job only waits for something to do, so a close does not wait for it.
        """
        if self._closed:
            return False
        loop = current_loop()
        if self._host is None or self._host.ended or self._host.loop is not loop:
            # The tasks of an ended event loop are gone; their due work is in the store.
            self._host = _LoopTaskGroup(loop)
        self._host.start(job, daemon)
        return True

    @contextmanager
    def busy(self) -> Iterator[None]:
        """In a daemon job: the code in this block counts as a running job."""
        host = self._host
        if host is not None:
            host.running += 1
        try:
            yield
        finally:
            if host is not None:
                host.job_ended()

    async def idle(self) -> None:
        """Wait until no job is running; daemon jobs count while they are `busy`."""
        if self._host is not None:
            await self._host.idle()

    def begin_closing(self) -> None:
        """Start the grace period now. New jobs are accepted until `aclose`."""
        self._closing_since = anyio.current_time()

    async def aclose(self) -> None:
        """Accept no more jobs, let running ones end within the grace period, and cancel the rest.

        A second call does nothing.
        """
        self._closed = True
        host, self._host = self._host, None
        if host is not None and host.loop is current_loop():
            with anyio.CancelScope(shield=True):
                await host.stop(self._remaining_grace())

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


class _LoopTaskGroup:
    """A task group in its own task of one event loop."""

    def __init__(self, loop: Any) -> None:
        self.loop = loop
        self._grace_seconds = 0.0
        self.running = 0
        self.ended = False
        self._group: TaskGroup | None = None
        self._queued_jobs: list[tuple[BackgroundJob, bool]] = []
        self._stopping = anyio.Event()
        self._done = anyio.Event()
        self._idle_event = anyio.Event()
        # Kept: a loop holds only a weak reference to its tasks.
        self._task = _spawn(self._run)

    def start(self, job: BackgroundJob, daemon: bool) -> None:
        if not daemon:
            self.running += 1
        if self._group is None:
            self._queued_jobs.append((job, daemon))
        else:
            self._group.start_soon(self._run_job, job, daemon)

    async def idle(self) -> None:
        while self.running and not self.ended:
            await self._idle_event.wait()

    async def stop(self, grace_seconds: float) -> None:
        self._grace_seconds = grace_seconds
        self._stopping.set()
        await self._done.wait()

    async def _run(self) -> None:
        try:
            async with anyio.create_task_group() as group:
                # A loop that ends right away has begun no job, so that Python does not complain about one.
                await anyio.lowlevel.checkpoint()
                self._group = group
                self._start_queued(group)
                await self._stopping.wait()
                with anyio.move_on_after(self._grace_seconds):
                    await self.idle()
                group.cancel_scope.cancel()
        finally:
            self.ended = True
            self._group = None
            self._idle_event.set()
            self._done.set()

    def _start_queued(self, group: TaskGroup) -> None:
        # Apart from `_run`, whose frame lives long and would hold on to the last job.
        for job, daemon in self._queued_jobs:
            group.start_soon(self._run_job, job, daemon)
        self._queued_jobs.clear()

    async def _run_job(self, job: BackgroundJob, daemon: bool) -> None:
        """Run one job. If it fails, the others go on."""
        try:
            await job()
        except Exception:
            logger.exception("a background job failed")
        finally:
            if not daemon:
                self.job_ended()

    def job_ended(self) -> None:
        """Note that a job has ended."""
        self.running -= 1
        if not self.running:
            self._idle_event.set()
            self._idle_event = anyio.Event()


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

        return trio.lowlevel.spawn_system_task(run, name="autonomy_ctx-background")
    task: asyncio.Task[None] = loop.create_task(run(), name="autonomy_ctx-background")  # type: ignore[arg-type]
    return task
