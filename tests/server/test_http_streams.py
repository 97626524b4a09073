"""Server-sent events: pieces before the end, every kind of event, and clients that leave or do not read."""

from __future__ import annotations

from typing import Any

import anyio
import httpx
import pytest
from hypothesis import given
from hypothesis import strategies as st
from server.serving import ASK, Hanging, Piecewise, events_of, served

from autonomy_ctx import Model, ToolCall, tool
from autonomy_ctx.formats.base import CallStarted, ModelReply, ReplyFinished, TextDelta, ThinkingDelta
from autonomy_ctx.messages.message import TextContent
from autonomy_ctx.server.common.events import encode_frame
from autonomy_ctx.testing import HeldModel, ScriptedModel

STREAM = {"message": "hello", "stream": True}


def finished(text: str, *calls: ToolCall) -> ReplyFinished:
    return ReplyFinished(ModelReply(parts=(TextContent(text),) if text else (), tool_calls=calls, stop="end"))


async def test_a_piece_arrives_while_the_model_is_still_speaking() -> None:
    more = anyio.Event()
    model = Piecewise([TextDelta("Hel"), more, TextDelta("lo"), finished("Hello")])
    async with served(model) as here, here.client.stream("POST", ASK, json=STREAM) as response:
        assert response.headers["content-type"] == "text/event-stream"
        assert response.headers["cache-control"] == "no-store"
        events = events_of(response)
        first = await anext(events)
        assert (first.event, first.data) == ("text", {"text": "Hel"})
        assert (await here.agent.history())[-1]["role"] == "user", "the answer is not over"
        more.set()
        rest = [one async for one in events]
        assert [one.event for one in rest] == ["text", "done"]
        assert set(rest[-1].data) == {"text", "turn", "number", "stop", "question", "steps", "usage"}
        assert rest[-1].data["text"] == "Hello"


async def test_thinking_calls_and_results_are_told_in_order() -> None:
    @tool
    async def ferry(port: str) -> str:
        """When the ferry leaves.

        Args:
            port: From where.
        """
        return f"From {port} at 9:40"

    call = ToolCall("c1", "ferry", '{"port": "Porto"}')
    model = Piecewise(
        [ThinkingDelta("Hm."), CallStarted("c1", "ferry"), finished("", call)],
        [TextDelta("9:40."), finished("9:40.")],
    )
    async with (
        served(model, tools=[ferry]) as here,
        here.client.stream("POST", ASK, json=STREAM) as response,
    ):
        told = [(one.event, one.data) async for one in events_of(response)]
    *pieces, (last, done) = told
    assert pieces == [
        ("thinking", {"text": "Hm."}),
        ("call", {"id": "c1", "name": "ferry"}),
        (
            "result",
            {
                "id": "c1",
                "name": "ferry",
                "arguments": '{"port": "Porto"}',
                "text": "From Porto at 9:40",
                "is_error": False,
            },
        ),
        ("text", {"text": "9:40."}),
    ]
    assert (last, done["steps"]) == ("done", 2)


async def test_a_stream_says_the_same_as_the_whole_answer() -> None:
    async with served(Model("offline")) as here:
        await here.client.post(ASK, json={"message": "The ferry leaves at 9:40."})
        whole = (await here.client.post(ASK, json={"message": "When is it?", "message_id": "q"})).json()
        async with here.client.stream(
            "POST", ASK, json={"message": "When is it?", "message_id": "q", "stream": True}
        ) as response:
            *pieces, done = [one async for one in events_of(response)]
        assert "".join(one.data["text"] for one in pieces) == done.data["text"]
        assert set(done.data) == set(whole)


async def test_while_there_is_nothing_to_say_comments_keep_the_connection_open() -> None:
    model = HeldModel()
    async with (
        served(model, keep_alive_seconds=0.01) as here,
        here.client.stream("POST", ASK, json=STREAM) as response,
    ):
        events = events_of(response)
        assert [(await anext(events)).event for _ in range(3)] == ["comment"] * 3
        (await model.wait_for_call()).answer("Here I am.")
        told = [one.event async for one in events]
    assert [event for event in told if event != "comment"] == ["text", "done"]


async def test_an_error_in_the_middle_is_the_last_event() -> None:
    class Breaking(Piecewise):
        async def _told(self, events: Any) -> Any:
            yield TextDelta("Hel")
            raise RuntimeError("secret-of-the-model")

    async with served(Breaking([])) as here, here.client.stream("POST", ASK, json=STREAM) as response:
        told = [one async for one in events_of(response)]
    assert [one.event for one in told] == ["text", "error"]
    assert told[-1].data["error"]["type"] == "InternalError"
    assert "secret" not in str(told)


async def test_what_is_wrong_before_the_turn_is_an_ordinary_error() -> None:
    async with served(ScriptedModel()) as here:
        refused = await here.client.post(ASK, json={**STREAM, "scope": "\0"})
        assert refused.status_code == 400
        assert refused.headers["content-type"] == "application/json"


@pytest.mark.parametrize("stream", [True, False])
async def test_a_client_that_hangs_up_ends_the_turn_and_its_message_is_kept(stream: bool) -> None:
    model = Hanging()
    async with served(model, grace_seconds=0.0) as here:
        async with anyio.create_task_group() as group:
            group.start_soon(lambda: here.client.post(ASK, json={**STREAM, "stream": stream}))
            await model.asked.wait()
            group.cancel_scope.cancel()
        with anyio.fail_after(10):
            await model.left.wait()
        assert [one["content"] for one in await here.agent.history()] == ["hello"]


@pytest.mark.parametrize("stream", [True, False])
async def test_after_a_client_hung_up_the_conversation_goes_on(stream: bool) -> None:
    model = HeldModel()
    async with served(model) as here:
        impatient = httpx.AsyncClient(base_url=here.serving.url, trust_env=False, verify=False)
        async with anyio.create_task_group() as group:
            group.start_soon(
                lambda: impatient.post(ASK, json={**STREAM, "stream": stream, "message_id": "m1"})
            )
            await model.wait_for_call()
            group.cancel_scope.cancel()
        await impatient.aclose()
        with anyio.fail_after(10):
            async with anyio.create_task_group() as group:
                again: list[httpx.Response] = []

                async def ask() -> None:
                    again.append(await here.client.post(ASK, json={"message": "hello", "message_id": "m1"}))

                group.start_soon(ask)
                (await model.wait_for_call(2)).answer("Welcome back.")
        assert again[0].json()["text"] == "Welcome back."
        assert [one["role"] for one in await here.agent.history()] == ["user", "assistant"]


async def test_a_client_that_does_not_read_does_not_keep_the_node_from_closing() -> None:
    piece = TextDelta("a" * 100_000)
    model = Piecewise([*[piece] * 300, anyio.Event()])
    async with served(model, grace_seconds=0.0) as here:
        stream = await anyio.connect_tcp("127.0.0.1", here.serving.port)
        body = b'{"message": "hello", "stream": true}'
        await stream.send(
            b"POST /agents/assistant HTTP/1.1\r\nhost: localhost\r\ncontent-type: application/json\r\n"
            b"content-length: %d\r\n\r\n%b" % (len(body), body)
        )
        assert await stream.receive(100)
        with anyio.fail_after(5):
            await here.node.close()
        await stream.aclose()


@given(st.dictionaries(st.text(), st.text(alphabet=st.characters(exclude_categories=()))))
def test_an_event_is_three_lines_whatever_it_says(data: dict[str, str]) -> None:
    written = encode_frame("text", data)
    assert written.endswith(b"\n\n")
    assert written.count(b"\n") == 3
    assert b"\r" not in written
