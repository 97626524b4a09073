"""What a model sends, as the function gets it, and what it is told when that is impossible."""

from __future__ import annotations

import inspect
import json
import string
from dataclasses import dataclass
from datetime import date, datetime
from enum import Enum
from keyword import iskeyword
from pathlib import Path
from types import GenericAlias
from typing import Any, Literal, NamedTuple, NotRequired, TypedDict

import pytest
from hypothesis import given
from hypothesis import strategies as st

from autonomy_ctx.errors import InvalidArguments
from autonomy_ctx.messages.message import ToolCall
from autonomy_ctx.tools.arguments import parse_arguments
from autonomy_ctx.tools.tool import Tool, tool


class Colour(Enum):
    RED = "red"
    BLUE = "blue"


class Odd(Enum):
    HERE = (1, 2)


@dataclass(frozen=True)
class Point:
    x: float
    y: float = 0.0

    def __post_init__(self) -> None:
        if self.x < 0:
            raise ValueError("x must not be negative")


class Address(TypedDict):
    street: str
    number: NotRequired[int]


class Pair(NamedTuple):
    left: int
    right: str = "r"


@dataclass
class Tree:
    value: int
    children: list[Tree]


def taking(annotation: Any, default: Any = inspect.Parameter.empty) -> Tool[..., Any]:
    """A tool with one parameter of a type."""

    def take(value: Any) -> Any:
        return value

    parameter = inspect.Parameter(
        "value", inspect.Parameter.KEYWORD_ONLY, annotation=annotation, default=default
    )
    take.__signature__ = inspect.Signature([parameter])  # type: ignore[attr-defined]
    return Tool(take)


def sent(annotation: Any, value: Any, default: Any = inspect.Parameter.empty) -> Any:
    """What the function gets when a model sends a value."""
    call = ToolCall("c1", "take", json.dumps({"value": value}))
    return taking(annotation, default).bind(parse_arguments(call), {}).arguments["value"]


@pytest.mark.parametrize(
    ("annotation", "value", "got"),
    [
        (str, "x", "x"),
        (int, 5, 5),
        (int, 5.0, 5),
        (int, " 5 ", 5),
        (int, "-7", -7),
        (float, 5, 5.0),
        (float, "2.5e3", 2500.0),
        (float, ".5", 0.5),
        (bool, "True", True),
        (bool, "false", False),
        (None, None, None),
        (Any, {"a": [1]}, {"a": [1]}),
        (complex, "anything", "anything"),
        (list[int], ["1", 2], [1, 2]),
        (list[int], "[1, 2]", [1, 2]),
        (set[str], ["a", "a"], {"a"}),
        (frozenset[int], [1], frozenset({1})),
        (tuple[int, ...], [1, 2, 3], (1, 2, 3)),
        (tuple[int, str], [1, "a"], (1, "a")),
        (dict[str, int], {"a": "1"}, {"a": 1}),
        (dict[str, int], '{"a": 1}', {"a": 1}),
        (dict[int, str], {"1": "a"}, {1: "a"}),
        (int | None, None, None),
        (int | None, "5", 5),
        (int | str, "5", "5"),
        (str | int, 5, 5),
        (int | bool, True, True),
        (list[int] | str, "[1]", "[1]"),
        (datetime | str, "hello", "hello"),
        (Literal["a", 1], 1, 1),
        (Literal[1], 1.0, 1),
        (Colour, "red", Colour.RED),
        (Colour, "BLUE", Colour.BLUE),
        (Odd, "HERE", Odd.HERE),
        (datetime, "2030-01-02T03:04:05Z", datetime.fromisoformat("2030-01-02T03:04:05+00:00")),
        (date, "2030-01-02", date(2030, 1, 2)),
        (Path, "a/b", Path("a/b")),
        (Point, {"x": 1}, Point(1.0)),
        (Point, '{"x": "1"}', Point(1.0)),
        (list[Point], [{"x": 1, "y": 2}], [Point(1.0, 2.0)]),
        (Address, {"street": "s"}, {"street": "s"}),
        (Pair, {"left": 1}, Pair(1)),
        (Tree, {"value": 1, "children": [{"value": 2, "children": []}]}, Tree(1, [Tree(2, [])])),
    ],
    ids=str,
)
def test_a_value_arrives_as_the_annotation_says(annotation: Any, value: Any, got: Any) -> None:
    found = sent(annotation, value)
    assert found == got
    assert type(found) is type(got)


