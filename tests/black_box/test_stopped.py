"""A process is stopped where it stands: others go on, or wait for it, and nothing is lost or kept twice."""

from __future__ import annotations

import pytest
from black_box.driver import TRIES, Job, Start, Worker, in_batch, judge, spoken


def stop_writer(writer: Worker, job: Job, *, batch: bool) -> None:
    """Stop a process that appends, in the middle of a batch or between two."""
    for _ in range(TRIES):
        job.ack()
        writer.stop()
        if in_batch(writer.path) is batch:
            return
        writer.go_on()
    pytest.fail("the writer was never found where it should be stopped")


def test_others_wait_for_a_writer_stopped_in_its_batch_and_all_go_on(start: Start) -> None:
    writer, other, reader = start.workers(3, forked=False)
    reader.read()
    tasks = [[spoken(f"stopped.{number}", 500) for number in range(3)], [spoken("other", 50)]]
    other.append(spoken("elsewhere", 1, conversation="work")).wait()
    jobs = [writer.append(*tasks[0])]
    stop_writer(writer, jobs[0], batch=True)
    jobs.append(other.append(*tasks[1]))
    other.ping(300)
    assert jobs[1].answers == []
    assert reader.read().count >= len(jobs[0].acks)

    writer.go_on()
    for job in jobs:
        job.wait()
    judge(reader.read().rows, zip(jobs, tasks, strict=True))


def test_others_go_on_while_a_writer_is_stopped_between_batches(start: Start) -> None:
    writer, other = start.workers(2, forked=False)
    tasks = [[spoken("stopped", 800)], [spoken("other", 50)]]
    jobs = [writer.append(*tasks[0])]
    stop_writer(writer, jobs[0], batch=False)
    jobs.append(other.append(*tasks[1]))
    jobs[1].wait()

    writer.go_on()
    jobs[0].wait()
    judge(other.read().rows, zip(jobs, tasks, strict=True))


def test_a_writer_stopped_in_its_batch_and_then_killed_holds_nobody_up(start: Start) -> None:
    writer, other = start.workers(2, forked=False)
    tasks = [[spoken(f"stopped.{number}", 500) for number in range(3)], [spoken("other", 50)]]
    jobs = [writer.append(*tasks[0])]
    stop_writer(writer, jobs[0], batch=True)
    jobs.append(other.append(*tasks[1]))
    other.ping(100)
    assert jobs[1].answers == []

    writer.kill()
    jobs[1].wait()
    judge(other.read().rows, zip(jobs, tasks, strict=True))


def test_a_writer_stopped_again_and_again_loses_nothing(start: Start) -> None:
    writers = start.workers(3, forked=False)
    tasks = [[spoken(str(number), 400)] for number in range(len(writers))]
    jobs = [writer.append(*told) for writer, told in zip(writers, tasks, strict=True)]
    for turn in range(60):
        writer = writers[turn % len(writers)]
        writer.stop()
        for other in writers:
            if other is not writer:
                other.ping()
        writer.go_on()
    for job in jobs:
        job.wait()
    judge(writers[0].read().rows, zip(jobs, tasks, strict=True))
