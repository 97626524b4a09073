"""The limits that `context_summary="auto"` chooses, from the model's context window and price.

How many messages a summary takes follows from the price. Each summary has the window after it read anew and
is itself a call; each message that waits for one is read again with every request, from the cache. The number
at which both cost the same is cheapest, as for a shop that pays for each delivery and for every day that
goods lie there. What the window holds, and how long a summary may be, follow from the context window.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import sqrt

from autonomy_ctx.formats.model_table import DEFAULT_PRICE, Price

# Messages that stay after a summary: the last exchanges, with their tool calls.
FLOOR = 6
MIN_BATCH, MAX_BATCH = 8, 48
# What is taken for granted of a conversation: messages for each request, and tokens of a message.
MESSAGES_PER_REQUEST, MESSAGE_TOKENS = 2, 120
# What one more call of the summarizer costs whatever it is asked for, in tokens at the price of uncached
# input: the rules, and what it reads from the cache.
CALL_TOKENS = 1_000
# The size of a summary; the smaller one where what is sent again is not much cheaper.
SIZE, SMALL_SIZE, MIN_SIZE = 1536, 1024, 128
CHEAP_CACHE = 0.5
# What writing to the cache costs at most, of the price of input.
MAX_WRITE = 2.0
# Parts of the context window: of the messages that stay, of those that make a summary due, of all history,
# and what one token of summary needs.
FLOOR_SHARE, CEILING_SHARE, HARD_SHARE, WINDOW_PER_SIZE = 0.25, 0.5, 0.75, 16


@dataclass(frozen=True, slots=True, kw_only=True)
class AutoLimits:
    """The chosen limits, and the reason as a sentence for `explain`."""

    floor: int
    ceiling: int
    size: int
    # None where the context window is not known.
    floor_tokens: int | None
    ceiling_tokens: int | None
    hard_tokens: int | None
    reason: str


def choose_limits(window: int | None, price: Price | None, *, model: str | None = None) -> AutoLimits:
    """The limits for a model with this context window and price; None for what is not known of it."""
    known = price if price is not None and price.input > 0 else DEFAULT_PRICE
    # A cache that is dearer than none would not be used.
    cached = min(known.cached_input / known.input, 1.0)
    premium = max(min(known.cache_write / known.input, MAX_WRITE) - cached, 0.0)
    batch = _cheapest_batch(cached, premium)
    size = SIZE if cached < CHEAP_CACHE else SMALL_SIZE
    floor_tokens = ceiling_tokens = hard_tokens = None
    if window is not None:
        size = max(min(size, window // WINDOW_PER_SIZE), MIN_SIZE)
        floor_tokens, ceiling_tokens = int(window * FLOOR_SHARE), int(window * CEILING_SHARE)
        hard_tokens = int(window * HARD_SHARE)
        if hard_tokens < 2 * size:
            # No window for conversations: only messages are counted.
            floor_tokens = ceiling_tokens = hard_tokens = None
    return AutoLimits(
        floor=FLOOR,
        ceiling=FLOOR + batch,
        size=size,
        floor_tokens=floor_tokens,
        ceiling_tokens=ceiling_tokens,
        hard_tokens=hard_tokens,
        reason=_reason(model, window, cached, is_known=known is price),
    )


def _cheapest_batch(cached: float, premium: float) -> int:
    """The number of messages that one summary should take."""
    if cached <= 0:
        return MAX_BATCH
    summary = premium * FLOOR + CALL_TOKENS / MESSAGE_TOKENS
    return round(min(max(sqrt(2 * MESSAGES_PER_REQUEST * summary / cached), MIN_BATCH), MAX_BATCH))


def _reason(model: str | None, window: int | None, cached: float, *, is_known: bool) -> str:
    name = model or "the model"
    reads = (
        f"{name} reads {window:,} tokens"
        if window is not None
        else f"the context window of {name} is not known, so messages are not counted in tokens"
    )
    price = f"a cached token costs {cached:.2g} of an uncached one"
    return f"{reads}; {price}" if is_known else f"{reads}; its price is not known: {price}, as is usual"
