"""A worker thread that runs a store's blocking jobs in batches.

Tasks submit jobs and wait. The thread takes all queued jobs as one batch, so many writers share one
commit. A job is either claimed by the thread or withdrawn by its task, never both. Works on asyncio and
trio.
"""

from __future__ import annotations

import asyncio
import threading
from collections import defaultdict, deque
from collections.abc import Callable, Iterable
from contextlib import suppress
from enum import Enum
from typing import Any, Generic, TypeVar

import anyio

T = TypeVar("T")
MAX_BATCH_JOBS = 1024


class JobOutcome(Enum):
    """Ways in which the wait for a job ends."""

    DONE = "done"
    WITHDRAWN = "withdrawn"
    UNKNOWN = "unknown"


class WorkerJob(Generic[T]):
    """Something to do on the thread, and the task that waits for it in the loop that made it."""

    def __init__(self, work: Callable[[Any], T], timeout: float) -> None:
        self.work = work
        self.result: T | None = None
        self.error: BaseException | None = None
        self._timeout = timeout
        self.finished = anyio.Event()
        self.call_in_loop = _loop_caller()
        # Whoever gets the lock has the job.
        self._claim = threading.Lock()

    def claim(self) -> bool:
        """Take the job; false when the other side was faster."""
        return self._claim.acquire(blocking=False)

    @property
    def is_unclaimed(self) -> bool:
        """True while the job is neither claimed nor withdrawn."""
        return not self._claim.locked()

    async def wait(self) -> JobOutcome:
        """Wait for the result; withdraw the job when it takes too long or this task is cancelled."""
        try:
            if await self._wait_once():
                return JobOutcome.DONE
            if self._withdraw():
                return JobOutcome.WITHDRAWN
            # Too late to withdraw, the batch is being written; only a hanging disk gets past here.
            return JobOutcome.DONE if await self._wait_once() else JobOutcome.UNKNOWN
        except BaseException:
            self._withdraw()
            raise

    async def _wait_once(self) -> bool:
        with anyio.move_on_after(self._timeout):
            await self.finished.wait()
        return self.finished.is_set()

    def _withdraw(self) -> bool:
        if not self.claim():
            return False
        # The thread may be stuck behind a lock for long: let go of what the job was about.
        self.work = _do_nothing
        return True


def _do_nothing(_: Any) -> Any:
    return None


def finish_jobs(jobs: Iterable[WorkerJob[Any]]) -> None:
    """Wake the tasks of jobs, with one call into each loop; a loop that has ended is ignored."""
    finished: defaultdict[Callable[..., object], list[anyio.Event]] = defaultdict(list)
    for job in jobs:
        finished[job.call_in_loop].append(job.finished)
    for call_in_loop, events in finished.items():
        with suppress(RuntimeError):
            call_in_loop(_set_all, events)


def _set_all(events: Iterable[anyio.Event]) -> None:
    for event in events:
        event.set()


def _loop_caller() -> Callable[..., object]:
    """A function with which any thread has the loop that runs now call something."""
    try:
        return asyncio.get_running_loop().call_soon_threadsafe
    except RuntimeError:
        import trio

        return trio.lowlevel.current_trio_token().run_sync_soon


class WorkerThread:
    """One daemon thread with a queue. `batch` is called while there are jobs, `end` once at the end."""

    def __init__(
        self, name: str, timeout: float, batch: Callable[[WorkerThread], None], end: Callable[[], None]
    ) -> None:
        self._name, self._timeout, self._batch, self._end = name, timeout, batch, end
        # Guards everything below.
        self._changed = threading.Condition()
        self._jobs: deque[WorkerJob[Any]] = deque()
        self._thread: threading.Thread | None = None
        self._stops: list[WorkerJob[None]] = []

    def submit(self, work: Callable[[Any], T]) -> WorkerJob[T]:
        """Queue some work; the thread starts with the first."""
        job = WorkerJob(work, self._timeout)
        with self._changed:
            self._jobs.append(job)
            self._changed.notify()
            if self._thread is None:
                self._thread = threading.Thread(target=self._run, name=self._name, daemon=True)
                self._thread.start()
        return job

    def take_batch(self) -> list[WorkerJob[Any]]:
        """All jobs that wait now and were not withdrawn, up to a batch."""
        batch: list[WorkerJob[Any]] = []
        with self._changed:
            while self._jobs and len(batch) < MAX_BATCH_JOBS:
                job = self._jobs.popleft()
                if job.claim():
                    batch.append(job)
        return batch

    def has_waiters(self) -> bool:
        """True while some task still waits for a job in the queue."""
        with self._changed:
            return any(job.is_unclaimed for job in self._jobs)

    def drop_withdrawn(self) -> None:
        """Drop jobs whose callers no longer wait."""
        with self._changed:
            self._jobs = deque(job for job in self._jobs if job.is_unclaimed)

    def stop(self, grace: float) -> WorkerJob[None] | None:
        """Have the thread do what is queued and end; wait for the returned job. None if it does not run."""
        stop = WorkerJob(_do_nothing, grace)
        with self._changed:
            if self._thread is None or not self._thread.is_alive():
                return None
            self._stops.append(stop)
            self._changed.notify()
        return stop

    def _run(self) -> None:
        while self._wait_for_jobs():
            self._batch(self)
        self._end()
        finish_jobs(self._stops)

    def _wait_for_jobs(self) -> bool:
        with self._changed:
            self._changed.wait_for(lambda: self._jobs or self._stops)
            return bool(self._jobs)
