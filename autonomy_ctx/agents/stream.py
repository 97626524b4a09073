"""A turn that is listened to while it goes on.

The turn runs in the background, not inside the iterator: whoever stops listening in the middle leaves
no half-open generator behind, and the turn still comes to its end and is kept. Closing the stream, or
cancelling whoever listens, cancels the turn.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Awaitable, Callable
from types import TracebackType

import anyio

from autonomy_ctx.agents.lines import Around, go_inside, turns_around
from autonomy_ctx.agents.reply import AgentEvent, AgentReply, TurnEnded
from autonomy_ctx.background import Background
from autonomy_ctx.errors import AgentClosed

Run = Callable[[Callable[[AgentEvent], None]], Awaitable[AgentReply]]


class AgentStream:
    """The events of one turn; the last is `TurnEnded` with the reply. The first `async for` begins it."""

    def __init__(self, agent: str, run: Run, background: Background) -> None:
        self._agent, self._run, self._background = agent, run, background
        self._events: deque[AgentEvent] = deque()
        self._news = anyio.Event()
        self._error: Exception | None = None
        self._scope: anyio.CancelScope | None = None
        self._around: Around = ()
        self._begun = self._over = self._answered = self._closed = False

    def __aiter__(self) -> AgentStream:
        return self

    async def __anext__(self) -> AgentEvent:
        if not self._begun:
            self._begun = True
            # The background's task is not inside the turns that whoever listens is inside of.
            self._around = turns_around()
            if not self._background.start(self._turn):
                raise AgentClosed(self._agent)
        while not self._events:
            if self._over:
                raise self._end()
            try:
                await self._news.wait()
            except BaseException:
                self._cancel()
                raise
        return self._events.popleft()

    async def aclose(self) -> None:
        """Stop listening, and stop the turn if it has not ended."""
        self._cancel()
        while self._begun and not self._over:
            await self._news.wait()

    async def __aenter__(self) -> AgentStream:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.aclose()

    async def _turn(self) -> None:
        go_inside(self._around)
        try:
            with anyio.CancelScope() as self._scope:
                if not self._closed:
                    self._put(TurnEnded(await self._run(self._put)))
                    self._answered = True
        except Exception as error:
            self._error = error
        finally:
            self._over = True
            self._wake()

    def _put(self, event: AgentEvent) -> None:
        self._events.append(event)
        self._wake()

    def _wake(self) -> None:
        self._news.set()
        self._news = anyio.Event()

    def _cancel(self) -> None:
        self._closed = True
        if self._scope is not None:
            self._scope.cancel()

    def _end(self) -> Exception:
        """Why there is nothing more: the turn's own error once, then the usual end."""
        error, self._error = self._error, None
        if error is not None:
            self._closed = True
            return error
        return StopAsyncIteration() if self._answered or self._closed else AgentClosed(self._agent)