LONG = "word " * 20


@pytest.mark.parametrize(
    ("annotation", "value", "problem"),
    [
        (str, 5, "must be text, but the number 5 came"),
        (int, "five", "must be an integer, but the text 'five' came"),
        (int, 5.5, "must be an integer, but the number 5.5 came"),
        (int, True, "must be an integer, but true came"),
        (int, LONG, "must be an integer, but a text of 100 characters came"),
        (float, None, "must be a number, but null came"),
        (float, 10**400, "must be a number, but the number 1000"),
        (float, "nan", "must be a number, but the text 'nan' came"),
        (bool, 1, "must be true or false, but the number 1 came"),
        (list[int], 5, "must be a list, but the number 5 came"),
        (list[int], "[1", "must be a list, but the text '[1' came"),
        (list[int], {"a": 1}, "must be a list, but an object with 1 keys came"),
        (tuple[int, str], [1], "must be a list of 2, but a list of 1 came"),
        (dict[str, int], [1, 2], "must be an object, but a list of 2 came"),
        (int | None, "x", "must be an integer or null, but the text 'x' came"),
        (int | list[str], 0.5, "must be an integer or a list, but the number 0.5 came"),
        (Literal["a", "b"], "c", 'must be one of "a", "b", but the text \'c\' came'),
        (Literal[1], True, "must be one of 1, but true came"),
        (Colour, "green", 'must be one of "red", "blue", but the text \'green\' came'),
        (datetime, "soon", "must be text with an ISO 8601 date and time, but the text 'soon' came"),
        (Point, {"x": -1}, "was refused by `Point` (ValueError: x must not be negative)"),
        (Point, {"x": 1, "z": 2}, "has an unknown key 'z'; the keys are x, y"),
        (set[Any], [[1]], "was refused by `set` (TypeError"),
    ],
    ids=str,
)
def test_a_value_that_does_not_fit_is_refused_in_one_sentence(
    annotation: Any, value: Any, problem: str
) -> None:
    with pytest.raises(InvalidArguments) as caught:
        sent(annotation, value)
    assert str(caught.value).startswith(f"argument `value` {problem}")
    assert str(caught.value).endswith("; `take` was not run")


@pytest.mark.parametrize(
    ("annotation", "value", "path"),
    [
        (list[int], [1, "x"], "value[1]"),
        (dict[str, list[int]], {"a": [1, None]}, "value.a[1]"),
        (dict[int, str], {"x": "a"}, "value (a key)"),
        (list[Point], [{"y": 1}], "value[0].x"),
        (Point | None, {"x": "y"}, "value.x"),
        (dict[str, int], {"k" * 500: "x"}, f"value.{'k' * 54}...{'k' * 50}"),
    ],
)
def test_the_error_names_the_place_inside_an_argument(annotation: Any, value: Any, path: str) -> None:
    with pytest.raises(InvalidArguments) as caught:
        sent(annotation, value)
    assert caught.value.argument == path


def test_long_content_is_not_repeated() -> None:
    secret = "s3cr3t " * 50
    for annotation in (int, list[int], Point, Colour, datetime, int | bool, tuple[int, int]):
        with pytest.raises(InvalidArguments) as caught:
            sent(annotation, secret)
        assert "s3cr3t" not in str(caught.value)
        assert len(str(caught.value)) < 250


def test_missing_and_unknown_arguments_are_named() -> None:
    @tool
    def add(a: int, b: int = 2) -> int:
        return a + b

    @tool
    def nothing() -> None: ...

    with pytest.raises(InvalidArguments, match="argument `a` is missing; it must be an integer; `add`"):
        add.bind({}, {})
    with pytest.raises(InvalidArguments, match="has an unknown argument 'c'; the arguments are a, b"):
        add.bind({"a": 1, "c": 2}, {})
    with pytest.raises(InvalidArguments, match="has an unknown argument 'c'; it takes none"):
        nothing.bind({"c": 2}, {})


