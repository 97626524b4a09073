"""Cost of a recall from a whole scope, beside a bare full-text query for the same words in the same run.

By default ten conversations with 10,000 messages each; `RECALL_SCALE=100x10000` measures another size. The
databases are kept in the folder that `RECALL_SCALE_FOLDER` names, so that a large one is written once.

- SQLite: CPU of the process and its threads, p95 of 100 questions. The bare query is FTS5 over the same texts
  in a table of its own, which gives the numbers of the best rows by `rank` and reads no message.
- PostgreSQL: time, because its CPU is spent elsewhere. The bare query is an index of `tsvector` over the same
  texts, ordered by `ts_rank`.
- Indexing: CPU of the first recall, which takes all messages into the index, beside that of the appends.
"""

from __future__ import annotations

import itertools
import os
import resource
import sqlite3
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from statistics import quantiles
from typing import Any, NamedTuple

import psycopg

from autonomy_ctx import Memory
from autonomy_ctx.memory.recall import recall
from autonomy_ctx.memory.search_terms import search_terms
from benchmarks.postgres import server_url
from benchmarks.recall_corpus import make
from benchmarks.table import Figure

SIZE_VARIABLE, DEFAULT_SIZE, SMALL_MESSAGES = "RECALL_SCALE", "10x10000", 1_000
FOLDER_VARIABLE = "RECALL_SCALE_FOLDER"
# A size of PostgreSQL's own, because its databases are not kept.
POSTGRES_VARIABLE, POSTGRES_SIZE = "RECALL_SCALE_POSTGRES", "10x1000"
SCOPE, BATCH, QUESTIONS, ROWS = "ana", 1_000, 100, 40
MAX_TIMES_BARE, MAX_TIMES_SMALL, MAX_TIMES_APPEND = 3.0, 1.3, 1.5
_BARE_SQLITE = "CREATE VIRTUAL TABLE bare USING fts5 (text, tokenize = 'porter unicode61')"
_BARE_POSTGRES = """
    CREATE TABLE bare (id bigserial PRIMARY KEY, terms tsvector NOT NULL);
    CREATE INDEX ON bare USING gin (terms)
"""
_SELECT_POSTGRES = """
    SELECT id, ts_rank(terms, q) FROM bare, to_tsquery('english', %s) q
    WHERE terms @@ q ORDER BY 2 DESC LIMIT %s
"""


class Costs(NamedTuple):
    """The p95 of the seconds of a recall and of the bare query, and the CPU of writing."""

    recall: float
    bare: float
    append: float = 0.0
    indexing: float = 0.0


async def measure(folder: Path) -> list[Figure]:
    conversations, messages = _size(SIZE_VARIABLE, DEFAULT_SIZE)
    kept = Path(os.environ.get(FOLDER_VARIABLE, folder))
    small = await _measure_sqlite(kept, conversations, SMALL_MESSAGES)
    large = await _measure_sqlite(kept, conversations, messages)
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss // 1024
    with server_url() as url:
        posted = await _measure_postgres(url, *_size(POSTGRES_VARIABLE, POSTGRES_SIZE))
    print(f"\n  {conversations} conversations with {messages:,} messages each; peak memory {peak:,} MB")
    figures = [
        _figure(
            "CPU of a recall, p95, times that of the bare query", large.recall, large.bare, MAX_TIMES_BARE
        ),
        _figure(
            f"CPU of a recall, p95, times that at {SMALL_MESSAGES:,} messages each",
            large.recall,
            small.recall,
            MAX_TIMES_SMALL,
        ),
        _figure("PostgreSQL: time of a recall, p95", posted.recall, posted.bare, MAX_TIMES_BARE),
    ]
    if large.append:
        figures.append(
            _figure(
                "CPU of indexing, times that of appending", large.indexing, large.append, MAX_TIMES_APPEND
            )
        )
    return figures


def _figure(name: str, ours: float, floor: float, bound: float) -> Figure:
    shown = [f"{seconds * 1e3:,.1f} ms" for seconds in (ours, floor)]
    return Figure(name=name, ours=shown[0], floor=shown[1], value=ours / floor, bound=bound)


def _size(variable: str, default: str) -> tuple[int, int]:
    conversations, messages = map(int, os.environ.get(variable, default).split("x"))
    return conversations, messages


def _batches(conversations: int, messages: int) -> Iterator[tuple[str, list[dict[str, Any]]]]:
    """The messages of each conversation in turn: those of the corpus again and again, each with a number."""
    source = itertools.cycle(make().messages)
    for number in range(conversations):
        for start in range(0, messages, BATCH):
            some: list[dict[str, Any]] = []
            for at in range(start, min(start + BATCH, messages)):
                message = next(source)
                text = f"{message['content']} {number * messages + at}"
                some.append({**message, "id": f"{number}-{at}", "content": text})
            yield f"talk {number}", some


async def _measure_sqlite(folder: Path, conversations: int, messages: int) -> Costs:
    file = folder / f"memory-{conversations}x{messages}.db"
    is_new = not file.exists()
    bare = sqlite3.connect(folder / f"bare-{conversations}x{messages}.db")
    if is_new:
        bare.execute(_BARE_SQLITE)

    def ask_bare(question: str) -> None:
        match = " OR ".join(f'"{term}"' for term in search_terms(question))
        bare.execute(
            "SELECT rowid, rank FROM bare WHERE bare MATCH ? ORDER BY rank LIMIT ?", (match, ROWS)
        ).fetchall()

    async with Memory(f"sqlite:///{file}") as memory:
        append = 0.0
        for name, some in _batches(conversations, messages) if is_new else ():
            append -= time.process_time()
            await memory.add_messages(SCOPE, name, some)
            append += time.process_time()
            with bare:
                bare.executemany("INSERT INTO bare (text) VALUES (?)", [(one["content"],) for one in some])
        costs = await _ask(memory, ask_bare, time.process_time)
    bare.close()
    return costs._replace(append=append)


async def _measure_postgres(url: str, conversations: int, messages: int) -> Costs:
    with psycopg.connect(url, autocommit=True) as bare:
        bare.execute(_BARE_POSTGRES)

        def ask_bare(question: str) -> None:
            match = " | ".join(term for term in search_terms(question) if term.isalnum())
            bare.execute(_SELECT_POSTGRES, (match, ROWS)).fetchall()

        async with Memory(url) as memory:
            for name, some in _batches(conversations, messages):
                await memory.add_messages(SCOPE, name, some)
                with bare.cursor() as cursor:
                    insert = "INSERT INTO bare (terms) VALUES (to_tsvector('english', %s))"
                    cursor.executemany(insert, [(one["content"],) for one in some])
            bare.execute("VACUUM ANALYZE bare")
            return await _ask(memory, ask_bare, time.perf_counter)


async def _ask(memory: Memory, ask_bare: Callable[[str], None], clock: Callable[[], float]) -> Costs:
    """Ask each question both ways in turn."""
    asked = [question.text for question in make().questions[:QUESTIONS]]
    began = clock()
    # The first takes into the index what is missing there.
    await recall(memory, SCOPE, asked[0])
    indexing = clock() - began
    ours, floor = [], []
    for question in asked:
        began = clock()
        await recall(memory, SCOPE, question)
        between = clock()
        ask_bare(question)
        floor.append(clock() - between)
        ours.append(between - began)
    return Costs(quantiles(ours, n=20)[-1], quantiles(floor, n=20)[-1], indexing=indexing)
