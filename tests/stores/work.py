"""Pending work and leases, on every store."""

from __future__ import annotations

from dataclasses import replace

import anyio

from autonomy_ctx.memory.sql.store import Store
from autonomy_ctx.memory.store import Lease
from autonomy_ctx.testing.values import (
    BOB,
    HELPER,
    MAIN,
    OTHER,
    StoppedClock,
    StoreActions,
    make_drafts,
    make_message,
)


class WorkContract(StoreActions):
    """Tests of work and leases."""

    async def test_who_claims_first_has_it(self, store: Store, clock: StoppedClock) -> None:
        await self.fill(store, 1)
        lease = await self.claim_lease(store)
        assert lease == Lease(key=MAIN, owner="a", fence=1, until=clock().timestamp() + 10)
        for owner in ("a", "b"):
            assert await store.claim(MAIN, owner=owner, task="sum", seconds=10) is None

    async def test_what_nobody_spoke_in_cannot_be_claimed(self, store: Store) -> None:
        assert await store.claim(MAIN, owner="a", task="sum", seconds=10) is None
        await self.fill(store, 1)
        await self.claim_lease(store)
        await store.delete("ana", "", "trip", ["m1"])
        assert await store.claim(MAIN, owner="a", task="sum", seconds=10) is None
        assert await store.claim_next(owner="a", task="sum", seconds=10) is None

    async def test_tasks_that_claim_at_once_give_one_lease(self, store: Store) -> None:
        await self.fill(store, 1)
        answers: list[Lease | float | None] = []

        async def ask(owner: str) -> None:
            answers.append(await store.claim(MAIN, owner=owner, task="sum", seconds=10))

        async with anyio.create_task_group() as group:
            for number in range(8):
                group.start_soon(ask, str(number))
        assert len(answers) == 8
        assert len([answer for answer in answers if answer is not None]) == 1

    async def test_a_lease_that_has_run_out_can_be_taken_over(
        self, store: Store, clock: StoppedClock
    ) -> None:
        await self.fill(store, 1)
        first = await self.claim_lease(store)
        clock.advance(9)
        assert await store.claim(MAIN, owner="b", task="sum", seconds=10) is None
        clock.advance(1)
        assert (await self.claim_lease(store, owner="b")).fence > first.fence
        assert not await store.extend(first, 10)
        assert not await store.complete_task(first)
        assert await store.claim(MAIN, owner="c", task="sum", seconds=10) is None, "the loser let nothing go"

    async def test_a_lease_can_be_extended_until_somebody_else_has_it(
        self, store: Store, clock: StoppedClock
    ) -> None:
        await self.fill(store, 1)
        lease = await self.claim_lease(store)
        clock.advance(9)
        assert await store.extend(lease, 10)
        clock.advance(9)
        assert await store.claim(MAIN, owner="b", task="sum", seconds=10) is None
        clock.advance(5)
        assert await store.extend(lease, 10), "run out, but nobody else's"
        assert not await store.extend(replace(lease, owner="b"), 10)
        assert not await store.extend(replace(lease, fence=lease.fence + 1), 10)
        assert not await store.complete_task(replace(lease, owner="b"))
        clock.advance(10)
        again = await self.claim_lease(store)
        assert not await store.extend(lease, 10), "an older lease of the same owner"
        assert not await store.complete_task(lease)
        assert await store.complete_task(again)
        assert not await store.extend(again, 10)

    async def test_settled_work_is_gone_and_its_fence_never_comes_back(self, store: Store) -> None:
        await self.fill(store, 1)
        fences = []
        for _ in range(3):
            lease = await self.claim_lease(store)
            fences.append(lease.fence)
            assert await store.complete_task(lease)
            assert not await store.complete_task(lease)
            assert await store.claim_next(owner="a", task="sum", seconds=10) is None
        await self.claim_lease(store)
        await store.delete("ana")
        await store.append(MAIN, make_drafts(make_message("again", id="n1")))
        fences.append((await self.claim_lease(store)).fence)
        assert fences == sorted(set(fences))

    async def test_work_that_is_due_again_waits_and_remembers_how_it_went(
        self, store: Store, clock: StoppedClock
    ) -> None:
        await self.fill(store, 1)
        lease = await self.claim_lease(store)
        assert await store.complete_task(replace(lease, attempts=2, refusals=1, refused="hash"), again_in=30)
        assert await store.claim(MAIN, owner="b", task="sum", seconds=10) == 30
        assert await store.claim_next(owner="b", task="sum", seconds=10) == 30
        clock.advance(30)
        again = await self.claim_lease(store, owner="b")
        assert (again.attempts, again.refusals, again.refused) == (2, 1, "hash")

    async def test_another_task_starts_anew_but_respects_a_lease(
        self, store: Store, clock: StoppedClock
    ) -> None:
        await self.fill(store, 1)
        lease = await self.claim_lease(store)
        await store.complete_task(replace(lease, attempts=2, refusals=1, refused="hash"), again_in=30)
        other = await self.claim_lease(store, owner="b", task="other")
        assert (other.attempts, other.refusals, other.refused) == (0, 0, "")
        assert await store.claim(MAIN, owner="a", task="sum", seconds=10) is None
        assert await store.extend(other, 10)
        clock.advance(10)
        assert (await self.claim_lease(store)).fence > other.fence

    async def test_a_batch_of_a_provider_outlives_its_conversation_until_it_is_dropped(
        self, store: Store, clock: StoppedClock
    ) -> None:
        await self.fill(store, 1)
        lease = await self.claim_lease(store)
        await store.complete_task(replace(lease, refused="batch 1 1 9 model id"), again_in=30)
        # Another configuration would begin anew, and still has to drop it.
        other = await self.claim_lease(store, task="other")
        assert (other.attempts, other.refused) == (0, "batch 1 1 9 model id")
        await store.complete_task(other, again_in=30)
        await store.delete("ana")
        # Due at once.
        last = await store.claim_next(owner="a", task="other", seconds=10)
        assert isinstance(last, Lease)
        assert last.refused == other.refused
        assert await store.complete_task(last)
        assert await store.claim_next(owner="a", task="other", seconds=10) is None

    async def test_the_next_is_what_has_been_due_for_the_longest_time(
        self, store: Store, clock: StoppedClock
    ) -> None:
        for key, again_in in ((MAIN, 30), (OTHER, 20), (HELPER, 25), (BOB, 5)):
            await self.fill(store, 1, key)
            task = "other" if key == BOB else "sum"
            assert await store.complete_task(await self.claim_lease(store, key, task=task), again_in=again_in)
        assert await store.claim_next(owner="a", task="sum", seconds=10) == 20
        clock.advance(27)
        taken = [await store.claim_next(owner="a", task="sum", seconds=10) for _ in range(2)]
        assert [lease.key for lease in taken if isinstance(lease, Lease)] == [OTHER, HELPER]
        assert await store.claim_next(owner="b", task="sum", seconds=10) == 3
        assert (await self.claim_lease(store, BOB, task="other")).until == clock().timestamp() + 10
        clock.advance(4)
        assert isinstance(await store.claim_next(owner="b", task="sum", seconds=10), Lease)
        assert await store.claim_next(owner="b", task="sum", seconds=10) == 6, "a lease runs out"
        assert await store.claim_next(owner="b", task="unknown", seconds=10) is None

    async def test_a_clock_that_was_set_back_locks_nothing_for_long(
        self, store: Store, clock: StoppedClock
    ) -> None:
        for key in (MAIN, OTHER):
            await self.fill(store, 1, key)
        await self.claim_lease(store)
        assert await store.complete_task(await self.claim_lease(store, OTHER), again_in=300)
        clock.advance(-86_400)
        assert isinstance(await store.claim(MAIN, owner="b", task="sum", seconds=10), Lease)
        assert isinstance(await store.claim_next(owner="b", task="sum", seconds=10), Lease)

    async def test_what_is_owed_can_be_taken_by_anybody_and_keeps_its_past(
        self, store: Store, clock: StoppedClock
    ) -> None:
        assert not await store.enqueue_task(MAIN, task="sum"), "nobody spoke there"
        await self.fill(store, 1)
        assert await store.enqueue_task(MAIN, task="sum")
        lease = await store.claim_next(owner="b", task="sum", seconds=10)
        assert isinstance(lease, Lease)
        assert await store.enqueue_task(MAIN, task="sum"), "owing it again takes it from nobody"
        assert await store.claim_next(owner="a", task="sum", seconds=10) == 10
        assert await store.complete_task(replace(lease, attempts=3), again_in=30)
        assert await store.enqueue_task(MAIN, task="sum")
        assert await store.claim_next(owner="a", task="sum", seconds=10) == 30
        clock.advance(30)
        assert (await self.claim_lease(store)).attempts == 3
