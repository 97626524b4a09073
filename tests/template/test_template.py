"""Templates: which sections run, in which order, and what they are given."""

from __future__ import annotations

from collections.abc import Callable
from math import ceil
from types import SimpleNamespace
from typing import Any

import pytest
from own_sections import Does, Says, fail, note, texts

from autonomy_ctx import (
    ContextSection,
    ContextTemplate,
    ConversationHistorySection,
    FrameworkInstructionsSection,
    Memory,
    Message,
    SectionError,
    SystemInstructionsSection,
    create_default_template,
)
from autonomy_ctx.tokens import TokenCounter

# -- the list of sections -----------------------------------------------------------------------------


def test_sections_are_found_added_and_removed_by_name() -> None:
    first, second, third = Says("first"), Says("second"), Says("third")
    template = ContextTemplate([first])
    template.add_section(third)
    template.add_section(second, index=1)
    assert template.get_section_names() == ["first", "second", "third"]
    assert template.sections == [first, second, third]
    assert template.get_section("second") is second
    assert template.get_section("fourth") is None
    assert template.remove_section("second") is True
    assert template.remove_section("second") is False
    assert repr(template) == "ContextTemplate([first, third])"
    assert repr(ContextTemplate([])) == "ContextTemplate([])"


async def test_the_list_a_template_was_made_from_stays_the_callers() -> None:
    given = [Says("first")]
    template = ContextTemplate(given)
    given.append(Says("second"))
    template.add_section(Says("third"))
    assert await texts(template) == ["first", "third"]
    assert len(given) == 2


async def test_removing_one_of_two_sections_of_a_name_leaves_the_other() -> None:
    with pytest.warns(UserWarning, match="two sections have the name 'same'"):
        template = ContextTemplate([Says("same", note("a")), Says("same", note("b"))])
    assert template.remove_section("same")
    assert await texts(template) == ["b"]


def test_two_sections_with_one_name_give_a_warning_where_they_come_together() -> None:
    template = ContextTemplate([Says("a"), Says("b")])
    with pytest.warns(UserWarning, match="give one of them another name") as warned:
        template.add_section(Says("a"))
    assert [one.filename for one in warned] == [__file__]
    with pytest.warns(UserWarning, match="two sections have the name 'a'") as warned:
        ContextTemplate([Says("a"), Says("b"), Says("a"), Says("a")])
    assert [one.filename for one in warned] == [__file__]


async def test_messages_come_in_the_order_of_the_sections() -> None:
    template = ContextTemplate([Says("b"), Says("a"), Says("c", note("c1"), Message("user", "c2"))])
    assert await texts(template) == ["b", "a", "c1", "c2"]


async def test_a_template_without_sections_composes_nothing() -> None:
    assert await ContextTemplate([]).build_context(Memory(), "ana", "trip") == []


async def test_disabled_sections_do_not_run() -> None:
    off = Does("off", fail, enabled=False, required=True)
    template = ContextTemplate([off, Says("on")])
    context = await template.compose(Memory(), "ana", "trip")
    assert [message.text for message in context.messages] == ["on"]
    assert [(report.status, report.reason) for report in context.sections] == [
        ("skipped", "disabled"),
        ("included", None),
    ]
    off.enabled = True
    with pytest.raises(SectionError):
        await template.compose(Memory(), "ana", "trip")


async def test_build_context_gives_dicts_that_belong_to_the_caller() -> None:
    template = ContextTemplate([Says("one", {"role": "system", "content": [{"text": "x"}], "own": [1]})])
    [form] = await template.build_context(Memory(), "ana", "trip")
    form["content"][0]["text"] = "spoiled"
    form["own"].append(2)
    assert await template.build_context(Memory(), "ana", "trip") == [
        {"role": "system", "content": [{"text": "x"}], "own": [1]}
    ]


# -- what sections get --------------------------------------------------------------------------------


async def test_sections_get_the_memory_the_scope_and_the_conversation_as_they_are() -> None:
    seen: list[Any] = []

    class Looks(Says):
        async def get_messages(self, memory: Any, scope: str, conversation: str, params: Any) -> Any:
            seen.append((memory, scope, conversation))
            return []

    memory = Memory().for_agent("helper")
    await ContextTemplate([Looks("looks")]).compose(memory, "ana:1", "trip/2")
    assert seen == [(memory, "ana:1", "trip/2")]


async def test_params_are_copied_once_and_shared_in_order() -> None:
    seen: list[tuple[int, Any]] = []

    def looking(name: str) -> Callable[[dict[str, Any]], list[Any]]:
        def look(params: dict[str, Any]) -> list[Any]:
            seen.append((id(params), params.get("left")))
            params["left"] = name
            return []

        return look

    given = {"turn": 1}
    template = ContextTemplate([Does(name, looking(name)) for name in ("first", "second", "third")])
    await template.compose(Memory(), "ana", "trip", given)
    assert [left for _, left in seen] == [None, "first", "second"]
    assert seen[0][0] == seen[1][0] != id(given)
    assert given == {"turn": 1}


