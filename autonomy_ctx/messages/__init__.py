"""Messages and the other items of a conversation, and pure functions over them; nothing here does I/O."""

from typing import TYPE_CHECKING

from autonomy_ctx._lazy import lazy_names

_MODULES = {
    "AgentConfigUpdate": "autonomy_ctx.messages.events",
    "AgentHandoff": "autonomy_ctx.messages.events",
    "DirectMessage": "autonomy_ctx.messages.events",
    "Segment": "autonomy_ctx.messages.summary",
    "Summary": "autonomy_ctx.messages.summary",
    "find_safe_trim_count": "autonomy_ctx.messages.cuts",
    "find_tool_pair_boundary": "autonomy_ctx.messages.cuts",
    "get_tool_result_id": "autonomy_ctx.messages.cuts",
    "get_tool_use_ids": "autonomy_ctx.messages.cuts",
    "item_from_dict": "autonomy_ctx.messages.wire",
    "item_to_dict": "autonomy_ctx.messages.wire",
    "safe_cuts": "autonomy_ctx.messages.cuts",
    "validate_tool_pairing": "autonomy_ctx.messages.cuts",
}

if TYPE_CHECKING:
    from autonomy_ctx.messages.cuts import (
        find_safe_trim_count,
        find_tool_pair_boundary,
        get_tool_result_id,
        get_tool_use_ids,
        safe_cuts,
        validate_tool_pairing,
    )
    from autonomy_ctx.messages.events import AgentConfigUpdate, AgentHandoff, DirectMessage
    from autonomy_ctx.messages.summary import Segment, Summary
    from autonomy_ctx.messages.wire import item_from_dict, item_to_dict
else:
    __getattr__, __dir__ = lazy_names(__name__, _MODULES)

__all__ = [
    "AgentConfigUpdate",
    "AgentHandoff",
    "DirectMessage",
    "Segment",
    "Summary",
    "find_safe_trim_count",
    "find_tool_pair_boundary",
    "get_tool_result_id",
    "get_tool_use_ids",
    "item_from_dict",
    "item_to_dict",
    "safe_cuts",
    "validate_tool_pairing",
]
