"""Background tasks with an owner, and small helpers for async code.

`Background` runs jobs and ends all of them when it is closed. Its task group runs in a separate task. So the
caller does not wait for a job, a job is not cancelled with its caller, and any task may close the
`Background`. `AsyncResource` gives a class with `close` the `async with` statement; `Chunks` goes through a
long list with pauses.

Background work shares the interpreter with requests. Work of more than 5 ms goes through `run_in_worker`, so
that it never holds the event loop, and only one thread at a time competes with it.
"""

from __future__ import annotations

import inspect
import logging
from abc import ABC, abstractmethod
from collections.abc import Awaitable, Callable, Iterator, Sequence
from contextlib import contextmanager
from types import TracebackType
from typing import Any, Generic, Protocol, Self, TypeVar, cast, runtime_checkable

import anyio
import anyio.lowlevel
import anyio.to_thread
from anyio.abc import TaskGroup
from anyio.lowlevel import RunVar

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


_worker_limiter: RunVar[anyio.CapacityLimiter] = RunVar("autonomy_ctx_worker")


async def run_in_worker(work: Callable[[], T], *, abandon_on_cancel: bool = False) -> T:
    """Run long work in a thread, one at a time for each event loop."""
    try:
        limiter = _worker_limiter.get()
    except LookupError:
        limiter = anyio.CapacityLimiter(1)
        _worker_limiter.set(limiter)
    return await anyio.to_thread.run_sync(work, abandon_on_cancel=abandon_on_cancel, limiter=limiter)


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
