"""Running sections: their options, the order in which they are called, timeouts and failures.

Only a required section can fail a turn.
"""

from __future__ import annotations

import inspect
import logging
import time
from collections.abc import Awaitable, Callable, Sequence
from contextlib import nullcontext
from typing import Any, NamedTuple, get_args

import anyio

from autonomy_ctx.background import Chunks, Closeable
from autonomy_ctx.callables import describe_error
from autonomy_ctx.errors import InvalidKey, SectionError, StoreError
from autonomy_ctx.messages import wire
from autonomy_ctx.sections.section import (
    ComposeObserver,
    ComposeParams,
    Contribution,
    Contributor,
    DeliverySection,
    Keep,
    MetricsSource,
    Says,
    Section,
    SectionKind,
    SummarizingSection,
)
from autonomy_ctx.validation import check_int, check_number, check_seconds

HISTORY_SECTION = "conversation_history"
# A turn without these would be answered by the wrong agent, or about nothing.
REQUIRED_SECTIONS = frozenset({"system_instructions", HISTORY_SECTION})
# What a section is worth when it does not say: a required one shrinks after all others.
DEFAULT_PRIORITY, REQUIRED_PRIORITY = 0, 10


class SectionOptions(NamedTuple):
    """A section, its options, the method that gets its messages, and what else it offers."""

    section: Section
    required: bool
    kind: SectionKind
    says: Says
    keep: Keep
    may_be_removed: bool
    timeout: float | None
    independent: bool
    get_contribution: Callable[..., Awaitable[Any] | Any]
    max_tokens: int | None = None
    min_tokens: int = 0
    priority: float = DEFAULT_PRIORITY
    # The section itself where it offers this, else None.
    observer: ComposeObserver | None = None
    delivery: DeliverySection | None = None
    summarizing: SummarizingSection | None = None
    metrics: MetricsSource | None = None
    closeable: Closeable | None = None

    @property
    def name(self) -> str:
        """The section's name."""
        return self.section.name


def read_section_options(section: Any) -> SectionOptions:
    """Read a section's options, or raise an error that says why it is not a section."""
    name = getattr(section, "name", None)
    if not isinstance(name, str) or not name:
        raise TypeError(f"{type(section).__name__} is not a section: it needs a `name`")
    if not callable(getattr(section, "get_messages", None)):
        raise TypeError(f"section `{name}` is not a section: it needs a `get_messages` method")
    required = getattr(section, "required", None)
    kind: Any = getattr(section, "kind", "volatile")
    where = f"section `{name}`"
    if kind not in get_args(SectionKind):
        raise ValueError(f"{where}: kind is {kind!r}; it must be one of {', '.join(get_args(SectionKind))}")
    says: Any = getattr(section, "says", "states")
    if says not in get_args(Says):
        raise ValueError(f"{where}: says is {says!r}; it must be states or adds")
    keep: Any = getattr(section, "keep", "all")
    if keep not in get_args(Keep):
        raise ValueError(f"{where}: keep is {keep!r}; it must be all or latest")
    timeout = getattr(section, "timeout", None)
    check_seconds("timeout", timeout, endless=True, optional=True, where=where)
    required = name in REQUIRED_SECTIONS if required is None else bool(required)
    most = check_int("max_tokens", getattr(section, "max_tokens", None), optional=True, where=where)
    given = getattr(section, "min_tokens", None)
    least = 0 if given is None else check_int("min_tokens", given, least=0, where=where)
    if most is not None and least > most:
        raise ValueError(f"{where}: min_tokens ({least}) is more than max_tokens ({most})")
    method, priority = _contribution_method(section), getattr(section, "priority", None)
    if priority is None:
        priority = REQUIRED_PRIORITY if required else DEFAULT_PRIORITY
    return SectionOptions(
        section=section,
        required=required,
        kind=kind,
        says=says,
        keep=keep,
        may_be_removed=bool(getattr(section, "may_be_removed", False)),
        timeout=None if _handles_timeout(section, method) else timeout,
        independent=bool(getattr(section, "independent", False)),
        get_contribution=getattr(section, method),
        max_tokens=most,
        min_tokens=least,
        priority=float(check_number("priority", priority, where=where)),
        observer=section if isinstance(section, ComposeObserver) else None,
        delivery=section if isinstance(section, DeliverySection) else None,
        summarizing=section if isinstance(section, SummarizingSection) else None,
        metrics=section if isinstance(section, MetricsSource) else None,
        closeable=section if isinstance(section, Closeable) else None,
    )


def is_enabled(section: Any) -> bool:
    """Tell whether a section is enabled; a section without `enabled` always is."""
    return bool(getattr(section, "enabled", True))


