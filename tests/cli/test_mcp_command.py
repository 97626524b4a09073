"""`autonomy-ctx mcp`, driven by the official client over stdio and HTTP."""

from __future__ import annotations

import hashlib
import json
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import anyio
import httpx
import httpx2
import pytest
from cli.test_memory_tools import READING, WRITING, fill
from mcp.client import Client
from mcp.client.stdio import StdioServerParameters, stdio_client
from mcp.client.streamable_http import streamable_http_client
from pty_process import command_environment, run_command

from autonomy_ctx import Agent, Memory
from autonomy_ctx.testing import ScriptedModel
from autonomy_ctx.tools import mcp_server

pytestmark = pytest.mark.parametrize("anyio_backend", ["asyncio"])


@pytest.fixture
def database(tmp_path: Path) -> Path:
    async def make() -> None:
        async with Memory(f"sqlite:///{tmp_path}/trips.db") as memory:
            await fill(memory)
            # A search brings the index of words up to date, as it does anywhere.
            await memory.for_agent("guide").search("ana", "hotel")

    anyio.run(make)
    return tmp_path / "trips.db"


def arguments(database: Path, *more: str) -> list[str]:
    return ["-m", "autonomy_ctx", "mcp", "--memory", str(database), "--scope", "ana", *more]


def parameters(database: Path, *more: str) -> StdioServerParameters:
    # In another folder than this one, where Python would take the package from.
    return StdioServerParameters(
        command=sys.executable,
        args=arguments(database, *more),
        env=command_environment(),
        cwd=database.parent,
    )


def contents(database: Path) -> dict[str, str]:
    """What is in each file beside a database, which a reader may not change."""
    return {
        file.name: hashlib.sha256(file.read_bytes()).hexdigest() for file in sorted(database.parent.iterdir())
    }


async def test_a_client_reads_a_scope_over_stdio_and_changes_nothing(database: Path) -> None:
    before = contents(database)
    async with Client(parameters(database, "--agent", "guide")) as client:
        assert client.server_info is not None
        assert client.server_info.name == "autonomy-ctx"
        assert "search_memory" in (client.instructions or "")
        tools = {tool.name: tool for tool in (await client.list_tools()).tools}
        assert set(tools) == READING
        for tool in tools.values():
            assert tool.description
            assert tool.annotations is not None
            assert tool.annotations.read_only_hint
            assert all(one.get("description") for one in tool.input_schema["properties"].values())
        found = await client.call_tool("search_memory", {"query": "hotel in Lisbon"})
        assert not found.is_error
        assert "Hotel Aurora" in found.content[0].text  # type: ignore[union-attr]
        assert found.structured_content["messages"][0]["conversation"] == "trip"
        for name in READING - {"search_memory"}:
            answer = await client.call_tool(name, {})
            assert not answer.is_error
            assert "Belvedere" not in answer.content[0].text  # type: ignore[union-attr]
        wrong = await client.call_tool("read_messages", {"conversation": "trap"})
        assert wrong.is_error
        assert "there are 'trip'" in wrong.content[0].text  # type: ignore[union-attr]
        wrong = await client.call_tool("search_memory", {"query": "hotel", "scope": "ben"})
        assert "unknown argument" in wrong.content[0].text  # type: ignore[union-attr]
        with pytest.raises(Exception, match="there is no tool 'pin_message'"):
            await client.call_tool("pin_message", {"position": 1})
    assert contents(database) == before


async def test_with_write_a_client_pins_and_changes_facts(database: Path) -> None:
    async with Client(parameters(database, "--agent", "guide", "--write")) as client:
        tools = {tool.name for tool in (await client.list_tools()).tools}
        assert tools == READING | WRITING
        assert not (await client.call_tool("unpin_message", {"position": 1})).is_error
        added = await client.call_tool("add_fact", {"kind": "decision", "text": "two nights"})
        assert added.structured_content["fact"]["text"] == "two nights"
    async with Memory(f"sqlite:///{database}") as memory:
        view = memory.for_agent("guide")
        assert (await view.summary("ana", "trip")).pins == ()
        assert "two nights" in [fact.text for fact in await view.facts("ana", "trip")]


async def test_with_write_a_client_remembers_in_a_file_that_is_made_for_it(tmp_path: Path) -> None:
    database = tmp_path / "new.db"
    async with Client(parameters(database, "--write")) as client:
        stored = await client.call_tool("remember", {"text": "The hotel is in Rua Augusta."})
        assert stored.structured_content == {"agent": "", "conversation": "notes", "position": 1}
        found = await client.call_tool("search_memory", {"query": "hotel"})
        assert "The hotel is in Rua Augusta." in found.content[0].text  # type: ignore[union-attr]
        read = await client.call_tool("read_messages", {"conversation": "notes"})
        assert not read.is_error
    async with Memory(f"sqlite:///{database}") as memory:
        [message] = await memory.history("ana", "notes")
        assert (message["role"], message["content"]) == ("user", "The hotel is in Rua Augusta.")


