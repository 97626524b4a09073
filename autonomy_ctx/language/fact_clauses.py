"""A clause as the rules for facts read it: its cues, what it is about, and what it gives a value to."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache, cached_property, lru_cache
from itertools import pairwise

from autonomy_ctx._lazy import lazy_pattern
from autonomy_ctx.language import fact_cues, fact_words
from autonomy_ctx.language.fact import MAX_FACT_CHARACTERS
from autonomy_ctx.language.identifiers import identifiers
from autonomy_ctx.language.phrases import PhraseMatch, PhraseTable, Words, split_phrases, split_words
from autonomy_ctx.language.tables import month_words, stop_words
from autonomy_ctx.language.words import fold_text, is_unspaced
from autonomy_ctx.messages.text_cache import TextCache, word_cache

_QUOTATION = lazy_pattern(
    '"[^"\\n]{1,300}"|\u300c[^\u300d\\n]{1,300}\u300d|\u201c[^\u201d\\n]{1,300}\u201d|`[^`\\n]{1,300}`|\u00ab[^\u00bb\\n]{1,300}\u00bb|\u201e[^\u201c\\n]{1,300}\u201c'
)
BRACKETED_DATE = lazy_pattern(r" \([^()\n]{0,40}\d{4}\)")
# "hochgeladen" is "hochladen" in the past, "eingereicht" is "einreichen".
GERMAN_PAST = lazy_pattern(
    r"(ab|an|auf|aus|bei|durch|ein|fest|fort|her|heraus|hin|hoch|los|mit|nach|um|unter|vor|weg|weiter|zu|zuruck"
    r"|zusammen)?ge(\w{3,20}?)(?:en|et|t)"
)
_PAST_ENDINGS = tuple(fact_words.PAST_ENDINGS.split())
_PARTICIPLE_ENDINGS = ("ado", "ada", "ido", "ida", "ados", "adas", "idos", "idas")  # Spanish, Portuguese
_INFINITIVE_ENDINGS = ("ar", "er", "ir")
_ELISION = lazy_pattern(r"^(?:[ldnjmtsc]|qu)'(?=\w)")
# The endings of Japanese words, which say nothing of what they are about.
_HIRAGANA = lazy_pattern("[\u3041-\u309f]")
_NUMBER = lazy_pattern(r"\d++(?:[.,:]\d++)*+")
_NUMBERED_THING = lazy_pattern(
    r"([^\W\d_]{2,40}+)[ #]{1,2}(\d{1,12})(?![\w%]|[.,:/-]\d|\. \w)(?: ?([^\W\d_]{1,40}))?"
)
_COLOUR = lazy_pattern(r"#[0-9A-Fa-f]{6}\b")
_TICKET = lazy_pattern(r"#\d{1,9}\b")
_JOINTS = frozenset(
    ("=to", "=at", "=is", "=of", "=auf", "=a", "=von", "=de", "=en", "=um", "=for", "=and", "=by")
)
_OWN_CUES = frozenset(("rule", "preference", "decision", "open", "due", "wish", "goal"))
_COVERING_CUES = _OWN_CUES | {"change", "withdraw", "accept"}
MAX_CUTS = 8
MAX_CACHED_WORDS = 4096
MAX_CACHED_CLAUSES = 2048
MAX_CACHED_CUES = 512
MAX_VALUE_WORDS = 12
MAX_VALUE_CHARACTERS = 60
MAX_NOW_WORDS = 16  # in an assistant's sentence about the present
STEM_LENGTH = 6
MAX_SUBJECT_WORDS = 7
MAX_OPENING_WORDS = 6  # before a question: "quick one:", "by the way,"


@dataclass(frozen=True, slots=True)
class _Cue:
    """A meaning of a phrase, and whether it must begin a clause to have it."""

    name: str
    at_start: bool


@dataclass(frozen=True, slots=True)
class Subject:
    """The owner of a value: the words that name it, and the known attribute among them if there is one."""

    words: frozenset[str]
    attribute: str


@dataclass(frozen=True)
class Clause:
    """A clause with its words, its cues and, if it gives something a value, what that is."""

    text: str
    words: Words
    cues: frozenset[str]
    covered: tuple[int, ...]  # the words of its cues, by index

    def has(self, *names: str) -> bool:
        """Tell whether it has one of these cues."""
        return any(name in self.cues for name in names)

    @cached_property
    def content(self) -> frozenset[str]:
        """The words that say what it is about, in the form in which they are compared."""
        return _content(self.text, self.words, self.covered)

    @cached_property
    def subject(self) -> Subject | None:
        """The subject that it gives a value to."""
        return _subject(self.text, self.words)

    @cached_property
    def verbs(self) -> frozenset[str]:
        """Its words as verbs, in the form in which they are compared with those in the past."""
        return frozenset(stem for word in self.words.folded for stem in _verb_stems(word))

    @cached_property
    def past_verbs(self) -> frozenset[str]:
        """The verbs that it has in the past: "booked" reports what "book" leaves open."""
        return frozenset(stem for word in self.words.folded for stem in _past_stems(word))

    @cached_property
    def quantities(self) -> frozenset[str]:
        """The things it counts or measures: "guests" of "96 guests", "date", the name before a version."""
        return _quantities(self.text, self.words)

    @cached_property
    def numbers(self) -> tuple[str, ...]:
        """The numbers in it as they are written, without those of a date in brackets."""
        return tuple(find_numbers(self.text))

    @cached_property
    def codes(self) -> frozenset[str]:
        """The identifiers in it that name one thing."""
        return find_codes(self.text)

    @cached_property
    def named_codes(self) -> frozenset[str]:
        """The codes that name what a figure is about: "ORD-4711" of "Order ORD-4711 costs 61 euros"."""
        return frozenset(code for code in self.codes if code[0].isalpha() and "." not in code)

    @cached_property
    def numbered_things(self) -> dict[str, set[str]]:
        """Things that it names by a word and a number, by the word: "1149" of "refund order 1149, 45 EUR"."""
        found: dict[str, set[str]] = {}
        for match in _NUMBERED_THING.finditer(fold_text(self.text)):
            word, number, following = match.groups()
            # What follows is mostly what a figure counts: "we expect 40 visitors".
            is_counted = following and following not in _ignored_words()
            if word not in month_words() | _ignored_words() and not is_counted:
                found.setdefault(stem_word(word), set()).add(number)
        return found

    @cached_property
    def concepts(self) -> frozenset[str]:
        """Its content, with one word for all that mean the same."""
        names = _concept_names()
        return frozenset(names.get(word, word) for word in self.content)


@cache
def _cue_table() -> PhraseTable[frozenset[_Cue]]:
    rows: dict[str, set[_Cue]] = {}
    for name, phrases in fact_cues.FACT_CUES.items():
        for phrase in split_phrases(phrases):
            rows.setdefault(fold_text(phrase.lstrip("^")), set()).add(_Cue(name, phrase.startswith("^")))
    return PhraseTable((phrase, frozenset(found)) for phrase, found in rows.items())


def phrase_table(phrases: str) -> PhraseTable[str]:
    return PhraseTable((phrase, fold_text(phrase)) for phrase in split_phrases(phrases))


@cache
def cue_table(name: str) -> PhraseTable[str]:
    """A table of phrases without further meaning, by its name in `fact_words`."""
    return phrase_table(getattr(fact_words, name))


@cache
def word_set(name: str) -> frozenset[str]:
    """The words of a table of single words, as they are compared."""
    table: str = getattr(fact_words, name)
    return frozenset(word for word in fold_text(table.replace(";", " ")).split())


@cache
def _ignored_words() -> frozenset[str]:
    weak = word_set("WEAK_WORDS") | word_set("COPULAS") | word_set("POSSESSIVES") | word_set("SETTERS")
    weak |= word_set("FUNCTION_WORDS") | word_set("CLAUSE_JOINTS")
    return weak | stop_words() | word_set("SETTER_JOINTS")


@cache
def _irregular_stems() -> dict[str, str]:
    pairs = (pair.partition(":") for pair in fact_words.IRREGULAR_FORMS.split())
    return {form: verb for form, _, verb in pairs}


_clauses: TextCache[Clause] = TextCache(MAX_CACHED_CLAUSES)


def read_clause(text: str) -> Clause:
    """A clause of a message or a fact. Facts hold for many batches, and each compares with them."""
    return _clauses.get_or_make(text, lambda: _read_clause(text))


def _read_clause(text: str) -> Clause:
    words = split_words(text)
    folded = words.folded
    quoted = [match.span() for match in _QUOTATION.finditer(text)]
    names: set[str] = set()
    covered: list[int] = []
    is_quoted = any(
        _is_inside(words.starts[match.first], quoted)
        for match in (cue_table("COPULAS").find(text, words) if quoted else ())
    )
    for match in _cue_table().find(text, words):
        if _is_inside(words.starts[match.first], quoted):
            is_quoted = True
            continue
        if _is_foreign(folded, match):
            continue
        found = {cue.name for cue in match.value if not cue.at_start or _begins_clause(folded, match.first)}
        if found & {"rule", "preference"} and match.last + 1 < len(folded) and _tells(folded, match):
            found -= {"rule", "preference"}
        if match.first > MAX_OPENING_WORDS or _relates(folded, match.first):
            found.discard("question")
        names |= found
        if found & _COVERING_CUES:
            covered += range(match.first, match.last + 1)
    if is_quoted and not names & _OWN_CUES:
        # What holds is said in the quotation only.
        names.add("report")
    if _is_pair(folded):
        names.add("change")
    return Clause(text, words, _same_cues(frozenset(names)), tuple(covered))


@lru_cache(MAX_CACHED_CUES)
def _same_cues(cues: frozenset[str]) -> frozenset[str]:
    """One object for all clauses that have these cues: there are some hundred sets of cues."""
    return cues


def _relates(words: Sequence[str], index: int) -> bool:
    """Tell whether a question word continues a sentence: "the one, which is blue"."""
    return index > 2 and words[index - 1] == "," and words[index] in word_set("RELATIVE_WORDS")


def _is_inside(start: int, spans: Sequence[tuple[int, int]]) -> bool:
    return any(first <= start < last for first, last in spans)


def _is_foreign(words: Sequence[str], match: PhraseMatch[frozenset[_Cue]]) -> bool:
    """Tell whether a cue of one word is a word of another language here."""
    if match.first != match.last:
        return False
    if words[match.first] == "no" and match.first and words[match.first - 1] != ":":
        # An answer or a part of a sentence: "I asked, no approval needed".
        return True
    companions = fact_words.COMPANIONS.get(words[match.first])
    return companions is not None and not any(word in companions.split() for word in words)


def _tells(words: Sequence[str], match: PhraseMatch[frozenset[_Cue]]) -> bool:
    """Tell whether "never" or "always" tells what happens: "it never worked", "I always forget"."""
    following = words[match.last + 1]
    if words[match.last] not in ("never", "always"):
        return False
    if words[match.first] == "i" or (match.first and words[match.first - 1] == "i"):
        return following not in word_set("CHOICE_VERBS")
    return len(following) > 4 and following.endswith("ed") and not following.endswith("eed")


def _is_pair(words: Sequence[str]) -> bool:
    """Tell whether a clause says "not this but that"."""
    return any(
        first in words and second in words[words.index(first) + 2 : words.index(first) + 8]
        for first, second in _pairs()
    )


@cache
def _pairs() -> tuple[tuple[str, str], ...]:
    return tuple((fold_text(first), fold_text(second)) for first, second in fact_words.CORRECTING_PAIRS)


def _begins_clause(words: Sequence[str], index: int) -> bool:
    if index == 0:
        return True
    before = words[index - 1]
    return before in ",:" or before in word_set("CLAUSE_JOINTS")


def split_clauses(clause: Clause) -> list[Clause]:
    """A sentence as one clause, or as several where each says something of its own."""
    if clause.has("condition", "hypothetical") or not (clause.cues & _OWN_CUES or clause.subject):
        return [clause]
    cuts = [
        (start, following)
        for word, (start, following) in zip(clause.words.folded, pairwise(clause.words.starts), strict=False)
        if word in (",", "and", "but", "und", "aber", "et", "mais", "y", "pero", "e", "mas")
    ]
    made: list[Clause] = []
    start = 0
    for end, following in cuts[:MAX_CUTS]:
        left, right = read_clause(clause.text[start:end].rstrip(" ,")), read_clause(clause.text[following:])
        if (
            _stands_alone(left)
            and _stands_alone(right)
            and (not _own_kinds(left) & _own_kinds(right) or (left.subject and right.subject))
        ):
            made.append(left)
            start = following
    return [*made, read_clause(clause.text[start:])] if made else [clause]


def _own_kinds(clause: Clause) -> frozenset[str]:
    return frozenset("open" if cue == "due" else cue for cue in clause.cues & _OWN_CUES)


def _stands_alone(clause: Clause) -> bool:
    """Tell whether a part of a sentence is a statement by itself."""
    if len(clause.words) < 3:
        return False
    if clause.subject:
        return True
    found = _cue_table().match(clause.text, clause.words, 0)
    second = _cue_table().match(clause.text, clause.words, 1)
    return any(
        match is not None and any(cue.name in _OWN_CUES for cue in match.value) for match in (found, second)
    )


# -- what a clause is about -----------------------------------------------------------------------------


@word_cache(MAX_CACHED_WORDS)
def stem_word(word: str) -> str:
    word = _ELISION.sub("", word, count=1) if "'" in word else word
    word = _irregular_stems().get(word, word).removesuffix("'s")
    for suffix in ("ing", "ed", "es", "s", "e"):
        if len(word) > len(suffix) + 2 and word.endswith(suffix) and not word.endswith("ss"):
            word = word.removesuffix(suffix)
            break
    return word[:STEM_LENGTH]


@word_cache(MAX_CACHED_WORDS)
def is_past_form(word: str) -> bool:
    """Tell whether a word looks like a verb in the past, or like a participle."""
    if word in _irregular_stems() or (len(word) > 4 and word.endswith(_PAST_ENDINGS)):
        return True
    return len(word) > 5 and GERMAN_PAST.fullmatch(word) is not None


@word_cache(MAX_CACHED_WORDS)
def _past_stems(word: str) -> tuple[str, ...]:
    found: list[str] = []
    if word in _irregular_stems() or (len(word) > 4 and word.endswith(_PAST_ENDINGS)):
        found.append(stem_word(word))
    if len(word) > 5 and word.endswith(_PARTICIPLE_ENDINGS):
        found.append("~" + word[: -4 if word.endswith("s") else -3][:5])
    if len(word) > 6 and (german := GERMAN_PAST.fullmatch(word)):
        found.append(stem_word((german[1] or "") + german[2]))
    return tuple(found)


def _verb_stems(word: str) -> tuple[str, ...]:
    """A word as a verb: "pedir" also as "~ped", which "pedido" is the past of."""
    if len(word) > 4 and word.endswith(_INFINITIVE_ENDINGS):
        return stem_word(word), "~" + word[:-2][:5]
    return (stem_word(word),)


def content_words(text: str) -> frozenset[str]:
    """The words that say what a text is about, and its numbers, in the form in which they are compared."""
    return _content(text, split_words(text))


def _content(text: str, words: Words, covered: Sequence[int] = ()) -> frozenset[str]:
    """The words that say what a clause is about, in the form in which they are compared."""
    found: set[str] = set()
    for index, word in enumerate(words.folded):
        if index in covered or word in _ignored_words() or word in ",:#":
            continue
        if is_unspaced(word):
            following = index + 1
            is_next = following < len(words) and words.starts[following] == words.ends[index]
            if is_next and is_unspaced(words.folded[following]):
                pair = word + words.folded[following]
                found |= set() if _HIRAGANA.search(pair) else {pair}
        elif not word.isdigit() and len(word) > 1:
            found.add(stem_word(word))
    return frozenset(found) | {_plain_number(number) for number in find_numbers(text)}


def _subject(text: str, words: Words) -> Subject | None:
    """Find the subject that gets a value: "the port is 8081", "set the timeout to 45 seconds"."""
    folded = words.folded
    for match in cue_table("COPULAS").find(text, words):
        start = max((at + 1 for at in range(match.first) if _divides(folded[at])), default=0)
        if found := _read_subject(text, words, start, match.first, match.last + 1):
            return found
        break
    for match in cue_table("SETTERS").find(text, words):
        if not _begins_clause(folded, match.first) and match.first > 2:
            continue
        ends = [at for at in range(match.last + 1, len(folded)) if folded[at] in word_set("SETTER_JOINTS")]
        if ends:
            return _read_subject(text, words, match.last + 1, ends[0], ends[0] + 1, is_set=True)
    for match in cue_table("ATTRIBUTES").find(text, words):
        # "Customer number 4471-882": the value follows at once.
        if match.last + 1 < len(words) and _starts_with_code(text, words, match.last + 1):
            start = match.first
            while start and not _divides(folded[start - 1]):
                start -= 1
            if match.last - start < 4:
                return _read_subject(text, words, start, match.last + 1, match.last + 1)
    colon = next((at for at, word in enumerate(folded[:5]) if word == ":"), None)
    return _read_subject(text, words, 0, colon, colon + 1, is_label=True) if colon else None


def _read_subject(
    text: str,
    words: Words,
    start: int,
    end: int,
    value: int,
    *,
    is_set: bool = False,
    is_label: bool = False,
) -> Subject | None:
    named = words.part(start, end)
    most = MAX_SUBJECT_WORDS * (3 if named and is_unspaced(named.folded[0]) else 1)
    if not 0 < len(named) <= most or value >= len(words) or not has_value(text, words, value):
        return None
    if any(word in word_set("PRONOUNS") for word in named.folded):
        return None
    head = _head(named.folded)
    attributes = [
        text[words.starts[at.first] : words.ends[at.last]]
        for at in cue_table("ATTRIBUTES").find(text, words)
        if start <= at.first < start + len(head)
    ]
    content = _content(text[named.starts[0] : named.ends[-1]], named)
    if attributes:
        known = stem_word(fold_text(attributes[-1]))
        return Subject(content | {known}, known)
    if is_label or not content:
        return None
    is_read = _is_read_subject(text, words, named.folded, value, is_set)
    return Subject(content, "") if is_read and content else None


def _starts_with_code(text: str, words: Words, at: int) -> bool:
    """Tell whether a number or code ends the clause at once: "Room 3 costs" gives nothing a value."""
    start = words.starts[at]
    if not text[words.ends[at - 1] : start].isspace():
        return False
    following = text[start : start + MAX_VALUE_CHARACTERS].split(" ")
    code = following[0].rstrip(".,;")
    if len(following) > 1 and code == following[0]:
        return False
    return bool(find_codes(code)) or sum(character.isdigit() for character in code) > 2


def _head(named: Sequence[str]) -> Sequence[str]:
    """A subject without what follows a preposition: "budget" of "budget for the trip"."""
    ends = (at for at, word in enumerate(named) if at and word in word_set("SUBJECT_PREPOSITIONS"))
    return named[: next(ends, len(named))]


def _is_read_subject(text: str, words: Words, named: Sequence[str], value: int, is_set: bool) -> bool:
    """Tell whether an unknown attribute has a value: it is the speaker's own, or the value is a code."""
    folded, determiner = words.folded, named[0]
    following = text[words.starts[value] : words.starts[value] + MAX_VALUE_CHARACTERS]
    if determiner in word_set("OWN_POSSESSIVES") or (is_set and determiner in word_set("POSSESSIVES")):
        return any(character.isdigit() for character in following)
    if find_codes(following.partition(",")[0]):
        return True
    if determiner in word_set("POSSESSIVES") and _has_date(folded[value : value + MAX_VALUE_WORDS]):
        return True
    is_long_name = sum(word not in word_set("POSSESSIVES") for word in _head(named)) > 2
    if folded[value] in word_set("APPROXIMATIONS"):
        is_long_name, value = True, min(value + 1, len(folded) - 1)
    return is_long_name and folded[value][0].isdigit()


