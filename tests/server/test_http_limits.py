"""A client that is slow, never reads, or comes too often takes its own share and no more."""

from __future__ import annotations

import json
import socket
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack
from typing import Any

import anyio
import httpx
import pytest
from hypothesis import given
from hypothesis import strategies as st
from server.serving import ASK, Served, client_of, error_of, events_of, served
from strategies import some

from autonomy_ctx import Agent, TextDelta
from autonomy_ctx.agents.reply import AgentStream
from autonomy_ctx.server import http
from autonomy_ctx.server.common.errors import YIELD_BYTES, encode_json, encode_large_json
from autonomy_ctx.server.common.limits import ServerLimits
from autonomy_ctx.testing import HeldModel, ScriptedModel

# Long enough that only a fault reaches it.
PATIENCE = 20.0
SOON = 0.05
PIECE = 100_000
HEAD = b"POST /agents/assistant HTTP/1.1\r\nhost: localhost\r\ncontent-type: application/json\r\n"


def set_limits(here: Served, **seconds: float) -> None:
    """Set limits from now on: what must arrive before them may take long on a busy machine."""
    for name, value in seconds.items():
        object.__setattr__(here.serving._limits, name, value)


async def connect(here: Served) -> anyio.abc.SocketStream:
    return await anyio.connect_tcp("127.0.0.1", here.serving.port)


async def all_of(stream: anyio.abc.SocketStream) -> bytes:
    """What the server says until it hangs up."""
    got = b""
    with anyio.fail_after(PATIENCE):
        try:
            while True:
                got += await stream.receive()
        except (anyio.EndOfStream, anyio.BrokenResourceError):
            return got


# -- slow senders ---------------------------------------------------------------------------------------


@pytest.mark.parametrize("sent", [b"", b"GET /health HTTP/1.1\r\nhost: loc"])
async def test_a_head_that_does_not_come_ends_the_connection(sent: bytes) -> None:
    async with served(ScriptedModel("hi"), header_seconds=SOON) as here, await connect(here) as stream:
        if sent:
            await stream.send(sent)
        got = await all_of(stream)
        assert got.startswith(b"HTTP/1.1 408 ")
        assert b'"type":"RequestTimeout"' in got


async def test_a_head_that_comes_byte_by_byte_has_no_more_time_than_another() -> None:
    async with served(ScriptedModel("hi"), header_seconds=0.3) as here, await connect(here) as stream:
        await stream.send(b"GET /health HTTP/1.1\r\nhost: localhost\r\nx: ")
        got = b""
        with anyio.fail_after(PATIENCE):
            while not got:
                await stream.send(b"a")
                with anyio.move_on_after(0.02):
                    got = await stream.receive()
        assert got.startswith(b"HTTP/1.1 408 ")


async def test_the_next_request_of_a_connection_has_the_same_time() -> None:
    async with served(ScriptedModel("hi")) as here, await connect(here) as stream:
        whole = b"GET /health HTTP/1.1\r\nhost: localhost\r\n\r\n"
        await stream.send(whole)
        assert (await stream.receive()).startswith(b"HTTP/1.1 200 ")
        set_limits(here, header_seconds=SOON)
        await stream.send(whole[:-2])
        assert b" 408 " in await all_of(stream)


async def test_a_turn_may_take_longer_than_a_head() -> None:
    model = HeldModel()
    async with (
        served(model, header_seconds=1.0, body_seconds=1.0, keep_alive_seconds=SOON) as here,
        here.client.stream("POST", ASK, json={"message": "a", "stream": True}) as response,
    ):
        events, longer = events_of(response), anyio.current_time() + 1.1
        while anyio.current_time() < longer:
            assert (await anext(events)).event == "comment"
        (await model.wait_for_call()).answer("Here I am.")
        assert [one.event async for one in events][-1] == "done"


async def test_a_body_that_does_not_come_ends_the_request_and_nothing_is_stored() -> None:
    model = ScriptedModel("hi")
    async with served(model, body_seconds=SOON) as here, await connect(here) as stream:
        await stream.send(HEAD + b'content-length: 30\r\n\r\n{"message": "hel')
        got = await all_of(stream)
        assert got.startswith(b"HTTP/1.1 408 ")
        assert b'"type":"RequestTimeout"' in got
        assert not model.calls
        assert (await here.node.get_metrics())["memory"]["messages_added"] == 0


# -- too many -------------------------------------------------------------------------------------------


async def test_more_connections_than_may_be_are_refused_until_one_ends() -> None:
    async with served(ScriptedModel("hi"), max_connections=2) as here:
        first, second = await connect(here), await connect(here)
        async with await connect(here) as third:
            got = await all_of(third)
        assert got.startswith(b"HTTP/1.1 503 ")
        assert b'"type":"TooManyConnections"' in got
        # Those that were there before are served all the same.
        await first.send(b"GET /agents HTTP/1.1\r\nhost: localhost\r\n\r\n")
        assert (await first.receive()).startswith(b"HTTP/1.1 200 ")
        await second.aclose()
        with anyio.fail_after(PATIENCE):
            while True:
                async with client_of(here.serving) as client:
                    try:
                        answer = await client.get("/agents")
                    except httpx.TransportError:
                        continue
                if answer.status_code == 200:
                    break
                assert error_of(answer) == (503, "TooManyConnections")
        await first.aclose()


