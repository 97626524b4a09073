"""`ReplayReport`: what a replay measured, setting by setting and turn by turn, as values.

The command line prints them, `--json` prints `to_dict()`, and `replay/report.py` draws them.
"""

from __future__ import annotations

from dataclasses import asdict, dataclass, fields
from statistics import fmean
from typing import Any

from autonomy_ctx.formats.model_table import Price
from autonomy_ctx.replay.grid import ReplaySetting


@dataclass(frozen=True, slots=True, kw_only=True)
class TurnMeasure:
    """One turn of a replay. Tokens and cost are those of all its requests together."""

    # None if the memory has figures of other turns only.
    number: int | None
    position: int
    requests: int
    # The largest context of the turn, and its messages.
    context_tokens: int
    context_messages: int
    # Of what was sent, how much a provider's cache had from the request before.
    sent_tokens: int
    cached_tokens: int
    output_tokens: int
    cost: float
    # What was said before the turn, and how much of it its context shows.
    facts_said: int
    facts_shown: int
    names_said: int
    names_shown: int
    # What the budget left out or shortened, and whether it left nothing to send.
    was_cut: bool = False
    was_refused: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class ReplayRun:
    """A conversation replayed with one setting; without a setting, every context has the whole history."""

    setting: ReplaySetting | None
    turns: tuple[TurnMeasure, ...]
    # Contexts with more tokens than this are over the limit; None for no limit.
    limit: int | None
    # What writing summaries cost: really, or as it would have cost if a model had written the digests.
    summaries: int = 0
    summary_cost: float = 0.0
    failed_summaries: int = 0
    # What is not in the last context any more, though it was said and still holds.
    lost_facts: tuple[str, ...] = ()
    lost_names: tuple[str, ...] = ()

    @property
    def label(self) -> str:
        """The short name of its setting."""
        return "whole history" if self.setting is None else self.setting.label

    @property
    def request_cost(self) -> float:
        """The cost of its requests."""
        return sum(turn.cost for turn in self.turns)

    @property
    def cost(self) -> float:
        """The cost of its requests and its summaries."""
        return self.request_cost + self.summary_cost

    @property
    def sent_tokens(self) -> int:
        """The tokens of all contexts."""
        return sum(turn.sent_tokens for turn in self.turns)

    @property
    def cached_tokens(self) -> int:
        """The sent tokens that a cache had."""
        return sum(turn.cached_tokens for turn in self.turns)

    @property
    def cached_share(self) -> float:
        """The share of the sent tokens that came from a cache."""
        return self.cached_tokens / self.sent_tokens if self.sent_tokens else 0.0

    @property
    def mean_context(self) -> int:
        """The tokens of a context, on average over the turns."""
        return round(fmean(turn.context_tokens for turn in self.turns)) if self.turns else 0

    @property
    def largest_context(self) -> int:
        """The tokens of the largest context."""
        return max((turn.context_tokens for turn in self.turns), default=0)

    @property
    def turns_over_limit(self) -> int:
        """Turns whose context was over the limit, or for which the budget left nothing to send."""
        return sum(
            turn.was_refused or (self.limit is not None and turn.context_tokens > self.limit)
            for turn in self.turns
        )

    @property
    def turns_cut(self) -> int:
        """Turns in which the budget left something out."""
        return sum(turn.was_cut for turn in self.turns)

    @property
    def facts_share(self) -> float:
        """The part of the facts that held which was shown, over all turns; 1.0 where there were none."""
        said = sum(turn.facts_said for turn in self.turns)
        return sum(turn.facts_shown for turn in self.turns) / said if said else 1.0

    @property
    def names_share(self) -> float:
        """The part of the identifiers that was shown, over all turns; 1.0 where there were none."""
        said = sum(turn.names_said for turn in self.turns)
        return sum(turn.names_shown for turn in self.turns) / said if said else 1.0

    def to_dict(self) -> dict[str, Any]:
        """All numbers by name; those of the turns as one list for each name."""
        names = [one.name for one in fields(TurnMeasure)]
        return {
            "label": self.label,
            "setting": None if self.setting is None else self.setting.to_dict(),
            "cost": round(self.cost, 6),
            "request_cost": round(self.request_cost, 6),
            "summary_cost": round(self.summary_cost, 6),
            "summaries": self.summaries,
            "failed_summaries": self.failed_summaries,
            "sent_tokens": self.sent_tokens,
            "cached_tokens": self.cached_tokens,
            "cached_share": round(self.cached_share, 4),
            "mean_context": self.mean_context,
            "largest_context": self.largest_context,
            "turns_over_limit": self.turns_over_limit,
            "turns_cut": self.turns_cut,
            "facts_share": round(self.facts_share, 4),
            "identifiers_share": round(self.names_share, 4),
            "lost_facts": list(self.lost_facts),
            "lost_identifiers": list(self.lost_names),
            "turns": {name: [getattr(turn, name) for turn in self.turns] for name in names},
        }


@dataclass(frozen=True, slots=True, kw_only=True)
class Recommendation:
    """The recommended setting, the reason in two sentences, and the effect of the second best."""

    setting: ReplaySetting
    reason: str
    runner_up: ReplaySetting | None
    runner_up_reason: str

    def to_dict(self) -> dict[str, Any]:
        """The settings as numbers, the reasons as sentences."""
        return asdict(self)


@dataclass(frozen=True, slots=True, kw_only=True)
class ReplayReport:
    """Everything that a replay found."""

    conversation: str
    turns: int
    # Whether turns have the numbers of the memory; else users' messages are counted.
    has_stored_numbers: bool
    messages: int
    # How many facts hold at the end and how many identifiers were named; pauses in which a cache forgets.
    facts: tuple[str, ...]
    identifiers: int
    pauses: int
    # By whose price, who wrote the summaries (None for digests without a model).
    price_name: str
    price: Price
    summary_model: str | None
    limit: int | None
    skipped: tuple[str, ...]
    whole: ReplayRun
    runs: tuple[ReplayRun, ...]
    recommendation: Recommendation

    @property
    def best(self) -> ReplayRun:
        """The run of the setting that is recommended."""
        return next(run for run in self.runs if run.setting == self.recommendation.setting)

    def to_dict(self) -> dict[str, Any]:
        """All of it, for JSON."""
        return {
            "conversation": self.conversation,
            "turns": self.turns,
            "has_stored_numbers": self.has_stored_numbers,
            "messages": self.messages,
            "facts": list(self.facts),
            "identifiers": self.identifiers,
            "pauses": self.pauses,
            "price": {"name": self.price_name, **asdict(self.price)},
            "summary_model": self.summary_model,
            "limit": self.limit,
            "skipped": list(self.skipped),
            "recommendation": self.recommendation.to_dict(),
            "whole_history": self.whole.to_dict(),
            "settings": [run.to_dict() for run in self.runs],
        }
