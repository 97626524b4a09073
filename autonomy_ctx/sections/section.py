"""The section protocol, its two base classes, and the `Contribution` that a section returns.

Any object with `name`, `enabled` and `get_messages` is a section. Sections of this library also have
`contribute`, which says where each message comes from.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping, MutableMapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Literal, NamedTuple, Protocol, TypeAlias, runtime_checkable

from autonomy_ctx.containers.item import ContextItem
from autonomy_ctx.containers.pool import ContextPoolView
from autonomy_ctx.formats.outgoing import model_dict
from autonomy_ctx.memory.store import MessageRef
from autonomy_ctx.messages import wire
from autonomy_ctx.messages.message import Message

Params: TypeAlias = MutableMapping[str, Any]
SectionKind: TypeAlias = Literal["stable", "slow", "volatile"]
# A section states what holds now, or adds what was found for this turn.
Says: TypeAlias = Literal["states", "adds"]
# After a change, all that a section said stays in the context, or only the newest, which costs the cache.
Keep: TypeAlias = Literal["all", "latest"]
# Before the names of texts with all facts of a conversation, if these do not stand in the summary message.
FACTS_NAME = "facts "


@runtime_checkable
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
    """Messages or facts that a section did not show: how many, between which positions, and the reason.

    It is about stored messages, facts, pinned messages that a summary covers, entries of a profile, which
    have no position, or old results and images, of which a line is shown.
    """

    first: int
    last: int
    count: int
    reason: str
    what: Literal["messages", "facts", "pins", "profile", "results", "images"] = "messages"


def pin_omission(positions: Sequence[int], reason: str) -> Omission:
    """The omission of pinned messages that do not fit, with their positions; a summary covers them."""
    places = ", ".join(map(str, positions))
    return Omission(
        first=min(positions),
        last=max(positions),
        count=len(positions),
        reason=f"{reason}: no room for what is pinned at {places}",
        what="pins",
    )


class ClearedParts(NamedTuple):
    """Up to which positions an epoch shows results and images as a line, and results as excerpts.

    Those of `kept` stay.
    """

    results: int = 0
    images: int = 0
    kept: tuple[int, ...] = ()
    excerpts: int = 0


class EpochBeginning(NamedTuple):
    """The facts and the pins at the beginning of an epoch: the highest number, and positions.

    `block` names the summary of a provider that it began with, if any; then the number is that of the newest
    fact of a user. `asked` is the position of the user message that stood before the window, because the
    summary covers it; 0 if none did.
    """

    newest_fact: int
    pins: tuple[int, ...]
    block: str = ""
    asked: int = 0
    cleared: ClearedParts = ClearedParts()


class AddedText(NamedTuple):
    """A fact or a pinned message that was added since an epoch began; its name and position, if any."""

    name: str
    message: Message
    position: int | None = None


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
    # How many of the last messages are worth more than the summary before them.
    floor: int = 0
    # What a reader of the report should know of how it was made.
    note: str | None = None
    # The messages of other conversations that these quote: deleting one deletes the record of the context.
    refs: Sequence[MessageRef] = ()
    # What was added since the epoch began, which is appended; and all of it as it is shown at a beginning.
    added: Sequence[AddedText] = ()
    anew: Contribution | None = None
    beginning: EpochBeginning | None = None
    # The share of the context that later text may have replaced before all is shown anew.
    max_superseded: float = 1.0
    # Whether it pays to begin anew, because so much of it is old by now.
    is_outdated: bool = False
    # Its messages with a new summary that a provider wrote, behind which all that was sent can stay.
    swapped: Contribution | None = None
    # Whether a provider should keep the prefix for longer.
    long_cache: bool = False

    def __post_init__(self) -> None:
        if self.positions is not None and len(self.positions) != len(self.messages):
            raise ValueError(
                f"a contribution has {len(self.messages)} messages and {len(self.positions)} positions; "
                f"give one position for each message, or None for all"
            )
        for ref in self.refs:
            if not isinstance(ref, MessageRef):
                raise TypeError(f"refs has a {type(ref).__name__}; give a MessageRef for each quoted message")


def data_message(text: str) -> Message:
    """A message that quotes what was found."""
    # A user's message: in a system message, what is quoted would be a rule. Made from a dict, it has no id
    # or time of its own in that form, so the same text gives the same bytes.
    return wire.from_dict({"role": "user", "content": text})


@dataclass(slots=True, kw_only=True)
class Composition:
    """Values that the sections of one compose share besides `params`. Sections only read it."""

    # The items of the conversation, which an agent keeps.
    queue: Sequence[ContextItem[Any]] = ()
    pool: ContextPoolView | None = None
    # Whether the agent sends the tool that reads the pool's items.
    reads_items: bool = False
    # Whether it sends the tool that reads results.
    reads_results: bool = False
    # The names of the tools that the model has to find.
    tool_catalog: str = ""
    # Definitions that are sent with the context and are no part of it until the model has found them.
    deferred_tools: Sequence[Mapping[str, Any]] = ()
    # The tokens that all messages of the context may take together; None for no budget.
    max_tokens: int | None = None
    # The log position of the user message that the turn answers; others may have come after it.
    turn_position: int | None = None
    # Whether a context of this turn was sent before: what it began with stays, if limits allow it.
    is_in_turn: bool = False
    # The position up to which the summary of the context before stands for messages; None if it is not known.
    covered: int | None = None
    # Whether the epoch of the context before was ended by hand.
    is_ended: bool = False
    # The facts and pins that the epoch of the context before began with.
    beginning: EpochBeginning | None = None
    # The messages that were quoted in earlier contexts which this one goes on from.
    quoted: Sequence[MessageRef] = ()
    # The log positions that sections have shown so far, one sequence for each section.
    shown: list[Sequence[int | None]] = field(default_factory=list)


class ComposeParams(dict[str, Any]):
    """The `params` of one compose: a dict for users, and beside it what sections of this library share."""

    __slots__ = ("composition",)

    def __init__(
        self, params: Mapping[str, Any] | None = None, composition: Composition | None = None
    ) -> None:
        if params:
            super().__init__(params)
        self.composition = Composition() if composition is None else composition

    @classmethod
    def copy_of(cls, params: Mapping[str, Any] | None) -> ComposeParams:
        """A copy for one more compose: what its sections write stays in it."""
        if not isinstance(params, ComposeParams):
            return cls(params)
        return cls(params, replace(params.composition, shown=list(params.composition.shown)))


def composition_of(params: Any) -> Composition:
    """The `Composition` of the compose that `params` belong to; an empty one outside of a compose."""
    return params.composition if isinstance(params, ComposeParams) else Composition()


@runtime_checkable
class Contributor(Protocol):
    """A section that gives the origin of each of its messages."""

    def contribute(
        self, memory: Any, scope: str, conversation: str, params: Any
    ) -> Contribution | Awaitable[Contribution]:
        """The messages and their origin."""


@runtime_checkable
class ComposeObserver(Protocol):
    """A section that is told about each composed context."""

    def note_composed(
        self, contribution: Contribution, composed: Any, tools: Sequence[Mapping[str, Any]]
    ) -> None:
        """Called after each compose: with its own part, the `ComposedContext`, and the specs of the tools."""


@runtime_checkable
class DeliverySection(Protocol):
    """A section whose messages are delivered once a model has answered a context with them, such as mail."""

    def deliver(
        self, memory: Any, scope: str, conversation: str, messages: Sequence[Message]
    ) -> Awaitable[None]:
        """Called by an agent before it stores the answer, with what the section showed."""


@runtime_checkable
class SummarizingSection(Protocol):
    """A section with a model that writes summaries; the agent closes that model with its own."""

    @property
    def summary_model(self) -> Any:
        """The model; None for none."""


@runtime_checkable
class PinningSection(Protocol):
    """A section that shows pinned messages within a number of tokens."""

    @property
    def pin_tokens(self) -> int:
        """The most tokens that pinned messages may take together."""


@runtime_checkable
class MetricsSource(Protocol):
    """A section that counts what it does."""

    def get_metrics(self) -> Mapping[str, Any]:
        """The counters by name."""


class ContextSection:
    """A base class for sections; using it is optional.

    A section may also have these attributes: `required` (a turn cannot do without it), `kind` (how often it
    changes: stable, slow or volatile), `says` ("states" what holds now, or "adds" what it found for this
    turn), `keep` ("latest" shows a section that states something only where it was said last, which costs
    the cache), `may_be_removed` (a line that is gone must not be shown again), `timeout` in seconds,
    `independent` (may run in parallel with others), and `handles_timeout` (its own method ends in time with
    what it has so far; a subclass that overrides the method must set this again).
    """

    kind: SectionKind = "volatile"
    says: Says = "states"
    keep: Keep = "all"
    may_be_removed: bool = False

    def __init__(self, name: str, enabled: bool = True) -> None:
        self.name = name
        self.enabled = enabled

    def set_enabled(self, enabled: bool) -> None:
        """Enable or disable the section, from the next context on."""
        self.enabled = enabled

    async def get_messages(self, memory: Any, scope: str, conversation: str, params: Params) -> list[Any]:
        """No messages; override this."""
        return []


class ContributingSection(ContextSection):
    """A section that knows the origins of its messages; `get_messages` is derived from `contribute`."""

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
        if contribution.positions is not None:
            composition_of(params).shown.append(contribution.positions)
        return [model_dict(message) for message in contribution.messages]
