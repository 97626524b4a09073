"""The request loop against a real server: what is asked again, when, and what a failure is called."""

from __future__ import annotations

import gzip
import json
import logging
import zlib
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, suppress
from typing import Any

import anyio
import httpx
import pytest
from models.model_server import (
    Answer,
    ModelServer,
    as_json,
    chat,
    chat_events,
    claude_events,
    events,
    serving,
)

from autonomy_ctx.errors import (
    AuthenticationFailed,
    ContextOverflow,
    InvalidModelReply,
    ModelError,
    ModelTimeout,
    ModelUnavailable,
    RateLimited,
)
from autonomy_ctx.formats.base import ReplyFinished, TextDelta
from autonomy_ctx.models.model import Model
from autonomy_ctx.models.retry import response_failure

ASKED = [{"role": "user", "content": "What is the planted-word?"}]
KEY = "sk-planted-1-key"
NOW = 1_700_000_000.0


class Waits:
    """Waits that are noted instead of waited for."""

    def __init__(self) -> None:
        self.seconds: list[float] = []

    async def __call__(self, seconds: float) -> None:
        self.seconds.append(seconds)
        await anyio.lowlevel.checkpoint()


@asynccontextmanager
async def asking(
    *answers: Answer, name: str = "gpt-5", **options: Any
) -> AsyncIterator[tuple[Model, ModelServer, Waits]]:
    """A model, the server behind it, and the waits between its tries."""
    waits = Waits()
    async with (
        serving(*answers) as server,
        Model(
            name,
            base_url=f"{server.url}/v1",
            api_key=KEY,
            sleep=waits,
            jitter=lambda: 0.0,
            now=lambda: NOW,
            **options,
        ) as model,
    ):
        yield model, server, waits


def error(kind: str, message: str = "What is the planted-word?", **more: Any) -> dict[str, Any]:
    return {"error": {"type": kind, "message": f"{message} {KEY}", **more}}


FINE = as_json(chat("fine"))

# -- what is asked again ------------------------------------------------------------------------------


@pytest.mark.parametrize("status", [408, 409, 429, 500, 502, 503, 504, 529])
async def test_what_may_pass_is_asked_again_later_and_later(status: int) -> None:
    busy = as_json(error("overloaded_error"), status)
    async with asking(busy, busy, FINE) as (model, server, waits):
        assert str(await model.complete_chat(ASKED)) == "fine"
        assert waits.seconds == [0.5, 1.0]
        assert len(server.seen) == 3


@pytest.mark.parametrize("status", [302, 400, 401, 403, 404, 413, 422])
async def test_what_will_not_pass_is_not_asked_again(status: int) -> None:
    async with asking(as_json(error("nope"), status, location="/v1/elsewhere"), FINE) as (
        model,
        server,
        waits,
    ):
        with pytest.raises(ModelError) as raised:
            await model.complete_chat(ASKED)
        assert (raised.value.status_code, len(server.seen), waits.seconds) == (status, 1, [])
        assert isinstance(raised.value, AuthenticationFailed) == (status in (401, 403))


@pytest.mark.parametrize(
    ("name", "meant"),
    [("gpt-5-mnii", " (did you mean `gpt-5-mini`?)"), ("gpt-5-mini", ""), ("our-own-model", "")],
)
def test_a_model_that_its_server_does_not_have_brings_the_name_that_is_spelled_alike(
    name: str, meant: str
) -> None:
    failure = response_failure(name, 404, {}, error("model_not_found"), now=0.0)
    said = "(status 404, model_not_found)"
    assert str(failure.error) == (
        f"model `{name}` was not found {said}{meant}; check its name and the `base_url`"
    )


