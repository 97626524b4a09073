"""Processes that disagree about the time agree about the order."""

from __future__ import annotations

from black_box.driver import Start, judge, spoken

HOUR, DAY = 3600.0, 86400.0


def test_the_order_is_that_of_arrival_whatever_the_clocks_say(start: Start) -> None:
    right, behind, ahead = start.worker(), start.worker(ahead=-HOUR), start.worker(ahead=DAY)
    frozen = start.worker(ahead=-DAY, frozen=True)
    arrived: list[str] = []
    for number in range(4):
        for name, worker in (("ahead", ahead), ("behind", behind), ("frozen", frozen), ("right", right)):
            worker.append(spoken(f"{name}.{number}", 1)).wait()
            arrived.append(f"{name}.{number}.0.0")
            for reader in (right, behind, ahead, frozen):
                shown = [message["id"] for message in reader.compose(window=5)]
                assert shown == arrived[-5:]
    log = right.read()
    assert [row.id for row in log.rows] == arrived
    times = [row.created for row in log.rows]
    assert times != sorted(times), "the clocks did not disagree"


def test_processes_with_wrong_clocks_append_at_once_without_loss(start: Start) -> None:
    workers = [start.worker(), start.worker(ahead=-HOUR), start.worker(ahead=DAY)]
    workers.append(start.worker(ahead=HOUR, frozen=True))
    for worker in workers:
        worker.ping()
    tasks = [[spoken(str(number), 60)] for number in range(len(workers))]
    jobs = [worker.append(*told) for worker, told in zip(workers, tasks, strict=True)]
    for job in jobs:
        job.wait()
    for reader in workers:
        judge(reader.read().rows, zip(jobs, tasks, strict=True))


def test_a_retry_by_a_process_with_another_clock_is_the_same_message(start: Start) -> None:
    right, behind = start.worker(), start.worker(ahead=-HOUR)
    task = spoken("once", 3)
    job, again = right.append(task), behind.append(task)
    job.wait()
    again.wait()
    assert job.acks == again.acks
    assert right.read() == behind.read()
    assert right.read().count == 3


def test_deleting_and_going_on_does_not_ask_the_clock(start: Start) -> None:
    right, ahead = start.worker(), start.worker(ahead=DAY)
    right.append(spoken("old", 5)).wait()
    ahead.tell("delete", conversation="trip").wait()
    job = right.append(spoken("new", 1))
    job.wait()
    assert job.acks == {(0, 0): [6]}
    assert [row.id for row in ahead.read().rows] == ["new.0.0"]
