"""`PromptCache`: which tokens of a prompt a provider reads from its cache, and which it writes there.

Claude looks back from its marks. A test gives the time, so a prefix expires when the test says so.
"""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from itertools import accumulate

MINUTE, HOUR = 60.0, 3600.0
# Seconds, by the names that requests use.
LIVES = {"5m": 5 * MINUTE, "1h": HOUR}
_LONG = (LIVES["1h"],)
# From a mark, Claude looks for a prefix at so many positions; the mark's own is the first.
LOOKBACK = 20


@dataclass(frozen=True, slots=True, kw_only=True)
class CachePosition:
    """A piece of a prompt, after which a prefix may end."""

    text: str
    words: tuple[str, ...]
    # Seconds that a prefix lives which ends here; None without a mark.
    life: float | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class _CacheMark:
    """A position at which a prefix is written, and the seconds that it lives."""

    at: int
    life: float


@dataclass(frozen=True, slots=True, kw_only=True)
class _CachedPrefix:
    """A prefix in the cache, under its hash."""

    key: str
    expires: float
    life: float


@dataclass(frozen=True, slots=True, kw_only=True)
class CacheUse:
    """The tokens of a prompt by price, and the prefixes to write once the reply begins."""

    cached: int = 0
    written: int = 0
    # The part of `written` that lives 1 h.
    written_long: int = 0
    uncached: int = 0
    prefixes: tuple[_CachedPrefix, ...] = field(default=(), repr=False)

    @property
    def total(self) -> int:
        """All tokens of the prompt."""
        return self.cached + self.written + self.uncached


class PromptCache:
    """Prefixes that requests have written, with the time at which each expires."""

    def __init__(self) -> None:
        self._prefixes: dict[str, _CachedPrefix] = {}

    def write(self, use: CacheUse) -> None:
        """Make the prefixes of a request readable."""
        for prefix in use.prefixes:
            self._prefixes[prefix.key] = prefix

    def use_claude(self, key: str, positions: Sequence[CachePosition], *, least: int, now: float) -> CacheUse:
        """Look back from each mark for a prefix, and write at the marks after the longest one."""
        marks = _find_marks(positions)
        reads = [range(mark.at, max(mark.at - LOOKBACK, -1), -1) for mark in marks]
        return self._use(key, positions, reads, marks, least=least, now=now)

    def _use(
        self,
        key: str,
        positions: Sequence[CachePosition],
        reads: Sequence[Sequence[int]],
        writes: Sequence[_CacheMark],
        *,
        least: int,
        now: float,
    ) -> CacheUse:
        """Read at the first live prefix of each sequence; write at the marks that come after all of them."""
        keys = _hash_prefixes(key, positions)
        ends = list(accumulate(len(one.words) for one in positions))
        hit = -1
        for places in reads:
            for at in places:
                found = self._prefixes.get(keys[at])
                if found and found.expires > now:
                    # What is read lives on.
                    self._prefixes[found.key] = replace(found, expires=now + found.life)
                    hit = max(hit, at)
                    break
        begin = end = ends[hit] if hit >= 0 else 0
        long = 0
        prefixes = []
        for mark in writes:
            if mark.at > hit and ends[mark.at] >= least:
                long += ends[mark.at] - end if mark.life in _LONG else 0
                end = ends[mark.at]
                prefixes.append(_CachedPrefix(key=keys[mark.at], expires=now + mark.life, life=mark.life))
        return CacheUse(
            cached=begin,
            written=end - begin,
            written_long=long,
            uncached=(ends[-1] if ends else 0) - end,
            prefixes=tuple(prefixes),
        )


def _find_marks(positions: Sequence[CachePosition]) -> list[_CacheMark]:
    return [_CacheMark(at=at, life=one.life) for at, one in enumerate(positions) if one.life is not None]


def _hash_prefixes(key: str, positions: Sequence[CachePosition]) -> list[str]:
    """For each position, a hash of everything up to it."""
    found: list[str] = []
    for one in positions:
        key = hashlib.sha256(f"{key}\0{one.text}".encode("utf-8", "surrogatepass")).hexdigest()
        found.append(key)
    return found
