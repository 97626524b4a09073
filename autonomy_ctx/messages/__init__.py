"""Messages and the other items of a conversation, and pure functions over them; nothing here does I/O."""

from typing import TYPE_CHECKING

from autonomy_ctx._lazy import lazy_names

_NAMES = {
    "autonomy_ctx.messages.cuts": (
        "find_safe_trim_count find_tool_pair_boundary get_tool_result_id get_tool_use_ids safe_cuts "
        "validate_tool_pairing"
    ),
    "autonomy_ctx.messages.events": "AgentConfigUpdate AgentHandoff DirectMessage",
    "autonomy_ctx.messages.summary": "Segment Summary",
    "autonomy_ctx.messages.wire": "item_from_dict item_to_dict",
}

if TYPE_CHECKING:
    from autonomy_ctx.messages.cuts import find_safe_trim_count as find_safe_trim_count
    from autonomy_ctx.messages.cuts import find_tool_pair_boundary as find_tool_pair_boundary
    from autonomy_ctx.messages.cuts import get_tool_result_id as get_tool_result_id
    from autonomy_ctx.messages.cuts import get_tool_use_ids as get_tool_use_ids
    from autonomy_ctx.messages.cuts import safe_cuts as safe_cuts
    from autonomy_ctx.messages.cuts import validate_tool_pairing as validate_tool_pairing
    from autonomy_ctx.messages.events import AgentConfigUpdate as AgentConfigUpdate
    from autonomy_ctx.messages.events import AgentHandoff as AgentHandoff
    from autonomy_ctx.messages.events import DirectMessage as DirectMessage
    from autonomy_ctx.messages.summary import Segment as Segment
    from autonomy_ctx.messages.summary import Summary as Summary
    from autonomy_ctx.messages.wire import item_from_dict as item_from_dict
    from autonomy_ctx.messages.wire import item_to_dict as item_to_dict
else:
    __getattr__, __dir__, __all__ = lazy_names(__name__, _NAMES)
