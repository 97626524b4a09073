"""Counters of summaries: plain numbers for any monitoring system."""

from __future__ import annotations

from collections import Counter
from typing import Any

COUNTERS = (
    "cache_hits",
    "cache_misses",
    "summary_reads",
    "background_tasks_started",
    "background_tasks_completed",
    "background_tasks_failed",
    "summaries_committed",
    "summaries_merged",
    "summaries_timed_out",
    "summaries_refused",
    "summaries_repaired",
    "summaries_doubtful",
    "summaries_discarded",
    "summaries_shared",
    "summaries_not_shared",
    "batches_sent",
    "batches_read",
    "batches_dropped",
    "blocks_written",
    "blocks_failed",
    "swaps",
    "swaps_put_off",
    "digests_served",
    "digests_committed",
    "omissions_served",
    "hooks_failed",
    "summarizer_calls",
    "summarizer_input_tokens",
    "summarizer_output_tokens",
    "context_tokens",
    "context_tokens_shared",
)


class SummaryMetrics:
    """Counters since the section was made."""

    def __init__(self) -> None:
        self._counts: Counter[str] = Counter(dict.fromkeys(COUNTERS, 0))
        self._refused: Counter[str] = Counter()
        # Since a summary was stored.
        self.refused_in_row = 0
        self.lag_messages = 0
        self.lag_seconds = 0.0
        self.summary_seconds = 0.0

    def add(self, name: str, number: int = 1) -> None:
        """Count something."""
        self._counts[name] += number

    def count_refusal(self, reason: str) -> None:
        """Count a rejected answer of the model, by the reason."""
        self.refused_in_row += 1
        self._counts["summaries_refused"] += 1
        self._refused[reason] += 1

    def note_duration(self, seconds: float) -> None:
        """Note how long a summary took; newer durations count more."""
        known = self.summary_seconds
        self.summary_seconds = seconds if not known else 0.7 * known + 0.3 * seconds

    def dump(self) -> dict[str, Any]:
        """All numbers, as a dict that belongs to the caller."""
        sent, shared = self._counts["context_tokens"], self._counts["context_tokens_shared"]
        return {
            **self._counts,
            "refused_by_reason": dict(self._refused),
            "coverage_lag_messages": self.lag_messages,
            "coverage_lag_seconds": self.lag_seconds,
            "summary_seconds": self.summary_seconds,
            "prefix_reuse": shared / sent if sent else 0.0,
        }
