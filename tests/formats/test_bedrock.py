"""Bedrock's Converse: valid whatever memory holds, and read back as what was said."""

from __future__ import annotations

import json
import warnings
from collections.abc import Iterator, Mapping
from functools import cache
from typing import Any

import pytest
from formats.asked import requested
from formats.frames import event, frame, header
from formats.golden_conversation import BREAKPOINTS, PNG, RICH, TOOLS, any_history, golden, tool_lists
from formats.rules_anthropic import bedrock_rules
from hypothesis import given
from hypothesis import strategies as st
from strategies import many, some

from autonomy_ctx import ImageContent, Message, TextContent, ThinkingContent, ToolCall
from autonomy_ctx.formats.base import (
    CallStarted,
    Format,
    ModelReply,
    ReaderEvent,
    StreamError,
    TextDelta,
    ThinkingDelta,
    Usage,
    WireRequest,
)
from autonomy_ctx.formats.bedrock import BedrockFormat
from autonomy_ctx.formats.eventstream import EventStreamDecoder
from autonomy_ctx.formats.overflow import Overflow, find_overflow

FORMAT: Format = BedrockFormat()
MODEL = "arn:aws:bedrock:eu-west-1::foundation-model/claude-3:0"


def request(*messages: Message, **options: Any) -> WireRequest:
    made = requested(FORMAT, MODEL, messages, **options)
    bedrock_rules(made.body)
    official(made.body)
    return made


def user(content: Any = "hi") -> Message:
    return Message("user", content)


def assistant(content: Any = None, *calls: ToolCall) -> Message:
    return Message("assistant", content, tool_calls=calls)


@cache
def service() -> Any:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        from botocore.loaders import Loader
        from botocore.model import ServiceModel

        return ServiceModel(Loader().load_service_model("bedrock-runtime", "service-2"))


def official(body: Mapping[str, Any], shape: str = "ConverseRequest") -> None:
    """Hold a body against the vendor's own description of the service."""
    from botocore.validate import ParamValidator

    params = {"modelId": MODEL, **body} if shape == "ConverseRequest" else body
    report = ParamValidator().validate(params, service().shape_for(shape))
    assert not report.has_errors(), report.generate_report()


# -- requests -----------------------------------------------------------------------------------------


def test_a_rich_conversation_is_sent_as_the_golden_file_says() -> None:
    made = request(*RICH, tools=TOOLS, breakpoints=BREAKPOINTS, max_tokens=500, stream=True)
    shown = {"path": made.path, "body": made.body, "repairs": list(made.repairs)}
    assert shown == golden("bedrock", shown)


@given(any_history, tool_lists, st.lists(st.integers(-2, 20), max_size=7))
@many
def test_any_history_is_valid(
    history: list[Message], tools: list[dict[str, Any]], breakpoints: list[int]
) -> None:
    made = request(*history, tools=tools, breakpoints=breakpoints)
    assert request(*history, tools=tools, breakpoints=breakpoints) == made


def test_the_model_is_quoted_in_the_path() -> None:
    quoted = "arn%3Aaws%3Abedrock%3Aeu-west-1%3A%3Afoundation-model%2Fclaude-3%3A0"
    assert request(user()).path == f"/model/{quoted}/converse"
    assert request(user(), stream=True).path == f"/model/{quoted}/converse-stream"


def test_an_image_given_as_a_url_becomes_a_note_and_bytes_travel_as_base64() -> None:
    made = request(user([ImageContent("https://x.test/cat.png"), ImageContent(PNG)]))
    note, image = made.body["messages"][0]["content"]
    assert "https://x.test/cat.png" in note["text"]
    assert image == {"image": {"format": "png", "source": {"bytes": "iVBORw0KGgo="}}}
    assert any("URL" in repair for repair in made.repairs)
    assert not any("x.test" in repair for repair in made.repairs)


def test_a_failed_call_has_the_status_error_and_an_empty_result_says_so() -> None:
    calls = [ToolCall("a", "look"), ToolCall("b", "look")]
    results = [Message("tool", "", tool_call_id="a", is_error=True), Message("tool", " ", tool_call_id="b")]
    failed, empty = request(user(), assistant(None, *calls), *results).body["messages"][2]["content"]
    assert failed["toolResult"]["status"] == "error"
    assert "status" not in empty["toolResult"]
    assert empty["toolResult"]["content"] == [{"text": "(no output)"}]


