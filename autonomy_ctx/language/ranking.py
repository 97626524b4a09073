"""BM25 ranking of short lists of texts by the stems of their words."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from autonomy_ctx.language.stemmer import stem_word
from autonomy_ctx.language.tables import stop_words
from autonomy_ctx.language.words import split_words

BM25_K1, BM25_B = 1.2, 0.75
_MARKS = frozenset(",:")


@dataclass(frozen=True, slots=True)
class RankedText:
    """A text by its index, and how much it says about the question; never 0."""

    index: int
    score: float


def normalized_words(text: str) -> list[str]:
    """The stems of the words of a text; stop words stay as they are."""
    stop = stop_words()
    found = (word.removesuffix("'s") for word in split_words(text).folded if word not in _MARKS)
    return [word if word in stop else stem_word(word) for word in found]


def rank(
    query: str | Iterable[str], texts: Sequence[str], *, k1: float = BM25_K1, b: float = BM25_B
) -> list[RankedText]:
    """The texts that share a word with the query, best first; of equals the earlier first.

    `query` is a text, or words as `normalized_words` gives them.
    """
    asked = dict.fromkeys(normalized_words(query) if isinstance(query, str) else query)
    counts = [Counter(normalized_words(text)) for text in texts]
    lengths = [count.total() for count in counts]
    usual = sum(lengths) / len(lengths) if any(lengths) else 1.0
    scores = [0.0] * len(texts)
    for word in asked:
        holders = [index for index, count in enumerate(counts) if word in count]
        # Never negative: a word that most texts have says little, but not the opposite.
        weight = math.log(1 + (len(texts) - len(holders) + 0.5) / (len(holders) + 0.5))
        for index in holders:
            often = counts[index][word]
            room = k1 * (1 - b + b * lengths[index] / usual)
            scores[index] += weight * often * (k1 + 1) / (often + room)
    found = [RankedText(index, score) for index, score in enumerate(scores) if score > 0]
    return sorted(found, key=lambda one: (-one.score, one.index))
