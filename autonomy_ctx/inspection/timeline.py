"""A conversation over time: how far the summary reached at each turn, and how long segments and facts held.

It reads a limited number of places in the log and no texts, so 100,000 messages cost as much as 1,000. For a
store without outlines, it reads only a few places and the current summary.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from itertools import accumulate
from typing import Literal

from autonomy_ctx.errors import UnknownConversation
from autonomy_ctx.inspection.conversation import (
    FactReport,
    SummaryWork,
    read_bounds,
    report_facts,
    report_work,
)
from autonomy_ctx.inspection.report import Report, bounds_fields, from_seconds, make_report
from autonomy_ctx.memory.memory import Memory
from autonomy_ctx.memory.outline import MessageMark, SegmentVersion
from autonomy_ctx.memory.store import MAX_POSITION, make_key
from autonomy_ctx.validation import check_int

MAX_POINTS = 2_000
# In each part of the log, a message of the user is looked for among so many.
_LOOKAHEAD = 64
# More segments and facts than this, those that hold now first, are left out.
MAX_RANGES = 2_000


@dataclass(frozen=True, slots=True, kw_only=True)
class TimelinePoint(Report):
    """A turn of the user, and the state of the context at that time.

    The summary covered messages up to `covered`, without digests up to `summarized`. `window` is the number
    of messages after it.
    """

    position: int
    at: datetime
    is_user: bool
    covered: int
    summarized: int
    window: int


@dataclass(frozen=True, slots=True, kw_only=True)
class TimelineSegment(Report):
    """A current or replaced segment, for the positions `first` to `last`."""

    number: int
    first: int
    last: int
    level: int
    tokens: int
    model: str
    is_digest: bool
    state: Literal["in force", "replaced", "taken back"]
    created_at: datetime | None
    replaced_at: datetime | None
    replaced_by: int | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Timeline(Report):
    """A part of a conversation over time.

    Each point stands for `bucket` positions of the log; 1 means one point for each turn. `segments_left_out`
    and `facts_left_out` are the numbers of replaced segments and ended facts that are not listed.
    """

    agent: str
    scope: str
    conversation: str
    head: int
    count: int
    first: int
    last: int
    bucket: int
    floor: int | None
    ceiling: int | None
    points: tuple[TimelinePoint, ...]
    segments: tuple[TimelineSegment, ...]
    segments_left_out: int
    facts: tuple[FactReport, ...]
    facts_left_out: int
    pins: tuple[int, ...]
    work: SummaryWork | None


async def inspect_timeline(
    memory: Memory,
    scope: str,
    conversation: str,
    *,
    first: int | None = None,
    last: int | None = None,
    points: int = 500,
) -> Timeline:
    """The history of a conversation's context, at a limited number of turns between two positions."""
    check_int("first", first, most=MAX_POSITION, optional=True)
    check_int("last", last, most=MAX_POSITION, optional=True)
    check_int("points", points, most=MAX_POINTS)
    key = make_key(memory.agent, scope, conversation)
    state = await memory.summary(scope, conversation)
    if not state.head.count:
        raise UnknownConversation(conversation)
    start, end = first or 1, min(last or state.head.position, state.head.position)
    bucket = max(-(-(end - start + 1) // points), 1)
    ranges = [(at, min(at + min(bucket, _LOOKAHEAD) - 1, end)) for at in range(start, end + 1, bucket)]
    outline = await memory.store.outline(key, ranges)
    versions = outline.segments
    # A part of the log that was looked at whole and has no message of the user has no turn.
    marks = [mark for mark in outline.marks if mark.is_user or bucket > _LOOKAHEAD]
    segments = [one for one in _segments(versions) if one.last >= start and one.first <= end]
    facts = [
        fact
        for fact in await report_facts(memory, scope, conversation, outline)
        if fact.position <= end and (fact.ended_position is None or fact.ended_position >= start)
    ]
    shown_segments = sorted(segments, key=lambda one: (one.state != "in force", -one.number))[:MAX_RANGES]
    shown_facts = sorted(facts, key=lambda one: (one.state != "holds", -one.position))[:MAX_RANGES]
    return Timeline(
        **key._asdict(),
        head=state.head.position,
        count=state.head.count,
        first=start,
        last=max(end, start),
        bucket=bucket,
        **bounds_fields(await read_bounds(memory, key)),
        points=tuple(_points(marks, versions)),
        segments=tuple(sorted(shown_segments, key=lambda one: one.number)),
        segments_left_out=len(segments) - len(shown_segments),
        facts=tuple(sorted(shown_facts, key=lambda one: one.position)),
        facts_left_out=len(facts) - len(shown_facts),
        pins=tuple(pin.position for pin in state.pins if start <= pin.position <= end),
        work=report_work(outline.work),
    )


def _segments(versions: Sequence[SegmentVersion]) -> list[TimelineSegment]:
    created = {one.segment.number: one.segment.created for one in versions}
    found = []
    for segment, by in versions:
        is_replaced = by is not None and by > 0
        found.append(
            make_report(
                TimelineSegment,
                segment,
                is_digest=segment.provisional,
                state="in force" if by is None else "replaced" if is_replaced else "taken back",
                created_at=from_seconds(segment.created),
                replaced_at=from_seconds(created.get(by)) if by is not None and is_replaced else None,
                replaced_by=by if is_replaced else None,
            )
        )
    return found


class _Reach:
    """The reach of segments at each time: coverage never goes back, but for what was taken back."""

    def __init__(self, versions: Sequence[SegmentVersion], *, with_digests: bool) -> None:
        kept = [one.segment for one in versions if one.replaced_by is None or one.replaced_by > 0]
        counted = [segment for segment in kept if with_digests or not segment.provisional]
        counted.sort(key=lambda segment: segment.created)
        self._times = [segment.created for segment in counted]
        self._reach = list(accumulate((segment.last for segment in counted), max))

    def at(self, mark: MessageMark) -> int:
        """The last position covered when a message was said; never one that came after it."""
        before = bisect_right(self._times, mark.created_at.timestamp())
        return min(self._reach[before - 1], mark.position) if before else 0


def _points(marks: Sequence[MessageMark], versions: Sequence[SegmentVersion]) -> list[TimelinePoint]:
    covered = _Reach(versions, with_digests=True)
    summarized = _Reach(versions, with_digests=False)
    return [
        TimelinePoint(
            position=mark.position,
            at=mark.created_at,
            is_user=mark.is_user,
            covered=covered.at(mark),
            summarized=summarized.at(mark),
            window=mark.position - covered.at(mark),
        )
        for mark in marks
    ]