def test_tools_of_the_history_are_described_when_none_are_given() -> None:
    made = request(user(), assistant(None, ToolCall("a", "look")))
    assert [tool["toolSpec"]["name"] for tool in made.body["toolConfig"]["tools"]] == ["look"]
    assert "toolConfig" not in request(user()).body


def test_given_configurations_are_added_to() -> None:
    body = request(
        user(),
        tools=[{"name": "look"}],
        max_tokens=9,
        inferenceConfig={"temperature": 0.5},
        toolConfig={"toolChoice": {"any": {}}},
        requestMetadata={"a": "b"},
    ).body
    assert body["inferenceConfig"] == {"temperature": 0.5, "maxTokens": 9}
    assert body["toolConfig"]["toolChoice"] == {"any": {}}
    assert len(body["toolConfig"]["tools"]) == 1
    assert body["requestMetadata"] == {"a": "b"}
    assert request(user(), inferenceConfig={"topP": 0.5}).body["inferenceConfig"] == {"topP": 0.5}
    assert "inferenceConfig" not in request(user()).body


def test_signed_thinking_travels_and_what_is_hidden_only_as_bytes() -> None:
    thoughts = [
        ThinkingContent("mine", signature="s"),
        ThinkingContent("", redacted="c2VjcmV0"),
        ThinkingContent("", redacted="not base64!"),
    ]
    content = request(user(), assistant([*thoughts, "said"]), user()).body["messages"][1]["content"]
    assert content == [
        {"reasoningContent": {"reasoningText": {"text": "mine", "signature": "s"}}},
        {"reasoningContent": {"redactedContent": "c2VjcmV0"}},
        {"text": "said"},
    ]


def test_cache_points_follow_the_last_block_of_their_message() -> None:
    history = [Message("system", "one"), user(["two", "three"]), assistant("four"), user("five")]
    point = {"cachePoint": {"type": "default"}}
    body = request(*history, breakpoints=[0, 1]).body
    assert body["system"] == [{"text": "one"}, point]
    assert body["messages"][0]["content"] == [{"text": "two"}, {"text": "three"}, point]


# -- replies ------------------------------------------------------------------------------------------

BODY: dict[str, Any] = {
    "output": {
        "message": {
            "role": "assistant",
            "content": [
                {"reasoningContent": {"reasoningText": {"text": "Which city?", "signature": "sig=="}}},
                {"reasoningContent": {"redactedContent": "c2VjcmV0"}},
                {"text": "Look"},
                {"text": "ing."},
                {"toolUse": {"toolUseId": "t1", "name": "weather", "input": {"city": "Zürich"}}},
                {"toolUse": {"toolUseId": "t2", "name": "look", "input": {}}},
            ],
        }
    },
    "stopReason": "tool_use",
    "usage": {
        "inputTokens": 10,
        "outputTokens": 44,
        "totalTokens": 3254,
        "cacheReadInputTokens": 3000,
        "cacheWriteInputTokens": 200,
        "cacheDetails": [{"ttl": "1h", "inputTokens": 150}, {"ttl": "5m", "inputTokens": 50}],
    },
    "metrics": {"latencyMs": 5},
}
REPLY = ModelReply(
    parts=(
        ThinkingContent("Which city?", signature="bedrock:sig=="),
        ThinkingContent("", redacted="bedrock:c2VjcmV0"),
        TextContent("Looking."),
    ),
    tool_calls=(ToolCall("t1", "weather", '{"city": "Zürich"}'), ToolCall("t2", "look", "{}")),
    stop="tools",
    usage=Usage(
        input_tokens=3210,
        cached_tokens=3000,
        cache_write_tokens=200,
        output_tokens=44,
        long_cache_write_tokens=150,
    ),
)


