"""Caches of values that are computed from texts, for the whole process.

Deleted texts must not stay in these caches, so one call empties all of them.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import lru_cache
from typing import Any, ParamSpec, TypeVar

P = ParamSpec("P")
T = TypeVar("T")

_clears: list[Callable[[], None]] = []


def forget_texts() -> None:
    """Empty all caches, because messages or facts were deleted and their texts may be in them."""
    for clear in _clears:
        clear()


def word_cache(size: int) -> Callable[[Callable[P, T]], Callable[P, T]]:
    """As `lru_cache`, for a function of words or texts: they may be those of a message that was deleted."""

    def decorate(function: Callable[P, T]) -> Callable[P, T]:
        cached: Any = lru_cache(size)(function)
        _clears.append(cached.cache_clear)
        made: Callable[P, T] = cached
        return made

    return decorate
