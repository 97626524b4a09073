"""Containers of messages and items that an application holds itself, besides memory."""

from typing import TYPE_CHECKING

from autonomy_ctx._lazy import lazy_names

_MODULES = {
    "ChatView": "autonomy_ctx.containers.chat",
    "ClearToolResults": "autonomy_ctx.containers.strategies",
    "ContextPoolView": "autonomy_ctx.containers.pool",
    "Pipeline": "autonomy_ctx.containers.strategies",
    "SummarizeOldest": "autonomy_ctx.containers.strategies",
    "record_model_call": "autonomy_ctx.containers.recording",
}

if TYPE_CHECKING:
    from autonomy_ctx.containers.chat import ChatView
    from autonomy_ctx.containers.pool import ContextPoolView
    from autonomy_ctx.containers.recording import record_model_call
    from autonomy_ctx.containers.strategies import ClearToolResults, Pipeline, SummarizeOldest
else:
    __getattr__, __dir__ = lazy_names(__name__, _MODULES)

__all__ = [
    "ChatView",
    "ClearToolResults",
    "ContextPoolView",
    "Pipeline",
    "SummarizeOldest",
    "record_model_call",
]
