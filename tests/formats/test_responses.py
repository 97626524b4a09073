"""Responses: items out and back, with reasoning that only its owner can read."""

from __future__ import annotations

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
from formats.rules import responses_rules
from formats.sdk import really, responses_takes
from hypothesis import given
from strategies import few, some

from autonomy_ctx import Message, TextContent, ThinkingContent, ToolCall
from autonomy_ctx.formats.base import (
    GOOGLE,
    RESPONSES,
    CallDelta,
    CallStarted,
    Format,
    StreamError,
    TextDelta,
    ThinkingDelta,
    Usage,
    signature_of,
)
from autonomy_ctx.formats.openai_responses import ResponsesFormat
from autonomy_ctx.formats.overflow import Overflow, find_overflow

FORMAT: Format = ResponsesFormat(new_id=ids())
EVENT = "openai.types.responses.ResponseStreamEvent"
SIGNED = 'responses:{"id": "rs_1", "encrypted_content": "gAAA"}'
REASONING = {
    "type": "reasoning",
    "id": "rs_1",
    "encrypted_content": "gAAA",
    "summary": [{"type": "summary_text", "text": "hm"}],
}


def input_of(*history: Message) -> list[dict[str, Any]]:
    made: list[dict[str, Any]] = requested(FORMAT, "gpt-5.6", history).body["input"]
    return made


def message_item(text: str, **fields: Any) -> dict[str, Any]:
    part = {"type": "output_text", "text": text, "annotations": []}
    return {
        "type": "message",
        "id": "msg_1",
        "role": "assistant",
        "status": "completed",
        "content": [part],
        **fields,
    }


def call_item(call_id: str, name: str, arguments: str) -> dict[str, Any]:
    return {
        "type": "function_call",
        "id": f"fc_{call_id}",
        "call_id": call_id,
        "name": name,
        "arguments": arguments,
        "status": "completed",
    }


def response(output: list[dict[str, Any]], status: str = "completed", **fields: Any) -> dict[str, Any]:
    return {
        "id": "resp_1",
        "object": "response",
        "created_at": 1,
        "model": "gpt-5.6",
        "status": status,
        "output": output,
        "error": None,
        "incomplete_details": None,
        "instructions": None,
        "metadata": {},
        "parallel_tool_calls": True,
        "temperature": 1.0,
        "tool_choice": "auto",
        "tools": [],
        "top_p": 1.0,
        "usage": None,
        **fields,
    }


USAGE = {
    "input_tokens": 1200,
    "input_tokens_details": {
        "cached_tokens": 1024,
        "cache_write_tokens": 7,
        "cache_write_tokens_details": {"ttl_30m_tokens": 3, "ttl_12h_tokens": 4},
    },
    "output_tokens": 90,
    "output_tokens_details": {"reasoning_tokens": 64},
    "total_tokens": 1290,
}
OUTPUT: list[dict[str, Any]] = [
    REASONING,
    message_item("I will look."),
    call_item("c1", "find", '{"to": "Lisbon"}'),
]


def event(kind: str, number: int, **fields: Any) -> dict[str, Any]:
    return {"type": f"response.{kind}", "sequence_number": number, **fields}


STREAM: list[dict[str, Any]] = [
    event("created", 0, response=response([], "in_progress")),
    event("output_item.added", 1, output_index=0, item={"type": "reasoning", "id": "rs_1", "summary": []}),
    event("reasoning_summary_text.delta", 2, item_id="rs_1", output_index=0, summary_index=0, delta="hm"),
    event("output_item.done", 3, output_index=0, item=REASONING),
    event(
        "output_item.added",
        4,
        output_index=1,
        item=message_item("", status="in_progress", content=[]),
    ),
    event(
        "output_text.delta", 5, item_id="msg_1", output_index=1, content_index=0, delta="I will ", logprobs=[]
    ),
    event(
        "output_text.delta", 6, item_id="msg_1", output_index=1, content_index=0, delta="look.", logprobs=[]
    ),
    event("output_item.done", 7, output_index=1, item=OUTPUT[1]),
    event("output_item.added", 8, output_index=2, item=call_item("c1", "find", "")),
    event("function_call_arguments.delta", 9, item_id="fc_c1", output_index=2, delta='{"to": '),
    event("function_call_arguments.delta", 10, item_id="fc_c1", output_index=2, delta='"Lisbon"}'),
    event("output_item.done", 11, output_index=2, item=OUTPUT[2]),
    event("completed", 12, response=response(OUTPUT, usage=USAGE)),
]


@some
@given(any_history, tool_lists)
def test_any_history_is_a_valid_request(history: list[Message], tools: list[dict[str, Any]]) -> None:
    for model in ("gpt-4o", "gpt-5.6"):
        responses_rules(requested(FORMAT, model, history, tools=tools, max_tokens=5, stream=True).body)


@few
@given(any_history, tool_lists)
def test_any_history_is_of_the_packages_types(history: list[Message], tools: list[dict[str, Any]]) -> None:
    responses_takes(requested(FORMAT, "gpt-5.6", history, tools=tools, max_tokens=5, stream=True).body)


