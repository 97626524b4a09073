"""Optional information of a model object: its name and its context window.

A model is any object that answers, so none of this is required. These functions are the only places that
read it.
"""

from __future__ import annotations

from typing import Any


def model_name(model: Any) -> str | None:
    """The name under which prices and windows of a model are known; None when it has none."""
    name = getattr(model, "name", None)
    return name if isinstance(name, str) and name else None


def context_window_of(model: Any) -> int | None:
    """Number of tokens that a model reads at once; None when that is not known."""
    window = getattr(model, "context_window", None)
    return window if type(window) is int and window > 0 else None
