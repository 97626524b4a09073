"""What the user's own tools want a model to know before it calls them."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from autonomy_ctx.items import wire
from autonomy_ctx.sections.instructions import system_message
from autonomy_ctx.sections.section import ContributingSection, Contribution, Params


class ToolInstructionsSection(ContributingSection):
    """One system message with the instructions of the tools that carry some; none, no message.

    A tool is any object with `name` and `instructions`; others are passed over.
    """

    kind = "stable"
    # A model without them would not know its own tools: the history gives first.
    priority = 20

    def __init__(
        self, tools: Iterable[Any], *, name: str = "tool_instructions", enabled: bool = True
    ) -> None:
        super().__init__(name, enabled)
        self.tools = list(tools)
        self._text = ""
        self._contribution = Contribution(())

    async def contribute(self, memory: Any, scope: str, conversation: str, params: Params) -> Contribution:
        blocks = [f"### {tool.name}\n{tool.instructions.strip()}" for tool in instructed(self.tools)]
        text = "\n\n".join(["## Tool Instructions", *blocks]) if blocks else ""
        if text != self._text:
            messages = (wire.from_dict(system_message(text)),) if text else ()
            self._contribution = Contribution(messages)
            self._text = text
        return self._contribution


def instructed(tools: Iterable[Any]) -> list[Any]:
    """Those of the tools that have a name and instructions, in their order."""
    return [tool for tool in tools if _has_text(tool, "name") and _has_text(tool, "instructions")]


def _has_text(tool: Any, attribute: str) -> bool:
    value = getattr(tool, attribute, None)
    return isinstance(value, str) and bool(value.strip())
