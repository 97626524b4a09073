"""A model behind HTTP that takes 200 ms for every answer and next to no CPU, in a process of its own.

`python -m benchmarks.slow_model` prints its port and ends when its input is closed. With a file that holds a
certificate and its key it speaks TLS.
"""

from __future__ import annotations

import asyncio
import json
import ssl
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

SECONDS = 0.2
_TEXT = "Order 4711 is on its way; I keep batch_12.csv open until you answer."
_BODY = json.dumps(
    {
        "object": "chat.completion",
        "model": "slow",
        "choices": [
            {"index": 0, "message": {"role": "assistant", "content": _TEXT}, "finish_reason": "stop"}
        ],
        "usage": {"prompt_tokens": 0, "completion_tokens": 20, "total_tokens": 20},
    }
).encode()
_HEAD = f"HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ncontent-length: {len(_BODY)}\r\n\r\n"
ANSWER = _HEAD.encode() + _BODY


class SlowModel(asyncio.Protocol):
    """Answers each request of a connection after its time, without reading what was asked."""

    def __init__(self) -> None:
        self._data = bytearray()
        self._transport: asyncio.Transport | None = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.Transport)
        self._transport = transport

    def data_received(self, data: bytes) -> None:
        self._data += data
        end = self._data.find(b"\r\n\r\n")
        if end < 0:
            return
        head = bytes(self._data[:end]).lower()
        length = int(head.partition(b"content-length:")[2].partition(b"\r\n")[0])
        if len(self._data) >= end + 4 + length:
            del self._data[: end + 4 + length]
            asyncio.get_running_loop().call_later(SECONDS, self._answer)

    def _answer(self) -> None:
        if self._transport is not None and not self._transport.is_closing():
            self._transport.write(ANSWER)


async def main() -> None:
    loop = asyncio.get_running_loop()
    context = None
    if sys.argv[1:]:
        context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
        context.load_cert_chain(sys.argv[1])
    server = await loop.create_server(SlowModel, "127.0.0.1", 0, backlog=1024, ssl=context)
    print(server.sockets[0].getsockname()[1], flush=True)
    await asyncio.to_thread(sys.stdin.read)
    server.close()


@contextmanager
def running(certificate: Path | None = None) -> Iterator[str]:
    """A server in a process of its own; its address."""
    command = [sys.executable, "-m", "benchmarks.slow_model", *([str(certificate)] if certificate else [])]
    scheme = "https" if certificate else "http"
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        assert process.stdin is not None
        yield f"{scheme}://127.0.0.1:{process.stdout.readline().strip()}"
        process.stdin.close()


if __name__ == "__main__":
    asyncio.run(main())