async def test_without_write_no_file_is_made(tmp_path: Path) -> None:
    ran = run_command("mcp", "--memory", "new.db", "--scope", "ana", cwd=tmp_path)
    assert ran.returncode == 2
    assert "new.db does not exist" in ran.stderr
    assert [file async for file in anyio.Path(tmp_path).iterdir()] == []


async def test_an_older_client_is_served_too(database: Path) -> None:
    async with Client(stdio_client(parameters(database, "--agent", "guide")), mode="legacy") as client:
        answer = await client.call_tool("list_conversations", {})
        assert "'trip'" in answer.content[0].text  # type: ignore[union-attr]


async def test_an_agent_uses_the_memory_of_another_over_mcp(database: Path) -> None:
    call = {"name": "search_memory", "arguments": '{"query": "hotel in Lisbon"}'}
    model = ScriptedModel(
        [
            {
                "role": "assistant",
                "content": None,
                "tool_calls": [{"id": "1", "type": "function", "function": call}],
            },
            "Hotel Aurora.",
        ]
    )
    environment = command_environment()
    server = mcp_server(sys.executable, args=arguments(database), env=environment, cwd=database.parent)
    async with Agent("helper", "Helps.", [server], model=model) as agent:
        assert (await agent.send("Where did Ana stay?")).text == "Hotel Aurora."
        [result] = [one for one in await agent.history() if one["role"] == "tool"]
        assert "Book Hotel Aurora in Lisbon." in result["content"]


@contextmanager
def served(database: Path, *more: str) -> Iterator[dict[str, Any]]:
    """The command over HTTP: where it is, and its token."""
    command = [sys.executable, *arguments(database, "--http", "--json", *more)]
    environment = command_environment()
    with subprocess.Popen(
        command, stdout=subprocess.PIPE, text=True, env=environment, cwd=database.parent
    ) as process:
        assert process.stdout is not None
        try:
            yield json.loads(process.stdout.readline())
        finally:
            process.terminate()
            assert process.wait(30) == 0


async def test_a_client_reads_a_scope_over_http(database: Path) -> None:
    with served(database) as address:
        headers = {"Authorization": f"Bearer {address['token']}"}
        for mode in ("auto", "legacy"):
            async with (
                httpx2.AsyncClient(headers=headers) as http,
                Client(streamable_http_client(address["url"], http_client=http), mode=mode) as client,
            ):
                found = await client.call_tool("search_memory", {"query": "hotel in Lisbon"})
                assert "Hotel Aurora" in found.content[0].text  # type: ignore[union-attr]
                assert "Belvedere" not in found.content[0].text  # type: ignore[union-attr]


async def test_over_http_only_those_with_the_token_are_served_and_no_pages_of_other_sites(
    database: Path,
) -> None:
    with served(database, "--token", "a-token-of-ours") as address:
        assert address["token"] is None
        right = {"Authorization": "Bearer a-token-of-ours", "Accept": "application/json, text/event-stream"}
        body = {"jsonrpc": "2.0", "id": 1, "method": "tools/list"}
        async with httpx.AsyncClient() as client:
            refused = [
                ({}, 401),
                ({"Authorization": "Bearer wrong"}, 401),
                ({**right, "Host": "evil.example"}, 403),
                ({**right, "Origin": "https://evil.example"}, 403),
            ]
            for headers, status in refused:
                answer = await client.post(address["url"], json=body, headers=headers)
                assert answer.status_code == status
                assert "search_memory" not in answer.text


def test_what_cannot_be_served_is_said_on_stderr_and_makes_nothing(
    tmp_path: Path, anyio_backend: str
) -> None:
    ran = run_command("mcp", "--memory", "missing.db", "--scope", "ana", cwd=tmp_path)
    assert ran.returncode != 0
    assert ran.stdout == ""
    assert "missing.db" in ran.stderr
    assert list(tmp_path.glob("*.db*")) == []
    without = run_command("mcp", "--memory", "missing.db", cwd=tmp_path)
    assert "--scope" in without.stderr
    port = run_command("mcp", "-m", "missing.db", "-s", "ana", "--port", "80", cwd=tmp_path)
    assert "--host and --port need --http" in port.stderr


def test_stdout_has_nothing_but_the_protocol(database: Path, anyio_backend: str) -> None:
    command = [sys.executable, *arguments(database, "--debug"), "--conversation", "nothing-yet"]
    asked = {"jsonrpc": "2.0", "id": 1, "method": "ping"}
    ran = subprocess.run(
        command,
        input=json.dumps(asked) + "\n",
        capture_output=True,
        text=True,
        env=command_environment(),
        cwd=database.parent,
    )
    assert ran.returncode == 0, ran.stderr
    assert [json.loads(line)["id"] for line in ran.stdout.splitlines()] == [1]
