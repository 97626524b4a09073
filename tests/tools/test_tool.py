"""What a decorator makes of a function."""

from __future__ import annotations

import functools
import inspect
import math
import warnings
from typing import Any

import pytest

from autonomy_ctx import Agent, ContextItem, ContextPool
from autonomy_ctx.errors import InvalidArguments, InvalidTool
from autonomy_ctx.tools.schema import read_docstring
from autonomy_ctx.tools.tool import Tool, tool, tools_by_name


@tool
def add(a: int, b: int = 2) -> int:
    """Add two numbers,
    exactly.

    More about it.

    Args:
        a: The first.
        b: The second.
    """
    return a + b


@tool(name="weather-now", instructions="Ask for one town at a time.", timeout=5, output_limit=1000)
async def weather(town: str) -> str:
    """The weather."""
    return f"sunny in {town}"


def test_a_plain_decorator_reads_name_description_and_schema_from_the_function() -> None:
    assert add.spec == {
        "name": "add",
        "description": "Add two numbers, exactly.",
        "parameters": {
            "type": "object",
            "properties": {
                "a": {"type": "integer", "description": "The first."},
                "b": {"type": "integer", "description": "The second.", "default": 2},
            },
            "required": ["a"],
            "additionalProperties": False,
        },
    }
    assert (add.timeout, add.output_limit, add.is_model_call, add.instructions) == (None, None, False, None)


def test_empty_parentheses_are_the_same_as_none() -> None:
    @tool()
    def add(a: int) -> int:
        return a

    assert isinstance(add, Tool)
    assert add.name == "add"
    assert add.description == ""


async def test_a_tool_called_directly_is_the_plain_function() -> None:
    assert add(1, b=4) == 5
    assert await weather("Oslo") == "sunny in Oslo"
    assert getattr(add, "__name__", "") == "add"
    assert inspect.signature(add) == inspect.signature(add.function)
    assert repr(weather) == "Tool('weather-now')"


def test_options_are_kept_as_given() -> None:
    assert weather.name == "weather-now"
    assert weather.instructions == "Ask for one town at a time."
    assert (weather.timeout, weather.output_limit) == (5, 1000)
    assert tool(description="Other.", is_model_call=True)(lambda_with_name()).spec["description"] == "Other."


def lambda_with_name() -> Any:
    def ask() -> None:
        """Ask."""

    return ask


def test_who_edits_a_spec_edits_a_copy() -> None:
    add.spec["parameters"]["properties"].clear()
    assert add.spec["parameters"]["properties"]


def test_attributes_of_the_function_do_not_replace_those_of_the_tool() -> None:
    function = lambda_with_name()
    function.timeout = "never"
    assert Tool(function).timeout is None


@pytest.mark.parametrize(
    ("make", "problem"),
    [
        (lambda: tool(lambda x: x), "tool `<lambda>` needs a `name` of at most 64"),
        (lambda: Tool(functools.partial(add.function, 1)), "tool `partial` has no name of its own; give one"),
        (lambda: tool(name="a b")(add.function), "tool `a b` needs a `name`"),
        (lambda: tool(name="a" * 65)(add.function), "needs a `name`"),
        (lambda: Tool(5), "tool `int` is not a function"),  # type: ignore[arg-type]
        (lambda: Tool(dict.update, name="update"), "has no signature to read; wrap it in a function"),
        (lambda: Tool(dict), "tool `dict` is not a function"),
        (lambda: tool(timeout=0)(add.function), "timeout must be a number of seconds > 0 or None, not 0"),
        (
            lambda: tool(timeout=math.nan)(add.function),
            "timeout must be a number of seconds > 0 or None, not nan",
        ),
        (
            lambda: tool(output_limit=5)(add.function),
            "tool `add` cannot be made: output_limit must be >= 256 or None, not 5",
        ),
    ],
)
def test_what_cannot_be_a_tool_is_refused_at_once(make: Any, problem: str) -> None:
    with pytest.raises(InvalidTool) as caught:
        make()
    assert problem in str(caught.value)


def test_variable_positional_parameters_are_refused_with_advice() -> None:
    with pytest.raises(InvalidTool) as caught:

        @tool
        def many(*names: str) -> None: ...

    assert str(caught.value) == (
        "tool `many` takes *names, but a model gives arguments by name; "
        "make it a parameter of its own, such as `names: list[str]`"
    )


def test_a_partial_has_the_docstring_and_the_remaining_parameters_of_its_function() -> None:
    made = Tool(functools.partial(add.function, b=3), name="add_three")
    assert made.description == "Add two numbers, exactly."
    assert made.spec["parameters"]["required"] == ["a"]


def test_a_tool_among_methods_belongs_to_the_instance() -> None:
    class Shop:
        def __init__(self, price: int) -> None:
            self.price = price

        @tool(timeout=3)
        def cost(self, pieces: int) -> int:
            """What some pieces cost."""
            return self.price * pieces

    cheap, dear = Shop(1), Shop(100)
    assert isinstance(Shop.cost, Tool)
    assert cheap.cost(pieces=3) == 3
    assert list(dear.cost.spec["parameters"]["properties"]) == ["pieces"]
    assert dear.cost.timeout == 3
    bound = dear.cost.bind({"pieces": "2"}, {})
    assert dear.cost.function(*bound.args, **bound.kwargs) == 200


