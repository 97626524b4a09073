"""Words and phrases of each language, loaded from `data` when a text in that language is first read.

A person edits `data/<language>.toml`; `make language` folds its phrases and writes `data/<language>.json`,
which is read here without further work. `data/index.json` has what tells the languages apart.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple

from autonomy_ctx.language.words import Words

DEFAULT_LANGUAGE = "en"
# Before a meaning in a table: the phrase has it only at the beginning of a clause.
START_MARK = "^"
_DATA = Path(__file__).parent / "data"


class PhraseMatch(NamedTuple):
    """A phrase in a text: its first and its last word by index, and its meanings."""

    first: int
    last: int
    meanings: Sequence[str]


@dataclass(frozen=True, slots=True)
class PhraseTable:
    """Phrases with their meanings, by their words joined with spaces; the longest at a place is found."""

    meanings: Mapping[str, Sequence[str]]
    # By the first word: the number of words of the longest phrase that begins with it.
    longest: Mapping[str, int]

    def find(self, words: Words) -> Iterator[PhraseMatch]:
        """The phrases in a text, in order, none inside another."""
        after = 0
        for at, word in enumerate(words.folded):
            if at >= after and word in self.longest and (found := self.match(words, at)):
                yield found
                after = found.last + 1

    def match(self, words: Words, at: int) -> PhraseMatch | None:
        """The longest phrase that begins at a word."""
        most = min(self.longest.get(words.folded[at], 0), len(words) - at)
        for last in range(at + most - 1, at - 1, -1):
            meanings = self.meanings.get(" ".join(words.folded[at : last + 1]))
            if meanings and words.are_joined(at, last):
                return PhraseMatch(at, last, meanings)
        return None


@dataclass(frozen=True, slots=True)
class Language:
    """The finished tables of one language."""

    code: str
    words: Mapping[str, frozenset[str]]
    phrases: Mapping[str, PhraseTable]
    stems: Mapping[str, Any]


@cache
def load_language(code: str) -> Language:
    """The tables of a language; they stay loaded."""
    data = _read(code)
    return Language(
        code,
        {name: frozenset(words) for name, words in data["words"].items()},
        {name: PhraseTable(**table) for name, table in data["phrases"].items()},
        data["stems"],
    )


def find_languages(words: Iterable[str], text: str) -> tuple[str, ...]:
    """The languages that a text may be in, by its most frequent words and its letters; English if none tell.

    `words` are the folded words of `text`.
    """
    index = _index()
    votes: Counter[str] = Counter()
    if not text.isascii():
        for letter in index["letters"].keys() & set(text.casefold()):
            votes.update(index["letters"][letter])
    for word in index["words"].keys() & set(words):
        votes.update(index["words"][word])
    most = max(votes.values(), default=0)
    return tuple(sorted(code for code, count in votes.items() if count == most)) or (DEFAULT_LANGUAGE,)


@cache
def _index() -> dict[str, dict[str, list[str]]]:
    found: dict[str, dict[str, list[str]]] = _read("index")
    return found


def _read(name: str) -> Any:
    return json.loads((_DATA / f"{name}.json").read_bytes())
