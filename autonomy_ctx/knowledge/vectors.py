"""Vectors in this process: every one is compared, which is exact, and fast enough for thousands.

With numpy installed the comparison is one multiplication; without it, the same numbers in plain Python.
"""

from __future__ import annotations

import math
import threading
from array import array
from collections.abc import Callable, Mapping, Sequence
from heapq import nlargest
from importlib import import_module, util
from operator import mul
from typing import Any, TypeAlias

import anyio.to_thread

from autonomy_ctx.errors import InvalidVectors
from autonomy_ctx.knowledge.knowledge import checked_limit
from autonomy_ctx.knowledge.vector import Hit

# (all vectors one after the other, one vector) -> the product with each.
Products: TypeAlias = Callable[["array[float]", "array[float]"], Sequence[float]]


def plain_products(vectors: array[float], one: array[float]) -> Sequence[float]:
    """In plain Python."""
    size = len(one)
    return [sum(map(mul, one, vectors[at : at + size])) for at in range(0, len(vectors), size)]


def numpy_products(vectors: array[float], one: array[float]) -> Sequence[float]:
    """With numpy."""
    numpy: Any = import_module("numpy")
    matrix = numpy.frombuffer(vectors, dtype=numpy.float32).reshape(-1, len(one))
    products: list[float] = (matrix @ numpy.frombuffer(one, dtype=numpy.float32)).tolist()
    return products


class VectorsInProcess:
    """A vector store that lasts as long as the process; the score is the cosine, from -1 to 1."""

    def __init__(self, *, products: Products | None = None) -> None:
        self._products = products
        self._lock = threading.Lock()
        self._rows: dict[str, int] = {}
        self._payloads: list[tuple[str, Mapping[str, Any]]] = []
        self._vectors = array("f")
        self._size: int | None = None

    def __len__(self) -> int:
        return len(self._payloads)

    async def add(
        self, ids: Sequence[str], vectors: Sequence[Sequence[float]], payloads: Sequence[Mapping[str, Any]]
    ) -> None:
        """Keep vectors; an id that is known is replaced."""
        if not len(ids) == len(vectors) == len(payloads):
            raise ValueError(
                f"add takes as many ids as vectors and payloads, "
                f"not {len(ids)}, {len(vectors)} and {len(payloads)}"
            )
        await anyio.to_thread.run_sync(self._add, list(ids), list(vectors), list(payloads))

    async def search(self, vector: Sequence[float], limit: int) -> list[Hit]:
        """The nearest, best first; of equals the older first."""
        checked_limit("limit", limit)
        return await anyio.to_thread.run_sync(self._search, vector, limit, abandon_on_cancel=True)

    async def remove(self, source: str) -> int:
        """Drop the vectors whose payload has this source; how many there were."""
        return await anyio.to_thread.run_sync(self._remove, source)

    def __repr__(self) -> str:
        return f"VectorsInProcess({len(self)} vectors)"

    def _add(self, ids: list[str], vectors: list[Sequence[float]], payloads: list[Mapping[str, Any]]) -> None:
        units = [_unit(vector) for vector in vectors]
        with self._lock:
            for unit in units:
                self._check(len(unit), self._size or len(units[0]))
            for name, unit, payload in zip(ids, units, payloads, strict=True):
                size = self._size = len(unit)
                row = self._rows.setdefault(name, len(self._payloads))
                if row == len(self._payloads):
                    self._payloads.append((name, dict(payload)))
                    self._vectors.extend(unit)
                else:
                    self._payloads[row] = (name, dict(payload))
                    self._vectors[row * size : (row + 1) * size] = unit

    def _search(self, vector: Sequence[float], limit: int) -> list[Hit]:
        unit = _unit(vector)
        with self._lock:
            if not self._payloads:
                return []
            self._check(len(unit), self._size or 0)
            scores = (self._products or _best_products())(self._vectors, unit)
            best = nlargest(limit, range(len(scores)), key=lambda row: (scores[row], -row))
            return [
                Hit(id=self._payloads[row][0], score=float(scores[row]), payload=self._payloads[row][1])
                for row in best
            ]

    def _remove(self, source: str) -> int:
        with self._lock:
            size = self._size or 0
            kept = [row for row, (_, payload) in enumerate(self._payloads) if payload.get("source") != source]
            gone = len(self._payloads) - len(kept)
            if gone:
                vectors = array("f")
                for row in kept:
                    vectors.extend(self._vectors[row * size : (row + 1) * size])
                self._vectors, self._payloads = vectors, [self._payloads[row] for row in kept]
                self._rows = {name: row for row, (name, _) in enumerate(self._payloads)}
                self._size = self._size if kept else None
            return gone

    def _check(self, size: int, wanted: int) -> None:
        if size != wanted or size == 0:
            raise InvalidVectors(f"gave a vector of {size} numbers where the others have {wanted}")


def _unit(vector: Sequence[float]) -> array[float]:
    """The vector with length 1, so that a product is a cosine; one without a direction stays 0."""
    try:
        length = math.hypot(*vector)
        if not math.isfinite(length):
            raise InvalidVectors("gave numbers that are not finite")
        return array("f", (number / (length or 1.0) for number in vector))
    except TypeError:
        raise InvalidVectors("gave a vector that is no list of numbers") from None


def _best_products() -> Products:
    return numpy_products if util.find_spec("numpy") is not None else plain_products
