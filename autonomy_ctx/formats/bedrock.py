"""Amazon Bedrock's Converse API: requests, whole replies and streamed replies. `eventstream.py` decodes
the binary frames of a stream.
"""

from __future__ import annotations

import base64
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any
from urllib.parse import quote

from autonomy_ctx.formats import anthropic
from autonomy_ctx.formats.anthropic import AnthropicReader, describe_tool, read_blocks
from autonomy_ctx.formats.base import (
    BEDROCK,
    ModelReply,
    ReaderEvent,
    RequestOptions,
    StreamError,
    Usage,
    WireRequest,
)
from autonomy_ctx.formats.blocks import BlockWriter, JsonObject
from autonomy_ctx.formats.incoming import as_count, as_mapping, as_mappings, as_nonempty_text, as_text
from autonomy_ctx.formats.outgoing import ToolSpec, is_base64
from autonomy_ctx.formats.thinking import select_thinking
from autonomy_ctx.messages.json_values import EMPTY
from autonomy_ctx.messages.message import Message


class BedrockReader(AnthropicReader):
    """Collects the events of one stream, as those of the Messages API; the client ends it with `finish()`."""

    def feed(self, data: Mapping[str, Any], event: str | None = None) -> Sequence[ReaderEvent]:
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
                    call = {"type": "tool_use", "id": use.get("toolUseId"), "name": use.get("name")}
                    return self._start_block(index, call)
            case "contentBlockDelta":
                return self._add_pieces(index, as_mapping(data.get("delta")))
            case "contentBlockStop":
                self._finished_blocks.add(index)
            case "messageStop":
                self._message["stop_reason"] = data.get("stopReason")
            case "metadata":
                self._usage.update(as_mapping(data.get("usage")))
        return ()

    def finish(self) -> ModelReply:
        """The reply; of a stream that ended too early what came, without calls that were not complete."""
        message = {"role": "assistant", "content": to_converse(self.content())}
        stop = self._message.get("stop_reason")
        return read_response({"output": {"message": message}, "stopReason": stop, "usage": self._usage})

    def _add_pieces(self, index: int, delta: Mapping[str, Any]) -> Sequence[ReaderEvent]:
        reasoning = as_mapping(delta.get("reasoningContent"))
        if is_base64(redacted := as_text(reasoning.get("redactedContent"))):
            # Each piece may carry its own padding.
            pieces = as_text(self._blocks.get(index, EMPTY).get("data")), redacted
            whole = base64.b64encode(b"".join(map(base64.b64decode, pieces))).decode()
            return self._start_block(index, {"type": "redacted_thinking", "data": whole})
        given = as_text(as_mapping(delta.get("toolUse")).get("input"))
        deltas: list[JsonObject] = [
            {"type": "text_delta", "text": delta.get("text")},
            {"type": "thinking_delta", "thinking": reasoning.get("text")},
            {"type": "signature_delta", "signature": reasoning.get("signature")},
            {"type": "input_json_delta", "partial_json": given},
        ]
        return [event for one in deltas for event in self._add_delta(index, one)]


STOP_REASONS = {
    **anthropic.STOP_REASONS,
    "guardrail_intervened": "refused",
    "content_filtered": "refused",
}


class BedrockWriter(BlockWriter):
    """Blocks of the Messages API, of those that Converse has, too."""

    owner = BEDROCK
    takes_image_urls = False
    redacts_as_bytes = True


def to_converse(blocks: Iterable[JsonObject]) -> list[JsonObject]:
    """Blocks of the Messages API in the words of Converse, each mark for the cache as a block of its own."""
    made: list[JsonObject] = []
    for block in blocks:
        match block["type"]:
            case "text":
                made.append({"text": block["text"]})
            case "image":
                source = block["source"]
                kind = source["media_type"].removeprefix("image/")
                made.append({"image": {"format": kind, "source": {"bytes": source["data"]}}})
            case "thinking":
                thought = {"text": block.get("thinking", ""), "signature": block.get("signature", "")}
                made.append({"reasoningContent": {"reasoningText": thought}})
            case "redacted_thinking":
                made.append({"reasoningContent": {"redactedContent": block["data"]}})
            case "tool_use":
                use = {"toolUseId": block["id"], "name": block["name"], "input": block.get("input", "")}
                made.append({"toolUse": use})
            case "tool_result":
                result = {"toolUseId": block["tool_use_id"], "content": to_converse(block["content"])}
                made.append({"toolResult": result | ({"status": "error"} if "is_error" in block else {})})
        if mark := block.get("cache_control"):
            made.append({"cachePoint": {**mark, "type": "default"}})
    return made


class BedrockFormat:
    """The words of Bedrock's Converse and ConverseStream."""

    name = "bedrock"

    def request(self, model: str, messages: Sequence[Message], settings: RequestOptions) -> WireRequest:
        """A request that the provider takes; `inferenceConfig` and `toolConfig` of `options` are added to."""
        talk = BedrockWriter(settings.tools).write(messages, settings)
        options = dict(settings.options)
        body: dict[str, Any] = {}
        if talk.system:
            body["system"] = to_converse(talk.system)
        body["messages"] = [{**turn, "content": to_converse(turn["content"])} for turn in talk.messages]
        if talk.tools:
            offered = {"tools": [_encode_tool(offer) for offer in talk.tools]}
            body["toolConfig"] = {**offered, **as_mapping(options.pop("toolConfig", None))}
        if settings.max_tokens is not None:
            given = as_mapping(options.pop("inferenceConfig", None))
            body["inferenceConfig"] = {**given, "maxTokens": settings.max_tokens}
        path = f"/model/{quote(model, safe='')}/{'converse-stream' if settings.stream else 'converse'}"
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
    stop = as_nonempty_text(body.get("stopReason"))
    return ModelReply(
        **read_blocks((made for one in content for made in _from_converse(one)), BEDROCK).fields(content),
        stop=STOP_REASONS.get(stop, stop) if stop else None,
        usage=_usage(as_mapping(body.get("usage"))),
    )


def _from_converse(block: Mapping[str, Any]) -> Iterator[JsonObject]:
    """A block of a reply in the words of the Messages API."""
    cited = as_mappings(as_mapping(block.get("citationsContent")).get("content"))
    for said in (block, *cited):
        yield {"type": "text", "text": said.get("text")}
    reasoning = as_mapping(block.get("reasoningContent"))
    if thought := as_mapping(reasoning.get("reasoningText")):
        yield {"type": "thinking", "thinking": thought.get("text"), "signature": thought.get("signature")}
    yield {"type": "redacted_thinking", "data": reasoning.get("redactedContent")}
    if "toolUse" in block:
        use = as_mapping(block.get("toolUse"))
        call = {"id": use.get("toolUseId"), "name": use.get("name"), "input": use.get("input")}
        yield {"type": "tool_use", **call}


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


def _encode_tool(offer: ToolSpec) -> dict[str, Any]:
    return {"toolSpec": {**describe_tool(offer), "inputSchema": {"json": offer.parameters}}}
