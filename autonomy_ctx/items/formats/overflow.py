"""Whether an error says that the request was too long for the model.

Every server words it in its own way, and the way matters: this one error is answered with a smaller
request, all other refusals are not.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

_TOO_LARGE = 413
# Too many tokens in a minute is another matter: waiting helps there, a smaller request may not.
_OTHER_STATUSES = (401, 403, 429)
_LONGEST_TEXT = 4000
_DEPTH = 4
# No model has it. A JSON number may have thousands of digits, more than any calculation takes.
_MAX_WINDOW = 10**12

# Where a wording names the window, it is the first group.
_WORDINGS = tuple(
    re.compile(wording, re.IGNORECASE)
    for wording in (
        # OpenAI, vLLM, DeepSeek, OpenRouter and most others
        r"maximum context (?:length|window|size)(?: (?:is|of) (?:only )?([\d,]+))?",
        r"context[ _](?:length|window|limit|size)[ _](?:was |is |has been )?(?:exceeded|overflow)",
        # vLLM, before it looks at the request in detail
        r"longer than the maximum model length of ([\d,]+)",
        # Gemini
        r"input token count(?: \([\d,]+\))? exceeds the maximum number of tokens allowed(?: \(([\d,]+)\))?",
        # llama.cpp
        r"exceeds the available context size(?: \(([\d,]+) tokens\))?",
        r"exceed_context_size_error",
        # LM Studio
        r"loaded with context length of only ([\d,]+)",
        # Mistral
        r"too large for model with ([\d,]+) maximum context length",
        # Text Generation Inference, Together
        r"`?inputs`? tokens \+ `?max_new_tokens`? must be <= ([\d,]+)",
        # Anthropic, also on Bedrock, and OpenAI Responses
        r"prompt is too long(?::\s*[\d,]+ tokens > ([\d,]+) maximum)?",
        r"exceeds? (?:the |this |its )?(?:model's )?context (?:limit|window|length|size)"
        r"(?::\s*[\d,]+ \+ [\d,]+ > ([\d,]+))?",
        r"request_too_large",
        # Other models on Bedrock
        r"too many input tokens(?:\.\s*max input tokens: ([\d,]+))?",
        r"input (?:is |was )?too long",
        r"input tokens exceed",
        r"too many total text bytes",
        # In characters, and only for whole prompts: short fields have such a limit, too.
        r"expected maxLength: \d{5,}",
        # Clients in words of their own
        r"too many tokens in (?:the |your )?(?:prompt|request|input|context)",
        r"context overflow",
    )
)
_FIELDS = ("message", "Message", "type", "__type", "code", "Code", "error", "detail")
_NUMBER = re.compile(r"[0-9]{1,12}")
_CLASS_NAME = re.compile(r"overflow|context\w{0,80}exceeded", re.IGNORECASE)


@dataclass(frozen=True, slots=True)
class Overflow:
    """A request was too long; `window` in tokens if the error names it."""

    window: int | None = None


def find_overflow(status: int | None, body: Any) -> Overflow | None:
    """What an error of this status says of the window, if it is that the request was too long.

    `body` is JSON, its text or a sentence; the status is None where it is not known.
    """
    if status is not None and (status < 400 or status in _OTHER_STATUSES):
        return None
    found: Overflow | None = Overflow() if status == _TOO_LARGE else None
    body = _parse_body(body)
    for text in _texts(body, _DEPTH):
        for wording in _WORDINGS:
            if match := wording.search(text):
                found = found or Overflow()
                window = _whole(match[1]) if wording.groups else None
                if window is not None:
                    return Overflow(window)
    return found and Overflow(_context_size(body))


def exception_overflow(error: BaseException) -> Overflow | None:
    """The same for an exception of any client: by its class, its status, and its body or text."""
    status, response = status_of(error), _attribute(error, "response")
    bodies = [_attribute(error, "body"), response if isinstance(response, Mapping) else None]
    bodies = [body.get("Error", body) if isinstance(body, Mapping) else body for body in bodies]
    found = next(filter(None, (find_overflow(status, body) for body in (*bodies, _text_of(error)))), None)
    # Arithmetic overflows, too, but that has nothing to do with a model.
    if found is None and _CLASS_NAME.search(type(error).__name__) and not isinstance(error, ArithmeticError):
        found = Overflow()
    if found is None or found.window is not None:
        return found
    named = (_whole(_attribute(error, name)) for name in ("window", "limit", "context_window"))
    return Overflow(next(filter(None, named), None))


def status_of(error: BaseException) -> int | None:
    """The HTTP status that an exception of any client carries."""
    response = _attribute(error, "response")
    if isinstance(response, Mapping):
        # botocore
        response = response.get("ResponseMetadata")
        found = response.get("HTTPStatusCode") if isinstance(response, Mapping) else None
        return found if isinstance(found, int) else None
    for holder in (error, response):
        for name in ("status_code", "status", "code"):
            found = _attribute(holder, name)
            if isinstance(found, int) and 100 <= found < 600:
                return found
    return None


def _attribute(holder: Any, name: str) -> Any:
    try:
        return getattr(holder, name, None)
    except Exception:  # an exception of a foreign class may fail when it is looked at
        return None


def _text_of(error: BaseException) -> str:
    try:
        return str(error)
    except Exception:
        return ""


def _parse_body(body: Any) -> Any:
    """A body as JSON, if its text is that; the first entry of a list."""
    if isinstance(body, bytes | bytearray):
        body = body.decode("utf-8", "replace")
    if isinstance(body, str):
        try:
            body = json.loads(body)
        except (ValueError, RecursionError):
            return body
    return body[0] if isinstance(body, list) and body else body


def _texts(body: Any, depth: int) -> Iterator[str]:
    """The words and sentences of an error, from the fields that servers put them into."""
    if isinstance(body, str):
        yield body[:_LONGEST_TEXT]
    elif isinstance(body, Mapping) and depth:
        for field in _FIELDS:
            yield from _texts(body.get(field), depth - 1)


def _context_size(body: Any) -> int | None:
    """The window as llama.cpp gives it: in a field of its own."""
    if not isinstance(body, Mapping):
        return None
    inner = body.get("error")
    return _whole((inner if isinstance(inner, Mapping) else body).get("n_ctx"))


def _whole(value: Any) -> int | None:
    if isinstance(value, str):
        digits = value.replace(",", "")
        value = int(digits) if _NUMBER.fullmatch(digits) else None
    is_number = isinstance(value, int) and not isinstance(value, bool)
    return value if is_number and 0 < value < _MAX_WINDOW else None
