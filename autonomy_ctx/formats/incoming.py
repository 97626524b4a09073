"""Reads parts of provider replies that may be missing or malformed.

It has type-safe access to JSON fields, and builders for parts and calls that arrive in pieces.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

from autonomy_ctx.formats.base import CallDelta, CallStarted, ReaderEvent, StreamError
from autonomy_ctx.messages.json_values import EMPTY
from autonomy_ctx.messages.message import Part, TextContent, ThinkingContent, ToolCall


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
    # Imported here and below: most replies are no errors, and its patterns take long to compile.
    from autonomy_ctx.formats.overflow import find_overflow

    if find_overflow(400, body) is not None:
        return "overflow"
    return _error_code(as_mapping(error))


def stream_error(error: Any) -> StreamError:
    """The error that an event in the middle of a stream stands for."""
    from autonomy_ctx.formats.overflow import find_overflow

    told = as_mapping(error)
    said, kind = as_text(told.get("message")) or as_text(error), _error_code(told)
    if find_overflow(400, told) is not None and find_overflow(400, said) is None:
        # Whoever judges the sentence alone must see it, too.
        said = f"{said} (context length exceeded)".strip()
    return StreamError(kind, said)


@dataclass(slots=True)
class _Run:
    """Pieces of one kind that follow each other."""

    is_thought: bool
    pieces: list[str] = field(default_factory=list)
    signature: str | None = None

    def part(self) -> Part | None:
        """The part that they make together; None if they say nothing."""
        whole = "".join(self.pieces)
        if self.is_thought:
            return ThinkingContent(whole, signature=self.signature) if whole or self.signature else None
        return TextContent(whole) if whole else None


class ReplyParts:
    """Collects what a reply says, in order: texts and thoughts, which may come bit by bit, and the rest."""

    def __init__(self) -> None:
        self._runs: list[_Run | Part | ToolCall] = []

    def add_text(self, piece: str) -> None:
        """Take some more text."""
        self._run(is_thought=False).pieces.append(piece)

    def add_thought(self, piece: str, signature: str | None = None) -> None:
        """Take some more thinking; its signature ends it."""
        run = self._run(is_thought=True)
        run.pieces.append(piece)
        run.signature = signature

    def add(self, whole: Part | ToolCall) -> None:
        """Take a part that is whole, or a call."""
        self._runs.append(whole)

    def _run(self, *, is_thought: bool) -> _Run:
        last = self._runs[-1] if self._runs else None
        if isinstance(last, _Run) and last.is_thought is is_thought and last.signature is None:
            return last
        run = _Run(is_thought)
        self._runs.append(run)
        return run

    @property
    def parts(self) -> tuple[Part, ...]:
        """The parts that came so far; neighbouring texts are one."""
        return tuple(self._collect(divided_by_calls=False)[0])

    def fields(self, blocks: Iterable[Mapping[str, Any]]) -> dict[str, Any]:
        """Fields for a `ModelReply`. The provider's `blocks` are kept only where there is thinking."""
        parts, calls_at = self._collect(divided_by_calls=True)
        calls = tuple(run for run in self._runs if isinstance(run, ToolCall))
        if not any(isinstance(part, ThinkingContent) for part in parts):
            return {"parts": self.parts, "tool_calls": calls}
        is_last = all(at == len(parts) for at in calls_at)
        places = () if is_last else tuple(calls_at)
        return {"parts": tuple(parts), "tool_calls": calls, "blocks": tuple(blocks), "calls_at": places}

    def _collect(self, *, divided_by_calls: bool) -> tuple[list[Part], list[int]]:
        """The parts, and where among them the calls stand."""
        parts: list[Part] = []
        calls_at: list[int] = []
        for run in self._runs:
            if isinstance(run, ToolCall):
                calls_at.append(len(parts))
                continue
            part, last = run.part() if isinstance(run, _Run) else run, parts[-1] if parts else None
            is_divided = divided_by_calls and len(parts) in calls_at[-1:]
            if isinstance(part, TextContent) and isinstance(last, TextContent) and not is_divided:
                parts[-1] = TextContent(last.text + part.text)
            elif part is not None:
                parts.append(part)
        return parts, calls_at


@dataclass(slots=True)
class CallDraft:
    """A call whose name and arguments come bit by bit."""

    index: Any = None
    id: str | None = None
    name: str = ""
    arguments: list[str] = field(default_factory=list)
    extra: dict[str, Any] = field(default_factory=dict)
    start_sent: bool = False

    def start_events(self) -> list[ReaderEvent]:
        """The event that it has begun, once, when its name is known, and the arguments so far."""
        if self.start_sent or not self.name:
            return []
        self.start_sent = True
        begun = "".join(self.arguments)
        return [CallStarted(self.id, self.name), *([CallDelta(self.id, begun)] if begun else ())]


def _error_code(error: Mapping[str, Any]) -> str:
    # Google's code is a number and its word a status.
    return (
        as_nonempty_text(error.get("code"))
        or as_nonempty_text(error.get("status"))
        or as_nonempty_text(error.get("type"))
        or "error"
    )
