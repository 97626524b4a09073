"""`autonomy-ctx inspect`: the inspector page, on this machine or as one file."""

from __future__ import annotations

import heapq
import signal
import sys
import webbrowser
from datetime import datetime
from typing import Annotated, NamedTuple
from urllib.parse import quote, urlencode

import anyio
import anyio.to_thread
import typer

from autonomy_ctx.cli.inspector_file import make_inspector_html
from autonomy_ctx.cli.output import Output, WrongInput, count
from autonomy_ctx.cli.target import (
    AgentOption,
    MemoryOption,
    ScopeOption,
    find_conversation,
    iterate_all,
    open_memory,
)
from autonomy_ctx.cli.transfer import STREAM, open_new
from autonomy_ctx.memory.memory import Memory
from autonomy_ctx.memory.store import Key

# A file with more conversations is slow to open.
MAX_FILE_CONVERSATIONS = 50


async def inspect(
    output: Output,
    conversation: Annotated[str | None, typer.Argument(metavar="[CONVERSATION]")] = None,
    memory: MemoryOption = None,
    scope: ScopeOption = None,
    agent: AgentOption = None,
    html: Annotated[str | None, typer.Option(metavar="FILE")] = None,
    port: Annotated[int, typer.Option("--port", "-p")] = 0,
    write: bool = False,
    open_browser: Annotated[bool, typer.Option("--open")] = False,
) -> None:
    """Show conversations in a browser: the timeline, every turn, the summary, the facts.

    The page is served on this machine only, with a new random token, until Ctrl-C. With --html, it is
    written to a file that needs no server.

    Args:
        conversation: The conversation to show first; with --html, the only one to write.
        html: Write one self-contained HTML file instead; - means stdout.
        port: The port; 0 means any free port.
        write: Allow changes and deletions on the page.
        open_browser: Open the page in the browser.
    """
    if html is not None and (port or write or open_browser):
        raise WrongInput("--html writes a file and starts no server; leave out --port, --write and --open")
    async with open_memory(memory) as opened:
        if html is not None:
            await _write_file(output, opened, html, await _choose(opened, conversation, scope, agent))
            return
        view = ""
        # Without names the page chooses: there may be millions.
        if conversation is not None or scope is not None or agent is not None:
            chosen = await _choose(opened, conversation, scope, agent)
            view = _view(chosen.keys[0]) if chosen.keys else ""
        await _serve(output, opened, port=port, write=write, view=view, open_browser=open_browser)


def _view(key: Key) -> str:
    """The part of the address that says which conversation the page begins with."""
    return f"&view={quote(f'/conversation?{urlencode(key._asdict())}', safe='')}"


async def _serve(
    output: Output, memory: Memory, *, port: int, write: bool, view: str, open_browser: bool
) -> None:
    """Serve the page until Ctrl-C or a TERM signal."""
    try:
        from autonomy_ctx.server.inspector.app import inspector_server
    except ImportError as error:
        raise WrongInput(
            "the page needs the extra `server`: pip install 'autonomy-ctx[cli,server]'; --html FILE does not"
        ) from error
    with anyio.open_signal_receiver(signal.SIGINT, signal.SIGTERM) as signals:
        async with inspector_server(memory, port=port, write=write) as address:
            page = address.page + view
            if output.is_json:
                output.print_json({"url": address.url, "token": address.token, "page": page})
            else:
                # An address on two lines cannot be clicked.
                output.console.print(page, soft_wrap=True)
                output.note("open it in a browser on this machine; Ctrl-C stops it")
            sys.stdout.flush()
            if open_browser:
                await anyio.to_thread.run_sync(webbrowser.open, page)
            async for _ in signals:
                return


class ConversationChoice(NamedTuple):
    """The newest conversations that the names leave, and how many older ones there are."""

    keys: list[Key]
    left_out: int = 0


async def _choose(
    memory: Memory, name: str | None, scope: str | None, agent: str | None
) -> ConversationChoice:
    """The conversation that was named, or the newest that there are."""
    if name is not None:
        return ConversationChoice([await find_conversation(memory, name, agent=agent, scope=scope)])
    newest: list[tuple[datetime, Key]] = []
    left_out = 0
    async for info in iterate_all(memory, scope, agent):
        heapq.heappush(newest, (info.last_at, info.key))
        if len(newest) > MAX_FILE_CONVERSATIONS:
            heapq.heappop(newest)
            left_out += 1
    return ConversationChoice([key for _, key in sorted(newest, reverse=True)], left_out)


async def _write_file(output: Output, memory: Memory, file: str, chosen: ConversationChoice) -> None:
    keys, left_out = chosen
    if not keys:
        raise WrongInput("there are no conversations to write; `autonomy-ctx conversations` lists them")
    with open_new(file, force=True) as target:
        with output.progress("reading", total=len(keys)) as report_progress:
            page = (await make_inspector_html(memory, keys, report_progress=report_progress)).encode()
        target.write(page)
    size = len(page)
    if file == STREAM:
        return
    if output.is_json:
        output.print_json({"file": file, "bytes": size, "conversations": len(keys), "left_out": left_out})
        return
    output.note(
        f"{file}: {count(len(keys), 'conversation')}, {size / 1_000_000:.1f} MB; open it in a browser"
    )
    if left_out:
        output.note(f"{count(left_out, 'older conversation')} left out; choose by --scope or a name")
