"""Cancel at every point where a call waits: nothing is half done, and the next call works.

A call is run once for each of its suspensions and cancelled there: by a cancel scope on both event
loops, and on asyncio also the way `asyncio.wait_for` and a web server do it, by `Task.cancel`.
"""

from __future__ import annotations

import asyncio
import gc
import sqlite3
import threading
from collections.abc import Awaitable, Callable, Coroutine, Generator, Iterator
from contextlib import closing
from functools import partial
from itertools import count
from pathlib import Path
from typing import Any, Generic, TypeVar

import anyio
import pytest

from autonomy_ctx import ContextTemplate, ConversationHistorySection, Memory, Message
from autonomy_ctx.memory.sqlite.connection import FileLock
from autonomy_ctx.testing import make_message

T = TypeVar("T")
HEAVY = "x" * 200_000


class Suspended(Generic[T]):
    """Runs a coroutine and calls back when it is about to be suspended for the n-th time."""

    def __init__(self, work: Coroutine[Any, Any, T], at: int, call: Callable[[], object]) -> None:
        self._work, self._at, self._call = work, at, call
        self.count = 0

    @property
    def reached(self) -> bool:
        return self.count >= self._at

    def __await__(self) -> Generator[Any, Any, T]:
        step: Callable[[], Any] = partial(self._work.send, None)
        while True:
            try:
                waits_for = step()
            except StopIteration as ended:
                result: T = ended.value
                return result
            self.count += 1
            if self.count == self._at:
                self._call()
            try:
                step = partial(self._work.send, (yield waits_for))
            except BaseException as error:
                step = partial(self._work.throw, error)


class Cancelled:
    """Runs a call and cancels it at its n-th suspension; says whether there were so many."""

    def __init__(self, way: str) -> None:
        self._way = way

    async def __call__(
        self, work: Coroutine[Any, Any, Any], at: int, first: Callable[[], object] = bool
    ) -> bool:
        """`first` is called just before the cancellation, while nothing else runs in the loop."""
        return await (self._by_task if self._way == "task" else self._by_scope)(work, at, first)

    async def _by_scope(self, work: Coroutine[Any, Any, Any], at: int, first: Callable[[], object]) -> bool:
        def cancel() -> None:
            first()
            scope.cancel()

        suspended = Suspended(work, at, cancel)
        with anyio.CancelScope() as scope:
            await suspended
        return suspended.reached

    async def _by_task(self, work: Coroutine[Any, Any, Any], at: int, first: Callable[[], object]) -> bool:
        def cancel() -> None:
            first()
            task.cancel()

        async def run() -> None:
            await suspended

        suspended = Suspended(work, at, cancel)
        task = asyncio.create_task(run())
        await asyncio.wait([task])
        if not task.cancelled():
            task.result()
        return suspended.reached

    async def everywhere(
        self, call: Callable[[int], Coroutine[Any, Any, Any]], check: Callable[[int], Awaitable[None]]
    ) -> None:
        """Cancel a call at its first suspension, then at its second, until it is done before that."""
        for at in count(1):
            reached = await self(call(at), at)
            await check(at)
            if not reached:
                assert at > 1, "it was never suspended, so nothing was tested"
                return


