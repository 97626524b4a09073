"""`copy_memory` from SQLite to PostgreSQL and back: all of it, resumable, checked at the end."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator, Sequence
from pathlib import Path

import psycopg
import pytest
import pytest_asyncio
from memory.copy_cases import content, fill
from postgres_server import Databases

from autonomy_ctx import Memory
from autonomy_ctx.errors import CopyConflict, CopyMismatch
from autonomy_ctx.memory.encoding import MessageRow
from autonomy_ctx.memory.sql import transfer as scripts
from autonomy_ctx.memory.sql.session import Session
from autonomy_ctx.stores import CopyProgress, Key, copy_memory
from autonomy_ctx.testing import make_message

MESSAGES = 33 + 1 + 1 + 3
DIRECTIONS = ["to PostgreSQL", "from PostgreSQL", "between databases"]


@pytest.fixture
def urls(
    request: pytest.FixtureRequest, tmp_path: Path, databases: Databases, database_url: str
) -> Iterator[tuple[str, str]]:
    """The URLs of a source and a target."""
    direction = getattr(request, "param", "to PostgreSQL")
    file = f"sqlite:///{tmp_path}/memory.db"
    if direction == "between databases":
        other = databases.create()
        yield database_url, databases.url_of(other)
        databases.drop(other)
    else:
        yield (file, database_url) if direction == "to PostgreSQL" else (database_url, file)


@pytest_asyncio.fixture
async def source(urls: tuple[str, str]) -> AsyncIterator[Memory]:
    async with Memory(urls[0]) as memory:
        await fill(memory)
        yield memory


@pytest_asyncio.fixture
async def target(urls: tuple[str, str]) -> AsyncIterator[Memory]:
    async with Memory(urls[1]) as memory:
        yield memory


@pytest.mark.parametrize("urls", DIRECTIONS, indirect=True)
async def test_all_is_copied_and_goes_on_like_the_original(source: Memory, target: Memory) -> None:
    told: list[CopyProgress] = []
    report = await copy_memory(source, target, progress=told.append)
    assert await content(target) == await content(source)
    assert (report.conversations, report.unchanged_conversations, report.messages) == (8, 0, MESSAGES)
    assert told[-1] == CopyProgress("check", 8, 8, MESSAGES)
    for memory in (source, target):
        assert await memory.append("ana", "talk", make_message("next", id="next")) == [35]
        assert await memory.append("ana", "talk", make_message("said 7", id="m7")) == [7]
        assert await memory.append("ana", "fork of the fork", make_message("said 7", id="m7")) == [7]
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


@pytest.mark.parametrize("urls", DIRECTIONS, indirect=True)
async def test_a_later_copy_has_only_to_do_what_is_new(source: Memory, target: Memory) -> None:
    first = await copy_memory(source, target)
    again = await copy_memory(source, target)
    assert (again.unchanged_conversations, again.digest) == (8, first.digest)
    await source.append("ana", "talk", make_message("new", id="new"))
    await source.pin("ana", "talk", "new")
    later = await copy_memory(source, target)
    assert (later.unchanged_conversations, later.messages) == (7, MESSAGES + 1)
    assert await content(target) == await content(source)


@pytest.mark.parametrize("urls", DIRECTIONS[:2], indirect=True)
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


async def test_a_copy_there_and_back_is_the_same(source: Memory, target: Memory, tmp_path: Path) -> None:
    there = await copy_memory(source, target)
    async with Memory(f"sqlite:///{tmp_path}/back.db") as third:
        back = await copy_memory(target, third)
        assert back.digest == there.digest
        assert await content(third) == await content(source)


@pytest.mark.parametrize("urls", DIRECTIONS[:2], indirect=True)
async def test_what_takes_the_place_of_deleted_messages_is_read_and_found(
    source: Memory, target: Memory
) -> None:
    for number in range(3):
        await target.append("tenant 2", "talk", make_message("somebody else", id=f"h{number}"))
    assert len(await target.search("tenant 2", "somebody")) == 3
    assert len(await target.get_messages_only("tenant 2", "talk")) == 3
    with pytest.raises(CopyConflict, match="conversation 'talk' of scope 'tenant 2'"):
        await copy_memory(source, target)
    await target.delete_conversation("tenant 2", "talk")
    assert await target.get_messages_only("tenant 2", "talk") == []
    await copy_memory(source, target)
    assert await content(target) == await content(source)
    [hit] = await target.search("tenant 2", "hello")
    assert (hit.conversation, hit.position) == ("talk", 1)


async def test_what_changes_during_the_copy_is_found_at_the_end(
    source: Memory, target: Memory, urls: tuple[str, str]
) -> None:
    steps: list[str] = []

    def change(told: CopyProgress) -> None:
        if told.step not in steps and told.step == "check":
            with psycopg.connect(urls[1]) as other:
                other.execute("UPDATE autonomy_ctx.message SET body = replace(body, 'hello', 'hullo')")
        steps.append(told.step)

    with pytest.raises(CopyMismatch, match="3 conversations differ after the copy"):
        await copy_memory(source, target, progress=change)
