"""A model as a user sees it, over each provider's protocol."""

from __future__ import annotations

import inspect
import json
import struct
import subprocess
import sys
import zlib
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import httpx
import pytest
from models.model_server import Answer, as_json, chat, chat_events, claude, claude_events, events, serving

from autonomy_ctx import Memory, Message, SummarizedHistorySection, TextContent, ToolCall
from autonomy_ctx.errors import (
    AuthenticationFailed,
    ContextOverflow,
    InsecureAddress,
    MissingKey,
    ModelUnavailable,
    RateLimited,
)
from autonomy_ctx.formats.any_reply import has_calls, read_reply
from autonomy_ctx.formats.base import CallStarted, ModelReply, ReplyFinished, TextDelta, Usage
from autonomy_ctx.formats.outgoing import HIDDEN_RESULT
from autonomy_ctx.models.model import Model, tool_spec
from autonomy_ctx.models.providers import PROVIDERS

ASKED = [{"role": "system", "content": "Be brief."}, {"role": "user", "content": "Hello"}]
WEATHER = {
    "name": "weather",
    "description": "The weather in a town.",
    "parameters": {"type": "object", "properties": {"town": {"type": "string"}}},
}


@pytest.fixture(autouse=True)
def nothing_set(monkeypatch: pytest.MonkeyPatch) -> None:
    for provider in PROVIDERS.values():
        for name in (*provider.key_variables, *provider.url_variables):
            monkeypatch.delenv(name, raising=False)


def frame(event: str, data: Any, kind: str = "event") -> bytes:
    """One of Amazon's binary frames."""
    named = {":message-type": kind, f":{kind}-type": event}
    headers = b"".join(
        bytes([len(name)]) + name.encode() + b"\x07" + struct.pack(">H", len(value)) + value.encode()
        for name, value in named.items()
    )
    payload = json.dumps(data).encode()
    prelude = struct.pack(">II", 16 + len(headers) + len(payload), len(headers))
    made = prelude + struct.pack(">I", zlib.crc32(prelude)) + headers + payload
    return made + struct.pack(">I", zlib.crc32(made))


def binary(*frames: bytes, every: int = 5) -> Answer:
    data = b"".join(frames)
    chunks = [data[at : at + every] for at in range(0, len(data), every)]
    return Answer(chunks, headers={"content-type": "application/vnd.amazon.eventstream"})


def gemini(text: str, stop: str | None = "STOP") -> dict[str, Any]:
    candidate = {"content": {"role": "model", "parts": [{"text": text}]}}
    return {
        "candidates": [{**candidate, "finishReason": stop} if stop else candidate],
        "usageMetadata": {"promptTokenCount": 11, "candidatesTokenCount": 3},
    }


def responded(text: str) -> dict[str, Any]:
    content = [{"type": "output_text", "text": text, "annotations": []}]
    return {
        "id": "r1",
        "status": "completed",
        "error": None,
        "output": [{"type": "message", "id": "m1", "role": "assistant", "content": content}],
        "usage": {"input_tokens": 11, "output_tokens": 3},
    }


