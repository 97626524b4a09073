"""The check of a number that every argument goes through."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import pytest

from autonomy_ctx.validation import NotANumber, check_int, check_number, check_seconds


@pytest.mark.parametrize(
    ("check", "value", "options"),
    [
        (check_int, 1, {}),
        (check_int, 0, {"least": 0}),
        (check_int, 65535, {"least": 0, "most": 65535}),
        (check_int, None, {"optional": True}),
        (check_number, -1.5, {}),
        (check_number, 0, {"least": 0, "most": 1}),
        (check_number, 1, {"least": 0, "most": 1}),
        (check_seconds, 0.001, {}),
        (check_seconds, 3600, {"most": 3600}),
        (check_seconds, 0, {"zero": True}),
        (check_seconds, math.inf, {"endless": True}),
        (check_seconds, None, {"optional": True}),
    ],
)
def test_a_number_within_its_bounds_is_given_back(
    check: Callable[..., Any], value: Any, options: dict[str, Any]
) -> None:
    assert check("limit", value, **options) is value


WRONG: list[tuple[type[Exception], str, Callable[..., Any], Any, dict[str, Any]]] = [
    (ValueError, "limit must be >= 1, not 0", check_int, 0, {}),
    (ValueError, "limit must be >= 0 or None, not -1", check_int, -1, {"least": 0, "optional": True}),
    (ValueError, "limit must be >= 0 and <= 9, not 10", check_int, 10, {"least": 0, "most": 9}),
    (NotANumber, "limit must be a whole number >= 1, not True", check_int, True, {}),
    (NotANumber, "limit must be a whole number >= 1, not 1.0", check_int, 1.0, {}),
    (NotANumber, "limit must be a whole number >= 1, not None", check_int, None, {}),
    (NotANumber, "limit must be a whole number >= 1, not str", check_int, "what Ana said", {}),
    (ValueError, "a section: limit must be >= 1, not 0", check_int, 0, {"where": "a section"}),
    (ValueError, "limit must be a finite number, not inf", check_number, math.inf, {}),
    (ValueError, "limit must be a finite number, not nan", check_number, math.nan, {}),
    (ValueError, "limit must be a finite number >= 0, not -0.5", check_number, -0.5, {"least": 0}),
    (
        ValueError,
        "limit must be a finite number >= 0 and <= 1, not 2",
        check_number,
        2,
        {"least": 0, "most": 1},
    ),
    (NotANumber, "limit must be a finite number, not False", check_number, False, {}),
    (ValueError, "limit must be a number of seconds > 0, not 0", check_seconds, 0, {}),
    (ValueError, "limit must be a number of seconds > 0, not nan", check_seconds, math.nan, {}),
    (ValueError, "limit must be a number of seconds > 0, not inf", check_seconds, math.inf, {}),
    (
        ValueError,
        "limit must be a number of seconds > 0, not nan",
        check_seconds,
        math.nan,
        {"endless": True},
    ),
    (ValueError, "limit must be a number of seconds >= 0, not -1", check_seconds, -1, {"zero": True}),
    (ValueError, "limit must be a number of seconds > 0 and <= 9, not 10", check_seconds, 10, {"most": 9}),
    (NotANumber, "limit must be a number of seconds > 0, not True", check_seconds, True, {}),
    (
        NotANumber,
        "limit must be a number of seconds > 0 or None, not str",
        check_seconds,
        "1s",
        {"optional": True},
    ),
]


@pytest.mark.parametrize(("kind", "text", "check", "value", "options"), WRONG)
def test_a_bad_number_is_refused_with_one_sentence(
    kind: type[Exception], text: str, check: Callable[..., Any], value: Any, options: dict[str, Any]
) -> None:
    with pytest.raises(kind) as caught:
        check("limit", value, **options)
    assert type(caught.value) is kind
    assert str(caught.value) == text


def test_what_is_no_number_is_met_as_a_bad_type_and_as_a_bad_value() -> None:
    for kind in (TypeError, ValueError):
        with pytest.raises(kind):
            check_int("limit", "5")