def _has_date(words: Sequence[str]) -> bool:
    return any(
        (one in month_words() and other[0].isdigit()) or (other in month_words() and one[0].isdigit())
        for one, other in pairwise(words)
    )


def _divides(word: str) -> bool:
    return word in ",:" or word in word_set("CLAUSE_JOINTS") or word in ("because", "that")


def has_value(text: str, words: Words, first: int = 0) -> bool:
    """Tell whether words from one on hold a figure or a name; without capitals any word may be one."""
    for at in range(first, min(first + MAX_VALUE_WORDS, len(words))):
        said = text[words.starts[at] : words.ends[at]]
        if any(character.isdigit() for character in said) or said[0].isupper() or is_unspaced(said):
            return True
        if said[0].isalpha() and not said[0].islower() and not said[0].isupper():
            return True
    if first >= len(words):
        return False
    return bool(identifiers(text[words.starts[first] : words.starts[first] + MAX_FACT_CHARACTERS]))


def is_same_subject(one: Subject, other: Subject) -> bool:
    if one.attribute != other.attribute:
        return False
    return one.words <= other.words or other.words <= one.words


def names_another(clause: Clause, other: Clause) -> bool:
    """Tell whether two clauses name different things of one kind: "order 1149" and "order 1155"."""
    # "The contact is now Ada, extension 12" gives a value to one thing.
    is_same = clause.subject and other.subject and is_same_subject(clause.subject, other.subject)
    if is_same and assigns_value(clause):
        return False
    if clause.named_codes and other.named_codes and clause.named_codes.isdisjoint(other.named_codes):
        return True
    things, others = clause.numbered_things, other.numbered_things
    return any(things[word].isdisjoint(others[word]) for word in things.keys() & others)


