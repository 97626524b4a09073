"""Reads the reply of any model client: a string, a provider's JSON, an SDK object or a message.

Every reply ends as a `ModelReply`, or with `read_message` as what memory keeps of it. `read_reply` never
raises: a reply in an unknown shape has no text. It never falls back to `repr`, which would end up in
somebody's history.
"""

from __future__ import annotations

import base64
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import fields, is_dataclass, replace
from datetime import datetime
from enum import Enum
from itertools import islice
from typing import Any

from autonomy_ctx.errors import InvalidMessage
from autonomy_ctx.formats.base import Format, ModelReply, Usage
from autonomy_ctx.messages import wire
from autonomy_ctx.messages.message import (
    Message,
    Part,
    TextContent,
    ThinkingContent,
    ToolCall,
    content_parts,
    new_id,
    now,
    parse_calls,
    parse_content,
)

_TEXT_TYPES = (None, "text", "input_text", "output_text")
_THINKING_TYPES = ("thinking", "redacted_thinking", "reasoning")
_CALL_TYPES = ("tool_use", "function_call", "tool_call")
_CALL_FIELDS = ("functionCall", "function_call", "toolUse")
_STOP_FIELDS = ("finish_reason", "stop_reason", "finishReason", "stopReason", "done_reason", "stop")
_USAGE_FIELDS = ("usage", "usageMetadata", "usage_metadata")
_INPUT_TOKEN_FIELDS = (
    "input_tokens",
    "prompt_tokens",
    "promptTokenCount",
    "prompt_token_count",
    "inputTokens",
)
_OUTPUT_TOKEN_FIELDS = (
    "output_tokens",
    "completion_tokens",
    "candidatesTokenCount",
    "candidates_token_count",
    "outputTokens",
)
# These stand beside the others, or in details of the input or the output; all are a part of those.
_DETAIL_FIELDS = (
    "prompt_tokens_details",
    "input_tokens_details",
    "input_token_details",
    "completion_tokens_details",
    "output_tokens_details",
    "output_token_details",
)
_CACHED_TOKEN_FIELDS = ("cached_tokens", "cache_read", "cached_content_token_count")
_WRITTEN_TOKEN_FIELDS = ("cache_write_tokens", "cache_creation")
_REASONING_TOKEN_FIELDS = ("reasoning_tokens", "reasoning", "thinking_tokens", "thoughts_token_count")
# A list may claim any length; no real reply has this many parts.
_MAX_PARTS = 10_000


# What providers, and our own replies, call it when an answer was cut off, and when there will be none.
CUT_OFF_REASONS = ("length", "overflow", "max_tokens", "model_context_window_exceeded", "max_output_tokens")
REFUSAL_REASONS = (
    *("refused", "content_filter", "refusal", "safety", "error"),
    # The same in Gemini's and Bedrock's words.
    *("recitation", "blocklist", "prohibited_content", "spii", "content_filtered", "guardrail_intervened"),
)


def read_reply(value: Any) -> ModelReply:
    """Read a reply: a `ModelReply`, text, a message, a provider's JSON or an SDK's object.

    `stop` is `error` for an error in the place of an answer, None for what has no known shape, and
    `tools` without `tool_calls` when there are calls that cannot be read. See `is_answer`.
    """
    # Not isinstance: an object may claim any `__class__`, or fail when it is asked for it.
    kind = type(value)
    if issubclass(kind, ModelReply):
        reply: ModelReply = value
        return reply
    if issubclass(kind, str):
        return ModelReply(parts=(TextContent(str.__str__(value)),), stop="end")
    if issubclass(kind, Message):
        stop = "tools" if value.tool_calls else "end"
        return ModelReply(parts=content_parts(value.content), tool_calls=value.tool_calls, stop=stop)
    if any(_is_given(_get(place, "error")) for place in (value, _first(_get(value, "choices")))):
        return ModelReply(stop="error")
    try:
        data = _to_json(value, _MAX_DEPTH)
    except Exception:  # the fields of a foreign class may raise anything
        data = None
    found = _provider_reply(data)
    if found is not None and (found.parts or found.tool_calls or found.stop):
        return found
    return _other_reply(value, data)


