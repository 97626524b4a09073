"""What a model's reply says, whichever client made it.

A summarizer may be called through any client, so its reply may be a string, a dict as it came over
the wire or an object of any library. Nothing here raises: a reply in no known shape says nothing,
and never its `repr`, which would otherwise end up as somebody's history.
"""

from __future__ import annotations

import base64
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, fields, is_dataclass
from enum import Enum
from itertools import islice
from typing import Any

from autonomy_ctx.errors import InvalidMessage
from autonomy_ctx.items.formats.anthropic import AnthropicFormat
from autonomy_ctx.items.formats.base import Format, ModelReply, Usage
from autonomy_ctx.items.formats.bedrock import BedrockFormat
from autonomy_ctx.items.formats.google import GoogleFormat
from autonomy_ctx.items.formats.openai import OpenAIFormat
from autonomy_ctx.items.formats.openai_responses import ResponsesFormat
from autonomy_ctx.items.message import TextContent, ToolCall, content_parts, new_id, parse_call, parse_content

_TEXT_TYPES = (None, "text", "input_text", "output_text")
_UNSPOKEN_TYPES = ("thinking", "redacted_thinking", "reasoning")
_CALL_TYPES = ("tool_use", "function_call", "tool_call")
_CALL_FIELDS = ("functionCall", "function_call", "toolUse")
_STOPS = ("finish_reason", "stop_reason", "finishReason", "stopReason", "done_reason", "stop")
# Our own replies' words for what providers say in many ways.
_OWN_STOPS = {"refused": "refusal", "overflow": "model_context_window_exceeded"}
_USAGES = ("usage", "usageMetadata", "usage_metadata")
_INPUTS = ("input_tokens", "prompt_tokens", "promptTokenCount", "prompt_token_count", "inputTokens")
_OUTPUTS = (
    "output_tokens",
    "completion_tokens",
    "candidatesTokenCount",
    "candidates_token_count",
    "outputTokens",
)
# A list may claim any length; no real reply has this many parts.
_MOST_PARTS = 10_000


