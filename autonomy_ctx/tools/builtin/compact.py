"""`compact_context`: a model asks for a summary of its conversation, which is written after the turn."""

from __future__ import annotations

from typing import Any

from autonomy_ctx.memory.memory import Memory
from autonomy_ctx.memory.store import make_key
from autonomy_ctx.tools.tool import tool

# More would be a summary, and not what to preserve in one.
MAX_PRESERVE_CHARACTERS = 1_000


@tool
def compact_context(
    memory: Memory, scope: str, conversation: str, agent: Any, reason: str, preserve: str = ""
) -> str:
    """Have the older part of this conversation summarized after this turn, for example when a task is done.

    Args:
        reason: Why now, in a few words.
        preserve: What the summary must keep: decisions, names, numbers, open work.
    """
    key = make_key(memory.agent, scope, conversation)
    agent.compactions[key] = preserve.strip()[:MAX_PRESERVE_CHARACTERS] or None
    return "The older messages will be summarized when this turn has ended; go on."
