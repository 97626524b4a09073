"""Who is let in: tokens, foreign names and foreign pages; and what never gets into a log."""

from __future__ import annotations

import logging
from typing import Any

import anyio
import httpx
import pytest
from server.serving import ASK, Served, error_of, served

from autonomy_ctx.server import http
from autonomy_ctx.server.common.auth import AccessPolicy
from autonomy_ctx.testing import ScriptedModel
from autonomy_ctx.validation import is_loopback

TOKEN = "a-token-of-the-node-7319"
ROUTES = [("GET", "/agents"), ("POST", ASK), ("GET", f"{ASK}/history"), ("GET", "/metrics"), ("GET", "/none")]


async def asked(here: Served, method: str, path: str, headers: dict[str, str]) -> httpx.Response:
    body: dict[str, Any] = {"json": {"message": "hello"}} if method == "POST" else {}
    return await here.client.request(method, path, headers=headers, **body)


# -- tokens --------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "header",
    [
        None,
        "",
        "Bearer",
        f"Bearer {TOKEN}x",
        f"Bearer {TOKEN[:-1]}",
        f"Bearer {TOKEN.upper()}",
        f"Basic {TOKEN}",
        TOKEN,
        f"Bearer {TOKEN} {TOKEN}",
        "Bearer é",
    ],
)
async def test_without_the_token_every_route_but_health_is_closed(header: str | None) -> None:
    model = ScriptedModel("hi")
    async with served(model, token=TOKEN) as here:
        headers: Any = {} if header is None else {"authorization": header.encode()}
        for method, path in ROUTES:
            refused = await asked(here, method, path, headers)
            assert error_of(refused) == (401, "Unauthorized"), path
            assert refused.headers["www-authenticate"] == "Bearer"
        assert (await here.client.get("/health", headers=headers)).status_code == 200
        assert not model.calls


@pytest.mark.parametrize("scheme", ["Bearer", "bearer"])
async def test_with_the_token_every_route_is_open(scheme: str) -> None:
    async with served(ScriptedModel("hi"), token=TOKEN) as here:
        got = [
            (await asked(here, *route, {"authorization": f"{scheme} {TOKEN}"})).status_code
            for route in ROUTES
        ]
        assert got == [200, 200, 200, 200, 404]


async def test_two_tokens_in_one_request_are_none() -> None:
    async with served(ScriptedModel(), token=TOKEN) as here:
        twice = [("authorization", f"Bearer {TOKEN}"), ("authorization", "Bearer guess")]
        assert (await here.client.get("/agents", headers=twice)).status_code == 401


@pytest.mark.parametrize(
    "host", ["0.0.0.0", "::", "", "192.0.2.7", "agents.example", "localhost.example", "8.8.8.8"]
)
def test_a_host_that_others_can_reach_needs_a_token(host: str) -> None:
    with pytest.raises(ValueError, match=r"give a `token` .* or listen on 127\.0\.0\.1"):
        http(host=host)
    http(host=host, token=TOKEN)


@pytest.mark.parametrize("token", ["", " ", "two words", "tab\there", "line\n", "schlüssel", b"bytes", 5])
def test_a_token_that_no_header_can_carry_is_refused_and_not_shown(token: Any) -> None:
    with pytest.raises(ValueError, match="visible ASCII") as refused:
        http(token=token)
    assert not str(token).strip() or str(token) not in str(refused.value)


async def test_all_addresses_are_served_with_a_token_whatever_the_name() -> None:
    serving = http(host="0.0.0.0", port=0, token=TOKEN)
    async with served(ScriptedModel("hi")) as here, serving(here.node):
        assert serving.url == f"http://0.0.0.0:{serving.port}"
        named = {"host": "agents.example", "authorization": f"Bearer {TOKEN}"}
        async with httpx.AsyncClient(trust_env=False, verify=False) as client:
            url = f"http://127.0.0.1:{serving.port}/agents"
            assert (await client.get(url, headers=named)).status_code == 200
            assert (await client.get(url)).status_code == 401
            foreign = await client.get(url, headers={**named, "origin": "https://evil.example"})
            assert error_of(foreign) == (403, "Forbidden")


# -- web pages -----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("host", "in_"),
    [
        ("localhost", True),
        ("LOCALHOST:8000", True),
        ("127.0.0.1:1", True),
        ("127.9.9.9", True),
        ("[::1]:8000", True),
        ("evil.example", False),
        ("evil.example:8000", False),
        ("localhost.evil.example", False),
        ("127.0.0.1.evil.example", False),
        ("10.0.0.1", False),
        ("0.0.0.0", False),
        ("[::2]", False),
        ("[::1].evil.example", False),
        ("[::1]evil.example:80", False),
        ("localhost:80@evil.example", False),
        ("localhost:", False),
        ("localhost:80:80", False),
        ("localhost/evil.example", False),
        ("::1", False),
    ],
)
async def test_on_loopback_the_host_must_be_a_loopback_name(host: str, in_: bool) -> None:
    async with served(ScriptedModel("hi")) as here:
        for method, path in [*ROUTES[:4], ("GET", "/health")]:
            answer = await asked(here, method, path, {"host": host})
            assert answer.status_code == 200 if in_ else error_of(answer) == (403, "Forbidden")


