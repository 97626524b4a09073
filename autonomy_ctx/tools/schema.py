"""Reads a tool's docstring and annotations, and makes the JSON schema of its parameters.

A docstring gives the descriptions, an annotation a `Shape`, and shapes the schema. It is plain JSON
Schema without references: a provider that takes less cuts it down in its own format. A
type that holds itself is described once and is any object below that.
"""

from __future__ import annotations

import collections.abc
import dataclasses
import inspect
import re
import types
import typing
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from datetime import date, datetime, time
from enum import Enum
from functools import cached_property
from pathlib import Path, PurePath
from typing import Annotated, Any, Literal, TypeAlias, Union, assert_never, get_args, get_origin
from urllib.parse import unquote
from uuid import UUID

from autonomy_ctx.errors import InvalidResult
from autonomy_ctx.messages.json_values import encode_json

_TITLE = re.compile(r"(args|arguments|parameters|params|attributes|keyword args|keyword arguments):\s*", re.I)
_SECTION = re.compile(r"[A-Z][A-Za-z ]{2,30}:\s*")
_GOOGLE = re.compile(r"\*{0,2}(\w++)\s*+(?:\([^)]*+\)\s*+)?:\s*+(.*)")
# Before the name may stand the words of a type: each followed by another word.
_REST = re.compile(
    r":(?:param|parameter|arg|argument|ivar|var)\s++(?:[^:\s]++\s++(?!:))*+\*{0,2}(\w++)\s*+:\s*+(.*)"
)
_NUMPY = re.compile(r"(\*{0,2}\w+(?:\s*,\s*\*{0,2}\w+)*)\s*(?::.*)?")
_NUMPY_TITLES = {"parameters", "other parameters", "attributes"}
# Where schemas are in a schema: by name, in lists, alone. All other keywords hold data.
_SCHEMAS_BY_NAME = frozenset({"properties", "patternProperties", "dependentSchemas"})
_SCHEMA_LISTS = frozenset({"anyOf", "oneOf", "allOf", "prefixItems", "items"})
_SUBSCHEMA_WORDS = """
items additionalProperties additionalItems unevaluatedProperties unevaluatedItems propertyNames contains not
if then else
"""
_SUBSCHEMAS = frozenset(_SUBSCHEMA_WORDS.split())
_REFERENCE_KEYS = frozenset(
    {"$ref", "$defs", "definitions", "$schema", "$id", "$anchor", "$comment", "$dynamicRef", "$dynamicAnchor"}
)
# How many places of a schema references may make, and how deep they may lead.
MAX_SCHEMA_PLACES, MAX_SCHEMA_DEPTH = 2_000, 32
_SCALARS = (str, int, float, bool, type(None))
_LISTS = (
    list,
    collections.abc.Sequence,
    collections.abc.MutableSequence,
    collections.abc.Iterable,
    collections.abc.Collection,
)
_SETS = (set, frozenset, collections.abc.Set, collections.abc.MutableSet)
_TABLES = (dict, collections.abc.Mapping, collections.abc.MutableMapping)
_WRAPPERS = (typing.Required, typing.NotRequired, typing.Final, typing.ClassVar)
_PARSED_TYPES: dict[type, tuple[Callable[[str], Any], str, str | None]] = {
    datetime: (datetime.fromisoformat, "an ISO 8601 date and time", "date-time"),
    date: (date.fromisoformat, "an ISO 8601 date", "date"),
    time: (time.fromisoformat, "an ISO 8601 time", "time"),
    UUID: (UUID, "a UUID", "uuid"),
}
_JSON_TYPES: dict[type, str] = {
    str: "string",
    int: "integer",
    float: "number",
    bool: "boolean",
    type(None): "null",
}


@dataclass(frozen=True, slots=True)
class ParsedDocstring:
    """The first paragraph, and what is said of each argument."""

    summary: str = ""
    arguments: dict[str, str] = field(default_factory=dict)


