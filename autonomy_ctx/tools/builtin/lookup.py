"""Looking things up: results that were shown in part, the items of the pool, any knowledge base, as tools."""

from __future__ import annotations

from collections.abc import Awaitable
from typing import Any

import anyio.to_thread

from autonomy_ctx.containers.item import ContextItem
from autonomy_ctx.containers.pool import ContextPoolView, render_catalogue
from autonomy_ctx.errors import UnknownItem, UnknownResult
from autonomy_ctx.knowledge.knowledge import TOOL_NAME, search_function
from autonomy_ctx.memory.memory import Memory
from autonomy_ctx.messages import wire
from autonomy_ctx.messages.json_values import encode_json_text
from autonomy_ctx.messages.message import ImageContent, Message
from autonomy_ctx.tools.results import ResultPage
from autonomy_ctx.tools.tool import Tool, tool
from autonomy_ctx.validation import check_int

# A longer number is no position.
_MAX_DIGITS = 15
# Within what an error's text may be, so that no line of the list is cut.
_LIST_BYTES = 1_500


@tool
async def read_context_item(item_id: str, pool: ContextPoolView, offset: int = 0) -> str:
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


@tool
async def read_result(
    id: str,  # noqa: A002  # as it stands in the texts that models read
    memory: Memory,
    scope: str,
    conversation: str,
    offset: int = 0,
    lines: str = "",
    query: str = "",
) -> Any:
    """Read or search a result that is not all shown.

    Args:
        id: As it stands where the result was cut.
        offset: Characters to pass over.
        lines: Such as "120-180".
        query: Words to search for.
    """
    check_int("offset", offset, least=0)
    found = await _find_result(memory, scope, conversation, id)
    text = found[-1].text
    # All of a text that was cut stands by itself.
    images = [part for part in found[0].parts if isinstance(part, ImageContent)]
    page: ResultPage | None = ResultPage(text, id, min(offset, len(text)), query=query)
    if lines:
        page = ResultPage.of_lines(text, id, lines)
        if page is None:
            there = text.count("\n") + 1
            raise UnknownResult(id, f"has no lines {lines[:40]!r}; name some of 1 to {there}, as '1-50'")
    return [page, *images] if images else page


async def _find_result(memory: Memory, scope: str, conversation: str, name: str) -> list[Message]:
    """The message at a position, and the message of all its text; or that with an id."""
    found = list[Message]()
    if name.isdecimal() and len(name) <= _MAX_DIGITS:
        at = int(name)
        there = await memory.read(scope, conversation, after=at - 1, before=at + 1)
        found = [entry.message for entry in there.entries]
    whole = await memory.get_full_message(scope, conversation, found[0].id if found else name)
    if whole is not None:
        found.append(await anyio.to_thread.run_sync(wire.from_dict, whole, abandon_on_cancel=True))
    if not found:
        raise UnknownResult(name)
    return found


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


def knowledge_tool(
    knowledge: Any, *, name: str = TOOL_NAME, description: str | None = None, top_k: int = 5
) -> Tool[[str], Awaitable[str]]:
    """A tool that searches anything with `search(query, limit)` and shows the passages as data."""
    return Tool(search_function(knowledge, name=name, description=description, top_k=top_k))
