"""kill -9 at any moment: what was acknowledged stays, what was half done leaves no trace."""

from __future__ import annotations

import shutil
import sqlite3
from pathlib import Path
from random import Random
from typing import Any

import pytest
from black_box.driver import Answer, Died, Job, Start, Task, Worker, judge, said, spoken

CONVERSATIONS = ("trip", "work", "home")


def assert_intact(path: Path) -> None:
    connection = sqlite3.connect(path)
    try:
        assert connection.execute("PRAGMA integrity_check").fetchall() == [("ok",)]
    finally:
        connection.close()


def some_tasks(dice: Random, name: str) -> list[Task]:
    """One task or several at once, on one conversation or several, with small and larger calls."""
    return [
        spoken(
            f"{name}.{number}",
            calls=80,
            conversation=dice.choice(CONVERSATIONS),
            together=dice.choice((1, 1, 3)),
            repeat=dice.choice((3, 30, 600)),
        )
        for number in range(dice.choice((1, 1, 4, 8)))
    ]


def kill_while_appending(worker: Worker, dice: Random, tasks: list[Task]) -> Job:
    """Killed from outside wherever it is by then, or by its own hand right after an acknowledgement."""
    acks = dice.randrange(60)
    if dice.random() < 0.5:
        job = worker.append(*tasks, die_after=acks + 1)
        worker.died()
        return job
    job = worker.append(*tasks)
    for _ in range(acks):
        job.ack()
    worker.kill()
    return job


@pytest.mark.parametrize("kills", [10, 40, pytest.param(1000, marks=pytest.mark.nightly)])
def test_every_acknowledged_message_survives_a_kill(start: Start, dice: Random, kills: int) -> None:
    ends = dict.fromkeys(CONVERSATIONS, 0)
    kept: dict[str, list[str]] = {conversation: [] for conversation in CONVERSATIONS}
    worker = start.worker()
    for number in range(kills):
        successor = start.worker(loop=dice.choice(("asyncio", "trio")))
        tasks = some_tasks(dice, str(number))
        job = kill_while_appending(worker, dice, tasks)
        assert [answer for answer in job.answers if "error" in answer] == []
        worker = successor
        for conversation in CONVERSATIONS:
            rows = worker.read(conversation, after=ends[conversation]).rows
            judge(rows, [(job, tasks)], start=ends[conversation] + 1, conversation=conversation)
            ends[conversation] += len(rows)
            kept[conversation] += [row.id for row in rows]
    for conversation in CONVERSATIONS:
        assert [row.id for row in worker.read(conversation).rows] == kept[conversation]
    worker.finish()
    assert_intact(start.path)


def test_a_large_message_is_on_disk_when_it_is_acknowledged(start: Start) -> None:
    worker = start.worker()
    for number in range(5):
        successor = start.worker()
        large = spoken(f"large.{number}", calls=1, repeat=150_000)
        job = worker.append(large, die_after=1)
        worker.died()
        worker = successor
        judge(worker.read(after=number).rows, [(job, [large])], start=number + 1)
        assert len(job.acks) == 1
    worker.finish()
    assert_intact(start.path)


def pings_until_done(worker: Worker, job: Job) -> int:
    """How long a job takes, in turns of the event loop."""
    pings = 0
    while not job.finished:
        worker.ping()
        pings += 1
    job.wait()
    return pings


@pytest.mark.parametrize("kills", [8, pytest.param(200, marks=pytest.mark.nightly)])
def test_a_kill_while_the_file_is_made_leaves_a_file_that_opens(
    start: Start, dice: Random, kills: int
) -> None:
    worker = start.worker()
    worker.ping()
    first, second = spoken("first", 1), spoken("second", 1)
    longest = pings_until_done(worker, worker.append(first))
    for number in range(kills):
        successor = start.worker()
        successor.ping()
        path = start.path.with_name(f"{number}.db")
        job = worker.append(first, path=path)
        worker.ping(dice.randrange(longest + 1))
        worker.kill()
        worker = successor
        judge(worker.read(path=path).rows, [(job, [first])])
        after = worker.append(second, path=path)
        after.wait()
        judge(worker.read(path=path).rows, [(job, [first]), (after, [second])])
        assert_intact(path)