@pytest.mark.parametrize(
    ("headers", "wait"),
    [
        ({"retry_after": "7"}, 7.0),
        ({"retry_after": "0.25"}, 0.25),
        ({"retry_after": "Tue, 14 Nov 2023 22:13:40 GMT"}, 20.0),
        ({"retry_after": "Tue, 14 Nov 2023 22:00:00 GMT"}, 0.0),
        ({"retry_after_ms": "1500", "retry_after": "9"}, 1.5),
        ({"retry_after": "86400"}, 60.0),
        ({"retry_after": "-3"}, 0.5),
        ({"retry_after": "nan"}, 0.5),
        ({"retry_after": "soon"}, 0.5),
    ],
)
async def test_a_provider_that_says_when_is_believed_up_to_a_minute(
    headers: dict[str, str], wait: float
) -> None:
    async with asking(as_json(error("rate_limit_error"), 429, **headers), FINE) as (model, _, waits):
        await model.complete_chat(ASKED)
        assert waits.seconds == [wait]


async def test_google_says_when_in_the_body() -> None:
    details = [{"@type": "x"}, {"retryDelay": "12.5s"}]
    async with asking(as_json(error("x", details=details), 429), FINE) as (model, _, waits):
        await model.complete_chat(ASKED)
        assert waits.seconds == [12.5]


@pytest.mark.parametrize(("status", "told", "tries"), [(503, "false", 1), (418, "true", 2), (400, "true", 1)])
async def test_a_provider_that_says_whether_is_believed_but_for_bad_requests(
    status: int, told: str, tries: int
) -> None:
    async with asking(as_json(error("x"), status, x_should_retry=told), FINE) as (model, server, _):
        with suppress(ModelError):
            await model.complete_chat(ASKED)
        assert len(server.seen) == tries


async def test_a_spent_budget_is_not_asked_again() -> None:
    spent = as_json(error("limit", details={"error_code": "enforced_spend_limit_reached"}), 429)
    async with asking(spent, FINE) as (model, server, _):
        with pytest.raises(RateLimited):
            await model.complete_chat(ASKED)
        assert len(server.seen) == 1


async def test_it_gives_up_after_the_last_try_and_says_when_to_come_back() -> None:
    async with asking(as_json(error("rate_limit_error"), 429, retry_after="30")) as (model, server, waits):
        with pytest.raises(RateLimited, match=r"rate_limit_error.*in 30 s") as raised:
            await model.complete_chat(ASKED)
        assert raised.value.retry_after == 30
        assert (len(server.seen), waits.seconds) == (3, [30, 30])


async def test_jitter_makes_waits_shorter_by_up_to_a_quarter() -> None:
    waits = Waits()
    async with serving(as_json({}, 500)) as server:
        model = Model("m", base_url=server.url, sleep=waits, jitter=lambda: 1.0, retries=6)
        async with model:
            with pytest.raises(ModelUnavailable):
                await model.complete_chat(ASKED)
    assert waits.seconds == [0.375, 0.75, 1.5, 3.0, 6.0, 6.0]


async def test_no_retries_means_one_try() -> None:
    async with asking(as_json({}, 500), FINE, retries=0) as (model, server, _):
        with pytest.raises(ModelUnavailable):
            await model.complete_chat(ASKED)
        assert len(server.seen) == 1


async def test_a_wait_beyond_the_whole_time_is_not_begun() -> None:
    async with asking(as_json({}, 503, retry_after="50"), FINE, timeout=40) as (model, _, waits):
        with pytest.raises(ModelUnavailable):
            await model.complete_chat(ASKED)
        assert waits.seconds == []


@pytest.mark.parametrize("cut", ["first", "last"])
@pytest.mark.parametrize("stream", [False, True])
async def test_a_dropped_connection_is_asked_again(cut: str, stream: bool) -> None:
    fine = events(*chat_events("fi", "ne")) if stream else FINE
    async with asking(Answer([b'{"cho'], cut=cut), fine) as (model, server, _):
        if stream:
            found = [event async for event in await model.complete_chat(ASKED, stream=True)]
            assert found[:2] == [TextDelta("fi"), TextDelta("ne")]
        else:
            assert str(await model.complete_chat(ASKED)) == "fine"
        assert len(server.seen) == 2


