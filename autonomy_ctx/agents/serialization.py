"""The options of an agent as JSON and back.

Tools and hooks are saved by name and looked up in their registries. A model, a template, memory and tool
servers cannot be saved; pass them again.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, fields
from typing import Any

from autonomy_ctx.agents.agent_tools import own_tools
from autonomy_ctx.agents.options import AgentOptions, read_limits
from autonomy_ctx.containers.pool import ContextPool
from autonomy_ctx.containers.queue import ContextQueue
from autonomy_ctx.errors import InvalidAgent, InvalidContainer
from autonomy_ctx.hooks import hooks_from_names
from autonomy_ctx.tools.tool import ToolRegistry, ToolSource, tools_by_name

# The options that JSON can hold as they are.
_PLAIN_OPTIONS = (
    "enable_ask_for_user_input",
    "enable_filesystem",
    "enable_recall",
    "enable_pins",
    "filesystem_visibility",
    "explain_turns",
    "explain_seconds",
    "context",
    "turn_lease_seconds",
    "turn_wait_seconds",
)


def encode_options(given: AgentOptions) -> dict[str, Any]:
    """The options that are data, and the names of tools, tool servers and sub-agents."""
    options = {name: getattr(given, name) for name in _PLAIN_OPTIONS}
    root = given.filesystem_root
    options["filesystem_root"] = None if root is None else str(root)
    options["builtin_tools"] = list(given.builtin_tools)
    options["context_summary"] = _summary_options(given.context_summary)
    options["limits"] = asdict(read_limits(given.limits))
    return {
        "tools": list(tools_by_name(own_tools(given))),
        "tool_sources": [one.name for one in given.tools if isinstance(one, ToolSource)],
        "subagents": list(given.subagents or {}),
        "options": options,
    }


def decode_arguments(data: Mapping[str, Any], given: Mapping[str, Any]) -> dict[str, Any]:
    """The arguments of an agent from its dict. Those that are given override the values of the dict."""
    if not isinstance(data, Mapping) or not isinstance(data.get("name"), str):
        raise InvalidContainer("Agent", "name", "is missing")
    name = data["name"]
    lists = ("tools", "tool_sources", "subagents", "turns")
    shapes = [("options", Mapping), ("hooks", Mapping), *[(field, list) for field in lists]]
    for field, shape in shapes:
        if not isinstance(data.get(field), shape | None):
            raise InvalidContainer("Agent", field, f"must not be of type {type(data[field]).__name__}")
    missing = [sub for sub in data.get("subagents") or () if sub not in (given.get("subagents") or {})]
    if missing:
        raise InvalidAgent(
            name, f"was saved with the sub-agents {', '.join(missing)}; give `subagents` again"
        )
    if data.get("tool_sources") and "tools" not in given:
        raise InvalidAgent(
            name, f"was saved with the servers {', '.join(data['tool_sources'])}; give `tools` again"
        )
    options: dict[str, Any] = {**(data.get("options") or {})}
    unknown = sorted(str(option) for option in options if option not in AgentOptions.names())
    if unknown:
        raise InvalidContainer("Agent", "options", f"has unknown names: {', '.join(unknown)}")
    options |= {"description": data.get("description", ""), "instructions": data.get("instructions")}
    if "tools" not in given:
        options["tools"] = [ToolRegistry.get(tool) for tool in data.get("tools") or ()]
    if given.get("context_template") is not None:
        options.pop("context_summary", None)
    for field, container in (("context_queue", ContextQueue), ("context_pool", ContextPool)):
        if field not in given and data.get(field) is not None:
            options[field] = container.from_dict(data[field])
    if "hooks" not in given:
        options["hooks"] = hooks_from_names(data.get("hooks") or {})
    return {"name": name, **options, **given}


def _summary_options(value: Any) -> Any:
    """The options of `context_summary` without the model and a `profile` function, which cannot be saved."""
    # Imported here: compaction is for those who ask for summaries.
    from autonomy_ctx.compaction.config import ContextSummaryConfig
    from autonomy_ctx.compaction.schema import SummarySchema

    if isinstance(value, ContextSummaryConfig):
        value = {field.name: getattr(value, field.name) for field in fields(value)}
    if isinstance(value, Mapping):
        options = {
            name: option
            for name, option in value.items()
            if name != "model" and not (name == "profile" and callable(option))
        }
        schema = options.get("schema")
        return {**options, "schema": schema.to_dict()} if isinstance(schema, SummarySchema) else options
    return value
