"""Windows served from memory are what a fresh look at the store would give, whoever wrote meanwhile."""

# ruff: noqa: ASYNC240  # a test may wait for its own small files

from __future__ import annotations

import asyncio
import shutil
from collections.abc import AsyncIterator, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import anyio
import anyio.lowlevel
import pytest
from agents.kit import add_up, call, calls
from hypothesis import example, given, settings
from hypothesis import strategies as st

from autonomy_ctx import Agent, ContextTemplate, ConversationHistorySection, Memory
from autonomy_ctx.errors import StoreUnavailable
from autonomy_ctx.memory.cache import (
    MAX_WINDOW_BYTES,
    MAX_WINDOW_MESSAGES,
    SPARE_MESSAGES,
    WindowCache,
)
from autonomy_ctx.memory.in_process import InProcessStore
from autonomy_ctx.memory.store import Key, StoredSegment, TurnToken, make_key
from autonomy_ctx.stores import Draft, Head, Window
from autonomy_ctx.testing import MAIN, ScriptedModel, make_drafts, make_message


class WatchedStore(InProcessStore):
    """A store that notes how many entries each read gave."""

    def __init__(self) -> None:
        super().__init__()
        self.rows_read: list[int] = []
        self.calls = 0

    async def read(
        self, key: Key, *, after: int = 0, before: int | None = None, limit: int | None = None
    ) -> Window:
        window = await super().read(key, after=after, before=before, limit=limit)
        self.calls += 1
        if window.entries:
            self.rows_read.append(len(window.entries))
        return window

    async def head(self, key: Key) -> Head:
        self.calls += 1
        return await super().head(key)


@pytest.fixture
async def url(tmp_path: Path) -> str:
    return f"sqlite:///{tmp_path}/memory.db"


@pytest.fixture
async def one(url: str) -> AsyncIterator[Memory]:
    made = Memory(url)
    yield made
    await made.close()


@pytest.fixture
async def other(url: str) -> AsyncIterator[Memory]:
    """A second object on the same file: to the first it looks like another process."""
    made = Memory(url)
    yield made
    await made.close()


def spoken(first: int, last: int, size: int = 1) -> list[Draft]:
    return make_drafts(*(make_message(f"{n} " * size, id=f"m{n}") for n in range(first, last + 1)))


async def texts(memory: Memory, limit: int = 20) -> list[str]:
    return [entry.message.text for entry in (await memory.read("ana", "trip", limit=limit)).entries]


# -- current -------------------------------------------------------------------------------------


async def test_a_kept_window_shows_what_another_object_appended(one: Memory, other: Memory) -> None:
    await one.append("ana", "trip", make_message("1", id="m1"))
    assert await texts(one) == ["1"]
    await other.append("ana", "trip", make_message("2", id="m2"), make_message("3", id="m3"))
    assert await texts(one) == ["1", "2", "3"]


async def test_a_kept_window_no_longer_shows_what_another_object_deleted(one: Memory, other: Memory) -> None:
    await one.append("ana", "trip", *(make_message(str(n), id=f"m{n}") for n in range(1, 5)))
    assert await texts(one) == ["1", "2", "3", "4"]
    await other.delete_message("ana", "trip", "m2")
    assert await texts(one) == ["1", "3", "4"]
    await other.delete_conversation("ana", "trip")
    assert await texts(one) == []
    await other.append("ana", "trip", make_message("5", id="m5"))
    assert await texts(one) == ["5"]
    await other.delete_scope("ana")
    assert await texts(one) == []


async def test_a_deletion_is_seen_also_when_as_much_was_said_again(one: Memory, other: Memory) -> None:
    """Same end, same count, same newest user: only the generation tells."""
    await one.append(
        "ana", "trip", make_message("1", id="m1"), make_message("2", id="m2"), make_message("3", id="m3")
    )
    await other.delete_message("ana", "trip", "m1")
    assert await texts(one) == ["2", "3"]
    before = await one.head("ana", "trip")
    await other.delete_message("ana", "trip", "m2")
    await other.append("ana", "trip", make_message("4", id="m4"))
    assert (await one.head("ana", "trip")).count == before.count
    assert await texts(one) == ["3", "4"]


async def test_a_deletion_is_seen_also_from_a_window_that_did_not_hold_it(one: Memory, other: Memory) -> None:
    await one.append("ana", "trip", *(make_message(str(n), id=f"m{n}") for n in range(1, 5)))
    assert await texts(one, limit=2) == ["3", "4"]
    await other.delete_message("ana", "trip", "m3")
    assert await texts(one, limit=2) == ["2", "4"]


