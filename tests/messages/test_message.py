"""Messages, calls, parts, events and summaries as values."""

from __future__ import annotations

import copy
import json
import pickle
from dataclasses import FrozenInstanceError, replace
from datetime import UTC, datetime, timedelta, timezone
from enum import Enum, StrEnum
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from strategies import NOON, events, json_dicts, messages, some, summaries, times

from autonomy_ctx import (
    ChatRole,
    ImageContent,
    InvalidMessage,
    Message,
    TextContent,
    ThinkingContent,
    ToolCall,
)
from autonomy_ctx.messages import AgentConfigUpdate, AgentHandoff, DirectMessage, Segment, Summary, wire


def test_a_message_needs_only_a_role_and_content() -> None:
    message = Message("user", "hello")
    assert (message.role, message.content, message.text) == (ChatRole.USER, "hello", "hello")
    assert (message.tool_calls, message.tool_call_id, message.name, message.is_error) == (
        (),
        None,
        None,
        False,
    )
    assert (message.agent, message.phase, message.extra) == (None, None, {})
    assert message.id
    assert message.created_at.tzinfo is UTC


def test_two_messages_never_get_the_same_id() -> None:
    assert len({Message("user", "hello").id for _ in range(1000)}) == 1000


def test_timestamp_and_message_id_read_the_time_and_the_id() -> None:
    message = Message("user", "hello", id="m1", created_at=NOON)
    assert (message.timestamp, message.message_id) == (NOON, "m1")


@pytest.mark.parametrize(
    ("content", "text", "parts"),
    [
        ("hi", "hi", (TextContent("hi"),)),
        (None, "", ()),
        (TextContent("hi"), "hi", (TextContent("hi"),)),
        ({"text": "hi", "type": "text"}, "hi", (TextContent("hi"),)),
        ({"text": "hi"}, "hi", (TextContent("hi"),)),
        (["a", {"type": "text", "text": "b"}], "a\nb", (TextContent("a"), TextContent("b"))),
        ([], "", ()),
        ([ThinkingContent("hmm"), TextContent("b")], "b", (ThinkingContent("hmm"), TextContent("b"))),
        (ImageContent("https://x.test/a.png"), "", (ImageContent("https://x.test/a.png"),)),
        (
            {"type": "image_url", "image_url": {"url": "https://x.test/a.png", "detail": "low"}},
            "",
            (ImageContent("https://x.test/a.png", "low"),),
        ),
        (
            {"type": "image", "source": {"type": "base64", "media_type": "image/gif", "data": "AA=="}},
            "",
            (ImageContent("data:image/gif;base64,AA=="),),
        ),
        ({"type": "redacted_thinking", "data": "xyz"}, "", (ThinkingContent("", redacted="xyz"),)),
    ],
)
def test_content_reads_the_same_in_every_spelling(content: Any, text: str, parts: tuple[Any, ...]) -> None:
    message = Message("assistant", content)
    assert (message.text, message.parts) == (text, parts)


@pytest.mark.parametrize(
    "spelling",
    [
        ToolCall("c1", "add", '{"a": 1}'),
        {"id": "c1", "name": "add", "arguments": '{"a": 1}'},
        {"id": "c1", "name": "add", "arguments": {"a": 1}},
        {"id": "c1", "type": "function", "function": {"name": "add", "arguments": '{"a": 1}'}},
        {"id": "c1", "type": "function", "function": {"name": "add", "arguments": {"a": 1}}},
    ],
)
def test_a_call_reads_the_same_in_every_spelling(spelling: Any) -> None:
    [call] = Message("assistant", tool_calls=[spelling]).tool_calls
    assert call == ToolCall("c1", "add", '{"a": 1}')
    assert call.parse_arguments() == {"a": 1}


