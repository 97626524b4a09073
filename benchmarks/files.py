"""The cost of an append to a context that is saved to a file: it must not depend on the context's length."""

from __future__ import annotations

import json
import os
from pathlib import Path

from autonomy_ctx.containers.context import Context
from autonomy_ctx.containers.runtime import Runtime
from autonomy_ctx.messages.message import Message
from benchmarks.table import Figure, Side, microseconds, side_by_side

SHORT, LONG = 100, 10_000
BOUND = 1.5


async def measure(folder: Path) -> list[Figure]:
    def said(context: Context, count: int) -> Context:
        context.extend(
            Message("user", f"Message {number}: a train to Lisbon, please.") for number in range(count)
        )
        return context

    def own_file(count: int) -> Context:
        return said(Context.from_file(folder / f"context-{count}.json", keep_updated=True), count)

    def shared_file(count: int) -> Context:
        runtime = Runtime(file_path=folder / f"runtime-{count}.json", keep_updated=True)
        context = said(runtime.get_context(), count)
        runtime.save()
        return context

    def append(name: str, context: Context) -> Side:
        async def call() -> None:
            context.user("And back on Friday, by night train if there is one.")

        return Side(name, call)

    long = own_file(LONG)

    async def rewrite() -> None:
        with (folder / "rewritten.json").open("w") as file:
            json.dump([message.model_dump() for message in long.messages], file)
            os.fsync(file.fileno())

    times = await side_by_side(
        append("short", own_file(SHORT)),
        append("long", long),
        append("short runtime", shared_file(SHORT)),
        append("long runtime", shared_file(LONG)),
        rounds=400,
    )
    rewritten = await side_by_side(Side("rewritten", rewrite), rounds=5, warm=1)

    def figure(name: str, ours: str, floor: str) -> Figure:
        return Figure(
            name=name,
            ours=microseconds(times[ours]),
            floor=microseconds(times[floor]),
            value=times[ours] / times[floor],
            bound=BOUND,
        )

    return [
        figure("auto-saved append, context: 10,000 messages / 100", "long", "short"),
        figure("auto-saved append, runtime: 10,000 messages / 100", "long runtime", "short runtime"),
        Figure(
            name="auto-saved append at 10,000 messages / rewriting the file",
            ours=microseconds(times["long"]),
            floor=microseconds(rewritten["rewritten"]),
            value=times["long"] / rewritten["rewritten"],
            bound=0.05,
        ),
    ]
