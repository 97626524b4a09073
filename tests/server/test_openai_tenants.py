"""Who may use the endpoint, whose conversations they reach, and where keys go."""

from __future__ import annotations

import logging
from pathlib import Path
from typing import Any

import anyio
import httpx
import pytest
from fastapi import FastAPI
from models.model_server import Answer, as_json, chat, chat_events, events, serving
from models.provider_server import Fault
from models.provider_words import Responses, Say
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
from starlette.requests import Request

from autonomy_ctx import Memory
from autonomy_ctx.errors import AccessDenied
from autonomy_ctx.inspection import inspect_turn
from autonomy_ctx.server import EndpointTenant, endpoint_app

SERVICE_KEY = "sk-of-the-service"
ANA, BOB = {"authorization": "Bearer key-of-ana"}, {"authorization": "Bearer key-of-bob"}
PEOPLE = {"Bearer key-of-ana": "ana", "Bearer key-of-bob": "bob"}


def scope_of(request: Request) -> str | None:
    return PEOPLE.get(request.headers.get("authorization", ""))


def files(folder: Path) -> list[Path]:
    return list(folder.iterdir())


async def ask(
    client: httpx.AsyncClient, headers: dict[str, str], *said: Any, **fields: Any
) -> httpx.Response:
    messages = [user(one) if isinstance(one, str) else one for one in said]
    return await client.post(CHAT, json={"model": "served", "messages": messages, **fields}, headers=headers)


async def test_a_tenant_neither_reads_nor_continues_a_conversation_of_another() -> None:
    async with endpoint(
        Say("The heron flies."), Say("No."), authenticate=scope_of, api_key=SERVICE_KEY
    ) as made:
        named = {"x-conversation-id": "trip"}
        first = await ask(made.http, ANA | named, "Our word is heron.")
        # By name.
        await ask(made.http, BOB | named, "What is the word?")
        assert made.sent() == [user("What is the word?")]
        # By what was said.
        await ask(made.http, ANA, "Hi, heron.")
        told = [user("Hi, heron."), assistant("No."), user("And?")]
        answer = await ask(made.http, BOB, *told)
        assert len(await made.stored("ana")) == 2
        assert answer.headers["x-conversation-id"] not in await made.stored("ana")
        assert await made.stored("bob") == {
            "trip": ["What is the word?", "No."],
            answer.headers["x-conversation-id"]: ["Hi, heron.", "No.", "And?", "No."],
        }
        assert (await made.stored("ana"))["trip"] == ["Our word is heron.", "The heron flies."]
        assert first.headers["x-conversation-id"] == "trip"


async def test_a_tenant_does_not_go_on_from_a_response_of_another_or_read_it() -> None:
    async with endpoint(Say("Hello."), authenticate=scope_of, api_key=SERVICE_KEY) as made:
        body = {"model": "served", "input": "Hi", "store": False}
        response = (await made.http.post(RESPONSES, json=body, headers=ANA)).json()["id"]
        again = {**body, "previous_response_id": response}
        assert error_of(await made.http.post(RESPONSES, json=again, headers=BOB)) == (
            404,
            "previous_response_not_found",
        )
        assert (await made.http.post(RESPONSES, json=again, headers=ANA)).status_code == 200
        asked = len(made.upstream.seen)
        for path in (
            f"/v1/responses/{response}",
            "/v1/files",
            "/v1/conversations/c1",
            "/v1/models/%2e%2e/files",
        ):
            assert error_of(await made.http.get(path, headers=BOB))[0] == 404
        assert len(made.upstream.seen) == asked


