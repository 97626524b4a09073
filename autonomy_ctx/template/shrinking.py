"""One section in less room: the oldest messages go first, at safe cuts, and the order stays.

Where a cut falls depends on the messages and on steps of a fixed size, counted from the section's first
message. So a conversation that grows keeps its cut for many turns, and its beginning byte for byte.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterator, Sequence
from itertools import accumulate

from autonomy_ctx.items.cuts import safe_cuts
from autonomy_ctx.items.message import ChatRole, Message
from autonomy_ctx.template.measure import Measure
from autonomy_ctx.template.shown import Part, Shown, summarized, whole

# The shortest that a message is cut to before it is left out.
SHORTEST = 48
# The same for a message that may not be left out.
SHORTEST_KEPT = 24
# A step is a power of two, at most this part of the room: between an eighth and a quarter of it.
STEP_SHARE = 4


class Shrinking:
    """A part in less room, for one limit; linear in the number of messages."""

    def __init__(self, part: Part, *, limit: int, reason: str, measure: Measure) -> None:
        self.part, self.reason, self.measure = part, reason, measure
        # Messages are shortened to sizes that follow from the limit alone, so that the same text is made
        # turn by turn.
        self._sizes = list(_halves(limit))
        self._head = summarized(part)
        self._head_tokens = sum(part.counts[: self._head])
        end = len(part.messages)
        cuts = [self._head + cut for cut in safe_cuts(part.messages[self._head :])]
        # Nothing is torn apart when all goes: the end is a cut also while a call waits.
        self._cuts = [cut for cut in cuts if cut < end] + [end]

    def within(self, room: int, *, least: int = 0) -> Shown:
        """The newest messages within so many tokens, beside the summary and what must stay.

        Not fewer than `least` tokens where there were as many; what must stay may need more than the room.
        """
        part = self.part
        if part.tokens <= room:
            return whole(part, self.reason)
        caps = self._caps(room)
        start = self._start(room, least, caps)
        shorter: dict[int, Message] = {}
        costs = list(part.counts)
        for index in range(start, len(part.messages)):
            if costs[index] > caps[index]:
                self._shorten(index, caps[index], shorter, costs)
        start = self._later(start, room, least, costs)
        return self._shown(self._indexes(start), shorter, costs)

    def without_head(self, room: int) -> Shown:
        """The same when there is no room for more than pins and the summary: pins go, then the summary.

        The message that must stay does, whole.
        """
        found = self.within(room)
        if found.tokens <= room:
            return found
        part, kept = self.part, self.part.kept
        costs, shorter = list(part.counts), dict[int, Message]()
        own = [] if kept is None else [kept]
        left = room - sum(costs[index] for index in own)
        shown: list[int] = []
        for index in range(self._head - 1, -1, -1):
            if index == kept:
                continue
            if costs[index] > left:
                size = next((size for size in self._sizes if size <= left), None)
                if shown or size is None:
                    break
                self._shorten(index, size, shorter, costs)
                if costs[index] > left:
                    shorter.pop(index, None)
                    break
            left -= costs[index]
            shown.append(index)
        return self._shown(sorted(shown + own), shorter, costs)

    def alone(self, room: int) -> Shown:
        """Only the message that must stay, shortened in the middle if it has to be, but not to nothing."""
        kept = self.part.kept
        costs, shorter = list(self.part.counts), dict[int, Message]()
        if kept is None:
            return self._shown([], shorter, costs)
        if costs[kept] > room:
            self._shorten(kept, max(room, SHORTEST_KEPT), shorter, costs)
        return self._shown([kept], shorter, costs)

    def _caps(self, room: int) -> list[int]:
        """The most each message may cost: half the limit, less in the last group if that is too large."""
        part = self.part
        end = len(part.messages)
        top = self._sizes[0] if self._sizes else SHORTEST
        caps = [top] * end
        last = self._cuts[-2] if len(self._cuts) > 1 else end
        group = [part.counts[index] for index in range(last, end) if index != part.kept]
        free = room - self._kept(end)
        size = next((size for size in self._sizes if sum(min(cost, size) for cost in group) <= free), None)
        if size is not None:
            caps[last:] = [size] * (end - last)
        if part.kept is not None:
            caps[part.kept] = part.counts[part.kept]
        return caps

    def _start(self, room: int, least: int, caps: Sequence[int]) -> int:
        """Where the messages that are shown start: at a step, and at a user's message if one is near."""
        part, cuts = self.part, self._cuts
        costs = [min(cost, cap) for cost, cap in zip(part.counts, caps, strict=True)]
        # What is shown when it starts at a cut gets less from cut to cut.
        after = list(accumulate(reversed(costs), initial=0))[::-1]
        sizes = [self._kept(cut) + after[cut] for cut in cuts]
        first = bisect_left(sizes, -room, key=lambda size: -size)
        last = bisect_left(sizes, 1 - least, key=lambda size: -size) - 1
        if first >= min(last, len(cuts) - 1):
            return cuts[max(min(first, last), 0)]
        if first == 0:
            return cuts[0]
        return cuts[self._at_a_step(first, last, _step(room - self._head_tokens))]

    def _at_a_step(self, first: int, last: int, step: int) -> int:
        """Of the cuts from `first` to `last`, the one of the next step; `first` when the end is too near.

        Each step has one cut, whatever the room is: the last before it, or a user's message nearby.
        """
        cuts, messages = self._cuts, self.part.messages
        before = list(accumulate(self.part.counts[self._head :], initial=0))
        spent = [before[cut - self._head] for cut in cuts]
        line = -(-spent[first] // step) * step
        for next_line in (line, line + step):
            if next_line > spent[-1]:
                break
            at = found = min(bisect_left(spent, next_line + 1) - 1, len(cuts) - 2)
            while spent[at] > next_line - step // 2 and messages[cuts[at]].role is not ChatRole.USER:
                at -= 1
            if spent[at] > next_line - step // 2:
                found = at
            if first <= found <= last:
                return found
        return first

    def _later(self, start: int, room: int, least: int, costs: Sequence[int]) -> int:
        """The start, or the next cut that fits: not every message becomes as short as it was asked to."""
        total = self._kept(start) + sum(costs[start:])
        for after in self._cuts[bisect_left(self._cuts, start) + 1 :]:
            smaller = total - sum(costs[start:after]) + self._kept(after) - self._kept(start)
            if total <= room or smaller < least:
                break
            start, total = after, smaller
        return start

    def _kept(self, start: int) -> int:
        """What pins, the summary and the message that must stay cost before a start."""
        kept = self.part.kept
        if kept is None or not self._head <= kept < start:
            return self._head_tokens
        return self._head_tokens + self.part.counts[kept]

    def _indexes(self, start: int) -> list[int]:
        kept, head = self.part.kept, self._head
        own = [kept] if kept is not None and head <= kept < start else []
        return [*range(head), *own, *range(start, len(self.part.messages))]

    def _shorten(self, index: int, tokens: int, shorter: dict[int, Message], costs: list[int]) -> None:
        part = self.part
        made = None
        if part.shorter is not None and len(part.messages) == 1:
            made = part.shorter(tokens)
            if made is None and index != part.kept:
                return
        if made is None:
            stored = part.positions is not None and part.positions[index] is not None
            how = None if stored else f"; section `{part.name}` has more than there is room for"
            made = self.measure.clamped(part.messages[index], tokens, how)
        cost = self.measure.count(made)
        if cost < costs[index]:
            shorter[index], costs[index] = made, cost

    def _shown(self, indexes: Sequence[int], shorter: dict[int, Message], costs: Sequence[int]) -> Shown:
        left = set(indexes)
        counts = [costs[index] for index in indexes]
        return Shown(
            part=self.part,
            indexes=indexes,
            shorter={index: message for index, message in shorter.items() if index in left},
            counts=counts,
            tokens=sum(counts),
            reason=self.reason,
        )


def _halves(limit: int) -> Iterator[int]:
    """Half of a limit, half of that, and so on down to the shortest."""
    size = limit // 2
    while size > SHORTEST:
        yield size
        size //= 2
    if limit >= SHORTEST:
        yield SHORTEST


def _step(room: int) -> int:
    """A power of two between an eighth and a quarter of the room."""
    quarter = max(room // STEP_SHARE, 1)
    return 1 << (quarter.bit_length() - 1)
