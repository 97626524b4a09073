"""Tools on demand: the two tools by which a model finds and calls those that are not listed.

The list of tools that is sent stays the same whatever servers come and go. So an epoch goes on when a server
reconnects with other tools: only the catalog says what has changed.
"""

from __future__ import annotations

import json
import struct
from collections.abc import Mapping, Sequence
from dataclasses import replace
from operator import mul
from typing import TYPE_CHECKING, Any, NamedTuple

from autonomy_ctx.errors import InvalidArguments, InvalidTool, UnknownTool
from autonomy_ctx.formats.base import FIND_TOOLS
from autonomy_ctx.memory.memory import Memory
from autonomy_ctx.messages.message import Message, ToolCall
from autonomy_ctx.messages.tokens import TokenCounter
from autonomy_ctx.tools.run import CallOutcome
from autonomy_ctx.tools.tool import Tool

if TYPE_CHECKING:
    from autonomy_ctx.tools.tool_index import ToolIndex

CALL_TOOL = "call_tool"
FOUND_TOOLS, MAX_FOUND = 5, 20
MIN_TOOL_BUDGET = 500
# Of the budget that listed tools leave, what the catalog may take; the rest is for what is found.
CATALOG_SHARE = 0.5
MIN_CATALOG_TOKENS = 64
NOTHING_FOUND = "No tool fits. Try other words for what it should do, or the name of a server."


class ToolListing(NamedTuple):
    """Tools by name, the specs that a model is sent, and the names of those that it has to find."""

    tools: Mapping[str, Tool[..., Any]]
    specs: Sequence[Mapping[str, Any]]
    catalog: str = ""
    # Sent with each request, and no part of the context until the model has found them.
    deferred: Sequence[Mapping[str, Any]] = ()

    @classmethod
    def of(cls, tools: Mapping[str, Tool[..., Any]]) -> ToolListing:
        """A listing of these tools."""
        return cls(tools, [tool.spec for tool in tools.values()])


