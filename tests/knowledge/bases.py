"""Knowledge bases, embedders and stores that do what a test wants, and nothing by chance."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import anyio

from autonomy_ctx.knowledge import Passage
from autonomy_ctx.language.stemmer import normalized_words

TOPICS = ("ferry", "tram", "food", "visa")


class Gives:
    """Gives the same answer to every question, and remembers the questions."""

    def __init__(self, answer: Any) -> None:
        self.answer = answer
        self.asked: list[tuple[str, int]] = []

    async def search(self, query: str, limit: int) -> Any:
        self.asked.append((query, limit))
        if isinstance(self.answer, Exception):
            raise self.answer
        return self.answer


class Plain(Gives):
    """The same without `async`, as somebody's own search may be."""

    def search(self, query: str, limit: int) -> Any:
        self.asked.append((query, limit))
        return self.answer


class Hangs:
    """Never answers."""

    def __init__(self) -> None:
        self.asked = self.left = False

    async def search(self, query: str, limit: int) -> list[Passage]:
        self.asked = True
        try:
            await anyio.sleep_forever()
        finally:
            self.left = True
        raise AssertionError("never comes here")


class CountsTopics:
    """An embedder that anybody can check: how often a text names each of a few topics."""

    def __init__(self) -> None:
        self.asked: list[list[str]] = []

    async def embed(self, texts: Sequence[str]) -> list[list[float]]:
        self.asked.append(list(texts))
        return [[0.1, *(float(normalized_words(text).count(topic)) for topic in TOPICS)] for text in texts]


class Keeps:
    """A vector store of somebody else: it cannot remove, and answers in dicts of its own."""

    def __init__(self, answer: Any = None) -> None:
        self.rows: dict[str, Mapping[str, Any]] = {}
        self.answer = answer

    async def add(
        self, ids: Sequence[str], vectors: Sequence[Sequence[float]], payloads: Sequence[Mapping[str, Any]]
    ) -> None:
        self.rows |= dict(zip(ids, payloads, strict=True))

    async def search(self, vector: Sequence[float], limit: int) -> Any:
        if self.answer is not None:
            return self.answer
        return [{"id": name, "score": 1.0, "payload": payload} for name, payload in self.rows.items()]
