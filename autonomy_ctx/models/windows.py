"""How much common models read at once, so that a budget can be a part of it.

A default, and a table grows old: `Model(context_window=...)` always overrules it, and a provider that
names a smaller window in an error is believed. A model that is newer than the table gets the window of
its family's older ones, which is rather too small than too large.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import TypeVar

T = TypeVar("T")

# Tokens by the beginning of the name; the longest that fits counts.
WINDOWS = {
    "claude-": 200_000,
    "claude-2-0": 100_000,
    "claude-fable-5": 1_000_000,
    "claude-instant": 100_000,
    "claude-opus-4-6": 1_000_000,
    "claude-opus-4-7": 1_000_000,
    "claude-opus-4-8": 1_000_000,
    "claude-opus-5": 1_000_000,
    "claude-sonnet-4-6": 1_000_000,
    "claude-sonnet-5": 1_000_000,
    "chatgpt-4o": 128_000,
    "gpt-3.5-turbo": 16_385,
    "gpt-4": 8_192,
    "gpt-4-0125": 128_000,
    "gpt-4-1106": 128_000,
    "gpt-4-32k": 32_768,
    "gpt-4-turbo": 128_000,
    "gpt-4.1": 1_047_576,
    "gpt-4.5": 128_000,
    "gpt-4o": 128_000,
    "gpt-5": 400_000,
    "gpt-5-chat": 128_000,
    "gpt-5.1-chat": 128_000,
    "gpt-5.2-chat": 128_000,
    "gpt-5.3-chat": 128_000,
    "gpt-5.3-codex-spark": 128_000,
    "gpt-5.4": 1_050_000,
    "gpt-5.4-mini": 400_000,
    "gpt-5.4-nano": 400_000,
    "gpt-5.5": 1_050_000,
    "gpt-oss": 131_072,
    "o1": 200_000,
    "o1-mini": 128_000,
    "o1-preview": 128_000,
    "o3": 200_000,
    "o4-mini": 200_000,
    "gemini-1.5-flash": 1_048_576,
    "gemini-1.5-pro": 2_097_152,
    "gemini-2": 1_048_576,
    "gemini-3": 1_048_576,
    "nova-2-lite": 1_000_000,
    "nova-lite": 300_000,
    "nova-micro": 128_000,
    "nova-premier": 1_000_000,
    "nova-pro": 300_000,
}
# What gateways and Bedrock put before a model's own name: `openai/`, `us.anthropic.`.
_BEFORE = re.compile(r"^(?:.*/)?(?:(?:us|eu|apac|global)\.)?(?:(?:amazon|anthropic)\.)?")


def known_window(name: str) -> int | None:
    """The context window of a model in tokens, where it is known."""
    return by_name(WINDOWS, name)


def by_name(table: Mapping[str, T], name: str) -> T | None:
    """What a table says of a model: by the longest of its keys that the model's own name begins with."""
    own = _BEFORE.sub("", name.lower())
    if own.startswith("claude-"):
        # Gateways write `claude-sonnet-4.6`.
        own = own.replace(".", "-")
    # Also by its whole name, for keys that somebody has added.
    found = [one for one in table if own.startswith(one) or name.lower().startswith(one.lower())]
    return table[max(found, key=len)] if found else None
