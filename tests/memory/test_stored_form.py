"""The body of a row: any message comes back equal, and a row that is not ours gives no broken message."""

from __future__ import annotations

import copy
import json
import pickle
from dataclasses import FrozenInstanceError, fields
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from strategies import (
    NOON,
    any_text,
    examples,
    json_values,
    message_dicts,
    messages,
    some,
    stamped_dicts,
    summaries,
)

from autonomy_ctx import ChatRole, ImageContent, Message, TextContent, ThinkingContent, ToolCall
from autonomy_ctx.errors import StoredFormTooNew
from autonomy_ctx.memory.encoding import (
    _CONSTANTS,
    _FIELDS,
    LETTER_FORM,
    UnreadableRow,
    approximate_length,
    coerce_message,
    decode_entry,
    decode_row,
    decode_whole_body,
    encode_row,
    make_draft,
    read_body,
    same_content,
    to_microseconds,
)
from autonomy_ctx.messages import Summary, wire
from autonomy_ctx.messages.tokens import TokenCounter
from autonomy_ctx.testing import numbered_ids

any_messages = messages | summaries() | message_dicts | stamped_dicts()


def coerce(value: Any) -> Message:
    """The message as memory has it."""
    message = coerce_message(value, new_id=numbered_ids(), now=lambda: NOON)
    return make_draft(message, TokenCounter()).message


def to_letters(form: dict[str, Any]) -> list[Any]:
    """A dict form as older versions wrote it."""
    letters, values = "", list[Any]()
    for name, value in form.items():
        constants = [one for one, (field, known) in _CONSTANTS.items() if field == name and known == value]
        fields_ = [one for one, field in _FIELDS.items() if field == name]
        if constants and type(value) is type(_CONSTANTS[constants[0]][1]):
            letters += constants[0]
        elif not fields_:
            return [LETTER_FORM, "", form]
        elif isinstance(value, dict) and list(value.items())[1:] == [("type", "text")] and "text" in value:
            letters, values = letters + "t", [*values, value["text"]]
        elif isinstance(value, dict) and list(value) == ["type", "text"] and value["type"] == "text":
            letters, values = letters + "y", [*values, value["text"]]
        else:
            letters, values = letters + fields_[0], [*values, value]
    return [LETTER_FORM, letters, *values]


def letter_body(message: Message) -> str:
    return json.dumps(to_letters(json.loads(encode_row(message))))


def read_back(message: Message, body: str) -> Message:
    return decode_row(message.id, to_microseconds(message.created_at), 7, "counter", body)


@some
@given(any_messages, st.sampled_from([encode_row, letter_body]))
def test_any_message_comes_back_equal(value: Any, encode: Any) -> None:
    sent = coerce(value)
    found = read_back(sent, encode(sent))
    # Before anything else has looked at it, and after.
    copies = [pickle.loads(pickle.dumps(found)), copy.deepcopy(found)]
    assert found == sent
    assert copies == [sent, sent]
    assert hash(found) == hash(sent)
    assert type(found) is type(sent)
    assert (found._origin.counter, found._origin.tokens) == ("counter", 7)
    # As text: 1, 1.0 and True are equal, and so are dicts in another order.
    assert json.dumps(found.model_dump()) == json.dumps(sent.model_dump())
    assert json.dumps(wire.to_dict(found)) == json.dumps(wire.to_dict(sent))
    assert [type(getattr(found, one.name)) for one in fields(sent) if one.compare] == [
        type(getattr(sent, one.name)) for one in fields(sent) if one.compare
    ]


@pytest.mark.parametrize(
    "form",
    [
        {"role": "user", "content": "x", "agent": "a", "agent_id": 5},
        {"role": "user", "content": "x", "id": "a", "message_id": 5},
        {"role": "user", "content": "x", "timestamp": 1, "created_at": "never"},
        {"role": "user", "content": "x", "type": None, "extra": None},
        {"role": "assistant"},
    ],
)
def test_what_was_let_in_comes_out(form: dict[str, Any]) -> None:
    """Of two names for one thing, only the one that counts is looked at."""
    sent = coerce(form)
    found = read_back(sent, encode_row(sent))
    assert found == sent
    assert json.dumps(wire.to_dict(found)) == json.dumps(wire.to_dict(sent))


@some
@given(any_messages)
def test_a_message_that_was_read_is_encoded_as_it_was(value: Any) -> None:
    sent = coerce(value)
    found = read_back(sent, encode_row(sent))
    assert encode_row(found) == encode_row(sent)
    assert encode_row(coerce(found)) == encode_row(sent)


