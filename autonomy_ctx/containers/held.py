"""The messages of a context in hand, and how they go together with what others wrote meanwhile.

A message is known by its id. Additions of several writers are all kept; where one of them took
messages away, only those are gone that it had seen.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass

from autonomy_ctx.errors import ConflictingMessage
from autonomy_ctx.items.message import Message


@dataclass(slots=True)
class Unsaved:
    """That there are changes no file has: the ids it had when they began, and whether any is no addition."""

    base: frozenset[str]
    edited: bool


class Held:
    """Messages in order and by id; no two share an id."""

    def __init__(self, order: list[Message]) -> None:
        # May be a list that passes edits on, so it is only changed through the methods of `list` itself.
        self.order = order
        self.by_id: dict[str, Message] = {}
        self.unsaved: Unsaved | None = None

    def fresh(self, messages: Iterable[Message]) -> list[Message]:
        """Those that are not held yet; raises `ConflictingMessage` when an id has other content."""
        return distinct(messages, self.by_id)

    def add(self, messages: Sequence[Message]) -> None:
        """Put messages at the end."""
        list.extend(self.order, messages)
        self.by_id.update((message.id, message) for message in messages)

    def take(self, messages: Sequence[Message]) -> None:
        """Hold these messages and no others."""
        list.__setitem__(self.order, slice(None), messages)
        self.by_id = {message.id: message for message in messages}

    def mark(self, *, edited: bool) -> None:
        """Remember that a change, about to be made, is not saved."""
        if self.unsaved is None:
            self.unsaved = Unsaved(frozenset(self.by_id), edited)
        self.unsaved.edited |= edited

    def unsave(self) -> None:
        """Remember that no file has these messages any more."""
        if self.order:
            self.unsaved = Unsaved(frozenset(), edited=True)

    def reconciled(self, theirs: Sequence[Message]) -> list[Message]:
        """What a file should hold that now holds `theirs`: the changes of both sides."""
        if self.unsaved is None:
            return list(theirs)
        if self.unsaved.edited:
            return merged(self.unsaved.base, self.order, theirs)
        known = self.unsaved.base.union(message.id for message in theirs)
        return [*theirs, *(message for message in self.order if message.id not in known)]


def merged(base: AbstractSet[str], mine: Sequence[Message], theirs: Sequence[Message]) -> list[Message]:
    """An edited list with what others added to the messages that the edit began from."""
    held = {message.id for message in mine}
    new = [message for message in theirs if message.id not in base and message.id not in held]
    at = len(mine)
    while at and mine[at - 1].id not in base:
        at -= 1
    return [*mine[:at], *new, *mine[at:]] if new else list(mine)


def distinct(messages: Iterable[Message], known: dict[str, Message] | None = None) -> list[Message]:
    """The messages whose ids are not known, each once; raises when one id stands for two contents."""
    known = known or {}
    found: dict[str, Message] = {}
    for message in messages:
        other = known.get(message.id) or found.get(message.id)
        if other is None:
            found[message.id] = message
        elif other != message:
            ids = [*known, *found]
            raise ConflictingMessage(message_id=message.id, position=ids.index(message.id))
    return list(found.values())
