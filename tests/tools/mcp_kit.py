"""What the tests of MCP tools share: servers to start, calls to make, and waiting for processes."""

from __future__ import annotations

import json
import os
import select
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import anyio
import anyio.lowlevel

from autonomy_ctx.messages.message import Message, ToolCall
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


class SessionServer(ThreadingHTTPServer):
    """An MCP server of the older protocol over HTTP, which keeps sessions: `restart` forgets them."""

    daemon_threads = True

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), _SessionHandler)
        self.sessions: set[str] = set()
        self.token = ""

    @property
    def url(self) -> str:
        """Where it is."""
        return f"http://127.0.0.1:{self.server_port}/mcp"

    def __enter__(self) -> SessionServer:
        threading.Thread(target=self.serve_forever, daemon=True).start()
        return self

    def __exit__(self, *args: object) -> None:
        self.shutdown()
        self.server_close()


class _SessionHandler(BaseHTTPRequestHandler):
    server: SessionServer

    def do_POST(self) -> None:
        request = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        method, session = request["method"], self.headers.get("mcp-session-id")
        if self.server.token and self.headers.get("Authorization") != f"Bearer {self.server.token}":
            self._answer(401, {})
        elif method == "server/discover":
            error = {"code": -32601, "message": "Method not found"}
            self._answer(200, {"jsonrpc": "2.0", "id": request["id"], "error": error})
        elif method != "initialize" and session not in self.server.sessions:
            error = {"code": -32600, "message": "Session not found"}
            self._answer(404, {"jsonrpc": "2.0", "id": request.get("id"), "error": error})
        elif "id" not in request:
            self._answer(202, None)
        else:
            self._answer(200, {"jsonrpc": "2.0", "id": request["id"], "result": self._result(method)})

    def do_GET(self) -> None:
        self._answer(405, None)

    def do_DELETE(self) -> None:
        self._answer(200, None)

    def _result(self, method: str) -> dict[str, Any]:
        match method:
            case "initialize":
                self.server.sessions.add(f"session-{len(self.server.sessions) + 1}")
                info = {"name": "sessions", "version": "1"}
                return {"protocolVersion": "2025-06-18", "capabilities": {"tools": {}}, "serverInfo": info}
            case "tools/list":
                return {"tools": [{"name": "greet", "inputSchema": {"type": "object"}}]}
            case _:
                return {"content": [{"type": "text", "text": "hello"}]}

    def _answer(self, status: int, body: Any) -> None:
        data = b"" if body is None else json.dumps(body).encode()
        self.send_response(status)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(data)))
        if self.server.sessions:
            self.send_header("mcp-session-id", max(self.server.sessions))
        self.end_headers()
        self.wfile.write(data)

    def log_message(self, *args: Any) -> None:
        pass