def read_message(
    value: Any, *, new_id: Callable[[], str] = new_id, now: Callable[[], datetime] = now
) -> Message:
    """A message from a `Message`, its dict form, or a reply as a provider's client gives it."""
    try:
        return wire.from_dict(value, new_id=new_id, now=now)
    except InvalidMessage:
        reply = _client_reply(value)
        if reply is None:
            raise
    if not reply.parts and not reply.tool_calls:
        stopped = f"; the model stopped with {reply.stop!r}" if reply.stop else ""
        raise InvalidMessage("message", f"is a model's reply without text and calls{stopped}")
    # A reply of ours has its message: stored again, it is the same one.
    made = reply.message
    return made if reply is value else replace(made, id=new_id(), created_at=now())


def read_answer(
    value: Any,
    request: Mapping[str, Any],
    *,
    new_id: Callable[[], str] = new_id,
    now: Callable[[], datetime] = now,
) -> Message:
    """A message from the reply of a provider's client, with what the request says of its thinking."""
    from autonomy_ctx.formats.thinking import record_request

    reply = _client_reply(value)
    if reply is None or not isinstance(request, Mapping):
        raise InvalidMessage("request", "are the arguments of a client's call, and goes with its reply alone")
    marks = (part.signature or part.redacted for part in reply.parts if isinstance(part, ThinkingContent))
    owner = next(filter(None, marks), "").partition(":")[0]
    bound = record_request(reply, request, owner) if reply.blocks else reply
    return replace(read_message(bound), id=new_id(), created_at=now())


def _client_reply(value: Any) -> ModelReply | None:
    """A reply as a provider's client gives it, as its object or as JSON; None for anything else."""
    if issubclass(type(value), ModelReply):
        reply: ModelReply = value
        return reply
    try:
        shape = value if isinstance(value, Mapping) else _attributes(value)
        # Other roles are other people's words, whatever else is with them.
        if shape is None or shape.get("role") not in (None, "assistant"):
            return None
        if shape.get("role") and shape is not value and "stop_reason" not in shape:
            # The message inside of a chat completion.
            shape = {"choices": [{"message": shape}]}
        return _provider_reply(_to_json(shape, _MAX_DEPTH))
    except Exception:  # a foreign class may raise anything
        return None


def is_answer(reply: ModelReply) -> bool:
    """True if a model answered at all; an empty answer is one."""
    if reply.stop == "error":
        return False
    return bool(reply.parts or reply.tool_calls) or reply.stop not in (None, "tools")


def has_calls(reply: ModelReply) -> bool:
    """True if the model calls tools, also in a way that cannot be read."""
    return bool(reply.tool_calls) or reply.stop == "tools"


def _provider_reply(data: Any) -> ModelReply | None:
    """A reply in the JSON of a provider; None when it is in none."""
    if not isinstance(data, Mapping) or (format_ := _detect_format(data)) is None:
        return None
    try:
        return format_.reply(_to_camel_case(data) if format_.name == "google" else data)
    except Exception:  # JSON that only looks like the provider's
        return None


def _other_reply(value: Any, data: Any) -> ModelReply:
    """A reply in any other shape: an object, a dict or a mix of both; `data` is the same as JSON."""
    choice, candidate = _first(_get(value, "choices")), _first(_get(value, "candidates"))
    # From the inside out: the outer `.text` of some clients joins in the thinking.
    places = [
        # A mock's, too, which can be called.
        _get(choice, "message", or_callable=True),
        choice,
        candidate,
        _get(value, "message"),
        _get(_get(value, "output"), "message"),
        value,
    ]
    text = next(filter(None, map(_message_text, places)), "")
    message = data if isinstance(data, Mapping) else {}
    parts, calls = _content_parts(message, text), _tool_calls(message)
    stop = _find_stop(value, places, refused=not text)
    answered = parts or calls or stop is not None or message.get("role") == "assistant"
    return ModelReply(
        parts=parts,
        tool_calls=calls,
        stop=_normalize_stop(
            stop, called=bool(calls) or any(map(_has_calls, places)), answered=bool(answered)
        ),
        usage=Usage(
            input_tokens=_find_token_count(value, _INPUT_TOKEN_FIELDS) or 0,
            output_tokens=_find_token_count(value, _OUTPUT_TOKEN_FIELDS) or 0,
            cached_tokens=_find_token_count(value, _CACHED_TOKEN_FIELDS) or 0,
            cache_write_tokens=_find_token_count(value, _WRITTEN_TOKEN_FIELDS) or 0,
            reasoning_tokens=_find_token_count(value, _REASONING_TOKEN_FIELDS) or 0,
        ),
    )


