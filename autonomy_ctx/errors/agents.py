"""Errors of agents, turns, adapters and servers."""

from __future__ import annotations

from autonomy_ctx.errors.root import AutonomyCtxError


class InvalidAgent(AutonomyCtxError, ValueError):
    """An agent was given options that are invalid or do not fit together."""

    def __init__(self, agent: str, problem: str) -> None:
        super().__init__(f"agent {agent!r} {problem}")
        self.agent, self.problem = agent, problem


class InvalidParams(AutonomyCtxError, ValueError):
    """The `params` of a turn use a name that the agent sets itself; nothing was stored."""

    def __init__(self, *, names: list[str]) -> None:
        super().__init__(
            f"params must not have {', '.join(map(repr, names))}: the agent sets this itself; "
            f"use another name"
        )
        self.names = names


class UnknownAgent(AutonomyCtxError, LookupError):
    """The node hosts no agent of this name."""

    def __init__(self, agent: str, *, known: list[str]) -> None:
        there = f"it hosts {', '.join(known)}" if known else "it hosts none yet"
        super().__init__(f"this node hosts no agent named {agent!r}; {there}")
        self.agent = agent


class AgentClosed(AutonomyCtxError, RuntimeError):
    """An agent or node was used after it was closed."""

    def __init__(self, name: str) -> None:
        super().__init__(
            f"{name!r} is closed and takes no more turns; use it inside its `async with`, or make a new one"
        )
        self.name = name


class TurnWithinTurn(AutonomyCtxError, RuntimeError):
    """A turn was started inside a turn of the same conversation; it would wait for itself forever."""

    def __init__(self, *, agent: str) -> None:
        super().__init__(
            f"agent {agent!r} was called inside its own turn in the same conversation, and would wait for "
            f"itself forever; use another conversation, or let the tool return the text"
        )
        self.agent = agent


class TurnWaitTimeout(AutonomyCtxError, TimeoutError):
    """A turn waited too long for the turns before it in the same conversation; nothing of it was stored."""

    def __init__(self, *, agent: str, seconds: float) -> None:
        super().__init__(
            f"a turn of agent {agent!r} waited {seconds:g} s for earlier turns of the same conversation; "
            f"nothing of it was stored. Send it again later, or raise `turn_wait_seconds`"
        )
        self.agent, self.seconds = agent, seconds


class TurnLost(AutonomyCtxError):
    """The lease of a turn expired and another turn has begun, so this turn may not write any more."""

    def __init__(self) -> None:
        super().__init__(
            "the lease of this turn expired before it was renewed, and another turn of the conversation has "
            "begun; nothing more of this turn is stored. Keep long work out of the event loop, and send the "
            "message again if it has no answer"
        )


class UserMessageMissing(AutonomyCtxError):
    """The composed context lacks the newest user message, so the model was not called."""

    def __init__(self, *, agent: str, position: int, sections: list[str]) -> None:
        super().__init__(
            f"the newest user message of agent {agent!r} (position {position}) is in none of the sections "
            f"{sections}; the model was not called. Let a history section show it: a filter or a limit may "
            f"have removed it"
        )
        self.position = position


class CostLimitExceeded(AutonomyCtxError):
    """A request would cost more than a limit allows, so it was not sent.

    `of` is "turn", "conversation" or "scope"; `limit`, `spent` and `cost`, that of the request, are in US
    dollars.
    """

    def __init__(self, *, of: str, limit: float, spent: float, cost: float) -> None:
        if of == "turn":
            advice = 'raise `limits={"cost": ...}` of the agent, or ask for less in one turn'
        else:
            advice = f"raise `per_{of}` of the `CostLimit`, or reset its sum with `CostLimit.reset`"
        super().__init__(
            f"the next request of this {of} would cost about ${cost:.4f}, and ${spent:.4f} of the limit of "
            f"${limit:g} per {of} are spent; it was not sent, and all messages so far are stored: {advice}"
        )
        self.of, self.limit, self.spent, self.cost = of, limit, spent, cost


class UnknownTurn(AutonomyCtxError, LookupError):
    """There is no record of the turn, or it was deleted."""

    def __init__(self, *, turn: str | int | None, step: int | None, problem: str) -> None:
        which = "the newest turn" if turn is None else f"turn {turn!r}"
        which += "" if step is None else f", step {step}"
        super().__init__(f"{which} of this conversation cannot be explained: {problem}")
        self.turn, self.step = turn, step


class UnnamedConversation(AutonomyCtxError, ValueError):
    """A call of another framework does not name its conversation; nothing was stored, no model was called."""

    def __init__(self, *, remedy: str) -> None:
        super().__init__(f"this call does not name its conversation; {remedy}")
        self.remedy = remedy


class HistoryMismatch(AutonomyCtxError, ValueError):
    """The history that a framework passed has nothing in common with the stored one; nothing was stored."""

    def __init__(self, *, conversation: str, messages: int) -> None:
        super().__init__(
            f"the {messages:,} messages that the framework passed for conversation {conversation!r} have "
            f"none in common with the stored messages; pass the whole history, not a part, or start another "
            f"conversation"
        )
        self.conversation, self.messages = conversation, messages


class ServerError(AutonomyCtxError):
    """An HTTP server cannot run with the options that it was given."""


class AccessDenied(ServerError):
    """Raise it in your `authenticate` function to refuse a request whose sender is known.

    The client gets status 403 and the reason.
    """

    def __init__(self, reason: str = "") -> None:
        super().__init__(f"access is denied: {reason}" if reason else "access is denied")
        self.reason = reason


class AddressUnavailable(ServerError, OSError):
    """An HTTP server could not listen on this host and port; nothing was started."""

    def __init__(self, *, host: str, port: int, problem: str, advice: str) -> None:
        super().__init__(f"cannot listen on port {port} of {host!r}: {problem}; {advice}")
        self.host, self.port, self.problem = host, port, problem


class OutputError(AutonomyCtxError, ValueError):
    """The model gave no answer that fits the `output` of a turn, also after one repair.

    `text` is its last answer, `problem` says where it does not fit, and `turn` is the id of the turn. All
    messages of the turn are stored.
    """

    def __init__(self, *, agent: str, output: str, problem: str, text: str, turn: str) -> None:
        super().__init__(
            f"agent {agent!r} gave no answer that fits the output {output!r}; read `problem` and `text` of "
            f"this error, and make the schema simpler or its descriptions clearer"
        )
        self.agent, self.output, self.problem, self.text, self.turn = agent, output, problem, text, turn
