"""The time that a background summary adds to a turn, beside no summary and a summary that a turn waits for.

The same conversation in every way, with tools and a model over HTTP, in rounds that alternate. Within a
round nothing waits for the background, so its work falls into the turns that it is measured on; after
a round it settles, so that it disturbs no other.

Without any summary a context holds all that was said, and reading that takes longer with every turn; so
the time to compose is also held against a bare window, which forgets what is older.

The peer that waits keeps its summary until 20 more messages came, which is kinder than what is usually
shown: there, every turn of a long conversation summarizes all of it anew.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from statistics import mean, median
from typing import Any

from autonomy_ctx import (
    ContextTemplate,
    ConversationHistorySection,
    Memory,
    SummarizedHistorySection,
    SystemInstructionsSection,
)
from autonomy_ctx.messages import wire
from autonomy_ctx.messages.cuts import find_window_start
from benchmarks import model_server
from benchmarks.http_model import HttpModel
from benchmarks.table import Figure
from benchmarks.talk import lookup, question

TURNS, ROUND = 120, 20
FLOOR, CEILING = 10, 20
SYSTEM = "You look after the orders of a shop. " * 20


class BlockingSummarySection:
    """History with a summary that is written before the turn goes on."""

    name, enabled, required = "conversation_history", True, True

    def __init__(self, model: HttpModel) -> None:
        self._model = model
        self._summary, self._covered = "", 0

    async def get_messages(self, memory: Any, scope: str, conversation: str, params: Any) -> list[Any]:
        new = await memory.get_messages_only(scope, conversation, after=self._covered)
        if len(new) > CEILING:
            cut = find_window_start([wire.from_dict(message) for message in new], FLOOR)
            asked = f"Summarize this conversation:\n\n{self._summary}\n{new[:cut]}"
            reply = await self._model.complete_chat([{"role": "user", "content": asked}], max_tokens=2048)
            self._summary = reply["choices"][0]["message"]["content"]
            self._covered += cut
            new = new[cut:]
        if not self._summary:
            return list(new)
        return [{"role": "system", "content": f"Conversation summary: {self._summary}"}, *new]


@dataclass
class Way:
    """One way to keep history, its conversation, and what was measured of it, in seconds."""

    memory: Memory
    section: Any
    composes: list[float] = field(default_factory=list)
    turns: list[float] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.template = ContextTemplate([SystemInstructionsSection(SYSTEM), self.section])

    async def turn(self, number: int, model: HttpModel) -> None:
        """Ask, answer, and call a tool in between where the model wants one."""
        started = time.perf_counter()
        await self.memory.append("shop", "orders", question(number))
        reply = await self._reply(model)
        if "tool_calls" in reply:
            result = lookup(number)[1] | {"tool_call_id": reply["tool_calls"][0]["id"]}
            await self.memory.append("shop", "orders", reply, result)
            reply = await self._reply(model)
        await self.memory.append("shop", "orders", reply)
        self.turns.append(time.perf_counter() - started)

    async def _reply(self, model: HttpModel) -> dict[str, Any]:
        started = time.perf_counter()
        context = await self.template.compose(self.memory, "shop", "orders")
        self.composes.append(time.perf_counter() - started)
        answer = await model.complete_chat(context.to_dicts())
        reply: dict[str, Any] = answer["choices"][0]["message"]
        return reply


async def measure(folder: Path) -> list[Figure]:
    with model_server.running() as url:
        model, writer = HttpModel(url, "turn"), HttpModel(url, "summary")
        summarized = SummarizedHistorySection(writer, FLOOR, CEILING)
        sections = {
            "none": ConversationHistorySection(),
            "window": ConversationHistorySection(max_messages=CEILING),
            "ours": summarized,
            "blocking": BlockingSummarySection(writer),
        }
        ways = {
            name: Way(Memory(f"sqlite:///{folder / name}.db"), section) for name, section in sections.items()
        }
        for start in range(0, TURNS, ROUND):
            for way in ways.values():
                for number in range(start, min(start + ROUND, TURNS)):
                    await way.turn(number, model)
                await summarized.settled()
        await summarized.close()
        for way in ways.values():
            await way.memory.close()
        for http in (model, writer):
            await http.close()
    return _figures(**ways)


def _figures(none: Way, window: Way, ours: Way, blocking: Way) -> list[Figure]:
    def added(to: str, floor: Way, name: str, at: Callable[[list[float]], float], bound: float) -> Figure:
        more = at(ours.composes) - at(floor.composes)
        return Figure(
            name=f"compose with context_summary: ms added to {to}, {name}",
            ours=f"{_ms(at(ours.composes))} ({more / at(ours.turns):.1%} of a turn)",
            floor=_ms(at(floor.composes)),
            value=more * 1000,
            bound=bound,
        )

    def turn(name: str, at: Callable[[list[float]], float], bound: float) -> Figure:
        return Figure(
            name=f"turn at {name}: context_summary / no summary",
            ours=_ms(at(ours.turns)),
            floor=f"{_ms(at(none.turns))}, blocking {_ms(at(blocking.turns))}",
            value=at(ours.turns) / at(none.turns),
            bound=bound,
        )

    return [
        added("no summary", none, "p50", median, 1),
        added("no summary", none, "p99", _p99, 5),
        added("a window", window, "p50", median, 1),
        added("a window", window, "p99", _p99, 5),
        turn("p50", median, 1.1),
        turn("p99", _p99, 1.5),
        Figure(
            name="turn, mean: blocking summary / context_summary",
            ours=_ms(mean(ours.turns)),
            floor=_ms(mean(blocking.turns)),
            value=mean(blocking.turns) / mean(ours.turns),
            bound=1.5,
            at_most=False,
        ),
    ]


def _p99(taken: list[float]) -> float:
    return sorted(taken)[int(len(taken) * 0.99)]


def _ms(seconds: float) -> str:
    return f"{seconds * 1000:.1f} ms"
