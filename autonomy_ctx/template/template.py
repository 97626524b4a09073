"""`ContextTemplate`: runs sections in order, applies the budget, and returns a `ComposedContext`."""

from __future__ import annotations

import warnings
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from enum import Enum
from functools import partial
from itertools import chain
from operator import is_
from typing import Any, Literal, NamedTuple

import anyio.lowlevel
import anyio.to_thread

from autonomy_ctx.background import CHUNK_SIZE, AsyncResource, Chunks, begin_urgent_step, close_resource
from autonomy_ctx.formats.model_info import context_window_of
from autonomy_ctx.formats.outgoing import model_dict
from autonomy_ctx.hooks import Hook, fire, validate_hooks
from autonomy_ctx.memory.compose_cache import ComposeCache, ComposeStates, measure_texts
from autonomy_ctx.memory.memory import Memory
from autonomy_ctx.memory.store import Key
from autonomy_ctx.messages.message import Message
from autonomy_ctx.messages.tokens import TokenCounter, count_each, token_counter_of
from autonomy_ctx.sections.section import ComposeParams, Contribution, known_counts, note_counts
from autonomy_ctx.template.budget import FittedSection, Measure, SectionContent, fit_sections
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
    ContextLayout,
    SectionReport,
    context_of_layout,
)
from autonomy_ctx.template.running import (
    DISABLED,
    SectionOptions,
    SectionPlan,
    SectionResults,
    is_enabled,
    plan_sections,
    read_section_options,
    run_sections,
)
from autonomy_ctx.validation import check_int


class _KnownLayout(NamedTuple):
    """The layout of a context, and all that it follows from."""

    plan: SectionPlan
    results: SectionResults
    # The names of the sections, how messages are counted, the limits: compared by value.
    conditions: tuple[Any, ...]
    layout: ContextLayout

    def is_still_right(self, plan: SectionPlan, results: SectionResults, conditions: tuple[Any, ...]) -> bool:
        """Whether the same sections gave the same, under the same conditions."""
        if plan is not self.plan or conditions != self.conditions:
            return False
        known = self.results
        return results.problems == known.problems and all(
            map(is_, results.contributions, known.contributions)
        )


def whole_sections(
    contributions: Sequence[Contribution], counts: Sequence[Sequence[int]]
) -> list[FittedSection]:
    """What sections show without a budget, or within it: all."""
    shown = []
    for found, own in zip(contributions, counts, strict=True):
        positions = None if found.positions is None else tuple(found.positions)
        shown.append(FittedSection(tuple(found.messages), own, positions, (), ()))
    return shown


def section_starts(pieces: Sequence[SectionSlice]) -> dict[int, list[tuple[int, int]]]:
    """For each section, where its pieces begin in the context and how many messages they have."""
    found: dict[int, list[tuple[int, int]]] = {}
    at = 0
    for piece in pieces:
        length = piece.last - piece.first
        found.setdefault(piece.section, []).append((at, length))
        at += length
    return found


def make_reports(
    names: Sequence[str],
    section_options: Sequence[SectionOptions],
    results: SectionResults,
    shown: Sequence[FittedSection],
    pieces: Sequence[SectionSlice],
) -> list[SectionReport]:
    """What each section did, without times."""
    starts = section_starts(pieces)
    return [
        _make_report(name, options, found, results.problems.get(index), own, starts[index])
        for index, (name, options, found, own) in enumerate(
            zip(names, section_options, results.contributions, shown, strict=True)
        )
    ]


def layout_as_given(
    messages: tuple[Message, ...],
    names: Sequence[str],
    plan: SectionPlan,
    results: SectionResults,
    count: Callable[[], Sequence[Sequence[int]]],
) -> ContextLayout:
    """The layout where every section shows all it has, where it stands; `count` gives the tokens of each."""

    def make() -> list[SectionReport]:
        shown = whole_sections(results.contributions, count())
        pieces = arrange_as_given([one.messages for one in shown])
        return make_reports(names, plan.options, results, shown, pieces)

    return ContextLayout(messages, lambda: tuple(chain.from_iterable(count())), make)


def _make_report(
    name: str,
    options: SectionOptions,
    found: Contribution,
    problem: str | None,
    shown: FittedSection,
    pieces: Sequence[tuple[int, int]],
) -> SectionReport:
    """The report of a section; `pieces` are where its messages begin and how many they are."""
    counts, positions = shown.counts, shown.positions
    disabled = found is DISABLED
    (start, before), *rest = pieces
    return SectionReport(
        name=name,
        kind=options.kind,
        status="skipped" if disabled else "failed" if problem else "included",
        reason="disabled" if disabled else problem,
        start=start,
        messages=len(counts),
        tokens=sum(counts),
        milliseconds=0.0,
        positions=tuple(positions) if positions is not None else (None,) * len(counts),
        omitted=found.omitted + shown.omitted,
        cut=shown.cut,
        split=(before, rest[0][0]) if rest else None,
        note=found.note,
        refs=tuple(found.refs),
    )


