"""Floor, ceiling and hard limit as arithmetic: when a summary is due, and which messages it takes.

Pure functions over entries and segments. Every cut is safe: a window never begins between a tool call and
its result.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import TypeAlias

from autonomy_ctx.memory.store import Entry, StoredSegment
from autonomy_ctx.messages.cuts import safe_cuts
from autonomy_ctx.messages.message import ChatRole, Message

CountMessage: TypeAlias = Callable[[Message], int]

# Tokens of messages for one call of the summarizer, at most.
MAX_BATCH_TOKENS = 12_000
# The part of these that one message may have; the rest of it is cut out of its middle.
MESSAGE_PART = 4
# Source tokens for one token of summary, at most, and the shortest summary to ask for.
COMPRESSION_RATIO, MIN_SUMMARY_TOKENS = 3, 96
# From this length on, or this part of the size, a summary of a longer batch is only longer where the batch
# has so many tokens for each of it: what is short is merged later, and fewer times.
LONG_SUMMARY_TOKENS, LONG_SUMMARY_PART, MAX_COMPRESSION_RATIO = 192, 11, 12
# The exchanges that the user's next message is most likely about.
LAST_EXCHANGES = 2
# How much further than the nearest cut one may be at which a user speaks.
USER_CUT_SLACK = 2


@dataclass(frozen=True, slots=True, kw_only=True)
class Limits:
    """Messages and, where given, tokens: kept after a summary, before the next, and at most."""

    floor: int
    ceiling: int
    hard: int
    floor_tokens: int | None = None
    ceiling_tokens: int | None = None
    hard_tokens: int | None = None

    @property
    def batch(self) -> int:
        """The step by which the window advances."""
        return self.ceiling - self.floor


def is_due(entries: Sequence[Entry], limits: Limits, count: CountMessage, lead: int = 0) -> bool:
    """Tell whether uncovered entries pass the ceiling, or will before a summary could be ready."""
    if len(entries) > limits.ceiling - min(lead, limits.batch - 1):
        return True
    ceiling = limits.ceiling_tokens
    return ceiling is not None and sum(count(entry.message) for entry in entries) > ceiling


def expected_messages(entries: Sequence[Entry], seconds: float) -> int:
    """Estimate how many messages arrive in so many seconds, at the pace of these."""
    if len(entries) < 2:
        return 0
    taken = (entries[-1].message.created_at - entries[0].message.created_at).total_seconds()
    return round(seconds * (len(entries) - 1) / taken) if taken > 0 else 0


def window_start(
    entries: Sequence[Entry], limits: Limits, count: CountMessage, room: int | None = None
) -> int:
    """The index at which the verbatim window starts after a summary of all before it; 0 for no summary.

    At the floor, or as near to it as a safe cut allows. With a `room` in tokens, the last exchanges stay
    in the window as far as they fit.
    """
    wanted = max(len(entries) - limits.floor, 0)
    if limits.floor_tokens is not None:
        wanted = max(wanted, _start_within(entries, limits.floor_tokens, count))
    if room is not None:
        wanted = min(wanted, _last_exchanges_start(entries, room, count))
    return nearest_cut(entries, wanted)


def _last_exchanges_start(entries: Sequence[Entry], room: int, count: CountMessage) -> int:
    """Where the last two exchanges start, and a question after them; fewer where they do not fit."""
    users = [index for index, entry in enumerate(entries) if entry.message.role is ChatRole.USER]
    for exchanges in range(min(LAST_EXCHANGES + 1, len(users)), 0, -1):
        start = users[-exchanges]
        if sum(count(entry.message) for entry in entries[start:]) <= room:
            return start
    return len(entries)


def nearest_cut(entries: Sequence[Entry], wanted: int) -> int:
    """The safe cut to use for a wanted one: itself if it is safe, else one nearby; 0 when there is none."""
    cuts = [cut for cut in _cuts(entries) if cut > 0]
    if not cuts or wanted in cuts or wanted <= 0:
        return wanted if cuts and wanted > 0 else 0
    # On a tie, the earlier cut wins: one message too many is better than one too few.
    nearest = min(cuts, key=lambda cut: (abs(cut - wanted), cut))
    near = abs(nearest - wanted) + USER_CUT_SLACK
    users = [cut for cut in cuts if abs(cut - wanted) <= near and entries[cut].message.role is ChatRole.USER]
    return min(users, key=lambda cut: (abs(cut - wanted), cut)) if users else nearest


def request_cut(entries: Sequence[Entry], wanted: int, limits: Limits, *, began: int, least: int = 0) -> int:
    """The cut nearest to a wanted one at which a request of the current epoch ended; 0 when there is none.

    A reply follows it. `began` is the newest position when the epoch began, and `least` the smallest cut.
    Rather more messages stay than the floor asks for, as long as no other summary is due then; at least half
    as many do.
    """
    most = len(entries) - max(limits.floor // 2, 1)
    enough = len(entries) - limits.ceiling + 1
    cuts = [
        cut
        for cut in _cuts(entries)
        if max(least, 1) <= cut <= most
        and entries[cut].message.role is ChatRole.ASSISTANT
        and entries[cut - 1].message.role in (ChatRole.USER, ChatRole.TOOL)
        and entries[cut - 1].position >= began
    ]
    later = min((cut for cut in cuts if cut > wanted), default=0)
    return max((cut for cut in cuts if enough <= cut <= wanted), default=later or max(cuts, default=0))


def last_cut(entries: Sequence[Entry]) -> int:
    """The last safe cut before the end, when what follows is not known; all of it when there is none."""
    return next((cut for cut in reversed(_cuts(entries)) if cut > 0), len(entries))


def bounded_start(
    entries: Sequence[Entry],
    covered: int,
    limits: Limits,
    tokens: int | None,
    count: CountMessage,
    asked: Entry | None = None,
) -> int:
    """Where a window must start so that it keeps the hard limits; 0 when all of it fits.

    Moves a batch at a time, counted from what is covered, so that the beginning of the context
    stays the same for a while. One group that cannot be divided may pass the limit in messages.
    A message that is larger than half of the tokens counts as half: it is shown shortened, and those before
    it stay. `asked`, the question of the turn, takes room before a window that it is not in.
    """
    start = _bounded_start(entries, covered, limits, tokens, count)
    if asked is None or tokens is None or not entries or asked.position >= entries[start].position:
        return start
    needed = count(asked.message)
    left = max(tokens - (needed if needed <= tokens else tokens // 2), 1)
    return _bounded_start(entries, covered, limits, left, count)


def _bounded_start(
    entries: Sequence[Entry], covered: int, limits: Limits, tokens: int | None, count: CountMessage
) -> int:
    over = max(len(entries) - limits.hard, 0)
    if tokens is not None:
        most = max(tokens // 2, 1)
        over = max(over, _start_within(entries, tokens, lambda message: min(count(message), most)))
    if over == 0:
        return 0
    steps = -(-(entries[over].position - 1 - covered) // limits.batch)
    wanted = covered + steps * limits.batch
    cuts = _cuts(entries)
    enough = [cut for cut in cuts if cut >= over]
    near = [cut for cut in enough if entries[cut].position - 1 <= wanted]
    if near:
        return near[-1]
    return enough[0] if enough else cuts[-1]


def chunk_end(entries: Sequence[Entry], most: int, count: CountMessage) -> int:
    """Count the first entries that one call may take, by tokens, up to a safe cut; at least one group."""
    total = 0
    fitting = len(entries)
    for index, entry in enumerate(entries):
        total += count(entry.message)
        if total > most:
            fitting = index
            break
    if fitting == len(entries):
        return fitting
    cuts = [cut for cut in safe_cuts([entry.message for entry in entries]) if cut > 0]
    within = [cut for cut in cuts if cut <= fitting]
    return within[-1] if within else (cuts[0] if cuts else len(entries))


def _cuts(entries: Sequence[Entry]) -> list[int]:
    """Safe cuts that leave at least one entry after them."""
    return [cut for cut in safe_cuts([entry.message for entry in entries]) if cut < len(entries)]


def _start_within(entries: Sequence[Entry], most: int, count: CountMessage) -> int:
    """The smallest index from which the entries have at most so many tokens; the last entry always stays."""
    total = 0
    for index in range(len(entries) - 1, -1, -1):
        total += count(entries[index].message)
        if total > most:
            return min(index + 1, len(entries) - 1)
    return 0


# How many segments one merge takes at least where there are so many, and the part of the size that these
# should have: a merge of less frees too little room, and the next one would follow at once.
MERGE_FAN_IN, MERGE_SHARE = 4, 0.75
# What the line above a segment takes, rounded up.
RANGE_TOKENS = 44
# The part of the room that a merged digest takes; the rest is for the next ones.
MERGED_DIGEST_SHARE = 0.4


def digests_to_merge(
    segments: Sequence[StoredSegment], size: int, *, provisional: bool = False
) -> tuple[StoredSegment, ...]:
    """All digests once they exceed the size: their lines are compared, so the old are as good as the new."""
    chosen = tuple(segment for segment in segments if segment.provisional == provisional)
    return chosen if len(chosen) > 1 and merging_size(segments) > size else ()


def merged_digest_tokens(
    segments: Sequence[StoredSegment], chosen: Sequence[StoredSegment], size: int
) -> int:
    """The tokens of a digest that takes the place of some segments, beside those that stay."""
    room = size - merging_size([segment for segment in segments if segment not in chosen])
    return max(int(room * MERGED_DIGEST_SHARE), 32)


def segment_target(tokens: int, size: int) -> int:
    """The tokens that a segment of a batch of so many should have, in a summary of a size."""
    long = max(LONG_SUMMARY_TOKENS, size // LONG_SUMMARY_PART)
    wanted = max(min(tokens // COMPRESSION_RATIO, long), tokens // MAX_COMPRESSION_RATIO)
    return max(min(size // 4, max(MIN_SUMMARY_TOKENS, wanted)), 32)


def merging_size(segments: Sequence[StoredSegment]) -> int:
    """The size of segments by which a merge is due.

    A short segment counts at least as much as its heading line, so that many short segments do not fill the
    summary with headings.
    """
    return sum(max(segment.tokens, RANGE_TOKENS) for segment in segments)


def segments_to_merge(segments: Sequence[StoredSegment], size: int) -> tuple[StoredSegment, ...]:
    """The neighbours to merge next; none while all written segments together keep the size.

    These are neighbours of the lowest level, with any of a lower one among them: the result is one level
    up, and the older segments of higher levels stay as they are. So levels grow with the logarithm of the
    number of segments.
    """
    final_segments = [segment for segment in segments if not segment.provisional]
    if len(final_segments) < 2 or merging_size(final_segments) <= size:
        return ()
    levels = sorted({max(one.level, other.level) for one, other in pairwise(final_segments)})
    run, *higher = (max(_runs_up_to(final_segments, level), key=len) for level in levels)
    if len(run) < MERGE_FAN_IN:
        # What a few become is merged again soon: rather with their older neighbours, if these are many.
        full = zip(levels[1:], higher, strict=True)
        run = next((one for level, one in full if _is_full_run(one, level)), run)
    for number in range(MERGE_FAN_IN, len(run)):
        if merging_size(run[:number]) >= MERGE_SHARE * size:
            return tuple(run[:number])
    return tuple(run)


def _is_full_run(run: Sequence[StoredSegment], level: int) -> bool:
    """Tell whether a run is worth a merge to one level up: nearly all that it takes are of its own level."""
    return len(run) >= MERGE_FAN_IN and sum(one.level == level for one in run) >= MERGE_FAN_IN - 1


def _runs_up_to(segments: Sequence[StoredSegment], level: int) -> list[list[StoredSegment]]:
    """Neighbours of that level or a lower one, oldest first."""
    runs: list[list[StoredSegment]] = [[]]
    for segment in segments:
        if segment.level <= level:
            runs[-1].append(segment)
        elif runs[-1]:
            runs.append([])
    return runs
