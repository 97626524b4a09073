"""By which words Anthropic, and the models that Bedrock hosts, say that a request was too long.

There is no code for it: the same `invalid_request_error` stands for a misspelt field, so the sentence
has to be read. Only refusals are read that way: "too many tokens" with a 429 is a matter of patience.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Any

from autonomy_ctx.items.formats.overflow import too_long

_REFUSED = (400, 413, 422)
_TOO_LARGE = 413
# Where the words name the model's window, it is the first group.
_WORDS = [
    re.compile(pattern, re.IGNORECASE)
    for pattern in (
        r"prompt is too long(?::\s*[\d,]+ tokens > ([\d,]+) maximum)?",
        r"exceeds? (?:the )?context (?:limit|window)(?::\s*[\d,]+ \+ [\d,]+ > ([\d,]+))?",
        r"too many input tokens(?:\.\s*max input tokens: ([\d,]+))?",
        r"model_context_window_exceeded",
        r"request_too_large",
        r"input is too long",
        r"input tokens exceed",
        r"too many total text bytes",
        # In characters, and only for whole prompts: short fields have such a limit, too.
        r"expected maxLength: \d{5,}",
    )
]
_FIELDS = ("message", "Message", "type", "__type", "code", "error")


def overflowed(status: int, body: Any) -> tuple[bool, int | None]:
    """Whether a refusal says that the request was too long, and the window if it names one."""
    if status not in _REFUSED:
        return False, None
    for said in _sentences(body):
        for words in _WORDS:
            if found := words.search(said):
                window = found[1].replace(",", "") if words.groups and found[1] else ""
                return True, int(window) if window else None
        # Bedrock also hosts models behind servers that speak as OpenAI does.
        refused, named = too_long(status, said)
        if refused:
            return True, named
    return status == _TOO_LARGE, None


def _sentences(body: Any) -> Iterator[str]:
    if isinstance(body, bytes | bytearray):
        yield body.decode("utf-8", "replace")
    elif isinstance(body, str):
        yield body
    elif isinstance(body, Mapping):
        for field in _FIELDS:
            yield from _sentences(body.get(field))