# What providers call it when an answer was cut off, and when there will be none.
CUT_OFF = ("length", "max_tokens", "model_context_window_exceeded", "max_output_tokens")
REFUSED = (
    *("content_filter", "refusal", "safety", "error"),
    # The same in Gemini's and Bedrock's words.
    *("recitation", "blocklist", "prohibited_content", "spii", "content_filtered", "guardrail_intervened"),
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Reply:
    """What came back from one call of a model."""

    text: str
    stop: str | None
    input_tokens: int | None
    output_tokens: int | None
    calls: bool


def read_reply(reply: Any) -> Reply:
    """The text, stop reason and usage of a reply, as an object, a dict or a mix of both."""
    choice, candidate = _first(_get(reply, "choices")), _first(_get(reply, "candidates"))
    # From the inside out: the outer `.text` of some clients joins in the thinking.
    places = [
        _get(choice, "message"),
        choice,
        candidate,
        _get(reply, "message"),
        _get(_get(reply, "output"), "message"),
        reply,
    ]
    failed = any(_given(_get(place, "error")) for place in (reply, choice))
    text = "" if failed else next(filter(None, map(_spoken, places)), "")
    return Reply(
        text=_without_thinking(text),
        stop="error" if failed else _stop(reply, places, refused=not text),
        input_tokens=_tokens(reply, _INPUTS),
        output_tokens=_tokens(reply, _OUTPUTS),
        calls=any(map(_calls, places)),
    )


def _get(value: Any, name: str) -> Any:
    """A field of an object or dict; None when it is absent, is a method or cannot be read."""
    # Most places of a reply are empty, and what is no dict takes long to tell from a mapping.
    if value is None:
        return None
    try:
        found = value.get(name) if isinstance(value, Mapping) else getattr(value, name, None)
    except Exception:  # a property of a foreign class may raise anything
        return None
    # Some clients return a string that can also be called, for the days when `text` was a method.
    return None if callable(found) and not _is_text(found) else found


def _is_text(value: Any) -> bool:
    # Not isinstance: an object may claim any `__class__`.
    return issubclass(type(value), str)


def _string(value: Any) -> str | None:
    """A string, or the string that an enum member stands for."""
    if value is None:
        return None
    if _is_text(value):
        return str.__str__(value)
    for name in ("value", "name"):
        inner = _get(value, name)
        if _is_text(inner):
            return str.__str__(inner)
    return None


def _items(value: Any) -> list[Any]:
    """The items of a list or another sequence; none of anything else."""
    try:
        if not isinstance(value, Sequence) or isinstance(value, str | bytes | bytearray):
            return []
        return list(islice(value, min(len(value), _MOST_PARTS)))
    except Exception:  # a sequence of a foreign class may raise anything
        return []


def _first(value: Any) -> Any:
    return next(iter(_items(value)), None)


def _given(value: Any) -> bool:
    try:
        return bool(value)
    except Exception:  # an object whose truth cannot be told is at least there
        return True


def _parts(place: Any) -> list[Any]:
    """The parts of a message-like thing; those of messages inside it too, one level deep."""
    parts: list[Any] = []
    for name in ("content", "output"):
        content = _get(place, name)
        inner = _items(content) or _items(_get(content, "parts")) or [content]
        for part in inner:
            parts += _items(_get(part, "content")) if _string(_get(part, "type")) == "message" else [part]
    return parts


def _spoken(place: Any) -> str:
    """The text of a message-like thing: its parts that are text, otherwise its own `text`."""
    if _is_text(place):
        return str.__str__(place)
    if _string(_get(place, "type")) in _UNSPOKEN_TYPES:
        return ""
    own = _get(place, "text")
    return "".join(map(_part_text, _parts(place))) or (str.__str__(own) if _is_text(own) else "")


def _part_text(part: Any) -> str:
    if _is_text(part):
        return str.__str__(part)
    kind = _get(part, "type")
    if (None if kind is None else _string(kind)) not in _TEXT_TYPES or _get(part, "thought") is True:
        return ""
    text = _get(part, "text")
    return str.__str__(text) if _is_text(text) else ""


def _without_thinking(text: str) -> str:
    """The text after the thoughts that open models write in front of it."""
    if not text.lstrip().startswith("<think>"):
        return text
    return text.partition("</think>")[2].lstrip()


def _calls(place: Any) -> bool:
    if _items(_get(place, "tool_calls")) or _get(place, "function_call") is not None:
        return True
    return any(
        _string(_get(part, "type")) in _CALL_TYPES
        or any(_get(part, name) is not None for name in _CALL_FIELDS)
        for part in _parts(place)
    )


def _stop(reply: Any, places: Sequence[Any], *, refused: bool) -> str | None:
    if refused and any(_string(_get(place, "refusal")) for place in places):
        return "refusal"
    metadata = _get(reply, "response_metadata")
    found = (_string(_get(place, name)) for place in (*places, metadata) for name in _STOPS)
    stop = next(filter(None, found), None) or _string(_get(_get(reply, "incomplete_details"), "reason"))
    stop = stop.lower() if stop else None
    return None if stop is None else _OWN_STOPS.get(stop, stop)


def _tokens(reply: Any, names: Iterable[str]) -> int | None:
    """The first count among the usual fields that really is one."""
    usages = [_get(reply, usage) for usage in _USAGES]
    found = (_get(usage, name) for name in names for usage in usages)
    return next((count for count in found if type(count) is int and count >= 0), None)


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
    calls = _tool_calls(data)
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
    return ModelReply(parts=parts, tool_calls=calls, stop=_stop_reason(said.stop, calls), usage=_usage(value))


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


def _tool_calls(data: Any) -> tuple[ToolCall, ...]:
    found = data.get("tool_calls") if isinstance(data, Mapping) else None
    calls = [parse_call(call, "tool_calls") for call in found] if isinstance(found, list | tuple) else []
    return tuple(
        call if call.id else ToolCall(new_id(), call.name, call.arguments, call.extra) for call in calls
    )


def _stop_reason(stop: str | None, calls: tuple[ToolCall, ...]) -> str:
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
