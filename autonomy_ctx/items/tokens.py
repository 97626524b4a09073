"""How many tokens messages cost, from stored counts where there are any.

A message is frozen, so it is counted once: the count travels with it and is stored beside it.
What a provider reports later moves the calibration, never the stored counts.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Protocol

from autonomy_ctx.items import wire
from autonomy_ctx.items.calibration import Calibration
from autonomy_ctx.items.estimate import estimate_tokens
from autonomy_ctx.items.message import Message
from autonomy_ctx.items.parts import TextContent, ThinkingContent

# What the chat formats put around every message, every call and every tool.
PER_MESSAGE = 4
PER_CALL = 5
PER_TOOL = 8
PER_IMAGE = 300


class TextCounter(Protocol):
    """Counts the tokens of a text; two counters with the same name count the same."""

    name: str

    def count(self, text: str) -> int: ...


class EstimateText:
    """The built-in estimate: no download, no dependency."""

    name = "estimate-1"

    def count(self, text: str) -> int:
        return estimate_tokens(text)


class TokenCounter:
    """Counts messages and tools, by the built-in estimate or any other `TextCounter`."""

    def __init__(self, text: TextCounter | None = None, *, calibration: Calibration | None = None) -> None:
        self.text: TextCounter = text or EstimateText()
        self.calibration = calibration or Calibration()

    @property
    def name(self) -> str:
        """Names the way of counting, without the calibration."""
        return self.text.name

    def count_text(self, text: str) -> int:
        """The tokens of a text."""
        return self.calibration.scaled(self.text.count(text))

    def count_messages(self, messages: Iterable[Message | Mapping[str, Any]]) -> int:
        """The tokens of messages, given as `Message`s or dicts."""
        raw = sum(self.uncalibrated(wire.from_dict(message)) for message in messages)
        return self.calibration.scaled(raw)

    def count_tools(self, tools: Sequence[Mapping[str, Any]]) -> int:
        """The tokens of tool descriptions, which a model reads on every turn."""
        return self.calibration.scaled(self._raw_tools(tools))

    def observe(
        self,
        messages: Iterable[Message | Mapping[str, Any]],
        reported: int,
        *,
        tools: Sequence[Mapping[str, Any]] = (),
    ) -> bool:
        """Learn from the input tokens a provider reported; true when the calibration moved a step."""
        counted = sum(self.uncalibrated(wire.from_dict(message)) for message in messages)
        return self.calibration.observe(counted + self._raw_tools(tools), reported)

    def uncalibrated(self, message: Message) -> int:
        """What is stored beside a message: its count before calibration."""
        known = message._tokens
        if known is not None and known[0] == self.text.name:
            return known[1]
        count = self._count(message)
        object.__setattr__(message, "_tokens", (self.text.name, count))
        return count

    def _raw_tools(self, tools: Sequence[Mapping[str, Any]]) -> int:
        return sum(PER_TOOL + self.text.count(json.dumps(tool, ensure_ascii=False)) for tool in tools)

    def _count(self, message: Message) -> int:
        count = self.text.count
        total = PER_MESSAGE
        content = message.content
        if type(content) is str:
            total += count(content)
        else:
            for part in message.parts:
                if isinstance(part, TextContent):
                    total += count(part.text)
                elif isinstance(part, ThinkingContent):
                    total += count(part.redacted or part.text)
                else:
                    total += PER_IMAGE
        for call in message.tool_calls:
            total += PER_CALL + count(call.name) + count(call.arguments)
        if message.name:
            total += count(message.name)
        return total
