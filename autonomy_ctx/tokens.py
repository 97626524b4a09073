"""Counting tokens, and what they cost."""

from typing import TYPE_CHECKING

from autonomy_ctx._lazy import lazy_names

_NAMES = {
    "autonomy_ctx.formats.model_table": "MODELS CacheRule ModelInfo Price PriceTier find_model",
    "autonomy_ctx.messages.tokens": (
        "Calibration EstimatedTextCounter ExactTextCounter TextCounter TokenCounter"
    ),
    "autonomy_ctx.models.catalog": "estimate_cost price_of",
}

if TYPE_CHECKING:
    from autonomy_ctx.formats.model_table import MODELS as MODELS
    from autonomy_ctx.formats.model_table import CacheRule as CacheRule
    from autonomy_ctx.formats.model_table import ModelInfo as ModelInfo
    from autonomy_ctx.formats.model_table import Price as Price
    from autonomy_ctx.formats.model_table import PriceTier as PriceTier
    from autonomy_ctx.formats.model_table import find_model as find_model
    from autonomy_ctx.messages.tokens import Calibration as Calibration
    from autonomy_ctx.messages.tokens import EstimatedTextCounter as EstimatedTextCounter
    from autonomy_ctx.messages.tokens import ExactTextCounter as ExactTextCounter
    from autonomy_ctx.messages.tokens import TextCounter as TextCounter
    from autonomy_ctx.messages.tokens import TokenCounter as TokenCounter
    from autonomy_ctx.models.catalog import estimate_cost as estimate_cost
    from autonomy_ctx.models.catalog import price_of as price_of
else:
    __getattr__, __dir__, __all__ = lazy_names(__name__, _NAMES)