_DEFAULT_COUNTER = TokenCounter()
# What is cut on the event loop at most: a few milliseconds.
LARGE_MESSAGES, LARGE_TOKENS = 500, 20_000


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
    right before the newest user message.
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
        self._layouts = ComposeStates[_KnownLayout]()
        # By the id of a section, which its options keep alive: the id cannot come to mean another one.
        self._section_options: dict[int, SectionOptions] = {}
        # Of all sections, as long as these are the same.
        self._plan = plan_sections(())
        for section in self.sections:
            self._options_of(section)
        for name, count in Counter(self.get_section_names()).items():
            if count > 1:
                _warn_of_one_name(name)

    @property
    def section_options(self) -> list[SectionOptions]:
        """Each section with its options and what it offers, in order."""
        return list(self._current_plan().options)

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
        self._plan = plan_sections(())
        return True

    def lint(self, composed: ComposedContext | None = None) -> list[CacheWarning]:
        """Warnings about an order of sections that makes a provider's cache useless, with the cost.

        Sizes are those of a context composed before, or typical ones.
        """
        _check_context("composed", composed)
        if self.arrange == "cache":
            return []
        return lint_order(
            [
                PlannedSection(
                    name=options.name,
                    kind=options.kind,
                    tokens=_composed_tokens(options.name, composed),
                )
                for options in self.section_options
                if is_enabled(options.section)
            ]
        )

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
    ) -> ComposedContext:
        """The context with a report of each section, compared with a previous one if given.

        Sections share a copy of `params`, which the context returns as they left it. `tools`, as specs or
        objects with a `spec`, count towards the budget. `max_tokens` is the budget of this call, instead of
        the template's.
        """
        max_tokens = self._resolve_max_tokens(max_tokens)
        _check_context("previous", previous)
        shared = ComposeParams.copy_of(params)
        if self.hooks:
            await fire(self.hooks, TemplateHook.BEFORE_COMPOSE, scope, conversation, shared)
        urgent = begin_urgent_step()
        try:
            composed = await self._compose(memory, scope, conversation, shared, previous, tools, max_tokens)
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
    ) -> ComposedContext:
        """Run the sections and put together what they give."""
        counter = self.token_counter or token_counter_of(memory) or _DEFAULT_COUNTER
        factor = counter.calibration.factor
        budget = None if max_tokens is None else self._budget(max_tokens, counter, tools)
        if budget is not None:
            shared.composition = replace(shared.composition, max_tokens=budget.limit)
        plan = self._current_plan()
        cache = memory.compose_cache if isinstance(memory, Memory) else None
        epoch = 0 if cache is None else cache.epoch
        results = await run_sections(plan, memory, scope, conversation, shared)
        names, turn = [section.name for section in plan.sections], shared.composition.turn_position
        conditions = (names, counter.name, factor, budget, turn, self.arrange)
        key = ("", scope, conversation) if cache is None else (memory.agent, scope, conversation)
        known = None if cache is None else self._layouts.get(cache, key)
        if known is not None and known.is_still_right(plan, results, conditions):
            layout = known.layout
            if len(layout.messages) > CHUNK_SIZE:
                # As while they are counted: others get their turn beside a long context.
                await anyio.lowlevel.checkpoint()
        else:
            layout = await self._make_layout(names, plan, results, budget, Measure(counter, factor), turn)
            if cache is not None and self._layouts.admits(cache, key) and results.are_final:
                state = _KnownLayout(plan, results, conditions, layout)
                self._keep_layout(cache, Key(*key), epoch, state)
        composed = context_of_layout(
            layout,
            results.milliseconds,
            scope=scope,
            conversation=conversation,
            calibration=factor,
            previous=previous,
            budget=None if budget is None else replace(budget, used=budget.tools + layout.tokens),
            params=shared,
        )
        for index, observer in plan.observers:
            contribution = results.contributions[index]
            if contribution is not DISABLED:
                observer.note_composed(contribution, composed, [_tool_spec(tool) for tool in tools])
        return composed

    def _keep_layout(self, cache: ComposeCache, key: Key, epoch: int, known: _KnownLayout) -> None:
        # The messages of the log are with those who read them.
        texts = [
            message
            for contribution in known.results.contributions
            if contribution.positions is None
            for message in contribution.messages
        ]
        count = len(known.layout.messages)
        self._layouts.put(cache, key, known, epoch=epoch, references=count, text_bytes=measure_texts(texts))

    async def _make_layout(
        self,
        names: Sequence[str],
        plan: SectionPlan,
        results: SectionResults,
        budget: BudgetReport | None,
        measure: Measure,
        turn_position: int | None,
    ) -> ContextLayout:
        section_options, contributions = plan.options, results.contributions
        if len(contributions) == 1:
            messages = tuple(contributions[0].messages)
        else:
            messages = tuple(chain.from_iterable([one.messages for one in contributions]))
        as_given = self.arrange == "given" and results.are_final
        if as_given and budget is None and not plan.has_limits and len(messages) <= CHUNK_SIZE:
            # Nothing is cut and nothing moved, as in most contexts. What the messages cost can wait until
            # somebody asks; many are counted below, where others get their turn in between.
            return layout_as_given(
                messages, names, plan, results, partial(_count_few, measure, contributions)
            )
        counts = [await _count_messages(measure, contribution) for contribution in contributions]
        if plan.has_limits or (budget is not None and sum(map(sum, counts)) > budget.limit):
            shown = await _fit_contributions(
                section_options, contributions, counts, budget, measure, turn_position=turn_position
            )
        elif as_given:
            return layout_as_given(messages, names, plan, results, lambda: counts)
        else:
            shown = whole_sections(contributions, counts)
        pieces = self._arrange(section_options, shown)
        placed: list[Message] = []
        shown_counts: list[int] = []
        for piece in pieces:
            placed += shown[piece.section].messages[piece.first : piece.last]
            shown_counts += shown[piece.section].counts[piece.first : piece.last]
        return ContextLayout(
            tuple(placed),
            lambda: tuple(shown_counts),
            partial(make_reports, names, section_options, results, shown, pieces),
        )

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

    def _current_plan(self) -> SectionPlan:
        """All sections with their options: the same object while the sections are the same."""
        plan, sections = self._plan, self.sections
        if len(plan.sections) != len(sections) or not all(map(is_, plan.sections, sections)):
            plan = self._plan = plan_sections([self._options_of(section) for section in sections])
        return plan

    def _options_of(self, section: Any) -> SectionOptions:
        known = self._section_options.get(id(section))
        if known is None:
            known = self._section_options[id(section)] = read_section_options(section)
        return known

    def __repr__(self) -> str:
        return f"ContextTemplate([{', '.join(self.get_section_names())}])"


