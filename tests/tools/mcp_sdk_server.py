"""An MCP server made with the official SDK, for the tests: over stdio, or over HTTP on a port it prints."""

from __future__ import annotations

import base64
import os
import socket
import sys
from typing import Any

import anyio
from mcp.server.mcpserver import Context, Image, MCPServer
from mcp_types import (
    AudioContent,
    BlobResourceContents,
    CallToolResult,
    EmbeddedResource,
    ImageContent,
    ResourceLink,
    TextContent,
    TextResourceContents,
)
from pydantic import BaseModel

PNG = base64.b64decode(
    "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg=="
)
server = MCPServer("tested", instructions="Use it well.")
began, cancelled = anyio.Event(), anyio.Event()


class Address(BaseModel):
    """Where somebody lives."""

    street: str
    next_door: Address | None = None


@server.tool()
def add(a: int, b: int) -> int:
    """Add two numbers."""
    return a + b


@server.tool()
def send_letter(to: Address, scope: str = "home") -> str:
    """Send a letter to an address."""
    return f"sent to {to.street}, {scope}"


@server.tool()
def draw() -> Image:
    """Draw a picture."""
    return Image(data=PNG, format="png")


@server.tool()
def give_everything() -> CallToolResult:
    """Give one of each kind of content."""
    data = base64.b64encode(PNG).decode()
    text = TextResourceContents(uri="memo://1", text="remember the milk")
    return CallToolResult(
        content=[
            TextContent(text="a text"),
            ImageContent(data=data, mime_type="image/jpeg"),
            ImageContent(data="not base64!", mime_type="image/png"),
            ImageContent(data=base64.b64encode(b"<svg/>").decode(), mime_type="image/svg+xml"),
            AudioContent(data=data, mime_type="audio/wav"),
            ResourceLink(name="report", uri="file:///report.pdf", mime_type="application/pdf"),
            EmbeddedResource(resource=text),
            EmbeddedResource(
                resource=BlobResourceContents(uri="file:///a.zip", blob=data, mime_type="application/zip")
            ),
        ],
        structured_content={"answer": 42},
    )


@server.tool()
def give_data() -> CallToolResult:
    """Give data without a word."""
    return CallToolResult(content=[], structured_content={"answer": 42})


@server.tool()
def fail() -> str:
    """Fail."""
    raise ValueError("the pipe is frozen")


@server.tool()
def tell_process() -> str:
    """Tell which process this is."""
    return str(os.getpid())


@server.tool()
def tell_variable(name: str) -> str:
    """Tell an environment variable."""
    return os.environ.get(name, "unset")


@server.tool()
def tell_header(ctx: Context[Any, Any], name: str) -> str:
    """Tell a header of the request."""
    return str((ctx.headers or {}).get(name, "unset"))


@server.tool()
def write_log(text: str) -> str:
    """Write to stderr."""
    print(text, file=sys.stderr, flush=True)
    return "written"


@server.tool()
async def wait_for_ever() -> str:
    """Wait until it is cancelled."""
    began.set()
    try:
        await anyio.sleep_forever()
    finally:
        cancelled.set()
    return "never"


@server.tool()
async def tell_when_begun() -> str:
    """Answer once another call waits for ever."""
    await began.wait()
    return "it waits"


@server.tool()
async def tell_when_cancelled() -> str:
    """Answer once another call was cancelled."""
    await cancelled.wait()
    return "it was cancelled"


@server.tool()
async def learn(ctx: Context[Any, Any], name: str) -> str:
    """Add a tool that greets, take away `add`, and tell so."""

    def greet() -> str:
        """Greet."""
        return f"{name} says hello"

    server.add_tool(greet, name=name)
    server.remove_tool("add")
    await ctx.notify_tools_changed()
    return "learnt"


@server.tool(name="files.read/now please")
def read_now() -> str:
    """Read a file now."""
    return "read"


def main() -> None:
    """Serve over stdio, or with `--http` over HTTP."""
    print("the tested server starts", file=sys.stderr, flush=True)
    if "--http" not in sys.argv:
        server.run("stdio")
        return
    # Only here: it takes a tenth of the time in which the server starts.
    import uvicorn

    # With its protocol: asyncio sends small pieces at once only where it knows that it is TCP.
    listener = socket.socket(socket.AF_INET, socket.SOCK_STREAM, socket.IPPROTO_TCP)
    listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    listener.bind(("127.0.0.1", int(sys.argv[sys.argv.index("--http") + 1])))
    listener.listen()
    print(listener.getsockname()[1], flush=True)
    config = uvicorn.Config(server.streamable_http_app(), log_level="error")
    anyio.run(uvicorn.Server(config).serve, [listener])


if __name__ == "__main__":
    main()
