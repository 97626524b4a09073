"""Running sections: in order, some of them side by side, and only a required one may fail a turn."""

from __future__ import annotations

import inspect
import logging
import time
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import anyio

from autonomy_ctx.background import Strides
from autonomy_ctx.errors import InvalidKey, SectionError, StoreError
from autonomy_ctx.items import wire
from autonomy_ctx.sections.section import Contribution
from autonomy_ctx.template.placement import Placement

logger = logging.getLogger("autonomy_ctx.template")


@dataclass(frozen=True, slots=True)
class Outcome:
    """What came of running one section."""

    contribution: Contribution
    milliseconds: float
    failed: str | None = None


_EMPTY = Contribution(())
DISABLED = Outcome(_EMPTY, 0.0)


async def run_all(sections: Sequence[tuple[Any, Placement]], given: tuple[Any, ...]) -> list[Outcome]:
    """One outcome per section, in order. Independent sections run beside the others."""
    outcomes: list[Outcome] = [DISABLED] * len(sections)
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


async def _run(section: Any, placement: Placement, given: tuple[Any, ...]) -> Outcome:
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
    return Outcome(contribution, (time.perf_counter() - started) * 1000, problem)


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


def _sentence(error: Exception) -> str:
    return f"{type(error).__name__}: {error}" if str(error) else type(error).__name__
