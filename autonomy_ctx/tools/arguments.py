"""Checks a model's arguments and converts them to the types of the function's annotations.

A few mistakes of models are unambiguous and are accepted:

- a number written as text (`"5"`) where a number is wanted, `5.0` for the integer 5;
- `"true"` and `"false"` where true or false is wanted;
- a list or an object written as JSON text where a list or an object is wanted;
- the name of an enum's member in place of its value.

Where a union also takes what came as it is, it is taken as it is. Everything else is refused with
an error that says which argument, what was expected and what came; long content is not repeated.
"""

from __future__ import annotations

import json
import math
import re
from collections.abc import Callable, Mapping, Sequence
from typing import Any, NoReturn, assert_never

from autonomy_ctx.errors import InvalidArguments
from autonomy_ctx.messages.json_values import preview
from autonomy_ctx.messages.message import ToolCall
from autonomy_ctx.tools.schema import (
    Anything,
    Choice,
    Either,
    FixedList,
    Kind,
    ListShape,
    ModelClass,
    ObjectKind,
    ParsedText,
    Scalar,
    Shape,
    Table,
)

_TYPE_WORDS: dict[type, str] = {
    str: "text",
    int: "an integer",
    float: "a number",
    bool: "true or false",
    type(None): "null",
}
_INTEGER = re.compile(r"[+-]?[0-9]{1,400}")
_NUMBER = re.compile(r"[+-]?([0-9]{1,400}(\.[0-9]{0,400})?|\.[0-9]{1,400})([eE][+-]?[0-9]{1,4})?")


def describe_value(value: Any) -> str:
    """A value in a few words; long text is not repeated."""
    match value:
        case None:
            return "null"
        case bool():
            return "true" if value else "false"
        case int() | float():
            return f"the number {preview(value)}"
        case str():
            return f"the text {value!r}" if len(value) <= 40 else f"a text of {len(value):,} characters"
        case list():
            return f"a list of {len(value):,}"
        case dict():
            return f"an object with {len(value):,} keys"
        case _:
            return f"a {type(value).__name__}"


def describe_kind(kind: Kind) -> str:
    """The values that a kind takes, in a few words."""
    match kind:
        case Scalar():
            return _TYPE_WORDS[kind.type]
        case Choice():
            return f"one of {', '.join(json.dumps(option) for option, _ in kind.options[:20])}"
        case ListShape():
            return "a list"
        case FixedList():
            return f"a list of {len(kind.items)}"
        case Either():
            return " or ".join(dict.fromkeys(describe_kind(option.kind) for option in kind.options))
        case ParsedText():
            return f"text with {kind.content}"
        case Table() | ObjectKind() | ModelClass():
            return "an object"
        case Anything():
            return "anything"
        case _:
            assert_never(kind)


class _Mismatch(Exception):
    """A value that does not fit, and where it is."""

    def __init__(self, path: str, problem: str) -> None:
        super().__init__(problem)
        self.path, self.problem = path, problem


def parse_arguments(call: ToolCall) -> dict[str, Any]:
    """The arguments of a call as an object; empty text means none."""
    if not call.arguments.strip():
        return {}
    try:
        value = json.loads(call.arguments, parse_constant=_refuse_constant)
    except RecursionError:
        raise InvalidArguments(call.name, "has arguments that are nested too deeply") from None
    except json.JSONDecodeError as error:
        problem = f"has arguments that are not JSON ({error.msg} at character {error.pos})"
        raise InvalidArguments(call.name, problem) from None
    except ValueError as error:
        raise InvalidArguments(call.name, f"has arguments that are not JSON ({error})") from None
    if not isinstance(value, dict):
        raise InvalidArguments(
            call.name, f"needs a JSON object of arguments, but {describe_value(value)} came"
        )
    return value


