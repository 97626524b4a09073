"""`PromptCache`: which tokens of a prompt a provider reads from its cache, and which it writes there.

There are three rules. Claude looks back from its marks. GPT-5.6 and later compare whole prefixes at marks.
Older GPT models and Gemini compare word by word. A test gives the time, so a prefix expires when the test
says so.
"""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from itertools import accumulate, takewhile

from autonomy_ctx.formats.base import Usage

MINUTE, HOUR = 60.0, 3600.0
# Seconds, by the names that requests use.
LIVES = {"5m": 5 * MINUTE, "1h": HOUR, "30m": 30 * MINUTE, "12h": 12 * HOUR}
_LONG = (LIVES["1h"], LIVES["12h"])
# From a mark, Claude looks for a prefix at so many positions; the mark's own is the first.
LOOKBACK = 20
# GPT reads at so many of the newest marks, and writes at so many.
READ_MARKS, WRITE_MARKS = 80, 4
GPT_LEAST_CACHED = 1024


@dataclass(frozen=True, slots=True, kw_only=True)
class CachePosition:
    """A piece of a prompt, after which a prefix may end."""

    text: str
    words: tuple[str, ...]
    # Seconds that a prefix lives which ends here; None without a mark.
    life: float | None = None
    # The end of a message at which GPT sets a mark itself.
    implicit: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class _CacheMark:
    """A position at which a prefix is written, and the seconds that it lives."""

    at: int
    life: float
    implicit: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class _CachedPrefix:
    """A prefix in the cache, under its hash or, word by word, in `words`."""

    key: str
    expires: float
    life: float
    implicit: bool = False
    words: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class CacheUse:
    """The tokens of a prompt by price, and the prefixes to write once the reply begins."""

    cached: int = 0
    written: int = 0
    # The part of `written` that lives 1 h or 12 h.
    written_long: int = 0
    uncached: int = 0
    prefixes: tuple[_CachedPrefix, ...] = field(default=(), repr=False)

    @property
    def total(self) -> int:
        """All tokens of the prompt."""
        return self.cached + self.written + self.uncached

    def to_usage(self, output: int) -> Usage:
        """The tokens of the prompt and of its reply, as a provider reports them."""
        return Usage(
            input_tokens=self.total,
            cached_tokens=self.cached,
            cache_write_tokens=self.written,
            long_cache_write_tokens=self.written_long,
            output_tokens=output,
        )


class PromptCache:
    """Prefixes that requests have written, with the time at which each expires."""

    def __init__(self) -> None:
        self._prefixes: dict[str, _CachedPrefix] = {}
        self._prompts: list[_CachedPrefix] = []

    def write(self, use: CacheUse) -> None:
        """Make the prefixes of a request readable."""
        for prefix in use.prefixes:
            if prefix.words:
                self._prompts.append(prefix)
            else:
                self._prefixes[prefix.key] = prefix

    def use_claude(self, key: str, positions: Sequence[CachePosition], *, least: int, now: float) -> CacheUse:
        """Look back from each mark for a prefix, and write at the marks after the longest one."""
        marks = _find_marks(positions)
        reads = [range(mark.at, max(mark.at - LOOKBACK, -1), -1) for mark in marks]
        return self._use(key, positions, reads, marks, least=least, now=now)

    def use_marks(
        self,
        key: str,
        positions: Sequence[CachePosition],
        *,
        implicit_life: float | None,
        is_readable: bool,
        now: float,
    ) -> CacheUse:
        """Read the longest prefix that ends at one of the newest marks, and write at the newest of all.

        `implicit_life` is None if only the marks of the request count.
        """
        marks = writes = _find_marks(positions)
        ends = [at for at, one in enumerate(positions) if one.implicit and implicit_life is not None]
        if ends and implicit_life is not None and all(mark.at != ends[-1] for mark in marks):
            # The provider's own mark takes one of the places.
            end = _CacheMark(at=ends[-1], life=implicit_life, implicit=True)
            writes = sorted([*marks, end], key=lambda mark: mark.at)
        reads = sorted({*ends, *(mark.at for mark in marks)}, reverse=True)[:READ_MARKS]
        return self._use(
            key,
            positions,
            [reads] if is_readable else [],
            writes[-WRITE_MARKS:],
            least=GPT_LEAST_CACHED,
            now=now,
            with_implicit=implicit_life is not None,
        )

    def use_longest(
        self,
        key: str,
        positions: Sequence[CachePosition],
        *,
        step: int,
        life: float,
        now: float,
        least: int = GPT_LEAST_CACHED,
    ) -> CacheUse:
        """Read the longest beginning that any earlier prompt shares, in whole steps; writing is free."""
        words = tuple(word for one in positions for word in one.words)
        live = [one.words for one in self._prompts if one.key == key and one.expires > now]
        best = max((_count_shared(one, words) // step * step for one in live), default=0)
        best = best if best >= least else 0
        prompt = _CachedPrefix(key=key, expires=now + life, life=life, words=words)
        return CacheUse(cached=best, uncached=len(words) - best, prefixes=(prompt,))

    def _use(
        self,
        key: str,
        positions: Sequence[CachePosition],
        reads: Sequence[Sequence[int]],
        writes: Sequence[_CacheMark],
        *,
        least: int,
        now: float,
        with_implicit: bool = True,
    ) -> CacheUse:
        """Read at the first live prefix of each sequence; write at the marks that come after all of them."""
        keys = _hash_prefixes(key, positions)
        ends = list(accumulate(len(one.words) for one in positions))
        hit = -1
        for places in reads:
            for at in places:
                found = self._prefixes.get(keys[at])
                if found and found.expires > now and (with_implicit or not found.implicit):
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
                prefixes.append(
                    _CachedPrefix(
                        key=keys[mark.at], expires=now + mark.life, life=mark.life, implicit=mark.implicit
                    )
                )
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


def _count_shared(one: Sequence[str], other: Sequence[str]) -> int:
    return sum(1 for _ in takewhile(lambda pair: pair[0] == pair[1], zip(one, other, strict=False)))