def assigns_value(clause: Clause) -> bool:
    """Tell whether a verb stands between what has a value and the value: "is", "set ... to"."""
    return any(next(cue_table(name).find(clause.text, clause.words), None) for name in ("COPULAS", "SETTERS"))


def shares_subject(clause: Clause, other: Clause) -> bool:
    """Tell whether two clauses share a word of their subject, not only a figure, a unit or a month."""
    about = clause.concepts & other.concepts - _month_stems() - _common_units()
    return any(not word.isdigit() for word in about)


def old_value(clause: Clause) -> frozenset[str]:
    """The words for the value that a correction names as the old one."""
    words = clause.words
    for match in cue_table("OLD_VALUE_CUES").find(clause.text, words):
        first = match.last + 1
        named = words.folded[first : first + 6]
        ends = word_set("CLAUSE_JOINTS") | word_set("SETTER_JOINTS") | {",", "sondern", "sino", "use"}
        named = named[: next((at for at, word in enumerate(named) if word in ends), len(named))]
        if named:
            text = clause.text[words.starts[first] : words.ends[first + len(named) - 1]]
            # Without places: what stands between two of them does not matter.
            nowhere = (0,) * len(named)
            if found := _content(text, Words(named, nowhere, nowhere)):
                return found
    return frozenset()


