"""Who may use the inspector, what a browser may do with its page, and what it changes."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import httpx
import pytest
import pytest_asyncio
from server.inspecting import TOKEN, TRIP, client_of, inspected
from server.serving import error_of

from autonomy_ctx import Agent, Memory, Message, Node
from autonomy_ctx.server import InspectorAddress, inspector_server
from autonomy_ctx.server.inspector import app as inspector_module
from autonomy_ctx.testing import ScriptedModel

PLACE = {"scope": "ana", "conversation": "trip"}
STRICT = {
    "x-content-type-options": "nosniff",
    "cache-control": "no-store",
    "referrer-policy": "no-referrer",
    "x-frame-options": "DENY",
    "cross-origin-opener-policy": "same-origin",
    "cross-origin-resource-policy": "same-origin",
}


@pytest_asyncio.fixture
async def memory(tmp_path: Path) -> AsyncIterator[Memory]:
    made = Memory(f"sqlite:///{tmp_path}/memory.db")
    await made.append("ana", "trip", Message("user", "one", id="m1"), Message("assistant", "two", id="m2"))
    yield made
    await made.close()


@pytest.fixture(autouse=True)
def page(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A page of its own, so that these tests are about the server."""
    folder = tmp_path / "page"
    folder.mkdir()
    (folder / "index.html").write_text("<!doctype html><script src=app.js></script>")
    (folder / "app.js").write_text("export {};")
    (folder / "secret.txt").write_text("no")
    monkeypatch.setattr(inspector_module, "PAGE_FOLDER", str(folder))
    return folder


async def test_without_the_token_there_are_only_the_files_of_the_page(memory: Memory) -> None:
    async with inspector_server(memory) as address, client_of(address.url) as client:
        assert len(address.token) >= 32
        assert address.page == f"{address.url}/#token={address.token}"
        assert (await client.get("/")).headers["content-type"] == "text/html; charset=utf-8"
        assert (await client.get("/app.js")).headers["content-type"] == "text/javascript; charset=utf-8"
        for path in ("/secret.txt", "/nothing.js", "/..%2fauth.py", "/api"):
            assert error_of(await client.get(path)) == (404, "NotFound"), path
        for path in ("info", "conversation", "events", "session", "nothing"):
            assert error_of(await client.get(f"/api/{path}", params=PLACE)) == (401, "Unauthorized"), path
        for given in ("wrong", address.token[:-1], address.token + "x", "\xe9"):
            headers = {b"authorization": f"Bearer {given}".encode("latin-1")}
            answer = await client.get("/api/info", headers=headers)
            assert error_of(answer) == (401, "Unauthorized")
            assert address.token not in answer.text


async def test_each_start_has_a_token_of_its_own(memory: Memory) -> None:
    found: list[InspectorAddress] = []
    for _ in range(2):
        async with inspector_server(memory) as address:
            found.append(address)
    assert found[0].token != found[1].token


async def test_the_token_becomes_a_cookie_that_scripts_cannot_read(memory: Memory) -> None:
    async with inspector_server(memory, token=TOKEN) as address, client_of(address.url) as client:
        opened = await client.post("/api/session", headers={"authorization": f"Bearer {TOKEN}"})
        assert opened.status_code == 204
        cookie = opened.headers["set-cookie"]
        assert "HttpOnly" in cookie
        assert "SameSite=strict" in cookie
        assert TOKEN not in cookie
        assert (await client.get("/api/conversation", params=PLACE)).status_code == 200
        name, _, value = cookie.partition(";")[0].partition("=")
        for wrong in (value[:-1], value.upper(), "", TOKEN):
            client.cookies.clear()
            answer = await client.get("/api/info", headers={"cookie": f"{name}={wrong}"})
            assert error_of(answer) == (401, "Unauthorized")
        answer = await client.get("/api/info", headers={"cookie": f"other=1; {name}={value}"})
        assert answer.status_code == 200


async def test_a_token_in_the_address_is_taken_out_of_it(memory: Memory) -> None:
    async with inspector_server(memory, token=TOKEN) as address, client_of(address.url) as client:
        opened = await client.get(f"/?token={TOKEN}")
        assert (opened.status_code, opened.headers["location"]) == (303, "/")
        assert (await client.get("/api/info")).json()["write"] is False
        client.cookies.clear()
        wrong = await client.get("/?token=wrong")
        assert error_of(wrong) == (401, "Unauthorized")
        assert "set-cookie" not in wrong.headers