def stream_of(body: Mapping[str, Any], size: int = 3) -> Iterator[tuple[str, dict[str, Any]]]:
    """The events in which a response would have come."""

    def pieces(text: str) -> list[str]:
        return [text[at : at + size] for at in range(0, len(text), size)]

    yield "messageStart", {"role": "assistant"}
    for index, block in enumerate(body["output"]["message"]["content"]):
        at = {"contentBlockIndex": index}
        deltas: list[dict[str, Any]] = []
        match block:
            case {"text": text}:
                deltas = [{"text": piece} for piece in pieces(text)]
            case {"toolUse": use}:
                yield "contentBlockStart", {**at, "start": {"toolUse": {**use, "input": None}}}
                written = json.dumps(use["input"]) if use["input"] else ""
                deltas = [{"toolUse": {"input": piece}} for piece in ["", *pieces(written)]]
            case {"reasoningContent": {"reasoningText": thought}}:
                thoughts = pieces(thought["text"])
                deltas = [{"reasoningContent": {"text": piece}} for piece in thoughts]
                deltas.append({"reasoningContent": {"signature": thought["signature"]}})
            case {"reasoningContent": hidden}:
                deltas = [{"reasoningContent": hidden}]
        for delta in deltas:
            yield "contentBlockDelta", {**at, "delta": delta}
        yield "contentBlockStop", at
    yield "messageStop", {"stopReason": body["stopReason"]}
    yield "metadata", {"usage": body["usage"], "metrics": {"latencyMs": 5}}


def test_a_whole_reply_is_read() -> None:
    official(BODY, "ConverseResponse")
    assert FORMAT.reply(BODY) == REPLY


def test_text_with_citations_is_text() -> None:
    cited = {"citationsContent": {"content": [{"text": "so "}, {"text": "they say"}], "citations": []}}
    official(cited, "ContentBlock")
    assert FORMAT.reply({"output": {"message": {"content": [cited]}}}).text == "so they say"


def test_a_streamed_reply_is_the_same_as_a_whole_one_through_frames() -> None:
    reader, decoder = FORMAT.reader(), EventStreamDecoder()
    wire = b"".join(event(*pair) for pair in stream_of(BODY)) + event("tomorrow", {"contentBlockIndex": 0})
    events: list[ReaderEvent] = []
    for at in range(0, len(wire), 7):
        for found in decoder.feed(wire[at : at + 7]):
            events += reader.feed(found.data, found.event)
    assert reader.finish() == REPLY
    assert "".join(event.text for event in events if isinstance(event, TextDelta)) == "Looking."
    assert "".join(event.text for event in events if isinstance(event, ThinkingDelta)) == "Which city?"
    calls = [event for event in events if isinstance(event, CallStarted)]
    assert calls == [CallStarted("t1", "weather"), CallStarted("t2", "look")]


def test_thinking_whose_text_is_not_shown_is_kept_with_its_signature() -> None:
    reader = FORMAT.reader()
    reader.feed(
        {"contentBlockIndex": 0, "delta": {"reasoningContent": {"signature": "s"}}}, "contentBlockDelta"
    )
    reader.feed({"contentBlockIndex": 1, "delta": {"text": "Hi"}}, "contentBlockDelta")
    reply = reader.finish()
    assert reply.parts == (ThinkingContent("", signature="bedrock:s"), TextContent("Hi"))
    thought = {"reasoningContent": {"reasoningText": {"text": "", "signature": "s"}}}
    assert request(user(), reply.message, user()).body["messages"][1]["content"][0] == thought


def test_events_may_also_come_under_their_name() -> None:
    reader = FORMAT.reader()
    for name, data in stream_of(BODY):
        assert reader.feed({}) == ()
        reader.feed({name: data})
    assert reader.finish() == REPLY


def test_a_stream_that_ends_early_gives_what_came_and_no_half_call() -> None:
    events = list(stream_of(BODY))
    ended = next(at for at, (name, _) in enumerate(events) if name == "messageStop")
    for end in range(ended):
        reader = FORMAT.reader()
        for name, data in events[:end]:
            reader.feed(data, name)
        reply = reader.finish()
        assert reply.stop is None
        assert "Looking.".startswith(reply.text)
        assert reply.tool_calls == REPLY.tool_calls[: len(reply.tool_calls)]
        request(user(), reply.message, user())


