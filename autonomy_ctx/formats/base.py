"""Types that all provider formats share: the `Format` protocol, request options, replies, stream events
and usage.

A thinking signature is valid only at the provider that made it, and a conversation may change
providers. So `tag_signature` stores each signature with its owner's name, and `signature_of` returns it
only to that owner.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
from importlib import import_module
from typing import Any, Literal, Protocol, TypeAlias

from autonomy_ctx.errors import AutonomyCtxError
from autonomy_ctx.messages.json_values import EMPTY
from autonomy_ctx.messages.message import Message, Part, TextContent, ToolCall
from autonomy_ctx.messages.summary import SummaryBlock

ANTHROPIC, BEDROCK, GOOGLE, RESPONSES = OWNERS = ("anthropic", "bedrock", "google", "responses")
# The tool that finds those of which the definitions are deferred.
FIND_TOOLS = "find_tools"


def tag_signature(owner: str, signature: str) -> str:
    """A signature with its owner's name."""
    return f"{owner}:{signature}"


def signature_of(owner: str, signature: str | None, *, accept_untagged: bool = False) -> str | None:
    """The signature as its owner gave it, if it is this owner's, else None.

    With `accept_untagged`, one without any owner's name counts, too: it was not read by this library, or by
    a version of it that gave no names to Anthropic's and Bedrock's.
    """
    if not signature:
        return None
    name, colon, own = signature.partition(":")
    if not colon or name not in OWNERS:
        return signature if accept_untagged else None
    return own or None if name == owner else None


class StreamError(AutonomyCtxError):
    """The provider sent an error where a piece of an answer should be.

    `type` is the provider's word for it, such as `overloaded_error` or `throttlingException`; `message`
    is its sentence, which `find_overflow(400, message)` can judge.
    """

    def __init__(self, type: str, message: str) -> None:  # noqa: A002  # the field's name
        said = f"{type}: {message}" if message else type
        super().__init__(f"the model's answer broke off: {said}; what came before it is not the whole answer")
        self.type, self.message = type, message


@dataclass(frozen=True, slots=True, kw_only=True)
class Usage:
    """Tokens as the provider counts them; `input_tokens` includes cached and written tokens.

    `long_cache_write_tokens` is the part of `cache_write_tokens` that lives longer than usual and costs more:
    an hour at Claude, 12 hours at GPT. `reasoning_tokens` is a part of `output_tokens`.
    """

    input_tokens: int = 0
    cached_tokens: int = 0
    cache_write_tokens: int = 0
    output_tokens: int = 0
    long_cache_write_tokens: int = 0
    reasoning_tokens: int = 0

    def __add__(self, other: Usage) -> Usage:
        return Usage(**{name: getattr(self, name) + getattr(other, name) for name in self.__slots__})


@dataclass(frozen=True, slots=True, kw_only=True)
class CacheMiss:
    """The reason why a provider did not read a prompt from its cache, in its own word, and the tokens."""

    reason: str
    tokens: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class ThinkingUse:
    """The thinking of earlier replies in one request.

    `sent` names the blocks that went back, oldest first. `left_out` counts the others by reason. `refused`
    says that the provider refused the request for its thinking, and answered when it was sent again without.
    `block` names the summary of the provider's own that was sent, and `refused_block` one that it refused: it
    answered when our text stood in its place.
    """

    sent: tuple[str, ...] = ()
    left_out: Mapping[str, int] = field(default=EMPTY)
    refused: bool = False
    block: str = ""
    refused_block: str = ""


NO_THINKING = ThinkingUse()


@dataclass(frozen=True, slots=True, kw_only=True)
class ModelReply:
    """One answer. `str()` is its text; `message` is what memory stores, with thinking and signatures.

    `stop` is one of `end`, `tools`, `length`, `refused`, `overflow`, or the provider's own word. `extra` is
    stored with the message, and `thinking` says what became of earlier thinking in the request. `cache_miss`
    is what the provider says of its cache, if it was asked. `fallback` is the name of the model that answered
    in the place of another.
    """

    parts: tuple[Part, ...] = ()
    tool_calls: tuple[ToolCall, ...] = ()
    stop: str | None = None
    usage: Usage = field(default_factory=Usage)
    model: str | None = None
    id: str | None = None
    extra: Mapping[str, Any] = field(default=EMPTY)
    thinking: ThinkingUse = NO_THINKING
    cache_miss: CacheMiss | None = None
    fallback: str | None = None
    # Of a reply with thinking: the blocks as the provider sent them, and where among the parts the calls
    # stood, if not at the end.
    blocks: tuple[Mapping[str, Any], ...] = field(default=(), compare=False, repr=False)
    calls_at: tuple[int, ...] = field(default=(), compare=False, repr=False)
    # What memory keeps of it; made once, so that storing it again is the same message.
    message: Message = field(init=False, compare=False, repr=False)

    def __post_init__(self) -> None:
        message = Message("assistant", content_of(self.parts), tool_calls=self.tool_calls, extra=self.extra)
        object.__setattr__(self, "message", message)

    @property
    def text(self) -> str:
        """The text a reader would see: no thinking."""
        return "".join(part.text for part in self.parts if isinstance(part, TextContent))

    def __str__(self) -> str:
        return self.text


