"""The cost of inspecting a stored conversation: it must not depend on the conversation's length.

In each case the values and their dicts, as a request of the inspector has them.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from functools import partial
from pathlib import Path
from typing import Any

from autonomy_ctx import Memory
from autonomy_ctx.inspection import inspect_conversation, inspect_timeline, read_messages
from benchmarks.corpus import fill
from benchmarks.fork import summarize
from benchmarks.table import Figure, Side, microseconds, side_by_side

SIZES = (1_000, 100_000)
PAGE = 100
POINTS = 500
Looks = dict[str, Callable[[int], Awaitable[Any]]]


async def measure(folder: Path) -> list[Figure]:
    memory = Memory(f"sqlite:///{folder / 'inspection.db'}", synchronous="NORMAL")
    for size in SIZES:
        await fill(memory, "ana", f"of {size}", size)
        await summarize(memory, f"of {size}", size)
    looks = _looks(memory)
    times = await side_by_side(
        *(Side(f"{name} of {size}", partial(look, size)) for name, look in looks.items() for size in SIZES),
        rounds=40,
        warm=5,
    )
    await memory.close()
    smallest, largest = SIZES
    return [
        Figure(
            name=f"{name} of {largest:,} messages / of {smallest:,}",
            ours=microseconds(times[f"{name} of {largest}"]),
            floor=microseconds(times[f"{name} of {smallest}"]),
            value=times[f"{name} of {largest}"] / times[f"{name} of {smallest}"],
            # Each point of the larger one is on a page of its own.
            bound=3.0 if name.startswith("timeline") else 1.5,
        )
        for name in looks
    ]


def _looks(memory: Memory) -> Looks:
    async def conversation(size: int) -> None:
        (await inspect_conversation(memory, "ana", f"of {size}")).to_dict()

    async def timeline(size: int) -> None:
        (await inspect_timeline(memory, "ana", f"of {size}", points=POINTS)).to_dict()

    async def page(size: int) -> None:
        found = await read_messages(memory, "ana", f"of {size}", before=size // 2, limit=PAGE)
        assert len(found.to_dict()["messages"]) == PAGE

    return {
        "conversation": conversation,
        f"timeline with {POINTS} points": timeline,
        f"page of {PAGE} in the middle": page,
    }
