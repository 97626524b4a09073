"""Tools of MCP servers, with the official SDK and real processes."""

from __future__ import annotations

import json
import logging
import os
import re
import signal
import subprocess
import sys
import threading
from collections.abc import AsyncIterator, Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import anyio
import pytest
from agents.kit import add_up, assert_valid, call, calls, made, stored
from pty_process import PACKAGE_FOLDER
from tools.mcp_kit import SessionServer, called, http_server, plain_server, sdk_server, until, wait_for_end

from autonomy_ctx import Agent, ImageContent, Memory, Node, TextContent
from autonomy_ctx.errors import InvalidAgent, McpServerUnavailable
from autonomy_ctx.testing import ScriptedModel
from autonomy_ctx.tools import McpServer, mcp_server
from autonomy_ctx.tools.mcp_content import valid_names

ROOT = Path(__file__).parent.parent.parent
SECRET = "s3cr3t-t0ken"
# Where the event loop makes no difference, and the server takes long to start.
one_loop = pytest.mark.parametrize("anyio_backend", ["asyncio"])


@pytest.fixture(scope="module")
def shared_url() -> Iterator[str]:
    """The address of a server of the SDK that tests share, because it takes a second or two to start."""
    with http_server() as (port, _):
        yield f"http://127.0.0.1:{port}/mcp"


@pytest.fixture
async def memory(tmp_path: Path) -> AsyncIterator[Memory]:
    async with Memory(f"sqlite:///{tmp_path}/memory.db") as opened:
        yield opened


def offered(model: ScriptedModel, at: int) -> list[str]:
    """The names of the tools that a model was told of."""
    return [tool["name"] for tool in model.calls[at].options["tools"]]


def names(server: McpServer) -> list[str]:
    return [tool.name for tool in server.listed_tools()]


# -- turns -----------------------------------------------------------------------------------------------


async def test_an_agent_calls_a_tool_of_a_server_and_keeps_call_and_result(memory: Memory) -> None:
    model = ScriptedModel([calls(call("add", a=19, b=23)), calls(call("draw")), "42"])
    async with Node(memory=memory) as node:
        agent = await Agent.start(
            node=node, name="helper", instructions="Help.", model=model, tools=[sdk_server()]
        )
        assert (await agent.send("What is 19 + 23?", scope="ana")).text == "42"
        history = await stored(agent.memory, "ana")
        roles = "user assistant tool assistant tool assistant"
        assert [one.role.value for one in history] == roles.split()
        assert history[2].text == "42"
        assert history[2].tool_call_id == history[1].tool_calls[0].id
        [picture] = history[4].parts
        assert isinstance(picture, ImageContent)
        assert picture.image.startswith("data:image/png;base64,")
        assert_valid(history)
        told = {tool["name"]: tool for tool in model.calls[0].options["tools"]}
        assert told["add"]["description"] == "Add two numbers."
        assert told["add"]["parameters"]["required"] == ["a", "b"]


async def test_an_agent_without_a_start_has_the_tools_in_its_first_turn(memory: Memory) -> None:
    agent = made(memory, ScriptedModel([calls(call("greet")), "done"]), plain_server())
    await agent.send("hi")
    assert (await stored(agent.memory))[2].text.startswith("hello from")
    await agent.close()


async def test_agents_that_share_a_server_share_its_process(memory: Memory) -> None:
    server = plain_server()
    first = made(memory, ScriptedModel([calls(call("greet")), "a"]), server)
    model = ScriptedModel([calls(call("greet")), "b"])
    second = Agent("other", "Helps.", [server], model=model, memory=memory)
    for agent in (first, second):
        await agent.send("hi")
    [greeting, other] = [(await stored(agent.memory))[2].text for agent in (first, second)]
    assert greeting == other
    await first.close()
    assert server.is_connected
    await second.close()
    assert server.error is None
    wait_for_end(int(greeting.rpartition(" ")[2]))


async def test_an_agent_that_never_used_a_server_does_not_close_it(memory: Memory) -> None:
    async with plain_server() as server:
        await server.connect()
        await made(memory, ScriptedModel("hello"), server).close()
        assert server.is_connected


async def test_a_server_that_does_not_end_by_itself_is_ended(memory: Memory) -> None:
    server = plain_server("stays")
    await server.connect()
    pid = int((await called(server, "greet")).text.rpartition(" ")[2])
    await server.close()
    wait_for_end(pid)


# -- names and schemas -----------------------------------------------------------------------------------