class Doomed:
    """A file with a scope of several conversations, and a neighbour who must not notice anything."""

    conversations = ("c0", "c1", "c2", "c3")
    each = 1000

    def __init__(self, start: Start) -> None:
        self.original = start.path
        worker = start.worker()
        calls = self.each // 500
        tasks = [spoken(name, calls, conversation=name, together=500) for name in self.conversations]
        worker.append(*tasks).wait()
        worker.append(spoken("neighbour", 10), scope="bo").wait()
        worker.finish()

    def copy(self, name: str) -> Path:
        return Path(shutil.copy(self.original, self.original.with_name(name)))

    def deleted(self, worker: Worker, path: Path, doomed: tuple[str, ...]) -> bool:
        """Whether the deletion has happened: to all of it and all its traces, or to nothing."""
        logs = {name: worker.read(name, path=path) for name in self.conversations}
        for name in self.conversations:
            assert len(logs[name].rows) == logs[name].count
            assert logs[name].position == self.each
            if name not in doomed:
                assert logs[name].count == self.each
        assert worker.read(scope="bo", path=path).count == 10
        [state] = {(logs[name].count, logs[name].generation) for name in doomed}
        assert state in ((self.each, 0), (0, 1))
        return state == (0, 1)


@pytest.mark.parametrize("conversation", ["c1", None], ids=["a_conversation", "a_scope"])
@pytest.mark.parametrize("kills", [6, pytest.param(200, marks=pytest.mark.nightly)])
def test_a_deletion_cut_short_by_a_kill_is_whole_or_has_not_happened(
    start: Start, dice: Random, kills: int, conversation: str | None
) -> None:
    fields: dict[str, Any] = {} if conversation is None else {"conversation": conversation}
    file = Doomed(start)
    doomed = file.conversations if conversation is None else (conversation,)
    worker = start.worker()
    untouched = file.copy("untouched.db")
    worker.read(path=untouched)
    longest = pings_until_done(worker, worker.tell("delete", path=untouched, **fields))
    assert file.deleted(worker, untouched, doomed)
    for number in range(kills):
        successor = start.worker()
        path = file.copy(f"{number}.db")
        worker.read(path=path)
        successor.ping()
        job = worker.tell("delete", path=path, **fields)
        worker.ping(dice.randrange(longest + 1))
        worker.kill()
        worker = successor
        happened = file.deleted(worker, path, doomed)
        assert happened or not job.answers
        # A deletion that was cut short can be done again.
        worker.tell("delete", path=path, **fields).wait()
        assert [worker.read(name, path=path).count for name in doomed] == [0] * len(doomed)
        assert_intact(path)
        path.unlink()


TURN: list[dict[str, Any]] = [
    {"id": "question", "role": "user", "content": "What is in both files?"},
    {
        "id": "calls",
        "role": "assistant",
        "content": None,
        "tool_calls": [
            {"id": "call.a", "type": "function", "function": {"name": "read", "arguments": '{"path":"a"}'}},
            {"id": "call.b", "type": "function", "function": {"name": "read", "arguments": '{"path":"b"}'}},
        ],
    },
    {"id": "result.a", "role": "tool", "tool_call_id": "call.a", "name": "read", "content": "A"},
    {"id": "result.b", "role": "tool", "tool_call_id": "call.b", "name": "read", "content": "B"},
    {"id": "answer", "role": "assistant", "content": "A and B."},
]


def assert_valid(shown: list[Answer]) -> None:
    """No result without its call before it, nothing twice, in the log's order."""
    positions = [message["position"] for message in shown]
    assert positions == sorted(set(positions))
    called: set[str] = set()
    for message in shown:
        called.update(message["calls"])
        assert message["answers"] is None or message["answers"] in called


def test_a_turn_killed_with_calls_open_goes_on_with_its_question_there_once(start: Start) -> None:
    turn = Task("trip", [[message] for message in TURN])
    worker = start.worker()
    for kept in range(1, len(TURN) + 1):
        successor = start.worker()
        path = start.path.with_name(f"{kept}.db")
        worker.append(spoken("before", 8), path=path).wait()
        job = worker.append(turn, die_after=kept, path=path)
        worker.died()
        assert len(job.acks) == kept

        worker = successor
        for window in (None, 1, 2, 3, 20):
            shown = worker.compose(window=window, path=path)
            assert_valid(shown)
            assert [message["id"] for message in shown].count("question") == 1
        # The application does not know what was stored: it sends the question again and asks another.
        worker.append(Task("trip", [[TURN[0]], [said("another")]]), path=path).wait()
        for window in (None, 1, 2, 3, 20):
            shown = worker.compose(window=window, path=path)
            assert_valid(shown)
            assert shown[-1]["id"] == "another"
        shown = worker.compose(window=None, path=path)
        assert [message["id"] for message in shown].count("question") == 1
        # A result that comes late still finds its call.
        worker.append(turn, path=path).wait()
        assert_valid(worker.compose(window=None, path=path))
        assert worker.read(path=path).count == 8 + len(TURN) + 1


def test_a_process_that_died_is_noticed_by_its_driver(start: Start) -> None:
    worker = start.worker()
    job = worker.append(spoken("last", 2), die_after=1)
    assert job.next()["positions"] == [1]
    with pytest.raises(Died):
        job.next()
    worker.died()
