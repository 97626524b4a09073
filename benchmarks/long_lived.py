"""The memory of a process in which one conversation goes on and on, with a summary and a SQLite file.

Python's objects and pages are counted as the system sees them, in a process of its own. It levels off when
what is kept depends on the window, and not on what was said before it: in the second half of the turns the
process grows by less than a message for each turn. In this talk nearly every message states a value of its
own, so the facts in force, which each context may show, grow as well; their number is printed.

`python -m benchmarks.long_lived FOLDER` is that process: it prints its kilobytes after each quarter, and the
number of facts.
"""

from __future__ import annotations

import asyncio
import gc
import json
import sys
from pathlib import Path

import anyio
import psutil

from autonomy_ctx import Agent, Memory, Model
from autonomy_ctx.testing import ScriptedModel
from benchmarks.table import Figure
from benchmarks.talk import said

TURNS = 4_000


async def measure(folder: Path) -> list[Figure]:
    command = [sys.executable, "-m", "benchmarks.long_lived", str(folder)]
    finished = await anyio.run_process(command, stderr=None)
    [_, _, middle, _, end], facts = json.loads(finished.stdout)
    per_turn = (end - middle) / (TURNS // 2)
    one_turn = 2 * len(said(TURNS))
    return [
        Figure(
            name=f"memory of a process, {TURNS:,} turns of one conversation: growth in the second half",
            ours=f"{per_turn:,.2f} kB a turn ({middle / 1000:.1f} -> {end / 1000:.1f} MB), {facts:,} facts",
            floor=f"{one_turn / 1000:.2f} kB of text a turn",
            value=per_turn,
            bound=one_turn / 1000,
        )
    ]


async def talk(folder: Path) -> tuple[list[float], int]:
    """The kilobytes of this process before the first turn and after each quarter, and the facts in force."""
    model = ScriptedModel([lambda call: said(len(call.messages))])
    sizes = [_resident()]
    async with Memory(f"sqlite:///{folder / 'long_lived.db'}") as memory:
        agent = Agent(model=model, memory=memory, context_summary={"model": Model("offline")})
        for number in range(1, TURNS + 1):
            await agent.send(said(3 * number))
            # The model keeps every request for whoever tests; here that would be measured.
            model.calls.clear()
            if number % (TURNS // 4) == 0:
                sizes.append(_resident())
        return sizes, len(await memory.facts("default", "default"))


def _resident() -> float:
    gc.collect()
    return float(psutil.Process().memory_info().rss) / 1000


if __name__ == "__main__":
    print(json.dumps(asyncio.run(talk(Path(sys.argv[1])))))
