"""What a section has to show, what of it a budget left, and the account of the rest."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import groupby
from typing import Literal

from autonomy_ctx.items.message import Message
from autonomy_ctx.items.summary import Summary
from autonomy_ctx.sections.section import Omission
from autonomy_ctx.template.cut import Cut


@dataclass(frozen=True, slots=True, kw_only=True)
class Part:
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
class Fitted:
    """What a section shows in the end, and the account of what it does not."""

    messages: Sequence[Message]
    counts: Sequence[int]
    positions: Sequence[int | None] | None
    omitted: tuple[Omission, ...]
    cut: tuple[Cut, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Shown:
    """What is left of a part: the indexes of its messages, and those that were shortened."""

    part: Part
    indexes: Sequence[int]
    shorter: Mapping[int, Message]
    counts: Sequence[int]
    tokens: int
    reason: str

    def fitted(self) -> Fitted:
        """The messages that are left, and what went."""
        part = self.part
        if len(self.indexes) == len(part.messages) and not self.shorter:
            return Fitted(
                messages=part.messages, counts=part.counts, positions=part.positions, omitted=(), cut=()
            )
        left, positions, head = set(self.indexes), part.positions, summarized(part)
        gone = [index for index in range(len(part.messages)) if index not in left]
        return Fitted(
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


def summarized(part: Part) -> int:
    """How many messages stand up to and with the last summary that was made for this context.

    A summary that is stored as a message is one of the conversation's messages.
    """
    stored = part.positions
    for index in range(len(part.messages) - 1, -1, -1):
        if isinstance(part.messages[index], Summary) and (stored is None or stored[index] is None):
            return index + 1
    return 0


def whole(part: Part, reason: str = "") -> Shown:
    """All of a part."""
    return Shown(
        part=part,
        indexes=range(len(part.messages)),
        shorter={},
        counts=part.counts,
        tokens=part.tokens,
        reason=reason,
    )