@one_loop
async def test_names_and_schemas_are_such_as_every_provider_takes(shared_url: str) -> None:
    async with mcp_server(url=shared_url) as server:
        await server.connect()
        tools = {tool.name: tool.spec for tool in server.listed_tools()}
        assert all(re.fullmatch("[a-zA-Z0-9_-]{1,64}", name) for name in tools)
        assert "files_read_now_please" in tools
        assert "$ref" not in json.dumps(tools)
        street = tools["send_letter"]["parameters"]["properties"]["to"]["properties"]["street"]
        assert street["type"] == "string"
        # Names that we would inject into a function of our own are the server's here.
        told = await called(server, "send_letter", to={"street": "Rua Augusta"}, scope="office")
        assert told.text == "sent to Rua Augusta, office"


def test_names_are_unique_and_do_not_depend_on_their_order() -> None:
    given = ["a.b", "a b", "a_b", "x" * 80, "x" * 81, "fine", "…"]
    found = valid_names(given)
    assert len(set(found.values())) == len(given)
    assert (found["a_b"], found["fine"], found["…"]) == ("a_b", "fine", "tool")
    assert all(re.fullmatch("[a-zA-Z0-9_-]{1,64}", name) for name in found.values())
    assert valid_names(reversed(given)) == found


async def test_a_name_that_is_taken_gets_the_name_of_its_server_before_it(memory: Memory) -> None:
    def greet() -> str:
        """Greet."""
        return "own"

    servers = [plain_server(name="north"), plain_server(name="south", exclude=["die"])]
    model = ScriptedModel([calls(call("south_greet")), "done"])
    agent = made(memory, model, greet, *servers, builtin_tools=[])
    await agent.send("hi")
    names = ["greet", "read_result", "north_greet", "die", "south_greet"]
    assert offered(model, 0) == names
    assert (await stored(agent.memory))[2].text.startswith("hello from")
    assert [tool.name for tool in agent.tools] == names
    await agent.close()
    model = ScriptedModel("hello")
    async with made(memory, model, *servers, builtin_tools=[]) as other:
        await other.send("hi", conversation="other")
        assert offered(model, 0) == ["read_result", "greet", "die", "south_greet"]


@one_loop
async def test_tools_are_chosen_by_the_names_of_the_server(
    shared_url: str, caplog: pytest.LogCaptureFixture
) -> None:
    async with mcp_server(url=shared_url, tools=["add", "files.read/now please", "nothing"]) as server:
        await server.connect()
        assert names(server) == ["add", "files_read_now_please"]
    assert "has no tool nothing" in caplog.text


async def test_all_pages_of_tools_are_read() -> None:
    async with plain_server("pages") as server:
        await server.connect()
        assert names(server) == [f"tool-{at}" for at in range(5)]


@pytest.mark.parametrize(
    ("size", "count"), [(20_000, "20,000 tools, and"), (400, "800 tools or more, and")], ids=["page", "pages"]
)
async def test_a_server_with_too_many_tools_is_refused_and_named(size: int, count: str) -> None:
    server = plain_server(f"many:20000:{size}", name="huge")
    async with server:
        with pytest.raises(McpServerUnavailable) as refused:
            await server.connect()
        assert str(refused.value) == (
            f"MCP server 'huge' is not available: it lists {count} at most 500 can be used; "
            "name those that you need: mcp_server(..., tools=[...])"
        )
        assert not server.listed_tools()


async def test_of_a_server_with_too_many_tools_some_can_be_chosen() -> None:
    server = plain_server("many:20000:10000", tools=["tool-7", "tool-19999"])
    async with server:
        await server.connect()
        assert [tool.own_name for tool in server.listed_tools()] == ["tool-7", "tool-19999"]


async def test_schemas_of_tools_are_not_read_on_the_event_loop(caplog: pytest.LogCaptureFixture) -> None:
    """The record of a tool with a bad schema says which thread has read it."""
    caplog.set_level(logging.WARNING, logger="autonomy_ctx.tools.mcp")
    server = plain_server("bad-schema")
    async with server:
        await server.connect()
    [record] = [one for one in caplog.records if "no usable schema" in one.getMessage()]
    assert record.thread != threading.get_ident()


async def test_a_tool_with_an_unusable_schema_does_not_hurt_the_others(
    caplog: pytest.LogCaptureFixture,
) -> None:
    async with plain_server("bad-schema") as server:
        await server.connect()
        assert names(server) == ["greet", "die"]
    assert "its tool 'bad' has no usable schema" in caplog.text


