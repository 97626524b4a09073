"""The sections that come with the library, and the documented examples of one's own."""

from __future__ import annotations

import logging
from types import SimpleNamespace
from typing import Any

import anyio
import pytest

from autonomy_ctx import (
    AdditionalContextSection,
    ContextSection,
    ContextTemplate,
    ConversationHistorySection,
    FrameworkInstructionsSection,
    Memory,
    Message,
    SystemInstructionsSection,
)
from autonomy_ctx.sections import ContributingSection, Contribution


def note(text: str) -> dict[str, Any]:
    return {"role": "system", "content": {"text": text, "type": "text"}}


async def built(*sections: Any, memory: Any = None, params: dict[str, Any] | None = None) -> list[str]:
    """The texts of a context of these sections."""
    context = await ContextTemplate(sections).compose(memory or Memory(), "ana", "trip", params)
    return [message.text for message in context.messages]


# -- the base -----------------------------------------------------------------------------------------


async def test_a_section_has_a_name_and_a_switch_and_no_messages_of_its_own() -> None:
    section = ContextSection("mine")
    assert (section.name, section.enabled) == ("mine", True)
    assert await section.get_messages(Memory(), "ana", "trip", {}) == []
    section.set_enabled(False)
    assert section.enabled is False
    assert ContextSection("off", enabled=False).enabled is False


async def test_a_contributing_section_gives_the_same_messages_as_dicts() -> None:
    class Greeting(ContributingSection):
        async def contribute(self, memory: Any, scope: str, conversation: str, params: Any) -> Contribution:
            return Contribution((Message("system", f"hello {scope}"),))

    section = Greeting("greeting")
    [form] = await section.get_messages(Memory(), "ana", "trip", {})
    assert (form["role"], form["content"]) == ("system", "hello ana")
    section.set_enabled(False)
    assert await section.get_messages(Memory(), "ana", "trip", {}) == []


async def test_a_contributing_section_without_a_contribution_is_empty() -> None:
    assert await built(ContributingSection("empty")) == []


def test_constructor_arguments_can_be_read_back() -> None:
    history = ConversationHistorySection(max_messages=5, filter_fn=bool, transform_fn=dict)
    assert (history.name, history.enabled) == ("conversation_history", True)
    assert (history.max_messages, history.filter_fn, history.transform_fn) == (5, bool, dict)
    framework = FrameworkInstructionsSection(True, True, "scope", {"helper": {}}, enabled=False)
    assert (framework.name, framework.enabled) == ("framework_instructions", False)
    assert (framework.enable_ask_for_user_input, framework.enable_filesystem) == (True, True)
    assert (framework.filesystem_visibility, framework.subagent_configs) == ("scope", {"helper": {}})
    assert SystemInstructionsSection("x").name == "system_instructions"
    assert AdditionalContextSection().name == "additional_context"
    assert AdditionalContextSection(provider_fn=print).provider_fn is print


# -- system instructions ------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("instructions", "texts"),
    [
        ("Be brief. {braces} %s", ["Be brief. {braces} %s"]),
        ([note("one"), Message("system", "two")], ["one", "two"]),
        ((note("one"),), ["one"]),
        ([], []),
    ],
)
async def test_instructions_are_text_or_messages(instructions: Any, texts: list[str]) -> None:
    assert await built(SystemInstructionsSection(instructions)) == texts


async def test_text_becomes_a_system_message_of_the_system_phase() -> None:
    template = ContextTemplate([SystemInstructionsSection("Be brief.")])
    assert await template.build_context(Memory(), "ana", "trip") == [{**note("Be brief."), "phase": "system"}]


async def test_instructions_can_be_exchanged_but_not_edited_from_outside() -> None:
    handed = [note("one")]
    section = SystemInstructionsSection(handed)
    handed[0]["content"]["text"] = "spoiled"
    section.instructions[0]["content"]["text"] = "spoiled"
    assert await built(section) == ["one"]
    section.instructions = "two"
    assert await built(section) == ["two"]
    assert section.instructions == [{**note("two"), "phase": "system"}]


# -- framework instructions ---------------------------------------------------------------------------


async def framework_text(**options: Any) -> str:
    [form] = await FrameworkInstructionsSection(**options).get_messages(Memory(), "ana", "trip", {})
    assert (form["role"], form["phase"]) == ("system", "system")
    return str(form["content"]["text"])


@pytest.mark.parametrize(
    ("options", "named"),
    [
        ({}, set()),
        (
            {"enable_ask_for_user_input": True},
            {"User Input", "ask_user_for_input", "pause and ask the user for clarification"},
        ),
        ({"enable_filesystem": True}, {"Filesystem", "read_file", "write_file", "this conversation alone"}),
        (
            {"enable_filesystem": True, "filesystem_visibility": "all"},
            {"Filesystem", "read_file", "write_file", "shared by all agents and users"},
        ),
        (
            {"subagent_configs": {"helper": {"instructions": "Finds {things}.\nAnd more."}}},
            {
                "helper",
                "Finds {things}.",
                "start_subagent",
                "delegate_to_subagent",
                "list_subagents",
                "stop_subagent",
            },
        ),
    ],
    ids=["nothing", "ask", "files", "files for all", "subagents"],
)
async def test_exactly_the_enabled_tools_are_described(options: dict[str, Any], named: set[str]) -> None:
    text = await framework_text(**options)
    everything = {
        "User Input",
        "ask_user_for_input",
        "Filesystem",
        "read_file",
        "write_file",
        "start_subagent",
    }
    everything |= {"delegate_to_subagent", "list_subagents", "stop_subagent"}
    for name in named | {"get_current_time_utc", "get_current_time"}:
        assert name in text
    for name in everything - named:
        assert name not in text
    assert "And more" not in text


