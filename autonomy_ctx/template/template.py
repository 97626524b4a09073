"""A template: sections in order in, a composed context out."""

from __future__ import annotations

import inspect
import logging
import time
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from enum import Enum
from types import TracebackType
from typing import Any

import anyio

from autonomy_ctx.errors import InvalidKey, SectionError, StoreError
from autonomy_ctx.hooks import Hook, checked_hooks, fire
from autonomy_ctx.items import wire
from autonomy_ctx.items.message import Message
from autonomy_ctx.items.tokens import TokenCounter
from autonomy_ctx.memory.strides import Strides
from autonomy_ctx.sections.section import Contribution, Omission
from autonomy_ctx.template.composed import ComposedContext, SectionReport
from autonomy_ctx.template.placement import Placement, place

logger = logging.getLogger("autonomy_ctx.template")


@dataclass(frozen=True, slots=True)
class _Outcome:
    """What came of running one section."""

    contribution: Contribution
    milliseconds: float
    failed: str | None = None


_EMPTY = Contribution(())
_DEFAULT_COUNTER = TokenCounter()
_DISABLED = _Outcome(_EMPTY, 0.0)


class TemplateHook(Enum):
    """What a template tells its hooks: scope, conversation and params before, the composed context after."""

    BEFORE_COMPOSE = "before_compose"
    AFTER_COMPOSE = "after_compose"


class ContextTemplate:
    """Runs sections in order and returns what the model will see.

    A required section that fails raises `SectionError`; an optional one is left out and recorded.
    """

    def __init__(
        self,
        sections: Sequence[Any],
        *,
        token_counter: TokenCounter | None = None,
        hooks: Iterable[Hook] | None = None,
    ) -> None:
        self.sections = list(sections)
        self.hooks = checked_hooks(hooks)
        # None: as memory counts, so that stored counts are used and there is one calibration.
        self.token_counter = token_counter
        self._placements: dict[int, tuple[Any, Placement]] = {}
        for section in self.sections:
            self._placement(section)

    def get_section(self, name: str) -> Any | None:
        """The first section with a name, or None."""
        return next((section for section in self.sections if section.name == name), None)

    def get_section_names(self) -> list[str]:
        """The names of all sections, in order."""
        return [section.name for section in self.sections]

    def add_section(self, section: Any, index: int | None = None) -> None:
        """Add a section at the end, or at an index."""
        self._placement(section)
        self.sections.insert(len(self.sections) if index is None else index, section)

    def remove_section(self, name: str) -> bool:
        """Remove the first section with a name; whether there was one."""
        section = self.get_section(name)
        if section is None:
            return False
        self.sections.remove(section)
        self._placements.pop(id(section), None)
        return True

    async def build_context(
        self, memory: Any, scope: str, conversation: str, params: Mapping[str, Any] | None = None
    ) -> list[dict[str, Any]]:
        """The context as a list of dicts that belong to the caller."""
        composed = await self.compose(memory, scope, conversation, params)
        return [wire.to_dict(message) async for some in Strides(composed.messages) for message in some]

    async def compose(
        self,
        memory: Any,
        scope: str,
        conversation: str,
        params: Mapping[str, Any] | None = None,
        *,
        previous: ComposedContext | None = None,
    ) -> ComposedContext:
        """The context with a report of each section, compared with a previous one if given."""
        shared = dict(params) if params else {}
        if self.hooks:
            await fire(self.hooks, TemplateHook.BEFORE_COMPOSE, scope, conversation, shared)
        sections = [(section, self._placement(section)) for section in self.sections]
        outcomes = await self._run_all(sections, (memory, scope, conversation, shared))
        counter = self.token_counter or getattr(memory, "token_counter", None) or _DEFAULT_COUNTER
        messages: list[Message] = []
        counts: list[int] = []
        reports: list[SectionReport] = []
        for (section, placement), outcome in zip(sections, outcomes, strict=True):
            start, found = len(messages), outcome.contribution
            messages += found.messages
            counts += await _counted(counter, found.messages)
            reports.append(_report(section.name, placement, outcome, start, sum(counts[start:])))
        composed = ComposedContext(
            scope=scope,
            conversation=conversation,
            messages=messages,
            counts=counts,
            sections=reports,
            calibration=counter.calibration.factor,
            previous=previous,
        )
        if self.hooks:
            await fire(self.hooks, TemplateHook.AFTER_COMPOSE, composed)
        return composed

    async def _run_all(
        self, sections: Sequence[tuple[Any, Placement]], given: tuple[Any, ...]
    ) -> list[_Outcome]:
        """One outcome per section, in order. Independent sections run beside the others."""
        outcomes: list[_Outcome] = [_DISABLED] * len(sections)
        enabled = [index for index, (section, _) in enumerate(sections) if getattr(section, "enabled", True)]
        beside = [index for index in enabled if sections[index][1].independent]
        if not beside:
            for index in enabled:
                outcomes[index] = await _run(*sections[index], given)
            return outcomes

        failures: list[SectionError] = []

        async def run(index: int) -> None:
            try:
                outcomes[index] = await _run(*sections[index], given)
            except SectionError as error:
                # Raised after the group has ended: users meet one error, not a group of one.
                failures.append(error)
                group.cancel_scope.cancel()

        async with anyio.create_task_group() as group:
            for index in beside:
                group.start_soon(run, index)
            for index in enabled:
                if index not in beside and not failures:
                    await run(index)
        if failures:
            raise failures[0]
        return outcomes

    async def close(self) -> None:
        """Close the sections that have something to close, such as summaries in the background."""
        for section in self.sections:
            close = getattr(section, "close", None)
            if callable(close):
                closing = close()
                if inspect.isawaitable(closing):
                    await closing

    async def __aenter__(self) -> ContextTemplate:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.close()

    def _placement(self, section: Any) -> Placement:
        known = self._placements.get(id(section))
        if known is None:
            # The section is kept with its placement, so that its id cannot come to mean another one.
            known = self._placements[id(section)] = (section, place(section))
        return known[1]

    def __repr__(self) -> str:
        return f"ContextTemplate([{', '.join(self.get_section_names())}])"


