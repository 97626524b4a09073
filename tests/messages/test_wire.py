"""Items to dicts and back: nothing lost, nothing shared."""

from __future__ import annotations

import copy
import json
from datetime import datetime
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from strategies import NOON, events, few, message_dicts, messages, some, stamped_dicts, summaries, times

from autonomy_ctx import ImageContent, Memory, Message, TextContent, ThinkingContent, ToolCall
from autonomy_ctx.messages import AgentHandoff, Segment, Summary, wire
from autonomy_ctx.testing import StoppedClock, numbered_ids


def read(form: dict[str, Any]) -> Message:
    """A message from a dict; what has no id or time gets these."""
    return wire.from_dict(form, new_id=lambda: "made", now=lambda: NOON)


def spoil(value: Any) -> None:
    """Edit everything that can be edited, at every depth."""
    if isinstance(value, dict):
        for inner in value.values():
            spoil(inner)
        value["spoiled"] = True
        value.pop("role", None)
    elif isinstance(value, list):
        for inner in value:
            spoil(inner)
        value.append("spoiled")


@some
@given(messages | summaries())
def test_a_message_comes_back_equal_from_its_dict(message: Message) -> None:
    assert wire.from_dict(wire.to_dict(message)) == message


@some
@given(message_dicts)
def test_a_message_from_a_dict_comes_back_equal_from_its_dict(form: dict[str, Any]) -> None:
    message = read(form)
    assert read(wire.to_dict(message)) == message


@some
@given(messages | summaries() | events)
def test_every_item_comes_back_equal_through_json_text(item: wire.Item) -> None:
    text = json.dumps(wire.item_to_dict(item))
    assert wire.item_from_dict(json.loads(text)) == item


@some
@given(message_dicts)
def test_a_dict_comes_out_exactly_as_it_went_in(form: dict[str, Any]) -> None:
    # As text: 1, 1.0 and True are equal, and so are dicts in another order.
    assert json.dumps(wire.to_dict(read(form))) == json.dumps(form)


@some
@given(message_dicts)
def test_editing_a_dict_that_was_handed_in_changes_nothing(form: dict[str, Any]) -> None:
    handed = copy.deepcopy(form)
    message = read(handed)
    spoil(handed)
    assert wire.to_dict(message) == form
    assert message == read(form)


@some
@given(message_dicts.map(read) | messages | summaries())
def test_editing_a_dict_that_was_handed_out_changes_nothing(message: Message) -> None:
    before = json.dumps(wire.to_dict(message))
    for handed in (wire.to_dict(message), message.model_dump()):
        spoil(handed)
    assert json.dumps(wire.to_dict(message)) == before


@some
@given(events)
def test_editing_the_dict_of_an_event_changes_nothing(event: wire.Item) -> None:
    before = wire.item_to_dict(event)
    spoil(wire.item_to_dict(event))
    assert wire.item_to_dict(event) == before


def test_a_message_is_returned_as_it_is() -> None:
    message = Message("user", "hello")
    assert wire.from_dict(message) is message


@given(times)
def test_a_time_survives_to_the_microsecond(time: datetime) -> None:
    message = Message("user", "x", created_at=time)
    assert wire.from_dict(json.loads(json.dumps(wire.to_dict(message)))).created_at == time


# -- the shapes users meet ----------------------------------------------------------------------------


def test_a_user_message_built_in_code_has_the_stored_form() -> None:
    message = Message("user", {"text": "hi", "type": "text"}, phase="executing", id="m1", created_at=0)
    assert wire.to_dict(message) == {
        "role": "user",
        "content": {"text": "hi", "type": "text"},
        "phase": "executing",
        "id": "m1",
        "timestamp": 0.0,
    }


def test_an_assistant_without_calls_has_an_empty_list_of_them() -> None:
    assert wire.to_dict(Message("assistant", "hi"))["tool_calls"] == []


def test_calls_and_results_built_in_code_have_the_stored_form() -> None:
    asked = Message("assistant", tool_calls=[ToolCall("c1", "add", "{}")], id="m1", created_at=1.5)
    answer = Message("tool", "3", tool_call_id="c1", name="add", is_error=True, id="m2", created_at=2)
    assert [wire.to_dict(asked), wire.to_dict(answer)] == [
        {
            "role": "assistant",
            "content": None,
            "tool_calls": [{"id": "c1", "type": "function", "function": {"name": "add", "arguments": "{}"}}],
            "id": "m1",
            "timestamp": 1.5,
        },
        {
            "role": "tool",
            "content": "3",
            "tool_call_id": "c1",
            "name": "add",
            "is_error": True,
            "id": "m2",
            "timestamp": 2.0,
        },
    ]


def test_a_summary_has_one_entry_per_text_part() -> None:
    summary = Summary([Segment(text="x", first=1, last=9, provisional=True)], id="s", created_at=1, agent="a")
    assert wire.to_dict(summary) == {
        "type": "summary",
        "role": "user",
        "content": [{"text": "x", "type": "text"}],
        "segments": [{"first": 1, "last": 9, "provisional": True}],
        "id": "s",
        "timestamp": 1.0,
        "agent": "a",
    }


