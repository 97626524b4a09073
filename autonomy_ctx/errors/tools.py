"""Errors of tools and MCP servers. A model reads most of them as the result of its call."""

from __future__ import annotations

from autonomy_ctx.errors.root import AutonomyCtxError


class InvalidTool(AutonomyCtxError, ValueError):
    """A function cannot be offered to a model as a tool."""

    def __init__(self, tool: str, problem: str) -> None:
        super().__init__(f"tool `{tool}` {problem}")
        self.tool, self.problem = tool, problem


class UnknownTool(AutonomyCtxError, LookupError):
    """A model called a tool that does not exist."""

    def __init__(self, tool: str, *, known: list[str]) -> None:
        there = f"the tools are {', '.join(known)}" if known else "there are no tools"
        super().__init__(f"there is no tool named {tool!r}; {there}")
        self.tool = tool


class UnregisteredToolError(AutonomyCtxError, LookupError):
    """No tool is registered under the requested name."""

    def __init__(self, name: str) -> None:
        super().__init__(
            f"no tool named {name!r} is registered; import the module that defines it with `@tool` first, "
            f"or pass it with `tools=`"
        )
        self.name = name


class InvalidArguments(AutonomyCtxError, ValueError):
    """The arguments of a call do not match the tool's parameters; the tool was not run."""

    def __init__(self, tool: str, problem: str, *, argument: str | None = None) -> None:
        which = f"argument `{argument}` " if argument else "the call "
        super().__init__(f"{which}{problem}; `{tool}` was not run")
        self.tool, self.argument, self.problem = tool, argument, problem


class ToolTimeout(AutonomyCtxError, TimeoutError):
    """A tool took longer than its time limit."""

    def __init__(self, tool: str, seconds: float) -> None:
        super().__init__(
            f"`{tool}` was stopped after {seconds:g} s and may be half done; ask for less at a time"
        )
        self.tool, self.seconds = tool, seconds


class McpServerUnavailable(AutonomyCtxError, ConnectionError):
    """An MCP server cannot be reached or did not start; no request was sent to it."""

    def __init__(self, server: str, problem: str, *, retry_seconds: float | None = None) -> None:
        again = "" if retry_seconds is None else f"; it can be tried again in {max(retry_seconds, 0.1):.1f} s"
        super().__init__(f"MCP server {server!r} is not available: {problem}{again}")
        self.server, self.problem, self.retry_seconds = server, problem, retry_seconds


class McpConnectionLost(AutonomyCtxError, ConnectionError):
    """The connection to an MCP server was lost during a call. The call is not repeated automatically."""

    def __init__(self, server: str, tool: str) -> None:
        super().__init__(
            f"the connection to MCP server {server!r} was lost while `{tool}` ran, so it may or may not have "
            f"been done; check before you call it again"
        )
        self.server, self.tool = server, tool


class McpToolFailed(AutonomyCtxError):
    """A tool of an MCP server answered with an error; the message is the server's text."""

    def __init__(self, problem: str) -> None:
        super().__init__(problem)
        self.problem = problem


class InvalidResult(AutonomyCtxError, TypeError):
    """A tool ran, but its return value cannot be shown to a model."""

    def __init__(self, problem: str) -> None:
        super().__init__(f"it ran, but its result {problem}; return text, or data that JSON can hold")
        self.problem = problem


class FileRefused(AutonomyCtxError, OSError):
    """A file tool refuses to read or change this file or folder."""

    def __init__(self, path: str, problem: str) -> None:
        super().__init__(f"{path if len(path) <= 120 else path[:120] + '...'!r} {problem}")
        self.path, self.problem = path, problem


class SubagentError(AutonomyCtxError, RuntimeError):
    """A sub-agent could not be started, did not answer or did not stop; the cause is in `__cause__`."""

    def __init__(self, subagent: str, problem: str) -> None:
        super().__init__(f"sub-agent `{subagent}` {problem}")
        self.subagent, self.problem = subagent, problem


class InvalidRange(AutonomyCtxError, ValueError):
    """The conversation does not have these positions."""

    def __init__(self, first: int, last: int, problem: str) -> None:
        super().__init__(f"positions {first} to {last} cannot be read: {problem}")
        self.first, self.last, self.problem = first, last, problem


class UnknownResult(AutonomyCtxError, LookupError):
    """The conversation has no result with this id, or no such part of it."""

    def __init__(self, result: str, problem: str = "is not in this conversation, or was deleted") -> None:
        super().__init__(f"result {result if len(result) <= 80 else result[:80] + '...'!r} {problem}")
        self.result, self.problem = result, problem
