"""Containers of messages and items that an application holds itself, besides memory."""

from typing import TYPE_CHECKING

from autonomy_ctx._lazy import lazy_names

_NAMES = {
    "autonomy_ctx.containers.chat": "ChatView",
    "autonomy_ctx.containers.pool": "ContextPoolView",
    "autonomy_ctx.containers.recording": "record_model_call",
    "autonomy_ctx.containers.strategies": "ClearToolResults Pipeline SummarizeOldest",
}

if TYPE_CHECKING:
    from autonomy_ctx.containers.chat import ChatView as ChatView
    from autonomy_ctx.containers.pool import ContextPoolView as ContextPoolView
    from autonomy_ctx.containers.recording import record_model_call as record_model_call
    from autonomy_ctx.containers.strategies import ClearToolResults as ClearToolResults
    from autonomy_ctx.containers.strategies import Pipeline as Pipeline
    from autonomy_ctx.containers.strategies import SummarizeOldest as SummarizeOldest
else:
    __getattr__, __dir__, __all__ = lazy_names(__name__, _NAMES)