def convert_arguments(tool: str, object_kind: ObjectKind, values: Mapping[str, Any]) -> dict[str, Any]:
    """The arguments by name, each in the type of the parameter; missing ones are left out."""
    names = {field.name for field in object_kind.fields}
    if object_kind.rest is None and (unknown := [name for name in values if name not in names]):
        known = f"the arguments are {', '.join(sorted(names))}" if names else "it takes none"
        raise InvalidArguments(tool, f"has an unknown argument {preview(unknown[0])}; {known}")
    try:
        return _convert_fields(object_kind, values, "", lenient=True)
    except _Mismatch as misfit:
        raise InvalidArguments(tool, misfit.problem, argument=_shorten_path(misfit.path)) from None
    except RecursionError:
        raise InvalidArguments(tool, "has arguments that are nested too deeply") from None


def convert_answer(shape: Shape, value: Any) -> Any:
    """A model's answer in its type. A `ValueError` says where it does not fit, without the value there."""
    try:
        return convert(shape, value, "answer", lenient=True)
    except _Mismatch as misfit:
        expected = misfit.problem.partition(", but ")[0]
        raise ValueError(f"{_shorten_path(misfit.path)} {expected}") from None
    except RecursionError:
        raise ValueError("answer is nested too deeply") from None


def convert(shape: Shape, value: Any, path: str, *, lenient: bool) -> Any:
    """One value, converted to its shape."""
    kind = shape.kind
    match kind:
        case Anything():
            return value
        case Scalar():
            return _convert_scalar(kind, value, path, lenient)
        case Choice():
            return _convert_choice(kind, value, path, lenient)
        case ListShape():
            return _convert_list(kind, _parse_structure(value, list, kind, path, lenient), path, lenient)
        case FixedList():
            items = _parse_structure(value, list, kind, path, lenient)
            if len(items) != len(kind.items):
                _refuse(path, kind, items)
            pairs = zip(kind.items, items, strict=True)
            return tuple(
                convert(item, inner, f"{path}[{index}]", lenient=lenient)
                for index, (item, inner) in enumerate(pairs)
            )
        case Table():
            table = _parse_structure(value, dict, kind, path, lenient)
            return {
                # JSON has only text for keys, so a key is always read leniently.
                convert(kind.key, key, f"{path} (a key)", lenient=True): convert(
                    kind.value, inner, f"{path}.{key}", lenient=lenient
                )
                for key, inner in table.items()
            }
        case Either():
            return _convert_union(kind, value, path, lenient)
        case ParsedText():
            if not isinstance(value, str):
                _refuse(path, kind, value)
            try:
                return kind.parse(value)
            except ValueError:
                _refuse(path, kind, value)
        case ModelClass():
            return _convert_model(kind, value, path)
        case ObjectKind():
            found = _parse_structure(value, dict, kind, path, lenient)
            return _construct(kind.name, kind.make, _convert_fields(kind, found, f"{path}.", lenient), path)
        case _:
            assert_never(kind)


def _refuse(path: str, kind: Kind, value: Any) -> NoReturn:
    raise _Mismatch(path, f"must be {describe_kind(kind)}, but {describe_value(value)} came")


def _convert_scalar(kind: Scalar, value: Any, path: str, lenient: bool) -> Any:
    text = value.strip() if lenient and isinstance(value, str) else ""
    number = value if isinstance(value, int | float) and not isinstance(value, bool) else None
    if kind.type is int:
        if isinstance(number, int):
            return number
        if isinstance(number, float) and number.is_integer():
            return int(number)
        if _INTEGER.fullmatch(text):
            return int(text)
    elif kind.type is float:
        found = number if number is not None else float(text) if _NUMBER.fullmatch(text) else math.nan
        try:
            if math.isfinite(found):
                return float(found)
        except OverflowError:
            pass
    elif type(value) is kind.type:
        return value
    elif kind.type is bool and text.lower() in ("true", "false"):
        return text.lower() == "true"
    _refuse(path, kind, value)


def _convert_choice(kind: Choice, value: Any, path: str, lenient: bool) -> Any:
    for option, result in kind.options:
        # 1 is equal to true, and to 1.0, which is how JSON may have written it.
        if option == value and isinstance(option, bool) == isinstance(value, bool):
            return result
    for name, result in kind.names:
        if lenient and name == value:
            return result
    _refuse(path, kind, value)


