"""What a model answered, the same whoever the provider is."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TypeAlias

from autonomy_ctx.items.calls import ToolCall
from autonomy_ctx.items.message import Message
from autonomy_ctx.items.parts import Part, TextContent


@dataclass(frozen=True, slots=True, kw_only=True)
class Usage:
    """Tokens as the provider counts them; `input_tokens` is all that was read, cached or not."""

    input_tokens: int = 0
    cached_tokens: int = 0
    cache_write_tokens: int = 0
    output_tokens: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class ModelReply:
    """One answer. `str()` is its text; `message` is what memory keeps, thinking and signatures included.

    `stop` is one of `end`, `tools`, `length`, `refused`, `overflow`, or the provider's own word.
    """

    parts: tuple[Part, ...] = ()
    tool_calls: tuple[ToolCall, ...] = ()
    stop: str | None = None
    usage: Usage = field(default_factory=Usage)
    model: str | None = None
    id: str | None = None
    # What memory keeps of it; made once, so that storing it again is the same message.
    message: Message = field(init=False, compare=False, repr=False)

    def __post_init__(self) -> None:
        message = Message("assistant", content_of(self.parts), tool_calls=self.tool_calls)
        object.__setattr__(self, "message", message)

    @property
    def text(self) -> str:
        """The text a reader would see: no thinking."""
        return "".join(part.text for part in self.parts if isinstance(part, TextContent))

    def __str__(self) -> str:
        return self.text


@dataclass(frozen=True, slots=True)
class TextDelta:
    """Some more text."""

    text: str


@dataclass(frozen=True, slots=True)
class ThinkingDelta:
    """Some more of what the model thinks."""

    text: str


@dataclass(frozen=True, slots=True)
class CallStarted:
    """The model has begun to call a tool; its arguments come with the reply."""

    id: str | None
    name: str


@dataclass(frozen=True, slots=True)
class Finished:
    """The stream is over; the whole reply."""

    reply: ModelReply


StreamEvent: TypeAlias = TextDelta | ThinkingDelta | CallStarted | Finished


def content_of(parts: Sequence[Part]) -> str | tuple[Part, ...]:
    """Parts as content: plain text when that is all there is."""
    texts = [part.text for part in parts if isinstance(part, TextContent)]
    return "".join(texts) if len(texts) == len(parts) else tuple(parts)


def with_own_names(reply: ModelReply, names: Mapping[str, str]) -> ModelReply:
    """A reply whose calls have the tools' own names instead of those on the wire."""
    if not any(call.name in names for call in reply.tool_calls):
        return reply
    calls = tuple(replace(call, name=names.get(call.name, call.name)) for call in reply.tool_calls)
    return replace(reply, tool_calls=calls)


def event_with_own_names(event: StreamEvent, names: Mapping[str, str]) -> StreamEvent:
    """The same for an event of a stream."""
    match event:
        case CallStarted(id, name):
            return CallStarted(id, names.get(name, name))
        case Finished(reply):
            return Finished(with_own_names(reply, names))
    return event