def read_docstring(text: str | None) -> ParsedDocstring:
    """A docstring's first paragraph and its arguments' descriptions."""
    lines = inspect.cleandoc(text or "").splitlines()
    summary: list[str] = []
    for index, line in enumerate(lines):
        if not line.strip() or _starts_arguments(lines, index):
            break
        summary.append(line.strip())
    arguments: dict[str, list[str]] = {}
    for index in range(len(lines)):
        if _TITLE.fullmatch(lines[index]):
            # Below a first line the indent is gone, as it cannot be told from the function's own.
            indent = "" if index else " "
            _read_google([indent + line for line in lines[index + 1 :]], arguments)
        elif _is_numpy_title(lines, index):
            _read_numpy(lines[index + 2 :], arguments)
        elif match := _REST.match(lines[index]):
            arguments[match[1]] = [match[2], *_continuation_lines(lines[index + 1 :])]
    return ParsedDocstring(
        " ".join(summary), {name: _join_lines(description) for name, description in arguments.items()}
    )


def _starts_arguments(lines: Sequence[str], index: int) -> bool:
    line = lines[index]
    return bool(_TITLE.fullmatch(line) or _REST.match(line) or _is_numpy_title(lines, index))


def _is_numpy_title(lines: Sequence[str], index: int) -> bool:
    return lines[index].strip().lower() in _NUMPY_TITLES and _is_rule(lines, index + 1)


def _is_rule(lines: Sequence[str], index: int) -> bool:
    return index < len(lines) and len(lines[index]) >= 3 and set(lines[index].strip()) == {"-"}


def _read_google(lines: Sequence[str], into: dict[str, list[str]]) -> None:
    depth, name = 0, ""
    for line in lines:
        if not line.strip():
            continue
        indent = len(line) - len(line.lstrip())
        if not indent:
            break
        depth = depth or indent
        match = _GOOGLE.fullmatch(line.strip()) if indent <= depth else None
        if match:
            name = match[1]
            into[name] = [match[2]]
        elif name:
            into[name].append(line)


def _read_numpy(lines: Sequence[str], into: dict[str, list[str]]) -> None:
    names: list[str] = []
    for index, line in enumerate(lines):
        if _is_rule(lines, index + 1) or _SECTION.fullmatch(line):
            break
        match = None if line[:1].isspace() or not line else _NUMPY.fullmatch(line.strip())
        if match:
            names = [one.strip().lstrip("*") for one in match[1].split(",")]
            into.update({name: [] for name in names})
        else:
            for name in names:
                into[name].append(line)


def _continuation_lines(lines: Sequence[str]) -> list[str]:
    """The lines that go on with what the line before began."""
    found: list[str] = []
    for line in lines:
        if not line[:1].isspace():
            break
        found.append(line)
    return found


def _join_lines(lines: Sequence[str]) -> str:
    return " ".join(line.strip() for line in lines if line.strip())


class _Missing(Enum):
    """There is no default."""

    MISSING = "missing"


MISSING = _Missing.MISSING


class Shape:
    """One annotation: what kind it is, found out when it is first needed, as a type may hold itself."""

    def __init__(self, annotation: Any) -> None:
        self.description: str | None = None
        while get_origin(annotation) is Annotated:
            annotation, *notes = get_args(annotation)
            self.description = self.description or _annotated_description(notes)
        self.annotation = annotation

    @cached_property
    def kind(self) -> Kind:
        """Which kind of value it takes."""
        return _kind_of(self.annotation)


@dataclass(frozen=True, slots=True)
class Anything:
    """No idea, so anything goes."""


@dataclass(frozen=True, slots=True)
class Scalar:
    """Text, a number, true or false, or null."""

    type: type


@dataclass(frozen=True, slots=True)
class Choice:
    """One of some values; each with what JSON has for it."""

    options: tuple[tuple[Any, Any], ...]
    names: tuple[tuple[str, Any], ...] = ()


@dataclass(frozen=True, slots=True)
class ListShape:
    """Any number of values of one shape."""

    item: Shape
    make: Callable[[list[Any]], Any]
    unique: bool = False


@dataclass(frozen=True, slots=True)
class FixedList:
    """A fixed number of values, each with its own shape."""

    items: tuple[Shape, ...]


@dataclass(frozen=True, slots=True)
class Table:
    """Values by key; JSON has only text for keys."""

    key: Shape
    value: Shape


@dataclass(frozen=True, slots=True)
class Either:
    """The first of several shapes that fits."""

    options: tuple[Shape, ...]


@dataclass(frozen=True, slots=True)
class ParsedText:
    """Text that stands for something else."""

    parse: Callable[[str], Any]
    content: str
    format: str | None = None


