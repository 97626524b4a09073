"""Tools of MCP servers: pass the result of `mcp_server` to agents as one of their `tools`.

A server is connected when its first agent starts and closed with its last one. It may be down, die, or change
its tools: none of that fails an agent. This module needs no SDK; the connection does.
"""

from __future__ import annotations

import logging
import os
import re
import shlex
from collections.abc import Callable, Iterable, Mapping, Sequence
from importlib.util import find_spec
from time import monotonic
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

import anyio.to_thread

from autonomy_ctx.background import AsyncResource, Background, current_loop
from autonomy_ctx.errors import McpServerUnavailable, McpToolFailed
from autonomy_ctx.messages.json_values import thaw
from autonomy_ctx.tools.mcp_content import (
    CONNECT_SECONDS,
    McpSettings,
    error_text,
    result_value,
    valid_name,
    valid_names,
)
from autonomy_ctx.tools.output import SMALL_TEXT
from autonomy_ctx.tools.tool import Tool
from autonomy_ctx.validation import check_seconds

if TYPE_CHECKING:
    from autonomy_ctx.tools.mcp_connection import McpConnection

logger = logging.getLogger("autonomy_ctx.tools.mcp")

# After a failure, nothing is tried for so long; twice as long after each further one.
BACKOFF_SECONDS, MAX_BACKOFF_SECONDS = 1.0, 60.0
MAX_SERVER_NAME = 32
_NAME = re.compile(r"[a-zA-Z0-9_-]{1,32}")
# What only starts another program.
_LAUNCHER_WORDS = "uvx uv npx pipx bunx pnpm dlx run tool python python3 node deno env"
_LAUNCHERS = frozenset(_LAUNCHER_WORDS.split())


class McpTool(Tool[..., Any]):
    """A tool of a server: its schema is the server's, and so is the check of arguments."""

    def __init__(
        self,
        server: McpServer,
        own_name: str,
        *,
        name: str,
        description: str,
        schema: Mapping[str, Any],
        timeout: float | None,
    ) -> None:
        async def call(**arguments: Any) -> Any:
            return await server.call(own_name, arguments)

        super().__init__(call, name=name, description=description, timeout=timeout)
        self.own_name, self._server_schema = own_name, schema

    def _schema(self) -> dict[str, Any]:
        return dict(thaw(self._server_schema))


