"""`RecallQuery`: what a question looks for, as weighted stems and as days. Pure.

A stem of the question has the full weight, and a synonym of it (see `synonyms`) less. "In March", "last week"
and "on 8 May 2024" name days; what was said then is looked at first.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import date

from autonomy_ctx._lazy import lazy_pattern
from autonomy_ctx.memory.search_terms import related_stems
from autonomy_ctx.memory.search_text import FOLDED_WEIGHT, query_terms
from autonomy_ctx.messages.dates import MONTHS

# Which days of a month are meant by these words.
_PARTS = {
    "beginning": (1, 12),
    "start": (1, 12),
    "early": (1, 12),
    "middle": (8, 23),
    "mid": (8, 23),
    "end": (18, 31),
    "late": (18, 31),
}
_MONTH_NUMBERS = {name.lower(): number for number, name in enumerate(MONTHS, 1)}
_MONTH_NAMES = "|".join(_MONTH_NUMBERS)
# "May" is a verb, too: a month only after such a word, or beside a number.
_MONTH_PATTERN = lazy_pattern(
    rf"(?:(?:in|of|since|during|until|by|last|this|around|(?P<part>{'|'.join(_PARTS)})(?: of)?|"
    rf"(?P<day>\d{{1,2}})(?:st|nd|rd|th)?(?: of)?)[ -])(?P<month>{_MONTH_NAMES})\b(?:,? (?P<year>\d{{4}}))?"
    rf"|\b(?P<month2>{_MONTH_NAMES}) (?P<day2>\d{{1,2}})(?:st|nd|rd|th)?\b(?:,? (?P<year2>\d{{4}}))?"
)
_ISO_PATTERN = lazy_pattern(r"\b(\d{4})-(\d{2})-(\d{2})\b")
_YEAR_PATTERN = lazy_pattern(r"\b(?:in|of|during) (\d{4})\b")
_AGO_PATTERN = lazy_pattern(r"\b(\d{1,3}|an?|two|three|four|five|six) (day|week|month|year)s? ago\b")
_NUMBERS = {"a": 1, "an": 1, "two": 2, "three": 3, "four": 4, "five": 5, "six": 6}
_SPAN_DAYS = {"day": 1, "week": 7, "month": 30, "year": 365}
# How many days before today each begins and ends.
_RELATIVE_DAYS = {
    "yesterday": (1, 1),
    "last week": (13, 1),
    "this week": (6, 0),
    "last month": (61, 10),
    "this month": (30, 0),
    "last weekend": (9, 1),
}


@dataclass(frozen=True, slots=True)
class Period:
    """Days from `first` to `last`; without a year, those of every year."""

    first: tuple[int, int, int]
    last: tuple[int, int, int]

    def has(self, day: date) -> bool:
        year = day.year if self.first[0] else 0
        return self.first <= (year, day.month, day.day) <= self.last


@dataclass(frozen=True, slots=True)
class RecallQuery:
    """The stems to look for, each with its weight, and the days that the question names.

    `forms` are other forms of its words, and `prefixes` beginnings and ends of joined words, as in a search;
    they count for less.
    """

    weights: dict[str, float]
    periods: tuple[Period, ...] = ()
    forms: tuple[str, ...] = ()
    prefixes: tuple[str, ...] = ()

    @property
    def words(self) -> str:
        """The stems as a text that a store can search for."""
        return " ".join(self.weights)


def parse_query(query: str, today: date | None) -> RecallQuery:
    """Parse a question; `today` is the day of the question."""
    terms = query_terms(query, 1)
    weights = dict.fromkeys(terms.exact, 1.0)
    for stem in list(weights):
        for other, weight in related_stems(stem).items():
            weights[other] = max(weight, weights.get(other, 0.0))
    for word in terms.folded.words:
        weights.setdefault(word, FOLDED_WEIGHT)
    return RecallQuery(
        weights,
        tuple(_find_periods(query.lower(), today)),
        tuple(terms.folded.forms),
        tuple(terms.folded.prefixes),
    )


def _find_periods(query: str, today: date | None) -> list[Period]:
    found: list[Period] = []
    for match in _MONTH_PATTERN.finditer(query):
        month = _MONTH_NUMBERS[match["month"] or match["month2"]]
        year, day = int(match["year"] or match["year2"] or 0), int(match["day"] or match["day2"] or 0)
        first, last = (day, day) if day else _PARTS.get(match["part"] or "", (1, 31))
        found.append(Period((year, month, first), (year, month, last)))
    for match in _ISO_PATTERN.finditer(query):
        year, month, day = map(int, match.groups())
        found.append(Period((year, month, day), (year, month, day)))
    if not found:
        found += [
            Period((int(match[1]), 1, 1), (int(match[1]), 12, 31)) for match in _YEAR_PATTERN.finditer(query)
        ]
    if today is not None:
        found += _relative_periods(query, today)
    return found


def _relative_periods(query: str, today: date) -> list[Period]:
    days = [span for words, span in _RELATIVE_DAYS.items() if words in query]
    for match in _AGO_PATTERN.finditer(query):
        count = int(match[1]) if match[1].isdecimal() else _NUMBERS[match[1]]
        middle, margin = count * _SPAN_DAYS[match[2]], _SPAN_DAYS[match[2]] // 2
        days.append((middle + margin, middle - margin))
    return [Period(_day_before(today, first), _day_before(today, last)) for first, last in days]


def _day_before(today: date, days: int) -> tuple[int, int, int]:
    day = date.fromordinal(max(today.toordinal() - days, 1))
    return day.year, day.month, day.day
