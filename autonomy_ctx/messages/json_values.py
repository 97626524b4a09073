"""JSON values: validation, read-only copies, and conversion of Python objects.

A message is shared by memory, caches and composed contexts, so `validate_json` copies and checks what
comes in, `freeze` makes it read-only and `thaw` copies it on the way out. `JsonEncoder` turns results
of tools and arguments of functions (dataclasses, dates, sets, bytes) into JSON values.
"""

from __future__ import annotations

import base64
import dataclasses
import json
import math
import reprlib
from collections.abc import Callable, Mapping
from datetime import date, datetime, time, timedelta
from decimal import Decimal
from enum import Enum
from pathlib import PurePath
from typing import Any, NoReturn, TypeAlias
from uuid import UUID

from autonomy_ctx.errors import InvalidMessage, InvalidResult

MAX_DEPTH = 64
VALUE_OVERHEAD = 128


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
    """A new, mutable copy of a JSON value."""
    if isinstance(value, dict):
        return {key: inner if isinstance(inner, str) else thaw(inner) for key, inner in value.items()}
    if isinstance(value, list):
        return [thaw(inner) for inner in value]
    return value


def json_length(value: Any) -> int:
    """About how many characters a JSON value has, without writing it out."""
    if isinstance(value, str):
        return len(value)
    if isinstance(value, dict):
        return sum(len(key) + json_length(inner) for key, inner in value.items())
    if isinstance(value, list):
        return sum(map(json_length, value))
    return 8


def remaining_budget(budget: int, value: Any) -> int:
    """Budget of characters that is left after a value; no more of it is read than it takes to tell.

    Every value costs a little besides its characters, so that many small ones are heavy, too.
    """
    if isinstance(value, str):
        return budget - len(value)
    budget -= VALUE_OVERHEAD
    if isinstance(value, dict | list):
        for inner in value.values() if isinstance(value, dict) else value:
            if budget < 0:
                break
            budget = remaining_budget(budget - VALUE_OVERHEAD * isinstance(inner, str), inner)
    return budget


# Python itself refuses to write longer numbers out.
_MAX_DIGITS = 4300
_INTEGER_LIMIT = 10**_MAX_DIGITS


def validate_json(value: Any, path: str) -> Any:
    """A plain copy of `value`, or `InvalidMessage` naming the place that is not JSON."""
    return _copy_json(value, (path,))


def _copy_json(value: Any, path: tuple[str | int, ...]) -> Any:
    # Enums and other subclasses of the JSON types are stored as what they stand for.
    if value is None or isinstance(value, bool):
        return value
    if isinstance(value, str):
        return str.__str__(value)
    if isinstance(value, int):
        if not -_INTEGER_LIMIT < value < _INTEGER_LIMIT:
            problem = f"is a number of more than {_MAX_DIGITS} digits, which JSON cannot hold; use a string"
            raise _not_json(path, problem)
        return int(value)
    if isinstance(value, float):
        if not math.isfinite(value):
            raise _not_json(path, f"is {value}, which JSON cannot hold; use None or a string")
        return float(value)
    if len(path) > MAX_DEPTH + 1:
        raise _not_json(path, f"is nested more than {MAX_DEPTH} levels deep, or contains itself")
    if isinstance(value, dict):
        copy = {}
        for key, inner in value.items():
            if not isinstance(key, str):
                raise _not_json(path, f"has a key of type {type(key).__name__}; keys must be strings")
            copy[str.__str__(key)] = inner if type(inner) is str else _copy_json(inner, (*path, key))
        return copy
    if isinstance(value, list):
        return [_copy_json(inner, (*path, index)) for index, inner in enumerate(value)]
    kind = type(value).__name__
    problem = f"is of type {kind}, which JSON cannot hold; convert it to a string, number, list or dict"
    raise _not_json(path, problem)


def _not_json(path: tuple[str | int, ...], problem: str) -> InvalidMessage:
    steps = (f"[{step}]" if isinstance(step, int) else f".{step}" for step in path)
    place = "".join(steps).removeprefix(".")
    return InvalidMessage(place if len(place) <= 120 else f"{place[:60]}...{place[-50:]}", problem)


def preview(value: Any) -> str:
    """A value as an error may show it: the beginning will do, and content has no place there."""
    text = repr(value) if isinstance(value, str | int | float) else reprlib.repr(value)
    return text if len(text) <= 40 else f"{text[:40]}..."


