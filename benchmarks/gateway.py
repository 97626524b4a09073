"""What a request costs in the endpoint, beside a bare proxy and LiteLLM's proxy: time, CPU and memory.

Each is one process in front of a provider that answers at once, in a process of its own. The workloads are
those of public comparisons of gateways: a short and a long chat, streamed and not, the Messages API, tools.
The bare proxy is uvicorn and httpx, and passes bytes on. LiteLLM runs as its documentation says for one core,
without a database. The endpoint is `autonomy-ctx serve` with a SQLite file. It does more: it finds the
conversation of each request, stores question and answer before the last byte is sent, and sends a context
that stays small. In the long chats, the CPU of its summaries is part of the figure.

All clients send their whole history, as most do. LiteLLM is measured where `make bench-gateway` installed it.

`python -m benchmarks.gateway` is the provider: it prints its port and ends when its input is closed.
"""

from __future__ import annotations

import asyncio
import json
import os
import re
import secrets
import socket
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from itertools import count
from pathlib import Path
from statistics import median
from typing import Any, NamedTuple
from urllib.parse import urlsplit

import psutil

from benchmarks.table import Figure
from benchmarks.talk import answer, question, said

ROOT = Path(__file__).parent.parent
LITELLM = ROOT / ".venv-peers-litellm" / "bin" / "litellm"
# What `pip install "autonomy-ctx[cli,server]"` installs, and nothing else that could be imported.
INSTALLED = ROOT / ".venv-demo" / "bin" / "python"
DIRECT, BARE, OURS, PEER = "direct", "bare proxy", "endpoint", "LiteLLM"
# Requests of each round: by clients at the same time, and by one alone.
ROUNDS, CLIENTS, AT_ONCE, ALONE = 3, 10, 200, 50
PATIENCE_SECONDS, REST_SECONDS = 60, 0.5
STREAMS, PIECES, PAUSE_SECONDS = 500, 20, 0.02
LONG, EXCHANGES = 100, 5
MODEL, PACED, CLAUDE = "gpt-4o-mini", "gpt-4o", "claude-sonnet-4-5"
ANSWER = said(7)
# LiteLLM does not start with a weak one.
KEY = f"sk-{secrets.token_hex(32)}"
TOOLS = 10
_CALL = re.compile(rb'"id": ?"(call_\d+)"')
_ROLE = re.compile(rb'"role": ?"(\w+)"')


@dataclass(frozen=True, slots=True)
class Workload:
    """The requests of one kind of client."""

    name: str
    path: str = "/v1/chat/completions"
    model: str = MODEL
    history: int = 0
    is_streamed: bool = False
    has_tools: bool = False


# The CPU of a request, as a multiple of the bare proxy's.
MOST_CPU = 3.0
WORKLOADS = (
    Workload("short chat"),
    Workload("short chat, streamed", is_streamed=True),
    # With that of the summaries, which are written in the background of the same process.
    Workload("long chat", history=LONG),
    Workload("long chat, streamed", history=LONG, is_streamed=True),
    Workload("Messages, streamed", "/v1/messages", CLAUDE, is_streamed=True),
    Workload("tools", has_tools=True),
)


class Gateway(NamedTuple):
    """A server to be asked, and its process; None for the provider itself."""

    name: str
    url: str
    process: psutil.Process | None = None

    def cpu_seconds(self) -> float:
        """User and system time, of its children too."""
        return (
            0.0
            if self.process is None
            else sum(one.cpu_times().user + one.cpu_times().system for one in _family(self.process))
        )

    def memory(self) -> float:
        """Resident memory, in MB."""
        return (
            0.0 if self.process is None else sum(one.memory_info().rss for one in _family(self.process)) / 1e6
        )


def _family(process: psutil.Process) -> list[psutil.Process]:
    return [process, *process.children(recursive=True)]


