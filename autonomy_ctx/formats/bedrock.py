"""Amazon Bedrock's Converse API: requests, whole replies and streamed replies. `eventstream.py` decodes
the binary frames of a stream.
"""

from __future__ import annotations

import base64
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, assert_never
from urllib.parse import quote

from autonomy_ctx.formats.base import (
    BEDROCK,
    DEFAULT_REQUEST_OPTIONS,
    CallStarted,
    ModelReply,
    RequestOptions,
    StreamError,
    StreamEvent,
    TextDelta,
    ThinkingDelta,
    Usage,
    WireRequest,
    tag_signature,
)
from autonomy_ctx.formats.blocks import (
    Block,
    BlockTurn,
    CompactionBlock,
    ImageBlock,
    ProviderFeatures,
    ReplyParts,
    TextBlock,
    ThinkingBlock,
    ToolResultBlock,
    ToolUseBlock,
    build_conversation,
)
from autonomy_ctx.formats.incoming import as_count, as_mapping, as_mappings, as_nonempty_text, as_text
from autonomy_ctx.formats.outgoing import ToolSpec, arguments_text, is_base64
from autonomy_ctx.formats.thinking import select_thinking
from autonomy_ctx.messages.message import Message, Part, TextContent, ThinkingContent, ToolCall


@dataclass(slots=True)
class _BlockBuffer:
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

    def __init__(self) -> None:
        self._blocks: dict[int, _BlockBuffer] = {}
        self._stop: Any = None
        self._usage: Mapping[str, Any] = {}

    def feed(self, data: Mapping[str, Any], event: str | None = None) -> Sequence[StreamEvent]:
        """Read one event; an exception raises `StreamError`, an unknown event says nothing.

        Without its name an event is expected in the shape `{"contentBlockDelta": {...}}`.
        """
        if event is None:
            event = next(iter(data), "")
            data = as_mapping(data.get(event))
        if event.endswith("Exception") or event == "error":
            raise StreamError(as_nonempty_text(data.get("code")) or event, as_text(data.get("message")))
        index = as_count(data.get("contentBlockIndex"))
        match event:
            case "contentBlockStart":
                if use := as_mapping(as_mapping(data.get("start")).get("toolUse")):
                    self._block(index).use = use
                    return (CallStarted(as_nonempty_text(use.get("toolUseId")), as_text(use.get("name"))),)
            case "contentBlockDelta":
                return self._add_delta(self._block(index), as_mapping(data.get("delta")))
            case "contentBlockStop":
                self._block(index).closed = True
            case "messageStop":
                self._stop = data.get("stopReason")
            case "metadata":
                self._usage = as_mapping(data.get("usage"))
        return ()

    def finish(self) -> ModelReply:
        """The reply; of a stream that ended too early what came, without calls that were not complete."""
        content = [made for _, block in sorted(self._blocks.items()) for made in self._assemble_block(block)]
        output = {"message": {"role": "assistant", "content": content}}
        return read_response({"output": output, "stopReason": self._stop, "usage": self._usage})

    def _block(self, index: int) -> _BlockBuffer:
        return self._blocks.setdefault(index, _BlockBuffer())

    def _add_delta(self, block: _BlockBuffer, delta: Mapping[str, Any]) -> Sequence[StreamEvent]:
        reasoning = as_mapping(delta.get("reasoningContent"))
        block.arguments.append(as_text(as_mapping(delta.get("toolUse")).get("input")))
        block.signature.append(as_text(reasoning.get("signature")))
        block.redacted.append(as_text(reasoning.get("redactedContent")))
        if thought := as_text(reasoning.get("text")):
            block.thought.append(thought)
            return (ThinkingDelta(thought),)
        if said := as_text(delta.get("text")):
            block.text.append(said)
            return (TextDelta(said),)
        return ()

    def _assemble_block(self, block: _BlockBuffer) -> Sequence[Mapping[str, Any]]:
        """A block as it would stand in a whole response; none of a call that was not complete."""
        if block.use is not None:
            # Half of a call must not be run; half of a text is still worth reading.
            done = block.closed or self._stop is not None
            return [{"toolUse": {**block.use, "input": "".join(block.arguments)}}] if done else []
        if redacted := _join_base64(block.redacted):
            return [{"reasoningContent": {"redactedContent": redacted}}]
        if block.thought or any(block.signature):
            thought = {"text": "".join(block.thought), "signature": "".join(block.signature)}
            return [{"reasoningContent": {"reasoningText": thought}}]
        return [{"text": "".join(block.text)}]


def _join_base64(pieces: Sequence[str]) -> str:
    """Pieces of base64 as one: each may carry its own padding."""
    return base64.b64encode(
        b"".join(base64.b64decode(piece) for piece in pieces if is_base64(piece))
    ).decode()


STOP_REASONS = {
    "end_turn": "end",
    "stop_sequence": "end",
    "tool_use": "tools",
    "max_tokens": "length",
    "guardrail_intervened": "refused",
    "content_filtered": "refused",
    "model_context_window_exceeded": "overflow",
}
_FEATURES = ProviderFeatures(owner=BEDROCK, url_images=False, redacted_text=False)


