"""`CostModel`: when a summary pays, by the prices of the model and the rules of its cache; and swap policies.

Messages that a summary could replace cost money with every request: little from the cache, all of it after a
pause in which the cache has expired. Writing a summary and sending the shorter context anew costs money once.
A summary is due when the first has cost as much as the second will, as skis are rented until they could have
been bought. Then no conversation pays much more than it has to, wherever it ends.
"""

from __future__ import annotations

import inspect
from bisect import bisect_right
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import accumulate, pairwise
from statistics import median_low
from typing import Any, NamedTuple, TypeAlias

from autonomy_ctx.compaction.plan import (
    MAX_BATCH_TOKENS,
    MESSAGE_PART,
    RANGE_TOKENS,
    CountMessage,
    segment_target,
)
from autonomy_ctx.formats.model_table import CacheRule, Price
from autonomy_ctx.memory.store import Entry
from autonomy_ctx.messages.cuts import safe_cuts
from autonomy_ctx.messages.message import ChatRole

# Tokens that a summary is asked for with: after a cached request, or beside the messages.
SHARED_PROMPT_TOKENS, PROMPT_TOKENS = 460, 900
# A conversation may end before its summary has saved anything. So the messages must have cost more than the
# summary will, by this part of its cost for the first summary of a conversation, and by less for later ones.
CAUTION = 0.8


class _SentRequest(NamedTuple):
    """A request with the first so many entries and so many tokens, some seconds after the one before."""

    entries: int
    tokens: int
    gap: float


@dataclass(frozen=True, slots=True, kw_only=True)
class CostModel:
    """The prices of the models that read contexts and write summaries, and the rules of the cache."""

    price: Price
    writer: Price
    cache: CacheRule
    # Whether a summary is asked for after the request that is in the cache.
    shares_prefix: bool
    # Messages that stay after a summary, and the most tokens of a summary.
    floor: int
    size: int
    # What a context has beside the conversation: instructions and tools.
    other_tokens: int = 0

    def is_due(
        self, entries: Sequence[Entry], summary_tokens: int, count: CountMessage, *, expires: bool = False
    ) -> bool:
        """Tell whether a summary pays now. `entries` are the messages after a summary of so many tokens.

        With `expires`, the cache will have expired before the next request: then a shorter context is
        cheaper from its first request on.
        """
        if len(entries) <= self.floor:
            return False
        window = _Window(self, entries, summary_tokens, count)
        if window.prefers_long_life():
            window = _Window(self.with_long_life(), entries, summary_tokens, count)
        return window.is_due(expires=expires)

    def prefers_long_life(
        self, entries: Sequence[Entry], summary_tokens: int, count: CountMessage
    ) -> bool | None:
        """Tell whether the longer life of cached prefixes pays; None if no pause is long enough to tell."""
        return _Window(self, entries, summary_tokens, count).prefers_long_life()

    def with_long_life(self) -> CostModel:
        """The costs if prefixes are cached for longer."""
        seconds = self.cache.long_seconds or self.cache.seconds
        price = replace(self.price, cache_write=self.price.long_cache_write)
        return replace(self, price=price, cache=replace(self.cache, seconds=seconds, long_seconds=None))

    def move_cut(self, entries: Sequence[Entry], cut: int, summary_tokens: int, count: CountMessage) -> int:
        """The cut, or an earlier safe one that leaves a context which is long enough for the cache."""
        window = _Window(self, entries, summary_tokens, count)
        if window.tokens - window.before[cut] >= window.least_tokens:
            return cut
        fits = (one for one in safe_cuts([entry.message for entry in entries[:cut]]) if one < cut)
        return max(
            (one for one in fits if window.tokens - window.before[one] >= window.least_tokens), default=0
        )

    def factor(self, tokens: float) -> float:
        """The factor of the prices of input for a prompt of so many tokens."""
        tier = self.price.tier
        return tier.input if tier is not None and tokens > tier.above else 1.0

    def new_rate(self, tokens: float) -> float:
        """The price of a token that is not in the cache, in a prompt of so many tokens."""
        return self.price.cache_write if tokens >= self.cache.min_tokens else self.price.input

    def cost_of_summary(self, total: float, replaced: float, read: float) -> float:
        """The cost of writing a summary, after the cached request or beside the messages.

        Beside them the writer is shown large messages in part: it reads so many tokens of those replaced.
        """
        writer, calls = self.writer, _count_calls(replaced)
        cost = (read + PROMPT_TOKENS * calls) * writer.input
        if self.shares_prefix and total >= self.cache.min_tokens:
            shared = total * self.price.cached_input + SHARED_PROMPT_TOKENS * self.price.cache_write
            cost = min(cost, shared * self.factor(total) * calls)
        return cost + self._written_tokens(replaced) * writer.output

    def cost_of_swap(self, total: float, after: float, *, expires: bool) -> float:
        """The extra cost of the next request if it begins anew; below 0 if it is cheaper so."""
        least, read = self.cache.min_tokens, self.price.cached_input
        head = self.other_tokens if self.other_tokens >= least and not expires else 0
        anew = head * read + (after - head) * self.new_rate(after)
        goes_on = total * (self.new_rate(total) if expires or total < least else read)
        return anew * self.factor(after) - goes_on * self.factor(total)

    def added_tokens(self, replaced: float, summary_tokens: int) -> float:
        """The tokens that a summary gets longer by."""
        added = self._written_tokens(replaced) + RANGE_TOKENS * _count_calls(replaced)
        return min(added, max(self.size - summary_tokens, 0))

    def _written_tokens(self, replaced: float) -> float:
        calls = _count_calls(replaced)
        return segment_target(int(replaced / calls), self.size) * calls


