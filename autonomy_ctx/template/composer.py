"""One compose of a template: it runs the sections and goes on from what was sent, or begins anew."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from functools import partial
from itertools import groupby
from typing import TYPE_CHECKING, Any, Literal

import anyio.to_thread

from autonomy_ctx.background import Chunks
from autonomy_ctx.errors import BudgetExceeded
from autonomy_ctx.messages.message import ChatRole, Message
from autonomy_ctx.messages.summary import Summary
from autonomy_ctx.messages.tokens import count_each
from autonomy_ctx.sections.section import ComposeParams, Contribution, EpochBeginning, Omission
from autonomy_ctx.template.budget import FittedSection, Measure, SectionContent, fit_sections, tokens_to_keep
from autonomy_ctx.template.cache_order import SectionSlice, arrange_for_cache
from autonomy_ctx.template.composed import (
    BudgetReport,
    ComposedContext,
    Cut,
    Definitions,
    SectionReport,
    SharedPrefix,
    WindowBounds,
)
from autonomy_ctx.template.epoch import (
    Addition,
    ChangeWriter,
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
    messages_digest,
    restore_epoch,
    tools_digest,
)
from autonomy_ctx.template.epoch_store import StoredEpochs
from autonomy_ctx.template.epoch_swap import swap_beginning
from autonomy_ctx.template.running import SectionOptions, SectionResult, run_sections

if TYPE_CHECKING:
    from autonomy_ctx.formats.output_schema import OutputSchema

# What is cut on the event loop at most: a few milliseconds.
LARGE_MESSAGES, LARGE_TOKENS = 500, 20_000
# What is left of a context that is cut for a budget: the room is for those that go on from it.
BUDGET_SHARE = 0.6
# When more of a context than this was replaced by later text, the next one is composed anew.
MAX_SUPERSEDED = 0.5
# The reasons of what a budget left out begin so.
BUDGET_REASON = "max_tokens"


@dataclass(slots=True, kw_only=True)
class Composer:
    """The arguments of one compose, and the results of its sections."""

    options: Sequence[SectionOptions]
    memory: Any
    scope: str
    conversation: str
    params: ComposeParams
    measure: Measure
    arrange: Literal["given", "cache"]
    max_tokens: int | None
    reserve_output: int
    tools: Sequence[Any]
    output: OutputSchema | None
    previous: ComposedContext | None
    stored: StoredEpochs | None
    results: list[SectionResult] = field(default_factory=list)
    # The names of the tools, and the tokens of tools and schema before calibration.
    tool_names: tuple[str, ...] = ()
    tool_count: int = 0
    schema_count: int = 0
    budget: BudgetReport | None = None

    async def compose(self) -> ComposedContext:
        """The context, as it goes on from the one that was sent, or as it begins."""
        self._count_definitions()
        self._prepare()
        self.results = await self._run(self.options)
        found = await self._go_on()
        composed = found if isinstance(found, ComposedContext) else await self._begin(found)
        self._note(composed)
        return composed

    def _count_definitions(self) -> None:
        """Count what is sent beside the messages, and find what is left for these."""
        counter, known = self.measure.counter, None if self.previous is None else self.previous.state
        if known is not None and known.tools == tuple(self.tools):
            # The same tools as before are not counted again: it takes as long as a section.
            self.tool_count, self.tool_names = known.tool_count, known.tool_names
        elif self.tools:
            specs = list(map(_tool_spec, self.tools))
            self.tool_count = counter.count_definitions(specs)
            self.tool_names = tuple([str(spec.get("name", "")) for spec in specs])
        self.schema_count = 0 if self.output is None else counter.count_definitions([self.output.schema])
        if self.max_tokens is not None:
            tools, schema = self.measure.scale(self.tool_count), self.measure.scale(self.schema_count)
            self.budget = BudgetReport(
                max_tokens=self.max_tokens,
                reserve_output=self.reserve_output,
                tools=tools,
                limit=self.max_tokens - self.reserve_output - tools - schema,
                used=0,
                output_schema=schema,
            )

    def _prepare(self) -> None:
        """Tell the sections about the context before."""
        shared, previous = self.params.composition, self.previous
        before: EpochState | EpochRow | None = None if previous is None else previous.state
        if self.stored is not None:
            before = self.stored.rows[0] if self.stored.rows else None
        shared.max_tokens = None if self.budget is None else self.budget.limit
        turn = shared.turn_position
        shared.is_in_turn = before is not None and turn is not None and turn == before.turn
        shared.covered = before.covered if isinstance(before, EpochRow) else None
        shared.is_ended = isinstance(before, EpochRow) and before.ended is EndReason.BY_HAND
        # Of an epoch that began with none of these.
        shared.beginning = None if before is None else before.beginning or EpochBeginning(0, ())
        shared.quoted = previous.refs if previous is not None else ()

    async def _run(self, options: Sequence[SectionOptions]) -> list[SectionResult]:
        return await run_sections(options, self.memory, self.scope, self.conversation, self.params)

    def _said(self, results: Sequence[SectionResult]) -> tuple[SectionText, ...]:
        """The texts of all sections as they are now."""
        return tuple(map(_text_of_section, self.options, results))

    @property
    def _change_writer(self) -> ChangeWriter:
        # Counted without a calibration, which changes: the same change is written in the same way.
        may_instruct = self.stored is None or self.stored.may_instruct
        return ChangeWriter(self.measure.counter.text_counter.count, may_instruct)

    # -- going on -------------------------------------------------------------------------------

    async def _go_on(self) -> ComposedContext | EndReason | None:
        """The context that goes on from what was sent; else why not, or None if nothing was sent."""
        previous, stored, said = self.previous, self.stored, self._said(self.results)
        if stored is None:
            return None if previous is None or not previous.state.said else self._continue(previous, said)
        reason: EndReason | None = None
        for row in stored.rows:
            found = await self._sent_context(row, said)
            if isinstance(found, ComposedContext):
                # Between requests with another beginning, others were answered.
                agent = stored.agent if row is stored.rows[0] else None
                if any(one.contribution.swapped is not None for one in self.results):
                    swapped = await self._swap(found, row, stored, agent)
                    return EndReason.SWAP if swapped is None else swapped
                found = self._continue(found, said, agent)
            if isinstance(found, ComposedContext):
                return found
            reason = reason or found
            if found not in (EndReason.INSTRUCTIONS, EndReason.TOOLS):
                break
        if reason is None and previous is not None:
            is_own = previous.state.composer == stored.composer
            return EndReason.DELETION if is_own else EndReason.INSTRUCTIONS
        if reason is None and any(text.is_log and _has_replies(text.messages) for text in said):
            return EndReason.NOT_RECORDED
        return reason

    async def _sent_context(self, row: EpochRow, said: Sequence[SectionText]) -> ComposedContext | EndReason:
        """The context of a row, as it was sent; or the reason why it cannot be gone on from."""
        if row.ended is not None:
            return row.ended
        known = None if self.previous is None else self.previous.state.row
        if self.previous is not None and known is not None and known.body == row.body:
            return self.previous
        assert self.stored is not None, "a row comes from stored epochs"
        if row.tools != tools_digest(self.tools):
            return EndReason.TOOLS
        parts = await self.stored.read_parts(row)
        found = restore_epoch(row, parts, said, self._change_writer)
        if isinstance(found, EndReason):
            return found
        row = found.row
        sent = GrowingContext(self.options, replace(self.measure, factor=row.calibration), parts)
        for addition in found.head:
            own = [
                found.shortened.get(len(sent.messages) + at, one) for at, one in enumerate(addition.messages)
            ]
            sent.add(addition.section, own, addition.positions)
        sent.append(found.additions)
        if messages_digest(sent.messages) != row.digest:
            return found.mismatch
        state = EpochState(
            number=row.number,
            said=found.said,
            turn=row.turn,
            began=row.began,
            beginning=row.beginning,
            tools=tuple(self.tools),
            row=row,
        )
        return self._build(sent, self.results, state)

    def _continue(
        self,
        base: ComposedContext,
        said: Sequence[SectionText],
        agent: str | None = None,
        restated: Sequence[Addition] = (),
        results: Sequence[SectionResult] = (),
    ) -> ComposedContext | EndReason:
        """The context after `base`, with what is new at its end; or the reason why it cannot go on.

        `agent` is the name of the agent that stores its replies; None when nobody does. What is `restated`
        follows the new messages of the log.
        """
        is_in_turn, results = self.params.composition.is_in_turn, results or self.results
        if base.state.tools != tuple(self.tools):
            return EndReason.TOOLS
        found = continue_epoch(base.state.said, said, self._change_writer, is_in_turn=is_in_turn)
        if isinstance(found, EndReason):
            return found
        additions = found.additions
        if restated:
            logs = [one for one in additions if found.said[one.section].is_log and not one.names]
            additions = [*logs, *restated, *(one for one in additions if one not in logs)]
        if agent is not None and _count_replies(additions, agent) > 1:
            # A reply to a request that is not known: what it answered may have been another context.
            return EndReason.NOT_RECORDED
        # The calibration of the epoch's beginning: counts of one context are made with one.
        grown = GrowingContext(self.options, replace(self.measure, factor=base.calibration), base=base)
        grown.append(additions)
        before = base.state
        state = EpochState(
            number=before.number,
            said=found.said,
            turn=self.params.composition.turn_position,
            began=before.began,
            beginning=before.beginning,
            tools=before.tools,
            additions=tuple(additions),
            base=before.row,
        )
        made = self._build(grown, results, state)
        share = base.tokens / made.tokens if made.tokens else 1.0
        made.shared = SharedPrefix(messages=len(base), tokens=base.tokens, share=share)
        return self._reason_to_end(made, results) or made

    def _reason_to_end(self, made: ComposedContext, results: Sequence[SectionResult]) -> EndReason | None:
        """The reason why a context that could be sent is composed anew."""
        if self.budget is not None:
            # Counted as it is now known; a process that has just begun knows nothing newer.
            calibration = self.measure.counter.calibration
            factor = calibration.factor / made.calibration if calibration.steps[-1].reports else 1.0
            if made.tokens * factor > self.budget.limit:
                return EndReason.BUDGET
            made.budget = self.budget
        if self.params.composition.is_in_turn:
            return None
        if superseded := _superseded_tokens(made):
            most = min([MAX_SUPERSEDED, *(one.contribution.max_superseded for one in results)])
            if superseded > most * made.tokens:
                return EndReason.SUPERSEDED_TEXT
        is_outdated = any(one.contribution.is_outdated for one in results)
        return EndReason.OLD_RESULTS if is_outdated else None

    async def _swap(
        self, base: ComposedContext, row: EpochRow, stored: StoredEpochs, agent: str | None
    ) -> ComposedContext | None:
        """The context with a summary of the provider's in place of its beginning; None if that cannot be."""
        results = [one.as_swapped() for one in self.results]
        said, beginning = self._said(results), _beginning_of(results)
        number = (await stored.with_last()).last_number + 1
        parts = await stored.read_parts(row)
        found = swap_beginning(base, row, parts, said, beginning, number)
        if found is None:
            return None
        head = GrowingContext(self.options, replace(self.measure, factor=base.calibration), found.parts)
        for section, own, positions, _ in found.runs:
            head.add(section, own, positions)
        state = EpochState(
            number=number,
            said=found.said,
            began=found.row.began,
            beginning=beginning,
            tools=base.state.tools,
            row=found.row,
        )
        made = self._continue(self._build(head, results, state), said, agent, found.restated, results)
        if isinstance(made, EndReason):
            return None
        made.state.end_reason, made.state.carried = EndReason.SWAP, tuple(found.parts)
        made.shared = made.shared_prefix(base)
        return made

    # -- beginning ------------------------------------------------------------------------------

    async def _begin(self, reason: EndReason | None) -> ComposedContext:
        """The context with which an epoch begins: all sections as they are now."""
        shared = self.params.composition
        if reason is EndReason.SWAP and shared.is_in_turn:
            # A summary waits for the next turn, unless the one before no longer fits.
            reason = EndReason.HARD_LIMIT
        if shared.quoted or shared.is_in_turn:
            # What the epoch that ended had shown is to be found again.
            shared.quoted, shared.is_in_turn = (), False
            added = [at for at, options in enumerate(self.options) if options.says == "adds"]
            again = await self._run([self.options[at] for at in added])
            for at, result in zip(added, again, strict=True):
                self.results[at] = result
        self.results = [result.as_beginning() for result in self.results]
        contents = [
            await self._count_content(options, result.contribution)
            for options, result in zip(self.options, self.results, strict=True)
        ]
        shown = await self._fit(contents)
        if self.arrange == "cache":
            slices = arrange_for_cache(self.options, [one.messages for one in shown])
        else:
            slices = [SectionSlice(index, 0, len(own.indexes)) for index, own in enumerate(shown)]
        made = GrowingContext(self.options, self.measure)
        for index, first, last in slices:
            own = shown[index]
            made.add(index, own.messages[first:last], own.positions[first:last], own.counts[first:last])
        for part, own in zip(made.parts, shown, strict=True):
            part.omitted, part.cut = own.omitted, own.cut
        began = max((at for part in made.parts for at in part.positions if at is not None), default=0)
        number = 0 if self.previous is None else self.previous.epoch
        if self.stored is not None and began > 1:
            self.stored = await self.stored.with_last()
            number = max(number, self.stored.last_number)
            if self.stored.last_number and not self.stored.rows:
                # There was a row, and only deleting what it refers to drops it.
                reason = EndReason.DELETION
        head, shortened = _head_runs(slices, shown)
        state = EpochState(
            number=number + 1,
            end_reason=reason,
            said=self._said(self.results),
            turn=shared.turn_position,
            began=began,
            beginning=_beginning_of(self.results),
            tools=tuple(self.tools),
            head=head,
            shortened=shortened,
        )
        composed = self._build(made, self.results, state)
        composed.budget = self.budget
        if self.previous is not None:
            composed.shared = composed.shared_prefix(self.previous)
        return composed

    async def _count_content(self, options: SectionOptions, contribution: Contribution) -> SectionContent:
        """A section's messages with their tokens; many are counted in pieces, to let others go on."""
        measure = self.measure
        return SectionContent(
            name=options.name,
            messages=contribution.messages,
            counts=[
                measure.scale(count)
                async for some in Chunks(contribution.messages)
                for count in count_each(measure.counter, some)
            ],
            positions=contribution.positions,
            shorter=contribution.shorter,
            floor=contribution.floor,
        )

    async def _fit(self, contents: Sequence[SectionContent]) -> list[FittedSection]:
        """The messages that each section shows; a large context is cut in a thread.

        One that is sent leaves room for the next ones, which begin with it.
        """
        budget, tokens = self.budget, sum(one.tokens for one in contents)
        has_limit = any(options.max_tokens is not None for options in self.options)
        if not has_limit and (budget is None or tokens <= budget.limit):
            return [FittedSection.of_all(content) for content in contents]
        is_sent = self.stored is not None or self.previous is not None
        turn = self.params.composition.turn_position
        fitted = partial(fit_sections, contents, self.options, measure=self.measure, turn_position=turn)

        def fit() -> list[FittedSection]:
            if is_sent and budget is not None and tokens > budget.limit:
                least = max(int(budget.limit * BUDGET_SHARE), tokens_to_keep(contents))
                with suppress(BudgetExceeded):
                    return fitted(replace(budget, limit=min(least, budget.limit)))
            return fitted(budget)

        if sum(len(one.messages) for one in contents) > LARGE_MESSAGES or tokens > LARGE_TOKENS:
            return await anyio.to_thread.run_sync(fit)
        return fit()

    # -- both -----------------------------------------------------------------------------------

    def _build(
        self, made: GrowingContext, results: Sequence[SectionResult], state: EpochState
    ) -> ComposedContext:
        return ComposedContext(
            scope=self.scope,
            conversation=self.conversation,
            messages=made.messages,
            counts=made.counts,
            sections=list(map(_SectionPart.report, made.parts, self.options, results)),
            calibration=made.measure.factor,
            params=self.params,
            state=state,
        )

    def _note(self, composed: ComposedContext) -> None:
        """Tell a context what is sent with it and where it is stored, and sections about the context."""
        state, stored = composed.state, self.stored
        # With one calibration for all of a request.
        measure, sent = replace(self.measure, factor=composed.calibration), list[Definitions]()
        if self.tools:
            count = measure.scale(self.tool_count)
            sent.append(Definitions(name="tools", items=self.tool_names, tokens=count))
        if self.output is not None:
            count = measure.scale(self.schema_count)
            sent.append(Definitions(name="output_schema", items=(self.output.name,), tokens=count))
        composed.definitions = tuple(sent)
        state.tool_count, state.tool_names = self.tool_count, self.tool_names
        if composed.budget is not None:
            composed.budget = replace(composed.budget, used=composed.request_tokens)
        if stored is not None:
            state.composer, state.rows, state.cache_key = stored.composer, stored.rows, stored.cache_key
        for options, result in zip(self.options, self.results, strict=True):
            state.long_cache = state.long_cache or result.contribution.long_cache
            section: Any = options.section
            if composed.bounds is None and hasattr(section, "floor") and hasattr(section, "ceiling"):
                composed.bounds = WindowBounds(section.floor, section.ceiling)
        for options, result in zip(self.options, self.results, strict=True):
            if options.observer is not None and result.enabled:
                specs = [*map(_tool_spec, state.tools), *self.params.composition.deferred_tools]
                options.observer.note_composed(result.contribution, composed, specs)


