"""What the peers' figures are made of, as pure functions: the rules of the API, waits, rows and the table."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

HEADINGS = (
    "system",
    "level",
    "cost",
    "summaries",
    "waits",
    "p95",
    "beside model",
    "CPU",
    "largest",
    "facts",
    "refused",
    "lost",
)


def find_broken_rule(messages: Sequence[Mapping[str, Any]]) -> str | None:
    """Why an OpenAI API refuses these messages: a call without its result, or a result without its call."""
    waiting: list[str] = []
    for message in messages:
        if message["role"] == "tool":
            if message.get("tool_call_id") not in waiting:
                return f"result {message.get('tool_call_id')} does not follow its call"
            waiting.remove(message["tool_call_id"])
            continue
        if waiting:
            return f"call {waiting[0]} has no result"
        if message["role"] == "assistant":
            waiting = [call["id"] for call in message.get("tool_calls") or ()]
            if not waiting and not message.get("content"):
                return "an assistant says and calls nothing"
    return f"call {waiting[0]} has no result" if waiting else None


def count_waits(turns: Sequence[Mapping[str, Any]], requests: Sequence[Mapping[str, Any]]) -> int:
    """The turns in which a summary began and ended: they could not end before it."""
    summaries = [one for one in requests if one["kind"] == "summary"]
    return sum(
        any(turn["began"] <= one["began"] and one["ended"] <= turn["ended"] for one in summaries)
        for turn in turns
    )


def percentile(values: Sequence[float], share: float) -> float:
    """The value that a share of all do not pass."""
    return sorted(values)[min(int(len(values) * share), len(values) - 1)]


def time_beside_model(turn: Mapping[str, Any], requests: Sequence[Mapping[str, Any]]) -> float:
    """The seconds of a turn in which the model did not write its replies."""
    replies = [
        one["ended"] - one["began"]
        for one in requests
        if one["kind"] == "turn" and turn["began"] <= one["began"] and one["ended"] <= turn["ended"]
    ]
    return float(turn["ended"] - turn["began"] - sum(replies))


@dataclass(frozen=True, slots=True, kw_only=True)
class Row:
    """The figures of one peer; of one that failed only its error."""

    title: str
    level: str
    error: str = ""
    cost: float = 0.0
    summaries: int = 0
    waits: int = 0
    p95_ms: float = 0.0
    beside_model_ms: float = 0.0
    cpu_ms: float = 0.0
    largest: int = 0
    facts: str = ""
    refused: int = 0
    lost: int = 0

    def cells(self) -> list[str]:
        return [
            self.title,
            self.level,
            f"{self.cost / 1000:,.0f}k",
            str(self.summaries),
            str(self.waits),
            f"{self.p95_ms:,.0f} ms",
            f"{self.beside_model_ms:,.0f} ms",
            f"{self.cpu_ms:.1f} ms",
            f"{self.largest:,}",
            self.facts,
            str(self.refused),
            str(self.lost),
        ]


def make_row(
    title: str,
    level: str,
    client: Mapping[str, Any],
    upstream: Mapping[str, Any],
    said: Sequence[str],
    facts: Sequence[str],
) -> Row:
    """Put together what a peer measured of itself and what its provider saw."""
    turns, requests = client["turns"], upstream["requests"]
    replies = [one for one in requests if one["kind"] == "turn"]
    # The first turn imports and connects.
    cpu = [turn["cpu"] for turn in turns[1:]]
    return Row(
        title=title,
        level=level,
        cost=upstream["cost"],
        summaries=len(requests) - len(replies),
        waits=count_waits(turns, requests),
        p95_ms=percentile([turn["ended"] - turn["began"] for turn in turns], 0.95) * 1000,
        beside_model_ms=percentile([time_beside_model(turn, requests) for turn in turns], 0.95) * 1000,
        cpu_ms=sum(cpu) / len(cpu) * 1000,
        largest=max(one["sent"] for one in replies),
        facts=f"{sum(fact in upstream['context'] for fact in facts)} of {len(facts)}",
        refused=sum(one["broken"] is not None for one in requests),
        lost=sum(not any(text in stored for stored in client["stored"]) for text in said),
    )


def make_table(rows: Sequence[Row], *, markdown: bool = False) -> str:
    """All rows in their order; one that failed has its error in the place of its figures."""
    if markdown:
        lines = [f"| {' | '.join(HEADINGS)} |", f"|{'---|' * len(HEADINGS)}"]
        for row in rows:
            failed = [row.title, row.level, f"failed: {last_line(row.error)}", *[""] * (len(HEADINGS) - 3)]
            cells = failed if row.error else row.cells()
            lines.append(f"| {' | '.join(cell.replace('|', '/') for cell in cells)} |")
        return "\n".join(lines)
    measured = [list(HEADINGS), *(row.cells() for row in rows if not row.error)]
    named = [*measured, *([row.title, row.level] for row in rows)]
    widths = [max(len(cells[at]) for cells in (named if at < 2 else measured)) for at in range(len(HEADINGS))]
    lines = [_aligned(HEADINGS, widths)]
    for row in rows:
        named_error = f"{_aligned((row.title, row.level), widths)}  failed: {last_line(row.error)}"
        lines.append(named_error if row.error else _aligned(row.cells(), widths))
    return "\n".join(lines)


def _aligned(cells: Sequence[str], widths: Sequence[int]) -> str:
    """Words to the left, figures to the right."""
    return "  ".join(
        f"{cell:<{width}}" if at < 2 else f"{cell:>{width}}"
        for at, (cell, width) in enumerate(zip(cells, widths, strict=False))
    )


def last_line(error: str) -> str:
    """An error on one line: of a traceback the last, which names it."""
    lines = error.strip().splitlines()
    return lines[-1][:200] if lines else "ended without a word"