class McpServer(AsyncResource):
    """An MCP server whose tools agents use; made by `mcp_server`. Agents that share it share a connection.

    It connects when its first agent starts, and closes with its last agent.
    """

    def __init__(
        self,
        settings: McpSettings,
        *,
        tools: frozenset[str] | None = None,
        exclude: frozenset[str] = frozenset(),
        timeout_seconds: float | None = None,
        clock: Callable[[], float] = monotonic,
    ) -> None:
        self._settings = settings
        self._chosen, self._excluded = tools, exclude
        self._timeout, self._clock = timeout_seconds, clock
        self._users: set[object] = set()
        self._tools: tuple[McpTool, ...] = ()
        # Whether the tools are known, or could not be listed when they were first wanted.
        self._was_tried = False
        # The newest connection, and the newest whose end was noticed.
        self._connection: McpConnection | None = None
        self._noted: McpConnection | None = None
        self._background = Background(grace_seconds=0.0)
        self._failures = 0
        self._retry_at = 0.0

    @property
    def name(self) -> str:
        """The name in logs and errors. It is also the prefix of a tool name that is already in use."""
        return self._settings.name

    @property
    def is_connected(self) -> bool:
        """Tell whether there is a connection now."""
        connection = self._connection
        return connection is not None and connection.was_ready and not connection.is_over

    @property
    def error(self) -> McpServerUnavailable | None:
        """The reason why there is no connection; None while connected, or before the first attempt."""
        return None if self._connection is None or self.is_connected else self._connection.error

    def listed_tools(self) -> Sequence[McpTool]:
        """The tools of the server's last listing, also while it is not connected."""
        return self._tools

    async def connect(self) -> None:
        """Connect now, or raise `McpServerUnavailable`.

        Agents connect by themselves and can work without it.
        """
        await self._connect()

    async def prepare(self, user: object) -> None:
        """Prepare the tools for an agent. The first turn waits for them; after a failure no turn waits."""
        self._users.add(user)
        if not self._was_tried:
            try:
                await self._connect()
            except McpServerUnavailable as error:
                logger.warning("%s; the agent works without its tools, and later turns try again", error)
            # Unless it was closed meanwhile: then the next agent is its first.
            self._was_tried = user in self._users
        elif not self._tools and not self.is_connected and self._clock() >= self._retry_at:
            # No turn waits for it: the turn after it came back has its tools.
            self._start_connection()

    async def release(self, user: object) -> None:
        """Remove an agent. With the last one, the connection is closed and the server's process ends."""
        if user not in self._users:
            return
        self._users.discard(user)
        if not self._users:
            await self.close()

    async def close(self) -> None:
        """Close the connection, and end the server's process if it was started here."""
        background, self._background = self._background, Background(grace_seconds=0.0)
        self._connection, self._was_tried = None, False
        await background.aclose()

    async def call(self, tool: str, arguments: Mapping[str, Any]) -> Any:
        """Call a tool by the server's own name for it, and return its result; connects if needed.

        An interrupted call is never repeated, because it may have had effects.
        """
        connection = await self._connect()
        result = await connection.call(tool, arguments)
        if result.is_error:
            raise McpToolFailed(self._settings.redact(error_text(result)))
        size = sum(len(getattr(block, "data", "")) for block in result.content)
        if size <= SMALL_TEXT:
            return result_value(result)
        return await anyio.to_thread.run_sync(result_value, result, abandon_on_cancel=True)

    async def _connect(self) -> McpConnection:
        """The connection, or a new one; whoever else waits for it waits for the same."""
        connection = self._usable_connection()
        if connection is None:
            seconds = self._retry_at - self._clock()
            if self._failures and seconds > 0:
                problem = "the connection was lost" if self.error is None else self.error.problem
                raise McpServerUnavailable(self.name, problem, retry_seconds=seconds)
            try:
                await anyio.to_thread.run_sync(_import_connection)
            except ImportError as error:
                problem = f"the SDK cannot be imported ({error}): pip install 'autonomy-ctx[mcp]'"
                raise McpServerUnavailable(self.name, problem) from None
            connection = self._start_connection()
        await connection.ready.wait()
        if connection.error is not None:
            raise connection.error
        return connection

    def _usable_connection(self) -> McpConnection | None:
        connection = self._connection
        if connection is None or connection.loop is not current_loop():
            return None
        if connection.is_over:
            self._note_end(connection)
            return None
        return connection

    def _start_connection(self) -> McpConnection:
        connection = self._usable_connection()
        if connection is not None:
            return connection
        self._connection = made = _import_connection()(self._settings, self._take_tools, self._is_chosen)

        async def run() -> None:
            await made.run()
            self._note_end(made)

        self._background.start(run, daemon=True)
        return made

    def _note_end(self, connection: McpConnection) -> None:
        """A connection ended by itself: one that was of use is made again at once, others after some time."""
        if connection is self._noted:
            return
        self._noted = connection
        if connection.was_ready:
            logger.warning("MCP server %r: the connection was lost; the next call connects again", self.name)
        self._failures = 0 if connection.was_used else self._failures + 1
        wait = BACKOFF_SECONDS * 2.0 ** min(self._failures - 1, 16) if self._failures else 0.0
        self._retry_at = self._clock() + min(wait, MAX_BACKOFF_SECONDS)

    def _take_tools(self, listed: Sequence[Any]) -> None:
        """Take in what the server lists, in a thread. Tools that did not change stay the same, in order."""
        from autonomy_ctx.tools.schema import parameters_schema

        names = valid_names(one.name for one in listed)
        before = {tool.own_name: tool for tool in self._tools}
        found: dict[str, McpTool] = {}
        for one in listed:
            if one.name in found:
                continue
            try:
                schema = parameters_schema(one.input_schema)
            except (TypeError, ValueError, AttributeError, RecursionError):
                logger.warning("MCP server %r: its tool %r has no usable schema", self.name, one.name[:80])
                continue
            made = McpTool(
                self,
                one.name,
                name=names[one.name],
                description=one.description or one.title or f"`{one.name}` of the server {self.name}.",
                schema=schema,
                timeout=self._timeout,
            )
            known = before.get(one.name)
            found[one.name] = known if known is not None and known.spec == made.spec else made
        self._warn_of_missing(found)
        tools = tuple(
            [found[name] for name in before if name in found]
            + [tool for name, tool in found.items() if name not in before]
        )
        if tools != self._tools:
            if before:
                logger.info("MCP server %r: %s", self.name, _describe_changes(before, found))
            self._tools = tools

    def _is_chosen(self, name: str) -> bool:
        return name not in self._excluded and (self._chosen is None or name in self._chosen)

    def _warn_of_missing(self, found: Mapping[str, McpTool]) -> None:
        missing = sorted((self._chosen or frozenset()) - found.keys())
        if missing:
            logger.warning(
                "MCP server %r has no tool %s; it has %s",
                self.name,
                ", ".join(missing),
                ", ".join(found) or "no tool that was chosen",
            )

    def __repr__(self) -> str:
        return f"McpServer({self.name!r})"