class GrowingContext:
    """A context while messages of its sections are put at its end; it begins empty, or with all of `base`.

    Of a stored epoch, `parts` have the quotes of each section.
    """

    def __init__(
        self,
        options: Sequence[SectionOptions],
        measure: Measure,
        parts: Sequence[EpochPart] = (),
        *,
        base: ComposedContext | None = None,
    ) -> None:
        self.measure, self._options = measure, options
        if base is not None:
            self.messages, self.counts = base.messages, base.counts
            self.parts = [_SectionPart(report) for report in base.sections]
            return
        self.messages, self.counts = [], []
        self.parts = [_SectionPart() for _ in options]
        for part in parts:
            if part.section >= 0:
                self.parts[part.section].refs += part.refs

    def append(self, additions: Sequence[Addition]) -> None:
        """Put additions at the end; a text of its own keeps within the limit of its section."""
        for section, own, positions, _ in additions:
            most = self._options[section].max_tokens
            if most is not None and not any(positions):
                own = tuple([self.measure.clamp(one, most, "") for one in own])
            self.add(section, own, positions)

    def add(
        self,
        section: int,
        own: Sequence[Message],
        positions: Sequence[int | None],
        counts: Sequence[int] | None = None,
    ) -> None:
        """Put messages of a section at the end."""
        if counts is None:
            counts = [self.measure.scale(count) for count in count_each(self.measure.counter, own)]
        self.parts[section].add(len(self.messages), positions, sum(counts))
        self.messages += own
        self.counts += counts


