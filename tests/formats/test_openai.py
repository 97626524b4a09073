"""Chat completions: requests that every server of these words takes, and replies read back."""

from __future__ import annotations

import json
from typing import Any

import pytest
from formats.asked import requested
from formats.conversations import (
    PIXEL,
    TOOLS,
    any_history,
    carried_calls,
    cuts,
    golden,
    ids,
    pieces,
    rich,
    said,
    tool_lists,
    whole_texts,
)
from formats.rules import openai_rules
from formats.sdk import openai_takes, really
from hypothesis import given
from strategies import few, some

from autonomy_ctx import Message, TextContent, ThinkingContent, ToolCall
from autonomy_ctx.formats.base import (
    CallDelta,
    CallStarted,
    Format,
    StreamError,
    TextDelta,
    ThinkingDelta,
    Usage,
)
from autonomy_ctx.formats.openai import OpenAIFormat
from autonomy_ctx.formats.outgoing import INTERRUPTED_RESULT, encode_request
from autonomy_ctx.formats.overflow import Overflow, find_overflow

FORMAT: Format = OpenAIFormat(new_id=ids())
CHUNK = "openai.types.chat.ChatCompletionChunk"


def messages_of(*history: Message, **options: Any) -> list[dict[str, Any]]:
    made: list[dict[str, Any]] = requested(FORMAT, "gpt-4o", history, **options).body["messages"]
    return made


def chunk(delta: dict[str, Any], finish: str | None = None) -> dict[str, Any]:
    choice = {"index": 0, "delta": delta, "finish_reason": finish}
    return {
        "id": "chatcmpl-1",
        "object": "chat.completion.chunk",
        "created": 1,
        "model": "gpt-4o",
        "choices": [choice],
    }


USAGE = {
    "prompt_tokens": 1200,
    "completion_tokens": 30,
    "total_tokens": 1230,
    "prompt_tokens_details": {
        "cached_tokens": 1024,
        "cache_write_tokens": 7,
        "cache_write_tokens_details": {"ttl_30m_tokens": 3, "ttl_12h_tokens": 4},
    },
    "completion_tokens_details": {"reasoning_tokens": 12},
}
STREAM: list[dict[str, Any]] = [
    chunk({"role": "assistant", "content": ""}),
    chunk({"content": "I will "}),
    chunk({"content": "look."}),
    chunk(
        {
            "tool_calls": [
                {"index": 0, "id": "c1", "type": "function", "function": {"name": "find", "arguments": ""}}
            ]
        }
    ),
    chunk({"tool_calls": [{"index": 0, "function": {"arguments": '{"to":'}}]}),
    chunk(
        {
            "tool_calls": [
                {"index": 1, "id": "c2", "type": "function", "function": {"name": "map", "arguments": "{}"}}
            ]
        }
    ),
    chunk({"tool_calls": [{"index": 0, "function": {"arguments": ' "Lisbon"}'}}]}),
    chunk({}, "tool_calls"),
    {**chunk({}), "choices": [], "usage": USAGE},
]


@some
@given(any_history, tool_lists)
def test_any_history_is_a_valid_request(history: list[Message], tools: list[dict[str, Any]]) -> None:
    for model in ("gpt-4o", "gpt-5.6"):
        openai_rules(requested(FORMAT, model, history, tools=tools, max_tokens=5, stream=True).body)


@few
@given(any_history, tool_lists)
def test_any_history_is_of_the_packages_types(history: list[Message], tools: list[dict[str, Any]]) -> None:
    openai_takes(requested(FORMAT, "gpt-4o", history, tools=tools, max_tokens=5, stream=True).body)


@some
@given(whole_texts, carried_calls)
def test_an_answer_that_was_sent_reads_back_as_it_was(text: str, calls: list[ToolCall]) -> None:
    [wire, *_] = messages_of(said("assistant", text, tool_calls=calls))
    reply = FORMAT.reply({"choices": [{"message": wire, "finish_reason": "stop"}]})
    assert reply.message.content == text
    assert reply.tool_calls == tuple(calls)
    assert reply.stop == ("tools" if calls else "end")


@some
@given(whole_texts, carried_calls, cuts)
def test_however_a_stream_is_cut_it_says_the_same(text: str, calls: list[ToolCall], cuts: list[int]) -> None:
    reader = FORMAT.reader()
    for piece in pieces(text, cuts):
        reader.feed(chunk({"content": piece}))
    for index, call in enumerate(calls):
        begun = {"index": index, "id": call.id, "function": {"name": call.name, "arguments": ""}}
        reader.feed(chunk({"tool_calls": [begun]}))
    for index, call in reversed(list(enumerate(calls))):
        for piece in pieces(call.arguments, cuts):
            reader.feed(chunk({"tool_calls": [{"index": index, "function": {"arguments": piece}}]}))
    reply = reader.finish()
    assert (reply.text, reply.tool_calls, reply.stop) == (text, tuple(calls), None)


