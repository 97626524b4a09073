"""What a client needs of a provider's format: a request out, a reply or its pieces back."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol

from autonomy_ctx.items.formats.reply import ModelReply, StreamEvent
from autonomy_ctx.items.frozen import EMPTY
from autonomy_ctx.items.message import Message


@dataclass(frozen=True, slots=True, kw_only=True)
class Asking:
    """What a request says besides the messages.

    `tools` are `{"name", "description", "parameters"}`. `breakpoints` are indexes of messages after
    which a prompt cache may be cut, at most 4; formats without them ignore them. `answered` are ids of
    calls whose results exist but are not among the messages: the model is told so, where it would
    otherwise read that they were interrupted. `options` go into the body as they are.
    """

    tools: Sequence[Mapping[str, Any]] = ()
    max_tokens: int | None = None
    stream: bool = False
    breakpoints: Sequence[int] = ()
    answered: Collection[str] = ()
    options: Mapping[str, Any] = field(default=EMPTY)


ONLY_MESSAGES = Asking()


@dataclass(frozen=True, slots=True, kw_only=True)
class Request:
    """A request's path below the base URL and its JSON body, and what had to be mended to make it."""

    path: str
    body: dict[str, Any]
    repairs: tuple[str, ...] = ()


class StreamReader(Protocol):
    """Puts a stream's pieces together again."""

    def feed(self, data: Mapping[str, Any], event: str | None = None) -> Sequence[StreamEvent]:
        """What one server-sent event says; unknown ones say nothing."""

    def finish(self) -> ModelReply:
        """The reply, once the stream has ended; with what came when it ended too early."""


class Answers(Protocol):
    """How one provider answers with a whole response."""

    name: str

    def reply(self, body: Mapping[str, Any]) -> ModelReply:
        """What a whole response says."""

    def overflow(self, status: int, body: Any) -> tuple[bool, int | None]:
        """Whether an error says that the request was too long, and the window if it names one."""


class Format(Answers, Protocol):
    """One provider's words."""

    def request(self, model: str, messages: Sequence[Message], asked: Asking = ONLY_MESSAGES) -> Request:
        """A request that the provider takes."""

    def reader(self) -> StreamReader:
        """For a streamed response."""