async def test_every_window_holds_all_that_was_said_before_it_was_asked_for(
    one: Memory, other: Memory
) -> None:
    """One task appends through another object, tasks on the first one read: no window is behind or torn."""
    acknowledged = 0

    async def speak() -> None:
        nonlocal acknowledged
        for number in range(1, 101):
            await other.append("ana", "trip", make_message(str(number), id=f"m{number}"))
            acknowledged = number

    async def listen() -> None:
        while acknowledged < 100:
            known = acknowledged
            head, entries = await one.read("ana", "trip", limit=10)
            assert head.position >= known
            shown = [entry.position for entry in entries]
            assert shown == list(range(max(head.position - 9, 1), head.position + 1))
            # A small read does not wait for anything, so it gives nobody else a chance.
            await anyio.lowlevel.checkpoint()

    async with anyio.create_task_group() as group:
        group.start_soon(speak)
        group.start_soon(listen)
        group.start_soon(listen)


@pytest.mark.parametrize("gone_for_a_while", [False, True], ids=["at once", "after a while"])
async def test_a_file_put_back_from_a_backup_is_not_answered_from_memory(
    one: Memory, url: str, tmp_path: Path, gone_for_a_while: bool
) -> None:
    """The backup's head looks like the kept one, its file may even get the same number on the disk."""
    await one.append("ana", "trip", make_message("1", id="m1"))
    await one.close()
    path = tmp_path / "memory.db"
    backup = Path(shutil.copy(path, tmp_path / "backup.db"))
    running = Memory(url)
    await running.append("ana", "trip", make_message("before the restore", id="m2"))
    assert await texts(running) == ["1", "before the restore"]
    async with Memory(f"sqlite:///{backup}") as elsewhere:
        await elsewhere.append("ana", "trip", make_message("after the restore", id="m3"))
    number = path.stat().st_ino
    for file in tmp_path.glob("memory.db*"):
        if gone_for_a_while or file != path:
            file.unlink()
    if gone_for_a_while:
        assert not await running.health_check()
        with pytest.raises(StoreUnavailable):
            await texts(running)
        copies = (Path(shutil.copy(backup, tmp_path / f"copy{n}.db")) for n in range(100))
        backup = next((copy for copy in copies if copy.stat().st_ino == number), backup)
    backup.rename(path)
    assert await running.health_check(), "the other file was found"
    assert await texts(running) == ["1", "after the restore"]
    await running.close()


# -- a turn that reads what it has written -------------------------------------------------------


async def test_a_turn_reads_back_nothing_that_it_has_written() -> None:
    store = WatchedStore()
    async with Memory(store=store) as memory:
        replies: list[Any] = [calls(call("add_up", a=1, b=2)), "3"] * 3
        agent = Agent("helper", model=ScriptedModel(replies), memory=memory, tools=[add_up])
        for number in range(3):
            store.calls = 0
            await agent.send(f"{number}", scope="ana", conversation="trip")
        assert store.calls == 0, "the window of the turn before was extended by each append"
        shown = (await agent.explain(scope="ana", conversation="trip")).messages
    assert [one.text for one in shown if one.role == "user"] == ["0", "1", "2"]


TURN_STEPS = ("turn begins", "turn appends", "turn repeats", "turn reads", "others append", "others delete")
writes = st.lists(st.tuples(st.sampled_from(TURN_STEPS), st.integers(1, 3)), max_size=20)


@settings(max_examples=60)
@given(writes, st.integers(1, 6))
@example([("turn reads", 1), ("others delete", 1), ("turn appends", 1), ("turn reads", 1)], 6)
@example([("turn reads", 1), ("others append", 1), ("turn repeats", 1), ("turn reads", 1)], 6)
@example([("turn reads", 1), ("turn appends", 1), ("others append", 1), ("turn begins", 1)], 6)
async def test_a_turn_sees_all_that_was_there_when_it_last_wrote(
    steps: list[tuple[str, int]], limit: int
) -> None:
    """Once after an append it may see the log of that moment; whatever else it reads is of now."""
    store = InProcessStore()
    async with Memory(store=store) as one, Memory(store=store) as other:
        begin = partial(one.begin_turn, "ana", "trip", owner="a", seconds=600)
        start = await begin(make_message("0", id="0"))
        turn = one.in_turn(TurnToken(make_key("", "ana", "trip"), start.ticket, "a"))

        async def fresh() -> Window:
            return await other.store.read(make_key("", "ana", "trip"), limit=limit)

        number, as_written = 0, None
        for step, count in steps:
            number += count
            new = [make_message(str(at), id=str(at)) for at in range(number - count + 1, number + 1)]
            known = [entry.message for entry in (await fresh()).entries][:1]
            if step == "turn begins":
                # As after an answer that was lost: what it sends is there already.
                await begin(*known)
            elif step == "turn appends":
                await turn.append("ana", "trip", *new)
            elif step == "turn repeats":
                await turn.append("ana", "trip", *known, *new)
            elif step == "others append":
                await other.append("ana", "trip", *new)
            elif step == "others delete" and known:
                await other.delete_message("ana", "trip", known[0].id)
            else:
                found = await turn.read("ana", "trip", limit=limit)
                assert found in (await fresh(), as_written)
                as_written = None
            if step.startswith("turn") and step != "turn reads":
                as_written = await fresh()
        assert await turn.read("ana", "trip", limit=limit) in (await fresh(), as_written)


