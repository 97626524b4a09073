"""One clause as it is read: its cues, the words that say what it is about, and the value that it states.

Every word is in the tables of its language (`[facts]` and `[attributes]` of `data/<language>.toml`); nothing
here knows one. `facts.py` decides what is a fact.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import cached_property
from itertools import pairwise

from autonomy_ctx._lazy import lazy_pattern
from autonomy_ctx.language.identifiers import identifiers
from autonomy_ctx.language.stems import stem_term
from autonomy_ctx.language.tables import START_MARK, find_languages, load_language
from autonomy_ctx.language.words import Words, is_unspaced, split_words

STEM_LENGTH = 6
MIN_LANGUAGE_WORDS = 8  # in a shorter text the words do not tell its language
MAX_VALUE_DISTANCE = 8  # words between an attribute and its value
MAX_FIGURE_DISTANCE = 4  # words between a figure and the attribute that it counts
UNSPACED_LANGUAGES = frozenset(("ja", "zh"))
ASKS = START_MARK + "question"  # only where the whole sentence begins: others are relative clauses
EACH = "each"  # attributes of which every word is one of its own
# Attributes whose value is a name; that of any other is a figure, a date or a code.
NAMED_ATTRIBUTES = frozenset(("name", "place", "contact", "language", "colour"))
BRACKETED_DATE = lazy_pattern(r" ?\([^()\n]{0,40}\d{4}\)")
_QUOTATION = lazy_pattern(
    '"[^"\\n]{1,300}"|\u300c[^\u300d\\n]{1,300}\u300d|\u201c[^\u201d\\n]{1,300}\u201d|`[^`\\n]{1,300}`'
    "|\u00ab[^\u00bb\\n]{1,300}\u00bb|\u201e[^\u201c\\n]{1,300}\u201c"
)
_NUMBER = lazy_pattern(r"\d++(?:[.,:]\d++)*+")
_TICKET = lazy_pattern(r"#\d{1,9}\b")
# The endings of Japanese words, which say nothing of what they are about.
_HIRAGANA = lazy_pattern("[\u3041-\u309f]")
_EDGE = lazy_pattern(r"[;.!?()\u2013\u2014\u2026\u3002]|\s-\s|\n")


@dataclass(frozen=True, slots=True)
class StatedValue:
    """An attribute of something, and its value: the words of the value stand from `first` on."""

    attribute: str
    owner: frozenset[str]
    first: int


@dataclass(frozen=True)
class Statement:
    """A clause with its cues: for each meaning, the first word of its first phrase."""

    text: str
    words: Words
    languages: tuple[str, ...]
    cues: dict[str, int] = field(default_factory=dict)
    attributes: tuple[tuple[str, int, int], ...] = ()
    # The words of its cues, by index, each with their meanings.
    _covered: dict[int, set[str]] = field(default_factory=dict)
    _edges: tuple[int, ...] = (0,)

    def has(self, *names: str) -> bool:
        """Tell whether it has one of these cues."""
        return any(name in self.cues for name in names)

    @cached_property
    def content(self) -> frozenset[str]:
        """The words that say what it is about, by their stems, and its numbers."""
        return self.content_of(0, len(self.words)) | {plain_number(one) for one in self.numbers}

    @cached_property
    def numbers(self) -> tuple[str, ...]:
        """The numbers in it as they are written, without those of a date in brackets."""
        return tuple(_NUMBER.findall(BRACKETED_DATE.sub("", self.text)))

    @cached_property
    def codes(self) -> frozenset[str]:
        """The identifiers in it that name one thing."""
        return find_codes(self.text)

    @cached_property
    def value(self) -> StatedValue | None:
        """The value that it states, if it names an attribute of a table beside it."""
        return next((found for one in self.attributes if (found := self._read_value(*one))), None)

    def content_of(self, first: int, end: int) -> frozenset[str]:
        """The stems of the words in a part of it that are neither cues nor frequent."""
        words, found = self.words, set[str]()
        for at in range(first, end):
            word = words.folded[at]
            is_cue = at in self._covered and not self._is_at(at, "date")
            if is_cue or word in ",:" or word.isdigit() or self.is_function(word):
                continue
            if not is_unspaced(word):
                found |= {stem_word(word)} if len(word) > 1 else set()
            elif at + 1 < end and words.starts[at + 1] == words.ends[at]:
                pair = word + words.folded[at + 1]
                found |= {pair} if len(pair) == 2 and not _HIRAGANA.search(pair) else set()
        return frozenset(found)

    def is_function(self, word: str) -> bool:
        return any(word in load_language(code).words["function"] for code in self.languages)

    def is_named_after(self, name: str) -> bool:
        """Tell whether a name or a figure follows a phrase of this meaning."""
        for at in range(self.cues.get(name, len(self.words)), len(self.words)):
            if not self._is_at(at, name):
                first = self.text[self.words.starts[at]]
                return not first.islower()
        return False

    def begins_with(self, name: str) -> bool:
        """Tell whether a phrase of this meaning begins a part of it."""
        return any(self._is_at(edge, name) for edge in self._edges)

    def parts_with(self, name: str) -> list[range]:
        """The parts of it that begin with a phrase of this meaning."""
        return [self.part(edge) for edge in self._edges if self._is_at(edge, name)]

    def is_subject(self, word: str) -> bool:
        """Tell whether a word names who does something: a pronoun, an article."""
        meanings = (load_language(code).phrases["facts"].meanings.get(word, ()) for code in self.languages)
        return any("subject" in found for found in meanings)

    @property
    def turning_words(self) -> frozenset[str]:
        """The words in it that turn a rule into its opposite: negations, "always" and "never"."""
        negations = [load_language(code).phrases["cues"] for code in self.languages]
        return frozenset(
            word
            for at, word in enumerate(self.words.folded)
            if self._is_at(at, "habit")
            or any("negation" in table.meanings.get(word, ()) for table in negations)
        )

    @property
    def lead_end(self) -> int:
        """The first word after those that only lead to what is said."""
        at = 0
        while self._is_at(at, "lead"):
            at += 1
            while at < len(self.words) and self.words.folded[at] in ",:":
                at += 1
        return at if at < len(self.words) else 0

    def is_pasted(self) -> bool:
        """Tell whether most of it is no speech: a log line, code."""
        return sum(map(self.text.count, "{}[]<>=|_\\/")) > 6

    @cached_property
    def units(self) -> frozenset[str]:
        """The words around its numbers, by which two figures are of one sort; a code has its form."""
        found = {mark for mark in "#@%$\u20ac\u00a3" if mark in self.text}
        for at, word in enumerate(self.words.folded):
            if word[0].isdigit():
                near = (*self.words.folded[at - 1 : at], *self.words.folded[at + 1 : at + 2])
                found |= {stem_word(one) for one in near if one[0].isalpha() and not self.is_function(one)}
                found |= {word.lstrip("0123456789")} - {""}
        return frozenset(found)

    @cached_property
    def numbered_things(self) -> dict[str, set[str]]:
        """The numbers that name things, by the word before them: "1149" of "order 1149"."""
        found: dict[str, set[str]] = {}
        for word, number in pairwise(self.words.folded):
            if number.isdigit() and word[0].isalpha() and not self.is_function(word):
                found.setdefault(stem_word(word), set()).add(number)
        return found

    def part(self, index: int) -> range:
        """The words of the part of it that a word stands in."""
        start = max((edge for edge in self._edges if edge <= index), default=0)
        return range(start, min((edge for edge in self._edges if edge > index), default=len(self.words)))

    def part_of(self, name: str) -> range:
        """The words of the part that has the first phrase of this meaning; none if it has not."""
        return self.part(self.cues[name]) if name in self.cues else range(0)

    def has_in(self, part: range, *names: str) -> bool:
        """Tell whether one of these cues stands in a part of it."""
        return any(self._is_at(at, *names) for at in part)

    def _read_value(self, attribute: str, first: int, last: int) -> StatedValue | None:
        folded = self.words.folded
        part = self.part(first)
        start, is_stated = part.start, False
        has_colon = folded[last + 1 : last + 2] == (":",)
        end = len(folded) if has_colon else part.stop
        for at in range(last + 1, min(last + 1 + MAX_VALUE_DISTANCE, end)):
            word = folded[at]
            is_name = at == last + 1 and any(
                self._is_at(one, "is") for one in range(at + 1, min(at + 4, end))
            )
            if self._is_figure(at, attribute) and not is_name:
                owner = self.content_of(start, first) | self.content_of(last + 1, at)
                owner |= {one for one in folded[start:at] if one.isdigit()}
                return StatedValue(attribute, owner, at)
            if word == ",":
                break
            is_stated = is_stated or word == ":" or self._is_at(at, "is", "change")
            # What follows is about something else, unless the value is still to come: "of the trip is".
            is_over = not is_stated and at not in self._covered and not self.is_function(word)
            if is_over and not self.has_in(range(at, at + 5), "is", "change"):
                break
        for at in range(first - 1, max(first - 1 - MAX_FIGURE_DISTANCE, start - 1), -1):
            if at < first - 2 and not self.is_function(folded[at + 2]):
                break
            if folded[at][0].isdigit() and self.has("is", "change", "amount"):
                owner = self.content_of(start, at) | self.content_of(at + 1, first)
                return StatedValue(attribute, owner, at)
        return None

    def _is_at(self, index: int, *names: str) -> bool:
        return not self._covered.get(index, set()).isdisjoint(names)

    def _is_figure(self, at: int, attribute: str) -> bool:
        word, start = self.words.folded[at], self.words.starts[at]
        said, token = self.text[start : self.words.ends[at]], self.text[start : start + 60].split()[0]
        if any(map(str.isdigit, said)) or "@" in token or self._is_at(at, "date", "number"):
            return True
        if attribute not in NAMED_ATTRIBUTES or self.is_function(word) or at in self._covered:
            return False
        return not said[0].islower() and said[0].isalpha()


def read_statement(text: str, languages: Sequence[str] = ()) -> Statement:
    """Read a clause in the languages that it may be in."""
    words = split_words(text)
    codes = tuple(languages) or find_languages(words.folded, text)
    quoted = [match.span() for match in _QUOTATION.finditer(text)]
    cues: dict[str, int] = {}
    covered: dict[int, set[str]] = {}
    edges = _find_edges(words, codes)
    attributes: list[tuple[str, int, int]] = []
    found = {code: list(load_language(code).phrases["facts"].find(words)) for code in codes}
    # An idiom of one language is no cue of another that the text may be in, too.
    idioms = {match.first for one in found.values() for match in one if "none" in match.meanings}
    for code in codes:
        tables, lead = load_language(code).phrases, 0
        for match in found[code]:
            if match.first in idioms and "none" not in match.meanings:
                continue
            is_quoted = any(start <= words.starts[match.first] < end for start, end in quoted)
            for meaning in ("report",) if is_quoted else match.meanings:
                if meaning.startswith(START_MARK) and match.first not in edges:
                    continue
                if meaning == ASKS and match.first > lead:
                    continue
                name = meaning.removeprefix(START_MARK)
                cues.setdefault(name, match.first)
                for at in range(match.first, match.last + 1):
                    covered.setdefault(at, set()).add(name)
                if name == "lead" and match.first in edges:
                    following = match.last + 1
                    while following < len(words) and words.folded[following] in ",:":
                        following += 1
                    edges.add(following)
                    lead = following if match.first <= lead else lead
        attributes += [
            (words.folded[match.first] if meaning == EACH else meaning, match.first, match.last)
            for match in tables["attributes"].find(words)
            for meaning in match.meanings
            if not any(start <= words.starts[match.first] < end for start, end in quoted)
        ]
    return Statement(text, words, codes, cues, tuple(attributes), covered, tuple(sorted(edges)))


def _find_edges(words: Words, languages: Sequence[str]) -> set[int]:
    """Where a part of a clause begins: after a comma, a colon, a dash, a bracket or a conjunction."""
    found = {0}
    for at in range(1, len(words)):
        # As it is written: without accents, a verb may look like a conjunction ("é" and "e").
        before = words.text[words.starts[at - 1] : words.ends[at - 1]].lower()
        is_mark = words.folded[at - 1] in ",:" or _EDGE.search(
            words.text, words.ends[at - 1], words.starts[at]
        )
        if is_mark or is_conjunction(before, languages):
            found.add(at)
    return found


def is_conjunction(word: str, languages: Sequence[str]) -> bool:
    tables = (load_language(code).phrases["cues"] for code in languages)
    return any("conjunction" in table.meanings.get(word, ()) for table in tables)


def read_languages(text: str, before: tuple[str, ...] = ()) -> tuple[str, ...]:
    """The languages of a message; those of the messages before it, if it is too short to tell."""
    words = split_words(text)
    found = find_languages(words.folded, text)
    if before and len(words) < MIN_LANGUAGE_WORDS and not is_unspaced(words.folded[0] if words else ""):
        # Its own words may tell it, but so few may also mislead.
        is_short = len(words) < MIN_LANGUAGE_WORDS // 2
        return before if is_short else tuple(dict.fromkeys((*before, *found)))
    if words and is_unspaced(words.folded[0]) and not UNSPACED_LANGUAGES & set(found):
        return before or tuple(sorted(UNSPACED_LANGUAGES))
    if len(found) > 1 and (both := tuple(code for code in found if code in before)):
        return both
    return found


def stem_word(word: str) -> str:
    """A word in the form in which it is compared."""
    return stem_term(word.partition("'")[0] if word.endswith("'s") else word.rpartition("'")[2])[:STEM_LENGTH]


def content_words(text: str) -> frozenset[str]:
    """The stems of all words of a text that are not frequent ones, and its numbers."""
    words = split_words(text)
    bare = Statement(text, words, find_languages(words.folded, text))
    return bare.content


def names_another(one: Statement, other: Statement) -> bool:
    """Tell whether two texts name different things of one sort: "order 1149" and "order 1155"."""
    if one.codes and other.codes and one.codes.isdisjoint(other.codes):
        return True
    mine, others = one.numbered_things, other.numbered_things
    return any(mine[word].isdisjoint(others[word]) for word in mine.keys() & others)


def plain_number(number: str) -> str:
    return number.replace(",", "").replace(".", "")


def find_codes(text: str) -> frozenset[str]:
    """Identifiers that name one thing: a booking code, a commit, a path, the number of a pull request."""
    found = {ticket.lstrip("#") for ticket in _TICKET.findall(text)}
    for word in identifiers(text):
        digits, letters = sum(map(str.isdigit, word)), sum(map(str.isalpha, word))
        if " " not in word and ((digits and letters and len(word) > 3) or "/" in word[1:] or digits > 4):
            found.add(word)
            # A path or an address is also known by its last part.
            tail = word.rstrip("/").rpartition("/")[2]
            found |= {tail} if any(map(str.isdigit, tail)) or "." in tail else set()
    return frozenset(found)


def is_same_value(one: Statement, other: Statement) -> bool:
    """Tell whether two statements give a value to the same attribute of the same thing."""
    if one.value is None or other.value is None or one.value.attribute != other.value.attribute:
        return False
    mine, others = one.value.owner, other.value.owner
    if _owner_codes(one) != _owner_codes(other):
        return False
    return mine <= others or others <= mine


def is_changed_value(one: Statement, other: Statement) -> bool:
    """Tell whether a statement that names an attribute and one figure means the value that another states."""
    value = other.value
    if value is None or one.value is not None or (len(one.numbers) != 1 and not one.codes):
        return False
    is_named = any(attribute == value.attribute for attribute, _, _ in one.attributes)
    return is_named and bool(one.units & other.units) and _owner_codes(other) <= one.codes


def _owner_codes(statement: Statement) -> frozenset[str]:
    """The codes that name the thing which has the value, not the value itself."""
    value = statement.value
    start = statement.words.starts[value.first] if value else 0
    return frozenset(code for code in statement.codes if 0 <= statement.text.find(code) < start)
