"""The time of composing turn after turn when nothing has to be read again, beside two baselines.

In process the floor is composing nothing: a template without sections. On SQLite it is the least that tells
whether anybody else has written: the row of the conversation's head, with bare sqlite3.
"""

from __future__ import annotations

import sqlite3
from pathlib import Path

from autonomy_ctx import ContextTemplate, Memory, SummarizedHistorySection
from autonomy_ctx.memory.store import Key
from benchmarks import compose, summarized
from benchmarks.corpus import fill
from benchmarks.table import Figure, Side, microseconds, side_by_side

STORED = 100
_SELECT_HEAD = "SELECT id, head, count FROM conversation WHERE agent = ? AND scope = ? AND conversation = ?"
# The most microseconds of a compose: in process and on SQLite.
FOUR_SECTIONS, SUMMARIZED = (25, 45), (40, 60)


async def measure(folder: Path) -> list[Figure]:
    path = folder / "hot.db"
    memories = {"in process": Memory(), "SQLite": Memory(f"sqlite:///{path}")}
    section = SummarizedHistorySection(None)
    first, *rest = compose.template().sections
    four, short = compose.template(), ContextTemplate([first, *rest[:-1], section])
    for memory in memories.values():
        for conversation in ("plain", "summarized"):
            await fill(memory, "ana", conversation, STORED)
        await summarized.summarize(memory, "summarized", STORED)
    bare, key = sqlite3.connect(path), Key("", "ana", "plain")

    async def read_head() -> None:
        assert bare.execute(_SELECT_HEAD, (key.agent, key.scope, key.conversation)).fetchone()

    def side(name: str, template: ContextTemplate, memory: Memory, conversation: str) -> Side:
        return Side(name, lambda: template.compose(memory, "ana", conversation))

    sides = []
    for store, memory in memories.items():
        sides.append(side(f"four, {store}", four, memory, "plain"))
        sides.append(side(f"summarized, {store}", short, memory, "summarized"))
    nothing = ContextTemplate([])
    times = await side_by_side(
        *sides,
        side("in process", nothing, memories["in process"], "plain"),
        Side("SQLite", read_head),
        rounds=1000,
    )
    bare.close()
    await section.close()
    for memory in memories.values():
        await memory.close()
    floors = {"in process": "nothing composed", "SQLite": "the head's row"}
    return [
        Figure(
            name=f"compose, hot, {name}, {store}: us",
            ours=microseconds(times[f"{kind}, {store}"]),
            floor=f"{microseconds(times[store])}, {floors[store]}",
            value=times[f"{kind}, {store}"] * 1e6,
            bound=bound,
        )
        for kind, name, bounds in (
            ("four", "four sections", FOUR_SECTIONS),
            ("summarized", "the same, summarized history", SUMMARIZED),
        )
        for store, bound in zip(memories, bounds, strict=True)
    ]