@pytest.mark.parametrize("arguments", ["", "  \n", None])
def test_empty_arguments_mean_no_arguments(arguments: str | None) -> None:
    [call] = Message("assistant", tool_calls=[{"id": "c", "name": "now", "arguments": arguments}]).tool_calls
    assert call.parse_arguments() == {}


def test_what_a_provider_sends_along_with_a_call_stays_with_it() -> None:
    [call] = Message("assistant", tool_calls=[{"id": "c", "name": "f", "thought_signature": "s"}]).tool_calls
    assert call.extra == {"thought_signature": "s"}


# -- time ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("given_time", "meant"),
    [
        (0, datetime(1970, 1, 1, tzinfo=UTC)),
        (0.0, datetime(1970, 1, 1, tzinfo=UTC)),
        (-1.5, datetime(1969, 12, 31, 23, 59, 58, 500_000, tzinfo=UTC)),
        ("2030-01-01T12:00:00Z", NOON),
        ("2030-01-01T12:00:00", NOON),
        ("2030-01-01T14:00:00+02:00", NOON),
        (datetime(2030, 1, 1, 12), NOON),  # noqa: DTZ001  # naive on purpose
        (datetime(2030, 1, 1, 14, tzinfo=timezone(timedelta(hours=2))), NOON),
    ],
)
def test_a_time_is_kept_in_utc_and_without_a_zone_it_is_utc(given_time: Any, meant: datetime) -> None:
    for message in (
        Message("user", "x", created_at=given_time),
        AgentHandoff(to_agent="b", created_at=given_time),
        Summary([Segment(text="x", first=1, last=1)], created_at=given_time),
    ):
        assert message.created_at == meant
        assert message.created_at.tzinfo is UTC


@given(times)
def test_messages_of_any_time_can_be_sorted_together(time: datetime) -> None:
    naive = Message("user", "x", created_at=time.replace(tzinfo=None))
    aware = Message("user", "x", created_at=time)
    assert naive.created_at == aware.created_at
    assert sorted([naive, aware], key=lambda message: message.timestamp) == [naive, aware]


# -- values -------------------------------------------------------------------------------------------


@some
@given(messages)
def test_a_message_can_be_made_again_from_its_dump(message: Message) -> None:
    assert Message(**message.model_dump()) == message
    assert Message(**json.loads(json.dumps(message.model_dump()))) == message


@some
@given(messages | summaries() | events)
def test_items_survive_copying_and_pickling(item: Any) -> None:
    again = pickle.loads(pickle.dumps(item))
    assert copy.copy(item) == copy.deepcopy(item) == again == item
    assert hash(again) == hash(item)


@some
@given(messages)
def test_equal_messages_are_one_member_of_a_set(message: Message) -> None:
    assert len({message, Message(**message.model_dump())}) == 1


@pytest.mark.parametrize(
    ("field", "other"),
    [
        ("role", "system"),
        ("content", "other"),
        ("content", TextContent("hello")),
        ("tool_calls", [ToolCall("c1", "f")]),
        ("tool_call_id", "c1"),
        ("name", "ana"),
        ("is_error", True),
        ("id", "m2"),
        ("created_at", 1),
        ("agent", "helper"),
        ("phase", "planning"),
        ("extra", {"a": 1}),
    ],
)
def test_messages_that_differ_in_anything_a_reader_can_see_are_not_equal(field: str, other: Any) -> None:
    message = Message("user", "hello", id="m1", created_at=NOON)
    assert Message(**{**message.model_dump(), field: other}) != message


def test_a_changed_copy_is_made_with_replace_and_says_what_changed() -> None:
    original = wire.from_dict({"role": "user", "content": "hello", "id": "m1", "timestamp": 1.0, "own": 1})
    changed = replace(original, content="bye")
    assert changed == Message("user", "bye", id="m1", created_at=1, extra={"own": 1})
    assert wire.to_dict(changed)["content"] == "bye"
    assert wire.to_dict(original)["content"] == "hello"


