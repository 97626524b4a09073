"""Which identifiers a text has, however they are written.

A record may write 1,200 for 1200, 2 May for 2026-05-02 and app.py for src/app.py: these are the same
identifiers, and `NameIndex` compares them so.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence

from autonomy_ctx._lazy import lazy_pattern
from autonomy_ctx.background import pause
from autonomy_ctx.language.identifiers import THOUSANDS_SEPARATOR, WIDE_CHARACTERS, identifiers, is_identifier
from autonomy_ctx.language.tables import load_index
from autonomy_ctx.language.words import UNSPACED_SCRIPTS, fold_text

# Characters; what is shorter is in too many texts by chance.
MIN_LENGTH = 3
# A day that is meant as "next Friday" lies at most so far from one that is named.
NEAR_DAYS = 14
# Pieces of a name that must stand side by side in a text.
PIECES = 3

_PIECE = lazy_pattern(rf"[^\W_{UNSPACED_SCRIPTS}{WIDE_CHARACTERS}]+")
_SCHEME = lazy_pattern(r"[a-z][a-z0-9+.-]{1,9}://(?:www\.)?")
_ZERO_CENTS = lazy_pattern(r"(?<=\d)[.,]00?(?![\d.,])")
_NUMBER_WITH_UNIT = lazy_pattern(r"[^\w]{0,2}(\d{1,15}(?:[.,]\d{1,6})?)[a-z]{1,4}")
# Counts, shares and ordinals: a record may count what its source lists.
_COUNT = lazy_pattern(r"\W{0,2}\d{1,3}(?:[.,]\d)?\s?[%°]?[a-z]{0,4}\W{0,2}|\d{1,2}[/x:-]\d{1,2}")
_YEAR = lazy_pattern(r"(?:19|20)\d\d")
_CLOSING_TAG = lazy_pattern(r"</[a-z]{1,20}>", re.IGNORECASE)
_DIGIT = lazy_pattern(r"\d")
_LETTERS = lazy_pattern(r"[^\W\d_]+")
_WORD_PAIR = lazy_pattern(r"[^\W\d_]+/[^\W\d_]+")
_GLUED_SENTENCES = lazy_pattern(r"[^\W\d_]*[a-z]\.[A-Z][^\W\d_]*")


def _make_date_pattern() -> str:
    """A day of a month. At most places a look at one character says that none begins there."""
    index = load_index()
    month = rf"(?:{'|'.join(sorted(index.months, key=len, reverse=True))})"
    nth, joints = "|".join(index.ordinal_endings), "|".join(index.date_joints)
    letters = "".join(sorted({name[0] for name in index.months}))
    return (
        r"(?=\d)(?<!\d)(?:\d{4}[-/.](?P<month>\d{1,2})[-/.](?P<day>\d{1,2})(?!\d)"
        r"|(?P<one>\d{1,2})[-/.](?P<other>\d{1,2})[-/.](?:\d{4}|\d\d)?(?!\d)"
        rf"|(?P<before>\d{{1,2}})(?:\.|{nth})? (?:(?:{joints}) )?(?P<month_after>{month})\b"
        r"|(?P<moon>\d{1,2})月(?P<sun>\d{1,2})日)"
        rf"|(?=[{letters}])\b(?P<month_before>{month})\.? (?P<after>\d{{1,2}})(?:{nth})?(?!\d)"
    )


_DATE = lazy_pattern(_make_date_pattern)
_DAYS_BEFORE_MONTH = (0, 0, 31, 59, 90, 120, 151, 181, 212, 243, 273, 304, 334)
DAYS_OF_YEAR = 365


class NameIndex:
    """The identifiers of some texts, to ask whether one is among them.

    `more` are texts that count as well, such as thousands of facts. They are read only if a name is nowhere
    else, because hardly any summary has such a name.
    """

    def __init__(self, *texts: str, more: Sequence[str] = ()) -> None:
        self._text = ""
        self._joined: set[str] = set()
        # Found when a name is a day: most are none.
        self._days: frozenset[tuple[int, int]] | None = None
        self._more = more
        self._read(texts)

    def _read(self, texts: Sequence[str]) -> None:
        folded = [fold_text(text) for text in texts]
        self._text, self._days = "\n".join((self._text, *folded)), None
        # Text by text: the end of one and the beginning of the next are no name together.
        forms = {form for text in folded for form in (text, THOUSANDS_SEPARATOR.sub("", text))}
        for form in forms:
            run = [piece for line in _lines(form) for piece in _PIECE.findall(line)]
            for size in range(1, PIECES + 1):
                pause()
                self._joined.update(map("".join, zip(*(run[at:] for at in range(size)), strict=False)))

    def has(self, name: str) -> bool:
        """Tell whether the texts have this identifier, in this or another usual form."""
        pause()
        name = fold_text(name)
        if self._is_read(name):
            return True
        if not self._more:
            return False
        more, self._more = self._more, ()
        self._read(more)
        return self._is_read(name)

    def _is_read(self, name: str) -> bool:
        if days := set(_days(name)):
            if self._days is None:
                self._days = frozenset(_days(self._text))
            return any(_distance(one, other) <= NEAR_DAYS for one in days for other in self._days)
        # The beginning of a URL alone ("https://") is a name, too.
        name = _SCHEME.sub("", name).strip("/") or name
        return any(map(self._has_pieces, _forms(name))) or self._has_beginning(name)

    def _has_pieces(self, name: str) -> bool:
        pieces = _PIECE.findall(name)
        last = max(len(pieces) - PIECES, 0)
        return bool(pieces) and all(
            "".join(pieces[at : at + PIECES]) in self._joined for at in range(last + 1)
        )

    def _has_beginning(self, name: str) -> bool:
        """Tell whether a longer name begins so: the hash it is short for, or a word with another ending."""
        if _LETTERS.fullmatch(name):
            name = name[:5]
        elif len(name) < 7 or (name[-1:].isdigit() and name.isdigit()):
            return False
        at = self._text.find(name)
        while at > 0 and self._text[at - 1].isalnum():
            at = self._text.find(name, at + len(name))
        return at >= 0


def _lines(text: str) -> Iterator[str]:
    for line in text.splitlines():
        pause()
        yield line


def unknown_names(text: str, known: NameIndex) -> list[str]:
    """The identifiers of a text that others do not have; counts, years and phrases are none."""
    # The tags of a markup are none, either.
    names = identifiers(_CLOSING_TAG.sub(" ", text))
    return [name for name in names if is_key_name(name) and not known.has(name)]


def key_names_of(text: str) -> list[str]:
    """The identifiers of a text that a record of it should have: words and dates, no counts, no years."""
    return list(filter(is_key_name, identifiers(text)))


def is_key_name(name: str) -> bool:
    """Tell whether an identifier is a word or a date: one that a source does not have was made up."""
    folded = fold_text(name)
    if any(_days(folded)):
        return True
    return not (
        len(name) < MIN_LENGTH
        or any(map(str.isspace, name))
        or not is_identifier(name)
        or _COUNT.fullmatch(folded)
        or _YEAR.fullmatch(folded)
        or _WORD_PAIR.fullmatch(folded)
        or _GLUED_SENTENCES.fullmatch(name)
        or not _PIECE.search(folded)
    )


def _forms(name: str) -> Iterator[str]:
    """A name, and the same number without what is only a way to write it."""
    yield name
    plain = _ZERO_CENTS.sub("", THOUSANDS_SEPARATOR.sub("", name))
    yield plain
    if number := _NUMBER_WITH_UNIT.fullmatch(plain):
        yield number[1]
    letters, dash, number_after = plain.replace("#", "-").rpartition("-")
    # "order-1234" for "the order with the number 1234".
    if dash and len(number_after) > 2 and number_after.isdigit() and (not letters or letters.isalpha()):
        yield number_after


def _days(folded: str) -> Iterator[tuple[int, int]]:
    """The days that a text names, as month and day; both where it does not say which is which."""
    for line in _lines(folded):
        if not _DIGIT.search(line):
            continue
        for found in _DATE.finditer(line):
            part = found.groupdict()
            if part["month"]:
                yield from _valid((int(part["month"]),), int(part["day"]))
            elif part["one"]:
                one, other = int(part["one"]), int(part["other"])
                yield from _valid((other,), one)
                yield from _valid((one,), other)
            elif part["moon"]:
                yield from _valid((int(part["moon"]),), int(part["sun"]))
            elif name := part["month_after"] or part["month_before"]:
                yield from _valid(load_index().months[name], int(part["before"] or part["after"]))


def _valid(months: Iterable[int], day: int) -> Iterator[tuple[int, int]]:
    return ((month, day) for month in months if 1 <= month <= 12 and 1 <= day <= 31)


def _distance(one: tuple[int, int], other: tuple[int, int]) -> int:
    """Days between two days of a year, the shorter way round."""
    days = abs(_DAYS_BEFORE_MONTH[one[0]] + one[1] - _DAYS_BEFORE_MONTH[other[0]] - other[1])
    return min(days, DAYS_OF_YEAR - days)
