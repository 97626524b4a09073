"""Words of a text in the form in which they are compared, and where each stands.

A text is normalized (case, width, what no reader sees), then folded (accents); `fold_script` goes further, to
the plainest letters of a script, as search needs it. Chinese and Japanese characters, commas and colons are
words of their own, so that a phrase is compared word by word in every script.
"""

from __future__ import annotations

import json
import re
import unicodedata
from dataclasses import dataclass
from functools import cache, cached_property
from itertools import pairwise
from pathlib import Path
from typing import Any

from autonomy_ctx._lazy import lazy_pattern

_DATA = Path(__file__).parent / "data"
# Han, kana and Hangul, as a part of a pattern. Python takes milliseconds to compile one with it, so texts
# without such characters have patterns of their own.
UNSPACED_SCRIPTS = "\u3005\u3040-\u30ff\u3400-\u4dbf\u4e00-\u9fff\uac00-\ud7af\U00020000-\U0003ffff"
_FIRST_UNSPACED = "\u3005"
_UNSPACED_RANGES = tuple(
    zip("\u3005\u3040\u3400\u4e00\uac00\U00020000", "\u3005\u30ff\u4dbf\u9fff\ud7af\U0003ffff", strict=True)
)
_PUNCTUATION = "[,:\uff0c\u3001\u060c\uff1a]"
_ASCII_PATTERN = lazy_pattern("[A-Za-z0-9]+(?:'[A-Za-z0-9]+)*|[,:]")
_SPACED_PATTERN = lazy_pattern(rf"[^\W_]+(?:['\u2019][^\W_]+)*|{_PUNCTUATION}")
_WORD_PATTERN = lazy_pattern(rf"[^\W_{UNSPACED_SCRIPTS}]+(?:['\u2019][a-zA-Z]+)*|[^\W_]|{_PUNCTUATION}")
_ACCENT_PATTERN = lazy_pattern("[\u0300-\u036f\u064b-\u0652]+")
# Tatweel, soft hyphen, joiners, marks of direction, variation selectors: a reader does not see them.
_INVISIBLE_PATTERN = lazy_pattern(
    "[\u00ad\u034f\u061c\u0640\u180b-\u180e\u200b-\u200f\u202a-\u202e\u2060-\u2064\u2066-\u206f"
    "\ufe00-\ufe0f\ufeff]+"
)
_DIGIT_PATTERN = lazy_pattern(r"[^\D0-9]")
# Accents (but not the one that makes another letter of the Cyrillic i), points of Hebrew, vowel marks of
# Arabic, the dot below of Devanagari.
_MARK_PATTERN = lazy_pattern(
    "(?<!\u0438)[\u0300-\u036f]+"
    "|[\u0591-\u05bd\u05bf-\u05c7\u0610-\u061a\u064b-\u065f\u0670\u06d6-\u06ed\u093c]+"
)
# In Devanagari, a nasal before another consonant is also written as a dot, or as a moon with a dot.
_NASAL_PATTERN = lazy_pattern("[\u0919\u091e\u0923\u0928\u092e]\u094d(?=[\u0915-\u0939])|\u0901")
_DIGRAPH_PATTERN = lazy_pattern("([ao]|(?<![aeq])u)e|a(?=a)")
_MARKS = {"\uff0c": ",", "\u3001": ",", "\u060c": ",", "\uff1a": ":"}
# Between two words of one phrase: spaces, hyphens, the vowel marks of Arabic.
_JOINTS = frozenset(" \t\n\u00a0\u202f\u3000-\u2010\u2011\u064b\u064c\u064d\u064e\u064f\u0650\u0651\u0652")
MAX_JOINT = 3  # characters


