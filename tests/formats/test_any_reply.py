from __future__ import annotations

from enum import Enum, IntEnum
from types import SimpleNamespace as Obj
from typing import Any
from unittest.mock import MagicMock

import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from strategies import json_values, many

from autonomy_ctx import Message, ModelReply, TextContent, ThinkingContent, ToolCall
from autonomy_ctx.formats.any_reply import has_calls, read_reply
from autonomy_ctx.formats.base import Usage

THOUGHT = {"type": "thinking", "thinking": "hmm", "text": "hmm"}
HELLO = {"type": "text", "text": "hello"}


def as_object(value: Any) -> Any:
    """The same reply as a client library would give it."""
    if isinstance(value, dict):
        return Obj(**{name: as_object(inner) for name, inner in value.items()})
    return [as_object(inner) for inner in value] if isinstance(value, list) else value


SHAPES: dict[str, Any] = {
    "text": {"text": "hello"},
    "content": {"content": "hello"},
    "content parts": {"content": [THOUGHT, HELLO]},
    "one content part": {"content": HELLO},
    "seed content": HELLO,
    "message": {"message": {"role": "assistant", "content": "hello"}},
    "message parts": {"message": {"content": [{"type": "text", "text": "hel"}, {"text": "lo"}]}},
    "choices": {"choices": [{"message": {"content": "hello"}}, {"message": {"content": "other"}}]},
    "choices with parts": {"choices": [{"message": {"content": [THOUGHT, HELLO]}}]},
    "choices with text": {"choices": [{"text": "hello"}]},
    "candidates": {
        "candidates": [{"content": {"parts": [{"text": "hmm", "thought": True}, {"text": "hello"}]}}]
    },
    "output": {
        "output": [
            {"type": "reasoning", "content": [{"type": "reasoning_text", "text": "hmm"}]},
            {"type": "message", "content": [{"type": "output_text", "text": "hello"}]},
        ]
    },
    "output message": {"output": {"message": {"content": [{"text": "hello"}]}}},
    "string parts": {"content": ["hel", "lo"]},
    "both": {"text": "hmm hello", "choices": [{"message": {"content": "hello"}}]},
}


@pytest.mark.parametrize("shape", SHAPES.values(), ids=SHAPES.keys())
def test_the_text_is_found_in_every_usual_shape(shape: Any) -> None:
    assert read_reply(shape).text == "hello"
    assert read_reply(as_object(shape)).text == "hello"
    assert not has_calls(read_reply(shape))


def test_a_plain_string_is_its_own_text() -> None:
    assert read_reply("hello") == ModelReply(parts=(TextContent("hello"),), stop="end")


def test_objects_and_dicts_may_be_mixed() -> None:
    assert read_reply(Obj(choices=[{"message": Obj(content=[HELLO])}])).text == "hello"


def test_a_message_of_this_library_is_a_reply() -> None:
    message = Message("assistant", [ThinkingContent("hmm"), TextContent("hello")])
    reply = read_reply(message)
    assert (reply.text, reply.parts, reply.stop) == ("hello", message.parts, "end")
    called = read_reply(Message("assistant", None, tool_calls=[ToolCall("c1", "look", "{}")]))
    assert (called.tool_calls, called.stop) == ((ToolCall("c1", "look", "{}"),), "tools")


def test_thinking_alone_says_nothing() -> None:
    assert read_reply(THOUGHT).text == ""
    assert read_reply({"content": [THOUGHT]}).text == ""


class Finish(Enum):
    STOP = "STOP"


class Number(IntEnum):
    MAX_TOKENS = 2


