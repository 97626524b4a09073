"""Every behaviour that the documentation of `ChatContext` describes, in its order."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, datetime

import pytest

from autonomy_ctx import ChatRole, Message
from autonomy_ctx.containers.chat import ChatContext
from autonomy_ctx.messages import AgentConfigUpdate, AgentHandoff
from autonomy_ctx.testing import ScriptedModel


def spoken() -> ChatContext:
    """Two turns, the first with a call, between instructions and a handoff."""
    context = ChatContext()
    context.add_message(ChatRole.SYSTEM, "You sell tickets.")
    context.add_message(ChatRole.USER, "Fares to Rome?", agent_id="sales")
    context.add_function_call("search", '{"to": "Rome"}', call_id="c1", agent_id="sales")
    context.add_function_output("search", "114.50", "c1", agent_id="sales")
    context.add_message(ChatRole.ASSISTANT, "114.50 euros.", agent_id="sales")
    context.add_handoff("billing", from_agent="sales", reason="wants to pay")
    context.add_message(ChatRole.USER, "I take it.", agent_id="billing")
    context.add_message(ChatRole.ASSISTANT, "Thank you.", agent_id="billing")
    return context


def texts(context: ChatContext) -> list[str]:
    return [item.text for item in context if isinstance(item, Message)]


def test_a_context_starts_empty_or_with_items() -> None:
    assert ChatContext().items == ChatContext.empty().items == ChatContext(None).items == []
    hello = Message("user", "hello")
    assert ChatContext([hello]).items == [hello]


def test_items_are_all_items_and_messages_are_neither_calls_nor_outputs() -> None:
    context = spoken()
    assert len(context) == len(context.items) == 8
    assert [message.text for message in context.messages()] == [
        "You sell tickets.",
        "Fares to Rome?",
        "114.50 euros.",
        "I take it.",
        "Thank you.",
    ]


def test_turns_are_what_users_said() -> None:
    assert spoken().turn_count() == 2
    assert ChatContext().turn_count() == 0


def test_tokens_are_estimated_for_everything() -> None:
    context = spoken()
    before = context.estimated_tokens()
    context.add_function_output("search", "many words " * 100, "c1")
    assert context.estimated_tokens() > before + 100
    assert ChatContext().estimated_tokens() == 0


def test_a_message_is_added_with_all_that_is_known_of_it() -> None:
    context = ChatContext()
    message = context.add_message("user", ["hi", "there"], "m1", 1700000000.0, agent_id="sales")
    assert context.items == [message]
    assert (message.id, message.agent, message.text) == ("m1", "sales", "hi\nthere")
    assert message.created_at == datetime.fromtimestamp(1700000000, UTC)
    assert context.add_message("user", "hi").id != context.add_message("user", "hi").id


def test_a_system_message_may_replace_all_before_it() -> None:
    context = spoken()
    context.add_message("system", "You give refunds.", replace=True)
    assert [message.text for message in context.messages() if message.role == "system"] == [
        "You give refunds."
    ]
    context.add_message("user", "hi", replace=True)
    assert context.turn_count() == 3


def test_a_call_is_added_with_its_metadata() -> None:
    context = ChatContext()
    made = context.add_function_call("search", "{}", metadata={"thought_signature": "abc"}, agent_id="a")
    (call,) = made.tool_calls
    assert (made.role, made.agent, made.content) == ("assistant", "a", None)
    assert (call.name, call.arguments, call.extra) == ("search", "{}", {"thought_signature": "abc"})
    assert call.id
    assert call.id.startswith("call_")
    assert context.add_function_call("search", "{}", "c1").tool_calls[0].id == "c1"


def test_an_output_is_added_to_its_call() -> None:
    made = ChatContext().add_function_output("search", "broken", "c1", is_error=True, agent_id="a")
    assert (made.role, made.name, made.text, made.tool_call_id) == ("tool", "search", "broken", "c1")
    assert (made.is_error, made.agent) == (True, "a")


def test_a_handoff_and_a_configuration_are_recorded() -> None:
    context = ChatContext()
    handoff = context.add_handoff("b", from_agent="a", reason="why", agent_id="a")
    update = context.add_config_update("Be kind.", ["search"], agent_id="b")
    assert context.items == [handoff, update]
    assert isinstance(handoff, AgentHandoff)
    assert (handoff.to_agent, handoff.from_agent, handoff.reason, handoff.agent) == ("b", "a", "why", "a")
    assert isinstance(update, AgentConfigUpdate)
    assert (update.instructions, update.tools, update.agent) == ("Be kind.", ("search",), "b")


def test_the_shorthands_add_what_they_say() -> None:
    context = ChatContext()
    context.system("Be brief.")
    context.user("2+2?")
    context.assistant(
        "Let me see.", tool_calls=[{"id": "c1", "function": {"name": "add", "arguments": "{}"}}]
    )
    context.tool("4", name="add", tool_call_id="c1")
    context.assistant("4")
    assert [item.role for item in context if isinstance(item, Message)] == [
        "system",
        "user",
        "assistant",
        "tool",
        "assistant",
    ]
    call, result = context.items[2:4]
    assert isinstance(call, Message)
    assert isinstance(result, Message)
    assert call.tool_calls[0].name == result.name == "add"
    assert result.tool_call_id == "c1"


def test_an_item_is_found_by_its_id() -> None:
    context = spoken()
    for item in context:
        assert context.get_by_id(item.id) is item
    assert context.get_by_id("nobody") is None


def test_items_are_inserted_by_time() -> None:
    context = ChatContext()
    for at in (1, 3):
        context.add_message("user", str(at), created_at=at)
    two = Message("user", "2", created_at=2)
    assert context.insert(two) is two
    assert texts(context) == ["1", "2", "3"]
    assert context.insert_many([Message("user", str(at), created_at=at) for at in (5, 2.5, 0)]) is context
    assert texts(context) == ["0", "1", "2", "2.5", "3", "5"]


def test_the_configuration_in_force_is_known_at_every_point() -> None:
    context = ChatContext()
    context.system("first")
    hello = context.user("hi")
    update = context.add_config_update("second", ["search"])
    context.add_message("developer", "third")
    assert context.active_config_at() == ("third", ["search"])
    assert context.active_config_at(hello.id) == ("first", None)
    assert context.active_config_at(update.id) == context.active_config_at(2) == ("second", ["search"])
    assert context.active_config_at("unknown") == context.active_config_at()
    instructions, tools = ChatContext().active_config_at()
    assert instructions is None
    assert tools is None


@dataclass
class Tool:
    name: str


def test_a_copy_leaves_out_what_it_is_told_to() -> None:
    context = spoken()
    context.add_message("developer", "be kind")
    context.add_config_update(tools=["search"])
    context.user("  ")
    assert context.copy() == context
    assert "You sell tickets." not in texts(context.copy(exclude_system_messages=True))
    assert "be kind" in texts(context.copy(exclude_system_messages=True))
    assert "be kind" not in texts(context.copy(exclude_instructions=True))
    assert "You sell tickets." not in texts(context.copy(exclude_instructions=True))
    assert "  " not in texts(context.copy(exclude_empty_messages=True))
    assert "114.50" in texts(context.copy(exclude_empty_messages=True))
    assert len(context.copy(exclude_handoffs=True)) == len(context) - 1
    assert len(context.copy(exclude_config_updates=True)) == len(context) - 1
    for tools, gone in ((None, 0), ([], 2), (["search"], 0), ([Tool("search")], 0), (["pay"], 2)):
        assert len(context.copy(tools=tools)) == len(context) - gone
    assert texts(context.copy(filter_agent_id="billing")) == [
        "You sell tickets.",
        "I take it.",
        "Thank you.",
        "be kind",
    ]


def test_a_fork_is_complete_and_independent() -> None:
    context = spoken()
    fork = context.fork()
    fork.user("only here")
    assert fork.items[:-1] == context.items


def test_a_filtered_fork_has_the_instructions_and_the_recent_turns() -> None:
    context = spoken()
    assert texts(context.fork_filtered(recent_turns=1)) == ["You sell tickets.", "I take it.", "Thank you."]
    assert context.fork_filtered(recent_turns=2) == context.fork_filtered() == context
    assert "114.50" not in texts(context.fork_filtered(tools=[]))
    context.add_config_update("Be quick.")
    context.user("more")
    assert context.fork_filtered(1).active_config_at() == ("Be quick.", None)
    for turns in (0, -1):
        with pytest.raises(ValueError, match=f"recent_turns must be >= 1, not {turns}"):
            context.fork_filtered(recent_turns=turns)


def test_a_brief_fork_has_no_history() -> None:
    fork = spoken().fork_brief("You research.", "Find fares.", agent_id="r")
    assert [(item.role, item.text, item.agent) for item in fork.messages()] == [
        ("system", "You research.", "r"),
        ("user", "Find fares.", "r"),
    ]
    assert len(fork) == 2
    assert len(spoken().fork_brief("You research.")) == 1
    with pytest.raises(ValueError, match="requires non-empty instructions"):
        spoken().fork_brief("")


async def test_merging_takes_in_every_item_once_in_the_order_of_time() -> None:
    context, other = ChatContext(), ChatContext()
    context.add_message("user", "1", created_at=1)
    context.add_message("user", "3", created_at=3)
    other.insert(context.items[0])
    other.add_message("assistant", "2", created_at=2)
    assert await context.merge(other) is context
    assert texts(context) == ["1", "2", "3"]


async def test_merging_the_result_takes_in_the_last_answer() -> None:
    context, sub = ChatContext(), spoken()
    sub.add_function_call("search", "{}", "c9")
    assert await context.merge_result(sub, agent_id="r") is context
    assert [(message.text, message.agent) for message in context.messages()] == [("Thank you.", "r")]
    assert (await ChatContext().merge_result(ChatContext())).items == []


async def test_merging_with_a_summary_takes_in_the_summary() -> None:
    context, model = ChatContext(), ScriptedModel(["sold a ticket"])
    assert await context.merge_with_summary(spoken(), llm=model, agent_id="r") is context
    (summary,) = context.messages()
    assert (summary.role, summary.text) == ("assistant", "[Sub-agent Summary]\nsold a ticket")
    assert (summary.extra, summary.agent) == ({"summary": True}, "r")
    assert (await ChatContext().merge_with_summary(ChatContext(), llm=model)).items == []


def test_truncating_keeps_instructions_summaries_pairs_and_the_newest_user_message() -> None:
    context = spoken()
    assert context.truncate() is context
    assert len(context) == 8
    assert texts(context.fork().truncate(max_items=6)) == [
        "You sell tickets.",
        "114.50 euros.",
        "I take it.",
        "Thank you.",
    ]
    context.truncate(max_tokens=0)
    assert texts(context) == ["You sell tickets.", "I take it."]
    assert len(context) == 3


async def test_summarizing_replaces_old_turns_by_one_message() -> None:
    context, model = spoken(), ScriptedModel(["wants to go to Rome"])
    before = context.items
    assert await context.summarize(model, keep_recent_turns=1) is context
    rules, summary, handoff, *rest = context.items
    assert isinstance(summary, Message)
    assert isinstance(handoff, AgentHandoff)
    assert (summary.role, summary.text) == ("assistant", "[Conversation Summary]\nwants to go to Rome")
    assert summary.extra == {"summary": True}
    assert rules == before[0]
    assert rest == before[-2:]


async def test_too_few_turns_are_not_summarized() -> None:
    context, model = spoken(), ScriptedModel()
    before = context.items
    assert (await context.summarize(model, keep_recent_turns=2)).items == before
    assert model.calls == []


def test_a_context_is_a_list_of_messages_for_openai() -> None:
    call = {"id": "c1", "type": "function", "function": {"name": "search", "arguments": '{"to": "Rome"}'}}
    messages = spoken().to_openai_messages()
    assert messages == [
        {"role": "system", "content": "You sell tickets."},
        {"role": "user", "content": "Fares to Rome?"},
        {"role": "assistant", "content": None, "tool_calls": [call]},
        {"role": "tool", "tool_call_id": "c1", "content": "114.50"},
        {"role": "assistant", "content": "114.50 euros."},
        {"role": "user", "content": "I take it."},
        {"role": "assistant", "content": "Thank you."},
    ]
    assert [message["role"] for message in spoken().to_openai_messages(reasoning_model=True)][:2] == [
        "developer",
        "user",
    ]


def test_a_context_is_messages_and_a_system_prompt_for_anthropic() -> None:
    context = spoken()
    context.user("Bye.")
    messages, system = context.to_anthropic_messages()
    made = context.to_anthropic_messages()
    assert (made.messages, made.system) == (messages, system)
    assert system == "You sell tickets."
    assert [message["role"] for message in messages] == ["user", "assistant"] * 3 + ["user"]
    assert messages[1]["content"] == [
        {"type": "tool_use", "id": "c1", "name": "search", "input": {"to": "Rome"}}
    ]
    result = {"type": "tool_result", "tool_use_id": "c1", "content": [{"type": "text", "text": "114.50"}]}
    assert messages[2]["content"] == [result]
    assert "cache_control" not in str(messages)

    cached, same = context.to_anthropic_messages(caching=True)
    assert same == system
    mark = {"cache_control": {"type": "ephemeral"}}
    assert [message["content"][-1] | mark for message in messages[-3::2]] == [
        message["content"][-1] for message in cached[-3::2]
    ]
    assert str(cached).count("cache_control") == 2


async def test_a_context_is_contents_and_a_system_instruction_for_google() -> None:
    context = spoken()
    contents, system = await context.to_google_contents(thought_signatures={"c1": b"signed"})
    assert system == "You sell tickets."
    assert [content["role"] for content in contents][:4] == ["user", "model", "user", "model"]
    called = {"functionCall": {"id": "c1", "name": "search", "args": {"to": "Rome"}}}
    assert contents[1]["parts"] == [called | {"thoughtSignature": "c2lnbmVk"}]
    assert contents[2]["parts"] == [
        {"functionResponse": {"id": "c1", "name": "search", "response": {"output": "114.50"}}}
    ]
    unsigned = (await context.to_google_contents()).contents[1]["parts"]
    assert unsigned == [called]
    (marked,) = (await context.to_google_contents(model="gemini-3-pro")).contents[1]["parts"]
    assert marked.keys() == {"functionCall", "thoughtSignature"}


async def test_a_thought_signature_travels_with_its_exact_call() -> None:
    context = ChatContext()
    context.user("both, please")
    context.add_function_call("a", "{}", call_id="c1", metadata={"thought_signature": "c2lnbmVk"})
    context.add_function_call("b", "{}", call_id="c2")
    context.add_function_output("b", "2", "c2")
    context.add_function_output("a", "1", "c1")
    contents, _ = await context.to_google_contents(model="gemini-3-pro")
    # Calls side by side are one content: the second needs no signature there.
    assert [part.get("thoughtSignature") for part in contents[1]["parts"]] == ["c2lnbmVk", None]
    assert [part["functionResponse"]["id"] for part in contents[2]["parts"]] == ["c1", "c2"]


def test_a_context_is_a_dict_and_comes_back() -> None:
    context = spoken()
    data = context.to_dict()
    assert set(data) == {"items"}
    assert [form["type"] for form in data["items"]].count("agent_handoff") == 1
    assert ChatContext.from_dict(data) == context


def test_dicts_with_calls_and_outputs_as_items_are_read() -> None:
    stamps = {"created_at": 1700000000.5, "agent_id": "sales"}
    data = {
        "items": [
            {
                "type": "message",
                "id": "m1",
                "role": "user",
                "content": ["hi", {"type": "image", "image": "https://x.test/a.png"}],
                "interrupted": True,
                "extra": {"own": 1},
                "confidence": 0.9,
                "metrics": {"latency": 2},
                "audio_instructions": "softly",
                "text_instructions": None,
                **stamps,
            },
            {
                "type": "function_call",
                "id": "f1",
                "name": "search",
                "arguments": "",
                "call_id": "c1",
                "metadata": {"thought_signature": "abc"},
                **stamps,
            },
            {
                "type": "function_call_output",
                "id": "o1",
                "name": "search",
                "output": "none",
                "call_id": "c1",
                "is_error": True,
                **stamps,
            },
            {
                "type": "agent_handoff",
                "id": "h1",
                "from_agent": None,
                "to_agent": "b",
                "reason": "r",
                **stamps,
            },
            {
                "type": "agent_config_update",
                "id": "u1",
                "instructions": "x",
                "tools": ["t"],
                "created_at": None,
                "agent_id": None,
            },
        ]
    }
    context = ChatContext.from_dict(data)
    said, call, output, handoff, update = context.items
    assert isinstance(said, Message)
    assert isinstance(call, Message)
    assert isinstance(output, Message)
    assert said.extra == {
        "own": 1,
        "interrupted": True,
        "confidence": 0.9,
        "metrics": {"latency": 2},
        "audio_instructions": "softly",
        "text_instructions": None,
    }
    assert said.created_at == datetime.fromtimestamp(1700000000.5, UTC)
    assert call.tool_calls[0].extra == {"thought_signature": "abc"}
    assert (call.id, call.role, call.tool_calls[0].id) == ("f1", "assistant", "c1")
    assert (output.role, output.text, output.tool_call_id, output.is_error) == ("tool", "none", "c1", True)
    assert {item.agent for item in context.items[:4]} == {"sales"}
    assert isinstance(handoff, AgentHandoff)
    assert isinstance(update, AgentConfigUpdate)
    assert context.active_config_at() == ("x", ["t"])
    assert context.truncate(max_items=4).get_by_id("f1") is None
    assert context.get_by_id("o1") is None
    again = ChatContext.from_dict(data)
    assert ChatContext.from_dict(again.to_dict()) == again


def test_cleaning_up_empties_this_context_only() -> None:
    context = spoken()
    fork, copied, items = context.fork(), context.copy(), context.items
    context.cleanup()
    assert context.items == []
    assert fork.items == copied.items == items
    assert "I take it." in texts(fork)