def _get(value: Any, name: str, *, or_callable: bool = False) -> Any:
    """A field of an object or dict; None when it is absent, is a method or cannot be read."""
    # Most places of a reply are empty, and what is no dict takes long to tell from a mapping.
    if value is None:
        return None
    try:
        found = value.get(name) if isinstance(value, Mapping) else getattr(value, name, None)
    except Exception:  # a property of a foreign class may raise anything
        return None
    # Some clients return a string that can also be called, for the days when `text` was a method.
    return None if callable(found) and not or_callable and not _is_text(found) else found


def _is_text(value: Any) -> bool:
    # Not isinstance: an object may claim any `__class__`.
    return issubclass(type(value), str)


def _as_string(value: Any) -> str | None:
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


def _as_list(value: Any) -> list[Any]:
    """The items of a list or another sequence; none of anything else."""
    try:
        if not isinstance(value, Sequence) or isinstance(value, str | bytes | bytearray):
            return []
        return list(islice(value, min(len(value), _MAX_PARTS)))
    except Exception:  # a sequence of a foreign class may raise anything
        return []


def _first(value: Any) -> Any:
    return next(iter(_as_list(value)), None)


def _is_given(value: Any) -> bool:
    try:
        return bool(value)
    except Exception:  # an object whose truth cannot be told is at least there
        return True


def _message_parts(place: Any) -> list[Any]:
    """The parts of a message-like thing; those of messages inside it too, one level deep."""
    parts: list[Any] = []
    for name in ("content", "output"):
        content = _get(place, name)
        inner = _as_list(content) or _as_list(_get(content, "parts")) or [content]
        for part in inner:
            parts += (
                _as_list(_get(part, "content")) if _as_string(_get(part, "type")) == "message" else [part]
            )
    return parts


def _message_text(place: Any) -> str:
    """The text of a message-like thing: its parts that are text, otherwise its own `text`."""
    if _is_text(place):
        return str.__str__(place)
    if _as_string(_get(place, "type")) in _THINKING_TYPES:
        return ""
    own = _get(place, "text")
    return "".join(map(_part_text, _message_parts(place))) or (str.__str__(own) if _is_text(own) else "")


def _part_text(part: Any) -> str:
    if _is_text(part):
        return str.__str__(part)
    kind = _get(part, "type")
    if (None if kind is None else _as_string(kind)) not in _TEXT_TYPES or _get(part, "thought") is True:
        return ""
    text = _get(part, "text")
    return str.__str__(text) if _is_text(text) else ""


def _has_calls(place: Any) -> bool:
    if _as_list(_get(place, "tool_calls")) or _get(place, "function_call") is not None:
        return True
    return any(
        _as_string(_get(part, "type")) in _CALL_TYPES
        or any(_get(part, name) is not None for name in _CALL_FIELDS)
        for part in _message_parts(place)
    )


def _find_stop(reply: Any, places: Sequence[Any], *, refused: bool) -> str | None:
    if refused and any(_as_string(_get(place, "refusal")) for place in places):
        return "refusal"
    metadata = _get(reply, "response_metadata")
    found = (_as_string(_get(place, name)) for place in (*places, metadata) for name in _STOP_FIELDS)
    stop = next(filter(None, found), None) or _as_string(_get(_get(reply, "incomplete_details"), "reason"))
    return stop.lower() if stop else None