@pytest.mark.parametrize(
    ("reply", "stop"),
    [
        ({"choices": [{"finish_reason": "stop", "message": {"content": "x"}}]}, "end"),
        ({"content": [HELLO], "stop_reason": "end_turn"}, "end"),
        ({"candidates": [{"finishReason": "MAX_TOKENS"}]}, "length"),
        ({"candidates": [{"finish_reason": Finish.STOP}]}, "end"),
        ({"candidates": [{"finish_reason": Number.MAX_TOKENS}]}, "length"),
        ({"output": {}, "stopReason": "end_turn"}, "end"),
        ({"message": {"content": "x"}, "done_reason": "length"}, "length"),
        ({"content": "x", "response_metadata": {"finish_reason": "length"}}, "length"),
        ({"output": [], "incomplete_details": {"reason": "max_output_tokens"}}, "length"),
        ({"choices": [{"finish_reason": "stop", "message": {"content": None, "refusal": "no"}}]}, "refused"),
        ({"text": "x", "finish_reason": 7}, "end"),
        ({"text": "x"}, "end"),
        ({"text": "x", "finish_reason": "RECITATION"}, "refused"),
        ({}, None),
    ],
)
def test_the_stop_reason_is_one_word_whoever_says_it(reply: Any, stop: str | None) -> None:
    assert read_reply(reply).stop == stop


@pytest.mark.parametrize(
    "usage",
    [
        {"usage": {"input_tokens": 7, "output_tokens": 0}},
        {"usage": Obj(prompt_tokens=7, completion_tokens=0)},
        {"usageMetadata": {"promptTokenCount": 7, "candidatesTokenCount": 0}},
        {"usage_metadata": Obj(prompt_token_count=7, candidates_token_count=0)},
        {"usage": {"prompt_tokens": None, "input_tokens": 7, "output_tokens": 0}},
    ],
)
def test_usage_is_read_in_every_spelling(usage: Any) -> None:
    usage = read_reply({"text": "x", **usage}).usage
    assert (usage.input_tokens, usage.output_tokens) == (7, 0)


@pytest.mark.parametrize(
    "usage",
    [
        {"usage": {"input_tokens": 9, "cached_tokens": 5, "cache_write_tokens": 3, "reasoning_tokens": 2}},
        {
            "usage": {
                "prompt_tokens": 9,
                "prompt_tokens_details": {"cached_tokens": 5, "cache_write_tokens": 3},
                "completion_tokens_details": Obj(reasoning_tokens=2),
            }
        },
        {
            "usage_metadata": {
                "input_tokens": 9,
                "input_token_details": {"cache_read": 5, "cache_creation": 3},
                "output_token_details": {"reasoning": 2},
            }
        },
    ],
)
def test_cached_written_and_reasoning_tokens_of_foreign_replies_are_read(usage: Any) -> None:
    assert read_reply({"text": "x", **usage}).usage == Usage(
        input_tokens=9, cached_tokens=5, cache_write_tokens=3, reasoning_tokens=2
    )


@pytest.mark.parametrize("odd", [True, -1, 1.5, "7", None, []])
def test_usage_that_is_no_count_is_not_used(odd: Any) -> None:
    usage = read_reply({"text": "x", "usage": {"input_tokens": odd, "output_tokens": odd}}).usage
    assert (usage.input_tokens, usage.output_tokens) == (0, 0)


@pytest.mark.parametrize(
    "reply",
    [
        {"choices": [{"message": {"content": None, "tool_calls": [{"id": "1"}]}}]},
        {"content": [{"type": "tool_use", "name": "f", "input": {}}]},
        {"content": [{"type": "function_call", "name": "f"}]},
        {"candidates": [{"content": {"parts": [{"functionCall": {"name": "f"}}]}}]},
        {"output": [{"type": "function_call", "name": "f"}]},
        {"tool_calls": (1,)},
    ],
)
def test_tool_calls_are_noticed(reply: Any) -> None:
    read = read_reply(reply)
    assert has_calls(read)
    assert read.text == ""
    assert has_calls(read_reply(as_object(reply)))


def test_no_tool_calls_are_none() -> None:
    assert not has_calls(read_reply({"choices": [{"message": {"content": "x", "tool_calls": []}}]}))
    assert not has_calls(read_reply(Obj(content="x", tool_calls=None, function_call=None)))


def test_an_error_in_a_good_response_is_an_error() -> None:
    read = read_reply({"error": {"message": "overloaded"}, "text": "overloaded"})
    assert (read.text, read.stop) == ("", "error")
    assert read_reply({"choices": [{"error": {"code": 502}, "message": {"content": "x"}}]}).stop == "error"
    assert read_reply({"text": "x", "error": None}).text == "x"


