"""The delay of a stream's first byte through the OpenAI-compatible endpoint, beside a bare proxy.

Three processes: a provider that begins to answer at once, the endpoint with its memory in a SQLite file, and
a proxy of thirty lines that does nothing but pass bytes on. Endpoint and proxy run on the same server and are
asked in turn, with the same bodies. The client sends its whole history with every request, as most do.

The model `paced` answers in pieces with pauses: 200 such streams at once show how many the endpoint carries.

`python -m benchmarks.endpoint provider`, `... proxy URL` and `... endpoint URL FOLDER` are the three; each
prints its port and ends when its input is closed.
"""

from __future__ import annotations

import asyncio
import gc
import json
import os
import socket
import subprocess
import sys
import time
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from statistics import median
from typing import Any

import httpx

from benchmarks.table import Figure
from benchmarks.talk import question

PIECES, PAUSE_SECONDS = 20, 0.02
TURNS, STREAMS, STREAM_ROUNDS = 10, 200, 2
# Messages that a client has before it asks, and how often it then asks. Of 60 requests, p95 would be the
# third slowest, by chance twice as much as the next time.
HISTORIES = {0: 300, 400: 240, 2000: 240}
WARM = 40
SIDES = ("endpoint", "proxy")


async def measure(folder: Path) -> list[Figure]:
    with (
        _running("provider") as provider,
        _running("proxy", provider) as proxy,
        _running("endpoint", provider, str(folder)) as endpoint,
    ):
        urls = {"endpoint": endpoint, "proxy": proxy}
        limits = httpx.Limits(max_connections=None, max_keepalive_connections=None)
        async with httpx.AsyncClient(limits=limits, timeout=60.0, trust_env=False) as client:
            figures = []
            for length, requests in HISTORIES.items():
                figures += _first_byte(length, await _ask_in_turn(client, urls, length, requests))
            figures += _streams(await _ask_at_once(client, urls))
    return figures


