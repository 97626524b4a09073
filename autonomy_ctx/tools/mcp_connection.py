"""One connection to an MCP server, in its own task, with the official SDK; needs the extra `mcp`.

The SDK's contexts are entered and left in that task. Any other task may make calls or end the connection. The
process of a server runs as long as the connection.
"""

from __future__ import annotations

import logging
import math
import os
from collections import deque
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import AbstractAsyncContextManager, asynccontextmanager, suppress
from importlib import metadata
from typing import Any, Self

import anyio
import anyio.to_thread
import httpx2
import mcp_types
from anyio.abc import ObjectReceiveStream, TaskGroup
from mcp.client import Client
from mcp.client.stdio import StdioServerParameters, stdio_client
from mcp.client.streamable_http import streamable_http_client
from mcp.shared.exceptions import MCPError
from mcp_types.version import MODERN_PROTOCOL_VERSIONS

from autonomy_ctx.background import current_loop
from autonomy_ctx.errors import McpConnectionLost, McpServerUnavailable, McpToolFailed
from autonomy_ctx.tools.mcp_content import McpSettings

logger = logging.getLogger("autonomy_ctx.tools.mcp")

# Of what a server writes to stderr: the longest line that is logged, and how many lines an error repeats.
MAX_LINE, LINES_REPEATED = 2_000, 3
MAX_PAGES = 100
# Of a server, after `tools` and `exclude` have chosen: each is read here and sent with every request.
MAX_TOOLS = 500
# How long to wait before listening again for changes, after a stream of them was cut.
LISTEN_AGAIN_SECONDS, MAX_LISTEN_SECONDS = 1.0, 60.0
SESSION_HEADER = "mcp-session-id"
Listener = Callable[[list[mcp_types.Tool]], None]


