"""Reading what is no longer in the context: by words, by positions, or behind a part of the summary.

Memory, scope and conversation are injected: a model names conversations of its own scope and no others.
"""

from __future__ import annotations

import heapq
from collections.abc import Awaitable
from typing import Any, NamedTuple, TypeAlias

from autonomy_ctx.background import Chunks
from autonomy_ctx.compaction.word_tables import prepare_tables
from autonomy_ctx.errors import InvalidRange
from autonomy_ctx.language.digest import score_message
from autonomy_ctx.memory.memory import Memory
from autonomy_ctx.memory.page import Page, read_page
from autonomy_ctx.memory.recall import recall
from autonomy_ctx.memory.store import MAX_POSITION, Entry
from autonomy_ctx.messages.clamp import clamp_text
from autonomy_ctx.messages.fact import fact_line
from autonomy_ctx.messages.token_estimate import estimate_tokens
from autonomy_ctx.tools.tool import Tool, tool
from autonomy_ctx.validation import check_int

MAX_FOUND = 50
# What a message that is found counts for, one with another, and the least room: a long one has space in it.
MESSAGE_TOKENS, MIN_FOUND_TOKENS = 120, 600
_MAX_PARTS_NAMED = 20
Rows: TypeAlias = list[dict[str, Any]]
TierTool: TypeAlias = Tool[..., Awaitable[Rows]]
# How many of a conversation's newest messages are weighed.
RANKED_MESSAGES = 200
MAX_ROWS = 100
# Of each message or summary.
MAX_ROW_TOKENS = 400
MAX_FACTS_TOKENS = 4000
# Where a task or a call without a scope or a session belongs.
DEFAULT = "default"


@tool
async def search_history(
    query: str,
    memory: Memory,
    scope: str,
    conversation: str,
    limit: int = 5,
    in_conversation: str | None = None,
) -> str:
    """Find earlier messages that answer a question, with what was said around them.

    Args:
        query: What to look for; names and numbers find most.
        limit: About how many messages to show.
        in_conversation: Only this conversation; leave it out to search all with this user.
    """
    limit = min(check_int("limit", limit), MAX_FOUND)
    asked = (await memory.head(scope, conversation)).last_user
    found = await recall(
        memory,
        scope,
        query,
        conversation=in_conversation,
        max_tokens=max(limit * MESSAGE_TOKENS, MIN_FOUND_TOKENS),
        # Of the turn that asks, its own calls and results would be found first.
        exclude={conversation: range(asked, MAX_POSITION)},
    )
    if not found.passages:
        return "No earlier message has these words. Try other words, or fewer."
    return f"{found.text}\n`read_messages` shows more of what was said around a position."


