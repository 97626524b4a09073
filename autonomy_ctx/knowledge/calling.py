"""A knowledge base as something a model may call: a plain function, which agents take as a tool."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any

from autonomy_ctx.errors import InvalidPassage
from autonomy_ctx.items.tokens import estimate_tokens
from autonomy_ctx.knowledge.knowledge import ask, checked_knowledge, checked_limit
from autonomy_ctx.knowledge.shown import shown

NAME = "search_knowledge"
DESCRIPTION = "Search the documents for passages about something, when the answer may be written there."
NOTHING = "Nothing was found. Try other words, or fewer."
MOST_TOKENS = 4096
_ARGUMENTS = "\n\nArgs:\n    query: What to look for: a question, or its most telling words.\n"


def search_function(
    knowledge: Any, *, name: str = NAME, description: str | None = None, top_k: int = 5
) -> Callable[[str], Awaitable[str]]:
    """An async function `(query) -> str` that searches, with the name and docstring a model reads."""
    checked_knowledge(knowledge)
    checked_limit("top_k", top_k)

    async def search(query: str) -> str:
        answer = await ask(knowledge, query, top_k)
        if answer.problem is not None and not answer.passages:
            raise InvalidPassage(answer.problem)
        return await shown(answer.passages, MOST_TOKENS, estimate_tokens) or NOTHING

    search.__name__ = search.__qualname__ = name
    search.__doc__ = (DESCRIPTION if description is None else description) + _ARGUMENTS
    return search
