"""`SettingGrid`: the settings that a conversation is replayed with, and those that cannot be."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import asdict, dataclass
from itertools import product
from typing import Any

from autonomy_ctx.agents.tool_search import MIN_TOOL_BUDGET
from autonomy_ctx.compaction.config import (
    AUTO_CEILING,
    AUTO_FLOOR,
    AUTO_SIZE,
    DEFAULT_SIZE,
    ContextSummaryConfig,
    resolve_settings,
)
from autonomy_ctx.messages.excerpt import MIN_RESULT_TOKENS
from autonomy_ctx.validation import check_int

DEFAULT_FLOORS, DEFAULT_CEILINGS = (5, 10, 20), (20, 40, 80)
MAX_SETTINGS = 200


@dataclass(frozen=True, slots=True, kw_only=True)
class ReplaySetting:
    """The numbers of `context_summary`, and the budget of the template in tokens; None for no budget.

    Results of more than `result_tokens` are shown as excerpts, and leave after `clear_results` turns, if
    these are given. Tools are found on demand beyond `tool_budget` tokens of definitions.
    """

    floor: int
    ceiling: int
    size: int = DEFAULT_SIZE
    budget: int | None = None
    # Whether the prices decide when a summary is due, as with `context_summary="auto"`.
    auto: bool = False
    result_tokens: int | None = None
    clear_results: int | None = None
    tool_budget: int | None = None

    def __post_init__(self) -> None:
        resolve_settings(self.config(None))
        check_int("result_tokens", self.result_tokens, least=MIN_RESULT_TOKENS, optional=True)
        check_int("budget", self.budget, optional=True)
        check_int("tool_budget", self.tool_budget, least=MIN_TOOL_BUDGET, optional=True)
        if self.budget is not None and self.budget < 2 * self.size and self.size != DEFAULT_SIZE:
            raise ValueError(
                f"budget ({self.budget}) leaves too little room beside a summary of size {self.size}; "
                f"give at least {2 * self.size}, or a smaller size"
            )

    def config(self, model: Any) -> ContextSummaryConfig:
        """The configuration of summaries that `model` writes."""
        numbers: dict[str, Any] = {"floor": self.floor, "ceiling": self.ceiling, "size": self.size}
        return ContextSummaryConfig(
            model=model,
            clear_results_after=self.clear_results,
            **({"auto": True} if self.auto else numbers),
        )

    @property
    def label(self) -> str:
        """A short name: `10/40`, followed by values that are not the default."""
        parts = ["auto" if self.auto else f"{self.floor}/{self.ceiling}"]
        if self.size != DEFAULT_SIZE and not self.auto:
            parts.append(f"size {self.size:,}")
        if self.budget is not None:
            parts.append(f"budget {self.budget:,}")
        if self.result_tokens is not None:
            parts.append(f"results {self.result_tokens:,}")
        if self.clear_results is not None:
            parts.append(f"cleared after {self.clear_results}")
        if self.tool_budget is not None:
            parts.append(f"tools {self.tool_budget:,}")
        return ", ".join(parts)

    def to_dict(self) -> dict[str, Any]:
        """The numbers by name."""
        return asdict(self)

    def as_argument(self) -> str:
        """The arguments for a program that uses this setting."""
        size = "" if self.size == DEFAULT_SIZE else f', "size": {self.size}'
        budget = "" if self.budget is None else f", max_tokens={self.budget}"
        if self.result_tokens is not None:
            budget += f', limits={{"tool_result_tokens": {self.result_tokens}}}'
        if self.clear_results is not None:
            budget += f", clear_results_after={self.clear_results}"
        if self.tool_budget is not None:
            budget += f", tool_budget={self.tool_budget}"
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
    result_tokens: Iterable[int | None] = (None,),
    clear_results: Iterable[int | None] = (None,),
    tool_budgets: Iterable[int | None] = (None,),
) -> SettingGrid:
    """All valid combinations, and `auto` if asked for. Raises ValueError if there are none or too many."""
    settings: dict[ReplaySetting, None] = {}
    skipped: dict[str, None] = {}
    results: list[dict[str, Any]] = [
        {"result_tokens": tokens, "clear_results": turns, "tool_budget": tools}
        for tokens, turns, tools in product(result_tokens, clear_results, tool_budgets)
    ]
    combinations = list(product(results, budgets, sizes, ceilings, floors))
    if len(combinations) > MAX_SETTINGS:
        raise ValueError(
            f"these are {len(combinations):,} settings; give fewer numbers, at most {MAX_SETTINGS} settings"
        )
    for result, budget, size, ceiling, floor in combinations:
        try:
            numbers: dict[str, Any] = {"floor": floor, "ceiling": ceiling, "size": size}
            settings[ReplaySetting(**numbers, budget=budget, **result)] = None
        except ValueError as error:
            skipped[str(error)] = None
    numbers = {"floor": AUTO_FLOOR, "ceiling": AUTO_CEILING, "size": AUTO_SIZE}
    for result in results if auto else ():
        settings[ReplaySetting(**numbers, auto=True, **result)] = None
    if not settings:
        raise ValueError(f"no setting is left to try: {'; '.join(skipped) or 'a list is empty'}")
    return SettingGrid(settings=tuple(settings), skipped=tuple(skipped))