@pytest.mark.parametrize(
    "config",
    [{}, {"instructions": ""}, {"instructions": None}, SimpleNamespace(), SimpleNamespace(instructions=5)],
)
async def test_a_subagent_without_instructions_is_still_named(config: Any) -> None:
    assert "- `helper`: No description." in await framework_text(subagent_configs={"helper": config})


async def test_a_subagent_may_be_an_object_with_instructions() -> None:
    config = SimpleNamespace(instructions="\n  Checks facts.\nSlowly.")
    assert "- `helper`: Checks facts." in await framework_text(subagent_configs={"helper": config})


async def test_the_framework_message_stays_the_same_object_while_nothing_changes() -> None:
    section = FrameworkInstructionsSection()
    template = ContextTemplate([section])
    first, again = [(await template.compose(Memory(), "ana", "trip")).messages[0] for _ in range(2)]
    assert first is again
    section.enable_filesystem = True
    [changed] = (await template.compose(Memory(), "ana", "trip")).messages
    assert "Filesystem" in changed.text


# -- additional context -------------------------------------------------------------------------------


async def test_static_messages_come_first_then_the_providers() -> None:
    section = AdditionalContextSection(provider_fn=lambda scope, conversation, params: [note(f"for {scope}")])
    section.set_static_messages([note("one")])
    section.add_message(Message("system", "two"))
    assert await built(section) == ["one", "two", "for ana"]
    section.clear_messages()
    assert await built(section) == ["for ana"]


async def test_a_provider_gets_scope_conversation_and_the_shared_params() -> None:
    seen: list[Any] = []

    async def provide(scope: str, conversation: str, params: Any) -> list[dict[str, Any]]:
        seen.append((scope, conversation, dict(params)))
        params["provided"] = True
        return []

    class Later(ContextSection):
        async def get_messages(self, memory: Any, scope: str, conversation: str, params: Any) -> list[Any]:
            seen.append(params["provided"])
            return []

    await built(AdditionalContextSection(provider_fn=provide), Later("later"), params={"turn": 1})
    assert seen == [("ana", "trip", {"turn": 1}), True]


async def async_nothing(scope: str, conversation: str, params: Any) -> None:
    return None


@pytest.mark.parametrize("provide", [None, lambda *_: [], lambda *_: None, lambda *_: (), async_nothing])
async def test_a_provider_may_have_nothing_to_say(provide: Any) -> None:
    template = ContextTemplate([AdditionalContextSection(provider_fn=provide)])
    context = await template.compose(Memory(), "ana", "trip")
    assert (context.messages, context.sections[0].status) == ([], "included")


async def async_failure(scope: str, conversation: str, params: Any) -> list[Any]:
    raise RuntimeError("the database is away")


def failure(scope: str, conversation: str, params: Any) -> list[Any]:
    raise RuntimeError("the database is away")


async def endless(scope: str, conversation: str, params: Any) -> list[Any]:
    await anyio.Event().wait()
    return []


@pytest.mark.parametrize(
    ("provide", "reason"),
    [
        (failure, "its provider failed: RuntimeError: the database is away"),
        (async_failure, "its provider failed: RuntimeError: the database is away"),
        (
            lambda *_: [note("good"), "bad"],
            "its provider failed: InvalidMessage: invalid message: "
            "`message` must be a dict or a Message, not str",
        ),
        (endless, "took longer than 0.01 s"),
    ],
    ids=["sync", "async", "no message", "hangs"],
)
async def test_static_messages_survive_a_failing_provider(
    provide: Any, reason: str, caplog: pytest.LogCaptureFixture
) -> None:
    section = AdditionalContextSection(provider_fn=provide, timeout=0.01 if provide is endless else 30)
    section.add_message(note("static"))
    with caplog.at_level(logging.WARNING, logger="autonomy_ctx"), anyio.fail_after(5):
        context = await ContextTemplate([section]).compose(Memory(), "ana", "trip")
    assert [message.text for message in context.messages] == ["static"]
    assert context.sections[0].status == "failed"
    assert context.sections[0].reason == reason
    assert "additional_context" in caplog.text


async def test_static_messages_cannot_be_edited_from_outside() -> None:
    handed = note("static")
    section = AdditionalContextSection()
    section.add_message(handed)
    handed["content"]["text"] = "spoiled"
    [form] = await section.get_messages(Memory(), "ana", "trip", {})
    form["content"]["text"] = "spoiled"
    assert await built(section) == ["static"]