class _Window:
    """The messages that no summary covers, with what they have cost so far."""

    def __init__(
        self, costs: CostModel, entries: Sequence[Entry], summary_tokens: int, count: CountMessage
    ) -> None:
        self._costs, self._entries, self._summary_tokens = costs, entries, summary_tokens
        self.before = [0, *accumulate(count(entry.message) for entry in entries)]
        self.tokens = self.before[-1]
        self._base = costs.other_tokens + summary_tokens
        self._requests = list(self._list_requests())

    @property
    def least_tokens(self) -> int:
        """The tokens that must stay, so that a context is long enough for the cache.

        None, if it is not that long soon: a short context is cheaper until then. A conversation is expected
        to go on for as long as it has.
        """
        least, entries = self._costs.cache.min_tokens, self._entries
        said = self.tokens * entries[-1].position / len(entries)
        return max(least - self._base, 0) if self._base + self.tokens + said >= least else 0

    def is_due(self, *, expires: bool) -> bool:
        """Tell whether these messages have cost as much as their summary will."""
        costs, total = self._costs, self._base + self.tokens
        saved = self._saved_tokens(len(self._entries))
        turns = self._list_turns()
        if saved <= 0:
            return False
        if self._nears_tier(total, total - saved):
            return True
        if not expires and turns and turns[-1] < median_low(turns):
            # The turn goes on as others do, and what it adds can be summarized as well.
            return False
        rates = zip(self._requests, self._list_rates(costs), strict=True)
        spent = sum(self._saved_tokens(one.entries) * rate for one, rate in rates)
        # A summary is shown between two turns: after this one, or after the next if that is nearer.
        rate = costs.price.cached_input if total >= costs.cache.min_tokens else costs.price.input
        requests_of_turn = len(self._requests) / max(len(turns), 1)
        spent += saved * rate * costs.factor(total) * requests_of_turn / 2
        replaced = self._replaced_tokens(len(self._entries))
        cost = costs.cost_of_summary(total, replaced, self._read_tokens(replaced))
        cost += costs.cost_of_swap(total, total - saved, expires=expires)
        share = len(self._entries) / self._entries[-1].position
        return spent >= cost * (1 + CAUTION * share)

    def prefers_long_life(self) -> bool | None:
        """Tell whether these requests would have cost less with the longer life of the cache."""
        # As if all were long enough for the cache: those after the next pause will be.
        costs = replace(self._costs, cache=replace(self._costs.cache, min_tokens=0))
        is_cold = any(one.gap >= costs.cache.seconds for one in self._requests)
        if costs.cache.long_seconds is None or not is_cold:
            return None
        return self._cost_of_requests(costs.with_long_life()) < self._cost_of_requests(costs)

    def _cost_of_requests(self, costs: CostModel) -> float:
        """The cost of the input of these requests, without the first."""
        cost, (_, *rates) = 0.0, self._list_rates(costs)
        for (before, after), rate in zip(pairwise(self._requests), rates, strict=True):
            new = (after.tokens - before.tokens) * costs.new_rate(after.tokens)
            cost += before.tokens * rate + new * costs.factor(after.tokens)
        return cost

    def _list_rates(self, costs: CostModel) -> list[float]:
        """For each request, the price of a token that the request before had, too."""
        rates, last = [], 0
        for one in self._requests:
            is_cached = one.gap < costs.cache.seconds and last >= costs.cache.min_tokens
            rate = costs.price.cached_input if is_cached else costs.new_rate(one.tokens)
            rates.append(rate * costs.factor(one.tokens))
            last = one.tokens
        return rates

    def _replaced_tokens(self, number: int) -> float:
        """The tokens that a summary would replace in a context with the first so many entries."""
        before = self.before
        return max(min(before[max(number - self._costs.floor, 0)], before[number] - self.least_tokens), 0)

    def _read_tokens(self, replaced: float) -> float:
        """The tokens that the writer of a summary reads of those that it replaces."""
        most, before = MAX_BATCH_TOKENS // MESSAGE_PART, self.before
        ends = before[: bisect_right(before, replaced)]
        return sum(min(end - start, most) for start, end in pairwise(ends))

    def _saved_tokens(self, number: int) -> float:
        """The tokens by which that context would be shorter."""
        replaced = self._replaced_tokens(number)
        return (
            max(replaced - self._costs.added_tokens(replaced, self._summary_tokens), 0.0) if replaced else 0.0
        )

    def _nears_tier(self, total: float, after: float) -> bool:
        """Tell whether the next two turns could pass the tier; the first of them has all messages yet."""
        tier, before = self._costs.price.tier, self.before
        if tier is None or after >= tier.above:
            return False
        # A turn with many steps may have begun before all of these messages.
        bounds = [*(self._list_starts() or [0]), len(self._entries)]
        largest = max(before[end] - before[start] for start, end in pairwise(bounds))
        return total + 2 * largest > tier.above

    def _list_requests(self) -> Iterator[_SentRequest]:
        """A request before each message of the assistant, and one at the end."""
        entries, last = self._entries, None
        for at in range(1, len(entries) + 1):
            is_end = at == len(entries) and entries[-1].message.role is not ChatRole.ASSISTANT
            if is_end or (at < len(entries) and entries[at].message.role is ChatRole.ASSISTANT):
                time = entries[at - 1].message.created_at
                gap = 0.0 if last is None else (time - last).total_seconds()
                yield _SentRequest(at, self._base + self.before[at], gap)
                last = time

    def _list_starts(self) -> list[int]:
        return [at for at, entry in enumerate(self._entries) if entry.message.role is ChatRole.USER]

    def _list_turns(self) -> list[int]:
        """The number of requests of each turn."""
        starts = self._list_starts()
        counts = Counter(bisect_right(starts, one.entries - 1) for one in self._requests)
        return [counts[turn] for turn in range(1, len(starts) + 1)]


