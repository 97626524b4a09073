"""`ContextTemplate`: runs sections in order, applies the budget, and returns a `ComposedContext`."""

from __future__ import annotations

import warnings
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from enum import Enum
from functools import partial
from typing import Any, Literal

import anyio.to_thread

from autonomy_ctx.background import AsyncResource, Chunks, begin_urgent_step, close_resource
from autonomy_ctx.errors import BudgetExceeded
from autonomy_ctx.formats.model_info import context_window_of
from autonomy_ctx.formats.outgoing import model_dict
from autonomy_ctx.hooks import Hook, fire, validate_hooks
from autonomy_ctx.messages.message import ChatRole, Message
from autonomy_ctx.messages.summary import Summary
from autonomy_ctx.messages.tokens import TokenCounter, count_each, token_counter_of
from autonomy_ctx.sections.section import ComposeParams, Contribution
from autonomy_ctx.template.budget import (
    FittedSection,
    Measure,
    SectionContent,
    fit_sections,
    keep_all,
    tokens_to_keep,
)
from autonomy_ctx.template.cache_order import (
    CacheWarning,
    PlannedSection,
    SectionSlice,
    arrange_as_given,
    arrange_for_cache,
    lint_order,
)
from autonomy_ctx.template.composed import (
    BudgetReport,
    ComposedContext,
    SectionReport,
)
from autonomy_ctx.template.epoch import EndReason, SectionText
from autonomy_ctx.template.epoch_context import (
    Sections,
    continue_context,
    head_runs,
    restore_context,
    swap_context,
)
from autonomy_ctx.template.epoch_row import EpochRow, EpochState
from autonomy_ctx.template.epoch_store import StoredEpochs
from autonomy_ctx.template.running import (
    SectionOptions,
    SectionResult,
    is_enabled,
    read_section_options,
    run_sections,
)
from autonomy_ctx.validation import check_int

_DEFAULT_COUNTER = TokenCounter()
# What is cut on the event loop at most: a few milliseconds.
LARGE_MESSAGES, LARGE_TOKENS = 500, 20_000
# What is left of a context that is cut for a budget: the room is for those that go on from it.
BUDGET_SHARE = 0.6


class TemplateHook(Enum):
    """The events of a template. Hooks get scope, conversation and params before, the context after."""

    BEFORE_COMPOSE = "before_compose"
    AFTER_COMPOSE = "after_compose"


