"""Converts messages of Strands Agents (the format of Amazon's Converse) to ours and back."""

from __future__ import annotations

import base64
import json
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from autonomy_ctx.engine.framework_context import SourcedMessage
from autonomy_ctx.messages.message import (
    ChatRole,
    ImageContent,
    Message,
    Part,
    TextContent,
    ThinkingContent,
    ToolCall,
)


def from_strands(messages: Sequence[Mapping[str, Any]]) -> list[SourcedMessage]:
    """The messages of an agent; each tool result is a separate message."""
    said: list[SourcedMessage] = []
    for message in messages:
        results = [block for block in message["content"] if "toolResult" in block]
        others = [block for block in message["content"] if "toolResult" not in block]
        said += [SourcedMessage(_tool_message(block["toolResult"]), [block]) for block in results]
        if others or not results:
            calls = [_tool_call(block["toolUse"]) for block in others if "toolUse" in block]
            parts = [_part(block) for block in others if not block.keys() & {"toolUse", "cachePoint"}]
            said.append(SourcedMessage(Message(message["role"], parts, tool_calls=calls), others))
    return said


def to_strands(messages: Iterable[SourcedMessage]) -> list[dict[str, Any]]:
    """The messages for a model; consecutive messages of one role become one."""
    turns: list[dict[str, Any]] = []
    for one in messages:
        role = "assistant" if one.message.role is ChatRole.ASSISTANT else "user"
        blocks = _blocks(one.message) if one.source is None else list(one.source)
        if turns and turns[-1]["role"] == role:
            turns[-1]["content"] += blocks
        elif blocks:
            turns.append({"role": role, "content": blocks})
    return turns


def _tool_call(use: Mapping[str, Any]) -> ToolCall:
    return ToolCall(use["toolUseId"], use["name"], json.dumps(use["input"], ensure_ascii=False))


def _tool_message(result: Mapping[str, Any]) -> Message:
    parts, is_error = [_part(block) for block in result["content"]], result.get("status") == "error"
    return Message("tool", parts, tool_call_id=result["toolUseId"], is_error=is_error)


def _part(block: Mapping[str, Any]) -> Part:
    match block:
        case {"text": text}:
            return TextContent(text)
        case {"json": value}:
            return TextContent(json.dumps(value, ensure_ascii=False))
        case {"image": {"format": kind, "source": {"bytes": data}}}:
            return ImageContent.from_bytes(data, f"image/{kind}")
        case {"reasoningContent": {"reasoningText": thought}}:
            return ThinkingContent(thought.get("text", ""), signature=thought.get("signature"))
        case {"reasoningContent": {"redactedContent": data}}:
            return ThinkingContent("", redacted=base64.b64encode(data).decode())
    # For example a document or a video. The original block is sent while the message is shown unchanged.
    return TextContent(f"[{next(iter(block), 'nothing')}]")


def _blocks(message: Message) -> list[dict[str, Any]]:
    blocks = [_block(part) for part in message.parts]
    if message.role is ChatRole.TOOL:
        status = "error" if message.is_error else "success"
        return [{"toolResult": {"toolUseId": message.tool_call_id, "status": status, "content": blocks}}]
    for call in message.tool_calls:
        use = {"toolUseId": call.id, "name": call.name, "input": call.parse_arguments()}
        blocks.append({"toolUse": use})
    return blocks


def _block(part: Part) -> dict[str, Any]:
    match part:
        case TextContent(text=text):
            return {"text": text}
        case ThinkingContent(redacted=str(data)):
            return {"reasoningContent": {"redactedContent": base64.b64decode(data)}}
        case ThinkingContent(text=text, signature=signature):
            signed = {} if signature is None else {"signature": signature}
            return {"reasoningContent": {"reasoningText": {"text": text, **signed}}}
        case ImageContent(image=image):
            head, is_data, data = image.partition(";base64,")
            kind, source = head.removeprefix("data:image/"), {"bytes": base64.b64decode(data)}
            return {"image": {"format": kind, "source": source}} if is_data else {"text": f"[{image}]"}
