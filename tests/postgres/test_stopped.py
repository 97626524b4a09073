"""A process is stopped within a transaction: the others go on, and it is told when it goes on itself."""

from __future__ import annotations

import asyncio
import os
import signal
import subprocess
import sys
from collections.abc import AsyncIterator, Iterator

import pytest
import pytest_asyncio

from autonomy_ctx.memory.postgres.store import PostgresStore
from autonomy_ctx.testing import MAIN, make_drafts, make_message

# Pins a message, and stops itself while it has the lock of the conversation, so often as it is told.
PROGRAM = """
import asyncio, os, signal, sys
from autonomy_ctx.errors import StoreError
from autonomy_ctx.memory.postgres.session import PostgresSession
from autonomy_ctx.memory.sql import log, summaries
from autonomy_ctx.memory.postgres.store import PostgresStore
from autonomy_ctx.testing import MAIN

async def main(url, timeout, stops):
    store = PostgresStore(url)
    await store.head(MAIN)
    store._database.timeout = timeout

    async def pin(connection):
        nonlocal stops
        await log.find_conversation(PostgresSession(connection), MAIN, lock=True)
        stops -= 1
        if stops >= 0:
            os.kill(os.getpid(), signal.SIGSTOP)
        return await summaries.pin(PostgresSession(connection), MAIN, "0", True, None, "user")

    try:
        print(await store._database.write(pin))
    except StoreError as error:
        print(error)
    await store.close()

asyncio.run(main(sys.argv[1], float(sys.argv[2]), int(sys.argv[3])))
"""


class Child:
    """A process that stops itself."""

    def __init__(self, url: str, timeout: float, stops: int) -> None:
        command = [sys.executable, "-c", PROGRAM, url, str(timeout), str(stops)]
        self.process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)

    def is_stopped(self) -> bool:
        """Wait until it has stopped itself, or has ended."""
        _, status = os.waitpid(self.process.pid, os.WUNTRACED)
        return os.WIFSTOPPED(status)

    def go_on(self) -> None:
        self.process.send_signal(signal.SIGCONT)

    def read(self) -> str:
        """What it says at its end."""
        assert self.process.stdout is not None
        return self.process.stdout.read()


@pytest_asyncio.fixture
async def store(database_url: str) -> AsyncIterator[PostgresStore]:
    store = PostgresStore(database_url)
    await say(store, 0)
    yield store
    await store.close()


@pytest.fixture
def children() -> Iterator[list[Child]]:
    started: list[Child] = []
    yield started
    for child in started:
        child.process.kill()
        child.process.wait()
        assert child.process.stdout is not None
        child.process.stdout.close()


async def say(store: PostgresStore, number: int) -> None:
    assert await store.append(MAIN, make_drafts(make_message("hi", id=str(number)))) == [number + 1]


async def test_others_go_on_while_a_process_is_stopped_in_a_transaction(
    store: PostgresStore, database_url: str, children: list[Child]
) -> None:
    children.append(child := Child(database_url, 12.0, 1))
    assert await asyncio.to_thread(child.is_stopped)
    await say(store, 1)
    child.go_on()
    assert await asyncio.to_thread(child.read) == "True\n", "it begins again"
    assert [pin.message.id for pin in (await store.summary(MAIN)).pins] == ["0"]


async def test_a_process_that_was_stopped_too_long_is_told_that_nothing_was_stored(
    store: PostgresStore, database_url: str, children: list[Child]
) -> None:
    children.append(child := Child(database_url, 1.0, 1000))
    number = 0
    while await asyncio.to_thread(child.is_stopped):
        number += 1
        await say(store, number)
        child.go_on()
    assert number
    assert "nothing was stored" in await asyncio.to_thread(child.read)
    assert (await store.summary(MAIN)).pins == ()
