"""Another program holds a lock on the file: an append waits with the event loop free, then goes on."""

from __future__ import annotations

import sqlite3
from time import monotonic

import pytest
from black_box.driver import Job, Process, Start, Task, Worker, judge, spoken
from timeouts import USUAL

# Turns of the event loop that a waiting process must show: longer than SQLite's own patience.
TURNS = 800

locks = pytest.mark.parametrize("lock", ["write", "file"])


def opened(start: Start, lock: str) -> tuple[Worker, Process, list[tuple[Job, list[Task]]]]:
    """A worker that has the file open already, a program that holds a lock on it, and what was said."""
    worker, holder = start.worker(), start.holder(lock)
    task = spoken("before", 2)
    before = worker.append(task)
    before.wait()
    holder.tell("hold").wait()
    return worker, holder, [(before, [task])]


@locks
def test_an_append_waits_for_a_lock_and_then_succeeds(start: Start, lock: str) -> None:
    worker, holder, told = opened(start, lock)
    tasks = [spoken(str(number), 3) for number in range(4)]
    job = worker.append(*tasks)
    worker.ping(TURNS)
    assert job.answers == []
    assert worker.read().count == 2, "reading does not need the lock"

    holder.tell("release").wait()
    job.wait()
    judge(worker.read().rows, [*told, (job, tasks)])
    worker.finish()


@locks
def test_a_process_that_opens_the_file_waits_for_a_lock_too(start: Start, lock: str) -> None:
    worker, holder, told = opened(start, lock)
    newcomer = start.worker()
    tasks = [spoken("newcomer", 3)]
    job = newcomer.append(*tasks)
    newcomer.ping(TURNS)
    assert job.answers == []

    holder.tell("release").wait()
    job.wait()
    judge(worker.read().rows, [*told, (job, tasks)])


@pytest.mark.parametrize("lock", ["write", "exclusive", "file"])
@pytest.mark.parametrize("mode", ["delete", "wal"])
def test_an_append_to_a_file_without_tables_waits_for_a_lock_too(start: Start, lock: str, mode: str) -> None:
    connection = sqlite3.connect(start.path)
    connection.execute(f"PRAGMA journal_mode = {mode}")
    connection.close()
    holder, worker = start.holder(lock), start.worker()
    holder.tell("hold").wait()
    tasks = [spoken("first", 3)]
    job = worker.append(*tasks)
    worker.ping(TURNS)
    assert job.answers == []

    holder.tell("release").wait()
    job.wait()
    judge(worker.read().rows, [(job, tasks)])


@locks
def test_an_append_that_waits_too_long_stores_nothing_and_can_be_made_again(start: Start, lock: str) -> None:
    worker, holder, told = opened(start, lock)
    task = spoken("again", 1)
    worker.tell("set_timeout", seconds=0.3).wait()
    for _ in range(2):
        assert worker.append(task).error() == "StoreBusy"
    worker.tell("set_timeout", seconds=USUAL).wait()
    assert worker.read().count == 2

    holder.tell("release").wait()
    worker.ping(TURNS)
    assert worker.read().count == 2, "what was refused came true later"
    job = worker.append(task)
    job.wait()
    judge(worker.read().rows, [*told, (job, [task])])
    worker.finish()


@locks
def test_of_many_appends_that_waited_too_long_none_is_stored(start: Start, lock: str) -> None:
    worker, holder, told = opened(start, lock)
    tasks = [spoken(str(number), 1) for number in range(20)]
    worker.tell("set_timeout", seconds=0.3).wait()
    answers = worker.append(*tasks).end()
    worker.tell("set_timeout", seconds=USUAL).wait()
    assert [answer["error"] for answer in answers] == ["StoreBusy"] * len(tasks)

    holder.tell("release").wait()
    after = spoken("after", 1)
    job = worker.append(after)
    job.wait()
    judge(worker.read().rows, [*told, (job, [after])])


@locks
def test_a_holder_that_is_killed_lets_go(start: Start, lock: str) -> None:
    worker, holder, told = opened(start, lock)
    tasks = [spoken("waiting", 3)]
    job = worker.append(*tasks)
    worker.ping(100)
    holder.kill()
    job.wait()
    judge(worker.read().rows, [*told, (job, tasks)])


@pytest.mark.nightly
@locks
def test_an_append_waits_for_eight_seconds_and_the_event_loop_turns_meanwhile(
    start: Start, lock: str
) -> None:
    worker, holder, told = opened(start, lock)
    tasks = [spoken(str(number), 3) for number in range(4)]
    job = worker.append(*tasks)
    until = monotonic() + 8
    while monotonic() < until:
        worker.ping()
    assert job.answers == []

    holder.tell("release").wait()
    job.wait()
    judge(worker.read().rows, [*told, (job, tasks)])
