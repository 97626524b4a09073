"""Relative dates, resolved against the time at which they were said.

"Tomorrow" is true for one day. A fact outlives that day, so the date is written beside the word:
"by tomorrow (16 May 2026)". The phrases are those of `[dates]` of each language. What could mean two things
is left alone ("on Friday" said on a Friday), or both are named ("next Friday (15 or 22 May 2026)").
"""

from __future__ import annotations

import calendar
from bisect import bisect_left
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import date, datetime, timedelta

from autonomy_ctx._lazy import lazy_pattern
from autonomy_ctx.language.tables import NUMBER_MARK, Language, PhraseMatch, find_languages, load_language
from autonomy_ctx.language.words import Words, split_words
from autonomy_ctx.messages.dates import MONTHS, format_date, join_days

MAX_GAP_TO_DATE = 16  # characters between a relative date and a date in figures that says which day it is
# How many words before a phrase, and after it, may say that it speaks of the past.
WORDS_BEFORE, WORDS_AFTER = 12, 8
# The meaning of a phrase that only looks like a date.
NO_DATE = "none"
_FIGURES = lazy_pattern(r"(?<![\d.])\d{1,4}(?:-\d{1,2}-|/\d{1,2}/|\.\d{1,2}\.|/)\d{0,4}(?!\d)")
_DATE_NOTE = lazy_pattern(rf" \((?:[^()\n]{{0,60}}(?:{'|'.join(MONTHS)}) )?\d{{1,4}}\)")
_SENTENCE_END = lazy_pattern(r"[.!?;\n。\uff01\uff1f]")
DAYS_PER_WEEK = 7


@dataclass(frozen=True, slots=True)
class RelativeDate:
    """A phrase in a text that counts from now: what is counted, how many, and which day of the week."""

    first: int
    last: int
    # "day", "week", "weekend", "month", "month end", "year"; of a weekday, which one is meant ("coming").
    span: str
    # Monday is 0.
    weekday: int | None = None
    count: int = 0
    # The words around it may say that it is past.
    is_open: bool = False


def resolve_dates(text: str, at: datetime) -> str:
    """The text with the date behind each relative date, as seen from `at`: "tomorrow (16 May 2026)".

    A relative date with a date in figures beside it is left alone, so doing it twice changes nothing.
    """
    words = split_words(text)
    spoken = _words_outside_notes(words)
    languages = _find_languages(words, spoken)
    found = find_relative_dates(words, languages)
    if not found:
        return text
    dates = sorted(_explicit_dates(words, languages))
    pieces, done = [], 0
    for one in found:
        start, end = words.start(one.first), words.end(one.last)
        is_past = one.is_open and _is_past(words, one, spoken, languages)
        label = _resolve(one, at.date(), is_past)
        if label and not text.startswith(f" ({label})", end) and not _is_dated(text, start, end, dates):
            pieces += [text[done:end], f" ({label})"]
            done = end
    return "".join([*pieces, text[done:]])


def has_weekday(text: str) -> bool:
    """Tell whether the text names a day of the week as a date, which in a rule may be every such day."""
    words = split_words(text)
    languages = _find_languages(words, range(len(words)))
    return any(one.weekday is not None for one in find_relative_dates(words, languages))


def _find_languages(words: Words, spoken: Sequence[int]) -> list[Language]:
    codes = find_languages([words.folded[at] for at in spoken], words.text)
    return [load_language(code) for code in codes]


def find_relative_dates(words: Words, languages: Sequence[Language]) -> list[RelativeDate]:
    """The relative dates of a text, in order; of those at one place the longest."""
    counted = [language.mark_numbers(words) for language in languages]
    found, after = list[RelativeDate](), 0
    for at in range(len(words)):
        if at < after:
            continue
        matches = [
            (match, language)
            for language, with_numbers in zip(languages, counted, strict=True)
            for read in (words, with_numbers)
            if (match := language.phrases["dates"].match(read, at))
        ]
        if matches:
            match, language = max(matches, key=lambda one: one[0].last)
            after = match.last + 1
            if match.meanings[0] != NO_DATE and not _is_noun(words, match, language):
                found.append(_read_meaning(words, match, language))
    return found


def _read_meaning(words: Words, match: PhraseMatch, language: Language) -> RelativeDate:
    """A phrase by its meaning in the table: "day 1", "week +#", "weekday coming 4"."""
    span, _, count = match.meanings[0].rpartition(" ")
    if span.startswith("weekday "):
        which = span.removeprefix("weekday ")
        return RelativeDate(match.first, match.last, which, weekday=int(count), is_open=which == "said")
    if not count.endswith(NUMBER_MARK):
        return RelativeDate(match.first, match.last, span, count=int(count))
    said = words.folded[match.first : match.last + 1]
    number = next(number for word in said if (number := language.number(word)) is not None)
    number = -number if count.startswith("-") else number
    if span == "week":
        # So many weeks are a day, not a week.
        span, number = "day", number * DAYS_PER_WEEK
    return RelativeDate(match.first, match.last, span, count=number, is_open=True)