def _count_calls(tokens: float) -> int:
    """The calls of the summarizer for so many tokens."""
    return max(int(-(-tokens // MAX_BATCH_TOKENS)), 1)


# -- whether a finished summary is shown now or later: `eager` and `cheapest` ------------------------------


@dataclass(frozen=True, slots=True, kw_only=True)
class SwapChoice:
    """The costs that a swap policy decides on. Both are in tokens at the price of uncached input.

    `carried` is the cost, since the last swap, of the messages that a summary could replace. `swap_cost` is
    the cost of what the provider would have to read again at the full price. The policy is called only while
    the limits allow waiting.
    """

    # Since the last context of this conversation, and how long a provider keeps what it has cached.
    idle_seconds: float
    cache_seconds: float
    carried: float
    swap_cost: float
    # Whether a segment has become ready since the last context: then the least has to be read anew.
    fresh: bool
    # How many messages the window may still grow by, and after how many the next segment is ready.
    room: int
    batch: int


SwapPolicy: TypeAlias = Callable[[SwapChoice], bool]


def eager(choice: SwapChoice) -> bool:
    """Show a summary as soon as it is there."""
    return True


def cheapest(choice: SwapChoice) -> bool:
    """Show a summary when that costs nothing, since the cache is cold, or when waiting has cost as much.

    Changing at that point is what makes the two kinds of cost together smallest, as for a shop that pays
    for each delivery and for every day that goods lie there. Also when the limits would not allow to wait
    for the next segment.
    """
    if choice.idle_seconds >= choice.cache_seconds:
        return True
    return choice.fresh and (choice.carried >= choice.swap_cost or choice.room < choice.batch)


POLICIES: dict[str, SwapPolicy] = {"eager": eager, "cost": cheapest}


def policy_of(swap: Any) -> SwapPolicy:
    """The policy with a name, or the function given."""
    found = POLICIES.get(swap) if isinstance(swap, str) else swap
    if not callable(found):
        raise ValueError(f"swap is {swap!r}; it must be one of {', '.join(POLICIES)}, or a function")
    if inspect.iscoroutinefunction(found) or inspect.iscoroutinefunction(type(found).__call__):
        raise TypeError("swap is an async function; give a plain one, because its result is needed at once")
    policy: SwapPolicy = found
    return policy
