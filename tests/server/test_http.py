"""Every route of the HTTP API, over real HTTP on a loopback port (asyncio only, as uvicorn is)."""

from __future__ import annotations

import inspect
import re
import socket
import sqlite3
import subprocess
import sys
from contextlib import closing
from itertools import pairwise
from pathlib import Path
from typing import Any

import anyio
import pytest
from server.serving import ASK, client_of, error_of, served

from autonomy_ctx import CostLimit, Model
from autonomy_ctx.agents.agent import Agent
from autonomy_ctx.agents.node import Node
from autonomy_ctx.agents.options import AgentHook
from autonomy_ctx.errors import (
    AddressUnavailable,
    AuthenticationFailed,
    BudgetExceeded,
    ContextOverflow,
    ModelTimeout,
    ModelUnavailable,
    RateLimited,
    ServerError,
    StoreBusy,
    TurnLost,
    TurnWaitTimeout,
)
from autonomy_ctx.hooks import hook
from autonomy_ctx.server import http
from autonomy_ctx.server.common.app import BODY_LIMIT, HealthState
from autonomy_ctx.server.common.listener import listen
from autonomy_ctx.testing import ScriptedModel, StoppedClock

ROOT = Path(__file__).parent.parent.parent


async def test_a_message_is_answered_and_kept() -> None:
    async with served(Model("offline")) as here:
        trip = {"scope": "ana", "conversation": "trip"}
        first = await here.client.post(ASK, json={"message": "The ferry leaves at 9:40.", **trip})
        assert first.status_code == 200
        answer = (await here.client.post(ASK, json={"message": "When is the ferry?", **trip})).json()
        assert set(answer) == {"text", "turn", "number", "stop", "question", "steps", "usage"}
        assert "9:40" in answer["text"]
        assert (answer["stop"], answer["question"], answer["steps"]) == ("end", None, 1)
        assert answer["usage"]["input_tokens"] > 0
        assert (await here.agent.explain(answer["turn"], scope="ana", conversation="trip")).messages


async def test_history_is_the_newest_messages_of_one_conversation() -> None:
    async with served(ScriptedModel(["one", "two", "three"])) as here:
        for text in ("a", "b"):
            await here.client.post(ASK, json={"message": text, "scope": "ana", "conversation": "trip"})
        await here.client.post(ASK, json={"message": "c"})
        asked = f"{ASK}/history?scope=ana&conversation=trip"
        messages = (await here.client.get(asked)).json()["messages"]
        assert [one["content"] for one in messages] == ["a", "one", "b", "two"]
        assert (await here.client.get(f"{asked}&limit=1")).json()["messages"] == messages[-1:]
        assert len((await here.client.get(f"{ASK}/history")).json()["messages"]) == 2
        assert (await here.client.get(f"{ASK}/history?scope=nobody")).json() == {"messages": []}
        for wrong in ("limit=0", "limit=1001", "limit=many", "limit=-1", "first=1"):
            assert error_of(await here.client.get(f"{asked}&{wrong}")) == (400, "BadRequest")


async def test_agents_are_listed_with_their_descriptions() -> None:
    async with served(ScriptedModel()) as here:
        await Agent.start(
            node=here.node, name="é x%y", instructions="Secret rules.", model=ScriptedModel("hi")
        )
        listed = (await here.client.get("/agents")).json()
        assert listed == {
            "agents": [
                {"name": "assistant", "description": "Answers."},
                {"name": "é x%y", "description": ""},
            ]
        }
        assert (await here.client.post("/agents/é x%25y", json={"message": "hello"})).json()["text"] == "hi"


async def test_health_is_that_of_memory() -> None:
    async with served(ScriptedModel()) as here:
        well = await here.client.get("/health")
        assert (well.status_code, well.json()) == (200, {"status": "ok"})
        await here.node.memory.close()
        # It says how it was within the last second.
        while (ill := await here.client.get("/health")).status_code == 200:
            pass
        assert (ill.status_code, ill.json()) == (503, {"status": "unavailable"})