def _is_noun(words: Words, match: PhraseMatch, language: Language) -> bool:
    """Tell whether a phrase is a noun by its capital; as the first word of a sentence it may be a date."""
    nouns = language.words.get("nouns", frozenset())
    if match.first < match.last or words.folded[match.first] not in nouns:
        return False
    start, end = words.start(match.first), words.end(match.last)
    is_first = match.first == 0 and words.text[end : end + 2].strip().islower()
    return words.text[start].isupper() and not is_first


def _words_outside_notes(words: Words) -> list[int]:
    """The indexes of words that are no date written beside a phrase: such dates do not move words apart."""
    found: list[int] = []
    done = 0
    for note in _DATE_NOTE.finditer(words.text):
        found += range(done, bisect_left(words.spans, (note.start(), 0), lo=done))
        done = bisect_left(words.spans, (note.end(), 0), lo=done)
    return [*found, *range(done, len(words))]


def _is_past(words: Words, one: RelativeDate, spoken: Sequence[int], languages: Sequence[Language]) -> bool:
    """Tell whether the sentence of a phrase may speak of the past."""
    past = _word_set("past", languages)
    endings = tuple(_word_set("past_endings", languages))
    first, last = bisect_left(spoken, one.first), bisect_left(spoken, one.last + 1)
    start, end = words.start(one.first), words.end(one.last)
    return any(
        (words.folded[at] in past or (len(words.folded[at]) > 4 and words.folded[at].endswith(endings)))
        and not _SENTENCE_END.search(words.text[min(words.end(at), end) : max(words.start(at), start)])
        for at in (*spoken[max(first - WORDS_BEFORE, 0) : first], *spoken[last : last + WORDS_AFTER])
    )


def _word_set(name: str, languages: Sequence[Language]) -> frozenset[str]:
    return frozenset().union(*(language.words.get(name, ()) for language in languages))


def _explicit_dates(words: Words, languages: Sequence[Language]) -> Iterator[tuple[int, int]]:
    """Where the text names a date in figures, or a day or a year beside the name of a month."""
    for match in _FIGURES.finditer(words.text):
        yield match.span()
    folded = words.folded
    marks, joints = (_word_set(name, languages) for name in ("months", "date_joints"))
    marks |= _word_set("date_marks", languages)
    for index, word in enumerate(folded):
        for step in (-1, 1) if word in marks else ():
            at = index + step
            if 0 <= at < len(folded) and (folded[at] == "," or folded[at] in joints):
                at += step
            if 0 <= at < len(folded) and folded[at][0].isdigit():
                yield words.start(min(index, at)), words.end(max(index, at))


def _is_dated(text: str, start: int, end: int, dates: Sequence[tuple[int, int]]) -> bool:
    at = bisect_left(dates, (start, 0))
    for first, last in dates[max(at - 3, 0) : at + 3]:
        gap = text[end:first] if first >= end else text[last:start]
        if len(gap) <= MAX_GAP_TO_DATE and not _SENTENCE_END.search(gap):
            return True
    return False


def _resolve(one: RelativeDate, today: date, is_past: bool) -> str | None:
    """The date that is meant, or nothing where it may be several or none that exists."""
    try:
        if one.weekday is not None:
            return _resolve_weekday(today, one.weekday, one.span, is_past)
        return None if is_past and one.count > 0 else _resolve_offset(today, one.span, one.count)
    except (OverflowError, ValueError):
        return None


def _resolve_offset(today: date, span: str, count: int) -> str:
    monday = today - timedelta(days=today.weekday())
    match span:
        case "day":
            return format_date(today + timedelta(days=count))
        case "week":
            first = monday + timedelta(weeks=count)
            return join_days(first, first + timedelta(days=6), "to")
        case "weekend":
            return join_days(monday + timedelta(days=5), monday + timedelta(days=6), "to")
        case "year":
            return str(today.replace(day=1, year=today.year + count).year)
    months = today.year * 12 + today.month - 1 + count
    first = date(months // 12, months % 12 + 1, 1)
    if span == "month end":
        return format_date(first.replace(day=calendar.monthrange(first.year, first.month)[1]))
    return f"{MONTHS[first.month - 1]} {first.year}"


def _resolve_weekday(today: date, weekday: int, which: str, is_past: bool) -> str | None:
    ahead = (weekday - today.weekday()) % DAYS_PER_WEEK
    monday = today - timedelta(days=today.weekday())
    match which:
        case "said" | "coming":
            return None if ahead == 0 or is_past else format_date(today + timedelta(days=ahead))
        case "next":
            first = today + timedelta(days=ahead or DAYS_PER_WEEK)
            # Still to come in this week: some say "next" for it, some for the one after.
            is_this_week = ahead > 0 and weekday > today.weekday()
            return join_days(first, first + timedelta(weeks=1 if is_this_week else 0), "or")
        case "last":
            return format_date(today - timedelta(days=(-ahead) % DAYS_PER_WEEK or DAYS_PER_WEEK))
    weeks = {"last week": -1, "this week": 0, "next week": 1}[which]
    return format_date(monday + timedelta(weeks=weeks, days=weekday))
