"""`create_default_template`: the template of an agent that is given none."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Literal

from autonomy_ctx.background import Background
from autonomy_ctx.formats.model_info import context_window_of
from autonomy_ctx.messages.message import Message
from autonomy_ctx.sections.history import ConversationHistorySection
from autonomy_ctx.sections.instructions import (
    BUILTIN_TOOLS,
    FrameworkInstructionsSection,
    SystemInstructionsSection,
    ToolCatalogSection,
    ToolInstructionsSection,
    tools_with_instructions,
)
from autonomy_ctx.template.template import ContextTemplate

if TYPE_CHECKING:
    from autonomy_ctx.compaction.config import ContextSummaryConfig
    from autonomy_ctx.sections.profile import ProfileSection
    from autonomy_ctx.sections.summarized import SummarizedHistorySection

# Of the model's context window: what is left is for instructions, tools and the answer.
HARD_LIMIT_SHARE = 0.75


def create_default_template(
    instructions: str | Message | Mapping[str, Any] | Sequence[Message | Mapping[str, Any]],
    *,
    context_summary: bool | Literal["auto"] | Mapping[str, Any] | ContextSummaryConfig | None = None,
    model: Any = None,
    background: Background | None = None,
    enable_ask_for_user_input: bool = False,
    enable_filesystem: bool = False,
    filesystem_visibility: str = "conversation",
    subagent_configs: Mapping[str, Any] | None = None,
    tools: Sequence[Any] = (),
    enable_context_items: bool = False,
    enable_recall: bool = False,
    enable_pins: bool = False,
    builtin_tools: Iterable[str] = BUILTIN_TOOLS,
    clear_results_after: int | None = None,
    clear_images_after: int | None = None,
    tool_catalog: bool = False,
    max_tokens: int | float | None = None,
    reserve_output: int = 0,
    arrange: Literal["given", "cache"] = "given",
) -> ContextTemplate:
    """A template with system instructions, framework instructions, the history, and tool instructions.

    With `context_summary`, the older part of the history is summarized in the background. The summaries are
    written by the model that it names, or else by `model`, which reads the context.
    """
    clearing: dict[str, Any] = {
        "clear_results_after": clear_results_after,
        "clear_images_after": clear_images_after,
    }
    history: ConversationHistorySection | SummarizedHistorySection
    profile: list[ProfileSection] = []
    if context_summary is None or context_summary is False:
        history = ConversationHistorySection(reader=model, **clearing)
    else:
        # Imported here: compaction is for those who ask for summaries.
        from autonomy_ctx.compaction.config import read_config
        from autonomy_ctx.sections.summarized import SummarizedHistorySection

        config = read_config(context_summary, model=model)
        assert config is not None, "summaries were asked for"
        given = {name: value for name, value in clearing.items() if getattr(config, name) is None}
        config = replace(_with_hard_limit(config, model), **given)
        history = SummarizedHistorySection.of(config, reader=model, background=background)
        if config.profile:
            from autonomy_ctx.sections.profile import ProfileSection

            profile = [ProfileSection(timezone=config.timezone)]
    return ContextTemplate(
        [
            SystemInstructionsSection(instructions),
            FrameworkInstructionsSection(
                enable_ask_for_user_input=enable_ask_for_user_input,
                enable_filesystem=enable_filesystem,
                filesystem_visibility=filesystem_visibility,
                subagent_configs=subagent_configs,
                enable_context_items=enable_context_items,
                enable_recall=enable_recall,
                enable_pins=enable_pins,
                builtin_tools=builtin_tools,
            ),
            *([ToolCatalogSection()] if tool_catalog else []),
            *profile,
            history,
            *([ToolInstructionsSection(tools)] if tools_with_instructions(tools) else []),
        ],
        max_tokens=max_tokens,
        reserve_output=reserve_output,
        model=model,
        arrange=arrange,
    )


def _with_hard_limit(config: ContextSummaryConfig, model: Any) -> ContextSummaryConfig:
    """A configuration with a hard limit in tokens, if none was given and the reader's window is known."""
    window = context_window_of(model)
    # `auto` has one of its own.
    if config.auto or config.hard_limit_tokens is not None or window is None:
        return config
    if window * HARD_LIMIT_SHARE < 2 * config.size:
        return config
    return replace(config, hard_limit_tokens=HARD_LIMIT_SHARE)