async def test_with_one_key_for_all_what_is_nobodys_is_passed_through_and_what_is_ones_own() -> None:
    words = as_json(Responses().whole(Say("Hello.")) | {"id": "resp_7"})
    async with (
        serving(words) as upstream,
        endpoint_before(upstream, authenticate=scope_of, api_key=SERVICE_KEY) as made,
    ):
        await made.http.post(RESPONSES, json={"model": "served", "input": "Hi"}, headers=ANA)
        for path in ("/v1/models", "/v1/models/org%2Fname", "/v1/responses/resp_7/input_items?limit=2"):
            assert (await made.http.get(path, headers=ANA)).status_code == 200
            assert upstream.seen[-1].path == path
            assert upstream.seen[-1].headers["authorization"] == f"Bearer {SERVICE_KEY}"


async def test_with_one_key_for_all_nothing_else_is_passed_through() -> None:
    others = [
        ("DELETE", "/v1/models/ft:of-the-service"),
        ("POST", "/v1/models/ft:of-the-service"),
        ("GET", "/v1/chat/completions"),
        ("GET", "/v1/audio/voices"),
        ("POST", "/v1/files"),
        ("GET", "/v1/models/..%252ffiles"),
        ("GET", "/v1/models/%252e%252e/files"),
        ("GET", "/v1/models/..;/files"),
        ("GET", "/v1/models/..%25255cfiles"),
        ("GET", "/v1/models/%" + "25" * 20),
        ("GET", "/v1/responses/resp_7/%252e%252e/resp_8"),
        ("GET", "/v1/responses/resp_8"),
        ("PUT", "/v1/responses/resp_7"),
    ]
    words = as_json(Responses().whole(Say("Hello.")) | {"id": "resp_7"})
    async with (
        serving(words) as upstream,
        endpoint_before(upstream, authenticate=scope_of, api_key=SERVICE_KEY) as made,
    ):
        await made.http.post(RESPONSES, json={"model": "served", "input": "Hi"}, headers=ANA)
        for method, path in others:
            # As it is written.
            url = httpx.URL(str(made.http.base_url)).copy_with(raw_path=path.encode())
            refused = await made.http.send(httpx.Request(method, url, headers=ANA))
            assert (path, error_of(refused)[0]) == (path, 404)
        assert len(upstream.seen) == 1


async def test_a_client_chooses_neither_who_pays_nor_what_a_server_behind_reads() -> None:
    paying = {"openai-organization": "org", "openai-project": "project"}
    misleading = {
        "x-original-url": "/v1/files",
        "x-rewrite-url": "/v1/files",
        "x-http-method-override": "DELETE",
        "x-forwarded-host": "elsewhere",
        "connection": "keep-alive, X-Secret",
        "x-secret": "of this connection",
    }
    told = Answer([b"{}"], headers={"connection": "x-inner", "x-inner": "of that connection"})
    async with serving(told) as upstream, endpoint_before(upstream, api_key=SERVICE_KEY) as made:
        for method, path in (("GET", "/v1/models"), ("POST", CHAT)):
            body = {"model": "served", "messages": [user("Hi")]}
            answer = await made.http.request(method, path, json=body, headers=paying | misleading)
            seen = upstream.seen[-1].headers
            assert not seen.keys() & (paying.keys() | misleading.keys() - {"connection"})
            assert "x-secret" not in seen.get("connection", "").lower()
            assert "x-inner" not in answer.headers
    # With a key of its own, it is its own account.
    async with serving(told) as upstream, endpoint_before(upstream) as made:
        await made.http.get("/v1/models", headers=paying)
        assert paying.items() <= upstream.seen[-1].headers.items()


async def test_a_window_that_a_tenant_was_told_is_not_another_tenants() -> None:
    told = "This model's maximum context length is 600 tokens. However, you requested more."
    refusal = as_json({"error": {"message": told, "code": "context_length_exceeded"}}, 400)
    async with (
        serving(refusal, as_json(chat("Fine."))) as upstream,
        endpoint_before(upstream, authenticate=scope_of, context_summary=False) as made,
    ):
        said = [one for at in range(20) for one in (user(f"Where is {at}? " * 20), assistant(f"At {at}."))]
        for headers in (ANA, ANA, BOB):
            await ask(made.http, headers, *said, "And now?")
        whole, *hers, his = [len(one.body["messages"]) for one in upstream.seen]
        assert len(hers) == 2
        assert max(hers) < whole == his