async def test_health_is_found_out_once_a_second_however_many_ask(tmp_path: Path) -> None:
    path, clock = tmp_path / "memory.db", StoppedClock()
    async with Node(memory=f"sqlite:///{path}") as node:
        state = HealthState(node, clock=lambda: clock().timestamp())

        async def ask() -> None:
            assert await state.healthy()

        writes = []
        for seconds in (0, 0.75, 0.25, 0.75, 0.25):
            clock.advance(seconds)
            async with anyio.create_task_group() as group:
                for _ in range(5):
                    group.start_soon(ask)
            with closing(sqlite3.connect(path)) as connection:
                writes.append(connection.execute("SELECT body FROM health").fetchone())
    assert [after == before for before, after in pairwise(writes)] == [True, False, True, False]


async def test_metrics_are_prometheus_text_with_every_sample_under_its_type() -> None:
    async with served(ScriptedModel("ok"), agent={"context_summary": True}) as here:
        await Agent.start(node=here.node, name='a"b\\c', instructions="", model=None)
        await here.client.post(ASK, json={"message": "hello"})
        answer = await here.client.get("/metrics")
        assert answer.headers["content-type"] == "text/plain; version=0.0.4; charset=utf-8"
        lines = answer.text.splitlines()
        assert 'autonomy_ctx_agent_turns_total{agent="assistant"} 1' in lines
        assert r'autonomy_ctx_agent_turns_total{agent="a\"b\\c"} 0' in lines
        assert "autonomy_ctx_memory_messages_added_total 2" in lines
        assert "# TYPE autonomy_ctx_agent_summary_prefix_reuse gauge" in lines
        typed, current = [], ""
        for line in lines:
            if found := re.fullmatch(r"# TYPE ([a-zA-Z_:][a-zA-Z0-9_:]*) (?:counter|gauge)", line):
                typed.append(current := found[1])
            else:
                assert re.fullmatch(rf"{current}(\{{\w+=\"(?:[^\"\\]|\\.)*\"\}})? [\d.e-]+", line), line
        assert len(typed) == len(set(typed)) > 20


async def test_parts_params_and_message_ids_reach_the_agent() -> None:
    seen: list[Any] = []

    class Noting:
        name, enabled = "noting", True

        async def get_messages(self, memory: Any, scope: str, conversation: str, params: Any) -> list[Any]:
            seen.append((scope, conversation, params))
            return []

    async with served(ScriptedModel("seen")) as here:
        here.agent.context_template.add_section(Noting())
        body = {
            "message": [{"type": "text", "text": "Look at this."}],
            "scope": "ana",
            "params": {"city": "Porto"},
            "message_id": "m-1",
        }
        for _ in range(2):
            assert (await here.client.post(ASK, json=body)).json()["text"] == "seen"
        kept = (await here.client.get(f"{ASK}/history?scope=ana")).json()["messages"]
        assert [one["id"] for one in kept if one["role"] == "user"] == ["m-1"]
        scope, conversation, params = seen[0]
        assert (scope, conversation, params["city"]) == ("ana", "default", "Porto")
        other = await here.client.post(ASK, json={**body, "message": "Something else."})
        assert error_of(other) == (409, "ConflictingMessage")


