"""The cost of forking a stored conversation: it must not depend on the conversation's length.

Commits are not synced here: a sync takes longer than the fork, and would make any two of them look alike.
"""

from __future__ import annotations

import sqlite3
from pathlib import Path

from autonomy_ctx import Agent, Memory
from autonomy_ctx.memory.store import Key, StoredSegment
from autonomy_ctx.testing import ScriptedModel
from benchmarks.corpus import fill
from benchmarks.table import Figure, Side, microseconds, side_by_side

SIZES = (100, 1_000, 100_000)
WINDOW = 20
# All that a fork writes rows into.
TABLES = ("conversation", "shared_range", "segment", "fact", "pin", "message", "record", "work", "whole")


async def measure(folder: Path) -> list[Figure]:
    path = folder / "fork.db"
    memory = Memory(f"sqlite:///{path}", synchronous="NORMAL")
    for size in SIZES:
        await fill(memory, "ana", f"of {size}", size)
        await summarize(memory, f"of {size}", size)
    places = {f"{where} of {size}": at for size in SIZES for where, at in _positions(size).items()}
    times = await side_by_side(
        *(_forking(memory, name, name.split(" ", 1)[1], at) for name, at in places.items()),
        rounds=60,
        warm=5,
    )
    figures = [
        Figure(
            name=f"fork at the {where} of {size:,} messages / of {SIZES[0]}",
            ours=microseconds(times[f"{where} of {size}"]),
            floor=microseconds(times[f"{where} of {SIZES[0]}"]),
            value=times[f"{where} of {size}"] / times[f"{where} of {SIZES[0]}"],
            bound=1.5,
        )
        for where in ("head", "middle")
        for size in SIZES[1:]
    ]
    figures += [await _rows_written(memory, path), await _model_calls(memory)]
    figures += await _reading(memory)
    await memory.close()
    return figures


async def summarize(memory: Memory, conversation: str, size: int) -> None:
    """Eight segments over the first four fifths, the first four of them merged, and a pin."""
    key, length = Key("", "ana", conversation), size // 10
    ranges = [(part * length + 1, (part + 1) * length, 0) for part in range(8)] + [(1, 4 * length, 1)]
    for first, last, level in ranges:
        segment = StoredSegment(first=first, last=last, text="told " * 200, tokens=200, level=level)
        assert await memory.store.commit_segment(key, segment, generation=0, fence=None)
    [entry] = (await memory.read("ana", conversation, before=3, limit=1)).entries
    assert await memory.pin("ana", conversation, entry.message.id)


def _positions(size: int) -> dict[str, int]:
    # The middle is inside the merged segment: the fork has those that it was made from.
    return {"head": size, "middle": size * 35 // 100}


def _forking(memory: Memory, name: str, conversation: str, at: int) -> Side:
    async def fork() -> None:
        await memory.fork("ana", conversation, at=at)

    return Side(name, fork)


async def _rows_written(memory: Memory, path: Path) -> Figure:
    largest, smallest = f"of {SIZES[-1]}", f"of {SIZES[0]}"
    rows = {}
    for conversation in (largest, smallest):
        before = _count_rows(path)
        await memory.fork("ana", conversation)
        rows[conversation] = _count_rows(path) - before
    return Figure(
        name=f"rows written by a fork of {SIZES[-1]:,} messages, 5 segments and a pin",
        ours=f"{rows[largest]}",
        floor=f"{rows[smallest]} of {SIZES[0]} messages",
        value=rows[largest],
        bound=9,
    )


async def _model_calls(memory: Memory) -> Figure:
    model = ScriptedModel("Hello.")
    agent = Agent("guide", model=model, memory=memory)
    for _ in range(3):
        await agent.send("Hello?", scope="ana")
    before = len(model.calls)
    await agent.fork(scope="ana")
    calls = len(model.calls) - before
    return Figure(name="calls of a model for a fork", ours=str(calls), floor="0", value=calls, bound=0)


async def _reading(memory: Memory) -> list[Figure]:
    source = f"of {SIZES[-1]}"
    new, continued = await memory.fork("ana", source), await memory.fork("ana", source)
    await fill(memory, "ana", continued, WINDOW // 2)
    sides = {"ordinary": source, "new fork": new, "continued fork": continued}

    def reading(name: str, conversation: str) -> Side:
        async def read() -> None:
            # The store itself: no window is kept.
            window = await memory.store.read(Key("", "ana", conversation), limit=WINDOW)
            assert len(window.entries) == WINDOW

        return Side(name, read)

    times = await side_by_side(*(reading(name, conversation) for name, conversation in sides.items()))
    return [
        Figure(
            name=f"last {WINDOW} of a {name} / of an ordinary conversation",
            ours=microseconds(times[name]),
            floor=microseconds(times["ordinary"]),
            value=times[name] / times["ordinary"],
            bound=1.3,
        )
        for name in ("new fork", "continued fork")
    ]


def _count_rows(path: Path) -> int:
    connection = sqlite3.connect(path)
    try:
        return sum(connection.execute(f"SELECT count(*) FROM {table}").fetchone()[0] for table in TABLES)
    finally:
        connection.close()
