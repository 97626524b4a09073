"""Several processes on one file: nothing lost, nothing twice, no errors, one order for all."""

from __future__ import annotations

import pytest
from black_box.driver import Answer, Job, Start, Task, Worker, judge, spoken

WINDOW = 20


def acknowledged(jobs: list[Job], tasks: list[list[Task]], conversation: str) -> int:
    """The last position in a conversation that its writers have been promised by now."""
    return max(
        (
            positions[-1]
            for job, told in zip(jobs, tasks, strict=True)
            for (number, _), positions in job.acks.items()
            if told[number].conversation == conversation
        ),
        default=0,
    )


def compose_while_busy(
    reader: Worker, jobs: list[Job], tasks: list[list[Task]], conversations: list[str]
) -> dict[str, list[list[Answer]]]:
    """Contexts composed one after the other as long as somebody writes; each is a tail of the log."""
    seen: dict[str, list[list[Answer]]] = {conversation: [] for conversation in conversations}
    busy = True
    while busy:
        busy = not all(job.finished for job in jobs)
        for conversation in conversations:
            promised = acknowledged(jobs, tasks, conversation)
            shown = reader.compose(conversation, window=WINDOW)
            positions = [message["position"] for message in shown]
            last = positions[-1] if positions else 0
            assert last >= promised, "a context misses what was acknowledged before it was composed"
            assert positions == list(range(max(last - WINDOW, 0) + 1, last + 1))
            seen[conversation].append(shown)
    return seen


@pytest.mark.parametrize(
    ("processes", "calls"),
    [(4, 150), (8, 90), pytest.param(8, 5000, marks=pytest.mark.nightly)],
)
def test_processes_that_append_at_once_lose_nothing_while_another_composes(
    start: Start, processes: int, calls: int
) -> None:
    *writers, reader = start.workers(processes + 1)
    for conversations in (["one"], ["trip", "work", "home"]):
        each = calls // len(conversations)
        tasks = [
            [spoken(f"{writer}.{name}", each, conversation=name) for name in conversations]
            for writer in range(processes)
        ]
        jobs = [writer.append(*told) for writer, told in zip(writers, tasks, strict=True)]
        seen = compose_while_busy(reader, jobs, tasks, conversations)
        for job in jobs:
            job.wait()

        for conversation in conversations:
            log = reader.read(conversation)
            assert log.count == log.position == processes * each
            judge(log.rows, zip(jobs, tasks, strict=True), conversation=conversation)
            ids = {row.position: row.id for row in log.rows}
            for shown in seen[conversation]:
                assert all(ids[message["position"]] == message["id"] for message in shown)
    for worker in (*writers, reader):
        worker.finish()


@pytest.mark.parametrize("files", [25, pytest.param(300, marks=pytest.mark.nightly)])
def test_processes_may_all_make_the_same_new_file_at_once(start: Start, files: int) -> None:
    workers = start.workers(6)
    for number in range(files):
        path = start.path.with_name(f"new{number}.db")
        tasks = [[spoken(str(worker), 2)] for worker in range(len(workers))]
        reads = [worker.tell("read", conversation="trip", after=0, path=path) for worker in workers[::2]]
        jobs = [worker.append(*told, path=path) for worker, told in zip(workers, tasks, strict=True)]
        for job in (*reads, *jobs):
            job.wait()
        log = workers[number % len(workers)].read(path=path)
        assert log.count == 2 * len(workers)
        judge(log.rows, zip(jobs, tasks, strict=True))


@pytest.mark.parametrize("rounds", [3, pytest.param(60, marks=pytest.mark.nightly)])
def test_processes_that_come_and_go_leave_the_others_their_messages(start: Start, rounds: int) -> None:
    # Whoever closes a file last folds its log away: nobody may be taken for the last too early.
    staying = start.worker()
    stays = [spoken("staying", 400 * rounds)]
    kept: list[tuple[Job, list[Task]]] = [(staying.append(*stays), stays)]
    for number in range(rounds):
        visitors = start.workers(2)
        tasks = [[spoken(f"{number}.{visitor}", 5)] for visitor in range(len(visitors))]
        kept += [(visitor.append(*told), told) for visitor, told in zip(visitors, tasks, strict=True)]
        for visitor in visitors:
            visitor.finish()
    for job, _ in kept:
        job.wait()
    judge(staying.read().rows, kept)


def test_a_second_memory_in_one_process_costs_no_other_process_its_messages(start: Start) -> None:
    first, visitor, last = start.workers(3)
    tasks = [[spoken(f"{number}", 3)] for number in range(5)]
    jobs = [first.append(*tasks[0])]
    jobs[0].wait()
    first.tell("open_again").wait()
    jobs.append(visitor.append(*tasks[1]))
    visitor.finish()
    for worker, told in ((first, tasks[2]), (last, tasks[3]), (first, tasks[4])):
        jobs.append(worker.append(*told))
        jobs[-1].wait()
    last.finish()
    first.finish()
    judge(start.worker().read().rows, zip(jobs, tasks, strict=True))
