"""The driver's side: starts processes, tells them what to do, and keeps the log of what they promised.

Nothing here waits by the clock: a driver knows what it has read from a pipe, and nothing else.

Processes are forked from one that has imported the library and has done nothing else with it: to start
Python and to import everything takes longer than most of what they do.
"""

from __future__ import annotations

import fcntl
import json
import multiprocessing
import os
import runpy
import signal
import subprocess
import sys
import threading
from collections.abc import Iterable, Mapping, Sequence
from contextlib import ExitStack, suppress
from dataclasses import dataclass
from multiprocessing.reduction import DupFd
from pathlib import Path
from queue import Empty, SimpleQueue
from typing import Any, NamedTuple
from zlib import crc32

Answer = dict[str, Any]
HERE = Path(__file__).parent
# Seconds: a child that says nothing for so long will never say anything.
PATIENCE = 60
# How often a process is stopped until it is found where it should be.
TRIES = 400
FORKS = multiprocessing.get_context("forkserver")
# By their modules: the package itself imports nothing until a name of it is used.
_LIBRARY = ("agents.agent", "compaction.summarizer", "memory.sqlite.store", "sections.history")
FORKS.set_forkserver_preload(
    [*(f"autonomy_ctx.{module}" for module in _LIBRARY), "anyio._backends._asyncio", "trio"]
)


def in_batch(path: Path) -> bool:
    """Whether a stopped process holds the place at the head of the line."""
    with open(f"{path}.lock", "a") as file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            return True
        return False


def stop_between_batches(process: Process, path: Path) -> None:
    """Stop a process where it keeps nobody from writing. It renews its lease at any moment."""
    for _ in range(TRIES):
        process.stop()
        if not in_batch(path):
            return
        process.go_on()
    raise AssertionError("the process was never found between two batches")


class Died(Exception):
    """The process ended before the job did."""


class Silent(Exception):
    """The process neither answers nor ends."""


class Job:
    """Something a process was told to do, and all it has answered so far."""

    def __init__(self, number: int) -> None:
        self.number = number
        self.answers: list[Answer] = []
        self._arrived: SimpleQueue[Answer | None] = SimpleQueue()

    def arrive(self, answer: Answer | None) -> None:
        """Called by the thread that reads the pipe; None when the process has ended."""
        if answer is not None:
            self.answers.append(answer)
        self._arrived.put(answer)

    @property
    def finished(self) -> bool:
        """Whether it said that it is done."""
        return bool(self.answers) and "done" in self.answers[-1]

    @property
    def acks(self) -> dict[tuple[int, int], list[int]]:
        """The positions that were promised, by the number of the task and of its call."""
        return {
            (answer["task"], answer["call"]): answer["positions"]
            for answer in list(self.answers)
            if "positions" in answer
        }

    def next(self) -> Answer:
        """Wait for one more answer."""
        # Second by second: when the whole machine was suspended, only the one that ran then is lost.
        for _ in range(PATIENCE):
            with suppress(Empty):
                answer = self._arrived.get(timeout=1)
                break
        else:
            raise Silent
        if answer is None:
            self._arrived.put(None)
            raise Died
        return answer

    def ack(self) -> None:
        """Wait for one more acknowledgement."""
        answer = self.next()
        assert "positions" in answer, answer

    def end(self) -> list[Answer]:
        """Wait until it is done; all answers but the last, errors among them."""
        while not self.finished:
            self.next()
        return self.answers[:-1]

    def wait(self) -> list[Answer]:
        """Wait until it is done, without an error."""
        answers = self.end()
        errors = [answer for answer in answers if "error" in answer]
        assert not errors, errors
        return answers

    def error(self) -> str:
        """Wait until it is done; the name of the one error it ended with."""
        [answer] = self.end()
        return str(answer["error"])


class Forked:
    """A script in a forked process: of `subprocess.Popen`, what is used here."""

    def __init__(self, script: str, argument: str) -> None:
        (their_stdin, stdin), (stdout, their_stdout) = os.pipe(), os.pipe()
        given = (script, argument, _InheritedFile(their_stdin), _InheritedFile(their_stdout))
        self._process = FORKS.Process(target=_run_script, args=given, daemon=True)
        self._process.start()
        os.close(their_stdin)
        os.close(their_stdout)
        self.stdin, self.stdout = os.fdopen(stdin, "w"), os.fdopen(stdout)

    @property
    def pid(self) -> int:
        assert self._process.pid is not None
        return self._process.pid

    @property
    def returncode(self) -> int | None:
        return self._process.exitcode

    def poll(self) -> int | None:
        return self.returncode

    def send_signal(self, number: int) -> None:
        os.kill(self.pid, number)

    def wait(self, timeout: float) -> None:
        self._process.join(timeout)
        assert self.returncode is not None, "the process does not end"


