"""Finds the phrases of a table in a text, word by word, in any language.

A word is folded before it is compared (case, width, accents). Chinese and Japanese characters and commas and
colons are words of their own, so a table is read in the same way for every script. The time is linear in the
length of the text, whatever the table holds.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable, Iterator
from dataclasses import dataclass
from typing import Generic, TypeAlias, TypeVar

from autonomy_ctx._lazy import lazy_pattern
from autonomy_ctx.language.words import UNSPACED_SCRIPTS, fold_text

NUMBER_SLOT = "#"  # stands for any number in a phrase of a table
PHRASE_SEPARATOR = ";"
MAX_GAP = 3  # characters between two words of one phrase
_LETTERS = rf"[^\W_{UNSPACED_SCRIPTS}]+"
_WORD_PATTERN = lazy_pattern(
    rf"[{UNSPACED_SCRIPTS}]|{_LETTERS}(?:['\u2019]{_LETTERS})*|[#,:\uff0c\u3001\uff1a]"
)
# What may stand between two words of one phrase: spaces, hyphens, the vowel marks of Arabic.
_GAP_CHARACTERS = frozenset(
    " \t\n\u00a0\u202f\u3000-\u2010\u2011\u064b\u064c\u064d\u064e\u064f\u0650\u0651\u0652"
)
_SAME_MARKS = {"\uff0c": ",", "\u3001": ",", "\uff1a": ":"}

Value = TypeVar("Value", bound=Hashable)
# A phrase by its words, and its value by index. The garbage collector does not follow tuples of strings and
# numbers, so that a table of thousands of phrases costs it nothing.
_Row: TypeAlias = tuple[tuple[str, ...], int]


@dataclass(frozen=True, slots=True)
class Words:
    """The words of a text in the form in which they are compared, and where each stands in it.

    One object for all of them: thousands of texts are kept, and the garbage collector follows each object.
    """

    folded: tuple[str, ...]
    starts: tuple[int, ...]
    ends: tuple[int, ...]

    def __len__(self) -> int:
        return len(self.folded)

    def part(self, first: int, end: int) -> Words:
        """The words from one index up to another."""
        return Words(self.folded[first:end], self.starts[first:end], self.ends[first:end])


@dataclass(frozen=True, slots=True)
class PhraseMatch(Generic[Value]):
    """A phrase of a table in a text: its words by index, what the table says of it, and its number if any."""

    first: int
    last: int
    value: Value
    number: int | None = None


def split_words(text: str) -> Words:
    """The words of a text, in order."""
    # Folding keeps the length of an ASCII text, so all its words are folded at once.
    is_ascii = text.isascii()
    found = list(_WORD_PATTERN.finditer(text.lower() if is_ascii else text))
    return Words(
        tuple([match[0] if is_ascii else _fold_word(match[0]) for match in found]),
        tuple([match.start() for match in found]),
        tuple([match.end() for match in found]),
    )


def split_phrases(table: str) -> list[str]:
    """The phrases of one entry of a table."""
    return [" ".join(phrase.split()) for phrase in table.split(PHRASE_SEPARATOR) if phrase.strip()]


class PhraseTable(Generic[Value]):
    """Phrases and what each of them stands for. The longest phrase at a place is the one that is found."""

    def __init__(
        self,
        phrases: Iterable[tuple[str, Value]],
        *,
        parse_number: Callable[[str], int | None] = lambda word: None,
    ) -> None:
        self._parse_number = parse_number
        indexes: dict[Value, int] = {}
        rows: list[_Row] = [
            (split_words(phrase).folded, indexes.setdefault(value, len(indexes))) for phrase, value in phrases
        ]
        # The longest first. Of two equal phrases the one that came first is found: the sort is stable.
        rows.sort(key=lambda row: -len(row[0]))
        # By the first word, then by the second one, so that a common first word costs nothing.
        self._rows: dict[str, dict[str, tuple[_Row, ...]]] = {}
        for row in rows:
            words = row[0]
            by_second = self._rows.setdefault(words[0], {})
            second = words[1] if len(words) > 1 else ""
            by_second[second] = (*by_second.get(second, ()), row)
        self._values = tuple(indexes)
        self._has_numbers = NUMBER_SLOT in self._rows

    def find(self, text: str, words: Words) -> Iterator[PhraseMatch[Value]]:
        """The phrases in a text, in order, none inside another."""
        rows, after = self._rows, 0
        for at, word in enumerate(words.folded):
            if at < after or not (word in rows or self._has_numbers):
                continue
            if found := self.match(text, words, at):
                yield found
                after = found.last + 1

    def match(self, text: str, words: Words, at: int) -> PhraseMatch[Value] | None:
        """The longest phrase that begins at a word."""
        folded = words.folded
        following = folded[at + 1] if at + 1 < len(folded) else ""
        for first in (folded[at], NUMBER_SLOT) if self._has_numbers else (folded[at],):
            rows = self._rows.get(first)
            if not rows:
                continue
            best: PhraseMatch[Value] | None = None
            for second in (following, NUMBER_SLOT, "") if following else ("",):
                if second not in rows:
                    continue
                for phrase, index in rows[second]:
                    if best and len(phrase) <= best.last - at + 1:
                        break
                    if found := self._match_phrase(text, words, at, phrase, index):
                        best = found
                        break
            if best:
                return best
        return None

    def _match_phrase(
        self, text: str, words: Words, first: int, phrase: tuple[str, ...], index: int
    ) -> PhraseMatch[Value] | None:
        folded = words.folded
        if first + len(phrase) > len(folded):
            return None
        number: int | None = None
        for at, wanted in enumerate(phrase, first):
            if wanted == NUMBER_SLOT:
                number = self._parse_number(folded[at])
                if number is None:
                    return None
            elif folded[at] != wanted:
                return None
            if at > first and not may_separate(text[words.ends[at - 1] : words.starts[at]]):
                return None
        return PhraseMatch(first, first + len(phrase) - 1, self._values[index], number)


def may_separate(gap: str) -> bool:
    """Tell whether what stands between two words keeps them together."""
    return gap == " " or (len(gap) <= MAX_GAP and all(character in _GAP_CHARACTERS for character in gap))


def _fold_word(word: str) -> str:
    return _SAME_MARKS.get(word) or fold_text(word).replace("\u2019", "'")
