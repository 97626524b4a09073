"""Streamed replies: the response body, its events and `ModelStream`.

`ModelStream` is an iterator class and not a generator: a generator left half-way keeps its connection
until it is collected, and may hold no cancel scope while it waits for its reader.
"""

from __future__ import annotations

import json
import re
import zlib
from collections import deque
from collections.abc import AsyncIterator, Callable, Iterator, Mapping
from contextlib import suppress
from typing import Any, NamedTuple

import anyio

from autonomy_ctx.errors import ContextOverflow, InvalidModelReply, ModelTimeout
from autonomy_ctx.formats.base import (
    CallDelta,
    ModelReply,
    ReplyFinished,
    StreamError,
    StreamEvent,
    StreamReader,
    restore_event_tool_names,
)
from autonomy_ctx.formats.eventstream import EventStreamDecoder, StreamFrame
from autonomy_ctx.models.retry import RequestFailure, body_failure, broken_off

MAX_REPLY_BYTES = 16 * 2**20  # of a whole reply, or of one line of a stream
MAX_STREAM_BYTES = 8 * MAX_REPLY_BYTES
CHUNK_BYTES = 64 * 1024
CONTENT_ENCODINGS = ("identity", "gzip", "x-gzip", "deflate")
CLOSE_TIMEOUT_SECONDS = 2.0
MAX_DRAIN_READS = 1000
_LINE_END = re.compile(rb"\r\n|\n|\r")
TOO_LARGE = f"is larger than {MAX_REPLY_BYTES // 2**20} MB"


class UnreadableBody(Exception):
    """The body is not what it should be; `problem` completes "a reply that"."""

    def __init__(self, problem: str) -> None:
        super().__init__(problem)
        self.problem = problem


class ResponseBody:
    """The decoded bytes of a response."""

    def __init__(
        self, response: Any, *, max_bytes: int = MAX_REPLY_BYTES, on_close: Callable[[], None] | None = None
    ) -> None:
        self._on_close = on_close
        self.status: int = response.status_code
        self.headers: Mapping[str, str] = response.headers
        self._response = response
        self._raw = response.aiter_raw()
        self._bytes_left = max_bytes
        # What a mock transport made is already read and decoded.
        ready = getattr(response, "is_stream_consumed", False)
        named = None if ready else response.headers.get("content-encoding")
        self._encoding = (named or "identity").strip().lower()
        # 47: gzip or zlib, as the data itself says.
        self._inflate = None if self._encoding == "identity" else zlib.decompressobj(47)
        self._pending: bytes = response.content if ready else b""
        self._ended = ready
        # Whether the client itself has said that there is no more.
        self._is_exhausted = False

    async def read_chunk(self) -> bytes | None:
        """Some more bytes; None at the end."""
        if self._encoding not in CONTENT_ENCODINGS:
            raise UnreadableBody("is encoded in a way that was not asked for")
        while True:
            found = self._decode_pending()
            if not found:
                raw = None if self._ended else await anext(self._raw, None)
                if raw is None:
                    self._is_exhausted = self._is_exhausted or not self._ended
                    self._ended = True
                    return None
                self._pending = raw
                continue
            self._bytes_left -= len(found)
            if self._bytes_left < 0:
                raise UnreadableBody(TOO_LARGE)
            return found

    async def read_all(self) -> bytes:
        """All that there is."""
        chunks = []
        while (chunk := await self.read_chunk()) is not None:
            chunks.append(chunk)
        return b"".join(chunks)

    async def aclose(self) -> None:
        """Read no further and give the connection back, also while the caller is being cancelled."""
        if self._on_close is not None:
            self._on_close()
        if self._is_exhausted:
            # The connection went back with the last byte.
            return
        with anyio.move_on_after(CLOSE_TIMEOUT_SECONDS, shield=True):
            await self._response.aclose()
            # The client's generators are nested, and closing the outer leaves the inner ones to the
            # collector, of which trio complains. On a closed connection all of them come to an end.
            with suppress(Exception):  # whatever reading from a closed connection gives
                for _ in range(MAX_DRAIN_READS):
                    await anext(self._raw)
            await self._raw.aclose()

    def _decode_pending(self) -> bytes:
        pending, self._pending = self._pending, b""
        if self._inflate is None or not pending:
            return pending
        try:
            found = self._inflate.decompress(pending, CHUNK_BYTES)
        except zlib.error:
            raise UnreadableBody("cannot be decompressed") from None
        self._pending = self._inflate.unconsumed_tail
        return found


