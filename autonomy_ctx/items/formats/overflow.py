"""Whether a provider's error says that the request was too long for the model.

Every server words it in its own way, and the way matters: this one error is answered with a smaller
request, all other refusals are not.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from typing import Any

_CODES = frozenset({"context_length_exceeded", "exceed_context_size_error", "context_window_exceeded"})
# Too many tokens in a minute is another matter: waiting helps there, a smaller request may not.
_RATE_LIMITED = 429

# Where a wording names the window, it is the first group.
_WORDINGS = tuple(
    re.compile(wording, re.IGNORECASE)
    for wording in (
        # OpenAI, vLLM, DeepSeek, OpenRouter and most others
        r"maximum context length (?:is|of) (?:only )?([\d,]+)",
        # vLLM, before it looks at the request in detail
        r"longer than the maximum model length of ([\d,]+)",
        # Gemini
        r"input token count(?: \([\d,]+\))? exceeds the maximum number of tokens allowed(?: \(([\d,]+)\))?",
        # llama.cpp
        r"exceeds the available context size(?: \(([\d,]+) tokens\))?",
        # LM Studio
        r"loaded with context length of only ([\d,]+)",
        # Mistral
        r"too large for model with ([\d,]+) maximum context length",
        # Text Generation Inference, Together
        r"`?inputs`? tokens \+ `?max_new_tokens`? must be <= ([\d,]+)",
        # OpenAI Responses
        r"exceeds the context window",
        r"context[ _]length[ _]exceeded",
    )
)


def too_long(status: int, body: Any) -> tuple[bool, int | None]:
    """Whether an error says that the request was too long, and the window if it names one."""
    if status < 400 or status == _RATE_LIMITED:
        return False, None
    error = _error(body)
    if isinstance(error, str):
        error = {"message": error}
    message = error.get("message")
    message = message if isinstance(message, str) else ""
    window = _whole(error.get("n_ctx"))
    known = any(isinstance(error.get(key), str) and error[key] in _CODES for key in ("code", "type"))
    for wording in _WORDINGS:
        found = wording.search(message)
        if found:
            known = True
            window = window or _whole(found[1] if wording.groups else None)
    return known, window if known else None


def _error(body: Any) -> Mapping[str, Any] | str:
    """The error inside a body: as JSON or its text, alone, under `error`, or first in a list."""
    if isinstance(body, bytes):
        body = body.decode("utf-8", "replace")
    if isinstance(body, str):
        try:
            body = json.loads(body)
        except (ValueError, RecursionError):
            return str(body)
    if isinstance(body, list):
        body = body[0] if body else {}
    if not isinstance(body, Mapping):
        return ""
    inner = body.get("error") or body.get("detail")
    return inner if isinstance(inner, Mapping | str) else body


def _whole(value: Any) -> int | None:
    if isinstance(value, str):
        value = int(value.replace(",", "")) if re.fullmatch(r"[\d,]{1,12}", value) else None
    return value if isinstance(value, int) and not isinstance(value, bool) and value > 0 else None
