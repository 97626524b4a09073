"""Queues and pools as JSON: their limit, their items and the names of their hooks."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from autonomy_ctx.containers.item import ContextItem, item_from_json, item_to_json
from autonomy_ctx.errors import InvalidContainer
from autonomy_ctx.hooks import Hook, by_name, from_names


@dataclass(frozen=True, slots=True, kw_only=True)
class Saved:
    """What was read; the container decides whether it can be that."""

    limit: Any
    items: list[ContextItem[Any]]
    hooks: list[Hook]


def to_json(limit: int | None, items: Iterable[ContextItem[Any]], hooks: Iterable[Hook]) -> dict[str, Any]:
    """A container as JSON; an error says which item it is about."""
    written = [item_to_json(item, f"items[{index}].") for index, item in enumerate(items)]
    return {"limit": limit, "items": written, "hooks": by_name(hooks)}


def from_json(kind: str, data: Any) -> Saved:
    """The parts of a container, of which all may be missing."""
    if not isinstance(data, Mapping):
        raise InvalidContainer(kind, "data", f"must be a dict, not {type(data).__name__}")
    items, hooks = data.get("items"), data.get("hooks")
    if not isinstance(items, list | tuple | None):
        raise InvalidContainer(kind, "items", f"must be a list, not {type(items).__name__}")
    if not isinstance(hooks, Mapping | None) or not all(map(_are_names, (hooks or {}).values())):
        raise InvalidContainer(kind, "hooks", "must be a dict of lists of function names")
    return Saved(
        limit=data.get("limit"),
        items=[
            item_from_json(ContextItem, item, f"items[{index}]") for index, item in enumerate(items or ())
        ],
        hooks=from_names(hooks or {}),
    )


def _are_names(value: Any) -> bool:
    return isinstance(value, list | tuple) and all(isinstance(name, str) for name in value)