def _contribution_method(section: Any) -> str:
    """The name of the method to call: `contribute`, unless the section has a `get_messages` of its own."""
    if not isinstance(section, Contributor) or "get_messages" in getattr(section, "__dict__", {}):
        return "get_messages"
    for kind in type(section).__mro__:
        if "contribute" in vars(kind):
            return "contribute"
        if "get_messages" in vars(kind):
            return "get_messages"
    return "get_messages"


def _handles_timeout(section: Any, method: str) -> bool:
    """Tell whether the class of the method, or one that inherits it, says that it ends in time by itself."""
    for kind in type(section).__mro__:
        if "handles_timeout" in vars(kind):
            return bool(section.handles_timeout)
        if method in vars(kind):
            return False
    return False


logger = logging.getLogger("autonomy_ctx.template")


_NO_MESSAGES = Contribution(())


class SectionResult(NamedTuple):
    """A section's messages, the time it took, and what went wrong."""

    contribution: Contribution = _NO_MESSAGES
    milliseconds: float = 0.0
    problem: str | None = None
    enabled: bool = True

    def as_beginning(self) -> SectionResult:
        """The result as an epoch begins with it, with nothing that is only appended."""
        anew = self.contribution.anew
        return self if anew is None else self._replace(contribution=anew)

    def as_swapped(self) -> SectionResult:
        """The result with a new summary that a provider wrote, if there is one."""
        swapped = self.contribution.swapped
        return self if swapped is None else self._replace(contribution=swapped)


async def run_sections(
    section_options: Sequence[SectionOptions],
    memory: Any,
    scope: str,
    conversation: str,
    params: ComposeParams,
) -> list[SectionResult]:
    """The result of each section. Independent sections run in parallel with the others."""
    # Before the first one runs: a switch counts from the next context on.
    results = [SectionResult(enabled=is_enabled(options.section)) for options in section_options]
    # Sections that add something have done so at the first step of the turn.
    skips, running, beside = params.composition.is_in_turn, list[int](), False
    for index, options in enumerate(section_options):
        if results[index].enabled and not (skips and options.says == "adds"):
            running.append(index)
            beside = beside or options.independent

    async def run(index: int) -> None:
        results[index] = await _run_section(section_options[index], memory, scope, conversation, params)

    if beside:
        await _run_beside(section_options, running, run)
    else:
        for index in running:
            await run(index)
    return results


async def _run_beside(
    section_options: Sequence[SectionOptions], running: Sequence[int], run: Callable[[int], Awaitable[None]]
) -> None:
    """Run independent sections in tasks of their own, and the others one after the other."""
    failures: list[Exception] = []

    async def run_guarded(index: int) -> None:
        try:
            await run(index)
        except Exception as error:
            # Raised after the group has ended: users meet one error, not a group of one.
            failures.append(error)
            group.cancel_scope.cancel()

    async with anyio.create_task_group() as group:
        for index in running:
            if section_options[index].independent:
                group.start_soon(run_guarded, index)
        for index in running:
            if not section_options[index].independent and not failures:
                await run_guarded(index)
    if failures:
        raise failures[0]


async def _run_section(
    options: SectionOptions, memory: Any, scope: str, conversation: str, params: ComposeParams
) -> SectionResult:
    """Run one section; only a required one may raise."""
    started = time.perf_counter()
    contribution = _NO_MESSAGES
    problem: str | None = None
    try:
        with anyio.move_on_after(options.timeout) if options.timeout is not None else nullcontext() as limit:
            found = options.get_contribution(memory, scope, conversation, params)
            if inspect.isawaitable(found):
                found = await found
            contribution = found if isinstance(found, Contribution) else await _read_messages(found)
        problem = contribution.problem
        if limit is not None and limit.cancelled_caught:
            problem = f"took longer than {options.timeout:g} s"
        if contribution.positions is not None:
            params.composition.shown.append(contribution.positions)
    except Exception as error:
        if options.required:
            if isinstance(error, StoreError | InvalidKey):
                # Not the section's fault, and its own sentence says what to do.
                raise
            failed = f"failed: {describe_error(error)}"
            raise SectionError(section=options.name, problem=failed) from error
        logger.warning("section `%s` failed and was left out", options.name, exc_info=True)
        contribution, problem = _NO_MESSAGES, describe_error(error)
    else:
        if problem is not None:
            if options.required:
                raise SectionError(section=options.name, problem=problem)
            logger.warning("section `%s` is incomplete: %s", options.name, problem)
    return SectionResult(contribution, (time.perf_counter() - started) * 1000, problem)


async def _read_messages(found: Any) -> Contribution:
    """The result of a section that does not give the origins of its messages."""
    if found is None:
        return Contribution((), problem="returned None; a section without messages returns []")
    if not isinstance(found, list | tuple):
        return Contribution((), problem=f"returned {type(found).__name__}, not a list of messages")
    return Contribution([message async for some in Chunks(found) for message in wire.from_dicts(some)])
