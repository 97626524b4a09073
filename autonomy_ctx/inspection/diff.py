"""Two turns side by side: per section and per message what is the same, added, removed or changed."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

from autonomy_ctx.inspection.changes import describe_changes, fingerprint
from autonomy_ctx.inspection.report import Report
from autonomy_ctx.inspection.turn import StepContext, read_turn_steps
from autonomy_ctx.memory.memory import Memory
from autonomy_ctx.memory.store import make_key
from autonomy_ctx.messages.message import Message
from autonomy_ctx.messages.summary import Summary
from autonomy_ctx.template.composed import ComposedContext

Change = Literal["same", "added", "removed", "changed"]


@dataclass(frozen=True, slots=True, kw_only=True)
class SectionDiff(Report):
    """A section in both contexts; a number is None where the section is not there."""

    name: str
    change: Change
    tokens_before: int | None
    tokens_after: int | None
    messages_before: int | None
    messages_after: int | None


@dataclass(frozen=True, slots=True, kw_only=True)
class MessageDiff(Report):
    """A message in both contexts. A text is None where the message is not there.

    `text_before` is also None if it equals `text_after`.
    """

    change: Change
    section: str
    role: str
    position: int | None
    index_before: int | None
    index_after: int | None
    tokens_before: int | None
    tokens_after: int | None
    text_before: str | None
    text_after: str | None


@dataclass(frozen=True, slots=True, kw_only=True)
class TurnDiff(Report):
    """The differences between two turns, as sentences and as data.

    `shared_tokens` is the size of the prefix that both contexts share.
    """

    agent: str
    scope: str
    conversation: str
    before: str
    after: str
    step_before: int
    step_after: int
    tokens_before: int
    tokens_after: int
    shared_messages: int
    shared_tokens: int
    changes: tuple[str, ...]
    sections: tuple[SectionDiff, ...]
    messages: tuple[MessageDiff, ...]


async def diff_turns(
    memory: Memory,
    scope: str,
    conversation: str,
    before: str | int,
    after: str | int | None = None,
    *,
    step_before: int | None = None,
    step_after: int | None = None,
) -> TurnDiff:
    """Compare the contexts of two turns; by default of their last steps, and with the newest turn.

    A turn is given by its number or its id.
    """
    old, new = await read_turn_steps(memory, scope, conversation, (before, step_before), (after, step_after))
    shared = new.context.shared_prefix(old.context)
    return TurnDiff(
        **make_key(memory.agent, scope, conversation)._asdict(),
        before=old.turn.id,
        after=new.turn.id,
        step_before=old.step,
        step_after=new.step,
        tokens_before=old.context.tokens,
        tokens_after=new.context.tokens,
        shared_messages=shared.messages,
        shared_tokens=shared.tokens,
        changes=tuple(describe_changes(old.context, new.context)),
        sections=tuple(_compare_sections(old.context, new.context)),
        messages=tuple(_compare_messages(old, new)),
    )


def _compare_sections(before: ComposedContext, after: ComposedContext) -> list[SectionDiff]:
    texts = [_texts_by_section(context) for context in (before, after)]
    names = [section.name for section in after.sections]
    names += [section.name for section in before.sections if section.name not in names]
    found: list[SectionDiff] = []
    for name in dict.fromkeys(names):
        old, new = before.section(name), after.section(name)
        change: Change = "changed"
        if old is None or new is None:
            change = "removed" if new is None else "added"
        elif texts[0].get(name) == texts[1].get(name) and old.status == new.status:
            change = "same"
        found.append(
            SectionDiff(
                name=name,
                change=change,
                tokens_before=None if old is None else old.tokens,
                tokens_after=None if new is None else new.tokens,
                messages_before=None if old is None else old.messages,
                messages_after=None if new is None else new.messages,
            )
        )
    return found


def _texts_by_section(context: ComposedContext) -> dict[str, list[str]]:
    found: dict[str, list[str]] = defaultdict(list)
    for message, origin in zip(context.messages, context.origins(), strict=True):
        found[origin.section].append(fingerprint(message))
    return dict(found)


@dataclass(frozen=True, slots=True, kw_only=True)
class _ContextMessage:
    """A message at its place in a context."""

    index: int
    message: Message
    section: str
    position: int | None
    tokens: int
    fingerprint: str

    @property
    def role(self) -> str:
        return "summary" if isinstance(self.message, Summary) else self.message.role.value

    @property
    def keys(self) -> tuple[object, object, object]:
        """Keys that pair it with another: its position in the log, else its text, else its role in order."""
        if self.position is not None:
            return (self.section, self.position), None, None
        return None, (self.section, self.fingerprint), (self.section, self.role)


def _places(context: ComposedContext) -> list[_ContextMessage]:
    return [
        _ContextMessage(
            index=index,
            message=message,
            section=origin.section,
            position=origin.position or None,
            tokens=origin.tokens,
            fingerprint=fingerprint(message),
        )
        for index, (message, origin) in enumerate(zip(context.messages, context.origins(), strict=True))
    ]


def _compare_messages(before: StepContext, after: StepContext) -> list[MessageDiff]:
    """All messages of both, in the order of the later context; what went stands before what came there."""
    old, new = _places(before.context), _places(after.context)
    pairs = _pair(old, new)
    paired = set(pairs.values())
    removed = [place for place in old if place.index not in paired]
    found: list[MessageDiff] = []
    added: list[MessageDiff] = []
    for place in new:
        partner = pairs.get(place.index)
        if partner is None:
            added.append(_diff(None, place))
            continue
        while removed and removed[0].index < partner:
            found.append(_diff(removed.pop(0), None))
        found += [*added, _diff(old[partner], place)]
        added.clear()
    return [*found, *(_diff(place, None) for place in removed), *added]


def _pair(old: Sequence[_ContextMessage], new: Sequence[_ContextMessage]) -> dict[int, int]:
    """For each message of the later context the one that it was before, if any, by index.

    Stored messages are paired by position. Others of a section by what they say; those that are left, in
    their order: a section changed its text.
    """
    pairs: dict[int, int] = {}
    for at in range(3):
        candidates: dict[object, list[_ContextMessage]] = defaultdict(list)
        taken = set(pairs.values())
        for place in old:
            if place.index not in taken:
                candidates[place.keys[at]].append(place)
        for place in new:
            wanted = place.keys[at]
            if wanted is not None and place.index not in pairs and candidates[wanted]:
                pairs[place.index] = candidates[wanted].pop(0).index
    return pairs


def _diff(old: _ContextMessage | None, new: _ContextMessage | None) -> MessageDiff:
    place = new or old
    assert place is not None, "a message is in one of the two"
    change: Change = "added" if old is None else "removed"
    if old is not None and new is not None:
        change = "same" if old.fingerprint == new.fingerprint else "changed"
    return MessageDiff(
        change=change,
        section=place.section,
        role=place.role,
        position=place.position,
        index_before=None if old is None else old.index,
        index_after=None if new is None else new.index,
        tokens_before=None if old is None else old.tokens,
        tokens_after=None if new is None else new.tokens,
        text_before=None if old is None or change == "same" else old.message.text,
        text_after=None if new is None else new.message.text,
    )
