"""Dates are shown in one way, and relative dates are resolved against the time at which they were said."""

from __future__ import annotations

from datetime import UTC, datetime

import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from strategies import some

from autonomy_ctx.language.dates import resolve_dates
from autonomy_ctx.messages.dates import format_day, format_days

FRIDAY = datetime(2026, 5, 15, 12, tzinfo=UTC)
WEDNESDAY = datetime(2026, 5, 13, 12, tzinfo=UTC)


def day(year: int, month: int, number: int) -> datetime:
    return datetime(year, month, number, 23, 59, tzinfo=UTC)


def test_a_day_is_shown_without_zeros() -> None:
    assert format_day(day(2026, 5, 2)) == "2 May 2026"


@pytest.mark.parametrize(
    ("first", "last", "shown"),
    [
        (day(2026, 5, 2), day(2026, 5, 9), "2 to 9 May 2026"),
        (day(2026, 4, 30), day(2026, 5, 2), "30 April to 2 May 2026"),
        (day(2025, 12, 30), day(2026, 1, 2), "30 December 2025 to 2 January 2026"),
        (day(2026, 5, 2), day(2026, 5, 2), "2 May 2026"),
    ],
)
def test_a_range_names_month_and_year_once_where_they_are_the_same(
    first: datetime, last: datetime, shown: str
) -> None:
    assert format_days(first, last) == shown


@pytest.mark.parametrize(
    ("text", "resolved"),
    [
        ("by tomorrow", "by tomorrow (16 May 2026)"),
        ("Send it today.", "Send it today (15 May 2026)."),
        ("We spoke yesterday", "We spoke yesterday (14 May 2026)"),
        ("the day after tomorrow", "the day after tomorrow (17 May 2026)"),
        ("next Friday", "next Friday (22 May 2026)"),
        ("Call on Monday.", "Call on Monday (18 May 2026)."),
        ("due by wednesday at noon", "due by wednesday (20 May 2026) at noon"),
        ("in two weeks", "in two weeks (29 May 2026)"),
        ("in 3 days", "in 3 days (18 May 2026)"),
        ("2 days ago", "2 days ago (13 May 2026)"),
        ("next month", "next month (June 2026)"),
        ("next week", "next week (18 to 24 May 2026)"),
        ("by the end of the week", "by the end of the week (11 to 17 May 2026)"),
        ("end of the month", "end of the month (31 May 2026)"),
        ("today and tomorrow", "today (15 May 2026) and tomorrow (16 May 2026)"),
        ("tomorrow's demo", "tomorrow's (16 May 2026) demo"),
        ("last Monday", "last Monday (11 May 2026)"),
        ("next year", "next year (2027)"),
        ("morgen um 9", "morgen (16 May 2026) um 9"),
        ("Morgen fahren wir", "Morgen (16 May 2026) fahren wir"),
        ("übermorgen", "übermorgen (17 May 2026)"),
        ("bis Donnerstag", "bis Donnerstag (21 May 2026)"),
        ("am Montag", "am Montag (18 May 2026)"),
        ("nächste Woche", "nächste Woche (18 to 24 May 2026)"),
        ("in drei Tagen", "in drei Tagen (18 May 2026)"),
        ("demain matin", "demain matin (16 May 2026)"),
        ("après-demain", "après-demain (17 May 2026)"),
        ("lundi prochain", "lundi prochain (18 May 2026)"),
        ("je l'ai vu, c'est hier", "je l'ai vu, c'est hier (14 May 2026)"),
        ("dans deux semaines", "dans deux semaines (29 May 2026)"),
        ("aujourd\u2019hui", "aujourd\u2019hui (15 May 2026)"),
        ("mañana", "mañana (16 May 2026)"),
        ("pasado mañana", "pasado mañana (17 May 2026)"),
        ("el próximo lunes", "el próximo lunes (18 May 2026)"),
        ("dentro de 5 días", "dentro de 5 días (20 May 2026)"),
        ("amanhã", "amanhã (16 May 2026)"),
        ("até segunda-feira", "até segunda-feira (18 May 2026)"),
        ("semana que vem", "semana que vem (18 to 24 May 2026)"),
        ("明日までに", "明日 (16 May 2026)までに"),
        ("来週の金曜日", "来週の金曜日 (22 May 2026)"),
        ("3日後", "3日後 (18 May 2026)"),
        ("后天", "后天 (17 May 2026)"),
        ("下周五", "下周五 (22 May 2026)"),
        ("三天后", "三天后 (18 May 2026)"),
        ("غدا", "غدا (16 May 2026)"),
        ("بعد غد", "بعد غد (17 May 2026)"),
        ("يوم الاثنين", "يوم الاثنين (18 May 2026)"),
        ("بعد 3 أيام", "بعد 3 أيام (18 May 2026)"),
    ],
)
def test_a_relative_date_is_resolved(text: str, resolved: str) -> None:
    assert resolve_dates(text, FRIDAY) == resolved
    assert resolve_dates(resolved, FRIDAY) == resolved


def test_next_friday_before_a_friday_has_two_meanings_and_both_are_named() -> None:
    assert resolve_dates("next Friday", WEDNESDAY) == "next Friday (15 or 22 May 2026)"


@pytest.mark.parametrize(
    "text",
    [
        "It may rain, and we sat in the sun.",
        "Sun and Wed are abbreviations; Sat too.",
        "tomorrow, 16 May",
        "tomorrow (May 16)",
        "on Monday 2026-05-18",
        "am Montag, den 18. Mai",
        "on 18 May, next Monday",
        "el lunes 18 de mayo",
        "5月18日、来週の月曜日",
        "We met on Monday.",  # it may have been the last one
        "on Friday",  # said on a Friday
        "every Monday",
        "por la mañana",
        "Guten Morgen",
        "Ich bin hier.",
        "It took three people, in 2 days they finished.",
        "até segunda ordem",
        "في اليوم الأول",
        "in 5 minutes",
        "每周五",
    ],
)
def test_what_is_ambiguous_or_dated_is_left_alone(text: str) -> None:
    assert resolve_dates(text, FRIDAY) == text


def test_a_date_that_the_calendar_does_not_have_is_left_alone() -> None:
    assert resolve_dates("tomorrow", datetime(9999, 12, 31, tzinfo=UTC)) == "tomorrow"
    assert resolve_dates("last year", datetime(1, 1, 1, tzinfo=UTC)) == "last year"


PIECES = st.sampled_from(
    ["tomorrow", " ", ", ", "next Friday", "on Monday", "in 2 weeks", "5 May", "2026-05-18", ". ", "was",
     "hier", "je", "明日", "下周五", "morgen", "Morgen", "today", "(16 May 2026)", "next year", "may", "غدا",
     "next month", "\n", "end of the week", " (", ")", "last", "el lunes", "3", "三天后"]
)  # fmt: skip
texts = st.lists(PIECES, max_size=12).map("".join) | st.lists(PIECES, max_size=12).map(" ".join) | st.text()
times = st.datetimes(timezones=st.just(UTC))


@some
# The note about a year before 1000 must not tell another language.
@example("下周五tomorrowtomorrow morgen", datetime(999, 4, 1, tzinfo=UTC))
@example("ON MON:00000#TOMORROW:WAR", datetime(2000, 1, 1, tzinfo=UTC))
@given(texts, times)
def test_resolving_twice_changes_nothing(text: str, at: datetime) -> None:
    once = resolve_dates(text, at)
    assert resolve_dates(once, at) == once