@dataclass(frozen=True)
class Words:
    """The folded words of a text, and where each begins and ends in it."""

    text: str
    folded: tuple[str, ...]

    def __len__(self) -> int:
        return len(self.folded)

    @cached_property
    def spans(self) -> list[tuple[int, int]]:
        """From where to where each word goes; most texts are read without it."""
        return [match.span() for match in _word_pattern(self.text).finditer(self.text)]

    def start(self, at: int) -> int:
        return self.spans[at][0]

    def end(self, at: int) -> int:
        return self.spans[at][1]

    def are_joined(self, first: int, last: int) -> bool:
        """Tell whether nothing but spaces and hyphens stands between these words."""
        return all(
            start - end <= MAX_JOINT and _JOINTS.issuperset(self.text[end:start])
            for (_, end), (start, _) in pairwise(self.spans[first : last + 1])
        )


def normalize_text(text: str) -> str:
    """The text as a reader sees it, without case and width, with digits of one kind."""
    if text.isascii():
        return text.lower()
    plain = unicodedata.normalize("NFKC", text).lower()
    plain = _INVISIBLE_PATTERN.sub("", plain)
    return unicodedata.normalize("NFC", _DIGIT_PATTERN.sub(_ascii_digit, plain))


def fold_text(text: str) -> str:
    """The text without case, width and accents."""
    if text.isascii():
        return text.lower()
    plain = unicodedata.normalize("NFD", normalize_text(text).casefold())
    return unicodedata.normalize("NFC", _ACCENT_PATTERN.sub("", plain))


def fold_script(word: str) -> str:
    """A normalized word in the plainest letters of its script."""
    if word.isascii():
        return word
    letters = _script_tables()[0]
    plain = unicodedata.normalize("NFD", word.translate(letters))
    plain = unicodedata.normalize("NFC", _MARK_PATTERN.sub("", plain))
    # An accent may have kept a letter from being met before.
    return _NASAL_PATTERN.sub("\u0902", plain.translate(letters))


def spelling_forms(word: str) -> list[str]:
    """The other spellings of a normalized word; the plainest first, never itself.

    Where a keyboard has no umlaut, `ue` stands for it, or `u` does.
    """
    forms = [fold_script(word)]
    if not word.isascii():
        forms.append(fold_script(word.translate(_script_tables()[1])))
    if _DIGRAPH_PATTERN.search(word):
        forms.append(_DIGRAPH_PATTERN.sub(lambda match: match[1] or "", forms[0]))
    return [form for form in dict.fromkeys(forms) if form != word]


def split_words(text: str) -> Words:
    """The words of a text, in order."""
    # Folding keeps the length of an ASCII text, so all its words are folded at once.
    if text.isascii():
        return Words(text, tuple(_ASCII_PATTERN.findall(text.lower())))
    return Words(text, tuple(map(_fold_word, _word_pattern(text).findall(text))))


def is_unspaced(run: str) -> bool:
    """Tell whether a run begins with a character of a script without spaces."""
    return run[:1] >= _FIRST_UNSPACED and any(first <= run[0] <= last for first, last in _UNSPACED_RANGES)


def text_ends(text: str, characters: int) -> str:
    """A long text by its beginning and its end, this many characters of each: that is what it is about."""
    return text if len(text) <= 2 * characters else f"{text[:characters]}\n{text[-characters:]}"


def read_table(name: str) -> Any:
    """A finished table of `data`."""
    return json.loads((_DATA / f"{name}.json").read_bytes())


def _word_pattern(text: str) -> re.Pattern[str]:
    if text.isascii():
        return _ASCII_PATTERN
    return _SPACED_PATTERN if max(text) < _FIRST_UNSPACED else _WORD_PATTERN


def _fold_word(word: str) -> str:
    # A mark that nobody sees folds to nothing, and is read as it is.
    return _MARKS.get(word) or fold_text(word).replace("\u2019", "'") or word


def _ascii_digit(match: re.Match[str]) -> str:
    return str(unicodedata.digit(match[0], match[0]))


@cache
def _script_tables() -> tuple[dict[int, str], dict[int, str]]:
    """The plainest letter for each that has one, and what is written where a keyboard lacks a letter."""
    tables = read_table("scripts")
    return str.maketrans(tables["letters"]), str.maketrans(tables["digraphs"])
