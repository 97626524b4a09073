"""After any doubt the same message is sent again, and is there once."""

from __future__ import annotations

from random import Random

import pytest
from black_box.driver import Job, Start, Task, spoken


def unanswered(job: Job, tasks: list[Task]) -> list[Task]:
    """What is left of each task when the acknowledged calls are taken away."""
    acks = job.acks
    return [
        Task(task.conversation, [call for at, call in enumerate(task.calls) if (number, at) not in acks])
        for number, task in enumerate(tasks)
    ]


@pytest.mark.parametrize("kills", [4, pytest.param(200, marks=pytest.mark.nightly)])
@pytest.mark.parametrize("retriers", [1, 2])
def test_what_was_not_acknowledged_is_sent_again_and_kept_once(
    start: Start, dice: Random, kills: int, retriers: int
) -> None:
    sent: list[str] = []
    sender, *others = start.workers(1 + retriers)
    for number in range(kills):
        successor = start.worker()
        tasks = [spoken(f"{number}.{n}", 10, together=dice.choice((1, 2))) for n in range(4)]
        job = sender.append(*tasks)
        for _ in range(dice.randrange(35)):
            job.ack()
        sender.kill()
        sender = successor

        # Two that retry at once stand for a client and a proxy that both lost patience.
        left = unanswered(job, tasks)
        again = [other.append(*left) for other in others]
        for retry in again:
            retry.wait()
        assert all(retry.acks == again[0].acks for retry in again)
        whole = others[0].append(*tasks)
        whole.wait()
        assert job.acks.items() <= whole.acks.items(), "a message moved"
        sent += [message["id"] for task in tasks for call in task.calls for message in call]

    log = others[0].read()
    assert [row.position for row in log.rows] == list(range(1, len(sent) + 1))
    assert sorted(row.id for row in log.rows) == sorted(sent)
    at = {row.id: row.position for row in log.rows}
    for number in range(kills):
        for task in range(4):
            mine = [at[message] for message in sent if message.startswith(f"{number}.{task}.")]
            assert mine == sorted(mine)


def test_all_of_a_retried_call_is_there_once_when_part_of_it_was_sent_before(start: Start) -> None:
    first, second = start.workers(2)
    task = spoken("call", 1, together=4)
    [call] = task.calls
    first.append(Task("trip", [call[1:3]])).wait()
    job = second.append(task)
    job.wait()
    assert job.acks == {(0, 0): [3, 1, 2, 4]}
    assert first.read().count == 4


def test_other_content_under_a_known_id_is_refused_in_every_process(start: Start) -> None:
    first, second = start.workers(2)
    first.append(spoken("call", 1)).wait()
    assert second.append(spoken("call", 1, repeat=4)).error() == "ConflictingMessage"
    assert second.read().count == 1
