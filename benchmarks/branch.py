"""The cost of branching a container: it must not depend on the container's size."""

from __future__ import annotations

from pathlib import Path

from autonomy_ctx.containers.item import ContextItem
from autonomy_ctx.containers.pool import ContextPool
from autonomy_ctx.containers.queue import ContextQueue
from benchmarks.table import Figure, Side, microseconds, side_by_side

SMALL, LARGE = 10, 10_000
# One branch is too short to be timed.
BRANCHES = 100


async def pool_of(count: int) -> ContextPool:
    pool = ContextPool(limit=count)
    for number in range(count):
        await pool.add(ContextItem({"number": number}, f"Document {number}", f"doc-{number}"))
    return pool


async def queue_of(count: int) -> ContextQueue:
    queue = ContextQueue(limit=count)
    await queue.append(*(ContextItem({"number": number}) for number in range(count)))
    return queue


def branching(name: str, container: ContextPool | ContextQueue) -> Side:
    async def branch() -> None:
        for _ in range(BRANCHES):
            container.branch()

    return Side(name, branch)


async def measure(folder: Path) -> list[Figure]:
    times = await side_by_side(
        branching("small pool", await pool_of(SMALL)),
        branching("large pool", await pool_of(LARGE)),
        branching("small queue", await queue_of(SMALL)),
        branching("large queue", await queue_of(LARGE)),
    )
    return [
        Figure(
            name=f"branch of a {LARGE:,}-item {kind} / of a {SMALL}-item one",
            ours=microseconds(times[f"large {kind}"] / BRANCHES),
            floor=microseconds(times[f"small {kind}"] / BRANCHES),
            value=times[f"large {kind}"] / times[f"small {kind}"],
            bound=3,
        )
        for kind in ("pool", "queue")
    ]