@pytest.mark.parametrize("given", [None, {}])
async def test_no_params_are_an_empty_dict_of_each_build(given: dict[str, Any] | None) -> None:
    seen: list[dict[str, Any]] = []

    def look(params: dict[str, Any]) -> list[Any]:
        seen.append(dict(params))
        params["left"] = True
        return []

    template = ContextTemplate([Does("looks", look)])
    for _ in range(2):
        await template.compose(Memory(), "ana", "trip", given)
    assert seen == [{}, {}]


# -- what sections may be -----------------------------------------------------------------------------


async def test_a_section_needs_no_base_class_and_no_async() -> None:
    class Plain:
        name = "plain"
        enabled = True

        def get_messages(self, memory: Any, scope: str, conversation: str, params: Any) -> Any:
            return (note("a"), Message("system", "b"))

    assert await texts(ContextTemplate([Plain()])) == ["a", "b"]


async def test_a_subclass_that_overrides_get_messages_is_honoured() -> None:
    class Shouting(SystemInstructionsSection):
        async def get_messages(self, *given: Any) -> Any:
            return [{**form, "content": "LOUD"} for form in await super().get_messages(*given)]

    class Louder(Shouting):
        pass

    for kind in (Shouting, Louder):
        assert await texts(ContextTemplate([kind("quiet")])) == ["LOUD"]


async def test_a_get_messages_set_on_one_section_is_honoured() -> None:
    section = FrameworkInstructionsSection()
    section.get_messages = lambda *given: [note("mine")]  # type: ignore[method-assign, assignment]
    assert await texts(ContextTemplate([section])) == ["mine"]


# -- options are read once ----------------------------------------------------------------------------


async def test_options_are_read_when_a_section_joins() -> None:
    section = Does("broken", fail)
    template = ContextTemplate([section])
    section.required = True  # type: ignore[attr-defined]
    assert await texts(template) == []
    template.remove_section("broken")
    template.add_section(section)
    with pytest.raises(SectionError):
        await texts(template)


async def test_a_section_put_straight_into_the_list_runs_too() -> None:
    template = ContextTemplate([])
    template.sections.append(ContextSection("empty"))
    template.sections.append(Says("straight"))
    assert await texts(template) == ["straight"]


# -- the default --------------------------------------------------------------------------------------


def test_the_default_template_is_system_framework_history() -> None:
    template = create_default_template("Be brief.")
    assert template.get_section_names() == [
        "system_instructions",
        "framework_instructions",
        "conversation_history",
    ]
    history = template.get_section("conversation_history")
    assert isinstance(history, ConversationHistorySection)
    assert history.max_messages is None


async def test_the_default_template_passes_its_options_to_the_framework(memory: Memory) -> None:
    template = create_default_template(
        [note("Be brief.")],
        enable_ask_for_user_input=True,
        enable_filesystem=True,
        filesystem_visibility="scope",
        subagent_configs={"helper": {"instructions": "Helps."}},
    )
    await memory.append("ana", "trip", Message("user", "hello"))
    system, framework, hello = await template.build_context(memory, "ana", "trip")
    assert (system["content"], hello["content"]) == ("Be brief.", "hello")
    text = framework["content"]["text"]
    for part in ("ask_user_for_input", "shared by all conversations with this user", "`helper`: Helps."):
        assert part in text


async def test_the_default_template_ends_with_the_instructions_of_the_tools_that_have_some(
    memory: Memory,
) -> None:
    tools = [
        SimpleNamespace(name="look", instructions=None),
        SimpleNamespace(name="pay", instructions="Ask."),
    ]
    template = create_default_template("Be brief.", tools=tools, enable_context_items=True)
    assert template.get_section_names()[2:] == ["conversation_history", "tool_instructions"]
    await memory.append("ana", "trip", Message("user", "hello"))
    _, framework, _, last = await template.build_context(memory, "ana", "trip")
    assert "read_context_item" in framework["content"]["text"]
    assert last["content"]["text"].endswith("### pay\nAsk.")


def test_the_default_template_has_no_such_section_when_no_tool_has_instructions() -> None:
    for tools in ([], [print, SimpleNamespace(name="look", instructions=" ")]):
        template = create_default_template("Be brief.", tools=tools)
        assert template.get_section_names()[-1] == "conversation_history"


async def test_a_context_keeps_the_calibration_that_it_was_composed_with(memory: Memory) -> None:
    counter = TokenCounter()
    template = ContextTemplate([SystemInstructionsSection("to be or not to be")], token_counter=counter)
    first = await template.compose(memory, "ana", "trip")
    assert counter.calibration.observe(100, 200)
    second = await template.compose(memory, "ana", "trip")
    assert second.calibration == counter.calibration.factor > first.calibration == 1.0
    assert first.tokens == sum(first.counts) == first.sections[0].tokens
    assert second.tokens == ceil(first.tokens * second.calibration)
