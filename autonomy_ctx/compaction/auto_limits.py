"""The limits that `context_summary="auto"` chooses, from the model's context window.

They bound what contexts have at most. Below them, a `CostModel` decides by the prices when a summary pays.
"""

from __future__ import annotations

from dataclasses import dataclass

from autonomy_ctx.formats.model_table import DEFAULT_PRICE, Price

# Messages that stay after a summary: the last exchanges, with their tool calls; and the most without one.
FLOOR, CEILING = 6, 240
# The size of a summary.
SIZE, MIN_SIZE = 1536, 128
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
    size = SIZE
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
        ceiling=CEILING,
        size=size,
        floor_tokens=floor_tokens,
        ceiling_tokens=ceiling_tokens,
        hard_tokens=hard_tokens,
        reason=_reason(model, window, price),
    )


def _reason(model: str | None, window: int | None, price: Price | None) -> str:
    name = model or "the model"
    reads = (
        f"{name} reads {window:,} tokens"
        if window is not None
        else f"the context window of {name} is not known, so messages are not counted in tokens"
    )
    known = price if price is not None and price.input > 0 else DEFAULT_PRICE
    cost = f"a cached token costs {known.cached_input / known.input:.2g} of an uncached one"
    if known is not price:
        return f"{reads}; its price is not known: {cost}, as is usual"
    if known.tier is None:
        return f"{reads}; {cost}"
    return f"{reads}; {cost}; above {known.tier.above:,} tokens all cost {known.tier.input:g} times as much"
