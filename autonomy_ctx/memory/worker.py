"""A thread that does a store's blocking work, many jobs at a time.

Tasks hand in jobs and wait; the thread takes all that are waiting and does them as one batch, so
that many writers share one commit. A job is either taken by the thread or withdrawn by the task
that waits for it, never both: a withdrawn job leaves no trace.
"""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Callable, Sequence
from enum import Enum
from queue import Empty, SimpleQueue
from typing import Any, Generic, TypeVar

from autonomy_ctx.memory.wake import Bell, Bells, ring_all

T = TypeVar("T")
BATCH = 1024


class Outcome(Enum):
    """How waiting for a job ended."""

    DONE = "done"
    WITHDRAWN = "withdrawn"
    UNKNOWN = "unknown"


class Job(Generic[T]):
    """Something to do on the thread, and the task that waits for it."""

    __slots__ = ("_claim", "bell", "error", "result", "work")

    def __init__(self, work: Callable[[Any], T], bell: Bell) -> None:
        self.work = work
        self.result: T | None = None
        self.error: BaseException | None = None
        self.bell = bell
        # Popping is atomic: whoever gets the one element has the job.
        self._claim = [True]

    def claim(self) -> bool:
        """Take the job; false when the other side was faster."""
        try:
            return self._claim.pop()
        except IndexError:
            return False

    @property
    def wanted(self) -> bool:
        """Whether nobody has taken or withdrawn it yet."""
        return bool(self._claim)

    async def wait(self) -> Outcome:
        """Wait for the result; withdraw the job when it takes too long or this task is cancelled."""
        try:
            if await self.bell.rung():
                return Outcome.DONE
            if self._withdraw():
                return Outcome.WITHDRAWN
            # Too late to withdraw, the batch is being written; only a hanging disk gets past here.
            return Outcome.DONE if await self.bell.rung() else Outcome.UNKNOWN
        except BaseException:
            self._withdraw()
            raise

    def _withdraw(self) -> bool:
        if not self.claim():
            return False
        # The thread may be stuck behind a lock for long: let go of what the job was about.
        self.work = _nothing
        return True


def _nothing(_: Any) -> Any:
    return None


class Worker:
    """One daemon thread with a queue. `batch` is called while there are jobs, `end` once at the end."""

    def __init__(
        self, name: str, timeout: float, batch: Callable[[Worker], None], end: Callable[[], None]
    ) -> None:
        self._name, self._batch, self._end = name, batch, end
        self._bells = Bells(timeout)
        # Handed in by tasks; None asks the thread to stop.
        self._inbox: SimpleQueue[Job[Any] | None] = SimpleQueue()
        # Only the thread touches these.
        self._jobs: deque[Job[Any]] = deque()
        self._stopping = False
        self._thread: threading.Thread | None = None
        self._starting = threading.Lock()
        self._on_end: list[Bell] = []

    def submit(self, work: Callable[[Any], T]) -> Job[T]:
        """Queue some work; the thread starts with the first."""
        job = Job(work, self._bells.make())
        self._inbox.put(job)
        if self._thread is None:
            self._start()
        return job

    def take(self) -> list[Job[Any]]:
        """All jobs that wait now and were not withdrawn, up to a batch."""
        self._collect()
        taken: list[Job[Any]] = []
        while self._jobs and len(taken) < BATCH:
            job = self._jobs.popleft()
            if job.claim():
                taken.append(job)
        return taken

    def wanted(self) -> bool:
        """Whether some task still waits for a job in the queue."""
        self._collect()
        return any(job.wanted for job in self._jobs)

    def forget_withdrawn(self) -> None:
        """Drop jobs that nobody waits for any more."""
        self._jobs = deque(job for job in self._jobs if job.wanted)

    def stop(self, grace: float) -> Bell | None:
        """Have the thread do what is queued and end; the bell rings when it has, if it runs at all."""
        if self._thread is None or not self._thread.is_alive():
            return None
        ended = Bells(grace).make()
        self._on_end.append(ended)
        self._inbox.put(None)
        return ended

    def _start(self) -> None:
        with self._starting:
            if self._thread is None:
                self._thread = threading.Thread(target=self._run, name=self._name, daemon=True)
                self._thread.start()

    def _run(self) -> None:
        while self._jobs or not self._stopping:
            if not self._jobs:
                self._sort(self._inbox.get())
            self._collect()
            if self._jobs:
                self._batch(self)
        self._end()
        ring_all(self._on_end)

    def _collect(self) -> None:
        try:
            while True:
                self._sort(self._inbox.get_nowait())
        except Empty:
            return

    def _sort(self, job: Job[Any] | None) -> None:
        if job is None:
            self._stopping = True
        else:
            self._jobs.append(job)


def finish(jobs: Sequence[Job[Any]]) -> None:
    """Wake all tasks of a batch."""
    ring_all(job.bell for job in jobs)
