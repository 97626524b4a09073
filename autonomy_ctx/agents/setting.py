"""What a turn needs of its agent: everything that does not change while it goes on."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, fields
from datetime import datetime
from enum import Enum
from typing import Any

from autonomy_ctx.agents.explained import ContextRecords
from autonomy_ctx.agents.metrics import AgentMetrics
from autonomy_ctx.agents.shelves import Shelves
from autonomy_ctx.hooks import Hook
from autonomy_ctx.memory.memory import Memory
from autonomy_ctx.template.template import ContextTemplate
from autonomy_ctx.tools.run import OUTPUT_LIMIT, PARALLEL, TIMEOUT_SECONDS
from autonomy_ctx.tools.tool import Tool


class AgentHook(Enum):
    """What an agent tells its hooks; each gets the scope and the conversation first.

    `BEFORE_TURN` gets the user's message and `AFTER_TURN` the reply; `BEFORE_CALL` gets a tool call and
    `AFTER_CALL` the call and its result. One that fails before a turn keeps it from beginning; one that
    fails before a call keeps that from being run, and the model is told so.
    """

    BEFORE_TURN = "before_turn"
    BEFORE_CALL = "before_call"
    AFTER_CALL = "after_call"
    AFTER_TURN = "after_turn"


_OPTIONAL = ("tokens", "context_tokens", "output_tokens", "tool_timeout")


@dataclass(frozen=True, slots=True, kw_only=True)
class TurnLimits:
    """What one turn may take: `steps` asks of the model, `tokens` in all, and what each tool call may.

    `context_tokens` are for one context with its tools; unless given, the template or the model says it.
    None means no limit. `tool_output` is in bytes. A turn that reaches `steps` or `tokens` ends there,
    with everything it did kept.
    """

    steps: int = 25
    tokens: int | None = None
    context_tokens: int | None = None
    output_tokens: int | None = None
    tool_timeout: float | None = TIMEOUT_SECONDS
    tool_output: int = OUTPUT_LIMIT
    parallel_tools: int = PARALLEL

    def __post_init__(self) -> None:
        for field in fields(self):
            value = getattr(self, field.name)
            if value is None and field.name in _OPTIONAL:
                continue
            seconds = field.name == "tool_timeout"
            number = int | float if seconds else int
            # Not `<= 0`, which nan is not either.
            if isinstance(value, bool) or not isinstance(value, number) or not value > 0:
                wanted = "a number of seconds" if seconds else "a whole number"
                raise ValueError(f"TurnLimits: {field.name} is {value!r}; it must be {wanted}, more than 0")


def read_limits(value: TurnLimits | Mapping[str, Any] | None) -> TurnLimits:
    """Limits from a dict of them; a name that is none is refused."""
    if isinstance(value, TurnLimits):
        return value
    if not isinstance(value, Mapping | None):
        raise TypeError(f"limits must be a TurnLimits or a dict, not {type(value).__name__}")
    known = [field.name for field in fields(TurnLimits)]
    unknown = sorted(str(name) for name in value or () if name not in known)
    if unknown:
        raise ValueError(f"limits has unknown names {', '.join(unknown)}; there are {', '.join(known)}")
    return TurnLimits(**(value or {}))


@dataclass(frozen=True, slots=True, kw_only=True)
class Setting:
    """An agent as its turns see it."""

    name: str
    memory: Memory
    model: Any
    template: ContextTemplate
    tools: Mapping[str, Tool[..., Any]]
    specs: Sequence[Mapping[str, Any]]
    shelves: Shelves
    records: ContextRecords
    limits: TurnLimits
    hooks: Sequence[Hook]
    metrics: AgentMetrics
    inject: Mapping[str, Any]
    clock: Callable[[], datetime]
    new_id: Callable[[], str]