class ContextTemplate(AsyncResource):
    """Runs sections in order and returns what the model will see.

    If a required section fails, `SectionError` is raised; an optional one is left out and recorded. With
    `max_tokens`, messages, tools and the reserved output never take more: sections are shortened by priority,
    or `BudgetExceeded` is raised. A fraction refers to `model.context_window`. With `arrange="cache"`,
    sections run in order, but messages are placed for a provider's cache: stable ones first, volatile ones
    right after the newest user message.
    """

    def __init__(
        self,
        sections: Sequence[Any],
        *,
        max_tokens: int | float | None = None,
        reserve_output: int = 0,
        token_counter: TokenCounter | None = None,
        hooks: Iterable[Hook] | None = None,
        model: Any = None,
        arrange: Literal["given", "cache"] = "given",
    ) -> None:
        _check_max_tokens(max_tokens, model)
        if arrange not in ("given", "cache"):
            raise ValueError(f"arrange is {arrange!r}; it must be given or cache")
        check_int("reserve_output", reserve_output, least=0)
        if isinstance(max_tokens, int) and reserve_output >= max_tokens:
            raise ValueError(
                f"reserve_output ({reserve_output}) leaves nothing of max_tokens ({max_tokens}) for messages"
            )
        self.max_tokens, self.reserve_output, self.model = max_tokens, reserve_output, model
        if not isinstance(sections, Iterable) or isinstance(sections, str | Mapping):
            raise TypeError(f"sections must be a list of sections, not {type(sections).__name__}")
        self.sections = list(sections)
        self.arrange = arrange
        self.hooks = validate_hooks(hooks, TemplateHook)
        # None: as memory counts, so that stored counts are used and there is one calibration.
        self.token_counter = token_counter
        # By the id of a section, which its options keep alive: the id cannot come to mean another one.
        self._section_options: dict[int, SectionOptions] = {}
        for section in self.sections:
            self._options_of(section)
        for name, count in Counter(self.get_section_names()).items():
            if count > 1:
                _warn_of_one_name(name)

    @property
    def section_options(self) -> list[SectionOptions]:
        """Each section with its options and what it offers, in order."""
        return [self._options_of(section) for section in self.sections]

    def get_section(self, name: str) -> Any | None:
        """The first section with a name, or None."""
        return next((section for section in self.sections if section.name == name), None)

    def get_section_names(self) -> list[str]:
        """The names of all sections, in order."""
        return [section.name for section in self.sections]

    def add_section(self, section: Any, index: int | None = None) -> None:
        """Add a section at the end, or at an index."""
        name = self._options_of(section).name
        if self.get_section(name) is not None:
            _warn_of_one_name(name)
        self.sections.insert(len(self.sections) if index is None else index, section)

    def remove_section(self, name: str) -> bool:
        """Remove the first section with this name. Returns whether there was one."""
        section = self.get_section(name)
        if section is None:
            return False
        self.sections.remove(section)
        self._section_options.pop(id(section), None)
        return True

    def lint(self, composed: ComposedContext | None = None) -> list[CacheWarning]:
        """Warnings about sections that end an epoch in every turn, with the cost.

        Sizes are those of a context composed before, or typical ones.
        """
        _check_context("composed", composed)
        return lint_order(self.plan(composed))

    def plan(self, composed: ComposedContext | None = None) -> list[PlannedSection]:
        """The enabled sections, as `lint` and the order for a cache see them."""
        return [
            PlannedSection(
                name=options.name,
                kind=options.kind,
                tokens=_composed_tokens(options.name, composed),
                is_latest=options.keep == "latest",
                max_messages=getattr(options.section, "max_messages", None),
            )
            for options in self.section_options
            if is_enabled(options.section)
        ]

    async def build_context(
        self, memory: Any, scope: str, conversation: str, params: Mapping[str, Any] | None = None
    ) -> list[dict[str, Any]]:
        """The context as a list of dicts that belong to the caller."""
        composed = await self.compose(memory, scope, conversation, params)
        return [model_dict(message) async for some in Chunks(composed.messages) for message in some]

    async def compose(
        self,
        memory: Any,
        scope: str,
        conversation: str,
        params: Mapping[str, Any] | None = None,
        *,
        previous: ComposedContext | None = None,
        tools: Sequence[Any] = (),
        max_tokens: int | None = None,
        stored: StoredEpochs | None = None,
    ) -> ComposedContext:
        """The context with a report of each section.

        Given the `previous` context of this conversation, which was sent, it goes on from it where that is
        possible: `end_reason` says why not. Sections share a copy of `params`, which the context returns as
        they left it. `tools`, as specs or objects with a `spec`, count towards the budget. `max_tokens` is
        the budget of this call, instead of the template's. `stored` are the epochs that memory has, which
        agents and engines pass.
        """
        max_tokens = self._resolve_max_tokens(max_tokens)
        _check_context("previous", previous)
        if previous is not None and (previous.scope, previous.conversation) != (scope, conversation):
            raise ValueError(
                f"previous is a context of {previous.conversation!r} of {previous.scope!r}; give one of this "
                f"conversation, {conversation!r} of {scope!r}"
            )
        shared = ComposeParams.copy_of(params)
        if self.hooks:
            await fire(self.hooks, TemplateHook.BEFORE_COMPOSE, scope, conversation, shared)
        urgent = begin_urgent_step()
        try:
            composed = await self._compose(
                memory, scope, conversation, shared, previous, tools, max_tokens, stored
            )
        finally:
            if urgent is not None:
                urgent.end()
        if self.hooks:
            await fire(self.hooks, TemplateHook.AFTER_COMPOSE, composed)
        return composed

    async def _compose(
        self,
        memory: Any,
        scope: str,
        conversation: str,
        shared: ComposeParams,
        previous: ComposedContext | None,
        tools: Sequence[Any],
        max_tokens: int | None,
        stored: StoredEpochs | None,
    ) -> ComposedContext:
        """Run the sections and put together what they give."""
        counter = self.token_counter or token_counter_of(memory) or _DEFAULT_COUNTER
        measure = Measure(counter, counter.calibration.factor)
        budget = None if max_tokens is None else self._budget(max_tokens, counter, tools)
        turn = shared.composition.turn_position
        before: EpochState | EpochRow | None = None if previous is None else previous.state
        if stored is not None:
            before = stored.rows[0] if stored.rows else None
        shared.composition = replace(
            shared.composition,
            max_tokens=None if budget is None else budget.limit,
            is_in_turn=before is not None and turn is not None and turn == before.turn,
            covered=before.covered if isinstance(before, EpochRow) else None,
            beginning=None if before is None else before.beginning,
            quoted=previous.refs if previous is not None else (),
        )
        section_options = self.section_options
        results = await run_sections(section_options, memory, scope, conversation, shared)
        sections = Sections(section_options, results, measure, stored is None or stored.may_instruct)
        said = sections.said()
        found = await _go_on(previous, stored, sections, said, tools, budget, shared, scope, conversation)
        if isinstance(found, ComposedContext):
            return self._note_composed(section_options, results, found, stored)
        if found is EndReason.SWAP and shared.composition.is_in_turn:
            # A summary waits for the next turn, unless the one before no longer fits.
            found = EndReason.HARD_LIMIT
        if shared.composition.quoted or shared.composition.is_in_turn:
            # What the epoch that ended had shown is to be found again.
            shared.composition = replace(shared.composition, quoted=(), is_in_turn=False)
            added = [index for index, options in enumerate(section_options) if options.says == "adds"]
            again = await run_sections(
                [section_options[index] for index in added], memory, scope, conversation, shared
            )
            for index, result in zip(added, again, strict=True):
                results[index] = result
        results[:] = [result.as_beginning() for result in results]
        said = sections.said()
        contents = [
            await _count_content(options, result.contribution, measure)
            for options, result in zip(section_options, results, strict=True)
        ]
        is_sent = stored is not None or previous is not None
        shown = await _fit_contents(contents, section_options, budget, measure, turn, is_sent)
        slices = self._arrange(section_options, shown)
        counts = [count for one in slices for count in shown[one.section].counts[one.first : one.last]]
        head, shortened = head_runs(slices, shown)
        reports = _make_reports(section_options, results, shown, slices)
        began = max((at for one in reports for at in one.positions if at is not None), default=0)
        number = 0 if previous is None else previous.epoch
        if stored is not None and began > 1:
            number = max(number, await stored.read_last_number())
            if number and not stored.rows:
                # There was a row, and only deleting what it refers to drops it.
                found = EndReason.DELETION
        composed = ComposedContext(
            scope=scope,
            conversation=conversation,
            messages=[
                message for one in slices for message in shown[one.section].messages[one.first : one.last]
            ],
            counts=counts,
            sections=reports,
            calibration=measure.factor,
            previous=previous,
            budget=None if budget is None else replace(budget, used=budget.tools + sum(counts)),
            params=shared,
            state=EpochState(
                number=number + 1,
                end_reason=found,
                said=said,
                turn=turn,
                began=began,
                beginning=next(
                    (one.contribution.beginning for one in results if one.contribution.beginning), None
                ),
                tools=tuple(tools),
                head=head,
                shortened=shortened,
            ),
        )
        return self._note_composed(section_options, results, composed, stored)

    def _note_composed(
        self,
        section_options: Sequence[SectionOptions],
        results: Sequence[SectionResult],
        composed: ComposedContext,
        stored: StoredEpochs | None,
    ) -> ComposedContext:
        """Tell sections about a context, and the context where it is to be stored."""
        state = composed.state
        state.long_cache = any(result.contribution.long_cache for result in results)
        if stored is not None:
            state.composer, state.rows, state.cache_key = stored.composer, stored.rows, stored.cache_key
        for options, result in zip(section_options, results, strict=True):
            if options.observer is not None and result.enabled:
                specs = [_tool_spec(tool) for tool in state.tools]
                options.observer.note_composed(result.contribution, composed, specs)
        return composed

    def _arrange(
        self, section_options: Sequence[SectionOptions], shown: Sequence[FittedSection]
    ) -> list[SectionSlice]:
        """Which messages of which section come one after the other."""
        messages = [one.messages for one in shown]
        if self.arrange == "given":
            return arrange_as_given(messages)
        planned = [PlannedSection(name=options.name, kind=options.kind) for options in section_options]
        return arrange_for_cache(planned, messages)

    def _resolve_max_tokens(self, max_tokens: int | None) -> int | None:
        """The tokens of this call, or of the template, as a number."""
        if max_tokens is not None:
            return check_int("max_tokens", max_tokens, optional=True)
        if not isinstance(self.max_tokens, float):
            return self.max_tokens
        window = context_window_of(self.model)
        if window is None:
            raise ValueError(
                f"max_tokens is a fraction ({self.max_tokens}), but the model's context window is not known; "
                f"give a number of tokens, or a model with `context_window`"
            )
        return max(int(self.max_tokens * window), 1)

    def _budget(self, max_tokens: int, counter: TokenCounter, tools: Sequence[Any]) -> BudgetReport:
        specs = [_tool_spec(tool) for tool in tools]
        cost = counter.count_tools(specs) if specs else 0
        return BudgetReport(
            max_tokens=max_tokens,
            reserve_output=self.reserve_output,
            tools=cost,
            limit=max_tokens - self.reserve_output - cost,
            used=0,
        )

    async def settled(self) -> None:
        """Wait until no section has a summary to write. For scripts and tests; a turn never waits."""
        for section in self.sections:
            if (settled := getattr(section, "settled", None)) is not None:
                await settled()

    async def close(self) -> None:
        """Close the sections that have something to close, such as summaries in the background."""
        for options in self.section_options:
            if options.closeable is not None:
                await close_resource(options.closeable)

    def _options_of(self, section: Any) -> SectionOptions:
        known = self._section_options.get(id(section))
        if known is None:
            known = self._section_options[id(section)] = read_section_options(section)
        return known

    def __repr__(self) -> str:
        return f"ContextTemplate([{', '.join(self.get_section_names())}])"


