"""The terms of a text: what a search compares, the same for what was said and for what is asked.

Case, width and accents do not count. Text in scripts without spaces is cut into single characters and
overlapping pairs. An identifier such as `ORD-4711` or `foo_bar.py` counts by its parts and as a whole.
Little words that say nothing about a subject are left out. Endings of words are the index's business.
"""

from __future__ import annotations

import unicodedata
from collections.abc import Callable, Iterable

from autonomy_ctx.items.patterns import lazy

# fmt: off
LITTLE_WORDS = (
    "a about all am an and any are as at be been but by can could did do does for from had has have he her "
    "his how i if in into is it its just know let like many me much my no not of on one or our please say "
    "said she should so some tell than that the their them then there these they this those to up us was we "
    "were what what's when where which who whom whose why will with would you your yours "
    "的 是 了 吗 我 你 他 她 它 们 在 有 和 不 这 那 什 么 哪 请 の は が を に で と も す ま か"
)
# fmt: on
LONGEST_TERM = 64

# Han, kana and Hangul, as a part of a pattern.
UNSPACED = "\u3005\u3040-\u30ff\u3400-\u4dbf\u4e00-\u9fff\uac00-\ud7af\U00020000-\U0003ffff"
_WORD = rf"[^\W_{UNSPACED}]+"
_JOINT = "[-_./:@+]{1,3}"
_RUN = lazy(rf"[{UNSPACED}]+|{_WORD}(?:{_JOINT}{_WORD})*")
# The same for plain text, which takes half the time.
_ASCII_RUN = lazy(f"[a-z0-9]+(?:{_JOINT}[a-z0-9]+)*")
_JOINTS = lazy(_JOINT)
_LITTLE = frozenset(LITTLE_WORDS.split())
_IS_UNSPACED = lazy(f"[{UNSPACED}]")
_ACCENTS = lazy("[\u0300-\u036f]+")


def terms(text: str) -> list[str]:
    """Every term of a text, as often as it is there."""
    return _terms(text, lambda run: [*run, *_pairs(run)])


def asked_terms(query: str) -> list[str]:
    """The different terms of a question, in order; of a run of characters without spaces only the pairs."""
    return list(dict.fromkeys(_terms(query, lambda run: _pairs(run) if len(run) > 1 else [run])))


def folded(text: str) -> str:
    """The text without case, width and accents."""
    if text.isascii():
        return text.lower()
    plain = unicodedata.normalize("NFD", unicodedata.normalize("NFKC", text).casefold())
    return unicodedata.normalize("NFC", _ACCENTS.sub("", plain))


def is_unspaced(run: str) -> bool:
    """Whether a run begins with a character of a script without spaces."""
    return _IS_UNSPACED.match(run) is not None


def ends(text: str, characters: int) -> str:
    """A long text by its beginning and its end, this many characters of each: that is what it is about."""
    return text if len(text) <= 2 * characters else f"{text[:characters]}\n{text[-characters:]}"


def any_of(wanted: Iterable[str]) -> str:
    """A question to a full-text index: any of these terms, in quotes, so that nothing is syntax."""
    return " OR ".join(f'"{term}"' for term in wanted)


def _terms(text: str, cut: Callable[[str], list[str]]) -> list[str]:
    found: list[str] = []
    plain = folded(text)
    is_ascii = plain.isascii()
    runs = (_ASCII_RUN if is_ascii else _RUN).findall(plain)
    if is_ascii and "".join(runs).isalnum():
        # Words and nothing else, as in most messages: looked at all at once.
        words = [run for run in runs if run not in _LITTLE]
        if max(map(len, words), default=0) > LONGEST_TERM:
            words = [word[:LONGEST_TERM] for word in words]
        return words
    for run in runs:
        if not run.isascii() and is_unspaced(run):
            found += cut(run)
        elif run.isalnum():
            found.append(run)
        else:
            parts = _JOINTS.split(run)
            found += [*parts, "".join(parts)]
    return [term[:LONGEST_TERM] for term in found if term not in _LITTLE]


def _pairs(run: str) -> list[str]:
    return [run[at : at + 2] for at in range(len(run) - 1)]