CONVERSED = {
    "output": {"message": {"role": "assistant", "content": [{"text": "Hello you"}]}},
    "stopReason": "end_turn",
    "usage": {"inputTokens": 11, "outputTokens": 3},
}
WHOLE = [
    ("gpt-5", "/v1/chat/completions", as_json(chat("Hello you"))),
    ("responses/gpt-5", "/v1/responses", as_json(responded("Hello you"))),
    ("claude-x", "/v1/messages", as_json(claude("Hello you"))),
    ("gemini-x", "/v1beta/models/gemini-x:generateContent", as_json(gemini("Hello you"))),
    ("nova-lite", "/model/amazon.nova-lite-v1%3A0/converse", as_json(CONVERSED)),
]
STREAMED = [
    ("gpt-5", "/v1/chat/completions", events(*chat_events("Hello", " you"), every=3)),
    (
        "responses/gpt-5",
        "/v1/responses",
        events(
            {"type": "response.created", "response": {"id": "r1"}},
            {"type": "response.output_text.delta", "output_index": 0, "content_index": 0, "delta": "Hello"},
            {"type": "response.output_text.delta", "output_index": 0, "content_index": 0, "delta": " you"},
            {"type": "response.completed", "response": responded("Hello you")},
            done=False,
        ),
    ),
    ("claude-x", "/v1/messages", events(*claude_events("Hello", " you"), every=3, done=False)),
    (
        "gemini-x",
        "/v1beta/models/gemini-x:streamGenerateContent?alt=sse",
        events(gemini("Hello", None), gemini(" you"), done=False),
    ),
    (
        "nova-lite",
        "/model/amazon.nova-lite-v1%3A0/converse-stream",
        binary(
            frame("messageStart", {"role": "assistant"}),
            frame("contentBlockDelta", {"contentBlockIndex": 0, "delta": {"text": "Hello"}}),
            frame("contentBlockDelta", {"contentBlockIndex": 0, "delta": {"text": " you"}}),
            frame("contentBlockStop", {"contentBlockIndex": 0}),
            frame("messageStop", {"stopReason": "end_turn"}),
            frame("metadata", {"usage": {"inputTokens": 11, "outputTokens": 3}}),
        ),
    ),
]


def at(url: str, name: str, **options: Any) -> Model:
    """The model at an address that comes from the environment, so that prefixes keep their meaning."""
    model = Model(name, api_key="k", **options)
    model._request_builder.explicit_base_url = (
        f"{url}/v1" if model._provider.wire_format in ("openai", "responses") else url
    )
    return model


# -- answers ------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("name", "path", "answer"), WHOLE)
async def test_every_provider_answers_in_the_same_way(name: str, path: str, answer: Answer) -> None:
    async with serving(answer) as server, at(server.url, name) as model:
        reply = await model.complete_chat(ASKED, tools=[WEATHER], max_tokens=50)
        assert isinstance(reply, ModelReply)
        assert (str(reply), reply.text, reply.stop, reply.tool_calls) == ("Hello you", "Hello you", "end", ())
        assert (reply.usage.input_tokens, reply.usage.output_tokens) == (11, 3)
        assert server.seen[0].path == path
        assert "Hello" in str(server.seen[0].body)
        assert "weather" in str(server.seen[0].body)


@pytest.mark.parametrize(("name", "path", "answer"), STREAMED)
async def test_every_provider_streams_in_the_same_way(name: str, path: str, answer: Answer) -> None:
    async with serving(answer) as server, at(server.url, name) as model:
        *pieces, last = [event async for event in await model.complete_chat(ASKED, stream=True)]
        assert pieces == [TextDelta("Hello"), TextDelta(" you")]
        assert isinstance(last, ReplyFinished)
        assert (str(last.reply), last.reply.stop) == ("Hello you", "end")
        assert (last.reply.usage.input_tokens, last.reply.usage.output_tokens) == (11, 3)
        assert server.seen[0].path == path


async def test_calls_of_tools_come_with_the_reply() -> None:
    called = chat("")
    called["choices"][0] = {
        "index": 0,
        "finish_reason": "tool_calls",
        "message": {
            "role": "assistant",
            "content": None,
            "tool_calls": [
                {
                    "id": "c1",
                    "type": "function",
                    "function": {"name": "weather", "arguments": '{"town":"Rome"}'},
                }
            ],
        },
    }
    async with serving(as_json(called)) as server, Model("m", base_url=server.url) as model:
        reply = await model.complete_chat(ASKED, [{"type": "function", "function": WEATHER}])
        assert reply.stop == "tools"
        (call,) = reply.tool_calls
        assert (call.id, call.name, call.parse_arguments()) == ("c1", "weather", {"town": "Rome"})
        assert reply.message.tool_calls == (call,)
        assert server.seen[0].body["tools"] == [{"type": "function", "function": WEATHER}]