def test_enums_are_kept_as_what_they_stand_for() -> None:
    class Mood(StrEnum):
        GOOD = "good"

    class OldMood(str, Enum):  # noqa: UP042  # how it was written before StrEnum
        BAD = "bad"

    message = Message("user", "x", name=OldMood.BAD, extra={Mood.GOOD: OldMood.BAD, OldMood.BAD: Mood.GOOD})
    assert message.name == "bad"
    assert json.loads(json.dumps(message.model_dump()))["extra"] == {"good": "bad", "bad": "good"}


# -- frozen -------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("item", "field"),
    [
        (Message("user", "x"), "content"),
        (Message("user", "x"), "extra"),
        (ToolCall("c", "f"), "arguments"),
        (TextContent("x"), "text"),
        (ImageContent("https://x.test/a.png"), "image"),
        (ThinkingContent("x"), "signature"),
        (AgentHandoff(to_agent="b"), "to_agent"),
        (AgentConfigUpdate(tools=("a",)), "tools"),
        (DirectMessage(source_agent="a", target_agent="b", content="x"), "priority"),
        (Segment(text="x", first=1, last=2), "last"),
        (Summary([Segment(text="x", first=1, last=2)]), "segments"),
    ],
    ids=lambda value: value if isinstance(value, str) else type(value).__name__,
)
def test_no_field_of_an_item_can_be_set(item: Any, field: str) -> None:
    with pytest.raises(FrozenInstanceError):
        setattr(item, field, "changed")


NESTED = {"deep": [1, {"x": [2]}], "flat": 1}


@pytest.mark.parametrize(
    "extra",
    [
        Message("user", "x", extra=NESTED).extra,
        wire.from_dict({"role": "user", "content": "x", **NESTED}).extra,
        ToolCall("c", "f", "", NESTED).extra,
        DirectMessage(source_agent="a", target_agent="b", content="x", metadata=NESTED).metadata,
        copy.deepcopy(Message("user", "x", extra=NESTED).extra),
        pickle.loads(pickle.dumps(Message("user", "x", extra=NESTED))).extra,
    ],
    ids=["message", "from_dict", "call", "metadata", "deepcopy", "pickle"],
)
def test_nothing_inside_extra_can_be_edited(extra: Any) -> None:
    edits: list[Any] = [
        lambda: extra.update(a=1),
        lambda: extra.pop("flat"),
        lambda: extra.clear(),
        lambda: extra.popitem(),
        lambda: extra.setdefault("new", 1),
        lambda: extra.__setitem__("flat", 2),
        lambda: extra.__delitem__("flat"),
        lambda: extra.__ior__({"a": 1}),
        lambda: extra["deep"].append(1),
        lambda: extra["deep"].extend([1]),
        lambda: extra["deep"].insert(0, 1),
        lambda: extra["deep"].pop(),
        lambda: extra["deep"].remove(1),
        lambda: extra["deep"].clear(),
        lambda: extra["deep"].sort(),
        lambda: extra["deep"].reverse(),
        lambda: extra["deep"].__setitem__(0, 2),
        lambda: extra["deep"].__delitem__(0),
        lambda: extra["deep"].__iadd__([1]),
        lambda: extra["deep"].__imul__(2),
        lambda: extra["deep"][1]["x"].append(3),
        lambda: extra["deep"][1].update(y=1),
    ]
    for edit in edits:
        with pytest.raises(TypeError, match="a message cannot be changed"):
            edit()
    assert extra == NESTED


@some
@given(json_dicts)
def test_extra_reads_like_the_dict_it_was_made_from(extra: dict[str, Any]) -> None:
    kept = Message("user", "x", extra=extra).extra
    assert kept == extra
    assert json.dumps(kept) == json.dumps(extra)


# -- images -------------------------------------------------------------------------------------------


