"""The cost of a turn's lease, and whether waiting turns of several processes run in order.

An uncontended turn is taken and given back in transactions that it makes anyway: its commits are counted
by the store itself. The turns with and without a lease alternate, on one database each, with a model that
answers at once. `machines` measures the same on a PostgreSQL server.
"""

from __future__ import annotations

import sqlite3
import subprocess
import sys
import time
from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from statistics import median
from typing import IO, Any

from autonomy_ctx import Memory
from autonomy_ctx.agents.agent import Agent
from autonomy_ctx.testing import ScriptedModel
from benchmarks.table import Figure

TURNS, COUNTED_TURNS, WARM_UP = 600, 50, 30
PROCESSES, WAITING = 4, 100

_WORKER = """
import json, sys, anyio, anyio.to_thread
from autonomy_ctx import Memory
from autonomy_ctx.agents.agent import Agent

def tell_waits(store):
    wait_for_turn = store.wait_for_turn

    async def wait(key, ticket, *, seconds):
        tell("waits")
        await wait_for_turn(key, ticket, seconds=seconds)

    store.wait_for_turn = wait

class Model:
    may_answer = None
    async def complete_chat(self, messages, **options):
        if messages[-1]["content"] == "first":
            self.may_answer = anyio.Event()
            tell("asked")
            await self.may_answer.wait()
        return "ok"

def tell(what):
    print(what, flush=True)

async def main():
    model = Model()
    async with Memory(sys.argv[1]) as memory, anyio.create_task_group() as group:
        tell_waits(memory.store)
        agent = Agent("helper", "Helps.", model=model, memory=memory)
        async def send(text):
            await agent.send(text)
            tell("done")
        tell("ready")
        while line := (await anyio.to_thread.run_sync(sys.stdin.readline)).strip():
            if line == "answer":
                model.may_answer.set()
            else:
                group.start_soon(send, line)

anyio.run(main)
"""


async def measure(folder: Path) -> list[Figure]:
    return await measure_on(lambda name: f"sqlite:///{folder / name}.db")


async def measure_on(create: Callable[[str], str], turns: int = TURNS) -> list[Figure]:
    """The figures of a kind of store: `create` makes a database with a name, and gives its URL."""
    urls = {"with": create("with"), "without": create("without")}
    return [*await _uncontended(urls, turns), await _waiting(create("waiting"))]


async def _uncontended(urls: dict[str, str], turns: int) -> list[Figure]:
    seconds: dict[str, list[float]] = {"with": [], "without": []}
    agents: dict[str, Agent] = {}
    for name, lease in (("with", 10.0), ("without", None)):
        memory = Memory(urls[name])
        model = ScriptedModel("A short answer.")
        agents[name] = Agent("helper", "Helps.", model=model, memory=memory, turn_lease_seconds=lease)
        for number in range(WARM_UP):
            await agents[name].send(f"warm up {number}", conversation="warm-up")
    for number in range(turns):
        # In turns which is first, so that neither profits from what the other has just done.
        for name in sorted(agents, reverse=number % 2 == 0):
            started = time.perf_counter()
            await agents[name].send(f"question {number}", conversation=f"c{number // 20}")
            seconds[name].append(time.perf_counter() - started)
    # By themselves: a server counts the commits of all its databases together.
    commits: dict[str, float] = {}
    for name, agent in agents.items():
        before = _commits(urls[name])
        for number in range(COUNTED_TURNS):
            await agent.send(f"question {number}", conversation="counted")
        commits[name] = (_commits(urls[name]) - before) / COUNTED_TURNS
        await agent.close()
        await agent.memory.close()
    with_lease, without = median(seconds["with"]), median(seconds["without"])
    # Turn by turn: what else the disk is busy with then slows both alike.
    ratios = [one / other for one, other in zip(seconds["with"], seconds["without"], strict=True)]
    return [
        Figure(
            name="turn lease, uncontended: a turn with it / without",
            ours=f"{with_lease * 1000:.2f} ms",
            floor=f"{without * 1000:.2f} ms",
            value=median(ratios),
            bound=1.1,
        ),
        Figure(
            name="turn lease, uncontended: commits added to a turn",
            ours=f"{commits['with']:.2f}",
            floor=f"{commits['without']:.2f}",
            value=commits["with"] - commits["without"],
            bound=0,
        ),
    ]


def _commits(url: str) -> int:
    """How many transactions that write there have been."""
    if url.startswith("sqlite:///"):
        with closing(sqlite3.connect(url.removeprefix("sqlite:///"))) as connection:
            [(commits,)] = connection.execute("SELECT commits FROM progress")
    else:
        import psycopg

        with psycopg.connect(url) as server:
            [(commits,)] = server.execute("SELECT pg_snapshot_xmax(pg_current_snapshot())::text::bigint")
    return int(commits)


async def _waiting(url: str) -> Figure:
    workers = [
        subprocess.Popen(  # noqa: ASYNC220  # nothing else runs in this loop
            [sys.executable, "-c", _WORKER, url],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        for _ in range(PROCESSES)
    ]
    pipes = [(_pipe(worker.stdin), _pipe(worker.stdout)) for worker in workers]
    for _, answers in pipes:
        answers.readline()
    _ask(*pipes[0], "first")
    texts = [str(number) for number in range(WAITING)]
    for number, text in enumerate(texts):
        _ask(*pipes[number % PROCESSES], text)
    started = time.perf_counter()
    pipes[0][0].write("answer\n")
    pipes[0][0].flush()
    for number, (_, answers) in enumerate(pipes):
        done = (WAITING // PROCESSES) + (number == 0)
        while done:
            done -= answers.readline() == "done\n"
    took = time.perf_counter() - started
    for worker, (questions, answers) in zip(workers, pipes, strict=True):
        questions.close()
        worker.wait()
        answers.close()
    async with Memory(url) as memory:
        history = await memory.for_agent("helper").get_messages_only("default", "default")
    asked = [one["content"] for one in history if one["role"] == "user"]
    roles = [one["role"] for one in history]
    wrong = sum(one != other for one, other in zip(asked, ["first", *texts], strict=False))
    wrong += abs(len(asked) - WAITING - 1) + (roles != ["user", "assistant"] * (WAITING + 1))
    return Figure(
        name=f"{WAITING} waiting turns over {PROCESSES} processes: out of order or interleaved",
        ours=f"{WAITING / took:,.0f} turns/s",
        floor="0",
        value=wrong,
        bound=0,
    )


def _pipe(stream: IO[Any] | None) -> IO[Any]:
    assert stream is not None
    return stream


def _ask(questions: IO[Any], answers: IO[Any], text: str) -> None:
    """Send a turn, and wait until it has begun or waits for others."""
    questions.write(f"{text}\n")
    questions.flush()
    answers.readline()
