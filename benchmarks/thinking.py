"""Requests that a provider with preserved thinking refuses, and the thinking that is kept, in 40 turns."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from contextlib import AsyncExitStack
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from autonomy_ctx import (
    Agent,
    ContextTemplate,
    Memory,
    SummarizedHistorySection,
    SystemInstructionsSection,
    tool,
)
from autonomy_ctx.errors import ModelError
from autonomy_ctx.models.model import Model
from autonomy_ctx.sections.recall import RecallSection
from autonomy_ctx.testing.providers import ProviderServer
from benchmarks.honest import HonestModel
from benchmarks.table import Figure
from benchmarks.talk import said

# A small window, so that "auto" summarizes within these turns.
TURNS, WINDOW = 40, 6_000
MODELS = ("claude-opus-5-5", "us.anthropic.claude-opus-5-5-v1:0")


@dataclass
class Scenario:
    """One way to hold a conversation of 40 turns."""

    name: str
    build: Callable[[Model, Memory], Agent]
    # The agent after the turn with this number is made anew, with one more tool.
    restart_after: int | None = None


@dataclass
class Talk:
    """What came of a conversation."""

    failed: int = 0
    sent: int = 0
    kept: int = 0
    refused: int = 0
    # In US dollars, with what the provider charges for its summaries.
    cost: float = 0.0
    blocks: int = 0
    notes: list[str] = field(default_factory=list)


@tool
def look_up(order: str) -> str:
    """Look up an order."""
    return f"order {order}: shipped on Monday, arrives in two days"


@tool
def cancel(order: str) -> str:
    """Cancel an order."""
    return f"order {order} cancelled"


class ClockSection:
    """A section that says something else each time."""

    name, enabled, kind = "clock", True, "volatile"

    def __init__(self) -> None:
        self._count = 0

    async def get_messages(
        self, memory: Any, scope: str, conversation: str, params: Any
    ) -> list[dict[str, str]]:
        self._count += 1
        return [{"role": "system", "content": f"It is minute {self._count}."}]


def answer(body: Mapping[str, Any]) -> Sequence[Mapping[str, Any]]:
    """Think, call a tool in every other turn, then answer."""
    messages = body["messages"]
    last = messages[-1]["content"]
    blocks = [] if isinstance(last, str) else last
    thinking = {"type": "thinking", "thinking": ""}
    asked = re.findall(r"Question (\d+)", str(last))
    is_odd = bool(asked) and int(asked[-1]) % 2 == 1
    if is_odd and not any(block["type"] == "tool_result" for block in blocks) and "tools" in body:
        name = f"toolu_{len(messages)}_{abs(hash(str(messages))) % 10**9}"
        return [thinking, {"type": "tool_use", "id": name, "name": "look_up", "input": {"order": "1149"}}]
    return [thinking, {"type": "text", "text": said(len(messages), 30)}]


def _plain(summary: Any) -> Callable[[Model, Memory], Agent]:
    def build(model: Model, memory: Memory, tools: Sequence[Any] = (look_up,)) -> Agent:
        config: dict[str, Any] = {"model": HonestModel()} | ({"auto": True} if summary == "auto" else {})
        if summary == "provider" and model.can_compact:
            config["writer"] = "provider"
        return Agent(
            "shop", instructions="You help.", model=model, memory=memory, tools=tools, context_summary=config
        )

    return build


def _with(*sections: Callable[[], Any]) -> Callable[[Model, Memory], Agent]:
    def build(model: Model, memory: Memory, tools: Sequence[Any] = (look_up,)) -> Agent:
        template = ContextTemplate(
            [
                SystemInstructionsSection("You help."),
                *(make() for make in sections),
                SummarizedHistorySection(HonestModel()),
            ]
        )
        return Agent("shop", model=model, memory=memory, tools=tools, context_template=template)

    return build


SCENARIOS = (
    Scenario("plain", _plain(True)),
    Scenario('"auto"', _plain("auto")),
    Scenario("a section that changes", _with(ClockSection)),
    Scenario("recall", _with(RecallSection)),
    Scenario("one more tool after a restart", _plain(True), restart_after=20),
    Scenario("the provider summarizes", _plain("provider")),
)


async def hold(scenario: Scenario, name: str) -> Talk:
    """Hold a conversation, and count what was refused."""
    server = ProviderServer(answer)
    talk = Talk()
    async with AsyncExitStack() as opened:
        client = await opened.enter_async_context(server.client())
        memory = await opened.enter_async_context(Memory())
        model = Model(name, client=client, api_key="key", context_window=WINDOW)
        agent = await opened.enter_async_context(scenario.build(model, memory))
        for number in range(TURNS):
            if number == scenario.restart_after:
                agent = await opened.enter_async_context(
                    scenario.build(model, memory, (look_up, cancel))  # type: ignore[call-arg]
                )
            try:
                await agent.send(f"Question {number} about order {1000 + number}: {said(number, 20)}")
            except ModelError as error:
                talk.failed += 1
                talk.notes.append(str(error))
            await agent._background.idle()
    answered = [request for request in server.requests if request.status == 200]
    talk.sent, talk.refused = len(server.requests), len(server.refused)
    talk.kept = sum(request.thinking for request in answered)
    talk.cost = sum(request.cost or 0.0 for request in answered)
    talk.blocks = sum("compaction" in request.body for request in answered)
    return talk


async def measure(folder: Path) -> list[Figure]:
    figures = []
    talks: dict[str, Talk] = {}
    for scenario in SCENARIOS:
        for name in MODELS:
            talk = await hold(scenario, name)
            if name == MODELS[0]:
                talks[scenario.name] = talk
            api = "Bedrock" if name.startswith("us.") else "Claude API"
            figures.append(
                Figure(
                    name=f"turns of {TURNS} that fail, {scenario.name}, {api}",
                    ours=f"{talk.refused} of {talk.sent} requests refused; {talk.kept} blocks sent back",
                    floor="0",
                    value=talk.failed,
                    bound=0,
                )
            )
    own, provider = talks["plain"], talks["the provider summarizes"]
    figures.append(
        Figure(
            name="thinking sent back, the provider summarizes / we do",
            ours=f"{provider.kept:,} blocks, {provider.blocks} summaries",
            floor=f"{own.kept:,} blocks",
            value=provider.kept / own.kept,
            bound=1,
            at_most=False,
        )
    )
    figures.append(
        Figure(
            # No bound: kept thinking costs its tokens, and a summary is one more request.
            name="cost, the provider summarizes / we do",
            ours=f"${provider.cost:.4f}",
            floor=f"${own.cost:.4f}, without our own summaries",
            value=provider.cost / own.cost,
            bound=float("inf"),
        )
    )
    return figures