@dataclass(frozen=True, slots=True)
class TextDelta:
    """The next piece of text."""

    text: str


@dataclass(frozen=True, slots=True)
class ThinkingDelta:
    """The next piece of the model's thinking."""

    text: str


@dataclass(frozen=True, slots=True)
class CallStarted:
    """The model has begun to call a tool; its arguments come with the reply."""

    id: str | None
    name: str


@dataclass(frozen=True, slots=True)
class CallDelta:
    """The next piece of the arguments of a call that has begun."""

    id: str | None
    arguments: str


@dataclass(frozen=True, slots=True)
class ReplyFinished:
    """The end of a stream, with the whole reply."""

    reply: ModelReply


StreamEvent: TypeAlias = TextDelta | ThinkingDelta | CallStarted | ReplyFinished
# A stream of a model has no pieces of arguments: half of a call is of no use to its reader.
ReaderEvent: TypeAlias = StreamEvent | CallDelta


def content_of(parts: Sequence[Part]) -> str | tuple[Part, ...]:
    """Parts as content: plain text when that is all there is."""
    texts = [part.text for part in parts if isinstance(part, TextContent)]
    return "".join(texts) if len(texts) == len(parts) else tuple(parts)


def restore_tool_names(reply: ModelReply, names: Mapping[str, str]) -> ModelReply:
    """A reply whose calls have the tools' own names instead of those on the wire."""
    if not any(call.name in names for call in reply.tool_calls):
        return reply
    calls = tuple(replace(call, name=names.get(call.name, call.name)) for call in reply.tool_calls)
    return replace(reply, tool_calls=calls)


def restore_event_tool_names(event: StreamEvent, names: Mapping[str, str]) -> StreamEvent:
    """A stream event whose call has the tool's own name instead of that on the wire."""
    match event:
        case CallStarted(id, name):
            return CallStarted(id, names.get(name, name))
        case ReplyFinished(reply):
            return ReplyFinished(restore_tool_names(reply, names))
    return event


@dataclass(frozen=True, slots=True, kw_only=True)
class CacheFields:
    """Fields for a provider's prompt cache: a name for the conversation, and entries that live longer."""

    key: str | None = None
    is_long: bool = False


NO_CACHE_FIELDS = CacheFields()


@dataclass(frozen=True, slots=True, kw_only=True)
class RequestOptions:
    """Content of a request besides the messages.

    `tools` are `{"name", "description", "parameters"}`. `breakpoints` are indexes of messages after
    which a prompt cache may be cut, at most 4; formats without them ignore them. `answered_call_ids` are
    ids of calls whose results exist but are not among the messages: the model is told so, where it would
    otherwise read that they were interrupted. `cache` are fields that only some servers know; None for
    none. `options` go into the body as they are.
    """

    tools: Sequence[Mapping[str, Any]] = ()
    max_tokens: int | None = None
    stream: bool = False
    breakpoints: Sequence[int] = ()
    answered_call_ids: Collection[str] = ()
    cache: CacheFields | None = None
    options: Mapping[str, Any] = field(default=EMPTY)


@dataclass(frozen=True, slots=True, kw_only=True)
class WireRequest:
    """A request's path below the base URL, its JSON body, and the repairs that were needed.

    `thinking` says what became of the thinking in the messages.
    """

    path: str
    body: dict[str, Any]
    repairs: tuple[str, ...] = ()
    thinking: ThinkingUse = NO_THINKING
    # The features of the Anthropic API that the body uses; they go into a header.
    betas: tuple[str, ...] = ()
    # The summary that the provider wrote, if the body has it in place of our text.
    block: SummaryBlock | None = None


class StreamReader(Protocol):
    """Puts a stream's pieces together again."""

    def feed(self, data: Mapping[str, Any], event: str | None = None) -> Sequence[ReaderEvent]:
        """Read one server-sent event; an unknown one says nothing."""

    def finish(self) -> ModelReply:
        """The reply, once the stream has ended; with what came when it ended too early."""


class ReplyFormat(Protocol):
    """Reader of one provider's whole responses."""

    name: str

    def reply(self, body: Mapping[str, Any]) -> ModelReply:
        """Read a whole response."""


class Format(ReplyFormat, Protocol):
    """One provider's words."""

    def request(self, model: str, messages: Sequence[Message], settings: RequestOptions) -> WireRequest:
        """A request that the provider takes."""

    def reader(self) -> StreamReader:
        """For a streamed response."""


WireFormat: TypeAlias = Literal["openai", "responses", "anthropic", "google", "bedrock"]
_FORMATS: dict[WireFormat, str] = {
    "openai": "openai:OpenAIFormat",
    "responses": "openai_responses:ResponsesFormat",
    "anthropic": "anthropic:AnthropicFormat",
    "google": "google:GoogleFormat",
    "bedrock": "bedrock:BedrockFormat",
}


def load_format(wire_format: WireFormat) -> Format:
    """A format by its name; imported when first asked for, as most programs need one of them."""
    module, _, name = _FORMATS[wire_format].partition(":")
    made: Format = getattr(import_module(f"autonomy_ctx.formats.{module}"), name)()
    return made