class BedrockFormat:
    """The words of Bedrock's Converse and ConverseStream."""

    name = "bedrock"

    def request(
        self,
        model: str,
        messages: Sequence[Message],
        request_options: RequestOptions = DEFAULT_REQUEST_OPTIONS,
    ) -> WireRequest:
        """A request that the provider takes; `inferenceConfig` and `toolConfig` of `options` are added to."""
        talk = build_conversation(messages, _FEATURES, request_options)
        options = dict(request_options.options)
        body: dict[str, Any] = {}
        if talk.system:
            body["system"] = _encode_blocks(talk.system)
        body["messages"] = [_encode_turn(turn) for turn in talk.turns]
        if talk.tools:
            offered = {"tools": [_encode_tool(offer) for offer in talk.tools]}
            body["toolConfig"] = {**offered, **as_mapping(options.pop("toolConfig", None))}
        if request_options.max_tokens is not None:
            given = as_mapping(options.pop("inferenceConfig", None))
            body["inferenceConfig"] = {**given, "maxTokens": request_options.max_tokens}
        path = f"/model/{quote(model, safe='')}/{'converse-stream' if request_options.stream else 'converse'}"
        body |= options
        thinking = select_thinking(body, messages, BEDROCK, model)
        return WireRequest(path=path, body=body, repairs=talk.repairs, thinking=thinking)

    def reply(self, body: Mapping[str, Any]) -> ModelReply:
        """Read a whole response."""
        return read_response(body)

    def reader(self) -> BedrockReader:
        """For a streamed response, whose frames `EventStreamDecoder` takes apart."""
        return BedrockReader()


def read_response(body: Mapping[str, Any]) -> ModelReply:
    """A reply from a whole response; blocks of an unknown kind are passed over."""
    content = as_mappings(as_mapping(as_mapping(body.get("output")).get("message")).get("content"))
    said = ReplyParts()
    for block in content:
        for part in _read_parts(block):
            said.add(part)
        if "toolUse" in block:
            use = as_mapping(block.get("toolUse"))
            name, arguments = as_text(use.get("name")), arguments_text(use.get("input"))
            said.add_call(ToolCall(as_nonempty_text(use.get("toolUseId")), name, arguments))
    stop = as_nonempty_text(body.get("stopReason"))
    return ModelReply(
        **said.fields(content),
        stop=STOP_REASONS.get(stop, stop) if stop else None,
        usage=_usage(as_mapping(body.get("usage"))),
    )


def _read_parts(block: Mapping[str, Any]) -> Iterable[Part]:
    if "text" in block:
        yield TextContent(as_text(block["text"]))
    for cited in as_mappings(as_mapping(block.get("citationsContent")).get("content")):
        yield TextContent(as_text(cited.get("text")))
    reasoning = as_mapping(block.get("reasoningContent"))
    if thought := as_mapping(reasoning.get("reasoningText")):
        signature = as_nonempty_text(thought.get("signature"))
        yield ThinkingContent(
            as_text(thought.get("text")), signature=tag_signature(BEDROCK, signature) if signature else None
        )
    if redacted := as_text(reasoning.get("redactedContent")):
        yield ThinkingContent("", redacted=tag_signature(BEDROCK, redacted))


def _usage(usage: Mapping[str, Any]) -> Usage:
    cached = as_count(usage.get("cacheReadInputTokens"))
    written = as_count(usage.get("cacheWriteInputTokens"))
    return Usage(
        input_tokens=as_count(usage.get("inputTokens")) + written + cached,
        cached_tokens=cached,
        cache_write_tokens=written,
        output_tokens=as_count(usage.get("outputTokens")),
        long_cache_write_tokens=sum(
            as_count(one.get("inputTokens"))
            for one in as_mappings(usage.get("cacheDetails"))
            if one.get("ttl") == "1h"
        ),
    )


def _encode_turn(turn: BlockTurn) -> dict[str, Any]:
    return {"role": turn.role, "content": _encode_blocks(turn.blocks)}


def _encode_blocks(blocks: Iterable[Block]) -> list[dict[str, Any]]:
    spelled: list[dict[str, Any]] = []
    for block in blocks:
        spelled.append(_encode_block(block))
        if block.cache_mark is not None:
            spelled.append({"cachePoint": {"type": "default", **block.cache_mark}})
    return spelled


def _encode_block(block: Block) -> dict[str, Any]:
    match block:
        case TextBlock(text=text):
            return {"text": text}
        case ImageBlock(image=picture):
            kind = picture.media_type.removeprefix("image/")
            return {"image": {"format": kind, "source": {"bytes": picture.data}}}
        case ThinkingBlock(redacted=redacted) if redacted:
            return {"reasoningContent": {"redactedContent": redacted}}
        case ThinkingBlock(text=text, signature=signature):
            return {"reasoningContent": {"reasoningText": {"text": text, "signature": signature}}}
        case ToolUseBlock(id=call_id, name=name, input=arguments):
            return {"toolUse": {"toolUseId": call_id, "name": name, "input": arguments}}
        case ToolResultBlock(id=call_id, content=content, is_error=is_error):
            result: dict[str, Any] = {"toolUseId": call_id, "content": _encode_blocks(content)}
            return {"toolResult": {**result, "status": "error"} if is_error else result}
        case CompactionBlock(data=data):
            # Bedrock writes none, and `find_block` gives it none.
            return dict(data)
    assert_never(block)


def _encode_tool(offer: ToolSpec) -> dict[str, Any]:
    described = {"description": offer.description} if offer.description else {}
    return {"toolSpec": {"name": offer.name, **described, "inputSchema": {"json": offer.parameters}}}
