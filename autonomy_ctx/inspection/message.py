"""Reports of messages: a page at a time, and one message with its full text."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Any, Literal

from autonomy_ctx.errors import UnknownConversation, UnknownPosition
from autonomy_ctx.inspection.report import Report
from autonomy_ctx.memory.encoding import CUT_WORDS
from autonomy_ctx.memory.memory import Memory
from autonomy_ctx.memory.store import Entry, Head
from autonomy_ctx.messages import wire
from autonomy_ctx.messages.message import ChatRole, ImageContent, Message, ThinkingContent
from autonomy_ctx.messages.summary import Segment, Summary
from autonomy_ctx.validation import check_int

# How many messages a page has, and how much of each text.
PAGE_MESSAGES = 100
MAX_PAGE_MESSAGES = 1_000
PAGE_CHARACTERS = 20_000
# What is given of a URL of an image.
_URL_CHARACTERS = 300


@dataclass(frozen=True, slots=True, kw_only=True)
class ToolCallReport(Report):
    """A call of a tool, with its arguments as the model wrote them."""

    id: str | None
    name: str
    arguments: str


@dataclass(frozen=True, slots=True, kw_only=True)
class PartReport(Report):
    """A part of a message that is not text: the name of an image, or thinking of a model."""

    kind: Literal["image", "thinking"]
    text: str


@dataclass(frozen=True, slots=True, kw_only=True)
class MessageReport(Report):
    """One message. A message that a section made is not in the log: no `position`, `id` and `created_at`.

    `text` may be shortened: then `is_whole` is false, and `characters` is the full length.
    """

    id: str | None
    position: int | None
    role: str
    name: str | None
    agent: str | None
    created_at: datetime | None
    tokens: int
    text: str
    characters: int
    is_whole: bool
    tool_calls: tuple[ToolCallReport, ...]
    tool_call_id: str | None
    is_error: bool
    phase: str | None
    parts: tuple[PartReport, ...]
    # Of a summary: its segments and the facts that hold.
    segments: tuple[Segment, ...]
    facts: str


@dataclass(frozen=True, slots=True, kw_only=True)
class MessagePage(Report):
    """A page of messages in order, with marks for the pages before and after it.

    `older` and `newer` are for the next page: `read_messages(..., before=page.older)` and
    `read_messages(..., after=page.newer)`; None at the end.
    """

    agent: str
    scope: str
    conversation: str
    count: int
    head: int
    messages: tuple[MessageReport, ...]
    older: int | None
    newer: int | None


def message_fields(message: Message, position: int | None, tokens: int, limit: int | None) -> dict[str, Any]:
    """The fields of a `MessageReport`."""
    text = message.text
    is_cut = message.role is ChatRole.TOOL and CUT_WORDS in text
    is_long = limit is not None and len(text) > limit
    summary = message if isinstance(message, Summary) else None
    is_made = position is None and summary is None
    return {
        # A message that a section made gets a new id and time whenever it is made.
        "id": None if is_made else message.id,
        "position": position,
        "role": "summary" if summary else message.role.value,
        "name": message.name,
        "agent": message.agent,
        "created_at": None if is_made else message.created_at,
        "tokens": tokens,
        "text": text[:limit] if is_long else text,
        "characters": len(text),
        "is_whole": not is_cut and not is_long,
        "tool_calls": tuple(
            ToolCallReport(id=call.id, name=call.name, arguments=call.arguments)
            for call in message.tool_calls
        ),
        "tool_call_id": message.tool_call_id,
        "is_error": message.is_error,
        "phase": message.phase,
        "parts": tuple(_other_parts(message)),
        "segments": summary.segments if summary else (),
        "facts": summary.facts if summary else "",
    }


def report_message(message: Message, position: int | None, tokens: int, limit: int | None) -> MessageReport:
    """A message with at most `limit` characters of its text."""
    return MessageReport(**message_fields(message, position, tokens, limit))


async def read_messages(
    memory: Memory,
    scope: str,
    conversation: str,
    *,
    after: int | None = None,
    before: int | None = None,
    limit: int = PAGE_MESSAGES,
    max_characters: int | None = PAGE_CHARACTERS,
) -> MessagePage:
    """A page of messages: the newest, those right before a position, or those right after one.

    Each text is cut to `max_characters`; `read_message` returns the full text.
    """
    check_int("limit", limit, most=MAX_PAGE_MESSAGES)
    check_int("max_characters", max_characters, least=0, optional=True)
    if after is not None and before is None:
        head, entries = await read_forward(memory, scope, conversation, after, limit)
    else:
        window = await memory.read(scope, conversation, after=after or 0, before=before, limit=limit)
        head, entries = window.head, window.entries
    if not head.count:
        raise UnknownConversation(conversation)
    first = entries[0].position if entries else (before or 1)
    last = entries[-1].position if entries else (after or head.position)
    return MessagePage(
        agent=memory.agent,
        scope=scope,
        conversation=conversation,
        count=head.count,
        head=head.position,
        messages=tuple(report_entry(memory, entry, max_characters) for entry in entries),
        older=first if entries and first > 1 else None,
        newer=last if last < head.position else None,
    )


async def read_message(memory: Memory, scope: str, conversation: str, position: int) -> MessageReport:
    """The message at a position with its full text, also for a tool result that was cut in the log."""
    check_int("position", position)
    window = await memory.read(scope, conversation, after=position - 1, before=position + 1)
    if not window.head.count:
        raise UnknownConversation(conversation)
    if not window.entries:
        raise UnknownPosition(position=position, last=window.head.position)
    entry = window.entries[0]
    form = await memory.get_full_message(scope, conversation, entry.message.id)
    if form is None:
        report = report_entry(memory, entry, None)
    else:
        whole = wire.from_dict(form)
        tokens = memory.token_counter.count_messages([whole])
        report = report_message(whole, position, tokens, None)
    return replace(report, is_whole=True)


def report_entry(memory: Memory, entry: Entry, limit: int | None) -> MessageReport:
    """A message of the log."""
    tokens = memory.token_counter.count_messages([entry.message])
    return report_message(entry.message, entry.position, tokens, limit)


async def read_forward(
    memory: Memory, scope: str, conversation: str, after: int, limit: int
) -> tuple[Head, Sequence[Entry]]:
    """The oldest messages after a position; positions of deleted messages are skipped."""
    check_int("after", after, least=0)
    width = limit
    while True:
        window = await memory.read(scope, conversation, after=after, before=after + width + 1)
        if window.entries or after + width >= window.head.position:
            return window.head, window.entries[:limit]
        after, width = after + width, 2 * width


def _other_parts(message: Message) -> list[PartReport]:
    return [
        PartReport(kind="image", text=_image_name(part.image))
        if isinstance(part, ImageContent)
        else PartReport(kind="thinking", text=part.text)
        for part in message.parts
        if isinstance(part, ImageContent | ThinkingContent)
    ]


def _image_name(image: str) -> str:
    """The address of an image; for one inside the message, its type and size."""
    if not image.startswith("data:"):
        return image if len(image) <= _URL_CHARACTERS else image[:_URL_CHARACTERS] + "\u2026"
    head, _, data = image.partition(",")
    kind = head.removeprefix("data:").partition(";")[0] or "image"
    return f"{kind[:100]}, {len(data) * 3 // 4:,} bytes"
