"""Keys, clocks, ids, messages and segments with fixed values for tests. Import them from
`autonomy_ctx.testing`.
"""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from itertools import count
from typing import Any

from autonomy_ctx.memory import encoding
from autonomy_ctx.memory.sql.store import Store
from autonomy_ctx.memory.store import Draft, Key, Lease, StoredSegment, SummaryState
from autonomy_ctx.messages.message import Message
from autonomy_ctx.messages.tokens import TokenCounter

MAIN = Key("", "ana", "trip")
_COUNTER = TokenCounter()


class StoppedClock:
    """A clock that stands still until `advance` is called."""

    def __init__(self, start: datetime = datetime(2030, 1, 1, tzinfo=UTC)) -> None:
        self.time = start

    def __call__(self) -> datetime:
        return self.time

    def advance(self, seconds: float) -> None:
        """Move the clock forward; a negative number moves it back."""
        self.time += timedelta(seconds=seconds)


def numbered_ids(prefix: str = "m") -> Callable[[], str]:
    """A function that returns the ids m1, m2, m3 and so on."""
    numbers = count(1)
    return lambda: f"{prefix}{next(numbers)}"


def make_drafts(*messages: Message | dict[str, Any]) -> list[Draft]:
    """Messages as a store takes them."""
    made = [
        encoding.coerce_message(message, new_id=numbered_ids("made"), now=StoppedClock())
        for message in messages
    ]
    return [encoding.make_draft(message, _COUNTER) for message in made]


def make_message(text: str, *, id: str, role: str = "user", **fields: Any) -> Message:  # noqa: A002
    """A message with a known id and time."""
    return Message(role, text, id=id, created_at=datetime(2030, 1, 1, tzinfo=UTC), **fields)


OTHER = Key("", "ana", "other")
HELPER = Key("helper", "ana", "trip")
BOB = Key("", "bob", "trip")
# Keys that join to the same text, or that a careless comparison takes for each other.
ALIKE_KEYS = [Key("", "a:b", "c"), Key("", "a", "b:c"), Key("a", "b", "c"), Key("", "", "")]
ALIKE_KEYS += [Key("", scope, "c") for scope in ("A", "a%", "\u00e9", "e\u0301")]


def make_segment(first: int, last: int, **fields: Any) -> StoredSegment:
    return StoredSegment(first=first, last=last, text=f"{first} to {last}", tokens=3, model="m", **fields)


def make_provisional_segment(first: int, last: int) -> StoredSegment:
    return StoredSegment(first=first, last=last, text=f"digest {first}", tokens=2, provisional=True)


def segment_ranges(state: SummaryState) -> list[tuple[int, int, bool]]:
    return [(one.first, one.last, one.provisional) for one in state.segments]


class StoreActions:
    """Stores with messages in them."""

    async def fill(self, store: Store, number: int, key: Key = MAIN) -> list[int]:
        """Append `number` messages: 1, 2, 3 and so on, under the ids m1, m2, m3."""
        return await store.append(
            key, make_drafts(*(make_message(str(n), id=f"m{n}") for n in range(1, number + 1)))
        )

    async def say(self, store: Store, *texts: str, key: Key = MAIN, role: str = "user") -> list[int]:
        """Append messages whose ids are their texts."""
        return await store.append(
            key, make_drafts(*(make_message(text, id=text, role=role) for text in texts))
        )

    async def texts(self, store: Store, key: Key = MAIN, **options: Any) -> list[str]:
        """The texts of a window."""
        return [entry.message.text for entry in (await store.read(key, **options)).entries]

    async def ranges(self, store: Store, key: Key = MAIN) -> list[tuple[int, int, bool]]:
        """The ranges of the current segments, each with whether it is provisional."""
        return segment_ranges(await store.summary(key))

    async def commit(
        self,
        store: Store,
        segment: StoredSegment,
        key: Key = MAIN,
        *,
        fence: int | None = None,
        **options: Any,
    ) -> bool:
        """Commit a segment made from the conversation as it is now."""
        generation = (await store.head(key)).generation
        return await store.commit_segment(key, segment, generation=generation, fence=fence, **options)

    async def commit_all(self, store: Store, *segments: StoredSegment, key: Key = MAIN) -> None:
        """Commit segments that fit."""
        for segment in segments:
            assert await self.commit(store, segment, key)

    async def claim_lease(self, store: Store, key: Key = MAIN, owner: str = "a", task: str = "sum") -> Lease:
        """Claim, for ten seconds, what is free and due."""
        lease = await store.claim(key, owner=owner, task=task, seconds=10)
        assert isinstance(lease, Lease)
        return lease
