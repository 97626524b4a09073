"""The output of a tool as text for the model: rendered, cleaned, and capped in bytes with a marker."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import anyio.to_thread

from autonomy_ctx.callables import YieldedValues
from autonomy_ctx.containers.item import ContextItem
from autonomy_ctx.containers.pool import render_catalogue
from autonomy_ctx.items.json_values import encode_json_text

# Longer text is read and written outside the event loop.
SMALL_TEXT = 50_000
# The most bytes of one output that a model is shown, and that an agent's log keeps.
OUTPUT_LIMIT = 64_000
KEPT_LIMIT = 1_000_000


@dataclass(frozen=True, slots=True)
class RenderedOutput:
    """A result as text, with the items beside it, and all of the text if it was too long."""

    text: str
    items: tuple[ContextItem[Any], ...]
    value: Any
    full: str | None


async def render_output(value: Any, limit: int) -> RenderedOutput:
    """A result as text of at most `limit` bytes; a large one is rendered in a worker thread."""
    if value is None or isinstance(value, int | float) or (type(value) is str and len(value) <= SMALL_TEXT):
        return _render(value, limit)
    return await anyio.to_thread.run_sync(_render, value, limit, abandon_on_cancel=True)


def _render(value: Any, limit: int) -> RenderedOutput:
    if isinstance(value, YieldedValues):
        value = pieces = value.values
    else:
        has_items = isinstance(value, list | tuple) and any(isinstance(one, ContextItem) for one in value)
        pieces = list(value) if has_items else [value]
    items = tuple(piece for piece in pieces if isinstance(piece, ContextItem))
    full = clean_text("\n".join(map(_piece_text, pieces)))
    text = cap_text(full, limit)
    return RenderedOutput(text, items, value, full if text is not full else None)


def _piece_text(value: Any) -> str:
    if isinstance(value, ContextItem):
        if value.id is None:
            return _piece_text(value.content)
        # What goes to the pool is read from there when it is needed.
        return f"Kept; `read_context_item` reads it:\n{render_catalogue([value])}"
    return str.__str__(value) if isinstance(value, str) else encode_json_text(value)


def clean_text(text: str) -> str:
    """The text as every store can hold it: a lone surrogate, as odd file names have, is replaced."""
    return text if text.isascii() else text.encode(errors="replace").decode()


def cap_text(text: str, limit: int) -> str:
    """The text, or its beginning and end around a marker, in at most `limit` bytes."""
    if len(text) * 4 <= limit or len(data := text.encode()) <= limit:
        return text
    marker = "\n[... {:,} of {:,} bytes are not shown here; ask for less at a time ...]\n"
    room = limit - len(marker.format(len(data), len(data)))
    head = data[: room * 2 // 3].decode(errors="ignore")
    tail = data[len(data) - (room - room * 2 // 3) :].decode(errors="ignore")
    hidden = len(data) - len(head.encode()) - len(tail.encode())
    return head + marker.format(hidden, len(data)) + tail