def _parse_structure(value: Any, expected: type, kind: Kind, path: str, lenient: bool) -> Any:
    if isinstance(value, expected):
        return value
    if lenient and isinstance(value, str) and value.lstrip()[:1] == ("[" if expected is list else "{"):
        try:
            parsed = json.loads(value, parse_constant=_refuse_constant)
        except (ValueError, RecursionError):
            _refuse(path, kind, value)
        if isinstance(parsed, expected):
            return parsed
    _refuse(path, kind, value)


def _convert_list(kind: ListShape, items: Sequence[Any], path: str, lenient: bool) -> Any:
    converted = [
        convert(kind.item, inner, f"{path}[{index}]", lenient=lenient) for index, inner in enumerate(items)
    ]
    return _construct("set", kind.make, converted, path) if kind.unique else kind.make(converted)


def _convert_union(kind: Either, value: Any, path: str, lenient: bool) -> Any:
    options = [option for option in kind.options if option.kind != Scalar(type(None))]
    if value is None and len(options) < len(kind.options):
        return None
    misfits: list[_Mismatch] = []
    # First whatever takes the value as it is: "5" for `int | str` is text.
    for leniently in (False, True) if lenient else (False,):
        misfits = []
        for option in options:
            try:
                return convert(option, value, path, lenient=leniently)
            except _Mismatch as misfit:
                misfits.append(misfit)
    if len(misfits) == 1 and misfits[0].path != path:
        raise misfits[0]
    _refuse(path, kind, value)


def _convert_fields(
    object_kind: ObjectKind, values: Mapping[str, Any], prefix: str, lenient: bool
) -> dict[str, Any]:
    converted: dict[str, Any] = {}
    known = {field.name: field for field in object_kind.fields}
    for name, value in values.items():
        field = known.get(name)
        if field is None:
            if object_kind.rest is None:
                there = ", ".join(known) or "none"
                raise _Mismatch(
                    prefix.rstrip("."), f"has an unknown key {preview(name)}; the keys are {there}"
                )
            converted[name] = convert(object_kind.rest, value, f"{prefix}{name}", lenient=lenient)
        elif value is None and field.default is None:
            # `x: int = None` is written often and means that it may be left out.
            converted[name] = None
        else:
            converted[name] = convert(field.shape, value, f"{prefix}{name}", lenient=lenient)
    for field in object_kind.fields:
        if field.required and field.name not in values:
            raise _Mismatch(
                f"{prefix}{field.name}", f"is missing; it must be {describe_kind(field.shape.kind)}"
            )
    return converted


def _construct(name: str, make: Callable[..., Any], values: Any, path: str) -> Any:
    try:
        return make(**values) if isinstance(values, dict) else make(values)
    except (_Mismatch, RecursionError):
        raise
    except Exception as error:
        said = str(error)[:200]
        raise _Mismatch(path, f"was refused by `{name}` ({type(error).__name__}: {said})") from None


def _convert_model(kind: ModelClass, value: Any, path: str) -> Any:
    try:
        return kind.model.model_validate(value)
    except RecursionError:
        raise
    except Exception as error:
        raise _Mismatch(*_first_error(error, kind.model.__name__, path)) from None


def _first_error(error: Exception, name: str, path: str) -> tuple[str, str]:
    """Where and why a model class refused a value; its own list of errors does not contain the input."""
    try:
        first = error.errors(include_url=False, include_input=False, include_context=False)[0]  # type: ignore[attr-defined]
        where = "".join(f"[{at}]" if isinstance(at, int) else f".{at}" for at in first["loc"])
        return f"{path}{where}", f"was refused by `{name}` ({str(first['msg'])[:200]})"
    except Exception:
        return path, f"was refused by `{name}` ({type(error).__name__})"


def _refuse_constant(name: str) -> NoReturn:
    raise ValueError(f"{name} is not a JSON value")


def _shorten_path(path: str) -> str:
    return path if len(path) <= 120 else f"{path[:60]}...{path[-50:]}"
