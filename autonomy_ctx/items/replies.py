"""What a model's reply says, whichever client made it.

A summarizer may be called through any client, so its reply may be a string, a dict as it came over
the wire or an object of any library. Nothing here raises: a reply in no known shape says nothing,
and never its `repr`, which would otherwise end up as somebody's history.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import islice
from typing import Any

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