@dataclass
class Talk:
    """A conversation as its client keeps it; a short one begins anew after some questions."""

    name: str
    workload: Workload
    messages: list[dict[str, Any]] = field(default_factory=list)
    asked: int = 0

    def next_body(self) -> bytes:
        """The next request."""
        work = self.workload
        if not work.history and self.asked % EXCHANGES == 0 and not self._waits():
            self.messages = []
        if not self.messages:
            system = f"You look after the orders of shop {self.name}. It is day {self.asked}."
            self.messages = [{"role": "system", "content": system}]
            for number in range(work.history // 2):
                self.messages += [question(number), answer(number)]
        if not self._waits():
            self.messages.append(question(work.history + self.asked))
            self.asked += 1
        body: dict[str, Any] = {"model": work.model, "messages": self.messages}
        if work.path == "/v1/messages":
            body |= {"system": self.messages[0]["content"], "messages": self.messages[1:], "max_tokens": 512}
        if work.has_tools:
            body["tools"] = [_tool(number) for number in range(TOOLS)]
        return json.dumps(body | ({"stream": True} if work.is_streamed else {})).encode()

    def _waits(self) -> bool:
        return bool(self.messages) and self.messages[-1]["role"] == "tool"

    def note(self, body: bytes) -> None:
        """Keep an answer; a call is answered with its result."""
        call = _CALL.search(body) if self.workload.has_tools else None
        if call is None:
            self.messages.append({"role": "assistant", "content": ANSWER})
            return
        name = call[1].decode()
        self.messages += [
            {"role": "assistant", "content": None, "tool_calls": [_call(name)]},
            {"role": "tool", "tool_call_id": name, "content": said(self.asked, 300)},
        ]


def _tool(number: int) -> dict[str, Any]:
    properties = {"batch": {"type": "integer"}, "reason": {"type": "string", "description": said(number, 20)}}
    schema = {"type": "object", "properties": properties, "required": ["batch"]}
    function = {"name": f"find_order_{number}", "description": said(number, 40), "parameters": schema}
    return {"type": "function", "function": function}


def _call(name: str) -> dict[str, Any]:
    function = {"name": "find_order_3", "arguments": '{"batch": 12}'}
    return {"id": name, "type": "function", "function": function}


class Connection(asyncio.Protocol):
    """A client that sends bytes and gives back the body of the answer, with little work of its own."""

    def __init__(self) -> None:
        self._data = bytearray()
        self._answered: asyncio.Future[bytes] | None = None
        self.transport: Any = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self.transport = transport

    def data_received(self, data: bytes) -> None:
        self._data += data
        end = self._data.find(b"\r\n\r\n")
        if end < 0 or self._answered is None or self._answered.done():
            return
        head = bytes(self._data[:end]).lower()
        length = re.search(rb"content-length: *(\d+)", head)
        is_whole = (
            len(self._data) - end - 4 >= int(length[1]) if length else self._data.endswith(b"\r\n0\r\n\r\n")
        )
        if is_whole:
            body = bytes(self._data[end + 4 :])
            if head.split()[1] == b"200":
                self._answered.set_result(body if length else _dechunk(body))
            else:
                self._answered.set_exception(RuntimeError(f"{head[:40]!r} {body[:300]!r}"))
            self._data.clear()

    def connection_lost(self, exc: Exception | None) -> None:
        if self._answered is not None and not self._answered.done():
            self._answered.set_exception(RuntimeError(f"the connection broke off: {exc!r}"))

    async def ask(self, path: str, body: bytes) -> bytes:
        """Send a request and wait for the end of its answer."""
        self._answered = asyncio.get_running_loop().create_future()
        self.transport.write(
            b"POST %b HTTP/1.1\r\nhost: 127.0.0.1\r\ncontent-type: application/json\r\naccept: */*\r\n"
            b"authorization: Bearer %b\r\nanthropic-version: 2023-06-01\r\ncontent-length: %d\r\n\r\n%b"
            % (path.encode(), KEY.encode(), len(body), body)
        )
        try:
            return await asyncio.wait_for(self._answered, PATIENCE_SECONDS)
        except TimeoutError:
            raise RuntimeError(f"no answer to {path}") from None


def _dechunk(body: bytes) -> bytes:
    pieces = []
    while body:
        size, _, rest = body.partition(b"\r\n")
        pieces.append(rest[: int(size, 16)])
        body = rest[int(size, 16) + 2 :]
    return b"".join(pieces)


async def _connect(url: str) -> Connection:
    place = urlsplit(url)
    loop = asyncio.get_running_loop()
    _, connection = await loop.create_connection(Connection, "127.0.0.1", place.port or 80)
    return connection


@dataclass
class Measured:
    """The figures of one gateway in one workload."""

    alone: list[float] = field(default_factory=list)
    together: list[float] = field(default_factory=list)
    seconds: float = 0.0
    cpu: float = 0.0
    memory: float = 0.0

    @property
    def rate(self) -> float:
        """Requests a second."""
        return len(self.together) / self.seconds

    @property
    def cpu_ms(self) -> float:
        """CPU of a request, in milliseconds."""
        return self.cpu * 1000 / len(self.together)


class Clients:
    """The clients of one gateway in one workload, with their connections and conversations."""

    def __init__(self, gateway: Gateway, workload: Workload, connections: list[Connection]) -> None:
        self._gateway, self._workload, self._connections = gateway, workload, connections
        self._talks = [Talk(f"{workload.name} {number}", workload) for number in range(CLIENTS)]
        self.measured = Measured()

    @classmethod
    async def connect(cls, gateway: Gateway, workload: Workload) -> Clients:
        """Connect, and ask once each, which is not measured."""
        made = cls(gateway, workload, [await _connect(gateway.url) for _ in range(CLIENTS)])
        for at in range(CLIENTS):
            await made._ask(at, [])
        # A long history is summarized in the background: what is measured is how it goes on.
        while await made._works():
            pass
        return made

    async def _works(self) -> bool:
        """Tell whether the gateway does something, though nobody asks."""
        before = self._gateway.cpu_seconds()
        await asyncio.sleep(REST_SECONDS)
        return self._gateway.cpu_seconds() - before > REST_SECONDS / 5

    async def run(self) -> None:
        """One round: one client alone, then all at the same time."""
        found = self.measured
        await self._reconnect()
        for _ in range(ALONE):
            await self._ask(0, found.alone)
        await self._reconnect()
        cpu, started = self._gateway.cpu_seconds(), time.perf_counter()
        numbers = iter(range(AT_ONCE))
        await asyncio.gather(*(self._keep_asking(at, numbers) for at in range(CLIENTS)))
        found.seconds += time.perf_counter() - started
        found.cpu += self._gateway.cpu_seconds() - cpu
        found.memory = max(found.memory, self._gateway.memory())

    async def _reconnect(self) -> None:
        """Connect again: a server may be about to close those that were idle for some seconds."""
        self.close()
        self._connections = [await _connect(self._gateway.url) for _ in range(CLIENTS)]

    def close(self) -> None:
        for connection in self._connections:
            connection.transport.close()

    async def _keep_asking(self, at: int, numbers: Iterator[int]) -> None:
        for _ in numbers:
            await self._ask(at, self.measured.together)

    async def _ask(self, at: int, samples: list[float]) -> None:
        body = self._talks[at].next_body()
        started = time.perf_counter()
        answered = await self._connections[at].ask(self._workload.path, body)
        samples.append(time.perf_counter() - started)
        self._talks[at].note(answered)


async def measure(folder: Path) -> list[Figure]:
    with ExitStack() as stack:
        provider = stack.enter_context(_process(sys.executable, "-m", "benchmarks.gateway"))
        python = str(INSTALLED) if INSTALLED.exists() else sys.executable
        if python == sys.executable:
            print(f"no {INSTALLED.relative_to(ROOT)}: `make bench-gateway` installs it")
        gateways = [
            Gateway(DIRECT, provider.url),
            stack.enter_context(_started(BARE, python, "-m", "benchmarks.endpoint", "proxy", provider.url)),
            stack.enter_context(_started(OURS, *_serve(python, provider.url, folder))),
        ]
        if LITELLM.exists():
            gateways.append(stack.enter_context(_litellm(provider.url, folder)))
        else:
            print(f"no {LITELLM.relative_to(ROOT)}: LiteLLM is left out; `make bench-gateway` installs it")
        _show_head()
        found = {work: await _measure_workload(gateways, work) for work in WORKLOADS}
        streams = {one.name: await _stream_at_once(one) for one in gateways[1:]}
    print(f"load of the machine in the last minute: {os.getloadavg()[0]:.1f} on {os.cpu_count()} cores")
    return [*_figures(found), *_stream_figures(streams)]


async def _measure_workload(gateways: Sequence[Gateway], work: Workload) -> dict[str, Measured]:
    clients = {one.name: await Clients.connect(one, work) for one in gateways}
    for number in range(ROUNDS):
        for name in sorted(clients, reverse=bool(number % 2)):
            await clients[name].run()
    for one in clients.values():
        one.close()
    found = {name: one.measured for name, one in clients.items()}
    _show(work, found)
    return found


async def _stream_at_once(gateway: Gateway) -> tuple[int, float]:
    """How many of the streams came to their end with all they should say, and how long all took."""

    async def stream(number: int) -> bool:
        told = [{"role": "user", "content": f"Say it, number {number}."}]
        body = json.dumps({"model": PACED, "messages": told, "stream": True}).encode()
        try:
            connection = await _connect(gateway.url)
            answered = await connection.ask("/v1/chat/completions", body)
        except (RuntimeError, OSError):
            return False
        connection.transport.close()
        events = [line[6:] for line in answered.split(b"\n") if line.startswith(b"data: {")]
        texts = [
            one["delta"].get("content") or "" for event in events for one in json.loads(event)["choices"]
        ]
        return "".join(texts) == "".join(f"{number}.{piece} " for piece in range(PIECES))

    started = time.perf_counter()
    whole = sum(await asyncio.gather(*(stream(number) for number in range(STREAMS))))
    return whole, time.perf_counter() - started


def _show_head() -> None:
    print(f"\n{'':30}{'added alone, ms':>18}{f'{CLIENTS} clients, ms':>18}")
    print(f"{'':30}{'p50':>9}{'p99':>9}{'p50':>9}{'p99':>9}{'requests/s':>12}{'CPU ms':>8}{'MB':>7}")


def _show(work: Workload, sides: dict[str, Measured]) -> None:
    """All figures of a workload, as they were measured."""
    print(work.name)
    for name, one in sides.items():
        times = [_at(one.alone, share) - _at(sides[DIRECT].alone, share) for share in (0.5, 0.99)]
        times += [_at(one.together, share) for share in (0.5, 0.99)]
        shown = "".join(f"{seconds * 1000:9.1f}" for seconds in times)
        print(f"  {name:28}{shown}{one.rate:12,.0f}{one.cpu_ms:8.2f}{one.memory:7.0f}", flush=True)


def _figures(found: dict[Workload, dict[str, Measured]]) -> list[Figure]:
    figures = []
    for work, sides in found.items():
        ours, bare, peer = sides[OURS], sides[BARE], sides.get(PEER)
        figures.append(
            Figure(
                name=f"{work.name}: CPU / bare proxy",
                ours=f"{ours.cpu_ms:.2f} ms",
                floor=f"{bare.cpu_ms:.2f} ms",
                value=ours.cpu_ms / bare.cpu_ms,
                bound=MOST_CPU,
            )
        )
        if peer is not None:
            figures.append(
                Figure(
                    name=f"{work.name}: requests a second / {PEER}",
                    ours=f"{ours.rate:,.0f}/s",
                    floor=f"{peer.rate:,.0f}/s",
                    value=ours.rate / peer.rate,
                    bound=2,
                    at_most=False,
                )
            )
    names = set.intersection(*(set(sides) for sides in found.values()))
    memory = {name: max(sides[name].memory for sides in found.values()) for name in names}
    if PEER in memory:
        figures.append(
            Figure(
                name=f"resident memory / {PEER}",
                ours=f"{memory[OURS]:.0f} MB",
                floor=f"{memory[PEER]:.0f} MB",
                value=memory[OURS] / memory[PEER],
                bound=0.2,
            )
        )
    return figures


def _stream_figures(streams: dict[str, tuple[int, float]]) -> list[Figure]:
    shown = {name: f"{whole} in {seconds:.1f} s" for name, (whole, seconds) in streams.items()}
    others = ", ".join(f"{name} {text}" for name, text in shown.items() if name != OURS)
    return [
        Figure(
            name=f"{STREAMS} streams at once: complete ones",
            ours=shown[OURS],
            floor=others,
            value=streams[OURS][0],
            bound=STREAMS,
            at_most=False,
        )
    ]


def _at(samples: list[float], share: float) -> float:
    return median(samples) if share == 0.5 else sorted(samples)[int(len(samples) * share)]


# -- the processes ------------------------------------------------------------------------------------


class Started(NamedTuple):
    """A program that listens."""

    url: str
    pid: int


@contextmanager
def _process(*command: str, **options: Any) -> Iterator[Started]:
    """A program that prints its port, or its address in JSON. A TERM signal ends it."""
    with subprocess.Popen(
        command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, **options
    ) as process:
        assert process.stdout is not None
        assert process.stdin is not None
        line = process.stdout.readline().strip()
        url = (
            json.loads(line)["url"].removesuffix("/v1")
            if line.startswith("{")
            else f"http://127.0.0.1:{line}"
        )
        try:
            yield Started(url, process.pid)
        finally:
            process.stdin.close()
            process.terminate()


@contextmanager
def _started(name: str, *command: str) -> Iterator[Gateway]:
    with _process(*command) as started:
        yield Gateway(name, started.url, psutil.Process(started.pid))


def _serve(python: str, provider: str, folder: Path) -> list[str]:
    command = [python, "-m", "autonomy_ctx", "serve", "--json", "--upstream", f"{provider}/v1"]
    return [*command, "--port", "0", "--memory", str(folder / "talks.db")]


@contextmanager
def _litellm(provider: str, folder: Path) -> Iterator[Gateway]:
    """LiteLLM's proxy, in front of the same provider, without retries and logs."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    models = [
        {
            "model_name": model,
            "litellm_params": {"model": f"{kind}/{model}", "api_base": f"{provider}{path}", "api_key": "any"},
        }
        for kind, path, model in (
            ("openai", "/v1", MODEL),
            ("openai", "/v1", PACED),
            ("anthropic", "", CLAUDE),
        )
    ]
    settings = {"num_retries": 0, "request_timeout": 60, "telemetry": False, "callbacks": []}
    config = folder / "litellm.yaml"
    # YAML is a superset of JSON.
    config.write_text(json.dumps({"model_list": models, "litellm_settings": settings}))
    log = (folder / "litellm.log").open("w")
    command = [str(LITELLM), "--config", str(config), "--host", "127.0.0.1", "--port", str(port)]
    offline = {"LITELLM_LOCAL_MODEL_COST_MAP": "True", "LITELLM_LOG": "ERROR", "LITELLM_MASTER_KEY": KEY}
    with log, subprocess.Popen(command, stdout=log, stderr=log, env=os.environ | offline) as process:
        try:
            while process.poll() is None:
                with socket.socket() as tried:
                    if tried.connect_ex(("127.0.0.1", port)) == 0:
                        break
                time.sleep(0.2)
            else:
                raise RuntimeError(f"LiteLLM did not start: {(folder / 'litellm.log').read_text()[-2000:]}")
            yield Gateway(PEER, f"http://127.0.0.1:{port}", psutil.Process(process.pid))
        finally:
            process.terminate()


# -- the provider -------------------------------------------------------------------------------------


class Provider(asyncio.Protocol):
    """Answers with bytes that are there already; with a call if the user asks and there are tools."""

    calls = count(1)

    def __init__(self) -> None:
        self._data = bytearray()
        self._transport: Any = None
        self._tasks: set[asyncio.Task[None]] = set()

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = transport

    def data_received(self, data: bytes) -> None:
        self._data += data
        end = self._data.find(b"\r\n\r\n")
        if end < 0:
            return
        head, rest = bytes(self._data[:end]).lower(), bytes(self._data[end + 4 :])
        length = re.search(rb"content-length: *(\d+)", head)
        is_chunked = length is None and b"chunked" in head
        if not rest.endswith(b"0\r\n\r\n") if is_chunked else len(rest) < int(length[1] if length else 0):
            return
        body = _dechunk(rest) if is_chunked else rest
        self._data.clear()
        if f'"{PACED}"'.encode() in body:
            task = asyncio.ensure_future(self._stream_slowly(body))
            self._tasks.add(task)
            task.add_done_callback(self._tasks.discard)
        elif b"/messages" in head.partition(b"\r\n")[0]:
            self._transport.write(MESSAGE_STREAM if re.search(rb'"stream": ?true', body) else MESSAGE)
        elif b'"tools"' in body and _ROLE.findall(body)[-1] == b"user":
            self._transport.write(
                _completion({"content": None, "tool_calls": [_call(f"call_{next(self.calls)}")]})
            )
        else:
            self._transport.write(CHAT_STREAM if re.search(rb'"stream": ?true', body) else CHAT)

    async def _stream_slowly(self, body: bytes) -> None:
        found = re.search(rb"number (\d+)", body)
        number = int(found[1]) if found else 0
        self._transport.write(STREAM_HEAD)
        for piece in range(PIECES):
            self._transport.write(_chunk(_event(_delta({"content": f"{number}.{piece} "}))))
            await asyncio.sleep(PAUSE_SECONDS)
        self._transport.write(_chunk(_event(_delta({}, "stop")) + b"data: [DONE]\n\n") + b"0\r\n\r\n")


def _respond(data: dict[str, Any]) -> bytes:
    body = json.dumps(data).encode()
    head = b"HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ncontent-length: %d\r\n\r\n" % len(body)
    return head + body


def _completion(message: dict[str, Any]) -> bytes:
    stop = "tool_calls" if "tool_calls" in message else "stop"
    choice = {"index": 0, "message": {"role": "assistant", **message}, "finish_reason": stop}
    usage = {"prompt_tokens": 900, "completion_tokens": 100, "total_tokens": 1000}
    named = {"id": "chatcmpl-1", "object": "chat.completion", "created": 1, "model": MODEL}
    return _respond({**named, "choices": [choice], "usage": usage})


def _delta(delta: dict[str, Any], stop: str | None = None) -> dict[str, Any]:
    choice = {"index": 0, "delta": delta, "finish_reason": stop}
    named = {"id": "chatcmpl-1", "object": "chat.completion.chunk", "created": 1, "model": MODEL}
    return {**named, "choices": [choice]}


def _event(data: dict[str, Any], name: str = "") -> bytes:
    return (f"event: {name}\n" if name else "").encode() + f"data: {json.dumps(data)}\n\n".encode()


def _chunk(data: bytes) -> bytes:
    return b"%x\r\n%b\r\n" % (len(data), data)


def _pieces() -> list[str]:
    """The answer in as many pieces as a model would send."""
    step = -(-len(ANSWER) // PIECES)
    return [ANSWER[at : at + step] for at in range(0, len(ANSWER), step)]


def _message_events() -> list[bytes]:
    usage = {"input_tokens": 900, "output_tokens": 100}
    begun: dict[str, Any] = {**_MESSAGE, "content": [], "stop_reason": None, "usage": usage}
    block = {"index": 0, "content_block": {"type": "text", "text": ""}}
    deltas = [{"index": 0, "delta": {"type": "text_delta", "text": text}} for text in _pieces()]
    ended = {"delta": {"stop_reason": "end_turn", "stop_sequence": None}, "usage": usage}
    events: list[tuple[str, dict[str, Any]]] = [
        ("message_start", {"message": begun}),
        ("content_block_start", block),
    ]
    events += [("content_block_delta", delta) for delta in deltas]
    events += [("content_block_stop", {"index": 0}), ("message_delta", ended), ("message_stop", {})]
    return [_event({"type": name, **data}, name) for name, data in events]


STREAM_HEAD = b"HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\ntransfer-encoding: chunked\r\n\r\n"
_MESSAGE = {
    "id": "msg_1",
    "type": "message",
    "role": "assistant",
    "model": CLAUDE,
    "stop_reason": "end_turn",
    "stop_sequence": None,
}
MESSAGE = _respond(
    {
        **_MESSAGE,
        "content": [{"type": "text", "text": ANSWER}],
        "usage": {"input_tokens": 9, "output_tokens": 9},
    }
)
MESSAGE_STREAM = STREAM_HEAD + b"".join(map(_chunk, _message_events())) + b"0\r\n\r\n"
CHAT = _completion({"content": ANSWER})
CHAT_STREAM = b"".join(
    [
        STREAM_HEAD,
        *(_chunk(_event(_delta({"content": text}))) for text in _pieces()),
        _chunk(_event(_delta({}, "stop"))),
        _chunk(b"data: [DONE]\n\n"),
        b"0\r\n\r\n",
    ]
)


async def main() -> None:
    server = await asyncio.get_running_loop().create_server(Provider, "127.0.0.1", 0, backlog=2048)
    print(server.sockets[0].getsockname()[1], flush=True)
    await asyncio.to_thread(sys.stdin.read)
    os._exit(0)


if __name__ == "__main__":
    asyncio.run(main())
