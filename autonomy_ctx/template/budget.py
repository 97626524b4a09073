"""The token budget: which section gives up how much, so that a context fits or an error is raised.

Pure functions from messages and their counts to what is shown. The same messages, limits and calibration
always give the same cuts. Linear in the number of messages.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Callable, Mapping, Sequence
from copy import copy
from dataclasses import dataclass, field
from itertools import accumulate, count, groupby, takewhile
from math import ceil
from typing import Literal, NamedTuple, TypeAlias

from autonomy_ctx.errors import BudgetExceeded
from autonomy_ctx.messages.clamp import MIN_MESSAGE_TOKENS, clamp_message
from autonomy_ctx.messages.cuts import is_plain, is_summary, newest_user_index, safe_cuts, user_indexes
from autonomy_ctx.messages.message import ChatRole, Message
from autonomy_ctx.messages.summary import Summary
from autonomy_ctx.messages.tokens import TokenCounter
from autonomy_ctx.sections.section import Omission, pin_omission
from autonomy_ctx.template.composed import BudgetReport, Cut
from autonomy_ctx.template.running import HISTORY_SECTION, SectionOptions


@dataclass(frozen=True, slots=True)
class Measure:
    """Counts and shortens messages with one fixed calibration, even if it changes meanwhile."""

    counter: TokenCounter
    factor: float

    def count(self, message: Message) -> int:
        return self.scale(self.counter.count_uncalibrated(message))

    def scale(self, tokens: int) -> int:
        return tokens if self.factor == 1.0 else ceil(tokens * self.factor)

    def clamp(self, message: Message, tokens: int, location_note: str | None) -> Message:
        """The message in so many calibrated tokens, where that is possible."""
        plain = tokens if self.factor == 1.0 else int(tokens / self.factor)
        while plain > 0 and self.scale(plain) > tokens:
            plain -= 1
        return clamp_message(message, plain, self.counter, location_note=location_note)


class SectionContent(NamedTuple):
    """A section's messages, with the tokens and the log position of each."""

    name: str
    messages: Sequence[Message]
    counts: Sequence[int]
    positions: Sequence[int | None] | None = None
    # The index of the message that is never left out.
    kept_index: int | None = None
    # The only message in at most so many tokens; None: too few.
    shorter: Callable[[int], Message | None] | None = None
    # How many of the last messages are worth more than the summary before them.
    floor: int = 0

    @property
    def tokens(self) -> int:
        return sum(self.counts)


@dataclass(frozen=True, slots=True)
class FittedSection:
    """The part of a section that is shown: the indexes of its messages, their counts, and the shortened ones.

    `reason` is the limit that has removed the rest.
    """

    content: SectionContent
    indexes: Sequence[int]
    counts: Sequence[int]
    shortened: Mapping[int, Message] = field(default_factory=dict)
    reason: str = ""

    @classmethod
    def of_all(cls, content: SectionContent) -> FittedSection:
        """All of a section."""
        return cls(content, range(len(content.messages)), content.counts)

    @property
    def tokens(self) -> int:
        return sum(self.counts)

    @property
    def messages(self) -> list[Message]:
        """The messages that are shown."""
        messages = self.content.messages
        return [self.shortened.get(index, messages[index]) for index in self.indexes]

    @property
    def positions(self) -> list[int | None]:
        """The log position of each message that is shown."""
        positions = self.content.positions
        return [None if positions is None else positions[index] for index in self.indexes]

    @property
    def _gone(self) -> list[int]:
        left = set(self.indexes)
        return [index for index in range(len(self.content.messages)) if index not in left]

    @property
    def cut(self) -> tuple[Cut, ...]:
        """The messages and tokens that were removed."""
        counts, found = self.content.counts, list[Cut]()
        if gone := self._gone:
            found.append(self._make_cut("left out", len(gone), sum(counts[index] for index in gone)))
        if self.shortened:
            now = dict(zip(self.indexes, self.counts, strict=True))
            saved = sum(counts[index] - now[index] for index in self.shortened)
            found.append(self._make_cut("shortened", len(self.shortened), saved))
        return tuple(found)

    def _make_cut(self, what: Literal["left out", "shortened"], messages: int, tokens: int) -> Cut:
        return Cut(section=self.content.name, what=what, messages=messages, tokens=tokens, reason=self.reason)

    @property
    def omitted(self) -> tuple[Omission, ...]:
        """The summaries that were removed, and the stored messages, one omission for each range of them."""
        gone, found = self._gone, list[Omission]()
        if not gone:
            return ()
        messages, head = self.content.messages, summary_end(self.content)
        for index in gone:
            message = messages[index]
            if index < head and isinstance(message, Summary) and message.segments:
                first, last = message.covers_from, message.covers_to
                count = last - first + 1
                found.append(Omission(first=first, last=last, count=count, reason=self.reason))
        positions = self.content.positions or (None,) * len(messages)
        # What is pinned stands before a summary that covers it too.
        last_summary = messages[head - 1] if head else None
        covered = last_summary.covers_to if isinstance(last_summary, Summary) else 0
        hidden = [index for index in gone if index >= head or (positions[index] or 0) > covered]
        for _, run in groupby(enumerate(hidden), key=lambda pair: pair[1] - pair[0]):
            if stored := [at for _, index in run if (at := positions[index]) is not None]:
                first, last = min(stored), max(stored)
                found.append(Omission(first=first, last=last, count=len(stored), reason=self.reason))
        pins = [at for index in gone if index not in hidden and (at := positions[index]) is not None]
        return (*found, *([pin_omission(pins, self.reason)] if pins else []))