@some
@given(whole_texts, whole_texts, carried_calls)
def test_an_answer_that_was_sent_reads_back_as_it_was(thought: str, text: str, calls: list[ToolCall]) -> None:
    parts = (ThinkingContent(thought, signature=SIGNED), TextContent(text))
    items = input_of(said("assistant", parts, tool_calls=calls))
    items = [message_item(item["content"]) if item.get("role") == "assistant" else item for item in items]
    reply = FORMAT.reply({"status": "completed", "output": items})
    assert reply.message.content == parts
    assert reply.tool_calls == tuple(calls)


@some
@given(whole_texts, carried_calls, cuts)
def test_however_a_stream_is_cut_it_says_the_same(text: str, calls: list[ToolCall], cuts: list[int]) -> None:
    reader = FORMAT.reader()
    reader.feed(event("output_item.added", 0, output_index=0, item=message_item("", content=[])))
    for piece in pieces(text, cuts):
        reader.feed(event("output_text.delta", 0, output_index=0, content_index=0, delta=piece))
    for at, call in enumerate(calls, start=1):
        item = call_item(str(call.id), call.name, "")
        reader.feed(event("output_item.added", 0, output_index=at, item=item))
        for piece in pieces(call.arguments, cuts):
            reader.feed(event("function_call_arguments.delta", 0, output_index=at, delta=piece))
    reply = reader.finish()
    assert (reply.text, reply.tool_calls, reply.stop) == (text, tuple(calls), None)


def test_a_rich_conversation_is_written_as_agreed() -> None:
    made = requested(
        FORMAT,
        "gpt-5.6",
        rich(ThinkingContent("hm", signature=SIGNED)),
        tools=TOOLS,
        max_tokens=500,
        stream=True,
    )
    responses_rules(made.body)
    responses_takes(made.body)
    assert made.path == "/responses"
    golden("responses", {"body": made.body, "repairs": list(made.repairs)})


def test_nothing_is_stored_and_encrypted_reasoning_is_asked_for_where_there_is_some() -> None:
    asked = requested(FORMAT, "gpt-5.6", [said("user", "a")]).body
    assert (asked["store"], asked["include"]) == (False, ["reasoning.encrypted_content"])
    assert "include" not in requested(FORMAT, "gpt-4o", [said("user", "a")]).body


def test_what_is_asked_for_is_stronger_than_the_name() -> None:
    rule = said("system", "Be brief.")
    for asked, role in ((True, "developer"), (False, "system")):
        body = requested(FORMAT, "own-name", [rule], reasoning_model=asked).body
        assert body["input"][0]["role"] == role
        assert ("include" in body) == asked
        assert "reasoning_model" not in body


def test_reasoning_goes_back_before_what_it_led_to() -> None:
    reply = FORMAT.reply(response(OUTPUT, usage=USAGE))
    assert reply.parts == (ThinkingContent("hm", signature=SIGNED), TextContent("I will look."))
    items = input_of(reply.message, said("tool", "08:15", tool_call_id="c1"))
    assert items[0] == REASONING
    assert [item["type"] for item in items] == [
        "reasoning",
        "message",
        "function_call",
        "function_call_output",
    ]


def test_reasoning_between_two_calls_stays_between_them() -> None:
    between = {**REASONING, "id": "rs_2"}
    output = [REASONING, call_item("a", "x", "{}"), between, call_item("b", "y", "{}")]
    items = input_of(FORMAT.reply(response(output)).message)
    assert [item.get("id", item.get("call_id")) for item in items] == ["rs_1", "a", "rs_2", "b", "a", "b"]
    assert items[2] == between
    responses_rules({"input": items})


def test_the_thinking_of_others_and_thinking_without_an_answer_is_not_sent() -> None:
    other = said("assistant", [ThinkingContent("hm", signature="anthropic's own"), TextContent("yes")])
    assert [item["type"] for item in input_of(other)] == ["message"]
    alone = said("assistant", [ThinkingContent("hm", signature=SIGNED)])
    made = requested(FORMAT, "gpt-5.6", [alone, said("user", "and?")])
    assert [item["type"] for item in made.body["input"]] == ["message"]
    assert "thinking that no answer follows: left out" in made.repairs


def test_a_signature_tells_whose_it_is() -> None:
    assert signature_of(RESPONSES, SIGNED)
    assert signature_of(GOOGLE, "google:c2ln") == "c2ln"
    assert signature_of(RESPONSES, "google:c2ln") is None
    for signature in ("ErUBCkYIA==", "", None):
        assert signature_of(RESPONSES, signature) is None


def test_reasoning_without_encrypted_content_is_read_but_not_sent_back() -> None:
    plain = {"type": "reasoning", "id": "rs_1", "content": [{"type": "reasoning_text", "text": "hm"}]}
    reply = FORMAT.reply({"output": [plain, message_item("yes")], "status": "completed"})
    assert reply.parts == (ThinkingContent("hm"), TextContent("yes"))
    assert [item["type"] for item in input_of(reply.message)] == ["message"]


