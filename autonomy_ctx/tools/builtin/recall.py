"""Reading what is no longer in the context: by words, by positions, or behind a part of the summary.

Memory, scope and conversation are injected: a model names conversations of its own scope and no others.
"""

from __future__ import annotations

from typing import Any

from autonomy_ctx.errors import InvalidRange
from autonomy_ctx.memory.memory import Memory
from autonomy_ctx.memory.recall import LONGEST, Page, Recollection, read_page, shown
from autonomy_ctx.tools.registry import ToolRegistry
from autonomy_ctx.tools.tool import Tool

MOST_FOUND = 50
# Of the turn that asks, its own calls and results would be found first.
OWN_TURN = 50
_PARTS_SHOWN = 20


async def _search_history(
    query: str,
    memory: Memory,
    scope: str,
    conversation: str,
    limit: int = 5,
    in_conversation: str | None = None,
) -> str:
    """Find earlier messages that share words with a query.

    Args:
        query: The words to look for; names and numbers find most.
        limit: How many messages at most.
        in_conversation: Only this conversation; leave it out to search all with this user.
    """
    if limit < 1:
        raise ValueError(f"limit is {limit}; it must be at least 1")
    limit = min(limit, MOST_FOUND)
    asked = (await memory.head(scope, conversation)).last_user
    found = await memory.search(scope, query, conversation=in_conversation, limit=limit + OWN_TURN)
    passages = [
        Recollection(
            conversation=one.conversation, position=one.position, message=one.message, score=one.score
        )
        for one in found
        if one.conversation != conversation or one.position < asked
    ][:limit]
    if not passages:
        return "No earlier message has these words. Try other words, or fewer."
    # Room for all of them: each is cut to its own length.
    recalled = await shown(memory, passages, (limit + 1) * (LONGEST + 40))
    return f"{recalled.text}\n`read_messages` shows what was said around a position."


async def _read_messages(
    first: int,
    last: int,
    memory: Memory,
    scope: str,
    conversation: str,
    in_conversation: str | None = None,
    offset: int = 0,
) -> str:
    """Read messages word for word, from one position to another, a page at a time.

    Args:
        first: The position of the first message.
        last: The position of the last message.
        in_conversation: Which conversation; leave it out for this one.
        offset: How many characters of the first message to pass over, to read on in a long one.
    """
    named = conversation if in_conversation is None else in_conversation
    page = await read_page(memory, scope, named, first, last, offset=offset)
    return _shown(page, last, in_conversation)


async def _expand_summary(first: int, last: int, memory: Memory, scope: str, conversation: str) -> str:
    """Read the messages behind a part of the summary, word for word, a page at a time.

    Args:
        first: The first position of the part, as the summary names it.
        last: The last position of the part.
    """
    segments = (await memory.summary(scope, conversation)).segments
    if not segments:
        raise InvalidRange(first, last, "nothing of this conversation is summarized yet")
    if not 1 <= first <= last <= segments[-1].last:
        parts = ", ".join(f"{part.first} to {part.last}" for part in segments[-_PARTS_SHOWN:])
        raise InvalidRange(first, last, f"the parts of the summary are {parts}")
    return _shown(await read_page(memory, scope, conversation, first, last), last, None)


def _shown(page: Page, last: int, in_conversation: str | None) -> str:
    if page.next is None:
        return page.text
    arguments: dict[str, Any] = {"first": page.next, "last": last}
    if in_conversation is not None:
        arguments["in_conversation"] = in_conversation
    if page.offset:
        arguments["offset"] = page.offset
    call = ", ".join(f"{name}={value!r}" for name, value in arguments.items())
    return f"{page.text}\nThere is more: read_messages({call})"


search_history = Tool(_search_history, name="search_history")
read_messages = Tool(_read_messages, name="read_messages")
expand_summary = Tool(_expand_summary, name="expand_summary")
for _tool in (search_history, read_messages, expand_summary):
    ToolRegistry.register(_tool)


def recall_tools() -> list[Tool[..., Any]]:
    """`search_history`, `read_messages` and `expand_summary`."""
    return [search_history, read_messages, expand_summary]
