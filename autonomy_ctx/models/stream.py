"""An answer in pieces, as an iterator that can be closed at any time.

No generator: one that is left half-way keeps its connection until it is collected, and no cancel scope
may be open while it waits for its reader.
"""

from __future__ import annotations

from collections import deque
from collections.abc import AsyncIterator, Callable, Mapping
from types import TracebackType
from typing import Any

import anyio

from autonomy_ctx.errors import ContextOverflow, InvalidModelReply, ModelTimeout, ModelUnavailable
from autonomy_ctx.items.formats.format import Answers, StreamReader
from autonomy_ctx.items.formats.reply import Finished, StreamEvent, event_with_own_names
from autonomy_ctx.items.formats.stream_error import StreamError
from autonomy_ctx.models.body import Body, Unreadable
from autonomy_ctx.models.failures import Failure, told_failure
from autonomy_ctx.models.frames import Piece, pieces_of

# How long to wait for the end of a response whose last event is there: then its connection is kept.
ENDING_SECONDS = 0.1


class ModelStream(AsyncIterator[StreamEvent]):
    """The events of one answer; the last is `Finished` with the whole reply.

    Close it, or use it in an `async with`, when you stop before the end.
    """

    def __init__(
        self,
        model: str,
        words: Answers,
        reader: StreamReader,
        body: Body,
        errors: tuple[type[Exception], ...],
        *,
        deadline: float,
        seconds: float,
    ) -> None:
        self._model, self._format, self._reader = model, words, reader
        self._body: Body | None = body
        self._errors, self._deadline, self._seconds = errors, deadline, seconds
        self._pieces = pieces_of(body)
        self._ready: deque[StreamEvent] = deque()
        self._over = False
        # Own names of tools by those on the wire.
        self.names: Mapping[str, str] = {}
        # Told the window, if it is named, when the request turns out too long after the answer has begun.
        self.overflowed: Callable[[int | None], None] | None = None

    async def begin(self) -> Failure | None:
        """Wait for the first event; the failure when there is none."""
        return await self._advance()

    async def __anext__(self) -> StreamEvent:
        if self._ready:
            return event_with_own_names(self._ready.popleft(), self.names)
        if self._over:
            raise StopAsyncIteration
        failure: Failure | None = None
        try:
            with anyio.CancelScope(deadline=self._deadline) as scope:
                failure = await self._advance()
        except BaseException:
            await self.aclose()
            raise
        if scope.cancelled_caught:
            failure = Failure(ModelTimeout(self._model, what="no whole answer", seconds=self._seconds))
        if failure is not None:
            await self.aclose()
            if isinstance(failure.error, ContextOverflow) and self.overflowed is not None:
                self.overflowed(failure.error.window)
            raise failure.error
        return event_with_own_names(self._ready.popleft(), self.names)

    async def aclose(self) -> None:
        """Read no further. Twice is harmless."""
        self._over = True
        self._ready.clear()
        await self._release()

    async def __aenter__(self) -> ModelStream:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.aclose()

    async def _advance(self) -> Failure | None:
        """Read until there is an event to give; at the end that is the whole reply."""
        while not self._ready:
            try:
                piece = await self._pieces.next()
            except Unreadable as unreadable:
                return Failure(InvalidModelReply(self._model, unreadable.problem))
            except self._errors:
                return self._cut()
            if piece is None or piece.last:
                return await self._finish(done=piece is not None)
            failure = self._take(piece)
            if failure is not None:
                return failure
        return None

    def _take(self, piece: Piece) -> Failure | None:
        if piece.event == "error" or piece.data.get("error"):
            return self._told(piece.data)
        said: dict[str, Any] | None = None
        try:
            events = self._reader.feed(piece.data, piece.event)
            # The last word is ours: a stream is finished when its response is.
            self._ready.extend(event for event in events if not isinstance(event, Finished))
        except StreamError as error:
            said = {"error": {"type": error.type, "message": error.message}}
        except Exception:  # a format may stumble in any way over what is none of its own
            return Failure(InvalidModelReply(self._model, "has an event of another format"))
        return self._told(said) if said is not None else None

    def _told(self, said: dict[str, Any]) -> Failure:
        return told_failure(self._model, said, words=self._format, streamed=True)

    async def _finish(self, *, done: bool) -> Failure | None:
        try:
            reply = self._reader.finish()
        except Exception:  # as above
            return Failure(InvalidModelReply(self._model, "holds no answer"))
        if reply.stop is None and not done:
            return self._cut()
        if reply.stop is None and not reply.parts and not reply.tool_calls:
            return Failure(InvalidModelReply(self._model, "holds no answer"))
        if done:
            with anyio.move_on_after(ENDING_SECONDS):
                try:
                    while await self._pieces.next() is not None:
                        pass
                except Unreadable:
                    pass
                except self._errors:
                    pass
        self._ready.append(Finished(reply))
        self._over = True
        await self._release()
        return None

    def _cut(self) -> Failure:
        return Failure(ModelUnavailable(self._model, "broke off its answer"), again=True)

    async def _release(self) -> None:
        body, self._body = self._body, None
        if body is not None:
            await body.aclose()