async def test_two_inspectors_of_one_machine_have_cookies_of_their_own(memory: Memory) -> None:
    async with inspector_server(memory, token="one") as one, inspector_server(memory, token="two") as two:
        cookies = []
        for address in (one, two):
            async with client_of(address.url) as client:
                opened = await client.get(f"/?token={address.token}")
                cookies.append(opened.headers["set-cookie"].partition("=")[0])
        assert cookies[0] != cookies[1]


@pytest.mark.parametrize(
    "host", ["evil.test", "127.0.0.1.evil.test", "localhost:80@evil.test", "", "0.0.0.0"]
)
async def test_a_host_that_is_not_this_machine_is_refused(memory: Memory, host: str) -> None:
    async with inspected(memory) as client:
        for path in ("/", "/app.js", "/api/info"):
            assert error_of(await client.get(path, headers={"host": host})) == (403, "Forbidden")


async def test_hosts_can_be_allowed(memory: Memory) -> None:
    async with inspected(memory, allowed_hosts=["Inspector.Example"]) as client:
        for host in ("inspector.example", "inspector.example:8443", "localhost", "[::1]:80"):
            assert (await client.get("/api/info", headers={"host": host})).status_code == 200
        assert (await client.get("/api/info", headers={"host": "x.inspector.example"})).status_code == 403


async def test_pages_of_other_sites_are_refused(memory: Memory) -> None:
    async with inspected(memory) as client:
        own = str(client.base_url).rstrip("/")
        for headers in ({"origin": own}, {"sec-fetch-site": "same-origin"}, {"sec-fetch-site": "none"}):
            assert (await client.get("/api/info", headers=headers)).status_code == 200
        for headers in (
            {"origin": "https://evil.test"},
            {"origin": "null"},
            {"origin": "http://127.0.0.1:1"},
            {"sec-fetch-site": "cross-site"},
            {"sec-fetch-site": "same-site"},
        ):
            assert error_of(await client.get("/api/info", headers=headers)) == (403, "Forbidden")
        # A link in a chat may lead here.
        assert (await client.get("/", headers={"sec-fetch-site": "cross-site"})).status_code == 200


async def test_a_browser_may_do_nothing_but_what_the_page_needs(memory: Memory) -> None:
    async with inspected(memory) as client:
        answers = [
            await client.get("/"),
            await client.get("/app.js"),
            await client.get("/nothing"),
            await client.get("/api/info"),
            await client.get("/api/info", headers={"authorization": ""}),
            await client.get("/", headers={"host": "evil.test"}),
        ]
        async with client.stream("GET", "/api/events?scope=ana") as stream:
            answers.append(stream)
        for answer in answers:
            policy = answer.headers["content-security-policy"]
            assert "default-src 'none'" in policy
            assert "unsafe" not in policy
            assert "frame-ancestors 'none'" in policy
            assert {name: answer.headers.get_list(name) for name in STRICT} == {
                name: [value] for name, value in STRICT.items()
            }


EDITS: list[tuple[str, str, dict[str, Any]]] = [
    ("POST", "pin", {"message_id": "m1"}),
    ("DELETE", "pin", {"message_id": "m1"}),
    ("POST", "facts", {"kind": "value", "text": "The ferry leaves at 9:40."}),
    ("DELETE", "facts", {"fact_id": "F1"}),
    ("POST", "undo", {"what": "turn"}),
    ("DELETE", "message", {"message_id": "m1"}),
    ("DELETE", "conversation", {}),
]


async def edit(client: httpx.AsyncClient, method: str, path: str, **values: Any) -> httpx.Response:
    given = PLACE | values
    if method == "POST":
        return await client.post(f"/api/{path}", json=given)
    return await client.delete(f"/api/{path}", params=given)


async def test_it_changes_nothing_unless_it_may(memory: Memory) -> None:
    before = await memory.summary("ana", "trip")
    async with inspected(memory) as client:
        assert (await client.get("/api/info")).json()["write"] is False
        for method, path, values in EDITS:
            assert error_of(await edit(client, method, path, **values)) == (403, "ReadOnly")
    assert await memory.summary("ana", "trip") == before


async def test_an_edit_needs_the_token_and_a_page_of_its_own(memory: Memory) -> None:
    async with inspected(memory, write=True) as client:
        del client.headers["authorization"]
        for method, path, values in EDITS:
            assert error_of(await edit(client, method, path, **values)) == (401, "Unauthorized")
        await client.get(f"/?token={TOKEN}")
        client.headers["origin"] = "https://evil.test"
        for method, path, values in EDITS:
            assert error_of(await edit(client, method, path, **values)) == (403, "Forbidden")
        del client.headers["origin"]
        # What a form can send is no edit.
        answer = await client.post("/api/undo", data=PLACE | {"what": "turn"})
        assert error_of(answer) == (400, "BadRequest")
    assert await memory.get_message_count("ana", "trip") == 2


