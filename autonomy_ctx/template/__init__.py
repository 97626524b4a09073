"""A template runs sections in order and returns a composed context."""

from typing import TYPE_CHECKING

from autonomy_ctx._lazy import lazy_names

_MODULES = {
    "BudgetReport": "autonomy_ctx.template.composed",
    "CacheWarning": "autonomy_ctx.template.cache_order",
    "Cut": "autonomy_ctx.template.composed",
    "Origin": "autonomy_ctx.template.composed",
    "SectionReport": "autonomy_ctx.template.composed",
    "SharedPrefix": "autonomy_ctx.template.composed",
}

if TYPE_CHECKING:
    from autonomy_ctx.template.cache_order import CacheWarning
    from autonomy_ctx.template.composed import BudgetReport, Cut, Origin, SectionReport, SharedPrefix
else:
    __getattr__, __dir__ = lazy_names(__name__, _MODULES)

__all__ = [
    "BudgetReport",
    "CacheWarning",
    "Cut",
    "Origin",
    "SectionReport",
    "SharedPrefix",
]
