"""Facts that a store has kept are those that a fresh look at its file would give, whoever wrote meanwhile."""

from __future__ import annotations

import tempfile
from datetime import UTC, datetime
from pathlib import Path

import anyio
from hypothesis import given, settings
from hypothesis import strategies as st

from autonomy_ctx.items.fact import Fact, FactAction, FactChange, FactSource
from autonomy_ctx.memory.sqlite.facts import FactCache
from autonomy_ctx.memory.sqlite.store import SqliteStore
from autonomy_ctx.memory.store import Key, StoredSegment
from autonomy_ctx.testing import MAIN, make_drafts, make_message

OTHER = MAIN._replace(conversation="other")
MESSAGES = 6
AT = datetime(2026, 5, 1, tzinfo=UTC)

steps = st.lists(
    st.tuples(
        st.sampled_from(["write", "write", "write", "segment", "undo", "remove", "delete", "drop", "read"]),
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


async def follow(path: str, chosen: list[tuple[str, int, Key, int]], max_facts: int) -> None:
    stores = [SqliteStore(path), SqliteStore(path)]
    for store in stores:
        store._fact_cache = FactCache(max_facts)
    try:
        for key in (MAIN, OTHER):
            names = [f"{key.conversation}-{number}" for number in range(MESSAGES)]
            await stores[0].append(key, make_drafts(*(make_message(name, id=name) for name in names)))
        for at, (step, who, key, number) in enumerate(chosen):
            store = stores[who]
            state = await store.summary(key)
            holding = [fact for fact in state.facts if fact.state == "holds"]
            target = holding[at % len(holding)].id if holding and at % 2 else None
            match step:
                case "write":
                    await store.write_facts(key, [change(at, target, "user" if number == 1 else "rules")])
                case "segment":
                    segment = StoredSegment(first=state.covered + 1, last=number, text="s", tokens=1)
                    await store.commit_segment(
                        key,
                        segment,
                        generation=state.head.generation,
                        fence=None,
                        facts=[change(number, target)],
                    )
                case "undo":
                    await store.undo_segment(key)
                case "remove" if holding:
                    await store.remove_fact(key, int(holding[-1].id[1:]))
                case "delete":
                    window = await store.read(key)
                    await store.delete(
                        key.scope,
                        key.agent,
                        key.conversation,
                        [one.message.id for one in window.entries[-1:]],
                    )
                case "drop":
                    await store.drop_segments(key.scope, key.agent, key.conversation)
            for one in stores:
                assert (await one.summary(key)).facts == await fresh_facts(path, key)
    finally:
        for store in stores:
            await store.close()


@settings(max_examples=25, deadline=None)
@given(chosen=steps, max_facts=st.sampled_from([3, 1000]))
def test_kept_facts_are_those_of_the_file_whoever_writes(
    chosen: list[tuple[str, int, Key, int]], max_facts: int
) -> None:
    with tempfile.TemporaryDirectory() as folder:
        anyio.run(follow, str(Path(folder) / "memory.db"), chosen, max_facts)


async def test_only_facts_that_are_new_are_made_anew(tmp_path: Path) -> None:
    store = SqliteStore(str(tmp_path / "memory.db"))
    try:
        await store.write_facts(MAIN, [change(1, None), change(2, None)])
        before = (await store.summary(MAIN)).facts
        await store.write_facts(MAIN, [change(4, None)])
        after = (await store.summary(MAIN)).facts
        assert len(after) == 3
        assert all(one is other for one, other in zip(before, after, strict=False))
    finally:
        await store.close()


async def test_what_is_deleted_is_not_kept(tmp_path: Path) -> None:
    store = SqliteStore(str(tmp_path / "memory.db"))
    try:
        await store.append(MAIN, make_drafts(make_message("the port is 1", id="m1")))
        await store.write_facts(MAIN, [change(1, None)])
        assert (await store.summary(MAIN)).facts
        await store.delete(MAIN.scope)
        assert not store._fact_cache._cached
    finally:
        await store.close()
