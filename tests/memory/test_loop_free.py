"""The event loop is never held: while memory works or waits, other tasks get their turn.

A ticker is a task that counts how often it got its turn. The number of ticks between two events says
whether the loop was free; no clock is asked.
"""

from __future__ import annotations

import asyncio
import subprocess
import sys
import threading
from collections import Counter
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager
from pathlib import Path
from typing import Any, ClassVar

import anyio
import anyio.lowlevel
import pytest
from timeouts import USUAL, set_timeout

from autonomy_ctx import ContextTemplate, ConversationHistorySection, Memory, StoreBusy
from autonomy_ctx.memory.encoding import MESSAGE_LIMIT
from autonomy_ctx.testing import make_message

MANY = 5_000
# A held loop gives a ticker one or two turns, a free one hundreds.
FREE = 25


class Ticker:
    """Counts its turns."""

    def __init__(self) -> None:
        self.ticks = 0

    async def run(self) -> None:
        while True:
            await anyio.lowlevel.checkpoint()
            self.ticks += 1

    async def after(self, ticks: int) -> None:
        """Wait for so many more turns."""
        until = self.ticks + ticks
        while self.ticks < until:
            await anyio.lowlevel.checkpoint()


@asynccontextmanager
async def ticking() -> AsyncIterator[Ticker]:
    ticker = Ticker()
    async with anyio.create_task_group() as group:
        group.start_soon(ticker.run)
        await ticker.after(1)
        yield ticker
        group.cancel_scope.cancel()


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "memory.db"


@pytest.fixture(scope="module")
def long_talk(tmp_path_factory: pytest.TempPathFactory) -> str:
    """The URL of a file with one long conversation."""
    url = f"sqlite:///{tmp_path_factory.mktemp('talk')}/memory.db"

    async def fill() -> None:
        async with Memory(url) as memory:
            for start in range(0, MANY, 1000):
                talk = [make_message("a few words " * 5, id=f"m{n}") for n in range(start, start + 1000)]
                await memory.append("ana", "trip", *talk)

    asyncio.run(fill())
    return url


@contextmanager
def another_process(script: str, path: Path) -> Iterator[subprocess.Popen[str]]:
    """A process that has run the script up to its first line; it goes on when it gets one."""
    child = subprocess.Popen(
        [sys.executable, "-c", script, str(path)], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    )
    assert child.stdin is not None
    assert child.stdout is not None
    try:
        assert child.stdout.readline() == "held\n"
        yield child
    finally:
        child.kill()
        child.communicate()


def let_go(child: subprocess.Popen[str]) -> None:
    assert child.stdin is not None
    child.stdin.write("go\n")
    child.stdin.flush()


HOLD_SQLITE = """
import sqlite3, sys
connection = sqlite3.connect(sys.argv[1], isolation_level=None)
connection.execute("BEGIN IMMEDIATE")
print("held", flush=True)
sys.stdin.readline()
connection.execute("ROLLBACK")
"""
HOLD_FILE_LOCK = """
import fcntl, sys
file = open(sys.argv[1] + ".lock")
fcntl.flock(file, fcntl.LOCK_EX)
print("held", flush=True)
sys.stdin.readline()
fcntl.flock(file, fcntl.LOCK_UN)
"""
LOCKS = pytest.mark.parametrize("hold", [HOLD_SQLITE, HOLD_FILE_LOCK], ids=["SQLite's lock", "the file lock"])


@LOCKS
async def test_an_append_that_waits_for_another_process_holds_nobody_up(path: Path, hold: str) -> None:
    async with Memory(f"sqlite:///{path}") as memory:
        positions: list[int] = []

        async def speak() -> None:
            positions.extend(await memory.append("ana", "trip", make_message("hello", id="m1")))

        with another_process(hold, path) as child:
            async with ticking() as ticker, anyio.create_task_group() as group:
                group.start_soon(speak)
                await ticker.after(2000)
                assert positions == [], "it cannot be written yet"
                let_go(child)
        assert positions == [1]


