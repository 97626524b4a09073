"""The cost of recall by meaning: an append with an embedder, and a search beside bare numpy.

The embedder is a table of random vectors by word, so that almost nothing of what is measured is its own.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from functools import partial
from pathlib import Path
from zlib import crc32

import anyio.to_thread
import numpy as np

from autonomy_ctx import Memory
from autonomy_ctx.memory.vector_matrix import pack_vectors
from benchmarks.corpus import fill, spoken
from benchmarks.table import Figure, Side, microseconds, side_by_side

SIZES = (700, 10_000, 100_000)
DIMENSIONS, WORDS, LIMIT = 256, 4096, 10
QUERY = "the aquarium of Setubal"
TABLE = np.random.default_rng(7).standard_normal((WORDS, DIMENSIONS), dtype=np.float32)


def embed(texts: Sequence[str]) -> list[np.ndarray[tuple[int], np.dtype[np.float32]]]:
    """The sum of the vectors of the words of each text."""
    return [TABLE[[crc32(word.encode()) % WORDS for word in text.split()]].sum(axis=0) for text in texts]


class Floor:
    """So many vectors in one array: the product with one, and the ten largest, in a thread."""

    def __init__(self, count: int) -> None:
        random = np.random.default_rng(count)
        vectors = random.standard_normal((count, DIMENSIONS), dtype=np.float32)
        self.vectors = vectors / np.linalg.norm(vectors, axis=1, keepdims=True)
        self.query = self.vectors[0]

    def find(self) -> int:
        scores = self.vectors @ self.query
        best = np.argpartition(scores, -LIMIT)[-LIMIT:]
        return int(best[np.argsort(-scores[best])][0])

    async def search(self) -> None:
        assert await anyio.to_thread.run_sync(self.find) == 0


async def measure(folder: Path) -> list[Figure]:
    return [*await _measure_append(folder), *await _measure_search(folder)]


async def _measure_append(folder: Path) -> list[Figure]:
    plain = Memory(f"sqlite:///{folder}/plain.db")
    embedded = Memory(f"sqlite:///{folder}/embedded.db", embedder=embed)
    numbers = iter(range(10**9))

    async def append(memory: Memory) -> None:
        await memory.append("ana", "talk", spoken(next(numbers)))

    times = await side_by_side(
        Side("plain", partial(append, plain)), Side("embedded", partial(append, embedded)), rounds=2000
    )
    await embedded.close()
    await plain.close()
    return [
        Figure(
            name="append with an embedder / without",
            ours=microseconds(times["embedded"]),
            floor=microseconds(times["plain"]),
            value=times["embedded"] / times["plain"],
            bound=1.1,
        )
    ]


async def _measure_search(folder: Path) -> list[Figure]:
    figures: list[Figure] = []
    [vector] = pack_vectors(embed([QUERY]), 1)
    for size in SIZES:
        memory = Memory(f"sqlite:///{folder}/{size}.db", embedder=embed, embedder_timeout=30)
        words = Memory(f"sqlite:///{folder}/{size}.db")
        await fill(words, "ana", "talk", size)
        began = time.perf_counter()
        await memory.embed_messages("ana")
        filled = time.perf_counter() - began
        began = time.perf_counter()
        await memory.search("ana", QUERY)
        first = time.perf_counter() - began
        store, floor = memory.store, Floor(size)
        nearest = partial(store.nearest, "", "ana", vector, embedder=1, limit=LIMIT)
        times = await side_by_side(
            Side("ours", nearest),
            Side("floor", floor.search),
            Side("both", partial(memory.search, "ana", QUERY)),
            Side("words", partial(words.search, "ana", QUERY)),
            rounds=100,
        )
        await memory.close()
        await words.close()
        print(f"\n  {size:,} messages: embedded {size / filled:,.0f} a second")
        print(f"  first search, which also indexes the words: {first * 1e3:,.0f} ms")
        print(f"  search by both {microseconds(times['both'])}, by words {microseconds(times['words'])}")
        figures.append(
            Figure(
                name=f"the nearest of {size:,} messages, read / bare numpy",
                ours=microseconds(times["ours"]),
                floor=microseconds(times["floor"]),
                value=times["ours"] / times["floor"],
                bound=8 if size < 1000 else 3,
            )
        )
    return figures
