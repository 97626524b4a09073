"""The cost of a search: in a long and a short scope, beside bare FTS5, and with other data in the file.

Appending is not measured here: nothing of the index is touched when a message is appended, because a
search brings it up to date first. `append` shows that; what a first search catches up is printed.
"""

from __future__ import annotations

import asyncio
import json
import sqlite3
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

from autonomy_ctx import Memory
from autonomy_ctx.memory.encoding import decode_whole_body
from autonomy_ctx.memory.search_terms import search_terms
from benchmarks.corpus import spoken
from benchmarks.table import Figure, Side, microseconds, side_by_side

LONG, SHORT, OTHERS, EACH = 100_000, 1_000, 20, 5_000
HITS, LIMIT = 40, 10
QUERY = "the aquarium of Setubal"


class Floor:
    """The texts of a scope in an FTS5 table of their own; a query and its ten messages in one thread."""

    def __init__(self, path: Path, source: Path, scope: str) -> None:
        self.connection = sqlite3.connect(path, check_same_thread=False)
        self.connection.execute("CREATE VIRTUAL TABLE bare USING fts5 (text, tokenize = 'porter unicode61')")
        self.connection.execute("CREATE TABLE body (id INTEGER PRIMARY KEY, body TEXT)")
        with sqlite3.connect(source) as memory:
            rows = memory.execute(
                "SELECT position, body FROM message WHERE conversation_id = "
                "(SELECT id FROM conversation WHERE scope = ?) ORDER BY position",
                (scope,),
            ).fetchall()
        memory.close()
        forms = [(at, decode_whole_body(body, "m")) for at, body in rows]
        texts = [(at, form["content"]["text"]) for at, form in forms]
        with self.connection:
            self.connection.executemany("INSERT INTO bare (rowid, text) VALUES (?, ?)", texts)
            self.connection.executemany(
                "INSERT INTO body VALUES (?, ?)", [(at, json.dumps(form)) for at, form in forms]
            )
        self.match = " OR ".join(f'"{term}"' for term in search_terms(QUERY))
        self.thread = ThreadPoolExecutor(1)

    def find(self) -> list[Any]:
        found = self.connection.execute(
            "SELECT rowid, rank FROM bare WHERE bare MATCH ? ORDER BY rank LIMIT ?", (self.match, LIMIT)
        ).fetchall()
        bodies = "SELECT body FROM body WHERE id = ?"
        return [
            decode_whole_body(self.connection.execute(bodies, (at,)).fetchone()[0], "m") for at, _ in found
        ]

    async def search(self) -> None:
        assert len(await asyncio.get_running_loop().run_in_executor(self.thread, self.find)) == LIMIT

    def close(self) -> None:
        self.thread.shutdown()
        self.connection.close()


async def measure(folder: Path) -> list[Figure]:
    path = folder / "search.db"
    memory = Memory(f"sqlite:///{path}")
    for scope, count in (("short", SHORT), ("long", LONG)):
        await _fill(memory, scope, count)
        started = time.perf_counter()
        await _search(memory, scope)
        caught_up = time.perf_counter() - started
    floor = Floor(folder / "bare.db", path, "long")
    times = await side_by_side(
        Side("short", lambda: _search(memory, "short")),
        Side("long", lambda: _search(memory, "long")),
        Side("floor", floor.search),
    )
    floor.close()
    for number in range(OTHERS):
        await _fill(memory, f"other {number}", EACH)
        await _search(memory, f"other {number}")
    lone = Memory(f"sqlite:///{folder}/lone.db")
    await _fill(lone, "long", LONG)
    await _search(lone, "long")
    both = await side_by_side(
        Side("alone", lambda: _search(lone, "long")), Side("crowded", lambda: _search(memory, "long"))
    )
    [newest] = (await memory.read("long", "talk", limit=1)).entries
    started = time.perf_counter()
    await memory.delete_message("long", "talk", newest.message.id)
    purged = time.perf_counter() - started
    await lone.close()
    await memory.close()
    print(f"\n  first search of {LONG:,} messages: {caught_up:.1f} s, {LONG / caught_up:,.0f} messages/s")
    print(f"  deletion of one message, {LONG + SHORT + OTHERS * EACH:,} in the index: {purged * 1e3:,.0f} ms")
    return [
        Figure(
            name=f"search, {HITS} hits in 100,000 messages / in 1,000",
            ours=microseconds(times["long"]),
            floor=microseconds(times["short"]),
            value=times["long"] / times["short"],
            bound=3,
        ),
        Figure(
            name="search in 100,000 messages / bare FTS5 in a thread",
            ours=microseconds(times["long"]),
            floor=microseconds(times["floor"]),
            value=times["long"] / times["floor"],
            bound=2,
        ),
        Figure(
            name=f"search beside {OTHERS} scopes with the same words / alone in the file",
            ours=microseconds(both["crowded"]),
            floor=microseconds(both["alone"]),
            value=both["crowded"] / both["alone"],
            bound=2,
        ),
    ]


async def _fill(memory: Memory, scope: str, count: int) -> None:
    """Plain talk in which the same number of messages, far apart, are about the subject."""
    for start in range(0, count, 1000):
        talk = [spoken(number) for number in range(start, start + 1000)]
        for number in range(start, start + 1000):
            if number % (count // HITS) == 0:
                talk[number - start]["content"]["text"] += " We also want to see the aquarium of Setubal."
        await memory.add_messages(scope, "talk", talk)


async def _search(memory: Memory, scope: str) -> None:
    assert len(await memory.search(scope, QUERY, limit=LIMIT)) == LIMIT
