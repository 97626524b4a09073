"""Turns of one conversation in several processes: one at a time, in order, whatever becomes of a process."""

from __future__ import annotations

import sqlite3
from collections.abc import Callable, Iterator
from contextlib import ExitStack, closing
from pathlib import Path
from typing import Any

import pytest
from black_box.driver import Process, read_log, read_metric, stop_between_batches, turn_log

# Longer than any test: whoever gets the turn before has not got it by the end of a lease.
LONG, SHORT = 3600, 0.5
StartAgent = Callable[..., Process]


@pytest.fixture
def start_agent(tmp_path: Path) -> Iterator[StartAgent]:
    """Starts processes with an agent each, on one file; none of them outlives the test."""
    with ExitStack() as started:

        def start(*, lease: float = LONG, loop: str = "asyncio", forked: bool = True) -> Process:
            options = {"url": f"sqlite:///{tmp_path}/memory.db", "lease": lease, "loop": loop}
            process = Process("taking_turns.py", options, forked=forked)
            started.callback(process.kill)
            process.tell("read").wait()
            return process

        yield start


def test_turns_of_two_processes_never_interleave(start_agent: StartAgent) -> None:
    processes = [start_agent(loop="asyncio"), start_agent(loop="trio")]
    jobs = [
        process.tell("send", text=f"{name}.{number}")
        for number in range(12)
        for name, process in zip("ab", processes, strict=True)
    ]
    for job in jobs:
        job.wait()
    log = read_log(processes[0])
    turns = [log[first : first + 4] for first in range(0, len(log), 4)]
    assert [one for one in turns if one != turn_log(one[0][1])] == []
    texts = [one[0][1] for one in turns]
    assert sorted(texts) == sorted(f"{name}.{number}" for name in "ab" for number in range(12))
    for name in "ab":
        # A pipe keeps the order in which they were sent.
        assert [text for text in texts if text.startswith(name)] == [f"{name}.{n}" for n in range(12)]


def test_a_process_that_was_killed_in_its_turn_is_replaced_at_once(start_agent: StartAgent) -> None:
    dies, waits, other = [start_agent() for _ in range(3)]
    held = dies.tell("send", text="dies", hold=True)
    assert held.next()["asked"]
    # A place of the same process stands between them.
    assert dies.tell("send", text="behind").next()["waits"] == 2
    next_one = waits.tell("send", text="next")
    assert next_one.next()["waits"] == 3
    dies.kill()
    assert next_one.wait()[-1] == {"job": next_one.number, "text": "answer to next"}
    assert other.tell("send", text="last").wait()[-1]["text"] == "answer to last"
    assert read_log(other) == [*turn_log("dies")[:3], *turn_log("next"), *turn_log("last")]
    assert read_metric(waits, "turns_taken_over") == 1


def test_a_process_that_was_stopped_past_its_lease_is_replaced_and_refused(
    start_agent: StartAgent, tmp_path: Path
) -> None:
    stopped, other = start_agent(lease=SHORT, forked=False), start_agent(lease=SHORT)
    held = stopped.tell("send", text="stopped", hold=True)
    assert held.next()["asked"]
    stop_between_batches(stopped, tmp_path / "memory.db")
    assert other.tell("send", text="other").wait()[-1]["text"] == "answer to other"
    stopped.tell("answer", text="stopped")
    stopped.go_on()
    assert held.end()[-1]["error"] == "TurnLost"
    assert stopped.tell("send", text="again").wait()[-1]["text"] == "answer to again"
    assert read_log(other) == [*turn_log("stopped")[:3], *turn_log("other"), *turn_log("again")]
    assert (read_metric(stopped, "turns_lost"), read_metric(other, "turns_taken_over")) == (1, 1)


def lease_end(path: Path) -> float:
    with closing(sqlite3.connect(path)) as connection:
        [(until,)] = connection.execute("SELECT turn_until FROM conversation WHERE turn_ticket > 0")
    return float(until)


def test_a_turn_longer_than_its_lease_is_renewed(start_agent: StartAgent, tmp_path: Path) -> None:
    path = tmp_path / "memory.db"
    slow, other = start_agent(lease=SHORT), start_agent(lease=SHORT)
    held = slow.tell("send", text="slow", hold=True)
    assert held.next()["asked"]
    waiting = other.tell("send", text="other")
    assert waiting.next()["waits"] == 2
    began = lease_end(path)
    while lease_end(path) < began + 3 * SHORT:
        other.tell("read").wait()
        assert len(waiting.answers) == 1, "the lease was not renewed"
    slow.tell("answer", text="slow")
    assert waiting.wait()[-1]["text"] == "answer to other"
    assert read_log(other) == [*turn_log("slow"), *turn_log("other")]


def test_a_hundred_waiting_turns_of_four_processes_are_served_in_order(start_agent: StartAgent) -> None:
    processes = [start_agent() for _ in range(4)]
    first = processes[0].tell("send", text="first", hold=True)
    assert first.next()["asked"]
    jobs = []
    for number in range(100):
        job = processes[number % 4].tell("send", text=str(number))
        assert job.next()["waits"] == number + 2
        jobs.append(job)
    processes[0].tell("answer", text="first")
    for job in [first, *jobs]:
        job.wait()
    expected: list[Any] = turn_log("first")
    for number in range(100):
        expected += turn_log(str(number))
    assert read_log(processes[0]) == expected
