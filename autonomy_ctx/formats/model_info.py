"""Optional information of a model object: its name and its context window.

A model is any object that answers, so none of this is required. These protocols declare it, and the two
functions are the only places that read it. They ask for the attribute itself, because a wrapper may pass
it on through `__getattr__`, which an `isinstance` check does not see.
"""

from __future__ import annotations

from typing import Any, Protocol, cast, runtime_checkable


@runtime_checkable
class NamedModel(Protocol):
    """A model that says what it is called."""

    @property
    def name(self) -> str:
        """The name under which prices and windows are known."""


@runtime_checkable
class WindowedModel(Protocol):
    """A model with a known context window."""

    @property
    def context_window(self) -> int | None:
        """The number of tokens; None when it is not known."""


def model_name(model: Any) -> str | None:
    """The name of a model; None when it has none."""
    if model is None:
        return None
    try:
        name: object = cast(NamedModel, model).name
    except AttributeError:
        return None
    return name if isinstance(name, str) and name else None


def context_window_of(model: Any) -> int | None:
    """Number of tokens that a model reads at once; None when that is not known."""
    if model is None:
        return None
    try:
        window: object = cast(WindowedModel, model).context_window
    except AttributeError:
        return None
    return window if type(window) is int and window > 0 else None