@dataclass(frozen=True, slots=True)
class ModelClass:
    """A class that has its own schema and its own checks, as pydantic's models do."""

    model: Any


@dataclass(frozen=True, slots=True)
class Field:
    """A named value of an object, or a parameter of a function."""

    name: str
    shape: Shape
    default: Any = MISSING
    required: bool = True
    description: str | None = None


@dataclass(frozen=True, slots=True)
class ObjectKind:
    """Named values, and the shape of all others if others may come."""

    name: str
    make: Callable[..., Any]
    fields: tuple[Field, ...]
    rest: Shape | None = None


Kind: TypeAlias = (
    Anything | Scalar | Choice | ListShape | FixedList | Table | Either | ParsedText | ModelClass | ObjectKind
)  # fmt: skip


def _kind_of(annotation: Any) -> Kind:
    origin, arguments = get_origin(annotation), get_args(annotation)
    if annotation is None or any(annotation is one for one in _SCALARS):
        return Scalar(type(None) if annotation is None else annotation)
    if origin is Literal:
        return _choice_of([(_json_of(value), value) for value in arguments])
    if origin in (Union, types.UnionType):
        return Either(tuple(map(Shape, arguments)))
    if origin in _WRAPPERS:
        return Shape(arguments[0]).kind
    if (
        generic := _kind_of_generic(origin or annotation, arguments, empty=annotation == tuple[()])
    ) is not None:
        return generic
    if isinstance(origin or annotation, type):
        return _kind_of_class(origin or annotation)
    for name in ("__supertype__", "__value__", "__bound__"):
        # A NewType, a type alias, a type variable.
        if (inner := getattr(annotation, name, None)) is not None:
            return Shape(inner).kind
    return Anything()


def _kind_of_generic(origin: Any, arguments: tuple[Any, ...], *, empty: bool) -> Kind | None:
    first = Shape(arguments[0] if arguments else Any)
    if origin in _LISTS:
        return ListShape(first, list)
    if origin in _SETS:
        return ListShape(first, frozenset if origin is frozenset else set, unique=True)
    if origin in _TABLES:
        key, value = arguments if len(arguments) == 2 else (str, Any)
        return Table(Shape(key), Shape(value))
    if origin is tuple:
        if not (arguments or empty) or arguments[1:] == (Ellipsis,):
            return ListShape(first, tuple)
        return FixedList(tuple(map(Shape, arguments)))
    return None


def _kind_of_class(kind: type) -> Kind:
    if kind in _PARSED_TYPES:
        return ParsedText(*_PARSED_TYPES[kind])
    if issubclass(kind, PurePath):
        return ParsedText(Path if kind is Path else kind, "a path")
    if issubclass(kind, Enum):
        members = [(_json_of(member), member) for member in kind]
        return _choice_of(members, names=tuple((member.name, member) for member in kind))
    if callable(getattr(kind, "model_json_schema", None)) and callable(getattr(kind, "model_validate", None)):
        return ModelClass(kind)
    if dataclasses.is_dataclass(kind):
        return _dataclass_kind(kind)
    if typing.is_typeddict(kind):
        return _typed_dict_kind(kind)
    if issubclass(kind, tuple) and hasattr(kind, "_field_defaults"):
        return _named_tuple_kind(kind)
    return Anything()


def _choice_of(options: list[tuple[Any, Any]], names: tuple[tuple[str, Any], ...] = ()) -> Kind:
    if any(json is MISSING for json, _ in options):
        # Members whose values JSON cannot hold go by their names.
        return Choice(names, ()) if names else Anything()
    return Choice(tuple(options), names) if options else Anything()


def _json_of(value: Any) -> Any:
    """The JSON value of a choice."""
    if isinstance(value, Enum):
        value = value.value
    return value if value is None or type(value) in (str, int, float, bool) else MISSING


def _type_hints(kind: type) -> dict[str, Any]:
    try:
        return typing.get_type_hints(kind, include_extras=True)
    except RecursionError:
        # Not the class's fault: what is being converted is nested too deeply.
        raise
    except Exception:
        # A name that cannot be found here: its fields take anything.
        return dict(getattr(kind, "__annotations__", {}))


