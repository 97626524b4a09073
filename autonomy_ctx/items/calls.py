"""A model's request to run a tool, in the spellings that providers and the dict form use."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from autonomy_ctx.errors import InvalidMessage
from autonomy_ctx.items.frozen import EMPTY, checked, freeze, thaw


@dataclass(frozen=True, slots=True)
class ToolCall:
    """One call: which tool, with which arguments (JSON text), under which id.

    `extra` travels with the call, for example a provider's thought signature.
    """

    id: str | None
    name: str
    arguments: str = ""
    extra: Mapping[str, Any] = EMPTY

    def __post_init__(self) -> None:
        if self.id is not None and not isinstance(self.id, str):
            raise InvalidMessage("tool_calls.id", f"must be a string, not {type(self.id).__name__}")
        if not isinstance(self.name, str):
            raise InvalidMessage("tool_calls.name", f"must be a string, not {type(self.name).__name__}")
        if not isinstance(self.arguments, str):
            raise InvalidMessage("tool_calls.arguments", "must be JSON text; use json.dumps on a dict")
        if self.extra is not EMPTY:
            if not isinstance(self.extra, Mapping):
                raise InvalidMessage("tool_calls.extra", f"must be a dict, not {type(self.extra).__name__}")
            object.__setattr__(self, "extra", freeze(checked(dict(self.extra), "tool_calls.extra")))

    def parsed_arguments(self) -> dict[str, Any]:
        """The arguments as a dict; empty text means no arguments."""
        if not self.arguments.strip():
            return {}
        try:
            value = json.loads(self.arguments)
        except ValueError as error:
            raise InvalidMessage("tool_calls.arguments", f"of `{self.name}` is not JSON: {error}") from None
        if not isinstance(value, dict):
            raise InvalidMessage(
                "tool_calls.arguments", f"must hold a JSON object, not {type(value).__name__}"
            )
        return value


_OUTER = frozenset({"id", "type", "function", "name", "arguments", "extra"})


def parse_call(value: Any, path: str) -> ToolCall:
    """A call from a `ToolCall`, the nested OpenAI shape or the flat `{"id", "name"}` shape."""
    if isinstance(value, ToolCall):
        return value
    if not isinstance(value, dict):
        raise InvalidMessage(path, f"must be a dict, not {type(value).__name__}")
    inner = value.get("function", value)
    if not isinstance(inner, dict):
        raise InvalidMessage(f"{path}.function", f"must be a dict, not {type(inner).__name__}")
    name, arguments, call_id = inner.get("name"), inner.get("arguments", ""), value.get("id")
    if not isinstance(name, str):
        where = f"{path}.function.name" if inner is not value else f"{path}.name"
        raise InvalidMessage(
            where, "is missing" if name is None else f"must be a string, not {type(name).__name__}"
        )
    if call_id is not None and not isinstance(call_id, str):
        raise InvalidMessage(f"{path}.id", f"must be a string, not {type(call_id).__name__}")
    if arguments is None:
        arguments = ""
    elif not isinstance(arguments, str):
        arguments = json.dumps(checked(arguments, f"{path}.arguments"), ensure_ascii=False)
    extra = value.get("extra") or {}
    if not isinstance(extra, dict):
        raise InvalidMessage(f"{path}.extra", f"must be a dict, not {type(extra).__name__}")
    extra = {**extra, **{key: inner for key, inner in value.items() if key not in _OUTER}}
    return ToolCall(call_id, name, arguments, extra or EMPTY)


def call_to_json(call: ToolCall) -> dict[str, Any]:
    """A call in the nested shape."""
    shape: dict[str, Any] = {
        "id": call.id,
        "type": "function",
        "function": {"name": call.name, "arguments": call.arguments},
    }
    if call.extra:
        shape["extra"] = thaw(call.extra)
    return shape
