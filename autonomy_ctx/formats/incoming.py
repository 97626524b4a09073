"""Reads parts of provider replies that may be missing or malformed.

It has type-safe access to JSON fields, and builders for parts and calls that arrive in pieces.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from autonomy_ctx.formats.base import CallStarted, StreamError
from autonomy_ctx.formats.overflow import find_overflow
from autonomy_ctx.messages.json_values import EMPTY
from autonomy_ctx.messages.message import ImageContent, Part, TextContent, ThinkingContent, ToolCall


def as_mapping(value: Any) -> Mapping[str, Any]:
    """The value if it has fields."""
    return value if isinstance(value, Mapping) else EMPTY


def as_mappings(value: Any) -> list[Mapping[str, Any]]:
    """The entries of a list that have fields."""
    return [entry for entry in value if isinstance(entry, Mapping)] if isinstance(value, list) else []


def as_text(value: Any) -> str:
    """The value if it is text, as a plain string."""
    if type(value) is str:
        return value
    # Not `isinstance`: an object of a client may only claim to be a string.
    return str.__str__(value) if issubclass(type(value), str) else ""


def as_nonempty_text(value: Any) -> str | None:
    """The value if it is text and not empty, as a plain string."""
    return as_text(value) or None


# More than anybody sends. A JSON number may have thousands of digits, more than any calculation takes.
MAX_COUNT = 10**12


def as_count(value: Any) -> int:
    """The value if it is a whole number that can count something."""
    return value if isinstance(value, int) and not isinstance(value, bool) and 0 < value < MAX_COUNT else 0


def failure_reason(body: Mapping[str, Any]) -> str | None:
    """The reason of a failure, in one word, if the body is an error."""
    error = body.get("error")
    if not error:
        return None
    if find_overflow(400, body) is not None:
        return "overflow"
    return _error_code(as_mapping(error))


def stream_error(error: Any) -> StreamError:
    """The error that an event in the middle of a stream stands for."""
    told = as_mapping(error)
    said, kind = as_text(told.get("message")) or as_text(error), _error_code(told)
    if find_overflow(400, told) is not None and find_overflow(400, said) is None:
        # Whoever judges the sentence alone must see it, too.
        said = f"{said} (context length exceeded)".strip()
    return StreamError(kind, said)


class PartBuilder:
    """Texts and thoughts that come bit by bit; neighbours of one kind become one part."""

    def __init__(self) -> None:
        self._runs: list[_PartRun | ImageContent] = []

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
        """The parts that came so far."""
        return tuple(part for run in self._runs if (part := _run_to_part(run)) is not None)

    def _run(self, *, thought: bool) -> _PartRun:
        last = self._runs[-1] if self._runs else None
        if isinstance(last, _PartRun) and last.thought is thought and last.signature is None:
            return last
        run = _PartRun(thought)
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
    start_sent: bool = False

    def start_events(self) -> list[CallStarted]:
        """The event that it has begun: once, when its name is known."""
        if self.start_sent or not self.name:
            return []
        self.start_sent = True
        return [CallStarted(self.id, self.name)]

    def to_call(self) -> ToolCall:
        """The call as far as it came."""
        return ToolCall(self.id, self.name, "".join(self.arguments), self.extra or EMPTY)


def _error_code(error: Mapping[str, Any]) -> str:
    # Google's code is a number and its word a status.
    return (
        as_nonempty_text(error.get("code"))
        or as_nonempty_text(error.get("status"))
        or as_nonempty_text(error.get("type"))
        or "error"
    )


@dataclass(slots=True)
class _PartRun:
    thought: bool
    pieces: list[str] = field(default_factory=list)
    signature: str | None = None


def _run_to_part(run: _PartRun | ImageContent) -> Part | None:
    if isinstance(run, ImageContent):
        return run
    whole = "".join(run.pieces)
    if run.thought:
        return ThinkingContent(whole, signature=run.signature) if whole or run.signature else None
    return TextContent(whole) if whole else None
