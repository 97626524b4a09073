"""Models, sections and conversations for tests of summaries; the one place that imports the models."""

from __future__ import annotations

from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

from autonomy_ctx import Memory, Message, SummarizedHistorySection, ToolCall
from autonomy_ctx.compaction import Background
from autonomy_ctx.messages import Segment, Summary
from autonomy_ctx.sections import Omission
from autonomy_ctx.testing import HeldModel, ModelCall, ScriptedModel
from autonomy_ctx.tokens import TokenCounter

__all__ = [
    "HeldModel",
    "ModelCall",
    "ScriptedModel",
    "Shown",
    "alternating",
    "asks",
    "calls",
    "refusing",
    "results",
    "shown",
    "summarized",
    "users",
]

NOON = datetime(2030, 1, 1, 12, tzinfo=UTC)


class refusing(Exception):  # noqa: N801  # reads as what the model is doing
    """What a client raises for an HTTP status."""

    def __init__(self, status: int, text: str = "no") -> None:
        super().__init__(text)
        self.status_code = status


@asynccontextmanager
async def summarized(
    model: Any, floor: int | None = 4, ceiling: int | None = 8, **options: Any
) -> AsyncIterator[SummarizedHistorySection]:
    """A section whose background ends as soon as the test does, whatever hangs."""
    async with Background(grace_seconds=0) as background:
        yield SummarizedHistorySection(model, floor, ceiling, background=background, **options)


@dataclass(frozen=True)
class Shown:
    """What a section contributed, taken apart."""

    messages: list[Message]
    positions: list[int | None]
    omitted: tuple[Omission, ...]
    params: dict[str, Any]

    @property
    def summary(self) -> Summary | None:
        return next((message for message in self.messages if isinstance(message, Summary)), None)

    @property
    def summary_text(self) -> str:
        return "" if self.summary is None else self.summary.text

    @property
    def segments(self) -> Sequence[Segment]:
        return () if self.summary is None else self.summary.segments

    @property
    def window(self) -> list[int]:
        """The positions of the messages after the summary."""
        at = 0 if self.summary is None else self.messages.index(self.summary) + 1
        return [position for position in self.positions[at:] if position is not None]

    @property
    def pins(self) -> list[int]:
        """The positions of the messages before the summary."""
        at = 0 if self.summary is None else self.messages.index(self.summary)
        return [position for position in self.positions[:at] if position is not None]

    @property
    def texts(self) -> list[str]:
        return [message.text for message in self.messages]

    def tokens(self, counter: TokenCounter) -> int:
        return counter.count_messages(self.messages)


async def shown(
    section: SummarizedHistorySection, memory: Any, scope: str = "ana", conversation: str = "trip"
) -> Shown:
    """Compose once."""
    params: dict[str, Any] = {}
    found = await section.contribute(memory, scope, conversation, params)
    assert found.positions is not None
    return Shown(list(found.messages), list(found.positions), found.omitted, params)


async def asks(memory: Memory, number: int, scope: str = "ana", conversation: str = "trip") -> None:
    """Append so many short user messages."""
    start = (await memory.head(scope, conversation)).position
    await memory.append(scope, conversation, *users(number, start + 1))


def users(number: int, start: int = 1) -> list[Message]:
    """User messages `said 1`, `said 2` and so on, with ids m1, m2."""
    return [
        Message("user", f"said {at}", id=f"m{at}", created_at=NOON) for at in range(start, start + number)
    ]


def alternating(number: int, start: int = 1) -> list[Message]:
    """A user and an assistant in turns; the user speaks at odd positions."""
    return [
        Message("user" if at % 2 else "assistant", f"said {at}", id=f"m{at}", created_at=NOON)
        for at in range(start, start + number)
    ]


def calls(*ids: str, name: str) -> Message:
    """An assistant message that calls tools."""
    made = [ToolCall(one, "look", "{}") for one in ids]
    return Message("assistant", None, tool_calls=made, id=name, created_at=NOON)


def results(*ids: str, text: str = "found") -> list[Message]:
    """The results of calls."""
    return [
        Message("tool", f"{text} {one}", tool_call_id=one, id=f"result-{one}", created_at=NOON) for one in ids
    ]
