"""A composed context: exactly what the model will see, and where each token came from."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Literal

from autonomy_ctx.items import wire
from autonomy_ctx.items.message import Message, call_to_json, content_to_json
from autonomy_ctx.items.summary import Summary
from autonomy_ctx.models.catalog import LEAST_CACHED, Price
from autonomy_ctx.sections.section import Kind, Omission
from autonomy_ctx.template.cacheplan import breakpoints
from autonomy_ctx.template.cut import BudgetReport, Cut


@dataclass(frozen=True, slots=True, kw_only=True)
class SectionReport:
    """What one section did: which messages are its own, what they cost, and what went wrong."""

    name: str
    kind: Kind
    status: Literal["included", "skipped", "failed"]
    reason: str | None
    start: int
    messages: int
    tokens: int
    milliseconds: float
    positions: tuple[int | None, ...]
    omitted: tuple[Omission, ...]
    cut: tuple[Cut, ...] = ()
    # When others stand in the middle of it: how many messages stand before them, and where it goes on.
    split: tuple[int, int] | None = None

    @property
    def indexes(self) -> list[int]:
        """Where its messages stand in the context, one index for each."""
        if self.split is None:
            return list(range(self.start, self.start + self.messages))
        before, rest = self.split
        return [*range(self.start, self.start + before), *range(rest, rest + self.messages - before)]


@dataclass(frozen=True, slots=True, kw_only=True)
class Origin:
    """Where one message of a context came from."""

    section: str
    position: int | None
    tokens: int


@dataclass(frozen=True, slots=True, kw_only=True)
class SharedPrefix:
    """How much of a context begins exactly like another one: what a provider's cache can reuse."""

    messages: int
    tokens: int
    share: float


class ComposedContext:
    """The messages for one turn of one conversation, section by section."""

    __slots__ = (
        "_counts",
        "_messages",
        "_previous",
        "budget",
        "calibration",
        "conversation",
        "scope",
        "sections",
    )

    def __init__(
        self,
        *,
        scope: str,
        conversation: str,
        messages: Sequence[Message],
        counts: Sequence[int],
        sections: Sequence[SectionReport],
        calibration: float,
        previous: ComposedContext | None = None,
        budget: BudgetReport | None = None,
        shared: SharedPrefix | None = None,
    ) -> None:
        self.scope, self.conversation = scope, conversation
        self.sections = tuple(sections)
        self.calibration = calibration
        self.budget = budget
        self._messages, self._counts = tuple(messages), tuple(counts)
        self._previous = shared if previous is None else self.shared_prefix(previous)

    @property
    def messages(self) -> list[Message]:
        """What the model will see, in order."""
        return list(self._messages)

    @property
    def tokens(self) -> int:
        """What it costs."""
        return sum(self._counts)

    @property
    def counts(self) -> list[int]:
        """The tokens of each message."""
        return list(self._counts)

    @property
    def milliseconds(self) -> float:
        """What the sections took, added up."""
        return sum(section.milliseconds for section in self.sections)

    @property
    def shared(self) -> SharedPrefix | None:
        """The prefix shared with the previous context, if `compose` was given one."""
        return self._previous

    @property
    def omitted(self) -> list[Omission]:
        """Stored messages that are not shown, by all sections."""
        return [omission for section in self.sections for omission in section.omitted]

    @property
    def cut(self) -> list[Cut]:
        """What a budget left out or shortened, by all sections."""
        return [cut for section in self.sections for cut in section.cut]

    def section(self, name: str) -> SectionReport | None:
        """The report of the first section with a name."""
        return next((section for section in self.sections if section.name == name), None)

    def origins(self) -> list[Origin]:
        """For each message: the section, the position in the log if it has one, and its tokens."""
        found: dict[int, Origin] = {}
        for section in self.sections:
            for index, position in zip(section.indexes, section.positions, strict=True):
                tokens = self._counts[index]
                found[index] = Origin(section=section.name, position=position, tokens=tokens)
        return [found[index] for index in range(len(self._messages))]

    def positions(self) -> list[int | None]:
        """For each message its position in the log, if it has one."""
        found: list[int | None] = [None] * len(self._messages)
        for section in self.sections:
            for index, position in zip(section.indexes, section.positions, strict=True):
                found[index] = position
        return found

    @property
    def breakpoints(self) -> tuple[int, ...]:
        """After which messages a provider's cache may be cut: at most 4 indexes, in order."""
        kinds: list[Kind] = ["volatile"] * len(self._messages)
        for section in self.sections:
            for index in section.indexes:
                kinds[index] = section.kind
        shared = 0 if self._previous is None else self._previous.messages
        return breakpoints(self._messages, kinds, shared)

    def estimated_cost(self, price: Price, *, output_tokens: int = 0) -> float:
        """What sending it costs, in the money of the price, when the shared prefix comes from the cache."""
        if not isinstance(price, Price):
            raise TypeError(
                f"price is {type(price).__name__}; give a Price, such as price_of(model) if it knows one"
            )
        if output_tokens < 0:
            raise ValueError(f"output_tokens is {output_tokens}; it must be 0 tokens or more")
        tools = 0 if self.budget is None else self.budget.tools
        cached = 0 if self._previous is None else tools + self._previous.tokens
        if cached < LEAST_CACHED:
            cached = 0
        return price.cost(cached=cached, written=tools + self.tokens - cached, output=output_tokens)

    def shared_prefix(self, previous: ComposedContext) -> SharedPrefix:
        """How much of this context begins exactly like an earlier one."""
        same = 0
        for message, before in zip(self._messages, previous._messages, strict=False):
            if message is not before and visible(message) != visible(before):
                break
            same += 1
        tokens, total = sum(self._counts[:same]), self.tokens
        if same < min(len(self._messages), len(previous._messages)):
            tokens += int(self._counts[same] * _alike(self._messages[same], previous._messages[same]))
        return SharedPrefix(messages=same, tokens=tokens, share=tokens / total if total else 1.0)

    def to_dicts(self) -> list[dict[str, Any]]:
        """The messages as dicts that belong to the caller."""
        return [wire.to_dict(message) for message in self._messages]

    def digest(self) -> str:
        """A fingerprint of all the model will see: equal digests, equal bytes."""
        shown = json.dumps([visible(message) for message in self._messages], ensure_ascii=True)
        return hashlib.sha256(shown.encode()).hexdigest()

    def __len__(self) -> int:
        return len(self._messages)

    def __repr__(self) -> str:
        return f"ComposedContext({len(self._messages)} messages, {self.tokens} tokens)"


def _alike(message: Message, before: Message) -> float:
    """Which part of a summary begins as an older one does: a new segment leaves the others as they were."""
    if not isinstance(message, Summary) or not isinstance(before, Summary):
        return 0.0
    texts = [segment.text for segment in message.segments]
    older = [segment.text for segment in before.segments]
    same = next((at for at, (one, other) in enumerate(zip(texts, older, strict=False)) if one != other), None)
    same = min(len(texts), len(older)) if same is None else same
    return sum(map(len, texts[:same])) / max(sum(map(len, texts)), 1)


def visible(message: Message) -> list[Any]:
    """What a model sees of a message: not its id, time or bookkeeping."""
    return [
        message.role.value,
        content_to_json(message.content),
        [call_to_json(call) for call in message.tool_calls],
        message.tool_call_id,
        message.name,
        message.is_error,
    ]