async def test_a_streamed_call_is_announced() -> None:
    use = {"type": "tool_use", "id": "t1", "name": "weather", "input": {}}
    pieces = ['{"town"', ': "Rome"}']
    streamed = [
        {"type": "message_start", "message": claude("")},
        {"type": "content_block_start", "index": 0, "content_block": use},
        *(
            {
                "type": "content_block_delta",
                "index": 0,
                "delta": {"type": "input_json_delta", "partial_json": piece},
            }
            for piece in pieces
        ),
        {"type": "content_block_stop", "index": 0},
        {"type": "message_delta", "delta": {"stop_reason": "tool_use"}, "usage": {}},
    ]
    async with serving(events(*streamed, done=False)) as server, at(server.url, "claude-x") as model:
        first, last = [event async for event in await model.complete_chat(ASKED, [WEATHER], stream=True)]
        assert first == CallStarted("t1", "weather")
        assert isinstance(last, ReplyFinished)
        assert last.reply.tool_calls[0].parse_arguments() == {"town": "Rome"}


async def test_messages_may_be_dicts_or_messages_and_options_go_along() -> None:
    async with (
        serving(as_json(chat("fine"))) as server,
        Model("m", base_url=server.url, temperature=0.5, seed=7) as model,
    ):
        await model.complete_chat([Message("user", "Lone \ud800 half"), ASKED[1]], seed=None, top_p=0.9)
        sent = server.seen[0].body
        assert [message["role"] for message in sent["messages"]] == ["user", "user"]
        assert (sent["temperature"], sent["top_p"], sent["model"]) == (0.5, 0.9, "m")
        assert "seed" not in sent
        assert "max_tokens" not in sent


@pytest.mark.parametrize(
    ("options", "version"),
    [({}, "2026-10-21"), ({"temperature": 0.1}, "2023-06-01"), ({"anthropic_version": "x"}, "x")],
)
async def test_anthropic_gets_no_sampling_parameters_unless_set(options: Any, version: str) -> None:
    async with serving(as_json(claude("fine"))) as server, at(server.url, "claude-x", **options) as model:
        await model.complete_chat(ASKED)
        assert server.seen[0].headers["anthropic-version"] == version
        assert server.seen[0].headers["x-api-key"] == "k"
        known = {"temperature", "top_p", "top_k", "anthropic_version"} & set(server.seen[0].body)
        assert known == set(options) - {"anthropic_version"}


@pytest.mark.parametrize(
    ("kind", "error"),
    [("throttlingException", RateLimited), ("modelStreamErrorException", ModelUnavailable)],
)
async def test_an_exception_in_a_binary_stream_has_its_type(kind: str, error: type[Exception]) -> None:
    broken = binary(frame(kind, {"message": "planted"}, "exception"))
    async with serving(broken) as server, at(server.url, "nova-lite", retries=0) as model:
        with pytest.raises(error, match=kind) as raised:
            await model.complete_chat(ASKED, stream=True)
        assert "planted" not in str(raised.value)


async def test_a_damaged_binary_stream_is_no_answer() -> None:
    async with serving(binary(b"x" * 40)) as server, at(server.url, "nova-lite") as model:
        with pytest.raises(Exception, match="damaged frame"):
            await model.complete_chat(ASKED, stream=True)


@pytest.mark.parametrize(
    ("name", "body", "window"),
    [
        (
            "gemini-x",
            {
                "error": {
                    "code": 400,
                    "message": "The input token count (9) exceeds the maximum number of tokens allowed (8).",
                    "status": "INVALID_ARGUMENT",
                }
            },
            8,
        ),
        ("nova-lite", {"message": "Input is too long for requested model."}, None),
        ("responses/gpt-5", {"error": {"code": "context_length_exceeded", "message": "Too long."}}, None),
    ],
)
async def test_every_provider_says_overflow_in_its_own_words(
    name: str, body: Any, window: int | None
) -> None:
    async with serving(as_json(body, 400)) as server, at(server.url, name) as model:
        with pytest.raises(ContextOverflow) as raised:
            await model.complete_chat(ASKED)
        assert raised.value.window == window