def _dataclass_kind(kind: type) -> ObjectKind:
    hints, descriptions = _type_hints(kind), read_docstring(kind.__doc__).arguments
    fields = []
    for one in dataclasses.fields(kind):
        if one.init:
            optional = (
                one.default is not dataclasses.MISSING or one.default_factory is not dataclasses.MISSING
            )
            default = MISSING if one.default is dataclasses.MISSING else one.default
            description = one.metadata.get("description") or descriptions.get(one.name)
            fields.append(
                Field(one.name, Shape(hints.get(one.name, Any)), default, not optional, description)
            )
    return ObjectKind(kind.__name__, kind, tuple(fields))


def _typed_dict_kind(kind: Any) -> ObjectKind:
    hints, descriptions = _type_hints(kind), read_docstring(kind.__doc__).arguments
    fields = []
    for name, hint in hints.items():
        # Where annotations are text, the class itself cannot know which of its keys were marked.
        marked = {typing.Required: True, typing.NotRequired: False}.get(get_origin(hint))
        required = name in kind.__required_keys__ if marked is None else marked
        fields.append(Field(name, Shape(hint), required=required, description=descriptions.get(name)))
    return ObjectKind(kind.__name__, dict, tuple(fields))


def _named_tuple_kind(kind: Any) -> ObjectKind:
    hints, descriptions = _type_hints(kind), read_docstring(kind.__doc__).arguments
    defaults = kind._field_defaults
    fields = (
        Field(
            name,
            Shape(hints.get(name, Any)),
            defaults.get(name, MISSING),
            name not in defaults,
            descriptions.get(name),
        )
        for name in kind._fields
    )
    return ObjectKind(kind.__name__, kind, tuple(fields))


def _annotated_description(notes: list[Any]) -> str | None:
    for note in notes:
        for found in (note, getattr(note, "description", None), getattr(note, "documentation", None)):
            if isinstance(found, str) and found:
                return found
    return None


def object_schema(object_kind: ObjectKind, inside: tuple[Any, ...] = ()) -> dict[str, Any]:
    """An object with these fields and no others, unless it takes others."""
    schema: dict[str, Any] = {
        "type": "object",
        "properties": {field.name: _field_schema(field, inside) for field in object_kind.fields},
    }
    if required := [field.name for field in object_kind.fields if field.required]:
        schema["required"] = required
    if object_kind.rest is None:
        schema["additionalProperties"] = False
    else:
        schema["additionalProperties"] = schema_of(object_kind.rest, inside) or True
    return schema


def schema_of(shape: Shape, inside: tuple[Any, ...] = ()) -> dict[str, Any]:
    """The schema of one shape; `inside` are the annotations of the objects around it."""
    schema = _schema(shape, inside)
    if shape.description:
        schema["description"] = shape.description
    return schema


def _field_schema(field: Field, inside: tuple[Any, ...]) -> dict[str, Any]:
    schema = schema_of(field.shape, inside)
    if field.description and not field.shape.description:
        schema["description"] = field.description
    if field.default is not MISSING:
        # A default that JSON cannot hold is the function's own affair.
        with suppress(InvalidResult):
            schema["default"] = encode_json(field.default)
    return schema


def _schema(shape: Shape, inside: tuple[Any, ...]) -> dict[str, Any]:
    kind = shape.kind
    match kind:
        case Anything():
            return {}
        case Scalar():
            return {"type": _JSON_TYPES[kind.type]}
        case Choice():
            return _choice_schema(kind)
        case ListShape():
            schema = {"type": "array", "items": schema_of(kind.item, inside)}
            return {**schema, "uniqueItems": True} if kind.unique else schema
        case FixedList():
            return _fixed_list_schema(kind, inside)
        case Table():
            return {"type": "object", "additionalProperties": schema_of(kind.value, inside) or True}
        case Either():
            return {"anyOf": [schema_of(option, inside) for option in kind.options]}
        case ParsedText():
            return {"type": "string"} | ({"format": kind.format} if kind.format else {})
        case ModelClass():
            own: dict[str, Any] = kind.model.model_json_schema()
            return inline_references(own)
        case ObjectKind():
            if any(shape.annotation is outer for outer in inside):
                return {"type": "object"}
            return object_schema(kind, (*inside, shape.annotation))
        case _:
            assert_never(kind)


