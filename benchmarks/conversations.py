"""Many conversations in one process: memory of idle ones, open files, and composes per second.

On SQLite beside bare sqlite3; in process beside lists of dicts with strings of their own.
"""

from __future__ import annotations

import gc
import json
import os
import sqlite3
import time
import tracemalloc
from pathlib import Path
from random import Random
from typing import Any

from autonomy_ctx import ContextTemplate, ConversationHistorySection, Memory
from autonomy_ctx.memory.in_process import InProcessStore
from autonomy_ctx.messages import wire
from benchmarks.corpus import copy_as_dicts, fill_many, spoken
from benchmarks.table import Figure
from benchmarks.talk import said

CONVERSATIONS, MESSAGES, WINDOW = 10_000, 50, 20
# Conversations whose memory in process is measured: each takes as much as any other.
WEIGHED = 200


async def measure(folder: Path) -> list[Figure]:
    return [*await on_disk(folder), await weigh(), await in_process()]


async def on_disk(folder: Path) -> list[Figure]:
    path = folder / "many.db"
    memory = Memory(f"sqlite:///{path}")
    await memory.health_check()
    fill_many(path, CONVERSATIONS, MESSAGES)
    template = ContextTemplate([ConversationHistorySection(max_messages=WINDOW)])
    await template.compose(memory, "many", "c0")
    files_before = _open_files()
    gc.collect()
    tracemalloc.start()
    held = tracemalloc.get_traced_memory()[0]
    for number in range(CONVERSATIONS):
        await template.compose(memory, "many", f"c{number}")
    gc.collect()
    held = tracemalloc.get_traced_memory()[0] - held
    tracemalloc.stop()
    files = _open_files() - files_before

    order = list(range(CONVERSATIONS))
    Random(7).shuffle(order)
    bare = copy_as_dicts(path, folder / "dicts.db")
    ours = floor = 0.0
    for start in range(0, 4000, 200):
        chosen = order[start : start + 200]
        began = time.perf_counter()
        for number in chosen:
            await template.compose(memory, "many", f"c{number}")
        ours += time.perf_counter() - began
        began = time.perf_counter()
        for number in chosen:
            _bare_compose(bare, f"c{number}")
        floor += time.perf_counter() - began
    bare.close()
    await memory.close()
    return [
        Figure(
            name="10,000 idle conversations: bytes held for each",
            ours=f"{held / 1e6:.1f} MB in all",
            floor="1 KB each",
            value=held / CONVERSATIONS,
            bound=1024,
        ),
        Figure(
            name="files opened for 10,000 conversations beyond those for one",
            ours=str(files),
            floor="0",
            value=files,
            bound=0,
        ),
        Figure(
            name="composes/s over 10,000 conversations / bare sqlite3 loop",
            ours=f"{4000 / ours:,.0f}/s",
            floor=f"{4000 / floor:,.0f}/s",
            value=floor / ours,
            bound=0.65,
            at_most=False,
        ),
        Figure(
            name="composes/s over 10,000 conversations on SQLite, in thousands",
            ours=f"{4000 / ours:,.0f}/s",
            floor=f"{4000 / floor:,.0f}/s with bare sqlite3",
            value=4 / ours,
            bound=5,
            at_most=False,
        ),
    ]


async def weigh() -> Figure:
    """What a conversation takes that is kept in process alone, beside its dicts."""
    memory, lists = Memory(), []
    await memory.add_messages("many", "first", [spoken(0)])
    gc.collect()
    tracemalloc.start()
    before = tracemalloc.get_traced_memory()[0]
    for number in range(WEIGHED):
        await memory.add_messages("many", f"c{number}", _talk())
    gc.collect()
    ours = tracemalloc.get_traced_memory()[0] - before + await _database_bytes(memory)
    before = tracemalloc.get_traced_memory()[0]
    for _ in range(WEIGHED):
        lists.append(_talk())
    gc.collect()
    floor = tracemalloc.get_traced_memory()[0] - before
    tracemalloc.stop()
    await memory.close()
    return Figure(
        name=f"a conversation of {MESSAGES} in process: bytes / {MESSAGES} dicts",
        ours=f"{ours / WEIGHED / 1000:.1f} KB",
        floor=f"{floor / WEIGHED / 1000:.1f} KB",
        value=ours / floor,
        bound=1.2,
    )


async def _database_bytes(memory: Memory) -> int:
    """The size of the database of a memory in process, which is not among the objects of Python."""
    store = memory.store
    assert isinstance(store, InProcessStore)
    return await store.run_read(
        lambda connection: int(
            connection.execute("PRAGMA page_count").fetchone()[0]
            * connection.execute("PRAGMA page_size").fetchone()[0]
        )
    )


async def in_process() -> Figure:
    """Composes per second where nothing is on disk, beside the ends of lists."""
    memory, lists = Memory(), {}
    for number in range(CONVERSATIONS):
        talk = [spoken(n) for n in range(MESSAGES)]
        await memory.add_messages("many", f"c{number}", talk)
        lists["many", f"c{number}"] = talk
    template = ContextTemplate([ConversationHistorySection(max_messages=WINDOW)])
    order = list(range(CONVERSATIONS))
    Random(7).shuffle(order)
    ours = floor = 0.0
    for start in range(0, CONVERSATIONS, 200):
        chosen = order[start : start + 200]
        began = time.perf_counter()
        for number in chosen:
            await template.compose(memory, "many", f"c{number}")
        ours += time.perf_counter() - began
        began = time.perf_counter()
        for number in chosen:
            list(lists["many", f"c{number}"][-WINDOW:])
        floor += time.perf_counter() - began
    await memory.close()
    return Figure(
        name="composes/s over 10,000 conversations in process, in thousands",
        ours=f"{CONVERSATIONS / ours:,.0f}/s",
        floor=f"{CONVERSATIONS / floor:,.0f}/s from lists",
        value=CONVERSATIONS / ours / 1000,
        bound=30,
        at_most=False,
    )


def _talk() -> list[dict[str, Any]]:
    """A conversation with strings of its own, about 300 characters a message."""
    return [
        {"role": "assistant" if number % 2 else "user", "content": said(number, 75)}
        for number in range(MESSAGES)
    ]


def _bare_compose(bare: sqlite3.Connection, conversation: str) -> None:
    found = bare.execute(
        """
        SELECT m.id, m.body FROM conversation c JOIN message m ON m.conversation_id = c.id
        WHERE c.agent = '' AND c.scope = 'many' AND c.conversation = ? ORDER BY m.position DESC LIMIT ?
        """,
        (conversation, WINDOW),
    ).fetchall()
    for message_id, body in reversed(found):
        form = json.loads(body)
        form["id"] = message_id
        wire.from_dict(form)


def _open_files() -> int:
    return len(os.listdir("/proc/self/fd")) if os.path.isdir("/proc/self/fd") else 0
