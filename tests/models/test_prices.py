"""Prices: what an answer cost, whoever serves the model, from a table that anybody may change."""

from __future__ import annotations

from collections.abc import Iterator, MutableMapping

import pytest

from autonomy_ctx import Usage
from autonomy_ctx.models.catalog import PRICES
from autonomy_ctx.testing import ScriptedModel
from autonomy_ctx.tokens import MODELS, Price, estimate_cost, price_of

MADE_UP = Price(input=2, cached_input=0.2, cache_write=2.5, output=10)


@pytest.fixture
def table() -> Iterator[MutableMapping[str, Price]]:
    before = dict(PRICES)
    yield PRICES
    PRICES.clear()
    PRICES.update(before)


def test_every_kind_of_token_has_its_price() -> None:
    usage = Usage(
        input_tokens=1_000_000, cached_tokens=600_000, cache_write_tokens=100_000, output_tokens=50_000
    )
    # 300,000 read, 600,000 from the cache, 100,000 written to it, 50,000 said.
    assert estimate_cost(usage, MADE_UP) == pytest.approx(0.6 + 0.12 + 0.25 + 0.5)


def test_what_lives_longer_in_a_cache_has_a_price_of_its_own() -> None:
    price = Price(input=2, cache_write=2.5, long_cache_write=4, output=10)
    usage = Usage(
        input_tokens=1_000_000, cache_write_tokens=1_000_000, long_cache_write_tokens=250_000, output_tokens=0
    )
    assert estimate_cost(usage, price) == pytest.approx(0.75 * 2.5 + 0.25 * 4)


def test_a_long_prompt_has_the_price_of_its_tier() -> None:
    usage = Usage(input_tokens=120_000, cached_tokens=110_000, cache_write_tokens=10_000, output_tokens=1_000)
    once = 110_000 * 0.01 + 10_000 * 0.125 + 1_000 * 0.5
    assert estimate_cost(usage, "claude-haiku-5-5") == pytest.approx(5 * once / 1e6)


def test_what_a_provider_reports_oddly_never_costs_less_than_nothing() -> None:
    assert estimate_cost(Usage(input_tokens=10, cached_tokens=20), MADE_UP) == pytest.approx(20 * 0.2e-6)


def test_a_price_without_special_ones_charges_input_for_them() -> None:
    price = Price(input=3, output=9)
    assert (price.cached_input, price.cache_write) == (3, 3)
    assert Price(input=0, output=0).cost(uncached=5, cached=5, written=5, output=5) == 0


@pytest.mark.parametrize("wrong", [-1, float("inf"), float("nan"), "3", True])
def test_a_price_that_is_none_is_refused(wrong: float) -> None:
    with pytest.raises(ValueError, match="per million tokens"):
        Price(input=wrong, output=1)


@pytest.mark.parametrize(
    "name",
    ["claude-sonnet-4-6", "us.anthropic.claude-sonnet-4-6-v1:0", "openrouter/anthropic/claude-sonnet-4.6"],
)
def test_a_model_has_one_price_whoever_serves_it(name: str) -> None:
    assert price_of(name) == Price(input=3, cached_input=0.3, cache_write=3.75, long_cache_write=6, output=15)


def test_the_longest_name_that_fits_counts() -> None:
    mini, full = price_of("gpt-5-mini-2026-01-01"), price_of("gpt-5-2026-01-01")
    assert mini is not None
    assert full is not None
    assert mini.input < full.input


def test_an_unknown_model_has_no_price() -> None:
    assert price_of("nobody-knows-it") is None
    assert price_of(ScriptedModel()) is None
    assert price_of(object()) is None
    assert estimate_cost(Usage(input_tokens=5), "nobody-knows-it") is None


def test_the_table_may_be_changed(table: MutableMapping[str, Price]) -> None:
    table["scripted"] = MADE_UP
    table["Acme/Big"] = MADE_UP
    assert price_of(ScriptedModel()) == MADE_UP
    assert price_of("acme/big-2") == MADE_UP
    assert estimate_cost(Usage(output_tokens=1_000_000), ScriptedModel()) == 10


def test_a_price_that_is_taken_away_leaves_no_row_behind(table: MutableMapping[str, Price]) -> None:
    table["scripted"] = MADE_UP
    del table["scripted"], table["gpt-5"]
    assert "scripted" not in MODELS
    assert "gpt-5" not in table
    assert MODELS["gpt-5"].window == 272_000
    with pytest.raises(KeyError):
        del table["scripted"]


def test_another_table_may_be_given() -> None:
    assert price_of("gpt-5", {"gpt": MADE_UP}) == MADE_UP
    assert estimate_cost(Usage(output_tokens=100_000), "gpt-5", {"gpt": MADE_UP}) == 1


def test_in_the_table_a_cached_token_never_costs_more_than_another() -> None:
    for name, price in PRICES.items():
        assert name == name.lower()
        assert 0 < price.cached_input < price.input <= price.cache_write < price.output, name