@pytest.mark.parametrize(
    ("body", "says"),
    [
        (b"", "not JSON"),
        (b"{", "line 1, column 2"),
        (b'"hello"', "must be a JSON object"),
        (b"\xff\xfe{", "not JSON"),
        (b'{"message": NaN}', "NaN is not a number"),
        (b'{"message": "a", "params": ' + b"[" * 100_000 + b"]" * 100_000 + b"}", "nested too deeply"),
        (b'{"message": "a", "params": {"n": ' + b"9" * 5000 + b"}}", "number"),
        (b"{}", "no `message`"),
        (b'{"message": "a", "mesage": "b"}', "unknown field 'mesage'"),
        (b'{"message": 5}', "`message` must be a text or a list of parts"),
        (b'{"message": null}', "`message` must be"),
        (b'{"message": {"role": "system", "content": "a"}}', "`message` must be"),
        (b'{"message": "a", "scope": null}', "`scope` must be a string"),
        (b'{"message": "a", "conversation": 1}', "`conversation` must be a string"),
        (b'{"message": "a", "stream": "yes"}', "`stream` must be true or false"),
        (b'{"message": "a", "message_id": ""}', "`message_id` is empty"),
        (b'{"message": "a", "params": []}', "`params` must be an object"),
        (b'{"message": "a", "params": {"context_queue": ["obey"]}}', "must not have 'context_queue'"),
        (b'{"message": "a", "params": {"context_pool": {}}, "stream": true}', "not have 'context_pool'"),
        (b'{"message": "a", "params": {"conversation_message_count": 9}}', "conversation_message_count"),
        (b'{"message": [{"type": "image"}]}', "`content[0].image` is missing"),
        (b'{"message": "a", "scope": "\\u0000"}', "invalid scope"),
        (b'{"message": "a", "scope": "\\ud800", "stream": true}', "invalid scope"),
    ],
)
async def test_a_bad_body_is_refused_and_changes_nothing(body: bytes, says: str) -> None:
    model = ScriptedModel()
    async with served(model) as here:
        answer = await here.client.post(ASK, content=body, headers={"content-type": "application/json"})
        assert error_of(answer)[0] == 400
        assert says in answer.json()["error"]["message"]
        assert not model.calls
        assert (await here.node.get_metrics())["memory"]["messages_added"] == 0


async def test_what_is_not_there_is_said_as_json() -> None:
    async with served(ScriptedModel()) as here:
        nobody = await here.client.post("/agents/nobody", json={"message": "hello"})
        assert error_of(nobody) == (404, "UnknownAgent")
        assert "it hosts assistant" in nobody.json()["error"]["message"]
        assert error_of(await here.client.get("/agents/nobody/history")) == (404, "UnknownAgent")
        for path in ("/", "/agents/", "/agents/a/b", "/docs", "/health/"):
            assert error_of(await here.client.get(path)) == (404, "NotFound"), path
        wrong = await here.client.get(ASK)
        assert (*error_of(wrong), wrong.headers["allow"]) == (405, "MethodNotAllowed", "POST")
        await Agent.start(node=here.node, name="mute", instructions="", model=None)
        for stream in (False, True):
            mute = await here.client.post("/agents/mute", json={"message": "a", "stream": stream})
            assert error_of(mute) == (501, "InvalidAgent")


async def test_a_bad_query_is_refused_by_name() -> None:
    async with served(ScriptedModel()) as here:
        unknown = await here.client.get(f"{ASK}/history?scop=ana")
        assert error_of(unknown) == (400, "BadRequest")
        assert "unknown parameter 'scop'; it takes scope, " in unknown.json()["error"]["message"]


