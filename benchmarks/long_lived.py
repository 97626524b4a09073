"""The memory of a process in which one conversation goes on and on, with a summary and a SQLite file.

Python's objects and pages are counted as the system sees them, in a process for each talk. It levels off:
what is kept depends on the window, and not on what was said before it, so in the second half of the turns the
process grows by less than a turn's text for each turn. One talk is of questions. In the other one, most
messages state a value of their own. The facts in force grow, and contexts read the newest: their number is
printed.

`python -m benchmarks.long_lived TALK FOLDER` is such a process: it prints its kilobytes after each quarter,
and the number of facts.
"""

from __future__ import annotations

import asyncio
import gc
import json
import sys
from collections.abc import Callable
from pathlib import Path

import anyio
import psutil

from autonomy_ctx import Agent, Memory, Model
from autonomy_ctx.testing import ScriptedModel
from benchmarks.table import Figure
from benchmarks.talk import said

TURNS = 4_000


def ask(number: int) -> str:
    """A question that states nothing."""
    return f"Where is order {number * 37}, and who took it to the warehouse on pier {number % 17}? " * 6


# How a talk goes.
TALKS: dict[str, Callable[[int], str]] = {"questions": ask, "a value in most messages": said}


async def measure(folder: Path) -> list[Figure]:
    figures = []
    for name, text in TALKS.items():
        text_size = len(text(TURNS)) * 2 / 1000
        (place := folder / name).mkdir()
        command = [sys.executable, "-m", "benchmarks.long_lived", name, str(place)]
        finished = await anyio.run_process(command, stderr=None)
        [_, _, middle, _, end], facts = json.loads(finished.stdout)
        per_turn = (end - middle) / (TURNS // 2)
        figures.append(
            Figure(
                name=f"memory of a process, {TURNS:,} turns, {name}: kB a turn in the second half",
                ours=f"{middle / 1000:.1f} -> {end / 1000:.1f} MB, {facts:,} facts in force",
                floor=f"{text_size:.2f} kB of text a turn",
                value=per_turn,
                bound=text_size,
            )
        )
    return figures


async def talk(name: str, folder: Path) -> tuple[list[float], int]:
    """The kilobytes of this process before the first turn and after each quarter, and the facts in force."""
    text = TALKS[name]
    model = ScriptedModel([lambda call: text(7_919 * len(call.messages))])
    sizes = [_resident()]
    async with Memory(f"sqlite:///{folder / 'long_lived.db'}") as memory:
        agent = Agent(model=model, memory=memory, context_summary={"model": Model("offline")})
        for number in range(1, TURNS + 1):
            await agent.send(text(3 * number))
            # The model keeps every request for whoever tests; here that would be measured.
            model.calls.clear()
            if number % (TURNS // 4) == 0:
                sizes.append(_resident())
        return sizes, len(await agent.facts())


def _resident() -> float:
    gc.collect()
    return float(psutil.Process().memory_info().rss) / 1000


if __name__ == "__main__":
    print(json.dumps(asyncio.run(talk(sys.argv[1], Path(sys.argv[2])))))
