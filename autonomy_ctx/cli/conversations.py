"""`autonomy-ctx conversations`: which conversations a memory has."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated, Any

import typer
from rich.table import Table
from rich.text import Text

from autonomy_ctx.cli.output import Output, clean_line, format_time, make_table
from autonomy_ctx.cli.target import AgentOption, MemoryOption, ScopeOption, iterate_all, open_memory
from autonomy_ctx.memory.store import ConversationInfo


async def list_all(
    output: Output,
    memory: MemoryOption = None,
    scope: ScopeOption = None,
    agent: AgentOption = None,
    limit: Annotated[int, typer.Option("--limit", "-n", min=1)] = 100,
) -> None:
    """List the conversations of a memory: scope, agent, name, messages, and the time of the last message.

    Args:
        limit: The maximum number of conversations.
    """
    async with open_memory(memory) as opened:
        found: list[ConversationInfo] = []
        async for info in iterate_all(opened, scope, agent):
            found.append(info)
            if len(found) > limit:
                break
    listed, has_more = found[:limit], len(found) > limit
    if output.is_json:
        output.print_json({"conversations": [to_dict(info) for info in listed], "more": has_more})
        return
    if not listed:
        output.note("there are no conversations" + (" with these names" if scope or agent else " yet"))
        return
    output.print(_draw(listed))
    if has_more:
        output.note(f"only the first {limit:,} are shown; use --scope, --agent or --limit to see others")


def to_dict(info: ConversationInfo) -> dict[str, Any]:
    """A conversation of a listing, for JSON."""
    return {
        "conversation": info.conversation,
        "scope": info.scope,
        "agent": info.agent,
        "messages": info.messages,
        "first_at": info.first_at.isoformat(),
        "last_at": info.last_at.isoformat(),
    }


def _draw(listed: Sequence[ConversationInfo]) -> Table:
    """A row per conversation. Names of agents and scopes are a column only where they tell something."""
    table = make_table("conversation", "scope")
    has_agents = any(info.agent for info in listed)
    if has_agents:
        table.add_column("agent")
    table.add_column("messages", justify="right")
    table.add_column("last message", no_wrap=True)
    for info in listed:
        agent = [clean_line(info.agent)] if has_agents else []
        table.add_row(
            Text(clean_line(info.conversation), style="bold"),
            clean_line(info.scope),
            *agent,
            f"{info.messages:,}",
            Text(format_time(info.last_at), style="dim"),
        )
    return table