async def test_a_server_that_is_not_there_is_unavailable() -> None:
    async with serving() as server:
        gone = server.url
    waits = Waits()
    async with Model("m", base_url=gone, sleep=waits) as model:
        with pytest.raises(ModelUnavailable, match="could not be reached"):
            await model.complete_chat(ASKED)
    assert len(waits.seconds) == 2


# -- streams ------------------------------------------------------------------------------------------


@pytest.mark.parametrize("every", [0, 1, 7])
async def test_a_stream_gives_its_pieces_and_then_the_whole(every: int) -> None:
    async with asking(events(*chat_events("Hé", "llo 猫"), every=every)) as (model, server, _):
        *pieces, last = [event async for event in await model.complete_chat(ASKED, stream=True)]
        assert pieces == [TextDelta("Hé"), TextDelta("llo 猫")]
        assert isinstance(last, ReplyFinished)
        assert (str(last.reply), last.reply.stop) == ("Héllo 猫", "end")
        assert (last.reply.usage.input_tokens, last.reply.usage.output_tokens) == (11, 3)
        assert server.seen[0].body["stream"] is True
        assert server.seen[0].headers["accept-encoding"] == "identity"


async def test_a_connection_is_used_again_after_a_stream() -> None:
    async with asking(events(*chat_events("fine"))) as (model, server, _):
        for _ in range(3):
            assert [event async for event in await model.complete_chat(ASKED, stream=True)]
        assert (len(server.seen), server.connections) == (3, 1)


async def test_the_first_piece_comes_before_the_last_is_written() -> None:
    rest = anyio.Event()
    async with asking(events(*chat_events("one"), after=rest)) as (model, _, _):
        stream = await model.complete_chat(ASKED, stream=True)
        assert await anext(stream) == TextDelta("one")
        rest.set()
        assert isinstance(await anext(stream), ReplyFinished)
        with pytest.raises(StopAsyncIteration):
            await anext(stream)


@pytest.mark.parametrize("cut", ["last", ""])
async def test_nothing_is_asked_again_once_a_token_was_delivered(cut: str) -> None:
    async with asking(
        events(*chat_events("one", stop=None), done=False, cut=cut), events(*chat_events("two"))
    ) as (model, server, _):
        stream = await model.complete_chat(ASKED, stream=True)
        assert await anext(stream) == TextDelta("one")
        with pytest.raises(ModelUnavailable, match="broke off"):
            await anext(stream)
        with pytest.raises(StopAsyncIteration):
            await anext(stream)
        assert len(server.seen) == 1


@pytest.mark.parametrize("kind", ["overloaded_error", "rate_limit_error", "api_error"])
async def test_an_error_inside_a_stream_is_asked_again_before_the_first_token(kind: str) -> None:
    broken = events(("error", {"type": "error", **error(kind)}), done=False)
    fine = events(*claude_events("fine"), done=False)
    async with asking(broken, fine, name="claude-x") as (model, server, _):
        stream = await model.complete_chat(ASKED, stream=True)
        assert await anext(stream) == TextDelta("fine")
        await stream.aclose()
        assert len(server.seen) == 2


async def test_an_error_inside_a_stream_after_a_token_is_raised() -> None:
    broken = ("error", {"type": "error", **error("overloaded_error")})
    async with asking(events(*claude_events("one", stop=None), broken, done=False), name="claude-x") as (
        model,
        server,
        _,
    ):
        stream = await model.complete_chat(ASKED, stream=True)
        assert await anext(stream) == TextDelta("one")
        with pytest.raises(ModelUnavailable, match="overloaded_error") as raised:
            await anext(stream)
        assert raised.value.status_code == 529
        assert len(server.seen) == 1


async def test_a_stream_may_be_left_half_way() -> None:
    never = anyio.Event()
    async with asking(events(*chat_events("one", "two"), after=never, done=False)) as (model, _, _):
        async with await model.complete_chat(ASKED, stream=True) as stream:
            assert await anext(stream) == TextDelta("one")
        assert [event async for event in stream] == []
        await stream.aclose()