class Checked:
    """A class with its own checks, shaped like a pydantic model."""

    @staticmethod
    def model_json_schema() -> dict[str, Any]:
        return {"type": "object"}

    @staticmethod
    def model_validate(value: Any) -> Any:
        if value == {"good": True}:
            return "checked"
        raise KeyError("a secret that came")


def test_a_class_that_checks_for_itself_is_asked_and_its_refusal_passed_on() -> None:
    assert sent(Checked, {"good": True}) == "checked"
    with pytest.raises(InvalidArguments) as caught:
        sent(Checked, {"good": False})
    assert str(caught.value) == "argument `value` was refused by `Checked` (KeyError); `take` was not run"
    with pytest.raises(InvalidArguments, match="is missing; it must be an object"):
        taking(Checked).bind({}, {})
    with pytest.raises(InvalidArguments, match="is missing; it must be anything"):
        taking(Any).bind({}, {})


def test_null_stands_for_a_default_of_none_whatever_the_annotation() -> None:
    assert sent(int, None, default=None) is None
    with pytest.raises(InvalidArguments):
        sent(int, None, default=5)


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        (
            "{",
            "has arguments that are not JSON (Expecting property name enclosed in double quotes at ch",
        ),
        ("[1]", "needs a JSON object of arguments, but a list of 1 came"),
        ('{"a": NaN}', "has arguments that are not JSON (NaN is not a JSON value)"),
        ("[" * 100_000, "has arguments that are nested too deeply"),
        ('{"a": ' + "9" * 5000 + "}", "has arguments that are not JSON (Exceeds the limit"),
    ],
    ids=range(5),
)
def test_text_that_is_no_json_object_is_refused(text: str, problem: str) -> None:
    with pytest.raises(InvalidArguments) as caught:
        parse_arguments(ToolCall("c1", "add", text))
    assert str(caught.value).startswith(f"the call {problem}")


def test_empty_text_means_no_arguments() -> None:
    assert parse_arguments(ToolCall("c1", "add", " ")) == {}


def test_arguments_nested_deeper_than_the_stack_are_refused() -> None:
    value: Any = {"value": 1, "children": []}
    for _ in range(5_000):
        value = {"value": 1, "children": [value]}
    with pytest.raises(InvalidArguments, match="nested too deeply"):
        taking(Tree).bind({"value": value}, {})


def test_nested_unions_that_do_not_fit_are_refused_quickly() -> None:
    annotation: Any = int
    value: Any = "x"
    for _ in range(40):
        annotation = list[annotation] | None
        value = [value]
    with pytest.raises(InvalidArguments) as caught:
        sent(annotation, value)
    assert caught.value.argument == "value" + "[0]" * 37 or "..." in str(caught.value.argument)


# -- whatever fits the schema converts and calls ----------------------------------------------------

simple: st.SearchStrategy[Any] = st.sampled_from(
    [str, int, float, bool, None, Any, Colour, Odd, Point, Address, Pair, date, datetime, Path]
)


def wider(inner: st.SearchStrategy[Any]) -> st.SearchStrategy[Any]:
    return st.one_of(
        inner.map(lambda one: GenericAlias(list, (one,))),
        inner.map(lambda one: GenericAlias(tuple, (one, ...))),
        inner.map(lambda one: GenericAlias(dict, (str, one))),
        inner.map(lambda one: one | None if one not in (None, Any) else one),
        st.tuples(inner, inner).map(lambda two: GenericAlias(tuple, two)),
        st.sampled_from([set[int], frozenset[str], Literal["a", 1, None], int | str, str | list[int]]),
    )


annotation_strategy: st.SearchStrategy[Any] = st.recursive(simple, wider, max_leaves=4)
names = st.text(string.ascii_lowercase, min_size=1, max_size=6).filter(
    lambda name: name not in ("pool", "memory", "scope", "agent", "self") and not iskeyword(name)
)
anything = st.recursive(
    st.none() | st.booleans() | st.integers(-9, 9) | st.text(max_size=3),
    lambda inner: st.lists(inner, max_size=2) | st.dictionaries(st.text(max_size=2), inner, max_size=2),
    max_leaves=3,
)


