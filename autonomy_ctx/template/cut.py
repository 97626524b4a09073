"""What a budget did to a context: what was cut, from which section and why, and what the numbers were."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal


@dataclass(frozen=True, slots=True, kw_only=True)
class Cut:
    """What one section lost: how many messages, how many tokens, and which limit asked for it."""

    section: str
    what: Literal["left out", "shortened"]
    messages: int
    tokens: int
    reason: str


@dataclass(frozen=True, slots=True, kw_only=True)
class BudgetReport:
    """What a context could cost and what it does; `used` is the tokens of messages and tools.

    `limit` is what was left for messages: `max_tokens` without the tools and what is reserved.
    """

    max_tokens: int
    reserve_output: int
    tools: int
    limit: int
    used: int
