"""A model server on a loopback port that says what a test tells it to, down to the byte."""

from __future__ import annotations

import json
import ssl
from collections.abc import AsyncIterator, Iterable, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import anyio
from anyio.abc import ByteStream, Listener, SocketAttribute
from anyio.streams.buffered import BufferedByteReceiveStream
from anyio.streams.tls import TLSListener

# A certificate for 127.0.0.1 with its key, and the authority that signed it.
CERTIFICATES = Path(__file__).parent / "tls"
AUTHORITY = CERTIFICATES / "authority.pem"


@dataclass(frozen=True)
class Seen:
    """A request as it arrived."""

    path: str
    headers: Mapping[str, str]
    body: Any


@dataclass
class Answer:
    """What to answer one request with.

    `before` is waited for before the first byte, `after` before the end. `cut` drops the connection: before
    the first byte, or when all chunks are sent.
    """

    chunks: Iterable[bytes] = ()
    status: int = 200
    headers: Mapping[str, str] = field(default_factory=dict)
    before: anyio.Event | None = None
    after: anyio.Event | None = None
    cut: str = ""


@dataclass
class ModelServer:
    """Gives one answer after the other, and the last one for ever."""

    answers: Sequence[Answer]
    url: str = ""
    seen: list[Seen] = field(default_factory=list)
    connections: int = 0
    arrived: anyio.Event = field(default_factory=anyio.Event)
    gone: anyio.Event = field(default_factory=anyio.Event)

    async def serve(self, stream: ByteStream) -> None:
        self.connections += 1
        reader = BufferedByteReceiveStream(stream)
        try:
            async with stream:
                while await self._exchange(stream, reader):
                    pass
        except (
            anyio.BrokenResourceError,
            anyio.ClosedResourceError,
            anyio.EndOfStream,
            anyio.IncompleteRead,
        ):
            self.gone.set()

    def answer(self, seen: Seen) -> Answer:
        """What to answer a request with."""
        return self.answers[min(len(self.seen), len(self.answers)) - 1]

    async def _exchange(self, stream: ByteStream, reader: BufferedByteReceiveStream) -> bool:
        head = (await reader.receive_until(b"\r\n\r\n", 65536)).decode("latin-1").split("\r\n")
        headers = {name.lower(): value for name, _, value in (line.partition(": ") for line in head[1:])}
        data = await reader.receive_exactly(int(headers.get("content-length", "0")))
        self.seen.append(Seen(head[0].split(" ")[1], headers, json.loads(data) if data else None))
        self.arrived.set()
        answer = self.answer(self.seen[-1])
        if answer.before is not None:
            await answer.before.wait()
        if answer.cut == "first":
            return False
        lines = [f"HTTP/1.1 {answer.status} X", "transfer-encoding: chunked"]
        lines += [f"{name}: {value}" for name, value in answer.headers.items()]
        await stream.send("\r\n".join([*lines, "", ""]).encode("latin-1"))
        for chunk in answer.chunks:
            await stream.send(b"%x\r\n%b\r\n" % (len(chunk), chunk))
        if answer.after is not None:
            await answer.after.wait()
        if answer.cut:
            return False
        await stream.send(b"0\r\n\r\n")
        return True


@asynccontextmanager
async def serving(*answers: Answer, tls: bool = False) -> AsyncIterator[ModelServer]:
    """A server that runs for the length of the block; with TLS by a certificate of `AUTHORITY`."""
    server = ModelServer(answers)
    async with (
        await anyio.create_tcp_listener(local_host="127.0.0.1") as listener,
        anyio.create_task_group() as group,
    ):
        scheme = "https" if tls else "http"
        server.url = f"{scheme}://127.0.0.1:{listener.extra(SocketAttribute.local_port)}"
        served: Listener[Any] = listener
        if tls:
            context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
            context.load_cert_chain(CERTIFICATES / "server.pem")
            served = TLSListener(listener, context, standard_compatible=False)
        group.start_soon(served.serve, server.serve)
        yield server
        group.cancel_scope.cancel()


def as_json(value: Any, status: int = 200, **headers: str) -> Answer:
    """A whole JSON body; `_` in a header's name stands for `-`."""
    named = {name.replace("_", "-"): text for name, text in headers.items()}
    return Answer(
        [json.dumps(value).encode()], status=status, headers={"content-type": "application/json", **named}
    )


def events(*values: Any, every: int = 0, done: bool = True, **options: Any) -> Answer:
    """Server-sent events, in chunks of so many bytes; a value may be a pair of a name and data."""
    text = ""
    for value in values:
        name, data = value if isinstance(value, tuple) else (None, value)
        text += (f"event: {name}\n" if name else "") + f"data: {json.dumps(data, ensure_ascii=False)}\n\n"
    data = (text + ("data: [DONE]\n\n" if done else "")).encode()
    size = every or len(data) or 1
    chunks = [data[at : at + size] for at in range(0, len(data), size)]
    return Answer(chunks, headers={"content-type": "text/event-stream"}, **options)


def chat(text: str, stop: str = "stop") -> dict[str, Any]:
    """A whole answer in OpenAI's words."""
    return {
        "id": "chat-1",
        "object": "chat.completion",
        "model": "served",
        "choices": [{"index": 0, "finish_reason": stop, "message": {"role": "assistant", "content": text}}],
        "usage": {"prompt_tokens": 11, "completion_tokens": 3, "prompt_tokens_details": {"cached_tokens": 4}},
    }


def chat_events(*texts: str, stop: str | None = "stop") -> list[Any]:
    """The same in pieces."""
    made: list[Any] = [
        {"id": "chat-1", "model": "served", "choices": [{"index": 0, "delta": {"content": text}}]}
        for text in texts
    ]
    if stop is not None:
        made.append({"id": "chat-1", "choices": [{"index": 0, "delta": {}, "finish_reason": stop}]})
        made.append({"id": "chat-1", "choices": [], "usage": {"prompt_tokens": 11, "completion_tokens": 3}})
    return made


def claude(text: str, stop: str = "end_turn") -> dict[str, Any]:
    """A whole answer in Anthropic's words."""
    return {
        "id": "msg-1",
        "type": "message",
        "role": "assistant",
        "model": "served",
        "content": [{"type": "text", "text": text}],
        "stop_reason": stop,
        "usage": {"input_tokens": 7, "cache_read_input_tokens": 4, "output_tokens": 3},
    }


def claude_events(*texts: str, stop: str | None = "end_turn") -> list[Any]:
    """The same in pieces."""
    message = {**claude(""), "content": [], "stop_reason": None}
    made: list[dict[str, Any]] = [
        {"type": "message_start", "message": message},
        {"type": "ping"},
        {"type": "content_block_start", "index": 0, "content_block": {"type": "text", "text": ""}},
    ]
    made += [
        {"type": "content_block_delta", "index": 0, "delta": {"type": "text_delta", "text": text}}
        for text in texts
    ]
    if stop is not None:
        made += [
            {"type": "content_block_stop", "index": 0},
            {"type": "message_delta", "delta": {"stop_reason": stop}, "usage": {"output_tokens": 3}},
            {"type": "message_stop"},
        ]
    return [(one["type"], one) for one in made]
