"""What hosts an agent: a node, or for a sub-agent its team."""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol, runtime_checkable

from autonomy_ctx.background import Background
from autonomy_ctx.memory.memory import Memory

if TYPE_CHECKING:
    from autonomy_ctx.agents.agent import Agent


@runtime_checkable
class Host(Protocol):
    """What an agent needs of the node that hosts it."""

    memory: Memory
    background: Background

    def host(self, agent: Agent) -> None:
        """Take an agent in, under its name."""

    def release(self, agent: Agent) -> None:
        """Let an agent go that has been closed."""
