"""A budget in tokens: which section gives how much, so that a context fits or says why it cannot.

Pure: messages with their counts in, what is shown out. The same messages, limits and calibration always
give the same cuts. Linear in the number of messages.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import TypeAlias

from autonomy_ctx.errors import BudgetExceeded
from autonomy_ctx.items.cuts import is_plain, is_summary
from autonomy_ctx.items.message import ChatRole, Message
from autonomy_ctx.template.cut import BudgetReport
from autonomy_ctx.template.measure import Measure
from autonomy_ctx.template.placement import HISTORY, Placement
from autonomy_ctx.template.shown import Fitted, Part, Shown, whole
from autonomy_ctx.template.shrinking import Shrinking


@dataclass(slots=True)
class _Share:
    """One section on its way to what it may show."""

    index: int
    part: Part
    placement: Placement
    shown: Shown
    # Shown whole or not at all: what a turn cannot do without, and no conversation.
    fixed: bool
    # It has the newest user message.
    asked: bool
    shrinking: Shrinking | None = None


Step: TypeAlias = Callable[[_Share, Shrinking, int], Shown]


def fit(
    parts: Sequence[Part], placements: Sequence[Placement], budget: BudgetReport | None, measure: Measure
) -> list[Fitted]:
    """What each section shows: within its own `max_tokens`, and all together within the budget.

    The section with the lowest priority gives first, among equals the last one, since whatever stands
    before it stays in the provider's cache. What must stay is left whole until nothing else can give.
    """
    shares = _shares(parts, placements)
    for share in shares:
        _within_own(share, measure)
    if budget is None or _total(shares) <= budget.limit:
        return [share.shown.fitted() for share in shares]
    giving = sorted(
        (share for share in shares if not share.fixed),
        key=lambda share: (share.placement.priority, -share.index),
    )
    before = [share.shown for share in shares]

    def give(step: Step, order: Sequence[_Share]) -> None:
        for share in order:
            over = _total(shares) - budget.limit
            if over > 0:
                share.shown = step(share, _for(budget, share, measure), max(share.shown.tokens - over, 0))

    give(_to_least, giving)
    if _total(shares) > budget.limit:
        # Not everybody can have that much: start again as if nobody had asked for it.
        for share, shown in zip(shares, before, strict=True):
            share.shown = shown
        give(_to_what_must_stay, giving)
        give(_to_less, giving)
        # What the user just said is the last to be touched.
        give(_to_a_shorter_one, sorted(giving, key=lambda share: share.asked))
    if _total(shares) > budget.limit:
        raise _exceeded(shares, budget)
    return [share.shown.fitted() for share in shares]


def _shares(parts: Sequence[Part], placements: Sequence[Placement]) -> list[_Share]:
    shares = []
    asked = _asked(parts, placements)
    for index, (part, placement) in enumerate(zip(parts, placements, strict=True)):
        kept = _newest_user(part.messages) if index == asked else None
        if kept is None and placement.required:
            kept = _last(part.messages)
        made = replace(part, kept=kept)
        shares.append(
            _Share(
                index=index,
                part=made,
                placement=placement,
                shown=whole(made),
                fixed=placement.required and not _is_history(part),
                asked=index == asked,
            )
        )
    return shares


def _is_history(part: Part) -> bool:
    """Whether a section shows a conversation, of which the oldest messages may go."""
    return part.name == HISTORY or any(position is not None for position in part.positions or ())


def _asked(parts: Sequence[Part], placements: Sequence[Placement]) -> int | None:
    """The section with the newest user message: the conversation's own, else by position, else the last."""
    found: list[tuple[bool, bool, int, int]] = []
    for index, (part, placement) in enumerate(zip(parts, placements, strict=True)):
        user = _newest_user(part.messages)
        if user is not None:
            position = None if part.positions is None else part.positions[user]
            found.append((part.name == HISTORY, placement.required, position or 0, index))
    return max(found)[-1] if found else None


def _newest_user(messages: Sequence[Message]) -> int | None:
    at = range(len(messages) - 1, -1, -1)
    return next((index for index in at if messages[index].role is ChatRole.USER), None)


def _last(messages: Sequence[Message]) -> int | None:
    """The last message that can stand alone, a user's if there is one: a required section keeps it."""
    user = _newest_user(messages)
    if user is not None:
        return user
    at = range(len(messages) - 1, -1, -1)
    return next(
        (index for index in at if is_plain(messages[index]) and not is_summary(messages[index])), None
    )


def _within_own(share: _Share, measure: Measure) -> None:
    """Shrink a section to its own `max_tokens`."""
    most = share.placement.max_tokens
    if most is None or share.shown.tokens <= most:
        return
    reason = f"max_tokens={most} of section `{share.part.name}`"
    shrinking = Shrinking(share.part, limit=most, reason=reason, measure=measure)
    for step in (shrinking.within, shrinking.without_head, shrinking.alone):
        share.shown = step(most)
        if share.shown.tokens <= most:
            return
    raise BudgetExceeded(
        needed=share.shown.tokens, budget=most, sections={share.part.name: share.shown.tokens}
    )


def _for(budget: BudgetReport, share: _Share, measure: Measure) -> Shrinking:
    """The section's shrinking for the budget, which has other steps than that for its own limit."""
    reason = f"max_tokens={budget.max_tokens}"
    if share.shrinking is None:
        share.shrinking = Shrinking(share.part, limit=budget.limit, reason=reason, measure=measure)
    return share.shrinking


def _to_least(share: _Share, shrinking: Shrinking, room: int) -> Shown:
    return shrinking.within(max(room, share.placement.min_tokens), least=share.placement.min_tokens)


def _to_what_must_stay(share: _Share, shrinking: Shrinking, room: int) -> Shown:
    return shrinking.within(room)


def _to_less(share: _Share, shrinking: Shrinking, room: int) -> Shown:
    return shrinking.without_head(room)


def _to_a_shorter_one(share: _Share, shrinking: Shrinking, room: int) -> Shown:
    return shrinking.alone(room)


def _total(shares: Sequence[_Share]) -> int:
    return sum(share.shown.tokens for share in shares)


def _exceeded(shares: Sequence[_Share], budget: BudgetReport) -> BudgetExceeded:
    needed = {share.part.name: share.shown.tokens for share in shares if share.shown.tokens}
    return BudgetExceeded(
        needed=_total(shares),
        budget=budget.limit,
        sections=needed,
        max_tokens=budget.max_tokens,
        tools=budget.tools,
        reserved=budget.reserve_output,
    )
