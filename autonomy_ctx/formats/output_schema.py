"""`OutputSchema`: the JSON schema that an answer must fit, and how each provider is asked for it.

OpenAI, Claude and Gemini have a field for it, and then write only what fits. They take a part of JSON Schema:
other keywords are moved into the description, so that the model still reads them. Where a provider has no
such field, or does not take a schema, `instruction` asks in words.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

from autonomy_ctx.formats.incoming import as_mapping
from autonomy_ctx.formats.outgoing import sanitize_name

# Keywords that every provider knows, and those that say nothing about a value.
_COMMON_KEYWORDS = frozenset({"type", "enum", "const", "description", "title"})
_ANNOTATIONS = frozenset({"default", "examples", "deprecated", "readOnly", "writeOnly", "discriminator"})
_FORMATS = frozenset({"date-time", "time", "date", "duration", "email", "hostname", "ipv4", "ipv6", "uuid"})
_NULL = {"type": "null"}
_CLAUDE, _GEMINI = re.compile(r"claude-[a-z]+-(\d+)(?:[-.](\d{1,2})(?!\d))?"), re.compile(r"gemini-(\d+)")
# The first versions that write JSON by a schema; before Gemini 3, not together with tools.
_FIRST_CLAUDE, _FIRST_GEMINI_WITH_TOOLS = (4, 5), 3
_OLD_GPT = re.compile(r"gpt-3|gpt-4(?!o|\.)|o1-(?:mini|preview)")


INSTRUCTION = (
    "Answer the message above with a JSON object that fits this JSON schema. Write only the object, "
    "without other text. You may call tools before."
)


@dataclass(frozen=True, slots=True)
class OutputSchema:
    """A JSON schema for the whole answer, an object, without references; `name` is a word for it."""

    name: str
    schema: Mapping[str, Any]

    @property
    def instruction(self) -> str:
        """The words that ask for such an answer."""
        return f"{INSTRUCTION}\n{json.dumps(self.schema)}"


class OutputTarget(NamedTuple):
    """The provider, the format and the model that are to write an answer, and whether it has tools."""

    provider: str
    wire_format: str
    model: str
    has_tools: bool


def output_options(
    target: OutputTarget, output: OutputSchema, options: Mapping[str, Any]
) -> dict[str, Any] | None:
    """The fields of a request that ask for an answer by a schema, with what `options` say in them.

    None if the provider has no such field for this model, these tools or this schema.
    """
    sent, name = sent_schema(target, output), sanitize_name(output.name)
    if sent is None:
        return None
    form = {"name": name, "schema": sent, "strict": sent is not output.schema}
    made: dict[str, Any]
    match target.wire_format:
        case "openai":
            return {"response_format": {"type": "json_schema", "json_schema": form}}
        case "responses":
            field, made = "text", {"format": {"type": "json_schema", **form}}
        case "anthropic":
            field, made = "output_config", {"format": {"type": "json_schema", "schema": sent}}
        case "bedrock":
            # The schema is text here.
            structure = {"jsonSchema": {"name": name, "schema": json.dumps(sent)}}
            field, made = "outputConfig", {"textFormat": {"type": "json_schema", "structure": structure}}
        case _:
            made = {"responseMimeType": "application/json", "responseJsonSchema": sent}
            field = "generationConfig"
    return {field: {**as_mapping(options.get(field)), **made}}


def sent_schema(target: OutputTarget, output: OutputSchema) -> Mapping[str, Any] | None:
    """The schema in the keywords that the provider takes; None if it has no field for it."""
    if target.wire_format in ("openai", "responses"):
        # Other servers of OpenAI's format may refuse the field.
        if not target.provider.startswith("openai") or _OLD_GPT.match(target.model):
            return None
        strict = close_schema(output.schema, all_required=True)
        return output.schema if strict is None else strict
    if target.wire_format == "google":
        gemini = _GEMINI.search(target.model)
        takes_it = not target.has_tools or bool(gemini and int(gemini[1]) >= _FIRST_GEMINI_WITH_TOOLS)
    else:
        takes_it = (claude_version(target.model) or (0, 0)) >= _FIRST_CLAUDE
    return close_schema(output.schema) if takes_it else None


def claude_version(model: str) -> tuple[int, int] | None:
    """The version in the name of a Claude model; None if it has none."""
    found = _CLAUDE.search(model)
    return None if found is None else (int(found[1]), int(found[2] or 0))


def close_schema(schema: Mapping[str, Any], *, all_required: bool = False) -> dict[str, Any] | None:
    """A schema in the keywords that providers take, whose objects have no other keys; None if there is none.

    With `all_required`, a key that may be left out is required and may be null. `drop_nulls` undoes this.
    """
    try:
        return _close(schema, all_required)
    except _NotClosable:
        return None


class _NotClosable(Exception):
    """A schema of objects with any keys, of any value, or in keywords that cannot be left out."""


def _close(schema: Any, all_required: bool) -> dict[str, Any]:
    if not isinstance(schema, Mapping):
        raise _NotClosable
    kind, choices = schema.get("type"), schema.get("anyOf", schema.get("oneOf"))
    made = {name: value for name, value in schema.items() if name in _COMMON_KEYWORDS}
    known = {*_COMMON_KEYWORDS, *_ANNOTATIONS, "anyOf", "oneOf"}
    if isinstance(kind, list):
        rest = {name: value for name, value in schema.items() if name not in ("type", "description", "title")}
        choices = [{**_own_keywords(rest, one), "type": one} for one in kind]
        made, known = {name: made[name] for name in ("description", "title") if name in made}, set(schema)
    if choices is not None:
        made["anyOf"] = [_close(one, all_required) for one in choices]
    elif kind == "object":
        properties = schema.get("properties")
        if not properties or schema.get("additionalProperties"):
            raise _NotClosable
        made |= _close_object(properties, schema.get("required") or (), all_required)
        known |= {"properties", "required", "additionalProperties"}
    elif kind == "array":
        made["items"] = _close(schema.get("items"), all_required)
        known.add("items")
    elif kind is None and not {"enum", "const"} & schema.keys():
        raise _NotClosable
    elif schema.get("format") in _FORMATS:
        made["format"] = schema["format"]
        known.add("format")
    left = {name: value for name, value in schema.items() if name not in known}
    if any(isinstance(value, Mapping | list) for value in left.values()):
        # Another schema, such as `allOf` or `prefixItems`.
        raise _NotClosable
    if left:
        said = ", ".join(f"{name}: {json.dumps(value)}" for name, value in left.items())
        made["description"] = f"{made['description']} ({said})" if made.get("description") else said
    return made


def _own_keywords(schema: Mapping[str, Any], kind: str) -> dict[str, Any]:
    """The keywords that say something about values of one type."""
    of = {"object": ("properties", "required", "additionalProperties"), "array": ("items",)}
    others = {name for one, names in of.items() if one != kind for name in names}
    return {} if kind == "null" else {name: value for name, value in schema.items() if name not in others}


def _close_object(properties: Mapping[str, Any], required: Any, all_required: bool) -> dict[str, Any]:
    made: dict[str, Any] = {}
    for name, inner in properties.items():
        closed = _close(inner, all_required)
        if all_required and name not in required and not _takes_null(inner):
            closed = {"anyOf": [closed, _NULL]}
        made[name] = closed
    needed = list(properties) if all_required else [name for name in properties if name in required]
    return {"properties": made, "required": needed, "additionalProperties": False}


def _takes_null(schema: Any) -> bool:
    if not isinstance(schema, Mapping):
        return bool(schema)
    kind, choices = schema.get("type"), schema.get("anyOf", schema.get("oneOf"))
    if choices is not None:
        return any(map(_takes_null, choices))
    if "enum" in schema or "const" in schema:
        return None in schema.get("enum", (schema.get("const"),))
    return kind is None or "null" in (kind if isinstance(kind, list) else [kind])


def drop_nulls(schema: Any, value: Any) -> Any:
    """A value without the keys that are null, may be left out, and may not be null."""
    if not isinstance(schema, Mapping):
        return value
    if isinstance(value, list):
        return [drop_nulls(schema.get("items"), inner) for inner in value]
    choices = schema.get("anyOf", schema.get("oneOf")) or ()
    inner_schemas = [one for one in (schema, *choices) if isinstance(one, Mapping)]
    objects = [one for one in inner_schemas if one.get("properties")]
    if not isinstance(value, dict) or len(objects) != 1:
        return value
    properties, required = objects[0]["properties"], objects[0].get("required") or ()
    return {
        name: drop_nulls(properties.get(name), inner)
        for name, inner in value.items()
        if inner is not None or name in required or _takes_null(properties.get(name, True))
    }


_TYPES: dict[str, tuple[type, ...]] = {
    "string": (str,),
    "integer": (int,),
    "number": (int, float),
    "boolean": (bool,),
    "null": (type(None),),
    "array": (list,),
    "object": (dict,),
}
# Keywords with a limit: what they measure, and whether a measure keeps the limit.
_LIMITS: dict[str, tuple[type | tuple[type, ...], Callable[[Any, Any], bool]]] = {
    "minimum": ((int, float), lambda value, limit: value >= limit),
    "maximum": ((int, float), lambda value, limit: value <= limit),
    "exclusiveMinimum": ((int, float), lambda value, limit: value > limit),
    "exclusiveMaximum": ((int, float), lambda value, limit: value < limit),
    "multipleOf": ((int, float), lambda value, limit: value % limit == 0),
    "minLength": (str, lambda value, limit: len(value) >= limit),
    "maxLength": (str, lambda value, limit: len(value) <= limit),
    "pattern": (str, lambda value, limit: re.search(limit, value) is not None),
    "minItems": (list, lambda value, limit: len(value) >= limit),
    "maxItems": (list, lambda value, limit: len(value) <= limit),
    "uniqueItems": (list, lambda value, limit: not limit or len(set(map(json.dumps, value))) == len(value)),
    "minProperties": (dict, lambda value, limit: len(value) >= limit),
    "maxProperties": (dict, lambda value, limit: len(value) <= limit),
}  # fmt: skip


_SAMPLE_FORMATS = {
    "date": "2000-01-01",
    "date-time": "2000-01-01T00:00:00Z",
    "time": "00:00:00Z",
    "duration": "PT0S",
    "uuid": "00000000-0000-4000-8000-000000000000",
    "email": "name@example.org",
    "uri": "https://example.org",
}


def sample_value(schema: Any) -> Any:
    """A small value that fits a schema without references, in most cases: patterns are not read."""
    schema = as_mapping(schema)
    for key in ("anyOf", "oneOf", "allOf"):
        if schema.get(key):
            return sample_value({**as_mapping(schema[key][0]), **schema, key: None})
    if "const" in schema or schema.get("enum"):
        return schema["const"] if "const" in schema else schema["enum"][0]
    kind = schema.get("type", "object" if "properties" in schema else "string")
    match kind if isinstance(kind, str) else kind[0]:
        case "object":
            inner = as_mapping(schema.get("properties"))
            return {name: sample_value(inner.get(name)) for name in schema.get("required") or ()}
        case "array":
            first = [sample_value(one) for one in schema.get("prefixItems") or ()]
            return first + [sample_value(schema.get("items"))] * ((schema.get("minItems") or 0) - len(first))
        case "integer" | "number":
            above = schema.get("exclusiveMinimum")
            return schema.get("minimum", 0 if above is None else above + 1)
        case "boolean":
            return False
        case "null":
            return None
    text = _SAMPLE_FORMATS.get(str(schema.get("format")), "")
    return text.ljust(schema.get("minLength") or 0, "x")


def find_problem(schema: Any, value: Any, path: str = "answer") -> str | None:
    """The first place where a value does not fit a schema without references; None if it fits.

    Keywords that are not known say nothing, as `format` does in JSON Schema.
    """
    if not isinstance(schema, Mapping):
        return f"{path} must not be there" if schema is False else None
    kinds = schema.get("type")
    kinds = [kinds] if isinstance(kinds, str) else kinds
    if kinds is not None and not any(_has_type(value, kind) for kind in kinds):
        return f"{path} must be of the type {' or '.join(kinds)}"
    allowed = schema["enum"] if "enum" in schema else [schema["const"]] if "const" in schema else None
    if allowed is not None and json.dumps(value) not in map(json.dumps, allowed):
        return f"{path} must be one of {json.dumps(allowed)}"
    for keyword, (measured, keeps) in _LIMITS.items():
        limit = schema.get(keyword)
        is_measured = isinstance(value, measured) and not isinstance(value, bool)
        if limit is not None and is_measured and not _keeps(keeps, value, limit):
            return f"{path} breaks {keyword}: {json.dumps(limit)}"
    for inner in schema.get("allOf") or ():
        if (problem := find_problem(inner, value, path)) is not None:
            return problem
    for keyword in ("anyOf", "oneOf"):
        problems = [find_problem(one, value, path) for one in schema.get(keyword) or ()]
        fitting = problems.count(None)
        if problems and (not fitting or (keyword == "oneOf" and fitting > 1)):
            return (
                next(filter(None, problems)) if len(problems) == 1 else f"{path} fits {fitting} of {keyword}"
            )
    if isinstance(value, dict):
        return _find_object_problem(schema, value, path)
    return _find_list_problem(schema, value, path) if isinstance(value, list) else None


def _keeps(keeps: Callable[[Any, Any], bool], value: Any, limit: Any) -> bool:
    try:
        return keeps(value, limit)
    except (TypeError, ArithmeticError, re.error):
        # The schema is wrong here, or its pattern is one of another language.
        return True


def _has_type(value: Any, kind: str) -> bool:
    if isinstance(value, bool):
        return kind == "boolean"
    is_whole = kind == "integer" and isinstance(value, float) and value.is_integer()
    return is_whole or isinstance(value, _TYPES.get(kind, (object,)))


def _find_object_problem(schema: Mapping[str, Any], value: Mapping[str, Any], path: str) -> str | None:
    properties = as_mapping(schema.get("properties"))
    for name in schema.get("required") or ():
        if name not in value:
            return f"{path}.{name} is missing"
    for name, inner in value.items():
        known = properties.get(name, schema.get("additionalProperties", True))
        if known is False:
            return (
                f"{path} has a key that is not in the schema; its keys are {', '.join(properties) or 'none'}"
            )
        if (problem := find_problem(known, inner, f"{path}.{name}")) is not None:
            return problem
    return None


def _find_list_problem(schema: Mapping[str, Any], value: Sequence[Any], path: str) -> str | None:
    first = schema.get("prefixItems") or ()
    for index, inner in enumerate(value):
        known = first[index] if index < len(first) else schema.get("items", True)
        if (problem := find_problem(known, inner, f"{path}[{index}]")) is not None:
            return problem
    return None
