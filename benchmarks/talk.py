"""An agent's conversation to measure summaries with: about 100 tokens a message, with names and numbers.

The long one of `cost` and of `bench-peers` has 120 turns with 57 tool calls of 300 tokens, 42,000 tokens in
all; every sixth question plants a fact.
"""

from __future__ import annotations

import json
from random import Random
from typing import Any

TURNS, CALLS = 120, 57
SAID_TOKENS, RESULT_TOKENS, SYSTEM_TOKENS = 101, 300, 600
FACTS = range(3, TURNS, 6)
_SAID = (
    "the order was moved to another depot because the first one had no room left and we agreed that nobody "
    "touches it before the customer has answered about price delivery colour size and the open invoice while "
    "support waits for a reply from finance who must never refund more than what was paid in this quarter"
)
_WORDS = _SAID.split()


def said(number: int, tokens: int = 100) -> str:
    """The text of the n-th message: sentences with a few identifiers, no two alike."""
    chance = Random(number)
    day, order, price = number % 28 + 1, f"ORD-{number * 7919 % 100_000:05d}", chance.randrange(10, 9_999)
    words = chance.choices(_WORDS, k=int(tokens * 0.70))
    for at in range(9, len(words) - 1, 12):
        words[at] += "."
    facts = f"Order {order} of {day} June costs {price} EUR. See /srv/orders/batch_{number}.csv."
    return f"{facts} {' '.join(words)}."


def question(number: int, tokens: int = 100) -> dict[str, Any]:
    return {"role": "user", "content": said(3 * number, tokens)}


def answer(number: int, tokens: int = 100) -> dict[str, Any]:
    return {"role": "assistant", "content": said(3 * number + 1, tokens)}


def lookup(number: int, tokens: int = 100) -> list[dict[str, Any]]:
    """A tool call and its result."""
    call = {
        "id": f"call_{number}",
        "type": "function",
        "function": {"name": "find_order", "arguments": json.dumps({"batch": number, "limit": 5})},
    }
    return [
        {"role": "assistant", "content": "", "tool_calls": [call]},
        {"role": "tool", "tool_call_id": f"call_{number}", "content": said(3 * number + 2, tokens)},
    ]


def planted_fact(number: int) -> str:
    return f"The pass phrase of customer C-{number:04d} is zephyr-{number * 7919 % 9973}."


def calls_tool(number: int) -> bool:
    """Whether the n-th turn of the long conversation looks something up."""
    return (number + 1) * CALLS // TURNS > number * CALLS // TURNS


def steps(number: int) -> list[list[dict[str, Any]]]:
    """The n-th turn of the long conversation: what is appended before, between and after the requests."""
    asked = question(number, SAID_TOKENS)
    if number in FACTS:
        asked["content"] += " " + planted_fact(number)
    called = [lookup(number, RESULT_TOKENS)] if calls_tool(number) else []
    return [[asked], *called, [answer(number, SAID_TOKENS)]]