async def _go_on(
    previous: ComposedContext | None,
    stored: StoredEpochs | None,
    sections: Sections,
    said: Sequence[SectionText],
    tools: Sequence[Any],
    budget: BudgetReport | None,
    params: ComposeParams,
    scope: str,
    conversation: str,
) -> ComposedContext | EndReason | None:
    """The context that goes on from what was sent; else why not, or None if nothing was sent."""
    if stored is None:
        if previous is None or not previous.state.said:
            return None
        return continue_context(previous, sections, said, tools, budget, params, None)
    reason: EndReason | None = None
    for row in stored.rows:
        known = None if previous is None else previous.state.row
        base: ComposedContext | EndReason
        if row.ended is not None:
            base = row.ended
        elif previous is not None and known is not None and known.body == row.body:
            base = previous
        else:
            parts = await stored.read_parts(row)
            base = restore_context(row, parts, sections, said, tools, params, scope, conversation)
        found = base
        if isinstance(base, ComposedContext):
            # Between requests with another beginning, others were answered.
            agent = stored.agent if row is stored.rows[0] else None
            if (swapped := sections.swapped()) is not None:
                number = await stored.read_last_number() + 1
                parts = await stored.read_parts(row)
                made = swap_context(base, row, parts, swapped, tools, budget, params, agent, number)
                return EndReason.SWAP if made is None else made
            found = continue_context(base, sections, said, tools, budget, params, agent)
        if isinstance(found, ComposedContext):
            return found
        reason = reason or found
        if found not in (EndReason.INSTRUCTIONS, EndReason.TOOLS):
            break
    if reason is None and previous is not None:
        return EndReason.DELETION
    if reason is None and any(text.is_log and _has_replies(text.messages) for text in said):
        return EndReason.NOT_RECORDED
    return reason