class Callable:
    text = "not this"

    def __init__(self) -> None:
        self.text = lambda: "hello"  # type: ignore[assignment]


class CallableText(str):
    __slots__ = ()

    def __call__(self) -> str:
        return "old"


def test_a_method_is_not_text_but_a_string_that_can_be_called_is() -> None:
    assert read_reply(Callable()).text == ""
    read = read_reply(Obj(text=CallableText("hello")))
    assert read.text == "hello"
    assert type(read.text) is str


def test_methods_are_neither_errors_nor_calls() -> None:
    read = read_reply(Obj(text="hello", error=print, function_call=print, content=print))
    assert (read.text, read.stop, read.tool_calls) == ("hello", "end", ())
    assert read_reply(MagicMock(text="hello")) == read_reply("hello")


@pytest.mark.parametrize("thing", [None, 7, b"bytes", object(), [], {}, [HELLO], ValueError("x"), Obj(a=1)])
def test_what_has_no_known_shape_says_nothing(thing: Any) -> None:
    assert read_reply(thing).text == ""


class Raises:
    """Whatever is asked of it fails."""

    def __getattribute__(self, name: str) -> Any:
        raise RuntimeError(name)

    def __bool__(self) -> bool:
        raise RuntimeError


class Shy:
    """Fails for what it does not have."""

    def __getattr__(self, name: str) -> Any:
        raise RuntimeError(name)


class Endless:
    """Has every attribute, and each has every attribute."""

    def __getattr__(self, name: str) -> Any:
        return Endless()


class Liar:
    """Claims to be a string."""

    @property
    def __class__(self) -> Any:
        return str

    @__class__.setter
    def __class__(self, value: Any) -> None: ...


class Word(str):
    """A string of a client's own kind."""


class BadList(list[Any]):
    def __len__(self) -> int:
        raise RuntimeError


FIELDS = [
    *("text", "content", "choices", "message", "candidates", "parts", "type", "usage", "input_tokens"),
    *("finish_reason", "tool_calls", "error", "output", "refusal", "thought", "usageMetadata"),
]
# Made where they are used: pytest and hypothesis look at values too, and these bite.
ODD = (Raises, Shy, Endless, Liar, lambda: BadList([1]), lambda: b"x", lambda: range(10**12), object)
odd: st.SearchStrategy[Any] = st.sampled_from(ODD[1:]).map(lambda make: make())
replies: st.SearchStrategy[Any] = st.recursive(
    json_values | odd,
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(st.sampled_from(FIELDS), inner, max_size=4)
        | st.dictionaries(st.sampled_from(FIELDS), inner, max_size=4).map(lambda found: Obj(**found))
    ),
    max_leaves=12,
)


@many
@given(replies)
@example({"choices": [{"finish_reason": Liar()}]})
@example({"choices": [{"finish_reason": Word("stop")}]})
def test_reading_never_raises_and_always_gives_plain_values(reply: Any) -> None:
    read = read_reply(reply)
    assert type(read.text) is str
    assert read.stop is None or type(read.stop) is str
    for tokens in (read.usage.input_tokens, read.usage.output_tokens):
        assert type(tokens) is int
        assert tokens >= 0
    assert all(type(call) is ToolCall for call in read.tool_calls)
    assert " object at 0x" not in read.text


@pytest.mark.parametrize("which", range(len(ODD)))
def test_odd_objects_do_not_break_it(which: int) -> None:
    assert read_reply(ODD[which]()).text == ""
    assert read_reply(Obj(content=ODD[which](), text="x")).text == "x"
    assert read_reply({"content": [ODD[which]()], "text": "x"}).text == "x"
    assert read_reply({"choices": ODD[which](), "usage": ODD[which](), "text": "x"}).text == "x"


def test_one_field_that_raises_does_not_hide_the_others() -> None:
    class Half:
        content = "hello"

        @property
        def usage(self) -> Any:
            raise ValueError("no usage")

    assert read_reply(Half()).text == "hello"
