"""`autonomy-ctx worker`: writes the summaries that agents of other processes have left to it."""

from __future__ import annotations

import signal
import sys
from typing import Annotated, Any

import anyio
import typer
from rich.text import Text

from autonomy_ctx.cli.output import ExitCode, Output, clean_line, count
from autonomy_ctx.cli.target import BaseUrlOption, MemoryOption, open_memory
from autonomy_ctx.compaction.summarizer import SummaryEvent, SummaryHook
from autonomy_ctx.compaction.worker import Worker
from autonomy_ctx.hooks import hook
from autonomy_ctx.models.model import Model

NAME = "summaries"


async def run_worker(
    output: Output,
    memory: MemoryOption = None,
    name: Annotated[str, typer.Option(metavar="NAME")] = NAME,
    model: Annotated[str | None, typer.Option(metavar="NAME")] = None,
    base_url: BaseUrlOption = None,
    auto: bool = False,
    floor: int | None = None,
    ceiling: int | None = None,
    size: Annotated[int | None, typer.Option(metavar="TOKENS")] = None,
    once: bool = False,
) -> int:
    """Write the summaries that agents with context_summary={"worker": ...} leave to workers.

    Several workers can share the work. Ctrl-C or a TERM signal ends a worker: it gives up the summary that it
    writes, and another worker can take it at once. With --once, the exit code is 1 if a summary failed.

    Args:
        name: The name in context_summary={'worker': NAME} of the agents.
        model: The model that writes the summaries. Without it: digests.
        auto: Set this if the agents set it.
        floor: The number that the agents use.
        ceiling: The number that the agents use.
        size: The number that the agents use.
        once: Write the summaries that are due now, and exit.
    """
    output.log_warnings()
    given = {"auto": auto or None, "floor": floor, "ceiling": ceiling, "size": size}
    config = {key: value for key, value in given.items() if value is not None}
    writer = None if model is None else Model(model, base_url=base_url)

    @hook(SummaryHook.AFTER_SUMMARY)
    def tell(event: SummaryEvent) -> None:
        print_summary(output, event)

    async with (
        open_memory(memory) as opened,
        Worker(opened, writer, name=name, config=config, hooks=[tell]) as worker,
    ):
        if once:
            await worker.catch_up()
        else:
            output.note(f"worker {name!r} waits for summaries to write; Ctrl-C stops it")
            await run_until_signal(worker)
        return print_end(output, worker.get_metrics(), is_job=once)


async def run_until_signal(worker: Worker) -> None:
    """Run a worker; Ctrl-C and TERM close it."""
    async with anyio.create_task_group() as group:

        async def watch() -> None:
            with anyio.open_signal_receiver(signal.SIGINT, signal.SIGTERM) as signals:
                async for _ in signals:
                    await worker.close()
                    return

        group.start_soon(watch)
        await worker.run()
        group.cancel_scope.cancel()


def print_summary(output: Output, event: SummaryEvent) -> None:
    """A line for each summary, at once: who waits for it may read a pipe."""
    segment = event.segment
    if segment is None:
        return
    if output.is_json:
        output.print_json_line(
            {
                "agent": event.agent,
                "scope": event.scope,
                "conversation": event.conversation,
                "first": segment.first,
                "last": segment.last,
                "tokens": segment.tokens,
                "model": segment.model,
            }
        )
        sys.stdout.flush()
        return
    place = " / ".join(clean_line(part) for part in (event.scope, event.agent, event.conversation) if part)
    line = Text(place, "bold").append(f"  messages {segment.first} to {segment.last}", "not bold")
    line.append(f"  {count(segment.tokens, 'token')}  {clean_line(segment.model)}", "not bold dim")
    output.print(line)
    sys.stdout.flush()


def print_end(output: Output, metrics: dict[str, Any], *, is_job: bool) -> ExitCode:
    """Print what was done; the exit code tells whether all of it could be."""
    committed, failed = metrics["summaries_committed"], metrics["background_tasks_failed"]
    counts = {"failed": failed, "were refused": metrics["summaries_refused"]}
    problems = [f"{number} {what}" for what, number in counts.items() if number]
    output.note(", ".join([f"{count(committed, 'summary', 'summaries')} written", *problems]))
    return ExitCode.FAILED if is_job and problems else ExitCode.DONE
