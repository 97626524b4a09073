"""A thread that does a store's blocking work, many jobs at a time.

Tasks hand in jobs and wait; the thread takes all that are waiting and does them as one batch, so
that many writers share one commit. A job is either taken by the thread or withdrawn by the task
that waits for it, never both: a withdrawn job leaves no trace.
"""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Callable, Sequence
from contextlib import suppress
from enum import Enum
from typing import Any, Generic, TypeVar

import anyio

from autonomy_ctx.memory.wake import call_in, current_loop

T = TypeVar("T")
BATCH = 1024


class Outcome(Enum):
    """How waiting for a job ended."""

    DONE = "done"
    WITHDRAWN = "withdrawn"
    UNKNOWN = "unknown"


class Job(Generic[T]):
    """Something to do on the thread, and the task that waits for it."""

    __slots__ = ("_claim", "done", "error", "loop", "result", "work")

    def __init__(self, work: Callable[[Any], T]) -> None:
        self.work = work
        self.result: T | None = None
        self.error: BaseException | None = None
        self.loop = current_loop()
        self.done = anyio.Event()
        # Popping is atomic: whoever gets the one element has the job.
        self._claim = [True]

    def claim(self) -> bool:
        """Take the job; false when the other side was faster."""
        with suppress(IndexError):
            return self._claim.pop()
        return False

    @property
    def wanted(self) -> bool:
        """Whether nobody has taken or withdrawn it yet."""
        return bool(self._claim)

    async def wait(self, timeout: float) -> Outcome:
        """Wait for the result and withdraw the job when it takes too long."""
        try:
            with anyio.move_on_after(timeout):
                await self.done.wait()
                return Outcome.DONE
            if self.claim():
                return Outcome.WITHDRAWN
            # Too late to withdraw, the batch is being written; only a hanging disk gets past here.
            with anyio.move_on_after(timeout):
                await self.done.wait()
                return Outcome.DONE
            return Outcome.UNKNOWN
        finally:
            self.claim()


class Worker:
    """One daemon thread with a queue. `batch` is called while there are jobs, `end` once at the end."""

    def __init__(self, name: str, batch: Callable[[Worker], None], end: Callable[[], None]) -> None:
        self._name, self._batch, self._end = name, batch, end
        self._jobs: deque[Job[Any]] = deque()
        self._ready = threading.Semaphore(0)
        self._thread: threading.Thread | None = None
        self._starting = threading.Lock()
        self._stopping = False
        self._on_end: list[Callable[[], None]] = []

    def submit(self, job: Job[Any]) -> None:
        """Put a job in the queue; the thread starts with the first one."""
        self._jobs.append(job)
        if self._thread is None:
            self._start()
        self._ready.release()

    def take(self) -> list[Job[Any]]:
        """All jobs that wait now and were not withdrawn, up to a batch."""
        taken: list[Job[Any]] = []
        while self._jobs and len(taken) < BATCH:
            job = self._jobs.popleft()
            if job.claim():
                taken.append(job)
        return taken

    def wanted(self) -> bool:
        """Whether some task still waits for a job in the queue."""
        return any(job.wanted for job in list(self._jobs))

    async def stop(self, grace: float) -> None:
        """Do what is queued and end the thread; do not wait longer than `grace` for it."""
        if self._thread is None or not self._thread.is_alive():
            return
        ended, loop = anyio.Event(), current_loop()
        self._on_end.append(lambda: call_in(loop, ended.set))
        self._stopping = True
        self._ready.release()
        with anyio.move_on_after(grace, shield=True):
            await ended.wait()

    def _start(self) -> None:
        with self._starting:
            if self._thread is None:
                self._thread = threading.Thread(target=self._run, name=self._name, daemon=True)
                self._thread.start()

    def _run(self) -> None:
        while not self._stopping or self._jobs:
            self._ready.acquire()
            if self._jobs:
                self._batch(self)
        self._end()
        for call in self._on_end:
            call()


def finish(jobs: Sequence[Job[Any]]) -> None:
    """Wake all tasks of a batch, with one call per loop."""
    by_loop: dict[Any, list[Job[Any]]] = {}
    for job in jobs:
        by_loop.setdefault(job.loop, []).append(job)
    for loop, done in by_loop.items():
        call_in(loop, _Finish(done))


class _Finish:
    """Wakes the tasks of one loop; runs in it."""

    __slots__ = ("_jobs",)

    def __init__(self, jobs: list[Job[Any]]) -> None:
        self._jobs = jobs

    def __call__(self) -> None:
        for job in self._jobs:
            job.done.set()
