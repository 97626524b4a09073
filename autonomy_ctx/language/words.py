"""Words of a text in the form in which they are compared, and where each stands.

A word is folded: without case, width and accents. Chinese and Japanese characters, commas and colons are
words of their own, so that a phrase is compared word by word in every script.
"""

from __future__ import annotations

import unicodedata
from dataclasses import dataclass

from autonomy_ctx._lazy import lazy_pattern

# Han, kana and Hangul, as a part of a pattern.
UNSPACED_SCRIPTS = "\u3005\u3040-\u30ff\u3400-\u4dbf\u4e00-\u9fff\uac00-\ud7af\U00020000-\U0003ffff"
_LETTERS = rf"[^\W_{UNSPACED_SCRIPTS}]+"
_WORD_PATTERN = lazy_pattern(
    rf"[{UNSPACED_SCRIPTS}]|{_LETTERS}(?:['\u2019]{_LETTERS})*|[,:\uff0c\u3001\u060c\uff1a]"
)
_UNSPACED_PATTERN = lazy_pattern(f"[{UNSPACED_SCRIPTS}]")
_ACCENT_PATTERN = lazy_pattern("[\u0300-\u036f\u064b-\u0652]+")
_MARKS = {"\uff0c": ",", "\u3001": ",", "\u060c": ",", "\uff1a": ":"}
# Between two words of one phrase: spaces, hyphens, the vowel marks of Arabic.
_JOINTS = frozenset(" \t\n\u00a0\u202f\u3000-\u2010\u2011\u064b\u064c\u064d\u064e\u064f\u0650\u0651\u0652")
MAX_JOINT = 3  # characters


@dataclass(frozen=True, slots=True)
class Words:
    """The folded words of a text, and where each begins and ends in it."""

    text: str
    folded: tuple[str, ...]
    starts: tuple[int, ...]
    ends: tuple[int, ...]

    def __len__(self) -> int:
        return len(self.folded)

    def are_joined(self, first: int, last: int) -> bool:
        """Tell whether nothing but spaces and hyphens stands between these words."""
        gaps = zip(self.ends[first:last], self.starts[first + 1 : last + 1], strict=True)
        return all(
            start - end <= MAX_JOINT and _JOINTS.issuperset(self.text[end:start]) for end, start in gaps
        )


def fold_text(text: str) -> str:
    """The text without case, width and accents."""
    if text.isascii():
        return text.lower()
    plain = unicodedata.normalize("NFD", unicodedata.normalize("NFKC", text).casefold())
    return unicodedata.normalize("NFC", _ACCENT_PATTERN.sub("", plain))


def split_words(text: str) -> Words:
    """The words of a text, in order."""
    # Folding keeps the length of an ASCII text, so all its words are folded at once.
    is_ascii = text.isascii()
    found = list(_WORD_PATTERN.finditer(text.lower() if is_ascii else text))
    return Words(
        text,
        tuple([match[0] if is_ascii else _fold_word(match[0]) for match in found]),
        tuple([match.start() for match in found]),
        tuple([match.end() for match in found]),
    )


def is_unspaced(run: str) -> bool:
    """Tell whether a run begins with a character of a script without spaces."""
    return _UNSPACED_PATTERN.match(run) is not None


def _fold_word(word: str) -> str:
    return _MARKS.get(word) or fold_text(word).replace("\u2019", "'")
