"""Turns without a model: queued tool calls, run one after the other."""

from __future__ import annotations

from collections import deque
from collections.abc import AsyncIterator, Mapping
from typing import Any

from autonomy_ctx.agents.options import TurnEnvironment
from autonomy_ctx.callables import YieldedValues, tool_timeout
from autonomy_ctx.containers.item import ContextItem
from autonomy_ctx.errors import InvalidContainer, InvalidMessage
from autonomy_ctx.memory.store import Key
from autonomy_ctx.messages.json_values import validate_json
from autonomy_ctx.tools.run import call_function
from autonomy_ctx.tools.tool import Tool
from autonomy_ctx.validation import check_seconds


class Turn:
    """One call of a tool, given as a name or as a tool. After the call it has an `output` or an `error`.

    `timeout` is in seconds; None means the timeout of the tool or of the agent.
    """

    def __init__(
        self,
        tool: str | Tool[..., Any],
        *,
        kwargs: Mapping[str, Any] | None = None,
        timeout: float | None = None,
    ) -> None:
        name = tool.name if isinstance(tool, Tool) else tool
        if not isinstance(name, str) or not name:
            raise TypeError(
                f"Turn takes a tool or its name, not {type(tool).__name__}; give the name of a function"
            )
        if kwargs is not None and not isinstance(kwargs, Mapping):
            raise TypeError(f"kwargs of a turn must be a dict, not {type(kwargs).__name__}")
        check_seconds("timeout", timeout, endless=True, optional=True, where="Turn")
        self.tool = name
        self.kwargs = dict(kwargs or {})
        self.timeout = timeout
        self.output: Any = None
        self.error: BaseException | None = None

    def to_dict(self) -> dict[str, Any]:
        """Tool, arguments and timeout as JSON, without the result."""
        try:
            kwargs = validate_json(self.kwargs, "kwargs")
        except InvalidMessage as error:
            raise InvalidContainer("Turn", error.field, error.problem) from None
        return {"tool": self.tool, "kwargs": kwargs, "timeout": self.timeout}

    @classmethod
    def from_dict(cls, data: Mapping[str, Any]) -> Turn:
        """A turn from what `to_dict` wrote."""
        if not isinstance(data, Mapping) or not isinstance(data.get("tool"), str):
            raise InvalidContainer("Turn", "tool", "is missing")
        return cls(data["tool"], kwargs=data.get("kwargs"), timeout=data.get("timeout"))

    def __repr__(self) -> str:
        return f"Turn({self.tool!r}, kwargs={sorted(self.kwargs)})"


async def run_tool_turns(
    environment: TurnEnvironment, key: Key, turns: deque[Turn]
) -> AsyncIterator[tuple[Turn, Any]]:
    """Make the calls and yield each turn with its value, or, for a generator, with each yielded value."""
    while turns:
        turn = turns.popleft()
        for value in await _run_turn(environment, key, turn):
            yield turn, value


async def _run_turn(environment: TurnEnvironment, key: Key, turn: Turn) -> list[Any]:
    tool = environment.listing.tools[turn.tool]
    items = await environment.items.load(key)
    # The timeout of the turn, else of the tool, else of the agent.
    timeouts = (turn.timeout, tool.timeout, environment.limits.tool_timeout)
    seconds = next((one for one in timeouts if one is not None), None)
    try:
        bound = tool.bind(turn.kwargs, environment.injected(key, items.pool))
        with tool_timeout(tool.name, seconds):
            found = await call_function(tool.function, bound)
        values = found.values if isinstance(found, YieldedValues) else [found]
        await environment.items.add(key, items, _context_items(values))
    except BaseException as error:
        turn.error = error
        raise
    turn.output = found.values if isinstance(found, YieldedValues) else found
    return values


def _context_items(values: list[Any]) -> list[ContextItem[Any]]:
    """The context items in the value that a tool returned, also inside a list."""
    flat = [one for value in values for one in (value if isinstance(value, list | tuple) else [value])]
    return [one for one in flat if isinstance(one, ContextItem)]