class _SectionPart:
    """The part of one section in a context that grows."""

    __slots__ = ("cut", "omitted", "positions", "refs", "runs", "start", "tokens")

    def __init__(self, report: SectionReport | None = None) -> None:
        self.start: int | None = None
        self.runs: tuple[tuple[int, int], ...] = ()
        self.positions: tuple[int | None, ...] = ()
        self.refs: tuple[Any, ...] = ()
        self.omitted: tuple[Omission, ...] = ()
        self.cut: tuple[Cut, ...] = ()
        self.tokens = 0
        if report is not None:
            self.start, self.tokens, self.positions = report.start, report.tokens, report.positions
            self.runs = report.runs or (((report.start, report.messages),) if report.messages else ())
            self.refs, self.cut = report.refs, report.cut
            # Messages that a budget left out at the beginning stay out.
            if report.omitted:
                left_out = [one for one in report.omitted if one.reason.startswith(BUDGET_REASON)]
                self.omitted = tuple(left_out)

    def add(self, at: int, positions: Sequence[int | None], tokens: int) -> None:
        """Note messages at an index of the context."""
        first, length = self.runs[-1] if self.runs else (0, 0)
        if length and first + length == at:
            self.runs = (*self.runs[:-1], (first, length + len(positions)))
        elif positions:
            self.runs = (*self.runs, (at, len(positions)))
        self.start = at if self.start is None else self.start
        self.positions += tuple(positions)
        self.tokens += tokens

    def report(self, options: SectionOptions, result: SectionResult) -> SectionReport:
        """The report of the section: all its messages, and what it did this time."""
        found = result.contribution
        is_included = result.enabled or bool(self.positions)
        return SectionReport(
            name=options.name,
            kind=options.kind,
            status="failed" if result.problem else "included" if is_included else "skipped",
            reason=result.problem if result.enabled else "disabled",
            start=self.runs[0][0] if self.runs else self.start or 0,
            messages=len(self.positions),
            tokens=self.tokens,
            milliseconds=result.milliseconds,
            positions=self.positions,
            omitted=(*found.omitted, *(self.omitted or self._left_out(found))),
            cut=self.cut,
            runs=self.runs if len(self.runs) > 1 else (),
            note=found.note,
            refs=tuple(dict.fromkeys((*self.refs, *found.refs))) if self.refs or found.refs else (),
        )

    def _left_out(self, found: Contribution) -> list[Omission]:
        """Messages of the log that a budget left out when the epoch began, if its report is not known."""
        if found.positions is None or self.positions == tuple(found.positions):
            return []
        shown = set(self.positions)
        gone = [(at, one) for at, one in enumerate(found.positions) if one is not None and one not in shown]
        runs = groupby(enumerate(gone), key=lambda one: one[1][0] - one[0])
        places = [[position for _, (_, position) in run] for _, run in runs]
        reason = f"{BUDGET_REASON} when the epoch began"
        return [Omission(first=min(some), last=max(some), count=len(some), reason=reason) for some in places]


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