def test_an_image_in_a_result_stays_in_it_and_an_error_is_marked() -> None:
    call = said("assistant", None, tool_calls=[ToolCall("a", "x", "{}")])
    items = input_of(call, said("tool", [PIXEL], tool_call_id="a", is_error=True))
    assert [part["type"] for part in items[1]["output"]] == ["input_text", "input_image"]
    items = input_of(call, said("tool", "no", tool_call_id="a", is_error=True))
    assert items[1]["output"] == "Error: no"


def test_a_limit_below_the_least_is_raised_and_said() -> None:
    made = requested(FORMAT, "gpt-4o", [said("user", "a")], max_tokens=1)
    assert made.body["max_output_tokens"] == 16
    assert len(made.repairs) == 1


def test_a_whole_reply_is_read() -> None:
    body = response(OUTPUT, usage=USAGE)
    really("openai.types.responses.Response", body)
    reply = FORMAT.reply(body)
    assert str(reply) == "I will look."
    assert reply.tool_calls == (ToolCall("c1", "find", '{"to": "Lisbon"}'),)
    assert (reply.stop, reply.model, reply.id) == ("tools", "gpt-5.6", "resp_1")
    assert reply.usage == Usage(
        input_tokens=1200,
        cached_tokens=1024,
        cache_write_tokens=7,
        output_tokens=90,
        long_cache_write_tokens=4,
        reasoning_tokens=64,
    )


@pytest.mark.parametrize(
    ("fields", "stop"),
    [
        ({"status": "completed"}, "end"),
        ({"status": "incomplete", "incomplete_details": {"reason": "max_output_tokens"}}, "length"),
        ({"status": "incomplete", "incomplete_details": {"reason": "content_filter"}}, "refused"),
        ({"status": "failed", "error": {"code": "context_length_exceeded"}}, "overflow"),
        ({"status": "failed", "error": {"code": "server_error"}}, "server_error"),
        ({"status": "cancelled"}, "cancelled"),
        ({}, None),
    ],
)
def test_stop_reasons_are_the_same_for_all_providers(fields: dict[str, Any], stop: str | None) -> None:
    assert FORMAT.reply({"output": [message_item("x")], **fields}).stop == stop


def test_a_refusal_is_text_and_a_stop_reason() -> None:
    item = message_item("", content=[{"type": "refusal", "refusal": "No."}])
    reply = FORMAT.reply(response([item]))
    assert (reply.text, reply.stop) == ("No.", "refused")


@pytest.mark.parametrize("body", [{}, {"output": None}, {"output": [3, {}, {"type": "message"}]}])
def test_a_malformed_reply_is_an_empty_one(body: dict[str, Any]) -> None:
    assert FORMAT.reply(body).parts == ()


def test_a_stream_gives_events_and_then_the_whole_reply() -> None:
    for data in STREAM:
        really(EVENT, data)
    reader = FORMAT.reader()
    events = [event for data in STREAM for event in reader.feed(data)]
    assert events == [
        ThinkingDelta("hm"),
        TextDelta("I will "),
        TextDelta("look."),
        CallStarted("c1", "find"),
        CallDelta("c1", '{"to": '),
        CallDelta("c1", '"Lisbon"}'),
    ]
    assert reader.finish() == FORMAT.reply(response(OUTPUT, usage=USAGE))


def test_a_last_event_without_output_loses_nothing() -> None:
    reader = FORMAT.reader()
    for data in [*STREAM[:-1], event("completed", 12, response=response([], usage=USAGE))]:
        reader.feed(data)
    assert reader.finish() == FORMAT.reply(response(OUTPUT, usage=USAGE))


@pytest.mark.parametrize("cut", range(len(STREAM)))
def test_a_stream_that_ends_early_gives_what_came(cut: int) -> None:
    reader = FORMAT.reader()
    texts = [e.text for data in STREAM[:cut] for e in reader.feed(data) if isinstance(e, TextDelta)]
    reply = reader.finish()
    assert reply.stop is None
    assert reply.text == "".join(texts)
    # Only a finished item has the reasoning whole.
    assert cut < 4 or reply.parts[0] == ThinkingContent("hm", signature=SIGNED)


@pytest.mark.parametrize(
    "data",
    [
        {"type": "error", "code": "context_length_exceeded", "message": "", "param": None},
        {"type": "error", "error": {"type": "invalid_request_error", "code": "context_length_exceeded"}},
        event("failed", 1, response=response([], "failed", error={"code": "context_length_exceeded"})),
    ],
)
def test_an_error_in_a_stream_is_raised_and_an_overflow_can_be_told(data: dict[str, Any]) -> None:
    reader = FORMAT.reader()
    reader.feed(STREAM[0])
    with pytest.raises(StreamError) as raised:
        reader.feed(data)
    assert raised.value.type == "context_length_exceeded"
    assert find_overflow(400, raised.value.message) == Overflow(None)


def test_events_nobody_knows_say_nothing() -> None:
    reader = FORMAT.reader()
    assert reader.feed({"type": "response.new_thing.delta", "delta": 3}) == []
    assert reader.feed({}) == []
    assert reader.finish().parts == ()
