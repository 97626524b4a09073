"""A saved agent finds its tools again by their names."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from typing import Any

import pytest

from autonomy_ctx.errors import AutonomyCtxError, UnregisteredToolError
from autonomy_ctx.tools.builtin.ask_user import ask_user_for_input
from autonomy_ctx.tools.builtin.lookup import read_context_item
from autonomy_ctx.tools.builtin.time import get_current_time, get_current_time_utc
from autonomy_ctx.tools.tool import Tool, ToolRegistry, tool


@pytest.fixture(autouse=True)
def registry() -> Iterator[dict[str, Any]]:
    before = dict(ToolRegistry._tools)
    ToolRegistry.clear()
    yield before
    ToolRegistry._tools.clear()
    ToolRegistry._tools.update(before)


def test_a_decorated_function_is_found_by_its_name() -> None:
    @tool
    def plain() -> None: ...

    @tool(name="other-name", timeout=5)
    async def configured() -> None: ...

    assert ToolRegistry.get("plain") is plain
    assert ToolRegistry.get("other-name") is configured
    assert ToolRegistry.names() == ["plain", "other-name"]


def test_a_tool_made_without_the_decorator_is_registered_by_hand() -> None:
    made = Tool(lambda: None, name="by_hand")
    assert ToolRegistry.names() == []
    ToolRegistry.register(made)
    assert ToolRegistry.get("by_hand") is made


def test_the_latest_of_a_name_wins_and_is_logged(caplog: pytest.LogCaptureFixture) -> None:
    first, second = Tool(lambda: 1, name="same"), Tool(lambda: 2, name="same")
    ToolRegistry.register(first)
    with caplog.at_level(logging.DEBUG, "autonomy_ctx.tools"):
        ToolRegistry.register(first)
        assert caplog.messages == []
        ToolRegistry.register(second)
    assert ToolRegistry.get("same") is second
    assert caplog.messages == ["tool 'same' was registered again; the latest wins"]


def test_a_name_nobody_registered_says_what_to_do() -> None:
    with pytest.raises(
        UnregisteredToolError, match=r"'gone'.*import the module.*or pass it with `tools=`"
    ) as it:
        ToolRegistry.get("gone")
    assert it.value.name == "gone"
    assert isinstance(it.value, LookupError)
    assert isinstance(it.value, AutonomyCtxError)


def test_a_method_is_not_registered_as_a_name_brings_back_no_instance() -> None:
    class Shop:
        @tool
        def buy(self, what: str) -> str:
            return what

        @tool(timeout=5)
        def sell(self, what: str) -> str:
            return what

    assert (Shop().buy.name, Shop().sell.name) == ("buy", "sell")
    assert ToolRegistry.names() == []


@pytest.mark.parametrize("thing", [print, "double", None, object()])
def test_what_is_no_tool_is_refused(thing: Any) -> None:
    with pytest.raises(TypeError, match="is not a tool; make one with `@tool`"):
        ToolRegistry.register(thing)
    assert ToolRegistry.names() == []


def test_tools_that_need_no_settings_are_there_from_the_start(registry: dict[str, Any]) -> None:
    for made in (get_current_time, get_current_time_utc, ask_user_for_input, read_context_item):
        assert registry[made.name] is made
