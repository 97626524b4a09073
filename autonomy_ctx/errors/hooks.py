"""What goes wrong with those who listen."""

from __future__ import annotations

from autonomy_ctx.errors.root import AutonomyCtxError


class HookError(AutonomyCtxError):
    """A hook failed. It is also an instance of the hook's own exception type, where that is possible."""

    def __init__(self, *, hook: str, event: str, problem: str, done: bool | None = None) -> None:
        self.hook, self.event, self.done = hook, event, done
        outcome = {None: "", False: "; nothing was changed", True: "; what it follows was done and stands"}
        self.sentence = f"hook `{hook}` ({event}) failed: {problem}{outcome[done]}"
        # Not `super()`: the next in line may be the hook's own type, whose arguments are others.
        Exception.__init__(self, self.sentence)

    def __str__(self) -> str:
        # Said here because some types it is combined with, such as KeyError, say it differently.
        return self.sentence


class UnregisteredHookError(AutonomyCtxError, LookupError):
    """A hook is asked for by a name under which none is registered."""

    def __init__(self, name: str, *, event: str | None = None) -> None:
        kind = "hook" if event is None else f"{event} hook"
        super().__init__(
            f"no {kind} named {name!r} is registered; import the module that defines it with "
            f"`@hook(...)` before it is asked for"
        )
        self.name, self.event = name, event
