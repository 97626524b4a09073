"""A template runs sections in order and returns a composed context."""

from typing import TYPE_CHECKING

from autonomy_ctx._lazy import lazy_names

_MODULES = {
    "BudgetReport": "autonomy_ctx.template.composed",
    "CacheWarning": "autonomy_ctx.template.cache_order",
    "Cut": "autonomy_ctx.template.composed",
    "Definitions": "autonomy_ctx.template.composed",
    "EndReason": "autonomy_ctx.template.epoch",
    "Origin": "autonomy_ctx.template.composed",
    "SectionReport": "autonomy_ctx.template.composed",
    "SharedPrefix": "autonomy_ctx.template.composed",
}

if TYPE_CHECKING:
    from autonomy_ctx.template.cache_order import CacheWarning
    from autonomy_ctx.template.composed import (
        BudgetReport,
        Cut,
        Definitions,
        Origin,
        SectionReport,
        SharedPrefix,
    )
    from autonomy_ctx.template.epoch import EndReason
else:
    __getattr__, __dir__ = lazy_names(__name__, _MODULES)

__all__ = [
    "BudgetReport",
    "CacheWarning",
    "Cut",
    "Definitions",
    "EndReason",
    "Origin",
    "SectionReport",
    "SharedPrefix",
]
