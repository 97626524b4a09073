"""What an agent adds to its model: the CPU time of a turn, and how many turns run in parallel.

A turn of a long conversation is measured with a model that answers at once: all the CPU of the process,
the store's thread and the summaries in the background included. Beside it stands the same turn of a
conversation that has just begun; where all of the history is shown, reading it with sqlite3 alone.

Many conversations at once talk to a model over HTTP that takes 200 ms. Beside them a bare client sends
requests of the same size to the same server, as many at once, in rounds that alternate; and twenty such
clients, which share the conversations. Where the machine is full, this is a matter of CPU, so that of each
turn is shown, too.
"""

from __future__ import annotations

import gc
import json
import sqlite3
import time
from collections.abc import Callable, Coroutine, Mapping, Sequence
from contextlib import AsyncExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeAlias

import anyio
import httpx

from autonomy_ctx import (
    Agent,
    ContextTemplate,
    ConversationHistorySection,
    Memory,
    Model,
    SystemInstructionsSection,
    tool,
)
from autonomy_ctx.formats.base import RequestOptions
from autonomy_ctx.formats.openai import OpenAIFormat
from benchmarks import slow_model
from benchmarks.corpus import copy_as_dicts, fill, spoken
from benchmarks.table import Figure
from benchmarks.talk import said

STORED, WINDOW, TURNS, ROUNDS = 1000, 20, 20, 5
CONVERSATIONS, TURNS_EACH, WAVES = 200, 2, 2
# A client looks through all of its connections at every request; with few it is at its best.
CLIENTS = 20
SYSTEM = "You look after the orders of a shop. " * 20
Talk: TypeAlias = Callable[[int, int], Coroutine[Any, Any, None]]
SUMMARY = "- " + "\n- ".join(said(number, 40) for number in range(6))


@tool
def find_order(batch: int) -> str:
    """Find the orders of a batch."""
    return said(batch)


class InstantModel:
    """Calls a tool, then answers, or answers at once; summarizes where no tools are offered."""

    name = "instant"

    def __init__(self, *, calls: bool = True) -> None:
        self._calls = calls
        self._numbers = iter(range(10**9))

    async def complete_chat(
        self, messages: Sequence[Mapping[str, Any]], tools: Any = None, **options: Any
    ) -> dict[str, Any]:
        if not tools:
            return _reply({"role": "assistant", "content": SUMMARY})
        if not self._calls or messages[-1]["role"] != "user":
            return _reply({"role": "assistant", "content": said(7)})
        called = {"name": "find_order", "arguments": json.dumps({"batch": 12})}
        call = {"id": f"call_{next(self._numbers)}", "type": "function", "function": called}
        return _reply({"role": "assistant", "content": "", "tool_calls": [call]})


def _reply(message: dict[str, Any]) -> dict[str, Any]:
    stop = "tool_calls" if "tool_calls" in message else "stop"
    return {"choices": [{"index": 0, "message": message, "finish_reason": stop}]}


async def measure(folder: Path) -> list[Figure]:
    return [*await one_at_a_time(folder), *await side_by_side(folder)]


async def one_at_a_time(folder: Path) -> list[Figure]:
    """CPU of one turn, with one tool call and without, by how much of the history is shown."""
    window = [SystemInstructionsSection(SYSTEM), ConversationHistorySection(max_messages=WINDOW)]
    ways: dict[str, dict[str, Any]] = {
        "answer, context_summary": {"context_summary": True},
        "context_summary": {"context_summary": True},
        f"the last {WINDOW}": {"context_template": ContextTemplate(window)},
        "all shown": {},
    }
    figures = []
    for name, options in ways.items():
        path = folder / f"{name.replace(' ', '-')}.db"
        memory = Memory(f"sqlite:///{path}")
        kind = "turn that answers" if name.startswith("answer") else "turn with a call"
        model = InstantModel(calls=kind == "turn with a call")
        agent = Agent("shop", instructions=SYSTEM, model=model, memory=memory, tools=[find_order], **options)
        await fill(agent.memory, "ana", "long", STORED)
        taken = await _cpu_of_turns(agent, path)
        await agent.close()
        await memory.close()
        figures.append(
            Figure(
                name=f"{kind}, {STORED:,} messages, {name.removeprefix('answer, ')}: CPU ms",
                ours=f"{taken['long']:.1f} ms",
                floor=f"{taken['new']:.1f} ms in a new conversation",
                value=taken["long"],
                bound=5,
            )
            if name != "all shown"
            else Figure(
                name=f"turn with a call, all {STORED:,} messages shown: CPU / bare sqlite3",
                ours=f"{taken['long']:.1f} ms",
                floor=f"{taken['bare']:.1f} ms to read and write them out twice",
                value=taken["long"] / taken["bare"],
                bound=5,
            )
        )
    return figures


