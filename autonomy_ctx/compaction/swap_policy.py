"""Policies that decide whether a finished summary is shown now or later: `eager` and `cheapest`."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, TypeAlias


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
