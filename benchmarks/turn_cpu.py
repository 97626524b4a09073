"""The CPU time of a turn with one tool call, on each store, beside the same two requests made by hand.

A model over HTTP in a process of its own calls a tool, then answers. All the CPU of this process counts:
the store's threads, composing, the records of `explain`, the HTTP client. By hand, an `httpx` client sends
the same messages and tools, calls the same function and keeps nothing. Both go on with the same conversation
for `TURNS_EACH` turns, in conversations that alternate; of each kind the best one is shown. On SQLite also
with `LONG` messages before the turn.

`python -m benchmarks.turn_cpu` is the server: it prints its port and ends when its input is closed.
"""

from __future__ import annotations

import asyncio
import gc
import json
import subprocess
import sys
import time
from collections.abc import Callable, Coroutine, Iterator
from contextlib import AsyncExitStack, contextmanager
from functools import partial
from pathlib import Path
from typing import Any, TypeAlias

import httpx

from autonomy_ctx import Agent, Memory, Model, tool
from benchmarks.postgres import server_url
from benchmarks.table import Figure
from benchmarks.talk import said

WARM_UP, CONVERSATIONS, TURNS_EACH, LONG = 3, 25, 10, 1_000
AFTER_LONG = f"SQLite, {LONG:,} messages before it"
# What 0.2 took on the machine that the bounds were set on, and 15 % more.
BOUNDS = {"in process": 2.4, "SQLite": 3.1, AFTER_LONG: 13.3, "PostgreSQL": 3.7}
SYSTEM = "You look after the orders of a shop. " * 20
Talk: TypeAlias = Callable[[str], Coroutine[Any, Any, None]]


@tool
def find_order(batch: int) -> str:
    """Find the orders of a batch."""
    return said(batch)


def _answer(message: dict[str, Any], stop: str, asked: int) -> bytes:
    tokens = asked // 4
    body = json.dumps(
        {
            "id": "chatcmpl-1",
            "object": "chat.completion",
            "model": "shop",
            "choices": [{"index": 0, "message": {"role": "assistant", **message}, "finish_reason": stop}],
            "usage": {"prompt_tokens": tokens, "completion_tokens": 20, "total_tokens": tokens + 20},
        }
    ).encode()
    head = f"HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ncontent-length: {len(body)}\r\n\r\n"
    return head.encode() + body


def _call(number: int, asked: int) -> bytes:
    function = {"name": find_order.name, "arguments": '{"batch": 12}'}
    call = {"id": f"call_{number}", "type": "function", "function": function}
    return _answer({"content": None, "tool_calls": [call]}, "tool_calls", asked)


ANSWER = said(7)


class ShopModel(asyncio.Protocol):
    """Calls the tool for a question, and answers what the tool has found."""

    def __init__(self) -> None:
        self._data = bytearray()
        self._transport: asyncio.Transport | None = None
        self._calls = 0

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.Transport)
        self._transport = transport

    def data_received(self, data: bytes) -> None:
        self._data += data
        end = self._data.find(b"\r\n\r\n")
        if end < 0 or self._transport is None:
            return
        head = bytes(self._data[:end]).lower()
        length = int(head.partition(b"content-length:")[2].partition(b"\r\n")[0])
        if len(self._data) >= end + 4 + length:
            asked = json.loads(self._data[end + 4 : end + 4 + length])
            del self._data[: end + 4 + length]
            if asked["messages"][-1]["role"] == "user":
                self._calls += 1
                self._transport.write(_call(self._calls, length))
            else:
                self._transport.write(_answer({"content": ANSWER}, "stop", length))


async def main() -> None:
    loop = asyncio.get_running_loop()
    server = await loop.create_server(ShopModel, "127.0.0.1", 0)
    print(server.sockets[0].getsockname()[1], flush=True)
    await asyncio.to_thread(sys.stdin.read)
    server.close()


@contextmanager
def running() -> Iterator[str]:
    """A server in a process of its own; its address."""
    command = [sys.executable, "-m", "benchmarks.turn_cpu"]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        assert process.stdin is not None
        yield f"http://127.0.0.1:{process.stdout.readline().strip()}"
        process.stdin.close()


async def measure(folder: Path) -> list[Figure]:
    async with AsyncExitStack() as stack:
        url = stack.enter_context(running())
        client = await stack.enter_async_context(httpx.AsyncClient())
        stores = {
            "in process": "memory://",
            "SQLite": f"sqlite:///{folder / 'turns.db'}",
            "PostgreSQL": stack.enter_context(server_url()),
        }
        talks: dict[str, Talk] = {}
        for name, store in stores.items():
            memory = await stack.enter_async_context(Memory(store))
            model = Model("shop", base_url=url)
            agent = Agent("shop", SYSTEM, model=model, memory=memory, tools=[find_order])
            talks[name] = partial(talk, await stack.enter_async_context(agent))
            if name == "SQLite":
                talks[AFTER_LONG] = partial(talk, agent)
                prepare = partial(fill, agent)
        specs = [one.spec for one in agent.tools]
        talks["by hand"] = partial(talk_by_hand, client, f"{url}/v1/chat/completions", specs)
        best = await _cpu_of_turns(talks, {AFTER_LONG: prepare})
    floor = best.pop("by hand")
    return [
        Figure(
            name=f"turn with one tool call, {name}: CPU ms / by hand",
            ours=f"{took:.2f} ms",
            floor=f"{floor:.2f} ms with httpx by hand, nothing kept",
            value=took / floor,
            bound=BOUNDS[name],
        )
        for name, took in best.items()
    ]


async def talk(agent: Agent, conversation: str) -> None:
    for number in range(TURNS_EACH):
        await agent.send(said(3 * number), scope="ana", conversation=conversation)


async def fill(agent: Agent, conversation: str) -> None:
    """Give a conversation `LONG` messages, for the turns that follow."""
    roles = ("user", "assistant")
    spoken = [{"role": roles[at % 2], "content": said(at)} for at in range(LONG)]
    await agent.memory.append("ana", conversation, *spoken)


async def talk_by_hand(client: httpx.AsyncClient, url: str, specs: list[Any], conversation: str) -> None:
    """The same turns with a bare client and a list."""
    messages: list[dict[str, Any]] = [{"role": "system", "content": SYSTEM}]
    tools = [{"type": "function", "function": dict(spec)} for spec in specs]
    for number in range(TURNS_EACH):
        messages.append({"role": "user", "content": said(3 * number)})
        while True:
            asked = {"model": "shop", "messages": messages, "tools": tools}
            reply = (await client.post(url, json=asked)).json()["choices"][0]["message"]
            messages.append(reply)
            if not reply.get("tool_calls"):
                break
            for call in reply["tool_calls"]:
                found = find_order(**json.loads(call["function"]["arguments"]))
                messages.append({"role": "tool", "tool_call_id": call["id"], "content": found})


async def _cpu_of_turns(talks: dict[str, Talk], prepare: dict[str, Talk]) -> dict[str, float]:
    """Milliseconds of CPU of a turn of each kind, in its best conversation."""
    best = dict.fromkeys(talks, float("inf"))
    for number in range(WARM_UP + CONVERSATIONS):
        for name, talk in talks.items():
            conversation = f"{name} {number}"
            if name in prepare:
                await prepare[name](conversation)
            gc.collect()
            started = time.process_time()
            await talk(conversation)
            took = (time.process_time() - started) * 1000 / TURNS_EACH
            if number >= WARM_UP:
                best[name] = min(best[name], took)
    return best


if __name__ == "__main__":
    asyncio.run(main())
