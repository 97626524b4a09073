"""Tools may say how they are to be used; one message tells the model."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from autonomy_ctx import ContextTemplate, FrameworkInstructionsSection, Memory
from autonomy_ctx.sections.instructions import ToolInstructionsSection
from autonomy_ctx.tools.tool import Tool


def named(name: Any, instructions: Any) -> Any:
    return SimpleNamespace(name=name, instructions=instructions)


async def text_of(*tools: Any) -> str | None:
    messages = await ToolInstructionsSection(tools).get_messages(Memory(), "ana", "trip", {})
    if not messages:
        return None
    [form] = messages
    assert (form["role"], form["phase"]) == ("system", "system")
    return str(form["content"]["text"])


async def test_the_instructions_are_joined_in_the_order_of_the_tools() -> None:
    def pay() -> None: ...

    text = await text_of(
        Tool(pay, instructions="  Ask {before} you pay.\n"),
        named("look", None),
        named("fly", "Prefer trains."),
    )
    assert text == "## Tool Instructions\n\n### pay\nAsk {before} you pay.\n\n### fly\nPrefer trains."


@pytest.mark.parametrize(
    "tool", [named("a", None), named("a", " \n"), named("a", 5), named(None, "x"), print, object()]
)
async def test_a_tool_without_name_or_instructions_adds_nothing(tool: Any) -> None:
    assert await text_of(tool) is None
    assert await text_of(tool, named("b", "Be quick.")) == "## Tool Instructions\n\n### b\nBe quick."


async def test_no_tools_no_message() -> None:
    section = ToolInstructionsSection([])
    context = await ContextTemplate([section]).compose(Memory(), "ana", "trip")
    assert len(context) == 0
    [report] = context.sections
    assert (report.name, report.kind, report.status) == ("tool_instructions", "stable", "included")


async def test_it_has_a_switch_and_a_name_of_its_own() -> None:
    section = ToolInstructionsSection([named("a", "x")], name="mine", enabled=False)
    assert (section.name, section.enabled) == ("mine", False)
    assert await section.get_messages(Memory(), "ana", "trip", {}) == []


async def test_the_message_stays_the_same_object_until_the_tools_change() -> None:
    section = ToolInstructionsSection([named("a", "One.")])
    template = ContextTemplate([section])
    first, again = [(await template.compose(Memory(), "ana", "trip")).messages[0] for _ in range(2)]
    assert first is again
    section.tools.append(named("b", "Two."))
    [changed] = (await template.compose(Memory(), "ana", "trip")).messages
    assert "Two." in changed.text
    section.tools.clear()
    assert len(await template.compose(Memory(), "ana", "trip")) == 0


@pytest.mark.parametrize("on", [False, True])
async def test_the_framework_describes_context_items_when_they_are_on(on: bool) -> None:
    plain = FrameworkInstructionsSection(True, True, "all", {"helper": {}})
    section = FrameworkInstructionsSection(True, True, "all", {"helper": {}}, enable_context_items=on)
    [before], [after] = [await one.get_messages(Memory(), "ana", "trip", {}) for one in (plain, section)]
    text, added = before["content"]["text"], after["content"]["text"]
    assert added.startswith(text)
    assert ("### Context items" in added and "`read_context_item`" in added) is on
    assert "read_context_item" not in text
