"""The one thing that happens most: somebody, or some tool, said something."""

from __future__ import annotations

import os
import random
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from enum import StrEnum
from typing import Any

from autonomy_ctx.errors import InvalidMessage
from autonomy_ctx.items.calls import ToolCall, call_to_json, parse_call
from autonomy_ctx.items.frozen import EMPTY, checked, freeze, shown, thaw
from autonomy_ctx.items.parts import (
    Content,
    Part,
    content_parts,
    content_text,
    content_to_json,
    parse_content,
)


class ChatRole(StrEnum):
    """Who speaks."""

    SYSTEM = "system"
    DEVELOPER = "developer"
    USER = "user"
    ASSISTANT = "assistant"
    TOOL = "tool"


ROLES: dict[str, ChatRole] = {role.value: role for role in ChatRole}


# Seeded by the system, apart from the generator that user code may seed, and anew after a fork.
_random = random.Random()
if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_random.seed)


def new_id() -> str:
    """A unique id that sorts by time, so that indexes over ids grow at one end."""
    return f"{time.time_ns() // 1_000_000:012x}{_random.getrandbits(80):020x}"


def now() -> datetime:
    """The current time, always with its zone."""
    return datetime.now(UTC)


@dataclass(frozen=True, slots=True, init=False)
class Message:
    """One message; frozen. Content may be a string, a part or a list of parts, also as dicts.

    `Message(**message.model_dump())` gives the same message. Two messages are equal when
    everything a reader can see of them is equal.
    """

    role: ChatRole
    content: Content
    tool_calls: tuple[ToolCall, ...]
    tool_call_id: str | None
    name: str | None
    is_error: bool
    id: str
    created_at: datetime
    agent: str | None
    phase: str | None
    extra: Mapping[str, Any]
    # The dict this message was made from, so that its dict form is exact. Private to `wire`.
    _form: dict[str, Any] | None = field(init=False, compare=False, repr=False)
    # Whether memory has it: then its dict form carries the id and time that memory gave it.
    _kept: bool = field(init=False, compare=False, repr=False)
    # What a counter made of it, by the counter's name: a frozen message never costs anything else.
    _tokens: tuple[str, int] | None = field(init=False, compare=False, repr=False)

    def __init__(
        self,
        role: ChatRole | str,
        content: Content | Mapping[str, Any] | Sequence[Any] = None,
        *,
        tool_calls: Sequence[ToolCall | Mapping[str, Any]] | None = (),
        tool_call_id: str | None = None,
        name: str | None = None,
        is_error: bool = False,
        id: str | None = None,  # noqa: A002  # the field's name
        created_at: datetime | str | float | None = None,
        agent: str | None = None,
        phase: str | None = None,
        extra: Mapping[str, Any] = EMPTY,
    ) -> None:
        put = object.__setattr__
        put(self, "role", parse_role(role))
        put(self, "content", parse_content(content))
        put(self, "tool_calls", parse_calls(tool_calls) if tool_calls != () else ())
        if self.content is None:
            check_content(self.role, self.tool_calls)
        put(self, "tool_call_id", parse_text(tool_call_id, "tool_call_id"))
        put(self, "name", parse_text(name, "name"))
        put(self, "is_error", parse_flag(is_error, "is_error"))
        put(self, "id", parse_text(id, "id") or new_id())
        put(self, "created_at", now() if created_at is None else parse_time(created_at, "created_at"))
        put(self, "agent", parse_text(agent, "agent"))
        put(self, "phase", parse_text(phase, "phase"))
        put(self, "extra", extra if extra is EMPTY else parse_extra(extra, "extra"))
        put(self, "_form", None)
        put(self, "_kept", False)
        put(self, "_tokens", None)

    def __hash__(self) -> int:
        return hash(self.id)

    @property
    def timestamp(self) -> datetime:
        """When it happened."""
        return self.created_at

    @property
    def message_id(self) -> str:
        """Its id."""
        return self.id

    @property
    def text(self) -> str:
        """The text a reader would see: no images, no thinking."""
        return content_text(self.content)

    @property
    def parts(self) -> tuple[Part, ...]:
        """The content as parts, however it was written."""
        return content_parts(self.content)

    def model_dump(self) -> dict[str, Any]:
        """All fields as values that `json.dump` takes."""
        return {
            "role": self.role.value,
            "content": content_to_json(self.content),
            "tool_calls": [call_to_json(call) for call in self.tool_calls],
            "tool_call_id": self.tool_call_id,
            "name": self.name,
            "is_error": self.is_error,
            "id": self.id,
            "created_at": self.created_at.isoformat(),
            "agent": self.agent,
            "phase": self.phase,
            "extra": thaw(self.extra),
        }

    def __copy__(self) -> Message:
        return self

    def __deepcopy__(self, memo: dict[int, Any]) -> Message:
        return self


