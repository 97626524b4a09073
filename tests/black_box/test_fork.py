"""A process forks with its memory open: the child may be refused, but what it is promised is kept."""

from __future__ import annotations

from black_box.driver import Job, Start, Task, judge, spoken


def test_a_child_is_promised_nothing_that_is_lost_when_its_parent_closes(start: Start) -> None:
    parent, other = start.workers(2)
    told: list[tuple[Job, list[Task]]] = []
    for name in ("parent", "child", "child alone", "other", "child again", "other again", "child last"):
        if name == "child":
            parent.tell("fork").wait()
        if name == "child alone":
            parent.tell("close").wait()
        worker = other if name.startswith("other") else parent
        task = spoken(name, 3)
        job = worker.append(task, in_child=name.startswith("child"))
        job.end()
        told.append((job, [task]))
    parent.finish()
    other.finish()
    for job, _ in told:
        errors = {answer["error"] for answer in job.answers if "error" in answer}
        assert errors <= {"StoreUnavailable"}
    judge(start.worker().read().rows, told)


def test_a_parent_that_goes_on_after_a_fork_loses_nothing(start: Start) -> None:
    parent, other = start.workers(2)
    tasks = [spoken(str(number), 3) for number in range(4)]
    first = parent.append(tasks[0])
    first.wait()
    parent.tell("fork").wait()
    jobs = [first, parent.append(tasks[1]), parent.append(tasks[2], in_child=True), other.append(tasks[3])]
    for job in jobs:
        job.end()
    judge(other.read().rows, [(job, [task]) for job, task in zip(jobs, tasks, strict=True)])
    parent.finish()
