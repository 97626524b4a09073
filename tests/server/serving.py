"""A node behind real HTTP on a loopback port, a client for it, and models that take their time."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Any

import anyio
import httpx

from autonomy_ctx import Memory
from autonomy_ctx.agents.agent import Agent
from autonomy_ctx.agents.node import Node
from autonomy_ctx.formats.base import StreamEvent
from autonomy_ctx.server import http
from autonomy_ctx.server.node.http import HttpServer

ASK = "/agents/assistant"


@dataclass(frozen=True)
class Served:
    """A running node with one agent."""

    node: Node
    agent: Agent
    client: httpx.AsyncClient
    serving: HttpServer


@asynccontextmanager
async def served(
    model: Any,
    *,
    memory: Memory | str | None = None,
    tools: Sequence[Any] = (),
    agent: dict[str, Any] | None = None,
    kind: type[Agent] = Agent,
    **options: Any,
) -> AsyncIterator[Served]:
    """A node with the agent `assistant`, and a client that does not use the machine's proxies."""
    serving = http(port=0, **options)
    async with Node(memory=memory, serve=serving) as node:
        made = await kind.start(
            node=node,
            name="assistant",
            instructions="Be brief.",
            description="Answers.",
            model=model,
            tools=tools,
            **(agent or {}),
        )
        async with client_of(serving) as client:
            yield Served(node, made, client, serving)


def client_of(serving: HttpServer, **options: Any) -> httpx.AsyncClient:
    return httpx.AsyncClient(base_url=serving.url, trust_env=False, verify=False, timeout=30, **options)


class Hanging:
    """A model that never answers, and says when it was asked and when it was let go."""

    def __init__(self) -> None:
        self.asked, self.left = anyio.Event(), anyio.Event()

    async def complete_chat(self, messages: Any, **options: Any) -> Any:
        self.asked.set()
        try:
            await anyio.sleep_forever()
        finally:
            self.left.set()


class Piecewise:
    """A model that streams events, and waits where there is something to wait for among them."""

    def __init__(self, *answers: Sequence[StreamEvent | anyio.Event]) -> None:
        self._answers = list(answers)

    async def complete_chat(self, messages: Any, **options: Any) -> Any:
        return self._told(self._answers.pop(0))

    async def _told(self, events: Sequence[StreamEvent | anyio.Event]) -> AsyncIterator[StreamEvent]:
        for event in events:
            if isinstance(event, anyio.Event):
                await event.wait()
            else:
                yield event


@dataclass(frozen=True)
class Sent:
    """One server-sent event as a client reads it; a comment has no data."""

    event: str
    data: Any


async def events_of(response: httpx.Response) -> AsyncIterator[Sent]:
    """The events of a response as they arrive."""
    event = ""
    async for line in response.aiter_lines():
        if line.startswith(":"):
            yield Sent("comment", line)
        elif line.startswith("event: "):
            event = line.removeprefix("event: ")
        elif line.startswith("data: "):
            yield Sent(event, json.loads(line.removeprefix("data: ")))


def error_of(response: httpx.Response) -> tuple[int, str]:
    """Status and type of an error; its body has a sentence, and nothing else."""
    body = response.json()
    assert list(body) == ["error"]
    assert {"type", "message"} <= set(body["error"]) <= {"type", "message", "retry_after"}
    return response.status_code, body["error"]["type"]
