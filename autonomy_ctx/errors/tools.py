"""Why a tool was not offered, not run, or ran in vain."""

from __future__ import annotations

from autonomy_ctx.errors.root import AutonomyCtxError


class InvalidTool(AutonomyCtxError, ValueError):
    """A function that cannot be offered to a model as it is."""

    def __init__(self, tool: str, problem: str) -> None:
        super().__init__(f"tool `{tool}` {problem}")
        self.tool, self.problem = tool, problem


class UnknownTool(AutonomyCtxError, LookupError):
    """A model called a tool that it was not given."""

    def __init__(self, tool: str, *, known: list[str]) -> None:
        there = f"the tools are {', '.join(known)}" if known else "there are no tools"
        super().__init__(f"there is no tool named {tool!r}; {there}")
        self.tool = tool


class UnregisteredToolError(AutonomyCtxError, LookupError):
    """A tool is asked for by a name under which none is registered."""

    def __init__(self, name: str) -> None:
        super().__init__(
            f"no tool named {name!r} is registered; import the module that defines it with `@tool` before "
            f"it is asked for, or pass it with `tools=`"
        )
        self.name = name


class InvalidArguments(AutonomyCtxError, ValueError):
    """The arguments of a call do not fit the tool; it was not run."""

    def __init__(self, tool: str, problem: str, *, argument: str | None = None) -> None:
        which = f"argument `{argument}` " if argument else "the call "
        super().__init__(f"{which}{problem}; `{tool}` was not run")
        self.tool, self.argument, self.problem = tool, argument, problem


class ToolTimeout(AutonomyCtxError, TimeoutError):
    """A tool took longer than it may."""

    def __init__(self, tool: str, seconds: float) -> None:
        super().__init__(
            f"`{tool}` was given up after {seconds:g} s and may have been half done; ask for less at a time"
        )
        self.tool, self.seconds = tool, seconds


class InvalidResult(AutonomyCtxError, TypeError):
    """A tool ran, but what it returned cannot be shown to a model."""

    def __init__(self, problem: str) -> None:
        super().__init__(f"it ran, but its result {problem}; return text, or data that JSON can hold")
        self.problem = problem


class FileRefused(AutonomyCtxError, OSError):
    """A file or folder that a filesystem tool does not touch."""

    def __init__(self, path: str, problem: str) -> None:
        super().__init__(f"{path if len(path) <= 120 else path[:120] + '...'!r} {problem}")
        self.path, self.problem = path, problem


class SubagentError(AutonomyCtxError, RuntimeError):
    """A sub-agent that could not be started, did not answer or did not stop; the cause is in `__cause__`."""

    def __init__(self, subagent: str, problem: str) -> None:
        super().__init__(f"sub-agent `{subagent}` {problem}")
        self.subagent, self.problem = subagent, problem


class InvalidRange(AutonomyCtxError, ValueError):
    """Positions that a conversation does not have."""

    def __init__(self, first: int, last: int, problem: str) -> None:
        super().__init__(f"positions {first} to {last} cannot be read: {problem}")
        self.first, self.last, self.problem = first, last, problem
