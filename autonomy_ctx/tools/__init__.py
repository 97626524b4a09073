"""Tools: functions with a schema that a model may call, run in parallel and within limits."""

from typing import TYPE_CHECKING

from autonomy_ctx._lazy import lazy_names

# Imported at once: the module `tool` would otherwise stand where the function is looked for.
from autonomy_ctx.tools.tool import Tool as Tool
from autonomy_ctx.tools.tool import ToolRegistry as ToolRegistry
from autonomy_ctx.tools.tool import tool as tool

_NAMES = {
    "autonomy_ctx.tools.builtin.ask_user": "ask_user_for_input",
    "autonomy_ctx.tools.builtin.files": "filesystem_tools",
    "autonomy_ctx.tools.builtin.lookup": "knowledge_tool read_context_item read_result",
    "autonomy_ctx.tools.builtin.pins": "pin_message",
    "autonomy_ctx.tools.builtin.recall": "memory_tools recall_tools",
    "autonomy_ctx.tools.builtin.time": "get_current_time get_current_time_utc time_tools",
    "autonomy_ctx.tools.mcp": "McpServer mcp_server",
}

if TYPE_CHECKING:
    from autonomy_ctx.tools.builtin.ask_user import ask_user_for_input as ask_user_for_input
    from autonomy_ctx.tools.builtin.files import filesystem_tools as filesystem_tools
    from autonomy_ctx.tools.builtin.lookup import knowledge_tool as knowledge_tool
    from autonomy_ctx.tools.builtin.lookup import read_context_item as read_context_item
    from autonomy_ctx.tools.builtin.lookup import read_result as read_result
    from autonomy_ctx.tools.builtin.pins import pin_message as pin_message
    from autonomy_ctx.tools.builtin.recall import memory_tools as memory_tools
    from autonomy_ctx.tools.builtin.recall import recall_tools as recall_tools
    from autonomy_ctx.tools.builtin.time import get_current_time as get_current_time
    from autonomy_ctx.tools.builtin.time import get_current_time_utc as get_current_time_utc
    from autonomy_ctx.tools.builtin.time import time_tools as time_tools
    from autonomy_ctx.tools.mcp import McpServer as McpServer
    from autonomy_ctx.tools.mcp import mcp_server as mcp_server
else:
    __getattr__, __dir__, __all__ = lazy_names(__name__, _NAMES, at_once=["Tool", "ToolRegistry", "tool"])
