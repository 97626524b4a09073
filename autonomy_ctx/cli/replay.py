"""`autonomy-ctx replay`: a recorded conversation against many settings, as a table and as an HTML page."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Annotated, Any

import anyio
import typer
from rich.progress import BarColumn, Progress, TextColumn, TimeRemainingColumn
from rich.table import Table
from rich.text import Text

from autonomy_ctx.cli.output import ExitCode, Output, WrongInput, clean_line, count, make_table
from autonomy_ctx.cli.target import (
    AgentOption,
    MemoryOption,
    ScopeOption,
    find_conversation,
    open_memory,
)
from autonomy_ctx.compaction.config import DEFAULT_SIZE
from autonomy_ctx.replay.conversation import RecordedConversation, read_conversation
from autonomy_ctx.replay.conversation_file import read_conversation_file
from autonomy_ctx.replay.grid import DEFAULT_CEILINGS, DEFAULT_FLOORS, make_grid
from autonomy_ctx.replay.recommendation import format_money
from autonomy_ctx.replay.report import render_report
from autonomy_ctx.replay.result import ReplayReport, ReplayRun
from autonomy_ctx.replay.runner import DEFAULT_PRICE_NAME, replay

STREAM, NO_BUDGET = "-", "none"
# Columns of the table, and from how many columns of the terminal on each is shown.
COLUMNS = (
    ("cost", 0),
    ("sent", 90),
    ("cached", 60),
    ("average", 50),
    ("largest", 72),
    ("over limit", 80),
    ("facts", 0),
    ("identifiers", 66),
)


async def replay_conversation(
    output: Output,
    source: Annotated[
        str | None,
        typer.Argument(
            metavar="[CONVERSATION|FILE]",
            help="A conversation of the memory, or a file: JSON Lines, OpenAI messages or a LangChain dump; "
            "- is stdin.",
        ),
    ] = None,
    memory: MemoryOption = None,
    scope: ScopeOption = None,
    agent: AgentOption = None,
    pick: Annotated[
        str | None,
        typer.Option("--pick", metavar="NAME|NUMBER", help="Which conversation of a file that has several."),
    ] = None,
    floor: Annotated[
        str, typer.Option(metavar="N,N,...", help="Messages shown verbatim after a summary.")
    ] = ",".join(map(str, DEFAULT_FLOORS)),
    ceiling: Annotated[
        str, typer.Option(metavar="N,N,...", help="Messages that make the next summary due.")
    ] = ",".join(map(str, DEFAULT_CEILINGS)),
    size: Annotated[str, typer.Option(metavar="N,N,...", help="The most tokens of a summary.")] = str(
        DEFAULT_SIZE
    ),
    budget: Annotated[
        str, typer.Option(metavar="N,N,...", help="The most tokens of a context; none for no budget.")
    ] = NO_BUDGET,
    model: Annotated[
        str | None,
        typer.Option(
            metavar="NAME", help="Have this model write the summaries; without it they are digests."
        ),
    ] = None,
    price: Annotated[
        str | None,
        typer.Option(
            metavar="MODEL", help=f"By whose list prices; else those of --model, or of {DEFAULT_PRICE_NAME}."
        ),
    ] = None,
    limit: Annotated[
        int | None,
        typer.Option(min=1, metavar="TOKENS", help="Count turns over it; by default the model's window."),
    ] = None,
    instructions: Annotated[
        Path | None,
        typer.Option(metavar="FILE", help="The system prompt, where the record has none."),
    ] = None,
    last: Annotated[int | None, typer.Option(min=1, metavar="TURNS", help="Only the last turns.")] = None,
    html: Annotated[
        Path | None, typer.Option(metavar="FILE", help="Draw the result as one HTML page.")
    ] = None,
) -> int:
    """Run a recorded conversation against many settings, offline, and recommend one.

    Floors, ceilings, sizes and budgets are combined; each combination is a setting. Nothing is stored.
    """
    grid = make_grid(
        floors=_read_numbers("--floor", floor),
        ceilings=_read_numbers("--ceiling", ceiling),
        sizes=_read_numbers("--size", size),
        budgets=_read_budgets(budget),
    )
    if html is not None and not html.parent.is_dir():
        raise WrongInput(f"{html}: there is no folder {html.parent}")
    conversation = await _read_source(source, pick, memory, scope, agent)
    if instructions is not None:
        text = await anyio.Path(instructions).read_text(encoding="utf-8")
        conversation = conversation.with_instructions(text)
    if last is not None:
        conversation = conversation.last_turns(last)
    writer = None if model is None else _make_model(model)
    with _show_progress(output, f"replaying {count(len(grid.settings), 'setting')}") as on_progress:
        report = await replay(
            conversation,
            grid,
            price=price or _price_name(model),
            limit=limit,
            model=writer,
            on_progress=on_progress,
        )
    if html is not None:
        await anyio.Path(html).write_text(render_report(report), encoding="utf-8")
    if output.is_json:
        output.print_json(report.to_dict())
    else:
        _print_report(output, report)
    for sentence in report.skipped:
        output.note(f"left out: {sentence}")
    if html is not None:
        output.note(f"drawn in {html}")
    return _warn_of_failures(output, report)


# -- what was given -----------------------------------------------------------------------------------


def _read_numbers(option: str, given: str) -> list[int]:
    try:
        return [int(part.strip().replace("_", "")) for part in given.split(",")]
    except ValueError:
        raise WrongInput(
            f"{option} is {given!r}; give whole numbers with commas between, such as 5,10,20"
        ) from None


def _read_budgets(given: str) -> list[int | None]:
    found: list[int | None] = []
    for part in given.split(","):
        found += [None] if part.strip().lower() == NO_BUDGET else _read_numbers("--budget", part)
    return found


async def _read_source(
    source: str | None, pick: str | None, memory: str | None, scope: str | None, agent: str | None
) -> RecordedConversation:
    """The conversation that was named: a file if there is one of this name, else one of the memory."""
    if source == STREAM:
        return await anyio.to_thread.run_sync(read_conversation_file, sys.stdin.buffer, pick)
    if source is not None and await anyio.Path(source).is_file():
        return await anyio.to_thread.run_sync(read_conversation_file, source, pick)
    if source is not None and not memory and (os.sep in source or source.endswith((".json", ".jsonl"))):
        raise WrongInput(f"{source}: there is no such file")
    async with open_memory(memory) as opened:
        key = await find_conversation(opened, source, agent=agent, scope=scope)
        return await read_conversation(opened.for_agent(key.agent), key.scope, key.conversation)


def _make_model(name: str) -> Any:
    # Imported here: most replays ask no model.
    from autonomy_ctx.models.model import Model

    return Model(name)


def _price_name(model: str | None) -> str:
    from autonomy_ctx.models.catalog import price_of

    return model if model is not None and price_of(model) is not None else DEFAULT_PRICE_NAME


@contextmanager
def _show_progress(output: Output, what: str) -> Iterator[Callable[[int, int], None] | None]:
    """A bar on stderr while somebody watches."""
    if not output.is_live:
        yield None
        return
    columns = (TextColumn("{task.description}"), BarColumn(), TimeRemainingColumn())
    with Progress(*columns, console=output.messages, transient=True) as progress:
        task = progress.add_task(what, total=None)
        yield lambda done, total: progress.update(task, completed=done, total=total)


# -- what is printed ----------------------------------------------------------------------------------


def _print_report(output: Output, report: ReplayReport) -> None:
    writer = "digests, no model" if report.summary_model is None else f"summaries by {report.summary_model}"
    heading = Text(clean_line(report.conversation), style="bold")
    length = f"{count(report.turns, 'turn')}, {count(report.messages, 'message')}"
    output.print(heading)
    output.print(Text(clean_line(f"{length}; {writer}; prices of {report.price_name}"), style="dim"))
    output.print()
    output.print(_draw_table(report, output.width))
    output.print()
    advice = report.recommendation
    output.print(Text.assemble(("Take ", "bold"), (advice.setting.label, "bold green"), ". ", advice.reason))
    if advice.runner_up is not None:
        output.print(Text.assemble(("Runner-up: ", "dim"), advice.runner_up_reason))
    output.print()
    output.print(Text(f"  {advice.setting.as_argument()}", style="cyan"))


def _draw_table(report: ReplayReport, width: int) -> Table:
    """A row for each setting; what there is no room for is on the page and in the JSON."""
    table = make_table()
    table.add_column("setting", no_wrap=width >= 60)
    shown = [(name, least) for name, least in COLUMNS if width >= least]
    for name, _ in shown:
        table.add_column(name, justify="right")
    advice = report.recommendation
    for run in (*report.runs, report.whole):
        is_best, is_second = run is report.best, run.setting is not None and run.setting == advice.runner_up
        style = "bold green" if is_best else "yellow" if is_second else "dim" if run is report.whole else ""
        cells = _cells(run)
        label = f"{run.label} {'<-' if is_best else ''}".rstrip()
        table.add_row(label, *(cells[name] for name, _ in shown), style=style)
    return table


def _cells(run: ReplayRun) -> dict[str, str]:
    return {
        "cost": format_money(run.cost),
        "sent": f"{run.sent_tokens:,}",
        "cached": _percent(run.cached_share),
        "average": f"{run.mean_context:,}",
        "largest": f"{run.largest_context:,}",
        "over limit": f"{run.turns_over_limit:,}",
        "facts": _percent(run.facts_share),
        "identifiers": _percent(run.names_share),
    }


def _warn_of_failures(output: Output, report: ReplayReport) -> ExitCode:
    failed = sum(run.failed_summaries for run in report.runs)
    if not failed:
        return ExitCode.DONE
    written = sum(run.summaries for run in report.runs)
    output.warn(
        f"{count(failed, 'summary', 'summaries')} could not be written by {report.summary_model} "
        f"and {written:,} were; --debug shows why"
    )
    return ExitCode.DONE if written else ExitCode.FAILED


def _percent(share: float) -> str:
    return f"{100 * share:.0f} %"
