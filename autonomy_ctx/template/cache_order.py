"""The order of sections for a provider's prompt cache, breakpoints, and warnings about a costly order.

A provider caches the beginning of a request, so stable sections go first and volatile ones as late as
possible. Pure.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

from autonomy_ctx.messages.cuts import newest_user_index
from autonomy_ctx.messages.message import Message
from autonomy_ctx.messages.summary import Summary
from autonomy_ctx.models.catalog import DEFAULT_PRICE
from autonomy_ctx.sections.section import SectionKind
from autonomy_ctx.template.running import HISTORY_SECTION, REQUIRED_SECTIONS

MAX_BREAKPOINTS = 4
# What a section has when nobody says: most are short, a conversation is not.
TYPICAL_TOKENS, TYPICAL_HISTORY_TOKENS = 500, 3000
# A request of an ordinary agent, as benchmarks/cost.py measures it: new tokens, written tokens, and what
# summaries and their swaps cost, spread over all requests; of these, so many are the first of a turn.
NEW_TOKENS, OUTPUT_TOKENS, SUMMARY_UPKEEP_TOKENS, FIRST_REQUEST_SHARE = 240, 75, 900, 0.68


class PlannedSection(NamedTuple):
    """A section in a plan: its name, how often it changes, and its usual number of tokens."""

    name: str
    kind: SectionKind
    tokens: int | None = None

    @property
    def is_history(self) -> bool:
        return self.name == HISTORY_SECTION

    @property
    def expected_tokens(self) -> int:
        if self.tokens is not None:
            return self.tokens
        return TYPICAL_HISTORY_TOKENS if self.is_history else TYPICAL_TOKENS


@dataclass(frozen=True, slots=True, kw_only=True)
class CacheWarning:
    """A warning about a section that changes every turn but comes before sections that do not.

    `cost_factor` is an estimate: the cost of a turn with the section in this place, divided by the cost
    without it.
    """

    section: str
    before: tuple[str, ...]
    problem: str
    cost_factor: float


class SectionSlice(NamedTuple):
    """Messages `first` to before `last` of one section, given by its index."""

    section: int
    first: int
    last: int


def lint_order(sections: Sequence[PlannedSection]) -> list[CacheWarning]:
    """A warning for each volatile section that comes before stable or slow ones."""
    found: list[CacheWarning] = []
    everything = sum(section.expected_tokens for section in sections if section.kind != "volatile")
    for index, section in enumerate(sections):
        after = [other for other in sections[index + 1 :] if other.kind != "volatile" or other.is_history]
        if section.kind != "volatile" or section.is_history or not after:
            continue
        lost = sum(other.expected_tokens for other in after)
        here, there = (
            _cost_factor(everything, section.expected_tokens, lost),
            _cost_factor(everything, section.expected_tokens, 0),
        )
        names = tuple(other.name for other in after)
        found.append(
            CacheWarning(
                section=section.name,
                before=names,
                problem=(
                    f"section `{section.name}` changes every turn and stands before {_quote_names(names)}: "
                    f"about {lost} tokens that a provider could take from its cache are read anew, and a "
                    f"turn costs about {here:.1f} times what it would without the section. Put it after them "
                    f'({there:.1f} times), or use arrange="cache"'
                ),
                cost_factor=round(here, 2),
            )
        )
    return found


def arrange_for_cache(
    sections: Sequence[PlannedSection], messages: Sequence[Sequence[Message]]
) -> list[SectionSlice]:
    """System instructions, then stable and slow sections, then the conversation, all in their given order.

    Volatile sections come right before the newest user message, so that calls and results of the same turn
    are appended to an unchanged prefix.
    """
    ranks = [_rank(section) for section in sections]
    order = sorted(range(len(sections)), key=lambda index: ranks[index])
    pieces = [SectionSlice(index, 0, len(messages[index])) for index in order]
    talks = [at for at, piece in enumerate(pieces) if ranks[piece.section] == _HISTORY]
    for at in reversed(talks):
        index = pieces[at].section
        newest = newest_user_index(messages[index])
        if newest is not None:
            end = talks[-1] + 1
            earlier, later = SectionSlice(index, 0, newest), SectionSlice(index, newest, len(messages[index]))
            own = pieces[:at] + ([earlier] if newest else [])
            return [*own, *pieces[end:], later, *pieces[at + 1 : end]]
    return pieces


def arrange_as_given(messages: Sequence[Sequence[Message]]) -> list[SectionSlice]:
    """The sections in their given order."""
    return [SectionSlice(index, 0, len(own)) for index, own in enumerate(messages)]


def choose_breakpoints(
    messages: Sequence[Message], kinds: Sequence[SectionKind], shared: int
) -> tuple[int, ...]:
    """The cache breakpoints: at most 4 indexes of messages, in order.

    `kinds` has one entry per message. `shared` is the number of messages in the prefix shared with the
    context before. The breakpoints by importance: the newest message, where the next request continues; the
    last shared message, which is in the cache; the end of the stable part, which outlives every summary; the
    last message before anything volatile; the end of the summary.
    """
    if not messages:
        return ()
    last = len(messages) - 1
    wanted: list[int] = []
    # What is volatile at the end will not be there the next time.
    if kinds[last] != "volatile":
        wanted.append(last)
    if shared:
        wanted.append(shared - 1)
    wanted.append(_leading_count(kinds, ("stable",)) - 1)
    wanted.append(next((at for at, kind in enumerate(kinds) if kind == "volatile"), 0) - 1)
    wanted.append(next((at for at in range(last, -1, -1) if isinstance(messages[at], Summary)), -1))
    wanted.append(_leading_count(kinds, ("stable", "slow")) - 1)
    chosen = list(dict.fromkeys(index for index in wanted if index >= 0))
    return tuple(sorted(chosen[:MAX_BREAKPOINTS]))


_SYSTEM, _STABLE, _SLOW, _HISTORY, _VOLATILE = range(5)


def _rank(section: PlannedSection) -> int:
    if section.is_history:
        return _HISTORY
    if section.name in REQUIRED_SECTIONS:
        return _SYSTEM
    return {"stable": _STABLE, "slow": _SLOW, "volatile": _VOLATILE}[section.kind]


def _leading_count(kinds: Sequence[SectionKind], wanted: Sequence[SectionKind]) -> int:
    """The number of messages from the start that are of these kinds."""
    return next((at for at, kind in enumerate(kinds) if kind not in wanted), len(kinds))


def _cost_factor(cached: int, own: int, lost: int) -> float:
    """The cost of a turn with a volatile section divided by that without; `lost` are uncached tokens."""
    hit = DEFAULT_PRICE.cached_input
    base = hit * cached + NEW_TOKENS + DEFAULT_PRICE.output * OUTPUT_TOKENS + SUMMARY_UPKEEP_TOKENS
    anew = FIRST_REQUEST_SHARE * (own + (1 - hit) * lost) + (1 - FIRST_REQUEST_SHARE) * hit * own
    return (base + anew) / base


def _quote_names(names: Sequence[str]) -> str:
    return ", ".join(f"`{name}`" for name in names)
