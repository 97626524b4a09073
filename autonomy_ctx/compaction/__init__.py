"""Summaries of long conversations: planned by pure functions, written in the background."""

from typing import TYPE_CHECKING

from autonomy_ctx._lazy import lazy_names

_MODULES = {
    "Background": "autonomy_ctx.background",
    "ClearToolResults": "autonomy_ctx.compaction.strategies",
    "Pipeline": "autonomy_ctx.compaction.strategies",
    "SummarizeOldest": "autonomy_ctx.compaction.strategies",
    "SummaryEvent": "autonomy_ctx.compaction.summarizer",
    "SwapChoice": "autonomy_ctx.compaction.swap_policy",
}

if TYPE_CHECKING:
    from autonomy_ctx.background import Background
    from autonomy_ctx.compaction.strategies import ClearToolResults, Pipeline, SummarizeOldest
    from autonomy_ctx.compaction.summarizer import SummaryEvent
    from autonomy_ctx.compaction.swap_policy import SwapChoice
else:
    __getattr__, __dir__ = lazy_names(__name__, _MODULES)

__all__ = [
    "Background",
    "ClearToolResults",
    "Pipeline",
    "SummarizeOldest",
    "SummaryEvent",
    "SwapChoice",
]