@LOCKS
async def test_reads_go_on_while_another_process_writes(path: Path, hold: str) -> None:
    """Also the first read of a memory that has not opened the file yet."""
    async with Memory(f"sqlite:///{path}") as memory:
        await memory.append(
            "ana", "trip", make_message("hello", id="m1"), make_message("x" * 100_000, id="m2")
        )
        with another_process(hold, path):
            for reader in (memory, Memory(f"sqlite:///{path}")):
                assert (await reader.head("ana", "trip")).position == 2
                assert len((await reader.read("ana", "trip", limit=1)).entries) == 1
                assert len((await reader.read("ana", "trip")).entries) == 2
        await reader.close()


@LOCKS
async def test_the_loop_is_free_until_the_wait_is_given_up(path: Path, hold: str) -> None:
    async with Memory(f"sqlite:///{path}") as memory:
        with another_process(hold, path) as child:
            set_timeout(memory, 0.2)
            async with ticking() as ticker:
                with pytest.raises(StoreBusy):
                    await memory.append("ana", "trip", make_message("refused", id="m1"))
                assert ticker.ticks > FREE
            let_go(child)
        set_timeout(memory, USUAL)
        assert await memory.append("ana", "trip", make_message("hello", id="m1")) == [1], (
            "nothing was left behind"
        )


async def test_a_long_conversation_is_read_without_holding_the_loop(long_talk: str) -> None:
    async with Memory(long_talk) as memory, ticking() as ticker:
        before = ticker.ticks
        window = await memory.read("ana", "trip")
        assert len(window.entries) == MANY
        assert ticker.ticks - before > FREE


async def test_the_dicts_of_a_long_conversation_are_made_a_few_at_a_time(long_talk: str) -> None:
    async with Memory(long_talk) as memory, ticking() as ticker:
        before = ticker.ticks
        assert len(await memory.get_messages_only("ana", "trip")) == MANY
        assert ticker.ticks - before > FREE


async def test_a_long_context_is_composed_without_holding_the_loop(long_talk: str) -> None:
    template = ContextTemplate([ConversationHistorySection()])
    async with Memory(long_talk) as memory, ticking() as ticker:
        before = ticker.ticks
        assert len(await template.compose(memory, "ana", "trip")) == MANY
        assert ticker.ticks - before > FREE


async def test_the_largest_message_is_stored_and_read_without_holding_the_loop(path: Path) -> None:
    text = "a few words " * (MESSAGE_LIMIT // 12 - 100)
    async with Memory(f"sqlite:///{path}") as memory, ticking() as ticker:
        before = ticker.ticks
        await memory.append("ana", "trip", make_message(text, id="m1"))
        assert ticker.ticks - before > FREE
        before = ticker.ticks
        [entry] = (await memory.read("ana", "trip")).entries
        assert entry.message.text == text
        assert ticker.ticks - before > 1


async def test_many_messages_are_appended_at_once_without_holding_the_loop() -> None:
    """In this process, where no thread could let the ticker in."""
    talk = [make_message("a few words", id=f"m{n}") for n in range(4 * MANY)]
    async with Memory() as memory, ticking() as ticker:
        before = ticker.ticks
        await memory.append("ana", "trip", *talk)
        assert ticker.ticks - before > FREE


class Watched(dict[str, Any]):
    """A dict that notes in which thread it is read."""

    readers: ClassVar[Counter[int]] = Counter()

    def items(self) -> Any:
        self.readers[threading.get_ident()] += 1
        return super().items()


async def test_a_message_with_much_data_of_its_own_is_copied_in_a_thread() -> None:
    """Ticks would not tell: they make up for a stop while the thread encodes what was copied."""
    own = [Watched(key=number, value="a few words") for number in range(50_000)]
    Watched.readers.clear()
    async with Memory() as memory:
        await memory.append("ana", "trip", {"role": "user", "content": "hello", "own": own})
    assert Watched.readers[threading.get_ident()] < 2000


async def test_many_messages_are_deleted_without_holding_the_loop(path: Path) -> None:
    async with Memory(f"sqlite:///{path}") as memory:
        await memory.append("ana", "trip", *(make_message("x" * 2000, id=f"m{n}") for n in range(2000)))
        async with ticking() as ticker:
            before = ticker.ticks
            assert await memory.delete_scope("ana") == 2000
            assert ticker.ticks - before > FREE