long = st.sampled_from([MAX_WINDOW_MESSAGES - 1, MAX_WINDOW_MESSAGES, MAX_WINDOW_MESSAGES + 1])
steps = st.lists(
    st.one_of(
        st.tuples(st.just("append"), st.integers(1, 3) | long, st.just(0)),
        st.tuples(st.just("delete"), st.integers(0, 3) | st.integers(0, 300), st.just(0)),
        st.tuples(st.just("read"), st.integers(0, 6) | long, st.just(0)),
        # Limits and positions so near to each other that one more or less makes a difference.
        st.tuples(st.just("read"), st.integers(1, 8), st.integers(0, 8)),
        st.tuples(st.just("read"), st.integers(1, 8), st.integers(0, 600)),
        # Back from the end: the page before the newest messages, and one with a gap to them.
        st.tuples(st.just("back"), st.integers(0, 8), st.integers(0, 8)),
        st.tuples(st.just("page"), st.integers(1, 8) | st.integers(1, 600), st.integers(0, 8)),
        st.tuples(st.just("forget"), st.just(0), st.just(0)),
    ),
    max_size=25,
)


@settings(max_examples=300, deadline=None)
@given(steps=steps)
def test_any_history_of_reads_and_writes_gives_the_windows_of_the_store(
    steps: list[tuple[str, int, int]],
) -> None:
    async def play() -> None:
        store = InProcessStore()
        hot = WindowCache(store)
        said_so_far = 0
        for step, number, after in steps:
            match step:
                case "append":
                    await store.append(MAIN, spoken(said_so_far + 1, said_so_far + number))
                    said_so_far += number
                case "delete":
                    await store.delete(MAIN.scope, ids=[f"m{said_so_far - number}"])
                case "read":
                    expected = await store.read(MAIN, after=after, limit=number)
                    assert await hot.read(MAIN, after=after, limit=number) == expected
                case "back" | "page":
                    before = max(said_so_far - (number if step == "back" else after), 0)
                    limit = after if step == "back" else number
                    expected = await store.read(MAIN, before=before, limit=limit)
                    assert await hot.read(MAIN, before=before, limit=limit) == expected
                    expected = await store.read(MAIN, after=after, before=before)
                    assert await hot.read(MAIN, after=after, before=before) == expected
                case "forget":
                    hot.forget("", MAIN.scope, None)

    asyncio.run(play())


async def test_asking_for_no_messages_hides_none_later() -> None:
    store = InProcessStore()
    hot = WindowCache(store)
    await store.append(MAIN, spoken(1, 3))
    assert list((await hot.read(MAIN, limit=0)).entries) == []
    assert len((await hot.read(MAIN, limit=5)).entries) == 3


async def test_the_list_of_a_window_belongs_to_who_asked(one: Memory) -> None:
    await one.append("ana", "trip", make_message("1", id="m1"), make_message("2", id="m2"))
    for _ in range(2):
        entries = (await one.read("ana", "trip", limit=5)).entries
        assert isinstance(entries, list)
        entries.clear()
    assert await texts(one) == ["1", "2"]


# -- what it saves -------------------------------------------------------------------------------


async def test_hits_and_misses_are_counted(one: Memory, other: Memory) -> None:
    async def counted() -> tuple[int, int]:
        metrics = await one.get_metrics()
        return metrics["hot_hits"], metrics["hot_misses"]

    await one.append("ana", "trip", make_message("1", id="m1"))
    await texts(one)
    assert await counted() == (0, 1)
    await texts(one)
    assert await counted() == (1, 1)
    await other.append("ana", "trip", make_message("2", id="m2"))
    await texts(one)
    assert await counted() == (2, 1), "what is new is read, what is known is not"
    await other.delete_message("ana", "trip", "m1")
    await texts(one)
    assert await counted() == (2, 2), "a new generation is a new window"
    await one.delete_message("ana", "trip", "m2")
    await texts(one)
    assert await counted() == (2, 3)


