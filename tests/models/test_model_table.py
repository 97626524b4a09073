"""The table of known models: names and families, windows, prices with tiers, and rules of caches."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from dataclasses import replace
from datetime import date

import pytest

from autonomy_ctx.formats.model_table import TABLE_DATE, is_known_model
from autonomy_ctx.formats.thinking import binds_thinking
from autonomy_ctx.models.model import Model
from autonomy_ctx.testing.providers import ClaudeModel
from autonomy_ctx.tokens import MODELS, CacheRule, ModelInfo, Price, PriceTier, find_model, price_of


@pytest.fixture
def table() -> Iterator[dict[str, ModelInfo]]:
    before = dict(MODELS)
    yield MODELS
    MODELS.clear()
    MODELS.update(before)


@pytest.mark.parametrize(
    ("name", "row", "is_known"),
    [
        ("claude-opus-5-5", "claude-opus-5-5", True),
        ("claude-opus-5-5-20261001", "claude-opus-5-5", True),
        ("us.anthropic.claude-opus-4-6-v1:0", "claude-opus-4-6", True),
        ("openrouter/anthropic/claude-sonnet-4.6", "claude-sonnet-4-6", True),
        ("claude-fable-5-2@default", "claude-fable-5-2", True),
        ("gpt-5.6-sol-2026-08-01", "gpt-5.6-sol", True),
        ("gpt-4o-2024-08-06", "gpt-4o", True),
        ("amazon.nova-lite-v1:0", "nova-lite", True),
        ("gemini-3.1-pro-preview", "gemini-3.1-pro", True),
        # What is newer than the table is taken for the newest of its family, not for the oldest.
        ("claude-opus-5-7", "claude-opus-5-5", False),
        ("claude-haiku-6", "claude-haiku-5-5", False),
        ("claude-zephyr-1", "claude-opus-5-5", False),
        ("gpt-5.7", "gpt-6.1-sol", False),
        ("gpt-7-sol", "gpt-6.1-sol", False),
        ("gemini-5-neon", "gemini-3.8-flash", False),
    ],
)
def test_a_name_finds_its_row_or_the_newest_of_its_family(name: str, row: str, is_known: bool) -> None:
    found = find_model(name)
    assert found is not None
    assert (found.name, is_known_model(name)) == (row, is_known)


def test_a_name_without_a_family_has_no_row() -> None:
    assert find_model("llama-3.3-70b") is None
    assert not is_known_model("llama-3.3-70b")


def test_a_model_that_is_not_in_the_table_is_told_once(caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.WARNING, "autonomy_ctx.models"):
        for _ in range(3):
            assert Model("claude-opus-5-8").context_window == 1_000_000
        Model("claude-opus-5-5")
        Model("ollama/claude-opus-5-9")
    [record] = caplog.records
    assert "claude-opus-5-8 is not in the table" in record.getMessage()
    assert "claude-opus-5-5" in record.getMessage()


def test_a_row_of_ones_own_is_used_for_window_and_price(table: dict[str, ModelInfo]) -> None:
    price = Price(input=0.4, output=1.6)
    table["my-model"] = ModelInfo(name="my-model", window=64_000, price=price, cache=CacheRule(seconds=60))
    assert Model("my-model-large", provider="groq").context_window == 64_000
    assert price_of("my-model") == price
    table["gpt-5"] = replace(table["gpt-5"], price=price)
    assert price_of("gpt-5-2026-01-01") == price


def test_a_tier_counts_the_whole_prompt_with_what_is_cached() -> None:
    price = Price(input=1, cached_input=0.1, output=5, tier=PriceTier(above=100, input=5, output=2))
    assert price.cost(uncached=50, cached=50, output=10) == pytest.approx((50 + 5 + 50) / 1e6)
    assert price.cost(uncached=50, cached=51, output=10) == pytest.approx((5 * 55.1 + 2 * 50) / 1e6)


def test_entries_that_live_longer_cost_as_much_as_others_unless_a_price_is_given() -> None:
    assert Price(input=1, output=5, cache_write=2).long_cache_write == 2
    assert Price(input=1, output=5, long_cache_write=3).cost(long_written=1_000_000) == 3


def test_the_table_has_valid_rows() -> None:
    date.fromisoformat(TABLE_DATE)
    for key, info in MODELS.items():
        assert key == key.lower()
        assert info.window, key
        assert info.source.startswith("https://"), key
        assert date.fromisoformat(info.date) <= date.fromisoformat(TABLE_DATE), key
        rule, price = info.cache, info.price
        assert (rule.marks > 0) == (rule.match == "marks"), key
        assert rule.long_seconds is None or rule.long_seconds > rule.seconds, key
        if price is not None:
            assert 0 < price.cached_input < price.input <= price.cache_write < price.output, key
            assert price.cache_write <= price.long_cache_write, key


CLAUDE_NAMES = [name for name in MODELS if name.startswith("claude-") and name[-1].isdigit()]


@pytest.mark.parametrize("name", CLAUDE_NAMES)
def test_the_table_and_the_test_server_have_the_same_rules_for_claude(name: str) -> None:
    info, rules = MODELS[name], ClaudeModel.parse(name)
    assert info.binds_thinking == rules.binds == binds_thinking(name)
    if rules.version >= (4, 5):
        assert info.system_messages == rules.takes_system_messages
        assert info.compaction == rules.compacts
        assert info.cache.min_tokens == rules.min_cached_tokens


def test_a_local_server_has_the_window_of_your_row_and_not_of_the_table(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setitem(MODELS, "my-model", ModelInfo(name="my-model", window=32_000))
    url = "http://127.0.0.1:8000/v1"
    assert Model("my-model", base_url=url).context_window == 32_000
    assert Model("vllm/my-model").context_window == 32_000
    assert Model("vllm/gpt-oss-20b").context_window is None
