"""The tools an agent works with: those it is given, and the built-in ones that are on."""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from autonomy_ctx.tools.builtin.ask_user import ask_user_for_input
from autonomy_ctx.tools.builtin.files import filesystem_tools
from autonomy_ctx.tools.builtin.lookup import read_context_item
from autonomy_ctx.tools.builtin.recall import recall_tools
from autonomy_ctx.tools.builtin.time import get_current_time, get_current_time_utc
from autonomy_ctx.tools.tool import Tool, tools_by_name

# Where an agent's files are when no other place is named, beneath the working folder.
FILES = "agent-files"


@dataclass(frozen=True, slots=True, kw_only=True)
class BuiltIn:
    """Which of the built-in tools are on."""

    ask_for_user_input: bool = False
    filesystem: bool = False
    filesystem_visibility: str = "conversation"
    filesystem_root: str | os.PathLike[str] | None = None
    recall: bool = False
    context_items: bool = False

    def described(self) -> dict[str, Any]:
        """What a template has to say about them."""
        return {
            "enable_ask_for_user_input": self.ask_for_user_input,
            "enable_filesystem": self.filesystem,
            "filesystem_visibility": self.filesystem_visibility,
            "enable_recall": self.recall,
            "enable_context_items": self.context_items,
        }


def equipped(
    given: Iterable[Any], built_in: BuiltIn, others: Sequence[Tool[..., Any]]
) -> dict[str, Tool[..., Any]]:
    """All tools by name; the ones that were given come first."""
    made: list[Any] = [*given, get_current_time_utc, get_current_time]
    if built_in.context_items:
        made.append(read_context_item)
    if built_in.filesystem:
        root = built_in.filesystem_root or Path(FILES)
        made += filesystem_tools(root, built_in.filesystem_visibility)  # type: ignore[arg-type]  # checked there
    if built_in.recall:
        made += recall_tools()
    if built_in.ask_for_user_input:
        made.append(ask_user_for_input)
    return tools_by_name([*made, *others])


def specs_of(tools: Mapping[str, Tool[..., Any]]) -> list[dict[str, Any]]:
    """What a model is told of the tools."""
    return [tool.spec for tool in tools.values()]
