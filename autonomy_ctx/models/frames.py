"""Where the events of a stream come from: lines of text, or Amazon's binary frames."""

from __future__ import annotations

import json
from collections import deque
from typing import Any, NamedTuple, Protocol

from autonomy_ctx.items.formats.base import StreamError
from autonomy_ctx.items.formats.bedrock import EventStreamDecoder, StreamFrame
from autonomy_ctx.models.body import Body, Lines, Unreadable
from autonomy_ctx.models.sse import next_event

BINARY = "application/vnd.amazon.eventstream"
DONE = "[DONE]"


class Piece(NamedTuple):
    """What one event says; `last` when nothing comes after it, as the sender itself says."""

    data: dict[str, Any]
    event: str | None = None
    last: bool = False


class Pieces(Protocol):
    """The events of one stream."""

    async def next(self) -> Piece | None:
        """The next event; None at the end."""


class TextPieces:
    """Server-sent events, each a JSON object."""

    def __init__(self, body: Body) -> None:
        self._lines = Lines(body)

    async def next(self) -> Piece | None:
        """The next event; None at the end."""
        found = await next_event(self._lines)
        if found is None:
            return None
        if found.data.strip() == DONE:
            return Piece({}, last=True)
        try:
            data = json.loads(found.data)
        except (ValueError, RecursionError):
            data = None
        if not isinstance(data, dict):
            raise Unreadable("has an event that is no JSON object")
        return Piece(data, found.event)


class BinaryPieces:
    """Amazon's frames."""

    def __init__(self, body: Body) -> None:
        self._body, self._decoder = body, EventStreamDecoder()
        self._ready: deque[StreamFrame] = deque()

    async def next(self) -> Piece | None:
        """The next event; None at the end."""
        while not self._ready:
            piece = await self._body.piece()
            if piece is None:
                return None
            try:
                self._ready.extend(self._decoder.feed(piece))
            except StreamError:
                raise Unreadable("has a damaged frame") from None
        frame = self._ready.popleft()
        return Piece(dict(frame.data), frame.event or None)


def pieces_of(body: Body) -> Pieces:
    """The events of a response, by what it says it is."""
    binary = (body.headers.get("content-type") or "").startswith(BINARY)
    return BinaryPieces(body) if binary else TextPieces(body)
