"""The plots and tables of "choose numbers": recorded conversations, replayed with many settings.

    python docs/make_plots.py

It draws the plots into `docs/images` and prints the rows and sentences of the page with numbers. It needs
the test environment, no network and no key. Each run gives the same; a test compares both.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import anyio

from autonomy_ctx.models.catalog import Price, price_of
from autonomy_ctx.replay import (
    RecordedConversation,
    ReplayReport,
    ReplayRun,
    ReplaySetting,
    SettingGrid,
    make_grid,
    replay,
)
from benchmarks.cost import Run
from benchmarks.kinds import Kind, make_coder, make_kinds
from benchmarks.replay import make_talk
from benchmarks.tool_search import read_tools

FOLDER = Path(__file__).parent
sys.path.insert(0, str(FOLDER))

import make_pictures as pictures  # noqa: E402

TURNS = 120
PRICE_NAME = "claude-sonnet-4-5"
FLOORS, CEILINGS = (4, 10, 20), (20, 30, 40, 60, 80)
KIND_CEILINGS = (20, 30, 40, 60, 80, 120)
# The floor and ceiling with which sizes and budgets are tried.
FLOOR, CEILING = 10, 40
SIZES = (256, 512, 1024, 2048, 4096)
BUDGETS = (1500, 2000, 3000, 4000, None)
# What the model that writes summaries costs, as a part of what the one that reads contexts costs.
SHARES = (0, 0.25, 0.5, 0.75, 1)
SUMMARY_CEILINGS = (20, 40, 80)
# The tokens of an excerpt of a result, and of the definitions of tools.
RESULT_TOKENS, TOOL_BUDGET = (None, 300), (None, 8_000)
# The tool that the recorded agents call.
LOOK_UP = {"name": "look_up", "description": "Look something up.", "parameters": {"type": "object"}}
WIDTH = pictures.WIDTH
# The colours of the parts of a bar, then those of curves.
BAR = (0, 7, 2, 3)
COLOURS = ("#0969da", "#bc4c00", "#1a7f37", "#8250df")
DARK_COLOURS = ("#58a6ff", "#f0883e", "#3fb950", "#bc8cff")
STYLE = pictures.STYLE + "".join(
    (
        ".series { fill: none; stroke-width: 2.5; stroke-linejoin: round }\n",
        *(f".l{n} {{ stroke: {one} }} .d{n} {{ fill: {one} }}\n" for n, one in enumerate(COLOURS)),
        "@media (prefers-color-scheme: dark) {\n",
        *(f"  .l{n} {{ stroke: {one} }} .d{n} {{ fill: {one} }}\n" for n, one in enumerate(DARK_COLOURS)),
        "}\n",
    )
)
LABEL_HEIGHT = 15


@dataclass(frozen=True)
class Curve:
    """Values at the ticks of a panel; None where a setting is not possible."""

    label: str
    values: Sequence[float | None]


@dataclass
class Plot(pictures.Drawing):
    """A drawing with panels."""

    style: str = field(default=STYLE)

    def dot(self, x: float, y: float, kind: str, tip: str) -> None:
        self.parts.append(
            f'<circle class="{kind}" cx="{x:.1f}" cy="{y:.1f}" r="4"><title>{tip}</title></circle>'
        )


@dataclass(frozen=True)
class Panel:
    """One pair of axes: where it is, what its axes show, and how a value is written."""

    plot: Plot
    left: float
    right: float
    x_title: str
    y_title: str
    ticks: Sequence[str]
    most: float
    write: Callable[[float], str]
    # Where each tick is between 0 and 1; evenly spaced by default.
    at: Sequence[float] = ()
    top: float = 92
    bottom: float = 300
    steps: int = 4

    def x(self, index: int) -> float:
        at = self.at[index] if self.at else index / (len(self.ticks) - 1)
        return self.left + (self.right - self.left) * at

    def y(self, value: float) -> float:
        return self.bottom - (self.bottom - self.top) * value / self.most

    def draw_axes(self) -> None:
        for step in range(self.steps + 1):
            value = self.most * step / self.steps
            self.plot.line(self.left, self.y(value), self.right, self.y(value), "rule")
            self.plot.text(self.left - 10, self.y(value) + 4, self.write(value), "quiet", anchor="end")
        for index, tick in enumerate(self.ticks):
            self.plot.text(self.x(index), self.bottom + 20, tick, "quiet", anchor="middle")
        middle = (self.left + self.right) / 2
        self.plot.text(middle, self.bottom + 42, self.x_title, "quiet", anchor="middle")
        self.plot.text(self.left - 44, self.top - 18, self.y_title)

    def draw_bound(self, value: float, label: str, *, anchor: str = "end") -> None:
        self.plot.line(self.left, self.y(value), self.right, self.y(value), "bound")
        x = self.right - 8 if anchor == "end" else self.left + 8
        self.plot.text(x, self.y(value) - 7, label, "quiet", anchor=anchor)

    def draw_curves(self, curves: Sequence[Curve]) -> None:
        ends: list[tuple[float, int, str]] = []
        for number, curve in enumerate(curves):
            points = [
                (self.x(index), self.y(value), value, self.ticks[index])
                for index, value in enumerate(curve.values)
                if value is not None
            ]
            self.plot.curve([(x, y) for x, y, _, _ in points], f"series l{number}")
            for x, y, value, tick in points:
                self.plot.dot(x, y, f"d{number}", f"{curve.label}, {tick}: {self.write(value)}")
            ends.append((points[-1][1], number, curve.label))
        # Labels stand at the ends of their curves, below each other where those are close.
        lowest = -1.0
        for y, number, label in sorted(ends):
            lowest = max(y + 4, lowest + LABEL_HEIGHT)
            self.plot.text(self.right + 12, lowest, label, f"d{number}")


@dataclass(frozen=True)
class Results:
    """Everything that was replayed."""

    support: ReplayReport
    # The same, as if nothing were cached for summaries: another model than the agent's own writes them.
    uncached: ReplayReport
    kinds: list[tuple[Kind, ReplayReport]]
    # The cost of each kind with `"auto"`, as `python -m benchmarks cost` measures it.
    auto: list[float]
    # The coding agent: with excerpts of results, and with many tools.
    results: ReplayReport
    tools: ReplayReport

    def run(self, **numbers: int | None) -> ReplayRun:
        """The run of the support agent with these numbers; the usual ones for the others."""
        setting = ReplaySetting(**{"floor": FLOOR, "ceiling": CEILING, **numbers})
        return find_run(self.support, setting)


def find_run(report: ReplayReport, setting: ReplaySetting) -> ReplayRun:
    return next(run for run in report.runs if run.setting == setting)


def support_grid() -> SettingGrid:
    """Floors and ceilings, and with one of each the sizes and budgets."""
    grids = (
        make_grid(floors=FLOORS, ceilings=CEILINGS),
        make_grid(floors=[FLOOR], ceilings=[CEILING], sizes=SIZES),
        make_grid(floors=[FLOOR], ceilings=[CEILING], budgets=BUDGETS),
    )
    settings = dict.fromkeys(setting for grid in grids for setting in grid.settings)
    return SettingGrid(settings=tuple(settings), skipped=())


async def run_replays() -> Results:
    grid = make_grid(floors=[FLOOR], ceilings=KIND_CEILINGS)
    kinds = [(kind, await replay(kind.conversation, grid, price=PRICE_NAME)) for kind in make_kinds()]
    auto = [await Run(kind.conversation, PRICE_NAME, "auto").hold() for kind, _ in kinds]
    support = RecordedConversation(make_talk(TURNS), name="support")
    price = price_of(PRICE_NAME)
    assert price is not None
    uncached = SettingGrid(settings=tuple(map(summary_setting, SUMMARY_CEILINGS)), skipped=())
    coder, specs = make_coder(), [LOOK_UP, *(tool.spec for tool in read_tools())]
    results = make_grid(floors=[FLOOR], ceilings=[CEILING], result_tokens=RESULT_TOKENS)
    tools = make_grid(floors=[FLOOR], ceilings=[CEILING], tool_budgets=TOOL_BUDGET)
    return Results(
        await replay(support, support_grid(), price=PRICE_NAME),
        await replay(support, uncached, price=Price(input=price.input, output=price.output)),
        kinds,
        [run.bill.cost for run in auto],
        await replay(coder, results, price=PRICE_NAME),
        await replay(coder, tools, price=PRICE_NAME, tools=specs[:400]),
    )


def summary_setting(ceiling: int) -> ReplaySetting:
    return ReplaySetting(floor=FLOOR, ceiling=ceiling)


# -- plots --------------------------------------------------------------------------------------------


def dollars(value: float) -> str:
    return f"${value:.2f}"


def percent(value: float) -> str:
    return f"{100 * value:.0f} %"


def places(ceilings: Sequence[int]) -> list[float]:
    """Where ceilings are on an axis."""
    first, last = ceilings[0], ceilings[-1]
    return [(ceiling - first) / (last - first) for ceiling in ceilings]


def draw_cost(results: Results) -> Plot:
    """What a conversation costs, by ceiling and floor."""
    plot = Plot("Cost by ceiling and floor", 360)
    note(plot, results.support)
    panel = Panel(
        plot,
        left=76,
        right=740,
        x_title="ceiling: messages above which a summary is written",
        y_title="cost of the conversation, summaries included",
        ticks=[str(ceiling) for ceiling in CEILINGS],
        most=0.8,
        write=dollars,
        at=places(CEILINGS),
    )
    panel.draw_axes()
    panel.draw_bound(results.support.whole.cost, "whole history in every context")
    panel.draw_curves(
        [
            Curve(
                f"floor {floor}",
                [
                    results.run(floor=floor, ceiling=ceiling).cost if floor < ceiling else None
                    for ceiling in CEILINGS
                ],
            )
            for floor in FLOORS
        ]
    )
    return plot


def draw_bill(results: Results) -> Plot:
    """What the money is paid for, by ceiling."""
    price = results.support.price
    plot = Plot("Where the money goes", 380)
    note(plot, results.support)
    names = ("uncached input", "cached input", "answers", "summaries")
    bars = [(f"{FLOOR}/{ceiling}", results.run(ceiling=ceiling)) for ceiling in CEILINGS]
    bars.append(("whole history", results.support.whole))
    panel = Panel(
        plot, 76, 800, "floor/ceiling", "cost of the conversation", [name for name, _ in bars], 0.8, dollars
    )
    for step in range(panel.steps + 1):
        value = panel.most * step / panel.steps
        plot.line(panel.left, panel.y(value), WIDTH - 24, panel.y(value), "rule")
        plot.text(panel.left - 10, panel.y(value) + 4, panel.write(value), "quiet", anchor="end")
    plot.text(panel.left - 44, panel.top - 18, panel.y_title)
    width = (WIDTH - 24 - panel.left) / len(bars)
    for index, (label, run) in enumerate(bars):
        left, total = panel.left + width * (index + 0.18), 0.0
        output = sum(turn.output_tokens for turn in run.turns)
        parts = (
            price.cost(written=run.sent_tokens - run.cached_tokens),
            price.cost(cached=run.cached_tokens),
            price.cost(output=output),
            run.summary_cost,
        )
        for number, (name, part) in enumerate(zip(names, parts, strict=True)):
            height = panel.y(total) - panel.y(total + part)
            if height >= 0.5:
                tip = f"{label}, {name}: {dollars(part)}"
                plot.rect(left, panel.y(total + part), width * 0.64, height - 1, f"c{BAR[number]}", tip=tip)
            total += part
        middle = left + width * 0.32
        plot.text(middle, panel.y(total) - 6, dollars(total), anchor="middle")
        plot.text(middle, panel.bottom + 20, label, "quiet", anchor="middle")
    x = 76.0
    for number, name in enumerate(names):
        plot.rect(x, panel.bottom + 38, 12, 12, f"c{BAR[number]}")
        plot.text(x + 20, panel.bottom + 48, name)
        x += 60 + 7 * len(name)
    return plot


def draw_sizes(results: Results) -> Plot:
    """What contexts keep and cost, by the size of the summary."""
    runs = [results.run(size=size) for size in SIZES]
    return draw_kept(
        results, "The size of the summary", "size, in tokens", [f"{size:,}" for size in SIZES], runs
    )


def draw_budgets(results: Results) -> Plot:
    """What contexts keep and cost, by the budget."""
    runs = [results.run(budget=budget) for budget in BUDGETS]
    ticks = [f"{budget:,}" if budget else "none" for budget in BUDGETS]
    return draw_kept(results, "The budget of a context", "budget, in tokens", ticks, runs)


def draw_kept(
    results: Results, title: str, x_title: str, ticks: Sequence[str], runs: Sequence[ReplayRun]
) -> Plot:
    """On the left what contexts show, on the right what they cost."""
    plot = Plot(title, 360)
    note(plot, results.support, f"; {FLOOR}/{CEILING}")
    kept = Panel(plot, 76, 350, x_title, "shown of what was said", ticks, 1.0, percent)
    kept.draw_axes()
    kept.draw_curves(
        [
            Curve("facts", [run.facts_share for run in runs]),
            Curve("identifiers", [run.names_share for run in runs]),
        ]
    )
    cost = Panel(plot, 516, 770, x_title, "cost of the conversation", ticks, 1.2, dollars)
    cost.draw_axes()
    cost.draw_curves(
        [
            Curve("all", [run.cost for run in runs]),
            Curve("summaries", [run.summary_cost for run in runs]),
        ]
    )
    return plot


def draw_summary_model(results: Results) -> Plot:
    """What a cheaper model for summaries saves."""
    plot = Plot("A cheaper model for the summaries", 360)
    note(plot, results.support)
    panel = Panel(
        plot,
        left=76,
        right=740,
        x_title="price of the model that writes the summaries, as a part of that of the one that answers",
        y_title="cost of the conversation, summaries included",
        ticks=[percent(share) for share in SHARES],
        most=0.8,
        write=dollars,
    )
    panel.draw_axes()
    panel.draw_curves(
        [
            Curve(f"{FLOOR}/{ceiling}", [cost_with(results, ceiling, share) for share in SHARES])
            for ceiling in SUMMARY_CEILINGS
        ]
    )
    return plot


def draw_kinds(results: Results) -> Plot:
    """What four kinds of agent pay, against the whole history in every context."""
    plot = Plot("Four kinds of agent", 360)
    prices = f"floor {FLOOR}, by the list prices of {results.support.price_name}"
    plot.text(WIDTH - 24, 34, prices, "quiet", anchor="end")
    panel = Panel(
        plot,
        left=76,
        right=690,
        x_title="ceiling",
        y_title="cost, as a part of that with the whole history in every context",
        ticks=[str(ceiling) for ceiling in KIND_CEILINGS],
        most=2.0,
        write=percent,
        at=places(KIND_CEILINGS),
    )
    panel.draw_axes()
    panel.draw_bound(1.0, "whole history", anchor="start")
    panel.draw_curves(
        [
            Curve(
                kind.name.lower(),
                [
                    find_run(report, ReplaySetting(floor=FLOOR, ceiling=ceiling)).cost / report.whole.cost
                    for ceiling in KIND_CEILINGS
                ],
            )
            for kind, report in results.kinds
        ]
    )
    return plot


def note(plot: Plot, report: ReplayReport, more: str = "") -> None:
    words = f"{report.turns} turns of a support agent, by the list prices of {report.price_name}{more}"
    plot.text(WIDTH - 24, 34, words, "quiet", anchor="end")


def cost_with(results: Results, ceiling: int, share: float) -> float:
    """What a run costs if another model writes the summaries, for this part of the price."""
    alone = find_run(results.uncached, summary_setting(ceiling))
    return results.run(ceiling=ceiling).request_cost + share * alone.summary_cost


# -- words --------------------------------------------------------------------------------------------


def list_rows(results: Results) -> str:
    """A row for each kind of agent: what its whole history and some settings cost."""
    rows = []
    for (kind, report), auto in zip(results.kinds, results.auto, strict=True):
        default = find_run(report, ReplaySetting(floor=FLOOR, ceiling=20))
        best = min(report.runs, key=lambda run: run.cost)
        rows.append(
            f"| {kind.name}: {kind.description} | {report.turns} | {report.messages} "
            f"| {money(report.whole.cost)} | {money(default.cost)} | {money(auto)} "
            f"| {money(best.cost)} ({best.label}) |\n"
        )
    return "".join(rows)


def list_room_rows(results: Results) -> str:
    """A row for each setting of results and tools of the coding agent."""
    told = ("results as they are", "excerpts of 300 tokens", "400 tools, all listed", "400 tools, on demand")
    runs = [*results.results.runs, *results.tools.runs]
    return "".join(
        f"| {name} | {money(run.cost)} | {run.mean_context:,} | {percent(run.facts_share)} "
        f"| {percent(run.names_share)} |\n"
        for name, run in zip(told, runs, strict=True)
    )


def list_sentences(results: Results) -> list[str]:
    """The sentences of the page that have numbers of the replays."""
    whole, default, larger = results.support.whole, results.run(ceiling=20), results.run()
    largest, close = results.run(ceiling=80), results.run(floor=20, ceiling=30)
    small, half, medium, large = (results.run(size=size) for size in (256, 512, 1024, 4096))
    tight, roomy = results.run(budget=1500), results.run(budget=4000)
    third, other = cost_with(results, 20, 1 / 3), cost_with(results, 20, 1)
    cheaper = [
        find_run(report, ReplaySetting(floor=10, ceiling=40)).cost
        < find_run(report, ReplaySetting(floor=10, ceiling=20)).cost
        for _, report in results.kinds
    ]
    return [
        f"For {'all four' if all(cheaper) else sum(cheaper)} kinds of agent, 10/40 is cheaper than 10/20.",
        f"A ceiling of 40 instead of 20 makes this conversation {less(larger.cost, default.cost)} cheaper: "
        f"{money(larger.cost)} instead of {money(default.cost)}.",
        f"With 10/20 and with 20/30, one summary covers 10 messages, and both are expensive: "
        f"{money(default.cost)} and {money(close.cost)}.",
        f"But here its average context has {whole.mean_context:,} tokens, and contexts grow with every turn. "
        f"With 10/40, the average context has {larger.mean_context:,} tokens, and contexts do not grow.",
        f"With a size of 256 tokens, contexts show {percent(small.facts_share)} of the facts; with 512, they "
        f"show {percent(half.facts_share)}; from 1,024 on, they show all of them.",
        f"From 1,024 to 4,096 tokens, the share of identifiers that contexts show goes from "
        f"{percent(medium.names_share)} to {percent(large.names_share)}, and the cost from "
        f"{money(medium.cost)} to {money(large.cost)}.",
        f"It costs {money(roomy.cost)} with 4,000 tokens, and {money(larger.cost)} without a budget.",
        f"It costs {money(tight.cost)} with 1,500 tokens, because only {percent(tight.cached_share)} of what "
        f"is sent comes from the cache, instead of {percent(larger.cached_share)}.",
        f"At 10/20, summaries are {percent(default.summary_cost / default.cost)} of the bill, at 10/40 "
        f"{percent(larger.summary_cost / larger.cost)}, at 10/80 "
        f"{percent(largest.summary_cost / largest.cost)}.",
        f"A summary model at a third of the price makes the conversation {less(third, default.cost)} cheaper "
        f"at 10/20, and {less(cost_with(results, 80, 1 / 3), largest.cost)} cheaper at 10/80.",
        f"At the same price, another model makes it more expensive: {money(other)} instead of "
        f"{money(default.cost)} at 10/20.",
    ]


def less(value: float, than: float) -> str:
    return percent(1 - value / than)


def money(value: float) -> str:
    return f"${value:.2f}" if value >= 0.1 else f"${value:.3f}"


def draw_all(results: Results) -> dict[str, str]:
    """Each plot by the name of its file."""
    return {
        "cost-by-ceiling.svg": str(draw_cost(results)),
        "cost-by-kind.svg": str(draw_kinds(results)),
        "cost-by-summary-model.svg": str(draw_summary_model(results)),
        "cost-parts.svg": str(draw_bill(results)),
        "kept-by-budget.svg": str(draw_budgets(results)),
        "kept-by-size.svg": str(draw_sizes(results)),
    }


def main() -> None:
    results = anyio.run(run_replays)
    for name, picture in draw_all(results).items():
        (FOLDER / "images" / name).write_text(picture, encoding="utf-8")
    sys.stdout.write("\n".join((list_rows(results), list_room_rows(results), *list_sentences(results), "")))


if __name__ == "__main__":
    main()
