"""The schema a model sees, type by type."""

from __future__ import annotations

import collections.abc
import json
from dataclasses import dataclass, field
from datetime import date, datetime, time
from enum import Enum, IntEnum
from pathlib import Path
from typing import (
    TYPE_CHECKING,
    Annotated,
    Any,
    Literal,
    NamedTuple,
    NewType,
    NotRequired,
    TypedDict,
    TypeVar,
)
from uuid import UUID

import pytest

from autonomy_ctx.tools.schema import Shape, parameters_schema, schema_of
from autonomy_ctx.tools.tool import tool

if TYPE_CHECKING:
    from decimal import Decimal as OnlyForCheckers


class Colour(Enum):
    RED = "red"
    BLUE = "blue"


class Level(IntEnum):
    LOW = 1
    HIGH = 2


class Odd(Enum):
    HERE = (1, 2)
    THERE = (3, 4)


@dataclass
class Point:
    """A point.

    Attributes:
        x: To the right.
    """

    x: float
    y: float = 0.0
    tags: list[str] = field(default_factory=list)
    made: int = field(default=0, init=False)
    name: str | None = field(default=None, metadata={"description": "What it is called."})


class Address(TypedDict):
    """Where somebody lives."""

    street: str
    number: NotRequired[int]


class Loose(TypedDict, total=False):
    note: str


class Pair(NamedTuple):
    left: int
    right: str = "r"


@dataclass
class Tree:
    value: int
    children: list[Tree] = field(default_factory=list)


Name = NewType("Name", str)
Bounded = TypeVar("Bounded", bound=int)
STRING, INTEGER, NUMBER = {"type": "string"}, {"type": "integer"}, {"type": "number"}
NULL: dict[str, Any] = {"type": "null"}


@pytest.mark.parametrize(
    ("annotation", "schema"),
    [
        (str, STRING),
        (int, INTEGER),
        (float, NUMBER),
        (bool, {"type": "boolean"}),
        (None, NULL),
        (type(None), NULL),
        (Any, {}),
        (object, {}),
        (complex, {}),
        (list, {"type": "array", "items": {}}),
        (list[int], {"type": "array", "items": INTEGER}),
        (collections.abc.Sequence[int], {"type": "array", "items": INTEGER}),
        (set[str], {"type": "array", "items": STRING, "uniqueItems": True}),
        (frozenset[str], {"type": "array", "items": STRING, "uniqueItems": True}),
        (tuple, {"type": "array", "items": {}}),
        (tuple[int, ...], {"type": "array", "items": INTEGER}),
        (tuple[int, int], {"type": "array", "minItems": 2, "maxItems": 2, "items": INTEGER}),
        (tuple[int, str], {"type": "array", "minItems": 2, "maxItems": 2, "prefixItems": [INTEGER, STRING]}),
        (tuple[()], {"type": "array", "minItems": 0, "maxItems": 0}),
        (dict, {"type": "object", "additionalProperties": True}),
        (dict[str, int], {"type": "object", "additionalProperties": INTEGER}),
        (collections.abc.Mapping[str, int], {"type": "object", "additionalProperties": INTEGER}),
        (int | None, {"anyOf": [INTEGER, NULL]}),
        (int | str, {"anyOf": [INTEGER, STRING]}),
        (Literal["a", "b"], {"type": "string", "enum": ["a", "b"]}),
        (Literal[1, "b", None], {"enum": [1, "b", None]}),
        (Literal[Colour.RED], {"type": "string", "enum": ["red"]}),
        (Literal[b"x"], {}),
        (Colour, {"type": "string", "enum": ["red", "blue"]}),
        (Level, {"type": "integer", "enum": [1, 2]}),
        (Odd, {"type": "string", "enum": ["HERE", "THERE"]}),
        (datetime, {"type": "string", "format": "date-time"}),
        (date, {"type": "string", "format": "date"}),
        (time, {"type": "string", "format": "time"}),
        (UUID, {"type": "string", "format": "uuid"}),
        (Path, STRING),
        (Name, STRING),
        (Bounded, INTEGER),
        (Annotated[int, "How many."], {"type": "integer", "description": "How many."}),
        (
            list[Annotated[int, 5, "One of them."]],
            {"type": "array", "items": {"type": "integer", "description": "One of them."}},
        ),
        (
            Address,
            {
                "type": "object",
                "properties": {"street": STRING, "number": INTEGER},
                "required": ["street"],
                "additionalProperties": False,
            },
        ),
        (Loose, {"type": "object", "properties": {"note": STRING}, "additionalProperties": False}),
        (
            Pair,
            {
                "type": "object",
                "properties": {"left": INTEGER, "right": {"type": "string", "default": "r"}},
                "required": ["left"],
                "additionalProperties": False,
            },
        ),
        (
            Point,
            {
                "type": "object",
                "properties": {
                    "x": {"type": "number", "description": "To the right."},
                    "y": {"type": "number", "default": 0.0},
                    "tags": {"type": "array", "items": STRING},
                    "name": {
                        "anyOf": [STRING, NULL],
                        "description": "What it is called.",
                        "default": None,
                    },
                },
                "required": ["x"],
                "additionalProperties": False,
            },
        ),
    ],
    ids=str,
)
def test_a_type_has_its_schema(annotation: Any, schema: dict[str, Any]) -> None:
    assert schema_of(Shape(annotation)) == schema


