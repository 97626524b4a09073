"""Which texts say most about a question: BM25, without an index and without a model.

Words are compared without case, width, accents and a plural or possessive `s`; scripts without spaces
are compared by character. The same texts and question always give the same order.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cache

from autonomy_ctx.items.patterns import lazy
from autonomy_ctx.items.terms import LITTLE_WORDS, UNSPACED, folded

K1, B = 1.2, 0.75
_WORD = lazy(rf"[{UNSPACED}]|[^\W_{UNSPACED}]+(?:['\u2019][^\W_{UNSPACED}]+)*")


@dataclass(frozen=True, slots=True)
class Ranked:
    """A text by its index, and how much it says about the question; never 0."""

    index: int
    score: float


def words(text: str) -> list[str]:
    """The words of a text in the form in which they are compared."""
    return [_plain(word) for word in _WORD.findall(folded(text))]


def rank(query: str | Iterable[str], texts: Sequence[str], *, k1: float = K1, b: float = B) -> list[Ranked]:
    """The texts that share a word with the query, best first; of equals the earlier first.

    `query` is a text, or words as `words` gives them.
    """
    asked = dict.fromkeys(words(query) if isinstance(query, str) else query)
    counts = [Counter(words(text)) for text in texts]
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
    found = [Ranked(index, score) for index, score in enumerate(scores) if score > 0]
    return sorted(found, key=lambda one: (-one.score, one.index))


def _plain(word: str) -> str:
    word = word.replace("\u2019", "'").removesuffix("'s")
    return word[:-1] if len(word) > 3 and word.endswith("s") and not word.endswith("ss") else word


@cache
def little() -> frozenset[str]:
    """Words that say nothing about a subject, in the form in which they are compared."""
    return frozenset(words(LITTLE_WORDS))
