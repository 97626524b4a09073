"""Outlines, on every store."""

from __future__ import annotations

from dataclasses import replace

from stores.facts import make_change

from autonomy_ctx.memory.outline import ConversationOutline
from autonomy_ctx.memory.sql.store import Store
from autonomy_ctx.testing.values import (
    MAIN,
    StoppedClock,
    StoreActions,
    make_drafts,
    make_message,
    make_segment,
)


async def read_outline(
    store: Store, *ranges: tuple[int, int], conversation: str = MAIN.conversation
) -> ConversationOutline:
    """The outline of a conversation."""
    return await store.outline(MAIN._replace(conversation=conversation), ranges)


class OutlineContract(StoreActions):
    """Tests of outlines. A subclass has a `store` and a `clock` fixture."""

    async def test_the_first_message_of_a_user_in_each_range_is_marked(self, store: Store) -> None:
        roles = ["user", "assistant", "tool", "assistant", "user", "user", "assistant"]
        messages = [
            make_message(str(at), id=f"m{at}", role=role, **({"tool_call_id": "c"} if role == "tool" else {}))
            for at, role in enumerate(roles, start=1)
        ]
        await store.append(MAIN, make_drafts(*messages))
        marks = (await read_outline(store, (1, 2), (3, 4), (5, 7), (8, 20))).marks
        assert [(mark.position, mark.is_user) for mark in marks] == [(1, True), (3, False), (5, True)]
        assert [mark.created_at for mark in marks] == [messages[at].created_at for at in (0, 2, 4)]

    async def test_what_nobody_said_has_an_empty_outline(self, store: Store) -> None:
        assert await read_outline(store, (1, 10)) == ConversationOutline()

    async def test_a_fork_is_marked_across_what_it_shares(self, store: Store) -> None:
        await self.fill(store, 4)
        await store.fork(MAIN, 3, "fork")
        fork = MAIN._replace(conversation="fork")
        await store.append(fork, make_drafts(make_message("own", id="own")))
        await store.fork(fork, 4, "second")
        for name in ("fork", "second"):
            marks = (await read_outline(store, (1, 2), (3, 3), (4, 9), conversation=name)).marks
            assert [mark.position for mark in marks] == [1, 3, 4]
        await store.delete("ana", "", "trip", ["m3"])
        marks = (await read_outline(store, (3, 4), conversation="fork")).marks
        assert [mark.position for mark in marks] == [4]

    async def test_segments_that_were_replaced_are_told_without_their_texts(self, store: Store) -> None:
        await self.fill(store, 6)
        await self.commit_all(store, make_segment(1, 2), make_segment(3, 4), make_segment(1, 4, level=1))
        versions = (await read_outline(store)).segments
        assert [(one.segment.first, one.segment.last, one.segment.level) for one in versions] == [
            (1, 2, 0),
            (3, 4, 0),
            (1, 4, 1),
        ]
        assert [one.replaced_by for one in versions] == [versions[2].segment.number] * 2 + [None]
        assert {one.segment.text for one in versions} == {""}
        await store.undo_segment(MAIN)
        assert [one.replaced_by for one in (await read_outline(store)).segments] == [None, None, -1]

    async def test_facts_that_are_done_are_told(self, store: Store) -> None:
        await self.fill(store, 4)
        first, second = await store.write_facts(MAIN, [make_change(1, "Book it."), make_change(1, "Pay it.")])
        done = replace(make_change(3, "", first.id), action="done")
        await store.write_facts(MAIN, [done, make_change(4, "Pay him.", second.id)])
        [end] = (await read_outline(store)).done_facts
        assert end == (first.id, 3, done.created_at, "model")

    async def test_work_that_is_owed_and_has_failed_is_told(self, store: Store, clock: StoppedClock) -> None:
        await self.fill(store, 2)
        assert (await read_outline(store)).work is None
        lease = await self.claim_lease(store)
        work = (await read_outline(store)).work
        assert work is not None
        assert (work.attempts, work.refusals, work.is_leased) == (0, 0, True)
        await store.complete_task(replace(lease, attempts=3, refusals=1), again_in=60)
        work = (await read_outline(store)).work
        assert work is not None
        assert (work.attempts, work.refusals, work.is_leased) == (3, 1, False)
        assert abs(work.due - clock().timestamp() - 60) < 1
