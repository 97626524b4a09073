"""What an agent is told about itself and by its users, checked before anything begins."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace
from datetime import datetime
from typing import Any

from autonomy_ctx.errors import InvalidAgent, InvalidMessage, UnknownTool
from autonomy_ctx.items import wire
from autonomy_ctx.items.message import ChatRole, Message
from autonomy_ctx.memory.memory import Memory
from autonomy_ctx.memory.store import check_name

LONGEST_NAME = 128
# Between an agent's name and those of its sub-agents.
PATH = "/"


def checked_name(name: Any) -> str:
    """A name that can stand in a key and in an address."""
    check_name("agent", name)
    if not name or len(name) > LONGEST_NAME or not name.isprintable():
        raise InvalidAgent(str(name)[:40], f"needs a name of 1 to {LONGEST_NAME} printable characters")
    if PATH in name:
        raise InvalidAgent(
            name, f"must not have {PATH!r} in its name: it stands before the names of sub-agents"
        )
    return str(name)


def checked_model(name: str, model: Any) -> Any:
    """Anything that can answer, or None."""
    if model is not None and not callable(getattr(model, "complete_chat", None)):
        problem = f"has a model of type {_kind(model)} without complete_chat()"
        raise InvalidAgent(name, f"{problem}; give a Model, or any object that has it")
    return model


def checked_memory(name: str, memory: Any) -> Memory | None:
    """A memory, or None."""
    if not isinstance(memory, Memory | None):
        raise InvalidAgent(
            name, f"has memory of type {_kind(memory)}; give a Memory, such as Memory('sqlite:///agents.db')"
        )
    return memory


def checked_template(name: str, template: Any) -> Any:
    """Anything that composes sections, or None."""
    if template is not None and not callable(getattr(template, "compose", None)):
        raise InvalidAgent(
            name, f"has a context_template of type {_kind(template)}; give a ContextTemplate([...])"
        )
    return template


def checked_tools(name: str, tools: Any) -> tuple[Any, ...]:
    """Tools in a row of the agent's own; each of them is checked where it becomes a tool."""
    if not isinstance(tools, Iterable) or isinstance(tools, str | bytes | Mapping):
        raise InvalidAgent(name, f"has tools of type {_kind(tools)}; give a list of functions or tools")
    return tuple(tools)


def checked_subagents(name: str, subagents: Any) -> dict[str, dict[str, Any]]:
    """Sub-agents by name, each with its options."""
    form = "give a dict of names, each with a dict of options"
    if not isinstance(subagents, Mapping | None):
        raise InvalidAgent(name, f"has subagents of type {_kind(subagents)}; {form}")
    for one, options in (subagents or {}).items():
        if not isinstance(options, Mapping):
            raise InvalidAgent(name, f"has a sub-agent {one!r} of type {_kind(options)}; {form}")
    return {one: dict(options) for one, options in (subagents or {}).items()}


def check_turn(name: str, model: Any, params: Any) -> None:
    """Refuse a turn that nobody could answer, or whose sections would be given something else."""
    if model is None:
        raise InvalidAgent(name, "has no model to answer with; give it one, or `put` turns and `run` them")
    if not isinstance(params, Mapping | None):
        raise TypeError(f"params must be a dict for the sections, not {_kind(params)}; nothing was stored")


def user_message(said: Any, message_id: str | None, *, new_id: Callable[[], str], at: datetime) -> Message:
    """What a user said, as a message: text, parts, or a user's message; `message_id` goes before its own."""
    if isinstance(said, Message):
        message = said
    elif isinstance(said, Mapping) and "role" in said:
        message = wire.from_dict(dict(said), new_id=new_id, now=lambda: at)
    else:
        message = Message(ChatRole.USER, said, id=message_id or new_id(), created_at=at)
    if message_id is not None and message.id != message_id:
        message = replace(message, id=message_id)
    if message.role is not ChatRole.USER:
        raise InvalidMessage(
            "role", f"is {message.role.value!r}; what is sent to an agent is a user's message"
        )
    return message


def as_question(values: Mapping[str, Any]) -> str:
    """Arguments as one text: a single text as it is, anything else as JSON."""
    if len(values) == 1:
        (only,) = values.values()
        if isinstance(only, str):
            return only
    return json.dumps(dict(values), ensure_ascii=False, default=str)


def check_mail(to: Any, content: Any) -> None:
    """Refuse mail to nobody, or that says nothing."""
    for field, given in (("to", to), ("content", content)):
        if isinstance(given, str) and not given.strip():
            raise InvalidMessage(field, "is empty; say to which agent, and what")


def check_tool(name: str, tools: Mapping[str, Any]) -> None:
    """Refuse a turn for a tool that is not there."""
    if name not in tools:
        raise UnknownTool(name, known=list(tools))


def _kind(value: Any) -> str:
    return type(value).__name__
