"""Divides a text into sentences that can stand alone, and a sentence into clauses that may be left out.

A quotation may leave out, but it must not alter. So a sentence is shown whole, or with "[...]" in place of
whole clauses; a clause that denies something or names a condition is never among those left out. A sentence
that restricts the one before it ("But only on Fridays.") and the items under a heading ("Never:") are not
separated from what they belong to. Every pattern takes linear time.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

from autonomy_ctx._lazy import lazy_pattern
from autonomy_ctx.language.cues import (
    ABBREVIATIONS,
    CLAUSE_START_CUES,
    CONDITION_CUES,
    CONJUNCTION_CUES,
    NEGATION_CUES,
    RESTRICTION_CUES,
    CueTable,
)
from autonomy_ctx.language.identifiers import identifiers
from autonomy_ctx.messages.clamp import CountText

OMISSION = "[...]"
MIN_CLAUSE_LENGTH = 12  # characters; what is shorter stays with the clause before it
MAX_LINE_LENGTH = 300  # characters; a longer line of a tool is divided into sentences or records
MAX_JOINED_LENGTH = 1200  # characters of a sentence over several lines
MAX_CLAUSES_READ, MAX_CLAUSES_TRIED = 400, 40

_UNSPACED_LANGUAGES = ("ja", "zh")
_MARKS = '.,;:!?\u00a1\u00bf()[]{}<>"`*|=\u2026\u2014\u2013\u061f\u060c«»“”„。、，！？：；'  # noqa: RUF001
_PUNCTUATION = str.maketrans(dict.fromkeys(_MARKS, " ") | {"\u2019": "'"})
_SENTENCE_END = lazy_pattern(
    "(?<![.!?\u2026])[.!?\u2026]++[\"')\\]»”\u2019*]{0,3}(?=\\s)"
    "|[。\uff01\uff1f]++[”」』\uff09]{0,2}|[\u061f\u06d4]++"
)
_ABBREVIATIONS = frozenset(ABBREVIATIONS)
_COLONS = (":", "\uff1a")
_LIST_ITEM = lazy_pattern(r"\s{0,12}(?:[-*\u2022\u2013]|\(?\d{1,3}[.)]|[a-z][.)])\s")
_RECORD_END = lazy_pattern(r"(?<=[}\]]),\s{0,4}")


@dataclass(frozen=True, slots=True)
class WordView:
    """The words of a text, read once for any number of cues."""

    text: str
    words: tuple[str, ...]

    @classmethod
    def of(cls, text: str) -> WordView:
        return cls(text, tuple(text.lower().translate(_PUNCTUATION).split()))

    @property
    def joined(self) -> str:
        return f" {' '.join(self.words)} "


class CueFinder:
    """Finds the cues of tables, in all their languages."""

    def __init__(self, *tables: CueTable) -> None:
        spaced, unspaced = set[str](), set[str]()
        for table in tables:
            for language, cues in table.items():
                (unspaced if language in _UNSPACED_LANGUAGES else spaced).update(cues)
        self._words = frozenset(cue for cue in spaced if " " not in cue)
        self._phrases = tuple(sorted(f" {cue} " for cue in spaced if " " in cue))
        self._unspaced = tuple(sorted(unspaced))
        self._all = frozenset(spaced | unspaced)

    def matches(self, view: WordView) -> bool:
        """Tell whether a cue stands anywhere in the text."""
        if not self._words.isdisjoint(view.words):
            return True
        if not view.text.isascii() and any(cue in view.text for cue in self._unspaced):
            return True
        joined = view.joined
        return any(phrase in joined for phrase in self._phrases)

    def starts(self, view: WordView) -> bool:
        """Tell whether the text begins with a cue."""
        first = view.words[:1]
        if first and first[0] in self._words:
            return True
        joined = f" {' '.join(view.words[:5])} "
        return joined.startswith(self._phrases) or bool(first and first[0].startswith(self._unspaced))

    def covers(self, view: WordView) -> bool:
        """Tell whether the text consists of cues and of nothing else."""
        at, words = 0, view.words
        while at < len(words):
            for length in (4, 3, 2, 1):
                some = words[at : at + length]
                if len(some) == length and " ".join(some) in self._all:
                    at += length
                    break
            else:
                return False
        return bool(words)


_BINDING = CueFinder(NEGATION_CUES, CONDITION_CUES)
_RESTRICTION = CueFinder(RESTRICTION_CUES)


def is_binding(text: str) -> bool:
    """Tell whether a text denies something or names a condition."""
    return _BINDING.matches(WordView.of(text))


def clean(text: str) -> str:
    """A text on one line."""
    return " ".join(text.split())


# -- sentences ----------------------------------------------------------------------------------------


def split_prose(text: str) -> Iterator[str]:
    """The sentences of a text, each with the parts that it needs to be understood.

    An empty one separates two lines, whose sentences are not neighbours.
    """
    for block in _join_lines(text.splitlines()):
        if _has_heading(block):
            yield block
        else:
            yield from _join_restrictions(_split_sentences(block))
        yield ""


def split_output(text: str) -> Iterator[str]:
    """The lines of what a program printed; a long line in its records or sentences."""
    for line in text.splitlines():
        if len(line) <= MAX_LINE_LENGTH and not line.startswith(("[{", '{"')):
            yield line
        elif line.lstrip().startswith(("{", "[")):
            yield from _split_at(line, (match.end() for match in _RECORD_END.finditer(line)))
        else:
            yield from _join_restrictions(_split_sentences(line))


def _join_lines(lines: Sequence[str]) -> Iterator[str]:
    """Lines, but a sentence over several as one block, and a heading with what it announces."""
    block, is_heading, is_code, gap = "", False, False, False
    for line in lines:
        if line.lstrip().startswith("```"):
            is_code = not is_code
        if is_heading and not line.strip():
            gap = True
            continue
        if is_heading:
            joins = bool(_LIST_ITEM.match(line)) or not gap
        else:
            joins = len(block) + len(line) <= MAX_JOINED_LENGTH and _goes_on(block, line)
        if block and joins and not is_code:
            block += "\n" + line
            continue
        if block:
            yield block
        block, gap = line, False
        is_heading = not is_code and line.rstrip().endswith(_COLONS)
    if block:
        yield block


def _has_heading(block: str) -> bool:
    """Tell whether its first line announces the others."""
    first, _, others = block.partition("\n")
    return bool(others) and first.rstrip().endswith(_COLONS)


def _goes_on(block: str, line: str) -> bool:
    """Tell whether a line continues the sentence of the one before it."""
    last = block.rstrip()[-1:]
    return line[:1].islower() and (last.isalnum() or last in {",", "-", ")", "'", '"'})


def _split_sentences(text: str) -> Iterator[str]:
    yield from _split_at(
        text,
        (match.end() for match in _SENTENCE_END.finditer(text) if _is_end(text, match.start(), match.end())),
    )


def _is_end(text: str, start: int, end: int) -> bool:
    if text[start:end].strip("\"')]»”’*") != ".":  # noqa: RUF001
        return True
    word = text[max(start - 16, 0) : start].rpartition(" ")[2].rpartition("\n")[2].lstrip("(\"'").lower()
    if (
        word in ABBREVIATIONS
        or (len(word) == 1 and word.isalpha())
        or (word.isdecimal() and len(word) < 3 and int(word) < 32)
    ):
        return False
    if "." in word and all(len(piece) < 2 for piece in word.split(".")):
        return False
    following = text[end : end + 3].lstrip()[:1]
    # Some people write without capitals; then only an ordinary word ends a sentence.
    return not (following.islower() or following.isdecimal()) or (len(word) > 4 and word.isalpha())


def _split_at(text: str, ends: Iterable[int]) -> Iterator[str]:
    start = 0
    for end in ends:
        yield text[start:end]
        start = end
    if start < len(text):
        yield text[start:]


def _join_restrictions(sentences: Iterable[str]) -> Iterator[str]:
    """Sentences, but one that the sentence before it rules over, or that restricts it, together with that."""
    block, is_ruled = "", False
    for sentence in sentences:
        if block and (
            is_ruled or _LIST_ITEM.match(sentence) or _RESTRICTION.starts(WordView.of(sentence[:40]))
        ):
            block += sentence
            continue
        if block:
            yield block
        block = sentence
        heading, colon, _ = sentence.partition(": ")
        is_ruled = bool(colon) and len(heading) < MAX_LINE_LENGTH and is_binding(heading)
    if block:
        yield block


# -- clauses ------------------------------------------------------------------------------------------


def _alternatives(table: CueTable) -> str:
    return "|".join(
        sorted({cue.replace(" ", r"\s") for cues in table.values() for cue in cues}, key=len, reverse=True)
    )


_CLAUSE_BORDER = lazy_pattern(
    r";\s|；|，|[,،]\s(?=(?:" + _alternatives(CONJUNCTION_CUES) + r")\s)"  # noqa: RUF001
    r"|\s[\u2014\u2013]\s|\n|[.!?…]\s"
    r"|\s(?=(?:" + _alternatives(CLAUSE_START_CUES) + r")\s)"
)
_ARGUMENT_BORDER = lazy_pattern(r',\s{0,4}(?="[^"\n]{1,60}"\s?:)')


def split_clauses(sentence: str) -> list[str]:
    """Clauses that make up the sentence when they are put together again."""
    structured = sentence.lstrip().startswith(("{", "["))
    border = _ARGUMENT_BORDER if structured else _CLAUSE_BORDER
    made: list[str] = []
    for clause in _split_at(sentence, (match.end() for match in border.finditer(sentence))):
        if made and (len(clause.strip()) < MIN_CLAUSE_LENGTH or len(made[-1].strip()) < MIN_CLAUSE_LENGTH):
            made[-1] += clause
        else:
            made.append(clause)
    return made


def fit_clauses(sentence: str, tokens: int, count: CountText) -> str | None:
    """The sentence in at most `tokens` tokens by leaving clauses out; None where that would alter it."""
    clauses = split_clauses(sentence)
    if len(clauses) < 2:
        return None
    chosen = {at for at, clause in enumerate(clauses) if is_binding(clause)}
    if _has_heading(sentence):
        chosen.add(0)
    # The first clause says what it is about; one before a condition is what the condition is for.
    weights = {
        at: len(identifiers(clause)) + (at == 0) + 2 * (at + 1 in chosen)
        for at, clause in enumerate(clauses[:MAX_CLAUSES_READ])
        if at not in chosen
    }
    made = _render_clauses(clauses, chosen) if chosen else None
    if made is not None and (len(made) > tokens * 16 or count(made) > tokens):
        return None
    for at in sorted(weights, key=lambda at: (-weights[at], at))[:MAX_CLAUSES_TRIED]:
        more = _render_clauses(clauses, chosen | {at})
        if count(more) <= tokens:
            chosen.add(at)
            made = more
    return made


def _render_clauses(clauses: Sequence[str], chosen: set[int]) -> str:
    pieces: list[str] = []
    for at, clause in enumerate(clauses):
        if at in chosen:
            pieces.append(clause)
        elif not pieces or pieces[-1] != f" {OMISSION} ":
            pieces.append(f" {OMISSION} ")
    return clean("".join(pieces))
