"""From which share of replaced text on `auto` begins an epoch anew."""

from __future__ import annotations

from dataclasses import replace

import pytest

from autonomy_ctx import ContextSummaryConfig, Message
from autonomy_ctx.compaction.config import resolve_settings
from autonomy_ctx.compaction.swap import MIN_SUPERSEDED, superseded_share
from autonomy_ctx.memory.store import Entry
from autonomy_ctx.tokens import Price

PRICE = Price(input=10, cached_input=1, cache_write=12.5, output=50)


def share(messages: int, *, ceiling: int = 100, idle: float = 0.0, price: Price = PRICE) -> float:
    settings = resolve_settings(ContextSummaryConfig(floor=4, ceiling=ceiling, cache_seconds=300))
    entries = [Entry(at, Message("user", "word")) for at in range(1, messages + 1)]
    return superseded_share(replace(settings, price=price), entries, lambda message: 10, idle)


def test_the_share_is_where_reading_it_again_costs_as_much_as_beginning_anew() -> None:
    # 40 messages are 20 requests: each reads the replaced text for 1, and the rest is written for 11.5 more.
    assert share(60) == pytest.approx(11.5 / (11.5 + 20))


def test_the_more_requests_follow_the_sooner_it_pays() -> None:
    assert share(2) < share(50) < share(98)


def test_a_cold_cache_makes_a_new_beginning_free() -> None:
    assert share(50, idle=300) == MIN_SUPERSEDED < share(50, idle=299)


def test_without_a_price_for_reading_it_never_pays() -> None:
    assert share(50, price=Price(input=0, cached_input=0, cache_write=0, output=0)) == 1.0
    assert share(0) == 1.0


def test_where_the_cost_decides_as_many_requests_are_expected_as_there_were() -> None:
    settings = replace(resolve_settings(ContextSummaryConfig(auto=True)), price=PRICE)
    entries = [Entry(at, Message("user", "word")) for at in range(1, 41)]
    found = superseded_share(settings, entries, lambda message: 10, 0.0)
    assert found == pytest.approx(11.5 / (11.5 + 20))
