"""Recall by words and by meaning together, with the vectors of the `wordllama` wheel.

The weights are inside the wheel (`pip install wordllama --no-deps`); the package itself is not imported. A
text is the mean of the vectors of its tokens. Of a question only the words that tell something are embedded.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Hashable, Sequence
from importlib.util import find_spec
from pathlib import Path
from typing import Any, TypeVar

from autonomy_ctx.items.terms import search_terms
from autonomy_ctx.memory.term_index import TermIndex

# Where the package is, if it is not installed.
FOLDER_VARIABLE = "WORDLLAMA_FOLDER"
WEIGHTS, TOKENIZER = "weights/l2_supercat_256.safetensors", "tokenizers/l2_supercat_tokenizer_config.json"
# How many of the nearest messages count, and what the nearest counts for, beside the best by words.
NEAREST, VECTOR_WEIGHT = 200, 1.0

P = TypeVar("P", bound=Hashable)


def fuse_ranks(
    words: Sequence[tuple[P, float]], nearest: Sequence[tuple[P, float]], limit: int
) -> list[tuple[P, float]]:
    """Two lists of places with scores, each best first, as one.

    The best by words counts 1. The nearest by meaning counts `VECTOR_WEIGHT`, the last of the list nothing:
    what any two texts have in common says nothing. Of equal scores the one that words found goes first.
    """
    best = words[0][1] if words else 1.0
    fused = {place: score / best for place, score in words}
    if nearest:
        top, floor = nearest[0][1], nearest[-1][1]
        for place, score in nearest:
            share = (score - floor) / (top - floor) if top > floor else 1.0
            fused[place] = fused.get(place, 0.0) + VECTOR_WEIGHT * share
    return sorted(fused.items(), key=lambda one: -one[1])[:limit]


class WordLlama:
    """The embedder."""

    def __init__(self, folder: Path) -> None:
        import numpy
        from safetensors.numpy import load_file
        from tokenizers import Tokenizer

        self._numpy = numpy
        self._tokenizer = Tokenizer.from_file(str(folder / TOKENIZER))
        [weights] = load_file(folder / WEIGHTS).values()
        self._weights = weights.astype("float32")

    def embed(self, texts: Sequence[str]) -> Any:
        """One normalised vector for each text."""
        made = self._numpy.zeros((len(texts), self._weights.shape[1]), "float32")
        for row, found in enumerate(self._tokenizer.encode_batch(list(texts), add_special_tokens=False)):
            if found.ids:
                mean = self._weights[found.ids].mean(axis=0)
                made[row] = mean / (self._numpy.linalg.norm(mean) + 1e-9)
        return made

    def fusion(self, index: TermIndex) -> Callable[[str], Callable[[dict[int, float]], dict[int, float]]]:
        """For a question, what adds the nearest messages of an index to the scores by words."""
        vectors = self.embed([one.message.text for one in index.messages])

        def for_question(question: str) -> Callable[[dict[int, float]], dict[int, float]]:
            near = vectors @ self.embed([" ".join(search_terms(question))])[0]
            first = self._numpy.argsort(-near, kind="stable")[:NEAREST]
            nearest = [(int(number), float(near[number])) for number in first]

            def fuse(scores: dict[int, float]) -> dict[int, float]:
                words = sorted(scores.items(), key=lambda one: (-one[1], -one[0]))
                return dict(fuse_ranks(words, nearest, len(index.messages)))

            return fuse

        return for_question


def find_embedder() -> WordLlama | None:
    """The embedder, where its files and what reads them are installed."""
    folder = os.environ.get(FOLDER_VARIABLE)
    if folder is None:
        package = find_spec("wordllama")
        folder = None if package is None or package.origin is None else str(Path(package.origin).parent)
    if folder is None or not all(map(find_spec, ("numpy", "safetensors", "tokenizers"))):
        return None
    return WordLlama(Path(folder))
