"""Models over TLS: certificates are read once, beside the event loop, and what fails says where and why."""

from __future__ import annotations

import os
import threading
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager, suppress
from pathlib import Path
from typing import Any

import anyio
import httpx
import pytest
from anyio.abc import SocketAttribute, SocketStream
from models.model_server import AUTHORITY, Answer, as_json, chat, serving

from autonomy_ctx import Agent, Memory, Model, ModelError
from autonomy_ctx.errors import ModelUnavailable
from autonomy_ctx.knowledge import HttpEmbedder
from autonomy_ctx.models.client import tls_contexts

ASKED = [{"role": "user", "content": "hello"}]
FINE = as_json(chat("fine"))
RESCUE_SECONDS = 20.0


@pytest.fixture
def pipe(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """Certificates that can be read once, when a writer is there; until then the reader is held.

    A reader that holds the whole test is let go after a while.
    """
    path = tmp_path / "certificates.pem"
    os.mkfifo(path)
    monkeypatch.setenv("SSL_CERT_FILE", str(path))
    rescue = threading.Timer(RESCUE_SECONDS, lambda: path.write_bytes(AUTHORITY.read_bytes()))
    rescue.daemon = True
    rescue.start()
    yield path
    rescue.cancel()
    # No reader is left behind: the interpreter would wait for its thread.
    with suppress(OSError):
        os.close(os.open(path, os.O_WRONLY | os.O_NONBLOCK))


async def feed(pipe: Path, first: Callable[[], None] = lambda: None) -> None:
    """Write the certificates as soon as somebody reads; only a loop that is free gets here."""
    while True:
        try:
            writer = os.open(pipe, os.O_WRONLY | os.O_NONBLOCK)
            break
        except OSError:
            await anyio.lowlevel.checkpoint()
    first()
    os.write(writer, AUTHORITY.read_bytes())
    os.close(writer)


async def test_the_loop_is_free_while_certificates_are_read_and_they_are_read_once(pipe: Path) -> None:
    vector = as_json({"data": [{"index": 0, "embedding": [1.0]}]})
    async with serving(FINE, FINE, FINE, FINE, FINE, vector, tls=True) as server:
        with anyio.fail_after(RESCUE_SECONDS / 2):
            async with Model("m", base_url=server.url) as model, anyio.create_task_group() as group:
                group.start_soon(feed, pipe)
                for _ in range(4):
                    group.start_soon(model.complete_chat, ASKED)
            # The pipe gives its certificates only once: whoever reads it again waits for ever.
            async with Model("other", base_url=server.url) as model:
                assert str(await model.complete_chat(ASKED)) == "fine"
            async with HttpEmbedder("embed", base_url=server.url) as embedder:
                assert await embedder.embed(["a"]) == [[1.0]]
    assert len(server.seen) == 6


async def test_a_caller_that_is_cancelled_leaves_the_certificates_to_the_next(pipe: Path) -> None:
    async with serving(FINE, tls=True) as server, Model("m", base_url=server.url) as model:
        with anyio.fail_after(RESCUE_SECONDS / 2):
            async with anyio.create_task_group() as group:
                group.start_soon(model.complete_chat, ASKED)
                await feed(pipe, group.cancel_scope.cancel)
            while tls_contexts._find(certificates=True) is None:
                await anyio.lowlevel.checkpoint()
            assert str(await model.complete_chat(ASKED)) == "fine"


async def test_http_needs_no_certificates(pipe: Path) -> None:
    async with serving(FINE) as server, Model("m", base_url=server.url) as model:
        with anyio.fail_after(RESCUE_SECONDS / 2):
            assert str(await model.complete_chat(ASKED)) == "fine"


async def test_a_model_may_be_asked_over_http_and_over_tls(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SSL_CERT_FILE", str(AUTHORITY))
    async with serving(FINE) as plain, serving(FINE, tls=True) as secure, Model("gpt-5") as model:
        for server in (plain, secure, plain):
            monkeypatch.setenv("OPENAI_BASE_URL", server.url)
            assert str(await model.complete_chat(ASKED)) == "fine"
        assert (len(plain.seen), plain.connections, len(secure.seen)) == (2, 1, 1)


@pytest.mark.parametrize("there", [False, True])
async def test_certificates_that_cannot_be_read_are_said(
    there: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "none.pem"
    if there:
        path.write_text("no certificate")
    monkeypatch.setenv("SSL_CERT_FILE", str(path))
    async with serving(FINE, tls=True) as server, Model("m", base_url=server.url) as model:
        with pytest.raises(ModelError, match=r"that SSL_CERT_FILE .* cannot be read") as raised:
            await model.complete_chat(ASKED)
        assert str(raised.value).endswith("correct or unset the variable")


# -- unreachable models -------------------------------------------------------------------------------


@asynccontextmanager
async def nobody() -> AsyncIterator[str]:
    async with serving() as server:
        pass
    yield server.url


@asynccontextmanager
async def no_name() -> AsyncIterator[str]:
    # Reserved: no resolver knows it.
    yield "http://no-such-host.invalid:8000"


@asynccontextmanager
async def unknown_authority() -> AsyncIterator[str]:
    async with serving(FINE, tls=True) as server:
        yield server.url


@asynccontextmanager
async def no_tls() -> AsyncIterator[str]:
    async def answer(stream: SocketStream) -> None:
        async with stream:
            await stream.send(b"HTTP/1.1 400 Bad Request\r\n\r\n")

    async with (
        await anyio.create_tcp_listener(local_host="127.0.0.1") as listener,
        anyio.create_task_group() as group,
    ):
        group.start_soon(listener.serve, answer)
        yield f"https://127.0.0.1:{listener.extra(SocketAttribute.local_port)}"
        group.cancel_scope.cancel()


@asynccontextmanager
async def closing() -> AsyncIterator[str]:
    async with serving(Answer(cut="first")) as server:
        yield server.url


@pytest.mark.parametrize("stream", [False, True])
@pytest.mark.parametrize(
    ("place", "reason", "problem"),
    [
        (nobody, "refused", "{host} refused the connection"),
        (no_name, "dns", "no address was found for {host} (DNS)"),
        (unknown_authority, "tls", "the certificate of {host} was not accepted (unable to get local issuer"),
        (no_tls, "tls", "TLS with {host} failed ("),
        (closing, "closed", "{host} closed the connection"),
    ],
)
async def test_a_model_that_cannot_be_reached_says_where_and_why(
    place: Callable[[], Any], reason: str, problem: str, stream: bool
) -> None:
    async with place() as url, Model("m", base_url=url, api_key="sk-planted", retries=0) as model:
        with pytest.raises(ModelUnavailable) as raised:
            await model.complete_chat(ASKED, stream=stream)
    host = url.partition("://")[2]
    assert f"could not be reached: {problem.format(host=host)}" in str(raised.value)
    assert (raised.value.host, raised.value.reason) == (host, reason)
    assert raised.value.__cause__ is raised.value.__context__ is None
    assert "planted" not in f"{raised.value!r} {vars(raised.value)}"


@pytest.mark.parametrize(
    ("error", "reason", "problem"),
    [
        (httpx.ConnectTimeout(""), "timeout", "model.test did not accept a connection in time"),
        (httpx.ProxyError("planted"), "proxy", "the proxy on the way to model.test refused"),
        (httpx.UnsupportedProtocol("planted"), "other", "the connection to model.test failed (Unsupp"),
    ],
)
async def test_other_reasons_are_named_without_the_clients_own_words(
    error: Exception, reason: str, problem: str
) -> None:
    def refuse(request: httpx.Request) -> httpx.Response:
        raise error

    async with httpx.AsyncClient(transport=httpx.MockTransport(refuse)) as client:
        model = Model("m", base_url="http://model.test/v1", client=client, retries=0)
        with pytest.raises(ModelUnavailable) as raised:
            await model.complete_chat(ASKED)
    assert problem in str(raised.value)
    assert raised.value.reason == reason
    assert "planted" not in str(raised.value)


async def test_an_agent_says_which_host_refused() -> None:
    async with nobody() as url, Memory() as memory:
        model = Model("m", base_url=url, retries=0)
        async with model, Agent("a", instructions="Help.", model=model, memory=memory) as agent:
            with pytest.raises(ModelUnavailable, match=r"127\.0\.0\.1:[0-9]+ refused the connection"):
                await agent.send("hello")