def summary_end(content: SectionContent) -> int:
    """The number of messages up to and including the last summary of this context.

    A summary that is stored as a message is one of the conversation's messages.
    """
    stored = content.positions
    for index in range(len(content.messages) - 1, -1, -1):
        if isinstance(content.messages[index], Summary) and (stored is None or stored[index] is None):
            return index + 1
    return 0


# What a user speaks of next is in these; they stay while they fit.
LAST_EXCHANGES = 2


def _exchanges_start(content: SectionContent, head: int) -> int:
    """The index at which the last exchanges begin, of those after the summary."""
    users = user_indexes(content.messages[head:])
    return head + users[-LAST_EXCHANGES - 1] if len(users) > LAST_EXCHANGES else head


# The shortest that a message is cut to that may not be left out.
MIN_KEPT_MESSAGE_TOKENS = 24
# A step is a power of two, at most this part of the room: between an eighth and a quarter of it.
STEP_SHARE = 4


class SectionShrinker:
    """Shrinks a section to a limit, in time linear in the number of messages."""

    def __init__(self, content: SectionContent, *, limit: int, reason: str, measure: Measure) -> None:
        self.content, self.reason, self.measure = content, reason, measure
        # Messages are shortened to sizes that follow from the limit alone, so that the same text is made
        # turn by turn.
        halves = takewhile(lambda size: size > MIN_MESSAGE_TOKENS, (limit >> by for by in count(1)))
        self._sizes = [*halves, *([MIN_MESSAGE_TOKENS] if limit >= MIN_MESSAGE_TOKENS else [])]
        self._summary_end = summary_end(content)
        # Those that are shown whenever there is room for anything else.
        self._head = range(self._summary_end)
        self._summary_tokens = sum(content.counts[: self._summary_end])
        end = len(content.messages)
        cuts = [self._summary_end + cut for cut in safe_cuts(content.messages[self._summary_end :])]
        # Nothing is torn apart when all goes: the end is a cut also while a call waits.
        self._cuts = [cut for cut in cuts if cut < end] + [end]
        self._exchanges_cut = bisect_right(self._cuts, _exchanges_start(content, self._summary_end)) - 1
        # Where the messages begin that are worth more than the summary: with the last exchanges, or without.
        floor = bisect_right(self._cuts, max(end - content.floor, self._summary_end)) - 1
        earliest = max(min(floor, self._exchanges_cut), 0)
        starts = [self._cuts[at] for at in sorted({earliest, max(floor, 0)})]
        kept_in_window = content.kept_index is None or content.kept_index >= self._summary_end
        self._floor_starts = starts if content.floor and kept_in_window else []

    def shrink_to(self, room: int, *, least: int = 0) -> FittedSection:
        """The newest messages within a number of tokens, besides the summary and the message that must stay.

        At least `least` tokens are kept, if there were as many. The message that must stay may need more than
        the limit.
        """
        content = self.content
        if content.tokens <= room:
            return FittedSection.of_all(content)
        if self._floor_starts:
            starts = self._floor_starts
            start = next((start for start in starts if self._floor_tokens(start) <= room), starts[-1])
            if self._floor_tokens(start) > room - self._summary_tokens:
                return self._shrink_summary(room, start)
        caps = self._message_caps(room)
        start = self._start(room, least, caps)
        shorter: dict[int, Message] = {}
        costs = list(content.counts)
        for index in range(start, len(content.messages)):
            if costs[index] > caps[index]:
                self._shorten(index, caps[index], shorter, costs)
        start = self._next_fitting_start(start, room, least, costs)
        return self._make_result(self._indexes(start), shorter, costs)

    def _floor_tokens(self, start: int) -> int:
        """The tokens of the messages from a start on, and of the message that must stay."""
        return self._fixed_tokens(start) - self._summary_tokens + sum(self.content.counts[start:])

    def _shrink_summary(self, room: int, start: int) -> FittedSection:
        """The messages from a start on, and as much of the summary as fits; pins are removed before it.

        If there is no room for the summary, the oldest of the last messages are removed too.
        """
        left = room - self._floor_tokens(start)
        if left < 0:
            window = copy(self)
            window._head, window._summary_tokens, window._floor_starts = range(0), 0, []
            return window.shrink_to(room)
        costs, shorter = list(self.content.counts), dict[int, Message]()
        shown = self._fit_summary(left, shorter, costs)
        return self._make_result([*shown, *self._indexes(start)[self._summary_end :]], shorter, costs)

    def _fit_summary(self, room: int, shorter: dict[int, Message], costs: list[int]) -> list[int]:
        """The indexes of the summary and the pins before it that fit; the summary is shortened if needed."""
        shown: list[int] = []
        for index in range(self._summary_end - 1, -1, -1):
            if index == self.content.kept_index:
                continue
            if costs[index] > room:
                size = next((size for size in self._sizes if size <= room), None)
                if shown or size is None:
                    break
                self._shorten(index, size, shorter, costs)
                if costs[index] > room:
                    shorter.pop(index, None)
                    break
            room -= costs[index]
            shown.append(index)
        return shown[::-1]

    def shrink_to_summary(self, room: int) -> FittedSection:
        """Pins and the summary within a number of tokens: pins are removed first, then the summary.

        The message that must stay is kept whole.
        """
        found = self.shrink_to(room)
        if found.tokens <= room:
            return found
        content, kept = self.content, self.content.kept_index
        costs, shorter = list(content.counts), dict[int, Message]()
        own = [] if kept is None else [kept]
        shown = self._fit_summary(room - sum(costs[index] for index in own), shorter, costs)
        return self._make_result(sorted({*shown, *own}), shorter, costs)

    def shrink_to_kept(self, room: int) -> FittedSection:
        """Only the message that must stay, shortened in the middle if needed, but never to nothing."""
        kept = self.content.kept_index
        costs, shorter = list(self.content.counts), dict[int, Message]()
        if kept is None:
            return self._make_result([], shorter, costs)
        if costs[kept] > room:
            self._shorten(kept, max(room, MIN_KEPT_MESSAGE_TOKENS), shorter, costs)
        return self._make_result([kept], shorter, costs)

    def _message_caps(self, room: int) -> list[int]:
        """The most tokens of each message: half the limit, or less if the last group is too large."""
        content = self.content
        end = len(content.messages)
        top = self._sizes[0] if self._sizes else MIN_MESSAGE_TOKENS
        caps = [top] * end
        last = self._cuts[-2] if len(self._cuts) > 1 else end
        group = [content.counts[index] for index in range(last, end) if index != content.kept_index]
        free = room - self._fixed_tokens(end)
        size = next((size for size in self._sizes if sum(min(cost, size) for cost in group) <= free), None)
        if size is not None:
            caps[last:] = [size] * (end - last)
        if content.kept_index is not None:
            caps[content.kept_index] = content.counts[content.kept_index]
        return caps

    def _start(self, room: int, least: int, caps: Sequence[int]) -> int:
        """Where the messages that are shown start: at a step, and at a user's message if one is near."""
        content, cuts = self.content, self._cuts
        costs = [min(cost, cap) for cost, cap in zip(content.counts, caps, strict=True)]
        # What is shown when it starts at a cut gets less from cut to cut.
        after = list(accumulate(reversed(costs), initial=0))[::-1]
        sizes = [self._fixed_tokens(cut) + after[cut] for cut in cuts]
        first = bisect_left(sizes, -room, key=lambda size: -size)
        last = bisect_left(sizes, 1 - least, key=lambda size: -size) - 1
        # A step does not go past the last exchanges while they fit.
        last = min(last, max(first, self._exchanges_cut))
        if first >= min(last, len(cuts) - 1):
            return cuts[max(min(first, last), 0)]
        if first == 0:
            return cuts[0]
        # A power of two between an eighth and a quarter of the room.
        quarter = max((room - self._summary_tokens) // STEP_SHARE, 1)
        return cuts[self._cut_at_step(first, last, 1 << (quarter.bit_length() - 1))]

    def _cut_at_step(self, first: int, last: int, step: int) -> int:
        """The cut at the next step between `first` and `last`; `first` if the end is too near.

        Each step has one cut, independent of the limit: the last cut before it, or a user message nearby.
        """
        cuts, messages = self._cuts, self.content.messages
        before = list(accumulate(self.content.counts[self._summary_end :], initial=0))
        spent = [before[cut - self._summary_end] for cut in cuts]
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

    def _next_fitting_start(self, start: int, room: int, least: int, costs: Sequence[int]) -> int:
        """The start, or the next cut that fits, because a message may stay longer than requested."""
        total = self._fixed_tokens(start) + sum(costs[start:])
        for after in self._cuts[bisect_left(self._cuts, start) + 1 :]:
            smaller = total - sum(costs[start:after]) + self._fixed_tokens(after) - self._fixed_tokens(start)
            if total <= room or smaller < least:
                break
            start, total = after, smaller
        return start

    def _fixed_tokens(self, start: int) -> int:
        """The tokens of pins, the summary and the message that must stay before a start."""
        kept = self.content.kept_index
        if kept is None or not self._summary_end <= kept < start:
            return self._summary_tokens
        return self._summary_tokens + self.content.counts[kept]

    def _indexes(self, start: int) -> list[int]:
        kept = self.content.kept_index
        own = [kept] if kept is not None and self._summary_end <= kept < start else []
        return [*self._head, *own, *range(start, len(self.content.messages))]

    def _shorten(self, index: int, tokens: int, shorter: dict[int, Message], costs: list[int]) -> None:
        content = self.content
        made = None
        if content.shorter is not None and len(content.messages) == 1:
            made = content.shorter(tokens)
            if made is None and index != content.kept_index:
                return
        if made is None:
            stored = content.positions is not None and content.positions[index] is not None
            location_note = None if stored else f"; section `{content.name}` has more than there is room for"
            made = self.measure.clamp(content.messages[index], tokens, location_note)
        cost = self.measure.count(made)
        if cost < costs[index]:
            shorter[index], costs[index] = made, cost

    def _make_result(
        self, indexes: Sequence[int], shorter: dict[int, Message], costs: Sequence[int]
    ) -> FittedSection:
        left = set(indexes)
        shortened = {index: message for index, message in shorter.items() if index in left}
        counts = [costs[index] for index in indexes]
        return FittedSection(self.content, indexes, counts, shortened, self.reason)


@dataclass(slots=True)
class _SectionShare:
    """The state of one section while the budget is applied."""

    index: int
    content: SectionContent
    options: SectionOptions
    result: FittedSection
    # Shown whole or not at all: what a turn cannot do without, and no conversation.
    fixed: bool
    # It has the newest user message.
    has_newest_user: bool


# Shrinks a section to a room, with its `min_tokens`.
ShrinkStep: TypeAlias = Callable[[SectionShrinker, int, int], FittedSection]


def fit_sections(
    contents: Sequence[SectionContent],
    section_options: Sequence[SectionOptions],
    budget: BudgetReport | None,
    measure: Measure,
    *,
    turn_position: int | None = None,
) -> list[FittedSection]:
    """The messages that each section shows: within its own `max_tokens`, and all together within the budget.

    The section with the lowest priority is shortened first; of equal ones the last, because what comes before
    it stays in the provider's cache. The message that must stay is shortened last: the user message at
    `turn_position`, or the newest one.
    """
    shares = _make_shares(contents, section_options, turn_position)
    for share in shares:
        _apply_own_limit(share, measure)
    if budget is None or _total_tokens(shares) <= budget.limit:
        return [share.result for share in shares]
    giving = sorted(
        (share for share in shares if not share.fixed),
        key=lambda share: (share.options.priority, -share.index),
    )
    before = [share.result for share in shares]
    shrinkers = {
        share.index: SectionShrinker(
            share.content, limit=budget.limit, reason=f"max_tokens={budget.max_tokens}", measure=measure
        )
        for share in giving
    }

    def give(shrink: ShrinkStep, order: Sequence[_SectionShare]) -> None:
        """Shrink one section after the other until all together fit."""
        for share in order:
            over = _total_tokens(shares) - budget.limit
            if over > 0:
                room = max(share.result.tokens - over, 0)
                share.result = shrink(shrinkers[share.index], room, share.options.min_tokens)

    give(lambda shrinker, room, least: shrinker.shrink_to(max(room, least), least=least), giving)
    if _total_tokens(shares) > budget.limit:
        # Not all minimums fit: start again without minimums.
        for share, shown in zip(shares, before, strict=True):
            share.result = shown
        give(lambda shrinker, room, _: shrinker.shrink_to(room), giving)
        give(lambda shrinker, room, _: shrinker.shrink_to_summary(room), giving)
        # What the user just said is the last to be touched.
        last = sorted(giving, key=lambda share: share.has_newest_user)
        give(lambda shrinker, room, _: shrinker.shrink_to_kept(room), last)
    if _total_tokens(shares) > budget.limit:
        raise BudgetExceeded(
            needed=_total_tokens(shares),
            budget=budget.limit,
            sections={share.content.name: share.result.tokens for share in shares if share.result.tokens},
            max_tokens=budget.max_tokens,
            tools=budget.tools,
            reserved=budget.reserve_output,
        )
    return [share.result for share in shares]


def tokens_to_keep(contents: Sequence[SectionContent]) -> int:
    """The tokens of a summary, what is pinned, the last exchanges, and all that is no conversation."""
    total = 0
    for content in contents:
        head = summary_end(content) if _is_history(content) else 0
        first = _exchanges_start(content, head) if _is_history(content) else 0
        total += sum(content.counts[:head]) + sum(content.counts[first:])
    return total


def _make_shares(
    contents: Sequence[SectionContent], section_options: Sequence[SectionOptions], turn_position: int | None
) -> list[_SectionShare]:
    shares = []
    newest = _newest_user_section(contents, section_options, turn_position)
    for index, (content, options) in enumerate(zip(contents, section_options, strict=True)):
        kept = _user_index(content, turn_position) if index == newest else None
        if kept is None and options.required:
            kept = _last_plain_index(content.messages)
        made = content._replace(kept_index=kept)
        fixed = options.required and not _is_history(content)
        shares.append(_SectionShare(index, made, options, FittedSection.of_all(made), fixed, index == newest))
    return shares


def _is_history(content: SectionContent) -> bool:
    """Tell whether a section shows a conversation, whose oldest messages may be removed."""
    return content.name == HISTORY_SECTION or any(
        position is not None for position in content.positions or ()
    )


def _newest_user_section(
    contents: Sequence[SectionContent], section_options: Sequence[SectionOptions], turn_position: int | None
) -> int | None:
    """The section with the user message to keep: the conversation's own, else by position, else the last."""
    found: list[tuple[bool, bool, bool, int, int]] = []
    for index, (content, options) in enumerate(zip(contents, section_options, strict=True)):
        user = _user_index(content, turn_position)
        if user is not None:
            position = None if content.positions is None else content.positions[user]
            is_turn = turn_position is not None and position == turn_position
            found.append((is_turn, content.name == HISTORY_SECTION, options.required, position or 0, index))
    return max(found)[-1] if found else None


def _user_index(content: SectionContent, turn_position: int | None) -> int | None:
    """The user message that the turn answers; the newest one where it is not known or not there."""
    if turn_position is not None and content.positions is not None and turn_position in content.positions:
        return list(content.positions).index(turn_position)
    return newest_user_index(content.messages)


def _last_plain_index(messages: Sequence[Message]) -> int | None:
    """The last message that can stand alone, a user's if there is one: a required section keeps it."""
    user = newest_user_index(messages)
    if user is not None:
        return user
    at = range(len(messages) - 1, -1, -1)
    return next(
        (index for index in at if is_plain(messages[index]) and not is_summary(messages[index])), None
    )


def _apply_own_limit(share: _SectionShare, measure: Measure) -> None:
    """Shrink a section to its own `max_tokens`."""
    most = share.options.max_tokens
    if most is None or share.result.tokens <= most:
        return
    reason = f"max_tokens={most} of section `{share.content.name}`"
    shrinker = SectionShrinker(share.content, limit=most, reason=reason, measure=measure)
    for step in (shrinker.shrink_to, shrinker.shrink_to_summary, shrinker.shrink_to_kept):
        share.result = step(most)
        if share.result.tokens <= most:
            return
    raise BudgetExceeded(
        needed=share.result.tokens, budget=most, sections={share.content.name: share.result.tokens}
    )


def _total_tokens(shares: Sequence[_SectionShare]) -> int:
    return sum(share.result.tokens for share in shares)
