"""The table of known models: context windows, prices, and the rules of their prompt caches.

The rows are in `models.json`, with the date at which they were checked. They are list prices in US dollars,
without discounts or batches, and become outdated. Add a row of your own, or replace one:

    MODELS["my-model"] = ModelInfo(name="my-model", window=128_000, price=Price(input=0.4, output=1.6))
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Any, Literal, TypeVar

from autonomy_ctx.validation import check_number

T = TypeVar("T")
_MILLION = 1_000_000
# Most providers cache nothing that is shorter.
MIN_CACHED_TOKENS = 1024


@dataclass(frozen=True, slots=True, kw_only=True)
class PriceTier:
    """The factors of all prices of a request whose prompt has more than `above` tokens, cached or not."""

    above: int
    input: float
    output: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Price:
    """Prices per million tokens. Prices that are not given have the usual defaults.

    Without `cached_input`, cached tokens have the full price. Without `cache_write`, writing to the cache
    costs nothing extra. `long_cache_write` is for entries that the provider keeps for longer.
    """

    input: float
    output: float
    # None only as an argument.
    cached_input: float = None  # type: ignore[assignment]
    cache_write: float = None  # type: ignore[assignment]
    long_cache_write: float = None  # type: ignore[assignment]
    tier: PriceTier | None = None

    def __post_init__(self) -> None:
        for name, usual in (
            ("cached_input", "input"),
            ("cache_write", "input"),
            ("long_cache_write", "cache_write"),
        ):
            if getattr(self, name) is None:
                object.__setattr__(self, name, getattr(self, usual))
        for field in fields(self):
            if field.name != "tier":
                check_number(field.name, getattr(self, field.name), least=0, where="price per million tokens")

    def cost(
        self,
        *,
        uncached: float = 0,
        cached: float = 0,
        written: float = 0,
        long_written: float = 0,
        output: float = 0,
    ) -> float:
        """The cost of one request with these tokens; each token of the prompt is in one of the first four."""
        read = (
            uncached * self.input
            + cached * self.cached_input
            + written * self.cache_write
            + long_written * self.long_cache_write
        )
        wrote = output * self.output
        if self.tier is not None and uncached + cached + written + long_written > self.tier.above:
            read, wrote = read * self.tier.input, wrote * self.tier.output
        return (read + wrote) / _MILLION


@dataclass(frozen=True, slots=True, kw_only=True)
class CacheRule:
    """The rules of a model's prompt cache.

    `match` says what is found again: the longest common `prefix`, a prefix that ended at one of at most
    `marks` marks in the request, or `none`. A prefix of fewer than `min_tokens` is not cached. It is kept for
    `seconds` after its last use, or for `long_seconds` at a higher price, where that is offered.
    """

    match: Literal["prefix", "marks", "none"] = "prefix"
    marks: int = 0
    min_tokens: int = MIN_CACHED_TOKENS
    seconds: float = 300.0
    long_seconds: float | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class ModelInfo:
    """A row of the table. `window` is the most tokens of a prompt, `max_output` those of an answer.

    `tokenizer_factor` is about how many tokens the model counts where the built-in estimate counts one.
    """

    name: str
    vendor: str = ""
    window: int | None = None
    max_output: int | None = None
    price: Price | None = None
    cache: CacheRule = CacheRule()
    tokenizer_factor: float = 1.0
    # Thinking is valid only behind the context that it was made with.
    binds_thinking: bool = False
    # Messages of the role `system`, and definitions of tools, may stand in the middle of a conversation.
    system_messages: bool = False
    inline_tools: bool = False
    # The provider writes summaries on demand.
    compaction: bool = False
    # Where the numbers come from, and when that was read.
    source: str = ""
    date: str = ""


def _read_table(text: str) -> tuple[str, dict[str, ModelInfo]]:
    table = json.loads(text)
    rows: dict[str, Any] = table["models"]
    found: dict[str, ModelInfo] = {}
    for key, row in rows.items():
        # The newest of a family stands for all of it, under its own name; `like` is a second name.
        name = row.get("newest", key)
        row = rows[row.get("newest") or row.get("like") or key]
        found[key] = _read_row(name, {"date": table["date"], **table["families"][row["family"]], **row})
    return table["date"], found


def _read_row(name: str, row: Mapping[str, Any]) -> ModelInfo:
    price = None
    if "input" in row:
        cost = row["input"]
        price = Price(
            input=cost,
            cached_input=row["cached"],
            cache_write=round(row.get("write", 1) * cost, 6),
            long_cache_write=round(row["long_write"] * cost, 6) if "long_write" in row else None,  # type: ignore[arg-type]
            output=row["output"],
            tier=(
                PriceTier(above=row["tier"], input=row["tier_input"], output=row["tier_output"])
                if "tier" in row
                else None
            ),
        )
    cache = CacheRule(
        match=row["match"],
        marks=row.get("marks", 0),
        min_tokens=row["min_cached"],
        seconds=row["life"],
        long_seconds=row.get("long_life"),
    )
    # The others have the names of the fields.
    others = {one.name: row[one.name] for one in fields(ModelInfo) if one.name in row}
    return ModelInfo(**{**others, "name": name, "price": price, "cache": cache})


# The day on which the table was checked, and its rows by the beginning of a model's name.
TABLE_DATE: str
MODELS: dict[str, ModelInfo]
TABLE_DATE, MODELS = _read_table(Path(__file__).with_name("models.json").read_text("utf-8"))
# The proportions that most of the table has, for a model that is not in it: only good for comparing.
DEFAULT_PRICE = Price(input=1, cached_input=0.1, output=5)

# What gateways and Bedrock put before a model's own name: `openai/`, `us.anthropic.`.
_VENDOR_PREFIX = re.compile(r"^(?:.*/)?(?:(?:[a-z-]+\.)?(?:amazon|anthropic)\.)?")
# What may stand behind a model's name without making it another model: a date, a revision, a platform.
_SUFFIX = re.compile(
    r"(?:-\d{4}-\d\d-\d\d|-\d{8}|-\d{3,4}|-latest|-preview|-v\d{1,4})*(?:[:@][\w.:-]*)?(?:\[\w+\])?$"
)
_NEXT_VERSION = re.compile(r"[-.]\d{1,2}(?!\d)")


def find_model(name: str) -> ModelInfo | None:
    """The row of a model, or of the family that its name begins with; None if there is neither."""
    found = _find_row(MODELS, name)
    return None if found is None else MODELS[found[0]]


def known_models() -> list[str]:
    """The names of the models that have a row of their own, without those that stand for a family."""
    return [key for key, info in MODELS.items() if key == info.name]


def is_known_model(name: str) -> bool:
    """Tell whether a model has a row of its own; if not, `find_model` has that of its family, or none."""
    found = _find_row(MODELS, name)
    return found is not None and MODELS[found[0]].name == found[0] and _SUFFIX.match(found[1]) is not None


def find_by_prefix(table: Mapping[str, T], name: str) -> T | None:
    """Look a model up in a table of yours, in the way of `find_model`."""
    found = _find_row(table, name)
    return None if found is None else table[found[0]]


def _find_row(table: Mapping[str, Any], name: str) -> tuple[str, str] | None:
    """The longest key that a model's name begins with, and what follows it in the name.

    A key does not stand for later versions: `claude-opus-5` is not `claude-opus-5-7`, but `claude-opus` is.
    """
    whole = name.lower()
    own = _VENDOR_PREFIX.sub("", whole)
    if own.startswith("claude-"):
        # Gateways write `claude-sonnet-4.6`.
        own = own.replace(".", "-")
    if own in table:
        return own, ""
    # Also by its whole name, for keys that somebody has added.
    found = [(key, said) for key in table for said in (own, whole) if said.startswith(key.lower())]
    for key, said in sorted(found, key=lambda one: len(one[0]), reverse=True):
        rest = said[len(key) :]
        if not (key[-1:].isdigit() and _NEXT_VERSION.match(rest)):
            return key, rest
    return None
