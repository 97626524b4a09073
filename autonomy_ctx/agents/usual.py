"""The context of an agent that brings no template of its own."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from datetime import datetime
from typing import Any

from autonomy_ctx.agents.equipment import BuiltIn
from autonomy_ctx.background import Background
from autonomy_ctx.sections.inbox import InboxSection
from autonomy_ctx.template.defaults import create_default_template
from autonomy_ctx.template.placement import HISTORY
from autonomy_ctx.template.template import ContextTemplate


def usual_template(
    instructions: str,
    built_in: BuiltIn,
    *,
    context_summary: Any,
    model: Any,
    background: Background,
    subagents: Mapping[str, Any] | None,
    tools: Sequence[Any],
    clock: Callable[[], datetime],
) -> ContextTemplate:
    """The default template, with the agent's mail after the history."""
    template = create_default_template(
        instructions,
        context_summary=context_summary,
        model=model,
        background=background,
        enable_ask_for_user_input=built_in.ask_for_user_input,
        enable_filesystem=built_in.filesystem,
        filesystem_visibility=built_in.filesystem_visibility,
        subagent_configs=subagents,
        tools=tools,
        enable_context_items=built_in.context_items,
        enable_recall=built_in.recall,
    )
    after = template.get_section_names().index(HISTORY) + 1
    template.add_section(InboxSection(clock=clock), after)
    return template
