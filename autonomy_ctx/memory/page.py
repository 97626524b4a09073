"""`read_page`: the messages at a range of positions, word for word, a page at a time."""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

import anyio.to_thread

from autonomy_ctx.errors import InvalidRange
from autonomy_ctx.memory.encoding import CUT_WORDS
from autonomy_ctx.memory.memory import Memory
from autonomy_ctx.memory.recall_block import format_message, indent_continuations
from autonomy_ctx.memory.store import Entry
from autonomy_ctx.messages import wire
from autonomy_ctx.messages.message import ChatRole
from autonomy_ctx.messages.transcript import nonce, tool_names_by_call, wrap_untrusted
from autonomy_ctx.validation import int_problem

PAGE_CHARACTERS = 16_000
# How many positions one step reads, and how many steps a page takes at most.
POSITIONS_PER_READ, MAX_READS = 16, 32
PAGE_LABEL = "messages"


@dataclass(frozen=True, slots=True, kw_only=True)
class Page:
    """Messages as data for a model, and the start of the next page: a position and an offset in it."""

    text: str
    next: int | None = None
    offset: int = 0


class _PagePart(NamedTuple):
    """The part of a message on a page, and the offset of the rest; 0 if it is complete."""

    text: str
    next_offset: int


async def read_page(
    memory: Memory, scope: str, conversation: str, first: int, last: int, *, offset: int = 0
) -> Page:
    """The messages at positions `first` to `last`, as many as a page holds, tool results uncut.

    A message longer than a page is shown in pieces; `offset` skips characters of the first message.
    """
    if not 1 <= first <= last:
        raise InvalidRange(first, last, "positions go up from 1, the smaller first")
    problem = int_problem(offset, least=0)
    if problem is not None:
        raise InvalidRange(first, last, f"offset {problem}")
    end = (await memory.head(scope, conversation)).position
    if first > end:
        there = f"has positions 1 to {end}" if end else "has no messages"
        raise InvalidRange(first, last, f"conversation {conversation[:80]!r} {there}")
    last, at, room = min(last, end), first, PAGE_CHARACTERS
    lines: list[str] = []
    for _ in range(MAX_READS):
        stop = min(at + POSITIONS_PER_READ - 1, last)
        entries = (await memory.read(scope, conversation, after=at - 1, before=stop + 1)).entries
        names = tool_names_by_call([entry.message for entry in entries])
        for entry in entries:
            skipped = offset if entry.position == first else 0
            piece = await _page_part(memory, scope, conversation, entry, names, skipped)
            if lines and (piece.next_offset or len(piece.text) > room):
                return _make_page(lines, entry.position, 0)
            lines.append(piece.text)
            if piece.next_offset:
                return _make_page(lines, entry.position, piece.next_offset)
            room -= len(piece.text)
        at = stop + 1
        if at > last:
            return _make_page(lines, None, 0, first=first, last=last)
    return _make_page(lines, at, 0, first=first, last=at - 1)


async def _page_part(
    memory: Memory, scope: str, conversation: str, entry: Entry, names: dict[str, str], skipped: int
) -> _PagePart:
    message = entry.message
    if message.role is ChatRole.TOOL and CUT_WORDS in message.text:
        whole = await memory.get_full_message(scope, conversation, message.id)
        if whole is not None:
            message = await anyio.to_thread.run_sync(wire.from_dict, whole, abandon_on_cancel=True)
    text = f"[{entry.position}] {format_message(message, names)}"
    # A text of many short lines grows threefold when it is indented.
    for size in (PAGE_CHARACTERS, PAGE_CHARACTERS // 3):
        shown, end = indent_continuations(text[skipped : skipped + size]), skipped + size
        if len(shown) <= PAGE_CHARACTERS:
            break
    return _PagePart(shown, end if end < len(text) else 0)


def _make_page(lines: list[str], position: int | None, offset: int, *, first: int = 0, last: int = 0) -> Page:
    text = "\n".join(lines) or f"There are no messages at positions {first} to {last}: they were deleted."
    block = wrap_untrusted(PAGE_LABEL, text, nonce(text)) if lines else text
    return Page(text=block, next=position, offset=offset)