class _InheritedFile:
    """A file that the new process has from its start: one that is killed at once leaves none open here."""

    def __init__(self, number: int) -> None:
        self._number = number

    def __reduce__(self) -> tuple[Any, ...]:
        # Only while a process is being started is it handed over with the process itself.
        return _open_inherited, (DupFd(self._number),)


def _open_inherited(file: Any) -> int:
    return int(file.detach())


def _run_script(script: str, argument: str, stdin: int, stdout: int) -> None:
    """What a forked process does: a script, as Python would run it."""
    for given, number in ((stdin, 0), (stdout, 1)):
        os.dup2(given, number)
        os.close(given)
    sys.stdin, sys.stdout = os.fdopen(0), os.fdopen(1, "w")
    sys.argv = [script, argument]
    runpy.run_path(script, run_name="__main__")


class Process:
    """A child that answers in lines of JSON."""

    def __init__(self, script: str, options: Mapping[str, Any], *, forked: bool = True) -> None:
        command = [str(HERE / script), json.dumps(options)]
        self._child: Forked | subprocess.Popen[str]
        if forked:
            self._child = Forked(*command)
        else:
            pipe = subprocess.PIPE
            self._child = subprocess.Popen([sys.executable, *command], stdin=pipe, stdout=pipe, text=True)
        self._jobs: list[Job] = []
        self._ended = False
        self._listing = threading.Lock()
        self._reader = threading.Thread(target=self._read, daemon=True)
        self._reader.start()

    def tell(self, do: str, **fields: Any) -> Job:
        """Start a job; it runs beside those started before."""
        with self._listing:
            job = Job(len(self._jobs))
            self._jobs.append(job)
            if self._ended:
                job.arrive(None)
                return job
        assert self._child.stdin is not None
        self._child.stdin.write(json.dumps({"job": job.number, "do": do, **fields}) + "\n")
        self._child.stdin.flush()
        return job

    def kill(self) -> None:
        """kill -9; afterwards every answer that left the process has been read."""
        if self._child.poll() is None:
            self._child.send_signal(signal.SIGKILL)
        self._bury()

    def died(self) -> None:
        """Wait for a process that ends itself by kill -9."""
        self._bury()
        assert self._child.returncode == -signal.SIGKILL

    def finish(self) -> None:
        """Let it do what it was told and end."""
        assert self._child.stdin is not None
        self._child.stdin.close()
        self._bury()
        assert self._child.returncode == 0

    def stop(self) -> None:
        """SIGSTOP; afterwards not one of its threads moves."""
        assert isinstance(self._child, subprocess.Popen), (
            "a forked process is no child and cannot be waited for"
        )
        self._child.send_signal(signal.SIGSTOP)
        found = os.waitid(os.P_PID, self._child.pid, os.WSTOPPED | os.WEXITED | os.WNOWAIT)
        assert found is not None
        assert found.si_code == os.CLD_STOPPED, "the process ended before it could be stopped"

    def go_on(self) -> None:
        """SIGCONT."""
        self._child.send_signal(signal.SIGCONT)

    def _bury(self) -> None:
        assert self._child.stdin is not None
        assert self._child.stdout is not None
        self._child.wait(PATIENCE)
        self._reader.join()
        with suppress(BrokenPipeError):
            self._child.stdin.close()
        self._child.stdout.close()

    def _read(self) -> None:
        assert self._child.stdout is not None
        try:
            for line in self._child.stdout:
                answer = json.loads(line)
                self._jobs[answer["job"]].arrive(answer)
        finally:
            with self._listing:
                self._ended = True
                for job in self._jobs:
                    job.arrive(None)


def read_log(process: Process) -> list[tuple[str, str]]:
    """All that was said in the conversation of `taking_turns.py`."""
    [answer] = process.tell("read").wait()
    return [(role, text) for role, text in answer["log"]]


def turn_log(text: str) -> list[tuple[str, str]]:
    """The log of one turn."""
    said = [("user", text), ("assistant", ""), ("tool", f"seen for {text}")]
    return [*said, ("assistant", f"answer to {text}")]


def read_metric(process: Process, name: str) -> int:
    """A counter of the agent of `taking_turns.py`."""
    [answer] = process.tell("metrics").wait()
    return int(answer["metrics"][name])


@dataclass(frozen=True, slots=True)
class Task:
    """What one task of a worker appends to a conversation: a list of messages per call."""

    conversation: str
    calls: Sequence[Sequence[Mapping[str, Any]]]


class Row(NamedTuple):
    """A message as it was read back."""

    position: int
    id: str
    checksum: int
    created: float


