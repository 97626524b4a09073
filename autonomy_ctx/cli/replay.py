"""`autonomy-ctx replay`: a recorded conversation against many settings, as a table and as an HTML page."""

from __future__ import annotations

import json
import os
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Annotated, Any

import anyio
import typer
from rich.table import Table
from rich.text import Text

from autonomy_ctx.cli.output import ExitCode, Output, WrongInput, clean_line, count, make_table
from autonomy_ctx.cli.target import AgentOption, MemoryOption, ScopeOption, find_conversation, open_memory
from autonomy_ctx.cli.transfer import STREAM, open_new
from autonomy_ctx.compaction.config import DEFAULT_SIZE
from autonomy_ctx.replay.conversation import RecordedConversation, read_conversation
from autonomy_ctx.replay.conversation_file import read_conversation_file
from autonomy_ctx.replay.grid import DEFAULT_CEILINGS, DEFAULT_FLOORS, make_grid
from autonomy_ctx.replay.recommendation import explain_shares, format_run
from autonomy_ctx.replay.report import render_report
from autonomy_ctx.replay.result import ReplayReport, ReplayRun
from autonomy_ctx.replay.runner import CACHE_SECONDS, DEFAULT_PRICE_NAME, replay

NO_LIMIT = "none"
# Of the answer that shows whether a model can be asked; some think before they say a word.
TRIAL_TOKENS = 256
# The columns of the table in the order in which they get room.
BY_IMPORTANCE = ("cost", "facts", "average", "identifiers", "cached", "over limit", "largest", "tokens sent")
GAP = 3
USUAL_FLOORS, USUAL_CEILINGS = (",".join(map(str, values)) for values in (DEFAULT_FLOORS, DEFAULT_CEILINGS))
BEST_MARK, BEST_STYLE = " <-", "bold green"


async def replay_conversation(
    output: Output,
    source: Annotated[str | None, typer.Argument(metavar="CONVERSATION|FILE")] = None,
    memory: MemoryOption = None,
    scope: ScopeOption = None,
    agent: AgentOption = None,
    pick: Annotated[str | None, typer.Option(metavar="NAME|NUMBER")] = None,
    floor: Annotated[str, typer.Option(metavar="N,N,...")] = USUAL_FLOORS,
    ceiling: Annotated[str, typer.Option(metavar="N,N,...")] = USUAL_CEILINGS,
    size: Annotated[str, typer.Option(metavar="N,N,...")] = str(DEFAULT_SIZE),
    budget: Annotated[str, typer.Option(metavar="N,N,...")] = NO_LIMIT,
    result_tokens: Annotated[str, typer.Option(metavar="N,N,...")] = NO_LIMIT,
    clear_results: Annotated[str, typer.Option(metavar="N,N,...")] = NO_LIMIT,
    tools: Annotated[Path | None, typer.Option(metavar="FILE")] = None,
    tool_budget: Annotated[str, typer.Option(metavar="N,N,...")] = NO_LIMIT,
    auto: bool = False,
    model: Annotated[str | None, typer.Option(metavar="NAME")] = None,
    price: Annotated[
        str | None,
        typer.Option(
            metavar="MODEL",
            help=f"The model whose list prices are used. Without it: --model, or {DEFAULT_PRICE_NAME}.",
        ),
    ] = None,
    limit: Annotated[int | None, typer.Option(min=1, metavar="TOKENS")] = None,
    cache_seconds: Annotated[float, typer.Option(metavar="SECONDS")] = CACHE_SECONDS,
    instructions: Annotated[Path | None, typer.Option(metavar="FILE")] = None,
    last: Annotated[int | None, typer.Option(min=1, metavar="TURNS")] = None,
    html: Annotated[Path | None, typer.Option(metavar="FILE")] = None,
) -> int:
    """Replay a recorded conversation with many settings, offline, and recommend one.

    Each combination of numbers is a setting. Nothing is stored.

    Args:
        source: A conversation of the memory, or a file: JSON Lines, OpenAI messages, LangChain, ChatGPT; - is
            stdin.
        pick: The conversation to replay, if a file has several.
        floor: Messages shown verbatim after a summary.
        ceiling: Messages above which the next summary is written.
        size: The maximum number of tokens of a summary.
        budget: The maximum number of tokens of a context; none for no budget.
        result_tokens: Show longer results of tools as excerpts; none for whole results.
        clear_results: Turns after which large results become a line each; none for never.
        tools: A JSON file with the definitions of the tools, as a model or an MCP server has them.
        tool_budget: Find tools on demand beyond so many tokens of definitions; none for all tools listed.
        auto: Try context_summary='auto', too, which decides by the prices.
        model: The model that writes the summaries. Without it: digests.
        limit: Count the turns with more tokens. Without it: the model's window.
        cache_seconds: How long a provider caches a prefix.
        instructions: A file with the system prompt, if the record has none.
        last: Replay only the last turns.
        html: Write the result as one HTML page.
    """
    grid = make_grid(
        floors=_read_numbers("--floor", floor),
        ceilings=_read_numbers("--ceiling", ceiling),
        sizes=_read_numbers("--size", size),
        budgets=_read_limits("--budget", budget),
        result_tokens=_read_limits("--result-tokens", result_tokens),
        clear_results=_read_limits("--clear-results", clear_results),
        tool_budgets=_read_limits("--tool-budget", tool_budget),
        auto=auto,
    )
    if html is not None and not html.parent.is_dir():
        raise WrongInput(f"{html}: there is no folder {html.parent}")
    conversation = await _read_source(source, pick, memory, scope, agent)
    if instructions is not None:
        text = await anyio.Path(instructions).read_text(encoding="utf-8")
        conversation = conversation.with_instructions(text)
    if last is not None:
        conversation = conversation.last_turns(last)
    total = len(grid.settings) * len(conversation.turns())
    async with _open_model(model) as writer:
        with output.progress("replaying", total) as tell:
            report = await replay(
                conversation,
                grid,
                price=price or _price_name(model),
                limit=limit,
                model=writer,
                cache_seconds=cache_seconds,
                tools=[] if tools is None else await anyio.to_thread.run_sync(_read_tools, tools),
                on_progress=lambda done, _: tell(done),
            )
    if html is not None:
        with open_new(str(html), force=True) as target:
            target.write(render_report(report).encode())
    if output.is_json:
        output.print_json(report.to_dict())
    else:
        _print_report(output, report)
    if report.pauses:
        pauses = count(report.pauses, "pause")
        output.note(
            f"the record has {pauses} of more than {cache_seconds:g} s: nothing was cached after them"
        )
    # Combinations of the usual numbers were not asked for one by one.
    is_chosen = (floor, ceiling) != (USUAL_FLOORS, USUAL_CEILINGS)
    for sentence in report.skipped if is_chosen else ():
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


