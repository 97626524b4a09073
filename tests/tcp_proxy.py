"""`TcpProxy`: a proxy on loopback that cuts, stalls and resets connections when a test says so."""

from __future__ import annotations

import asyncio
import contextlib
import socket
import struct
from types import TracebackType

_BLOCK = 64 * 1024
# A socket that is closed with this sends a reset instead of an end.
_RESET_ON_CLOSE = struct.pack("ii", 1, 0)


class TcpProxy:
    """Passes bytes between clients and one server, both ways. Use it with `async with`."""

    def __init__(self, port: int, host: str = "127.0.0.1") -> None:
        self._target = (host, port)
        self._listener: asyncio.Server | None = None
        self._links: set[_Link] = set()
        self._flows = asyncio.Event()
        self._flows.set()
        self._loses_replies = False
        # How many connections were ever made, how many replies were lost on purpose, and how many blocks of
        # bytes wait while nothing is passed on.
        self.accepted = self.lost_replies = self.waiting_blocks = 0
        self.port = 0

    async def __aenter__(self) -> TcpProxy:
        await self.listen()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.refuse()
        await self.cut()

    @property
    def open_links(self) -> int:
        """How many connections pass bytes now."""
        return len(self._links)

    async def listen(self) -> None:
        """Take connections, on the same port as before."""
        if self._listener is None:
            self._listener = await asyncio.start_server(self._accept, "127.0.0.1", self.port)
            self.port = self._listener.sockets[0].getsockname()[1]

    async def refuse(self) -> None:
        """Take no new connections; those that are open stay."""
        if self._listener is not None:
            self._listener.close()
            self._listener = None

    async def cut(self) -> None:
        """Close all connections, as a server does that is shut down."""
        await self._end_links(reset=False)

    async def reset(self) -> None:
        """Reset all connections, as a server does that has just come back."""
        await self._end_links(reset=True)

    def stall(self) -> None:
        """Pass nothing on, and close nothing: as a network that drops packets. New connections hang, too."""
        self._flows.clear()

    def resume(self) -> None:
        """Pass on again, also what came meanwhile."""
        self._flows.set()

    def lose_next_reply(self) -> None:
        """Pass on what a client sends, but reset its connection where the server's answer would come back."""
        self._loses_replies = True

    async def _accept(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.accepted += 1
        link = _Link(writer)
        self._links.add(link)
        try:
            await self._flows.wait()
            server_reader, server_writer = await asyncio.open_connection(*self._target)
            link.writers.append(server_writer)
            ways = (self._pass_on(reader, server_writer, False), self._pass_on(server_reader, writer, True))
            link.tasks += [asyncio.create_task(way) for way in ways]
            await asyncio.wait(link.tasks, return_when=asyncio.FIRST_COMPLETED)
        except OSError:
            pass
        finally:
            await self._end(link, reset=False)

    async def _pass_on(
        self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, from_server: bool
    ) -> None:
        try:
            while block := await reader.read(_BLOCK):
                if from_server and self._loses_replies:
                    self._loses_replies = False
                    self.lost_replies += 1
                    _reset_on_close(writer)
                    return
                self.waiting_blocks += 1
                try:
                    await self._flows.wait()
                finally:
                    self.waiting_blocks -= 1
                writer.write(block)
                await writer.drain()
        except OSError:
            pass

    async def _end_links(self, *, reset: bool) -> None:
        for link in list(self._links):
            await self._end(link, reset=reset)

    async def _end(self, link: _Link, *, reset: bool) -> None:
        self._links.discard(link)
        for task in link.tasks:
            task.cancel()
        await asyncio.gather(*link.tasks, return_exceptions=True)
        for writer in link.writers:
            if reset:
                _reset_on_close(writer)
                writer.transport.abort()
            writer.close()
            with contextlib.suppress(OSError):
                await writer.wait_closed()


class _Link:
    """One connection of a client, and the one to the server that was made for it."""

    def __init__(self, writer: asyncio.StreamWriter) -> None:
        self.writers = [writer]
        self.tasks: list[asyncio.Task[None]] = []


def _reset_on_close(writer: asyncio.StreamWriter) -> None:
    connection: socket.socket = writer.get_extra_info("socket")
    connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, _RESET_ON_CLOSE)