@pytest.fixture(params=["asyncio scope", "asyncio task", "trio scope"])
def setting(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture
def anyio_backend(setting: str) -> str:
    return setting.split()[0]


@pytest.fixture
def cancelled(setting: str) -> Cancelled:
    return Cancelled(setting.split()[1])


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "memory.db"


@pytest.fixture(autouse=True)
def _nothing_is_left_behind(caplog: pytest.LogCaptureFixture) -> Iterator[None]:
    """After the test no thread of ours lives on and no task was lost."""
    before = set(threading.enumerate())
    yield
    gc.collect()
    for thread in set(threading.enumerate()) - before:
        if thread.name.startswith("autonomy_ctx"):
            thread.join(5)
            assert not thread.is_alive(), f"{thread.name} outlived close()"
    assert [record for record in caplog.records if record.name == "asyncio"] == []


def opened(path: Path) -> Memory:
    return Memory(f"sqlite:///{path}")


def on_disk(path: Path) -> list[str]:
    """The ids in the file, in order, as another process would find them."""
    with closing(sqlite3.connect(path, timeout=30)) as connection:
        rows = connection.execute("SELECT id FROM message ORDER BY conversation_id, position").fetchall()
    return [message_id for (message_id,) in rows]


async def ids(memory: Memory) -> list[str]:
    return [entry.message.id for entry in (await memory.read("ana", "trip")).entries]


async def long_talk(memory: Memory) -> list[str]:
    """A conversation too long to be read in the event loop's thread."""
    talk = [make_message("x" * 400, id=f"m{n}", role="user" if n % 2 else "assistant") for n in range(1, 601)]
    await memory.append("ana", "trip", *talk)
    return [message.id for message in talk]


# -- append --------------------------------------------------------------------------------------


async def test_an_append_cancelled_before_its_turn_leaves_no_trace(path: Path, cancelled: Cancelled) -> None:
    """Somebody else holds the lock, so that the cancellation comes before the write."""
    memory = opened(path)
    first, light, heavy = (
        make_message("first", id="first"),
        make_message("light", id="light"),
        make_message(HEAVY, id="heavy"),
    )
    await memory.append("ana", "trip", first)
    measured = Suspended(memory.append("ana", "trip", make_message(HEAVY, id="measured")), 0, bool)
    await measured
    lock = FileLock(f"{path}.lock")
    for at in range(1, measured.count + 1):
        with lock:
            assert await cancelled(memory.append("ana", "trip", light, heavy), at)
        assert await memory.health_check(), "the next call works"
        assert await ids(memory) == on_disk(path) == ["first", "measured"]
    lock.close()
    assert await memory.append("ana", "trip", light, heavy) == [3, 4]
    await memory.close()


async def test_an_append_cancelled_after_its_turn_is_kept_and_can_be_sent_again(
    path: Path, cancelled: Cancelled
) -> None:
    memory = opened(path)
    await memory.append("ana", "trip", make_message("first", id="first"))

    def written() -> None:
        while "late" not in on_disk(path):
            pass

    assert await cancelled(memory.append("ana", "trip", make_message("late", id="late")), 1, written)
    assert await memory.append("ana", "trip", make_message("late", id="late")) == [2]
    assert await memory.append("ana", "trip", make_message("next", id="next")) == [3]
    assert await ids(memory) == ["first", "late", "next"]
    await memory.close()


async def test_an_append_cancelled_anywhere_is_there_whole_or_not_at_all(
    path: Path, cancelled: Cancelled
) -> None:
    memory = opened(path)
    acknowledged: list[str] = []

    def batch(at: int) -> list[Message]:
        return [
            make_message("light", id=f"light{at}"),
            make_message(HEAVY, id=f"heavy{at}"),
            make_message("last", id=f"last{at}"),
        ]

    async def check(at: int) -> None:
        mine = [message.id for message in batch(at)]
        assert await ids(memory) in (acknowledged, [*acknowledged, *mine])
        positions = await memory.append("ana", "trip", *batch(at))
        acknowledged.extend(mine)
        assert positions == list(range(len(acknowledged) - 2, len(acknowledged) + 1))
        assert await ids(memory) == acknowledged

    await cancelled.everywhere(lambda at: memory.append("ana", "trip", *batch(at)), check)
    await memory.close()
    assert on_disk(path) == acknowledged


async def test_a_cancelled_append_takes_none_of_its_neighbours_with_it(path: Path) -> None:
    """Fifty tasks wait for one commit; every second one gives up."""
    memory = opened(path)
    await memory.append("ana", "trip", make_message("first", id="first"))
    scopes = [anyio.CancelScope() for _ in range(50)]
    positions: dict[str, int] = {}

    async def speak(number: int) -> None:
        with scopes[number]:
            name = f"m{number}"
            positions[name] = await memory.add_message("ana", "trip", make_message(name, id=name))

    lock = FileLock(f"{path}.lock")
    async with anyio.create_task_group() as group:
        with lock:
            for number in range(50):
                group.start_soon(speak, number)
            await anyio.wait_all_tasks_blocked()
            for scope in scopes[::2]:
                scope.cancel()
            await anyio.wait_all_tasks_blocked()
    lock.close()
    assert sorted(positions) == sorted(f"m{number}" for number in range(1, 50, 2))
    assert sorted(positions.values()) == list(range(2, 27))
    assert await ids(memory) == ["first", *sorted(positions, key=positions.__getitem__)]
    await memory.close()


async def test_a_first_append_cancelled_anywhere_leaves_a_file_that_works(
    tmp_path: Path, cancelled: Cancelled
) -> None:
    memories: dict[int, Memory] = {}

    def call(at: int) -> Coroutine[Any, Any, Any]:
        memories[at] = opened(tmp_path / f"{at}.db")
        return memories[at].append("ana", "trip", make_message(HEAVY, id="m1"))

    async def check(at: int) -> None:
        assert await memories[at].append("ana", "trip", make_message(HEAVY, id="m1")) == [1]
        assert await memories[at].append("ana", "trip", make_message("2", id="m2")) == [2]
        await memories[at].close()
        assert on_disk(tmp_path / f"{at}.db") == ["m1", "m2"]

    await cancelled.everywhere(call, check)


# -- read and compose ----------------------------------------------------------------------------


async def test_a_read_cancelled_anywhere_can_be_asked_again(path: Path, cancelled: Cancelled) -> None:
    memory = opened(path)
    talk = await long_talk(memory)

    async def check(at: int) -> None:
        assert await ids(memory) == talk
        forms = await memory.get_messages_only("ana", "trip", limit=600)
        assert [form["id"] for form in forms] == talk

    await cancelled.everywhere(lambda at: memory.get_messages_only("ana", "trip"), check)
    await memory.close()


async def test_a_read_that_opens_the_file_can_be_cancelled_anywhere(path: Path, cancelled: Cancelled) -> None:
    first = opened(path)
    talk = await long_talk(first)
    await first.close()
    memories: dict[int, Memory] = {}

    def call(at: int) -> Coroutine[Any, Any, Any]:
        memories[at] = opened(path)
        return memories[at].read("ana", "trip", limit=2)

    async def check(at: int) -> None:
        assert await ids(memories[at]) == talk
        assert (await memories[at].read("ana", "trip", limit=2)).head.position == 600
        await memories[at].close()

    await cancelled.everywhere(call, check)


async def test_a_window_read_cancelled_anywhere_spoils_no_later_window(
    path: Path, cancelled: Cancelled
) -> None:
    """Kept windows are put together from several reads."""
    memory, other = opened(path), opened(path)
    said_so_far = 0

    async def speak() -> None:
        nonlocal said_so_far
        said_so_far += 3
        await other.append("ana", "trip", *(make_message(HEAVY, id=f"m{said_so_far - n}") for n in (2, 1, 0)))

    async def check(at: int) -> None:
        wanted = list(range(max(said_so_far - 3, 1), said_so_far + 1))
        for _ in range(2):
            window = await memory.read("ana", "trip", limit=4)
            assert [entry.position for entry in window.entries] == wanted
        await speak()

    await speak()
    await cancelled.everywhere(lambda at: memory.read("ana", "trip", limit=4), check)
    await memory.close()
    await other.close()


async def test_a_compose_cancelled_anywhere_can_be_done_again(path: Path, cancelled: Cancelled) -> None:
    memory = opened(path)
    await long_talk(memory)
    template = ContextTemplate([ConversationHistorySection()])
    wanted = (await template.compose(memory, "ana", "trip")).digest()

    async def check(at: int) -> None:
        assert (await template.compose(memory, "ana", "trip")).digest() == wanted

    await cancelled.everywhere(lambda at: template.compose(memory, "ana", "trip"), check)
    await memory.close()


async def test_asking_for_a_whole_result_can_be_cancelled_anywhere(path: Path, cancelled: Cancelled) -> None:
    memory = opened(path)
    text = "x" * 1_100_000
    await memory.append("ana", "trip", make_message(text, id="big", role="tool", tool_call_id="c1"))

    async def check(at: int) -> None:
        whole = await memory.get_full_message("ana", "trip", "big")
        assert whole is not None
        assert whole["content"] == text

    await cancelled.everywhere(lambda at: memory.get_full_message("ana", "trip", "big"), check)
    await memory.close()


# -- delete --------------------------------------------------------------------------------------


@pytest.mark.parametrize("what", ["message", "conversation", "scope"])
async def test_a_deletion_cancelled_anywhere_is_whole_or_did_not_happen(
    path: Path, cancelled: Cancelled, what: str
) -> None:
    memory = opened(path)
    deletions = 0

    def delete(at: int) -> Coroutine[Any, Any, Any]:
        match what:
            case "message":
                return memory.delete_message("ana", "trip", f"a{at}")
            case "conversation":
                return memory.delete_conversation("ana", "trip")
        return memory.delete_scope("ana")

    async def check(at: int) -> None:
        """As if nothing had happened, or all gone; and the second attempt settles it."""
        nonlocal deletions
        before = await ids(memory)
        gone = [f"b{at}"] if what == "message" else []
        assert before in ([f"a{at}", f"b{at}"], gone)
        await delete(at)
        deletions += 1
        assert await ids(memory) == gone
        head = await memory.head("ana", "trip")
        await memory.delete_scope("ana")
        deletions += what == "message"
        assert head.count == len(gone)
        assert (await memory.head("ana", "trip")).generation == deletions
        await fill(at + 1)

    async def fill(at: int) -> None:
        await memory.append("ana", "trip", make_message("a", id=f"a{at}"), make_message("b", id=f"b{at}"))

    await fill(1)
    await cancelled.everywhere(delete, check)
    await memory.close()


async def test_a_deletion_cancelled_before_its_turn_deletes_nothing(path: Path, cancelled: Cancelled) -> None:
    memory = opened(path)
    await memory.append("ana", "trip", make_message("1", id="m1"))
    lock = FileLock(f"{path}.lock")
    with lock:
        assert await cancelled(memory.delete_scope("ana"), 1)
    lock.close()
    assert await memory.health_check()
    assert await ids(memory) == ["m1"]
    assert (await memory.head("ana", "trip")).generation == 0
    await memory.close()


async def test_what_a_cancelled_deletion_deleted_is_not_shown_by_a_kept_window(
    path: Path, cancelled: Cancelled
) -> None:
    memory = opened(path)
    await memory.append("ana", "trip", make_message("1", id="m1"), make_message("2", id="m2"))
    await memory.read("ana", "trip", limit=5)

    def deleted() -> None:
        while "m1" in on_disk(path):
            pass

    assert await cancelled(memory.delete_message("ana", "trip", "m1"), 1, deleted)
    assert [entry.message.id for entry in (await memory.read("ana", "trip", limit=5)).entries] == ["m2"]
    await memory.close()


# -- open and close ------------------------------------------------------------------------------


async def test_close_cancelled_anywhere_still_lets_go_of_everything(
    tmp_path: Path, cancelled: Cancelled
) -> None:
    """Whoever is shut down in a hurry calls close only once: `wait_for(memory.close(), 1)`."""
    others = set(threading.enumerate())
    for at in count(1):
        path = tmp_path / f"{at}.db"
        memory = opened(path)
        await memory.append("ana", "trip", make_message("1", id="m1"))
        await ids(memory)
        await memory.get_full_message("ana", "trip", "m1")
        reached = await cancelled(memory.close(), at)
        for thread in set(threading.enumerate()) - others:
            if thread.name.startswith("autonomy_ctx"):
                thread.join(5)
                assert not thread.is_alive(), f"{thread.name} was not told to stop"
        await memory.close()
        assert on_disk(path) == ["m1"]
        if not reached:
            return


async def test_entering_a_memory_cancelled_anywhere_leaves_nothing_behind(
    tmp_path: Path, cancelled: Cancelled
) -> None:
    """Nobody can close what `async with` has not given out; the next memory on the file works."""

    async def enter(path: Path) -> None:
        # A cancellation that finds the answer already there comes too late: then it is given out.
        memory = await opened(path).__aenter__()
        with anyio.CancelScope(shield=True):
            await memory.close()

    for at in count(1):
        path = tmp_path / f"{at}.db"
        reached = await cancelled(enter(path), at)
        async with opened(path) as memory:
            assert await memory.append("ana", "trip", make_message("1", id="m1")) == [1]
        if not reached:
            assert at > 1
            return


async def test_appends_that_nobody_waits_for_any_more_do_not_keep_close_waiting(path: Path) -> None:
    memory = opened(path)
    await memory.append("ana", "trip", make_message("1", id="m1"))
    lock = FileLock(f"{path}.lock")
    with lock:
        async with anyio.create_task_group() as group:
            for number in range(10):
                group.start_soon(memory.append, "ana", "trip", make_message("never", id=f"never{number}"))
            await anyio.wait_all_tasks_blocked()
            group.cancel_scope.cancel()
    lock.close()
    await memory.close()
    assert on_disk(path) == ["m1"]
