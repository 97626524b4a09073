"""A proxy before a server that cuts a connection when a statement passes, for tests of lost answers."""

from __future__ import annotations

import asyncio
from types import TracebackType
from urllib.parse import urlsplit

# With its end, as it is sent: the statement that begins a transaction says READ COMMITTED.
COMMIT = b"COMMIT\0"


class CuttingProxy:
    """Forwards to a server. What it does to one statement can be said before the statement is sent."""

    def __init__(self, server_url: str) -> None:
        self._server_url = urlsplit(server_url)
        self._words: bytes | None = None
        self._is_forwarded = False
        self._is_silent = False
        self._writers: set[asyncio.StreamWriter] = set()
        self._held: asyncio.Event | None = None
        self._late_answer: asyncio.Future[bytes] | None = None
        self.cuts = 0

    def url(self) -> str:
        """The URL of the database through the proxy."""
        assert self._server is not None
        port = self._server.sockets[0].getsockname()[1]
        user = self._server_url.username
        return self._server_url._replace(netloc=f"{user}@127.0.0.1:{port}").geturl()

    def cut_at(self, words: bytes, *, forward: bool) -> None:
        """Close the connection when words pass; with `forward`, the server still gets them."""
        self._words, self._is_forwarded, self._is_silent = words, forward, False

    def fall_silent_at(self, words: bytes, *, forward: bool) -> None:
        """Let no answer through any more on the connection on which words pass."""
        self._words, self._is_forwarded, self._is_silent = words, forward, True

    def hold_at(self, words: bytes) -> None:
        """Close the connection to the client when words pass; the server gets them by `deliver`."""
        self._words, self._held = words, asyncio.Event()
        self._late_answer = asyncio.get_running_loop().create_future()

    async def deliver(self) -> bytes:
        """Give the server what was held back; its answer, which nobody else gets."""
        assert self._held is not None
        assert self._late_answer is not None
        self._held.set()
        return await self._late_answer

    def lead_to(self, server_url: str) -> None:
        """Forward new connections to another server."""
        self._server_url = urlsplit(server_url)

    def cut(self) -> None:
        """Close all connections, also those that have fallen silent."""
        for writer in self._writers:
            writer.close()

    async def __aenter__(self) -> CuttingProxy:
        self._server = await asyncio.start_server(self._serve, "127.0.0.1", 0)
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._server.close()
        self.cut()
        await self._server.wait_closed()

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        host, port = self._server_url.hostname, self._server_url.port
        server_reader, server_writer = await asyncio.open_connection(host, port)
        self._writers |= {writer, server_writer}
        back = asyncio.create_task(self._pump(server_reader, writer))
        try:
            while data := await reader.read(2**20):
                if self._words is None or self._words not in data:
                    server_writer.write(data)
                    continue
                self._words = None
                self.cuts += 1
                # No answer gets through: nothing is read from the server any more.
                back.cancel()
                if self._held is not None and self._late_answer is not None:
                    writer.close()
                    await self._held.wait()
                    server_writer.write(data)
                    self._late_answer.set_result(await server_reader.read(2**20))
                    break
                if self._is_forwarded:
                    server_writer.write(data)
                    await server_writer.drain()
                if not self._is_silent:
                    # Only when the server has ended what it was asked for.
                    if self._is_forwarded:
                        await server_reader.read(1)
                    break
                await reader.read()
                break
        except ConnectionError:
            pass
        finally:
            back.cancel()
            for one in (writer, server_writer):
                one.close()
                self._writers.discard(one)

    async def _pump(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            while data := await reader.read(2**20):
                writer.write(data)
        except ConnectionError:
            pass
        writer.close()
