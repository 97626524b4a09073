"""Our part of the time to the first token: the CPU from `send` until a request's first byte is written.

The four kinds of agents hold their conversations on SQLite, with `context_summary="auto"` and without
summaries, turn by turn. All the CPU of this process counts: the store's threads, composing, the HTTP client.
"""

from __future__ import annotations

import gc
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import AsyncExitStack
from pathlib import Path
from statistics import median
from typing import Any

import httpx

from autonomy_ctx import Agent, Memory, Message, Model, tool
from autonomy_ctx.messages.message import ChatRole
from autonomy_ctx.testing.providers import ProviderServer
from benchmarks.honest import HonestModel
from benchmarks.kinds import Kind, make_kinds
from benchmarks.table import Figure

MODEL = "claude-opus-5-5"
# What was measured when this was written, and some more.
BOUND = 1.5


class _Side:
    """One conversation of an agent, and the milliseconds that each `send` took before its request."""

    def __init__(self, kind: Kind) -> None:
        self.kind, self.took = kind, list[float]()
        self._began: float | None = None
        self._replies: Iterator[Message] = iter(())
        self._results: Iterator[str] = iter(())

    async def open(self, stack: AsyncExitStack, url: str, summary: Mapping[str, Any] | None) -> None:
        @tool
        def look_up(city: str, number: int) -> str:
            """Look up a journey."""
            return next(self._results)

        client = await stack.enter_async_context(ProviderServer(self._answer).client())
        client.event_hooks["request"].append(self._note_request)
        memory = await stack.enter_async_context(Memory(url))
        model = Model(MODEL, client=client, api_key="key")
        instructions = self.kind.conversation.instructions
        agent = Agent(
            "agent", instructions, model=model, memory=memory, tools=[look_up], context_summary=summary
        )
        self._agent = await stack.enter_async_context(agent)

    async def hold_turn(self, turn: Any) -> None:
        said = [message for request in turn.requests for message in request.said]
        asked = [message.text for message in said if message.role is ChatRole.USER][-1]
        self._results = iter([one.text for one in said if one.role is ChatRole.TOOL])
        self._replies = iter([one.answer for one in turn.requests if one.answer is not None])
        self._began = time.process_time()
        await self._agent.send(asked, scope="ana", conversation="journey")
        await self._agent.settled()

    async def _note_request(self, request: httpx.Request) -> None:
        if self._began is not None:
            self.took.append((time.process_time() - self._began) * 1000)
            self._began = None

    def _answer(self, body: Mapping[str, Any]) -> Sequence[Mapping[str, Any]]:
        reply = next(self._replies)
        if not reply.tool_calls:
            return [{"type": "text", "text": reply.text}]
        return [
            {"type": "tool_use", "id": call.id, "name": call.name, "input": call.parse_arguments()}
            for call in reply.tool_calls
        ]


async def measure(folder: Path) -> list[Figure]:
    return [await _measure_kind(folder, kind) for kind in make_kinds()]


async def _measure_kind(folder: Path, kind: Kind) -> Figure:
    summaries: dict[str, Mapping[str, Any] | None] = {
        "auto": {"auto": True, "model": HonestModel()},
        "none": None,
    }
    async with AsyncExitStack() as stack:
        sides = {name: _Side(kind) for name in summaries}
        for name, side in sides.items():
            await side.open(stack, f"sqlite:///{folder}/{kind.name} {name}.db", summaries[name])
        for turn in kind.conversation.turns():
            for side in sides.values():
                gc.collect()
                await side.hold_turn(turn)
    took = {name: median(side.took) for name, side in sides.items()}
    return Figure(
        name=f"CPU until the request is written: {kind.name}",
        ours=f"{took['auto']:.2f} ms of a median turn",
        floor=f"{took['none']:.2f} ms without summaries",
        value=took["auto"] / took["none"],
        bound=BOUND,
    )