# -- results ---------------------------------------------------------------------------------------------


async def test_results_of_every_kind_are_shown_as_text_and_images_and_errors_as_errors(
    shared_url: str,
) -> None:
    async with mcp_server(url=shared_url) as server:
        await server.connect()
        message = await called(server, "give_everything")
        text, image = message.parts
        assert isinstance(text, TextContent)
        assert text.text.splitlines() == [
            "a text",
            "[An image of type image/png is not shown: its data is damaged.]",
            "[An image of type image/svg+xml is not shown: models take PNG, JPEG, GIF and WebP.]",
            "[Audio of type audio/wav is not shown.]",
            "[Resource report at file:///report.pdf (application/pdf)]",
            "[Resource memo://1]",
            "remember the milk",
            "[Resource file:///a.zip has data of application/zip, which is not shown.]",
        ]
        # Its bytes say what it is, not its label.
        assert isinstance(image, ImageContent)
        assert image.image.startswith("data:image/png;base64,")
        # What is sent twice, as text and as data, is shown once.
        assert (await called(server, "add", a=1, b=2)).text == "3"
        assert (await called(server, "give_data")).text == '{"answer": 42}'
        failed = await called(server, "fail")
        assert failed.is_error
        assert failed.text == "McpToolFailed: Error executing tool fail"
        wrong = await called(server, "add", a="one")
        assert wrong.is_error
        assert "valid integer" in wrong.text


async def test_a_result_that_is_none_is_an_error_result() -> None:
    async with plain_server("broken-result") as server:
        await server.connect()
        message = await called(server, "greet")
        assert message.is_error
        assert "no result of a tool" in message.text
        assert server.is_connected


async def test_long_results_are_capped_like_those_of_other_tools(memory: Memory) -> None:
    agent = made(memory, ScriptedModel([calls(call("greet")), "done"]), plain_server("long"))
    await agent.send("tell me")
    result = (await stored(agent.memory))[2]
    assert len(result.text.encode()) <= 64_000
    assert "not shown here" in result.text
    whole = await agent.get_full_message(result.id)
    assert whole is not None
    assert whole["content"] == "line\n" * 20_000
    await agent.close()


# -- time ------------------------------------------------------------------------------------------------


async def test_a_call_that_takes_too_long_is_cancelled_at_the_server() -> None:
    async with sdk_server(timeout_seconds=0.2) as server:
        await server.connect()
        message = await called(server, "wait_for_ever")
        assert message.is_error
        assert message.text.startswith("ToolTimeout: `wait_for_ever` was stopped after 0.2 s")
        # Called as a function, because it may take longer.
        assert await server.call("tell_when_cancelled", {}) == "it was cancelled"


async def test_a_turn_that_is_cancelled_cancels_its_call_at_the_server(memory: Memory) -> None:
    server = sdk_server()
    agent = made(memory, ScriptedModel([calls(call("wait_for_ever")), "never"]), server)
    await server.connect()
    async with anyio.create_task_group() as group:
        group.start_soon(agent.send, "wait")
        assert await server.call("tell_when_begun", {}) == "it waits"
        group.cancel_scope.cancel()
    assert await server.call("tell_when_cancelled", {}) == "it was cancelled"
    assert_valid(await stored(agent.memory))
    await agent.close()


@one_loop
async def test_calls_run_side_by_side_over_one_connection() -> None:
    async with sdk_server() as server:
        await server.connect()
        answers: dict[int, str] = {}

        async def ask(number: int) -> None:
            answers[number] = (await called(server, "add", a=number, b=1)).text

        async with anyio.create_task_group() as group:
            group.start_soon(server.call, "wait_for_ever", {})
            assert await server.call("tell_when_begun", {}) == "it waits"
            async with anyio.create_task_group() as inner:
                for number in range(20):
                    inner.start_soon(ask, number)
            group.cancel_scope.cancel()
        assert answers == {number: str(number + 1) for number in range(20)}


# -- servers that are away -------------------------------------------------------------------------------


@one_loop
async def test_a_server_that_is_killed_is_started_again_with_the_next_call() -> None:
    async with sdk_server() as server:
        await server.connect()
        pid = int((await called(server, "tell_process")).text)
        answers: list[Any] = []

        async def wait() -> None:
            answers.append(await called(server, "wait_for_ever"))

        async with anyio.create_task_group() as group:
            group.start_soon(wait)
            await server.call("tell_when_begun", {})
            os.kill(pid, signal.SIGKILL)
        [message] = answers
        assert message.is_error
        assert "was lost while `wait_for_ever` ran, so it may or may not have been done" in message.text
        again = await called(server, "tell_process")
        assert not again.is_error
        assert int(again.text) != pid
        assert server.error is None


