"""Caches of values that are computed from texts, for the whole process.

Deleted texts must not stay in these caches, so one call empties all of them.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable
from functools import lru_cache
from typing import Any, Generic, ParamSpec, TypeVar

P = ParamSpec("P")
T = TypeVar("T")


class TextCache(Generic[T]):
    """Results by text, or by a text and other values; at most `size` of them.

    When half of them are new, those that were not asked for meanwhile go. So what is used all the time stays,
    and no single call has to make all of it again.
    """

    def __init__(self, size: int) -> None:
        self._half = max(size // 2, 1)
        self._results: dict[Hashable, T] = {}
        self._older: dict[Hashable, T] = {}
        _caches.append(self)

    def __len__(self) -> int:
        return len(self._results) + len(self._older)

    def get(self, key: Hashable) -> T | None:
        """The result for a key, if it is there."""
        found = self._results.get(key)
        if found is None:
            # In one step: another thread may look for the same.
            found = self._older.pop(key, None)
            if found is not None:
                self._put(key, found)
        return found

    def get_or_make(self, key: Hashable, make: Callable[[], T]) -> T:
        """The result for a key; it is made unless it is there."""
        try:
            return self._results[key]
        except KeyError:
            pass
        try:
            made = self._older.pop(key)
        except KeyError:
            made = make()
        self._put(key, made)
        return made

    def _put(self, key: Hashable, result: T) -> None:
        if len(self._results) >= self._half:
            self._older, self._results = self._results, {}
        self._results[key] = result

    def clear(self) -> None:
        """Drop all results."""
        self._results.clear()
        self._older.clear()


_caches: list[TextCache[Any]] = []
_others: list[Callable[[], None]] = []


def forget_texts() -> None:
    """Empty all caches, because messages or facts were deleted and their texts may be in them."""
    for cached in _caches:
        cached.clear()
    for clear in _others:
        clear()


def forget_with_texts(clear: Callable[[], None]) -> None:
    """Have caches of another kind, which have texts too, emptied together with these."""
    _others.append(clear)


def word_cache(size: int) -> Callable[[Callable[P, T]], Callable[P, T]]:
    """As `lru_cache`, for a function of single words: they may be words of a text that was deleted."""

    def decorate(function: Callable[P, T]) -> Callable[P, T]:
        cached: Any = lru_cache(size)(function)
        forget_with_texts(cached.cache_clear)
        made: Callable[P, T] = cached
        return made

    return decorate


def count_cached_texts() -> int:
    """Number of results in all caches."""
    return sum(map(len, _caches))
