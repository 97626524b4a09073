"""Whatever answers can stand in for a model: every usual shape of a reply says the same."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum
from types import SimpleNamespace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from strategies import json_values, some

from autonomy_ctx import ModelReply, TextContent, ThinkingContent, ToolCall
from autonomy_ctx.formats.any_reply import is_answer, read_reply

ARGUMENTS = {"city": "Rome", "finish_reason": {"function_call": 1}}
WORDS = '{"city": "Rome", "finish_reason": {"function_call": 1}}'
OPENAI: dict[str, Any] = {
    "choices": [
        {
            "message": {
                "role": "assistant",
                "content": "I look.",
                "tool_calls": [
                    {"id": "c1", "type": "function", "function": {"name": "look", "arguments": WORDS}}
                ],
            },
            "finish_reason": "tool_calls",
        }
    ],
    "usage": {"prompt_tokens": 7, "completion_tokens": 5},
}
ANTHROPIC: dict[str, Any] = {
    "role": "assistant",
    "content": [
        {"type": "text", "text": "I look."},
        {"type": "tool_use", "id": "c1", "name": "look", "input": ARGUMENTS},
    ],
    "stop_reason": "tool_use",
    "usage": {"input_tokens": 7, "output_tokens": 5},
}
GOOGLE: dict[str, Any] = {
    "candidates": [
        {
            "content": {
                "parts": [
                    {"text": "I look."},
                    {"functionCall": {"id": "c1", "name": "look", "args": ARGUMENTS}},
                ]
            },
            "finishReason": "STOP",
        }
    ],
    "usageMetadata": {"promptTokenCount": 7, "candidatesTokenCount": 5},
}
BEDROCK: dict[str, Any] = {
    "output": {
        "message": {
            "role": "assistant",
            "content": [
                {"text": "I look."},
                {"toolUse": {"toolUseId": "c1", "name": "look", "input": ARGUMENTS}},
            ],
        }
    },
    "stopReason": "tool_use",
    "usage": {"inputTokens": 7, "outputTokens": 5},
}
RESPONSES: dict[str, Any] = {
    "status": "completed",
    "output": [
        {"type": "message", "role": "assistant", "content": [{"type": "output_text", "text": "I look."}]},
        {"type": "function_call", "id": "f1", "call_id": "c1", "name": "look", "arguments": WORDS},
    ],
    "usage": {"input_tokens": 7, "output_tokens": 5},
}
SHAPES = {
    "openai": OPENAI,
    "anthropic": ANTHROPIC,
    "google": GOOGLE,
    "bedrock": BEDROCK,
    "responses": RESPONSES,
}


def objects(value: Any) -> Any:
    """JSON as an SDK shows it: objects with attributes."""
    if isinstance(value, dict):
        return SimpleNamespace(**{name: objects(inner) for name, inner in value.items()})
    return [objects(inner) for inner in value] if isinstance(value, list) else value


class Dumped:
    """An object that knows its own JSON, as those of pydantic do."""

    def __init__(self, data: dict[str, Any]) -> None:
        self._data = data

    def model_dump(self) -> dict[str, Any]:
        return self._data


def assert_looks(reply: ModelReply) -> None:
    [made] = reply.tool_calls
    assert (made.id, made.name, made.parse_arguments()) == ("c1", "look", ARGUMENTS)
    assert reply.text == "I look."
    assert reply.stop == "tools"
    assert (reply.usage.input_tokens, reply.usage.output_tokens) == (7, 5)


@pytest.mark.parametrize("shape", SHAPES)
def test_the_json_of_every_provider_is_read(shape: str) -> None:
    assert_looks(read_reply(SHAPES[shape]))


@pytest.mark.parametrize("shape", SHAPES)
def test_the_objects_of_every_sdk_are_read(shape: str) -> None:
    assert_looks(read_reply(objects(SHAPES[shape])))
    assert_looks(read_reply(Dumped(SHAPES[shape])))


def test_googles_sdk_names_its_fields_otherwise() -> None:
    class Reason(Enum):
        STOP = "STOP"

    called = SimpleNamespace(id="c1", name="look", args=ARGUMENTS)
    parts = [SimpleNamespace(text="I look.", thought=None), SimpleNamespace(function_call=called)]
    candidate = SimpleNamespace(content=SimpleNamespace(parts=parts), finish_reason=Reason.STOP)
    usage = SimpleNamespace(prompt_token_count=7, candidates_token_count=5)
    assert_looks(read_reply(SimpleNamespace(candidates=[candidate], usage_metadata=usage)))


def test_a_message_in_the_dict_form_is_a_reply() -> None:
    reply = read_reply({"role": "assistant", "content": "I look.", "tool_calls": [{"name": "look"}]})
    assert reply.text == "I look."
    assert reply.tool_calls[0].id, "a call without an id is given one"
    assert reply.stop == "tools"


def test_parts_of_a_message_are_kept_with_their_thinking() -> None:
    content = [{"type": "thinking", "thinking": "hm"}, {"type": "text", "text": "yes"}]
    reply = read_reply({"role": "assistant", "content": content})
    assert [type(part) for part in reply.parts] == [ThinkingContent, TextContent]
    assert reply.text == "yes"


def test_text_a_reply_and_a_dataclass_are_taken_as_they_are() -> None:
    @dataclass
    class Answer:
        content: str
        tool_calls: tuple[ToolCall, ...] = ()
        finish_reason: str = "length"

    own = ModelReply(parts=(TextContent("mine"),))
    assert read_reply(own) is own
    assert read_reply("plain").text == "plain"
    assert read_reply("plain").stop == "end"
    assert read_reply(Answer("cut")).stop == "length"
    called = Answer("", (ToolCall("c1", "look", "{}"),))
    assert read_reply(called).tool_calls == (ToolCall("c1", "look", "{}"),)


def test_an_empty_answer_is_an_answer() -> None:
    for empty in (
        "",
        {"role": "assistant", "content": ""},
        {"choices": [{"message": {"content": ""}, "finish_reason": "stop"}]},
    ):
        reply = read_reply(empty)
        assert (reply.text, reply.stop) == ("", "end")
        assert is_answer(reply)


def test_a_refusal_is_no_error() -> None:
    said = {"message": {"content": None, "refusal": "No."}, "finish_reason": "stop"}
    reply = read_reply({"choices": [said]})
    assert (reply.text, reply.stop) == ("No.", "refused")
    assert is_answer(reply)
    assert read_reply({"content": None, "finish_reason": "content_filter"}).stop == "refused"


class Loop:
    """An object that holds itself, twice."""

    def __init__(self) -> None:
        self.left = self.right = self


@pytest.mark.parametrize(
    "garbage",
    [
        None,
        42,
        b"text",
        [],
        {},
        object(),
        Loop(),
        {"choices": []},
        {"candidates": []},
        {"error": {"message": "overloaded"}},
        {"content": None},
        {"tool_calls": [{"name": None}]},
        {"tool_calls": ["look"]},
        {"nested": {"text": "no"}},
    ],
    ids=lambda garbage: type(garbage).__name__,
)
def test_what_is_no_answer_says_nothing_and_is_told_from_an_empty_one(garbage: Any) -> None:
    reply = read_reply(garbage)
    assert (reply.text, reply.tool_calls) == ("", ())
    assert not is_answer(reply)


_fields = st.sampled_from(
    ["choices", "candidates", "output", "content", "message", "tool_calls", "stop_reason", "usage", "parts"]
)
_broken = st.recursive(
    json_values,
    lambda inner: st.lists(inner, max_size=2) | st.dictionaries(_fields, inner, max_size=3),
    max_leaves=8,
)


@some
@given(_broken)
def test_broken_json_is_a_reply_and_never_an_error(body: Any) -> None:
    for value in (body, objects_of_strings(body)):
        assert isinstance(read_reply(value), ModelReply)


def objects_of_strings(value: Any) -> Any:
    if isinstance(value, dict):
        made = SimpleNamespace()
        vars(made).update({name: objects_of_strings(inner) for name, inner in value.items()})
        return made
    return [objects_of_strings(inner) for inner in value] if isinstance(value, list) else value
