"""Which segments become one when together they are too large.

As a log-structured store compacts: the oldest neighbours of one level make one of the next, so
every message is merged a few times at most, however long the conversation.
"""

from __future__ import annotations

from collections.abc import Sequence

from autonomy_ctx.memory.store import StoredSegment

FAN_IN = 4


def to_merge(segments: Sequence[StoredSegment], size: int) -> tuple[StoredSegment, ...]:
    """The neighbours to merge next; none while all written segments together keep the size."""
    kept = [segment for segment in segments if not segment.provisional]
    if len(kept) < 2 or sum(segment.tokens for segment in kept) <= size:
        return ()
    runs = _runs(kept)
    full = [run for run in runs if len(run) >= FAN_IN]
    if full:
        return tuple(full[-1][:FAN_IN])
    longest = max(runs, key=len)
    if len(longest) >= 2:
        return tuple(longest)
    return tuple(kept[:2])


def _runs(segments: Sequence[StoredSegment]) -> list[list[StoredSegment]]:
    """Neighbours of the same level, oldest first."""
    runs: list[list[StoredSegment]] = []
    for segment in segments:
        if runs and runs[-1][0].level == segment.level:
            runs[-1].append(segment)
        else:
            runs.append([segment])
    return runs