@pytest.mark.parametrize(
    "form",
    [
        {"role": "user", "content": "hello"},
        {"phase": None, "content": "", "role": "assistant", "agent": "helper"},
        {"role": "tool", "tool_call_id": "c1", "name": "find", "content": "hello"},
    ],
)
def test_a_plain_message_keeps_only_the_names_of_its_form(form: dict[str, Any]) -> None:
    sent = coerce(form)
    found = read_back(sent, encode_row(sent))
    assert sent._origin.form == found._origin.form == " ".join(form)
    assert json.dumps(wire.to_dict(found)) == json.dumps(wire.to_dict(sent))
    assert encode_row(found) == encode_row(sent)


def test_a_message_from_a_row_keeps_both_names_of_its_agent() -> None:
    sent = coerce({"role": "user", "content": "hello", "agent_id": "other", "agent": "helper"})
    found = read_back(sent, encode_row(sent))
    assert wire.to_dict(found) == wire.to_dict(sent)
    assert (found.agent, wire.to_dict(found)["agent_id"]) == ("helper", "other")


def test_a_message_is_about_as_long_as_its_body() -> None:
    sent = coerce({"role": "user", "content": "hello", "own": {"more": "x" * 1000}})
    for form in (sent, coerce({"role": "user", "content": {"type": "text", "text": "y" * 1000}})):
        body = encode_row(form)
        assert 0.9 * len(body) <= approximate_length(read_back(form, body)) <= len(body)


def test_a_body_takes_little_more_than_its_text() -> None:
    for role in ("user", "assistant"):
        assert len(encode_row(coerce({"role": role, "content": "x" * 200}))) <= 450
        assert len(encode_row(coerce(Message(role, "x" * 200)))) <= 450


def row(position: int, body: str, counter: str = "c") -> tuple[int, str, int, int, str, str]:
    return (position, f"m{position}", 0, 1, counter, body)


def test_the_row_that_cannot_be_read_is_named() -> None:
    with pytest.raises(UnreadableRow, match="position 9 ") as refused:
        decode_entry(*row(9, '[2,"Uc","secret"'))
    assert (refused.value.__cause__, refused.value.__context__) == (None, None), (
        "they may quote what was said"
    )


def test_rows_of_one_counter_share_its_name() -> None:
    names = ["".join(letters) for letters in ("one", "one", "two")]
    entries = [decode_entry(*row(at, '[2,"Uc","x"]', name)) for at, name in enumerate(names)]
    first, again, other = [entry.message._origin.counter for entry in entries]
    assert (first, other) == ("one", "two")
    assert again is first


@some
@given(any_messages)
def test_old_and_new_rows_of_one_message_say_the_same(value: Any) -> None:
    message = coerce(value)
    assert same_content(letter_body(message), encode_row(message))
    assert same_content(encode_row(message), letter_body(message))
    assert decode_whole_body(letter_body(message), "m") == decode_whole_body(encode_row(message), "m")


@some
@given(any_messages, any_messages)
def test_rows_of_other_messages_say_something_else(one: Any, other: Any) -> None:
    first, second = coerce(one), coerce(other)
    old = same_content(letter_body(first), letter_body(second))
    assert same_content(letter_body(first), encode_row(second)) is old
    assert same_content(encode_row(first), encode_row(second)) is old


@pytest.mark.parametrize(
    ("form", "stored"),
    [
        ({"role": "user", "content": "hello"}, [2, "Uc", "hello"]),
        ({"content": "hello", "role": "user"}, [2, "cU", "hello"]),
        ({"role": "assistant", "content": None, "tool_calls": []}, [2, "ACL"]),
        ({"role": "tool", "content": {"text": "x", "type": "text"}, "is_error": True}, [2, "TtE", "x"]),
        ({"role": "user", "content": {"type": "text", "text": "x"}, "phase": "p"}, [2, "Uyp", "x", "p"]),
        ({"role": "user", "content": "x", "own": 1}, [2, "", {"role": "user", "content": "x", "own": 1}]),
    ],
)
def test_letters_are_read_in_their_order(form: dict[str, Any], stored: list[Any]) -> None:
    assert to_letters(form) == stored
    assert json.dumps(read_body(json.dumps(stored))) == json.dumps(form)


def is_whole(message: Message) -> bool:
    """Whether every field is of its type, at every depth."""
    content = message.content if isinstance(message.content, tuple) else (message.content,)
    return (
        isinstance(message.role, ChatRole)
        and all(
            part is None or isinstance(part, str | TextContent | ImageContent | ThinkingContent)
            for part in content
        )
        and all(isinstance(part.text, str) for part in content if isinstance(part, TextContent))
        and all(
            isinstance(call, ToolCall)
            and isinstance(call.name, str)
            and isinstance(call.arguments, str)
            and isinstance(call.id, str | None)
            for call in message.tool_calls
        )
        and all(
            isinstance(value, str | None)
            for value in (message.tool_call_id, message.name, message.agent, message.phase)
        )
        and type(message.is_error) is bool
        and isinstance(message.extra, dict)
    )