Binary: TypeAlias = bytes | bytearray | memoryview
_STRINGIFIED_TYPES = PurePath | UUID | Decimal | timedelta


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class JsonEncoder:
    """Writes values in the types of JSON.

    `encode_binary` writes bytes. `object_text` gives the text of an object that is nothing but a text, or
    None. `fallback` replaces what cannot be written, wherever it is; without it, that raises.
    """

    encode_binary: Callable[[Binary], str]
    object_text: Callable[[Any], str | None] | None = None
    fallback: Callable[[Any], Any] | None = None

    def encode(self, value: Any, above: tuple[int, ...] = ()) -> Any:
        """The value in the types of JSON; `above` are the ids of what it is inside of."""
        if value is None or type(value) is str or type(value) is bool:
            return value
        try:
            return self._encode(value, above)
        except Exception:
            # A class may raise in anything that is asked of it.
            if self.fallback is None:
                raise
            return self.fallback(value)

    def encode_text(self, value: Any) -> str:
        """The value as one line of JSON."""
        return json.dumps(self.encode(value), ensure_ascii=False)

    def _encode(self, value: Any, above: tuple[int, ...]) -> Any:
        if len(above) > MAX_DEPTH or id(value) in above:
            raise InvalidResult(f"is nested more than {MAX_DEPTH} levels deep, or contains itself")
        if isinstance(value, Enum):
            return self.encode(value.value, (*above, id(value)))
        if isinstance(value, int):
            if not -_INTEGER_LIMIT < value < _INTEGER_LIMIT:
                raise InvalidResult("contains a number with too many digits")
            return int(value)
        if isinstance(value, float):
            return float(value) if math.isfinite(value) else str(float(value))
        if isinstance(value, str):
            return str.__str__(value)
        within = (*above, id(value))
        if isinstance(value, Mapping):
            return {self._encode_key(key): self.encode(inner, within) for key, inner in value.items()}
        if isinstance(value, tuple) and hasattr(value, "_asdict"):
            return {name: self.encode(inner, within) for name, inner in value._asdict().items()}
        if isinstance(value, list | tuple):
            return [self.encode(inner, within) for inner in value]
        if isinstance(value, set | frozenset):
            # Sorted: a set's own order changes from process to process.
            # Numbers by size, all else by its JSON text.
            return sorted(
                (self.encode(inner, within) for inner in value),
                key=lambda one: (
                    ("", one) if isinstance(one, int | float) else ("x", json.dumps(one, ensure_ascii=False))
                ),
            )
        if isinstance(value, Binary):
            return self.encode_binary(value)
        if isinstance(value, datetime | date | time):
            return value.isoformat()
        if isinstance(value, _STRINGIFIED_TYPES):
            return str(value)
        return self._encode_object(value, within)

    def _encode_object(self, value: Any, within: tuple[int, ...]) -> Any:
        if not isinstance(value, type):
            if self.object_text is not None and (text := self.object_text(value)) is not None:
                return text
            if callable(dump := getattr(value, "model_dump", None)):
                return self.encode(dump(), within)
            if dataclasses.is_dataclass(value):
                names = [field.name for field in dataclasses.fields(value)]
                return {name: self.encode(getattr(value, name), within) for name in names}
        # Not its `repr`: an address in memory says nothing, and some objects print their secrets.
        raise InvalidResult(f"holds a {type(value).__name__}, which JSON cannot hold")

    def _encode_key(self, key: Any) -> str:
        if isinstance(key, str):
            return str.__str__(key)
        made = self.encode(key)
        return made if isinstance(made, str) else json.dumps(made, ensure_ascii=False)


def encode_json_text(value: Any) -> str:
    """The value as JSON text; `InvalidResult` says what cannot be written."""
    return _ENCODER.encode_text(value)


def encode_json(value: Any) -> Any:
    """The value in the types of JSON; `InvalidResult` says what cannot be written."""
    return _ENCODER.encode(value)


def _encode_base64(value: Binary) -> str:
    data = bytes(value)
    return f"{len(data):,} bytes in base64: {base64.b64encode(data).decode()}"


_ENCODER = JsonEncoder(encode_binary=_encode_base64)
