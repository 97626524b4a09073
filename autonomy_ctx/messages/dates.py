"""Days and ranges of days as they are shown: `2 May 2026`, `2 to 9 May 2026`."""

from __future__ import annotations

from datetime import date, datetime

# fmt: off
MONTHS = (
    "January", "February", "March", "April", "May", "June", "July", "August", "September", "October",
    "November", "December",
)
# fmt: on


def format_day(at: datetime) -> str:
    """A day as it is shown: 2 May 2026."""
    return format_date(at.date())


def format_days(first: datetime, last: datetime) -> str:
    """A range of days: 2 to 9 May 2026; one day is shown as a day."""
    return join_days(first.date(), last.date(), "to")


def format_date(day: date) -> str:
    return f"{day.day} {MONTHS[day.month - 1]} {day.year}"


def join_days(first: date, last: date, joint: str) -> str:
    if first == last:
        return format_date(first)
    start = str(first.day)
    if (first.year, first.month) != (last.year, last.month):
        start += f" {MONTHS[first.month - 1]}"
    if first.year != last.year:
        start += f" {first.year}"
    return f"{start} {joint} {format_date(last)}"
