"""A tool call that waits its turn: what an agent without a model works on."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from autonomy_ctx.errors import InvalidContainer, InvalidMessage
from autonomy_ctx.items.json_values import checked
from autonomy_ctx.tools.tool import Tool


class Turn:
    """One call of a tool, by its name or the tool itself; once run it has an `output` or an `error`.

    `timeout` is in seconds; None leaves it to the tool and the agent.
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
        if timeout is not None and not timeout > 0:
            raise ValueError(f"timeout of a turn is {timeout!r}; it must be more than 0 seconds, or None")
        self.tool = name
        self.kwargs = dict(kwargs or {})
        self.timeout = timeout
        self.output: Any = None
        self.error: BaseException | None = None

    def to_dict(self) -> dict[str, Any]:
        """Tool, arguments and timeout as JSON; not what came of it."""
        try:
            kwargs = checked(self.kwargs, "kwargs")
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
