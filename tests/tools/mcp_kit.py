"""What the tests of MCP tools share: servers to start, calls to make, and waiting for processes."""

from __future__ import annotations

import json
import os
import select
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import anyio
import anyio.lowlevel

from autonomy_ctx.items.message import Message, ToolCall
from autonomy_ctx.tools import McpServer, mcp_server
from autonomy_ctx.tools.run import run_calls

FOLDER = Path(__file__).parent
# A server gets few variables; this one says where modules are in these tests.
PYTHON_PATH = {"PYTHONPATH": os.environ.get("PYTHONPATH", "")}
PATIENCE = 30.0


def sdk_server(**options: Any) -> McpServer:
    """The server that was made with the SDK; it takes a second or two to start."""
    args = [str(FOLDER / "mcp_sdk_server.py")]
    return mcp_server(sys.executable, args=args, env={**PYTHON_PATH, **options.pop("env", {})}, **options)


def plain_server(odd: str = "", **options: Any) -> McpServer:
    """The server of the older protocol, which starts at once."""
    return mcp_server(sys.executable, args=["-S", str(FOLDER / "mcp_plain_server.py"), odd], **options)


async def called(server: McpServer, name: str, /, **arguments: Any) -> Message:
    """The message of a call, as an agent would store it."""
    call = ToolCall("c1", name, json.dumps(arguments))
    [outcome] = await run_calls([call], server.listed_tools())
    assert outcome.message is not None
    return outcome.message


async def until(condition: Callable[[], bool]) -> None:
    """Wait until something is so."""
    with anyio.fail_after(PATIENCE):
        while not condition():
            await anyio.lowlevel.checkpoint()


def wait_for_end(pid: int) -> None:
    """Wait until a process is gone."""
    try:
        process = os.pidfd_open(pid)
    except ProcessLookupError:
        return
    try:
        poll = select.poll()
        poll.register(process, select.POLLIN)
        assert poll.poll(PATIENCE * 1000), "the process is still there"
    finally:
        os.close(process)


@contextmanager
def http_server(port: int = 0) -> Iterator[tuple[int, subprocess.Popen[str]]]:
    """The SDK's server over HTTP: its port, and its process."""
    command = [sys.executable, str(FOLDER / "mcp_sdk_server.py"), "--http", str(port)]
    with subprocess.Popen(
        command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True, env=os.environ | PYTHON_PATH
    ) as process:
        assert process.stdout is not None
        try:
            yield int(process.stdout.readline()), process
        finally:
            process.kill()
