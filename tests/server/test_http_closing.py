"""The end of a node that is being asked: what runs may end, then is cancelled; nothing stored is lost."""

from __future__ import annotations

import asyncio
import signal
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from time import monotonic

import anyio
import httpx
import pytest
from server.serving import ASK, Hanging, Served, error_of, events_of, served

from autonomy_ctx import Memory
from autonomy_ctx.agents.node import Node
from autonomy_ctx.server import http
from autonomy_ctx.testing import HeldModel, ScriptedModel

ROOT = Path(__file__).parent.parent.parent
EXAMPLE = ROOT / "examples" / "serve.py"
HELD = Path(__file__).parent / "held.py"
CLOSES_WITHIN = 5.0


# -- in one process ------------------------------------------------------------------------------


async def refused(here: Served) -> None:
    """Wait until the node takes no new connections."""
    with anyio.fail_after(5):
        while True:
            try:
                async with await anyio.connect_tcp("127.0.0.1", here.serving.port):
                    pass
            except OSError:
                return


async def test_a_turn_that_is_underway_may_end() -> None:
    model = HeldModel()
    async with served(model, grace_seconds=60.0) as here, anyio.create_task_group() as group:
        answers: list[httpx.Response] = []

        async def ask() -> None:
            answers.append(await here.client.post(ASK, json={"message": "hello"}))

        group.start_soon(ask)
        call = await model.wait_for_call()
        group.start_soon(here.node.close)
        await refused(here)
        assert not answers
        call.answer("Just in time.")
    assert answers[0].json()["text"] == "Just in time."


async def test_a_turn_that_does_not_end_is_cancelled_and_its_message_kept(tmp_path: Path) -> None:
    url = f"sqlite:///{tmp_path}/memory.db"
    model = Hanging()
    async with served(model, memory=url, grace_seconds=0.0) as here, anyio.create_task_group() as group:
        answers: list[httpx.Response] = []

        async def ask() -> None:
            answers.append(await here.client.post(ASK, json={"message": "hello"}))

        group.start_soon(ask)
        with anyio.fail_after(CLOSES_WITHIN):
            await model.asked.wait()
            await here.node.close()
        assert model.left.is_set()
    assert error_of(answers[0]) == (503, "Closing")
    async with Memory(url) as memory:
        kept = await memory.for_agent("assistant").get_messages_only("default", "default")
    assert [one["content"] for one in kept] == ["hello"]


async def test_a_stream_that_does_not_end_says_that_the_node_closes() -> None:
    model = Hanging()
    async with (
        served(model, grace_seconds=0.0) as here,
        anyio.create_task_group() as group,
        here.client.stream("POST", ASK, json={"message": "a", "stream": True}) as response,
    ):
        await model.asked.wait()
        group.start_soon(here.node.close)
        told = [one async for one in events_of(response)]
    assert [(one.event, one.data["error"]["type"]) for one in told] == [("error", "Closing")]
    assert model.left.is_set()


async def test_connections_that_wait_for_nothing_do_not_hold_it_up() -> None:
    async with served(ScriptedModel("hi"), grace_seconds=60.0) as here:
        await here.client.post(ASK, json={"message": "a"})
        idle = await anyio.connect_tcp("127.0.0.1", here.serving.port)
        with anyio.fail_after(CLOSES_WITHIN):
            await here.node.close()
            with pytest.raises(anyio.EndOfStream):
                await idle.receive()
        await idle.aclose()


async def test_a_body_that_never_comes_does_not_hold_it_up() -> None:
    async with served(ScriptedModel("hi"), grace_seconds=0.0) as here:
        stream = await anyio.connect_tcp("127.0.0.1", here.serving.port)
        await stream.send(
            b"POST /agents/assistant HTTP/1.1\r\nhost: localhost\r\ncontent-type: application/json\r\n"
            b"content-length: 10\r\nexpect: 100-continue\r\n\r\n"
        )
        assert (await stream.receive()).startswith(b"HTTP/1.1 100 ")
        with anyio.fail_after(CLOSES_WITHIN):
            await here.node.close()
        assert (await stream.receive()).startswith(b"HTTP/1.1 503 ")
        await stream.aclose()


async def test_another_task_than_the_one_that_opened_it_may_close_it() -> None:
    serving = http(port=0)
    node = await Node(serve=serving).__aenter__()
    port = serving.port
    async with anyio.create_task_group() as group:
        group.start_soon(node.close)
    with pytest.raises(OSError):
        await anyio.connect_tcp("127.0.0.1", port)
    await node.close()


