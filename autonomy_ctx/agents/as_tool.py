"""An agent as a tool of another one."""

from __future__ import annotations

import math
import re
from typing import TYPE_CHECKING, Any

from autonomy_ctx.tools.tool import Tool

if TYPE_CHECKING:
    from autonomy_ctx.agents.agent import Agent

_UNFIT = re.compile(r"[^a-zA-Z0-9_-]+")


def told_as_tool(agent: Agent, name: str | None, description: str | None) -> Tool[..., Any]:
    """A tool that asks the agent, in the scope and conversation of whoever calls it."""

    async def ask(message: str, scope: str | None = None, conversation: str | None = None) -> str:
        """Ask another agent.

        Args:
            message: What it is to do or answer, with all that it has to know.
        """
        where: dict[str, Any] = {"scope": scope, "conversation": conversation}
        reply = await agent.send(message, **{part: name for part, name in where.items() if name is not None})
        return reply.text

    lines = (description or agent.description or agent.instructions).strip().splitlines()
    return Tool(
        ask,
        name=name or _UNFIT.sub("_", agent.name)[:64],
        description=description or (lines[0] if lines else f"Ask the agent {agent.name}."),
        # The agent has limits of its own.
        timeout=math.inf,
    )