def _has_replies(messages: Sequence[Message]) -> bool:
    """Tell whether a conversation has been answered: a summary stands for replies, too."""
    return any(
        isinstance(one, Summary) or one.role in (ChatRole.ASSISTANT, ChatRole.TOOL) for one in messages
    )


async def _count_content(
    options: SectionOptions, contribution: Contribution, measure: Measure
) -> SectionContent:
    """A section's messages with their tokens; many are counted in pieces, so that others get their turn."""
    counter = measure.counter
    return SectionContent(
        name=options.name,
        messages=contribution.messages,
        counts=[
            measure.scale(count)
            async for some in Chunks(contribution.messages)
            for count in count_each(counter, some)
        ],
        positions=contribution.positions,
        shorter=contribution.shorter,
        floor=contribution.floor,
    )


async def _fit_contents(
    contents: Sequence[SectionContent],
    section_options: Sequence[SectionOptions],
    budget: BudgetReport | None,
    measure: Measure,
    turn_position: int | None,
    is_sent: bool,
) -> list[FittedSection]:
    """The messages that each section shows; a large context is cut in a thread.

    One that is sent leaves room for the next ones, which begin with it.
    """
    messages, tokens = sum(len(one.messages) for one in contents), sum(one.tokens for one in contents)
    has_limit = any(options.max_tokens is not None for options in section_options)
    if not has_limit and (budget is None or tokens <= budget.limit):
        return [keep_all(content).to_fitted() for content in contents]

    def fit() -> list[FittedSection]:
        fitted = partial(
            fit_sections, contents, section_options, measure=measure, turn_position=turn_position
        )
        if is_sent and budget is not None and tokens > budget.limit:
            least = max(int(budget.limit * BUDGET_SHARE), tokens_to_keep(contents))
            with suppress(BudgetExceeded):
                return fitted(replace(budget, limit=min(least, budget.limit)))
        return fitted(budget)

    if messages > LARGE_MESSAGES or tokens > LARGE_TOKENS:
        return await anyio.to_thread.run_sync(fit)
    return fit()


