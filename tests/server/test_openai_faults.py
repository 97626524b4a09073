"""When upstream fails or a client leaves: errors are the API's own, and nothing false is stored."""

from __future__ import annotations

import json
import socket
from datetime import UTC, datetime, timedelta
from typing import Any

import anyio
import httpx
import openai
import pytest
from models.model_server import Answer, as_json, chat, chat_events, events, serving
from models.provider_server import RETRY_AFTER, Fault
from models.provider_words import Say
from server.endpoint import (
    CHAT,
    KEY,
    RESPONSES,
    answer_of,
    assistant,
    endpoint,
    endpoint_before,
    error_of,
    user,
)

from autonomy_ctx.server import endpoint_app

TOO_LONG = {"error": {"message": "prompt is too long", "type": "invalid_request_error", "code": None}}


async def lines_of(response: httpx.Response) -> list[str]:
    return [line async for line in response.aiter_lines() if line]


async def test_errors_of_upstream_are_passed_on_as_they_are() -> None:
    limited = as_json({"error": {"message": "Slow down."}}, 429, retry_after="7", x_request_id="r1")
    broken = Answer([b"<html>gone</html>"], status=500, headers={"content-type": "text/html"})
    async with serving(limited, broken, as_json(chat("Hi."))) as upstream, endpoint_before(upstream) as made:
        refused = await made.ask("Hi", conversation="trip")
        assert (refused.status_code, refused.json()) == (429, {"error": {"message": "Slow down."}})
        assert refused.headers["retry-after"] == "7"
        assert refused.headers["x-request-id"] == "r1"
        assert refused.headers["x-conversation-id"] == "trip"
        failed = await made.ask("Hi", conversation="trip")
        assert (failed.status_code, failed.text) == (500, "<html>gone</html>")
        # The same question again is stored once.
        assert answer_of(await made.ask("Hi", conversation="trip")) == "Hi."
        assert await made.stored() == {"trip": ["Hi", "Hi."]}


async def test_the_sdk_raises_and_retries_as_it_does_with_the_real_api() -> None:
    async with endpoint(Fault.LIMITED, Fault.LIMITED, Say("Hello.")) as made, made.sdk() as client:
        said: list[Any] = [user("Hi")]
        with pytest.raises(openai.RateLimitError) as caught:
            await client.chat.completions.create(model="served", messages=said)
        assert caught.value.response.headers["retry-after"] == str(RETRY_AFTER)
    overloaded = as_json({"error": {"message": "busy"}}, 503, retry_after_ms="1")
    async with serving(overloaded, as_json(chat("Hello."))) as upstream, endpoint_before(upstream) as made:
        async with made.sdk(max_retries=1) as client:
            await client.chat.completions.create(model="served", messages=said)
        assert list((await made.stored()).values()) == [["Hi", "Hello."]]


async def test_an_upstream_that_is_not_there_is_a_bad_gateway() -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
    async with serving() as upstream:
        upstream.url = f"http://127.0.0.1:{port}"
        async with endpoint_before(upstream) as made:
            for path, body in ((CHAT, {"messages": [user("Hi")]}), (RESPONSES, {"input": "Hi"})):
                failed = await made.http.post(path, json={"model": "served", **body})
                assert error_of(failed) == (502, "upstream_unavailable")
                assert f"127.0.0.1:{port} refused the connection" in failed.text
                assert KEY not in failed.text
            assert error_of(await made.http.get("/v1/models")) == (502, "upstream_unavailable")


async def test_an_upstream_that_is_silent_is_a_gateway_timeout() -> None:
    async with endpoint(Fault.SILENT, timeout=0.05) as made:
        assert error_of(await made.ask("Hi")) == (504, "upstream_timeout")


