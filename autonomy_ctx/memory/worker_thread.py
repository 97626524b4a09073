"""A worker thread that runs a store's blocking jobs in batches, and the waiters that wake its callers.

Tasks submit jobs and wait. The thread takes all queued jobs as one batch, so many writers share one
commit. A job is either claimed by the thread or withdrawn by its task, never both. Works on asyncio and
trio.
"""

from __future__ import annotations

import asyncio
import threading
from collections import deque
from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress
from enum import Enum
from queue import SimpleQueue
from typing import Any, Generic, TypeVar

import anyio

from autonomy_ctx.background import current_loop


class Waiter:
    """Notified once by any thread; waited for by one task, in the loop that made it."""

    def __init__(self, timeout: float) -> None:
        self.loop, self._timeout, self._event = current_loop(), timeout, anyio.Event()

    def notify(self) -> None:
        """Wake the task. Only called in `loop`; use `notify_all` from elsewhere."""
        self._event.set()

    @property
    def notified(self) -> bool:
        """True once it was notified: after a wait, false when the timeout passed first."""
        return self._event.is_set()

    async def wait(self) -> None:
        """Wait to be notified, or for the timeout. May be called again."""
        with anyio.move_on_after(self._timeout):
            await self._event.wait()


def notify_all(waiters: Iterable[Waiter]) -> None:
    """Notify waiters from any thread, with one call into each loop; a closed loop is ignored."""
    by_loop: dict[Any, list[Waiter]] = {}
    for waiter in waiters:
        by_loop.setdefault(waiter.loop, []).append(waiter)
    for loop, together in by_loop.items():
        if isinstance(loop, asyncio.AbstractEventLoop):
            with suppress(RuntimeError):
                loop.call_soon_threadsafe(_notify_each, together)
        else:
            import trio

            with suppress(trio.RunFinishedError):
                loop.run_sync_soon(_notify_each, together)


def _notify_each(waiters: list[Waiter]) -> None:
    for waiter in waiters:
        waiter.notify()


T = TypeVar("T")
MAX_BATCH_JOBS = 1024


class JobOutcome(Enum):
    """Ways in which the wait for a job ends."""

    DONE = "done"
    WITHDRAWN = "withdrawn"
    UNKNOWN = "unknown"


class WorkerJob(Generic[T]):
    """Something to do on the thread, and the task that waits for it."""

    __slots__ = ("_claim", "error", "result", "waiter", "work")

    def __init__(self, work: Callable[[Any], T], waiter: Waiter) -> None:
        self.work = work
        self.result: T | None = None
        self.error: BaseException | None = None
        self.waiter = waiter
        # Popping is atomic: whoever gets the one element has the job.
        self._claim = [True]

    def claim(self) -> bool:
        """Take the job; false when the other side was faster."""
        try:
            return self._claim.pop()
        except IndexError:
            return False

    @property
    def is_unclaimed(self) -> bool:
        """True while the job is neither claimed nor withdrawn."""
        return bool(self._claim)

    async def wait(self) -> JobOutcome:
        """Wait for the result; withdraw the job when it takes too long or this task is cancelled."""
        try:
            await self.waiter.wait()
            if self.waiter.notified:
                return JobOutcome.DONE
            if self._withdraw():
                return JobOutcome.WITHDRAWN
            # Too late to withdraw, the batch is being written; only a hanging disk gets past here.
            await self.waiter.wait()
            return JobOutcome.DONE if self.waiter.notified else JobOutcome.UNKNOWN
        except BaseException:
            self._withdraw()
            raise

    def _withdraw(self) -> bool:
        if not self.claim():
            return False
        # The thread may be stuck behind a lock for long: let go of what the job was about.
        del self.work
        return True


class WorkerThread:
    """One daemon thread with a queue. `batch` is called while there are jobs, `end` once at the end."""

    def __init__(
        self, name: str, timeout: float, batch: Callable[[WorkerThread], None], end: Callable[[], None]
    ) -> None:
        self._name, self._batch, self._end = name, batch, end
        self.timeout = timeout
        # Handed in by tasks; None asks the thread to stop.
        self._inbox: SimpleQueue[WorkerJob[Any] | None] = SimpleQueue()
        # Only the thread touches these.
        self._jobs: deque[WorkerJob[Any]] = deque()
        self._stopping = False
        self._thread: threading.Thread | None = None
        self._start_lock = threading.Lock()
        self._end_waiters: list[Waiter] = []

    def submit(self, work: Callable[[Any], T]) -> WorkerJob[T]:
        """Queue some work; the thread starts with the first."""
        job = WorkerJob(work, Waiter(self.timeout))
        self._inbox.put(job)
        if self._thread is None:
            self._start()
        return job

    def take_batch(self) -> list[WorkerJob[Any]]:
        """All jobs that wait now and were not withdrawn, up to a batch."""
        self._collect()
        batch: list[WorkerJob[Any]] = []
        while self._jobs and len(batch) < MAX_BATCH_JOBS:
            job = self._jobs.popleft()
            if job.claim():
                batch.append(job)
        return batch

    def has_waiters(self) -> bool:
        """True while some task waits for a job in the queue."""
        self._collect()
        return any(job.is_unclaimed for job in self._jobs)

    def drop_withdrawn(self) -> None:
        """Drop jobs whose callers no longer wait."""
        self._jobs = deque(job for job in self._jobs if job.is_unclaimed)

    def stop(self, grace: float) -> Waiter | None:
        """Have the thread do what is queued and end; the waiter is notified then. None if it does not run."""
        if self._thread is None or not self._thread.is_alive():
            return None
        self._end_waiters.append(Waiter(grace))
        self._inbox.put(None)
        return self._end_waiters[-1]

    @property
    def is_stopping(self) -> bool:
        """True once the thread has read that it is to end."""
        return self._stopping

    def join(self, seconds: float) -> None:
        """Block until the thread has ended, for so long at most."""
        if self._thread is not None:
            self._thread.join(seconds)

    def _start(self) -> None:
        with self._start_lock:
            if self._thread is None:
                self._thread = threading.Thread(target=self._run, name=self._name, daemon=True)
                self._thread.start()

    def _run(self) -> None:
        while self._jobs or not self._stopping:
            if not self._jobs:
                self._enqueue(self._inbox.get())
            self._collect()
            if self._jobs:
                self._batch(self)
        self._end()
        notify_all(self._end_waiters)

    def _collect(self) -> None:
        # Nobody else takes anything out: what is there stays there.
        while not self._inbox.empty():
            self._enqueue(self._inbox.get_nowait())

    def _enqueue(self, job: WorkerJob[Any] | None) -> None:
        if job is None:
            self._stopping = True
        else:
            self._jobs.append(job)


def finish_jobs(jobs: Sequence[WorkerJob[Any]]) -> None:
    """Wake all tasks of a batch."""
    notify_all(job.waiter for job in jobs)