async def test_clients_that_nobody_knows_are_refused() -> None:
    async with endpoint(Say("Hello."), authenticate=scope_of) as made:
        for path in (CHAT, RESPONSES, "/v1/models"):
            refused = await made.http.request("GET" if "models" in path else "POST", path, json={})
            assert error_of(refused) == (401, "invalid_api_key")
        assert made.upstream.seen == []


async def test_a_tenant_may_have_a_key_of_its_own() -> None:
    async def authenticate(request: Request) -> EndpointTenant | None:
        scope = scope_of(request)
        return None if scope is None else EndpointTenant(scope, api_key=f"sk-{scope}")

    async with endpoint(Say("Hello."), authenticate=authenticate) as made:
        for headers, expected in ((ANA, "sk-ana"), (BOB, "sk-bob")):
            extra = {"x-api-key": "other", "openai-organization": "org"}
            await ask(made.http, headers | extra, "Hi")
            seen = made.upstream.seen[-1].headers
            assert seen["authorization"] == f"Bearer {expected}"
            assert "x-api-key" not in seen
            assert seen["openai-organization"] == "org"
    assert "sk-ana" not in repr(EndpointTenant("ana", api_key="sk-ana"))


async def test_refusals_of_the_application_are_errors_of_the_api() -> None:
    def authenticate(request: Request) -> str:
        if request.headers["authorization"] == "Bearer broken":
            raise RuntimeError("the database of keys says sk-123")
        raise AccessDenied("your plan has ended")

    async with endpoint(Say("Hello."), authenticate=authenticate) as made:
        refused = await ask(made.http, ANA, "Hi")
        assert error_of(refused) == (403, "access_denied")
        assert "your plan has ended" in refused.text
        failed = await ask(made.http, {"authorization": "Bearer broken"}, "Hi")
        assert error_of(failed) == (500, "server_error")
        assert "sk-123" not in failed.text
    async with endpoint(Say("Hello."), authenticate=scope_of, rate_limit=lambda request, scope: 7) as made:
        limited = await ask(made.http, ANA, "Hi")
        assert error_of(limited) == (429, "rate_limit_exceeded")
        assert limited.headers["retry-after"] == "7"


async def test_no_key_is_logged_stored_or_told(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.DEBUG)
    path = tmp_path / "memory.db"
    script = (Say("Hello."), Fault.LIMITED, Fault.CUT_AFTER_FIRST_TOKEN, Say("Bye."))
    texts = []
    for own in (None, SERVICE_KEY):
        options: dict[str, Any] = {"memory": f"sqlite:///{path}", "api_key": own}
        async with endpoint(*script, **options) as made:
            for number in range(4):
                answer = await made.ask(f"Hi {number}", stream=number == 2, conversation="trip")
                texts.append(f"{answer.headers}{answer.text}")
            texts += [repr(made.app), repr(made.app.engine), repr(vars(made.app))]
            sent = {one.headers["authorization"] for one in made.upstream.seen}
            assert sent == {f"Bearer {own or KEY}"}
        async with endpoint(Fault.SILENT, **options, timeout=0.2) as made:
            answer = await made.ask("Hi", conversation="trip")
            texts.append(f"{answer.headers}{answer.text}")
    texts.append(caplog.text)
    stored = b"".join(one.read_bytes() for one in files(tmp_path))
    for secret in (KEY, SERVICE_KEY):
        assert secret.encode() not in stored
        assert [text for text in texts if secret in text] == []


