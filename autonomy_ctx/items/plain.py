"""Values of programs in the types of JSON: what tools return and what records tell of calls.

What JSON lacks has one form: numbers that it cannot hold are text, sets are sorted lists, keys are text.
Only about bytes and unknown objects do the readers differ, so what is done about those is passed in.
"""

from __future__ import annotations

import dataclasses
import json
import math
from collections.abc import Callable, Mapping
from datetime import date, datetime, time, timedelta
from decimal import Decimal
from enum import Enum
from pathlib import PurePath
from typing import Any, TypeAlias
from uuid import UUID

from autonomy_ctx.errors import InvalidResult
from autonomy_ctx.items.frozen import MAX_DEPTH

Binary: TypeAlias = bytes | bytearray | memoryview
# Tuples, made once: a union in each check would cost more than the check.
_NUMBERS, _BINARY, _TIMES = (int, float), (bytes, bytearray, memoryview), (datetime, date, time)
_AS_TEXT = (PurePath, UUID, Decimal, timedelta)
_LISTS, _SETS = (list, tuple), (set, frozenset)


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Plain:
    """Writes values in the types of JSON.

    `binary` writes bytes. `said` is the text of an object that is nothing but one, or None. `instead`
    stands in for what cannot be written, wherever it is; without it, that raises.
    """

    binary: Callable[[Binary], str]
    said: Callable[[Any], str | None] | None = None
    instead: Callable[[Any], Any] | None = None

    def of(self, value: Any, above: tuple[int, ...] = ()) -> Any:
        """The value in the types of JSON; `above` are the ids of what it is inside of."""
        if value is None or type(value) is str or type(value) is bool:
            return value
        try:
            return self._of(value, above)
        except Exception:
            # A class may raise in anything that is asked of it.
            if self.instead is None:
                raise
            return self.instead(value)

    def text(self, value: Any) -> str:
        """The value as one line of JSON."""
        return json.dumps(self.of(value), ensure_ascii=False)

    def _of(self, value: Any, above: tuple[int, ...]) -> Any:
        if len(above) > MAX_DEPTH or id(value) in above:
            raise InvalidResult(f"is nested more than {MAX_DEPTH} levels deep, or contains itself")
        if isinstance(value, Enum):
            return self.of(value.value, (*above, id(value)))
        if isinstance(value, _NUMBERS):
            return _number(value)
        if isinstance(value, str):
            return str.__str__(value)
        within = (*above, id(value))
        if isinstance(value, Mapping):
            return {self._key(key): self.of(inner, within) for key, inner in value.items()}
        if isinstance(value, tuple) and hasattr(value, "_asdict"):
            return {name: self.of(inner, within) for name, inner in value._asdict().items()}
        if isinstance(value, _LISTS):
            return [self.of(inner, within) for inner in value]
        if isinstance(value, _SETS):
            # Sorted: a set's own order changes from process to process.
            return sorted((self.of(inner, within) for inner in value), key=_order)
        if isinstance(value, _BINARY):
            return self.binary(value)
        if isinstance(value, _TIMES):
            return value.isoformat()
        if isinstance(value, _AS_TEXT):
            return str(value)
        return self._object(value, within)

    def _object(self, value: Any, within: tuple[int, ...]) -> Any:
        if not isinstance(value, type):
            if self.said is not None and (text := self.said(value)) is not None:
                return text
            if callable(dump := getattr(value, "model_dump", None)):
                return self.of(dump(), within)
            if dataclasses.is_dataclass(value):
                names = [field.name for field in dataclasses.fields(value)]
                return {name: self.of(getattr(value, name), within) for name in names}
        # Not its `repr`: an address in memory says nothing, and some objects print their secrets.
        raise InvalidResult(f"holds a {type(value).__name__}, which JSON cannot hold")

    def _key(self, key: Any) -> str:
        if isinstance(key, str):
            return str.__str__(key)
        made = self.of(key)
        return made if isinstance(made, str) else json.dumps(made, ensure_ascii=False)


def _number(value: float) -> Any:
    if isinstance(value, int):
        try:
            # Python refuses to write a number of too many digits, and says so here.
            str(int(value))
        except ValueError:
            raise InvalidResult("holds a number of too many digits") from None
        return int(value)
    return float(value) if math.isfinite(value) else str(float(value))


def _order(value: Any) -> tuple[str, Any]:
    """Numbers by size, all else by its JSON text."""
    if isinstance(value, int | float):
        return "", value
    return "x", json.dumps(value, ensure_ascii=False)
