"""`Period` and `find_aims`: the days that a question to memory names, and what it asks for. Pure.

The words are in the tables `[recall]` and `[months]`. "In March", "last week" and "on 8 May 2024" name days.
"""

from __future__ import annotations

import calendar
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import date
from itertools import pairwise
from typing import NamedTuple

from autonomy_ctx._lazy import lazy_pattern
from autonomy_ctx.language.dates import DAYS_PER_WEEK, find_relative_dates
from autonomy_ctx.language.tables import Language, PhraseTable, find_languages, load_index, load_language
from autonomy_ctx.language.words import Words, split_words

# Asks for a way of doing something; about what was said or happened; in which order.
ADVICE, PAST, ORDER = "advice", "told", "order"
_MONTH_PARTS = {"early": (1, 12), "middle": (8, 23), "late": (18, 31)}
_WHOLE_MONTH = (1, 31)
_ISO_DAY = lazy_pattern(r"\b(\d{4})-(\d{2})-(\d{2})\b")
# The days of what is counted.
_SPAN_DAYS = {"day": 1, "week": DAYS_PER_WEEK, "weekend": DAYS_PER_WEEK, "month": 30}
YEAR_DIGITS = 4


@dataclass(frozen=True, slots=True)
class Period:
    """Days from `first` to `last`; without a year, those of every year."""

    first: tuple[int, int, int]
    last: tuple[int, int, int]

    def has(self, day: date) -> bool:
        year = day.year if self.first[0] else 0
        return self.first <= (year, day.month, day.day) <= self.last


class QuestionAims(NamedTuple):
    """The kinds of answers that a question asks for, and the days that it names."""

    kinds: frozenset[str] = frozenset()
    periods: tuple[Period, ...] = ()


def find_aims(question: str, today: date | None) -> QuestionAims:
    """Read what a question asks for; `today` is its day."""
    words = split_words(question)
    languages = [load_language(code) for code in find_languages(words.folded, question)]
    tables = [one.phrases["recall"] for one in languages]
    kinds = {name for table in tables for match in table.find(words) for name in match.meanings}
    periods = [period for table in tables for period in _named_periods(words, table)]
    if today is not None:
        spans = [span for language in languages for span in _days_before(words, language, today)]
        # The phrases of all other dates count where none of these was found.
        if not periods and not spans:
            spans = list(_past_dates(words, languages, today))
        periods += [Period(_day_before(today, first), _day_before(today, last)) for first, last in spans]
    return QuestionAims(frozenset(kinds & {ADVICE, PAST, ORDER}), tuple(dict.fromkeys(periods)))


def _named_periods(words: Words, table: PhraseTable) -> list[Period]:
    """The days, months and years that are named, such as "8 May", "in March 2024" or "in 2022"."""
    folded, index = words.folded, load_index()
    found: list[Period] = []
    for one in _ISO_DAY.finditer(words.text):
        named = int(one[1]), int(one[2]), int(one[3])
        found.append(Period(named, named))
    for at, word in enumerate(folded):
        if word not in index.months:
            continue
        # "The end of May", "8th of May".
        is_joined = at > 1 and folded[at - 1] in index.date_joints
        before = folded[at - 2 if is_joined else max(at - 1, 0) : at]
        cues = {name for one in before for name in table.meanings.get(one, ())}
        after = at + 1
        day = max(map(_day_number, before), default=0)
        if not day and after < len(folded) and (day := _day_number(folded[after])):
            after += 1
        if not day and cues.isdisjoint(("month", *_MONTH_PARTS)):
            # "May" is a verb, too.
            continue
        after += folded[after : after + 1] == (",",)
        year = _year_number(folded[after]) if after < len(folded) else 0
        part = next((part for name, part in _MONTH_PARTS.items() if name in cues), _WHOLE_MONTH)
        first, last = (day, day) if day else part
        found += [Period((year, month, first), (year, month, last)) for month in index.months[word]]
    if not found:
        years = {
            _year_number(word)
            for before, word in pairwise(folded)
            if "month" in table.meanings.get(before, ())
        }
        found = [Period((year, 1, 1), (year, 12, 31)) for year in sorted(years - {0})]
    return found


def _days_before(words: Words, language: Language, today: date) -> Iterator[tuple[int, int]]:
    """Read periods that count from the day of the question: how many days before it they begin and end."""
    table = language.phrases["recall"]
    counted = language.mark_numbers(words)
    for read in (words, counted):
        for match in table.find(read):
            span, *days = match.meanings[0].split()
            if span == "days":
                yield int(days[0]), int(days[1])
            elif span == "season" and not any(map(_year_number, words.folded)):
                yield _newest_season(today, int(days[0]), int(days[1]))
            elif span == "ago" and read is counted:
                said = map(language.number, words.folded[match.first : match.last + 1])
                count = next(number for number in said if number is not None)
                middle, margin = count * int(days[0]), int(days[0]) // 2
                yield middle + margin, middle - margin


def _newest_season(today: date, first_month: int, last_month: int) -> tuple[int, int]:
    """The days from the beginning of the newest season to today, and from its end."""
    begins = [date(today.year - years, first_month, 1) for years in (0, 1)]
    begin = next(one for one in begins if one <= today)
    end_year = begin.year + (last_month < first_month)
    end = date(end_year, last_month, calendar.monthrange(end_year, last_month)[1])
    return (today - begin).days, max((today - end).days, 0)


def _past_dates(words: Words, languages: Sequence[Language], today: date) -> Iterator[tuple[int, int]]:
    """Read other phrases for days that have passed: how many days before today they begin and end."""
    for one in find_relative_dates(words, languages):
        if one.span == "last" and one.weekday is not None:
            days = (today.weekday() - one.weekday) % DAYS_PER_WEEK or DAYS_PER_WEEK
            yield days, days
        elif one.count < 0 and one.span in _SPAN_DAYS:
            middle = -one.count * _SPAN_DAYS[one.span]
            # Nobody counts many days exactly.
            margin = max(_SPAN_DAYS[one.span] - 1, middle // 4)
            yield middle + margin, max(middle - margin, 1)


def _day_number(word: str) -> int:
    """The day of a month that a word is ("8", "8th"), or 0."""
    digits = next(
        (word.removesuffix(end) for end in load_index().ordinal_endings if word.endswith(end)), word
    )
    return int(digits) if digits.isascii() and digits.isdigit() and 0 < int(digits) <= _WHOLE_MONTH[1] else 0


def _year_number(word: str) -> int:
    return int(word) if len(word) == YEAR_DIGITS and word.isascii() and word.isdigit() else 0


def _day_before(today: date, days: int) -> tuple[int, int, int]:
    day = date.fromordinal(max(today.toordinal() - days, 1))
    return day.year, day.month, day.day