def _choice_schema(kind: Choice) -> dict[str, Any]:
    values = [json for json, _ in kind.options]
    names = {_JSON_TYPES[type(value)] for value in values}
    return {"type": names.pop(), "enum": values} if len(names) == 1 else {"enum": values}


def _fixed_list_schema(kind: FixedList, inside: tuple[Any, ...]) -> dict[str, Any]:
    schema: dict[str, Any] = {"type": "array", "minItems": len(kind.items), "maxItems": len(kind.items)}
    items = [schema_of(item, inside) for item in kind.items]
    if items and all(item == items[0] for item in items):
        return {**schema, "items": items[0]}
    return {**schema, "prefixItems": items} if items else schema


class _ReferenceInliner:
    """Puts what a schema refers to in the place of each reference.

    A reference to what is around it, to another document, or one too many becomes a plain type: schemas
    come from strangers, and references to references may multiply without end.
    """

    def __init__(self, root: Mapping[str, Any]) -> None:
        self._root = root
        self._places_left = MAX_SCHEMA_PLACES

    def inline(self, schema: Any, inside: tuple[str, ...] = ()) -> Any:
        """A schema without references; `inside` are the references that led here."""
        if not isinstance(schema, Mapping):
            return schema
        self._places_left -= 1
        here = {
            key: self._inline_keyword(key, value, inside)
            for key, value in schema.items()
            if key not in _REFERENCE_KEYS
        }
        reference = schema.get("$ref")
        if not isinstance(reference, str):
            return here
        target = self._resolve(reference)
        if reference in inside or self._places_left <= 0 or len(inside) >= MAX_SCHEMA_DEPTH:
            kind = target.get("type", "object") if isinstance(target, Mapping) else "object"
            return {"type": kind, **here}
        if not isinstance(target, Mapping):
            return here
        return {**self.inline(target, (*inside, reference)), **here}

    def _inline_keyword(self, key: str, value: Any, inside: tuple[str, ...]) -> Any:
        if key in _SCHEMAS_BY_NAME and isinstance(value, Mapping):
            return {name: self.inline(one, inside) for name, one in value.items()}
        if key in _SCHEMA_LISTS and isinstance(value, list):
            return [self.inline(one, inside) for one in value]
        # Anything else is data, such as a default, even if it looks like a schema.
        return self.inline(value, inside) if key in _SUBSCHEMAS else value

    def _resolve(self, reference: str) -> Any:
        """Look up a reference within this document; None for any other."""
        found: Any = self._root
        if reference == "#":
            return found
        if not reference.startswith("#/"):
            return None
        for part in unquote(reference[2:]).split("/"):
            name = part.replace("~1", "/").replace("~0", "~")
            if isinstance(found, list) and name.isdecimal() and int(name) < len(found):
                found = found[int(name)]
            elif isinstance(found, Mapping):
                found = found.get(name)
            else:
                return None
        return found


def inline_references(schema: Mapping[str, Any]) -> dict[str, Any]:
    """A schema with what it refers to put where it is used, and without the definitions."""
    made: dict[str, Any] = _ReferenceInliner(schema).inline(schema)
    return made


def parameters_schema(schema: Mapping[str, Any]) -> dict[str, Any]:
    """A schema of parameters as every provider takes it: of an object, without references.

    Providers refuse `anyOf`, `oneOf` and `allOf` at the top: the properties of all alternatives are then
    properties, required where all alternatives require them.
    """
    made = inline_references(schema)
    properties: dict[str, Any] = dict(made.pop("properties", None) or {})
    required = set(made.pop("required", None) or ())
    for key in ("allOf", "anyOf", "oneOf"):
        alternatives = [one for one in made.pop(key, None) or () if isinstance(one, Mapping)]
        for one in alternatives:
            found = one.get("properties")
            properties = {**(found if isinstance(found, Mapping) else {}), **properties}
        demands = [set(one.get("required") or ()) for one in alternatives]
        if demands:
            required |= set.union(*demands) if key == "allOf" else set.intersection(*demands)
    for key in ("if", "then", "else", "not", "dependentSchemas", "enum"):
        made.pop(key, None)
    named = [name for name in properties if name in required]
    return {**made, "type": "object", "properties": properties, **({"required": named} if named else {})}