class ServerSentEvent(NamedTuple):
    """One event: its data, and its name if it has one."""

    data: str
    event: str | None = None


class SseDecoder:
    """Takes bytes as they come and gives the server-sent events that are complete.

    Lines end with LF, CR or both, wherever the pieces are divided. An unfinished event does not count.
    """

    def __init__(self) -> None:
        self._rest = bytearray()
        self._after_cr = False
        self._started = False
        self._name: str | None = None
        self._data: list[str] = []

    def feed(self, chunk: bytes) -> Iterator[ServerSentEvent]:
        """The events that these bytes complete."""
        for line in self._lines(chunk):
            field, _, value = line.partition(":")
            value = value.removeprefix(" ")
            if field == "data":
                self._data.append(value)
            elif field == "event":
                self._name = value or None
            elif not line:
                data, name = self._data, self._name
                self._data, self._name = [], None
                if data:
                    yield ServerSentEvent("\n".join(data), name)

    def _lines(self, chunk: bytes) -> Iterator[str]:
        if self._after_cr and chunk.startswith(b"\n"):
            chunk = chunk[1:]
        self._after_cr = chunk.endswith(b"\r")
        # Only what is new is searched: a long line must not cost the square of its length.
        searched = len(self._rest)
        self._rest += chunk
        ends = list(_LINE_END.finditer(self._rest, searched))
        start, buffer = 0, self._rest
        if ends:
            self._rest = buffer[ends[-1].end() :]
        if len(self._rest) > MAX_REPLY_BYTES:
            raise UnreadableBody(TOO_LARGE)
        for end in ends:
            text = buffer[start : end.start()].decode("utf-8", "replace")
            start = end.end()
            yield text if self._started else text.removeprefix("\ufeff")
            self._started = True


EVENTSTREAM_TYPE = "application/vnd.amazon.eventstream"
# The data of an event after which nothing comes; here also the name of that event.
DONE_MARKER = "[DONE]"


class EventReader:
    """The events of a response: Amazon's frames, if it says that it has them, or JSON objects by SSE."""

    def __init__(self, body: ResponseBody) -> None:
        self._body = body
        is_binary = (body.headers.get("content-type") or "").startswith(EVENTSTREAM_TYPE)
        decoder = EventStreamDecoder() if is_binary else SseDecoder()
        self._feed: Callable[[bytes], Iterator[StreamFrame | ServerSentEvent]] = decoder.feed
        self._waiting: Iterator[StreamFrame | ServerSentEvent] = iter(())

    async def next(self) -> StreamFrame | None:
        """The next event; None at the end."""
        try:
            while (found := next(self._waiting, None)) is None:
                chunk = await self._body.read_chunk()
                if chunk is None:
                    return None
                self._waiting = self._feed(chunk)
        except StreamError:
            raise UnreadableBody("has a damaged frame") from None
        return found if isinstance(found, StreamFrame) else _parse_event(found)


def _parse_event(found: ServerSentEvent) -> StreamFrame:
    if found.data.strip() == DONE_MARKER:
        return StreamFrame(DONE_MARKER, {})
    try:
        data = json.loads(found.data)
    except (ValueError, RecursionError):
        data = None
    if not isinstance(data, dict):
        raise UnreadableBody("has an event that is not a JSON object")
    return StreamFrame(found.event, data)


# How long to wait for the end of a response whose last event is there: then its connection is kept.
DRAIN_SECONDS = 0.1