async def _count_messages(measure: Measure, contribution: Contribution) -> tuple[int, ...]:
    """The tokens of each message; those that were counted before are not counted again."""
    counter, messages = measure.counter, contribution.messages
    known = known_counts(contribution, counter.name)
    if len(messages) - len(known) > CHUNK_SIZE:
        new = Chunks(messages[len(known) :])
        known = (*known, *[count async for some in new for count in count_each(counter, some)])
        note_counts(contribution, counter.name, known)
        return measure.scale_each(known)
    [counts] = _count_few(measure, [contribution])
    return counts


def _count_few(measure: Measure, contributions: Sequence[Contribution]) -> list[tuple[int, ...]]:
    """The same at once, for sections with few messages that are not counted yet."""
    found, counter = [], measure.counter
    for contribution in contributions:
        messages, known = contribution.messages, known_counts(contribution, counter.name)
        if len(known) < len(messages):
            known = (*known, *count_each(counter, messages[len(known) :]))
            note_counts(contribution, counter.name, known)
        found.append(measure.scale_each(known))
    return found


async def _fit_contributions(
    section_options: Sequence[SectionOptions],
    contributions: Sequence[Contribution],
    counts: Sequence[Sequence[int]],
    budget: BudgetReport | None,
    measure: Measure,
    *,
    turn_position: int | None,
) -> list[FittedSection]:
    """What each section shows; large contexts are cut in a thread, so that others get their turn."""
    contents = [
        SectionContent(
            name=options.name,
            messages=contribution.messages,
            counts=own,
            positions=contribution.positions,
            shorter=contribution.shorter,
            floor=contribution.floor,
        )
        for options, contribution, own in zip(section_options, contributions, counts, strict=True)
    ]
    work = partial(fit_sections, contents, section_options, budget, measure, turn_position=turn_position)
    if sum(map(len, counts)) <= LARGE_MESSAGES and sum(map(sum, counts)) <= LARGE_TOKENS:
        return work()
    return await anyio.to_thread.run_sync(work)


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