async def _run(section: Any, placement: Placement, given: tuple[Any, ...]) -> _Outcome:
    """Run one section; only a required one may raise."""
    started = time.perf_counter()
    problem: str | None
    contribution = _EMPTY
    try:
        if placement.timeout is None:
            contribution = await _contribution(placement, given)
            problem = contribution.problem
        else:
            with anyio.move_on_after(placement.timeout) as scope:
                contribution = await _contribution(placement, given)
            problem = (
                f"took longer than {placement.timeout:g} s"
                if scope.cancelled_caught
                else contribution.problem
            )
    except Exception as error:
        if placement.required:
            if isinstance(error, StoreError | InvalidKey):
                # Not the section's fault, and its own sentence says what to do.
                raise
            raise SectionError(section=section.name, problem=f"failed: {_sentence(error)}") from error
        logger.warning("section `%s` failed and was left out", section.name, exc_info=True)
        problem = _sentence(error)
    else:
        if problem is not None:
            if placement.required:
                raise SectionError(section=section.name, problem=problem)
            logger.warning("section `%s` is incomplete: it %s", section.name, problem)
    return _Outcome(contribution, (time.perf_counter() - started) * 1000, problem)


async def _contribution(placement: Placement, given: tuple[Any, ...]) -> Contribution:
    found = placement.call(*given)
    if inspect.isawaitable(found):
        found = await found
    if isinstance(found, Contribution):
        return found
    if found is None:
        return Contribution((), problem="returned None; a section without messages returns []")
    if not isinstance(found, list | tuple):
        return Contribution((), problem=f"returned {type(found).__name__}, not a list of messages")
    return Contribution([wire.from_dict(message) async for some in Strides(found) for message in some])


async def _counted(counter: TokenCounter, messages: Sequence[Message]) -> list[int]:
    count, scaled = counter.uncalibrated, counter.calibration.scaled
    return [scaled(count(message)) async for some in Strides(messages) for message in some]


def _report(name: str, placement: Placement, outcome: _Outcome, start: int, tokens: int) -> SectionReport:
    found = outcome.contribution
    disabled = outcome is _DISABLED
    omitted: tuple[Omission, ...] = found.omitted
    return SectionReport(
        name=name,
        kind=placement.kind,
        status="skipped" if disabled else "failed" if outcome.failed else "included",
        reason="disabled" if disabled else outcome.failed,
        start=start,
        messages=len(found.messages),
        tokens=tokens,
        milliseconds=outcome.milliseconds,
        positions=tuple(found.positions) if found.positions is not None else (None,) * len(found.messages),
        omitted=omitted,
    )


def _sentence(error: Exception) -> str:
    return f"{type(error).__name__}: {error}" if str(error) else type(error).__name__