async def test_catching_up_reads_only_what_is_new() -> None:
    store = WatchedStore()
    hot = WindowCache(store)
    await store.append(MAIN, spoken(1, 50))
    await hot.read(MAIN, limit=40)
    await store.append(MAIN, spoken(51, 53))
    await hot.read(MAIN, limit=40)
    await hot.read(MAIN, limit=40)
    assert store.rows_read == [40, 3]


async def test_catching_up_is_one_call_to_the_store() -> None:
    """On a server each call is a round trip."""
    store = WatchedStore()
    hot = WindowCache(store)
    await store.append(MAIN, spoken(1, 50))
    await hot.read(MAIN, limit=40)
    for number in (51, 52):
        await store.append(MAIN, spoken(number, number))
        calls = store.calls
        assert (await hot.read(MAIN, limit=40)).entries[-1].position == number
        assert store.calls == calls + 1


async def test_a_window_keeps_no_more_than_reads_ask_for() -> None:
    store = WatchedStore()
    hot = WindowCache(store)
    await store.append(MAIN, spoken(1, 40))
    for said_so_far in range(40, 400):
        assert len((await hot.read(MAIN, after=said_so_far - 20)).entries) == 20
        await store.append(MAIN, spoken(said_so_far + 1, said_so_far + 1))
    assert len(hot._windows[MAIN].entries) <= 2 * (20 + SPARE_MESSAGES)
    assert store.rows_read == [20, *[1] * 359], "no message is read twice"


async def test_a_new_summary_costs_no_window() -> None:
    store = WatchedStore()
    hot = WindowCache(store)
    await store.append(MAIN, spoken(1, 50))
    before = await hot.read(MAIN, limit=40)
    await store.pin(MAIN, "m3", True)
    for _ in range(2):
        after = await hot.read(MAIN, limit=40)
        assert after.entries == before.entries
        assert after.head == await store.head(MAIN) != before.head
    assert store.rows_read == [40]
    assert await store.undo_segment(MAIN) is False
    segment = StoredSegment(first=1, last=9, text="nine", tokens=1)
    assert await store.commit_segment(MAIN, segment, generation=0, fence=None)
    await store.append(MAIN, spoken(51, 51))
    assert (await hot.read(MAIN, limit=40)).head == await store.head(MAIN)
    assert store.rows_read == [40, 1]


async def test_a_shorter_window_is_served_from_a_longer_one() -> None:
    store = WatchedStore()
    hot = WindowCache(store)
    await store.append(MAIN, spoken(1, 50))
    await hot.read(MAIN, limit=40)
    window = await hot.read(MAIN, limit=3)
    assert [entry.position for entry in window.entries] == [48, 49, 50]
    window = await hot.read(MAIN, limit=10, after=45)
    assert [entry.position for entry in window.entries] == [46, 47, 48, 49, 50]
    assert store.rows_read == [40]


async def test_clearing_short_term_memory_forgets_windows_and_keeps_messages(one: Memory) -> None:
    for agent in (one, one.for_agent("helper")):
        await agent.append("ana", "trip", make_message("1", id="m1"))
        await texts(agent)
    await one.clear_short_term_memory("ana", "trip")
    assert await texts(one) == ["1"]
    assert await texts(one.for_agent("helper")) == ["1"]
    assert (await one.get_metrics())["hot_misses"] == 3, "only the cleared window was read again"


# -- bounded -------------------------------------------------------------------------------------


async def kept(hot: WindowCache, key: Key, limit: int = 5) -> bool:
    """Whether a window is served from memory."""
    before = hot.hits
    await hot.read(key, limit=limit)
    return hot.hits > before


async def test_only_so_many_conversations_are_kept_the_latest_used_ones() -> None:
    store = InProcessStore()
    hot = WindowCache(store, conversations=3)
    keys = [Key("", "ana", str(number)) for number in range(5)]
    for key in keys:
        await store.append(key, spoken(1, 2))
        await hot.read(key, limit=5)
        await hot.read(keys[0], limit=5)
    assert len(hot._windows) == 3
    assert [await kept(hot, key) for key in (keys[0], keys[3], keys[4])] == [True, True, True]
    assert not await kept(hot, keys[1])


