"""Words and phrases of each language, loaded from `data` when a text in that language is first read.

A person edits `data/<language>.toml`; `make language` folds its phrases and writes `data/<language>.json`,
which is read here without further work. `data/index.json` has what is needed before the language of a text
is known: the words and letters that tell languages apart, the endings of each, the names of months.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from typing import Any, NamedTuple

from autonomy_ctx.language.words import Words, read_table

DEFAULT_LANGUAGE = "en"
# Before a meaning in a table: the phrase has it only at the beginning of a clause.
START_MARK = "^"
# The place of a number in a phrase; a number has at most so many digits.
NUMBER_MARK, MAX_DIGITS = "#", 3
# What a letter counts for that tells a language.
LETTER_VOTES = 2


class PhraseMatch(NamedTuple):
    """A phrase in a text: its first and its last word by index, and its meanings."""

    first: int
    last: int
    meanings: Sequence[str]


@dataclass(frozen=True, slots=True)
class PhraseTable:
    """Phrases with their meanings, by their words joined with spaces; the longest at a place is found."""

    meanings: Mapping[str, Sequence[str]]
    # By the first word and the second: the number of words of the longest phrase that begins so.
    longest: Mapping[str, Mapping[str, int]]

    def find(self, words: Words) -> Iterator[PhraseMatch]:
        """The phrases in a text, in order, none inside another."""
        after = 0
        for at in self.starts(words.folded):
            if at >= after and (found := self.match(words, at)):
                yield found
                after = found.last + 1

    def match(self, words: Words, at: int) -> PhraseMatch | None:
        """The longest phrase that begins at a word."""
        found = self.match_all(words, at)
        return found[-1] if found else None

    def starts(self, folded: Sequence[str], first: int = 0) -> list[int]:
        """The indexes of words that begin a phrase, where the first of `folded` has the index `first`."""
        longest = self.longest
        return [at for at, word in enumerate(folded, first) if word in longest]

    def match_all(self, words: Words, at: int) -> list[PhraseMatch]:
        """The phrases that begin at a word, the longest last."""
        folded, meanings = words.folded, self.meanings.get(words.folded[at])
        found = [PhraseMatch(at, at, meanings)] if meanings else []
        following = self.longest.get(folded[at])
        if following and at + 1 < len(folded) and (most := following.get(folded[at + 1])):
            for end in range(at + 2, min(at + most, len(folded)) + 1):
                meanings = self.meanings.get(" ".join(folded[at:end]))
                if meanings and words.are_joined(at, end - 1):
                    found.append(PhraseMatch(at, end - 1, meanings))
        return found


@dataclass(frozen=True, slots=True)
class Language:
    """The finished tables of one language."""

    code: str
    words: Mapping[str, frozenset[str]]
    phrases: Mapping[str, PhraseTable]
    # Number words, by the folded word.
    numbers: Mapping[str, int]

    def number(self, word: str) -> int | None:
        """The number that a folded word is."""
        if word.isascii() and word.isdigit():
            return int(word) if len(word) <= MAX_DIGITS else None
        return self.numbers.get(word)

    def mark_numbers(self, words: Words) -> Words:
        """The words with a mark in place of each number, as phrases have it."""
        marked = [word if self.number(word) is None else NUMBER_MARK for word in words.folded]
        return Words(words.text, tuple(marked))


@dataclass(frozen=True, slots=True)
class LanguageIndex:
    """Tables over all languages."""

    # Languages with phrases; of others only words and endings are known.
    languages: Sequence[str]
    # What a frequent word counts for each of its languages, and the languages that a letter tells.
    words: Mapping[str, Mapping[str, int]]
    letters: Mapping[str, Sequence[str]]
    # Frequent words that tell another language than English.
    foreign_words: frozenset[str]
    # The stemming rules of each language; languages of the Latin script, and those of them that join words.
    stems: Mapping[str, Mapping[str, Any]]
    latin: Sequence[str]
    compound: Sequence[str]
    # The first and the last letter of a script, and its language.
    scripts: Sequence[tuple[str, str, str]]
    stop_words: frozenset[str]
    # The months that a folded name may be, by their numbers; all names with a capital, the longest first.
    months: Mapping[str, Sequence[int]]
    month_names: Sequence[str]
    # After the number of a day, and between it and the month.
    ordinal_endings: Sequence[str]
    date_joints: Sequence[str]
    # Words with a slash that are no path.
    word_pairs: frozenset[str]


@cache
def load_language(code: str) -> Language:
    """The tables of a language; they stay loaded."""
    data = read_table(code)
    return Language(
        code,
        {name: frozenset(words) for name, words in data["words"].items()},
        {name: PhraseTable(**table) for name, table in data["phrases"].items()},
        data["numbers"],
    )


@cache
def load_index() -> LanguageIndex:
    """The tables over all languages; they stay loaded."""
    data = read_table("index")
    data |= {name: frozenset(data[name]) for name in ("foreign_words", "stop_words", "word_pairs")}
    return LanguageIndex(**data)


@cache
def load_synonyms() -> dict[str, dict[str, float]]:
    """By a stem, those that may stand for it in an answer, each with the part of its weight they have."""
    found: dict[str, dict[str, float]] = read_table("synonyms")
    return found


def stop_words() -> frozenset[str]:
    """Words that say nothing about a subject, folded."""
    return load_index().stop_words


def guess_languages(words: Iterable[str], text: str) -> tuple[str, ...]:
    """The languages that a text may be in, by its most frequent words and its letters; none if none tell.

    `words` are the folded words of `text`.
    """
    index = load_index()
    votes: dict[str, int] = {}
    if not text.isascii():
        for letter in index.letters.keys() & set(text.casefold()):
            for code in index.letters[letter]:
                votes[code] = votes.get(code, 0) + LETTER_VOTES
    for word in index.words.keys() & set(words):
        for code, weight in index.words[word].items():
            votes[code] = votes.get(code, 0) + weight
    most = max(votes.values(), default=0)
    return tuple(sorted(code for code, count in votes.items() if count == most))


def find_languages(words: Iterable[str], text: str) -> tuple[str, ...]:
    """The languages whose phrases a text may have; English if none tell.

    `words` are the folded words of `text`.
    """
    known = load_index().languages
    found = tuple(code for code in guess_languages(words, text) if code in known)
    return found or (DEFAULT_LANGUAGE,)
