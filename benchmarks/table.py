"""Measuring side by side, and printing what came of it."""

from __future__ import annotations

import gc
import time
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from statistics import median


@dataclass(frozen=True, slots=True, kw_only=True)
class Figure:
    """One measured figure beside what it is compared with."""

    name: str
    ours: str
    floor: str
    value: float
    bound: float
    # Whether the value must stay below the bound, or above it.
    at_most: bool = True

    @property
    def met(self) -> bool:
        return self.value <= self.bound if self.at_most else self.value >= self.bound


@dataclass(frozen=True, slots=True)
class Side:
    """One of the things that are measured in turn."""

    name: str
    call: Callable[[], Awaitable[object]]
    before: Callable[[], Awaitable[object]] | None = None


async def side_by_side(*sides: Side, rounds: int = 300, warm: int = 30) -> dict[str, float]:
    """The median seconds of each, called in turn so that a busy machine slows all alike."""
    samples: dict[str, list[float]] = {side.name: [] for side in sides}
    gc.collect()
    gc.disable()
    try:
        for number in range(warm + rounds):
            for side in sides:
                if side.before is not None:
                    await side.before()
                started = time.perf_counter()
                await side.call()
                took = time.perf_counter() - started
                if number >= warm:
                    samples[side.name].append(took)
    finally:
        gc.enable()
    return {name: median(taken) for name, taken in samples.items()}


def microseconds(seconds: float) -> str:
    return f"{seconds * 1e6:,.0f} us"


def show(title: str, figures: list[Figure]) -> bool:
    """Print a table; whether every figure was met."""
    print(f"\n{title}")
    for figure in figures:
        sign = "<=" if figure.at_most else ">="
        verdict = "ok  " if figure.met else "MISS"
        print(
            f"  {verdict} {figure.name:<58} {figure.value:>8.2f}  ({sign} {figure.bound:g})"
            f"   ours {figure.ours}, floor {figure.floor}"
        )
    return all(figure.met for figure in figures)
