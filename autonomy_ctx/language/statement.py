"""One clause as it is read: its cues, the words that say what it is about, and the value that it states.

Every word is in the tables of its language (`[facts]` and `[attributes]` of `data/<language>.toml`); nothing
here knows one. `facts.py` decides what is a fact.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from itertools import pairwise

from autonomy_ctx._lazy import lazy_pattern
from autonomy_ctx.language import stemmer
from autonomy_ctx.language.identifiers import identifiers
from autonomy_ctx.language.tables import START_MARK, find_languages, load_language
from autonomy_ctx.language.words import Words, is_unspaced, split_words

STEM_LENGTH = 6
MIN_LANGUAGE_WORDS = 8  # in a shorter text the words may mislead about its language
MAX_VALUE_DISTANCE = 8  # words between an attribute and its value
MAX_FIGURE_DISTANCE = 2  # words between a figure and the attribute that it counts
MAX_OWNER_WORDS = 3
MAX_VALUE_DIGITS = 4  # right after its attribute: "order 55213" names an order
MAX_CUTS = 8
MAX_CHANGE_CONTENT = 8  # words that say what a new figure is about, where nothing says that it is new
MIN_SHARED = 0.5  # of the words of two changes, whichever has fewer
UNSPACED_LANGUAGES = frozenset(("ja", "zh"))
ASKS = START_MARK + "question"  # only where the whole sentence begins: others are relative clauses
EACH = "each"  # attributes of which every word is one of its own
# Attributes whose value is a name; that of any other is a figure, a date or a code.
NAMED_ATTRIBUTES = frozenset(("name", "place", "contact", "language", "home", "work"))
BRACKETED_DATE = lazy_pattern(r" ?\([^()\n]{0,40}\d{4}\)")
_QUOTATION = lazy_pattern(
    '"[^"\\n]{1,300}"|\u300c[^\u300c\u300d\\n]{1,300}\u300d|\u201c[^\u201c\u201d\\n]{1,300}\u201d'
    "|`[^`\\n]{1,300}`|\\{[^{}\\n]{1,300}\\}|\\[[^][\\n]{1,80}\\]|\u00ab[^\u00ab\u00bb\\n]{1,300}\u00bb|\u201e[^\u201e\u201c\\n]{1,300}\u201c"
)
_NUMBER, _TICKET = lazy_pattern(r"\d++(?:[.,:]\d++)*+"), lazy_pattern(r"#\d{1,9}\b")
# The endings of Japanese words, which say nothing of what they are about.
_HIRAGANA = lazy_pattern("[\u3041-\u309f]")
_EDGE = lazy_pattern(r"[;!?()\u2013\u2014\u2026\u3002]|(?<!\d)\.\s|\s-\s|\n")
_INSIDE_NUMBER = lazy_pattern(r"\d[,:]\d")
_OPENING_MARKS = "\"'([{\u201c\u00ab#@$\u20ac\u00a3"


@dataclass(frozen=True, slots=True)
class StatedValue:
    """An attribute of something, and its value, whose words stand from `first` on."""

    attribute: str
    owner: frozenset[str]
    first: int
    # Of the speaker: "my budget is", "we have a budget of".
    is_own: bool


@dataclass(frozen=True)
class Statement:
    """A clause with its cues: for each meaning, the first word of its first phrase."""

    text: str
    words: Words
    languages: tuple[str, ...]
    cues: Mapping[str, int] = field(default_factory=dict)
    attributes: Sequence[tuple[str, int, int]] = ()
    # The meanings of the words of its cues, by index, and where its parts begin.
    meanings: Mapping[int, set[str]] = field(default_factory=dict)
    edges: Sequence[int] = (0,)

    def has(self, *names: str) -> bool:
        """Tell whether it has one of these cues."""
        return not self.cues.keys().isdisjoint(names)

    def has_in(self, part: Iterable[int], *names: str) -> bool:
        """Tell whether one of these cues stands in a part of it."""
        return self.has(*names) and any(
            at in self.meanings and not self.meanings[at].isdisjoint(names) for at in part
        )

    def part(self, index: int) -> range:
        """The words of the part of it that a word stands in."""
        start = max((edge for edge in self.edges if edge <= index), default=0)
        return range(start, min((edge for edge in self.edges if edge > index), default=len(self.words)))

    def part_of(self, name: str) -> range:
        """The part that has the first phrase of this meaning; none if there is no such phrase."""
        return self.part(self.cues[name]) if name in self.cues else range(0)

    def parts_with(self, name: str) -> list[range]:
        """The parts of it that begin with a phrase of this meaning."""
        return [self.part(edge) for edge in self.edges if self.has_in((edge,), name)]

    def orders_with(self, name: str) -> list[range]:
        """The parts with this meaning that do not go on from the one before, as after "I'll write it and"."""
        folded, joined, lead = self.words.folded, self.words.are_joined, self.lead_end
        starts = ((part.start, part) for part in self.parts_with(name))
        return [p for at, p in starts if at <= lead or folded[at - 1] in ",:" or not joined(at - 1, at)]

    def begins_with(self, name: str) -> bool:
        """Tell whether a phrase of this meaning begins a part of it."""
        return bool(self.parts_with(name))

    def is_function(self, word: str) -> bool:
        return any(word in load_language(code).words["function"] for code in self.languages)

    @property
    def is_request(self) -> bool:
        """Tell whether it wishes something and names nobody who does it: "answers in short, please"."""
        if self.numbers or self.is_subject(self.words.folded[self.lead_end]):
            return False
        tables = (load_language(code).phrases["cues"] for code in self.languages)
        return any("obligation" in match.meanings for table in tables for match in table.find(self.words))

    def is_subject(self, word: str) -> bool:
        """Tell whether a word names who does something: a pronoun, an article."""
        tables = (load_language(code).phrases["facts"] for code in self.languages)
        return any("subject" in table.meanings.get(word, ()) for table in tables)

    @cached_property
    def content(self) -> frozenset[str]:
        """The words that say what it is about, by their stems, and its numbers."""
        return self.content_of(range(len(self.words))) | {_plain(number) for number in self.numbers}

    def content_of(self, part: range) -> frozenset[str]:
        """The stems of the words in a part of it that are neither cues nor frequent."""
        words, found = self.words, set[str]()
        for at in part:
            word, cues = words.folded[at], self.meanings.get(at)
            if (cues and "date" not in cues) or word in ",:" or word.isdigit() or self.is_function(word):
                continue
            if not is_unspaced(word):
                if len(word) > 1:
                    found.add(stem_word(word))
            elif at + 1 < part.stop and words.start(at + 1) == words.end(at):
                pair = word + words.folded[at + 1]
                found |= {pair} if len(pair) == 2 and not _HIRAGANA.search(pair) else set()
        return frozenset(found)

    @cached_property
    def numbers(self) -> tuple[str, ...]:
        """The numbers in it as they are written, without those of a date in brackets."""
        return tuple(_NUMBER.findall(BRACKETED_DATE.sub("", self.text)))

    @property
    def figures(self) -> frozenset[str]:
        return frozenset(map(_plain, self.numbers)) or self.content

    @property
    def has_figure(self) -> bool:
        """Tell whether it has a value, or a figure or code that may take the place of another."""
        return self.value is not None or len(self.numbers) == 1 or bool(self.codes)

    @cached_property
    def codes(self) -> frozenset[str]:
        """The identifiers in it that name one thing."""
        return find_codes(self.text)

    @cached_property
    def units(self) -> frozenset[str]:
        """The words and marks around its numbers, by which two figures are of one sort."""
        found = {mark for mark in "#@%$\u20ac\u00a3" if mark in self.text}
        for at, word in enumerate(self.words.folded):
            if word[0].isdigit():
                near = (*self.words.folded[at - 1 : at], *self.words.folded[at + 1 : at + 2])
                found |= {stem_word(one) for one in near if one[0].isalpha() and not self.is_function(one)}
                found |= {word.lstrip("0123456789")} - {""}
        return frozenset(found)

    @property
    def start(self) -> int:
        """Where it begins in its text, after what only leads to it."""
        at = self.lead_end
        start = self.words.start(at) if at else 0
        # A quotation mark or a bracket before the first word belongs to it.
        return start - 1 if start and self.text[start - 1] in _OPENING_MARKS else start

    @property
    def lead_end(self) -> int:
        """The first word after what only leads to it."""
        at = 0
        while self.has_in((at,), "lead") or (at and self.words.folded[at : at + 1] in ((",",), (":",))):
            at += 1
        return at if at < len(self.words) else 0

    @property
    def points_back(self) -> bool:
        """Tell whether it does not say itself what it is about."""
        return self.has_in(self.part(self.lead_end), "pointing")

    @property
    def cuts(self) -> list[tuple[int, int]]:
        """Where it may be cut: the end of a part, before a comma or a conjunction, and the next beginning."""
        start, folded = self.words.start, self.words.folded
        marks = [
            edge - 1 for edge in self.edges if 0 < edge < len(folded) and not self.has_in((edge - 1,), "none")
        ]
        return [(start(at), start(at + (folded[at] in ",:"))) for at in marks[:MAX_CUTS]]

    def before(self, name: str) -> str:
        """The text before the first part that a phrase of this meaning begins; all of it without one."""
        begins = {self.words.start(part.start) for part in self.parts_with(name)}
        return next((self.text[:end].rstrip(" ,") for end, at in self.cuts if at in begins), self.text)

    @cached_property
    def value(self) -> StatedValue | None:
        """The value that it states, of an attribute of a table."""
        return next((found for one in self.attributes if (found := self._read_value(*one))), None)

    def _read_value(self, attribute: str, first: int, last: int) -> StatedValue | None:
        folded, part = self.words.folded, self.part(first)
        end = len(folded) if folded[last + 1 : last + 2] == (":",) else part.stop
        is_own = self.has_in(range(max(first - MAX_OWNER_WORDS, part.start), last + 1), "own", "has")
        is_stated = False
        for at in range(last + 1, min(last + 1 + MAX_VALUE_DISTANCE, end)):
            is_name = not is_stated and self.has_in(range(at + 1, min(at + 4, end)), "is")
            # "Case 5:" and "order 5521377" name the thing, and state nothing of it.
            is_name = is_name or (at == last + 1 and self._is_label(at))
            if self._is_figure(at, attribute) and not is_name:
                # "The budget of the trip falls to 900": what follows at once is the verb.
                after = [one for one in range(last + 2, at) if self.is_function(folded[one - 1])]
                owner = self._owner(part.start, first).union(
                    *(self.content_of(range(n, n + 1)) for n in after)
                )
                owner |= set(filter(str.isdigit, folded[part.start : at]))
                return StatedValue(attribute, owner, at, is_own)
            is_stated = is_stated or folded[at] == ":" or self.has_in((at,), "is", "change")
            # What follows is about something else, unless the value is still to come: "of the trip is".
            is_over = not is_stated and not self.meanings.get(at) and not self.is_function(folded[at])
            if folded[at] == "," or (is_over and not self.has_in(range(at, at + 5), "is", "change")):
                break
        for at in range(first - 1, max(first - 1 - MAX_FIGURE_DISTANCE, part.start - 1), -1):
            if at < first - 2 and not self.is_function(folded[at + 2]):
                break
            near = range(max(at - MAX_FIGURE_DISTANCE, 0), last + 1 + MAX_FIGURE_DISTANCE)
            if folded[at][0].isdigit() and self.has_in(near, "is", "change", "has"):
                return StatedValue(attribute, self._owner(part.start, at), at, is_own)
        return None

    def _is_label(self, at: int) -> bool:
        """Tell whether a figure is the number by which a thing is known."""
        number, following = self.words.folded[at], self.words.folded[at + 1 : at + 2]
        return following == (":",) or (number.isdigit() and len(number) > MAX_VALUE_DIGITS)

    def _owner(self, start: int, end: int) -> frozenset[str]:
        """The words that say whose an attribute is: those between its article and itself."""
        articles = (at + 1 for at in range(start, end) if self.is_subject(self.words.folded[at]))
        return self.content_of(range(max(articles, default=max(start, end - MAX_OWNER_WORDS)), end))

    def _is_figure(self, at: int, attribute: str) -> bool:
        start = self.words.start(at)
        said, token = self.text[start : self.words.end(at)], self.text[start : start + 60].split()[0]
        if any(map(str.isdigit, said)) or "@" in token or self.has_in((at,), "date", "number"):
            return True
        is_plain = self.is_function(self.words.folded[at]) or bool(self.meanings.get(at))
        return attribute in NAMED_ATTRIBUTES and not is_plain and said[0].isalpha() and not said[0].islower()


def read_statement(text: str, languages: Sequence[str] = ()) -> Statement:
    """Read a clause in the languages that it may be in."""
    words = split_words(text)
    codes = tuple(languages) or find_languages(words.folded, text)
    quoted = {at for match in _QUOTATION.finditer(text) for at in range(*match.span())}
    cues: dict[str, int] = {}
    meanings: dict[int, set[str]] = {}
    attributes: list[tuple[str, int, int]] = []
    edges = _find_edges(words, codes)
    found = {code: list(load_language(code).phrases["facts"].find(words)) for code in codes}
    # An idiom of one language is no cue of another that the text may be in, too.
    idioms = {match.first for one in found.values() for match in one if "none" in match.meanings}
    for code in codes:
        lead = 0
        for match in found[code]:
            names = match.meanings if match.first not in idioms else ("none",)
            for meaning in ("report",) if words.start(match.first) in quoted else names:
                name = meaning.removeprefix(START_MARK)
                is_late = match.first > lead if meaning == ASKS else match.first not in edges
                if meaning != name and is_late:
                    continue
                cues.setdefault(name, match.first)
                for at in range(match.first, match.last + 1):
                    meanings.setdefault(at, set()).add(name)
                if name == "lead" and match.first in edges:
                    following = match.last + 1
                    while following < len(words) and words.folded[following] in ",:":
                        following += 1
                    edges.add(following)
                    lead = following if match.first <= lead else lead
        for match in load_language(code).phrases["attributes"].find(words):
            if words.start(match.first) not in quoted:
                own = words.folded[match.first]
                attributes += [
                    (own if one == EACH else one, match.first, match.last) for one in match.meanings
                ]
    return Statement(text, words, codes, cues, attributes, meanings, sorted(edges))


def _find_edges(words: Words, languages: Sequence[str]) -> set[int]:
    """Where a part of a clause begins: after a comma, a colon, a dash, a bracket or a conjunction."""
    tables = [load_language(code).phrases["cues"].meanings for code in languages]
    joining = {
        at
        for table in tables
        for at, word in enumerate(words.folded, 1)
        if "conjunction" in table.get(word, ())
    }
    text, found = words.text, {0}
    for at, ((start, end), (following, _)) in enumerate(pairwise(words.spans), 1):
        word = words.folded[at - 1]
        is_mark = word in ",:" and not _INSIDE_NUMBER.match(text, max(start - 1, 0))
        is_mark = is_mark or (text[end:following] != " " and bool(_EDGE.search(text, end, following)))
        # As it is written: without accents, a verb may look like a conjunction ("é" and "e").
        if is_mark or (at in joining and text[start:end].lower() == word):
            found.add(at)
    return found


def read_languages(text: str, before: tuple[str, ...] = ()) -> tuple[str, ...]:
    """The languages of a message; those of the messages before it, if it is too short to tell."""
    words = split_words(text)
    found = find_languages(words.folded, text)
    if words and is_unspaced(words.folded[0]):
        return found if UNSPACED_LANGUAGES & set(found) else before or tuple(sorted(UNSPACED_LANGUAGES))
    if before and len(words) < MIN_LANGUAGE_WORDS // 2:
        return before
    if before and len(words) < MIN_LANGUAGE_WORDS:
        return tuple(dict.fromkeys((*before, *found)))
    return tuple(code for code in found if code in before) or found


def stem_word(word: str) -> str:
    """A word in the form in which it is compared."""
    plain = word.partition("'")[0] if word.endswith("'s") else word.rpartition("'")[2]
    return stemmer.stem_word(plain)[:STEM_LENGTH]


def _plain(number: str) -> str:
    return number.replace(",", "").replace(".", "")


def find_codes(text: str) -> frozenset[str]:
    """Identifiers that name one thing: a booking code, a commit, a path, the number of a pull request."""
    found = {ticket.lstrip("#") for ticket in _TICKET.findall(text)}
    for word in identifiers(text):
        digits, letters = sum(map(str.isdigit, word)), sum(map(str.isalpha, word))
        if " " not in word and ((digits and letters and len(word) > 3) or "/" in word[1:] or digits > 4):
            # A path or an address is also known by its last part.
            tail = word.rstrip("/").rpartition("/")[2]
            found |= {word, tail} if any(map(str.isdigit, tail)) or "." in tail else {word}
    return frozenset(found)


def is_same_value(one: Statement, other: Statement) -> bool:
    """Tell whether two statements give a value to the same attribute of the same thing."""
    if one.value is None or other.value is None or one.value.attribute != other.value.attribute:
        return False
    mine, others = one.value.owner, other.value.owner
    # The size of one thing is not the size of another; "now" may leave out whose it is.
    is_same = mine == others or bool(mine and others) or one.has("change", "shift")
    return is_same and (mine <= others or others <= mine) and owner_codes(one) == owner_codes(other)


def is_changed_value(one: Statement, other: Statement) -> bool:
    """Tell whether a statement that names an attribute and one figure means the value that another states."""
    if one.value and other.value and one.value.attribute == other.value.attribute:
        return is_same_value(one, other)
    if (len(one.numbers) != 1 and not one.codes) or (other.numbers and not one.numbers):
        return False
    # A long sentence that does not say so seldom means it.
    if len(one.content) > MAX_CHANGE_CONTENT and not one.has("change", "shift"):
        return False
    if other.value is None:
        return _is_same_change(one, other)
    attribute = other.value.attribute
    is_named = attribute in one.content or any(attribute == name for name, _, _ in one.attributes)
    if not is_named and one.has("change"):
        # "Set the memory to 160 MB" does not mean the size of an image.
        owner = other.value.owner or other.content - {attribute}
        is_named = bool(one.content & owner - one.units - set(map(_plain, other.numbers)))
    is_alike = is_named and (not other.units or bool(one.units & other.units))
    return is_alike and owner_codes(other) <= one.codes


def _is_same_change(one: Statement, other: Statement) -> bool:
    """Tell whether two changes without an attribute are of one thing: "I can approve up to 75"."""
    mine, others = (each.content - set(map(_plain, each.numbers)) for each in (one, other))
    shared = len(mine & others) >= MIN_SHARED * min(len(mine), len(others))
    return bool(mine & others) and shared and one.has("shift") and other.has("shift")


def owner_codes(statement: Statement) -> frozenset[str]:
    """The codes that name the thing which has the value, not the value itself."""
    start = statement.words.start(statement.value.first) if statement.value else 0
    ends = {code: statement.text.find(code) + len(code) for code in statement.codes}
    return frozenset(code for code, end in ends.items() if len(code) <= end <= start)
