"""What came of a turn, and what is told while it goes on."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TypeAlias

from autonomy_ctx.items.formats.base import CallStarted, TextDelta, ThinkingDelta, Usage
from autonomy_ctx.items.message import Message, ToolCall

# Why a turn ended, besides the model's own reasons.
WAITING = "waiting_for_input"
STEPS = "steps"
TOKENS = "tokens"


@dataclass(frozen=True, slots=True, kw_only=True)
class AgentReply:
    """The answer of one turn. `str()` is its text.

    `stop` is `end`, or why it ended otherwise: `length`, `refused`, `waiting_for_input` (then `question`
    is what the user is asked), `steps` or `tokens` for the agent's own limits, or the provider's word.
    `messages` are what the turn added to memory after the user's message; `usage` is of all its steps.
    """

    text: str
    turn: str
    stop: str
    question: str | None = None
    steps: int = 0
    usage: Usage = field(default_factory=Usage)
    messages: tuple[Message, ...] = ()

    def __str__(self) -> str:
        return self.text


@dataclass(frozen=True, slots=True)
class ToolAnswered:
    """A call has its result; the message is what memory keeps and the model reads."""

    call: ToolCall
    message: Message


@dataclass(frozen=True, slots=True)
class TurnEnded:
    """The turn is over; the last event of its stream."""

    reply: AgentReply


AgentEvent: TypeAlias = TextDelta | ThinkingDelta | CallStarted | ToolAnswered | TurnEnded


def added(one: Usage, other: Usage) -> Usage:
    """Two uses of a model together."""
    return Usage(
        input_tokens=one.input_tokens + other.input_tokens,
        cached_tokens=one.cached_tokens + other.cached_tokens,
        cache_write_tokens=one.cache_write_tokens + other.cache_write_tokens,
        output_tokens=one.output_tokens + other.output_tokens,
    )
