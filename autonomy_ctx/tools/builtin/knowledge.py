"""Looking things up: any knowledge base as a tool."""

from __future__ import annotations

from collections.abc import Awaitable
from typing import Any

from autonomy_ctx.knowledge.calling import NAME, search_function
from autonomy_ctx.tools.tool import Tool


def knowledge_tool(
    knowledge: Any, *, name: str = NAME, description: str | None = None, top_k: int = 5
) -> Tool[[str], Awaitable[str]]:
    """A tool that searches anything with `search(query, limit)` and shows the passages as data."""
    return Tool(search_function(knowledge, name=name, description=description, top_k=top_k))
