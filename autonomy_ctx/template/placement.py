"""How a template treats a section: read from the section once, when it joins the template."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from math import isfinite
from typing import Any, get_args

from autonomy_ctx.sections.section import ContributingSection, Kind

HISTORY = "conversation_history"
# A turn without these would be answered by the wrong agent, or about nothing.
REQUIRED = frozenset({"system_instructions", HISTORY})
# What a section is worth when it does not say: a required one shrinks after all others.
PRIORITY, PRIORITY_REQUIRED = 0, 10


@dataclass(frozen=True, slots=True, kw_only=True)
class Placement:
    """A section's options, and the method that gets its messages."""

    required: bool
    kind: Kind
    timeout: float | None
    independent: bool
    call: Callable[..., Awaitable[Any] | Any]
    max_tokens: int | None = None
    min_tokens: int = 0
    priority: float = PRIORITY
    # Told what was composed, and with which tools; for sections that want to know.
    note: Callable[..., None] | None = None


def place(section: Any) -> Placement:
    """Read a section's options, or say what keeps it from being a section."""
    name = getattr(section, "name", None)
    if not isinstance(name, str) or not name:
        raise TypeError(f"{type(section).__name__} is not a section: it needs a `name`")
    if not callable(getattr(section, "get_messages", None)):
        raise TypeError(f"section `{name}` is not a section: it needs a `get_messages` method")
    required = getattr(section, "required", None)
    kind: Any = getattr(section, "kind", "volatile")
    timeout = getattr(section, "timeout", None)
    if kind not in get_args(Kind):
        raise ValueError(f"section `{name}`: kind is {kind!r}; it must be one of {', '.join(get_args(Kind))}")
    if timeout is not None and (
        isinstance(timeout, bool) or not isinstance(timeout, int | float) or timeout <= 0
    ):
        raise ValueError(f"section `{name}`: timeout is {timeout!r}; it must be more than 0 seconds, or None")
    required = name in REQUIRED if required is None else bool(required)
    most, least = _most(name, section), _least(name, section)
    if most is not None and least > most:
        raise ValueError(f"section `{name}`: min_tokens ({least}) is more than max_tokens ({most})")
    call = _call(section)
    return Placement(
        required=required,
        kind=kind,
        timeout=None if getattr(call, "keeps_time", False) else timeout,
        independent=bool(getattr(section, "independent", False)),
        call=call,
        max_tokens=most,
        min_tokens=least,
        priority=_priority(name, section, required),
        note=note if callable(note := getattr(section, "note_composed", None)) else None,
    )


def _most(name: str, section: Any) -> int | None:
    most: Any = getattr(section, "max_tokens", None)
    if most is not None and (type(most) is not int or most < 1):
        raise ValueError(f"section `{name}`: max_tokens is {most!r}; it must be at least 1 token, or None")
    return most


def _least(name: str, section: Any) -> int:
    least: Any = getattr(section, "min_tokens", None)
    if least is None:
        return 0
    if type(least) is not int or least < 0:
        raise ValueError(f"section `{name}`: min_tokens is {least!r}; it must be 0 tokens or more")
    return least


def _priority(name: str, section: Any, required: bool) -> float:
    priority: Any = getattr(section, "priority", None)
    if priority is None:
        return PRIORITY_REQUIRED if required else PRIORITY
    if type(priority) not in (int, float) or not isfinite(priority):
        raise ValueError(f"section `{name}`: priority is {priority!r}; it must be a number")
    return float(priority)


def _call(section: Any) -> Callable[..., Any]:
    """`contribute`, unless the section has a `get_messages` of its own."""
    plain: Callable[..., Any] = section.get_messages
    if not isinstance(section, ContributingSection) or "get_messages" in vars(section):
        return plain
    for kind in type(section).__mro__:
        if "contribute" in vars(kind):
            return section.contribute
        if "get_messages" in vars(kind):
            return plain
    return plain