def values_of(schema: dict[str, Any]) -> st.SearchStrategy[Any]:
    """JSON values that fit a schema; written from the schema alone."""
    if "enum" in schema:
        return st.sampled_from(schema["enum"])
    if "anyOf" in schema:
        return st.one_of([values_of(option) for option in schema["anyOf"]])
    match schema.get("type"):
        case None:
            return anything
        case "string":
            formats = {"date": st.dates(), "date-time": st.datetimes()}
            if "format" in schema:
                return formats[schema["format"]].map(lambda at: at.isoformat())
            return st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\0"), max_size=5)
        case "integer":
            return st.integers() | st.integers(-9, 9).map(float)
        case "number":
            # The one record that refuses anything refuses numbers below zero.
            return st.floats(min_value=0, max_value=1e300) | st.integers(0, 10**20)
        case "boolean":
            return st.booleans()
        case "null":
            return st.none()
        case "array":
            if "prefixItems" in schema:
                return st.tuples(*map(values_of, schema["prefixItems"])).map(list)
            return st.lists(
                values_of(schema.get("items", {})),
                min_size=schema.get("minItems", 0),
                max_size=schema.get("maxItems", 3),
                unique=schema.get("uniqueItems", False),
            )
        case "object":
            properties = schema.get("properties", {})
            required = schema.get("required", ())
            made = {name: values_of(one) for name, one in properties.items()}
            fixed = st.fixed_dictionaries(
                {name: one for name, one in made.items() if name in required},
                optional={name: one for name, one in made.items() if name not in required},
            )
            more = schema.get("additionalProperties")
            if not more:
                return fixed
            free = names.filter(lambda name: name not in properties)
            others = st.dictionaries(free, values_of({} if more is True else more), max_size=2)
            return st.tuples(others, fixed).map(lambda two: {**two[0], **two[1]})
    raise AssertionError(schema)


@st.composite
def tools(draw: st.DrawFn) -> Tool[..., Any]:
    chosen = draw(st.lists(names, unique=True, max_size=4))
    kinds = [
        inspect.Parameter.POSITIONAL_ONLY,
        inspect.Parameter.POSITIONAL_OR_KEYWORD,
        inspect.Parameter.KEYWORD_ONLY,
    ]
    parameters = []
    for name, kind in zip(chosen, sorted(draw(st.sampled_from(kinds)) for _ in chosen), strict=True):
        parameters.append(inspect.Parameter(name, kind, annotation=draw(annotation_strategy)))
    if draw(st.booleans()):
        free = next(name for name in ("more", "rest", "others", "extra", "much") if name not in chosen)
        parameters.append(
            inspect.Parameter(free, inspect.Parameter.VAR_KEYWORD, annotation=draw(annotation_strategy))
        )
    signature = inspect.Signature(parameters)

    def take(*args: Any, **kwargs: Any) -> dict[str, Any]:
        return signature.bind(*args, **kwargs).arguments

    take.__signature__ = signature  # type: ignore[attr-defined]
    return Tool(take)


@given(st.data())
def test_whatever_fits_the_schema_converts_and_calls(data: st.DataObject) -> None:
    made = data.draw(tools())
    schema = made.spec["parameters"]
    json.dumps(schema, allow_nan=False)
    arguments = data.draw(values_of(schema))
    call = ToolCall("c1", "take", json.dumps(arguments))
    bound = made.bind(parse_arguments(call), {})
    got = made(*bound.args, **bound.kwargs)
    assert {name for name in schema["properties"] if name in arguments} <= set(got)


@given(annotation_strategy, anything)
def test_whatever_comes_either_converts_or_is_refused_with_a_short_sentence(
    annotation: Any, value: Any
) -> None:
    said = "argument `value` fits"
    try:
        sent(annotation, value)
    except InvalidArguments as error:
        said = str(error)
    assert len(said) < 600
    assert said.startswith("argument `value")
