"""Amazon Bedrock's Converse: the same turns for every model it hosts, cache points as blocks of their own."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, assert_never
from urllib.parse import quote

from autonomy_ctx.items.calls import ToolCall
from autonomy_ctx.items.formats.bedrock_stream import BedrockReader
from autonomy_ctx.items.formats.blocks import Block, Image, Offer, Result, Text, Thinking, Turn, Use
from autonomy_ctx.items.formats.format import ONLY_MESSAGES, Asking, Request
from autonomy_ctx.items.formats.overflow_anthropic import overflowed
from autonomy_ctx.items.formats.reading import count, entries, fields, text, word
from autonomy_ctx.items.formats.reply import ModelReply, Usage
from autonomy_ctx.items.formats.said import Carries
from autonomy_ctx.items.formats.signatures import BEDROCK, signed
from autonomy_ctx.items.formats.turns import conversation
from autonomy_ctx.items.formats.values import arguments_text, joined
from autonomy_ctx.items.message import Message
from autonomy_ctx.items.parts import Part, TextContent, ThinkingContent

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

    def overflow(self, status: int, body: Any) -> tuple[bool, int | None]:
        """Whether an error says that the request was too long, and the window if it names one."""
        return overflowed(status, body)


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
