"""`copy_memory` between files: all of it, resumable, checked at the end."""

from __future__ import annotations

import sqlite3
from collections.abc import AsyncIterator, Sequence
from pathlib import Path
from typing import Any

import pytest
from memory.copy_cases import content, fill

from autonomy_ctx import Memory
from autonomy_ctx.errors import CopyConflict, CopyMismatch
from autonomy_ctx.memory.encoding import MessageRow
from autonomy_ctx.memory.sql import transfer as scripts
from autonomy_ctx.memory.sql.session import Session
from autonomy_ctx.memory.sqlite.store import SqliteStore
from autonomy_ctx.stores import CopyProgress, Key, copy_memory
from autonomy_ctx.testing import make_message

MESSAGES = 33 + 1 + 1 + 3


@pytest.fixture
async def source(tmp_path: Path) -> AsyncIterator[Memory]:
    async with Memory(f"sqlite:///{tmp_path}/source.db") as memory:
        await fill(memory)
        yield memory


@pytest.fixture
async def target(tmp_path: Path) -> AsyncIterator[Memory]:
    async with Memory(f"sqlite:///{tmp_path}/target.db") as memory:
        yield memory


async def test_all_is_copied_and_reads_the_same(source: Memory, target: Memory) -> None:
    told: list[CopyProgress] = []
    report = await copy_memory(source, target, progress=told.append)
    assert await content(target) == await content(source)
    assert (report.conversations, report.unchanged_conversations, report.messages) == (8, 0, MESSAGES)
    assert told[-1] == CopyProgress("check", 8, 8, MESSAGES)
    assert {one.step for one in told} == {"copy", "check"}


async def test_what_was_copied_goes_on_like_the_original(source: Memory, target: Memory) -> None:
    await copy_memory(source, target)
    for memory in (source, target):
        assert await memory.append("ana", "talk", make_message("next", id="next")) == [35]
        assert await memory.append("ana", "talk", make_message("said 7", id="m7")) == [7]
        await memory.delete_message("ana", "fork", "m5")
        await memory.undo_summary("ana", "talk")
        await memory.facts("ana", "talk").add("rule", "one more")
        [hit] = await memory.search("ana", "12", conversation="fork of the fork")
        assert (hit.conversation, hit.position) == ("fork of the fork", 12)
    sides = [await content(memory) for memory in (source, target)]
    for side in sides:
        for found in side.values():
            # Two clocks were asked.
            found["facts"] = [(fact.id, fact.kind, fact.text, fact.state) for fact in found["facts"]]
    assert sides[0] == sides[1]


async def test_a_second_copy_has_nothing_to_do_and_a_later_one_only_what_is_new(
    source: Memory, target: Memory
) -> None:
    first = await copy_memory(source, target)
    again = await copy_memory(source, target)
    assert (again.unchanged_conversations, again.digest) == (8, first.digest)
    await source.append("ana", "talk", make_message("new", id="new"))
    await source.pin("ana", "talk", "new")
    later = await copy_memory(source, target)
    assert (later.unchanged_conversations, later.messages) == (7, MESSAGES + 1)
    assert await content(target) == await content(source)


async def test_an_interrupted_copy_goes_on_where_it_stopped(
    source: Memory, target: Memory, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("autonomy_ctx.memory.transfer.MESSAGES_PER_PAGE", 10)
    import_messages, pages = scripts.import_messages, 0

    async def fail_at_third(
        session: Session, key: Key, rows: Sequence[MessageRow], *, generation: int
    ) -> None:
        nonlocal pages
        pages += 1
        if pages == 3:
            raise LookupError
        await import_messages(session, key, rows, generation=generation)

    monkeypatch.setattr(scripts, "import_messages", fail_at_third)
    with pytest.raises(LookupError):
        await copy_memory(source, target)
    assert (await target.head("ana", "talk")).count == 20
    monkeypatch.undo()
    await copy_memory(source, target)
    assert await content(target) == await content(source)


async def test_one_scope_can_be_moved_alone(source: Memory, target: Memory) -> None:
    report = await copy_memory(source, target, scope="tenant 2")
    assert (report.conversations, await target.scopes()) == (1, ["tenant 2"])


async def test_another_conversation_of_that_name_is_not_touched(source: Memory, target: Memory) -> None:
    await target.append("tenant 2", "talk", make_message("somebody else", id="h"))
    assert len(await target.search("tenant 2", "somebody")) == 1
    with pytest.raises(CopyConflict, match="conversation 'talk' of scope 'tenant 2'") as caught:
        await copy_memory(source, target)
    assert caught.value.key == Key("", "tenant 2", "talk")
    [message] = await target.get_messages_only("tenant 2", "talk")
    assert "somebody else" in str(message)
    await target.delete_conversation("tenant 2", "talk")
    await copy_memory(source, target)
    assert await content(target) == await content(source)
    [hit] = await target.search("tenant 2", "hello")
    assert (hit.conversation, hit.position) == ("talk", 1)


async def test_what_changes_during_the_copy_is_found_at_the_end(source: Memory, target: Memory) -> None:
    steps: list[str] = []

    def change(told: CopyProgress) -> None:
        assert isinstance(source.store, SqliteStore)
        if told.step not in steps and told.step == "check":
            with sqlite3.connect(source.store.path) as other:
                other.execute("UPDATE message SET body = replace(body, 'hello', 'hullo')")
            other.close()
        steps.append(told.step)

    with pytest.raises(CopyMismatch, match="3 conversations differ after the copy"):
        await copy_memory(source, target, progress=change)


async def test_urls_do_as_well(source: Memory, tmp_path: Path) -> None:
    await source.close()
    urls = [f"sqlite:///{tmp_path}/{name}.db" for name in ("source", "other")]
    assert (await copy_memory(*urls)).conversations == 8


async def test_a_memory_in_this_process_is_copied_too(target: Memory) -> None:
    async with Memory() as source:
        await fill(source)
        await copy_memory(source, target)
        assert await content(target) == await content(source)


async def test_a_bad_side_is_refused(target: Memory) -> None:
    side: Any = 3
    with pytest.raises(TypeError, match="source is int; it must be a Memory or the URL of one"):
        await copy_memory(side, target)