async def test_a_body_over_the_limit_is_refused_before_it_is_read() -> None:
    model = ScriptedModel("ok")
    async with served(model) as here:
        json_type = {"content-type": "application/json"}
        announced = await here.client.post(ASK, content=b" " * (BODY_LIMIT + 1), headers=json_type)
        assert error_of(announced) == (413, "BodyTooLarge")

        async def pieces() -> Any:
            for _ in range(BODY_LIMIT // 65536 + 2):
                yield b" " * 65536

        in_chunks = await here.client.post(ASK, content=pieces(), headers=json_type)
        assert error_of(in_chunks) == (413, "BodyTooLarge")
        one_message = await here.client.post(ASK, json={"message": "a" * (9 * 1024 * 1024)})
        assert error_of(one_message) == (413, "MessageTooLarge")
        assert not model.calls
        assert (await here.client.post(ASK, json={"message": "a" * 100_000})).status_code == 200


async def test_a_body_that_is_only_announced_is_refused_at_once() -> None:
    async with (
        served(ScriptedModel()) as here,
        await anyio.connect_tcp("127.0.0.1", here.serving.port) as stream,
    ):
        await stream.send(
            b"POST /agents/assistant HTTP/1.1\r\nhost: localhost\r\ncontent-type: application/json\r\n"
            b"content-length: 99999999999999999999\r\n\r\n"
        )
        with anyio.fail_after(5):
            assert (await stream.receive()).startswith(b"HTTP/1.1 413 ")


@pytest.mark.parametrize(
    ("error", "status"),
    [
        (ContextOverflow("m", window=8192), 422),
        (BudgetExceeded(needed=5, budget=3, sections={"system": 5}), 422),
        (RateLimited("m", retry_after=6.2), 429),
        (RateLimited("m"), 429),
        (ModelUnavailable("m", "is down"), 502),
        (AuthenticationFailed("m"), 502),
        (ModelTimeout("m", what="nothing", seconds=3), 504),
        (StoreBusy(path="/home/ana/agents.db", seconds=5), 503),
        (TurnWaitTimeout(agent="helper", seconds=5), 503),
        (TurnLost(), 503),
    ],
    ids=lambda value: type(value).__name__ if isinstance(value, Exception) else str(value),
)
@pytest.mark.parametrize("stream", [False, True])
async def test_an_error_of_a_turn_has_a_fitting_status(error: Exception, status: int, stream: bool) -> None:
    # The budget is smaller at the second try of an overflow, so both tries fail.
    async with served(ScriptedModel([error])) as here:
        answer = await here.client.post(ASK, json={"message": "hello", "stream": stream})
        if stream:
            assert answer.text.startswith("event: error\n")
            assert f'"type":"{type(error).__name__}"' in answer.text
        else:
            assert error_of(answer) == (status, type(error).__name__)
            asked_for = {"retry-after": "7"} if getattr(error, "retry_after", None) else {}
            assert {k: v for k, v in answer.headers.items() if k == "retry-after"} == asked_for
        assert "/home" not in answer.text


async def test_a_hook_that_refuses_a_turn_is_a_403_without_its_words() -> None:
    @hook(AgentHook.BEFORE_TURN)
    async def refuse(scope: str, conversation: str, message: Any) -> None:
        raise ValueError(f"bad words: {message.text}")

    async with served(ScriptedModel(), agent={"hooks": [refuse]}) as here:
        answer = await here.client.post(ASK, json={"message": "darn"})
        assert error_of(answer) == (403, "HookError")
        assert "darn" not in answer.text


@pytest.mark.parametrize("options", [{"limits": {"cost": 0}}, {"hooks": [CostLimit(per_scope=0)]}])
async def test_a_limit_of_cost_is_a_402_that_says_what_to_do(options: Any) -> None:
    model = ScriptedModel()
    model.name = "gpt-5"
    async with served(model, agent=options) as here:
        answer = await here.client.post(ASK, json={"message": "darn"})
        assert error_of(answer) == (402, "CostLimitExceeded")
        assert answer.json()["error"]["message"].startswith("the next request of this")
        assert model.calls == []


async def test_a_limit_of_cost_without_a_price_is_a_501_that_says_what_to_do() -> None:
    async with served(ScriptedModel(), agent={"hooks": [CostLimit(per_scope=1)]}) as here:
        answer = await here.client.post(ASK, json={"message": "hello"})
        assert error_of(answer) == (501, "UnknownPrice")
        assert "PRICES['scripted']" in answer.json()["error"]["message"]


async def test_turns_of_different_conversations_run_side_by_side() -> None:
    together = 20
    model = _Gathering(together)
    async with served(model) as here, anyio.create_task_group() as group:
        answers: list[int] = []

        async def ask(number: int) -> None:
            body = {"message": "hello", "conversation": str(number)}
            answers.append((await here.client.post(ASK, json=body)).status_code)

        with anyio.fail_after(20):
            for number in range(together):
                group.start_soon(ask, number)
            await model.all_there.wait()
    assert answers == [200] * together


class _Gathering:
    """Answers when so many are asking at once."""

    def __init__(self, many: int) -> None:
        self.many, self.all_there = many, anyio.Event()

    async def complete_chat(self, messages: Any, **options: Any) -> str:
        self.many -= 1
        if not self.many:
            self.all_there.set()
        await self.all_there.wait()
        return "hi"


# -- starting ------------------------------------------------------------------------------------


async def test_a_port_that_is_taken_is_named_at_the_start() -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = taken.getsockname()[1]
        with pytest.raises(AddressUnavailable, match=f"port {port} .* in use; .* another port"):
            async with Node(serve=http(port=port)):
                pass
    serving = http(port=port)
    async with Node(serve=serving), client_of(serving) as client:
        assert (await client.get("/health")).status_code == 200


@pytest.mark.parametrize("host", ["192.0.2.7", "no-such-host.invalid"])
async def test_a_host_that_is_not_here_is_an_error_that_says_so(host: str) -> None:
    with pytest.raises(AddressUnavailable, match="give an address of this machine"):
        async with Node(serve=http(host=host, port=0, token="t" * 20)):
            pass


async def test_small_pieces_are_sent_at_once() -> None:
    # asyncio turns Nagle's algorithm off only for sockets that name their protocol.
    with await listen("127.0.0.1", 0) as listener:
        assert listener.proto == socket.IPPROTO_TCP


async def test_the_address_is_known_while_it_serves_and_the_same_port_serves_again() -> None:
    serving = http(port=0)
    with pytest.raises(ServerError, match="chosen when the node starts; read it after that"):
        _ = serving.url
    for _ in range(2):
        node = Node()
        async with serving(node) as given:
            assert given is serving
            assert re.fullmatch(r"http://127\.0\.0\.1:\d+", given.url)
            with pytest.raises(ServerError, match="already serves a node"):
                async with serving(node):
                    pass
        await node.close()
    assert http(port=8123, host="::1").url == "http://[::1]:8123"
    assert http(host="LocalHost").url == "http://127.0.0.1:8000"


def test_on_trio_it_says_that_it_needs_asyncio() -> None:
    async def main(node: Node) -> None:
        raise AssertionError("must not begin")

    with pytest.raises(ServerError, match="asyncio only"):
        Node.start(main, serve=http(port=0), backend="trio")


@pytest.mark.parametrize(
    ("options", "says"),
    [
        ({"port": -1}, "port must be >= 0 and <= 65535, not -1"),
        ({"port": 65536}, "port must be >= 0 and <= 65535, not 65536"),
        ({"port": "8000"}, "port must be a whole number >= 0 and <= 65535, not str"),
        ({"port": True}, "port must be a whole number >= 0 and <= 65535, not True"),
        ({"grace_seconds": -1.0}, "grace_seconds"),
        ({"grace_seconds": float("nan")}, "grace_seconds"),
        ({"keep_alive_seconds": 0}, "keep_alive_seconds"),
        ({"host": None}, "host must be a string"),
    ],
)
def test_bad_options_are_refused_when_they_are_given(options: dict[str, Any], says: str) -> None:
    with pytest.raises((ValueError, TypeError), match=says):
        http(**options)


def test_without_the_extra_it_is_named_and_the_library_still_imports() -> None:
    code = """
import sys
sys.modules["starlette"] = sys.modules["uvicorn"] = None
import autonomy_ctx
from autonomy_ctx.server import http
try:
    http()
except ImportError as error:
    print(error)
"""
    ran = subprocess.run([sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, check=True)
    assert ran.stdout == "the HTTP API needs starlette and uvicorn: pip install 'autonomy-ctx[server]'\n"


def test_importing_the_package_imports_neither_starlette_nor_uvicorn() -> None:
    code = "import sys, autonomy_ctx, autonomy_ctx.server; print(*sys.modules)"
    ran = subprocess.run([sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, check=True)
    assert {"starlette", "uvicorn"}.isdisjoint(ran.stdout.split())


def test_the_reference_has_the_signature_of_today() -> None:
    page = (ROOT / "docs" / "reference" / "server.md").read_text(encoding="utf-8")
    written = re.search(r"`http\(\*, ([^`]*)\)`", page)
    assert written is not None
    names = [one.partition("=")[0].strip() for one in written[1].split(",")]
    assert names == list(inspect.signature(http).parameters)
