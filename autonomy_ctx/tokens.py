"""Counting tokens, and what they cost."""

from typing import TYPE_CHECKING

from autonomy_ctx._lazy import lazy_names

_MODULES = {
    "Calibration": "autonomy_ctx.messages.tokens",
    "EstimatedTextCounter": "autonomy_ctx.messages.tokens",
    "ExactTextCounter": "autonomy_ctx.messages.tokens",
    "Price": "autonomy_ctx.models.catalog",
    "TextCounter": "autonomy_ctx.messages.tokens",
    "TokenCounter": "autonomy_ctx.messages.tokens",
    "estimate_cost": "autonomy_ctx.models.catalog",
    "price_of": "autonomy_ctx.models.catalog",
}

if TYPE_CHECKING:
    from autonomy_ctx.messages.tokens import (
        Calibration,
        EstimatedTextCounter,
        ExactTextCounter,
        TextCounter,
        TokenCounter,
    )
    from autonomy_ctx.models.catalog import Price, estimate_cost, price_of
else:
    __getattr__, __dir__ = lazy_names(__name__, _MODULES)

__all__ = [
    "Calibration",
    "EstimatedTextCounter",
    "ExactTextCounter",
    "Price",
    "TextCounter",
    "TokenCounter",
    "estimate_cost",
    "price_of",
]