def test_a_rich_conversation_is_written_as_agreed() -> None:
    made = requested(
        FORMAT,
        "gpt-5.6",
        rich(ThinkingContent("hm", signature="sig")),
        tools=TOOLS,
        max_tokens=500,
        stream=True,
    )
    openai_rules(made.body)
    openai_takes(made.body)
    assert made.path == "/chat/completions"
    golden("openai", {"body": made.body, "repairs": list(made.repairs)})


def test_a_system_message_stays_where_it_was() -> None:
    roles = [one["role"] for one in messages_of(said("user", "a"), said("system", "b"), said("user", "c"))]
    assert roles == ["user", "system", "user"]


@pytest.mark.parametrize(
    ("model", "limit", "role"),
    [
        ("gpt-4o", "max_tokens", "system"),
        ("llama3", "max_tokens", "system"),
        ("openai/gpt-oss-20b", "max_tokens", "system"),
        ("o3-mini", "max_completion_tokens", "developer"),
        ("openai/gpt-5.6", "max_completion_tokens", "developer"),
    ],
)
def test_the_models_name_tells_whether_it_reasons(model: str, limit: str, role: str) -> None:
    body = requested(FORMAT, model, [said("developer", "be kind")], max_tokens=9).body
    assert body[limit] == 9
    assert body["messages"][0]["role"] == role


def test_what_is_asked_for_is_stronger_than_the_name() -> None:
    asked = requested(OpenAIFormat(reasoning_model=True), "own", [said("system", "a")], max_tokens=9).body
    assert asked["max_completion_tokens"] == 9
    assert asked["messages"] == [{"role": "developer", "content": "a"}]
    other = requested(FORMAT, "o3", [said("system", "a")], reasoning_model=False).body
    assert other["messages"] == [{"role": "system", "content": "a"}]


def test_empty_arguments_are_an_empty_object_and_broken_ones_are_wrapped() -> None:
    calls = [ToolCall("a", "x", " "), ToolCall("b", "x", "{no"), ToolCall("c", "x", '{"n": NaN}')]
    made = requested(FORMAT, "gpt-4o", [said("assistant", None, tool_calls=calls)])
    written = [call["function"]["arguments"] for call in made.body["messages"][0]["tool_calls"]]
    assert written[0] == "{}"
    assert [json.loads(text) for text in written[1:]] == [{"_raw": "{no"}, {"_raw": '{"n": NaN}'}]
    assert sum("no JSON object" in repair for repair in made.repairs) == 2


def test_a_user_who_speaks_between_call_and_result_is_heard_after_it() -> None:
    call = said("assistant", None, tool_calls=[ToolCall("a", "x", "{}")])
    made = messages_of(call, said("user", "quick"), said("tool", "done", tool_call_id="a"))
    assert [one["role"] for one in made] == ["assistant", "tool", "user"]
    assert made[0]["content"] is None


def test_a_call_without_a_result_says_so() -> None:
    made = requested(FORMAT, "gpt-4o", [said("assistant", None, tool_calls=[ToolCall("a", "x", "{}")])])
    assert made.body["messages"][1]["content"] == f"Error: {INTERRUPTED_RESULT}"
    assert any("interrupted" in repair for repair in made.repairs)


def test_an_id_that_is_too_long_or_used_again_is_replaced_in_call_and_result() -> None:
    history = []
    for _ in range(2):
        history += [
            said("assistant", None, tool_calls=[ToolCall("x" * 60, "x", "{}")]),
            said("tool", "done", tool_call_id="x" * 60),
        ]
    made = messages_of(*history)
    openai_rules({"messages": made})
    assert made[0]["tool_calls"][0]["id"] == made[1]["tool_call_id"]
    assert made[1]["tool_call_id"] != made[3]["tool_call_id"]


def test_tools_whose_names_look_alike_stay_apart() -> None:
    tools = [{"name": "a.b"}, {"name": "a_b"}, {"name": "a_b"}]
    calls = [ToolCall("1", "a_b", "{}"), ToolCall("2", "a.b", "{}")]
    body = requested(FORMAT, "gpt-4o", [said("assistant", None, tool_calls=calls)], tools=tools).body
    offered = [tool["function"]["name"] for tool in body["tools"]]
    called = [call["function"]["name"] for call in body["messages"][0]["tool_calls"]]
    assert len(offered) == 2
    assert offered[1] == "a_b"
    assert called == [offered[1], offered[0]]