def test_a_type_that_holds_itself_is_described_once() -> None:
    schema = schema_of(Shape(Tree))
    assert schema["properties"]["children"]["items"] == {"type": "object"}


def test_defaults_are_shown_as_json_and_left_out_where_that_is_impossible() -> None:
    @tool
    def many(
        colour: Colour = Colour.BLUE,
        day: date = date(2030, 1, 2),
        where: Path = Path("a/b"),
        what: Any = print,
        empty: str | None = None,
    ) -> None: ...

    properties = many.spec["parameters"]["properties"]
    assert {name: shown.get("default", "-") for name, shown in properties.items()} == {
        "colour": "blue",
        "day": "2030-01-02",
        "where": "a/b",
        "what": "-",
        "empty": None,
    }
    assert "required" not in many.spec["parameters"]


def test_open_ended_keywords_allow_more_properties() -> None:
    @tool
    def typed(**more: int) -> None: ...

    @tool
    def untyped(**more) -> None:  # type: ignore[no-untyped-def]
        ...

    assert typed.spec["parameters"]["additionalProperties"] == INTEGER
    assert untyped.spec["parameters"]["additionalProperties"] is True


def test_local_types_are_known_and_names_that_nobody_knows_take_anything() -> None:
    @dataclass
    class Local:
        size: int

    @tool
    def use(one: Local, other: OnlyForCheckers, *, third: NotThere | None = None) -> None: ...  # type: ignore[name-defined]  # noqa: F821

    properties = use.spec["parameters"]["properties"]
    assert properties["one"]["properties"] == {"size": INTEGER}
    assert properties["other"] == {}
    assert properties["third"] == {"default": None}


@tool
def early(value: Late) -> None: ...


@dataclass
class Late:
    size: int


def test_a_type_that_is_defined_after_the_tool_is_found() -> None:
    assert early.spec["parameters"]["properties"]["value"]["properties"] == {"size": INTEGER}


def test_an_annotation_says_more_than_the_docstring() -> None:
    @tool
    def both(a: Annotated[int, "From the type."], b: int) -> None:
        """Do.

        Args:
            a: From the text.
            b: Only here.
        """

    properties = both.spec["parameters"]["properties"]
    assert properties["a"]["description"] == "From the type."
    assert properties["b"]["description"] == "Only here."


class Own:
    """A class with its own schema, shaped like a pydantic model that refers to another."""

    @staticmethod
    def model_json_schema() -> dict[str, Any]:
        return {
            "type": "object",
            "properties": {"leaf": {"$ref": "#/$defs/Leaf", "description": "A leaf."}},
            "$defs": {
                "Leaf": {"type": "object", "properties": {"next": {"$ref": "#/$defs/Leaf"}, "n": INTEGER}}
            },
        }

    @staticmethod
    def model_validate(value: Any) -> Any:
        return value


def test_a_schema_with_references_is_written_out() -> None:
    assert schema_of(Shape(Own)) == {
        "type": "object",
        "properties": {
            "leaf": {
                "type": "object",
                "properties": {"next": {"type": "object"}, "n": INTEGER},
                "description": "A leaf.",
            }
        },
    }


