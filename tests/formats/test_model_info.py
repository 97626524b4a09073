"""What a model says about itself is read in one way, whatever stands in for a model."""

from __future__ import annotations

from typing import Any

import pytest

from autonomy_ctx import Memory, Model
from autonomy_ctx.formats.model_info import context_window_of, model_name
from autonomy_ctx.messages.tokens import token_counter_of
from autonomy_ctx.tokens import TokenCounter


class Says:
    """A model that says what a test wants."""

    def __init__(self, **values: Any) -> None:
        vars(self).update(values)


class Wrapped:
    """Passes on whatever the model inside says."""

    def __init__(self, model: Any) -> None:
        self._model = model

    def __getattr__(self, name: str) -> Any:
        return getattr(self._model, name)


def test_a_model_of_this_library_says_both() -> None:
    model = Model("gpt-5", context_window=9000)
    for one in (model, Wrapped(model)):
        assert (model_name(one), context_window_of(one)) == ("gpt-5", 9000)


def test_any_object_may_say_nothing() -> None:
    assert (model_name(object()), context_window_of(object())) == (None, None)
    assert (model_name(None), context_window_of(None)) == (None, None)


@pytest.mark.parametrize("odd", [None, 0, -1, True, 1.5, "4096", object()])
def test_what_is_no_number_of_tokens_is_no_window(odd: Any) -> None:
    assert context_window_of(Says(context_window=odd)) is None


@pytest.mark.parametrize("odd", [None, "", 7, object()])
def test_what_is_no_text_is_no_name(odd: Any) -> None:
    assert model_name(Says(name=odd)) is None


def test_the_counter_of_a_memory_is_found_where_there_is_one() -> None:
    counter = TokenCounter()
    assert token_counter_of(Memory(token_counter=counter)) is counter
    assert token_counter_of(object()) is None
