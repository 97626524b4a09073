"""Results of functions over texts, kept for the whole process, until somebody's data is deleted.

Deleted texts must not stay in memory, so `forget_texts` empties every such cache.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import lru_cache
from typing import Any, ParamSpec, TypeVar, cast

P = ParamSpec("P")
T = TypeVar("T")
_caches: list[Any] = []


def cached_by_text(size: int) -> Callable[[Callable[P, T]], Callable[P, T]]:
    """`lru_cache` for a function of texts."""

    def decorate(function: Callable[P, T]) -> Callable[P, T]:
        cached = lru_cache(size)(function)
        _caches.append(cached)
        return cast("Callable[P, T]", cached)

    return decorate


def forget_texts() -> None:
    """Empty all caches, because messages or facts were deleted and their texts may be in them."""
    for cached in _caches:
        cached.cache_clear()


def count_cached_texts() -> int:
    """Number of results in all caches."""
    return sum(cached.cache_info().currsize for cached in _caches)
