"""`VectorKnowledgeBase`: documents found by meaning, with any embedder and any vector store.

`VectorsInProcess` is a vector store in this process that compares by cosine, with numpy where it is
installed.
"""

from __future__ import annotations

import math
import os
import threading
from array import array
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from heapq import nlargest
from importlib import import_module, util
from operator import mul
from typing import Any, Protocol, TypeAlias

import anyio
import anyio.to_thread

from autonomy_ctx.embedders import EmbedderLike, as_embedder, checked_vectors
from autonomy_ctx.errors import InvalidVectors, KnowledgeError
from autonomy_ctx.formats.outgoing import replace_surrogates
from autonomy_ctx.knowledge.documents import Document, DocumentKnowledge, chunks, read_folder
from autonomy_ctx.knowledge.knowledge import KnowledgeResult, Passage, read_passages
from autonomy_ctx.validation import check_int

# A store that takes longer to replace a document has failed.
STORE_TIMEOUT_SECONDS = 30.0


@dataclass(frozen=True, slots=True, kw_only=True)
class VectorHit:
    """A search result: an id, its payload and a score. A higher score is nearer."""

    id: str
    score: float
    payload: Mapping[str, Any]


class VectorStore(Protocol):
    """Keeps vectors and finds the nearest.

    With an additional `async remove(source)`, which removes all vectors whose payload has this source,
    documents can be removed and fully replaced.
    """

    async def add(
        self, ids: Sequence[str], vectors: Sequence[Sequence[float]], payloads: Sequence[Mapping[str, Any]]
    ) -> None:
        """Keep vectors; an id that is known is replaced."""

    async def search(self, vector: Sequence[float], limit: int) -> Sequence[VectorHit]:
        """The nearest vectors, best first."""


class VectorKnowledgeBase(DocumentKnowledge):
    """Documents that are found by meaning. Adding a known `source` replaces the old document."""

    def __init__(self, embedding_provider: EmbedderLike, vector_store: VectorStore) -> None:
        self.embedding_provider, self.vector_store = as_embedder(embedding_provider), vector_store
        for method in ("add", "search"):
            if not callable(getattr(vector_store, method, None)):
                raise TypeError(f"{type(vector_store).__name__} is not a vector store: it needs `{method}`")

    async def add_folder(self, path: str | os.PathLike[str], pattern: str = "**/*.md") -> list[str]:
        """Add the files of a folder, and return their sources.

        Use `remove` for files that no longer exist.
        """
        documents = await anyio.to_thread.run_sync(read_folder, path, pattern)
        await self._put(documents)
        return [one.source for one in documents]

    async def remove(self, source: str) -> None:
        """Remove the document with this source."""
        remove = getattr(self.vector_store, "remove", None)
        if not callable(remove):
            name = type(self.vector_store).__name__
            raise KnowledgeError(
                name, "cannot remove documents; give the vector store an `async remove(source)`"
            )
        await remove(source)

    async def search(self, query: str, limit: int = 5) -> list[Passage]:
        """The passages nearest in meaning to the query, best first."""
        if not isinstance(query, str):
            raise TypeError(f"a query is text, not {type(query).__name__}")
        check_int("limit", limit)
        if not query.strip():
            return []
        [vector] = await self._embed([query])
        found = _read_store_hits(await self.vector_store.search(vector, limit), limit)
        if found.problem is not None and not found.passages:
            raise KnowledgeError(type(self.vector_store).__name__, f"returned no valid hits: {found.problem}")
        return list(found.passages)

    def __repr__(self) -> str:
        return f"VectorKnowledgeBase({self.embedding_provider!r}, {self.vector_store!r})"

    async def _put(self, documents: Sequence[Document]) -> None:
        """One document after the other: embedded first, so that one that fails leaves the old one."""
        for one in documents:
            texts = await anyio.to_thread.run_sync(partial(chunks, one.text))
            named = [f"{one.title}\n{text}" if one.title else text for text in texts]
            vectors = await self._embed(named) if named else []
            # Not interrupted between both steps: the document is replaced, or the old one stays.
            with anyio.fail_after(STORE_TIMEOUT_SECONDS, shield=True):
                await self._replace(one, texts, vectors)

    async def _replace(self, one: Document, texts: list[str], vectors: list[list[float]]) -> None:
        add, ids = self.vector_store.add, [f"{one.source}#{number}" for number in range(1, len(texts) + 1)]
        payloads = [{"text": text, "source": one.source, "title": one.title} for text in texts]
        if callable(getattr(self.vector_store, "remove", None)):
            # A store that refuses these vectors, such as those of another model, says so while the old
            # document is there.
            if vectors:
                await add(ids[:1], vectors[:1], payloads[:1])
            await self.remove(one.source)
        if vectors:
            await add(ids, vectors, payloads)

    async def _embed(self, texts: list[str]) -> list[list[float]]:
        vectors = await self.embedding_provider.embed([replace_surrogates(text) for text in texts])
        return await anyio.to_thread.run_sync(checked_vectors, vectors, len(texts), abandon_on_cancel=True)