@given(st.lists(st.sampled_from(list(stream_of(BODY))), max_size=12), st.data())
@some
def test_no_order_of_events_breaks_the_reader(
    events: list[tuple[str, dict[str, Any]]], data: st.DataObject
) -> None:
    reader = FORMAT.reader()
    for name, said in events:
        gone = data.draw(st.sampled_from([*said, ""]))
        reader.feed({field: value for field, value in said.items() if field != gone}, name)
    reply = reader.finish()
    # Whatever came can be sent back.
    request(user(), reply.message, user())
    assert all(call.id and call.name for call in reply.tool_calls)


def test_an_exception_in_the_stream_is_raised_and_may_be_an_overflow() -> None:
    headers = header(":message-type", "exception") + header(":exception-type", "validationException")
    message = "Input is too long for requested model."
    wire = frame(headers, json.dumps({"message": message}).encode())
    (found,) = EventStreamDecoder().feed(wire)
    with pytest.raises(StreamError) as caught:
        FORMAT.reader().feed(found.data, found.event)
    assert (caught.value.type, caught.value.message) == ("validationException", message)
    assert find_overflow(400, caught.value.message) == Overflow(None)
    with pytest.raises(StreamError, match="throttlingException: slow"):
        FORMAT.reader().feed({"message": "slow"}, "throttlingException")


def test_every_official_stop_reason_has_a_word() -> None:
    words = {stop: FORMAT.reply({"stopReason": stop}).stop for stop in service().shape_for("StopReason").enum}
    assert words == {
        "end_turn": "end",
        "stop_sequence": "end",
        "tool_use": "tools",
        "max_tokens": "length",
        "guardrail_intervened": "refused",
        "content_filtered": "refused",
        "model_context_window_exceeded": "overflow",
        "malformed_model_output": "malformed_model_output",
        "malformed_tool_use": "malformed_tool_use",
    }


@given(
    st.text(st.characters(codec="utf-8"), min_size=1).filter(str.strip),
    st.lists(st.sampled_from(["t_a", "t_b"]), unique=True),
    st.booleans(),
    st.integers(1, 5),
)
@some
def test_format_then_parse_gives_the_same_items(text: str, ids: list[str], thinks: bool, size: int) -> None:
    thoughts = (
        [ThinkingContent(text, signature="bedrock:s"), ThinkingContent("", redacted="bedrock:AAEC")]
        if thinks
        else []
    )
    calls = [ToolCall(call_id, "look", json.dumps({"q": text}, ensure_ascii=False)) for call_id in ids]
    message = assistant([*thoughts, TextContent(text)] if thinks else text, *calls)
    content = request(user(), message, user()).body["messages"][1]["content"]
    body = {**BODY, "output": {"message": {"role": "assistant", "content": content}}}
    reader = FORMAT.reader()
    for name, data in stream_of(body, size):
        reader.feed(data, name)
    for reply in (FORMAT.reply(body), reader.finish()):
        assert (reply.message.content, reply.message.tool_calls) == (message.content, message.tool_calls)


# -- overflow -----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("message", "window"),
    [
        ("Input is too long for requested model.", None),
        (
            "The model returned the following errors: prompt is too long: 903884 tokens > 200000 maximum",
            200_000,
        ),
        ("input length and `max_tokens` exceed context limit: 1 + 2 > 3, decrease input", 3),
        ("Too many input tokens. Max input tokens: 8192, request input token count: 9000", 8192),
        ("Input Tokens Exceeded: Number of input tokens exceeds maximum length.", None),
        ("Malformed input request: expected maxLength: 400000, actual: 512345, please reformat", None),
        ("This model's maximum context length is 202752 tokens. However, you requested 65536", 202_752),
    ],
)
def test_an_overflow_is_recognised(message: str, window: int | None) -> None:
    assert find_overflow(400, {"message": message}) == Overflow(window)
    assert find_overflow(400, {"__type": "ValidationException", "Message": message}) is not None


@pytest.mark.parametrize(
    ("status", "message"),
    [
        (429, "Too many tokens, please wait before trying again."),
        (400, "expected maxLength: 64, actual: 70"),
        (400, "The maximum tokens you requested exceeds the model limit of 4096."),
        (403, "Input is too long"),
    ],
)
def test_other_refusals_are_no_overflow(status: int, message: str) -> None:
    assert find_overflow(status, {"message": message}) is None
