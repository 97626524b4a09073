"""A piece of context: any payload, with a short description and an id to find it by.

All containers and branches share the same item object. So an item keeps a private copy of its content and
returns copies: changes of the original value or of a returned value do not affect the item.
"""

from __future__ import annotations

import copy
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Generic, TypeVar, overload

from autonomy_ctx.errors import InvalidItem, InvalidMessage
from autonomy_ctx.messages.json_values import validate_json

T = TypeVar("T")
_SIMPLE = frozenset({str, int, float, bool, bytes, type(None)})


class _CopyOnAccess(Generic[T]):
    """A field that is copied when it is written and whenever it is read."""

    def __set_name__(self, owner: type, name: str) -> None:
        self._name = name

    @overload
    def __get__(self, instance: None, owner: type) -> _CopyOnAccess[T]: ...
    @overload
    def __get__(self, instance: object, owner: type) -> T: ...
    def __get__(self, instance: object | None, owner: type) -> _CopyOnAccess[T] | T:
        if instance is None:
            # A dataclass takes this to mean that the field has no default.
            raise AttributeError(self._name)
        value: T = _deep_copy(vars(instance)[self._name])
        return value

    def __set__(self, instance: object, value: T) -> None:
        vars(instance)[self._name] = _deep_copy(value)


@dataclass(frozen=True, eq=False)
class ContextItem(Generic[T]):
    """An immutable item; `content` is a new copy each time it is read."""

    content: _CopyOnAccess[T] = _CopyOnAccess()  # a descriptor, not a default
    description: str | None = None
    id: str | None = None

    def __post_init__(self) -> None:
        for name in ("description", "id"):
            value = getattr(self, name)
            if value is not None and not isinstance(value, str):
                raise TypeError(f"ContextItem: `{name}` must be a string or None, not {type(value).__name__}")

    def __eq__(self, other: object) -> bool:
        # Without the copies that reading the fields would make.
        return vars(self) == vars(other) if type(other) is type(self) else NotImplemented

    def __hash__(self) -> int:
        # Content need not be hashable.
        return hash((self.id, self.description))

    def to_dict(self) -> dict[str, Any]:
        """The item as JSON. Raises `InvalidItem`, with the path, if JSON cannot represent the content."""
        return item_to_json(self, "")

    @classmethod
    def from_dict(cls, data: Mapping[str, Any]) -> ContextItem[Any]:
        """An item from what `to_dict` wrote; a missing description or id is None."""
        return item_from_json(cls, data, "")


def item_to_json(item: ContextItem[Any], prefix: str) -> dict[str, Any]:
    """An item's dict; an error writes `prefix` before the name of the field."""
    try:
        content = validate_json(vars(item)["content"], f"{prefix}content")
    except InvalidMessage as error:
        raise InvalidItem(error.field, error.problem) from None
    return {"content": content, "description": item.description, "id": item.id}


def item_from_json(kind: type[ContextItem[Any]], data: Any, path: str) -> ContextItem[Any]:
    """An item from its dict, which errors find at `path`."""
    if not isinstance(data, Mapping):
        raise InvalidItem(path or "item", f"must be a dict, not {type(data).__name__}")
    prefix = f"{path}." if path else ""
    if "content" not in data:
        raise InvalidItem(f"{prefix}content", "is missing")
    for name in ("description", "id"):
        if not isinstance(data.get(name), str | None):
            raise InvalidItem(f"{prefix}{name}", f"must be a string or None, not {type(data[name]).__name__}")
    return kind(data["content"], data.get("description"), data.get("id"))


def _deep_copy(value: Any) -> Any:
    if type(value) in _SIMPLE:
        return value
    try:
        return copy.deepcopy(value)
    except Exception as error:
        raise TypeError(
            f"ContextItem: content of type {type(value).__name__} cannot be copied "
            f"({type(error).__name__}); use plain data, or a name or path that identifies the object"
        ) from error
