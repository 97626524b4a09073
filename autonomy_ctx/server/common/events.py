"""A turn as server-sent events, with comments in between so that proxies keep the connection open."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import asdict
from typing import Any, assert_never

import anyio
from starlette.responses import Response
from starlette.types import Receive, Scope, Send

from autonomy_ctx.agents.reply import (
    AgentEvent,
    AgentReply,
    AgentStream,
    PartialOutput,
    ToolAnswered,
    TurnEnded,
)
from autonomy_ctx.compaction.manual import ContextCompacted
from autonomy_ctx.formats.base import CallStarted, TextDelta, ThinkingDelta
from autonomy_ctx.server.common.errors import NODE_CLOSING, client_error, encode_json, encode_large_json

# For the last words to a client, and for a cancelled turn to put away what it has.
LAST_SECONDS = 0.5

EVENT_HEADERS = {
    "content-type": "text/event-stream",
    "cache-control": "no-store",
    # Without it nginx would collect pieces.
    "x-accel-buffering": "no",
}
COMMENT = b": still here\n\n"
_FRAME = b"event: %b\ndata: %b\n\n"


def reply_body(reply: AgentReply) -> dict[str, Any]:
    """The answer of a turn as JSON."""
    return {
        "text": reply.text,
        "turn": reply.turn,
        "number": reply.number,
        "stop": reply.stop,
        "question": reply.question,
        "steps": reply.steps,
        "usage": asdict(reply.usage),
    }


def encode_frame(event: str, data: Mapping[str, Any]) -> bytes:
    """One event; JSON has no line breaks, so its data is one line."""
    return _FRAME % (event.encode(), encode_json(data))


async def encode_event(event: AgentEvent) -> bytes:
    """An event of a turn as the client gets it."""
    data: dict[str, Any]
    match event:
        case TextDelta(text):
            name, data = "text", {"text": text}
        case ThinkingDelta(text):
            name, data = "thinking", {"text": text}
        case CallStarted(id, tool):
            name, data = "call", {"id": id, "name": tool}
        case ToolAnswered(call, message):
            result = {"id": call.id, "name": call.name, "arguments": call.arguments}
            name, data = "result", {**result, "text": message.text, "is_error": message.is_error}
        case PartialOutput(value):
            name, data = "output", {"value": value}
        case ContextCompacted():
            name, data = "compacted", asdict(event)
        case TurnEnded(reply):
            name, data = "done", reply_body(reply)
        case _:
            assert_never(event)
    return _FRAME % (name.encode(), await encode_large_json(data))


class EventResponse(Response, ABC):
    """Answers with events until there are no more, or the client goes away."""

    # Sent when the server closes before the end.
    interrupted = b""

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Send all events, and the last one in any case."""
        headers = [(name.encode(), value.encode()) for name, value in EVENT_HEADERS.items()]
        await send({"type": "http.response.start", "status": 200, "headers": headers})
        last = self.interrupted
        try:
            async with anyio.create_task_group() as group:
                group.start_soon(cancel_on_disconnect, receive, group.cancel_scope)
                group.start_soon(self.keep_alive, send)
                last = await self.send_events(send)
                group.cancel_scope.cancel()
        finally:
            with anyio.move_on_after(LAST_SECONDS, shield=True):
                await send({"type": "http.response.body", "body": last, "more_body": False})

    @abstractmethod
    async def send_events(self, send: Send) -> bytes:
        """Send the events as they come, and return the last one to send."""

    async def keep_alive(self, send: Send) -> None:
        """Send comments while nothing else is sent."""


class EventStream(EventResponse):
    """Answers with the events of a turn; the last is `done` or `error`."""

    interrupted = encode_frame("error", NODE_CLOSING.body())

    def __init__(self, stream: AgentStream, *, keep_alive_seconds: float) -> None:
        super().__init__()
        self._stream, self._seconds = stream, keep_alive_seconds

    async def send_events(self, send: Send) -> bytes:
        try:
            async for event in self._stream:
                if isinstance(event, TurnEnded):
                    return await encode_event(event)
                await send_piece(send, await encode_event(event))
        except Exception as error:
            return encode_frame("error", client_error(error).body())
        finally:
            with anyio.move_on_after(LAST_SECONDS, shield=True):
                await self._stream.aclose()
        return self.interrupted

    async def keep_alive(self, send: Send) -> None:
        while True:
            await anyio.sleep(self._seconds)
            await send_piece(send, COMMENT)


async def cancel_on_disconnect(receive: Receive, scope: anyio.CancelScope) -> None:
    """Cancel the work for a client when it disconnects."""
    while (await receive())["type"] != "http.disconnect":
        pass
    scope.cancel()


async def send_piece(send: Send, body: bytes) -> None:
    await send({"type": "http.response.body", "body": body, "more_body": True})
