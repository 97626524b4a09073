"""Appends that share a commit: each is stored whole or not at all, whatever becomes of the others."""

from __future__ import annotations

import sqlite3
import tempfile
from collections.abc import Sequence
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path

import anyio
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from autonomy_ctx import Memory
from autonomy_ctx.errors import ConflictingMessage
from autonomy_ctx.memory.sqlite.connection import FileLock
from autonomy_ctx.testing import make_message

CONVERSATIONS = ("trip", "work", "home")
# Stored before, so that an append can be a retry of it, or claim its id for something else.
KNOWN = "known"
# The check of a memory that is opened, and a known message for each conversation.
FIRST_COMMITS = 1 + len(CONVERSATIONS)


@dataclass(frozen=True)
class Append:
    """One append of the group: new messages, perhaps with a known one among them."""

    conversation: str
    messages: int
    # Where the known message stands among the others, and whether it says something else.
    known_at: int | None = None
    conflicts: bool = False
    # Whether its task is cancelled: before the batch is taken, or once it may have been.
    cancelled: bool = False
    late: bool = False


APPENDS = st.builds(
    Append,
    conversation=st.sampled_from(CONVERSATIONS),
    messages=st.integers(1, 3),
    known_at=st.none() | st.integers(0, 3),
    conflicts=st.booleans(),
    cancelled=st.booleans(),
    late=st.booleans(),
)


class Group:
    """Appends that wait together for the lock of the file, and what became of each."""

    def __init__(self, memory: Memory, appends: Sequence[Append]) -> None:
        self._memory, self._appends = memory, appends
        self.positions: dict[int, list[int]] = {}
        self.refused: set[int] = set()
        # Their numbers as they were handed in: trio starts tasks in any order.
        self.order: list[int] = []
        self._scopes = [anyio.CancelScope() for _ in appends]

    def ids(self, number: int) -> list[str]:
        one = self._appends[number]
        ids = [f"a{number}-{at}" for at in range(one.messages)]
        if one.known_at is not None:
            ids.insert(one.known_at, KNOWN)
        return ids

    async def run(self, lock: FileLock) -> None:
        """Queue all of them in their order while the file is locked, cancel some, and let them be written."""
        async with anyio.create_task_group() as group:
            with lock:
                for number in range(len(self._appends)):
                    group.start_soon(self._append, number)
                await anyio.wait_all_tasks_blocked()
                self._cancel(late=False)
                await anyio.wait_all_tasks_blocked()
            self._cancel(late=True)

    def _cancel(self, *, late: bool) -> None:
        for one, scope in zip(self._appends, self._scopes, strict=True):
            if one.cancelled and one.late is late:
                scope.cancel()

    async def _append(self, number: int) -> None:
        one = self._appends[number]
        known_text = "something else" if one.conflicts else f"text of {KNOWN}"
        messages = [
            make_message(known_text if name == KNOWN else f"text of {name}", id=name)
            for name in self.ids(number)
        ]
        self.order.append(number)
        with self._scopes[number]:
            try:
                self.positions[number] = await self._memory.append("ana", one.conversation, *messages)
            except ConflictingMessage:
                self.refused.add(number)


async def check_group(path: Path, appends: Sequence[Append]) -> None:
    async with Memory(f"sqlite:///{path}") as memory:
        for conversation in CONVERSATIONS:
            await memory.append("ana", conversation, make_message(f"text of {KNOWN}", id=KNOWN))
        lock = FileLock(f"{path}.lock")
        group = Group(memory, appends)
        try:
            await group.run(lock)
        finally:
            lock.close()
        windows = {name: await memory.read("ana", name) for name in CONVERSATIONS}
    stored = {name: {entry.message.id: entry.position for entry in windows[name].entries} for name in windows}
    for window in windows.values():
        # Gap-free, and the head says the same: what was taken back has left nothing behind.
        assert [entry.position for entry in window.entries] == list(range(1, len(window.entries) + 1))
        assert (window.head.position, window.head.count) == (len(window.entries),) * 2
    for number, one in enumerate(appends):
        found = stored[one.conversation]
        new = [name for name in group.ids(number) if name != KNOWN]
        is_stored = [name in found for name in new]
        assert all(is_stored) or not any(is_stored)
        is_refusable = one.known_at is not None and one.conflicts
        if number in group.positions:
            # Acknowledged: stored where it says.
            assert group.positions[number] == [found[name] for name in group.ids(number)]
            assert not is_refusable
        elif number in group.refused:
            assert is_refusable
            assert not any(is_stored)
        else:
            assert one.cancelled
            assert not (is_refusable and any(is_stored))
        if one.cancelled and not one.late:
            # Withdrawn while it waited: nobody will ask again what became of it.
            assert not any(is_stored)
    for conversation in CONVERSATIONS:
        first = [
            stored[conversation][f"a{number}-0"]
            for number in group.order
            if appends[number].conversation == conversation and number in group.positions
        ]
        assert first == sorted(first)
    check_commits(path)


def check_commits(path: Path) -> None:
    """The known messages took a commit each. Those that waited together took one."""
    with closing(sqlite3.connect(path)) as connection:
        [(commits, messages)] = connection.execute("SELECT commits, messages FROM progress")
        [(rows,)] = connection.execute("SELECT count(*) FROM message")
    assert messages == rows
    assert commits <= FIRST_COMMITS + 1


@pytest.mark.parametrize("backend", ["asyncio", "trio"])
@settings(max_examples=25)
@given(appends=st.lists(APPENDS, max_size=12))
def test_appends_that_share_a_commit_are_stored_whole_or_not_at_all(
    backend: str, appends: list[Append]
) -> None:
    with tempfile.TemporaryDirectory() as folder:
        anyio.run(check_group, Path(folder) / "memory.db", appends, backend=backend)
