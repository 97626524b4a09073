"""What a context holds in hand: its verbs, its list, its ids, and that nobody edits it by accident."""

from __future__ import annotations

import copy
import json
import pickle
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from strategies import few, histories, messages, some

from autonomy_ctx import Message, ToolCall
from autonomy_ctx.containers.context import Context
from autonomy_ctx.errors import ConflictingMessage, InvalidMessage
from autonomy_ctx.messages.cuts import validate_tool_pairing

CALL = {"id": "call_1", "type": "function", "function": {"name": "look", "arguments": "{}"}}


def texts(context: Context) -> list[str]:
    return [message.text for message in context]


def test_the_verbs_add_messages_of_their_roles_in_order() -> None:
    context = Context()
    context.system("be brief")
    context.user("look")
    context.assistant("", tool_calls=[CALL])
    context.tool("found", name="look", tool_call_id="call_1")
    said = context.assistant("done")

    assert [message.role for message in context] == ["system", "user", "assistant", "tool", "assistant"]
    assert context[2].tool_calls == (ToolCall("call_1", "look", "{}"),)
    assert (context[3].name, context[3].tool_call_id) == ("look", "call_1")
    assert context[-1] is said
    assert validate_tool_pairing(list(context)) == (True, None)


def test_it_reads_like_a_list() -> None:
    context = Context([{"role": "user", "content": "a"}, Message("assistant", "b")])
    assert len(context) == 2
    assert context
    assert not Context()
    assert context[0].text == "a"
    assert [message.text for message in context[0:1]] == ["a"]
    assert context.messages[-1] in context
    assert Message("user", "a") not in context
    assert "a" not in context
    assert repr(context) == "Context(len=2)"
    assert isinstance(context.messages, list)
    with pytest.raises(IndexError):
        context[5]


def test_two_identical_messages_have_two_ids_and_aware_times() -> None:
    context = Context()
    for _ in range(3):
        context.user("the same")
        context.assistant("", tool_calls=[CALL])
    assert len({message.message_id for message in context}) == 6
    assert all(message.timestamp.utcoffset() == timedelta(0) for message in context)


def test_naive_and_aware_times_go_together() -> None:
    naive = Message("user", "a", created_at=datetime(2030, 1, 1, 12))  # noqa: DTZ001
    aware = Message("user", "b", created_at=datetime(2030, 1, 1, 11, tzinfo=UTC))
    context = Context([naive, aware])
    assert sorted(context, key=lambda message: message.timestamp) == [aware, naive]


def test_a_message_that_is_there_is_not_added_again() -> None:
    context = Context()
    said = context.user("hello")
    context.append(said)
    context.extend([said, Message("user", "more"), said])
    assert texts(context) == ["hello", "more"]


def test_one_id_cannot_stand_for_two_contents() -> None:
    context = Context([Message("user", "a", id="m1"), Message("user", "b", id="m2")])
    with pytest.raises(ConflictingMessage, match="'m2' is already at position 1"):
        context.append(Message("user", "other", id="m2"))
    with pytest.raises(ConflictingMessage):
        context.messages = [Message("user", "x", id="m"), Message("user", "y", id="m")]
    assert texts(context) == ["a", "b"]


def test_nothing_is_added_when_one_of_several_is_wrong() -> None:
    context = Context()
    bad: list[Any] = [Message("user", "fine"), {"role": "nobody", "content": "x"}]
    with pytest.raises(InvalidMessage, match="role"):
        context.extend(bad)
    with pytest.raises(InvalidMessage, match="content"):
        context.user(None)
    assert not context


EDITS: dict[str, Callable[[Any], object]] = {
    "append": lambda held: held.append(Message("user", "new")),
    "extend": lambda held: held.extend([Message("user", "new")]),
    "iadd": lambda held: held.__iadd__([Message("user", "new")]),
    "insert": lambda held: held.insert(1, Message("user", "new")),
    "pop": lambda held: held.pop(0),
    "remove": lambda held: held.remove(held[1]),
    "reverse": lambda held: held.reverse(),
    "sort": lambda held: held.sort(key=lambda message: message.text, reverse=True),
    "set": lambda held: held.__setitem__(0, Message("user", "new")),
    "set a slice": lambda held: held.__setitem__(slice(0, 2), [Message("user", "new")]),
    "delete": lambda held: held.__delitem__(slice(0, 2)),
    "clear": lambda held: held.clear(),
}


@pytest.mark.parametrize("name", EDITS)
def test_editing_the_list_edits_the_context_as_it_would_a_list(name: str) -> None:
    context = Context([Message("user", text) for text in "abc"])
    plain = list(context)
    EDITS[name](context.messages)
    EDITS[name](plain)
    assert texts(context) == [message.text for message in plain]
    assert [message.text for message in context.messages] == texts(context)
    assert len(context) == len(plain)


def test_the_list_can_be_set_and_added_to_in_one_statement() -> None:
    context = Context([Message("user", text) for text in "abc"])
    context.messages = context.messages[-2:]
    context.messages += [Message("user", "d")]
    assert texts(context) == ["b", "c", "d"]


def test_the_list_it_was_made_from_stays_the_callers() -> None:
    given_list = [Message("user", "a")]
    context = Context(messages=given_list)
    given_list.append(Message("user", "b"))
    context.user("c")
    assert texts(context) == ["a", "c"]
    assert len(given_list) == 2


def test_a_dict_edited_after_it_was_added_changes_nothing() -> None:
    context = Context()
    form: dict[str, Any] = {"role": "user", "content": "a", "extra": {"deep": [1]}}
    context.append(form)
    form["content"] = "b"
    form["extra"]["deep"].append(2)
    assert context[0].text == "a"
    assert context[0].model_dump()["extra"] == {"deep": [1]}


@pytest.mark.parametrize("copied", [copy.copy, copy.deepcopy, lambda c: pickle.loads(pickle.dumps(c))])
def test_a_copy_has_a_life_of_its_own(copied: Callable[[Context], Context]) -> None:
    context = Context([Message("user", "a")])
    other = copied(context)
    other.user("b")
    assert texts(context) == ["a"]
    assert texts(other) == ["a", "b"]
    assert copy.deepcopy(context.messages) == list(context)


def test_a_loop_that_adds_messages_ends() -> None:
    context = Context([Message("user", "a"), Message("user", "b")])
    for message in context:
        context.assistant(f"re {message.text}")
    assert texts(context) == ["a", "b", "re a", "re b"]


def test_keeping_updated_needs_a_file_and_so_does_saving() -> None:
    with pytest.raises(ValueError, match="needs a file_path"):
        Context(keep_updated=True)
    with pytest.raises(ValueError, match="has no file; give it one"):
        Context().save()
    with pytest.raises(TypeError, match="file_path must be a path, not int"):
        Context(file_path=3)  # type: ignore[arg-type]


@some
@given(histories)
def test_dumped_by_hand_and_read_back_a_context_is_the_same(history: list[Message]) -> None:
    context = Context(history)
    dumped = json.dumps([message.model_dump() for message in context.messages])
    assert list(Context(messages=[Message(**form) for form in json.loads(dumped)])) == list(context)


@few
@given(st.lists(messages, max_size=4, unique_by=lambda message: message.id))
def test_any_messages_can_be_held(given_messages: list[Message]) -> None:
    context = Context(given_messages)
    assert context.messages == given_messages
    context.clear()
    assert context.messages == []
