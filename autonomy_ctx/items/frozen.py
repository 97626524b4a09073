"""JSON values that cannot change, and the one place that says what a JSON value is.

A message is shared by memory, hot windows and composed contexts; if its `extra` could be edited
in one of them, it would be edited in all. So values are copied on the way in, checked while they
are copied, and copied again on the way out.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any, NoReturn

from autonomy_ctx.errors import InvalidMessage

MAX_DEPTH = 64


def _refuse(self: object, *args: object, **kwargs: object) -> NoReturn:
    raise TypeError("a message cannot be changed; make a new one with dataclasses.replace()")


class FrozenDict(dict[str, Any]):
    """A dict that reads, compares and serialises like any other but cannot be edited."""

    __slots__ = ()
    __setitem__ = __delitem__ = __ior__ = _refuse
    clear = pop = popitem = setdefault = update = _refuse

    def __hash__(self) -> int:  # type: ignore[override]
        return hash(frozenset(self.items()))

    def __reduce__(self) -> tuple[Callable[[dict[str, Any]], FrozenDict], tuple[dict[str, Any]]]:
        return FrozenDict, (dict(self),)


class FrozenList(list[Any]):
    """A list that reads, compares and serialises like any other but cannot be edited."""

    __slots__ = ()
    __setitem__ = __delitem__ = __iadd__ = __imul__ = _refuse
    append = clear = extend = insert = pop = remove = reverse = sort = _refuse

    def __hash__(self) -> int:  # type: ignore[override]
        return hash(tuple(self))

    def __reduce__(self) -> tuple[Callable[[list[Any]], FrozenList], tuple[list[Any]]]:
        return FrozenList, (list(self),)


EMPTY = FrozenDict()


def freeze(value: Any) -> Any:
    """A read-only copy of a JSON value that is already known to be one."""
    if isinstance(value, dict):
        return FrozenDict({key: freeze(inner) for key, inner in value.items()})
    if isinstance(value, list):
        return FrozenList([freeze(inner) for inner in value])
    return value


def thaw(value: Any) -> Any:
    """A plain copy of a JSON value that nobody else holds."""
    if isinstance(value, dict):
        return {key: inner if type(inner) is str else thaw(inner) for key, inner in value.items()}
    if isinstance(value, list):
        return [thaw(inner) for inner in value]
    return value


def checked(value: Any, path: str, depth: int = 0) -> Any:
    """A plain copy of `value`, or `InvalidMessage` naming the place that is not JSON."""
    kind = type(value)
    if kind is str or value is None or kind is bool or kind is int:
        return value
    if depth > MAX_DEPTH:
        # A cycle ends here too: it is deeper than anything a model could read.
        raise InvalidMessage(_short(path), f"is nested more than {MAX_DEPTH} levels deep, or contains itself")
    if isinstance(value, dict):
        copy: dict[str, Any] = {}
        for key, inner in value.items():
            if not isinstance(key, str):
                raise InvalidMessage(
                    _short(path), f"has a key of type {type(key).__name__}; keys must be strings"
                )
            copy[str(key)] = inner if type(inner) is str else checked(inner, f"{path}.{key}", depth + 1)
        return copy
    if isinstance(value, list):
        return [checked(inner, f"{path}[{index}]", depth + 1) for index, inner in enumerate(value)]
    if isinstance(value, float):
        if not math.isfinite(value):
            raise InvalidMessage(_short(path), f"is {value}, which JSON cannot hold; use None or a string")
        return float(value)
    # Enums and other subclasses of the JSON types are stored as what they stand for.
    if isinstance(value, str):
        return str.__str__(value)
    if isinstance(value, int):
        return int(value)
    raise InvalidMessage(
        _short(path),
        f"is of type {kind.__name__}, which JSON cannot hold; convert it to a string, number, list or dict",
    )


def _short(path: str) -> str:
    return path if len(path) <= 120 else f"{path[:60]}...{path[-50:]}"
