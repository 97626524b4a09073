"""Reads the reply of any model client: a string, a provider's JSON, an SDK object or a message.

Every reply ends as a `ModelReply`, or with `read_message` as what memory keeps of it. `read_reply` never
raises: a reply in an unknown shape has no text. It never falls back to `repr`, which would end up in
somebody's history.
"""

from __future__ import annotations

import base64
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import fields, is_dataclass, replace
from datetime import datetime
from enum import Enum
from inspect import isroutine
from itertools import islice
from typing import Any

from autonomy_ctx.errors import InvalidMessage
from autonomy_ctx.formats.base import ModelReply, Usage, WireFormat, load_format
from autonomy_ctx.formats.incoming import as_mapping, as_mappings, as_text
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

_TEXT_TYPES = ("text", "input_text", "output_text")
_THINKING_TYPES = ("thinking", "redacted_thinking", "reasoning")
_CALL_TYPES = ("tool_use", "function_call", "tool_call")
_CALL_FIELDS = ("functionCall", "function_call", "toolUse")
_STOP_FIELDS = ("finish_reason", "stop_reason", "finishReason", "stopReason", "done_reason", "stop")
_USAGE_FIELDS = ("usage", "usageMetadata", "usage_metadata")
# Cached, written and reasoning tokens are a part of the others, and stand beside them or in details.
_DETAIL_FIELDS = (
    *("prompt_tokens_details", "input_tokens_details", "input_token_details"),
    *("completion_tokens_details", "output_tokens_details", "output_token_details"),
)
_TOKEN_FIELDS = {
    "input_tokens": (
        *("input_tokens", "prompt_tokens", "promptTokenCount", "prompt_token_count", "inputTokens"),
    ),
    "output_tokens": (
        *("output_tokens", "completion_tokens", "candidatesTokenCount", "candidates_token_count"),
        "outputTokens",
    ),
    "cached_tokens": ("cached_tokens", "cache_read", "cached_content_token_count"),
    "cache_write_tokens": ("cache_write_tokens", "cache_creation"),
    "reasoning_tokens": ("reasoning_tokens", "reasoning", "thinking_tokens", "thoughts_token_count"),
}
# What some classes have as properties.
_COMPUTED_FIELDS = (
    *("role", "type", "content", "text", "message", "choices", "candidates", "parts", "output"),
    *("tool_calls", "function_call", "refusal", "error", "response_metadata"),
    *(*_STOP_FIELDS, *_USAGE_FIELDS),
)
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
    data = as_mapping(_to_json(value))
    if any(place.get("error") for place in (data, as_mapping(_first(data.get("choices"))))):
        return ModelReply(stop="error")
    found = _provider_reply(data)
    if found is not None and (found.parts or found.tool_calls or found.stop):
        return found
    return _other_reply(data)


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
    shape = as_mapping(_to_json(value))
    # Other roles are other people's words, whatever else is with them.
    if shape.get("role") not in (None, "assistant"):
        return None
    if shape.get("role") and not issubclass(type(value), Mapping) and "stop_reason" not in shape:
        # The message inside of a chat completion.
        shape = {"choices": [{"message": shape}]}
    return _provider_reply(shape)


def is_answer(reply: ModelReply) -> bool:
    """True if a model answered at all; an empty answer is one."""
    if reply.stop == "error":
        return False
    return bool(reply.parts or reply.tool_calls) or reply.stop not in (None, "tools")


def has_calls(reply: ModelReply) -> bool:
    """True if the model calls tools, also in a way that cannot be read."""
    return bool(reply.tool_calls) or reply.stop == "tools"


def _provider_reply(data: Mapping[str, Any]) -> ModelReply | None:
    """A reply in the JSON of a provider; None when it is in none."""
    if (name := _detect_format(data)) is None:
        return None
    try:
        return load_format(name).reply(_to_camel_case(data) if name == "google" else data)
    except Exception:  # JSON that only looks like the provider's
        return None


def _other_reply(data: Mapping[str, Any]) -> ModelReply:
    """A reply in any other shape."""
    choice, candidate = _first(data.get("choices")), _first(data.get("candidates"))
    # From the inside out: the outer `.text` of some clients joins in the thinking.
    places = [
        as_mapping(choice).get("message"),
        choice,
        candidate,
        data.get("message"),
        as_mapping(data.get("output")).get("message"),
        data,
    ]
    text = next(filter(None, map(_message_text, places)), "")
    parts, calls = _content_parts(data, text), _tool_calls(data)
    stop = _find_stop(data, list(map(as_mapping, places)), refused=not text)
    answered = parts or calls or stop is not None or data.get("role") == "assistant"
    return ModelReply(
        parts=parts,
        tool_calls=calls,
        stop=_normalize_stop(
            stop, called=bool(calls) or any(map(_has_calls, places)), answered=bool(answered)
        ),
        usage=Usage(**{name: _find_token_count(data, names) for name, names in _TOKEN_FIELDS.items()}),
    )


def _first(value: Any) -> Any:
    return value[0] if isinstance(value, list) and value else None


def _message_parts(place: Any) -> list[Any]:
    """The parts of a message-like thing; those of messages inside it too, one level deep."""
    parts: list[Any] = []
    for name in ("content", "output"):
        content = as_mapping(place).get(name)
        inner = as_mapping(content).get("parts") or content
        for part in inner if isinstance(inner, list) and inner else [content]:
            shape = as_mapping(part)
            within = shape.get("content") if shape.get("type") == "message" else [part]
            parts += within if isinstance(within, list) else []
    return parts