async def test_conversations_go_on_after_a_restart(tmp_path: Path) -> None:
    url = f"sqlite:///{tmp_path / 'memory.db'}"
    async with endpoint(Say("Hello."), memory=url) as made:
        first = await made.ask("Hi")
        response = await made.http.post(
            RESPONSES, json={"model": "served", "input": "Hello?", "store": False}
        )
    async with endpoint(Say("At nine."), memory=url) as made:
        second = await made.ask("Hi", assistant("Hello."), "When?")
        assert second.headers["x-conversation-id"] == first.headers["x-conversation-id"]
        body = {"input": "When?", "previous_response_id": response.json()["id"], "store": False}
        third = await made.http.post(RESPONSES, json={"model": "served", **body})
        assert third.headers["x-conversation-id"] == response.headers["x-conversation-id"]
        assert await made.stored() == {
            first.headers["x-conversation-id"]: ["Hi", "Hello.", "When?", "At nine."],
            response.headers["x-conversation-id"]: ["Hello?", "Hello.", "When?", "At nine."],
        }


async def test_what_was_erased_is_not_recognised() -> None:
    async with endpoint(Say("Hello.")) as made:
        first = await made.ask("Hi")
        await made.app.memory.delete_scope("ana")
        second = await made.ask("Hi", assistant("Hello."), "When?")
        assert second.status_code == 200
        assert list((await made.stored()).values()) == [["Hi", "Hello.", "When?", "Hello."]]
        assert made.sent()[-1] == user("When?")
        assert first.status_code == 200


async def test_an_edited_history_is_a_fork(tmp_path: Path) -> None:
    async with endpoint(Say("One."), Say("Two."), Say("Three."), Say("Four.")) as made:
        await made.ask("a")
        first = await made.ask("a", assistant("One."), "b")
        edited = await made.ask("a", assistant("One."), "c")
        name, fork = first.headers["x-conversation-id"], edited.headers["x-conversation-id"]
        assert await made.stored() == {name: ["a", "One.", "b", "Two."], fork: ["a", "One.", "c", "Three."]}
        # Both go on.
        back = await made.ask("a", assistant("One."), "b", assistant("Two."), "d")
        assert back.headers["x-conversation-id"] == name
        again = await made.ask("a", assistant("One."), "c", assistant("Three."), "e")
        assert again.headers["x-conversation-id"] == fork


@pytest.mark.parametrize(
    ("headers", "status"),
    [
        ({}, 200),
        ({"host": "localhost:8000", "origin": "http://localhost:8000"}, 200),
        ({"host": "app.example", "origin": "https://app.example"}, 200),
        ({"origin": "https://app.example"}, 200),
        # A page that points its own name at this machine.
        ({"host": "elsewhere.example", "origin": "http://elsewhere.example"}, 403),
        ({"host": "elsewhere.example"}, 403),
        ({"origin": "https://elsewhere.example"}, 403),
        ({"origin": "null"}, 403),
        ({"origin": "http://localhost"}, 403),
        # What a page may send without being asked before.
        ({"content-type": "text/plain"}, 415),
        ({"content-type": ""}, 415),
        ({"content-type": "application/x-www-form-urlencoded"}, 415),
        ({"content-type": "Application/JSON; charset=utf-8"}, 200),
    ],
)
async def test_web_pages_of_other_sites_do_not_get_in(headers: dict[str, str], status: int) -> None:
    async with endpoint(Say("Hello."), allowed_hosts=["app.example"]) as made:
        body = {"model": "served", "messages": [user("Hi")]}
        answer = await made.http.post(CHAT, json=body, headers=headers)
        assert answer.status_code == status, answer.text
        assert len(made.upstream.seen) == (status == 200)
        if status == 403:
            listed = await made.http.get("/v1/models", headers=headers)
            assert error_of(listed) == (403, "access_denied")


