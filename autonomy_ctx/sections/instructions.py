"""The agent's own instructions, first in every context."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from autonomy_ctx.errors import InvalidMessage
from autonomy_ctx.items import wire
from autonomy_ctx.items.message import Message
from autonomy_ctx.sections.section import ContributingSection, Contribution, Params


class SystemInstructionsSection(ContributingSection):
    """Fixed messages, usually one system message; a plain string or a single message will do."""

    kind = "stable"

    def __init__(
        self,
        instructions: str | Message | Mapping[str, Any] | Sequence[Message | Mapping[str, Any]],
        enabled: bool = True,
    ) -> None:
        super().__init__("system_instructions", enabled)
        self.instructions = instructions

    @property
    def instructions(self) -> list[dict[str, Any]]:
        """The messages as dicts; assign to change them."""
        return [wire.to_dict(message) for message in self._contribution.messages]

    @instructions.setter
    def instructions(
        self, instructions: str | Message | Mapping[str, Any] | Sequence[Message | Mapping[str, Any]]
    ) -> None:
        if isinstance(instructions, str):
            instructions = [system_message(instructions)]
        elif isinstance(instructions, Mapping | Message):
            instructions = [instructions]
        if not isinstance(instructions, Sequence):
            raise InvalidMessage(
                "instructions", f"must be a string or a list of messages, not {type(instructions).__name__}"
            )
        self._contribution = Contribution(tuple(wire.from_dict(message) for message in instructions))

    async def contribute(self, memory: Any, scope: str, conversation: str, params: Params) -> Contribution:
        return self._contribution


def system_message(text: str) -> dict[str, Any]:
    """A system message in its dict form."""
    return {"role": "system", "content": {"text": text, "type": "text"}, "phase": "system"}
