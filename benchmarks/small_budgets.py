"""What a model sees of its conversation under a small budget: the last exchanges, and the share used."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from random import Random
from statistics import median
from typing import Any

from autonomy_ctx import Agent, BudgetExceeded, ComposedContext, Memory, Model, SummarizedHistorySection
from autonomy_ctx.stores import Entry
from autonomy_ctx.tokens import TokenCounter
from benchmarks.table import Figure
from benchmarks.talk import said

BUDGETS = (500, 1_000, 2_000, 4_000, 8_000)
TURNS = 80
# From this budget on, most of it should be used when there is more to show.
LARGE = 2_000
# What a user asks about next is in the last two exchanges.
EXCHANGES = 2
# As many messages as are shown before a summary is due: when they do not fit, there is more to show.
CEILING = 20
SCOPE, CONVERSATION = "ana", "talk"
Tokens = Callable[[Random], int]


@dataclass(frozen=True, slots=True)
class Kind:
    """How long questions, answers and tool results are; no results without a tool."""

    name: str
    question: Tokens
    answer: Tokens
    result: Tokens | None = None


def between(least: int, most: int) -> Tokens:
    return lambda chance: chance.randint(least, most)


def sometimes(usual: Tokens, rare: Tokens, share: float) -> Tokens:
    return lambda chance: rare(chance) if chance.random() < share else usual(chance)


KINDS = (
    Kind("short chat", between(12, 30), between(15, 40)),
    Kind("letters", between(150, 400), between(200, 600)),
    Kind("short questions, long answers", between(12, 30), between(300, 900)),
    Kind("tool results", between(15, 40), between(20, 60), between(100, 1_200)),
    Kind("pasted code", sometimes(between(15, 40), between(800, 2_500), 0.25), between(30, 300)),
)


@dataclass(slots=True)
class Talker:
    """Answers with so many tokens; with a tool it looks something up first."""

    kind: Kind
    chance: Random
    name: str = "talker"
    turn: int = 0

    async def complete_chat(self, messages: Sequence[dict[str, Any]], tools: Any = None) -> Any:
        if self.kind.result is not None and messages[-1]["role"] == "user":
            self.turn += 1
            function = {"name": "find_order", "arguments": json.dumps({"batch": self.turn})}
            call = {"id": f"call_{self.turn}", "type": "function", "function": function}
            return {"role": "assistant", "content": "", "tool_calls": [call]}
        return said(self.chance.randrange(10**6), self.kind.answer(self.chance))


@dataclass(slots=True)
class Tally:
    """What the turns of one budget, or of all, were like."""

    turns: int = 0
    refused: int = 0
    hidden: int = 0
    used: list[float] = field(default_factory=list)


async def measure(folder: Path) -> list[Figure]:
    tally = {budget: Tally() for budget in BUDGETS}
    for budget in BUDGETS:
        for number, kind in enumerate(KINDS):
            await _talk(kind, budget, Random(number), tally[budget])
    turns, hidden = (sum(getattr(one, name) for one in tally.values()) for name in ("turns", "hidden"))
    refused = sum(one.refused for one in tally.values())
    figures = [
        Figure(
            name="turns that hide the last two exchanges though they fit",
            ours=f"{hidden} of {turns:,} ({refused} refused)",
            floor="0",
            value=hidden,
            bound=0,
        )
    ]
    for budget in BUDGETS:
        if budget >= LARGE:
            used = median(tally[budget].used)
            figures.append(
                Figure(
                    name=f"share of {budget:,} tokens used when there is more, median",
                    ours=f"{used:.2f} of {len(tally[budget].used)} turns",
                    floor="1.00",
                    value=used,
                    bound=0.8,
                    at_most=False,
                )
            )
    return figures


async def _talk(kind: Kind, budget: int, chance: Random, tally: Tally) -> None:
    async def find_order(batch: int) -> str:
        """Find the orders of a batch."""
        assert kind.result is not None
        return said(batch, kind.result(chance))

    memory = Memory()
    async with Agent(
        "support",
        instructions="You help with orders.",
        model=Talker(kind, chance),
        memory=memory,
        tools=[find_order] if kind.result is not None else [],
        context_summary={"model": Model("offline")},
        limits={"context_tokens": budget},
    ) as agent:
        history = agent.context_template.get_section("conversation_history")
        assert isinstance(history, SummarizedHistorySection)
        for number in range(TURNS):
            tally.turns += 1
            try:
                reply = await agent.send(
                    said(number, kind.question(chance)), scope=SCOPE, conversation=CONVERSATION
                )
            except BudgetExceeded:
                tally.refused += 1
                continue
            context = await agent.explain(reply.turn, scope=SCOPE, conversation=CONVERSATION)
            log = (await agent.memory.read(SCOPE, CONVERSATION)).entries
            _judge(context, log[:-1], memory.token_counter, tally)
            await history.settled()


def _judge(context: ComposedContext, log: Sequence[Entry], counter: TokenCounter, tally: Tally) -> None:
    """Count a turn by its last context; `log` is what was stored when that was composed."""
    assert context.budget is not None
    users = [index for index, entry in enumerate(log) if entry.message.role == "user"]
    last = log[users[-EXCHANGES - 1] if len(users) > EXCHANGES else 0 :]
    shown = {origin.position for origin in context.origins()}
    around = sum(report.tokens for report in context.sections if report.name != "conversation_history")
    needed = around + counter.count_messages(entry.message for entry in last)
    if needed <= context.budget.limit and not {entry.position for entry in last} <= shown:
        tally.hidden += 1
    wanted = around + counter.count_messages(entry.message for entry in log[-CEILING:])
    if wanted > context.budget.limit:
        tally.used.append(context.tokens / context.budget.limit)