@pytest.mark.parametrize("path", [CHAT, RESPONSES])
async def test_a_stream_that_is_cut_ends_with_an_error_and_is_not_stored(path: str) -> None:
    async with endpoint(Fault.CUT_AFTER_FIRST_TOKEN, Say("Whole.")) as made:
        given = {"messages": [user("Hi")]} if path == CHAT else {"input": "Hi"}
        body = {"model": "served", "stream": True, **given}
        headers = {"x-conversation-id": "trip"}
        async with made.http.stream("POST", path, json=body, headers=headers) as response:
            assert response.status_code == 200
            assert response.headers["x-conversation-id"] == "trip"
            lines = await lines_of(response)
        error = json.loads(lines[-1].removeprefix("data: "))
        if path == CHAT:
            assert error["error"]["code"] == "upstream_broke_off"
            assert set(error["error"]) == {"message", "type", "param", "code"}
        else:
            assert lines[-2] == "event: error"
            assert (error["type"], error["code"]) == ("error", "upstream_broke_off")
        assert "data: [DONE]" not in lines
        assert await made.stored() == {"trip": ["Hi"]}
        await made.http.post(path, json=body, headers=headers)
        assert await made.stored() == {"trip": ["Hi", "Whole."]}


async def test_a_stream_that_ends_before_the_model_has_finished_is_cut_too() -> None:
    told = events(*chat_events("Hel", stop=None), done=False)
    async with serving(told) as upstream, endpoint_before(upstream) as made:
        answer = await made.ask("Hi", stream=True)
        assert "broke off its answer" in answer.text
        assert list((await made.stored()).values()) == [["Hi"]]


async def test_the_sdk_raises_when_a_stream_is_cut() -> None:
    async with endpoint(Fault.CUT_AFTER_FIRST_TOKEN) as made, made.sdk() as client:
        said: list[Any] = [user("Hi")]
        with pytest.raises(openai.APIError, match="broke off its answer"):
            async for _ in await client.chat.completions.create(model="served", messages=said, stream=True):
                pass


async def test_an_error_inside_a_stream_is_passed_on_and_nothing_is_stored() -> None:
    async with endpoint(Fault.ERROR_AFTER_FIRST_TOKEN) as made:
        body = {"model": "served", "stream": True, "messages": [user("Hi")]}
        async with made.http.stream("POST", CHAT, json=body) as response:
            lines = await lines_of(response)
        assert "overloaded" in lines[-1]
        assert list((await made.stored()).values()) == [["Hi"]]


async def test_a_stream_without_a_last_word_is_whole_when_the_model_has_finished() -> None:
    told = events(*chat_events("Hel", "lo."), done=False, every=7)
    async with serving(told) as upstream, endpoint_before(upstream) as made:
        body = {"model": "served", "stream": True, "messages": [user("Hi")]}
        answer = await made.http.post(CHAT, json=body)
        assert answer.content == b"".join(told.chunks)
        assert list((await made.stored()).values()) == [["Hi", "Hello."]]


@pytest.mark.parametrize("every", [0, 1, 5, 64])
async def test_a_stream_is_passed_on_byte_for_byte(every: int) -> None:
    told = events(*chat_events("Grüße", " 👋", "\u2028"), every=every)
    told.chunks = [b": wait\r\n\r\n", *told.chunks]
    async with serving(told) as upstream, endpoint_before(upstream) as made:
        body = {"model": "served", "stream": True, "messages": [user("Hi")]}
        answer = await made.http.post(CHAT, json=body)
        assert answer.content == b"".join(told.chunks)
        assert answer.headers["content-type"] == "text/event-stream"
        assert list((await made.stored()).values()) == [["Hi", "Grüße 👋\u2028"]]


PING = b": still there\n\n"


