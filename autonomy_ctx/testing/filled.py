"""Stores with messages and segments in them: what the parts of the contract begin with."""

from __future__ import annotations

from typing import Any

from autonomy_ctx.memory.store import Key, Lease, Store, StoredSegment, SummaryState
from autonomy_ctx.testing.values import MAIN, drafted, said

OTHER = Key("", "ana", "other")
HELPER = Key("helper", "ana", "trip")
BOB = Key("", "bob", "trip")


def written(first: int, last: int, **fields: Any) -> StoredSegment:
    return StoredSegment(first=first, last=last, text=f"{first} to {last}", tokens=3, model="m", **fields)


def stand_in(first: int, last: int) -> StoredSegment:
    return StoredSegment(first=first, last=last, text=f"digest {first}", tokens=2, provisional=True)


def ranges(state: SummaryState) -> list[tuple[int, int, bool]]:
    return [(one.first, one.last, one.provisional) for one in state.segments]


class Filled:
    """Stores with messages in them."""

    async def fill(self, store: Store, number: int, key: Key = MAIN) -> list[int]:
        """Append `number` messages: 1, 2, 3 and so on, under the ids m1, m2, m3."""
        return await store.append(key, drafted(*(said(str(n), id=f"m{n}") for n in range(1, number + 1))))

    async def commit(
        self, store: Store, segment: StoredSegment, key: Key = MAIN, *, fence: int | None = None
    ) -> bool:
        """Commit a segment made from the conversation as it is now."""
        generation = (await store.head(key)).generation
        return await store.commit_segment(key, segment, generation=generation, fence=fence)

    async def commit_all(self, store: Store, *segments: StoredSegment, key: Key = MAIN) -> None:
        """Commit segments that fit."""
        for segment in segments:
            assert await self.commit(store, segment, key)

    async def lease(self, store: Store, key: Key = MAIN, owner: str = "a", task: str = "sum") -> Lease:
        """Claim, for ten seconds, what is free and due."""
        lease = await store.claim(key, owner=owner, task=task, seconds=10)
        assert isinstance(lease, Lease)
        return lease