def names_attribute(clause: Clause) -> bool:
    """Tell whether a clause names something that has a value: a deadline, a price."""
    return next(cue_table("ATTRIBUTES").find(clause.text, clause.words), None) is not None


def shared_part(clause: frozenset[str], known: frozenset[str]) -> float:
    """The share of a known fact that a clause is about; 0 where most of the clause is about other things."""
    shared = len(clause & known)
    return 0.0 if not known or shared * 3 < len(clause) else shared / len(known)


def find_numbers(text: str) -> list[str]:
    return _NUMBER.findall(BRACKETED_DATE.sub("", text))


def _plain_number(number: str) -> str:
    return number.replace(",", "").replace(".", "")


def _quantities(text: str, words: Words) -> frozenset[str]:
    folded, starts = words.folded, words.starts
    found: set[str] = set()
    if "@" in text:
        found.add("mail")
    if _COLOUR.search(text):
        found.add("colour")
    ends = {match.end(): match.start() for match in _NUMBER.finditer(text)}
    for index, (word, start, end) in enumerate(zip(folded, starts, words.ends, strict=True)):
        is_word = word in word_set("NUMBER_WORDS")
        if not is_word and end not in ends:
            continue
        first = (
            index if is_word else next((at for at in range(index, -1, -1) if starts[at] <= ends[end]), index)
        )
        after = folded[index + 1] if index + 1 < len(folded) else ""
        before = folded[first - 1] if first else ""
        # "12 May", "May 12", "12 de mayo", "the 12th of May".
        later = folded[index + 2] if index + 2 < len(folded) else ""
        is_month = before in month_words() or after in month_words()
        is_month = is_month or (after in ("de", "of") and later in month_words())
        if is_month or text.startswith("\u6708", end):
            found.add("date")
        elif after in ("am", "pm", "uhr") or text[start - 1 : start] == ":":
            found.add("time")
        elif after.isalpha() and text[end : starts[index + 1]].strip(" -") == "":
            found.add(stem_word(after))
        if before.isalpha() and not is_word:
            found.add("=" + stem_word(before))
    return frozenset(found)


