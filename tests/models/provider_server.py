"""A provider on a loopback port: refuses what the real one refuses, answers from a script, fails on order."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from enum import Enum, auto
from typing import Any, TypeAlias

import anyio
from anyio.abc import SocketAttribute
from formats.frames import frame, header
from models.model_server import Answer, ModelServer, Seen, as_json
from models.provider_words import ALL, Asked, Bedrock, Say, Words, sse

RETRY_AFTER = 7
SSE, FRAMES = "text/event-stream", "application/vnd.amazon.eventstream"
# How many pieces of a stream there are up to the first of its text.
FIRST_TOKEN = 3


class Fault(Enum):
    """What a provider does instead of answering."""

    LIMITED = auto()
    OVERLOADED = auto()
    CUT_BEFORE = auto()
    CUT_AFTER_FIRST_TOKEN = auto()
    SILENT = auto()
    GARBAGE = auto()
    ERROR_WITH_STATUS_200 = auto()
    ERROR_AFTER_FIRST_TOKEN = auto()
    TOO_LONG = auto()


# An answer, one that depends on what was asked, or none.
Step: TypeAlias = Say | Callable[[Asked], Say] | Fault


@dataclass
class ProviderServer(ModelServer):
    """Takes the steps of its script one after the other, the last for ever."""

    answers: Sequence[Answer] = ()
    words: Sequence[Words] = ()
    script: Sequence[Step] = ()
    refused: list[str] = field(default_factory=list)
    # Never set: whoever waits for it gets no answer.
    never: anyio.Event = field(default_factory=anyio.Event)
    # Set to have every answer wait for it.
    before: anyio.Event | None = None
    _taken: int = 0
    _largest: float = float("inf")

    def answer(self, seen: Seen) -> Answer:
        words = self.speaking(seen)
        try:
            streamed = words.check(seen.path, seen.headers, seen.body)
        except (AssertionError, KeyError, TypeError) as problem:
            self.refused.append(f"{words.name}: {problem!r}")
            return as_json({"error": {"type": "invalid_request_error", "message": "refused"}}, 400)
        if (size := _size(seen.body)) >= self._largest:
            return as_json(words.too_long, 400)
        step = self.script[min(self._taken, len(self.script) - 1)]
        self._taken += 1
        if step is Fault.TOO_LONG:
            self._largest = size
        if isinstance(step, Fault):
            return self._failed(words, step, streamed)
        say = step if isinstance(step, Say) else step(words.asked(seen.body))
        return self._told(words, words.pieces(say) if streamed else [_json(words.whole(say))], streamed)

    def speaking(self, seen: Seen) -> Words:
        """Whose words a request is in, by its path."""
        places = {"chat/completions": "openai", "responses": "responses", "messages": "anthropic"}
        found = places.get(seen.path.removeprefix("/v1/"))
        found = found or ("bedrock" if seen.path.startswith("/model/") else "google")
        return next(one for one in self.words if one.name == found)

    def asked(self, number: int = -1) -> Asked:
        """What a request said."""
        seen = self.seen[number]
        return self.speaking(seen).asked(seen.body)

    def _failed(self, words: Words, fault: Fault, streamed: bool) -> Answer:
        half = Say("Half of an answer.")
        match fault:
            case Fault.LIMITED:
                return as_json(words.overloaded, 429, retry_after=str(RETRY_AFTER))
            case Fault.OVERLOADED:
                return as_json(words.overloaded, 529 if words.name == "anthropic" else 503)
            case Fault.CUT_BEFORE:
                return Answer(cut="first")
            case Fault.SILENT:
                return Answer(before=self.never)
            case Fault.TOO_LONG:
                return as_json(words.too_long, 400)
            case Fault.GARBAGE:
                broken = [_damaged(words.pieces(half)[0])] if streamed else [b'{"id": "1", "choices": [']
                return self._told(words, broken, streamed)
            case Fault.ERROR_WITH_STATUS_200:
                broken = [_error_event(words) if streamed else _json({"error": words.overloaded})]
                return self._told(words, broken, streamed)
            case Fault.CUT_AFTER_FIRST_TOKEN:
                sent = words.pieces(half)[:FIRST_TOKEN] if streamed else [_json(words.whole(half))[:40]]
                return self._told(words, sent, streamed, cut="end")
            case Fault.ERROR_AFTER_FIRST_TOKEN:
                return self._told(words, [*words.pieces(half)[:FIRST_TOKEN], _error_event(words)], streamed)

    def _told(self, words: Words, chunks: Sequence[bytes], streamed: bool, cut: str = "") -> Answer:
        kind = "application/json" if not streamed else FRAMES if isinstance(words, Bedrock) else SSE
        return Answer(chunks, headers={"content-type": kind}, before=self.before, cut=cut)


@asynccontextmanager
async def providing(*script: Step) -> AsyncIterator[ProviderServer]:
    """A server of all providers that runs for the length of the block."""
    server = ProviderServer(words=[make() for make in ALL.values()], script=script)
    async with (
        await anyio.create_tcp_listener(local_host="127.0.0.1") as listener,
        anyio.create_task_group() as group,
    ):
        server.url = f"http://127.0.0.1:{listener.extra(SocketAttribute.local_port)}"
        group.start_soon(listener.serve, server.serve)
        yield server
        group.cancel_scope.cancel()


def _json(value: Any) -> bytes:
    return json.dumps(value).encode()


def _size(body: Any) -> int:
    return len(_json(body))


def _damaged(piece: bytes) -> bytes:
    """A piece that cannot be read: half of its JSON, or a frame whose checksum is wrong."""
    if piece.startswith((b"data:", b"event:")):
        return piece[: len(piece) // 2] + b"\n\n"
    return piece[:-1] + bytes([piece[-1] ^ 1])


def _error_event(words: Words) -> bytes:
    if isinstance(words, Bedrock):
        headers = [(":message-type", "exception"), (":exception-type", "serviceUnavailableException")]
        return frame(b"".join(header(*pair) for pair in headers), b'{"message": "overloaded"}')
    if words.name == "responses":
        return sse({"type": "error", **words.overloaded["error"]}, "error")
    return sse(words.overloaded, "error" if words.name == "anthropic" else None)