class McpConnection:
    """A connection that lives while `run` does: `ready` when its tools are known, or when it has failed."""

    def __init__(self, settings: McpSettings, on_tools: Listener, is_chosen: Callable[[str], bool]) -> None:
        self.loop = current_loop()
        self.ready = anyio.Event()
        # Why there is no connection.
        self.error: McpServerUnavailable | None = None
        # Whether it ever was there, and answered a call.
        self.was_ready = self.was_used = False
        self._settings, self._on_tools, self._is_chosen = settings, on_tools, is_chosen
        # How many chosen tools the server has listed, of which not all may have been read.
        self._listed = 0
        self._client: Client | None = None
        self._lost = anyio.Event()
        self._tools_changed = anyio.Event()
        self._last_lines: deque[str] = deque(maxlen=LINES_REPEATED)
        # The last answer over HTTP.
        self._status = 200

    @property
    def is_over(self) -> bool:
        """Tell whether no more calls can be made, because it failed or was lost."""
        return self.error is not None or self._lost.is_set()

    async def run(self) -> None:
        """Connect, list the tools, and stay until the server or the caller ends it."""
        seconds = self._settings.connect_timeout_seconds
        problem = f"it did not answer within {seconds:g} s"
        try:
            with anyio.CancelScope(deadline=anyio.current_time() + seconds) as scope:
                async with (
                    self._open_transport() as transport,
                    Client(
                        transport,
                        cache=None,
                        client_info=mcp_types.Implementation(
                            name="autonomy-ctx", version=metadata.version("autonomy-ctx")
                        ),
                        message_handler=self._handle_message,
                        logging_callback=self._log_message,
                    ) as client,
                ):
                    await self._list_tools(client)
                    scope.deadline = math.inf
                    self._client, self.was_ready = client, True
                    self.ready.set()
                    await self._watch(client)
                    problem = "it ended"
        except Exception as error:
            problem = _describe(error)
        except BaseException:
            problem = "the connection was closed"
            raise
        finally:
            self._client = None
            lines = "".join(f"; it wrote: {line}" for line in self._last_lines)
            lines += f"; its last answer was HTTP {self._status}" if self._status >= 400 else ""
            self.error = McpServerUnavailable(self._settings.name, self._settings.redact(problem + lines))
            self.ready.set()

    async def call(self, tool: str, arguments: Mapping[str, Any]) -> mcp_types.CallToolResult:
        """The result of one call. A caller that is cancelled tells the server so."""
        client = self._client
        if client is None:
            raise self.error or McpServerUnavailable(self._settings.name, "it is not connected")
        params = mcp_types.CallToolRequestParams(name=tool, arguments=dict(arguments))
        try:
            # Not `call_tool`, which drops a result that does not fit the server's own schema.
            result = await client.session.send_request(
                mcp_types.CallToolRequest(params=params), mcp_types.CallToolResult
            )
        except MCPError as error:
            if error.code == mcp_types.CONNECTION_CLOSED or self._lost.is_set():
                self._lost.set()
                raise McpConnectionLost(self._settings.name, tool) from None
            raise McpToolFailed(self._settings.redact(error.message)) from None
        except ValueError:
            problem = "the server's answer is no result of a tool that this program understands"
            raise McpToolFailed(problem) from None
        self.was_used = True
        return result

    async def _watch(self, client: Client) -> None:
        """Take in changes of the tools until the connection is lost."""
        async with anyio.create_task_group() as group:
            group.start_soon(self._list_again, client)
            if client.protocol_version in MODERN_PROTOCOL_VERSIONS:
                group.start_soon(self._listen, client)
            await self._lost.wait()
            group.cancel_scope.cancel()

    async def _list_again(self, client: Client) -> None:
        while True:
            await self._tools_changed.wait()
            self._tools_changed = anyio.Event()
            try:
                await self._list_tools(client)
            except (MCPError, ValueError) as error:
                logger.warning(
                    "MCP server %r: its tools could not be listed again: %s",
                    self._settings.name,
                    self._settings.redact(_describe(error)),
                )

    async def _list_tools(self, client: Client) -> None:
        """Take in all chosen tools of a server, page by page."""
        found: list[mcp_types.Tool] = []
        cursor: str | None = None
        self._listed = 0
        for _ in range(MAX_PAGES):
            page = await client.list_tools(cursor=cursor)
            found += page.tools
            if self._listed > MAX_TOOLS:
                raise _TooManyTools(self._listed, has_more=page.next_cursor is not None)
            if page.next_cursor is None or page.next_cursor == cursor:
                break
            cursor = page.next_cursor
        # Schemas are read and checked, which takes a while for hundreds.
        await anyio.to_thread.run_sync(self._on_tools, found)

    def _limit_tools(self, message: Any) -> None:
        """Leave out of a listing, before the SDK reads it, what is not chosen and what is too much."""
        result = getattr(getattr(message, "message", None), "result", None)
        tools = result.get("tools") if isinstance(result, dict) else None
        if isinstance(result, dict) and isinstance(tools, list):
            chosen = [
                one for one in tools if not isinstance(one, dict) or self._is_chosen(str(one.get("name")))
            ]
            self._listed += len(chosen)
            result["tools"] = chosen[: MAX_TOOLS + 1]

    async def _listen(self, client: Client) -> None:
        """Listen for changes, as newer servers want it; one that offers no such stream has none to tell."""
        tools = client.server_capabilities.tools
        if tools is None or not tools.list_changed:
            return
        seconds = LISTEN_AGAIN_SECONDS
        while True:
            with suppress(MCPError, RuntimeError, TimeoutError):
                async with client.listen(tools_list_changed=True) as changes:
                    seconds = LISTEN_AGAIN_SECONDS
                    async for _ in changes:
                        self._tools_changed.set()
            await anyio.sleep(seconds)
            seconds = min(2 * seconds, MAX_LISTEN_SECONDS)
            # Changes made meanwhile were not reported.
            self._tools_changed.set()

    async def _handle_message(self, message: Any) -> None:
        if isinstance(message, mcp_types.ToolListChangedNotification):
            self._tools_changed.set()

    async def _log_message(self, params: mcp_types.LoggingMessageNotificationParams) -> None:
        self._log_line(str(params.data))

    @asynccontextmanager
    async def _open_transport(self) -> AsyncIterator[AbstractAsyncContextManager[Any]]:
        if self._settings.url is not None:
            async with self._http_client() as http:
                yield self._follow(streamable_http_client(self._settings.url, http_client=http))
            return
        with _LogPipe() as pipe:
            try:
                async with anyio.create_task_group() as group:
                    yield self._follow(self._start_process(pipe, group))
                    group.cancel_scope.cancel()
            finally:
                # What a server that could not start wrote last says why.
                self._log_lines(pipe.read() or b"")

    def _http_client(self) -> httpx2.AsyncClient:
        settings = self._settings
        origin = _origin(httpx2.URL(str(settings.url)))

        async def keep_headers_at_home(request: httpx2.Request) -> None:
            # A redirect to another server must not take along what is meant for this one.
            if _origin(request.url) != origin:
                for name in settings.headers:
                    request.headers.pop(name, None)

        async def note_status(response: httpx2.Response) -> None:
            self._status = response.status_code
            if response.status_code == 404 and SESSION_HEADER in response.request.headers:
                # The server was started again, or has dropped the session: only a new one is of use.
                self._lost.set()

        return httpx2.AsyncClient(
            headers=dict(settings.headers),
            follow_redirects=True,
            # A call may take long: whoever makes it knows for how long to wait.
            timeout=httpx2.Timeout(settings.connect_timeout_seconds, read=None),
            event_hooks={"request": [keep_headers_at_home], "response": [note_status]},
        )

    @asynccontextmanager
    async def _start_process(self, pipe: _LogPipe, group: TaskGroup) -> AsyncIterator[Any]:
        settings = self._settings
        parameters = StdioServerParameters(
            command=settings.command,
            args=list(settings.args),
            env=dict(settings.env),
            cwd=settings.cwd,
            encoding_error_handler="replace",
        )
        async with stdio_client(parameters, errlog=pipe.file) as streams:
            # The process has its own copy: when it ends, so does what can be read.
            pipe.file.close()
            group.start_soon(self._read_log, pipe)
            yield streams

    async def _read_log(self, pipe: _LogPipe) -> None:
        rest = b""
        while True:
            await anyio.wait_readable(pipe.read_end)
            data = pipe.read()
            if data is None:
                continue
            if not data:
                self._log_lines(rest)
                return
            whole, _, rest = (rest + data).rpartition(b"\n")
            self._log_lines(whole)
            if len(rest) > MAX_LINE:
                self._log_lines(rest)
                rest = b""

    def _log_lines(self, data: bytes) -> None:
        for line in data.decode(errors="replace").splitlines():
            if line.strip():
                self._log_line(line)

    def _log_line(self, line: str) -> None:
        text = self._settings.redact(line)[:MAX_LINE]
        self._last_lines.append(text)
        logger.info("MCP server %r: %s", self._settings.name, text)

    @asynccontextmanager
    async def _follow(self, transport: AbstractAsyncContextManager[Any]) -> AsyncIterator[Any]:
        async with transport as (read_stream, write_stream):
            yield _FollowedStream(read_stream, self._lost, self._limit_tools), write_stream


