"""The binary frames in which Amazon sends a stream: lengths, headers and checksums around each event.

A frame is: its length, its headers' length, a checksum of these two, headers, payload, a checksum of all.
Numbers are big-endian. See "Amazon event stream encoding" in the vendor's reference.
"""

from __future__ import annotations

import base64
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, assert_never
from urllib.parse import quote

from autonomy_ctx.items.formats.base import (
    BEDROCK,
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
from autonomy_ctx.items.formats.outgoing import arguments_text, is_base64, joined
from autonomy_ctx.items.message import Message, Part, TextContent, ThinkingContent, ToolCall


@dataclass(slots=True)
class _Block:
    """The pieces of one block; which of them there are says what it is."""

    use: Mapping[str, Any] | None = None
    arguments: list[str] = field(default_factory=list)
    text: list[str] = field(default_factory=list)
    thought: list[str] = field(default_factory=list)
    signature: list[str] = field(default_factory=list)
    redacted: list[str] = field(default_factory=list)
    closed: bool = False


class BedrockReader:
    """Collects the events of one stream; the client ends it with `finish()`."""

    def __init__(self, read_response: Callable[[Mapping[str, Any]], ModelReply]) -> None:
        self._read_response = read_response
        self._blocks: dict[int, _Block] = {}
        self._stop: Any = None
        self._usage: Mapping[str, Any] = {}

    def feed(self, data: Mapping[str, Any], event: str | None = None) -> Sequence[StreamEvent]:
        """What one event says; a `StreamError` if it is an exception, nothing if it is unknown.

        Without its name an event is expected in the shape `{"contentBlockDelta": {...}}`.
        """
        if event is None:
            event = next(iter(data), "")
            data = fields(data.get(event))
        if event.endswith("Exception") or event == "error":
            raise StreamError(word(data.get("code")) or event, text(data.get("message")))
        index = count(data.get("contentBlockIndex"))
        match event:
            case "contentBlockStart":
                if use := fields(fields(data.get("start")).get("toolUse")):
                    self._block(index).use = use
                    return (CallStarted(word(use.get("toolUseId")), text(use.get("name"))),)
            case "contentBlockDelta":
                return self._added(self._block(index), fields(data.get("delta")))
            case "contentBlockStop":
                self._block(index).closed = True
            case "messageStop":
                self._stop = data.get("stopReason")
            case "metadata":
                self._usage = fields(data.get("usage"))
        return ()

    def finish(self) -> ModelReply:
        """The reply; of a stream that ended too early what came, without calls that were not complete."""
        content = [made for _, block in sorted(self._blocks.items()) for made in self._whole(block)]
        output = {"message": {"role": "assistant", "content": content}}
        return self._read_response({"output": output, "stopReason": self._stop, "usage": self._usage})

    def _block(self, index: int) -> _Block:
        return self._blocks.setdefault(index, _Block())

    def _added(self, block: _Block, delta: Mapping[str, Any]) -> Sequence[StreamEvent]:
        reasoning = fields(delta.get("reasoningContent"))
        block.arguments.append(text(fields(delta.get("toolUse")).get("input")))
        block.signature.append(text(reasoning.get("signature")))
        block.redacted.append(text(reasoning.get("redactedContent")))
        if thought := text(reasoning.get("text")):
            block.thought.append(thought)
            return (ThinkingDelta(thought),)
        if said := text(delta.get("text")):
            block.text.append(said)
            return (TextDelta(said),)
        return ()

    def _whole(self, block: _Block) -> Sequence[Mapping[str, Any]]:
        """A block as it would stand in a whole response; none of a call that was not complete."""
        if block.use is not None:
            # Half of a call must not be run; half of a text is still worth reading.
            done = block.closed or self._stop is not None
            return [{"toolUse": {**block.use, "input": "".join(block.arguments)}}] if done else []
        if redacted := _bytes(block.redacted):
            return [{"reasoningContent": {"redactedContent": redacted}}]
        if block.thought or any(block.signature):
            thought = {"text": "".join(block.thought), "signature": "".join(block.signature)}
            return [{"reasoningContent": {"reasoningText": thought}}]
        return [{"text": "".join(block.text)}]


def _bytes(pieces: Sequence[str]) -> str:
    """Pieces of base64 as one: each may carry its own padding."""
    return base64.b64encode(
        b"".join(base64.b64decode(piece) for piece in pieces if is_base64(piece))
    ).decode()


STOPS = {
    "end_turn": "end",
    "stop_sequence": "end",
    "tool_use": "tools",
    "max_tokens": "length",
    "guardrail_intervened": "refused",
    "content_filtered": "refused",
    "model_context_window_exceeded": "overflow",
}
_CARRIES = Carries(owner=BEDROCK, url_images=False, redacted_text=False)


class BedrockFormat:
    """The words of Bedrock's Converse and ConverseStream."""

    name = "bedrock"

    def request(self, model: str, messages: Sequence[Message], asked: Asking = ONLY_MESSAGES) -> Request:
        """A request that the provider takes; `inferenceConfig` and `toolConfig` of `options` are added to."""
        talk = conversation(messages, _CARRIES, asked)
        options = dict(asked.options)
        body: dict[str, Any] = {}
        if talk.system:
            body["system"] = _blocks(talk.system)
        body["messages"] = [_turn(turn) for turn in talk.turns]
        if talk.tools:
            offered = {"tools": [_tool(offer) for offer in talk.tools]}
            body["toolConfig"] = {**offered, **fields(options.pop("toolConfig", None))}
        if asked.max_tokens is not None:
            given = fields(options.pop("inferenceConfig", None))
            body["inferenceConfig"] = {**given, "maxTokens": asked.max_tokens}
        path = f"/model/{quote(model, safe='')}/{'converse-stream' if asked.stream else 'converse'}"
        return Request(path=path, body={**body, **options}, repairs=talk.repairs)

    def reply(self, body: Mapping[str, Any]) -> ModelReply:
        """What a whole response says."""
        return read_response(body)

    def reader(self) -> BedrockReader:
        """For a streamed response, whose frames `EventStreamDecoder` takes apart."""
        return BedrockReader(read_response)


def read_response(body: Mapping[str, Any]) -> ModelReply:
    """A reply from a whole response; blocks of an unknown kind are passed over."""
    parts: list[Part] = []
    calls: list[ToolCall] = []
    for block in entries(fields(fields(body.get("output")).get("message")).get("content")):
        parts += _parts(block)
        if "toolUse" in block:
            use = fields(block.get("toolUse"))
            name, arguments = text(use.get("name")), arguments_text(use.get("input"))
            calls.append(ToolCall(word(use.get("toolUseId")), name, arguments))
    stop = word(body.get("stopReason"))
    return ModelReply(
        parts=joined(parts),
        tool_calls=tuple(calls),
        stop=STOPS.get(stop, stop) if stop else None,
        usage=_usage(fields(body.get("usage"))),
    )


def _parts(block: Mapping[str, Any]) -> Iterable[Part]:
    if "text" in block:
        yield TextContent(text(block["text"]))
    for cited in entries(fields(block.get("citationsContent")).get("content")):
        yield TextContent(text(cited.get("text")))
    reasoning = fields(block.get("reasoningContent"))
    if thought := fields(reasoning.get("reasoningText")):
        signature = word(thought.get("signature"))
        yield ThinkingContent(
            text(thought.get("text")), signature=signed(BEDROCK, signature) if signature else None
        )
    if redacted := text(reasoning.get("redactedContent")):
        yield ThinkingContent("", redacted=signed(BEDROCK, redacted))


def _usage(usage: Mapping[str, Any]) -> Usage:
    cached = count(usage.get("cacheReadInputTokens"))
    written = count(usage.get("cacheWriteInputTokens"))
    return Usage(
        input_tokens=count(usage.get("inputTokens")) + written + cached,
        cached_tokens=cached,
        cache_write_tokens=written,
        output_tokens=count(usage.get("outputTokens")),
    )


def _turn(turn: Turn) -> dict[str, Any]:
    return {"role": turn.role, "content": _blocks(turn.blocks)}


def _blocks(blocks: Iterable[Block]) -> list[dict[str, Any]]:
    spelled: list[dict[str, Any]] = []
    for block in blocks:
        spelled.append(_spelled(block))
        if block.cut:
            spelled.append({"cachePoint": {"type": "default"}})
    return spelled


def _spelled(block: Block) -> dict[str, Any]:
    match block:
        case Text(text=text):
            return {"text": text}
        case Image(picture=picture):
            kind = picture.media_type.removeprefix("image/")
            return {"image": {"format": kind, "source": {"bytes": picture.data}}}
        case Thinking(redacted=redacted) if redacted:
            return {"reasoningContent": {"redactedContent": redacted}}
        case Thinking(text=text, signature=signature):
            return {"reasoningContent": {"reasoningText": {"text": text, "signature": signature}}}
        case Use(id=call_id, name=name, input=arguments):
            return {"toolUse": {"toolUseId": call_id, "name": name, "input": arguments}}
        case Result(id=call_id, content=content, is_error=is_error):
            result: dict[str, Any] = {"toolUseId": call_id, "content": _blocks(content)}
            return {"toolResult": {**result, "status": "error"} if is_error else result}
    assert_never(block)


def _tool(offer: Offer) -> dict[str, Any]:
    described = {"description": offer.description} if offer.description else {}
    return {"toolSpec": {"name": offer.name, **described, "inputSchema": {"json": offer.schema}}}
