"""Annotations sorted into the few kinds that JSON can carry.

The schema a model sees and the conversion of what it sends are both made from these kinds, so the
two cannot drift apart.
"""

from __future__ import annotations

import collections.abc
import dataclasses
import types
import typing
from collections.abc import Callable
from dataclasses import dataclass
from datetime import date, datetime, time
from enum import Enum
from functools import cached_property
from pathlib import Path, PurePath
from typing import Annotated, Any, Literal, TypeAlias, Union, get_args, get_origin
from uuid import UUID

from autonomy_ctx.tools.docstring import read_docstring


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
            self.description = self.description or _described(notes)
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
class Listing:
    """Any number of values of one shape."""

    item: Shape
    make: Callable[[list[Any]], Any]
    unique: bool = False


@dataclass(frozen=True, slots=True)
class Fixed:
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
class Parsed:
    """Text that stands for something else."""

    parse: Callable[[str], Any]
    words: str
    format: str | None = None


@dataclass(frozen=True, slots=True)
class Modelled:
    """A class that has its own schema and its own checks, as pydantic's models do."""

    model: Any


@dataclass(frozen=True, slots=True)
class Field:
    """A named value of a record, or a parameter of a function."""

    name: str
    shape: Shape
    default: Any = MISSING
    required: bool = True
    description: str | None = None


@dataclass(frozen=True, slots=True)
class Record:
    """Named values, and the shape of all others if others may come."""

    name: str
    make: Callable[..., Any]
    fields: tuple[Field, ...]
    rest: Shape | None = None


Kind: TypeAlias = (
    Anything | Scalar | Choice | Listing | Fixed | Table | Either | Parsed | Modelled | Record
)  # fmt: skip

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
_PARSED: dict[type, tuple[Callable[[str], Any], str, str | None]] = {
    datetime: (datetime.fromisoformat, "an ISO 8601 date and time", "date-time"),
    date: (date.fromisoformat, "an ISO 8601 date", "date"),
    time: (time.fromisoformat, "an ISO 8601 time", "time"),
    UUID: (UUID, "a UUID", "uuid"),
}


def _kind_of(annotation: Any) -> Kind:
    origin, arguments = get_origin(annotation), get_args(annotation)
    if annotation is None or any(annotation is one for one in _SCALARS):
        return Scalar(type(None) if annotation is None else annotation)
    if origin is Literal:
        return _choice([(_json_of(value), value) for value in arguments])
    if origin in (Union, types.UnionType):
        return Either(tuple(map(Shape, arguments)))
    if origin in _WRAPPERS:
        return Shape(arguments[0]).kind
    if (generic := _generic(origin or annotation, arguments, empty=annotation == tuple[()])) is not None:
        return generic
    if isinstance(origin or annotation, type):
        return _class(origin or annotation)
    for name in ("__supertype__", "__value__", "__bound__"):
        # A NewType, a type alias, a type variable.
        if (inner := getattr(annotation, name, None)) is not None:
            return Shape(inner).kind
    return Anything()


def _generic(origin: Any, arguments: tuple[Any, ...], *, empty: bool) -> Kind | None:
    first = Shape(arguments[0] if arguments else Any)
    if origin in _LISTS:
        return Listing(first, list)
    if origin in _SETS:
        return Listing(first, frozenset if origin is frozenset else set, unique=True)
    if origin in _TABLES:
        key, value = arguments if len(arguments) == 2 else (str, Any)
        return Table(Shape(key), Shape(value))
    if origin is tuple:
        if not (arguments or empty) or arguments[1:] == (Ellipsis,):
            return Listing(first, tuple)
        return Fixed(tuple(map(Shape, arguments)))
    return None


def _class(kind: type) -> Kind:
    if kind in _PARSED:
        return Parsed(*_PARSED[kind])
    if issubclass(kind, PurePath):
        return Parsed(Path if kind is Path else kind, "a path")
    if issubclass(kind, Enum):
        members = [(_json_of(member), member) for member in kind]
        return _choice(members, names=tuple((member.name, member) for member in kind))
    if callable(getattr(kind, "model_json_schema", None)) and callable(getattr(kind, "model_validate", None)):
        return Modelled(kind)
    if dataclasses.is_dataclass(kind):
        return _dataclass(kind)
    if typing.is_typeddict(kind):
        return _typed_dict(kind)
    if issubclass(kind, tuple) and hasattr(kind, "_field_defaults"):
        return _named_tuple(kind)
    return Anything()


def _choice(options: list[tuple[Any, Any]], names: tuple[tuple[str, Any], ...] = ()) -> Kind:
    if any(json is MISSING for json, _ in options):
        # Members whose values JSON cannot hold go by their names.
        return Choice(names, ()) if names else Anything()
    return Choice(tuple(options), names) if options else Anything()


def _json_of(value: Any) -> Any:
    """What JSON has for a value of a choice."""
    if isinstance(value, Enum):
        value = value.value
    return value if value is None or type(value) in (str, int, float, bool) else MISSING


def _hints(kind: type) -> dict[str, Any]:
    try:
        return typing.get_type_hints(kind, include_extras=True)
    except RecursionError:
        # Not the class's fault: what is being converted is nested too deeply.
        raise
    except Exception:
        # A name that cannot be found here: its fields take anything.
        return dict(getattr(kind, "__annotations__", {}))


def _dataclass(kind: type) -> Record:
    hints, said = _hints(kind), read_docstring(kind.__doc__).arguments
    fields = []
    for one in dataclasses.fields(kind):
        if one.init:
            optional = (
                one.default is not dataclasses.MISSING or one.default_factory is not dataclasses.MISSING
            )
            default = MISSING if one.default is dataclasses.MISSING else one.default
            told = one.metadata.get("description") or said.get(one.name)
            fields.append(Field(one.name, Shape(hints.get(one.name, Any)), default, not optional, told))
    return Record(kind.__name__, kind, tuple(fields))


def _typed_dict(kind: Any) -> Record:
    hints, said = _hints(kind), read_docstring(kind.__doc__).arguments
    fields = []
    for name, hint in hints.items():
        # Where annotations are text, the class itself cannot know which of its keys were marked.
        marked = {typing.Required: True, typing.NotRequired: False}.get(get_origin(hint))
        required = name in kind.__required_keys__ if marked is None else marked
        fields.append(Field(name, Shape(hint), required=required, description=said.get(name)))
    return Record(kind.__name__, dict, tuple(fields))


def _named_tuple(kind: Any) -> Record:
    hints, said = _hints(kind), read_docstring(kind.__doc__).arguments
    defaults = kind._field_defaults
    fields = (
        Field(
            name,
            Shape(hints.get(name, Any)),
            defaults.get(name, MISSING),
            name not in defaults,
            said.get(name),
        )
        for name in kind._fields
    )
    return Record(kind.__name__, kind, tuple(fields))


def _described(notes: list[Any]) -> str | None:
    for note in notes:
        for found in (note, getattr(note, "description", None), getattr(note, "documentation", None)):
            if isinstance(found, str) and found:
                return found
    return None
