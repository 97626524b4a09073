"""Fields that ask for an answer by a JSON schema, and the schemas that OpenAI and Claude refuse."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Any

from autonomy_ctx.testing.providers.claude_models import ClaudeModel
from autonomy_ctx.testing.providers.state import Body, ProviderRefusal

# The first version of Claude with this field.
_FIRST_CLAUDE = (4, 5)
_NAME = re.compile(r"[a-zA-Z0-9_-]{1,64}")
# Keywords that neither takes in a schema that it keeps to.
_NOT_STRICT = {
    *("allOf", "oneOf", "not", "if", "then", "else", "patternProperties", "prefixItems", "default"),
    *("dependentRequired", "dependentSchemas", "unevaluatedProperties", "uniqueItems"),
}
_NOT_FOR_CLAUDE = _NOT_STRICT | {
    *("minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum", "multipleOf", "minLength", "maxLength"),
    *("maxItems", "minProperties", "maxProperties"),
}


def check_gpt_format(body: Body) -> None:
    """Refuse a format that OpenAI does not know, and a strict schema that it cannot keep to."""
    place, given = "response_format", body.get("response_format")
    form = given
    if isinstance(given, Mapping) and given.get("type") == "json_schema":
        place, form = f"{place}.json_schema", {"type": "json_schema", **(given.get("json_schema") or {})}
    if "input" in body:
        place, form = "text.format", (body.get("text") or {}).get("format")
    if form is None:
        return
    if not isinstance(form, Mapping) or form.get("type") not in ("text", "json_object", "json_schema"):
        raise ProviderRefusal(f"Invalid value: '{place}.type'.", code="invalid_value", param=place)
    if form["type"] != "json_schema":
        return
    if not _NAME.fullmatch(str(form.get("name", ""))):
        raise ProviderRefusal(f"Invalid '{place}.name'.", code="invalid_value", param=f"{place}.name")
    schema = form.get("schema")
    if not isinstance(schema, Mapping):
        raise ProviderRefusal(f"Missing required parameter: '{place}.schema'.", param=f"{place}.schema")
    problem = _find_strict_problem(schema) if form.get("strict") else None
    if problem is not None:
        raise ProviderRefusal(
            f"Invalid schema for {place} '{form['name']}': {problem}",
            code="invalid_json_schema",
            param=place,
        )


def _find_strict_problem(schema: Mapping[str, Any]) -> str | None:
    if schema.get("type") != "object":
        return "schema must be a JSON Schema of 'type: \"object\"'"
    for path, inner in _walk(schema):
        if unknown := sorted(_NOT_STRICT & inner.keys()):
            return f"In context={path}, '{unknown[0]}' is not permitted."
        if inner.get("type") == "object" and inner.get("additionalProperties") is not False:
            return f"In context={path}, 'additionalProperties' is required to be supplied and to be false."
        properties = inner.get("properties") or {}
        if sorted(inner.get("required") or ()) != sorted(properties):
            return f"In context={path}, 'required' is required to include every key in properties."
        if not {"type", "anyOf", "enum", "const", "$ref"} & inner.keys():
            return f"In context={path}, schema must have a 'type' key."
    return None


def check_claude_format(body: Body, model: ClaudeModel) -> None:
    """Refuse a format that Claude does not know, and a schema that it cannot keep to."""
    form, place = (body.get("output_config") or {}).get("format"), "output_config.format"
    if form is None:
        return
    if model.version < _FIRST_CLAUDE:
        raise ProviderRefusal(f"{place}: this model does not support structured outputs")
    if not isinstance(form, Mapping) or form.get("type") != "json_schema":
        raise ProviderRefusal(f"{place}.type: Input should be 'json_schema'")
    if form.keys() != {"type", "schema"} or not isinstance(form["schema"], Mapping):
        raise ProviderRefusal(f"{place}: a schema is required, and extra inputs are not permitted")
    for _, inner in _walk(form["schema"]):
        kind = inner.get("type")
        if kind == "object" and inner.get("additionalProperties") is not False:
            raise ProviderRefusal(
                f"{place}.schema: For 'object' type, 'additionalProperties' must be explicitly set to false"
            )
        if unknown := sorted(_NOT_FOR_CLAUDE & inner.keys()):
            raise ProviderRefusal(
                f"{place}.schema: For '{kind}' type, property '{unknown[0]}' is not supported"
            )


def _walk(schema: Any, path: tuple[str, ...] = ()) -> Iterator[tuple[tuple[str, ...], Mapping[str, Any]]]:
    """A schema and all schemas in it, each with the way to it."""
    if not isinstance(schema, Mapping):
        return
    yield path, schema
    for name, inner in (schema.get("properties") or {}).items():
        yield from _walk(inner, (*path, "properties", str(name)))
    yield from _walk(schema.get("items"), (*path, "items"))
    for number, inner in enumerate(schema.get("anyOf") or ()):
        yield from _walk(inner, (*path, "anyOf", str(number)))
