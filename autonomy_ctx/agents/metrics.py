"""Counters of what an agent has done since it started."""

from __future__ import annotations

from collections import Counter
from dataclasses import fields
from typing import Any

from autonomy_ctx._lazy import warn_of_former_name
from autonomy_ctx.formats.base import ThinkingUse, Usage
from autonomy_ctx.template.running import HISTORY_SECTION
from autonomy_ctx.template.template import ContextTemplate

TOKEN_NAMES = tuple(field.name for field in fields(Usage))
_COUNTS = """
turns turns_failed turns_waiting_for_input turns_answered_before turns_waited turns_lost turns_taken_over
steps epochs_ended tool_calls tool_errors overflow_retries thinking_left_out thinking_refused
summary_blocks_sent summary_blocks_refused
"""
NAMES = (*_COUNTS.split(), *TOKEN_NAMES)
# Before the names of a section's counters, unless they say what they count themselves.
SUMMARY, _OF_SUMMARIES = "summary_", "summar"


class AgentCounts(dict[str, Any]):
    """Counters by name; the names that they had up to 0.2, such as `summary_summaries_refused`, are found."""

    def __missing__(self, name: str) -> Any:
        new = name.removeprefix(SUMMARY)
        if new == name or not new.startswith(_OF_SUMMARIES) or new not in self:
            raise KeyError(name)
        warn_of_former_name(name, new)
        return self[new]


class AgentMetrics:
    """Counters of one agent."""

    def __init__(self) -> None:
        self._counts: Counter[str] = Counter()

    def count(self, name: str, by: int = 1) -> None:
        """Add to a counter."""
        self._counts[name] += by

    def add_usage(self, usage: Usage) -> None:
        """Add the tokens of one answer."""
        for name in TOKEN_NAMES:
            self._counts[name] += getattr(usage, name)

    def add_thinking(self, use: ThinkingUse) -> None:
        """Add the thinking that was left out of a request, and what the provider had refused of its own."""
        self._counts["thinking_left_out"] += sum(use.left_out.values())
        self._counts["thinking_refused"] += use.refused
        self._counts["summary_blocks_sent"] += bool(use.block)
        self._counts["summary_blocks_refused"] += bool(use.refused_block)

    def collect(self, template: ContextTemplate) -> dict[str, Any]:
        """All counters, with those of a summarized history under `summary_...` or `summaries_...`."""
        counts = AgentCounts({name: self._counts[name] for name in NAMES})
        history = next((one.metrics for one in template.section_options if one.name == HISTORY_SECTION), None)
        if history is None:
            return counts
        for name, value in history.get_metrics().items():
            if _is_count(value):
                counts[name if name.startswith(_OF_SUMMARIES) else SUMMARY + name] = value
        return counts


def _is_count(value: Any) -> bool:
    """Tell whether a value is a number, or a dict of numbers such as `refused_by_reason`."""
    if isinstance(value, dict):
        return all(map(_is_count, value.values()))
    return isinstance(value, int | float) and not isinstance(value, bool)
