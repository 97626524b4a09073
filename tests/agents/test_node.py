"""A node: hosts agents, shares memory and background work among them, and ends in time whatever they do."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import anyio
import pytest
from agents.kit import stored, users

from autonomy_ctx import Memory, SummarizedHistorySection
from autonomy_ctx.agents.agent import Agent
from autonomy_ctx.agents.node import Node
from autonomy_ctx.errors import AgentClosed, InvalidAgent, UnknownAgent
from autonomy_ctx.testing import HeldModel, ScriptedModel

CLOSING_SECONDS = 5


async def started(node: Node, name: str, model: Any, **options: Any) -> Agent:
    return await Agent.start(node=node, name=name, instructions="Help.", model=model, **options)


async def test_a_node_hosts_agents_that_share_its_memory(tmp_path: Path) -> None:
    url = f"sqlite:///{tmp_path}/memory.db"
    async with Node("here", memory=url) as node:
        one = await started(node, "one", ScriptedModel("1"))
        two = await started(node, "two", ScriptedModel("2"))
        assert (node.agents, node.agent("two")) == ([one, two], two)
        assert repr(node) == "Node('here', agents=['one', 'two'])"
        assert (await one.send("hi")).text == "1"
        assert await two.history() == []
        assert await node.healthy()
        counts = await node.get_metrics()
        assert (counts["memory"]["messages_added"], counts["agent:one"]["turns"]) == (2, 1)
        with pytest.raises(UnknownAgent, match="one, two"):
            node.agent("three")
    assert not await node.healthy()
    with pytest.raises(AgentClosed):
        await one.send("too late")
    async with Node(memory=url) as node:
        again = await started(node, "one", ScriptedModel("1"))
        assert [message["content"] for message in await again.history()] == ["hi", "1"]


async def test_a_name_is_taken_once_until_its_agent_is_closed() -> None:
    async with Node() as node:
        first = await started(node, "one", ScriptedModel("1"))
        with pytest.raises(InvalidAgent, match="already hosted"):
            await started(node, "one", ScriptedModel("2"))
        assert (await first.send("hi")).text == "1"
        await first.close()
        assert node.agents == []
        second = await started(node, "one", ScriptedModel("2"))
        await first.close()
        assert node.agents == [second]
        assert (await second.send("hi")).text == "2"


async def test_a_closed_node_takes_no_more_agents() -> None:
    node = Node()
    await node.close()
    await node.close()
    with pytest.raises(AgentClosed):
        await started(node, "one", ScriptedModel("1"))


async def test_memory_that_was_given_stays_open(memory: Memory) -> None:
    async with Node(memory=memory) as node:
        agent = await started(node, "one", ScriptedModel("1"))
        await agent.send("hi")
    assert len(await stored(memory.for_agent("one"))) == 2


async def test_close_ends_everything_in_time_whatever_hangs(tmp_path: Path) -> None:
    models = [HeldModel() for _ in range(4)]
    writer = HeldModel()
    ended: list[str] = []

    async def ask(agent: Agent, text: str) -> None:
        with pytest.raises(AgentClosed):
            await agent.send(text)
        ended.append(text)

    async def listen(agent: Agent) -> None:
        with pytest.raises(AgentClosed):
            async for _ in agent.stream("listen", conversation="listened"):
                pass
        ended.append("listen")

    node = Node(memory=f"sqlite:///{tmp_path}/memory.db")
    async with anyio.create_task_group() as group:
        for number, model in enumerate(models):
            agent = await started(
                node, f"agent {number}", model, context_summary={"floor": 1, "ceiling": 2, "model": writer}
            )
            await agent.memory.append(
                "default", "default", *({"role": "user", "content": str(n)} for n in range(5))
            )
            group.start_soon(ask, agent, f"hang {number}")
            group.start_soon(ask, agent, f"wait {number}")
            group.start_soon(listen, agent)
        for model in models:
            await model.wait_for_call(2)
        await writer.wait_for_call()
        with anyio.fail_after(CLOSING_SECONDS):
            await node.close()
    assert len(ended) == 12
    async with Memory(f"sqlite:///{tmp_path}/memory.db") as memory:
        said = users(await stored(memory.for_agent("agent 0")))
        assert said in (["0", "1", "2", "3", "4", f"{word} 0"] for word in ("hang", "wait"))


async def test_an_agent_that_fails_to_close_keeps_no_other_open() -> None:
    class Stubborn(SummarizedHistorySection):
        async def close(self) -> None:
            raise OSError("stubborn")

    node = Node()
    odd = await started(node, "odd", ScriptedModel("1"))
    odd.context_template.close = Stubborn(HeldModel()).close  # type: ignore[method-assign]
    other = await started(node, "other", ScriptedModel("2"))
    await node.close()
    with pytest.raises(AgentClosed):
        await other.send("hi")


async def test_what_is_served_opens_with_the_node_and_closes_before_its_agents() -> None:
    told: list[str] = []

    @asynccontextmanager
    async def serve(node: Node) -> AsyncIterator[None]:
        told.append("opened")
        yield
        told.append(f"closed with {len(node.agents)} agents")

    async with Node(serve=serve) as node:
        await started(node, "one", ScriptedModel("1"))
        assert told == ["opened"]
    assert told == ["opened", "closed with 1 agents"]


async def test_a_node_opens_more_ways_in_while_it_runs_and_closes_them_before_its_agents() -> None:
    said: list[str] = []

    @asynccontextmanager
    async def serve(served: Node) -> AsyncIterator[None]:
        said.append("opened")
        yield
        said.append(f"closed beside {[agent.name for agent in served.agents]}")

    async def main(running: Node) -> None:
        await started(running, "one", ScriptedModel("1"))
        await running.serve(serve)
        said.append("running")
        running.stop()

    node = Node()
    await node.run(main)
    assert said == ["opened", "running", "closed beside ['one']"]
    with pytest.raises(AgentClosed):
        await node.serve(serve)


async def test_an_error_in_main_is_raised_by_run_when_all_is_closed() -> None:
    async def main(running: Node) -> None:
        await started(running, "one", ScriptedModel("1"))
        raise KeyError("the reason")

    node = Node()
    with pytest.raises(KeyError, match="the reason"):
        await node.run(main)
    assert node.agents == []


async def test_what_cannot_be_served_closes_the_node() -> None:
    @asynccontextmanager
    async def serve(node: Node) -> AsyncIterator[None]:
        if node.name == "node":
            raise OSError("the port is taken")
        yield

    node = Node(serve=serve)
    with pytest.raises(OSError, match="taken"):
        await node.__aenter__()
    with pytest.raises(AgentClosed):
        await started(node, "one", ScriptedModel("1"))


async def test_a_node_waits_until_somebody_stops_it() -> None:
    stopped = anyio.Event()

    async def wait() -> None:
        await node.wait_stopped()
        stopped.set()

    async with Node() as node, anyio.create_task_group() as group:
        group.start_soon(wait)
        await anyio.wait_all_tasks_blocked()
        assert not stopped.is_set()
        node.stop()
        with anyio.fail_after(5):
            await stopped.wait()


# -- a whole application, in a process of its own ------------------------------------------------------

APPLICATION = """
import json, os, sys
import anyio
from autonomy_ctx.agents.agent import Agent
from autonomy_ctx.agents.node import Node
from autonomy_ctx.testing import HeldModel, ScriptedModel

