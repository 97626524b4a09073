"""Summaries for any memory: one that can only give all messages is copied into one of our own."""

from __future__ import annotations

import inspect
from typing import Any
from weakref import WeakKeyDictionary

from cachetools import LRUCache

from autonomy_ctx.items import wire
from autonomy_ctx.items.message import Message
from autonomy_ctx.memory.encoding import encoded, same_content
from autonomy_ctx.memory.memory import Memory


class Mirrors:
    """A copy of each foreign memory, for as long as that lives."""

    def __init__(self) -> None:
        self._mirrors: WeakKeyDictionary[Any, _Mirror] = WeakKeyDictionary()
        # For those that cannot be referred to weakly; kept alive so that no other gets their id.
        self._kept: LRUCache[int, tuple[Any, _Mirror]] = LRUCache(64)

    async def follow(self, other: Any, scope: str, conversation: str) -> Memory:
        """Our own memory with the same messages in that conversation."""
        return await self._of(other).follow(other, scope, conversation)

    def _of(self, other: Any) -> _Mirror:
        try:
            return self._mirrors.setdefault(other, _Mirror())
        except TypeError:
            if id(other) not in self._kept:
                self._kept[id(other)] = (other, _Mirror())
            return self._kept[id(other)][1]


class _Mirror:
    """Follows what another memory says of a conversation; starts again when its past has changed."""

    def __init__(self) -> None:
        self.memory = Memory()

    async def follow(self, other: Any, scope: str, conversation: str) -> Memory:
        found = other.get_messages_only(scope, conversation)
        if inspect.isawaitable(found):
            found = await found
        messages = [wire.from_dict(message) for message in found]
        known = (await self.memory.read(scope, conversation)).entries
        same = len(known) <= len(messages) and all(
            _same(entry.message, message) for entry, message in zip(known, messages, strict=False)
        )
        if not same:
            await self.memory.delete_conversation(scope, conversation)
            known = []
        # Their ids may be missing or used twice; ours count on from what is there.
        start = (await self.memory.head(scope, conversation)).position
        new = [
            _renamed(message, f"{start + number}")
            for number, message in enumerate(messages[len(known) :], start=1)
        ]
        if new:
            await self.memory.append(scope, conversation, *new)
        return self.memory


def _renamed(message: Message, name: str) -> dict[str, Any]:
    return {**wire.to_dict(message), "id": name}


def _same(kept: Message, message: Message) -> bool:
    return same_content(encoded(kept), encoded(wire.from_dict(_renamed(message, kept.id))))