async def test_a_server_that_dies_at_each_call_is_left_alone_for_longer_each_time() -> None:
    now = 0.0
    async with plain_server(clock=lambda: now) as server:
        await server.connect()
        for seconds in (1, 2, 4):
            assert "was lost while `die` ran" in (await called(server, "die")).text
            message = await called(server, "die")
            assert f"it can be tried again in {seconds:.1f} s" in message.text
            now += seconds
        assert (await called(server, "greet")).text.startswith("hello")
        # It was of use: after its next end it is started again at once.
        assert "was lost" in (await called(server, "die")).text
        assert (await called(server, "greet")).text.startswith("hello")


async def test_a_server_that_is_down_hurts_nobody_and_is_tried_again(
    memory: Memory, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    now = 0.0
    script = tmp_path / "later.py"
    late = mcp_server(sys.executable, args=["-S", str(script)], name="late", clock=lambda: now)
    model = ScriptedModel([calls(call("add_up", a=1, b=2)), "three", "nothing yet", "soon", "here"])
    agent = made(memory, model, add_up, late, plain_server(exclude=["die"]), builtin_tools=[])
    await agent.send("hi")
    assert [offered(model, at) for at in (0, 1)] == [["add_up", "read_result", "greet"]] * 2
    assert isinstance(late.error, McpServerUnavailable)
    assert "MCP server 'late' is not available" in caplog.text
    script.write_text((Path(__file__).parent / "mcp_plain_server.py").read_text(encoding="utf-8"))
    await agent.send("too early to try")
    assert not late.is_connected
    now = 1.0
    # This turn starts it, and does not wait for it.
    await agent.send("now")
    await until(lambda: late.is_connected)
    await agent.send("and now?")
    assert offered(model, -1) == ["add_up", "read_result", "greet", "late_greet", "die"]
    await agent.close()


async def test_connecting_by_hand_tells_what_is_wrong() -> None:
    with pytest.raises(McpServerUnavailable, match=r"'nowhere' is not available: its command, or the folder"):
        await mcp_server("/no/such/nowhere --token=s3cr3t-t0ken").connect()
    with pytest.raises(McpServerUnavailable, match=r"'silent' .* it did not answer within 0\.3 s"):
        await plain_server("silent", name="silent", connect_timeout_seconds=0.3).connect()
    with pytest.raises(McpServerUnavailable) as caught:
        await plain_server("fails", env={"TOKEN": SECRET}).connect()
    assert "it wrote: cannot find the token ***" in str(caught.value)
    assert SECRET not in str(caught.value)


async def test_changed_tools_are_there_in_the_next_turn(
    memory: Memory, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO, "autonomy_ctx.tools.mcp")
    server = sdk_server(tools=["add", "learn", "hallo", "fail"])
    model = ScriptedModel(
        [calls(call("learn", name="hallo")), calls(call("hallo")), "learnt", calls(call("hallo")), "hello"]
    )
    agent = made(memory, model, server, builtin_tools=[])
    await agent.send("learn")
    # Within a turn a model has the tools that it was told of.
    assert offered(model, 2) == ["read_result", "add", "fail", "learn"]
    assert (await stored(agent.memory))[4].text.startswith("UnknownTool")
    await until(lambda: "hallo" in names(server))
    await agent.send("greet")
    assert offered(model, 3) == ["read_result", "fail", "learn", "hallo"]
    assert (await stored(agent.memory))[-2].text == "hallo says hello"
    assert "its tools changed (new: hallo; gone: add)" in caplog.text
    await agent.close()


async def test_an_older_server_tells_of_changed_tools_too() -> None:
    async with plain_server("learns") as server:
        await server.connect()
        before = server.listed_tools()
        await called(server, "greet")
        await until(lambda: names(server) == ["greet", "die", "wave"])
        # Those that stayed are the same objects.
        assert list(server.listed_tools()[:2]) == list(before)


# -- processes and secrets -------------------------------------------------------------------------------

CRASHING = """
import os, sys
import anyio
from autonomy_ctx import Agent
from autonomy_ctx.testing import ScriptedModel
from pty_process import PACKAGE_FOLDER
from tools.mcp_kit import SessionServer, called, plain_server

async def main():
    server = plain_server()
    agent = Agent("helper", "Helps.", [server], model=ScriptedModel("hello"))
    await agent.send("hi")
    print((await called(server, "greet")).text.rpartition(" ")[2], flush=True)
    END

anyio.run(main, backend=sys.argv[1])
"""


@pytest.mark.parametrize("backend", ["asyncio", "trio"])
@pytest.mark.parametrize("end", ["raise RuntimeError('the loop crashed')", "os._exit(1)"])
def test_the_process_of_a_server_ends_with_a_loop_that_crashes(
    backend: str, end: str, tmp_path: Path
) -> None:
    environment = os.environ | {"PYTHONPATH": f"{PACKAGE_FOLDER}{os.pathsep}{ROOT / 'tests'}"}
    command = [sys.executable, "-c", CRASHING.replace("END", end), backend]
    ran = subprocess.run(command, env=environment, cwd=tmp_path, capture_output=True, text=True)
    assert ran.returncode == 1, ran.stderr
    wait_for_end(int(ran.stdout))


@one_loop
async def test_a_server_gets_the_variables_it_is_given_and_its_stderr_is_logged(
    caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    caplog.set_level(logging.INFO, "autonomy_ctx.tools.mcp")
    monkeypatch.setenv("OUR_OWN_KEY", "not for servers")
    async with sdk_server(env={"TOKEN": SECRET}) as server:
        await server.connect()
        # Only what it is given; results are the model's to read.
        assert (await called(server, "tell_variable", name="OUR_OWN_KEY")).text == "unset"
        assert (await called(server, "tell_variable", name="TOKEN")).text == SECRET
        await called(server, "write_log", text=f"I use {SECRET} and Lisbon")
        await until(lambda: "Lisbon" in caplog.text)
        for text in (repr(server), str(vars(server)), caplog.text):
            assert SECRET not in text
    assert "MCP server 'mcp_sdk_server': I use *** and Lisbon" in caplog.text


# -- HTTP ------------------------------------------------------------------------------------------------


async def test_a_server_over_http_is_used_and_comes_back_after_a_restart(
    memory: Memory, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.DEBUG, "autonomy_ctx")
    headers = {"Authorization": f"Bearer {SECRET}"}
    with http_server() as (port, process):
        server = mcp_server(url=f"http://127.0.0.1:{port}/mcp?key=an0ther-s3cret", headers=headers)
        model = ScriptedModel([calls(call("tell_header", name="authorization")), "done"])
        agent = made(memory, model, server)
        await agent.send("hi")
        assert (await stored(agent.memory))[2].text == f"Bearer {SECRET}"
        assert server.name == "127_0_0_1"
        process.kill()
        process.wait()
        lost = await called(server, "add", a=1, b=2)
        assert lost.is_error
        assert SECRET not in lost.text
    with http_server(port):
        assert (await called(server, "add", a=1, b=2)).text == "3"
    await agent.close()
    assert SECRET not in caplog.text
    assert "an0ther-s3cret" not in caplog.text


@one_loop
async def test_a_timeout_over_http_reaches_the_server(shared_url: str) -> None:
    """The only test that cancels a call of the shared server, which says once and for all that it was."""
    async with mcp_server(url=shared_url, timeout_seconds=0.2) as server:
        await server.connect()
        assert (await called(server, "wait_for_ever")).text.startswith("ToolTimeout")
        assert await server.call("tell_when_cancelled", {}) == "it was cancelled"


async def test_an_address_where_nothing_listens_is_an_error_without_secrets() -> None:
    server = mcp_server(url=f"http://user:{SECRET}@127.0.0.1:9/mcp?key={SECRET}")
    with pytest.raises(McpServerUnavailable, match="MCP server '127_0_0_1' is not available") as caught:
        await server.connect()
    assert SECRET not in str(caught.value)


async def test_a_session_that_the_server_forgot_is_begun_again() -> None:
    with SessionServer() as http:
        async with mcp_server(url=http.url) as server:
            await server.connect()
            assert (await called(server, "greet")).text == "hello"
            http.sessions.clear()
            assert "was lost while `greet` ran" in (await called(server, "greet")).text
            assert (await called(server, "greet")).text == "hello"


async def test_a_wrong_token_is_told_by_its_status() -> None:
    with SessionServer() as http:
        http.token = "another"
        with pytest.raises(McpServerUnavailable, match=r"its last answer was HTTP 401"):
            await mcp_server(url=http.url, headers={"Authorization": f"Bearer {SECRET}"}).connect()


async def test_headers_do_not_follow_a_redirect_to_another_server() -> None:
    seen: list[str | None] = []

    class Other(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            seen.append(self.headers.get("X-Api-Key"))
            self.send_error(404)

        def log_message(self, *args: Any) -> None:
            pass

    class First(Other):
        def do_POST(self) -> None:
            self.send_response(307)
            self.send_header("Location", f"http://127.0.0.1:{other.server_port}/mcp")
            self.end_headers()

    address = ("127.0.0.1", 0)
    # With threads: one that waits for a connection's next byte could not be told to stop.
    with ThreadingHTTPServer(address, Other) as other, ThreadingHTTPServer(address, First) as first:
        threads = [threading.Thread(target=one.serve_forever) for one in (other, first)]
        for thread in threads:
            thread.start()
        try:
            url = f"http://127.0.0.1:{first.server_port}/mcp"
            with pytest.raises(McpServerUnavailable):
                await mcp_server(url=url, headers={"X-Api-Key": SECRET}).connect()
        finally:
            for one in (other, first):
                one.shutdown()
    assert seen
    assert set(seen) == {None}


# -- arguments -------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("arguments", "options", "message"),
    [
        ((), {}, "takes a command, or url"),
        (("uvx a",), {"url": "http://localhost"}, "takes a command, or url"),
        (("",), {}, "the command is empty"),
        (("uvx a",), {"headers": {"a": "b"}}, "headers go with url"),
        ((), {"url": "http://localhost", "env": {"a": "b"}}, "args, env and cwd go with a command"),
        ((), {"url": "ftp://localhost"}, "must begin with http"),
        (("uvx a",), {"name": "has space"}, "letters, digits"),
        (("uvx a",), {"timeout_seconds": -1}, "timeout_seconds"),
        (("uvx a",), {"connect_timeout_seconds": 0}, "connect_timeout_seconds"),
    ],
)
def test_wrong_arguments_are_refused_at_once(
    arguments: tuple[Any, ...], options: dict[str, Any], message: str
) -> None:
    with pytest.raises(ValueError, match=message):
        mcp_server(*arguments, **options)


@pytest.mark.parametrize(
    "options",
    [
        {"env": {"a": 1}},
        {"env": ["a"]},
        {"tools": "add"},
        {"exclude": [1]},
        {"headers": "a: b"},
        {"args": "a"},
    ],
)
def test_arguments_of_wrong_types_are_refused_at_once(options: dict[str, Any]) -> None:
    with pytest.raises(TypeError, match=r"mcp_server: (the command|args|env|headers|tools|exclude) must be"):
        mcp_server("uvx a", **options)


def test_a_list_as_command_is_refused_with_the_way_to_write_it() -> None:
    with pytest.raises(TypeError, match=r"the command must be a text, .* not list; give the other words as"):
        mcp_server(["uvx", "mcp-server-git"])  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("command", "name"),
    [
        ("uvx mcp-server-git --repository .", "mcp-server-git"),
        ("npx -y @modelcontextprotocol/server-filesystem /tmp", "server-filesystem"),
        ("python -m", "python"),
        ("uv run tools/weather.py", "weather"),
        ("/usr/bin/thing", "thing"),
    ],
)
def test_a_server_is_named_for_its_program(command: str, name: str) -> None:
    assert mcp_server(command).name == name


def test_the_lines_of_a_clients_configuration_are_arguments() -> None:
    lines = json.loads('{"command": "uvx", "args": ["mcp-server-git"], "env": {"A": "b"}}')
    assert mcp_server(**lines).name == "mcp-server-git"


def test_without_the_extra_one_error_says_what_to_install() -> None:
    code = (
        "import sys; sys.modules['mcp'] = None\n"
        "from autonomy_ctx.tools import mcp_server\n"
        "try: mcp_server('uvx a')\n"
        "except ImportError as error: print(error)"
    )
    ran = subprocess.run([sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, check=True)
    assert ran.stdout.strip().endswith("pip install 'autonomy-ctx[mcp]'")


def test_a_saved_agent_is_given_its_servers_again() -> None:
    agent = Agent("helper", "Helps.", [add_up, plain_server(name="north")])
    saved = json.loads(json.dumps(agent.to_dict()))
    assert (saved["tools"], saved["tool_sources"]) == (["add_up"], ["north"])
    with pytest.raises(InvalidAgent, match="was saved with the servers north; give `tools` again"):
        Agent.from_dict(saved)
    assert Agent.from_dict(saved, tools=[add_up, plain_server(name="north")]).name == "helper"
