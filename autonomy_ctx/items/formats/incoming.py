"""Whether a provider's error says that the request was too long for the model.

Every server words it in its own way, and the way matters: this one error is answered with a smaller
request, all other refusals are not.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from autonomy_ctx.items.formats.base import CallStarted, StreamError
from autonomy_ctx.items.json_values import EMPTY
from autonomy_ctx.items.message import ImageContent, Part, TextContent, ThinkingContent, ToolCall

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


def fields(value: Any) -> Mapping[str, Any]:
    """The value if it has fields."""
    return value if isinstance(value, Mapping) else EMPTY


def entries(value: Any) -> list[Mapping[str, Any]]:
    """The entries of a list that have fields."""
    return [entry for entry in value if isinstance(entry, Mapping)] if isinstance(value, list) else []


def text(value: Any) -> str:
    """The value if it is text."""
    return value if isinstance(value, str) else ""


def word(value: Any) -> str | None:
    """The value if it is text and not empty."""
    return value if isinstance(value, str) and value else None


def count(value: Any) -> int:
    """The value if it is a whole number that counts something."""
    return value if isinstance(value, int) and not isinstance(value, bool) and value > 0 else 0


def failure(body: Mapping[str, Any]) -> str | None:
    """Why there is no answer, in one word, if the body is an error's."""
    error = body.get("error")
    if not error:
        return None
    if too_long(400, body)[0]:
        return "overflow"
    return _word_for(fields(error))


def broken_off(error: Any) -> StreamError:
    """The error that an event in the middle of a stream stands for."""
    told = fields(error)
    said, kind = text(told.get("message")) or text(error), _word_for(told)
    if too_long(400, told)[0] and not too_long(400, said)[0]:
        # Whoever judges the sentence alone must see it, too.
        said = f"{said} (context length exceeded)".strip()
    return StreamError(kind, said)


class Pieces:
    """Texts and thoughts that come bit by bit; neighbours of one kind become one part."""

    def __init__(self) -> None:
        self._runs: list[_Run | ImageContent] = []

    def add_text(self, piece: str) -> None:
        """Some more text."""
        self._run(thought=False).pieces.append(piece)

    def add_thought(self, piece: str, signature: str | None = None) -> None:
        """Some more thinking; its signature ends it."""
        run = self._run(thought=True)
        run.pieces.append(piece)
        run.signature = signature

    def add_image(self, image: ImageContent) -> None:
        """An image."""
        self._runs.append(image)

    @property
    def parts(self) -> tuple[Part, ...]:
        """What came so far."""
        return tuple(part for run in self._runs if (part := _part(run)) is not None)

    def _run(self, *, thought: bool) -> _Run:
        last = self._runs[-1] if self._runs else None
        if isinstance(last, _Run) and last.thought is thought and last.signature is None:
            return last
        run = _Run(thought)
        self._runs.append(run)
        return run


@dataclass(slots=True)
class CallDraft:
    """A call whose name and arguments come bit by bit."""

    index: Any = None
    id: str | None = None
    name: str = ""
    arguments: list[str] = field(default_factory=list)
    extra: dict[str, Any] = field(default_factory=dict)
    told: bool = False

    def started(self) -> list[CallStarted]:
        """The event that it has begun: once, when its name is known."""
        if self.told or not self.name:
            return []
        self.told = True
        return [CallStarted(self.id, self.name)]

    def call(self) -> ToolCall:
        """The call as far as it came."""
        return ToolCall(self.id, self.name, "".join(self.arguments), self.extra or EMPTY)


def _word_for(error: Mapping[str, Any]) -> str:
    # Google's code is a number and its word a status.
    return word(error.get("code")) or word(error.get("status")) or word(error.get("type")) or "error"


@dataclass(slots=True)
class _Run:
    thought: bool
    pieces: list[str] = field(default_factory=list)
    signature: str | None = None


def _part(run: _Run | ImageContent) -> Part | None:
    if isinstance(run, ImageContent):
        return run
    whole = "".join(run.pieces)
    if run.thought:
        return ThinkingContent(whole, signature=run.signature) if whole or run.signature else None
    return TextContent(whole) if whole else None
