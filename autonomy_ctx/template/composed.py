"""A composed context: exactly what the model will see, and where each token came from."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Literal

from autonomy_ctx.items import wire
from autonomy_ctx.items.calls import call_to_json
from autonomy_ctx.items.message import Message
from autonomy_ctx.items.parts import content_to_json
from autonomy_ctx.sections.section import Kind, Omission


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

    __slots__ = ("_counts", "_messages", "_previous", "calibration", "conversation", "scope", "sections")

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
    ) -> None:
        self.scope, self.conversation = scope, conversation
        self.sections = tuple(sections)
        self.calibration = calibration
        self._messages, self._counts = tuple(messages), tuple(counts)
        self._previous = None if previous is None else self.shared_prefix(previous)

    @property
    def messages(self) -> list[Message]:
        """What the model will see, in order."""
        return list(self._messages)

    @property
    def tokens(self) -> int:
        """What it costs."""
        return sum(self._counts)

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

    def section(self, name: str) -> SectionReport | None:
        """The report of the first section with a name."""
        return next((section for section in self.sections if section.name == name), None)

    def origins(self) -> list[Origin]:
        """For each message: the section, the position in the log if it has one, and its tokens."""
        found: list[Origin] = []
        for section in self.sections:
            counts = self._counts[section.start : section.start + section.messages]
            for position, tokens in zip(section.positions, counts, strict=True):
                found.append(Origin(section=section.name, position=position, tokens=tokens))
        return found

    def shared_prefix(self, previous: ComposedContext) -> SharedPrefix:
        """How much of this context begins exactly like an earlier one."""
        same = 0
        for message, before in zip(self._messages, previous._messages, strict=False):
            if message is not before and visible(message) != visible(before):
                break
            same += 1
        tokens, total = sum(self._counts[:same]), self.tokens
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
