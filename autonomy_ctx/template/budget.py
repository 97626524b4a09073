"""The token budget: which section gives up how much, so that a context fits or an error is raised.

Pure functions from messages and their counts to what is shown. The same messages, limits and calibration
always give the same cuts. Linear in the number of messages.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import accumulate, groupby
from math import ceil
from typing import Literal, TypeAlias

from autonomy_ctx.errors import BudgetExceeded
from autonomy_ctx.items.clamp import clamp_message
from autonomy_ctx.items.cuts import is_plain, is_summary, safe_cuts
from autonomy_ctx.items.message import ChatRole, Message
from autonomy_ctx.items.summary import Summary
from autonomy_ctx.items.tokens import TokenCounter
from autonomy_ctx.sections.section import Omission
from autonomy_ctx.template.composed import BudgetReport, Cut
from autonomy_ctx.template.running import HISTORY_SECTION, SectionOptions


@dataclass(frozen=True, slots=True)
class Measure:
    """Counts and shortens messages with one calibration, whatever providers report meanwhile."""

    counter: TokenCounter
    factor: float

    def count(self, message: Message) -> int:
        return self.scaled(self.counter.uncalibrated(message))

    def scaled(self, tokens: int) -> int:
        return tokens if self.factor == 1.0 else ceil(tokens * self.factor)

    def clamped(self, message: Message, tokens: int, how: str | None) -> Message:
        """The message in so many calibrated tokens, where that is possible."""
        plain = tokens if self.factor == 1.0 else int(tokens / self.factor)
        while plain > 0 and self.scaled(plain) > tokens:
            plain -= 1
        return clamp_message(message, plain, self.counter, how=how)


@dataclass(frozen=True, slots=True, kw_only=True)
class SectionContent:
    """A section's messages, what each costs, and where it stands in the log."""

    name: str
    messages: Sequence[Message]
    counts: Sequence[int]
    positions: Sequence[int | None] | None = None
    # The index of the message that is never left out.
    kept: int | None = None
    # The only message in at most so many tokens; None: too few.
    shorter: Callable[[int], Message | None] | None = None

    @property
    def tokens(self) -> int:
        return sum(self.counts)


