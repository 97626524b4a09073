"""`autonomy-ctx mcp`: one scope of a memory as an MCP server, for any MCP client."""

from __future__ import annotations

import signal
import sys
from typing import Annotated

import anyio
import typer

from autonomy_ctx.cli.output import Output, WrongInput
from autonomy_ctx.cli.target import TOKEN_VARIABLE, WHERE, AgentOption, MemoryOption, is_new_file, open_memory
from autonomy_ctx.memory.memory import Memory


async def serve_mcp(
    output: Output,
    scope: Annotated[str, typer.Option("--scope", "-s", metavar="NAME", rich_help_panel=WHERE)],
    memory: MemoryOption = None,
    agent: AgentOption = None,
    conversation: Annotated[
        str | None, typer.Option("--conversation", "-c", metavar="NAME", rich_help_panel=WHERE)
    ] = None,
    write: bool = False,
    http: bool = False,
    host: Annotated[str, typer.Option(metavar="ADDRESS")] = "127.0.0.1",
    port: Annotated[int, typer.Option("--port", "-p")] = 0,
    token: Annotated[str | None, typer.Option(metavar="TOKEN", envvar=TOKEN_VARIABLE)] = None,
) -> None:
    """Serve a scope of a memory to MCP clients: search, conversations, facts, pins and contexts of turns.

    The default is stdio: a client starts the command, and stdout has only the protocol. Clients can only
    read, unless --write is given; then a database that does not exist is created. It is never upgraded.

    Args:
        scope: The only scope (a user or tenant) that is served.
        conversation: Only this conversation.
        write: Let clients remember, pin, change facts.
        http: Serve over HTTP instead of stdio.
        host: The address to listen on, with --http.
        port: The port of --http; 0 means any free port.
        token: The token that clients must send, with --http. Without it, a random token is made.
    """
    if not http and (port or host != "127.0.0.1"):
        raise WrongInput("--host and --port need --http; without it, a client uses stdio")
    async with open_memory(memory, create=write and is_new_file(memory)) as opened:
        await _serve(
            output,
            opened,
            scope,
            agent=agent,
            conversation=conversation,
            write=write,
            address=(host, port, token) if http else None,
        )


async def _serve(
    output: Output,
    memory: Memory,
    scope: str,
    *,
    agent: str | None,
    conversation: str | None,
    write: bool,
    address: tuple[str, int, str | None] | None,
) -> None:
    try:
        from autonomy_ctx.server.mcp.memory_tools import MemoryTools
        from autonomy_ctx.server.mcp.server import serve_http, serve_stdio
    except ImportError as error:
        raise WrongInput("MCP needs the extra `mcp`: pip install 'autonomy-ctx[cli,mcp]'") from error
    tools = MemoryTools(memory, scope, agent=agent, conversation=conversation, write=write)
    if not write and not await memory.conversations(scope, agent=agent, limit=1):
        output.warn(f"there are no conversations of scope {scope!r} yet; clients will find nothing")
    if address is None:
        await serve_stdio(tools)
        return
    host, port, token = address
    with anyio.open_signal_receiver(signal.SIGINT, signal.SIGTERM) as signals:
        async with serve_http(tools, host=host, port=port, token=token) as served:
            # A token that was given is not repeated.
            shown = served.token if token is None else None
            if output.is_json:
                output.print_json_line({"url": served.url, "token": shown})
            else:
                output.print_row("address", served.url)
                output.print_row("token", shown or "as given", "bold" if shown else "dim")
                output.note("clients send it as `Authorization: Bearer`; Ctrl-C stops the server")
            sys.stdout.flush()
            async for _ in signals:
                return