@pytest.mark.parametrize(
    ("path", "first"),
    [(CHAT, b""), (RESPONSES, b'data: {"type": "response.created", "response": {"id": "r"}}\n\n')],
)
async def test_heartbeats_are_passed_on_before_the_model_says_anything(path: str, first: bytes) -> None:
    gate = anyio.Event()
    headers = {"content-type": "text/event-stream"}
    async with (
        serving(Answer([first + PING], headers=headers, after=gate)) as upstream,
        endpoint_before(upstream) as made,
    ):
        asked = {"messages": [user("Hi")]} if path == CHAT else {"input": "Hi"}
        body = {"model": "served", "stream": True} | asked
        with anyio.fail_after(30):
            async with made.http.stream("POST", path, json=body) as response:
                seen = b""
                async for piece in response.aiter_raw():
                    seen += piece
                    if PING in seen:
                        gate.set()
        assert seen.startswith(first + PING)


async def test_an_overflow_after_heartbeats_is_asked_again_with_less() -> None:
    headers = {"content-type": "text/event-stream"}
    refusal = Answer([PING, b"data: %b\n\n" % json.dumps(TOO_LONG).encode()], headers=headers)
    fine, wrong = events(*chat_events("Fine.")), as_json({"error": {"message": "No.", "code": "no"}}, 400)
    for second, expected in ((fine, "Fine."), (wrong, '"code": "no"')):
        async with (
            serving(refusal, second) as upstream,
            endpoint_before(upstream, context_summary=False) as made,
        ):
            answer = await made.ask(*history(20), stream=True)
            assert answer.content.startswith(PING)
            assert expected in answer.text
            assert "too long" not in answer.text
            assert all(line[:5] in ("", "data:", ": sti") for line in answer.text.splitlines())
            assert len(upstream.seen) == 2


async def test_the_answer_is_stored_before_the_client_sees_its_end() -> None:
    gate = anyio.Event()
    told = events(*chat_events("Hello."), after=gate)
    async with serving(told) as upstream, endpoint_before(upstream) as made:
        body = {"model": "served", "stream": True, "messages": [user("Hi")]}
        async with made.http.stream("POST", CHAT, json=body) as response:
            async for line in response.aiter_lines():
                if line == "data: [DONE]":
                    break
            # Upstream has not even ended its response.
            assert list((await made.stored()).values()) == [["Hi", "Hello."]]
        gate.set()


async def test_a_client_that_leaves_ends_the_request_upstream() -> None:
    never = anyio.Event()
    told = events(*chat_events("Hel", stop=None), done=False, after=never)
    async with serving(told) as upstream, endpoint_before(upstream) as made:
        body = {"model": "served", "stream": True, "messages": [user("Hi")]}
        async with made.http.stream("POST", CHAT, json=body) as response:
            assert await anext(response.aiter_lines())
        with anyio.fail_after(10):
            while len(made.app.requests):
                await anyio.lowlevel.checkpoint()
        assert list((await made.stored()).values()) == [["Hi"]]
        never.set()
        with anyio.fail_after(10):
            await upstream.gone.wait()


# -- overflow -------------------------------------------------------------------------------------


def history(count: int) -> list[dict[str, Any]]:
    """A long history that ends with a question."""
    said = []
    for number in range(count):
        said += [user(f"Question {number} " + "about the ferry " * 20), assistant(f"Answer {number}.")]
    return [*said, user("And now?")]


@pytest.mark.parametrize("stream", [False, True])
@pytest.mark.parametrize("status", [400, 200])
async def test_an_overflow_is_asked_again_with_less(stream: bool, status: int) -> None:
    refusal = events(TOO_LONG, done=False) if status == 200 and stream else as_json(TOO_LONG, status)
    told = events(*chat_events("Fine.")) if stream else as_json(chat("Fine."))
    async with (
        serving(refusal, told) as upstream,
        endpoint_before(upstream, context_summary=False) as made,
    ):
        said = history(20)
        answer = await made.ask(*said, stream=stream, conversation="trip")
        assert answer.status_code == 200
        assert "Fine." in answer.text
        assert "too long" not in answer.text
        assert len(made.sent(0)) == len(said)
        assert len(made.sent(1)) < len(said)
        assert made.sent(1)[-1] == said[-1]
        assert len((await made.stored())["trip"]) == len(said) + 1


