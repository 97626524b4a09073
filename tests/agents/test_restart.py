"""kill -9 of a process in the middle of a turn: the next process goes on where it was."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from agents.kit import assert_valid, call, calls, spoken, stored, users

from autonomy_ctx import Memory
from autonomy_ctx.agents.agent import Agent
from autonomy_ctx.formats.outgoing import model_dict
from autonomy_ctx.testing import ScriptedModel

WORKER = Path(__file__).with_name("worker.py")


class Worker:
    """A process with an agent."""

    def __init__(self, path: Path, loop: str) -> None:
        self._child = subprocess.Popen(
            [sys.executable, str(WORKER), json.dumps({"path": str(path), "loop": loop})],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )

    def tell(self, text: str, *script: Any, message_id: str | None = None) -> None:
        assert self._child.stdin is not None
        self._child.stdin.write(json.dumps({"text": text, "script": script, "id": message_id}) + "\n")
        self._child.stdin.flush()

    def hear(self) -> Any:
        assert self._child.stdout is not None
        return json.loads(self._child.stdout.readline())

    def send(self, text: str, *script: Any, message_id: str | None = None) -> Any:
        self.tell(text, *script, message_id=message_id)
        return self.hear()

    def kill(self) -> None:
        self._child.send_signal(signal.SIGKILL)
        self._child.communicate()


Start = Callable[[], Worker]


@pytest.fixture(params=["asyncio", "trio"])
def start(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Start]:
    """Starts processes on one file; none of them outlives the test."""
    workers: list[Worker] = []

    def worker() -> Worker:
        workers.append(Worker(tmp_path / "memory.db", request.param))
        return workers[-1]

    yield worker
    for one in workers:
        one.kill()


async def _history(path: Path) -> list[Any]:
    async with Memory(f"sqlite:///{path}/memory.db") as memory:
        return await stored(memory.for_agent("helper"), "ana", "trip")


@pytest.fixture
def anyio_backend() -> str:
    return "asyncio"


async def test_a_turn_killed_while_tools_run_leaves_its_question_once_and_goes_on(
    start: Start, tmp_path: Path
) -> None:
    for kills in range(1, 4):
        worker = start()
        worker.tell("what is there?", calls(call("find"), call("hang")), message_id="m1")
        assert worker.hear() == {"hangs": True}
        worker.kill()
        history = await _history(tmp_path)
        assert spoken(history) == [("user", "what is there?")], f"after {kills} kills"
        assert_valid(history)
    answered = start().send("what is there?", calls(call("find")), "A report.", message_id="m1")
    assert (answered["text"], answered["stop"]) == ("A report.", "end")
    history = await _history(tmp_path)
    assert users(history) == ["what is there?"]
    assert [message.role.value for message in history] == ["user", "assistant", "tool", "assistant"]
    assert_valid(history)


async def test_a_turn_killed_in_its_second_step_keeps_its_first(start: Start, tmp_path: Path) -> None:
    worker = start()
    worker.tell("look", calls(call("find"), text="I look."), calls(call("hang")))
    assert worker.hear() == {"hangs": True}
    worker.kill()
    history = await _history(tmp_path)
    assert [message.role.value for message in history] == ["user", "assistant", "tool"]
    assert_valid(history)
    answered = start().send("and?", "There is a report.")
    assert [message["role"] for message in answered["shown"][0][-4:]] == ["user", "assistant", "tool", "user"]
    assert_valid(await _history(tmp_path))


async def test_an_answer_that_was_stored_before_a_kill_is_returned_after_it(
    start: Start, tmp_path: Path
) -> None:
    worker = start()
    worker.send("what is there?", calls(call("find")), "A report.", message_id="m1")
    worker.kill()
    history = await _history(tmp_path)
    again = start().send("what is there?", "Another answer.", message_id="m1")
    assert (again["text"], again["stop"], again["shown"]) == ("A report.", "end", [])
    assert await _history(tmp_path) == history


async def test_a_question_is_still_open_after_a_kill(start: Start, tmp_path: Path) -> None:
    worker = start()
    paused = worker.send("book", calls(call("ask_user_for_input", question="Which day?"), call("find")))
    assert (paused["stop"], paused["question"]) == ("waiting_for_input", "Which day?")
    worker.kill()
    # Who did not hear the question sends the request again, and hears it.
    worker = start()
    first = (await _history(tmp_path))[0]
    again = worker.send("book", "never asked", message_id=first.id)
    assert (again["stop"], again["question"], again["shown"]) == ("waiting_for_input", "Which day?", [])
    worker.kill()
    resumed = start().send("Friday", "Booked for Friday.")
    assert (resumed["text"], resumed["stop"]) == ("Booked for Friday.", "end")
    assert resumed["shown"][0][-1]["role"] == "tool"
    assert resumed["shown"][0][-1]["content"] == "Friday"
    history = await _history(tmp_path)
    assert users(history) == ["book"]
    assert_valid(history)


async def test_items_and_explanations_are_there_after_a_kill(start: Start, tmp_path: Path) -> None:
    worker = start()
    told = worker.send("look", calls(call("find")), "There is a report.")
    worker.tell("go on", calls(call("find"), call("hang")))
    assert worker.hear() == {"hangs": True}
    worker.kill()
    async with Memory(f"sqlite:///{tmp_path}/memory.db") as memory:
        agent = Agent("helper", model=ScriptedModel("ok"), memory=memory)
        place = {"scope": "ana", "conversation": "trip"}
        for step, shown in enumerate(told["shown"], start=1):
            explained = await agent.explain(told["turn"], step=step, **place)
            assert [model_dict(message) for message in explained.messages] == shown
        items = await agent._items.load(agent._key("ana", "trip"))
        assert [item.content for item in items.queue] == ["a remark"]
        assert [item.id for item in items.pool] == ["report"]
    read = start().send("read it", calls(call("read_context_item", item_id="report")), "Read.")
    assert read["shown"][1][-1]["content"] == "a long report"
