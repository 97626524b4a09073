"""The least that a conversation can cost, known all later requests: exact dynamic programming.

The state is the position at which the summary of the current epoch ends. Before each turn an epoch may end at
any later position at which a window may begin. Prices, tiers, lives of the cache and idle gaps are those of
the bill. Summaries have the sizes, and their calls the lengths, that those of `"auto"` have.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import numpy as np

from autonomy_ctx.compaction.plan import MAX_BATCH_TOKENS
from autonomy_ctx.messages.cuts import safe_cuts
from autonomy_ctx.models.catalog import cache_rule, price_of
from autonomy_ctx.replay import RecordedConversation
from benchmarks.bill import COUNTER

# Messages that stay after a summary.
FLOOR = 6
# Prices are for so many tokens.
MILLION = 1_000_000


@dataclass(frozen=True, slots=True)
class SummarySizes:
    """What summaries take: points of (tokens covered, tokens of the summary), and of a call's prompt."""

    shown: Sequence[tuple[float, float]]
    # Points of (tokens of a batch, tokens written).
    written: Sequence[tuple[float, float]]
    # Tokens that are asked with, after a cached context and alone.
    after: float = 460.0
    alone: float = 900.0
    # Calls for one segment: some are asked for twice, or merged later.
    calls: float = 1.0

    def of(self, covered: Any) -> Any:
        found = _interpolate(covered, self.shown)
        # No summary is longer than what it stands for.
        return np.minimum(found, covered)

    def output(self, batch: Any) -> Any:
        return _interpolate(batch, self.written)


@dataclass(frozen=True, slots=True)
class _Request:
    position: int
    gap: float
    output: int
    begins_turn: bool


class Oracle:
    """One conversation with one model."""

    def __init__(
        self, talk: RecordedConversation, model: str, sizes: SummarySizes, *, is_long: bool = False
    ) -> None:
        price = price_of(model)
        assert price is not None
        self.price, self.sizes, self.rule = price, sizes, cache_rule(model)
        self.is_long = is_long
        self.life = self.rule.long_seconds if is_long else self.rule.seconds
        self.requests = _list_requests(talk)
        counts = [COUNTER.count_uncalibrated(message) for message in talk.messages]
        self.before = np.concatenate([[0.0], np.cumsum(counts)])
        self.head = COUNTER.count_messages([{"role": "system", "content": talk.instructions}])
        self.cuts = np.array([0, *(cut for cut in safe_cuts(list(talk.messages)) if cut > 0)])
        self.summaries = sizes.of(self.before[self.cuts])
        # From each place to each: the calls, and their cost without and with what they read.
        batch = np.maximum(self.before[self.cuts][None, :] - self.before[self.cuts][:, None], 0.0)
        calls = np.maximum(np.ceil(batch / MAX_BATCH_TOKENS), 1)
        self._counts = sizes.calls * calls
        self._alone = self._counts * (batch / calls + sizes.alone) * price.input
        self._outputs = self._counts * sizes.output(batch / calls) * price.output
        self._is_back = self.cuts[:, None] >= self.cuts[None, :]

    def totals(self, request: _Request) -> Any:
        """The tokens of a request, for each place at which the summary may end."""
        return self.head + self.summaries + self.before[request.position] - self.before[self.cuts]

    def find_cost(self, *, ends: Sequence[int | None] | None = None) -> float:
        """The least cost; or, with `ends`, the cost where before request i the summary ends at `ends[i]`."""
        cuts = self.cuts
        spent = np.full(len(cuts), np.inf)
        before: _Request | None = None
        totals = np.zeros(len(cuts))
        for number, request in enumerate(self.requests):
            last, totals = totals, np.maximum(self.totals(request), 1.0)
            is_warm = before is not None and self.life is not None and request.gap < self.life
            cached = np.where(is_warm & (last >= self.rule.min_tokens), last, 0.0)
            goes_on = spent + self._charge(totals, cached, request.output)
            if before is None:
                goes_on[0] = self._charge(totals[:1], np.zeros(1), request.output)[0]
            spent_before, spent = spent, goes_on
            wanted = None if ends is None else ends[number]
            if before is not None and (request.begins_turn if ends is None else wanted is not None):
                head = self.head if is_warm and self.head >= self.rule.min_tokens else 0.0
                anew = self._charge(totals, np.full(len(cuts), head), request.output)
                calls = spent_before[:, None] + self._calls(last) / MILLION
                calls[self._is_back] = np.inf
                swapped = calls.min(axis=0) + anew
                # The summary was asked for with the request before, which kept the last messages.
                swapped[before.position - cuts < FLOOR] = np.inf
                if ends is None:
                    spent = np.minimum(spent, swapped)
                else:
                    at = int(np.argmin(np.abs(cuts - wanted)))
                    spent = np.full(len(cuts), np.inf)
                    spent[at] = swapped[at]
            # What is not said yet cannot be summarized.
            spent = np.where(cuts < request.position, spent, np.inf)
            before = request
        return float(spent.min())

    def _calls(self, last: Any) -> Any:
        """The cost of summaries from each place to each: after the cached request, or alone."""
        price, sizes = self.price, self.sizes
        after = last * price.cached_input + sizes.after * price.input
        after = np.where(last >= self.rule.min_tokens, after, np.inf)
        return np.minimum(self._counts * after[:, None], self._alone) + self._outputs

    def _charge(self, totals: Any, cached: Any, output: int) -> Any:
        price = self.price
        written = price.long_cache_write if self.is_long else price.cache_write
        new = np.where(totals >= self.rule.min_tokens, written, price.input)
        read: Any = cached * price.cached_input + (totals - cached) * new
        wrote: Any = output * price.output
        if price.tier is not None:
            is_above = totals > price.tier.above
            read = np.where(is_above, read * price.tier.input, read)
            wrote = np.where(is_above, wrote * price.tier.output, wrote)
        return (read + wrote) / MILLION


def _interpolate(values: Any, points: Sequence[tuple[float, float]]) -> Any:
    return np.interp(values, [one for one, _ in points], [other for _, other in points])


def _list_requests(talk: RecordedConversation) -> list[_Request]:
    found: list[_Request] = []
    times: list[float] = []
    position = 0
    for turn in talk.turns():
        for number, request in enumerate(turn.requests):
            position += len(request.said)
            times.append(request.said[-1].created_at.timestamp())
            output = 0 if request.answer is None else COUNTER.count_uncalibrated(request.answer)
            found.append(_Request(position, 0.0, output, number == 0))
        position += len(turn.rest)
    gaps = [0.0, *(after - before for before, after in pairwise(times))]
    return [
        _Request(one.position, gap, one.output, one.begins_turn) for one, gap in zip(found, gaps, strict=True)
    ]
