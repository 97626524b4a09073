"""The JSON schema of a tool's parameters, as the model sees it.

Plain JSON Schema without references: a provider that takes less cuts it down in its own format. A
type that holds itself is described once and is any object below that.
"""

from __future__ import annotations

from contextlib import suppress
from typing import Any, assert_never

from autonomy_ctx.errors import InvalidResult
from autonomy_ctx.tools.kinds import (
    MISSING,
    Anything,
    Choice,
    Either,
    Field,
    Fixed,
    Listing,
    Modelled,
    Parsed,
    Record,
    Scalar,
    Shape,
    Table,
)
from autonomy_ctx.tools.plain import plain

_NAMES: dict[type, str] = {
    str: "string",
    int: "integer",
    float: "number",
    bool: "boolean",
    type(None): "null",
}


def record_schema(record: Record, inside: tuple[Any, ...] = ()) -> dict[str, Any]:
    """An object with the record's fields and no others, unless it takes others."""
    schema: dict[str, Any] = {
        "type": "object",
        "properties": {field.name: _field_schema(field, inside) for field in record.fields},
    }
    if required := [field.name for field in record.fields if field.required]:
        schema["required"] = required
    if record.rest is None:
        schema["additionalProperties"] = False
    else:
        schema["additionalProperties"] = schema_of(record.rest, inside) or True
    return schema


def schema_of(shape: Shape, inside: tuple[Any, ...] = ()) -> dict[str, Any]:
    """The schema of one shape; `inside` are the records around it."""
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
            schema["default"] = plain(field.default)
    return schema


def _schema(shape: Shape, inside: tuple[Any, ...]) -> dict[str, Any]:
    kind = shape.kind
    match kind:
        case Anything():
            return {}
        case Scalar():
            return {"type": _NAMES[kind.type]}
        case Choice():
            return _choice(kind)
        case Listing():
            schema = {"type": "array", "items": schema_of(kind.item, inside)}
            return {**schema, "uniqueItems": True} if kind.unique else schema
        case Fixed():
            return _fixed(kind, inside)
        case Table():
            return {"type": "object", "additionalProperties": schema_of(kind.value, inside) or True}
        case Either():
            return {"anyOf": [schema_of(option, inside) for option in kind.options]}
        case Parsed():
            return {"type": "string"} | ({"format": kind.format} if kind.format else {})
        case Modelled():
            own: dict[str, Any] = kind.model.model_json_schema()
            return dict(_inlined(own, own.get("$defs", {}), ()))
        case Record():
            if any(shape.annotation is outer for outer in inside):
                return {"type": "object"}
            return record_schema(kind, (*inside, shape.annotation))
        case _:
            assert_never(kind)


def _choice(kind: Choice) -> dict[str, Any]:
    values = [json for json, _ in kind.options]
    names = {_NAMES[type(value)] for value in values}
    return {"type": names.pop(), "enum": values} if len(names) == 1 else {"enum": values}


def _fixed(kind: Fixed, inside: tuple[Any, ...]) -> dict[str, Any]:
    schema: dict[str, Any] = {"type": "array", "minItems": len(kind.items), "maxItems": len(kind.items)}
    items = [schema_of(item, inside) for item in kind.items]
    if items and all(item == items[0] for item in items):
        return {**schema, "items": items[0]}
    return {**schema, "prefixItems": items} if items else schema


def _inlined(schema: Any, definitions: dict[str, Any], inside: tuple[str, ...]) -> Any:
    """A schema with its definitions put where they are used."""
    if isinstance(schema, list):
        return [_inlined(one, definitions, inside) for one in schema]
    if not isinstance(schema, dict):
        return schema
    name = str(schema.get("$ref", "")).removeprefix("#/$defs/")
    kept = {
        key: _inlined(value, definitions, inside)
        for key, value in schema.items()
        if key not in ("$ref", "$defs")
    }
    if name in inside:
        return {"type": "object", **kept}
    if name in definitions:
        return {**_inlined(definitions[name], definitions, (*inside, name)), **kept}
    return kept
