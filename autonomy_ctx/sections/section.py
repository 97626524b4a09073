"""What a section is: a name, a switch, and messages for a conversation.

Any object with `name`, `enabled` and `get_messages` is one; `ContextSection` only saves typing.
Sections of this library also have `contribute`, which says where each message comes from.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, MutableMapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal, Protocol, TypeAlias, TypeVar

from autonomy_ctx.items import wire
from autonomy_ctx.items.message import Message

F = TypeVar("F", bound=Callable[..., Any])
Params: TypeAlias = MutableMapping[str, Any]
Kind: TypeAlias = Literal["stable", "slow", "volatile"]


class Section(Protocol):
    """Contributes messages to a context."""

    name: str
    enabled: bool

    def get_messages(
        self, memory: Any, scope: str, conversation: str, params: Any
    ) -> Sequence[Any] | Awaitable[Sequence[Any] | None] | None:
        """Messages as dicts or `Message`s, in order; may be a plain or an async function."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Omission:
    """Stored messages a section did not show: how many, between which positions, and why."""

    first: int
    last: int
    count: int
    reason: str


@dataclass(frozen=True, slots=True)
class Contribution:
    """A section's messages, with the log position of each that has one."""

    messages: Sequence[Message]
    positions: Sequence[int | None] | None = None
    omitted: tuple[Omission, ...] = ()
    # Something went wrong, but not with these messages.
    problem: str | None = None
    # Its only message in at most so many tokens, for one that may not be cut anywhere; None: too few.
    shorter: Callable[[int], Message | None] | None = None

    def __post_init__(self) -> None:
        if self.positions is not None and len(self.positions) != len(self.messages):
            raise ValueError(
                f"a contribution has {len(self.messages)} messages and {len(self.positions)} positions; "
                f"give one position for each message, or None for all"
            )


def keeps_time(method: F) -> F:
    """Marks a `contribute` that sees to the section's timeout itself, to keep what it has when time is up."""
    method.keeps_time = True  # type: ignore[attr-defined]
    return method


class ContextSection:
    """A base for sections; inheriting from it is a convenience, not a condition.

    A section may also say: `required` (a turn cannot do without it), `kind` (how often it
    changes: stable, slow or volatile), `timeout` in seconds, and `independent` (may run beside
    the others).
    """

    kind: Kind = "volatile"

    def __init__(self, name: str, enabled: bool = True) -> None:
        self.name = name
        self.enabled = enabled

    def set_enabled(self, enabled: bool) -> None:
        """Switch the section on or off, from the next context on."""
        self.enabled = enabled

    async def get_messages(self, memory: Any, scope: str, conversation: str, params: Params) -> list[Any]:
        """No messages; override this."""
        return []


class ContributingSection(ContextSection):
    """A section that knows where its messages come from; its dicts are derived from that."""

    async def contribute(self, memory: Any, scope: str, conversation: str, params: Params) -> Contribution:
        """The messages and their origin; override this."""
        return Contribution(())

    async def get_messages(
        self, memory: Any, scope: str, conversation: str, params: Params
    ) -> list[dict[str, Any]]:
        """The messages as dicts that belong to the caller."""
        if not self.enabled:
            return []
        contribution = await self.contribute(memory, scope, conversation, params)
        return [wire.to_dict(message) for message in contribution.messages]
