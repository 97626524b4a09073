"""Messages word for word, a page at a time: whatever a conversation holds can be read in bounded pieces."""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

import anyio.to_thread

from autonomy_ctx.errors import InvalidRange
from autonomy_ctx.items import wire
from autonomy_ctx.items.message import ChatRole
from autonomy_ctx.items.recall import indented, spoken
from autonomy_ctx.items.transcript import called_names, delimited, nonce
from autonomy_ctx.memory.memory import Memory
from autonomy_ctx.memory.rows import weight
from autonomy_ctx.memory.store import Entry

PAGE_CHARACTERS = 16_000
# How many positions one step reads, and how many steps a page takes at most.
STEP, STEPS = 16, 32
# A tool result shorter than this was not cut when it was stored.
CUT_CHARACTERS = 64 * 1024
# A message with more characters than this may be a cut one.
LIGHT = 50_000
LABEL = "messages"


@dataclass(frozen=True, slots=True, kw_only=True)
class Page:
    """Messages as data for a model, and where to read on: a position, and characters to pass over there."""

    text: str
    next: int | None = None
    offset: int = 0


class _Piece(NamedTuple):
    """What a page shows of a message, and how many characters to pass over to read on; 0 when it is all."""

    text: str
    more: int


async def read_page(
    memory: Memory, scope: str, conversation: str, first: int, last: int, *, offset: int = 0
) -> Page:
    """The messages at positions `first` to `last`, as many as a page holds, tool results uncut.

    A message longer than a page is shown in pieces; `offset` passes over characters of the first message.
    """
    if not 1 <= first <= last:
        raise InvalidRange(first, last, "positions go up from 1, the smaller first")
    if offset < 0:
        raise InvalidRange(first, last, f"the offset is {offset}; it must be at least 0")
    end = (await memory.head(scope, conversation)).position
    if first > end:
        there = f"has positions 1 to {end}" if end else "has no messages"
        raise InvalidRange(first, last, f"conversation {conversation[:80]!r} {there}")
    last, at, room = min(last, end), first, PAGE_CHARACTERS
    lines: list[str] = []
    for _ in range(STEPS):
        stop = min(at + STEP - 1, last)
        entries = (await memory.read(scope, conversation, after=at - 1, before=stop + 1)).entries
        names = called_names([entry.message for entry in entries])
        for entry in entries:
            skipped = offset if entry.position == first else 0
            piece = await _piece(memory, scope, conversation, entry, names, skipped)
            if lines and (piece.more or len(piece.text) > room):
                return _page(lines, entry.position, 0)
            lines.append(piece.text)
            if piece.more:
                return _page(lines, entry.position, piece.more)
            room -= len(piece.text)
        at = stop + 1
        if at > last:
            return _page(lines, None, 0, first=first, last=last)
    return _page(lines, at, 0, first=first, last=at - 1)


async def _piece(
    memory: Memory, scope: str, conversation: str, entry: Entry, names: dict[str, str], skipped: int
) -> _Piece:
    message, heavy = entry.message, weight(entry.message) > LIGHT
    if heavy and message.role is ChatRole.TOOL and len(message.text) > CUT_CHARACTERS:
        whole = await memory.get_whole_message(scope, conversation, message.id)
        if whole is not None:
            message = await anyio.to_thread.run_sync(wire.from_dict, whole, abandon_on_cancel=True)
    text = f"[{entry.position}] {spoken(message, names)}"
    # A text of many short lines grows threefold when it is indented.
    for size in (PAGE_CHARACTERS, PAGE_CHARACTERS // 3):
        shown, end = indented(text[skipped : skipped + size]), skipped + size
        if len(shown) <= PAGE_CHARACTERS:
            break
    return _Piece(shown, end if end < len(text) else 0)


def _page(lines: list[str], position: int | None, offset: int, *, first: int = 0, last: int = 0) -> Page:
    text = "\n".join(lines) or f"There are no messages at positions {first} to {last}: they were deleted."
    block = delimited(LABEL, text, nonce(text)) if lines else text
    return Page(text=block, next=position, offset=offset)