def say(word):
    os.write(1, word.encode() + b"\\n")

async def main(node):
    model = HeldModel() if way == "hangs" else ScriptedModel("fine")
    agent = await Agent.start(node=node, name="helper", instructions="", model=model)
    match way:
        case "answers":
            say((await agent.send("hi")).text)
        case "hangs":
            async def tell():
                await model.wait_for_call()
                say("asked")
            async with anyio.create_task_group() as group:
                group.start_soon(tell)
                await agent.send("hi")
        case "streams":
            model = HeldModel()
            other = await Agent.start(node=node, name="other", instructions="", model=model)
            async def listen():
                async for _ in other.stream("hi"):
                    pass
            async with anyio.create_task_group() as group:
                group.start_soon(listen)
                await model.wait_for_call()
                say("asked")
        case "stops":
            await agent.send("hi")
            node.stop()
            say("stopping")
        case "fails":
            await agent.send("hi")
            say("failing")
            raise KeyError("the reason")

url, way, backend = sys.argv[1:]
try:
    Node.start(main, name="app", memory=url, backend=backend)
except KeyError as error:
    say(f"raised {error}")
say("closed")
"""


def ended(tmp_path: Path, way: str, backend: str, *signals: signal.Signals) -> tuple[list[str], int]:
    """What an application said until it ended by itself or by signals, and with which code."""
    child = subprocess.Popen(
        [sys.executable, "-c", APPLICATION, f"sqlite:///{tmp_path}/memory.db", way, backend],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        # Without a buffer, in which `communicate` would not find the lines that came with the first.
        bufsize=0,
        env={**os.environ, "PYTHONDEVMODE": "1"},
    )
    try:
        assert child.stdout is not None
        first = child.stdout.readline().decode().strip()
        for one in signals:
            child.send_signal(one)
        out, err = (stream.decode() for stream in child.communicate(timeout=60))
    finally:
        child.kill()
    assert "Traceback" not in err, err
    assert "never awaited" not in err, err
    assert "was destroyed" not in err, err
    return [first, *out.split("\n")[:-1]], child.returncode


async def _said(tmp_path: Path, agent: str = "helper") -> list[str]:
    async with Memory(f"sqlite:///{tmp_path}/memory.db") as memory:
        return [message.text for message in await stored(memory.for_agent(agent))]


@pytest.fixture(params=["asyncio", "trio"])
def backend(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.mark.parametrize("stop", [signal.SIGINT, signal.SIGTERM])
def test_a_signal_closes_an_application_cleanly_and_loses_nothing(
    tmp_path: Path, backend: str, stop: signal.Signals
) -> None:
    assert ended(tmp_path, "answers", backend, stop) == (["fine", "closed"], 0)
    assert anyio.run(_said, tmp_path) == ["hi", "fine"]


@pytest.mark.parametrize(("way", "agent"), [("hangs", "helper"), ("streams", "other")])
def test_a_signal_ends_a_turn_that_hangs_and_its_message_is_kept(
    tmp_path: Path, backend: str, way: str, agent: str
) -> None:
    assert ended(tmp_path, way, backend, signal.SIGINT) == (["asked", "closed"], 0)
    assert anyio.run(_said, tmp_path, agent) == ["hi"]


def test_an_application_may_stop_itself(tmp_path: Path, backend: str) -> None:
    assert ended(tmp_path, "stops", backend) == (["stopping", "closed"], 0)
    assert anyio.run(_said, tmp_path) == ["hi", "fine"]


def test_an_error_in_main_ends_the_node_and_is_raised_as_itself(tmp_path: Path, backend: str) -> None:
    assert ended(tmp_path, "fails", backend) == (["failing", "raised 'the reason'", "closed"], 0)
    assert anyio.run(_said, tmp_path) == ["hi", "fine"]
    assert json.dumps(sorted(path.name for path in tmp_path.iterdir())).count("wal") == 0
