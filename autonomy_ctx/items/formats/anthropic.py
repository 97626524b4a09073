"""An answer of Anthropic's that comes in pieces, put together to the message it would have been."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple, assert_never

from autonomy_ctx.items.formats.base import (
    ANTHROPIC,
    ONLY_MESSAGES,
    Asking,
    CallStarted,
    ModelReply,
    Request,
    StreamError,
    StreamEvent,
    TextDelta,
    ThinkingDelta,
    Usage,
    signed,
)
from autonomy_ctx.items.formats.blocks import (
    Block,
    Carries,
    Image,
    Offer,
    Result,
    Text,
    Thinking,
    Turn,
    Use,
    conversation,
)
from autonomy_ctx.items.formats.incoming import count, entries, fields, text, word
from autonomy_ctx.items.formats.outgoing import arguments_text, joined
from autonomy_ctx.items.message import Message, Part, TextContent, ThinkingContent, ToolCall

# Which field of which block each kind of delta adds to.
_GROWS = {
    "text_delta": ("text", "text", "text"),
    "thinking_delta": ("thinking", "thinking", "thinking"),
    "signature_delta": ("thinking", "signature", "signature"),
    "input_json_delta": ("tool_use", "partial_json", "input"),
}


class AnthropicReader:
    """Collects the events of one stream; the client ends it with `finish()`."""

    def __init__(self, read_message: Callable[[Mapping[str, Any]], ModelReply]) -> None:
        self._read_message = read_message
        self._message: dict[str, Any] = {}
        self._usage: dict[str, Any] = {}
        self._blocks: dict[int, Mapping[str, Any]] = {}
        self._grown: dict[int, dict[str, list[str]]] = {}
        self._closed: set[int] = set()

    def feed(self, data: Mapping[str, Any], event: str | None = None) -> Sequence[StreamEvent]:
        """What one event says; a `StreamError` if it is an error, nothing if it is unknown."""
        index = count(data.get("index"))
        match data.get("type") or event:
            case "message_start":
                message = fields(data.get("message"))
                self._message.update({name: message.get(name) for name in ("id", "model", "stop_reason")})
                self._usage.update(fields(message.get("usage")))
            case "content_block_start":
                return self._started(index, fields(data.get("content_block")))
            case "content_block_delta":
                return self._added(index, fields(data.get("delta")))
            case "content_block_stop":
                self._closed.add(index)
            case "message_delta":
                self._message["stop_reason"] = fields(data.get("delta")).get("stop_reason")
                told = fields(data.get("usage")).items()
                # The counts so far: they replace those from the start, where they are given.
                self._usage.update({name: value for name, value in told if value is not None})
            case "error":
                error = fields(data.get("error"))
                raise StreamError(word(error.get("type")) or "error", text(error.get("message")))
        return ()

    def finish(self) -> ModelReply:
        """The reply; of a stream that ended too early what came, without calls that were not complete."""
        blocks = [
            self._whole(index)
            for index in sorted(self._blocks)
            # Half of a call must not be run; half of a text is still worth reading.
            if self._blocks[index].get("type") != "tool_use"
            or index in self._closed
            or self._message.get("stop_reason")
        ]
        return self._read_message({**self._message, "usage": self._usage, "content": blocks})

    def _started(self, index: int, block: Mapping[str, Any]) -> Sequence[StreamEvent]:
        self._blocks[index] = block
        self._grown[index] = {}
        match block.get("type"):
            case "tool_use":
                return (CallStarted(word(block.get("id")), text(block.get("name"))),)
            case "text" if shown := text(block.get("text")):
                return (TextDelta(shown),)
            case "thinking" if thought := text(block.get("thinking")):
                return (ThinkingDelta(thought),)
        return ()

    def _added(self, index: int, delta: Mapping[str, Any]) -> Sequence[StreamEvent]:
        kind, source, target = _GROWS.get(text(delta.get("type")), ("", "", ""))
        more = text(delta.get(source))
        if not more:
            return ()
        if index not in self._blocks:
            if kind == "tool_use":
                return ()
            self._started(index, {"type": kind})
        if self._blocks[index].get("type") != kind:
            return ()
        self._grown[index].setdefault(target, []).append(more)
        if target == "text":
            return (TextDelta(more),)
        return (ThinkingDelta(more),) if target == "thinking" else ()

    def _whole(self, index: int) -> dict[str, Any]:
        """A block as it would stand in a whole message."""
        block = dict(self._blocks[index])
        for name, pieces in self._grown[index].items():
            begun = "" if name == "input" else text(block.get(name))
            block[name] = begun + "".join(pieces)
        return block


DEFAULT_MAX_TOKENS = 4096
STOPS = {
    "end_turn": "end",
    "stop_sequence": "end",
    "tool_use": "tools",
    "max_tokens": "length",
    "refusal": "refused",
    "model_context_window_exceeded": "overflow",
}
_CARRIES = Carries(owner=ANTHROPIC, url_images=True, redacted_text=True)


class AnthropicMessages(NamedTuple):
    """The messages, and the text of the system prompt if there is one."""

    messages: list[dict[str, Any]]
    system: str | None


class AnthropicFormat:
    """The words of Anthropic's Messages API."""

    name = "anthropic"

    def request(self, model: str, messages: Sequence[Message], asked: Asking = ONLY_MESSAGES) -> Request:
        """A request that the provider takes; sampling parameters only if `options` has them."""
        talk = conversation(messages, _CARRIES, asked)
        body: dict[str, Any] = {
            "model": model,
            "max_tokens": _default_max_tokens(asked.options)
            if asked.max_tokens is None
            else asked.max_tokens,
        }
        if talk.system:
            body["system"] = [_block(text) for text in talk.system]
        body["messages"] = [_turn(turn) for turn in talk.turns]
        if talk.tools:
            body["tools"] = [_tool(offer) for offer in talk.tools]
            if not talk.offered:
                body["tool_choice"] = {"type": "none"}
        if asked.stream:
            body["stream"] = True
        return Request(path="/messages", body={**body, **asked.options}, repairs=talk.repairs)

    def reply(self, body: Mapping[str, Any]) -> ModelReply:
        """What a whole response says."""
        return read_message(body)

    def reader(self) -> AnthropicReader:
        """For a streamed response."""
        return AnthropicReader(read_message)