async def test_on_loopback_a_request_without_a_host_is_refused() -> None:
    async with (
        served(ScriptedModel()) as here,
        await anyio.connect_tcp("127.0.0.1", here.serving.port) as stream,
    ):
        await stream.send(b"GET /agents HTTP/1.0\r\n\r\n")
        assert (await stream.receive()).startswith(b"HTTP/1.1 403 ")


@pytest.mark.parametrize(
    "origin",
    [
        "https://evil.example",
        "null",
        "http://localhost:3000",
        "http://127.0.0.1",
        "file://",
        "",
        "http://localhost@evil",
    ],
)
async def test_a_page_of_another_site_is_refused(origin: str) -> None:
    model = ScriptedModel("hi")
    async with served(model) as here:
        for method, path in [*ROUTES, ("GET", "/health"), ("OPTIONS", ASK)]:
            answer = await asked(here, method, path, {"origin": origin})
            assert error_of(answer) == (403, "Forbidden")
            assert not [name for name in answer.headers if name.startswith("access-control-")]
        own = await here.client.post(ASK, json={"message": "hello"}, headers={"origin": here.serving.url})
        assert own.status_code == 200
        assert len(model.calls) == 1


@pytest.mark.parametrize(
    "kind",
    [
        "application/x-www-form-urlencoded",
        "multipart/form-data; boundary=a",
        "text/plain",
        "application/jsonp",
        None,
    ],
)
async def test_a_post_that_a_form_could_send_is_refused(kind: str | None) -> None:
    model = ScriptedModel("hi")
    async with served(model) as here:
        headers = {} if kind is None else {"content-type": kind}
        answer = await here.client.post(ASK, content=b'{"message": "hello"}', headers=headers)
        assert error_of(answer) == (415, "UnsupportedMediaType")
        assert not model.calls


async def test_json_with_a_charset_is_json_and_a_compressed_body_is_not() -> None:
    async with served(ScriptedModel("hi")) as here:
        kind = {"content-type": "Application/JSON; charset=utf-8"}
        plain = await here.client.post(ASK, content=b'{"message": "hello"}', headers=kind)
        assert plain.status_code == 200
        packed = await here.client.post(ASK, content=b"x", headers={**kind, "content-encoding": "gzip"})
        assert error_of(packed) == (415, "UnsupportedMediaType")


def test_names_of_this_machine_are_told_from_others() -> None:
    assert all(map(is_loopback, ["localhost", "127.0.0.1", "127.1.2.3", "::1"]))
    assert not any(map(is_loopback, ["", "0.0.0.0", "::", "localhost.", "127.1", "2130706433", "example"]))


# -- what is not shown ---------------------------------------------------------------------------


async def test_no_token_header_or_message_is_ever_logged_or_shown(caplog: pytest.LogCaptureFixture) -> None:
    # As low as it goes: there uvicorn would log headers.
    caplog.set_level(1)
    logging.getLogger("uvicorn.access").setLevel(1)
    said, failed = "the-code-of-the-safe-5512", "planted-in-an-error-9920"
    model = ScriptedModel(["hi", RuntimeError(f"{failed} {said}"), ValueError(failed), KeyError(failed)])
    headers = {"authorization": f"Bearer {TOKEN}", "x-secret": "in-a-header-4471"}
    serving_options: dict[str, Any] = {"token": TOKEN, "grace_seconds": 0.0}
    async with served(model, **serving_options) as here:
        shown = [repr(here.serving), repr(here.node)]
        for stream in (False, True, False, True):
            body = {"message": said, "scope": said, "stream": stream}
            answer = await here.client.post(ASK, json=body, headers=headers)
            if answer.status_code == 500:
                assert error_of(answer) == (500, "InternalError")
            if len(model.calls) > 1:
                shown.append(answer.text)
        for path in ("/agents", "/metrics", "/none", f"/agents/{said}/none"):
            shown.append((await here.client.get(path, headers=headers)).text)
        wrong = {"authorization": f"Bearer {said}"}
        shown.append((await here.client.get(f"{ASK}/history?scope={said}", headers=wrong)).text)
    logged = [one for one in caplog.records if one.name.partition(".")[0] not in ("httpx", "httpcore")]
    shown += [logging.Formatter().format(one) for one in logged]
    for secret in (TOKEN, said, failed, "in-a-header-4471"):
        assert not [text for text in shown if secret in text]
    ours = [one.getMessage() for one in logged if one.name == "autonomy_ctx.server"]
    assert [line.split()[3] for line in ours] == ["RuntimeError", "ValueError", "KeyError"]
    assert all("testing/models.py" in line for line in ours), "the log says where it happened"


def test_a_guard_does_not_show_its_token() -> None:
    assert TOKEN not in repr(AccessPolicy(loopback=True, token=TOKEN))
    assert TOKEN not in repr(http(token=TOKEN))