async def test_a_cancelled_stream_gives_its_connection_back() -> None:
    never = anyio.Event()
    async with asking(events(*chat_events("one", stop=None), done=False, after=never)) as (model, _, _):
        stream = await model.complete_chat(ASKED, stream=True)
        await anext(stream)
        with anyio.CancelScope() as scope:
            async with anyio.create_task_group() as group:
                group.start_soon(anext, stream)
                await anyio.wait_all_tasks_blocked()
                scope.cancel()
        assert scope.cancelled_caught
        with pytest.raises(StopAsyncIteration):
            await anext(stream)


# -- time ---------------------------------------------------------------------------------------------


async def test_a_slow_first_token_is_a_timeout_and_not_asked_again() -> None:
    never = anyio.Event()
    async with asking(events(*chat_events("late"), before=never), timeout={"first_token": 0.05}) as (
        model,
        _,
        waits,
    ):
        with pytest.raises(ModelTimeout, match=r"no first token for 0\.05 s"):
            await model.complete_chat(ASKED, stream=True)
        assert waits.seconds == []


async def test_a_slow_answer_is_a_timeout() -> None:
    never = anyio.Event()
    async with asking(Answer([b"{"], after=never), timeout=0.05) as (model, _, _):
        with pytest.raises(TimeoutError, match=r"no answer for 0\.05 s"):
            await model.complete_chat(ASKED)


async def test_a_stream_that_stands_still_is_a_timeout() -> None:
    never = anyio.Event()
    still = events(*chat_events("one", stop=None), done=False, after=never)
    async with asking(still, timeout=0.5) as (model, _, _):
        # All within: a busy machine may need the time for less.
        with pytest.raises(ModelTimeout, match=r"answer for 0\.5 s"):
            async for _ in await model.complete_chat(ASKED, stream=True):
                pass


async def test_a_cancelled_caller_is_cancelled_and_nothing_else() -> None:
    never = anyio.Event()
    async with asking(as_json(chat("late"))) as (model, server, _):
        server.answers = [Answer(before=never)]
        with anyio.CancelScope() as scope:
            async with anyio.create_task_group() as group:
                group.start_soon(model.complete_chat, ASKED)
                await server.arrived.wait()
                scope.cancel()
        assert scope.cancelled_caught
        server.answers = [FINE]
        assert str(await model.complete_chat(ASKED)) == "fine"


# -- bodies -------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("answer", "problem"),
    [
        (Answer([]), "is empty"),
        (Answer([b'{"choices": [']), "is not JSON"),
        (Answer([b"[" * 200_000]), "is not JSON"),
        (Answer([b"[1]"]), "is not a JSON object"),
        (as_json({}), "has no answer"),
        (as_json({"choices": []}), "has no answer"),
        (as_json({"choices": "odd", "usage": 3}), "has no answer"),
        (as_json(error("server_error")), r"is an error \(server_error\)"),
        (Answer([b"{}"], headers={"content-encoding": "br"}), "not asked for"),
        (Answer([b"{}"], headers={"content-encoding": "gzip"}), "cannot be decompressed"),
    ],
)
async def test_a_success_that_holds_no_answer_is_an_invalid_reply(answer: Answer, problem: str) -> None:
    async with asking(answer, FINE) as (model, server, _):
        with pytest.raises(InvalidModelReply, match=problem):
            await model.complete_chat(ASKED)
        assert len(server.seen) == 1


@pytest.mark.parametrize(
    ("answer", "problem"),
    [
        (events(), "has no answer"),
        (events([1]), "not a JSON object"),
        (Answer([b"data: {\n\n"]), "not a JSON object"),
        (events({"error": {"message": KEY, "code": "bad"}}), r"is an error \(bad\)"),
    ],
)
async def test_a_stream_that_holds_no_answer_is_an_invalid_reply(answer: Answer, problem: str) -> None:
    async with asking(answer) as (model, _, _):
        with pytest.raises(InvalidModelReply, match=problem):
            await model.complete_chat(ASKED, stream=True)


