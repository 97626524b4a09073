"""A function's parameters: those a model fills in, and those that are injected."""

from __future__ import annotations

import functools
import inspect
import typing
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from types import SimpleNamespace
from typing import Any

from autonomy_ctx.errors import InvalidTool
from autonomy_ctx.tools.kinds import MISSING, Field, Record, Shape

# Given by whoever runs the tool, never by the model, which does not see them.
INJECTED = frozenset({"pool", "memory", "scope", "conversation", "agent"})


@dataclass(frozen=True, slots=True)
class Parameters:
    """What a model fills in as a record, and which names are injected, with whether they must be."""

    record: Record
    injected: Mapping[str, bool]
    rest_name: str | None


def underlying(function: Any) -> Any:
    """The function itself, where its names and its docstring are: below wrappers and partials."""
    function = inspect.unwrap(function)
    while isinstance(function, functools.partial):
        function = function.func
    return function if hasattr(function, "__globals__") else type(function).__call__


def checked_signature(tool: str, function: Callable[..., Any]) -> inspect.Signature:
    """The signature, or `InvalidTool` if a model could not call it by names."""
    try:
        signature = inspect.signature(function)
    except (TypeError, ValueError):
        raise InvalidTool(tool, "has no signature to read; wrap it in a function of your own") from None
    for parameter in signature.parameters.values():
        if parameter.kind is inspect.Parameter.VAR_POSITIONAL:
            raise InvalidTool(
                tool,
                f"takes *{parameter.name}, but a model gives arguments by name; "
                f"make it a parameter of its own, such as `{parameter.name}: list[str]`",
            )
    return signature


def resolved(function: Callable[..., Any], annotation: Any, names: Mapping[str, Any]) -> Any:
    """An annotation with the names in it looked up; as it is where one cannot be found."""
    holder = SimpleNamespace(__annotations__={"it": annotation})
    known = getattr(underlying(function), "__globals__", {})
    try:
        return typing.get_type_hints(holder, known, dict(names), include_extras=True)["it"]
    except Exception:
        # For example a name that only a type checker imports.
        return annotation


def parameters_of(
    tool: str,
    function: Callable[..., Any],
    signature: inspect.Signature,
    hints: Mapping[str, Any],
    described: Mapping[str, str],
) -> Parameters:
    """The parameters with the shapes that `hints` give them."""
    fields: list[Field] = []
    injected: dict[str, bool] = {}
    rest, rest_name = None, None
    for name, parameter in signature.parameters.items():
        hint = Any if parameter.annotation is parameter.empty else hints[name]
        required = parameter.default is parameter.empty
        if parameter.kind is parameter.VAR_KEYWORD:
            rest, rest_name = Shape(hint), name
        elif name in INJECTED:
            injected[name] = required
        else:
            default = MISSING if required else parameter.default
            fields.append(Field(name, Shape(hint), default, required, described.get(name)))
    return Parameters(Record(tool, function, tuple(fields), rest), injected, rest_name)
