"""Contexts of an epoch: the next one from the one before, and one that was sent from its stored row."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from itertools import groupby
from typing import NamedTuple

from autonomy_ctx.messages.message import ChatRole, Message
from autonomy_ctx.messages.tokens import count_each
from autonomy_ctx.sections.section import ComposeParams, Contribution, Omission
from autonomy_ctx.template.budget import FittedSection, Measure
from autonomy_ctx.template.cache_order import SectionSlice
from autonomy_ctx.template.composed import BudgetReport, ComposedContext, SectionReport, SharedPrefix
from autonomy_ctx.template.epoch import (
    Addition,
    ChangeWriter,
    Continuation,
    EndReason,
    HeadRun,
    SectionText,
    continue_epoch,
    is_partial,
)
from autonomy_ctx.template.epoch_row import (
    EpochPart,
    EpochRow,
    EpochState,
    extend_digest,
    restore_epoch,
    tools_digest,
)
from autonomy_ctx.template.epoch_swap import swap_beginning
from autonomy_ctx.template.running import SectionOptions, SectionResult

# When more of a context than this was replaced by later text, the next one is composed anew.
MAX_SUPERSEDED = 0.5
# The reasons of what a budget left out begin so.
BUDGET_REASON = "max_tokens"


class Sections(NamedTuple):
    """The sections of one compose: their options, what each returned, and how it is counted."""

    options: Sequence[SectionOptions]
    results: Sequence[SectionResult]
    measure: Measure
    # Whether a change of the application's own text may be sent as an instruction.
    may_instruct: bool = True

    def swapped(self) -> Sections | None:
        """The sections with a new summary that a provider wrote; None if there is none."""
        for one in self.results:
            if one.contribution.swapped is not None:
                return self._replace(results=[one.as_swapped() for one in self.results])
        return None

    @property
    def change_writer(self) -> ChangeWriter:
        """The writer of changes, for this compose."""
        # Counted without a calibration, which changes: the same change is written in the same way.
        return ChangeWriter(self.measure.counter.text_counter.count, self.may_instruct)

    def said(self) -> tuple[SectionText, ...]:
        """The texts of all sections as they are now."""
        return tuple(_text_of_section(*one) for one in zip(self.options, self.results, strict=True))


def _text_of_section(options: SectionOptions, result: SectionResult) -> SectionText:
    found = result.contribution
    return SectionText(
        options.name,
        options.kind,
        tuple(found.messages),
        tuple(found.positions) if found.positions is not None else (None,) * len(found.messages),
        options.says,
        has_problem=result.problem is not None,
        is_latest=options.keep == "latest",
        may_be_removed=options.may_be_removed,
        refs=tuple(found.refs),
        added=tuple(found.added),
    )


def continue_context(
    base: ComposedContext,
    sections: Sections,
    said: Sequence[SectionText],
    tools: Sequence[object],
    budget: BudgetReport | None,
    params: ComposeParams,
    agent: str | None,
    restated: Sequence[Addition] = (),
) -> ComposedContext | EndReason:
    """The context after `base`, with what is new at its end; or the reason why it cannot go on.

    `agent` is the name of the agent that stores its replies; None when nobody does. What is `restated`
    follows the new messages of the log.
    """
    is_in_turn = params.composition.is_in_turn
    if base.state.tools != tuple(tools):
        return EndReason.TOOLS
    found = continue_epoch(base.state.said, said, sections.change_writer, is_in_turn=is_in_turn)
    if isinstance(found, EndReason):
        return found
    if restated:
        logs = [one for one in found.additions if found.said[one.section].is_log and not one.names]
        others = [one for one in found.additions if one not in logs]
        found = found._replace(additions=[*logs, *restated, *others])
    if agent is not None and _count_replies(found.additions, agent) > 1:
        # A reply to a request that is not known: what it answered may have been another context.
        return EndReason.NOT_RECORDED
    made = _append(base, found, sections, params)
    if budget is not None:
        # Counted as it is now known; a process that has just begun knows nothing newer.
        calibration = sections.measure.counter.calibration
        factor = calibration.factor / base.calibration if calibration.steps[-1].reports else 1.0
        if made.tokens * factor > budget.limit:
            return EndReason.BUDGET
        made.budget = replace(budget, used=budget.tools + made.tokens)
    superseded = 0 if is_in_turn else _superseded_tokens(made)
    if superseded:
        most = min([MAX_SUPERSEDED, *(one.contribution.max_superseded for one in sections.results)])
        if superseded > most * made.tokens:
            return EndReason.SUPERSEDED_TEXT
    return made


def swap_context(
    base: ComposedContext,
    row: EpochRow,
    parts: Sequence[EpochPart],
    sections: Sections,
    tools: Sequence[object],
    budget: BudgetReport | None,
    params: ComposeParams,
    agent: str | None,
    number: int,
) -> ComposedContext | None:
    """The context with a summary of the provider's in place of the beginning of `base`; None if it cannot.

    It begins the epoch with a number.
    """
    said = sections.said()
    beginning = next(
        (one.contribution.beginning for one in sections.results if one.contribution.beginning), None
    )
    found = swap_beginning(base, row, parts, said, beginning, number)
    if found is None:
        return None
    measure = replace(sections.measure, factor=base.calibration)
    messages, counts = list[Message](), list[int]()
    added = [_GrowingSection(_empty_report(index, text, found.parts)) for index, text in enumerate(said)]
    for section, own, positions, _ in found.runs:
        added[section].add(own, positions, measure, messages, counts)
    head = ComposedContext(
        scope=base.scope,
        conversation=base.conversation,
        messages=messages,
        counts=counts,
        sections=[one.report_again(result) for one, result in zip(added, sections.results, strict=True)],
        calibration=base.calibration,
        state=EpochState(
            number=number,
            said=found.said,
            began=found.row.began,
            beginning=beginning,
            tools=base.state.tools,
            row=found.row,
        ),
    )
    made = continue_context(head, sections, said, tools, budget, params, agent, found.restated)
    if isinstance(made, EndReason):
        return None
    made.state.end_reason, made.state.carried = EndReason.SWAP, tuple(found.parts)
    made.shared = made.shared_prefix(base)
    return made


def restore_context(
    row: EpochRow,
    parts: Sequence[EpochPart],
    sections: Sections,
    said: Sequence[SectionText],
    tools: Sequence[object],
    params: ComposeParams,
    scope: str,
    conversation: str,
) -> ComposedContext | EndReason:
    """The context that was sent, as it is stored; or the reason why it cannot be gone on from."""
    if row.tools != tools_digest(tools):
        return EndReason.TOOLS
    found = restore_epoch(row, parts, said, sections.change_writer)
    if isinstance(found, EndReason):
        return found
    row = found.row
    measure = replace(sections.measure, factor=row.calibration)
    messages, counts = list[Message](), list[int]()
    added = [_GrowingSection(_empty_report(index, text, parts)) for index, text in enumerate(said)]
    for section, own, positions, _ in found.head:
        own = tuple(found.shortened.get(len(messages) + at, one) for at, one in enumerate(own))
        added[section].add(own, positions, measure, messages, counts)
    head = ComposedContext(
        scope=scope,
        conversation=conversation,
        messages=messages,
        counts=counts,
        sections=[one.report_again(result) for one, result in zip(added, sections.results, strict=True)],
        calibration=row.calibration,
        state=EpochState(
            number=row.number,
            said=found.said,
            turn=row.turn,
            began=row.began,
            beginning=row.beginning,
            tools=tuple(tools),
            row=row,
        ),
    )
    sent = _append(head, Continuation(found.additions, found.said), sections, params)
    if extend_digest("", sent.messages) != row.digest:
        return found.mismatch
    sent.state = head.state
    return sent


def _empty_report(section: int, text: SectionText, parts: Sequence[EpochPart]) -> SectionReport:
    """The report of a section before its messages; with all that it has quoted in the epoch."""
    refs = dict.fromkeys(ref for part in parts if part.section == section for ref in part.refs)
    return SectionReport(
        name=text.name,
        kind=text.kind,
        status="included",
        reason=None,
        start=0,
        messages=0,
        tokens=0,
        milliseconds=0.0,
        positions=(),
        omitted=(),
        refs=tuple(refs),
    )


def head_runs(
    slices: Sequence[SectionSlice], shown: Sequence[FittedSection]
) -> tuple[tuple[HeadRun, ...], dict[int, Message]]:
    """Where the messages of a first context come from, and those that were shortened, by their index."""
    runs: list[HeadRun] = []
    shortened: dict[int, Message] = {}
    at = 0
    for section, first, last in slices:
        fitted = shown[section]
        for index, message in zip(fitted.indexes[first:last], fitted.messages[first:last], strict=True):
            if index in fitted.shortened:
                shortened[at] = message
            before = runs[-1] if runs else None
            if before is not None and before.section == section and before.first + before.length == index:
                runs[-1] = before._replace(length=before.length + 1)
            else:
                runs.append(HeadRun(section, index, 1))
            at += 1
    return tuple(runs), shortened


def _append(
    base: ComposedContext, found: Continuation, sections: Sections, params: ComposeParams
) -> ComposedContext:
    """A context with more at its end."""
    # The calibration of the epoch's beginning: counts of one context are made with one.
    measure = replace(sections.measure, factor=base.calibration)
    messages, counts = base.messages, base.counts
    added = [_GrowingSection(report) for report in base.sections]
    for section, own, positions, _ in found.additions:
        most = sections.options[section].max_tokens
        if most is not None and not any(positions):
            own = tuple(measure.clamp(one, most, "") for one in own)
        added[section].add(own, positions, measure, messages, counts)
    tokens = sum(counts)
    return ComposedContext(
        scope=base.scope,
        conversation=base.conversation,
        messages=messages,
        counts=counts,
        sections=[one.report_again(result) for one, result in zip(added, sections.results, strict=True)],
        calibration=base.calibration,
        shared=SharedPrefix(
            messages=len(base), tokens=base.tokens, share=base.tokens / tokens if tokens else 1.0
        ),
        params=params,
        state=EpochState(
            number=base.state.number,
            said=found.said,
            turn=params.composition.turn_position,
            began=base.state.began,
            beginning=base.state.beginning,
            tools=base.state.tools,
            additions=tuple(found.additions),
            base=base.state.row,
        ),
    )


class _GrowingSection:
    """A section's part of a context while messages are appended to it."""

    def __init__(self, report: SectionReport) -> None:
        self.report = report
        self.tokens, self.positions = report.tokens, report.positions
        self.runs = report.runs or (((report.start, report.messages),) if report.messages else ())

    def add(
        self,
        own: tuple[Message, ...],
        positions: tuple[int | None, ...],
        measure: Measure,
        messages: list[Message],
        counts: list[int],
    ) -> None:
        """Put messages of the section at the end of a context."""
        tokens = [measure.scale(count) for count in count_each(measure.counter, own)]
        first, length = self.runs[-1] if self.runs else (0, 0)
        if length and first + length == len(messages):
            self.runs = (*self.runs[:-1], (first, length + len(own)))
        else:
            self.runs = (*self.runs, (len(messages), len(own)))
        self.tokens += sum(tokens)
        self.positions += positions
        messages += own
        counts += tokens

    def report_again(self, result: SectionResult) -> SectionReport:
        """The report of a section whose messages stay; what it did this time is reported anew."""
        report, found = self.report, result.contribution
        is_included = result.enabled or bool(self.positions)
        # Messages that a budget left out at the beginning stay out.
        left_out = tuple(one for one in report.omitted if one.reason.startswith(BUDGET_REASON))
        return SectionReport(
            name=report.name,
            kind=report.kind,
            status="failed" if result.problem else "included" if is_included else "skipped",
            reason=result.problem if result.enabled else "disabled",
            start=self.runs[0][0] if self.runs else report.start,
            messages=len(self.positions),
            tokens=self.tokens,
            milliseconds=result.milliseconds,
            positions=self.positions,
            omitted=(*found.omitted, *(left_out or self._left_out(found))),
            cut=report.cut,
            runs=self.runs if len(self.runs) > 1 else (),
            note=found.note,
            refs=tuple(dict.fromkeys((*report.refs, *found.refs))) if report.refs or found.refs else (),
        )

    def _left_out(self, found: Contribution) -> list[Omission]:
        """Messages of the log that a budget left out when the epoch began, if its report is not known."""
        shown = set(self.positions)
        if found.positions is None or shown.issuperset(found.positions):
            return []
        gone = [(at, one) for at, one in enumerate(found.positions) if one is not None and one not in shown]
        runs = groupby(enumerate(gone), key=lambda one: one[1][0] - one[0])
        places = [[position for _, (_, position) in run] for _, run in runs]
        reason = f"{BUDGET_REASON} when the epoch began"
        return [Omission(first=min(some), last=max(some), count=len(some), reason=reason) for some in places]


def _count_replies(additions: Sequence[Addition], agent: str) -> int:
    """The number of replies of an agent among messages of the log."""
    return sum(
        message.role is ChatRole.ASSISTANT and message.agent in (agent, None, "")
        for _, messages, positions, _ in additions
        for message, position in zip(messages, positions, strict=True)
        if position is not None
    )


def _superseded_tokens(composed: ComposedContext) -> int:
    """The tokens of texts that a section has replaced since: all before the last one that it said whole."""
    counts, messages, total = composed.counts, composed.messages, 0
    for report, text in zip(composed.sections, composed.state.said, strict=True):
        if text.says == "states" and not text.is_log and len(report.runs) > 1:
            starts = [first for first, _ in report.runs]
            whole = next((at for at in reversed(starts) if not is_partial(report.name, messages[at])), 0)
            total += sum(sum(counts[first : first + count]) for first, count in report.runs if first < whole)
    return total