class ToolSearch:
    """Lists tools within a budget of tokens: some by their definitions, all others by their names.

    If the model `defers` tools, the others are sent with each request. What a search finds is then called
    like any tool.
    """

    def __init__(self, budget: int, counter: TokenCounter, *, defers: bool = False) -> None:
        self._budget, self._counter = budget, counter
        # Those that were ever listed: a context may refer to them.
        self._deferred: dict[str, Mapping[str, Any]] = {}
        self._index: ToolIndex | None = None
        # The vectors of the tools in the index, once there are some.
        self._vectors: list[bytes] = []
        # Once they are, they stay on demand: another list of tools would end every epoch.
        self._is_on_demand = False
        self._tools = {FIND_TOOLS: self._make_find(defers)}
        if not defers:
            self._tools[CALL_TOOL] = self._make_call()

    def list_tools(
        self, tools: Mapping[str, Tool[..., Any]], groups: Mapping[str, str], own: frozenset[str]
    ) -> ToolListing:
        """A listing; those in a group are found, and with them the agent's `own` if these are too large."""
        if taken := self._tools.keys() & tools.keys():
            problem = "has the name by which a model finds tools on demand; give it another `name`"
            raise InvalidTool(min(taken), problem)
        whole, count = ToolListing.of(tools), self._counter.count_definitions
        self._is_on_demand = self._is_on_demand or count(whole.specs) > self._budget
        if not self._is_on_demand:
            return whole
        listed = [spec for spec in whole.specs if spec["name"] not in groups]
        if count(listed) > self._budget // 2:
            listed = [spec for spec in listed if spec["name"] not in own]
        names = {spec["name"] for spec in listed}
        # Imported here: most agents list all their tools.
        from autonomy_ctx.tools.tool_index import IndexedTool, ToolIndex, write_catalog

        self._vectors = []
        self._index = ToolIndex(
            [
                IndexedTool(groups.get(str(spec["name"]), "own tools"), spec)
                for spec in whole.specs
                if spec["name"] not in names
            ]
        )
        if CALL_TOOL not in self._tools:
            found = {one.name: {**one.spec, "defer_loading": True} for one in self._index.tools}
            self._deferred = {**self._deferred, **found}
        listed += [tool.spec for tool in self._tools.values()]
        room = max(int((self._budget - count(listed)) * CATALOG_SHARE), MIN_CATALOG_TOKENS)
        catalog = write_catalog(self._index.tools, room, self._counter.text_counter.count)
        return ToolListing({**tools, **self._tools}, listed, catalog, list(self._deferred.values()))

    def _make_find(self, defers: bool) -> Tool[..., Any]:
        async def find_tools(memory: Memory, query: str, limit: int = FOUND_TOOLS) -> str:
            """Find tools that are not listed, with their arguments. Call them with `call_tool`.

            Args:
                query: What the tool should do, in a few words, or its name.
                limit: The most tools to find.
            """
            index = self._index
            if index is None:
                return NOTHING_FOUND
            meaning = await self._by_meaning(memory, index, query)
            found = index.find(query, max(1, min(limit, MAX_FOUND)), meaning)
            return "\n\n".join(one.describe() for one in found) or NOTHING_FOUND

        told = "Find tools that are not listed. They can be called then." if defers else ""
        return Tool(find_tools, description=told or None)

    async def _by_meaning(self, memory: Memory, index: ToolIndex, query: str) -> list[int]:
        """The tools by their meaning, the nearest first; none if the memory has no embedder."""
        vectors = memory.vector_index
        if vectors is None or not query.strip():
            return []
        if not self._vectors:
            self._vectors = await vectors.embed_texts([f"{one.group} {one.line}" for one in index.tools])
        [asked] = await vectors.embed_texts([query]) or [b""]
        if not asked or len(self._vectors) != len(index.tools):
            return []
        nearness = [_dot(asked, one) for one in self._vectors]
        return sorted(range(len(nearness)), key=lambda at: -nearness[at])[:MAX_FOUND]

    def _make_call(self) -> Tool[..., Any]:
        def call_tool(name: str, arguments: dict[str, Any]) -> str:
            """Call a tool that is not listed. `find_tools` tells its arguments.

            Args:
                name: The name of the tool.
                arguments: The arguments of the tool.
            """
            raise UnknownTool(name, known=[FIND_TOOLS])

        return Tool(call_tool)


def _dot(one: bytes, other: bytes) -> float:
    """The nearness of two vectors, in the form in which a store keeps them."""
    form = f"<{len(one) // 2}e"
    return float(sum(map(mul, struct.unpack(form, one), struct.unpack(form, other))))


def unwrap_call(call: ToolCall, tools: Mapping[str, Tool[..., Any]]) -> ToolCall:
    """The call that is made through `call_tool`; the call itself if it is any other."""
    if call.name != CALL_TOOL:
        return call
    try:
        given = json.loads(call.arguments)
    except ValueError:
        return call
    name = given.get("name") if isinstance(given, Mapping) else None
    if name not in tools or name == CALL_TOOL:
        return call
    arguments = given.get("arguments", {})
    # Some models write an object as a text.
    text = arguments if isinstance(arguments, str) else json.dumps(arguments, ensure_ascii=False)
    return ToolCall(call.id, str(name), text, call.extra)


def wrap_outcome(outcome: CallOutcome, call: ToolCall, tools: Mapping[str, Tool[..., Any]]) -> CallOutcome:
    """The outcome of an unwrapped call as that of the call that was made; wrong arguments show the schema."""
    made, message = outcome.call, outcome.message
    if made is call or message is None:
        return outcome
    if isinstance(outcome.error, InvalidArguments):
        schema = json.dumps(tools[made.name].spec["parameters"], ensure_ascii=False, separators=(",", ":"))
        message = replace(message, content=f"{message.text}\narguments of {made.name}: {schema}")
    renamed: Message = replace(message, name=call.name)
    return replace(outcome, call=call, message=renamed)