def _beginning_of(results: Sequence[SectionResult]) -> EpochBeginning | None:
    """The facts and pins that an epoch begins with, if a section says it."""
    found = (one.contribution.beginning for one in results)
    return next((beginning for beginning in found if beginning is not None), None)


def _head_runs(
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


def _has_replies(messages: Sequence[Message]) -> bool:
    """Tell whether a conversation has been answered: a summary stands for replies, too."""
    return any(
        isinstance(one, Summary) or one.role in (ChatRole.ASSISTANT, ChatRole.TOOL) for one in messages
    )


def _count_replies(additions: Sequence[Addition], agent: str) -> int:
    """The number of replies of an agent among messages of the log."""
    return sum(
        [
            message.role is ChatRole.ASSISTANT and message.agent in (agent, None, "")
            for _, messages, positions, _ in additions
            for message, position in zip(messages, positions, strict=True)
            if position is not None
        ]
    )


def _superseded_tokens(composed: ComposedContext) -> int:
    """The tokens of texts that a section has replaced since: all before the last one that it said whole."""
    counts, messages, total = composed.counts, composed.messages, 0
    for report, text in zip(composed.sections, composed.state.said, strict=True):
        if len(report.runs) > 1 and text.says == "states" and not text.is_log:
            starts = [first for first, _ in report.runs]
            whole = next((at for at in reversed(starts) if not is_partial(report.name, messages[at])), 0)
            total += sum(sum(counts[first : first + count]) for first, count in report.runs if first < whole)
    return total


def _tool_spec(tool: Any) -> Mapping[str, Any]:
    spec = tool if isinstance(tool, Mapping) else getattr(tool, "spec", None)
    if not isinstance(spec, Mapping):
        raise TypeError(f"a {type(tool).__name__} among `tools`: give specs as dicts, or tools with a `spec`")
    return spec
