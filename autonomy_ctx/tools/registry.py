"""Tools by name: an agent is saved with the names of its tools and finds them again here."""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING, Any, ClassVar

from autonomy_ctx.errors import UnregisteredToolError

if TYPE_CHECKING:
    from autonomy_ctx.tools.tool import Tool

logger = logging.getLogger("autonomy_ctx.tools")


class ToolRegistry:
    """Tools by their names, for the whole process; the latest of a name wins."""

    _tools: ClassVar[dict[str, Tool[..., Any]]] = {}

    @classmethod
    def register(cls, tool: Tool[..., Any]) -> None:
        """Make a tool known by its name."""
        # Not `isinstance`: the module of `Tool` imports this one.
        if not isinstance(getattr(tool, "name", None), str) or not callable(getattr(tool, "bind", None)):
            raise TypeError(f"an object of type {type(tool).__name__} is not a tool; make one with `@tool`")
        if cls._tools.get(tool.name, tool) is not tool:
            logger.debug("tool %r was registered again; the latest wins", tool.name)
        cls._tools[tool.name] = tool

    @classmethod
    def get(cls, name: str) -> Tool[..., Any]:
        """The tool of that name, or `UnregisteredToolError`."""
        if name not in cls._tools:
            raise UnregisteredToolError(name)
        return cls._tools[name]

    @classmethod
    def clear(cls) -> None:
        """Forget all of them, for tests."""
        cls._tools.clear()

    @classmethod
    def names(cls) -> list[str]:
        """The names there are, in the order they were first registered."""
        return list(cls._tools)
