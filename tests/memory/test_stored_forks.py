"""Forks through `Memory`: errors, windows that were read before, and summaries in progress."""

from __future__ import annotations

from pathlib import Path

import anyio
import pytest
from summary_models import HeldModel, asks, shown, summarized

from autonomy_ctx import Memory, Message
from autonomy_ctx.errors import InvalidFork, InvalidKey, SharedTurn, UnknownConversation
from autonomy_ctx.memory.store import Head
from autonomy_ctx.testing import make_message


async def texts(memory: Memory, conversation: str) -> list[str]:
    return [entry.message.text for entry in (await memory.read("ana", conversation)).entries]


async def test_a_fork_has_a_name_of_its_own_or_the_one_that_is_given(memory: Memory) -> None:
    await asks(memory, 4)
    first, second = await memory.fork("ana", "trip"), await memory.fork("ana", "trip", at=2)
    assert len({"trip", first, second}) == 3
    assert await memory.fork("ana", "trip", at=3, name="other") == "other"
    assert [await memory.get_message_count("ana", name) for name in (first, second, "other")] == [4, 2, 3]


async def test_a_view_forks_the_conversations_of_its_agent(memory: Memory) -> None:
    view = memory.for_agent("guide")
    await asks(view, 2)
    with pytest.raises(UnknownConversation, match="'trip' has no messages"):
        await memory.fork("ana", "trip")
    name = await view.fork("ana", "trip", at=1)
    assert await texts(view, name) == ["said 1"]
    assert (await memory.head("ana", name)) == Head()


@pytest.mark.parametrize("at", [0, -1, True, 1.5, "1", 2**63])
async def test_a_position_that_is_none_is_refused(memory: Memory, at: object) -> None:
    await asks(memory, 2)
    with pytest.raises(ValueError, match=r"^at "):
        await memory.fork("ana", "trip", at=at)  # type: ignore[arg-type]
    assert len(await memory.conversations("ana")) == 1


async def test_what_cannot_be_forked_is_named(memory: Memory) -> None:
    await asks(memory, 2)
    with pytest.raises(InvalidFork, match="`at` is 3, but conversation 'trip' ends at position 2"):
        await memory.fork("ana", "trip", at=3)
    with pytest.raises(InvalidFork, match="`name` 'trip' is in use"):
        await memory.fork("ana", "trip", name="trip")
    for name in ("a\0b", "\ud800", "x" * 1025, 7):
        with pytest.raises(InvalidKey, match="invalid name"):
            await memory.fork("ana", "trip", name=name)  # type: ignore[arg-type]


async def test_a_shared_turn_is_not_dropped_from_under_the_other(memory: Memory) -> None:
    await memory.append("ana", "trip", Message("user", "one"), Message("assistant", "1"))
    await memory.append("ana", "trip", Message("user", "two"), Message("assistant", "2"))
    await memory.fork("ana", "trip", at=3, name="fork")
    for name in ("trip", "fork"):
        with pytest.raises(SharedTurn, match=r"from position 3 on.*`at=2`") as refused:
            await memory.drop_last_turn("ana", name)
        assert (refused.value.conversation, refused.value.position) == (name, 3)
    await memory.append("ana", "fork", Message("user", "other"), Message("assistant", "3"))
    assert await memory.drop_last_turn("ana", "fork") == 2
    await memory.delete_conversation("ana", "fork")
    assert await memory.drop_last_turn("ana", "trip") == 2, "nobody shares it any more"
    await memory.fork("ana", "trip", name="again")
    with pytest.raises(SharedTurn, match="start a new conversation"):
        await memory.drop_last_turn("ana", "again")


