"""What an agent is told about itself and by its users, checked before anything begins."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import replace
from datetime import datetime
from typing import Any

from autonomy_ctx.errors import InvalidAgent, InvalidMessage, UnknownTool
from autonomy_ctx.items import wire
from autonomy_ctx.items.message import ChatRole, Message
from autonomy_ctx.memory.key import check_name

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
        problem = f"has a model of type {type(model).__name__} without complete_chat()"
        raise InvalidAgent(name, f"{problem}; give a Model, or any object that has it")
    return model


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


def check_tool(name: str, tools: Mapping[str, Any]) -> None:
    """Refuse a turn for a tool that is not there."""
    if name not in tools:
        raise UnknownTool(name, known=list(tools))
