"""`Summary`: a message made of segments that replaces a range of older messages.

Each segment names the log positions it covers, so a reader can tell what is summarized; everything
after the last position is shown verbatim. The facts that hold stand after the segments.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import KW_ONLY, asdict, dataclass, field
from datetime import datetime
from hashlib import sha256
from itertools import pairwise
from typing import TYPE_CHECKING, Any, Literal, get_args

from autonomy_ctx.errors import InvalidMessage
from autonomy_ctx.messages.json_values import EMPTY
from autonomy_ctx.messages.message import (
    NO_ORIGIN,
    ChatRole,
    Content,
    Message,
    MessageOrigin,
    TextContent,
    ToolCall,
    call_to_json,
    check_type,
    content_to_json,
)
from autonomy_ctx.validation import int_problem

SummaryRole = Literal["user", "system"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Segment:
    """The summary of the messages at positions `first` to `last`, both included."""

    text: str
    first: int
    last: int
    provisional: bool = False

    def __post_init__(self) -> None:
        check_type(self.text, str, "segments.text")
        for name in ("first", "last"):
            problem = int_problem(getattr(self, name))
            if problem is not None:
                raise InvalidMessage(f"segments.{name}", problem)
        if self.first > self.last:
            raise InvalidMessage(
                "segments",
                f"covers {self.first} to {self.last}; positions start at 1, "
                f"and `first` must not be after `last`",
            )


@dataclass(frozen=True, slots=True, kw_only=True)
class SummaryBlock:
    """A summary as a provider wrote it: only that provider can read it, or check its signature.

    `owner` names the format of the provider, and `model` the model that wrote it. `data` is the JSON, word
    for word. `start` is a hash of the system prompt and the tools before what it replaces, and `states` are
    hashes of all that it replaces: thinking that was made behind that goes on behind the block.
    """

    owner: str
    model: str
    data: str = field(repr=False)
    start: str = ""
    states: tuple[str, ...] = ()

    @property
    def name(self) -> str:
        """A short name, made from its data."""
        return sha256(self.data.encode("utf-8", "surrogatepass")).hexdigest()[:16]

    @property
    def readable_texts(self) -> tuple[str, str]:
        """The text of the summary, if it is not encrypted, and the messages that stand beside it."""
        summary, others = list[str](), list[str]()
        for item in json.loads(self.data):
            content = item.get("content")
            parts = content if isinstance(content, list) else [{"text": content}]
            texts = [part.get("text") for part in parts if isinstance(part, dict)]
            found = summary if item.get("type") == "compaction" else others
            found += [text for text in texts if isinstance(text, str)]
        return "\n".join(summary), "\n".join(others)


@dataclass(frozen=True, slots=True)
class Summary(Message):
    """A message that replaces all messages its segments cover: one text part per segment, then the facts.

    A model sees it as a record between marks, in a message with the role `display_role`. The provider that
    wrote its `block` sees the block in place of the text. The block is in no stored or exported form.
    """

    # The same for every summary, or made from the segments and facts.
    role: ChatRole = field(default=ChatRole.SYSTEM, init=False)
    content: Content = field(default=None, init=False)
    tool_calls: tuple[ToolCall, ...] = field(default=(), init=False)
    tool_call_id: str | None = field(default=None, init=False)
    name: str | None = field(default=None, init=False)
    is_error: bool = field(default=False, init=False)
    phase: str | None = field(default=None, init=False)
    extra: Mapping[str, Any] = field(default=EMPTY, init=False)
    segments: tuple[Segment, ...]
    _: KW_ONLY
    facts: str = ""
    display_role: SummaryRole = "user"
    block: SummaryBlock | None = None

    if TYPE_CHECKING:
        # The constructor takes more types than the fields have.
        def __init__(
            self,
            segments: Sequence[Segment | Mapping[str, Any]],
            *,
            facts: str = "",
            id: str | None = None,  # noqa: A002  # the field's name
            created_at: datetime | str | float | None = None,
            agent: str | None = None,
            display_role: SummaryRole = "user",
            block: SummaryBlock | None = None,
            _made_from: MessageOrigin = NO_ORIGIN,
        ) -> None: ...

    def __post_init__(self, _made_from: MessageOrigin) -> None:
        check_type(self.facts, str, "facts")
        if not self.segments and not self.facts:
            raise InvalidMessage("segments", "must not be empty: a summary covers at least one message")
        parts = tuple(part if isinstance(part, Segment) else Segment(**part) for part in self.segments)
        for before, after in pairwise(parts):
            if after.first <= before.last:
                raise InvalidMessage("segments", f"overlap or go back at position {after.first}")
        check_summary_role("display_role", self.display_role)
        if self.block is not None and not isinstance(self.block, SummaryBlock):
            raise InvalidMessage("block", f"must be a SummaryBlock, not {type(self.block).__name__}")
        object.__setattr__(self, "segments", parts)
        object.__setattr__(self, "content", tuple(map(TextContent, self.texts)))
        # Named, not `super()`: dataclass(slots=True) makes a new class, which zero-argument super misses.
        Message.__post_init__(self, _made_from)

    def __hash__(self) -> int:
        return hash(self.id)

    def model_dump(self) -> dict[str, Any]:
        """All that `Summary(**...)` needs, as values that `json.dump` takes."""
        return {
            "segments": [asdict(part) for part in self.segments],
            "facts": self.facts,
            "id": self.id,
            "created_at": self.created_at.isoformat(),
            "agent": self.agent,
            "display_role": self.display_role,
        }

    @property
    def texts(self) -> list[str]:
        """The texts of its parts: the segments, and the facts if there are any."""
        return [segment.text for segment in self.segments] + [self.facts] * bool(self.facts)

    @property
    def covers_from(self) -> int:
        """The first position that it covers; 0 if it has only facts."""
        return self.segments[0].first if self.segments else 0

    @property
    def covers_to(self) -> int:
        """The last position that it covers; the verbatim window starts right after."""
        return self.segments[-1].last if self.segments else 0

    @property
    def provisional(self) -> bool:
        """True if a part of it is a digest that a written summary will replace."""
        return any(segment.provisional for segment in self.segments)


def check_summary_role(name: str, value: Any) -> SummaryRole:
    """The role that a summary may be shown in: `user` or `system`."""
    if value not in get_args(SummaryRole):
        raise ValueError(f"{name} is {value!r}; it must be user or system")
    role: SummaryRole = value
    return role


def visible_fields(message: Message) -> list[Any]:
    """The fields of a message that a model sees: not its id, time or bookkeeping."""
    block = message.block if isinstance(message, Summary) else None
    return [
        message.display_role if isinstance(message, Summary) else message.role.value,
        content_to_json(message.content),
        [call_to_json(call) for call in message.tool_calls],
        message.tool_call_id,
        message.name,
        message.is_error,
        *(() if block is None else (block.name,)),
    ]
