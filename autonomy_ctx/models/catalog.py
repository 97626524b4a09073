"""Prices and context windows of models, from the table of known models and from rows of your own."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, MutableMapping
from dataclasses import replace
from typing import Any

from autonomy_ctx.formats.base import Usage
from autonomy_ctx.formats.model_info import model_name
from autonomy_ctx.formats.model_table import MODELS, CacheRule, ModelInfo, Price, find_by_prefix, find_model


class PriceTable(MutableMapping[str, Price]):
    """The prices of `MODELS` as a mapping; a price that is set goes into the row of its model."""

    def __getitem__(self, name: str) -> Price:
        info = MODELS.get(name)
        if info is None or info.price is None:
            raise KeyError(name)
        return info.price

    def __setitem__(self, name: str, price: Price) -> None:
        MODELS[name] = replace(MODELS.get(name) or ModelInfo(name=name), price=price)

    def __delitem__(self, name: str) -> None:
        info = MODELS.pop(name)
        if info.window is not None:
            MODELS[name] = replace(info, price=None)

    def __iter__(self) -> Iterator[str]:
        return (name for name, info in MODELS.items() if info.price is not None)

    def __len__(self) -> int:
        return sum(1 for _ in self)


PRICES = PriceTable()


def find_context_window(name: str) -> int | None:
    """The most tokens of a prompt for a model, where that is known."""
    info = find_model(name)
    return None if info is None else info.window


def model_info(model: Any) -> ModelInfo | None:
    """The row of a model that is given by its name or as an object with one; None if there is no row."""
    name = model if isinstance(model, str) else model_name(model)
    return None if name is None else find_model(name)


def cache_rule(model: Any) -> CacheRule:
    """The rules of a model's prompt cache; the usual ones for a model that is not in the table."""
    info = model_info(model)
    return CacheRule() if info is None else info.cache


def price_of(model: Any, prices: Mapping[str, Price] = PRICES) -> Price | None:
    """The price of a model, given by its name or as an object with one; None when it is not in the table."""
    name = model if isinstance(model, str) else model_name(model)
    return None if name is None else find_by_prefix(prices, name)


def estimate_cost(usage: Usage, model: Any, prices: Mapping[str, Price] = PRICES) -> float | None:
    """The cost of an answer, by the tokens that its provider reported; None if the price is not known.

    `model` is a name, an object with one, or a `Price`.
    """
    price = model if isinstance(model, Price) else price_of(model, prices)
    if price is None:
        return None
    cached, written, long = usage.cached_tokens, usage.cache_write_tokens, usage.long_cache_write_tokens
    return price.cost(
        uncached=max(usage.input_tokens - cached - written, 0),
        cached=cached,
        written=max(written - long, 0),
        long_written=long,
        output=usage.output_tokens,
    )
