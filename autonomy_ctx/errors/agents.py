"""What keeps an agent from taking a turn."""

from __future__ import annotations

from autonomy_ctx.errors.root import AutonomyCtxError


class InvalidAgent(AutonomyCtxError, ValueError):
    """An agent that cannot be as it was described."""

    def __init__(self, agent: str, problem: str) -> None:
        super().__init__(f"agent {agent!r} {problem}")
        self.agent, self.problem = agent, problem


class UnknownAgent(AutonomyCtxError, LookupError):
    """A node was asked for an agent that it does not host."""

    def __init__(self, agent: str, *, known: list[str]) -> None:
        there = f"there are {', '.join(known)}" if known else "there are none yet"
        super().__init__(f"this node hosts no agent named {agent!r}; {there}")
        self.agent = agent


class AgentClosed(AutonomyCtxError, RuntimeError):
    """An agent or node was used after it was closed."""

    def __init__(self, name: str) -> None:
        super().__init__(f"{name!r} is closed and takes no more turns; start another")
        self.name = name


class TurnWithinTurn(AutonomyCtxError, RuntimeError):
    """A turn was begun from inside a turn of the same conversation, where it would wait for itself."""

    def __init__(self, *, agent: str) -> None:
        super().__init__(
            f"agent {agent!r} was asked from inside its own turn in the same conversation, where it would "
            f"wait for itself; use another conversation, or return what is to be said from the tool"
        )
        self.agent = agent


class UserMessageMissing(AutonomyCtxError):
    """The composed context lacks the newest user message, so the model would answer something else."""

    def __init__(self, *, agent: str, position: int, sections: list[str]) -> None:
        super().__init__(
            f"the newest user message of agent {agent!r} (position {position}) is in none of the sections "
            f"{sections}; the model was not asked. Let a history section show it: a filter or a limit may "
            f"have taken it out"
        )
        self.position = position


class UnknownTurn(AutonomyCtxError, LookupError):
    """There is no record of a turn, or not any more."""

    def __init__(self, *, turn: str | None, step: int | None, problem: str) -> None:
        which = "the newest turn" if turn is None else f"turn {turn!r}"
        which += "" if step is None else f", step {step}"
        super().__init__(f"{which} of this conversation cannot be explained: {problem}")
        self.turn, self.step = turn, step