def _read_store_hits(found: Any, limit: int) -> KnowledgeResult:
    """Read the hits of any store: `VectorHit`, or dicts with a payload or with the payload's fields."""
    if not isinstance(found, list | tuple):
        return read_passages(found, limit)
    return read_passages([_hit_fields(hit) for hit in found], limit)


def _hit_fields(hit: Any) -> Any:
    if isinstance(hit, VectorHit):
        return {**hit.payload, "score": hit.score, "id": hit.id}
    payload = hit.get("payload") if isinstance(hit, Mapping) else None
    return {**payload, **hit} if isinstance(payload, Mapping) else hit


# (all vectors one after the other, one vector) -> the product with each.
DotProducts: TypeAlias = Callable[["array[float]", "array[float]"], Sequence[float]]


def python_dot_products(vectors: array[float], one: array[float]) -> Sequence[float]:
    """In plain Python."""
    size = len(one)
    return [sum(map(mul, one, vectors[at : at + size])) for at in range(0, len(vectors), size)]


def numpy_dot_products(vectors: array[float], one: array[float]) -> Sequence[float]:
    """With numpy."""
    numpy: Any = import_module("numpy")
    matrix = numpy.frombuffer(vectors, dtype=numpy.float32).reshape(-1, len(one))
    products: list[float] = (matrix @ numpy.frombuffer(one, dtype=numpy.float32)).tolist()
    return products


class InProcessVectorStore:
    """A vector store in the memory of the process; the score is the cosine, from -1 to 1."""

    def __init__(self, *, products: DotProducts | None = None) -> None:
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
                f"add needs one vector and one payload for each id, "
                f"not {len(ids)}, {len(vectors)} and {len(payloads)}"
            )
        await anyio.to_thread.run_sync(self._add, list(ids), list(vectors), list(payloads))

    async def search(self, vector: Sequence[float], limit: int) -> list[VectorHit]:
        """The nearest vectors, best first; of equal ones the older first."""
        check_int("limit", limit)
        return await anyio.to_thread.run_sync(self._search, vector, limit, abandon_on_cancel=True)

    async def remove(self, source: str) -> int:
        """Remove the vectors whose payload has this source, and return their number."""
        return await anyio.to_thread.run_sync(self._remove, source)

    def __repr__(self) -> str:
        return f"InProcessVectorStore({len(self)} vectors)"

    def _add(self, ids: list[str], vectors: list[Sequence[float]], payloads: list[Mapping[str, Any]]) -> None:
        units = [_normalize(vector) for vector in vectors]
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

    def _search(self, vector: Sequence[float], limit: int) -> list[VectorHit]:
        unit = _normalize(vector)
        with self._lock:
            if not self._payloads:
                return []
            self._check(len(unit), self._size or 0)
            scores = (self._products or _default_dot_products())(self._vectors, unit)
            best = nlargest(limit, range(len(scores)), key=lambda row: (scores[row], -row))
            return [
                VectorHit(id=self._payloads[row][0], score=float(scores[row]), payload=self._payloads[row][1])
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
            raise InvalidVectors(f"returned a vector of {size} numbers, but the others have {wanted}")


def _normalize(vector: Sequence[float]) -> array[float]:
    """The vector with length 1, so that a product is a cosine; one without a direction stays 0."""
    try:
        length = math.hypot(*vector)
        if not math.isfinite(length):
            raise InvalidVectors("returned numbers that are not finite")
        return array("f", (number / (length or 1.0) for number in vector))
    except TypeError:
        raise InvalidVectors("returned a vector that is not a list of numbers") from None


def _default_dot_products() -> DotProducts:
    return numpy_dot_products if util.find_spec("numpy") is not None else python_dot_products
