"""Words in the form in which they are compared, and BM25 ranking of short lists of texts.

Words are folded (case, width, accents); stop words are those that say nothing about a subject. What full-text
search looks for is in `search_terms`.
"""

from __future__ import annotations

import math
import unicodedata
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cache

from autonomy_ctx._lazy import lazy_pattern

# fmt: off
STOP_WORDS = (
    "a about all am an and any are as at be been but by can could did do does for from had has have he her "
    "his how i if in into is it its just know let like many me much my no not of on one or our please say "
    "said she should so some tell than that the their them then there these they this those to up us was we "
    "were what what's when where which who whom whose why will with would you your yours "
    "的 是 了 吗 我 你 他 她 它 们 在 有 和 不 这 那 什 么 哪 请 の は が を に で と も す ま か"
)
# fmt: on

# Han, kana and Hangul, as a part of a pattern.
UNSPACED_SCRIPTS = "\u3005\u3040-\u30ff\u3400-\u4dbf\u4e00-\u9fff\uac00-\ud7af\U00020000-\U0003ffff"
_UNSPACED_PATTERN = lazy_pattern(f"[{UNSPACED_SCRIPTS}]")
_ACCENT_PATTERN = lazy_pattern("[\u0300-\u036f]+")


def fold_text(text: str) -> str:
    """The text without case, width and accents."""
    if text.isascii():
        return text.lower()
    plain = unicodedata.normalize("NFD", unicodedata.normalize("NFKC", text).casefold())
    return unicodedata.normalize("NFC", _ACCENT_PATTERN.sub("", plain))


def is_unspaced(run: str) -> bool:
    """Tell whether a run begins with a character of a script without spaces."""
    return _UNSPACED_PATTERN.match(run) is not None


def text_ends(text: str, characters: int) -> str:
    """A long text by its beginning and its end, this many characters of each: that is what it is about."""
    return text if len(text) <= 2 * characters else f"{text[:characters]}\n{text[-characters:]}"


def fts_or_query(wanted: Iterable[str]) -> str:
    """A question to a full-text index: any of these terms, in quotes, so that nothing is syntax."""
    return " OR ".join(f'"{term}"' for term in wanted)


BM25_K1, BM25_B = 1.2, 0.75
_WORD_PATTERN = lazy_pattern(
    rf"[{UNSPACED_SCRIPTS}]|[^\W_{UNSPACED_SCRIPTS}]+(?:['\u2019][^\W_{UNSPACED_SCRIPTS}]+)*"
)


@dataclass(frozen=True, slots=True)
class RankedText:
    """A text by its index, and how much it says about the question; never 0."""

    index: int
    score: float


def normalized_words(text: str) -> list[str]:
    """The words of a text in the form in which they are compared."""
    return [_stem_word(word) for word in _WORD_PATTERN.findall(fold_text(text))]


def rank(
    query: str | Iterable[str], texts: Sequence[str], *, k1: float = BM25_K1, b: float = BM25_B
) -> list[RankedText]:
    """The texts that share a word with the query, best first; of equals the earlier first.

    `query` is a text, or words as `words` gives them.
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


def _stem_word(word: str) -> str:
    word = word.replace("\u2019", "'").removesuffix("'s")
    return word[:-1] if len(word) > 3 and word.endswith("s") and not word.endswith("ss") else word


@cache
def stop_words() -> frozenset[str]:
    """Words that say nothing about a subject, in the form in which they are compared."""
    return frozenset(normalized_words(STOP_WORDS))
