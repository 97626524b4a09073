"""Profiles on each store; tenants are apart whatever is done to them."""

from __future__ import annotations

from collections.abc import AsyncIterator
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path

import anyio
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from stores.facts import make_change
from stores.profile import ProfileContract

from autonomy_ctx import Memory
from autonomy_ctx.errors import InvalidFact
from autonomy_ctx.memory.in_process import InProcessStore
from autonomy_ctx.memory.profile import merge_profile
from autonomy_ctx.memory.sql.store import Store
from autonomy_ctx.memory.sqlite.store import SqliteStore
from autonomy_ctx.memory.store import Key, ProfileFact, Record
from autonomy_ctx.messages.fact import Fact
from autonomy_ctx.testing import StoppedClock, make_message

pytestmark = pytest.mark.anyio


@pytest.fixture
def clock() -> StoppedClock:
    return StoppedClock()


class TestInProcessProfiles(ProfileContract):
    @pytest.fixture
    async def store(self, clock: StoppedClock) -> AsyncIterator[Store]:
        store = InProcessStore(clock=lambda: clock().timestamp())
        yield store
        await store.close()


class TestSqliteProfiles(ProfileContract):
    @pytest.fixture
    async def store(self, tmp_path: Path, clock: StoppedClock) -> AsyncIterator[Store]:
        store = SqliteStore(str(tmp_path / "memory.db"), clock=lambda: clock().timestamp())
        yield store
        await store.close()


NAMES = st.sampled_from(["ana", "bob", "a:b", ""])
STEPS = st.lists(
    st.tuples(st.sampled_from(["add", "remove", "clear", "delete"]), NAMES, NAMES, st.integers(0, 4)),
    max_size=25,
)


@settings(max_examples=40, derandomize=True)
@given(steps=STEPS)
def test_no_profile_shows_what_another_scope_or_agent_has(steps: list[tuple[str, str, str, int]]) -> None:
    async def run() -> None:
        memory = Memory()
        expected: dict[tuple[str, str], set[str]] = {}
        for do, agent, scope, number in steps:
            profile, key = memory.for_agent(agent).profile(scope), (agent, scope)
            known = expected.setdefault(key, set())
            if do == "add":
                await profile.add("value", f"{number} of {agent!r}, {scope!r}")
                known.add(f"{number} of {agent!r}, {scope!r}")
            elif do == "remove" and known:
                entry = (await profile)[0]
                await profile.remove(entry.id)
                known.discard(entry.text)
            elif do == "clear":
                assert await profile.clear() == len(known)
                known.clear()
            elif do == "delete":
                await memory.delete_scope(scope)
                for other in expected:
                    if other[1] == scope:
                        expected[other] = set()
        for (agent, scope), texts in expected.items():
            found = await memory.for_agent(agent).profile(scope)
            assert {entry.text for entry in found} == texts

    anyio.run(run)


async def test_what_is_no_entry_is_refused(memory: Memory) -> None:
    with pytest.raises(InvalidFact, match="must not be empty"):
        await memory.profile("ana").add("rule", "  ")
    with pytest.raises(InvalidFact, match="must be one of"):
        await memory.profile("ana").add("wish", "x")  # type: ignore[arg-type]
    assert await memory.profile("ana") == []
    assert await memory.conversations("ana") == [], "a profile is no conversation"


async def test_what_many_learn_and_write_at_once_is_kept_once(tmp_path: Path) -> None:
    memories = [Memory(f"sqlite:///{tmp_path}/memory.db") for _ in range(3)]
    await memories[0].append("ana", "trip", make_message("I'm vegetarian.", id="m1"))
    change = replace(make_change(1, "I'm vegetarian", source="rules"), in_profile=True)
    async with anyio.create_task_group() as group:
        for memory in memories * 3:
            group.start_soon(memory.store.write_facts, Key("", "ana", "trip"), [change])
            group.start_soon(memory.profile("ana").add, "value", "window seats")
    facts = await memories[0].facts("ana", "trip").history()
    assert [fact.text for fact in facts] == ["I'm vegetarian"]
    assert {entry.text for entry in await memories[1].profile("ana")} == {"I'm vegetarian", "window seats"}
    for memory in memories:
        await memory.close()


def learned(text: str, day: int, conversation: str) -> ProfileFact:
    at = datetime(2026, 5, day, tzinfo=UTC)
    fact = Fact(id="F1", kind="value", text=text, position=day, created_at=at, in_profile=True)
    return ProfileFact(conversation, fact)


def test_of_what_was_said_about_one_thing_the_newest_counts() -> None:
    said = [
        learned("My name is Ana", 1, "one"),
        learned("I'm vegetarian", 2, "one"),
        learned("I'm allergic to nuts", 3, "one"),
        learned("My name is Anna", 4, "two"),
        learned("I'm no longer vegetarian", 5, "two"),
        learned("i'm allergic to NUTS.", 6, "two"),
    ]
    texts = [entry.text for entry in merge_profile(said, [])]
    assert texts == ["I'm allergic to nuts", "My name is Anna", "I'm no longer vegetarian"]


def test_what_was_removed_comes_back_only_when_it_is_said_again() -> None:
    said = learned("I'm vegetarian", 2, "one")
    [entry] = merge_profile([said], [])
    removed = Record(1, entry.id, datetime(2026, 5, 3, tzinfo=UTC).timestamp(), "{}")
    assert merge_profile([said], [removed]) == []
    again = learned("I'm vegetarian", 4, "two")
    assert [entry.conversation for entry in merge_profile([said, again], [removed])] == ["two"]
