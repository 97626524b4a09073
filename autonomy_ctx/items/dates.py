"""Placeholder until the branch with dates is merged."""

from datetime import datetime


def format_day(at: datetime) -> str:
    """A day: `2 May 2026`."""
    return f"{at.day} {at:%B %Y}"


def format_days(first: datetime, last: datetime) -> str:
    return f"{format_day(first)} to {format_day(last)}"


def resolve_dates(text: str, at: datetime) -> str:
    return text