def parse_role(value: Any) -> ChatRole:
    """A role by its name."""
    role = ROLES.get(value) if isinstance(value, str) else None
    if role is None:
        found = shown(value) if isinstance(value, str | int | float) else f"of type {type(value).__name__}"
        problem = "is missing" if value is None else f"is {found}"
        raise InvalidMessage("role", f"{problem}; it must be one of {', '.join(ROLES)}")
    return role


def check_content(role: ChatRole, calls: Sequence[ToolCall]) -> None:
    """Refuse a message that says nothing; an assistant's may, when it only calls tools or is cut off."""
    if not calls and role is not ChatRole.ASSISTANT:
        raise InvalidMessage("content", "is missing")


def parse_text(value: Any, path: str) -> str | None:
    """A string or None."""
    if value is None or type(value) is str:
        return value
    if isinstance(value, str):
        return str.__str__(value)
    raise InvalidMessage(path, f"must be a string, not {type(value).__name__}")


def parse_flag(value: Any, path: str) -> bool:
    """True or False; None means False."""
    if value is None or isinstance(value, bool):
        return bool(value)
    raise InvalidMessage(path, f"must be True or False, not {type(value).__name__}")


def parse_extra(value: Any, path: str) -> Mapping[str, Any]:
    """Free-form data as a read-only copy; None means none."""
    if value is None:
        return EMPTY
    if not isinstance(value, Mapping):
        raise InvalidMessage(path, f"must be a dict, not {type(value).__name__}")
    frozen: Mapping[str, Any] = freeze(checked(dict(value), path))
    return frozen or EMPTY


def parse_calls(value: Any, path: str = "tool_calls") -> tuple[ToolCall, ...]:
    """Tool calls from a list of any of their spellings; None means none."""
    if value is None:
        return ()
    if not isinstance(value, list | tuple):
        raise InvalidMessage(path, f"must be a list, not {type(value).__name__}")
    return tuple(parse_call(call, f"{path}[{index}]") for index, call in enumerate(value))


def parse_time(value: Any, path: str) -> datetime:
    """An aware time from a datetime, ISO text or seconds since 1970; without a zone it is UTC."""
    try:
        if isinstance(value, str):
            value = datetime.fromisoformat(value)
        elif isinstance(value, int | float) and not isinstance(value, bool):
            value = datetime.fromtimestamp(value, UTC)
    except (ValueError, OverflowError, OSError):
        raise InvalidMessage(
            path, "is not a time; use a datetime, ISO 8601 text or seconds since 1970"
        ) from None
    if not isinstance(value, datetime):
        raise InvalidMessage(
            path, f"must be a datetime, ISO 8601 text or seconds, not {type(value).__name__}"
        )
    try:
        return value.replace(tzinfo=UTC) if value.tzinfo is None else value.astimezone(UTC)
    except OverflowError:
        raise InvalidMessage(path, "is a time outside the years 1 to 9999 in UTC") from None
