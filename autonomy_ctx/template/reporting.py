"""The report of a section: what it showed, where that stands in the context, and what went wrong."""

from __future__ import annotations

from collections.abc import Sequence

from autonomy_ctx.template.cacheplan import Piece
from autonomy_ctx.template.composed import SectionReport
from autonomy_ctx.template.placement import Placement
from autonomy_ctx.template.running import DISABLED, Outcome
from autonomy_ctx.template.shown import Fitted


def shown_of(outcome: Outcome, counts: Sequence[int], fitted: Fitted | None) -> Fitted:
    """What a section shows: what a budget left, or all."""
    if fitted is not None:
        return fitted
    found = outcome.contribution
    return Fitted(messages=found.messages, counts=counts, positions=found.positions, omitted=(), cut=())


def starts_of(pieces: Sequence[Piece]) -> dict[int, list[tuple[int, int]]]:
    """For each section, where its pieces begin in the context and how many messages they have."""
    found: dict[int, list[tuple[int, int]]] = {}
    at = 0
    for piece in pieces:
        length = piece.last - piece.first
        found.setdefault(piece.section, []).append((at, length))
        at += length
    return found


def report_of(
    name: str, placement: Placement, outcome: Outcome, shown: Fitted, pieces: Sequence[tuple[int, int]]
) -> SectionReport:
    """What a section did; `pieces` are where its messages begin and how many they are."""
    found, counts = outcome.contribution, shown.counts
    disabled = outcome is DISABLED
    positions = shown.positions
    (start, before), *rest = pieces
    return SectionReport(
        name=name,
        kind=placement.kind,
        status="skipped" if disabled else "failed" if outcome.failed else "included",
        reason="disabled" if disabled else outcome.failed,
        start=start,
        messages=len(counts),
        tokens=sum(counts),
        milliseconds=outcome.milliseconds,
        positions=tuple(positions) if positions is not None else (None,) * len(counts),
        omitted=found.omitted + shown.omitted,
        cut=shown.cut,
        split=(before, rest[0][0]) if rest else None,
    )