async def test_an_overflow_that_stays_is_the_clients_to_see() -> None:
    refusal = as_json(TOO_LONG, 400, x_request_id="r2")
    async with serving(refusal) as upstream, endpoint_before(upstream, context_summary=False) as made:
        answer = await made.ask(*history(20), conversation="trip")
        assert (answer.status_code, answer.json()) == (400, TOO_LONG)
        assert answer.headers["x-request-id"] == "r2"
        assert len(upstream.seen) == 2


async def test_a_window_that_an_overflow_named_is_kept_to() -> None:
    said = "This model's maximum context length is 900 tokens, however you requested more."
    refusal = as_json({"error": {"message": said, "code": "context_length_exceeded"}}, 400)
    async with (
        serving(refusal, as_json(chat("Fine."))) as upstream,
        endpoint_before(upstream, context_summary=False) as made,
    ):
        await made.ask(*history(20), conversation="one")
        await made.ask(*history(20), conversation="two")
        assert len(upstream.seen) == 3
        composed = await made.app.engine.explain("two")
        assert composed.budget is not None
        assert composed.budget.max_tokens == 810


async def test_words_of_a_client_that_upstream_repeats_are_no_window() -> None:
    repeated = "Invalid value: 'maximum context length is 600'. Supported values are: 'text'."
    refusal = as_json({"error": {"message": repeated, "code": "invalid_value"}}, 400)
    async with (
        serving(refusal, as_json(chat("Fine."))) as upstream,
        endpoint_before(upstream, context_summary=False) as made,
    ):
        for name in ("one", "two"):
            await made.ask(*history(20), conversation=name)
        assert (await made.app.engine.explain("two")).budget is None
        assert len(made.sent()) == len(history(20))


async def test_a_window_is_forgotten_after_an_hour() -> None:
    time = datetime(2026, 1, 1, tzinfo=UTC)
    said = "This model's maximum context length is 900 tokens. However, you requested more."
    refusal = as_json({"error": {"message": said, "code": "context_length_exceeded"}}, 400)
    async with (
        serving(refusal, as_json(chat("Fine."))) as upstream,
        endpoint_before(upstream, context_summary=False, clock=lambda: time) as made,
    ):
        budgets = []
        for name, minutes in (("one", 0), ("two", 59), ("three", 2)):
            time += timedelta(minutes=minutes)
            await made.ask(*history(20), conversation=name)
            budget = (await made.app.engine.explain(name)).budget
            budgets.append(None if budget is None else budget.max_tokens)
        assert budgets == [810, 810, None]


# -- requests that are none -----------------------------------------------------------------------


@pytest.mark.parametrize(
    ("body", "param"),
    [
        ({}, "messages"),
        ({"messages": []}, "messages"),
        ({"messages": "Hi"}, "messages"),
        ({"messages": ["Hi"]}, "messages[0]"),
        ({"messages": [{"role": "system", "content": "Be kind."}]}, "messages"),
        ({"messages": [{"role": "robot", "content": "Hi"}]}, "messages[0].role"),
        ({"messages": [{"role": "function", "content": "Hi"}]}, "messages[0].role"),
        ({"messages": [user("Hi"), {"role": "user", "content": 7}]}, "messages[1].content"),
        ({"messages": [{"role": "user"}]}, "messages[0].content"),
        ({"messages": [{"role": "user", "content": [{"type": "text"}]}]}, "messages[0].content[0].text"),
        ({"messages": [user("Hi"), {"role": "tool", "content": "9"}]}, "messages[1].tool_call_id"),
        ({"messages": [user("Hi"), {"role": "tool", "tool_call_id": "c", "content": "9"}]}, "messages"),
        ({"messages": [{"role": "assistant", "tool_calls": 7}, user("Hi")]}, "messages[0].tool_calls"),
    ],
)
async def test_what_is_no_request_is_refused_and_not_stored(body: dict[str, Any], param: str) -> None:
    for headers in ({}, {"x-conversation-id": "trip"}):
        async with endpoint(Say("Hello.")) as made:
            refused = await made.http.post(CHAT, json={"model": "served", **body}, headers=headers)
            assert error_of(refused)[0] == 400
            assert refused.json()["error"]["param"] == param
            assert made.upstream.seen == []
            assert await made.stored() == {}