async def test_no_task_and_no_signal_handler_is_left() -> None:
    handlers = [signal.getsignal(one) for one in (signal.SIGINT, signal.SIGTERM)]
    before = asyncio.all_tasks()
    async with served(ScriptedModel("hi")) as here:
        await here.client.post(ASK, json={"message": "a", "stream": True})
        assert [signal.getsignal(one) for one in (signal.SIGINT, signal.SIGTERM)] == handlers
    assert [signal.getsignal(one) for one in (signal.SIGINT, signal.SIGTERM)] == handlers
    assert asyncio.all_tasks() == before


# -- in a process of its own ---------------------------------------------------------------------


@contextmanager
def running(script: Path, *arguments: str) -> Iterator[tuple[subprocess.Popen[str], str]]:
    """A program that serves, and its address; gone when the test ends."""
    process = subprocess.Popen(
        [sys.executable, "-W", "always", str(script), *arguments],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    try:
        assert process.stdout is not None
        line = process.stdout.readline()
        assert line.startswith("serving at "), process.communicate()[1]
        yield process, line.removeprefix("serving at ").strip()
    finally:
        process.kill()
        process.communicate()


def stopped(process: subprocess.Popen[str], number: int = signal.SIGINT) -> None:
    """Stop it as Ctrl-C does: it ends in time, with success and without a word."""
    began = monotonic()
    process.send_signal(number)
    _, said = process.communicate(timeout=30)
    assert (process.returncode, said) == (0, "")
    assert monotonic() - began < CLOSES_WITHIN


def asking(url: str, conversation: str, kept: list[str], enough: threading.Event) -> None:
    """Ask until the node is gone, and note what was acknowledged."""
    with httpx.Client(base_url=url, trust_env=False, timeout=30) as client:
        for number in range(450):
            text = f"{conversation} has the number {number}"
            try:
                answer = client.post(ASK, json={"message": text, "conversation": conversation})
            except httpx.TransportError:
                return
            if answer.status_code != 200:
                assert error_of(answer) == (503, "Closing")
                return
            kept.append(text)
            if number == 5:
                enough.set()


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_ctrl_c_under_load_loses_nothing_that_was_answered(tmp_path: Path, number: signal.Signals) -> None:
    path = str(tmp_path / "agents.db")
    kept: dict[str, list[str]] = {name: [] for name in ("ana", "bob", "eve")}
    enough = [threading.Event() for _ in kept]
    with running(EXAMPLE, path, "0") as (process, url):
        threads = [
            threading.Thread(target=asking, args=(url, name, kept[name], event))
            for name, event in zip(kept, enough, strict=True)
        ]
        for thread in threads:
            thread.start()
        assert all(event.wait(30) for event in enough)
        stopped(process, number)
        for thread in threads:
            thread.join(30)
    with running(EXAMPLE, path, "0") as (process, url), httpx.Client(base_url=url, trust_env=False) as client:
        for name, texts in kept.items():
            answer = client.get(f"{ASK}/history?conversation={name}&limit=1000").json()
            said = [one["content"] for one in answer["messages"] if one["role"] == "user"]
            # One more may have been taken in when its answer could not be given any more.
            assert said[: len(texts)] == texts
            assert len(said) - len(texts) <= 1
            assert len(texts) > 5
        client.close()
        stopped(process)


def test_ctrl_c_while_a_model_never_answers_ends_in_time_and_keeps_the_question(tmp_path: Path) -> None:
    path = str(tmp_path / "agents.db")
    questions = [f"question {number}" for number in range(4)]
    with running(HELD, path) as (process, url), httpx.Client(base_url=url, trust_env=False) as client:
        assert process.stdout is not None
        for text in questions:
            body = {"message": text, "stream": True}
            with client.stream("POST", ASK, json=body) as response:
                assert process.stdout.readline() == "asked\n"
                if text == questions[-1]:
                    began = monotonic()
                    process.send_signal(signal.SIGINT)
                    # The client is told, and is not just cut off.
                    assert '"type":"Closing"' in response.read().decode()
        _, said = process.communicate(timeout=30)
        assert (process.returncode, said) == (0, "")
        assert monotonic() - began < CLOSES_WITHIN
    with running(EXAMPLE, path, "0") as (process, url):
        answer = httpx.get(f"{url}{ASK}/history", trust_env=False).json()
        assert [one["content"] for one in answer["messages"]] == questions
        stopped(process)