def _find_token_count(reply: Any, names: Iterable[str]) -> int | None:
    """The first count among the usual fields that really is one."""
    usages = [_get(reply, usage) for usage in _USAGE_FIELDS]
    usages += [_get(usage, details) for usage in usages for details in _DETAIL_FIELDS]
    found = (_get(usage, name) for name in names for usage in usages)
    return next((count for count in found if type(count) is int and count >= 0), None)


# Deeper than any reply; an object that holds itself ends here.
_MAX_DEPTH = 12
# Google's SDK has the fields of its JSON under these names.
_GOOGLE_FIELDS = {
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


def _detect_format(data: Mapping[str, Any]) -> Format | None:
    """Whose shape it is; formats are imported here, for most programs need none of them to read a reply."""
    output = data.get("output")
    if isinstance(data.get("choices"), list):
        from autonomy_ctx.formats.openai import OpenAIFormat

        return OpenAIFormat()
    if isinstance(data.get("candidates"), list):
        from autonomy_ctx.formats.google import GoogleFormat

        return GoogleFormat()
    if isinstance(output, Mapping) and "message" in output:
        from autonomy_ctx.formats.bedrock import BedrockFormat

        return BedrockFormat()
    if isinstance(output, list):
        from autonomy_ctx.formats.openai_responses import ResponsesFormat

        return ResponsesFormat()
    if isinstance(data.get("content"), list) and "stop_reason" in data:
        from autonomy_ctx.formats.anthropic import AnthropicFormat

        return AnthropicFormat()
    return None


def _content_parts(message: Mapping[str, Any], text: str) -> tuple[Part, ...]:
    """The parts of a message's content, thinking and images included, if their text is the one found."""
    try:
        parts = content_parts(parse_content(message.get("content")))
        if "".join(part.text for part in parts if isinstance(part, TextContent)) == text:
            return parts
    except Exception:  # noqa: S110  # objects of foreign classes may stand in it
        pass
    return (TextContent(text),) if text else ()


def _tool_calls(message: Mapping[str, Any]) -> tuple[ToolCall, ...]:
    """The calls of a message, each with an id; none when one of them cannot be read."""
    try:
        calls = parse_calls(message.get("tool_calls"))
    except Exception:  # objects of foreign classes may stand in it
        return ()
    return tuple(
        call if call.id else ToolCall(new_id(), call.name, call.arguments, call.extra) for call in calls
    )


def _normalize_stop(stop: str | None, *, called: bool, answered: bool) -> str | None:
    """A provider's word for why the model stopped, in our own words."""
    if stop == "error":
        return stop
    if stop in REFUSAL_REASONS:
        return "refused"
    if stop in CUT_OFF_REASONS:
        return "length"
    if called:
        return "tools"
    return "end" if answered else None


def _to_camel_case(value: Any) -> Any:
    """Google's JSON, of which an SDK may have changed the names; not inside what a call is given."""
    if isinstance(value, list):
        return [_to_camel_case(inner) for inner in value]
    if not isinstance(value, Mapping):
        return value
    return {
        _GOOGLE_FIELDS.get(name, name): inner if name == "args" else _to_camel_case(inner)
        for name, inner in value.items()
    }


def _to_json(value: Any, depth: int) -> Any:
    """An SDK's object as the JSON that it was made from."""
    if isinstance(value, Enum):
        return value.value
    if value is None or isinstance(value, str | int | float | bool | ToolCall) or depth == 0:
        return value
    if isinstance(value, bytes):
        return base64.b64encode(value).decode()
    if isinstance(value, Mapping):
        return {str(name): _to_json(inner, depth - 1) for name, inner in value.items()}
    if isinstance(value, list | tuple):
        return [_to_json(inner, depth - 1) for inner in value]
    found = _attributes(value)
    return value if found is None else _to_json(found, depth)


def _attributes(value: Any) -> dict[str, Any] | None:
    """The fields of an object."""
    if isinstance(value, type):
        return None
    dump = getattr(value, "model_dump", None)
    if callable(dump):
        dumped = dump()
        return dumped if isinstance(dumped, dict) else None
    if is_dataclass(value):
        return {field.name: getattr(value, field.name) for field in fields(value)}
    found = getattr(value, "__dict__", None)
    return dict(found) if isinstance(found, dict) and found else None