async def test_a_compressed_answer_is_read() -> None:
    data = gzip.compress(json.dumps(chat("fine")).encode())
    answer = Answer([data[:9], data[9:]], headers={"content-encoding": "gzip"})
    async with asking(answer) as (model, server, _):
        assert str(await model.complete_chat(ASKED)) == "fine"
        assert server.seen[0].headers["accept-encoding"] == "gzip"


def endless() -> Iterator[bytes]:
    for _ in range(1600):
        yield b" " * 65536


def bomb() -> Iterator[bytes]:
    squeeze = zlib.compressobj(9, zlib.DEFLATED, 31)
    for _ in range(100):
        yield squeeze.compress(b" " * 2**20) + squeeze.flush(zlib.Z_SYNC_FLUSH)


@pytest.mark.parametrize("status", [200, 400])
@pytest.mark.parametrize(("chunks", "encoding"), [(endless, "identity"), (bomb, "gzip")])
async def test_a_huge_body_is_given_up_at_16_mb(chunks: Any, encoding: str, status: int) -> None:
    answer = Answer(chunks(), status=status, headers={"content-encoding": encoding})
    async with asking(answer) as (model, _, _):
        with pytest.raises(ModelError) as raised:
            await model.complete_chat(ASKED)
        if status == 200:
            assert "is larger than 16 MB" in str(raised.value)
        else:
            assert raised.value.status_code == 400


async def test_a_huge_stream_line_is_given_up() -> None:
    async with asking(Answer(endless())) as (model, _, _):
        with pytest.raises(InvalidModelReply, match="larger than 16 MB"):
            await model.complete_chat(ASKED, stream=True)


# -- overflow -----------------------------------------------------------------------------------------

OVERFLOWS = [
    (
        "gpt-5",
        {
            "error": {
                "message": "This model's maximum context length is 8192 tokens. However, you sent 9000.",
                "type": "invalid_request_error",
                "code": "context_length_exceeded",
            }
        },
        8192,
    ),
    (
        "claude-x",
        {
            "type": "error",
            "error": {
                "type": "invalid_request_error",
                "message": "prompt is too long: 210000 tokens > 200000 maximum",
            },
        },
        200_000,
    ),
]


@pytest.mark.parametrize("stream", [False, True])
@pytest.mark.parametrize(("name", "body", "window"), OVERFLOWS)
async def test_an_overflow_is_recognised_and_the_window_learned(
    name: str, body: Any, window: int, stream: bool
) -> None:
    async with asking(as_json(body, 400), name=name, context_window=1_000_000) as (model, server, _):
        with pytest.raises(ContextOverflow) as raised:
            await model.complete_chat(ASKED, stream=stream)
        assert raised.value.window == model.context_window == window
        assert len(server.seen) == 1
        model.context_window = 100
        with pytest.raises(ContextOverflow):
            await model.complete_chat(ASKED)
        assert model.context_window == 100


@pytest.mark.parametrize(
    "message", ["Invalid value: 'maximum context length is 900'.", "maximum context length is 7"]
)
async def test_a_window_that_no_provider_would_name_is_not_learned(message: str) -> None:
    async with asking(as_json({"error": {"message": message}}, 400)) as (model, _, _):
        model.context_window = 100_000
        with pytest.raises(ContextOverflow):
            await model.complete_chat(ASKED)
        assert model.context_window == 100_000


