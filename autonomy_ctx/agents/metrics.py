"""Counters of what an agent has done since it started."""

from __future__ import annotations

from collections import Counter
from typing import Any

from autonomy_ctx.items.formats.base import Usage
from autonomy_ctx.template.running import HISTORY_SECTION
from autonomy_ctx.template.template import ContextTemplate

NAMES = (
    "turns",
    "turns_failed",
    "turns_waiting_for_input",
    "turns_answered_before",
    "turns_waited",
    "turns_lost",
    "turns_taken_over",
    "steps",
    "tool_calls",
    "tool_errors",
    "overflow_retries",
    "input_tokens",
    "cached_tokens",
    "cache_write_tokens",
    "output_tokens",
)


class AgentMetrics:
    """Counters by name."""

    def __init__(self) -> None:
        self._counts: Counter[str] = Counter()

    def count(self, name: str, by: int = 1) -> None:
        """Add to a counter."""
        self._counts[name] += by

    def add_usage(self, usage: Usage) -> None:
        """Add the tokens of one answer."""
        for name in ("input_tokens", "cached_tokens", "cache_write_tokens", "output_tokens"):
            self._counts[name] += getattr(usage, name)

    def collect(self, template: ContextTemplate) -> dict[str, int | float]:
        """All counters, with those of a summarized history under `summary_...`."""
        counts: dict[str, int | float] = {name: self._counts[name] for name in NAMES}
        history = next((one.metrics for one in template.section_options if one.name == HISTORY_SECTION), None)
        if history is None:
            return counts
        summaries = history.get_metrics()
        return counts | {f"summary_{name}": value for name, value in summaries.items() if _is_number(value)}


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)