async def test_only_who_is_not_authenticated_must_name_this_machine() -> None:
    named = {"host": "app.example"}
    async with endpoint(Say("Hello.")) as made:
        refused = await made.http.get("/v1/models", headers=named)
        assert error_of(refused) == (403, "access_denied")
        assert "allowed hosts" in refused.json()["error"]["message"]
    async with endpoint(Say("Hello."), authenticate=scope_of) as made:
        assert answer_of(await ask(made.http, ANA | named, "Hi")) == "Hello."
        refused = await ask(made.http, ANA | {"origin": "https://elsewhere.example"}, "Hi")
        assert error_of(refused) == (403, "access_denied")
    with pytest.raises(TypeError, match="allowed_hosts must be a list"):
        endpoint_app("https://host/v1", scope="ana", allowed_hosts="app.example")


async def test_a_mounted_endpoint_has_its_own_prefix() -> None:
    async with serving(as_json(chat("Hello."))) as upstream:
        app = endpoint_app(f"{upstream.url}/v1", scope="ana", allowed_hosts=["here"])
        outer = FastAPI()
        outer.mount("/llm", app)
        transport = httpx.ASGITransport(outer)
        async with app, httpx.AsyncClient(transport=transport, base_url="http://here/llm") as client:
            assert (
                answer_of(await client.post(CHAT, json={"model": "m", "messages": [user("Hi")]})) == "Hello."
            )
            await client.get("/v1/models/org%2Fname?a=b%20c")
            assert upstream.seen[-1].path == "/v1/models/org%2Fname?a=b%20c"


async def test_other_requests_are_passed_through_as_they_are() -> None:
    headers = {"content-type": "application/json", "x-request-id": "r1"}
    told = Answer([b'{"data": ', b"[1]}"], status=201, headers=headers)
    async with serving(told) as upstream, endpoint_before(upstream) as made:
        answer = await made.http.post("/v1/embeddings?x=1", json={"input": "Hi", "model": "e"})
        assert (answer.status_code, answer.json()) == (201, {"data": [1]})
        assert answer.headers["x-request-id"] == "r1"
        assert "x-conversation-id" not in answer.headers
        seen = upstream.seen[-1]
        assert (seen.path, seen.body) == ("/v1/embeddings?x=1", {"input": "Hi", "model": "e"})
        assert seen.headers["authorization"] == f"Bearer {KEY}"
        assert await made.stored() == {}


async def test_usage_is_explained() -> None:
    async with endpoint(Say("Hello.")) as made:
        for stream in (False, True):
            name = f"trip-{stream}"
            await made.ask("Hi", conversation=name, stream=stream)
            report = await inspect_turn(made.app.memory, "ana", name)
            assert report.model == "served"
            assert report.usage is not None
            assert report.usage.input_tokens == 900


async def test_two_hundred_streams_at_once_all_come_to_their_end() -> None:
    gate, count = anyio.Event(), 200
    told = events(*chat_events("Hello."), before=gate)
    answers: list[str] = []

    async with serving(told) as upstream, endpoint_before(upstream) as made:
        limits = httpx.Limits(max_connections=count)
        async with httpx.AsyncClient(
            base_url=made.http.base_url, trust_env=False, timeout=60, limits=limits
        ) as client:

            async def ask_one(number: int) -> None:
                body = {"model": "served", "stream": True, "messages": [user(f"Hi {number}")]}
                answers.append((await client.post(CHAT, json=body)).text)

            async with anyio.create_task_group() as group:
                for number in range(count):
                    group.start_soon(ask_one, number)
                while len(upstream.seen) < count:
                    await anyio.lowlevel.checkpoint()
                gate.set()
        assert len(answers) == count
        assert all("data: [DONE]" in one for one in answers)
        found = await made.app.memory.conversations("ana", limit=1000)
        assert [one.messages for one in found] == [2] * count


async def test_a_memory_that_was_given_stays_open() -> None:
    async with Memory() as memory:
        async with endpoint(Say("Hello."), memory=memory) as made:
            await made.ask("Hi", conversation="trip")
        assert (await memory.head("ana", "trip")).count == 2