@dataclass(frozen=True, slots=True, kw_only=True)
class FittedSection:
    """What a section shows in the end, and the account of what it does not."""

    messages: Sequence[Message]
    counts: Sequence[int]
    positions: Sequence[int | None] | None
    omitted: tuple[Omission, ...]
    cut: tuple[Cut, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class ShrunkSection:
    """What is left of a part: the indexes of its messages, and those that were shortened."""

    part: SectionContent
    indexes: Sequence[int]
    shorter: Mapping[int, Message]
    counts: Sequence[int]
    tokens: int
    reason: str

    def fitted(self) -> FittedSection:
        """The messages that are left, and what went."""
        part = self.part
        if len(self.indexes) == len(part.messages) and not self.shorter:
            return FittedSection(
                messages=part.messages, counts=part.counts, positions=part.positions, omitted=(), cut=()
            )
        left, positions, head = set(self.indexes), part.positions, summary_end(part)
        gone = [index for index in range(len(part.messages)) if index not in left]
        return FittedSection(
            messages=[self.shorter.get(index, part.messages[index]) for index in self.indexes],
            counts=self.counts,
            positions=None if positions is None else [positions[index] for index in self.indexes],
            omitted=(*self._summaries(gone, head), *self._stored(gone, head)),
            cut=tuple(self._cuts(gone)),
        )

    def _cuts(self, gone: Sequence[int]) -> Iterator[Cut]:
        counts = self.part.counts
        if gone:
            yield self._cut("left out", len(gone), sum(counts[index] for index in gone))
        if self.shorter:
            now = dict(zip(self.indexes, self.counts, strict=True))
            saved = sum(counts[index] - now[index] for index in self.shorter)
            yield self._cut("shortened", len(self.shorter), saved)

    def _summaries(self, gone: Sequence[int], head: int) -> Iterator[Omission]:
        """What the summaries that went stood for."""
        for index in gone:
            message = self.part.messages[index]
            if index < head and isinstance(message, Summary):
                first, last = message.covers_from, message.covers_to
                yield Omission(first=first, last=last, count=last - first + 1, reason=self.reason)

    def _stored(self, gone: Sequence[int], head: int) -> Iterator[Omission]:
        """The stored messages that went, one omission for each stretch of them."""
        messages, positions = self.part.messages, self.part.positions
        if positions is None:
            return
        # What is pinned stands before a summary that covers it too.
        last = messages[head - 1] if head else None
        covered = last.covers_to if isinstance(last, Summary) else 0
        hidden = [index for index in gone if index >= head or (positions[index] or 0) > covered]
        for _, run in groupby(enumerate(hidden), key=lambda pair: pair[1] - pair[0]):
            stored = [position for _, index in run if (position := positions[index]) is not None]
            if stored:
                yield Omission(first=min(stored), last=max(stored), count=len(stored), reason=self.reason)

    def _cut(self, what: Literal["left out", "shortened"], messages: int, tokens: int) -> Cut:
        return Cut(section=self.part.name, what=what, messages=messages, tokens=tokens, reason=self.reason)


def summary_end(part: SectionContent) -> int:
    """How many messages stand up to and with the last summary that was made for this context.

    A summary that is stored as a message is one of the conversation's messages.
    """
    stored = part.positions
    for index in range(len(part.messages) - 1, -1, -1):
        if isinstance(part.messages[index], Summary) and (stored is None or stored[index] is None):
            return index + 1
    return 0


def keep_all(part: SectionContent, reason: str = "") -> ShrunkSection:
    """All of a part."""
    return ShrunkSection(
        part=part,
        indexes=range(len(part.messages)),
        shorter={},
        counts=part.counts,
        tokens=part.tokens,
        reason=reason,
    )


# The shortest that a message is cut to before it is left out.
MIN_MESSAGE_TOKENS = 48
# The same for a message that may not be left out.
MIN_KEPT_MESSAGE_TOKENS = 24
# A step is a power of two, at most this part of the room: between an eighth and a quarter of it.
STEP_SHARE = 4


class SectionShrinker:
    """A part in less room, for one limit; linear in the number of messages."""

    def __init__(self, part: SectionContent, *, limit: int, reason: str, measure: Measure) -> None:
        self.part, self.reason, self.measure = part, reason, measure
        # Messages are shortened to sizes that follow from the limit alone, so that the same text is made
        # turn by turn.
        self._sizes = list(_halving_sizes(limit))
        self._head = summary_end(part)
        self._head_tokens = sum(part.counts[: self._head])
        end = len(part.messages)
        cuts = [self._head + cut for cut in safe_cuts(part.messages[self._head :])]
        # Nothing is torn apart when all goes: the end is a cut also while a call waits.
        self._cuts = [cut for cut in cuts if cut < end] + [end]

    def within(self, room: int, *, least: int = 0) -> ShrunkSection:
        """The newest messages within so many tokens, beside the summary and what must stay.

        Not fewer than `least` tokens where there were as many; what must stay may need more than the room.
        """
        part = self.part
        if part.tokens <= room:
            return keep_all(part, self.reason)
        caps = self._caps(room)
        start = self._start(room, least, caps)
        shorter: dict[int, Message] = {}
        costs = list(part.counts)
        for index in range(start, len(part.messages)):
            if costs[index] > caps[index]:
                self._shorten(index, caps[index], shorter, costs)
        start = self._later(start, room, least, costs)
        return self._shown(self._indexes(start), shorter, costs)

    def without_head(self, room: int) -> ShrunkSection:
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

    def alone(self, room: int) -> ShrunkSection:
        """Only the message that must stay, shortened in the middle if it has to be, but not to nothing."""
        kept = self.part.kept
        costs, shorter = list(self.part.counts), dict[int, Message]()
        if kept is None:
            return self._shown([], shorter, costs)
        if costs[kept] > room:
            self._shorten(kept, max(room, MIN_KEPT_MESSAGE_TOKENS), shorter, costs)
        return self._shown([kept], shorter, costs)

    def _caps(self, room: int) -> list[int]:
        """The most each message may cost: half the limit, less in the last group if that is too large."""
        part = self.part
        end = len(part.messages)
        top = self._sizes[0] if self._sizes else MIN_MESSAGE_TOKENS
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
        return cuts[self._at_a_step(first, last, _step_size(room - self._head_tokens))]

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

    def _shown(
        self, indexes: Sequence[int], shorter: dict[int, Message], costs: Sequence[int]
    ) -> ShrunkSection:
        left = set(indexes)
        counts = [costs[index] for index in indexes]
        return ShrunkSection(
            part=self.part,
            indexes=indexes,
            shorter={index: message for index, message in shorter.items() if index in left},
            counts=counts,
            tokens=sum(counts),
            reason=self.reason,
        )


def _halving_sizes(limit: int) -> Iterator[int]:
    """Half of a limit, half of that, and so on down to the shortest."""
    size = limit // 2
    while size > MIN_MESSAGE_TOKENS:
        yield size
        size //= 2
    if limit >= MIN_MESSAGE_TOKENS:
        yield MIN_MESSAGE_TOKENS


def _step_size(room: int) -> int:
    """A power of two between an eighth and a quarter of the room."""
    quarter = max(room // STEP_SHARE, 1)
    return 1 << (quarter.bit_length() - 1)


@dataclass(slots=True)
class _SectionShare:
    """One section on its way to what it may show."""

    index: int
    part: SectionContent
    placement: SectionOptions
    shown: ShrunkSection
    # Shown whole or not at all: what a turn cannot do without, and no conversation.
    fixed: bool
    # It has the newest user message.
    asked: bool
    shrinking: SectionShrinker | None = None


ShrinkStep: TypeAlias = Callable[[_SectionShare, SectionShrinker, int], ShrunkSection]


def fit_sections(
    parts: Sequence[SectionContent],
    placements: Sequence[SectionOptions],
    budget: BudgetReport | None,
    measure: Measure,
) -> list[FittedSection]:
    """What each section shows: within its own `max_tokens`, and all together within the budget.

    The section with the lowest priority gives first, among equals the last one, since whatever stands
    before it stays in the provider's cache. What must stay is left whole until nothing else can give.
    """
    shares = _make_shares(parts, placements)
    for share in shares:
        _apply_own_limit(share, measure)
    if budget is None or _total_tokens(shares) <= budget.limit:
        return [share.shown.fitted() for share in shares]
    giving = sorted(
        (share for share in shares if not share.fixed),
        key=lambda share: (share.placement.priority, -share.index),
    )
    before = [share.shown for share in shares]

    def give(step: ShrinkStep, order: Sequence[_SectionShare]) -> None:
        for share in order:
            over = _total_tokens(shares) - budget.limit
            if over > 0:
                share.shown = step(
                    share, _budget_shrinker(budget, share, measure), max(share.shown.tokens - over, 0)
                )

    give(_shrink_to_minimum, giving)
    if _total_tokens(shares) > budget.limit:
        # Not everybody can have that much: start again as if nobody had asked for it.
        for share, shown in zip(shares, before, strict=True):
            share.shown = shown
        give(_shrink_to_kept, giving)
        give(_shrink_without_head, giving)
        # What the user just said is the last to be touched.
        give(_shrink_to_one_message, sorted(giving, key=lambda share: share.asked))
    if _total_tokens(shares) > budget.limit:
        raise _budget_exceeded(shares, budget)
    return [share.shown.fitted() for share in shares]


def _make_shares(
    parts: Sequence[SectionContent], placements: Sequence[SectionOptions]
) -> list[_SectionShare]:
    shares = []
    asked = _newest_user_section(parts, placements)
    for index, (part, placement) in enumerate(zip(parts, placements, strict=True)):
        kept = _newest_user_index(part.messages) if index == asked else None
        if kept is None and placement.required:
            kept = _last_plain_index(part.messages)
        made = replace(part, kept=kept)
        shares.append(
            _SectionShare(
                index=index,
                part=made,
                placement=placement,
                shown=keep_all(made),
                fixed=placement.required and not _is_history(part),
                asked=index == asked,
            )
        )
    return shares


def _is_history(part: SectionContent) -> bool:
    """Whether a section shows a conversation, of which the oldest messages may go."""
    return part.name == HISTORY_SECTION or any(position is not None for position in part.positions or ())


def _newest_user_section(parts: Sequence[SectionContent], placements: Sequence[SectionOptions]) -> int | None:
    """The section with the newest user message: the conversation's own, else by position, else the last."""
    found: list[tuple[bool, bool, int, int]] = []
    for index, (part, placement) in enumerate(zip(parts, placements, strict=True)):
        user = _newest_user_index(part.messages)
        if user is not None:
            position = None if part.positions is None else part.positions[user]
            found.append((part.name == HISTORY_SECTION, placement.required, position or 0, index))
    return max(found)[-1] if found else None


def _newest_user_index(messages: Sequence[Message]) -> int | None:
    at = range(len(messages) - 1, -1, -1)
    return next((index for index in at if messages[index].role is ChatRole.USER), None)


def _last_plain_index(messages: Sequence[Message]) -> int | None:
    """The last message that can stand alone, a user's if there is one: a required section keeps it."""
    user = _newest_user_index(messages)
    if user is not None:
        return user
    at = range(len(messages) - 1, -1, -1)
    return next(
        (index for index in at if is_plain(messages[index]) and not is_summary(messages[index])), None
    )


def _apply_own_limit(share: _SectionShare, measure: Measure) -> None:
    """Shrink a section to its own `max_tokens`."""
    most = share.placement.max_tokens
    if most is None or share.shown.tokens <= most:
        return
    reason = f"max_tokens={most} of section `{share.part.name}`"
    shrinking = SectionShrinker(share.part, limit=most, reason=reason, measure=measure)
    for step in (shrinking.within, shrinking.without_head, shrinking.alone):
        share.shown = step(most)
        if share.shown.tokens <= most:
            return
    raise BudgetExceeded(
        needed=share.shown.tokens, budget=most, sections={share.part.name: share.shown.tokens}
    )


def _budget_shrinker(budget: BudgetReport, share: _SectionShare, measure: Measure) -> SectionShrinker:
    """The section's shrinking for the budget, which has other steps than that for its own limit."""
    reason = f"max_tokens={budget.max_tokens}"
    if share.shrinking is None:
        share.shrinking = SectionShrinker(share.part, limit=budget.limit, reason=reason, measure=measure)
    return share.shrinking


def _shrink_to_minimum(share: _SectionShare, shrinking: SectionShrinker, room: int) -> ShrunkSection:
    return shrinking.within(max(room, share.placement.min_tokens), least=share.placement.min_tokens)


def _shrink_to_kept(share: _SectionShare, shrinking: SectionShrinker, room: int) -> ShrunkSection:
    return shrinking.within(room)


def _shrink_without_head(share: _SectionShare, shrinking: SectionShrinker, room: int) -> ShrunkSection:
    return shrinking.without_head(room)


def _shrink_to_one_message(share: _SectionShare, shrinking: SectionShrinker, room: int) -> ShrunkSection:
    return shrinking.alone(room)


def _total_tokens(shares: Sequence[_SectionShare]) -> int:
    return sum(share.shown.tokens for share in shares)


def _budget_exceeded(shares: Sequence[_SectionShare], budget: BudgetReport) -> BudgetExceeded:
    needed = {share.part.name: share.shown.tokens for share in shares if share.shown.tokens}
    return BudgetExceeded(
        needed=_total_tokens(shares),
        budget=budget.limit,
        sections=needed,
        max_tokens=budget.max_tokens,
        tools=budget.tools,
        reserved=budget.reserve_output,
    )