def test_a_pydantic_model_has_its_own_schema_and_checks() -> None:
    pydantic = pytest.importorskip("pydantic", reason="pydantic is not installed; it is no dependency")
    inner = pydantic.create_model("Inner", size=(int, ...))
    outer = pydantic.create_model("Outer", inner=(inner, ...), many=(list[inner], []))  # type: ignore[valid-type]

    def take(value: Any) -> Any:
        return value

    take.__annotations__["value"] = outer
    made = tool(take)
    assert "$ref" not in str(made.spec)
    bound = made.bind({"value": {"inner": {"size": 5}}}, {})
    assert bound.arguments["value"].inner.size == 5
    with pytest.raises(ValueError, match=r"argument `value.inner.size` was refused by `Outer`") as caught:
        made.bind({"value": {"inner": {"size": "a secret text"}}}, {})
    assert "secret" not in str(caught.value)


# -- schemas that others wrote ---------------------------------------------------------------------------

NAME = {"type": "string", "description": "A name."}


def test_references_are_replaced_by_what_they_point_to() -> None:
    schema = {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "type": "object",
        "$defs": {"Name": NAME},
        "definitions": {"a/b": {"type": "integer"}},
        "properties": {
            "who": {"$ref": "#/$defs/Name", "description": "Who it is."},
            "size": {"$ref": "#/definitions/a~1b"},
            "same": {"$ref": "#/properties/who"},
            "some": {"type": "array", "items": {"$ref": "#/$defs/Name"}},
            "other": {"$ref": "https://example.com/other.json", "description": "Not here."},
        },
        "required": ["who"],
    }
    assert parameters_schema(schema) == {
        "type": "object",
        "properties": {
            "who": {"type": "string", "description": "Who it is."},
            "size": {"type": "integer"},
            "same": {"type": "string", "description": "Who it is."},
            "some": {"type": "array", "items": NAME},
            "other": {"description": "Not here."},
        },
        "required": ["who"],
    }


def test_names_and_data_that_look_like_references_are_left_alone() -> None:
    properties = {
        "$ref": {"type": "string"},
        "definitions": {"type": "string", "default": {"$ref": "#/x"}},
        "kind": {"const": {"$ref": "#/$defs/Name"}},
    }
    assert parameters_schema({"type": "object", "properties": properties})["properties"] == properties


def test_a_schema_that_holds_itself_ends() -> None:
    schema = {
        "$defs": {"Node": {"type": "object", "properties": {"next": {"$ref": "#/$defs/Node"}}}},
        "properties": {"node": {"$ref": "#/$defs/Node"}, "all": {"$ref": "#"}},
    }
    node = {"type": "object", "properties": {"next": {"type": "object"}}}
    assert parameters_schema(schema)["properties"]["node"] == node


def test_references_that_multiply_are_cut_short() -> None:
    definitions = {
        f"d{n}": {"type": "object", "properties": {side: {"$ref": f"#/$defs/d{n + 1}"} for side in "lr"}}
        for n in range(40)
    }
    made = parameters_schema({"$defs": definitions, "properties": {"top": {"$ref": "#/$defs/d0"}}})
    text = json.dumps(made)
    assert "$ref" not in text
    assert len(text) < 200_000


@pytest.mark.parametrize("schema", [{}, {"type": "object"}, {"type": "string"}, {"properties": None}])
def test_parameters_are_always_an_object_with_properties(schema: dict[str, Any]) -> None:
    assert parameters_schema(schema) == {"type": "object", "properties": {}}


def test_alternatives_at_the_top_become_properties() -> None:
    by_name = {"properties": {"name": NAME, "deep": {"type": "boolean"}}, "required": ["name", "deep"]}
    by_id = {
        "properties": {"id": {"type": "integer"}, "deep": {"type": "boolean"}},
        "required": ["id", "deep"],
    }
    schema = {"properties": {"x": {"type": "number"}}, "required": ["x"]}
    made = parameters_schema({**schema, "oneOf": [by_name, by_id]})
    assert set(made["properties"]) == {"x", "name", "id", "deep"}
    assert made["required"] == ["deep", "x"]
    made = parameters_schema({**schema, "allOf": [by_name, by_id]})
    assert set(made["required"]) == {"x", "name", "id", "deep"}
    assert not {"oneOf", "allOf"} & made.keys()