def anthropic_messages(
    messages: Sequence[Message], repairs: list[str], *, breakpoints: Sequence[int] = ()
) -> AnthropicMessages:
    """Messages as the Messages API takes them; `repairs` gets what was mended."""
    talk = conversation(messages, _CARRIES, Asking(breakpoints=breakpoints))
    repairs += talk.repairs
    system = "\n\n".join(rule.text for rule in talk.system)
    return AnthropicMessages([_turn(turn) for turn in talk.turns], system or None)


def read_message(body: Mapping[str, Any]) -> ModelReply:
    """A reply from a whole message; blocks of an unknown kind are passed over."""
    if body.get("type") == "error":
        error = fields(body.get("error"))
        raise StreamError(word(error.get("type")) or "error", text(error.get("message")))
    parts: list[Part] = []
    calls: list[ToolCall] = []
    for block in entries(body.get("content")):
        match block.get("type"):
            case "text":
                parts.append(TextContent(text(block.get("text"))))
            case "thinking":
                thought, signature = text(block.get("thinking")), word(block.get("signature"))
                mark = signed(ANTHROPIC, signature) if signature else None
                parts.append(ThinkingContent(thought, signature=mark))
            case "redacted_thinking" if data := text(block.get("data")):
                parts.append(ThinkingContent("", redacted=signed(ANTHROPIC, data)))
            case "tool_use":
                name, arguments = text(block.get("name")), arguments_text(block.get("input"))
                calls.append(ToolCall(word(block.get("id")), name, arguments))
    stop = word(body.get("stop_reason"))
    return ModelReply(
        parts=joined(parts),
        tool_calls=tuple(calls),
        stop=STOPS.get(stop, stop) if stop else None,
        usage=_usage(fields(body.get("usage"))),
        model=word(body.get("model")),
        id=word(body.get("id")),
    )


def _usage(usage: Mapping[str, Any]) -> Usage:
    cached = count(usage.get("cache_read_input_tokens"))
    written = count(usage.get("cache_creation_input_tokens"))
    return Usage(
        input_tokens=count(usage.get("input_tokens")) + written + cached,
        cached_tokens=cached,
        cache_write_tokens=written,
        output_tokens=count(usage.get("output_tokens")),
    )


def _default_max_tokens(options: Mapping[str, Any]) -> int:
    # What is allowed for thinking counts, and a limit below it is refused.
    return DEFAULT_MAX_TOKENS + count(fields(options.get("thinking")).get("budget_tokens"))


def _turn(turn: Turn) -> dict[str, Any]:
    return {"role": turn.role, "content": [_block(block) for block in turn.blocks]}


def _block(block: Block) -> dict[str, Any]:
    spelled = _spelled(block)
    if block.cut:
        spelled["cache_control"] = {"type": "ephemeral"}
    return spelled


def _spelled(block: Block) -> dict[str, Any]:
    match block:
        case Text(text=text):
            return {"type": "text", "text": text}
        case Image(picture=picture):
            if picture.url:
                return {"type": "image", "source": {"type": "url", "url": picture.url}}
            source = {"type": "base64", "media_type": picture.media_type, "data": picture.data}
            return {"type": "image", "source": source}
        case Thinking(redacted=redacted) if redacted:
            return {"type": "redacted_thinking", "data": redacted}
        case Thinking(text=text, signature=signature):
            return {"type": "thinking", "thinking": text, "signature": signature}
        case Use(id=call_id, name=name, input=arguments):
            return {"type": "tool_use", "id": call_id, "name": name, "input": arguments}
        case Result(id=call_id, content=content, is_error=is_error):
            inside = [_block(inner) for inner in content]
            result: dict[str, Any] = {"type": "tool_result", "tool_use_id": call_id, "content": inside}
            return {**result, "is_error": True} if is_error else result
    assert_never(block)


def _tool(offer: Offer) -> dict[str, Any]:
    described = {"description": offer.description} if offer.description else {}
    return {"name": offer.name, **described, "input_schema": offer.schema}