def _make_reports(
    section_options: Sequence[SectionOptions],
    results: Sequence[SectionResult],
    shown: Sequence[FittedSection],
    slices: Sequence[SectionSlice],
) -> list[SectionReport]:
    """The report of each section."""
    starts: dict[int, list[tuple[int, int]]] = {}
    at = 0
    for one in slices:
        starts.setdefault(one.section, []).append((at, one.last - one.first))
        at += one.last - one.first
    return [
        _make_report(options, result, fitted, starts[index])
        for index, (options, result, fitted) in enumerate(zip(section_options, results, shown, strict=True))
    ]


def _make_report(
    options: SectionOptions, result: SectionResult, shown: FittedSection, pieces: Sequence[tuple[int, int]]
) -> SectionReport:
    """The report of a section; `pieces` are where its messages begin and how many they are."""
    counts, positions, found = shown.counts, shown.positions, result.contribution
    (start, _), *rest = pieces
    return SectionReport(
        name=options.name,
        kind=options.kind,
        status="failed" if result.problem else "included" if result.enabled else "skipped",
        reason=result.problem if result.enabled else "disabled",
        start=start,
        messages=len(counts),
        tokens=sum(counts),
        milliseconds=result.milliseconds,
        positions=tuple(positions) if positions is not None else (None,) * len(counts),
        omitted=found.omitted + shown.omitted,
        cut=shown.cut,
        runs=tuple(pieces) if rest else (),
        note=found.note,
        refs=tuple(found.refs),
    )


def _warn_of_one_name(name: str) -> None:
    """A warning where the template was made, or where the section was added."""
    warnings.warn(
        f"two sections have the name {name!r}: `get_section` and `remove_section` find only the first; "
        f"give one of them another name",
        stacklevel=3,
    )


def _check_context(name: str, given: Any) -> None:
    if given is not None and not isinstance(given, ComposedContext):
        raise TypeError(
            f"{name} is {type(given).__name__}; it must be a context that `compose` gave, or None"
        )


def _composed_tokens(name: str, composed: ComposedContext | None) -> int | None:
    report = None if composed is None else composed.section(name)
    return None if report is None else report.tokens


def _tool_spec(tool: Any) -> Mapping[str, Any]:
    spec = tool if isinstance(tool, Mapping) else getattr(tool, "spec", None)
    if not isinstance(spec, Mapping):
        raise TypeError(f"a {type(tool).__name__} among `tools`: give specs as dicts, or tools with a `spec`")
    return spec


def _check_max_tokens(value: Any, model: Any) -> None:
    if isinstance(value, float):
        if not 0 < value <= 1:
            raise ValueError(
                f"max_tokens is {value}; as a fraction of the context window it is above 0, up to 1"
            )
        if model is None:
            raise ValueError(
                f"max_tokens is a fraction ({value}) of a context window; "
                f"say of which `model`, or give a number of tokens"
            )
    else:
        check_int("max_tokens", value, optional=True)
