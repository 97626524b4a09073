"""`SettingGrid`: the settings that a conversation is replayed with, and those that cannot be."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import asdict, dataclass
from itertools import product
from typing import Any

from autonomy_ctx.compaction.auto_limits import CEILING, FLOOR, SIZE
from autonomy_ctx.compaction.config import DEFAULT_SIZE, ContextSummaryConfig, resolve_settings
from autonomy_ctx.validation import check_int

DEFAULT_FLOORS, DEFAULT_CEILINGS = (5, 10, 20), (20, 40, 80)
MAX_SETTINGS = 200


@dataclass(frozen=True, slots=True, kw_only=True)
class ReplaySetting:
    """The numbers of `context_summary`, and the budget of the template in tokens; None for no budget."""

    floor: int
    ceiling: int
    size: int = DEFAULT_SIZE
    budget: int | None = None
    # Whether the prices decide when a summary is due, as with `context_summary="auto"`.
    auto: bool = False

    def __post_init__(self) -> None:
        config = ContextSummaryConfig(floor=self.floor, ceiling=self.ceiling, size=self.size)
        resolve_settings(config)
        check_int("budget", self.budget, optional=True)
        if self.budget is not None and self.budget < 2 * self.size and self.size != DEFAULT_SIZE:
            raise ValueError(
                f"budget ({self.budget}) leaves too little room beside a summary of size {self.size}; "
                f"give at least {2 * self.size}, or a smaller size"
            )

    @property
    def label(self) -> str:
        """A short name: `10/40`, followed by values that are not the default."""
        parts = ["auto" if self.auto else f"{self.floor}/{self.ceiling}"]
        if self.size != DEFAULT_SIZE and not self.auto:
            parts.append(f"size {self.size:,}")
        if self.budget is not None:
            parts.append(f"budget {self.budget:,}")
        return ", ".join(parts)

    def to_dict(self) -> dict[str, Any]:
        """The numbers by name."""
        return asdict(self)

    def as_argument(self) -> str:
        """The arguments for a program that uses this setting."""
        size = "" if self.size == DEFAULT_SIZE else f', "size": {self.size}'
        budget = "" if self.budget is None else f", max_tokens={self.budget}"
        if self.auto:
            return f'context_summary="auto"{budget}'
        return f'context_summary={{"floor": {self.floor}, "ceiling": {self.ceiling}{size}}}{budget}'


@dataclass(frozen=True, slots=True, kw_only=True)
class SettingGrid:
    """The settings to try, in order, and one sentence for each combination that was left out."""

    settings: tuple[ReplaySetting, ...]
    skipped: tuple[str, ...]


def make_grid(
    *,
    floors: Iterable[int] = DEFAULT_FLOORS,
    ceilings: Iterable[int] = DEFAULT_CEILINGS,
    sizes: Iterable[int] = (DEFAULT_SIZE,),
    budgets: Iterable[int | None] = (None,),
    auto: bool = False,
) -> SettingGrid:
    """All valid combinations, and `auto` if asked for. Raises ValueError if there are none or too many."""
    settings: dict[ReplaySetting, None] = {}
    skipped: dict[str, None] = {}
    combinations = list(product(budgets, sizes, ceilings, floors))
    if len(combinations) > MAX_SETTINGS:
        raise ValueError(
            f"these are {len(combinations):,} settings; give fewer numbers, at most {MAX_SETTINGS} settings"
        )
    for budget, size, ceiling, floor in combinations:
        try:
            settings[ReplaySetting(floor=floor, ceiling=ceiling, size=size, budget=budget)] = None
        except ValueError as error:
            skipped[str(error)] = None
    if auto:
        settings[ReplaySetting(floor=FLOOR, ceiling=CEILING, size=SIZE, auto=True)] = None
    if not settings:
        raise ValueError(f"no setting is left to try: {'; '.join(skipped) or 'a list is empty'}")
    return SettingGrid(settings=tuple(settings), skipped=tuple(skipped))