def is_same_quantity(one: Clause, other: Clause) -> bool:
    """Tell whether two clauses say how many, how much or when of the same thing."""
    mine, others = one.quantities, other.quantities
    shared = mine & others
    if not shared or ((label := _label(one)) and label != _label(other)):
        return False
    if names_another(one, other):
        return False
    common = _common_units()
    own = (unit for unit in shared if not unit.startswith("=") and unit not in common | _ignored_words())
    # "Go 1.21" and "Go 1.23" are versions of one thing.
    is_version = all(any("." in number for number in clause.numbers) for clause in (one, other))
    if is_version and any(unit.startswith("=") and unit not in _JOINTS for unit in shared):
        return True
    about = one.concepts & other.concepts - _month_stems()
    about -= {_plain_number(number) for number in (*one.numbers, *other.numbers)}
    about -= {unit.lstrip("=") for unit in mine | others} & common
    return any(own) or bool(about)


@cache
def _common_units() -> frozenset[str]:
    """Units of so many things that they alone do not tell which."""
    units = frozenset(stem_word(unit) for unit in word_set("COMMON_UNITS"))
    return units | {"date", "time", "mail", "colour"}


@cache
def _month_stems() -> frozenset[str]:
    return frozenset(stem_word(month) for month in month_words())


def is_numbered(clause: Clause) -> bool:
    """Tell whether a clause is about one of many things: "Room 1 costs 61 euros"."""
    words = clause.words.folded
    return len(words) > 1 and words[1].isdigit() and len(clause.numbers) > 1