@dataclass(frozen=True, slots=True)
class Log:
    """A conversation as it was read back: rows, and the head's position, count and generation."""

    rows: list[Row]
    position: int
    count: int
    generation: int


class Worker(Process):
    """A process that uses memory on one file, unless a job names another."""

    def __init__(self, path: Path, *, forked: bool = True, **options: Any) -> None:
        super().__init__("worker.py", options, forked=forked)
        self.path = path

    def tell(self, do: str, *, path: Path | None = None, **fields: Any) -> Job:
        return super().tell(do, path=str(path or self.path), scope=fields.pop("scope", "ana"), **fields)

    def append(self, *tasks: Task, **fields: Any) -> Job:
        """Start appending, all tasks at once."""
        told = [{"conversation": task.conversation, "calls": task.calls} for task in tasks]
        return self.tell("append", tasks=told, **fields)

    def read(self, conversation: str = "trip", *, after: int = 0, **fields: Any) -> Log:
        """A conversation, read through the library."""
        [answer] = self.tell("read", conversation=conversation, after=after, **fields).wait()
        return Log([Row(*row) for row in answer["rows"]], *answer["head"][:3])

    def compose(self, conversation: str = "trip", *, window: int | None, **fields: Any) -> list[Answer]:
        """The messages of a context."""
        [answer] = self.tell("compose", conversation=conversation, window=window, **fields).wait()
        shown: list[Answer] = answer["shown"]
        return shown

    def ping(self, times: int = 1) -> None:
        """See the event loop turn."""
        for _ in range(times):
            self.tell("ping").wait()


class Start:
    """Starts processes for one test and ends them all."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self._started = ExitStack()

    def worker(self, **options: Any) -> Worker:
        """A process that uses memory on the test's file."""
        worker = Worker(self.path, **options)
        self._started.callback(worker.kill)
        return worker

    def workers(self, number: int, **options: Any) -> list[Worker]:
        """Several, started side by side and ready."""
        workers = [self.worker(**options) for _ in range(number)]
        for worker in workers:
            worker.ping()
        return workers

    def holder(self, lock: str) -> Process:
        """A process that can hold a lock on the test's file."""
        holder = Process("holder.py", {"path": str(self.path), "lock": lock})
        self._started.callback(holder.kill)
        return holder

    def end(self) -> None:
        """Kill what still runs."""
        self._started.close()


def said(message_id: str, repeat: int = 3) -> dict[str, Any]:
    """A message whose text is known from its id."""
    return {"id": message_id, "role": "user", "content": f"{message_id} " * repeat}


def spoken(name: str, calls: int, *, conversation: str = "trip", together: int = 1, repeat: int = 3) -> Task:
    """A task that makes `calls` calls with `together` messages each; ids are `name.call.message`."""
    made = [[said(f"{name}.{call}.{n}", repeat) for n in range(together)] for call in range(calls)]
    return Task(conversation, made)


def judge(
    rows: Sequence[Row],
    jobs: Iterable[tuple[Job, Sequence[Task]]],
    *,
    conversation: str = "trip",
    start: int = 1,
) -> None:
    """Is one conversation what its writers were promised?

    Positions have no gaps. Every acknowledged call is there, whole, once, where it was promised to
    be, and in its task's order. Of each task at most one call more is there: the one in flight.
    """
    gapless = list(range(start, start + len(rows)))
    assert [row.position for row in rows] == gapless, [row.position for row in rows]
    stored = {row.id: row for row in rows}
    assert len(stored) == len(rows), "a message is there twice"
    for job, tasks in jobs:
        acks = job.acks
        for number, task in enumerate(tasks):
            if task.conversation != conversation:
                continue
            made = sum(1 for by, _ in acks if by == number)
            assert all((number, call) in acks for call in range(made))
            last = 0
            for call, messages in enumerate(task.calls):
                found = [row for message in messages if (row := stored.pop(message["id"], None))]
                assert found or call >= made, f"call {call} of task {number} was acknowledged and is gone"
                assert not found or call <= made, f"call {call} of task {number} was not even in flight"
                if not found:
                    continue
                positions = [row.position for row in found]
                whole = list(range(positions[0], positions[0] + len(messages)))
                assert positions == whole, f"call {call} of task {number} is in pieces: {positions}"
                assert positions[0] > last, f"call {call} of task {number} is before the one before it"
                promised = acks.get((number, call), positions)
                assert positions == promised, f"call {call} of task {number} is not at {promised}"
                texts = [crc32(message["content"].encode()) for message in messages]
                assert [row.checksum for row in found] == texts, (
                    f"call {call} of task {number} says other words"
                )
                last = positions[-1]
    assert not stored, "there are messages that nobody sent"
