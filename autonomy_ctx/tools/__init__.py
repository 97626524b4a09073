"""Tools: functions with a schema that a model may call, run in parallel and within limits."""

from typing import TYPE_CHECKING

from autonomy_ctx._lazy import lazy_names

# Imported at once: the module `tool` would otherwise stand where the function is looked for.
from autonomy_ctx.tools.tool import Tool, ToolRegistry, tool

_MODULES = {
    "McpServer": "autonomy_ctx.tools.mcp",
    "ask_user_for_input": "autonomy_ctx.tools.builtin.ask_user",
    "filesystem_tools": "autonomy_ctx.tools.builtin.files",
    "get_current_time": "autonomy_ctx.tools.builtin.time",
    "get_current_time_utc": "autonomy_ctx.tools.builtin.time",
    "knowledge_tool": "autonomy_ctx.tools.builtin.lookup",
    "mcp_server": "autonomy_ctx.tools.mcp",
    "memory_tools": "autonomy_ctx.tools.builtin.recall",
    "pin_message": "autonomy_ctx.tools.builtin.pins",
    "read_context_item": "autonomy_ctx.tools.builtin.lookup",
    "read_result": "autonomy_ctx.tools.builtin.lookup",
    "recall_tools": "autonomy_ctx.tools.builtin.recall",
    "time_tools": "autonomy_ctx.tools.builtin.time",
}

if TYPE_CHECKING:
    from autonomy_ctx.tools.builtin.ask_user import ask_user_for_input
    from autonomy_ctx.tools.builtin.files import filesystem_tools
    from autonomy_ctx.tools.builtin.lookup import knowledge_tool, read_context_item, read_result
    from autonomy_ctx.tools.builtin.pins import pin_message
    from autonomy_ctx.tools.builtin.recall import memory_tools, recall_tools
    from autonomy_ctx.tools.builtin.time import get_current_time, get_current_time_utc, time_tools
    from autonomy_ctx.tools.mcp import McpServer, mcp_server
else:
    __getattr__, __dir__ = lazy_names(__name__, _MODULES)

__all__ = [
    "McpServer",
    "Tool",
    "ToolRegistry",
    "ask_user_for_input",
    "filesystem_tools",
    "get_current_time",
    "get_current_time_utc",
    "knowledge_tool",
    "mcp_server",
    "memory_tools",
    "pin_message",
    "read_context_item",
    "read_result",
    "recall_tools",
    "time_tools",
    "tool",
]
