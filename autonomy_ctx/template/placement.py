"""How a template treats a section: read from the section once, when it joins the template."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Any, get_args

from autonomy_ctx.sections.section import ContributingSection, Kind

# A turn without these would be answered by the wrong agent, or about nothing.
REQUIRED = frozenset({"system_instructions", "conversation_history"})


@dataclass(frozen=True, slots=True, kw_only=True)
class Placement:
    """A section's options, and the method that gets its messages."""

    required: bool
    kind: Kind
    timeout: float | None
    independent: bool
    call: Callable[..., Awaitable[Any] | Any]


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
    call = _call(section)
    return Placement(
        required=name in REQUIRED if required is None else bool(required),
        kind=kind,
        timeout=None if getattr(call, "keeps_time", False) else timeout,
        independent=bool(getattr(section, "independent", False)),
        call=call,
    )


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
