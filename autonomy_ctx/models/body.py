"""A response's body in decoded pieces, however much a server sends.

The clients decode a whole piece at once, so a few kilobytes can become gigabytes, and they put no end
to a line. Here nothing grows beyond a limit, also in what is decoded.
"""

from __future__ import annotations

import re
import zlib
from collections import deque
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import suppress
from typing import Any

import anyio

MOST_BYTES = 16 * 2**20  # of a whole reply, or of one line of a stream
MOST_STREAMED = 8 * MOST_BYTES
PIECE = 64 * 1024
ENCODINGS = ("identity", "gzip", "x-gzip", "deflate")
CLOSING_SECONDS = 2.0
MOST_LEFT = 1000
_LINE_END = re.compile(rb"\r\n|\n|\r")
TOO_LARGE = f"is larger than {MOST_BYTES // 2**20} MB"


class Unreadable(Exception):
    """The body is not what it should be; `problem` completes "a reply that"."""

    def __init__(self, problem: str) -> None:
        super().__init__(problem)
        self.problem = problem


class Body:
    """The decoded bytes of a response."""

    def __init__(
        self, response: Any, *, most: int = MOST_BYTES, closed: Callable[[], None] | None = None
    ) -> None:
        self._closed = closed
        self.status: int = response.status_code
        self.headers: Mapping[str, str] = response.headers
        self._response = response
        self._raw = response.aiter_raw()
        self._left = most
        # What a mock transport made is already read and decoded.
        ready = getattr(response, "is_stream_consumed", False)
        named = None if ready else response.headers.get("content-encoding")
        self._encoding = (named or "identity").strip().lower()
        # 47: gzip or zlib, as the data itself says.
        self._inflate = None if self._encoding == "identity" else zlib.decompressobj(47)
        self._pending: bytes = response.content if ready else b""
        self._ended = ready

    async def piece(self) -> bytes | None:
        """Some more bytes; None at the end."""
        if self._encoding not in ENCODINGS:
            raise Unreadable("is encoded in a way that was not asked for")
        while True:
            found = self._decoded()
            if not found:
                raw = None if self._ended else await anext(self._raw, None)
                if raw is None:
                    self._ended = True
                    return None
                self._pending = raw
                continue
            self._left -= len(found)
            if self._left < 0:
                raise Unreadable(TOO_LARGE)
            return found

    async def whole(self) -> bytes:
        """All that there is."""
        pieces = []
        while (piece := await self.piece()) is not None:
            pieces.append(piece)
        return b"".join(pieces)

    async def aclose(self) -> None:
        """Read no further and give the connection back, also while the caller is being cancelled."""
        if self._closed is not None:
            self._closed()
        with anyio.move_on_after(CLOSING_SECONDS, shield=True):
            await self._response.aclose()
            # The client's generators are nested, and closing the outer leaves the inner ones to the
            # collector, of which trio complains. On a closed connection all of them come to an end.
            with suppress(Exception):  # whatever reading from a closed connection gives
                for _ in range(MOST_LEFT):
                    await anext(self._raw)
            await self._raw.aclose()

    def _decoded(self) -> bytes:
        pending, self._pending = self._pending, b""
        if self._inflate is None or not pending:
            return pending
        try:
            found = self._inflate.decompress(pending, PIECE)
        except zlib.error:
            raise Unreadable("cannot be decompressed") from None
        self._pending = self._inflate.unconsumed_tail
        return found


class Lines(AsyncIterator[str]):
    """The lines of a body, ended by LF, CR or both, wherever the pieces are divided."""

    def __init__(self, body: Body) -> None:
        self._body = body
        self._ready: deque[str] = deque()
        self._rest = bytearray()
        self._after_cr = False
        self._begun = False

    async def __anext__(self) -> str:
        while not self._ready:
            piece = await self._body.piece()
            if piece is None:
                # A line without its end was cut off.
                raise StopAsyncIteration
            self._take(piece)
        return self._ready.popleft()

    def _take(self, piece: bytes) -> None:
        if self._after_cr and piece.startswith(b"\n"):
            piece = piece[1:]
        self._after_cr = piece.endswith(b"\r")
        # Only what is new is searched: a long line must not cost the square of its length.
        searched = len(self._rest)
        self._rest += piece
        start = 0
        for found in _LINE_END.finditer(self._rest, searched):
            self._ready.append(self._text(self._rest[start : found.start()]))
            start = found.end()
        del self._rest[:start]
        if len(self._rest) > MOST_BYTES:
            raise Unreadable(TOO_LARGE)

    def _text(self, line: bytearray) -> str:
        text = line.decode("utf-8", "replace")
        if not self._begun:
            self._begun = True
            text = text.removeprefix("\ufeff")
        return text