async def test_a_window_that_was_read_before_sees_what_is_deleted_through_a_fork(tmp_path: Path) -> None:
    url = f"sqlite:///{tmp_path}/memory.db"
    async with Memory(url) as one, Memory(url) as other:
        await asks(one, 6)
        await one.fork("ana", "trip", name="fork")
        for memory in (one, other):
            assert len(await texts(memory, "trip")) == len(await texts(memory, "fork")) == 6
        await other.delete_message("ana", "fork", "m3")
        await one.append("ana", "trip", make_message("new", id="new"))
        for memory in (one, other):
            assert await texts(memory, "trip") == ["said 1", "said 2", "said 4", "said 5", "said 6", "new"]
            assert await texts(memory, "fork") == ["said 1", "said 2", "said 4", "said 5", "said 6"]
        await one.delete_conversation("ana", "trip")
        assert await texts(other, "fork") == []


async def test_a_name_that_was_looked_at_before_it_was_a_fork_is_read_anew(memory: Memory) -> None:
    await asks(memory, 9)
    async with summarized(None) as section:
        await shown(section, memory)
        await section.settled()
        assert await texts(memory, "fork") == []
        assert (await shown(section, memory, "ana", "fork")).messages == []
        await memory.fork("ana", "trip", name="fork")
        assert (await shown(section, memory, "ana", "fork")).texts == (await shown(section, memory)).texts


async def test_a_summary_that_is_being_written_lands_in_the_source_alone(memory: Memory) -> None:
    """The fork asks a model by itself, and for its own messages."""
    model = HeldModel()
    async with summarized(model) as section:
        await asks(memory, 9)
        await shown(section, memory)
        for_source = await model.wait_for_call()
        await memory.fork("ana", "trip", at=8, name="fork")
        assert len(model.calls) == 1, "a fork asks no model"
        await memory.append("ana", "fork", make_message("apart", id="apart"))
        assert (await shown(section, memory, "ana", "fork")).window == [*range(1, 10)]
        for_fork = await model.wait_for_call(2)
        for_source.answer("of the source")
        for_fork.answer("of the fork")
        await section.settled()
        for name, text in (("trip", "of the source"), ("fork", "of the fork")):
            [segment] = (await memory.summary("ana", name)).segments
            assert (segment.first, segment.last, segment.text) == (1, 5, text)


async def test_a_fork_goes_on_with_the_summary_of_its_source(memory: Memory) -> None:
    model = HeldModel()
    async with summarized(model) as section:
        await asks(memory, 9)
        await shown(section, memory)
        (await model.wait_for_call()).answer("of five")
        await section.settled()
        await memory.fork("ana", "trip", at=7, name="fork")
        seen = await shown(section, memory, "ana", "fork")
        assert (seen.window, "of five" in seen.summary_text) == ([6, 7], True)
        await section.settled()
        assert len(model.calls) == 1


async def test_a_summary_of_a_fork_in_progress_is_void_after_a_deletion_through_its_source(
    memory: Memory,
) -> None:
    model = HeldModel()
    async with summarized(model) as section:
        await asks(memory, 9)
        await memory.fork("ana", "trip", name="fork")
        await shown(section, memory, "ana", "fork")
        call = await model.wait_for_call()
        await memory.delete_message("ana", "trip", "m2")
        call.answer("of a deleted message")
        await section.settled()
        assert (await memory.summary("ana", "fork")).segments == ()
        assert (await shown(section, memory, "ana", "fork")).window == [1, *range(3, 10)]


async def test_objects_that_fork_to_one_name_at_once_make_one_fork(tmp_path: Path) -> None:
    url = f"sqlite:///{tmp_path}/memory.db"
    made: list[int] = []
    async with Memory(url) as one, Memory(url) as other:
        await asks(one, 9)

        async def fork(memory: Memory, at: int) -> None:
            try:
                await memory.fork("ana", "trip", at=at, name="fork")
            except InvalidFork:
                return
            made.append(at)

        async with anyio.create_task_group() as group:
            for at in range(1, 9):
                group.start_soon(fork, one if at % 2 else other, at)
        [at] = made
        assert (await one.head("ana", "fork")).position == at
