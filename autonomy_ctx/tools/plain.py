"""What a tool returns, as JSON: tools return what suits them, models read text."""

from __future__ import annotations

import base64
import dataclasses
import json
import math
from collections.abc import Mapping
from datetime import date, datetime, time, timedelta
from decimal import Decimal
from enum import Enum
from pathlib import PurePath
from typing import Any
from uuid import UUID

from autonomy_ctx.errors import InvalidResult
from autonomy_ctx.items.frozen import MAX_DEPTH

_AS_TEXT = (PurePath, UUID, Decimal, timedelta)


def json_text(value: Any) -> str:
    """The value as JSON text; `InvalidResult` says what cannot be written."""
    return json.dumps(plain(value), ensure_ascii=False)


def plain(value: Any, depth: int = 0) -> Any:
    """The value in the types of JSON. Numbers that JSON lacks become text, sets sorted lists."""
    if value is None or isinstance(value, bool) or type(value) is str:
        return value
    if depth > MAX_DEPTH:
        raise InvalidResult(f"is nested more than {MAX_DEPTH} levels deep, or contains itself")
    if isinstance(value, Enum):
        return plain(value.value, depth + 1)
    if isinstance(value, int | float):
        return _number(value)
    if isinstance(value, str):
        return str.__str__(value)
    if isinstance(value, Mapping):
        return {_key(key): plain(inner, depth + 1) for key, inner in value.items()}
    if isinstance(value, set | frozenset):
        # Sorted: a set's own order changes from process to process.
        return sorted((plain(inner, depth + 1) for inner in value), key=_order)
    if isinstance(value, tuple) and hasattr(value, "_asdict"):
        return {name: plain(inner, depth + 1) for name, inner in value._asdict().items()}
    if isinstance(value, list | tuple):
        return [plain(inner, depth + 1) for inner in value]
    if isinstance(value, bytes | bytearray | memoryview):
        data = bytes(value)
        return f"{len(data):,} bytes in base64: {base64.b64encode(data).decode()}"
    if isinstance(value, datetime | date | time):
        return value.isoformat()
    if isinstance(value, _AS_TEXT):
        return str(value)
    return plain(_fields(value), depth + 1)


def _fields(value: Any) -> dict[str, Any]:
    if not isinstance(value, type):
        if callable(dump := getattr(value, "model_dump", None)):
            dumped = dump()
            if isinstance(dumped, dict):
                return dumped
        if dataclasses.is_dataclass(value):
            return {field.name: getattr(value, field.name) for field in dataclasses.fields(value)}
    # Not its `repr`: an address in memory says nothing, and some objects print their secrets.
    raise InvalidResult(f"holds a {type(value).__name__}, which JSON cannot hold")


def _number(value: float) -> Any:
    if isinstance(value, int):
        try:
            str(int(value))
        except ValueError:
            raise InvalidResult("holds a number of too many digits") from None
        return int(value)
    return float(value) if math.isfinite(value) else str(float(value))


def _key(key: Any) -> str:
    if isinstance(key, str):
        return str.__str__(key)
    made = plain(key)
    return made if isinstance(made, str) else json.dumps(made, ensure_ascii=False)


def _order(value: Any) -> tuple[str, Any]:
    """Numbers by size, all else by its JSON text."""
    if isinstance(value, int | float):
        return "", value
    return "x", json.dumps(value, ensure_ascii=False)
