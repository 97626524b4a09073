"""Counting and shortening while a context is fitted into a budget, with one calibration throughout."""

from __future__ import annotations

from dataclasses import dataclass
from math import ceil

from autonomy_ctx.items.clamp import clamp_message
from autonomy_ctx.items.message import Message
from autonomy_ctx.items.tokens import TokenCounter


@dataclass(frozen=True, slots=True)
class Measure:
    """Counts and shortens messages with one calibration, whatever providers report meanwhile."""

    counter: TokenCounter
    factor: float

    def count(self, message: Message) -> int:
        return self.scaled(self.counter.uncalibrated(message))

    def scaled(self, tokens: int) -> int:
        return tokens if self.factor == 1.0 else ceil(tokens * self.factor)

    def clamped(self, message: Message, tokens: int, how: str | None) -> Message:
        """The message in so many calibrated tokens, where that is possible."""
        plain = tokens if self.factor == 1.0 else int(tokens / self.factor)
        while plain > 0 and self.scaled(plain) > tokens:
            plain -= 1
        return clamp_message(message, plain, self.counter, how=how)
