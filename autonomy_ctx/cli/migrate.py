"""`autonomy-ctx migrate`: a database to the newest schema, or everything in it into another one."""

from __future__ import annotations

from dataclasses import asdict
from typing import Annotated

import typer

from autonomy_ctx.cli.output import Output, WrongInput, count
from autonomy_ctx.cli.target import (
    MemoryOption,
    describe_missing,
    describe_url,
    memory_path,
    memory_url,
    open_memory,
    read_versions,
)
from autonomy_ctx.memory.memory import Memory
from autonomy_ctx.memory.transfer import CopyProgress, copy_memory

# The length of the bar: one half is the copy, the other its comparison.
STEPS = 1000


async def migrate(
    output: Output,
    memory: MemoryOption = None,
    to: Annotated[str | None, typer.Option(metavar="FILE|URL")] = None,
    scope: Annotated[str | None, typer.Option("--scope", "-s", metavar="NAME")] = None,
) -> None:
    """Upgrade a database to the newest schema; with --to, copy it into another one, such as PostgreSQL.

    If a copy is interrupted, start it again: it continues where it stopped. The source is not changed. Stop
    all programs that write to the source first.

    Args:
        to: Copy everything into this memory and compare both. It is created if it does not exist.
        scope: With --to: copy only this scope.
    """
    if to is None:
        if scope is not None:
            raise WrongInput("--scope needs --to: a schema is upgraded as a whole")
        await _upgrade(output, memory)
    else:
        await _copy(output, memory, to, scope)


async def _upgrade(output: Output, memory: str | None) -> None:
    url, path = memory_url(memory), memory_path(memory)
    versions = await read_versions(url)
    if versions is None:
        raise WrongInput(f"{describe_url(url)} is neither SQLite nor PostgreSQL, and cannot be upgraded")
    if versions.found is None and path is not None:
        raise WrongInput(describe_missing(path))
    async with Memory(url):
        pass
    name = describe_url(url)
    if output.is_json:
        output.print_json({"memory": name, "from": versions.found, "to": versions.known})
    elif versions.found == versions.known:
        output.print_sentence(f"{name} already has the newest schema, version {versions.known}")
    elif versions.found is None:
        output.print_sentence(f"{name} now has tables of schema version {versions.known}")
    else:
        output.print_sentence(f"{name} was upgraded from schema version {versions.found} to {versions.known}")


async def _copy(output: Output, memory: str | None, to: str, scope: str | None) -> None:
    target = memory_url(to)
    if target == memory_url(memory):
        raise WrongInput("--to names the same memory; name another one")
    async with open_memory(memory) as source:
        with output.progress("copying", STEPS) as tell:

            def tell_progress(at: CopyProgress) -> None:
                share = at.conversations / max(at.total_conversations, 1)
                tell(int(STEPS / 2 * (share + (at.step == "check"))))

            report = await copy_memory(source, target, scope=scope, progress=tell_progress)
    if output.is_json:
        output.print_json(
            {"source": describe_url(memory_url(memory)), "target": describe_url(target), **asdict(report)}
        )
        return
    known = report.unchanged_conversations
    output.print_sentence(
        f"{describe_url(target)} has {count(report.messages, 'message')} of "
        f"{count(report.conversations, 'conversation')}, the same as the source"
        + (f"; {count(known, 'conversation was', 'conversations were')} already copied" if known else "")
    )
