"""Summaries of long conversations: planned by pure functions, written in the background."""

from typing import TYPE_CHECKING

from autonomy_ctx._lazy import lazy_names

_MODULES = {
    "Background": "autonomy_ctx.background",
    "CompactionResult": "autonomy_ctx.compaction.manual",
    "ContextCompacted": "autonomy_ctx.compaction.manual",
    "SummaryEvent": "autonomy_ctx.compaction.summarizer",
    "SwapChoice": "autonomy_ctx.compaction.cost_model",
}

_FORMER_NAMES = dict.fromkeys(("ClearToolResults", "Pipeline", "SummarizeOldest"), "autonomy_ctx.containers")

if TYPE_CHECKING:
    from autonomy_ctx.background import Background
    from autonomy_ctx.compaction.cost_model import SwapChoice
    from autonomy_ctx.compaction.manual import CompactionResult, ContextCompacted
    from autonomy_ctx.compaction.summarizer import SummaryEvent
else:
    __getattr__, __dir__ = lazy_names(__name__, _MODULES, _FORMER_NAMES)

__all__ = [
    "Background",
    "CompactionResult",
    "ContextCompacted",
    "SummaryEvent",
    "SwapChoice",
]
