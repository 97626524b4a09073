"""Where a fork of a conversation begins, and with which segments: rules that every store shares.

A fork has the state of its source at a position, as far as that is known without a model. Segments that reach
further, and facts that come from them, are left out; the fork summarizes those messages again. `facts`
decides which facts a fork gets.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable
from typing import NamedTuple

from autonomy_ctx.errors import InvalidFork, UnknownConversation
from autonomy_ctx.memory.store import Head, Key, StoredSegment, unbroken_segments


class ReplacedSegment(NamedTuple):
    """A replaced segment, and the number of the segment that replaced it."""

    replaced_by: int
    segment: StoredSegment


def fork_position(key: Key, head: Head, at: int | None, name: str, *, name_exists: bool) -> int:
    """The position where a fork begins; raises an error for an invalid fork before anything changes."""
    if not head.count:
        raise UnknownConversation(key.conversation)
    if name_exists:
        raise InvalidFork(
            "name", f"{name!r} is in use, or was in use before it was deleted; choose another name"
        )
    if at is None:
        return head.position
    if at > head.position:
        raise InvalidFork(
            "at", f"is {at}, but conversation {key.conversation!r} ends at position {head.position}"
        )
    return at


def fork_segments(
    active: Iterable[StoredSegment], replaced: Iterable[ReplacedSegment], at: int
) -> list[StoredSegment]:
    """The current segments of a fork at a position, in order.

    These are the segments that end there or before. If a merged segment reaches further, the segments that it
    was made from are used. The list ends at the first gap, and before a written segment that follows a
    provisional one.
    """
    sources: dict[int, list[StoredSegment]] = defaultdict(list)
    for number, segment in replaced:
        sources[number].append(segment)
    pending, chosen = list(active), []
    while pending:
        segment = pending.pop()
        if segment.last <= at:
            chosen.append(segment)
        elif segment.first <= at:
            pending += sources[segment.number]
    return unbroken_segments(chosen)