def port_of(response: httpx.Response) -> int:
    """The client's port: it tells one connection from another."""
    return int(response.extensions["network_stream"].get_extra_info("client_addr")[1])


async def test_the_connection_that_was_idle_for_longest_makes_room_for_a_new_one() -> None:
    async with AsyncExitStack() as stack:
        here = await stack.enter_async_context(served(ScriptedModel("hi"), max_connections=3))
        first, second, third, fourth, fifth = [
            await stack.enter_async_context(client_of(here.serving)) for _ in range(5)
        ]
        ports = [port_of(await client.get("/health")) for client in (first, second, third)]
        # Now the second one was idle for longest.
        assert port_of(await first.get("/health")) == ports[0]
        news = await fourth.get("/health"), await fifth.get("/health")
        assert [one.status_code for one in news] == [200, 200]
        assert port_of(await first.get("/health")) == ports[0]
        # The other two were closed, and their clients knew it before they sent anything.
        for client, port in ((second, ports[1]), (third, ports[2])):
            answer = await client.get("/health")
            assert (answer.status_code, port_of(answer) == port) == (200, False)


async def test_new_connections_that_come_at_once_take_as_many_places_as_there_are() -> None:
    """They are accepted in one step of the event loop, before the first that was closed is gone."""
    async with AsyncExitStack() as stack:
        here = await stack.enter_async_context(served(ScriptedModel("hi"), max_connections=3))
        await stack.enter_async_context(await connect(here))
        for _ in range(2):
            idle = await stack.enter_async_context(client_of(here.serving))
            assert (await idle.get("/health")).status_code == 200
        # Nothing is accepted until this task waits.
        sockets = [socket.create_connection(("127.0.0.1", here.serving.port)) for _ in range(3)]
        streams = [await anyio.abc.SocketStream.from_socket(one) for one in sockets]
        for stream in streams:
            await stack.enter_async_context(stream)
        for stream in streams[:2]:
            await stream.send(b"GET /health HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\n\r\n")
        assert [(await all_of(stream)).split(b" ")[1] for stream in streams] == [b"200", b"200", b"503"]


async def test_a_connection_in_use_is_never_closed_for_a_new_one() -> None:
    model = HeldModel()
    async with served(model, max_connections=1) as here, client_of(here.serving) as other:
        answers: list[httpx.Response] = []

        async def ask() -> None:
            answers.append(await here.client.post(ASK, json={"message": "a"}))

        assert (await here.client.get("/health")).status_code == 200
        async with anyio.create_task_group() as group:
            group.start_soon(ask)
            call = await model.wait_for_call()
            assert error_of(await other.get("/health")) == (503, "TooManyConnections")
            call.answer("Here I am.")
        assert [one.status_code for one in answers] == [200]
        assert (await other.get("/health")).status_code == 200


# -- between two requests -------------------------------------------------------------------------------


@pytest.mark.parametrize(("idle", "other"), [(SOON, 2.0), (2.0, SOON)])
async def test_an_idle_connection_is_closed_after_its_own_time(idle: float, other: float) -> None:
    """Beside a connection that never sends a head: which of the two ends first tells the limits apart."""
    ended: list[str] = []

    async def note_end(name: str, stream: anyio.abc.SocketStream) -> None:
        await all_of(stream)
        ended.append(name)
        group.cancel_scope.cancel()

    async with (
        served(ScriptedModel("hi"), idle_seconds=idle) as here,
        await connect(here) as asking,
    ):
        await asking.send(b"GET /health HTTP/1.1\r\nhost: localhost\r\n\r\n")
        assert await asking.receive()
        set_limits(here, header_seconds=other)
        async with await connect(here) as silent, anyio.create_task_group() as group:
            group.start_soon(note_end, "idle", asking)
            group.start_soon(note_end, "silent", silent)
    assert ended == ["idle" if idle < other else "silent"]


def test_an_idle_connection_stays_longer_than_usual_clients_keep_it() -> None:
    """What the server closes first may be closed while a client sends its next request on it."""
    kept = {"httpx": httpx.Limits().keepalive_expiry, "AWS, nginx": 60.0, "Go": 90.0}
    assert all(seconds is not None and seconds < ServerLimits().idle_seconds for seconds in kept.values())


async def test_a_message_with_too_many_parts_is_refused() -> None:
    model = ScriptedModel("hi")
    async with served(model) as here:
        parts = [{"type": "text", "text": "a"}] * 1001
        refused = await here.client.post(ASK, json={"message": parts})
        assert error_of(refused) == (400, "BadRequest")
        assert "`message` has 1,001 parts; it may have 1,000" in refused.text
        assert not model.calls
        assert (await here.client.post(ASK, json={"message": parts[1:]})).status_code == 200