def test_an_event_says_what_it_is() -> None:
    assert wire.item_to_dict(AgentHandoff(to_agent="b", reason="done", id="e", created_at=NOON)) == {
        "type": "agent_handoff",
        "to_agent": "b",
        "from_agent": None,
        "reason": "done",
        "id": "e",
        "agent": None,
        "created_at": "2030-01-01T12:00:00+00:00",
    }


def test_the_agent_of_an_event_is_also_read_from_agent_id() -> None:
    item = wire.item_from_dict({"type": "agent_handoff", "to_agent": "b", "agent_id": "a"})
    assert item.agent == "a"


@pytest.mark.parametrize(
    ("form", "expected"),
    [
        (
            {
                "role": "assistant",
                "content": None,
                "refusal": None,
                "tool_calls": [
                    {"id": "c1", "type": "function", "function": {"name": "f", "arguments": '{"a":1}'}},
                    {"id": "c2", "type": "function", "function": {"name": "g", "arguments": ""}},
                ],
            },
            {"tool_calls": (ToolCall("c1", "f", '{"a":1}'), ToolCall("c2", "g")), "extra": {"refusal": None}},
        ),
        ({"role": "assistant", "content": "ok"}, {"content": "ok", "tool_calls": ()}),
        ({"role": "assistant", "content": "ok", "tool_calls": None}, {"tool_calls": ()}),
        (
            {"role": "tool", "tool_call_id": "c1", "content": '{"sum": 3}'},
            {"tool_call_id": "c1", "content": '{"sum": 3}'},
        ),
        ({"role": "developer", "content": "be brief", "name": "ops"}, {"name": "ops"}),
        (
            {
                "role": "user",
                "content": [
                    {"type": "text", "text": "what is this?"},
                    {"type": "image_url", "image_url": {"url": "https://x.test/a.png", "detail": "high"}},
                ],
            },
            {"content": (TextContent("what is this?"), ImageContent("https://x.test/a.png", "high"))},
        ),
        (
            {"role": "user", "content": [{"type": "input_text", "text": "hi"}]},
            {"content": (TextContent("hi"),)},
        ),
        (
            {
                "role": "assistant",
                "content": [
                    {"type": "thinking", "thinking": "hmm", "signature": "s"},
                    {"type": "redacted_thinking", "data": "zzz"},
                    {"type": "text", "text": "done"},
                ],
            },
            {
                "content": (
                    ThinkingContent("hmm", signature="s"),
                    ThinkingContent("", redacted="zzz"),
                    TextContent("done"),
                )
            },
        ),
    ],
)
def test_dicts_in_the_usual_provider_shapes_are_read(form: dict[str, Any], expected: dict[str, Any]) -> None:
    message = read(form)
    assert {name: getattr(message, name) for name in expected} == expected
    assert wire.to_dict(message) == form


def test_keys_without_a_field_are_found_in_extra_beside_what_extra_holds() -> None:
    message = read({"role": "user", "content": "x", "interrupted": True, "extra": {"confidence": 0.5}})
    assert message.extra == {"interrupted": True, "confidence": 0.5}


def test_either_name_of_the_id_and_the_time_is_read() -> None:
    message = read({"role": "user", "content": "x", "message_id": "m1", "created_at": "1970-01-01T00:00:00"})
    assert (message.id, message.created_at.timestamp()) == ("m1", 0)


# -- through memory -----------------------------------------------------------------------------------


@few
@given(st.lists(stamped_dicts(), max_size=4, unique_by=lambda form: form.get("id") or form["message_id"]))
async def test_memory_gives_back_the_dicts_it_was_given(forms: list[dict[str, Any]]) -> None:
    memory = Memory()
    await memory.add_messages("ana", "trip", forms)
    assert await memory.get_messages_only("ana", "trip") == forms


async def test_memory_adds_an_id_and_a_time_where_there_are_none(memory: Memory) -> None:
    stamping = Memory(store=memory._store, new_id=numbered_ids(), clock=StoppedClock(NOON))
    await stamping.add_message("ana", "trip", {"role": "user", "content": "hi"})
    assert await stamping.get_messages_only("ana", "trip") == [
        {"role": "user", "content": "hi", "id": "m1", "timestamp": NOON.timestamp()}
    ]


@pytest.mark.parametrize(
    "stamps",
    [
        {"id": "a", "message_id": "b"},
        {"message_id": None},
        {"message_id": ""},
        {"id": None, "message_id": "b"},
        {"id": "", "timestamp": None},
    ],
    ids=str,
)
async def test_the_dict_memory_gives_names_the_id_the_message_is_kept_under(
    memory: Memory, stamps: dict[str, Any]
) -> None:
    # Otherwise a dict copied to another conversation, or sent again, is another message.
    await memory.add_message("ana", "trip", {"role": "user", "content": "hi", **stamps})
    [entry] = (await memory.read("ana", "trip")).entries
    [form] = await memory.get_messages_only("ana", "trip")
    assert wire.from_dict(form).id == entry.message.id
    assert await memory.add_message("ana", "trip", form) == entry.position