class _LogPipe:
    """A pipe for what a server's process writes to stderr."""

    def __init__(self) -> None:
        self.read_end, write_end = os.pipe()
        os.set_blocking(self.read_end, False)
        self.file = os.fdopen(write_end, "w")

    def read(self) -> bytes | None:
        """Read what there is: None when there is nothing yet, empty at the end."""
        try:
            return os.read(self.read_end, 65_536)
        except BlockingIOError:
            return None

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: object) -> None:
        self.file.close()
        os.close(self.read_end)


class _TooManyTools(ValueError):
    """A server lists more tools than an agent can have."""

    def __init__(self, count: int, *, has_more: bool) -> None:
        super().__init__(
            f"it lists {count:,} tools{' or more' if has_more else ''}, and at most {MAX_TOOLS} can be used; "
            "name those that you need: mcp_server(..., tools=[...])"
        )


class _FollowedStream(ObjectReceiveStream[Any]):
    """A transport's stream of messages: it shows each to `check`, and says when it has ended."""

    def __init__(self, stream: Any, ended: anyio.Event, check: Callable[[Any], None]) -> None:
        self._stream, self._ended, self._check = stream, ended, check

    @property
    def last_context(self) -> Any:
        """The context variables of whoever sent the last message."""
        return getattr(self._stream, "last_context", None)

    async def receive(self) -> Any:
        """The next message."""
        try:
            message = await self._stream.receive()
        except (anyio.EndOfStream, anyio.ClosedResourceError):
            self._ended.set()
            raise
        self._check(message)
        return message

    async def aclose(self) -> None:
        """Read no more."""
        await self._stream.aclose()


def _origin(url: httpx2.URL) -> tuple[str, str, int | None]:
    return url.scheme, url.host, url.port


def _describe(error: BaseException) -> str:
    """Describe what went wrong in the tasks of a connection, in a few words and without addresses."""
    while isinstance(error, BaseExceptionGroup) and error.exceptions:
        error = error.exceptions[0]
    match error:
        case FileNotFoundError() | NotADirectoryError():
            return "its command, or the folder to run it in, is not there"
        case PermissionError():
            return "its command may not be run"
        case MCPError():
            return str(error.message)
        case _TooManyTools():
            return str(error)
        case _:
            return f"{type(error).__name__}: {error}" if str(error) else type(error).__name__
