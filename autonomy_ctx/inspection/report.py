"""The base of all reports: immutable values with `to_dict` for JSON.

The command line, the HTTP API and the inspector page print exactly these dicts.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import fields, is_dataclass
from datetime import UTC, datetime
from enum import Enum
from typing import Any, TypeVar

from autonomy_ctx.template.composed import WindowBounds

R = TypeVar("R", bound="Report")


class Report:
    """A value that people look at."""

    __slots__ = ()

    def to_dict(self) -> dict[str, Any]:
        """The report as values that `json.dump` takes; times are in ISO 8601."""
        form: dict[str, Any] = to_json(self)
        return form


def to_json(value: Any) -> Any:
    """A report, or a value inside of one, as JSON has it."""
    if value is None or isinstance(value, str | int | float):
        # A role is a text, too, and is given as such.
        return value.value if isinstance(value, Enum) else value
    if isinstance(value, tuple | list):
        return [to_json(one) for one in value]
    if is_dataclass(value):
        return {field.name: to_json(getattr(value, field.name)) for field in fields(value)}
    if isinstance(value, datetime):
        return value.astimezone(UTC).isoformat().replace("+00:00", "Z")
    if isinstance(value, Mapping):
        return {str(name): to_json(one) for name, one in value.items()}
    raise TypeError(f"a report has no value of type {type(value).__name__}")


def make_report(kind: type[R], source: object, /, **values: Any) -> R:
    """Make a report of a value: `values` are given, all other fields are those of the value."""
    copied = [field.name for field in fields(kind) if field.name not in values]  # type: ignore[arg-type]
    return kind(**{name: getattr(source, name) for name in copied}, **values)


def bounds_fields(bounds: WindowBounds | None) -> dict[str, Any]:
    """The fields `floor` and `ceiling` of a report."""
    return {"floor": None, "ceiling": None} if bounds is None else bounds._asdict()


def from_seconds(seconds: float | None) -> datetime | None:
    """A time of a store's clock; None when it is not known."""
    return datetime.fromtimestamp(seconds, UTC) if seconds else None


def count_of(count: int, noun: str) -> str:
    """`1 message`, `1,200 messages`."""
    return f"{count:,} {noun}" + ("" if count == 1 else "s")


def range_of(first: int, last: int) -> str:
    """`41 to 60`, or `41` alone."""
    return str(first) if first == last else f"{first} to {last}"


def shorten(text: str, limit: int) -> str:
    """The beginning of a text on one line, with an ellipsis where it was longer."""
    # No more is looked at than could be shown: a text may have millions of characters.
    line = " ".join(text[: 4 * limit].split())
    return line if len(line) <= limit and len(text) <= 4 * limit else line[: limit - 1].rstrip() + "\u2026"