# Values of every type that a field may have, or should not have.
_values = (
    json_values
    | st.lists(message_dicts, max_size=2)
    | message_dicts
    | st.lists(
        st.fixed_dictionaries(
            {},
            optional={
                "id": json_values,
                "type": json_values,
                "text": json_values,
                "function": json_values
                | st.fixed_dictionaries({}, optional={"name": json_values, "arguments": json_values}),
            },
        ),
        max_size=2,
    )
)
_shapes = st.text("SDUATCLOEFNMckinagpxmdsty?", max_size=5) | st.sampled_from(
    ["Uc", "Ut", "Uy", "Ack", "Ak", "Tci", "Tcin", "Ucp", "Uca", "Ucg", "Ucag", "Ucx"]
)


@st.composite
def tampered_bodies(draw: st.DrawFn) -> Any:
    """JSON that is nearly the body of a row."""
    values = draw(st.lists(_values, max_size=4))
    letters = [LETTER_FORM, draw(_shapes), *values]
    return draw(st.sampled_from([letters, [LETTER_FORM, *values], values, draw(_values)]))


_STAMPS = ("id", "message_id", "created_at", "timestamp")


@examples(1000)
@given(tampered_bodies())
def test_a_row_that_is_not_ours_gives_no_broken_message(body: Any) -> None:
    try:
        found = decode_row("m1", 0, 1, "c", json.dumps(body))
    except (ValueError, StoredFormTooNew):
        return
    assert is_whole(found)
    # Beside those of the row, a form may have an id and times of its own, which count for nothing.
    form = {name: value for name, value in wire.to_dict(found).items() if name not in _STAMPS}
    assert wire.from_dict({**form, "id": "m1", "timestamp": 0}) == found
    assert Message(**found.model_dump()) == found or isinstance(found, Summary)


@pytest.mark.parametrize(
    "body",
    [
        "",
        " ",
        "2",
        "[",
        "[]",
        "[2]",
        "[2,5]",
        "[2,[]]",
        "[2,{}]",
        "[2,null]",
        '[2,""]',
        '[2,"",[]]',
        '[2,"",{}]',
        '[2,"",{"role":"user","content":"x"},1]',
        '[2,"U"]',
        '[2,"c","x"]',
        '[2,"UC"]',
        '[2,"Uc"]',
        '[2,"Uc","x","y"]',
        '[2,"Uc",5]',
        '[2,"Uc",{"type":"text"}]',
        '[2,"Ut",null]',
        '[2,"Ut",{"text":"x"}]',
        '[2,"UAc","x"]',
        '[2,"Ucc","x","x"]',
        '[2,"Uct","x","x"]',
        '[2,"Uc?","x","x"]',
        '[2,"Ucp","x",5]',
        '[2,"Ucx","x","y"]',
        '[2,"Ack","x",5]',
        '[2,"Ack","x",[5]]',
        '[2,"Ack","x",[{"id":"a","type":"function","function":{"name":5,"arguments":""}}]]',
        '[2,"Uc","x"] ',
        '[2,"Uc","x"][]',
        '[1,"Uc","x"]',
        '["3","Uc","x"]',
        "[-1]",
    ],
)
def test_a_damaged_row_is_refused(body: str) -> None:
    with pytest.raises(ValueError):  # the store says which row it is
        decode_row("m1", 0, 1, "c", body)


@pytest.mark.parametrize(
    "read",
    [
        lambda body: decode_row("m1", 0, 1, "c", body),
        lambda body: same_content(body, '{"role":"user","content":"x"}'),
        lambda body: decode_whole_body(body, "m1"),
    ],
)
def test_a_newer_form_says_to_upgrade(read: Any) -> None:
    with pytest.raises(StoredFormTooNew, match=r"stored format 3.* up to 2; upgrade") as refused:
        read('[3,"anything",{}]')
    assert (refused.value.found, refused.value.known) == (3, 2)


@some
@given(any_text)
def test_a_message_that_was_read_cannot_be_changed(text: str) -> None:
    sent = coerce({"role": "user", "content": {"type": "text", "text": text}})
    found = read_back(sent, encode_row(sent))
    for name in ("content", "created_at", "role", "id"):
        with pytest.raises(FrozenInstanceError):
            setattr(found, name, None)
    assert found.content is found.content
    assert found.created_at is found.created_at
    with pytest.raises(AttributeError, match="'Message' object has no attribute 'contents'"):
        found.contents  # type: ignore[attr-defined]  # noqa: B018
    assert found == sent
