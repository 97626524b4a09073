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
from autonomy_ctx.messages.message import (
    ChatRole,
    Message,
    check_type,
    new_id,
    now,
    parse_extra,
    parse_text,
    parse_time,
)
from autonomy_ctx.validation import number_problem, seconds_problem

# What marks a message of a log as mail, with all that was sent beside the content.
MAIL_EXTRA_KEY = "direct_message"


@dataclass(frozen=True, slots=True, kw_only=True)
class _Event:
    """Fields of every item that is not a message."""

    id: str = field(default_factory=new_id)
    created_at: datetime = field(default_factory=now)
    agent: str | None = None

    def __post_init__(self) -> None:
        parse_text(self.agent, "agent")
        object.__setattr__(self, "id", parse_text(self.id, "id") or new_id())
        object.__setattr__(self, "created_at", parse_time(self.created_at, "created_at"))

    def _check_texts(self, *names: str) -> None:
        for name in names:
            check_type(getattr(self, name), str, name)


@dataclass(frozen=True, slots=True, kw_only=True)
class AgentHandoff(_Event):
    """A handoff: another agent continues the conversation."""

    type: ClassVar[str] = "agent_handoff"
    to_agent: str
    from_agent: str | None = None
    reason: str | None = None

    def __post_init__(self) -> None:
        _Event.__post_init__(self)
        self._check_texts("to_agent")
        parse_text(self.from_agent, "from_agent")
        parse_text(self.reason, "reason")


@dataclass(frozen=True, slots=True, kw_only=True)
class AgentConfigUpdate(_Event):
    """An agent's instructions or tools changed in the middle of a conversation."""

    type: ClassVar[str] = "agent_config_update"
    instructions: str | None = None
    tools: tuple[str, ...] | None = None

    def __post_init__(self) -> None:
        _Event.__post_init__(self)
        parse_text(self.instructions, "instructions")
        if self.tools is not None:
            if not isinstance(self.tools, list | tuple) or not all(isinstance(t, str) for t in self.tools):
                raise InvalidMessage("tools", "must be a list of tool names")
            object.__setattr__(self, "tools", tuple(self.tools))


@dataclass(frozen=True, slots=True, kw_only=True)
class DirectMessage(_Event):
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

    def __post_init__(self) -> None:
        _Event.__post_init__(self)
        self._check_texts("source_agent", "target_agent", "content")
        parse_text(self.target_node_id, "target_node_id")
        parse_text(self.parent_task_id, "parent_task_id")
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
        """True when its time to live is over."""
        return self.ttl_seconds is not None and (at - self.created_at).total_seconds() >= self.ttl_seconds


def mail_id(message: Message) -> str | None:
    """The id of the mail that a message shows; None for any other message."""
    sent = message.extra.get(MAIL_EXTRA_KEY)
    found = sent.get("id") if isinstance(sent, Mapping) else None
    return found if isinstance(found, str) else None


def is_said_by_user(message: Message) -> bool:
    """Tell whether a user wrote the message; mail of other agents has the role `user`, but does not count."""
    return message.role is ChatRole.USER and mail_id(message) is None