async def test_a_window_longer_than_the_bound_is_not_kept() -> None:
    store = InProcessStore()
    hot = WindowCache(store)
    await store.append(MAIN, spoken(1, MAX_WINDOW_MESSAGES + 10))
    for _ in range(2):
        assert not await kept(hot, MAIN, limit=MAX_WINDOW_MESSAGES + 1)
    assert len(hot._windows) == 0


async def test_a_kept_window_that_grows_keeps_its_length_within_the_bound() -> None:
    store = InProcessStore()
    hot = WindowCache(store)
    await store.append(MAIN, spoken(1, MAX_WINDOW_MESSAGES))
    await hot.read(MAIN, limit=MAX_WINDOW_MESSAGES)
    await store.append(MAIN, spoken(MAX_WINDOW_MESSAGES + 1, MAX_WINDOW_MESSAGES + 9))
    window = await hot.read(MAIN, limit=MAX_WINDOW_MESSAGES)
    assert [entry.position for entry in window.entries] == list(range(10, MAX_WINDOW_MESSAGES + 10))
    assert len(hot._windows[MAIN].entries) == MAX_WINDOW_MESSAGES


async def test_a_window_with_more_text_than_the_bound_is_not_kept() -> None:
    store = InProcessStore()
    hot = WindowCache(store)
    await store.append(MAIN, spoken(1, 2, size=MAX_WINDOW_BYTES))
    for _ in range(2):
        assert not await kept(hot, MAIN)
    await store.append(MAIN, spoken(3, 4))
    assert not await kept(hot, MAIN, limit=2)
    assert await kept(hot, MAIN, limit=2), "what fits is kept"
    await store.append(MAIN, spoken(5, 5, size=MAX_WINDOW_BYTES))
    await hot.read(MAIN, limit=2)
    assert len(hot._windows) == 0, "a window that has outgrown the bound is dropped"


@pytest.mark.parametrize(
    "heavy",
    [
        {"role": "user", "content": "hi", "own": "x" * 4_000_000},
        {"role": "user", "content": [{"type": "image", "image": "A" * 4_000_000, "mime_type": "image/png"}]},
    ],
    ids=["own data", "image"],
)
async def test_a_window_of_few_tokens_and_many_bytes_is_not_kept(heavy: dict[str, object]) -> None:
    """A count of tokens is no bound on memory: pictures and the user's own fields cost few or none."""
    store = InProcessStore()
    hot = WindowCache(store)
    await store.append(MAIN, make_drafts(heavy))
    await hot.read(MAIN, limit=5)
    assert not await kept(hot, MAIN)


# -- the same bytes ------------------------------------------------------------------------------


@pytest.mark.parametrize("most", [1, 3, 20])
async def test_a_context_is_the_same_from_memory_and_from_disk(one: Memory, url: str, most: int) -> None:
    template = ContextTemplate([ConversationHistorySection(max_messages=most)])

    async def digest(memory: Memory) -> str:
        return (await template.compose(memory, "ana", "trip")).digest()

    async def digest_from_disk() -> str:
        cold = Memory(url)
        found = await digest(cold)
        await cold.close()
        return found

    await one.append("ana", "trip", make_message("{x} \ud800 中文 \0", id="m1"))
    await one.append(
        "ana", "trip", {"role": "assistant", "content": [{"type": "text", "text": "b"}], "id": "m2"}
    )
    cold = await digest(one)
    assert await digest(one) == cold == await digest_from_disk()
    await one.append("ana", "trip", make_message("more", id="m3"))
    caught_up = await digest(one)
    assert caught_up != cold
    assert await digest(one) == caught_up == await digest_from_disk()
    assert (await one.get_metrics())["hot_hits"] > 0


async def test_the_head_that_comes_with_a_window_is_current(one: Memory, other: Memory) -> None:
    await one.append("ana", "trip", make_message("1", id="m1"))
    await texts(one)
    await other.append("ana", "trip", make_message("2", id="m2", role="assistant"))
    assert (await one.read("ana", "trip", limit=1)).head == Head(2, 2, 0, 1)


async def test_a_window_belongs_to_its_conversation_alone() -> None:
    """Keys whose names join to the same text do not share a kept window."""
    store = InProcessStore()
    hot = WindowCache(store)
    keys: Sequence[Key] = [Key("", "a:b", "c"), Key("", "a", "b:c"), Key("a", "b", "c"), Key("", "A:b", "c")]
    for number, key in enumerate(keys):
        await store.append(key, make_drafts(make_message(str(number), id="same")))
    for _ in range(2):
        for number, key in enumerate(keys):
            [entry] = (await hot.read(key, limit=5)).entries
            assert entry.message.text == str(number)