@pytest.mark.parametrize(
    ("body", "param"),
    [
        ({}, "input"),
        ({"input": ""}, "input"),
        ({"input": [7]}, "input[0]"),
        ({"input": "Hi", "instructions": 7}, "instructions"),
        ({"input": "Hi", "previous_response_id": 7}, "previous_response_id"),
        ({"input": [{"type": "function_call_output", "call_id": "c", "output": "9"}]}, "input"),
        ({"input": [{"role": "user", "content": "Hi"}, {"type": ["message"]}]}, "input[1].type"),
        ({"input": [{"type": {"a": 1}, "role": "user", "content": "Hi"}]}, "input[0].type"),
    ],
)
async def test_what_is_no_response_request_is_refused(body: dict[str, Any], param: str) -> None:
    async with endpoint(Say("Hello.")) as made:
        refused = await made.http.post(RESPONSES, json={"model": "served", **body})
        assert error_of(refused)[0] == 400
        assert refused.json()["error"]["param"] == param
        assert await made.stored() == {}


BROKEN_JSON = [
    *(b"", b"{", b"[]", b'{"messages": NaN}', b"\xff", b'{"a":' * 100_000),
    # No server could read the number that it would become.
    b'{"messages": [{"role": "user", "content": "Hi"}], "seed": 1e999}',
    b'{"temperature": -1e999, "messages": [{"role": "user", "content": "' + b"x" * 40_000 + b'"}]}',
]


@pytest.mark.parametrize("raw", BROKEN_JSON)
async def test_a_body_that_is_no_json_is_refused(raw: bytes) -> None:
    async with endpoint(Say("Hello.")) as made:
        refused = await made.http.post(CHAT, content=raw, headers={"content-type": "application/json"})
        assert error_of(refused)[0] == 400
        assert made.upstream.seen == []


async def test_a_body_may_only_be_so_large() -> None:
    async with endpoint(Say("Hello."), max_body_bytes=1000) as made:
        assert error_of(await made.ask("x" * 1000)) == (413, "request_too_large")

        async def pieces() -> Any:
            for _ in range(3):
                yield b"x" * 500

        refused = await made.http.post(CHAT, content=pieces())
        assert error_of(refused) == (413, "request_too_large")


async def test_addresses_that_are_not_there() -> None:
    async with endpoint(Say("Hello.")) as made:
        assert error_of(await made.http.get("/elsewhere")) == (404, "not_found")
        for path in (CHAT, RESPONSES, "/v1/models"):
            forgot = await made.http.post(path.removeprefix("/v1"), json={})
            assert error_of(forgot) == (404, "not_found")
            assert "ends with /v1" in forgot.json()["error"]["message"]
        for path in ("/v1/files/%2e%2e/%2e%2e/admin", "/v1/files/..%2f..%2fadmin"):
            assert error_of(await made.http.get(path))[0] == 404
        assert made.upstream.seen == []


async def test_after_its_end_it_says_so() -> None:
    app = endpoint_app("http://127.0.0.1:9/v1", scope="ana")
    await app.close()
    await app.close()
    transport = httpx.ASGITransport(app)
    async with httpx.AsyncClient(transport=transport, base_url="http://here") as client:
        assert error_of(await client.post(CHAT, json={"messages": [user("Hi")]})) == (503, "server_error")
