"""Items of a conversation that are not messages: handoffs, configuration changes and direct messages
between agents.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, ClassVar

from autonomy_ctx.errors import InvalidMessage
from autonomy_ctx.messages.json_values import EMPTY
from autonomy_ctx.messages.message import Message, new_id, now, parse_extra, parse_text, parse_time
from autonomy_ctx.validation import number_problem, seconds_problem

# What marks a message of a log as mail, with all that was sent beside the content.
MAIL_EXTRA_KEY = "direct_message"


@dataclass(frozen=True, slots=True, kw_only=True)
class AgentHandoff:
    """A handoff: another agent continues the conversation."""

    type: ClassVar[str] = "agent_handoff"
    to_agent: str
    from_agent: str | None = None
    reason: str | None = None
    id: str = field(default_factory=new_id)
    created_at: datetime = field(default_factory=now)
    agent: str | None = None

    def __post_init__(self) -> None:
        _check_fields(self, required=("to_agent",), optional=("from_agent", "reason"))


@dataclass(frozen=True, slots=True, kw_only=True)
class AgentConfigUpdate:
    """An agent's instructions or tools changed in the middle of a conversation."""

    type: ClassVar[str] = "agent_config_update"
    instructions: str | None = None
    tools: tuple[str, ...] | None = None
    id: str = field(default_factory=new_id)
    created_at: datetime = field(default_factory=now)
    agent: str | None = None

    def __post_init__(self) -> None:
        _check_fields(self, required=(), optional=("instructions",))
        if self.tools is not None:
            if not isinstance(self.tools, list | tuple) or not all(isinstance(t, str) for t in self.tools):
                raise InvalidMessage("tools", "must be a list of tool names")
            object.__setattr__(self, "tools", tuple(self.tools))


@dataclass(frozen=True, slots=True, kw_only=True)
class DirectMessage:
    """A message from one agent to another. It may expire, and it has a priority from 0 to 1."""

    type: ClassVar[str] = "direct_message"
    source_agent: str
    target_agent: str
    content: str
    priority: float = 0.5
    ttl_seconds: float | None = None
    target_node_id: str | None = None
    parent_task_id: str | None = None
    metadata: Mapping[str, Any] = EMPTY
    id: str = field(default_factory=new_id)
    created_at: datetime = field(default_factory=now)
    agent: str | None = None

    def __post_init__(self) -> None:
        _check_fields(
            self,
            required=("source_agent", "target_agent", "content"),
            optional=("target_node_id", "parent_task_id"),
        )
        problems = {
            "priority": number_problem(self.priority, least=0, most=1),
            "ttl_seconds": seconds_problem(self.ttl_seconds, zero=True, optional=True),
        }
        for name, problem in problems.items():
            if problem is not None:
                raise InvalidMessage(name, problem)
            if getattr(self, name) is not None:
                object.__setattr__(self, name, float(getattr(self, name)))
        object.__setattr__(self, "metadata", parse_extra(self.metadata, "metadata"))

    def expired(self, at: datetime) -> bool:
        """Whether its time to live is over."""
        return self.ttl_seconds is not None and (at - self.created_at).total_seconds() >= self.ttl_seconds


def mail_id(message: Message) -> str | None:
    """The id of the mail that a message shows; None for any other message."""
    sent = message.extra.get(MAIL_EXTRA_KEY)
    found = sent.get("id") if isinstance(sent, Mapping) else None
    return found if isinstance(found, str) else None


def _check_fields(event: Any, *, required: tuple[str, ...], optional: tuple[str, ...]) -> None:
    for name in required:
        if not isinstance(getattr(event, name), str):
            raise InvalidMessage(name, f"must be a string, not {type(getattr(event, name)).__name__}")
    for name in (*optional, "agent", "id"):
        parse_text(getattr(event, name), name)
    object.__setattr__(event, "id", event.id or new_id())
    object.__setattr__(event, "created_at", parse_time(event.created_at, "created_at"))