def test_injected_parameters_are_not_shown_and_come_from_whoever_runs_the_tool() -> None:
    @tool
    def look(item: str, pool: Any, memory: Any, scope: str, conversation: str, agent: Any = None) -> None:
        """Look."""

    assert list(look.spec["parameters"]["properties"]) == ["item"]
    given = {"pool": "p", "memory": "m", "scope": "s", "conversation": "c"}
    assert look.bind({"item": "x"}, given).arguments == {"item": "x", **given, "agent": None}


def test_a_model_cannot_give_what_is_injected() -> None:
    @tool
    def look(item: str, scope: str) -> None: ...

    @tool
    def anything(scope: str, **more: str) -> None: ...

    with pytest.raises(InvalidArguments, match="unknown argument 'scope'; the arguments are item"):
        look.bind({"item": "x", "scope": "another"}, {"scope": "mine"})
    with pytest.raises(InvalidArguments, match="unknown argument `scope`"):
        anything.bind({"scope": "another"}, {"scope": "mine"})


def test_a_tool_that_needs_what_is_not_there_says_so() -> None:
    @tool
    def look(memory: Any) -> None: ...

    with pytest.raises(InvalidArguments, match="no `memory` here to give to it; `look` was not run"):
        look.bind({}, {})


async def test_a_pool_is_injected_as_a_view_that_cannot_change_it() -> None:
    @tool
    def read(pool: Any) -> Any:
        return pool

    pool = ContextPool()
    await pool.add(ContextItem("content", "a report", "r1"))
    view = read.bind({}, {"pool": pool}).arguments["pool"]
    assert view.get("r1").content == "content"
    assert not hasattr(view, "add")
    assert read.bind({}, {"pool": view}).arguments["pool"] is view


def test_positional_only_and_open_ended_parameters_are_called_as_they_must_be() -> None:
    @tool
    def odd(a: int, b: int = 5, /, c: int = 6, *, d: int = 7, **more: float) -> Any:
        return a, b, c, d, more

    bound = odd.bind({"a": 1, "d": 2, "x": "1.5"}, {})
    assert odd.function(*bound.args, **bound.kwargs) == (1, 5, 6, 2, {"x": 1.5})


def test_tools_are_found_by_name_and_functions_become_tools() -> None:
    def plain(x: int) -> int:
        return x

    assert list(tools_by_name([add, plain, weather, add])) == ["add", "plain", "weather-now"]
    with pytest.raises(InvalidTool, match="tool `add` is given twice"):
        tools_by_name([add, tool(name="add")(plain)])


GOOGLE = """Do it.

    Args:
        path (str, optional): Where it is,
            with a second line.
        **more: The rest.

    Returns:
        result: Not an argument.
    """
REST = """Do it.

    :param str path: Where it is,
        with a second line.
    :param more: The rest.
    :returns: Nothing.
    """
NUMPY = """Do it.

    Parameters
    ----------
    path : str, optional
        Where it is,
        with a second line.
    **more
        The rest.

    Returns
    -------
    int
        Not an argument.
    """


@pytest.mark.parametrize("text", [GOOGLE, REST, NUMPY])
def test_arguments_are_read_in_each_of_the_usual_ways(text: str) -> None:
    documented = read_docstring(text)
    assert documented.summary == "Do it."
    assert documented.arguments == {"path": "Where it is, with a second line.", "more": "The rest."}


def test_a_docstring_may_be_missing_or_begin_with_its_arguments() -> None:
    assert read_docstring(None).summary == ""
    assert read_docstring("Args:\n    x: An x.").summary == ""
    assert read_docstring("Args:\n    x: An x.").arguments == {"x": "An x."}


def test_a_tool_without_a_docstring_gives_a_warning_at_the_function() -> None:
    def bare(x: int) -> int:
        return x

    class Adder:
        def __call__(self, x: int) -> int:
            return x

    line = bare.__code__.co_firstlineno
    for make in (tool, Tool, tool(name="other"), lambda one: Agent("helper", tools=[one])):
        with pytest.warns(UserWarning, match="has no description, so a model sees only its name") as warned:
            make(bare)
        assert [(one.filename, one.lineno) for one in warned] == [(__file__, line)]
    with pytest.warns(UserWarning, match="tool 'add' has no description"):
        Tool(Adder(), name="add")
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        Tool(bare, description="Give it back.")
        Agent("helper").as_tool()


def test_a_parameter_without_an_annotation_gives_a_warning_at_the_function() -> None:
    def ask(kind, count: int, scope, **rest):  # type: ignore[no-untyped-def]
        """Ask."""

    text = "the parameter `kind` of tool 'ask' has no annotation.*give it one, such as `kind: str`"
    with pytest.warns(UserWarning, match=text) as warned:
        tool(ask)
    assert [(one.filename, one.lineno) for one in warned] == [(__file__, ask.__code__.co_firstlineno)]
