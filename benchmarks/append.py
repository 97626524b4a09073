"""The cost of a durable append, compared with the same SQL in one thread, a bare insert, and in a group.

The bare insert is one row of the same text in a table of its own, committed by the caller itself: no thread,
no lock between processes, no index of ids, no head, nothing counted.
"""

from __future__ import annotations

import asyncio
import sqlite3
import time
from concurrent.futures import ThreadPoolExecutor
from datetime import datetime
from pathlib import Path
from statistics import median

import anyio

from autonomy_ctx import Memory
from autonomy_ctx.memory import encoding
from autonomy_ctx.memory.encoding import to_microseconds
from autonomy_ctx.memory.sqlite.connection import FileLock
from autonomy_ctx.memory.store import Draft
from autonomy_ctx.messages.tokens import TokenCounter
from benchmarks.corpus import fill, spoken
from benchmarks.table import Figure, Side, microseconds, side_by_side

TASKS, EACH = 32, 60
LONG = 100_000


class Floor:
    """The same rows and the same commit through one worker thread with the file lock."""

    def __init__(self, path: Path) -> None:
        self.connection = sqlite3.connect(path, isolation_level=None, check_same_thread=False)
        self.connection.execute("PRAGMA synchronous = FULL")
        self.connection.execute("PRAGMA wal_autocheckpoint = 0")
        self.lock = FileLock(f"{path}.lock")
        self.thread = ThreadPoolExecutor(1)
        self.counter = TokenCounter()
        made = self.connection.execute(
            "INSERT INTO conversation (agent, scope, conversation) VALUES ('', 'f', 'f')"
        )
        self.conversation_id, self.head = made.lastrowid, 0

    def row(self, draft: Draft) -> tuple[object, ...]:
        self.head += 1
        message = draft.message
        return (
            self.conversation_id,
            self.head,
            message.id,
            to_microseconds(message.created_at),
            message.role == "user",
            draft.tokens,
            draft.counter,
            draft.size,
            draft.body,
        )

    def draft(self, number: int) -> Draft:
        message = encoding.coerce_message(spoken(number), new_id=lambda: f"f{self.head + 1}", now=wall)
        return encoding.make_draft(message, self.counter)

    def insert(self, row: tuple[object, ...]) -> None:
        with self.lock:
            execute = self.connection.execute
            execute("BEGIN IMMEDIATE")
            execute("INSERT INTO message VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?)", row)
            execute(
                "UPDATE conversation SET head = ?, count = ? WHERE id = ?",
                (self.head, self.head, self.conversation_id),
            )
            execute("COMMIT")

    async def append(self) -> None:
        row = self.row(self.draft(self.head))
        await asyncio.get_running_loop().run_in_executor(self.thread, self.insert, row)

    def many(self, count: int) -> float:
        """Messages per second of one `executemany` in one transaction."""
        table = [self.row(self.draft(number)) for number in range(count)]
        started = time.perf_counter()
        with self.lock:
            self.connection.execute("BEGIN IMMEDIATE")
            self.connection.executemany("INSERT INTO message VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?)", table)
            self.connection.execute("COMMIT")
        return count / (time.perf_counter() - started)

    def close(self) -> None:
        self.thread.shutdown()
        self.connection.close()
        self.lock.close()


class BareInsert:
    """One row and its commit, synced as ours is, in the caller's thread."""

    def __init__(self, path: Path) -> None:
        self.connection = sqlite3.connect(path, isolation_level=None)
        self.connection.execute("PRAGMA journal_mode = WAL")
        self.connection.execute("PRAGMA synchronous = FULL")
        self.connection.execute("CREATE TABLE message (position INTEGER PRIMARY KEY, body TEXT)")
        self._text = spoken(1)["content"]["text"]

    async def insert(self) -> None:
        self.connection.execute("INSERT INTO message (body) VALUES (?)", (self._text,))


def wall() -> datetime:
    return encoding.from_microseconds(time.time_ns() // 1000)


async def measure(folder: Path) -> list[Figure]:
    path = folder / "append.db"
    memory = Memory(f"sqlite:///{path}")
    await fill(memory, "ana", "short", 10)
    await fill(memory, "ana", "long", LONG)
    floor, bare = Floor(path), BareInsert(folder / "bare.db")

    async def append_at_once() -> None:
        await asyncio.gather(
            *[memory.add_message("ana", f"together-{task}", spoken(task)) for task in range(TASKS)]
        )

    times = await side_by_side(
        Side("short", lambda: memory.add_message("ana", "short", spoken(1))),
        Side("long", lambda: memory.add_message("ana", "long", spoken(1))),
        Side("floor", floor.append),
        Side("bare", bare.insert),
        rounds=800,
    )
    times |= await side_by_side(
        Side("at once", append_at_once), Side("one bare", bare.insert), rounds=150, warm=10
    )

    async def speak(task: int) -> None:
        for number in range(EACH):
            await memory.add_message("ana", "group", spoken(number))

    alone_rates, together_rates = [], []
    for _ in range(7):
        started = time.perf_counter()
        for number in range(EACH * 4):
            await memory.add_message("ana", "one", spoken(number))
        alone_rates.append(EACH * 4 / (time.perf_counter() - started))
        started = time.perf_counter()
        async with anyio.create_task_group() as group:
            for task in range(TASKS):
                group.start_soon(speak, task)
        together_rates.append(TASKS * EACH / (time.perf_counter() - started))
    alone, together, bulk = median(alone_rates), median(together_rates), floor.many(5000)
    floor.close()
    bare.connection.close()
    await memory.close()
    wanted = min(5 * alone, bulk / 2)
    return [
        Figure(
            name="append, durable, one after another / same through one thread",
            ours=microseconds(times["short"]),
            floor=microseconds(times["floor"]),
            value=times["short"] / times["floor"],
            bound=1.5,
        ),
        Figure(
            name="append, durable / bare insert and commit",
            ours=microseconds(times["short"]),
            floor=microseconds(times["bare"]),
            value=times["short"] / times["bare"],
            bound=1.7,
        ),
        Figure(
            name=f"{TASKS} appends at once, {TASKS} conversations: each / one bare commit",
            ours=microseconds(times["at once"] / TASKS),
            floor=microseconds(times["one bare"]),
            value=times["at once"] / TASKS / times["one bare"],
            bound=0.35,
        ),
        Figure(
            name="append at 100,000 messages / at 10",
            ours=microseconds(times["long"]),
            floor=microseconds(times["short"]),
            value=times["long"] / times["short"],
            bound=1.2,
        ),
        Figure(
            name="append, 32 tasks / min(5 x one task, half of executemany)",
            ours=f"{together:,.0f}/s",
            floor=f"min(5 x {alone:,.0f}/s, {bulk:,.0f}/s / 2)",
            value=together / wanted,
            bound=1.0,
            at_most=False,
        ),
    ]
