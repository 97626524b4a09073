"""The output of a tool for the model: text, cleaned and cut to the room that it has, and images."""

from __future__ import annotations

from typing import Any, NamedTuple

import anyio.to_thread

from autonomy_ctx.callables import YieldedValues
from autonomy_ctx.containers.item import ContextItem
from autonomy_ctx.containers.pool import render_catalogue
from autonomy_ctx.messages.excerpt import Room, make_excerpt
from autonomy_ctx.messages.json_values import encode_json_text
from autonomy_ctx.messages.message import Content, ImageContent, TextContent
from autonomy_ctx.tools.results import ResultPage

# Longer text is read and written outside the event loop, and what may be cut to a number of tokens sooner.
SMALL_TEXT, SMALL_RESULT = 50_000, 8_000
# The most bytes of one output that a model is shown, and that an agent's log keeps.
OUTPUT_LIMIT = 64_000
KEPT_LIMIT = 1_000_000
# The most characters of all images of one output, and how many images.
IMAGE_LIMIT, MAX_IMAGES = 5_000_000, 8


class RenderedOutput(NamedTuple):
    """A result as text, with images and items beside it, and the text that is kept if it was too long."""

    text: str
    images: tuple[ImageContent, ...]
    items: tuple[ContextItem[Any], ...]
    value: Any
    full: str | None

    @property
    def content(self) -> Content:
        """The content of the result's message: text, or text and images."""
        if not self.images:
            return self.text
        return (*([TextContent(self.text)] if self.text else []), *self.images)


async def render_output(
    value: Any, room: Room, *, result_id: str = "", arguments: str = ""
) -> RenderedOutput:
    """A result as text that has room; a large one is rendered in a worker thread.

    If tokens are limited, a long result is an excerpt, which says by which id it is read.
    """
    small = SMALL_TEXT if room.tokens is None else SMALL_RESULT
    if value is None or isinstance(value, int | float) or (type(value) is str and len(value) <= small):
        return _render(value, room, result_id, arguments)
    return await anyio.to_thread.run_sync(_render, value, room, result_id, arguments, abandon_on_cancel=True)


def _render(value: Any, room: Room, result_id: str, arguments: str) -> RenderedOutput:
    if isinstance(value, YieldedValues):
        value = pieces = value.values
    elif isinstance(value, ResultPage):
        pieces = [value]
    else:
        parts = (ContextItem, ImageContent)
        has_parts = isinstance(value, list | tuple) and any(isinstance(one, parts) for one in value)
        pieces = list(value) if has_parts else [value]
    items = tuple(piece for piece in pieces if isinstance(piece, ContextItem))
    images, texts = _split_images(
        [one.render(room) if isinstance(one, ResultPage) else one for one in pieces]
    )
    full = clean_text("\n".join(texts))
    if room.tokens is None:
        text = cap_text(full, room.bytes)
    elif any(isinstance(one, ResultPage) for one in pieces):
        text = full
    else:
        kept = cap_text(full, KEPT_LIMIT)
        text = make_excerpt(kept, room, result_id=result_id, arguments=arguments)
        full = full if text is full else kept
    return RenderedOutput(text, images, items, value, full if text is not full else None)


def _split_images(pieces: list[Any]) -> tuple[tuple[ImageContent, ...], list[str]]:
    """The images that there is room for, and everything else as text; an image too many is a line of it."""
    images: list[ImageContent] = []
    texts: list[str] = []
    room = IMAGE_LIMIT
    for piece in pieces:
        if not isinstance(piece, ImageContent):
            texts.append(_piece_text(piece))
        elif len(piece.image) > room or len(images) == MAX_IMAGES:
            texts.append(
                f"[An image of {len(piece.image):,} characters is not shown: a result has room for "
                f"{MAX_IMAGES} images with {IMAGE_LIMIT:,} in all.]"
            )
        else:
            images.append(piece)
            room -= len(piece.image)
    return tuple(images), texts


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
