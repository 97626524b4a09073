"""Counting tokens, and what they cost."""

from typing import TYPE_CHECKING

from autonomy_ctx._lazy import lazy_names

_MODULES = {
    "MODELS": "autonomy_ctx.formats.model_table",
    "CacheRule": "autonomy_ctx.formats.model_table",
    "Calibration": "autonomy_ctx.messages.tokens",
    "EstimatedTextCounter": "autonomy_ctx.messages.tokens",
    "ExactTextCounter": "autonomy_ctx.messages.tokens",
    "ModelInfo": "autonomy_ctx.formats.model_table",
    "Price": "autonomy_ctx.formats.model_table",
    "PriceTier": "autonomy_ctx.formats.model_table",
    "TextCounter": "autonomy_ctx.messages.tokens",
    "TokenCounter": "autonomy_ctx.messages.tokens",
    "estimate_cost": "autonomy_ctx.models.catalog",
    "find_model": "autonomy_ctx.formats.model_table",
    "price_of": "autonomy_ctx.models.catalog",
}

if TYPE_CHECKING:
    from autonomy_ctx.formats.model_table import MODELS, CacheRule, ModelInfo, Price, PriceTier, find_model
    from autonomy_ctx.messages.tokens import (
        Calibration,
        EstimatedTextCounter,
        ExactTextCounter,
        TextCounter,
        TokenCounter,
    )
    from autonomy_ctx.models.catalog import estimate_cost, price_of
else:
    __getattr__, __dir__ = lazy_names(__name__, _MODULES)

__all__ = [
    "MODELS",
    "CacheRule",
    "Calibration",
    "EstimatedTextCounter",
    "ExactTextCounter",
    "ModelInfo",
    "Price",
    "PriceTier",
    "TextCounter",
    "TokenCounter",
    "estimate_cost",
    "find_model",
    "price_of",
]
