"""What a record says of values that programs pass around: JSON exactly, and of the rest what it was."""

from __future__ import annotations

import json
from typing import Any

from hypothesis import given
from hypothesis import strategies as st
from strategies import json_values, some

from autonomy_ctx.containers.recording import (
    answer_text,
    error_text,
    prompt_text,
    record_text,
    render_value,
    result_text,
)

strange = st.recursive(
    st.builds(object) | st.floats() | st.binary() | st.just(object) | st.integers() | st.complex_numbers(),
    lambda inner: st.lists(inner) | st.dictionaries(st.tuples(st.integers()), inner) | st.tuples(inner),
    max_leaves=8,
)


class Hostile:
    """Raises in whatever it is asked."""

    def __getattribute__(self, name: str) -> Any:
        raise RuntimeError(name)

    __str__ = __repr__ = __iter__ = __len__ = __getattribute__  # type: ignore[assignment]


class Mute(Exception):
    def __str__(self) -> str:
        raise RuntimeError


@some
@given(json_values)
def test_what_json_can_hold_is_written_exactly(value: Any) -> None:
    assert json.loads(record_text(value)) == value
    found = json.loads(result_text(value))
    assert found == value if isinstance(value, dict) else found["result"] == value


@some
@given(strange)
def test_nothing_is_too_strange_to_be_written(value: Any) -> None:
    json.loads(record_text(value))
    assert isinstance(json.loads(result_text(value)), dict)


async def test_what_raises_in_everything_is_written_by_its_kind() -> None:
    assert await render_value(record_text, {"x": [Hostile()]}) == '{"x": ["<Hostile>"]}'
    assert await render_value(result_text, Hostile()) == '{"result": "<Hostile>"}'
    assert answer_text(Hostile()) == '"<Hostile>"'
    assert error_text(Mute()) == "Mute"


def test_what_is_nested_too_deep_ends_in_words() -> None:
    deep: Any = []
    for _ in range(10_000):
        deep = [deep]
    assert record_text(deep).strip("[]") == '"<list>"'


async def test_a_large_value_is_written_all_the_same() -> None:
    value = {"text": "x" * 200_000}
    assert json.loads(await render_value(record_text, value)) == value
    assert json.loads(await render_value(result_text, "y" * 200_000)) == {"result": "y" * 200_000}


def test_the_only_text_among_the_arguments_is_the_prompt() -> None:
    assert prompt_text({"prompt": "why", "schema": int, "limit": 3}) == "why"
    assert prompt_text({"system": "rules", "prompt": "why"}) == '{"system": "rules", "prompt": "why"}'


def test_a_long_error_is_cut_and_says_so() -> None:
    assert error_text(ValueError("x" * 5000)).endswith("x [... 1,012 characters are not shown here]")
