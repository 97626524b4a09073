"""Clocks, ids and messages that tests can predict; `autonomy_ctx.testing` is where to import them from."""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from itertools import count
from typing import Any

from autonomy_ctx.items.message import Message
from autonomy_ctx.items.tokens import TokenCounter
from autonomy_ctx.memory import encoding
from autonomy_ctx.memory.store import Draft, Key

MAIN = Key("", "ana", "trip")
_COUNTER = TokenCounter()


class StoppedClock:
    """A clock that shows the same time until it is told to go on."""

    def __init__(self, start: datetime = datetime(2030, 1, 1, tzinfo=UTC)) -> None:
        self.time = start

    def __call__(self) -> datetime:
        return self.time

    def forward(self, seconds: float) -> None:
        """Let time pass; a negative number sets the clock back."""
        self.time += timedelta(seconds=seconds)


def numbered_ids(prefix: str = "m") -> Callable[[], str]:
    """An id maker that gives m1, m2, m3 and so on."""
    numbers = count(1)
    return lambda: f"{prefix}{next(numbers)}"


def drafted(*messages: Message | dict[str, Any]) -> list[Draft]:
    """Messages as a store takes them."""
    made = [encoding.accept(message, new_id=numbered_ids("made"), now=StoppedClock()) for message in messages]
    return [encoding.draft(message, _COUNTER) for message in made]


def said(text: str, *, id: str, role: str = "user", **fields: Any) -> Message:  # noqa: A002
    """A message with a known id and time."""
    return Message(role, text, id=id, created_at=datetime(2030, 1, 1, tzinfo=UTC), **fields)
