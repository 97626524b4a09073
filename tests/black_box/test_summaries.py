"""Several processes that summarize the same conversations in one file."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest
from black_box.driver import Process, stop_between_batches

Begin = Callable[..., Process]


@pytest.fixture
def calls(tmp_path: Path) -> Path:
    path = tmp_path / "calls"
    path.touch()
    return path


@pytest.fixture
def begin(tmp_path: Path, calls: Path) -> Iterator[Begin]:
    """Starts processes on one file; none of them outlives the test."""
    with ExitStack() as started:

        def one(*, answers: bool = True, lease: float = 30.0, forked: bool = True) -> Process:
            options = {
                "url": f"sqlite:///{tmp_path}/memory.db",
                "calls": str(calls),
                "answers": answers,
                "lease": lease,
            }
            process = Process("summarizing.py", options, forked=forked)
            started.callback(process.kill)
            return process

        yield one


def asked(calls: Path) -> list[dict[str, Any]]:
    """All calls of any model so far."""
    return [json.loads(line) for line in calls.read_text().splitlines()]


def wait_for_call(process: Process, calls: Path, number: int) -> None:
    """Let the process turn until a model was asked so often; every look is an answer of its own."""
    while len(asked(calls)) < number:
        process.tell("look", conversation="other").wait()


def whole(found: dict[str, Any], head: int) -> bool:
    """Whether segments and window are the whole conversation, without a gap and without a message twice."""
    shown = [position for first, last in found["segments"] for position in range(first, last + 1)]
    together: list[int] = shown + found["window"]
    return together == list(range(1, head + 1))


def test_processes_that_share_conversations_ask_once_for_each_message(begin: Begin, calls: Path) -> None:
    processes = [begin() for _ in range(4)]
    names = [f"talk{number}" for number in range(6)]
    jobs = [
        process.tell("speak", conversation=name, append=12, name=f"p{number}")
        for number, process in enumerate(processes)
        for name in names
    ]
    for job in jobs:
        job.wait()
    covered = 0
    for name in names:
        [found] = processes[0].tell("finish", conversation=name).wait()
        assert whole(found, 48)
        assert len(found["window"]) <= 6
        covered += 48 - len(found["window"])
    summarized = Counter(name for call in asked(calls) for name in call["messages"])
    assert set(summarized.values()) == {1}, "a message was summarized twice"
    assert len(summarized) == covered


def test_another_process_takes_over_from_one_that_was_killed_while_its_model_was_asked(
    begin: Begin, calls: Path
) -> None:
    first = begin(answers=False, lease=0.3)
    first.tell("speak", conversation="trip", append=7, name="a").wait()
    wait_for_call(first, calls, 1)
    first.kill()
    second = begin(lease=0.3)
    [found] = second.tell("finish", conversation="trip").wait()
    assert whole(found, 7)
    assert found["segments"] == [[1, 4]]
    assert len(asked(calls)) == 2


def test_a_process_that_was_stopped_for_too_long_does_not_overwrite_the_one_that_took_over(
    begin: Begin, calls: Path, tmp_path: Path
) -> None:
    first = begin(answers=False, lease=0.3, forked=False)
    first.tell("speak", conversation="trip", append=7, name="a").wait()
    wait_for_call(first, calls, 1)
    stop_between_batches(first, tmp_path / "memory.db")
    second = begin(lease=0.3)
    [found] = second.tell("finish", conversation="trip").wait()
    text = found["text"]
    first.go_on()
    [seen] = first.tell("look", conversation="trip").wait()
    assert seen["text"] == text
    first.finish()
    [found] = second.tell("look", conversation="trip").wait()
    assert (found["text"], found["segments"]) == (text, [[1, 4]])
