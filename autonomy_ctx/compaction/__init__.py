"""Summaries of long conversations: planned by pure functions, written in the background."""

from typing import TYPE_CHECKING

from autonomy_ctx._lazy import lazy_names

_NAMES = {
    "autonomy_ctx.background": "Background",
    "autonomy_ctx.compaction.cost_model": "SwapChoice",
    "autonomy_ctx.compaction.manual": "CompactionResult ContextCompacted",
    "autonomy_ctx.compaction.summarizer": "SummaryEvent",
}

_FORMER_NAMES = dict.fromkeys(("ClearToolResults", "Pipeline", "SummarizeOldest"), "autonomy_ctx.containers")

if TYPE_CHECKING:
    from autonomy_ctx.background import Background as Background
    from autonomy_ctx.compaction.cost_model import SwapChoice as SwapChoice
    from autonomy_ctx.compaction.manual import CompactionResult as CompactionResult
    from autonomy_ctx.compaction.manual import ContextCompacted as ContextCompacted
    from autonomy_ctx.compaction.summarizer import SummaryEvent as SummaryEvent
else:
    __getattr__, __dir__, __all__ = lazy_names(__name__, _NAMES, _FORMER_NAMES)