@tool
async def read_messages(
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
    return _page_text(page, last, in_conversation)


@tool
async def expand_summary(first: int, last: int, memory: Memory, scope: str, conversation: str) -> str:
    """Read the messages behind a part of the summary, word for word, a page at a time.

    Args:
        first: The first position of the part, as the summary names it.
        last: The last position of the part.
    """
    segments = (await memory.summary(scope, conversation)).segments
    if not segments:
        raise InvalidRange(first, last, "nothing of this conversation is summarized yet")
    if not 1 <= first <= last <= segments[-1].last:
        parts = ", ".join(f"{part.first} to {part.last}" for part in segments[-_MAX_PARTS_NAMED:])
        raise InvalidRange(first, last, f"the parts of the summary are {parts}")
    return _page_text(await read_page(memory, scope, conversation, first, last), last, None)


@tool
async def list_facts(memory: Memory, scope: str, conversation: str, with_old: bool = False) -> str:
    """List the facts of this conversation that hold, also those that the summary has no room for.

    Args:
        with_old: Also those that were replaced or are done.
    """
    facts = memory.facts(scope, conversation)
    found = await facts.history() if with_old else await facts
    lines = [fact_line(fact) + (f" ({fact.state})" if fact.state != "holds" else "") for fact in found]
    return clamp_text("\n".join(lines), MAX_FACTS_TOKENS, estimate_tokens) or "No facts are known yet."


def _page_text(page: Page, last: int, in_conversation: str | None) -> str:
    if page.next is None:
        return page.text
    arguments: dict[str, Any] = {"first": page.next, "last": last}
    if in_conversation is not None:
        arguments["in_conversation"] = in_conversation
    if page.offset:
        arguments["offset"] = page.offset
    call = ", ".join(f"{name}={value!r}" for name, value in arguments.items())
    return f"{page.text}\nThere is more: read_messages({call})"


def recall_tools() -> list[Tool[..., Any]]:
    """`search_history`, `read_messages`, `expand_summary` and `list_facts`."""
    return [search_history, read_messages, expand_summary, list_facts]


def memory_tools(memory: Memory | None = None, *, scope: str | None = None) -> tuple[TierTool, ...]:
    """`query_l2_memory`, `query_l3_memory` and `query_l4_memory` of a memory, within one scope.

    Arguments that are not given are those of the agent that runs the tools; a model cannot choose them. A
    session is a conversation. Without a session, the agent's current conversation is searched;
    `query_l4_memory` searches all.
    """

    def find_session(injected: Memory | None, own_scope: str | None, *names: str | None) -> _Session:
        found, found_scope = memory or injected, own_scope if scope is None else scope
        if found is None:
            raise TypeError("there is no memory to look into; make the tools with `memory_tools(memory)`")
        first = next(name for name in (*names, DEFAULT) if name is not None)
        return _Session(found, DEFAULT if found_scope is None else found_scope, first)

    async def query_l2_memory(
        limit: int = 10,
        session_id: str | None = None,
        memory: Memory | None = None,
        scope: str | None = None,
        conversation: str | None = None,
    ) -> Rows:
        """List the messages that matter most: pinned ones, then those with rules, decisions and facts.

        Args:
            limit: How many messages at most.
            session_id: Which conversation; leave it out for this one.
        """
        session = find_session(memory, scope, session_id, conversation)
        return await _most_important(session, _check_limit(limit))

    async def query_l3_memory(
        limit: int = 20,
        session_id: str | None = None,
        memory: Memory | None = None,
        scope: str | None = None,
        conversation: str | None = None,
    ) -> Rows:
        """The summaries of what was said earlier in a conversation, oldest first.

        Args:
            limit: How many summaries at most, the newest.
            session_id: Which conversation; leave it out for this one.
        """
        session = find_session(memory, scope, session_id, conversation)
        newest = -_check_limit(limit)
        state = await session.memory.summary(*session[1:])
        return [
            {
                "session_id": session.name,
                "first": segment.first,
                "last": segment.last,
                "summary": clamp_text(segment.text, MAX_ROW_TOKENS, estimate_tokens),
            }
            for segment in state.segments[newest:]
        ]

    async def query_l4_memory(
        query: str,
        limit: int = 10,
        session_id: str | None = None,
        memory: Memory | None = None,
        scope: str | None = None,
    ) -> Rows:
        """Search everything that was ever said, in all conversations, best first.

        Args:
            query: The words to look for.
            limit: How many messages at most.
            session_id: Only this conversation; leave it out for all.
        """
        session = find_session(memory, scope)
        found = await session.memory.search(
            session.scope, query, conversation=session_id, limit=_check_limit(limit)
        )
        return [_row(one.conversation, Entry(one.position, one.message)) for one in found]

    return Tool(query_l2_memory), Tool(query_l3_memory), Tool(query_l4_memory)


class _Session(NamedTuple):
    """A conversation that may be read."""

    memory: Memory
    scope: str
    name: str


async def _most_important(session: _Session, limit: int) -> Rows:
    """Pinned messages in order, then by weight; of equal ones the newest first."""
    pins = (await session.memory.summary(*session[1:])).pins[:limit]
    pinned = {pin.position for pin in pins}
    window = await session.memory.read(*session[1:], limit=RANKED_MESSAGES)
    weighed: list[tuple[float, int, Entry]] = []
    await prepare_tables()
    async for some in Chunks(window.entries, 10):
        for entry in some:
            if entry.position not in pinned and entry.message.text.strip():
                weighed.append((score_message(entry.message), entry.position, entry))
    best = heapq.nlargest(limit - len(pins), weighed, key=lambda one: one[:2])
    rows = [{**_row(session.name, Entry(pin.position, pin.message)), "pinned": True} for pin in pins]
    return rows + [_row(session.name, entry) for _, _, entry in best]


def _row(session: str, entry: Entry) -> dict[str, Any]:
    return {
        "session_id": session,
        "position": entry.position,
        "role": entry.message.role.value,
        "content": clamp_text(entry.message.text, MAX_ROW_TOKENS, estimate_tokens),
    }


def _check_limit(limit: int) -> int:
    return min(check_int("limit", limit), MAX_ROWS)
