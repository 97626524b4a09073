"""The cost of current facts: the same conversations with facts and with `facts=False`, in one run."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from autonomy_ctx import ContextTemplate, Memory, SummarizedHistorySection
from benchmarks import rolling
from benchmarks.fact_corpus import Conversation, is_long, make_corpus
from benchmarks.fact_model import PerfectSummarizer
from benchmarks.kept_facts import SCOPE, run_conversation
from benchmarks.provider import FactWriter, Provider
from benchmarks.table import Figure, Side, microseconds, side_by_side
from benchmarks.talk import TURNS

# Conversations whose summarizer is measured.
COUNT = 6


async def measure(folder: Path) -> list[Figure]:
    short = [one for one in make_corpus() if not is_long(one)][:COUNT]
    return [await _compose(short[0]), await _summarizer_input(short), await _cost()]


def _section(model: Any, facts: bool, **options: Any) -> SummarizedHistorySection:
    given: dict[str, Any] = {**options, "facts": facts}
    return SummarizedHistorySection(model, **given)


async def _compose(conversation: Conversation) -> Figure:
    sides, closed = [], []
    for facts in (True, False):
        section, memory = _section(PerfectSummarizer(conversation), facts), Memory()
        template = ContextTemplate([section])
        for message in conversation.messages:
            await memory.append(SCOPE, conversation.name, message)
            if message["role"] == "user":
                await template.compose(memory, SCOPE, conversation.name)
                await section.settled()

        async def compose(template: ContextTemplate = template, memory: Memory = memory) -> None:
            await template.compose(memory, SCOPE, conversation.name)

        sides.append(Side(str(facts), compose))
        closed += [section.close, memory.close]
    times = await side_by_side(*sides, rounds=1_000)
    for close in closed:
        await close()
    return Figure(
        name="compose, with facts / facts=False",
        ours=microseconds(times["True"]),
        floor=microseconds(times["False"]),
        value=times["True"] / times["False"],
        bound=1.05,
    )


async def _summarizer_input(conversations: Sequence[Conversation]) -> Figure:
    read = {True: 0, False: 0}
    for conversation in conversations:
        for facts in read:
            section = _section(PerfectSummarizer(conversation), facts)
            await run_conversation(section, conversation)
            read[facts] += section.get_metrics()["summarizer_input_tokens"]
            await section.close()
    return Figure(
        name="tokens that the summarizer reads, with facts / facts=False",
        ours=f"{read[True]:,}",
        floor=f"{read[False]:,}",
        value=read[True] / read[False],
        bound=1.1,
    )


async def _cost() -> Figure:
    ways = {facts: await _way(facts).run() for facts in (True, False)}
    ours, floor = (ways[facts].provider.cost for facts in (True, False))
    return Figure(
        name=f"cost of {TURNS} turns, with facts / facts=False",
        ours=f"{ours:,.0f}",
        floor=f"{floor:,.0f}",
        value=ours / floor,
        bound=1.05,
    )


def _way(facts: bool) -> rolling.Way:
    provider, ticks = Provider(), list[rolling.Way]()
    section = _section(
        FactWriter(provider, asyncio.current_task()),
        facts,
        floor=rolling.FLOOR,
        ceiling=rolling.CEILING,
        size=rolling.USUAL,
        share_prefix=True,
        clock=lambda: ticks[0].seconds if ticks else 0.0,
    )
    ticks.append(rolling.Way(section, provider))
    return ticks[0]