OPENAI_OVERFLOW = {
    "message": "This model's maximum context length is 8192 tokens. However, you sent 9000.",
    "type": "invalid_request_error",
    "code": "context_length_exceeded",
}
RESPONSES_OVERFLOW = {
    "code": "context_length_exceeded",
    "message": "Your input exceeds the context window: the maximum context length is 8192 tokens.",
}
# After some text, each provider says that it was too much, with a window of 8192 tokens.
OVERFLOWING = [
    ("gpt-5", events(*chat_events("Hel", "lo", stop=None), {"error": OPENAI_OVERFLOW})),
    (
        "claude-x",
        events(
            *claude_events("Hel", "lo", stop=None),
            (
                "error",
                {
                    "type": "error",
                    "error": {
                        "type": "invalid_request_error",
                        "message": "prompt is too long: 9000 tokens > 8192 maximum",
                    },
                },
            ),
        ),
    ),
    (
        "gemini-x",
        events(
            {"candidates": [{"content": {"parts": [{"text": "Hello"}]}}]},
            {
                "error": {
                    "code": 400,
                    "message": "The input token count exceeds the maximum number of tokens allowed (8192).",
                    "status": "INVALID_ARGUMENT",
                }
            },
        ),
    ),
    (
        "responses/gpt-5",
        events(
            {"type": "response.output_text.delta", "output_index": 0, "delta": "Hello"},
            {"type": "error", **RESPONSES_OVERFLOW},
        ),
    ),
    (
        "responses/gpt-5",
        events(
            {"type": "response.output_text.delta", "output_index": 0, "delta": "Hello"},
            {"type": "response.failed", "response": {"status": "failed", "error": RESPONSES_OVERFLOW}},
        ),
    ),
    (
        "nova-lite",
        binary(
            frame("contentBlockDelta", {"contentBlockIndex": 0, "delta": {"text": "Hello"}}),
            frame(
                "validationException",
                {"message": "prompt is too long: 9000 tokens > 8192 maximum"},
                kind="exception",
            ),
        ),
    ),
]


@pytest.mark.parametrize(("name", "answer"), OVERFLOWING)
async def test_an_overflow_in_the_middle_of_a_stream_is_learned_from_like_any_other(
    name: str, answer: Answer
) -> None:
    async with (
        serving(answer) as server,
        at(server.url, name, context_window=100_000) as model,
        await model.complete_chat(ASKED, stream=True) as stream,
    ):
        first = await anext(stream)
        assert isinstance(first, TextDelta)
        assert model.context_window == 100_000
        with pytest.raises(ContextOverflow) as raised:
            _ = [event async for event in stream]
        assert raised.value.window == model.context_window == 8192
        assert raised.value.status_code == 400
        assert len(server.seen) == 1
        with pytest.raises(StopAsyncIteration):
            await anext(stream)


async def test_a_window_is_never_made_larger_by_a_stream_nor_by_other_errors() -> None:
    overflow = OVERFLOWING[0][1]
    broken = events(*chat_events("Hel", stop=None), {"error": {"type": "server_error", "message": "oh"}})
    async with serving(overflow, broken) as server, at(server.url, "gpt-5", context_window=100) as model:
        for error in (ContextOverflow, ModelUnavailable):
            async with await model.complete_chat(ASKED, stream=True) as stream:
                with pytest.raises(error):
                    _ = [event async for event in stream]
            assert model.context_window == 100


async def test_amazon_names_its_errors_in_a_header() -> None:
    busy = as_json({"message": "planted"}, 429, x_amzn_errortype="ThrottlingException:http://x")
    async with serving(busy) as server, at(server.url, "nova-lite", retries=0) as model:
        with pytest.raises(RateLimited) as raised:
            await model.complete_chat(ASKED)
        assert raised.value.code == "ThrottlingException"


# -- keys ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("name", "variables"),
    [
        ("gpt-5", "OPENAI_API_KEY"),
        ("claude-x", "ANTHROPIC_API_KEY"),
        ("gemini-x", "GEMINI_API_KEY or GOOGLE_API_KEY"),
        ("nova-lite", "AWS_BEARER_TOKEN_BEDROCK"),
        ("openrouter/x", "OPENROUTER_API_KEY"),
    ],
)
async def test_a_missing_key_is_said_before_anything_is_sent(name: str, variables: str) -> None:
    async with Model(name) as model:
        with pytest.raises(
            MissingKey, match=f"set {variables} in the environment, or give `api_key`"
        ) as raised:
            await model.complete_chat(ASKED)
        assert isinstance(raised.value, AuthenticationFailed)
        assert raised.value.status_code == 401
        assert str(raised.value).splitlines() == [
            f"model `{name}` needs a key, and {variables} is not set",
            f"with a key: set {variables} in the environment, or give `api_key`",
            'without one: give the `base_url` of a server that needs none, or use the model "offline"',
        ]


