"""What a turn is made of, in nobody's words yet; Anthropic and Bedrock differ only in the spelling."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Literal, TypeAlias

from autonomy_ctx.items.formats.values import Picture


@dataclass(slots=True, kw_only=True)
class Placed:
    """Where a block comes from: the index of its message; and whether a prompt cache is cut after it."""

    at: int
    cut: bool = False


@dataclass(slots=True, kw_only=True)
class Text(Placed):
    """Text that is not blank."""

    text: str


@dataclass(slots=True, kw_only=True)
class Image(Placed):
    """A picture that the provider takes."""

    picture: Picture


@dataclass(slots=True, kw_only=True)
class Thinking(Placed):
    """What the model thought, signed; or what it may not show, as `redacted`."""

    text: str = ""
    signature: str = ""
    redacted: str = ""


@dataclass(slots=True, kw_only=True)
class Use(Placed):
    """A call of a tool."""

    id: str
    name: str
    input: dict[str, Any]


@dataclass(slots=True, kw_only=True)
class Result(Placed):
    """What a call gave; never empty, and only text when it is an error."""

    id: str
    content: list[Text | Image]
    is_error: bool


Block: TypeAlias = Text | Image | Thinking | Use | Result


@dataclass(slots=True)
class Turn:
    """What one side says before the other side speaks."""

    role: Literal["user", "assistant"]
    blocks: list[Block] = field(default_factory=list)


@dataclass(frozen=True, slots=True, kw_only=True)
class Offer:
    """A tool under the name it has on the wire."""

    name: str
    description: str
    schema: Mapping[str, Any]


@dataclass(frozen=True, slots=True, kw_only=True)
class Conversation:
    """A request in blocks: turns that alternate, the user's first, every call answered in the next.

    `offered` is false when the tools are only there because the history calls them.
    """

    system: list[Text]
    turns: list[Turn]
    tools: list[Offer]
    offered: bool
    repairs: tuple[str, ...]