class ModelStream(AsyncIterator[StreamEvent]):
    """The events of one answer; the last is `ReplyFinished` with the whole reply.

    Close it, or use it in an `async with`, when you stop before the end.
    """

    def __init__(
        self,
        model: str,
        reader: StreamReader,
        body: ResponseBody,
        errors: tuple[type[Exception], ...],
        *,
        deadline: float,
        seconds: float,
    ) -> None:
        self._model, self._reader = model, reader
        self._body: ResponseBody | None = body
        self._errors, self._deadline, self._seconds = errors, deadline, seconds
        self._events = EventReader(body)
        self._ready: deque[StreamEvent] = deque()
        self._ended = False
        # Own names of tools by those on the wire.
        self.names: Mapping[str, str] = {}
        # Completes the whole reply, before anybody sees it.
        self.complete_reply: Callable[[ModelReply], ModelReply] | None = None
        # Told the window, if it is named, when the request turns out too long after the answer has begun.
        self.on_overflow: Callable[[int | None], None] | None = None

    async def begin(self) -> RequestFailure | None:
        """Wait for the first event; the failure when there is none."""
        return await self._advance()

    async def __anext__(self) -> StreamEvent:
        if self._ready:
            return self._next_ready()
        if self._ended:
            raise StopAsyncIteration
        failure: RequestFailure | None = None
        try:
            with anyio.CancelScope(deadline=self._deadline) as scope:
                failure = await self._advance()
        except BaseException:
            await self.aclose()
            raise
        if scope.cancelled_caught:
            failure = RequestFailure(ModelTimeout(self._model, what="no whole answer", seconds=self._seconds))
        if failure is not None:
            await self.aclose()
            if isinstance(failure.error, ContextOverflow) and self.on_overflow is not None:
                self.on_overflow(failure.error.window if failure.error.is_certain else None)
            raise failure.error
        return self._next_ready()

    def _next_ready(self) -> StreamEvent:
        event = self._ready.popleft()
        if isinstance(event, ReplyFinished) and self.complete_reply is not None:
            event = ReplyFinished(self.complete_reply(event.reply))
        return restore_event_tool_names(event, self.names)

    async def aclose(self) -> None:
        """Stop reading. A second call does nothing."""
        self._ended = True
        self._ready.clear()
        await self._release()

    async def __aenter__(self) -> ModelStream:
        return self

    async def __aexit__(self, *error: object) -> None:
        await self.aclose()

    async def _advance(self) -> RequestFailure | None:
        """Read until there is an event to give; at the end that is the whole reply."""
        while not self._ready:
            try:
                frame = await self._events.next()
            except UnreadableBody as unreadable:
                return RequestFailure(InvalidModelReply(self._model, unreadable.problem))
            except self._errors:
                return broken_off(self._model)
            if frame is None or frame.event == DONE_MARKER:
                return await self._finish(done=frame is not None)
            failure = self._feed(frame)
            if failure is not None:
                return failure
        return None

    def _feed(self, frame: StreamFrame) -> RequestFailure | None:
        if frame.event == "error" or frame.data.get("error"):
            return body_failure(self._model, frame.data, streamed=True)
        try:
            events = self._reader.feed(frame.data, frame.event)
            # The stream is finished when its response is finished.
            self._ready.extend(event for event in events if not isinstance(event, ReplyFinished | CallDelta))
        except StreamError as error:
            said = {"error": {"type": error.type, "message": error.message}}
            return body_failure(self._model, said, streamed=True)
        except Exception:  # a format may stumble in any way over what is none of its own
            return RequestFailure(InvalidModelReply(self._model, "has an event of another format"))
        return None

    async def _finish(self, *, done: bool) -> RequestFailure | None:
        try:
            reply = self._reader.finish()
        except Exception:  # as above
            return RequestFailure(InvalidModelReply(self._model, "has no answer"))
        if reply.stop is None and not done:
            return broken_off(self._model)
        if reply.stop is None and not reply.parts and not reply.tool_calls:
            return RequestFailure(InvalidModelReply(self._model, "has no answer"))
        if done:
            with anyio.move_on_after(DRAIN_SECONDS):
                with suppress(UnreadableBody, *self._errors):
                    while await self._events.next() is not None:
                        pass
        self._ready.append(ReplyFinished(reply))
        self._ended = True
        await self._release()
        return None

    async def _release(self) -> None:
        body, self._body = self._body, None
        if body is not None:
            await body.aclose()