def _label(clause: Clause) -> str:
    """The number that names a thing of many: "1" of "Room 1 costs 61"; empty if there is none."""
    return clause.words.folded[1] if is_numbered(clause) else ""


@cache
def _concept_names() -> dict[str, str]:
    return {
        stem_word(word): stem_word(group.split()[0])
        for group in fact_words.CONCEPTS
        for word in group.split()
    }


def is_arranged(clause: Clause) -> bool:
    """Tell whether an assistant says when or for how much something is that it arranged."""
    return (
        clause.subject is not None
        and clause.subject.attribute in _reported_attributes()
        and bool(clause.numbers)
    )


@cache
def _reported_attributes() -> frozenset[str]:
    return frozenset(stem_word(word) for word in word_set("REPORTED_ATTRIBUTES"))


def assigns_purpose(clause: Clause) -> bool:
    """Tell whether something is chosen for a purpose or instead of another: "use APA 7 for citations"."""
    return clause.has("change") or any(word in word_set("PURPOSES") for word in clause.words.folded[2:])


def says_now(clause: Clause) -> bool:
    """Tell whether an assistant says in a few words what a figure is now."""
    is_now = any(word in word_set("NOW_WORDS") for word in clause.words.folded)
    return is_now and len(clause.words) <= MAX_NOW_WORDS and bool(clause.quantities)


def is_about_all(clause: Clause) -> bool:
    """Tell whether a clause is about all cases or none: "plan nothing for which the dog must stay alone"."""
    return any(word in word_set("RULING_WORDS") for word in clause.words.folded)


def is_own(clause: Clause) -> bool:
    return any(word in word_set("FIRST_PERSON") for word in clause.words.folded[:4])


def number_shape(number: str) -> str:
    return "".join(character for character in number if not character.isdigit())[:1] + str(len(number) > 2)


def find_codes(text: str) -> frozenset[str]:
    """Identifiers that name one thing: a booking code, a commit, a path, the number of a pull request."""
    found = {ticket.lstrip("#") for ticket in _TICKET.findall(text)}
    for word in identifiers(text):
        digits = sum(character.isdigit() for character in word)
        letters = sum(character.isalpha() for character in word)
        if " " not in word and ((digits and letters and len(word) > 3) or "/" in word[1:] or digits > 4):
            found.add(word)
            # A path or an address is also known by its last part.
            tail = word.rstrip("/").rpartition("/")[2]
            found |= {tail} if any(character.isdigit() for character in tail) or "." in tail else set()
    return frozenset(found)