def test_an_image_from_bytes_travels_inside_the_message_as_json() -> None:
    image = ImageContent.from_bytes(b"\x89PNG", media_type="image/png")
    assert image == ImageContent("data:image/png;base64,iVBORw==")
    message = Message("user", [TextContent("what is this?"), image])
    assert "iVBORw==" in json.dumps(message.model_dump())
    assert "iVBORw==" in json.dumps(wire.to_dict(message))


# -- events -------------------------------------------------------------------------------------------


def test_events_have_an_id_and_a_time_of_their_own() -> None:
    handoff, update = AgentHandoff(to_agent="b"), AgentConfigUpdate()
    assert handoff.id != update.id
    assert handoff.created_at.tzinfo is UTC
    assert AgentHandoff(to_agent="b", id="").id


def test_the_tools_of_a_config_update_are_kept_as_a_tuple() -> None:
    tools = ["search"]
    update = AgentConfigUpdate(tools=tools)  # type: ignore[arg-type]  # a list is taken too
    tools.append("delete")
    assert update.tools == ("search",)


@pytest.mark.parametrize(
    ("ttl", "after", "expired"),
    [(None, 10**9, False), (60, 59.9, False), (60, 60, True), (0, 0, True), (0.5, 1, True)],
)
def test_a_direct_message_expires_when_its_time_to_live_is_over(
    ttl: float | None, after: float, expired: bool
) -> None:
    mail = DirectMessage(source_agent="a", target_agent="b", content="x", ttl_seconds=ttl, created_at=NOON)
    assert mail.expired(NOON + timedelta(seconds=after)) is expired


@given(st.just(0.0) | st.floats(min_value=0.001, allow_infinity=False))
def test_any_time_to_live_can_be_asked_about(ttl: float) -> None:
    mail = DirectMessage(source_agent="a", target_agent="b", content="x", ttl_seconds=ttl, created_at=NOON)
    assert mail.expired(NOON) is (ttl == 0)


# -- summaries ----------------------------------------------------------------------------------------


def test_a_summary_is_a_system_message_with_one_text_part_per_segment() -> None:
    summary = Summary(
        [Segment(text="first", first=1, last=10), Segment(text="then", first=11, last=20, provisional=True)]
    )
    assert isinstance(summary, Message)
    assert (summary.role, summary.text) == (ChatRole.SYSTEM, "first\nthen")
    assert summary.parts == (TextContent("first"), TextContent("then"))
    assert (summary.covers_from, summary.covers_to, summary.provisional) == (1, 20, True)


def test_summaries_of_other_ranges_are_other_summaries() -> None:
    made = [Summary([Segment(text="x", first=1, last=last)], id="s", created_at=NOON) for last in (2, 2, 3)]
    assert made[0] == made[1] != made[2]


def test_a_summary_is_not_equal_to_a_message_with_the_same_words() -> None:
    summary = Summary([Segment(text="x", first=1, last=2)], id="s", created_at=NOON)
    assert Message("system", [TextContent("x")], id="s", created_at=NOON) != summary


# -- what can be built can be read --------------------------------------------------------------------


@pytest.mark.parametrize(
    "build",
    [
        *(lambda role=role: Message(role) for role in ChatRole),
        lambda: Message("user", ImageContent("https://x.test/a.png", "huge")),  # type: ignore[arg-type]
        lambda: Message("assistant", ThinkingContent("x", signature=5)),  # type: ignore[arg-type]
        lambda: Message("assistant", ThinkingContent("", redacted=5)),  # type: ignore[arg-type]
        lambda: Message("user", []),
        lambda: Message("assistant", "", tool_calls=[ToolCall("", "")]),
    ],
    ids=[*(f"{role} without content" for role in ChatRole), "detail", "signature", "redacted", "[]", "''"],
)
def test_what_can_be_built_can_be_read_back(build: Any) -> None:
    # A message that a store accepts and cannot read again would close its conversation for good.
    try:
        message = build()
    except InvalidMessage:
        return
    assert wire.from_dict(json.loads(json.dumps(wire.to_dict(message)))) == message