async def test_the_key_comes_from_the_environment_when_it_is_needed(monkeypatch: pytest.MonkeyPatch) -> None:
    async with serving(as_json(chat("fine"))) as server, Model("gpt-5") as model:
        monkeypatch.setenv("OPENAI_BASE_URL", f"{server.url}/v1")
        await model.complete_chat(ASKED)
        monkeypatch.setenv("OPENAI_API_KEY", " sk-planted\n")
        await model.complete_chat(ASKED)
        assert "authorization" not in server.seen[0].headers
        assert server.seen[1].headers["authorization"] == "Bearer sk-planted"
        assert "planted" not in repr(model) + str(vars(model))


async def test_the_key_of_one_provider_is_not_sent_to_another_server(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", "sk-planted")
    async with serving(as_json(chat("fine"))) as server, Model("llama3", base_url=server.url) as model:
        await model.complete_chat(ASKED)
        assert "planted" not in str(server.seen[0].headers)


# This machine, but by a name that is not reserved for it: as good as another one.
ELSEWHERE = "0.0.0.0"


@pytest.mark.parametrize("name", ["gpt-5", "claude-x", "gemini-x", "nova-lite", "groq/x"])
async def test_a_key_from_the_environment_is_not_sent_in_clear_text(
    name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with serving(as_json(chat("fine"))) as server, Model(name) as model:
        url = server.url.replace("127.0.0.1", ELSEWHERE)
        model._request_builder.explicit_base_url = url
        monkeypatch.setenv(model._provider.key_variables[0], "sk-planted")
        with pytest.raises(InsecureAddress, match=f"{url} is neither https nor .* `insecure=True`") as raised:
            await model.complete_chat(ASKED)
        assert (raised.value.status_code, raised.value.url) == (401, url)
        assert isinstance(raised.value, AuthenticationFailed)
        assert "planted" not in f"{raised.value!r} {vars(raised.value)}"
        assert server.seen == []


async def test_a_key_goes_in_clear_text_where_that_is_allowed_or_where_it_was_given(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", "sk-environment")
    async with serving(as_json(chat("fine"))) as server:
        url = server.url.replace("127.0.0.1", ELSEWHERE)
        for options in ({"insecure": True}, {"api_key": "sk-given"}, {"base_url": server.url}):
            async with Model("gpt-5", **{"base_url": url, **options}) as model:  # type: ignore[arg-type]
                await model.complete_chat(ASKED)
    sent = [seen.headers["authorization"] for seen in server.seen]
    assert sent == ["Bearer sk-environment", "Bearer sk-given", "Bearer sk-environment"]
    with pytest.raises(TypeError, match="insecure must be True or False, not str"):
        Model("gpt-5", insecure="yes")  # type: ignore[arg-type]


@pytest.mark.parametrize("key", ["sk-planted\r\nx: y", "sk-plantéd", "", "\n"])
def test_a_key_that_no_header_takes_is_refused_without_showing_it(key: str) -> None:
    with pytest.raises(
        ValueError, match="api_key is empty or has characters that no HTTP header may have"
    ) as raised:
        Model("gpt-5", api_key=key)
    assert "plant" not in str(raised.value)
    with pytest.raises(TypeError, match="api_key must be a string, not int"):
        Model("gpt-5", api_key=7)  # type: ignore[arg-type]


def test_a_model_shows_who_it_is_and_no_key() -> None:
    model = Model("m", base_url="http://there/v1/", api_key="sk-planted", headers={"x-y": "planted"})
    assert repr(model) == "Model('m', provider='compatible', base_url='http://there/v1')"
    assert "planted" not in str(vars(model))
    assert repr(Model("offline")) == "Model('offline', provider='offline')"


# -- arguments ----------------------------------------------------------------------------------------


@pytest.mark.parametrize("timeout", [0, -1, float("nan"), float("inf"), True, "9", {"read": 3}, {"total": 0}])
def test_an_odd_timeout_is_refused(timeout: Any) -> None:
    with pytest.raises(ValueError, match="timeout"):
        Model("gpt-5", timeout=timeout)


@pytest.mark.parametrize("retries", [-1, True, 1.5, None])
def test_an_odd_number_of_retries_is_refused(retries: Any) -> None:
    with pytest.raises(ValueError, match="retries"):
        Model("gpt-5", retries=retries)


def test_a_tool_may_be_a_dict_or_an_object() -> None:
    assert tool_spec(WEATHER) == tool_spec({"type": "function", "function": WEATHER}) == WEATHER
    assert tool_spec(SimpleNamespace(**WEATHER)) == WEATHER
    assert tool_spec({"name": "t", "input_schema": {"type": "object"}})["parameters"] == {"type": "object"}
    for odd in ({}, {"name": ""}, 7):
        with pytest.raises(ValueError, match="a tool needs a name"):
            tool_spec(odd)


def test_complete_chat_is_a_coroutine_function_as_summaries_expect() -> None:
    assert inspect.iscoroutinefunction(Model("offline").complete_chat)


def test_importing_models_does_not_import_a_client() -> None:
    code = "import sys, autonomy_ctx.models.model as m; m.Model('gpt-5'); print('httpx' in sys.modules)"
    root = Path(__file__).parents[2]
    ran = subprocess.run([sys.executable, "-c", code], cwd=root, capture_output=True, text=True, check=True)
    assert ran.stdout.strip() == "False"


# -- summaries ----------------------------------------------------------------------------------------


@pytest.mark.parametrize("stop", ["end", "length", "refused", "overflow", None])
def test_summaries_understand_a_reply(stop: str | None) -> None:
    usage = Usage(input_tokens=5, output_tokens=2)
    reply = ModelReply(parts=(TextContent("a record"),), stop=stop, usage=usage)
    assert read_reply(reply) is reply
    assert not has_calls(reply)
    assert has_calls(ModelReply(tool_calls=(ToolCall("c", "t"),), stop="tools"))


async def append(memory: Memory, count: int) -> None:
    for number in range(count):
        await memory.append("ana", "trip", Message("user", f"Stop {number} is a town with a long story."))


@pytest.mark.parametrize(
    ("name", "answer"), [("gpt-5", chat("- the stops")), ("claude-x", claude("- the stops"))]
)
async def test_a_summarized_history_is_written_over_http(memory: Memory, name: str, answer: Any) -> None:
    async with (
        serving(as_json({}, 529, retry_after="0"), as_json(answer)) as server,
        at(server.url, name) as model,
        SummarizedHistorySection(model, floor=2, ceiling=4) as section,
    ):
        await append(memory, 6)
        await section.get_messages(memory, "ana", "trip", {})
        await section.settled()
        summary, *rest = await section.get_messages(memory, "ana", "trip", {})
        assert "- the stops" in str(summary["content"])
        assert len(rest) == 2
        assert len(server.seen) == 2
        assert section.get_metrics()["summarizer_input_tokens"] == 11


async def test_a_cut_off_summary_is_asked_for_again(memory: Memory) -> None:
    async with (
        serving(as_json(chat("- cut of", "length")), as_json(chat("- all stops"))) as server,
        at(server.url, "gpt-5") as model,
        SummarizedHistorySection(model, floor=2, ceiling=4) as section,
    ):
        await append(memory, 6)
        await section.get_messages(memory, "ana", "trip", {})
        await section.settled()
        summary, *_ = await section.get_messages(memory, "ana", "trip", {})
        assert "- all stops" in str(summary["content"])
        assert "cut off" in str(server.seen[1].body)


async def test_summaries_stop_at_a_missing_key(memory: Memory) -> None:
    async with SummarizedHistorySection(Model("gpt-5"), floor=2, ceiling=4) as section:
        for _ in range(3):
            await append(memory, 6)
            await section.get_messages(memory, "ana", "trip", {})
            await section.settled()
        assert section.get_metrics()["summarizer_calls"] == 1


async def test_max_tokens_of_the_model_is_a_default_for_its_calls() -> None:
    sent: list[Any] = []

    def answer(request: httpx.Request) -> httpx.Response:
        sent.append(json.loads(request.content).get("max_tokens"))
        body = {"choices": [{"message": {"content": "yes"}, "finish_reason": "stop"}]}
        return httpx.Response(200, json=body)

    async with httpx.AsyncClient(transport=httpx.MockTransport(answer)) as client:
        model = Model("small", base_url="http://model.test/v1", client=client, max_tokens=500)
        for given in (None, 7):
            await model.complete_chat([{"role": "user", "content": "hi"}], max_tokens=given)
    assert sent == [500, 7]


async def test_breakpoints_and_answered_calls_are_asked_for_and_not_sent_as_they_are() -> None:
    call = ToolCall("c1", "look", "{}")
    history = [Message("user", "go"), Message("assistant", None, tool_calls=[call]), Message("user", "well?")]
    async with serving(as_json(claude("yes"))) as server, at(server.url, "claude-x") as model:
        await model.complete_chat(
            history, breakpoints=[0], answered_call_ids=["c1"], metadata={"user_id": "u"}
        )
        body = server.seen[0].body
    assert body["messages"][0]["content"][-1]["cache_control"] == {"type": "ephemeral"}
    assert HIDDEN_RESULT in str(body["messages"])
    assert body["metadata"] == {"user_id": "u"}
    assert not {"breakpoints", "answered_call_ids"} & set(body)


async def test_another_model_is_not_an_option_of_a_request() -> None:
    model = Model("small", base_url="http://model.test/v1")
    with pytest.raises(TypeError, match="make another Model"):
        await model.complete_chat(ASKED, model="large")


@pytest.mark.parametrize("name", ["stream", "messages", "tools"])
def test_what_belongs_to_a_call_is_refused_by_the_model(name: str) -> None:
    with pytest.raises(TypeError, match=f"does not take {name}"):
        Model("gpt-5", **{name: True})  # type: ignore[arg-type]


@pytest.mark.parametrize("stream", [False, True])
async def test_a_tool_that_has_another_name_on_the_wire_is_called_by_its_own(stream: bool) -> None:
    def answer(request: httpx.Request) -> httpx.Response:
        [tool] = json.loads(request.content)["tools"]
        call = {"index": 0, "id": "c1", "function": {"name": tool["function"]["name"], "arguments": "{}"}}
        if not stream:
            choice = {"message": {"content": None, "tool_calls": [call]}, "finish_reason": "tool_calls"}
            return httpx.Response(200, json={"choices": [choice]})
        pieces = [{"delta": {"tool_calls": [call]}}, {"delta": {}, "finish_reason": "tool_calls"}]
        lines = [f"data: {json.dumps({'choices': [piece]})}\n\n" for piece in pieces]
        text = "".join([*lines, "data: [DONE]\n\n"])
        return httpx.Response(200, text=text, headers={"content-type": "text/event-stream"})

    tools = [{"name": "weather.now", "description": "The weather", "parameters": {"type": "object"}}]
    said = [{"role": "user", "content": "hi"}]
    async with httpx.AsyncClient(transport=httpx.MockTransport(answer)) as client:
        model = Model("small", base_url="http://model.test/v1", client=client)
        if not stream:
            reply = await model.complete_chat(said, tools=tools)
        else:
            async with await model.complete_chat(said, tools=tools, stream=True) as events:
                told = [event async for event in events]
            assert [event.name for event in told if isinstance(event, CallStarted)] == ["weather.now"]
            assert isinstance(told[-1], ReplyFinished)
            reply = told[-1].reply
    assert [call.name for call in reply.tool_calls] == ["weather.now"]
    assert [call.name for call in reply.message.tool_calls] == ["weather.now"]
