"""Optional information of a model object: its name and its context window, and limits that refer to it.

A model is any object that answers, so none of this is required. These functions are the only places that
read it.
"""

from __future__ import annotations

from typing import Any

from autonomy_ctx.validation import check_int


def model_name(model: Any) -> str | None:
    """The name under which prices and windows of a model are known; None when it has none."""
    name = getattr(model, "name", None)
    return name if isinstance(name, str) and name else None


def context_window_of(model: Any) -> int | None:
    """Number of tokens that a model reads at once; None when that is not known."""
    window = getattr(model, "context_window", None)
    return window if type(window) is int and window > 0 else None


def check_token_limit(name: str, value: Any) -> None:
    """Check a limit in tokens: a whole number, a fraction of the context window, or None."""
    if not isinstance(value, float):
        check_int(name, value, optional=True)
    elif not 0 < value <= 1:
        raise ValueError(f"{name} is {value}; as a fraction of the context window it is above 0, up to 1")


def resolve_token_limit(name: str, value: int | float | None, window: int | None) -> int | None:
    """A limit in tokens as a number, also when it was given as a part of the window."""
    if not isinstance(value, float):
        return value
    if window is None:
        raise ValueError(
            f"{name} is a fraction ({value}), but the model's context window is not known; "
            f"give a number of tokens, or a model with `context_window`"
        )
    return max(int(value * window), 1)
