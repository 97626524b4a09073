"""The tools of one agent: fixed ones, and those of MCP servers, which may change between two turns.

A turn uses the tools that existed when it began. Tools of servers come last, in the order in which they were
first seen, and keep their names. So the list of tools stays the same as long as possible, and a provider can
cache it.
"""

from __future__ import annotations

import hashlib
import math
import re
from collections.abc import Awaitable, Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import anyio

from autonomy_ctx.agents.options import FILES_FOLDER, AgentOptions
from autonomy_ctx.agents.tool_search import ToolListing, ToolSearch
from autonomy_ctx.messages.tokens import TokenCounter
from autonomy_ctx.tools.tool import MAX_NAME_LENGTH, Tool, ToolSource, tools_by_name

# The tokens of tools from which on they are deferred, if the model can do so.
LARGE_TOOLS = 8_000
_NOT_IN_TOOL_NAMES = re.compile(r"[^a-zA-Z0-9_-]+")


class AgentTools:
    """All tools of an agent, by name; `prepare` before a turn, `close` at the end."""

    def __init__(
        self,
        options: AgentOptions,
        subagent_tools: Sequence[Tool[..., Any]],
        *,
        reads_items: bool,
        counter: TokenCounter,
        defers: bool = False,
    ) -> None:
        # The tools that are always there.
        self.fixed = make_tools(options, subagent_tools, reads_items=reads_items)
        # True if one says that it returns items, so that the tool which reads them is always there.
        returned = [str(one.signature.return_annotation) for one in self.fixed.values()]
        self.returns_items = any("ContextItem" in annotation for annotation in returned)
        budget = options.tool_budget or (LARGE_TOOLS if defers else None)
        self._search = None if budget is None else ToolSearch(budget, counter, defers=defers)
        # The agent's own come first.
        self._own = frozenset(list(self.fixed)[: len(options.own_tools)])
        self._sources = [one for one in options.tools if isinstance(one, ToolSource)]
        # What each source listed when the listing was made, and the names that its tools have here.
        self._seen: list[Sequence[Tool[..., Any]]] = [() for _ in self._sources]
        self._names: dict[tuple[int, str], str] = {}
        # The tools as they were when a turn was last prepared.
        self.listing = self._list_tools(self.fixed, {})
        self._closed = False

    async def prepare(self) -> None:
        """Read the current tools of all servers.

        The first call waits until each server has answered or failed.
        """
        if not self._sources or self._closed:
            return
        async with anyio.create_task_group() as group:
            for source in self._sources:
                group.start_soon(source.prepare, self)
        listed = [source.listed_tools() for source in self._sources]
        if any(now is not before for now, before in zip(listed, self._seen, strict=True)):
            self._seen = listed
            merged = self._merge(listed)
            groups = {
                name: self._sources[index].name for (index, _), name in self._names.items() if name in merged
            }
            self.listing = self._list_tools(merged, groups)

    def _list_tools(self, tools: Mapping[str, Tool[..., Any]], groups: Mapping[str, str]) -> ToolListing:
        if self._search is None:
            return ToolListing.of(tools)
        return self._search.list_tools(tools, groups, self._own)

    async def close(self) -> None:
        """Close the connections to all servers."""
        self._closed = True
        # In parallel, because a server may take seconds to end.
        async with anyio.create_task_group() as group:
            for source in self._sources:
                group.start_soon(source.release, self)

    def _merge(self, listed: Sequence[Sequence[Tool[..., Any]]]) -> dict[str, Tool[..., Any]]:
        found: dict[str, Tool[..., Any]] = {}
        for index, tools in enumerate(listed):
            for tool in tools:
                name = self._name_for(index, tool.name)
                found[name] = tool if name == tool.name else tool.renamed(name)
        # In the order in which they were first seen.
        return {**self.fixed, **{name: found[name] for name in self._names.values() if name in found}}

    def _name_for(self, index: int, own_name: str) -> str:
        if (index, own_name) not in self._names:
            taken = {*self.fixed, *self._names.values()}
            prefixed = f"{self._sources[index].name}_{own_name}"
            digest = hashlib.sha256(f"{index} {prefixed}".encode()).hexdigest()[:8]
            names = (own_name, prefixed, f"{prefixed[: MAX_NAME_LENGTH - 9]}_{digest}")
            self._names[index, own_name] = next(
                name for name in names if name not in taken and len(name) <= MAX_NAME_LENGTH
            )
        return self._names[index, own_name]


def make_tools(
    options: AgentOptions, subagent_tools: Sequence[Tool[..., Any]], *, reads_items: bool
) -> dict[str, Tool[..., Any]]:
    """The tools of an agent that need no server: those it was given come first, then the built-in ones."""
    tools: list[Any] = options.own_tools
    # Built-in tools are made when their modules are imported; an agent has few of them.
    has_tools = bool(options.tools or subagent_tools or options.enable_filesystem or options.enable_recall)
    if options.builtin_tools:
        from autonomy_ctx.tools.builtin.time import get_current_time, get_current_time_utc

        time = {tool.name: tool for tool in (get_current_time_utc, get_current_time)}
        tools += [time[name] for name in options.builtin_tools]
    if reads_items:
        from autonomy_ctx.tools.builtin.lookup import read_context_item

        tools.append(read_context_item)
    if has_tools:
        from autonomy_ctx.tools.builtin.lookup import read_result

        # From the first request on: a tool that is added later ends an epoch.
        tools.append(read_result)
    if options.enable_filesystem:
        from autonomy_ctx.tools.builtin.files import filesystem_tools

        root = options.filesystem_root or Path(FILES_FOLDER)
        tools += filesystem_tools(root, options.filesystem_visibility)  # type: ignore[arg-type]  # checked there
    if options.enable_recall:
        from autonomy_ctx.tools.builtin.recall import recall_tools

        tools += recall_tools()
    if options.enable_pins:
        from autonomy_ctx.tools.builtin.pins import pin_message

        tools.append(pin_message)
    if options.enable_compaction:
        from autonomy_ctx.tools.builtin.compact import compact_context

        tools.append(compact_context)
    if options.enable_ask_for_user_input:
        from autonomy_ctx.tools.builtin.ask_user import ask_user_for_input

        tools.append(ask_user_for_input)
    return tools_by_name([*tools, *subagent_tools])


def make_agent_tool(
    send: Callable[..., Awaitable[Any]], agent: str, *, name: str | None, description: str
) -> Tool[..., Any]:
    """An agent as a tool for another agent."""

    async def ask(message: str, scope: str = "default", conversation: str = "default") -> str:
        """Ask another agent.

        Args:
            message: What it is to do or answer, with all that it has to know.
        """
        return str((await send(message, scope=scope, conversation=conversation)).text)

    return Tool(
        ask,
        name=name or _NOT_IN_TOOL_NAMES.sub("_", agent)[:MAX_NAME_LENGTH],
        description=description or f"Ask the agent {agent}.",
        # The agent has limits of its own.
        timeout=math.inf,
    )
