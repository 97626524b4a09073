"""The order of sections for a provider's prompt cache, breakpoints, and warnings about what ends epochs.

A provider caches the beginning of a request, so stable sections go first and volatile ones as late as
possible. Pure.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

from autonomy_ctx.formats.model_table import DEFAULT_PRICE
from autonomy_ctx.messages.cuts import newest_user_index
from autonomy_ctx.messages.message import Message
from autonomy_ctx.messages.summary import Summary
from autonomy_ctx.sections.section import SectionKind
from autonomy_ctx.template.running import HISTORY_SECTION, REQUIRED_SECTIONS, SectionOptions

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
    # Whether it shows only its newest text, and the number of newest messages that a history shows.
    is_latest: bool = False
    max_messages: int | None = None

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
    """A warning about a section that lets every turn begin anew, although most of its context is the same.

    `before` are the sections that miss the cache with it. `cost_factor` is an estimate: the cost of a turn
    with the section as it is, divided by the cost if its changes were appended.
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
    """A warning for each section that ends an epoch in every turn."""
    found: list[CacheWarning] = []
    everything = sum(section.expected_tokens for section in sections)
    for index, section in enumerate(sections):
        if section.is_latest:
            anew = [section, *sections[index + 1 :]]
            problem = 'shows only its newest text (keep="latest")'
            advice = 'With keep="all", which is the default, its changes are appended'
        elif section.max_messages is not None:
            anew = list(sections[index:])
            problem = f"shows only the newest {section.max_messages} messages (max_messages)"
            advice = (
                "A summarized history, or max_tokens of the template, drops many messages at once and rarely"
            )
        else:
            continue
        lost = sum(other.expected_tokens for other in anew)
        factor = _cost_factor(everything, section.expected_tokens, lost)
        found.append(
            CacheWarning(
                section=section.name,
                before=tuple(other.name for other in anew if other is not section),
                problem=(
                    f"section `{section.name}` {problem}, so every turn starts a new epoch: about {lost} "
                    f"tokens that a provider could read from its cache miss it, and a turn costs about "
                    f"{factor:.1f} times as much. {advice}"
                ),
                cost_factor=round(factor, 2),
            )
        )
    return found


def arrange_for_cache(
    sections: Sequence[PlannedSection | SectionOptions], messages: Sequence[Sequence[Message]]
) -> list[SectionSlice]:
    """System instructions, then stable and slow sections, then the conversation, all in their given order.

    Volatile sections come right after the newest user message: there their changes are appended in later
    turns, and calls and results of the same turn come after them.
    """
    ranks = [_rank(section) for section in sections]
    order = sorted(range(len(sections)), key=lambda index: ranks[index])
    pieces = [SectionSlice(index, 0, len(messages[index])) for index in order]
    talks = [at for at, piece in enumerate(pieces) if ranks[piece.section] == _HISTORY]
    for at in reversed(talks):
        index = pieces[at].section
        newest = newest_user_index(messages[index])
        if newest is not None:
            end, length = talks[-1] + 1, len(messages[index])
            later = [SectionSlice(index, newest + 1, length)] if newest + 1 < length else []
            asked = SectionSlice(index, 0, newest + 1)
            return [*pieces[:at], asked, *pieces[end:], *later, *pieces[at + 1 : end]]
    return pieces


def choose_breakpoints(
    messages: Sequence[Message], kinds: Sequence[SectionKind], shared: int, *, goes_on: bool = False
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
    # What is volatile at the end is there the next time only if the next context goes on from this one.
    if goes_on or kinds[last] != "volatile":
        wanted.append(last)
    if shared:
        wanted.append(shared - 1)
    wanted.append(next((at for at, kind in enumerate(kinds) if kind != "stable"), len(kinds)) - 1)
    lasting = kinds.index("volatile") if "volatile" in kinds else len(kinds)
    wanted.append(lasting - 1 if lasting < len(kinds) else -1)
    wanted.append(next((at for at in range(last, -1, -1) if isinstance(messages[at], Summary)), -1))
    wanted.append(lasting - 1)
    chosen = list(dict.fromkeys(index for index in wanted if index >= 0))
    return tuple(sorted(chosen[:MAX_BREAKPOINTS]))


_SYSTEM, _STABLE, _SLOW, _HISTORY, _VOLATILE = range(5)


def _rank(section: PlannedSection | SectionOptions) -> int:
    if section.name == HISTORY_SECTION:
        return _HISTORY
    if section.name in REQUIRED_SECTIONS:
        return _SYSTEM
    return {"stable": _STABLE, "slow": _SLOW, "volatile": _VOLATILE}[section.kind]


def _cost_factor(cached: int, own: int, lost: int) -> float:
    """The cost of a turn with a volatile section divided by that without; `lost` are uncached tokens."""
    hit = DEFAULT_PRICE.cached_input
    base = hit * cached + NEW_TOKENS + DEFAULT_PRICE.output * OUTPUT_TOKENS + SUMMARY_UPKEEP_TOKENS
    anew = FIRST_REQUEST_SHARE * (own + (1 - hit) * lost) + (1 - FIRST_REQUEST_SHARE) * hit * own
    return (base + anew) / base
