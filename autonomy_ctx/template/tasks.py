"""Tasks and events as messages: what an event-driven system says, in the form that a model reads.

Any object with `action` and `parameters` is an event; `Task` is one with everything filled in. A task
or event without a session belongs to the session "default".
"""

from __future__ import annotations

import json
import logging
from collections.abc import Iterable, Mapping
from dataclasses import KW_ONLY, dataclass, field
from datetime import datetime
from typing import Any

from autonomy_ctx.errors import InvalidMessage
from autonomy_ctx.items.events import DirectMessage
from autonomy_ctx.items.json_values import EMPTY, thaw
from autonomy_ctx.items.message import ChatRole, Message, new_id, now, parse_extra, parse_text, parse_time
from autonomy_ctx.memory.mailbox import as_message

logger = logging.getLogger("autonomy_ctx.template")

EXECUTE, THINKING, TOOL_CALL, DIRECT = "execute", "node.thinking", "node.tool_call", "node.message"
DEFAULT = "default"
# Of the arguments of a call; what it did is told by what follows.
MOST_ARGUMENTS = 200


@dataclass(frozen=True, slots=True)
class Task:
    """Something to do, or something that happened: who, to whom, what, and in which session."""

    task_id: str = field(default_factory=new_id)
    source_agent: str = ""
    target_agent: str = ""
    action: str = EXECUTE
    parameters: Mapping[str, Any] = EMPTY
    session_id: str | None = None
    _: KW_ONLY
    created_at: datetime = field(default_factory=now)

    def __post_init__(self) -> None:
        for name in ("task_id", "source_agent", "target_agent", "action"):
            if not isinstance(getattr(self, name), str):
                kind = type(getattr(self, name)).__name__
                raise InvalidMessage(name, f"of a task must be a string, not {kind}")
        parse_text(self.session_id, "session_id")
        object.__setattr__(self, "parameters", parse_extra(self.parameters, "parameters"))
        object.__setattr__(self, "created_at", parse_time(self.created_at, "created_at"))


def events_to_messages(events: Iterable[Any]) -> list[dict[str, str]]:
    """Events as message dicts, in their order.

    Thoughts and tool calls are the assistant's, tasks and direct messages the user's; results of tools
    and unknown actions are left out.
    """
    found = [event_message(event) for event in events]
    return [{"role": one.role.value, "content": one.text} for one in found if one is not None]


def event_message(event: Any) -> Message | None:
    """One event as a message under the event's id; None for one that is not shown."""
    action, parameters = getattr(event, "action", None), _parameters(event)
    text: str | None = None
    role = ChatRole.ASSISTANT
    if action == THINKING:
        text = _text(parameters, "content")
    elif action == TOOL_CALL:
        name = _text(parameters, "tool_name")
        text = name and called(name, parameters.get("tool_args"))
    elif action == EXECUTE:
        role, text = ChatRole.USER, _text(parameters, "content") or _text(parameters, "subtask")
    elif action == DIRECT:
        mail = direct_message(event)
        return None if mail is None else as_message(mail)
    if not text:
        return None
    return Message(role, text, id=event_id(event) or new_id(), created_at=event_time(event) or now())


def direct_message(event: Any) -> DirectMessage | None:
    """A `node.message` event as mail; None for other events, and for one that is no mail."""
    if not is_direct(event):
        return None
    parameters = _parameters(event)
    options = ("priority", "ttl_seconds", "target_node_id", "parent_task_id", "metadata")
    given = {name: thaw(parameters[name]) for name in options if parameters.get(name) is not None}
    try:
        return DirectMessage(
            source_agent=getattr(event, "source_agent", None) or "",
            target_agent=getattr(event, "target_agent", None) or "",
            content=parameters.get("content"),  # type: ignore[arg-type]  # checked there
            id=event_id(event) or new_id(),
            created_at=event_time(event) or now(),
            **given,
        )
    except InvalidMessage as error:
        # Somebody else's mistake must not cost a context.
        logger.warning("a direct message among the events was left out: %s", error)
        return None


def check_event(event: Any) -> None:
    """Refuse what is no task or event."""
    if not all(hasattr(event, name) for name in ("action", "parameters")):
        kind = type(event).__name__
        raise TypeError(
            f"{kind} is no task or event: give a Task, or an object with `action` and `parameters`"
        )


def is_direct(event: Any) -> bool:
    """Whether an event is a direct message, to whomever."""
    return getattr(event, "action", None) == DIRECT


def addressed(event: Any) -> tuple[Any, Any]:
    """The agent and the node that an event is for."""
    return getattr(event, "target_agent", ""), _parameters(event).get("target_node_id")


def task_text(task: Any) -> str:
    """What a task asks for, in words."""
    check_event(task)
    message = event_message(task)
    if message is not None:
        return message.text
    parameters = _parameters(task)
    text = _text(parameters, "content") or _text(parameters, "subtask")
    if text:
        return text
    if all(value is None or value == "" for value in parameters.values()):
        raise InvalidMessage("parameters", "of the current task say nothing; give it a `content`")
    return called(task.action, parameters).removeprefix("[Calling ").removesuffix("]")


def called(name: str, arguments: Any) -> str:
    """A tool call in words, such as `[Calling read_file(path="a.txt")]`."""
    if arguments is None:
        shown = "..."
    elif isinstance(arguments, Mapping):
        shown = ", ".join(f"{key}={_json(value)}" for key, value in arguments.items())
    else:
        shown = arguments if isinstance(arguments, str) else _json(arguments)
    if len(shown) > MOST_ARGUMENTS:
        shown = f"{shown[:MOST_ARGUMENTS]}..."
    return f"[Calling {name}({shown})]"


def session_of(event: Any) -> str:
    """The session, which is the conversation, that a task or event belongs to."""
    found = getattr(event, "session_id", None)
    return DEFAULT if found is None else str(found)


def event_id(event: Any) -> str | None:
    """The id that an event has, if any."""
    found = getattr(event, "task_id", None)
    return found if isinstance(found, str) and found else None


def event_time(event: Any) -> datetime | None:
    """When an event happened, if it says so."""
    try:
        return parse_time(getattr(event, "created_at", None), "created_at")
    except InvalidMessage:
        return None


def _parameters(event: Any) -> Mapping[str, Any]:
    found = getattr(event, "parameters", None)
    return found if isinstance(found, Mapping) else EMPTY


def _text(parameters: Mapping[str, Any], name: str) -> str | None:
    value = parameters.get(name)
    return value if value is None or isinstance(value, str) else _json(value)


def _json(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False, default=str)
