"""Looking things up: the items of the pool, and any knowledge base, as tools."""

from __future__ import annotations

from collections.abc import Awaitable
from typing import Any

import anyio.to_thread

from autonomy_ctx.containers.item import ContextItem
from autonomy_ctx.containers.pool import ContextPoolView, render_catalogue
from autonomy_ctx.errors import UnknownItem
from autonomy_ctx.knowledge.knowledge import TOOL_NAME, search_function
from autonomy_ctx.messages.json_values import encode_json_text
from autonomy_ctx.tools.tool import Tool, ToolRegistry
from autonomy_ctx.validation import check_int

# Within what an error's text may be, so that no line of the list is cut.
_LIST_BYTES = 1_500


async def _read_context_item(item_id: str, pool: ContextPoolView, offset: int = 0) -> str:
    """Read the whole content of a context item.

    Args:
        item_id: The id of the item, as the list of items shows it in brackets.
        offset: How many characters to pass over, to read on where the middle of a long item was not shown.
    """
    check_int("offset", offset, least=0)
    try:
        item = pool.get(item_id)
    except UnknownItem:
        raise UnknownItem(item_id[:80], advice=_list_newest(pool.items)) from None
    # Content is copied when it is read, and may be large.
    return await anyio.to_thread.run_sync(_content, item, offset, abandon_on_cancel=True)


def _content(item: ContextItem[Any], offset: int) -> str:
    content = item.content
    text = str.__str__(content) if isinstance(content, str) else encode_json_text(content)
    return text[offset:]


def _list_newest(items: list[ContextItem[Any]]) -> str:
    """The newest items, oldest first, as far as they fit."""
    lines: list[str] = []
    room = _LIST_BYTES
    for item in reversed(items):
        # An item replaced by its clipped self: a long description must not push out the others.
        line = render_catalogue([ContextItem(None, (item.description or "")[:120], item.id)])
        room -= len(line.encode(errors="replace")) + 1
        if room < 0:
            break
        lines.insert(0, line)
    if not items:
        return "there are no items"
    older = len(items) - len(lines)
    return "\n".join(["the items are:", *lines, *([f"and {older:,} older ones"] if older else [])])


read_context_item = Tool(_read_context_item, name="read_context_item")
ToolRegistry.register(read_context_item)


def knowledge_tool(
    knowledge: Any, *, name: str = TOOL_NAME, description: str | None = None, top_k: int = 5
) -> Tool[[str], Awaitable[str]]:
    """A tool that searches anything with `search(query, limit)` and shows the passages as data."""
    return Tool(search_function(knowledge, name=name, description=description, top_k=top_k))