def _read_limits(option: str, given: str) -> list[int | None]:
    found: list[int | None] = []
    for part in given.split(","):
        found += [None] if part.strip().lower() == NO_LIMIT else _read_numbers(option, part)
    return found


def _read_tools(path: Path) -> list[dict[str, Any]]:
    """The definitions in a file: a list, or an object with `tools`."""
    try:
        read = json.loads(path.read_bytes())
        found = read["tools"] if isinstance(read, dict) else read
        return [{"input_schema": one.get("inputSchema"), **one} for one in found]
    except (OSError, ValueError, KeyError, TypeError, AttributeError) as error:
        raise WrongInput(f"{path} is no list of definitions of tools: {error}") from None


async def _read_source(
    source: str | None, pick: str | None, memory: str | None, scope: str | None, agent: str | None
) -> RecordedConversation:
    """The conversation that was named: a file if there is one of this name, else one of the memory."""
    if source == STREAM:
        return await anyio.to_thread.run_sync(read_conversation_file, sys.stdin.buffer, pick)
    if source is not None and await anyio.Path(source).is_file():
        return await anyio.to_thread.run_sync(read_conversation_file, source, pick)
    if source is not None and (os.sep in source or source.endswith((".json", ".jsonl"))) and not memory:
        problem = "is a folder, not a file" if await anyio.Path(source).is_dir() else "does not exist"
        raise WrongInput(f"{source} {problem}")
    async with open_memory(memory) as opened:
        key = await find_conversation(opened, source, agent=agent, scope=scope)
        return await read_conversation(opened.for_agent(key.agent), key.scope, key.conversation)


@asynccontextmanager
async def _open_model(name: str | None) -> AsyncIterator[Any]:
    """The model, asked once: what keeps it from answering is told before it is asked a hundred times."""
    if name is None:
        yield None
        return
    # Imported here: most replays ask no model.
    from autonomy_ctx.models.model import Model

    async with Model(name) as model:
        await model.complete_chat([{"role": "user", "content": "Answer with OK."}], max_tokens=TRIAL_TOKENS)
        yield model


def _price_name(model: str | None) -> str:
    from autonomy_ctx.models.catalog import price_of

    return model if model is not None and price_of(model) is not None else DEFAULT_PRICE_NAME


# -- what is printed ----------------------------------------------------------------------------------


def _print_report(output: Output, report: ReplayReport) -> None:
    writer = "digests, no model" if report.summary_model is None else f"summaries by {report.summary_model}"
    length = f"{count(report.turns, 'turn')}, {count(report.messages, 'message')}"
    output.print(Text(clean_line(report.conversation), style="bold"))
    if not report.has_stored_numbers:
        length += ", turns counted by the user's messages"
    about = f"{length}; {writer}; prices of {report.price_name}"
    if report.limit is not None:
        about += f"; limit {report.limit:,} tokens"
    output.print(Text(clean_line(about), style="dim"))
    output.print("")
    output.print(_draw_table(report, output.width))
    output.print("")
    advice = report.recommendation
    reason = Text(advice.reason)
    reason.highlight_words([advice.setting.label], style=BEST_STYLE)
    output.print(reason)
    output.print(Text(explain_shares(report.best), style="dim"))
    if advice.runner_up is not None:
        output.print(Text.assemble(("Runner-up: ", "dim"), advice.runner_up_reason))
    output.print("")
    output.print(Text(advice.setting.as_argument(), style="cyan"))


def _draw_table(report: ReplayReport, width: int) -> Table:
    """A row for each setting; what there is no room for is on the page and in the JSON."""
    rows = [(run, format_run(run)) for run in (*report.runs, report.whole)]
    columns = list(rows[0][1])
    labels = [run.label + (BEST_MARK if run is report.best else "") for run, _ in rows]
    widths = {name: max(len(name), *(len(cells[name]) for _, cells in rows)) + GAP for name in columns}
    left = width - max(map(len, labels))
    shown = set()
    for name in BY_IMPORTANCE:
        if widths[name] <= left:
            shown.add(name)
            left -= widths[name]
    table = make_table("setting")
    for name in columns:
        if name in shown:
            table.add_column(name, justify="right", no_wrap=True)
    for label, (run, cells) in zip(labels, rows, strict=True):
        table.add_row(label, *(cells[name] for name in columns if name in shown), style=_style(report, run))
    return table


def _style(report: ReplayReport, run: ReplayRun) -> str:
    if run is report.whole:
        return "dim"
    runner_up = report.recommendation.runner_up
    return BEST_STYLE if run is report.best else "yellow" if run.setting == runner_up else ""


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