@dataclass
class Talk:
    """A conversation as its client keeps it."""

    name: str
    length: int
    messages: list[dict[str, Any]] = field(default_factory=list)
    asked: int = 0

    def __post_init__(self) -> None:
        self.begin()

    def begin(self) -> None:
        """A new conversation of the given length, like no other."""
        self.messages = [{"role": "system", "content": f"You look after the orders of shop {self.name}."}]
        for number in range(self.length // 2):
            self.messages += [question(number), {"role": "assistant", "content": _answer(number)}]

    def next_body(self) -> bytes:
        """A request with one more question; a short conversation ends after some turns."""
        if not self.length and len(self.messages) > 2 * TURNS:
            self.begin()
            self.messages[0]["content"] += f" It is day {self.asked}."
        self.messages.append(question(self.asked + self.length))
        self.asked += 1
        return _body(self.messages)

    def note(self, answer: str) -> None:
        self.messages.append({"role": "assistant", "content": answer})


def _answer(number: int) -> str:
    return f"Order {number} is on its way. It left on Monday, in two parcels; the second is a day behind." * 2


def _body(messages: list[dict[str, Any]], model: str = "quick") -> bytes:
    return json.dumps({"model": model, "messages": messages, "stream": True}).encode()


@dataclass(frozen=True)
class Streamed:
    """An answer: when its first byte came, in seconds, what it says, and whether it came to its end."""

    first_byte: float
    text: str
    is_whole: bool


async def _stream(client: httpx.AsyncClient, url: str, body: bytes, **headers: str) -> Streamed:
    headers |= {"content-type": "application/json", "authorization": "Bearer k"}
    started = time.perf_counter()
    async with client.stream("POST", f"{url}/v1/chat/completions", content=body, headers=headers) as response:
        pieces = response.aiter_raw()
        data = await anext(pieces)
        first_byte = time.perf_counter() - started
        if response.status_code != 200:
            raise RuntimeError(f"{response.status_code}: {data.decode()[:300]}")
        data += b"".join([piece async for piece in pieces])
    lines = [line.removeprefix("data: ") for line in data.decode().splitlines() if line]
    events = [json.loads(line) for line in lines if line != "[DONE]"]
    texts = [choice["delta"].get("content") or "" for event in events for choice in event["choices"]]
    return Streamed(first_byte, "".join(texts), lines[-1] == "[DONE]")


async def _ask_in_turn(
    client: httpx.AsyncClient, urls: dict[str, str], length: int, requests: int
) -> dict[str, list[float]]:
    """The seconds to the first byte of each request, of both sides."""
    samples: dict[str, list[float]] = {side: [] for side in SIDES}
    talks = {side: Talk(f"{length}", length) for side in SIDES}
    gc.collect()
    gc.disable()
    try:
        for number in range(WARM + requests):
            for side in SIDES if number % 2 else SIDES[::-1]:
                body = talks[side].next_body()
                answer = await _stream(client, urls[side], body)
                talks[side].note(answer.text)
                if number >= WARM:
                    samples[side].append(answer.first_byte)
    finally:
        gc.enable()
    return samples


async def _ask_at_once(client: httpx.AsyncClient, urls: dict[str, str]) -> dict[str, list[tuple[float, int]]]:
    """How long all streams of a round took, and how many of them came to their end, of both sides."""
    found: dict[str, list[tuple[float, int]]] = {side: [] for side in SIDES}
    for number in range(STREAM_ROUNDS):
        for side in SIDES if number % 2 else SIDES[::-1]:
            bodies = [_body([question(number * STREAMS + at)], "paced") for at in range(STREAMS)]
            started = time.perf_counter()
            answers = await asyncio.gather(
                *(
                    _stream(client, urls[side], body, **{"x-conversation-id": f"{number}-{at}"})
                    for at, body in enumerate(bodies)
                )
            )
            took = time.perf_counter() - started
            expected = "".join(f"word {piece} " for piece in range(PIECES))
            found[side].append((took, sum(one.is_whole and one.text == expected for one in answers)))
    return found


def _first_byte(length: int, samples: dict[str, list[float]]) -> list[Figure]:
    kind = f"a client with {length:,} messages" if length else f"conversations of up to {2 * TURNS} messages"
    return [
        Figure(
            name=f"{kind}: ms added to the first byte, {name}",
            ours=_ms(at(samples["endpoint"])),
            floor=_ms(at(samples["proxy"])),
            value=(at(samples["endpoint"]) - at(samples["proxy"])) * 1000,
            bound=5,
        )
        for name, at in (("p50", median), ("p95", _p95))
    ]


def _streams(rounds: dict[str, list[tuple[float, int]]]) -> list[Figure]:
    took = {side: median(seconds for seconds, _ in found) for side, found in rounds.items()}
    whole = {side: min(count for _, count in found) for side, found in rounds.items()}
    pieces = STREAMS * PIECES
    return [
        Figure(
            name=f"{STREAMS} streams at once: complete ones",
            ours=str(whole["endpoint"]),
            floor=str(whole["proxy"]),
            value=whole["endpoint"],
            bound=STREAMS,
            at_most=False,
        ),
        Figure(
            name=f"{STREAMS} streams at once: pieces a second / proxy",
            ours=f"{pieces / took['endpoint']:,.0f}/s",
            floor=f"{pieces / took['proxy']:,.0f}/s",
            value=took["proxy"] / took["endpoint"],
            bound=0.5,
            at_most=False,
        ),
    ]


def _p95(taken: list[float]) -> float:
    return sorted(taken)[int(len(taken) * 0.95)]


def _ms(seconds: float) -> str:
    return f"{seconds * 1000:.1f} ms"


@contextmanager
def _running(*arguments: str) -> Iterator[str]:
    """One of the three programs in a process of its own; its address."""
    command = [sys.executable, "-m", "benchmarks.endpoint", *arguments]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        assert process.stdin is not None
        yield f"http://127.0.0.1:{process.stdout.readline().strip()}"
        process.stdin.close()


async def _provide(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    """Chat completions in pieces: at once, or `paced`. HTTP/1.1 with connections kept alive."""
    try:
        while await reader.readline():
            length = 0
            while (header := await reader.readline()).strip():
                name, _, value = header.decode().partition(":")
                length = int(value) if name.lower() == "content-length" else length
            body = await reader.readexactly(length)
            is_paced = b'"paced"' in body[:100] or b'"paced"' in body[-100:]
            writer.write(
                b"HTTP/1.1 200 -\r\ncontent-type: text/event-stream\r\ntransfer-encoding: chunked\r\n\r\n"
            )
            for number in range(PIECES):
                choice = {"index": 0, "delta": {"content": f"word {number} "}, "finish_reason": None}
                _write_event(writer, {"id": "1", "object": "chat.completion.chunk", "choices": [choice]})
                if is_paced:
                    await writer.drain()
                    await asyncio.sleep(PAUSE_SECONDS)
            _write_event(writer, {"id": "1", "choices": [{"index": 0, "delta": {}, "finish_reason": "stop"}]})
            writer.write(b"e\r\ndata: [DONE]\n\n\r\n0\r\n\r\n")
            await writer.drain()
    except (ConnectionError, asyncio.IncompleteReadError):
        pass
    finally:
        writer.close()


def _write_event(writer: asyncio.StreamWriter, event: dict[str, Any]) -> None:
    data = f"data: {json.dumps(event)}\n\n".encode()
    writer.write(b"%x\r\n%b\r\n" % (len(data), data))


def _make_proxy(provider: str) -> Any:
    """A reverse proxy that reads no body: it passes bytes on."""
    from starlette.applications import Starlette
    from starlette.requests import Request
    from starlette.responses import StreamingResponse
    from starlette.routing import Route

    limits = httpx.Limits(max_connections=None, max_keepalive_connections=None)
    client = httpx.AsyncClient(limits=limits, timeout=60.0, trust_env=False)

    async def pass_on(request: Request) -> StreamingResponse:
        kept = ("content-type", "authorization")
        headers = {name: value for name, value in request.headers.items() if name in kept}
        asked = client.build_request(
            request.method, f"{provider}{request.url.path}", headers=headers, content=await request.body()
        )
        response = await client.send(asked, stream=True)

        async def pieces() -> AsyncIterator[bytes]:
            try:
                async for piece in response.aiter_raw():
                    yield piece
            finally:
                await response.aclose()

        kind = response.headers["content-type"]
        return StreamingResponse(pieces(), response.status_code, {"content-type": kind})

    return Starlette(routes=[Route("/v1/{path:path}", pass_on, methods=["POST"])])


def _make_endpoint(provider: str, folder: str) -> Any:
    from autonomy_ctx.server import endpoint_app

    memory = f"sqlite:///{Path(folder) / 'talks.db'}"
    return endpoint_app(upstream=f"{provider}/v1", scope="bench", memory=memory)


@asynccontextmanager
async def _serving(app: Any) -> AsyncIterator[int]:
    """An application behind uvicorn; its port."""
    import uvicorn

    # Connections wait longer than a round takes: one that the server closes as it is used again is no answer.
    config = uvicorn.Config(
        app,
        log_config=None,
        access_log=False,
        http="h11",
        loop="asyncio",
        backlog=2048,
        timeout_keep_alive=75,
    )
    server = uvicorn.Server(config)
    # With its protocol: asyncio sends small pieces at once only where it knows that it is TCP.
    with socket.socket(socket.AF_INET, socket.SOCK_STREAM, socket.IPPROTO_TCP) as listening:
        listening.bind(("127.0.0.1", 0))
        listening.listen(2048)
        serving = asyncio.create_task(server.serve(sockets=[listening]))
        yield listening.getsockname()[1]
        server.should_exit = True
        await serving


async def _run(kind: str, *arguments: str) -> None:
    if kind == "provider":
        listening = await asyncio.start_server(_provide, "127.0.0.1", 0, backlog=2048)
        print(listening.sockets[0].getsockname()[1], flush=True)
        await asyncio.to_thread(sys.stdin.read)
        os._exit(0)
    app = _make_proxy(*arguments) if kind == "proxy" else _make_endpoint(*arguments)
    async with _serving(app) as port:
        if kind == "endpoint":
            from autonomy_ctx.cli.endpoint import collect_garbage_less_often

            collect_garbage_less_often()
        print(port, flush=True)
        await asyncio.to_thread(sys.stdin.read)
    os._exit(0)


if __name__ == "__main__":
    asyncio.run(_run(*sys.argv[1:]))
