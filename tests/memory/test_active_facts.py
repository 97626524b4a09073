"""The current facts of a store are those that a fresh look at its file gives, whoever wrote meanwhile.

A store without a file has the same ones.
"""

from __future__ import annotations

import sqlite3
import tempfile
from contextlib import closing
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path

import anyio
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from memory.scripts import run_on
from stores.facts import make_change

from autonomy_ctx.memory.in_process import InProcessStore
from autonomy_ctx.memory.sql.session import LargeRead, ReadLimit
from autonomy_ctx.memory.sql.store import Store
from autonomy_ctx.memory.sqlite.store import SqliteStore
from autonomy_ctx.memory.sqlite.window import read_summary
from autonomy_ctx.memory.store import Key, StoredSegment
from autonomy_ctx.messages.fact import Fact, FactAction, FactChange, FactSource
from autonomy_ctx.testing import MAIN, make_drafts, make_message
from autonomy_ctx.testing.values import make_provisional_segment, make_segment

OTHER = MAIN._replace(conversation="other")
MESSAGES = 6
AT = datetime(2026, 5, 1, tzinfo=UTC)

steps = st.lists(
    st.tuples(
        st.sampled_from(
            ["write", "write", "many", "many", "segment", "merge", "undo", "remove", "delete", "drop", "read"]
        ),
        # Which of two processes does it, where, and to what.
        st.integers(0, 1),
        st.sampled_from([MAIN, OTHER]),
        st.integers(1, MESSAGES),
    ),
    min_size=1,
    max_size=14,
)


def change(number: int, target: str | None, source: FactSource = "rules") -> FactChange:
    action: FactAction = "add" if target is None else "done" if number % 3 == 0 else "replace"
    return FactChange(
        action=action, position=number, created_at=AT, text=f"port {number}", target=target, source=source
    )


async def fresh_facts(path: str, key: Key) -> tuple[Fact, ...]:
    store = SqliteStore(path)
    try:
        return (await store.summary(key)).facts
    finally:
        await store.close()


async def fresh_history(path: str, key: Key) -> list[Fact]:
    store = SqliteStore(path)
    try:
        return await store.facts(key)
    finally:
        await store.close()


async def follow(path: str, chosen: list[tuple[str, int, Key, int]]) -> None:
    """Take the steps in two processes with one file, and in a store without a file, and compare all three."""
    stores = [SqliteStore(path), SqliteStore(path)]
    in_process = InProcessStore()
    try:
        for key in (MAIN, OTHER):
            names = [f"{key.conversation}-{number}" for number in range(MESSAGES)]
            for each in (stores[0], in_process):
                await each.append(key, make_drafts(*(make_message(name, id=name) for name in names)))
        for at, (step, who, key, number) in enumerate(chosen):
            for each in (stores[who], in_process):
                await take_step(each, step, key, number, at)
            followers: list[Store] = [*stores, in_process]
            for one in followers:
                assert (await one.summary(key)).facts == await fresh_facts(path, key)
                assert await one.facts(key) == await fresh_history(path, key)
    finally:
        for store in stores:
            await store.close()


async def take_step(store: Store, step: str, key: Key, number: int, at: int) -> None:
    state = await store.summary(key)
    holding = [fact for fact in state.facts if fact.state == "holds"]
    target = holding[at % len(holding)].id if holding and at % 2 else None
    match step:
        case "write":
            await store.write_facts(key, [change(at, target, "user" if number == 1 else "rules")])
        case "segment":
            segment = StoredSegment(first=state.covered + 1, last=number, text="s", tokens=1)
            await store.commit_segment(
                key, segment, generation=state.head.generation, fence=None, facts=[change(number, target)]
            )
        case "many":
            # One that the next ones replace, one that is there already, and one that ends another.
            new = [change(at + 50, None), change(at + 40, "+0"), change(number, target)]
            again = [replace(new[0], text=f"port {at % 4}", target=None, action="add")]
            await store.write_facts(key, [*new, *again, change(at + 61, "+3")])
        case "merge" if state.covered:
            segment = StoredSegment(first=1, last=state.covered, text="m", tokens=1, level=1)
            await store.commit_segment(key, segment, generation=state.head.generation, fence=None)
        case "undo":
            await store.undo_segment(key)
        case "remove" if holding:
            await store.remove_fact(key, int(holding[-1].id[1:]))
        case "delete":
            window = await store.read(key)
            ids = [one.message.id for one in window.entries[-1:]]
            await store.delete(key.scope, key.agent, key.conversation, ids)
        case "drop":
            await store.drop_segments(key.scope, key.agent, key.conversation)


@settings(max_examples=25, deadline=None)
@given(chosen=steps)
def test_facts_are_those_of_the_file_whoever_writes(chosen: list[tuple[str, int, Key, int]]) -> None:
    with tempfile.TemporaryDirectory() as folder:
        anyio.run(follow, str(Path(folder) / "memory.db"), chosen)


@pytest.mark.parametrize("has_file", [True, False])
async def test_a_fact_that_was_removed_may_be_said_again(has_file: bool, tmp_path: Path) -> None:
    store = SqliteStore(str(tmp_path / "memory.db")) if has_file else InProcessStore()
    try:
        await store.write_facts(MAIN, [change(1, None), change(2, None)])
        await store.remove_fact(MAIN, 1)
        await store.write_facts(MAIN, [change(1, None), change(2, None)])
        texts = [(fact.id, fact.text) for fact in (await store.summary(MAIN)).facts]
        assert texts == [("F2", "port 2"), ("F3", "port 1")]
    finally:
        await store.close()


async def test_facts_that_a_segment_drops_and_states_again_keep_their_numbers(tmp_path: Path) -> None:
    """What they had replaced holds again, and what is stated again may have another source."""
    store = SqliteStore(str(tmp_path / "memory.db"))
    try:
        names = [f"m{number}" for number in range(MESSAGES)]
        await store.append(MAIN, make_drafts(*(make_message(name, id=name) for name in names)))
        await store.write_facts(MAIN, [make_change(4, "port 80", source="user"), make_change(4, "seat")])
        digest = make_provisional_segment(1, 2)
        facts = [make_change(1, "aisle", "F2", source="rules"), make_change(2, "9 EUR", source="rules")]
        assert await store.commit_segment(MAIN, digest, generation=0, fence=None, facts=facts)
        before = {fact.id for fact in (await store.summary(MAIN)).facts if fact.state == "holds"}
        again = [make_change(2, "9 EUR"), make_change(2, "new")]
        assert await store.commit_segment(MAIN, make_segment(1, 2), generation=0, fence=None, facts=again)
        after = (await store.summary(MAIN)).facts
        assert after == await fresh_facts(store.path, MAIN)
        assert (before, [fact.id for fact in after]) == ({"F1", "F3", "F4"}, ["F1", "F2", "F4", "F5"])
    finally:
        await store.close()


async def test_many_facts_are_not_read_in_the_event_loop(tmp_path: Path) -> None:
    store = SqliteStore(str(tmp_path / "memory.db"))
    try:
        await store.write_facts(MAIN, [change(1, None), change(2, None), change(4, None)])
        with closing(sqlite3.connect(store.path, isolation_level=None)) as connection:
            assert len(run_on(connection, read_summary, MAIN, read_limit=ReadLimit(max_rows=3)).facts) == 3
            with pytest.raises(LargeRead):
                run_on(connection, read_summary, MAIN, read_limit=ReadLimit(max_rows=2))
    finally:
        await store.close()