async def _cpu_of_turns(agent: Agent, path: Path) -> dict[str, float]:
    """Milliseconds of CPU of each kind of turn, of the best round."""
    best = dict.fromkeys(("long", "new", "bare"), float("inf"))
    dicts = path.with_suffix(".dicts")
    copy_as_dicts(path, dicts).close()
    for number in range(1 + ROUNDS):
        for name in best:
            turns = TURNS if name == "long" else 2
            gc.collect()
            started = time.process_time()
            for turn in range(turns):
                if name == "bare":
                    _bare_turn(dicts)
                    continue
                conversation = name if name == "long" else f"new-{number}"
                await agent.send(spoken(2 * turn)["content"]["text"], scope="ana", conversation=conversation)
            await _settled(agent)
            took = (time.process_time() - started) * 1000 / turns
            if number:
                best[name] = min(best[name], took)
    return best


def _bare_turn(path: Path) -> None:
    """Read all of the long conversation and write it out as JSON, for each of the two steps of a turn."""
    connection = sqlite3.connect(path)
    for _ in range(2):
        found = connection.execute(
            """
            SELECT m.body FROM conversation c JOIN message m ON m.conversation_id = c.id
            WHERE c.agent = 'shop' AND c.scope = 'ana' AND c.conversation = 'long' ORDER BY m.position
            """
        ).fetchall()
        assert len(found) >= STORED
        json.dumps([json.loads(body) for (body,) in found])
    connection.close()


async def _settled(agent: Agent) -> None:
    settled = getattr(agent.context_template.get_section("conversation_history"), "settled", None)
    if settled is not None:
        await settled()


async def side_by_side(folder: Path) -> list[Figure]:
    """Turns per second of many conversations at once, beside bare clients."""
    limits = httpx.Limits(max_connections=1000, max_keepalive_connections=CONVERSATIONS)
    with slow_model.running() as url:
        async with AsyncExitStack() as opened:
            memory = await opened.enter_async_context(Memory(f"sqlite:///{folder / 'side-by-side.db'}"))
            model = Model("slow", base_url=url)
            agent = Agent("shop", instructions=SYSTEM, model=model, memory=memory)
            await opened.enter_async_context(agent)
            clients = [httpx.AsyncClient(limits=limits, timeout=60.0) for _ in range(1 + CLIENTS)]
            for client in clients:
                await opened.enter_async_context(client)
            body = await _first_body(agent)

            async def ours(wave: int, number: int) -> None:
                for turn in range(TURNS_EACH):
                    await agent.send(said(3 * turn), scope="ana", conversation=f"{wave}-{number}")

            async def bare(client: httpx.AsyncClient) -> None:
                messages = list(body["messages"][:-1])
                for turn in range(TURNS_EACH):
                    messages.append({"role": "user", "content": said(3 * turn)})
                    asked = {**body, "messages": messages}
                    reply = await client.post(f"{url}/v1/chat/completions", json=asked)
                    messages.append(reply.json()["choices"][0]["message"])

            talks: dict[str, Talk] = {
                "ours": ours,
                "one": lambda wave, number: bare(clients[0]),
                "twenty": lambda wave, number: bare(clients[1 + number % CLIENTS]),
            }
            waves = {name: Waves() for name in talks}
            for wave in range(1 + WAVES):
                for name, talk in talks.items():
                    await waves[name].add(talk, wave)
    return [
        Figure(
            name=f"{CONVERSATIONS} conversations, 200 ms model: turns/s / {what}",
            ours=str(waves["ours"]),
            floor=str(waves[name]),
            value=waves["ours"].per_second / waves[name].per_second,
            bound=bound,
            at_most=False,
        )
        for name, what, bound in (("one", "a bare client", 0.9), ("twenty", f"{CLIENTS} bare clients", 0.5))
    ]


@dataclass
class Waves:
    """The best of some waves of conversations at once; the first only opens connections."""

    per_second: float = 0.0
    cpu: float = float("inf")

    async def add(self, talk: Talk, wave: int) -> None:
        gc.collect()
        began, spent = time.perf_counter(), time.process_time()
        async with anyio.create_task_group() as group:
            for number in range(CONVERSATIONS):
                group.start_soon(talk, wave, number)
        if wave:
            turns = CONVERSATIONS * TURNS_EACH
            self.per_second = max(self.per_second, turns / (time.perf_counter() - began))
            self.cpu = min(self.cpu, (time.process_time() - spent) / turns)

    def __str__(self) -> str:
        return f"{self.per_second:,.0f}/s ({self.cpu * 1000:.1f} ms CPU)"


async def _first_body(agent: Agent) -> dict[str, Any]:
    """What the agent sends in a first turn."""
    await agent.send(said(0), scope="ana", conversation="first")
    shown = await agent.explain(scope="ana", conversation="first")
    specs = [tool.spec for tool in agent.tools]
    return OpenAIFormat().request("slow", shown.messages, RequestOptions(tools=specs)).body
