"""Summaries as memory keeps them: a list of segments per conversation, swapped one at a time.

The segments in force stand in order without a gap, from the first position on: first those that a
model has written, then digests that wait to be replaced. What a new segment does to the list is
decided here, by one function that every store calls inside its transaction.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, NamedTuple, Protocol

from autonomy_ctx.memory.key import Key

if TYPE_CHECKING:
    # A store is a log with summaries: it imports this module.
    from autonomy_ctx.memory.store import Entry, Head


@dataclass(frozen=True, slots=True, kw_only=True)
class StoredSegment:
    """The summary of the messages at positions `first` to `last`, and how it was made."""

    first: int
    last: int
    text: str
    tokens: int
    # 0 for one made from messages; one more than its sources for one merged from segments.
    level: int = 0
    # A digest that stands in until a model has written the real one.
    provisional: bool = False
    # The name of the model; `digest` when none was asked.
    model: str = ""
    input_tokens: int = 0
    output_tokens: int = 0
    prompt_hash: str = ""
    source_hash: str = ""
    # Which part of the identifiers of the source the text has kept, 0 to 1.
    coverage: float = 1.0
    # Seconds since 1970 by the store's clock, given when it is committed.
    created: float = 0.0
    # The conversation's generation it was made from, and its number among all ever made there.
    generation: int = 0
    number: int = 0


@dataclass(frozen=True, slots=True)
class SummaryState:
    """The segments in force and the pinned messages, with the head they were read with."""

    head: Head
    segments: tuple[StoredSegment, ...] = ()
    pins: tuple[Entry, ...] = ()

    @property
    def covered(self) -> int:
        """The last position that a segment stands for; the window starts right after it."""
        return self.segments[-1].last if self.segments else 0

    @property
    def written(self) -> int:
        """The last position that a segment stands for which is no stand-in."""
        return written(self.segments)


class Swap(NamedTuple):
    """What a new segment does: those it replaces, and the ones that come in their place."""

    removed: tuple[StoredSegment, ...]
    added: tuple[StoredSegment, ...]


class Summaries(Protocol):
    """Where segments and pins are kept, beside the log and under the same generation."""

    async def summary(self, key: Key) -> SummaryState:
        """The segments in force and the pins."""

    async def commit_segment(
        self, key: Key, segment: StoredSegment, *, generation: int, fence: int | None
    ) -> bool:
        """Put a segment in force if generation, coverage and lease still allow it; whether they did.

        `fence` is that of the lease under which it was made; None for a provisional one.
        """

    async def undo_segment(self, key: Key) -> bool:
        """Take back the newest segment and bring back what it replaced; a new generation."""

    async def drop_segments(
        self, scope: str, agent: str | None = None, conversation: str | None = None
    ) -> int:
        """Forget all segments of a conversation or scope; a new generation. How many were in force."""

    async def pin(self, key: Key, message_id: str, pinned: bool) -> bool:
        """Pin a message or let it go; false when there is no such message."""


def written(segments: Sequence[StoredSegment]) -> int:
    """The last position covered before the first provisional segment."""
    covered = 0
    for segment in segments:
        if segment.provisional:
            break
        covered = segment.last
    return covered


def swapped(active: Sequence[StoredSegment], new: StoredSegment, head: int) -> Swap | None:
    """What `new` does to the segments in force, or None when it does not fit them.

    It takes the place of neighbours of its kind with exactly its range; or a provisional one goes to
    the end, and a written one where the written ones end, over the provisional ones it covers. So
    coverage never goes back. A provisional one that is covered in part keeps the rest of its range.
    """
    if not 1 <= new.first <= new.last <= head:
        return None
    covered = active[-1].last if active else 0
    if new.provisional and new.first == covered + 1:
        return Swap((), (new,))
    if not new.provisional and new.first == written(active) + 1:
        over = [one for one in active if one.provisional and one.first <= new.last]
        rest = [replace(one, first=new.last + 1) for one in over if one.last > new.last]
        return Swap(tuple(over), (new, *rest))
    inside = [one for one in active if new.first <= one.first and one.last <= new.last]
    fits = (
        len(inside) > 1
        and all(one.provisional is new.provisional for one in inside)
        and inside[0].first == new.first
        and inside[-1].last == new.last
    )
    return Swap(tuple(inside), (new,)) if fits else None


def revived(active: Sequence[StoredSegment], replaced: Sequence[StoredSegment]) -> tuple[StoredSegment, ...]:
    """Which of the segments whose replacement was deleted come back into force.

    The newest where several stand for the same messages, and only as far as there is no gap and
    nothing written follows a stand-in.
    """
    chosen = list(active)
    for segment in sorted(replaced, key=lambda one: -one.number):
        if all(segment.last < one.first or one.last < segment.first for one in chosen):
            chosen.append(segment)
    covered, provisional, back = 0, False, []
    for segment in sorted(chosen, key=lambda one: one.first):
        if segment.first != covered + 1 or (provisional and not segment.provisional):
            break
        covered, provisional = segment.last, segment.provisional
        if segment not in active:
            back.append(segment)
    return tuple(back)