async def test_a_model_that_calls_without_end_ends_the_turn() -> None:
    calls = [{"id": f"c{number}", "name": "look", "arguments": {}} for number in range(300)]
    async with served(ScriptedModel([{"content": None, "tool_calls": calls}])) as here:
        refused = await here.client.post(ASK, json={"message": "a"})
        assert error_of(refused) == (502, "InvalidModelReply")


# -- clients that do not read ---------------------------------------------------------------------------


class Talking:
    """A model that streams far more than any buffer between it and a client holds, and counts it."""

    def __init__(self, pieces: int) -> None:
        self.pieces, self.streamed = pieces, 0
        self.left = anyio.Event()

    async def complete_chat(self, messages: Any, **options: Any) -> Any:
        return self._events()

    async def _events(self) -> AsyncIterator[TextDelta]:
        try:
            for _ in range(self.pieces):
                self.streamed += PIECE
                yield TextDelta("a" * PIECE)
                await anyio.lowlevel.checkpoint()
        finally:
            self.left.set()


class Streaming(Agent):
    """An agent whose streams a test can look into."""

    def __init__(self, *args: Any, **options: Any) -> None:
        super().__init__(*args, **options)
        self.streams: list[AgentStream] = []

    def stream(self, *args: Any, **options: Any) -> AgentStream:
        self.streams.append(super().stream(*args, **options))
        return self.streams[-1]


def stream_of(here: Served) -> AgentStream:
    assert isinstance(here.agent, Streaming)
    [only] = here.agent.streams
    return only


async def ask_and_never_read(here: Served) -> socket.socket:
    """A client with a small buffer that asks for a stream."""
    client = socket.socket()
    client.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
    client.setblocking(False)
    await anyio.to_thread.run_sync(_connect, client, here.serving.port)
    body = b'{"message": "hello", "stream": true}'
    client.send(HEAD + b"content-length: %d\r\n\r\n%b" % (len(body), body))
    return client


def _connect(client: socket.socket, port: int) -> None:
    client.settimeout(PATIENCE)
    client.connect(("127.0.0.1", port))


async def test_a_client_that_never_reads_stops_its_turn_and_is_dropped() -> None:
    """What is buffered for it, in the stream and in the connection, stays within bounds meanwhile."""
    model = Talking(5_000)
    limits: dict[str, Any] = {"write_seconds": 0.5, "max_buffered": 200_000}
    async with served(model, kind=Streaming, grace_seconds=0.0, **limits) as here:
        with await ask_and_never_read(here):
            with anyio.fail_after(PATIENCE):
                await model.left.wait()
            # What the system buffers of a connection is some megabytes; all would have been 500.
            assert model.streamed < 50_000_000
            assert stream_of(here).buffered <= 200_000 + PIECE + 1_000
            # The turn is gone, and others are served.
            assert (await here.client.get("/health")).status_code == 200
        assert [one["content"] for one in await here.agent.history()] == ["hello"]


async def test_a_client_that_reads_slowly_gets_everything() -> None:
    model = Talking(30)
    async with served(model, kind=Streaming, max_buffered=1) as here:
        most = 0
        async with here.client.stream("POST", ASK, json={"message": "a", "stream": True}) as response:
            size = 0
            async for one in events_of(response):
                most = max(most, stream_of(here).buffered)
                size += len(one.data["text"]) if one.event == "text" else 0
        assert (size, one.event) == (30 * PIECE, "done")
        assert most <= PIECE + 1_000


# -- the loop -------------------------------------------------------------------------------------------

json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(st.characters(exclude_categories=())),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3),
    max_leaves=8,
)


@some
@given(json_values, st.booleans())
def test_json_made_piece_by_piece_is_the_same(data: Any, large: bool) -> None:
    if large:
        data = {"text": 'a"\n\ud800' * YIELD_BYTES, "more": data, "list": [data] * 2}
    made = anyio.run(encode_large_json, data)
    if large:
        assert json.loads(made) == data
    assert made == encode_json(data)


async def test_other_tasks_get_their_turn_while_much_is_encoded() -> None:
    turns, done = 0, False

    async def count() -> None:
        nonlocal turns
        while not done:
            turns += 1
            await anyio.lowlevel.checkpoint()

    async with anyio.create_task_group() as group:
        group.start_soon(count)
        await encode_large_json({"messages": [{"content": "a" * YIELD_BYTES}] * 100})
        done = True
    assert turns >= 90


async def test_a_long_history_comes_whole() -> None:
    async with served(ScriptedModel("hi")) as here:
        for number in range(5):
            await here.agent.send(f"{number}" * 200_000)
        messages = (await here.client.get(f"{ASK}/history")).json()["messages"]
        assert [len(one["content"]) for one in messages if one["role"] == "user"] == [200_000] * 5
        assert (await here.client.get(f"{ASK}/history?scope=nobody")).json() == {"messages": []}


@pytest.mark.parametrize(
    "option",
    ["header_seconds", "body_seconds", "write_seconds", "idle_seconds", "max_connections", "max_buffered"],
)
def test_a_limit_that_is_none_is_refused(option: str) -> None:
    for wrong in (0, -1, "a", None):
        given: dict[str, Any] = {option: wrong}
        with pytest.raises((TypeError, ValueError), match=option):
            http(**given)
