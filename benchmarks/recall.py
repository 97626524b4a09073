"""Whether what a question needs is in the context: a sliding window, plain BM25 and recall, side by side.

The corpus is frozen under its digest. Parameters of recall were chosen with the first half of the
questions; both halves are printed. The window and BM25 pay for the messages alone, recall also for the
lines that say when and where each was said.
"""

from __future__ import annotations

import asyncio
import itertools
import json
import sqlite3
from collections.abc import Awaitable, Callable, Iterable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

from autonomy_ctx import Memory
from autonomy_ctx.items.message import Message
from autonomy_ctx.items.search_terms import search_terms
from autonomy_ctx.items.tokens import PER_MESSAGE
from autonomy_ctx.memory.encoding import decode_whole_body
from autonomy_ctx.memory.recall import recall, search_limit
from benchmarks.recall_corpus import Corpus, Question, make
from benchmarks.table import Figure, Side, microseconds, side_by_side

DIGEST = "4110911ce90db02791e2c19694db675da22dc8cd06e00cc2675afeccdf77d954"
BUDGETS = (2_000, 4_000, 8_000)
COST_TOKENS = 1024
# Above this in percentage points, at every budget.
MARGIN = 10
SCOPE, TALK = "ana", "talk"

Shown = Callable[[Question, int], Awaitable[set[str]]]


class Ways:
    """The ways to fill a context; each gives the ids of the messages in it."""

    def __init__(self, memory: Memory, corpus: Corpus) -> None:
        self.memory, self.size = memory, len(corpus.messages)

    async def window(self, question: Question, budget: int) -> set[str]:
        entries = (await self.memory.read(SCOPE, TALK, limit=budget // PER_MESSAGE)).entries
        return self._fitting((entry.message for entry in reversed(entries)), budget)

    async def bm25(self, question: Question, budget: int) -> set[str]:
        found = await self.memory.search(SCOPE, question.text, conversation=TALK, limit=self.size)
        return self._fitting((one.message for one in found), budget)

    async def recall(self, question: Question, budget: int) -> set[str]:
        room = budget - PER_MESSAGE
        found = await recall(self.memory, SCOPE, question.text, conversation=TALK, max_tokens=room)
        assert found.tokens <= room
        return {one.message.id for one in found.passages}

    def _fitting(self, messages: Iterable[Message], budget: int) -> set[str]:
        """The first that fit, up to one that does not."""
        shown: set[str] = set()
        for message in messages:
            budget -= self.memory.token_counter.count_uncalibrated(message)
            if budget < 0:
                break
            shown.add(message.id)
        return shown


class Floor:
    """The texts in an FTS5 table of their own; a query and its messages in one thread."""

    def __init__(self, path: Path, source: Path) -> None:
        self.connection = sqlite3.connect(path, check_same_thread=False)
        self.connection.execute("CREATE VIRTUAL TABLE bare USING fts5 (text, tokenize = 'porter unicode61')")
        self.connection.execute("CREATE TABLE body (id INTEGER PRIMARY KEY, body TEXT)")
        with sqlite3.connect(source) as memory:
            rows = memory.execute("SELECT position, body FROM message ORDER BY position").fetchall()
        memory.close()
        with self.connection:
            forms = [(at, decode_whole_body(body, "m")) for at, body in rows]
            texts = [(at, form["content"]) for at, form in forms]
            self.connection.executemany("INSERT INTO bare (rowid, text) VALUES (?, ?)", texts)
            self.connection.executemany(
                "INSERT INTO body VALUES (?, ?)", [(at, json.dumps(form)) for at, form in forms]
            )
        self.thread = ThreadPoolExecutor(1)

    def find(self, query: str) -> list[Any]:
        match = " OR ".join(f'"{term}"' for term in search_terms(query))
        found = self.connection.execute(
            "SELECT rowid, rank FROM bare WHERE bare MATCH ? ORDER BY rank LIMIT ?",
            (match, search_limit(COST_TOKENS)),
        ).fetchall()
        bodies = "SELECT body FROM body WHERE id = ?"
        return [
            decode_whole_body(self.connection.execute(bodies, (at,)).fetchone()[0], "m") for at, _ in found
        ]

    async def search(self, query: str) -> None:
        assert await asyncio.get_running_loop().run_in_executor(self.thread, self.find, query)

    def close(self) -> None:
        self.thread.shutdown()
        self.connection.close()


async def measure(folder: Path) -> list[Figure]:
    corpus = make()
    assert corpus.digest == DIGEST, "the corpus has changed: no figure can be compared with an older one"
    path = folder / "recall.db"
    memory = Memory(f"sqlite:///{path}")
    for start in range(0, len(corpus.messages), 1000):
        await memory.add_messages(SCOPE, TALK, corpus.messages[start : start + 1000])
    ways = Ways(memory, corpus)
    print(f"\n  {len(corpus.questions)} questions about {len(corpus.messages):,} messages;")
    print("  share with all evidence in the context: tuned half, other half, both")
    shares = {
        name: {budget: await _share(way, name, corpus, budget) for budget in BUDGETS}
        for name, way in (("window", ways.window), ("BM25", ways.bm25), ("recall", ways.recall))
    }
    floor = Floor(folder / "bare.db", path)
    asked = [question.text for question in corpus.questions]
    ours, bare = itertools.cycle(asked), itertools.cycle(asked)
    times = await side_by_side(
        Side(
            "recall",
            lambda: recall(memory, SCOPE, next(ours), conversation=TALK, max_tokens=COST_TOKENS),
        ),
        Side("floor", lambda: floor.search(next(bare))),
    )
    floor.close()
    await memory.close()
    figures = [
        Figure(
            name=f"evidence in {budget:,} tokens, points above plain BM25",
            ours=f"{shares['recall'][budget]:.1f} %",
            floor=f"{shares['BM25'][budget]:.1f} %",
            value=shares["recall"][budget] - shares["BM25"][budget],
            bound=MARGIN,
            at_most=False,
        )
        for budget in BUDGETS
    ]
    figures.append(
        Figure(
            name=f"recall of {COST_TOKENS:,} tokens / bare FTS5 in a thread",
            ours=microseconds(times["recall"]),
            floor=microseconds(times["floor"]),
            value=times["recall"] / times["floor"],
            bound=2,
        )
    )
    return figures


async def _share(way: Shown, name: str, corpus: Corpus, budget: int) -> float:
    """The percentage of questions whose evidence is all there."""
    complete = [set(question.evidence) <= await way(question, budget) for question in corpus.questions]
    halves = [100 * sum(some) / len(some) for some in (complete[::2], complete[1::2], complete)]
    print(f"  {name:<7} {budget:>6,} tokens " + " ".join(f"{half:6.1f} %" for half in halves))
    return halves[-1]