async def test_pins_and_facts_are_edited(memory: Memory) -> None:
    async with inspected(memory, write=True) as client:
        assert (await edit(client, "POST", "pin", message_id="m1")).json() == {"done": True}
        assert [pin.message.id for pin in (await memory.summary("ana", "trip")).pins] == ["m1"]
        assert (await edit(client, "POST", "pin", message_id="m2", replaces="m1")).status_code == 200
        assert [pin.message.id for pin in (await memory.summary("ana", "trip")).pins] == ["m2"]
        await edit(client, "DELETE", "pin", message_id="m2")
        assert (await memory.summary("ana", "trip")).pins == ()
        assert error_of(await edit(client, "POST", "pin", message_id="nope")) == (404, "NotFound")
        assert error_of(await edit(client, "POST", "pin", message_id="m1", replaces="m2")) == (
            404,
            "NotPinned",
        )

        made = (await edit(client, "POST", "facts", kind="value", text="At 9:40.")).json()["fact"]
        new = await edit(client, "POST", "facts", action="replace", fact_id=made["id"], text="At 10:20.")
        assert new.json()["fact"]["replaces"] == made["id"]
        task = (await edit(client, "POST", "facts", kind="open", text="Book it.")).json()["fact"]
        assert (await edit(client, "POST", "facts", action="done", fact_id=task["id"])).status_code == 200
        found = (await client.get("/api/facts", params=PLACE)).json()["facts"]
        assert [one["state"] for one in found] == ["replaced", "holds", "done"]
        fact_id = new.json()["fact"]["id"]
        assert (await edit(client, "DELETE", "facts", fact_id=fact_id)).json() == {"removed": True}
        assert await memory.facts("ana", "trip") == []
        assert error_of(await edit(client, "DELETE", "facts", fact_id="F99")) == (404, "UnknownFact")
        assert error_of(await edit(client, "POST", "facts", kind="nope", text="x")) == (400, "InvalidFact")
        assert error_of(await edit(client, "POST", "facts", text="")) == (400, "InvalidFact")
        assert error_of(await edit(client, "POST", "facts", action="burn")) == (400, "BadRequest")


async def test_turns_messages_and_conversations_are_taken_back(memory: Memory) -> None:
    await memory.append(
        "ana", "trip", Message("user", "three", id="m3"), Message("assistant", "four", id="m4")
    )
    async with inspected(memory, write=True) as client:
        assert (await edit(client, "POST", "undo", what="turn")).json() == {"undone": 2}
        assert (await edit(client, "POST", "undo", what="summary")).json() == {"undone": 0}
        assert error_of(await edit(client, "POST", "undo", what="all")) == (400, "BadRequest")
        assert (await edit(client, "DELETE", "message", message_id="m2")).json() == {"done": True}
        assert error_of(await edit(client, "DELETE", "message", message_id="m2")) == (404, "NotFound")
        assert (await edit(client, "DELETE", "conversation")).json() == {"deleted": 1}
        answer = await client.get("/api/conversation", params=PLACE)
        assert error_of(answer) == (404, "UnknownConversation")


async def test_an_agent_of_the_node_makes_the_edit_between_two_turns(memory: Memory) -> None:
    async with Node(memory=memory) as node:
        agent = await Agent.start(node=node, name="helper", instructions="Brief.", model=ScriptedModel("ok"))
        for text in ("one", "two", "three"):
            await agent.send(text, scope="ana", conversation="trip")
        async with inspected(node, write=True) as client:
            assert (await edit(client, "POST", "undo", agent="helper", what="turn")).json() == {"undone": 2}
            page = (await client.get("/api/messages", params=TRIP)).json()
            first = page["messages"][0]["id"]
            answer = await edit(client, "DELETE", "message", agent="helper", message_id=first)
            assert answer.status_code == 200
            answer = await edit(client, "DELETE", "conversation", agent="helper")
            assert answer.json() == {"deleted": 3}


@pytest.mark.parametrize("body", [b"", b"[]", b"{", b'{"scope": 1}', b"\xff", b"[" * 100_000])
async def test_a_body_that_cannot_be_read_is_refused(memory: Memory, body: bytes) -> None:
    async with inspected(memory, write=True) as client:
        headers = {"content-type": "application/json"}
        assert error_of(await client.post("/api/undo", content=body, headers=headers)) == (400, "BadRequest")
