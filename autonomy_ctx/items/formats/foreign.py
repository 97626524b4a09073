"""A reply in any usual shape as a `ModelReply`: any object that answers can stand in for a model."""

from __future__ import annotations

import base64
from collections.abc import Mapping
from dataclasses import fields, is_dataclass
from enum import Enum
from typing import Any

from autonomy_ctx.errors import InvalidMessage
from autonomy_ctx.items.calls import ToolCall, parse_call
from autonomy_ctx.items.formats.anthropic import AnthropicFormat
from autonomy_ctx.items.formats.bedrock import BedrockFormat
from autonomy_ctx.items.formats.format import Format
from autonomy_ctx.items.formats.google import GoogleFormat
from autonomy_ctx.items.formats.openai import OpenAIFormat
from autonomy_ctx.items.formats.reply import ModelReply, Usage
from autonomy_ctx.items.formats.responses import ResponsesFormat
from autonomy_ctx.items.message import new_id
from autonomy_ctx.items.parts import TextContent, content_parts, parse_content
from autonomy_ctx.items.replies import CUT_OFF, REFUSED, read_reply

# Deeper than any reply; an object that holds itself ends here.
_DEPTH = 12
# Google's SDK has the fields of its JSON under these names.
_GOOGLE = {
    name: "".join([first, *(word.title() for word in rest)])
    for name, (first, *rest) in (
        (name, name.split("_"))
        for name in (
            *("finish_reason", "function_call", "inline_data", "mime_type", "thought_signature"),
            *("usage_metadata", "prompt_token_count", "candidates_token_count", "thoughts_token_count"),
            *("cached_content_token_count", "tool_use_prompt_token_count"),
            *("model_version", "response_id", "prompt_feedback", "block_reason"),
        )
    )
}


def model_reply(value: Any) -> ModelReply:
    """What a reply says: a `ModelReply`, text, a provider's JSON, an SDK's object or a message.

    `ValueError` for what holds neither text nor calls in any of these shapes.
    """
    if isinstance(value, ModelReply):
        return value
    if isinstance(value, str):
        return ModelReply(parts=(TextContent(value),), stop="end")
    data = _plain(value, _DEPTH)
    if isinstance(data, Mapping) and (format_ := _format(data)) is not None:
        reply = format_.reply(_camel(data) if isinstance(format_, GoogleFormat) else data)
        if not reply.parts and not reply.tool_calls and reply.stop is None:
            raise ValueError(f"a reply in the format of {format_.name} holds neither text nor calls")
        return reply
    said = read_reply(value)
    if said.stop == "error":
        raise ValueError(f"a reply of type {type(value).__name__} holds an error instead of an answer")
    calls = _calls(data)
    try:
        content = parse_content(data.get("content")) if isinstance(data, Mapping) else None
    except InvalidMessage:
        content = None
    parts = content_parts(content) if content is not None else ()
    if not parts and said.text:
        parts = (TextContent(said.text),)
    empty = isinstance(data, Mapping) and data.get("role") == "assistant"
    if not parts and not calls and not empty and said.stop not in REFUSED:
        raise ValueError(f"a reply of type {type(value).__name__} holds neither text nor calls")
    return ModelReply(parts=parts, tool_calls=calls, stop=_stop(said.stop, calls), usage=_usage(value))


def _format(data: Mapping[str, Any]) -> Format | None:
    """Whose shape it is."""
    if isinstance(data.get("choices"), list):
        return OpenAIFormat()
    if isinstance(data.get("candidates"), list):
        return GoogleFormat()
    output = data.get("output")
    if isinstance(output, Mapping) and "message" in output:
        return BedrockFormat()
    if isinstance(output, list):
        return ResponsesFormat()
    if isinstance(data.get("content"), list) and "stop_reason" in data:
        return AnthropicFormat()
    return None


def _calls(data: Any) -> tuple[ToolCall, ...]:
    found = data.get("tool_calls") if isinstance(data, Mapping) else None
    calls = [parse_call(call, "tool_calls") for call in found] if isinstance(found, list | tuple) else []
    return tuple(
        call if call.id else ToolCall(new_id(), call.name, call.arguments, call.extra) for call in calls
    )


def _stop(stop: str | None, calls: tuple[ToolCall, ...]) -> str:
    if stop in REFUSED:
        return "refused"
    if stop in CUT_OFF:
        return "length"
    return "tools" if calls else "end"


def _usage(value: Any) -> Usage:
    said = read_reply(value)
    return Usage(input_tokens=said.input_tokens or 0, output_tokens=said.output_tokens or 0)


def _camel(value: Any) -> Any:
    """Google's JSON, of which an SDK may have changed the names; not inside what a call is given."""
    if isinstance(value, list):
        return [_camel(inner) for inner in value]
    if not isinstance(value, Mapping):
        return value
    return {
        _GOOGLE.get(name, name): inner if name == "args" else _camel(inner) for name, inner in value.items()
    }


def _plain(value: Any, depth: int) -> Any:
    """An SDK's object as the JSON that it was made from."""
    if isinstance(value, Enum):
        return value.value
    if value is None or isinstance(value, str | int | float | bool | ToolCall) or depth == 0:
        return value
    if isinstance(value, bytes):
        return base64.b64encode(value).decode()
    if isinstance(value, Mapping):
        return {str(name): _plain(inner, depth - 1) for name, inner in value.items()}
    if isinstance(value, list | tuple):
        return [_plain(inner, depth - 1) for inner in value]
    held = _held(value)
    return value if held is None else _plain(held, depth)


def _held(value: Any) -> dict[str, Any] | None:
    """The fields of an object."""
    if isinstance(value, type):
        return None
    dump = getattr(value, "model_dump", None)
    if callable(dump):
        dumped = dump()
        return dumped if isinstance(dumped, dict) else None
    if is_dataclass(value):
        return {field.name: getattr(value, field.name) for field in fields(value)}
    held = getattr(value, "__dict__", None)
    return dict(held) if isinstance(held, dict) and held else None