def test_an_image_in_a_result_is_shown_by_the_user_after_all_results() -> None:
    calls = [ToolCall("a", "x", "{}"), ToolCall("b", "x", "{}")]
    made = messages_of(
        said("assistant", None, tool_calls=calls),
        said("tool", [PIXEL], tool_call_id="a"),
        said("tool", "b", tool_call_id="b"),
    )
    assert [one["role"] for one in made] == ["assistant", "tool", "tool", "user"]
    assert made[3]["content"][1]["image_url"]["url"] == PIXEL.image


def test_halves_of_characters_are_replaced_wherever_they_are() -> None:
    call = ToolCall("a", "x", '{"q": "\\ud800"}')
    made = requested(
        FORMAT, "gpt-4o", [said("user", "\udc00 hi"), said("assistant", None, tool_calls=[call])]
    )
    openai_rules(made.body)
    assert json.loads(encode_request(made.body))["messages"][0]["content"] == "\ufffd hi"


def test_no_messages_and_empty_messages_are_mended_and_said_so() -> None:
    assert messages_of()[0]["role"] == "user"
    made = requested(FORMAT, "gpt-4o", [said("user", "", 1), said("assistant", "", 2), said("system", "", 3)])
    openai_rules(made.body)
    assert len(made.body["messages"]) == 1
    assert len(made.repairs) == 3


def test_options_go_into_the_body_as_they_are() -> None:
    assert requested(FORMAT, "gpt-4o", [said("user", "a")], temperature=0.1).body["temperature"] == 0.1


def test_a_whole_reply_is_read() -> None:
    message = {
        "role": "assistant",
        "content": "Hi",
        "refusal": None,
        "reasoning_content": "hm",
        "tool_calls": [
            {"id": "c1", "type": "function", "function": {"name": "find", "arguments": '{"to": "Lisbon"}'}}
        ],
    }
    body = {
        "id": "chatcmpl-1",
        "object": "chat.completion",
        "created": 1,
        "model": "gpt-4o",
        "choices": [{"index": 0, "message": message, "finish_reason": "tool_calls", "logprobs": None}],
        "usage": USAGE,
    }
    really("openai.types.chat.ChatCompletion", body)
    reply = FORMAT.reply(body)
    assert str(reply) == "Hi"
    assert reply.parts == (ThinkingContent("hm"), TextContent("Hi"))
    assert reply.tool_calls == (ToolCall("c1", "find", '{"to": "Lisbon"}'),)
    assert (reply.stop, reply.model, reply.id) == ("tools", "gpt-4o", "chatcmpl-1")
    assert reply.usage == Usage(
        input_tokens=1200,
        cached_tokens=1024,
        cache_write_tokens=7,
        output_tokens=30,
        long_cache_write_tokens=4,
        reasoning_tokens=12,
    )


@pytest.mark.parametrize(
    ("finish", "stop"),
    [("stop", "end"), ("length", "length"), ("content_filter", "refused"), ("odd", "odd"), (None, None)],
)
def test_stop_reasons_are_the_same_for_all_providers(finish: str | None, stop: str | None) -> None:
    reply = FORMAT.reply({"choices": [{"message": {"content": "x"}, "finish_reason": finish}]})
    assert reply.stop == stop


def test_a_refusal_is_text_and_a_stop_reason() -> None:
    said_no = {"content": None, "refusal": "I cannot help with that."}
    reply = FORMAT.reply({"choices": [{"message": said_no, "finish_reason": "stop"}]})
    assert (reply.text, reply.stop) == ("I cannot help with that.", "refused")


@pytest.mark.parametrize("body", [{}, {"choices": None}, {"choices": [None]}, {"choices": [{"message": 3}]}])
def test_a_malformed_reply_is_an_empty_one(body: dict[str, Any]) -> None:
    assert FORMAT.reply(body).parts == ()


def test_a_stream_gives_events_and_then_the_whole_reply() -> None:
    for event in STREAM:
        really(CHUNK, event)
    reader = FORMAT.reader()
    events = [event for data in STREAM for event in reader.feed(data)]
    assert events == [
        TextDelta("I will "),
        TextDelta("look."),
        CallStarted("c1", "find"),
        CallDelta("c1", '{"to":'),
        CallStarted("c2", "map"),
        CallDelta("c2", "{}"),
        CallDelta("c1", ' "Lisbon"}'),
    ]
    reply = reader.finish()
    assert reply.tool_calls == (ToolCall("c1", "find", '{"to": "Lisbon"}'), ToolCall("c2", "map", "{}"))
    assert (reply.text, reply.stop) == ("I will look.", "tools")
    assert reply.usage.cached_tokens == 1024


