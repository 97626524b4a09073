"""Processes that share a server: turns one at a time, one model call per batch, whatever their clocks say."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest
from black_box.driver import Process, read_log, read_metric, turn_log
from postgres_server import PgBouncer

from autonomy_ctx import ContextTemplate, Memory, SummarizedHistorySection

LONG, SHORT = 3600.0, 0.5
MINUTES = 60.0
StartProcess = Callable[..., Process]


@pytest.fixture
def calls(tmp_path: Path) -> Path:
    """A line for each call of a model, by any process."""
    path = tmp_path / "calls"
    path.touch()
    return path


@pytest.fixture
def start_agent(database_url: str) -> Iterator[StartProcess]:
    """Starts processes with an agent each; none of them outlives the test."""
    with ExitStack() as started:

        def start(*, lease: float = LONG, ahead: float = 0, forked: bool = True, **options: Any) -> Process:
            options = {"url": database_url, "lease": lease, "loop": "asyncio", "ahead": ahead, **options}
            process = Process("taking_turns.py", options, forked=forked)
            started.callback(process.kill)
            process.tell("read").wait()
            return process

        yield start


@pytest.fixture
def start_summarizer(database_url: str, calls: Path) -> Iterator[StartProcess]:
    """Starts processes that summarize; none of them outlives the test."""
    with ExitStack() as started:

        def start(*, answers: bool = True, lease: float = 30.0, ahead: float = 0) -> Process:
            options = {"url": database_url, "calls": str(calls), "answers": answers, "lease": lease}
            process = Process("summarizing.py", {**options, "ahead": ahead})
            started.callback(process.kill)
            return process

        yield start


def check_whole_turns(log: list[tuple[str, str]], names: str, number: int) -> None:
    turns = [log[first : first + 4] for first in range(0, len(log), 4)]
    assert [one for one in turns if one != turn_log(one[0][1])] == []
    said = [one[0][1] for one in turns]
    assert sorted(said) == sorted(f"{name}.{n}" for name in names for n in range(number))


def test_turns_of_processes_never_interleave(start_agent: StartProcess) -> None:
    processes = [start_agent() for _ in "ab"]
    jobs = [
        process.tell("send", text=f"{name}.{number}")
        for number in range(12)
        for name, process in zip("ab", processes, strict=True)
    ]
    for job in jobs:
        job.wait()
    check_whole_turns(read_log(processes[0]), "ab", 12)


def test_behind_a_pooler_turns_of_processes_never_interleave(
    start_agent: StartProcess, pgbouncer: PgBouncer, database: str
) -> None:
    processes = [start_agent(url=pgbouncer.url(database)) for _ in "ab"]
    jobs = [
        process.tell("send", text=f"{name}.{number}")
        for number in range(3)
        for name, process in zip("ab", processes, strict=True)
    ]
    for job in jobs:
        job.wait()
    check_whole_turns(read_log(processes[0]), "ab", 3)


def test_a_process_that_was_killed_in_its_turn_is_replaced_when_its_lease_ends(
    start_agent: StartProcess,
) -> None:
    dies, waits = start_agent(lease=SHORT), start_agent(lease=SHORT)
    held = dies.tell("send", text="dies", hold=True)
    assert held.next()["asked"]
    next_one = waits.tell("send", text="next")
    assert next_one.next()["waits"] == 2
    dies.kill()
    assert next_one.wait()[-1]["text"] == "answer to next"
    assert read_log(waits) == [*turn_log("dies")[:3], *turn_log("next")]
    assert read_metric(waits, "turns_taken_over") == 1


def test_a_process_that_was_stopped_past_its_lease_is_replaced_and_refused(start_agent: StartProcess) -> None:
    stopped, other = start_agent(lease=SHORT, forked=False), start_agent(lease=SHORT)
    held = stopped.tell("send", text="stopped", hold=True)
    assert held.next()["asked"]
    stopped.stop()
    assert other.tell("send", text="other").wait()[-1]["text"] == "answer to other"
    stopped.tell("answer", text="stopped")
    stopped.go_on()
    assert held.end()[-1]["error"] == "TurnLost"
    assert read_log(other) == [*turn_log("stopped")[:3], *turn_log("other")]
    assert (read_metric(stopped, "turns_lost"), read_metric(other, "turns_taken_over")) == (1, 1)


def test_processes_with_wrong_clocks_take_no_turns_from_each_other(start_agent: StartProcess) -> None:
    processes = [start_agent(lease=10, ahead=ahead) for ahead in (0, 5 * MINUTES, -5 * MINUTES)]
    jobs = [
        process.tell("send", text=f"{name}.{number}")
        for number in range(5)
        for name, process in zip("abc", processes, strict=True)
    ]
    for job in jobs:
        job.wait()
    check_whole_turns(read_log(processes[0]), "abc", 5)
    assert [read_metric(one, name) for one in processes for name in ("turns_lost", "turns_taken_over")] == [
        0
    ] * 6


def test_waiting_turns_of_four_processes_are_served_in_order(start_agent: StartProcess) -> None:
    processes = [start_agent() for _ in range(4)]
    first = processes[0].tell("send", text="first", hold=True)
    assert first.next()["asked"]
    jobs = []
    for number in range(40):
        job = processes[number % 4].tell("send", text=str(number))
        assert job.next()["waits"] == number + 2
        jobs.append(job)
    processes[0].tell("answer", text="first")
    for job in [first, *jobs]:
        job.wait()
    assert [text for role, text in read_log(processes[0]) if role == "user"] == [
        "first",
        *(str(number) for number in range(40)),
    ]


def asked(calls: Path) -> list[dict[str, Any]]:
    """All calls of any model so far."""
    return [json.loads(line) for line in calls.read_text().splitlines()]


async def say_much(url: str, *conversations: str) -> None:
    """Append what is over the ceiling, for which nobody has been asked yet."""
    async with Memory(url) as memory:
        for name in conversations:
            said = [{"role": "user", "content": f"msg-{name}.{number}"} for number in range(7)]
            await memory.append("ana", name, *said)


async def summarize_by(processes: list[Process], url: str, names: list[str]) -> None:
    """Let all processes at once see that all conversations are due."""
    await say_much(url, *names)
    jobs = [process.tell("finish", conversation=name) for process in processes for name in names]
    for job in jobs:
        [found] = job.wait()
        assert found["segments"] == [[1, 4]]
        assert found["window"] == [5, 6, 7]


@pytest.mark.parametrize(("processes", "conversations"), [(3, 10), pytest.param(8, 50, id="many")])
async def test_one_model_call_is_made_for_each_batch(
    start_summarizer: StartProcess, database_url: str, calls: Path, processes: int, conversations: int
) -> None:
    names = [f"talk{number}" for number in range(conversations)]
    await summarize_by([start_summarizer() for _ in range(processes)], database_url, names)
    summarized = Counter(name for call in asked(calls) for name in call["messages"])
    assert set(summarized.values()) == {1}, "a message was summarized twice"
    assert (len(asked(calls)), len(summarized)) == (conversations, 4 * conversations)


async def test_processes_with_wrong_clocks_make_one_model_call_for_each_batch(
    start_summarizer: StartProcess, database_url: str, calls: Path
) -> None:
    clocks = (0, 5 * MINUTES, -5 * MINUTES)
    processes = [start_summarizer(ahead=ahead) for ahead in clocks]
    names = [f"talk{number}" for number in range(8)]
    await summarize_by(processes, database_url, names)
    assert len(asked(calls)) == len(names)


async def owe_summary(url: str, conversation: str = "trip") -> None:
    """Let an agent that leaves summaries to a worker see that one is due."""
    await say_much(url, conversation)
    async with (
        Memory(url) as memory,
        SummarizedHistorySection(None, floor=3, ceiling=6, worker="summaries") as section,
    ):
        await ContextTemplate([section]).compose(memory, "ana", conversation)
        await section.settled()


async def test_a_worker_in_another_process_is_woken_and_summarizes(
    start_summarizer: StartProcess, database_url: str, calls: Path
) -> None:
    work = start_summarizer().tell("work")
    # It looks once an hour. The second time is when it listens.
    for _ in range(2):
        assert work.next()["waits"]
    for name in ("trip", "home"):
        await owe_summary(database_url, name)
        while "committed" not in (answer := work.next()):
            pass
        assert answer["committed"] == name
    assert len(asked(calls)) == 2


async def test_a_worker_that_was_killed_while_its_model_was_asked_is_replaced(
    start_summarizer: StartProcess, database_url: str, calls: Path
) -> None:
    dies, goes_on = start_summarizer(answers=False, lease=SHORT), start_summarizer(lease=SHORT)
    work = dies.tell("work")
    assert work.next()["waits"]
    await owe_summary(database_url)
    while not asked(calls):
        dies.tell("look", conversation="other").wait()
    dies.kill()
    work = goes_on.tell("work")
    while "committed" not in work.next():
        pass
    assert len(asked(calls)) == 2
