"""Several processes that serve one address: one that dies is started anew, and all are stopped together."""

from __future__ import annotations

import logging
import multiprocessing
import socket
from collections.abc import Callable
from multiprocessing.connection import Connection
from multiprocessing.context import SpawnProcess

import anyio

from autonomy_ctx.cli.output import CommandFailed

logger = logging.getLogger("autonomy_ctx.server")

# For a worker to close; its server does so within five seconds.
CLOSE_SECONDS = 10.0
# A worker that cannot start is not started again at once.
_PAUSE_SECONDS = 1.0
# A new interpreter each: SQLite cannot be used across a fork.
_SPAWN = multiprocessing.get_context("spawn")


class Workers:
    """Processes that call `serve` with a listening socket, and a pipe on which they say that they serve."""

    def __init__(
        self, serve: Callable[[socket.socket, Connection], None], listener: socket.socket, number: int
    ) -> None:
        self._serve, self._listener, self._number = serve, listener, number
        self._running: set[SpawnProcess] = set()
        self._ready = 0

    async def run(self, announce: Callable[[], None]) -> None:
        """Keep all of them running until it is cancelled; `announce` is called when all serve."""
        try:
            async with anyio.create_task_group() as group:
                for _ in range(self._number):
                    group.start_soon(self._keep_running, announce)
        finally:
            with anyio.CancelScope(shield=True):
                await self._stop()

    async def _keep_running(self, announce: Callable[[], None]) -> None:
        is_first = True
        while True:
            process, ready = self._start()
            await anyio.wait_readable(ready)
            is_ready = ready.poll() and _is_told(ready)
            ready.close()
            if is_first and not is_ready:
                raise CommandFailed("a worker ended while it started; it has printed why")
            if is_first:
                self._ready += 1
                if self._ready == self._number:
                    announce()
            is_first = False
            await anyio.wait_readable(process.sentinel)
            process.join()
            self._running.discard(process)
            logger.error("worker %s ended with %s; another one starts", process.pid, process.exitcode)
            if not is_ready:
                await anyio.sleep(_PAUSE_SECONDS)

    def _start(self) -> tuple[SpawnProcess, Connection]:
        ready, told = _SPAWN.Pipe(duplex=False)
        process = _SPAWN.Process(target=self._serve, args=(self._listener, told), name="autonomy-ctx worker")
        process.start()
        # Then its end of the pipe is the only one, and is closed when it dies.
        told.close()
        self._running.add(process)
        return process, ready

    async def _stop(self) -> None:
        """Have all workers close, and kill those that do not."""
        for process in self._running:
            process.terminate()
        with anyio.move_on_after(CLOSE_SECONDS):
            for process in self._running:
                await anyio.wait_readable(process.sentinel)
        for process in self._running:
            process.kill()
            process.join()


def _is_told(ready: Connection) -> bool:
    try:
        return bool(ready.recv())
    except EOFError:
        return False


async def wait_for_parent_death() -> None:
    """Wait, in a worker, until the process that started it is gone."""
    parent = multiprocessing.parent_process()
    if parent is None:
        await anyio.sleep_forever()
    else:
        await anyio.wait_readable(parent.sentinel)
