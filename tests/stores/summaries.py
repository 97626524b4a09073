"""Summary segments and pins, on every store."""

from __future__ import annotations

from dataclasses import replace

import pytest

from autonomy_ctx.errors import NotPinned
from autonomy_ctx.memory.sql.store import Store
from autonomy_ctx.memory.store import Head, StoredSegment, SummaryState
from autonomy_ctx.testing.values import (
    BOB,
    HELPER,
    MAIN,
    OTHER,
    StoppedClock,
    StoreActions,
    make_drafts,
    make_message,
    make_provisional_segment,
    make_segment,
    segment_ranges,
)


class SummariesContract(StoreActions):
    """Tests of segments and pins."""

    async def test_a_conversation_without_summary_has_nothing_in_force(self, store: Store) -> None:
        assert await store.summary(MAIN) == SummaryState(Head())
        await self.fill(store, 2)
        assert await store.summary(MAIN) == SummaryState(await store.head(MAIN))

    async def test_a_segment_comes_back_as_it_was_committed(self, store: Store, clock: StoppedClock) -> None:
        await self.fill(store, 4)
        given = StoredSegment(
            first=1,
            last=3,
            text='NUL \0, surrogate \ud800, 中文, "quoted"',
            tokens=12,
            level=2,
            model="m",
            input_tokens=100,
            output_tokens=10,
            prompt_hash="p",
            source_hash="s",
            coverage=0.75,
        )
        assert await self.commit(store, given)
        state = await store.summary(MAIN)
        [kept] = state.segments
        assert kept == replace(given, created=clock().timestamp(), generation=0, number=kept.number)
        assert (state.covered, state.written, state.head) == (3, 3, await store.head(MAIN))

    async def test_a_commit_is_a_new_revision_of_the_same_generation(self, store: Store) -> None:
        await self.fill(store, 4)
        await self.commit_all(store, make_segment(1, 2))
        head = Head(position=4, count=4, generation=0, last_user=4, revision=1)
        assert (await store.summary(MAIN)).head == await store.head(MAIN) == head
        assert (await store.read(MAIN, limit=2)).head == (await store.read(MAIN)).head == head
        await store.append(MAIN, make_drafts(make_message("5", id="m5")))
        assert (await store.head(MAIN)).revision == 1

    async def test_a_segment_that_does_not_fit_changes_nothing(self, store: Store) -> None:
        assert not await store.commit_segment(MAIN, make_segment(1, 1), generation=0, fence=None)
        await self.fill(store, 6)
        await self.commit_all(store, make_segment(1, 2))
        before = await store.summary(MAIN)
        for segment in (
            make_segment(4, 5),
            make_segment(1, 2),
            make_segment(2, 4),
            make_segment(3, 7),
            make_provisional_segment(2, 4),
        ):
            assert not await self.commit(store, segment)
        assert not await store.commit_segment(MAIN, make_segment(3, 4), generation=1, fence=None)
        assert await store.summary(MAIN) == before

    async def test_a_written_segment_leaves_the_rest_of_a_stand_in(
        self, store: Store, clock: StoppedClock
    ) -> None:
        await self.fill(store, 9)
        await self.commit_all(store, make_provisional_segment(1, 3), make_provisional_segment(4, 8))
        before = (await store.summary(MAIN)).segments
        clock.advance(60)
        await self.commit_all(store, make_segment(1, 5))
        state = await store.summary(MAIN)
        assert segment_ranges(state) == [(1, 5, False), (6, 8, True)]
        assert (state.written, state.covered, state.head.revision) == (5, 8, 3)
        new, rest = state.segments
        assert rest == replace(before[1], first=6, number=rest.number)
        assert (new.created, rest.created) == (clock().timestamp(), clock().timestamp() - 60)
        assert len({one.number for one in (*before, new, rest)}) == 4

    async def test_a_merged_segment_stands_for_its_neighbours(self, store: Store) -> None:
        await self.fill(store, 9)
        await self.commit_all(
            store, make_segment(1, 2), make_segment(3, 4), make_segment(5, 6), make_segment(1, 4, level=1)
        )
        assert await self.ranges(store) == [(1, 4, False), (5, 6, False)]

    async def test_a_merge_is_committed_together_with_its_last_segment(self, store: Store) -> None:
        await self.fill(store, 9)
        await self.commit_all(store, make_segment(1, 2), make_segment(3, 4), make_provisional_segment(5, 8))
        before = await store.summary(MAIN)
        assert await self.commit(store, make_segment(5, 6), merged=make_segment(3, 6, level=1))
        state = await store.summary(MAIN)
        assert segment_ranges(state) == [(1, 2, False), (3, 6, False), (7, 8, True)]
        assert state.head.revision == before.head.revision + 1, "a reader sees the beginning change once"
        assert await store.undo_segment(MAIN)
        ranges = [(1, 2, False), (3, 4, False), (5, 6, False), (7, 8, True)]
        assert await self.ranges(store) == ranges
        assert await store.undo_segment(MAIN)
        assert (await store.summary(MAIN)).segments == before.segments

    async def test_a_merge_that_does_not_fit_is_left_out(self, store: Store) -> None:
        await self.fill(store, 9)
        await self.commit_all(store, make_segment(1, 2))
        assert await self.commit(store, make_segment(3, 4), merged=make_segment(2, 4, level=1))
        assert await self.ranges(store) == [(1, 2, False), (3, 4, False)]
        assert not await self.commit(store, make_segment(6, 7), merged=make_segment(1, 4, level=1))
        assert await self.ranges(store) == [(1, 2, False), (3, 4, False)]

    async def test_a_commit_needs_the_newest_lease(self, store: Store, clock: StoppedClock) -> None:
        await self.fill(store, 9)
        assert not await self.commit(store, make_segment(1, 2), fence=1), "nobody has claimed it"
        first = await self.claim_lease(store)
        assert not await self.commit(store, make_segment(1, 2), fence=first.fence + 1)
        assert await self.commit(store, make_segment(1, 2), fence=first.fence)
        clock.advance(11)
        assert await self.commit(store, make_segment(3, 4), fence=first.fence), "run out, but nobody else's"
        second = await self.claim_lease(store, owner="b")
        assert not await self.commit(store, make_segment(5, 6), fence=first.fence)
        assert await self.commit(store, make_segment(5, 6), fence=second.fence)
        assert (await store.summary(MAIN)).covered == 6

    async def test_a_lease_that_was_let_go_never_commits_again(self, store: Store) -> None:
        await self.fill(store, 9)
        first = await self.claim_lease(store)
        assert await store.complete_task(first, again_in=0)
        assert not await self.commit(store, make_segment(1, 2), fence=first.fence)
        second = await self.claim_lease(store)
        assert await store.complete_task(second)
        assert not await self.commit(store, make_segment(1, 2), fence=second.fence)
        third = await self.claim_lease(store)
        for old in (first, second):
            assert not await self.commit(store, make_segment(1, 2), fence=old.fence)
        assert await self.commit(store, make_segment(1, 2), fence=third.fence)

    async def test_undoing_brings_back_what_was_there_before(self, store: Store) -> None:
        await self.fill(store, 9)
        steps = [
            make_provisional_segment(1, 6),
            make_segment(1, 3),
            make_segment(4, 5),
            make_provisional_segment(7, 8),
            make_segment(1, 5, level=1),
        ]
        before = []
        for step in steps:
            before.append(await store.summary(MAIN))
            await self.commit_all(store, step)
        for state in reversed(before):
            now = (await store.summary(MAIN)).head
            assert await store.undo_segment(MAIN)
            undone = await store.summary(MAIN)
            assert undone.segments == state.segments
            raised = replace(now, generation=now.generation + 1, revision=now.revision + 1)
            assert undone.head == await store.head(MAIN) == raised
        assert not await store.undo_segment(MAIN)
        assert not await store.undo_segment(OTHER)
        assert await store.head(MAIN) == raised

    async def test_what_was_taken_back_never_comes_back(self, store: Store) -> None:
        await self.fill(store, 9)
        await self.commit_all(store, make_segment(1, 2), make_segment(3, 4))
        assert await store.undo_segment(MAIN)
        assert not await store.commit_segment(MAIN, make_segment(3, 4), generation=0, fence=None), (
            "made before"
        )
        await self.commit_all(store, make_segment(3, 6))
        assert await store.undo_segment(MAIN)
        assert await self.ranges(store) == [(1, 2, False)]

    async def test_dropping_forgets_all_segments_and_what_is_owed_but_no_pin(self, store: Store) -> None:
        for key in (MAIN, OTHER, HELPER, BOB):
            await self.fill(store, 6, key)
            await self.commit_all(store, make_segment(1, 2), make_segment(3, 4), make_segment(1, 4), key=key)
        await self.commit_all(store, make_provisional_segment(5, 5))
        assert await store.pin(MAIN, "m2", True)
        lease = await self.claim_lease(store)
        assert await store.drop_segments("ana", "", "trip") == 2
        state = await store.summary(MAIN)
        assert (state.segments, [pin.position for pin in state.pins]) == ((), [2])
        assert (state.head.generation, state.head.revision, state.head.count) == (1, 6, 6)
        assert not await store.undo_segment(MAIN)
        assert not await store.complete_task(lease)
        assert (await self.claim_lease(store)).fence > lease.fence
        assert await store.drop_segments("ana", "helper") == 1
        assert await self.ranges(store, OTHER) == [(1, 4, False)]
        assert await store.drop_segments("ana") == 1
        assert await store.drop_segments("ana") == 0
        assert (await store.head(MAIN)).generation == 1, "there was nothing left to forget"
        assert await self.ranges(store, BOB) == [(1, 4, False)]

    async def test_a_deleted_message_takes_its_segment_and_all_later_ones(self, store: Store) -> None:
        await self.fill(store, 9)
        await self.commit_all(
            store,
            make_segment(1, 2),
            make_segment(3, 4),
            make_provisional_segment(5, 6),
            make_provisional_segment(7, 8),
        )
        assert await store.delete("ana", "", "trip", ["m9"]) == 1
        state = await store.summary(MAIN)
        assert (state.covered, state.head.revision, state.head.generation) == (8, 4, 1)
        assert await store.delete("ana", "", "trip", ["m8", "m4"]) == 2
        state = await store.summary(MAIN)
        assert segment_ranges(state) == [(1, 2, False)]
        assert (state.head.revision, state.head.generation) == (5, 2)

    async def test_a_replaced_segment_does_not_survive_its_messages(self, store: Store) -> None:
        await self.fill(store, 9)
        await self.commit_all(store, make_provisional_segment(1, 6), make_segment(1, 2))
        await store.delete("ana", "", "trip", ["m4"])
        assert await self.ranges(store) == [(1, 2, False)]
        assert await store.undo_segment(MAIN)
        assert (await store.summary(MAIN)).segments == (), "the stand-in told of the fourth message too"
        await self.commit_all(store, make_segment(1, 2), make_segment(3, 6), make_segment(1, 6))
        await store.delete("ana", "", "trip", ["m1"])
        assert (await store.summary(MAIN)).segments == ()
        assert not await store.undo_segment(MAIN)

    async def test_a_deleted_conversation_leaves_nothing_that_was_made_from_it(self, store: Store) -> None:
        await self.fill(store, 4)
        await self.commit_all(store, make_segment(1, 2))
        await store.pin(MAIN, "m3", True)
        lease = await self.claim_lease(store)
        assert await store.delete("ana", "", "trip") == 4
        assert await store.summary(MAIN) == SummaryState(Head(position=4, generation=1, revision=3))
        assert not await store.complete_task(lease)
        await self.commit_all(store, make_provisional_segment(1, 4))
        assert await store.delete("ana") == 0
        assert (await store.summary(MAIN)).segments == (), "made after the messages had gone"

    async def test_pins_come_with_their_messages_in_order(self, store: Store) -> None:
        await self.fill(store, 3)
        await store.append(MAIN, make_drafts(make_message("x" * 200_000, id="large")))
        for name in ("m3", "m1"):
            assert await store.pin(MAIN, name, True)
        assert [entry.message.text for entry in (await store.summary(MAIN)).pins] == ["1", "3"]
        assert await store.pin(MAIN, "large", True)
        state = await store.summary(MAIN)
        entries = (await store.read(MAIN)).entries
        assert [pin[:2] for pin in state.pins] == [entries[0], entries[2], entries[3]]
        assert await store.pin(MAIN, "m1", False)
        assert [entry.position for entry in (await store.summary(MAIN)).pins] == [3, 4]
        assert (await store.summary(OTHER)).pins == ()

    async def test_only_a_pin_that_changes_something_is_a_new_revision(self, store: Store) -> None:
        await self.fill(store, 3)
        revisions = []
        for pinned in (False, True, True, False, False):
            assert await store.pin(MAIN, "m2", pinned)
            revisions.append((await store.head(MAIN)).revision)
        assert revisions == [0, 1, 1, 2, 2]
        for pinned in (True, False):
            assert not await store.pin(MAIN, "unknown", pinned)
            assert not await store.pin(OTHER, "m2", pinned)
        assert await store.head(MAIN) == Head(position=3, count=3, last_user=3, revision=2)

    async def test_a_pin_has_the_time_when_it_was_first_pinned_and_by_whom(
        self, store: Store, clock: StoppedClock
    ) -> None:
        await self.fill(store, 3)
        first = clock()
        await store.pin(MAIN, "m1", True, source="model")
        clock.advance(60)
        await store.pin(MAIN, "m2", True)
        await store.pin(MAIN, "m1", True, source="model")
        pins = (await store.summary(MAIN)).pins
        assert [(pin.pinned_at, pin.source) for pin in pins] == [(first, "model"), (clock(), "user")]
        revision = (await store.head(MAIN)).revision
        await store.pin(MAIN, "m2", True, source="model")
        assert (await store.head(MAIN)).revision == revision, "it stays the user's"
        await store.pin(MAIN, "m1", True)
        pins = (await store.summary(MAIN)).pins
        assert [(pin.pinned_at, pin.source) for pin in pins] == [(first, "user"), (clock(), "user")]

    async def test_a_pin_takes_the_place_of_another_at_once_or_not_at_all(self, store: Store) -> None:
        await self.fill(store, 4)
        await self.fill(store, 4, OTHER)
        await store.pin(MAIN, "m1", True)
        await store.pin(OTHER, "m3", True)
        before = await store.summary(MAIN)
        for unpinned in ("m2", "m3", "unknown"):
            with pytest.raises(NotPinned) as refused:
                await store.pin(MAIN, "m4", True, replaces=unpinned)
            assert refused.value.message_id == unpinned
        assert not await store.pin(MAIN, "unknown", True, replaces="m1")
        assert await store.summary(MAIN) == before
        assert await store.pin(MAIN, "m4", True, replaces="m1")
        after = await store.summary(MAIN)
        assert [pin.position for pin in after.pins] == [4]
        assert after.head.revision == before.head.revision + 1
        assert [pin.position for pin in (await store.summary(OTHER)).pins] == [3]

    async def test_a_pin_goes_with_its_message(self, store: Store) -> None:
        await self.fill(store, 3)
        await store.pin(MAIN, "m1", True)
        await store.pin(MAIN, "m3", True)
        await store.delete("ana", "", "trip", ["m2"])
        assert (await store.head(MAIN)).revision == 2
        await store.delete("ana", "", "trip", ["m1"])
        state = await store.summary(MAIN)
        assert ([entry.position for entry in state.pins], state.head.revision) == ([3], 3)

    async def test_what_a_deleted_summary_had_merged_is_in_force_again_as_far_as_it_is_whole(
        self, store: Store
    ) -> None:
        await self.fill(store, 9)
        await self.commit_all(store, make_segment(1, 3), make_segment(4, 6), make_segment(1, 6, level=1))
        await store.delete("ana", "", "trip", ["m5"])
        assert await self.ranges(store) == [(1, 3, False)]

    async def test_of_several_that_stood_for_the_same_messages_the_newest_comes_back(
        self, store: Store
    ) -> None:
        await self.fill(store, 12)
        await self.commit_all(store, make_provisional_segment(1, 5), make_provisional_segment(6, 11))
        joined = replace(make_provisional_segment(1, 11), level=1)
        await self.commit_all(
            store, joined, make_segment(1, 5), make_segment(6, 11), make_segment(1, 11, level=1)
        )
        await store.delete("ana", "", "trip", ["m8"])
        assert await self.ranges(store) == [(1, 5, False)]