@pytest.mark.parametrize("cut", range(8))
def test_a_stream_that_ends_early_gives_what_came(cut: int) -> None:
    reader = FORMAT.reader()
    texts = [e.text for data in STREAM[:cut] for e in reader.feed(data) if isinstance(e, TextDelta)]
    reply = reader.finish()
    assert reply.stop is None
    assert reply.text == "".join(texts)


def test_thinking_streams_apart_from_text() -> None:
    reader = FORMAT.reader()
    assert reader.feed(chunk({"reasoning_content": "hm"})) == [ThinkingDelta("hm")]
    assert reader.feed(chunk({"content": "yes"})) == [TextDelta("yes")]
    assert reader.finish().parts == (ThinkingContent("hm"), TextContent("yes"))


def test_servers_that_number_calls_badly_are_understood() -> None:
    def call(name: str, **fields: Any) -> dict[str, Any]:
        return chunk({"tool_calls": [{"function": {"name": name, "arguments": "{}"}, **fields}]})

    reader = FORMAT.reader()
    for data in (call("a", index=0, id="1"), call("b", index=0, id="2"), call("c"), call("d")):
        reader.feed(data)
    calls = reader.finish().tool_calls
    assert [made.name for made in calls] == ["a", "b", "c", "d"]
    assert len({made.id for made in calls}) == 4


def test_an_error_in_a_stream_is_raised_and_an_overflow_can_be_told() -> None:
    error = {"message": "too long", "code": "context_length_exceeded", "type": "invalid_request_error"}
    with pytest.raises(StreamError) as raised:
        FORMAT.reader().feed({"error": error})
    assert raised.value.type == "context_length_exceeded"
    assert find_overflow(400, raised.value.message) == Overflow(None)


def test_what_gemini_attaches_to_a_call_goes_back_to_gemini_only() -> None:
    attached = {"google": {"thought_signature": "c2ln"}}
    wire = {"id": "a", "function": {"name": "x", "arguments": "{}"}, "extra_content": attached}
    reply = FORMAT.reply({"choices": [{"message": {"tool_calls": [wire]}}]})
    sent = requested(FORMAT, "gemini-3-pro", [reply.message]).body["messages"][0]["tool_calls"][0]
    assert sent["extra_content"] == attached
    assert "extra_content" not in messages_of(reply.message)[0]["tool_calls"][0]


OVERFLOWS: list[tuple[Any, int | None]] = [
    (
        {
            "error": {
                "message": "This model's maximum context length is 128000 tokens. However, your messages "
                "resulted in 130000 tokens.",
                "type": "invalid_request_error",
                "code": "context_length_exceeded",
            }
        },
        128000,
    ),
    (
        {
            "error": {
                "code": 400,
                "message": "request (9000 tokens) exceeds the available context size (4096 tokens), try "
                "increasing it",
                "type": "exceed_context_size_error",
                "n_prompt_tokens": 9000,
                "n_ctx": 4096,
            }
        },
        4096,
    ),
    (
        {
            "object": "error",
            "message": "This model's maximum context length is 4096 tokens. However, you requested 5000 "
            "tokens (4000 in the messages, 1000 in the completion).",
            "type": "BadRequestError",
            "code": 400,
        },
        4096,
    ),
    (
        {
            "error": {
                "message": "The decoder prompt (length 5000) is longer than the maximum model length of 4096."
            }
        },
        4096,
    ),
    (
        [
            {
                "error": {
                    "code": 400,
                    "message": "The input token count (1200000) exceeds the maximum number of tokens allowed "
                    "(1048576).",
                    "status": "INVALID_ARGUMENT",
                }
            }
        ],
        1048576,
    ),
    ({"error": {"message": "Your input exceeds the context window of this model."}}, None),
    (b'{"error": {"code": "context_length_exceeded"}}', None),
    ("maximum context length is 8,192 tokens", 8192),
]


@pytest.mark.parametrize(("body", "window"), OVERFLOWS)
def test_an_overflow_is_told_from_its_words(body: Any, window: int | None) -> None:
    assert find_overflow(400, body) == Overflow(window)


@pytest.mark.parametrize(
    ("status", "body"),
    [
        (400, {"error": {"message": "Invalid value for `model`", "code": "invalid_value"}}),
        (400, None),
        (400, ""),
        (400, [3]),
        (200, {"error": {"code": "context_length_exceeded"}}),
        (429, {"error": {"message": "Request too large: maximum context length is 9 tokens"}}),
    ],
)
def test_other_errors_are_no_overflow(status: int, body: Any) -> None:
    assert find_overflow(status, body) is None
