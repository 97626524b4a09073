"""A template runs sections in order and returns a composed context."""

from typing import TYPE_CHECKING

from autonomy_ctx._lazy import lazy_names

_NAMES = {
    "autonomy_ctx.template.cache_order": "CacheWarning",
    "autonomy_ctx.template.composed": "BudgetReport Cut Definitions Origin SectionReport SharedPrefix",
    "autonomy_ctx.template.epoch": "EndReason",
}

if TYPE_CHECKING:
    from autonomy_ctx.template.cache_order import CacheWarning as CacheWarning
    from autonomy_ctx.template.composed import BudgetReport as BudgetReport
    from autonomy_ctx.template.composed import Cut as Cut
    from autonomy_ctx.template.composed import Definitions as Definitions
    from autonomy_ctx.template.composed import Origin as Origin
    from autonomy_ctx.template.composed import SectionReport as SectionReport
    from autonomy_ctx.template.composed import SharedPrefix as SharedPrefix
    from autonomy_ctx.template.epoch import EndReason as EndReason
else:
    __getattr__, __dir__, __all__ = lazy_names(__name__, _NAMES)
