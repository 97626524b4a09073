"""The template an agent gets when it brings none of its own."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from autonomy_ctx.items.message import Message
from autonomy_ctx.sections.framework import FrameworkInstructionsSection
from autonomy_ctx.sections.history import ConversationHistorySection
from autonomy_ctx.sections.instructions import SystemInstructionsSection
from autonomy_ctx.template.template import ContextTemplate


def create_default_template(
    instructions: str | Message | Mapping[str, Any] | Sequence[Message | Mapping[str, Any]],
    *,
    enable_ask_for_user_input: bool = False,
    enable_filesystem: bool = False,
    filesystem_visibility: str = "conversation",
    subagent_configs: Mapping[str, Any] | None = None,
) -> ContextTemplate:
    """System instructions, framework instructions and the conversation's history."""
    return ContextTemplate(
        [
            SystemInstructionsSection(instructions),
            FrameworkInstructionsSection(
                enable_ask_for_user_input=enable_ask_for_user_input,
                enable_filesystem=enable_filesystem,
                filesystem_visibility=filesystem_visibility,
                subagent_configs=subagent_configs,
            ),
            ConversationHistorySection(),
        ]
    )
