"""`ReplayedTools`: what definitions of tools add to the requests of a replay, listed or found on demand."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from autonomy_ctx.agents.tool_search import FOUND_TOOLS, ToolSearch
from autonomy_ctx.messages.message import Message
from autonomy_ctx.messages.tokens import TokenCounter
from autonomy_ctx.tools.tool import Tool
from autonomy_ctx.tools.tool_index import IndexedTool, ToolIndex

# The tokens of a call of `find_tools`.
SEARCH_TOKENS = 20


class ReplayedTools:
    """The tools of a conversation within a budget; without one, all are listed.

    A tool that is not listed is found by a request of its own before its first call in an epoch, and the
    definitions that were found stay until the epoch ends.
    """

    def __init__(self, specs: Sequence[Mapping[str, Any]], budget: int | None, counter: TokenCounter) -> None:
        self._counter = counter
        # In every request.
        self.listed_tokens = counter.count_definitions(list(specs))
        self._index = ToolIndex(())
        self._found: dict[str, int] = {}
        if budget is None or not specs:
            return
        tools = {str(spec["name"]): _RecordedTool(spec) for spec in specs}
        listing = ToolSearch(budget, counter).list_tools(tools, {}, frozenset(tools))
        names = {spec["name"] for spec in listing.specs}
        self._index = ToolIndex([IndexedTool("", spec) for spec in specs if spec["name"] not in names])
        self.listed_tokens = counter.count_definitions(listing.specs) + counter.count_text(listing.catalog)

    @property
    def tokens(self) -> int:
        """The tokens of what is listed and of what was found in this epoch."""
        return self.listed_tokens + sum(self._found.values())

    def begin_epoch(self) -> None:
        """Forget what was found."""
        self._found.clear()

    def find(self, answer: Message | None) -> list[int]:
        """Find the tools that an answer calls; for each search, the tokens of its result."""
        found = []
        on_demand = {tool.name for tool in self._index.tools}
        for call in () if answer is None else answer.tool_calls:
            if call.name in on_demand and call.name not in self._found:
                tools = self._index.find(call.name, FOUND_TOOLS)
                text = "\n\n".join(tool.describe() for tool in tools)
                found.append(SEARCH_TOKENS + self._counter.count_text(text))
                self._found |= {tool.name: 0 for tool in tools} | {call.name: found[-1]}
        return found


def _not_run() -> None:
    """A replay calls no tool."""


class _RecordedTool(Tool[..., Any]):
    """A tool of which only the definition is known."""

    def __init__(self, spec: Mapping[str, Any]) -> None:
        super().__init__(_not_run, name=str(spec["name"]), description=str(spec["description"]))
        self._given = dict(spec)

    @property
    def spec(self) -> dict[str, Any]:
        return self._given