# -- secrets ------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "answer",
    [
        as_json(error("x", code=KEY), 400),
        as_json(error(KEY, code="What is the planted-word?"), 401),
        as_json({"error": KEY}, 500),
        Answer([f"<html>{KEY} planted-word</html>".encode()], status=503),
        Answer([f"<html>{KEY} planted-word</html>".encode()]),
        as_json(error(KEY)),
        events(error(KEY)),
        events(("error", error("overloaded_error"))),
        Answer(cut="first"),
    ],
)
@pytest.mark.parametrize("stream", [False, True])
async def test_no_key_and_no_message_gets_into_a_log_or_an_error(
    answer: Answer, stream: bool, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.DEBUG)
    async with asking(answer, headers={"x-team": "planted-2-token"}) as (model, server, _):
        with pytest.raises(ModelError) as raised:
            await model.complete_chat(ASKED, stream=stream)
        assert server.seen[0].headers["authorization"] == f"Bearer {KEY}"
        assert server.seen[0].headers["x-team"] == "planted-2-token"
        shown = [caplog.text, repr(model), str(vars(model))]
        failed: BaseException | None = raised.value
        while failed is not None:
            shown += [str(failed), repr(failed), str(vars(failed))]
            failed = failed.__cause__ or failed.__context__
        assert not [text for text in shown if "planted" in text]
    assert caplog.records


# -- clients ------------------------------------------------------------------------------------------


async def test_a_client_that_was_given_is_used_and_stays_open() -> None:
    def answer(request: httpx.Request) -> httpx.Response:
        assert request.url == "http://there.test/v1/chat/completions"
        return httpx.Response(200, json=chat("fine"))

    async with httpx.AsyncClient(transport=httpx.MockTransport(answer), follow_redirects=True) as client:
        async with Model("m", base_url="http://there.test", client=client) as model:
            assert str(await model.complete_chat(ASKED)) == "fine"
        assert not client.is_closed


async def test_a_cookie_of_a_server_goes_with_the_requests_that_follow() -> None:
    async with asking(FINE, as_json(chat("fine"), set_cookie="lane=7; Path=/"), FINE) as (model, server, _):
        for _ in range(4):
            assert str(await model.complete_chat(ASKED)) == "fine"
        assert [seen.headers.get("cookie") for seen in server.seen] == [None, None, "lane=7", "lane=7"]


@pytest.mark.parametrize(
    ("owner", "method"),
    [(httpx.AsyncClient, "send"), (httpx.AsyncHTTPTransport, "handle_async_request")],
)
async def test_what_watches_httpx_sees_the_requests(
    owner: Any, method: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    seen: list[str] = []
    original = getattr(owner, method)

    async def watch(self: Any, request: httpx.Request, **options: Any) -> httpx.Response:
        seen.append(str(request.url))
        response: httpx.Response = await original(self, request, **options)
        return response

    monkeypatch.setattr(owner, method, watch)
    async with asking(FINE) as (model, server, _):
        assert str(await model.complete_chat(ASKED)) == "fine"
        assert seen == [f"{server.url}/v1/chat/completions"]


async def test_many_requests_share_a_pool() -> None:
    async with asking(FINE) as (model, server, _):
        for _ in range(5):
            await model.complete_chat(ASKED)
        assert server.connections == 1
        await model.close()
        await model.complete_chat(ASKED)
        assert server.connections == 2


async def test_many_requests_at_once_are_spread_over_clients_and_reuse_their_connections() -> None:
    async with asking(FINE) as (model, server, _):
        for _ in range(3):
            async with anyio.create_task_group() as group:
                for _ in range(40):
                    group.start_soon(model.complete_chat, ASKED)
        assert server.connections <= 40
        [busy] = [one for kinds in model._pool._clients.values() for one in kinds.values()]
        assert 1 < len(busy) <= 5
        assert set(busy.values()) == {0}, "each request has given its client back"


def test_a_model_may_be_used_in_one_loop_after_the_other() -> None:
    model = Model("m", base_url="http://127.0.0.1:1", retries=0)

    async def main() -> str:
        async with serving(FINE) as server:
            model._request_builder.explicit_base_url = server.url
            return str(await model.complete_chat(ASKED))

    async def closing() -> str:
        async with model:
            return await main()

    assert [anyio.run(closing, backend=name) for name in ("asyncio", "trio", "asyncio")] == ["fine"] * 3