def _message_text(place: Any) -> str:
    """The text of a message-like thing: its parts that are text, otherwise its own `text`."""
    shape = as_mapping(place)
    if shape.get("type") in _THINKING_TYPES:
        return ""
    said = "".join(map(_part_text, _message_parts(place)))
    return said or _plain_text(place) or _plain_text(shape.get("text"))


def _part_text(part: Any) -> str:
    shape = as_mapping(part)
    kind = shape.get("type")
    if (isinstance(kind, str) and kind not in _TEXT_TYPES) or shape.get("thought") is True:
        return ""
    return _plain_text(part) or _plain_text(shape.get("text"))


def _plain_text(value: Any) -> str:
    return value if type(value) is str else ""


def _has_calls(place: Any) -> bool:
    shape = as_mapping(place)
    calls = shape.get("tool_calls")
    if (isinstance(calls, list) and calls) or shape.get("function_call") is not None:
        return True
    return any(
        part.get("type") in _CALL_TYPES or any(part.get(name) is not None for name in _CALL_FIELDS)
        for part in as_mappings(_message_parts(place))
    )


def _find_stop(data: Mapping[str, Any], places: Sequence[Mapping[str, Any]], *, refused: bool) -> str | None:
    if refused and any(as_text(place.get("refusal")) for place in places):
        return "refusal"
    places = [*places, as_mapping(data.get("response_metadata"))]
    found = (as_text(place.get(name)) for place in places for name in _STOP_FIELDS)
    details = as_mapping(data.get("incomplete_details"))
    return (next(filter(None, found), "") or as_text(details.get("reason"))).lower() or None


def _find_token_count(data: Mapping[str, Any], names: Iterable[str]) -> int:
    """The first count among the usual fields that really is one."""
    usages = [as_mapping(data.get(usage)) for usage in _USAGE_FIELDS]
    usages += [as_mapping(usage.get(details)) for usage in usages for details in _DETAIL_FIELDS]
    found = (usage.get(name) for name in names for usage in usages)
    return next((count for count in found if type(count) is int and count >= 0), 0)


# Deeper than any reply; an object that holds itself ends here.
_MAX_DEPTH = 12
# In the names of fields of Google's SDK; the JSON has a capital instead.
_UNDERSCORE = re.compile(r"_([a-z])")


def _detect_format(data: Mapping[str, Any]) -> WireFormat | None:
    """Whose shape it is."""
    output = data.get("output")
    if isinstance(data.get("choices"), list):
        return "openai"
    if isinstance(data.get("candidates"), list):
        return "google"
    if isinstance(output, Mapping) and "message" in output:
        return "bedrock"
    if isinstance(output, list):
        return "responses"
    return "anthropic" if isinstance(data.get("content"), list) and "stop_reason" in data else None


def _content_parts(message: Mapping[str, Any], text: str) -> tuple[Part, ...]:
    """The parts of a message's content, thinking and images included, if their text is the one found."""
    with suppress(InvalidMessage):
        parts = content_parts(parse_content(message.get("content")))
        if "".join(part.text for part in parts if isinstance(part, TextContent)) == text:
            return parts
    return (TextContent(text),) if text else ()


def _tool_calls(message: Mapping[str, Any]) -> tuple[ToolCall, ...]:
    """The calls of a message, each with an id; none when one of them cannot be read."""
    try:
        calls = parse_calls(message.get("tool_calls"))
    except InvalidMessage:
        return ()
    return tuple(call if call.id else replace(call, id=new_id()) for call in calls)


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
        _UNDERSCORE.sub(lambda found: found[1].upper(), name): inner
        if name == "args"
        else _to_camel_case(inner)
        for name, inner in value.items()
    }


class _Base64(str):
    """Bytes as a provider's JSON has them; they are no text of an answer."""

    __slots__ = ()


def _to_json(value: Any, depth: int = _MAX_DEPTH) -> Any:
    """An SDK's object as the JSON that it was made from; None for what cannot be read, or is a method."""
    try:
        return _convert(value, type(value), depth)
    except Exception:  # what a foreign class is asked for may raise anything
        return None


def _convert(value: Any, kind: type, depth: int) -> Any:
    if issubclass(kind, Enum):
        return value.value if isinstance(value.value, str) else value.name
    if issubclass(kind, str):
        return str.__str__(value)
    if value is None or issubclass(kind, int | float | ToolCall):
        return value
    if issubclass(kind, bytes):
        return _Base64(base64.b64encode(value).decode())
    if depth == 0 or issubclass(kind, type) or isroutine(value):
        return None
    if issubclass(kind, Mapping):
        return {str(name): _to_json(inner, depth - 1) for name, inner in value.items()}
    if issubclass(kind, Sequence):
        return [_to_json(inner, depth - 1) for inner in islice(value, _MAX_PARTS)]
    return {name: _to_json(inner, depth - 1) for name, inner in _attributes(value).items()}


def _attributes(value: Any) -> dict[str, Any]:
    """The fields of an object, and what its class computes under the usual names."""
    dump = getattr(value, "model_dump", None)
    found = dump() if callable(dump) else None
    if not isinstance(found, dict):
        names = [one.name for one in fields(value)] if is_dataclass(value) else list(vars(value))
        # What is private may lead anywhere: in a mock, back to all others.
        found = {name: getattr(value, name) for name in names if not name.startswith("_")}
    for name in _COMPUTED_FIELDS:
        # A mock has no name before it is asked for it. Only the message of a choice may be a mock.
        if name not in found and (name == "message" or hasattr(type(value), name)):
            # One property that fails does not hide the others.
            with suppress(Exception):
                found[name] = getattr(value, name)
    return found
