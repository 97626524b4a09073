"""Connections to upstream: kept between requests, never used when they are over, and secure where asked."""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from pathlib import Path

import anyio
import pytest
from anyio.abc import SocketAttribute, SocketStream
from models.model_server import AUTHORITY, as_json, chat, serving

from autonomy_ctx.server.endpoint.upstream import Upstream, UpstreamFailure

FINE = as_json(chat("fine"))
PATH = "/chat/completions"


@asynccontextmanager
async def upstream_at(url: str) -> AsyncIterator[Upstream]:
    """An upstream that is closed at the end."""
    upstream = Upstream(f"{url}/v1")
    try:
        yield upstream
    finally:
        await upstream.close()


@asynccontextmanager
async def answering(answer: Callable[[SocketStream], Awaitable[None]]) -> AsyncIterator[Upstream]:
    """An upstream whose server does with a connection what it is told."""
    async with (
        await anyio.create_tcp_listener(local_host="127.0.0.1") as listener,
        anyio.create_task_group() as group,
    ):
        group.start_soon(listener.serve, answer)
        async with upstream_at(f"http://127.0.0.1:{listener.extra(SocketAttribute.local_port)}") as upstream:
            yield upstream
        group.cancel_scope.cancel()


async def ask(upstream: Upstream, content: bytes | AsyncIterator[bytes] = b"{}") -> bytes:
    async with upstream.send("POST", PATH, {"x-own": "1"}, content) as response:
        assert response.status == 200
        return await response.read_all()


async def test_requests_one_after_the_other_share_a_connection() -> None:
    async with serving(FINE) as server, upstream_at(server.url) as upstream:
        for _ in range(5):
            assert b"fine" in await ask(upstream)
        assert server.connections == 1
        assert server.seen[0].path == "/v1/chat/completions"
        assert server.seen[0].headers["host"] == server.url.removeprefix("http://")
        await upstream.close()
        await ask(upstream)
        assert server.connections == 2


async def test_requests_at_once_have_connections_of_their_own_which_are_used_again() -> None:
    async with serving(FINE) as server, upstream_at(server.url) as upstream:
        for _ in range(3):
            async with anyio.create_task_group() as group:
                for _ in range(20):
                    group.start_soon(ask, upstream)
        assert server.connections <= 20
        await upstream.close()


async def test_a_connection_that_the_server_has_closed_is_not_used_again() -> None:
    closed = anyio.Event()

    async def answer(stream: SocketStream) -> None:
        async with stream:
            await stream.receive()
            await stream.send(b"HTTP/1.1 200 OK\r\ncontent-length: 4\r\n\r\nfine")
        closed.set()

    async with answering(answer) as upstream:
        for _ in range(3):
            closed = anyio.Event()
            assert await ask(upstream) == b"fine"
            await closed.wait()


@pytest.mark.parametrize("begun", [False, True])
async def test_an_answer_that_nobody_waits_for_takes_its_connection_with_it(begun: bool) -> None:
    arrived, gone = anyio.Event(), anyio.Event()

    async def answer(stream: SocketStream) -> None:
        async with stream:
            await stream.receive()
            if arrived.is_set():
                await stream.send(b"HTTP/1.1 200 OK\r\ncontent-length: 4\r\n\r\nfine")
                return
            arrived.set()
            if begun:
                await stream.send(b"HTTP/1.1 200 OK\r\ncontent-length: 100\r\n\r\nfine")
            with pytest.raises(anyio.EndOfStream):
                await stream.receive()
            gone.set()

    async def leave(upstream: Upstream) -> None:
        async with upstream.send("POST", PATH, {}, b"{}") as response:
            assert await response.read_chunk() == b"fine"

    async with answering(answer) as upstream:
        if begun:
            await leave(upstream)
        else:
            async with anyio.create_task_group() as group:
                group.start_soon(leave, upstream)
                await arrived.wait()
                group.cancel_scope.cancel()
        await gone.wait()
        assert await ask(upstream) == b"fine"


async def pieces() -> AsyncIterator[bytes]:
    yield b"{"
    yield b"}"


@pytest.mark.parametrize("length", [None, "2"])
async def test_the_length_of_a_body_is_said_once(length: str | None) -> None:
    sent: list[bytes] = []

    async def answer(stream: SocketStream) -> None:
        async with stream:
            while not sent or b"}" not in b"".join(sent):
                sent.append(await stream.receive())
            await stream.send(b"HTTP/1.1 200 OK\r\ncontent-length: 4\r\n\r\nfine")

    async with answering(answer) as upstream:
        headers = {} if length is None else {"content-length": length}
        async with upstream.send("POST", PATH, headers, pieces()) as response:
            assert await response.read_all() == b"fine"
        head = b"".join(sent).partition(b"\r\n\r\n")[0].lower()
        assert (b"content-length: 2" in head, b"transfer-encoding: chunked" in head) == (
            length is not None,
            length is None,
        )


async def test_tls_needs_a_certificate_of_an_authority_that_is_known(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SSL_CERT_FILE", str(AUTHORITY))
    async with serving(FINE, tls=True) as server, upstream_at(server.url) as upstream:
        for _ in range(2):
            assert b"fine" in await ask(upstream)
        assert server.connections == 1
        monkeypatch.delenv("SSL_CERT_FILE")
        with pytest.raises(UpstreamFailure, match=r"the certificate of 127\.0\.0\.1:\d+ was not accepted"):
            await ask(Upstream(f"{server.url}/v1"))


async def test_certificates_that_cannot_be_read_are_said(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SSL_CERT_FILE", str(tmp_path / "none.pem"))
    async with serving(FINE, tls=True) as server:
        with pytest.raises(UpstreamFailure, match="SSL_CERT_FILE or SSL_CERT_DIR name cannot be read"):
            await ask(Upstream(f"{server.url}/v1"))


async def test_a_proxy_that_the_environment_names_is_asked(monkeypatch: pytest.MonkeyPatch) -> None:
    async with serving(FINE) as proxy:
        monkeypatch.setenv("HTTP_PROXY", proxy.url)
        monkeypatch.delenv("NO_PROXY", raising=False)
        monkeypatch.delenv("no_proxy", raising=False)
        async with upstream_at("http://model.test") as upstream:
            assert b"fine" in await ask(upstream)
        assert proxy.seen[0].path == "http://model.test/v1/chat/completions"