def mcp_server(
    command: str | None = None,
    *,
    args: Sequence[str] | None = None,
    env: Mapping[str, str] | None = None,
    cwd: str | os.PathLike[str] | None = None,
    url: str | None = None,
    headers: Mapping[str, str] | None = None,
    name: str | None = None,
    tools: Iterable[str] | None = None,
    exclude: Iterable[str] = (),
    timeout_seconds: float | None = None,
    connect_timeout_seconds: float = CONNECT_SECONDS,
    clock: Callable[[], float] = monotonic,
) -> McpServer:
    """The tools of an MCP server for agents: a command to run, or the `url` of a running server.

    A command without `args` is split like a shell command line. `env` is added to the few variables that a
    server gets. `tools` and `exclude` select tools by the server's own names.
    """
    if find_spec("mcp") is None:
        raise ImportError("tools of MCP servers need the SDK: pip install 'autonomy-ctx[mcp]'")
    if (command is None) == (url is None):
        raise ValueError("mcp_server takes a command, or url=..., and not both")
    if command is not None and not isinstance(command, str):
        raise TypeError(
            f"mcp_server: the command must be a text, such as 'uvx mcp-server-git', not "
            f"{type(command).__name__}; give the other words as args=[...]"
        )
    if isinstance(args, str):
        raise TypeError("mcp_server: args must be a list of texts, not str")
    for option, texts in (("env", env), ("headers", headers)):
        _check_texts(option, texts)
    check_seconds("timeout_seconds", timeout_seconds, endless=True, optional=True, where="mcp_server")
    check_seconds("connect_timeout_seconds", connect_timeout_seconds, where="mcp_server")
    words: list[str] = []
    if command is not None:
        if headers:
            raise ValueError("mcp_server: headers go with url=...; give a command its secrets with env")
        words = [command, *args] if args is not None else shlex.split(command)
        if not words or not words[0].strip():
            raise ValueError("mcp_server: the command is empty; give one, such as 'uvx mcp-server-git'")
    elif args is not None or env or cwd is not None:
        raise ValueError("mcp_server: args, env and cwd go with a command, not with url=...")
    elif urlsplit(str(url)).scheme not in ("http", "https") or not urlsplit(str(url)).hostname:
        raise ValueError("mcp_server: the url must begin with http:// or https:// and name a host")
    if name is not None and not _NAME.fullmatch(name):
        raise ValueError(
            f"mcp_server: the name {name[:40]!r} must be 1 to {MAX_SERVER_NAME} letters, digits, _ and -"
        )
    settings = McpSettings(
        name=name or _default_name(words, url),
        command=words[0] if words else "",
        args=tuple(words[1:]),
        env=dict(env or {}),
        cwd=None if cwd is None else os.fspath(cwd),
        url=url,
        headers=dict(headers or {}),
        connect_timeout_seconds=connect_timeout_seconds,
    )
    return McpServer(
        settings,
        tools=None if tools is None else _check_names("tools", tools),
        exclude=_check_names("exclude", exclude),
        timeout_seconds=timeout_seconds,
        clock=clock,
    )


def _check_texts(option: str, value: Any) -> None:
    if not isinstance(value, Mapping | None):
        raise TypeError(f"mcp_server: {option} must be a dict of texts, not {type(value).__name__}")
    for key, text in (value or {}).items():
        # The value itself is not repeated: it may be secret.
        if not isinstance(key, str) or not isinstance(text, str):
            raise TypeError(f"mcp_server: {option} must be a dict of texts; {str(key)[:40]!r} has none")


def _check_names(option: str, value: Any) -> frozenset[str]:
    names = None if isinstance(value, str) else list(value)
    if names is None or not all(isinstance(one, str) for one in names):
        raise TypeError(f"mcp_server: {option} must be a list of names of tools, such as ['read_file']")
    return frozenset(names)


def _default_name(words: Sequence[str], url: str | None) -> str:
    """The name of a server by its command or its host, without arguments that may be secret."""
    if url is not None:
        return valid_name(str(urlsplit(url).hostname))[:MAX_SERVER_NAME]
    named = [os.path.basename(word) for word in words if not word.startswith("-")]
    chosen = next((word for word in named if word.lower() not in _LAUNCHERS), named[0] if named else "mcp")
    stem = os.path.splitext(chosen)[0] if chosen.endswith((".py", ".js", ".ts", ".sh")) else chosen
    return valid_name(stem)[:MAX_SERVER_NAME]


def _describe_changes(before: Mapping[str, McpTool], after: Mapping[str, McpTool]) -> str:
    """Which tools are new, gone or different. Models are told of all tools first, so caches begin anew."""
    changes = {
        "new": [name for name in after if name not in before],
        "gone": [name for name in before if name not in after],
        "changed": [name for name, tool in after.items() if before.get(name, tool) is not tool],
    }
    told = "; ".join(f"{what}: {', '.join(names)}" for what, names in changes.items() if names)
    return f"its tools changed ({told}); the next turns use them, and the provider's cache starts over"


def _import_connection() -> type[McpConnection]:
    """The part that needs the SDK, which takes more than a second to import."""
    from autonomy_ctx.tools.mcp_connection import McpConnection

    return McpConnection
