"""Copies of foreign memories, so that their conversations can be summarized too."""

from __future__ import annotations

from typing import Any
from weakref import WeakKeyDictionary

from cachetools import LRUCache

from autonomy_ctx.callables import await_value
from autonomy_ctx.memory.encoding import encode_row, same_content
from autonomy_ctx.memory.memory import Memory
from autonomy_ctx.messages import wire
from autonomy_ctx.messages.message import Message


class MemoryMirrors:
    """A copy of each foreign memory, for as long as that lives."""

    def __init__(self) -> None:
        self._mirrors: WeakKeyDictionary[Any, _MemoryMirror] = WeakKeyDictionary()
        # For those that cannot be referred to weakly; kept alive so that no other gets their id.
        self._mirrors_by_id: LRUCache[int, tuple[Any, _MemoryMirror]] = LRUCache(64)

    async def follow(self, other: Any, scope: str, conversation: str) -> Memory:
        """Our own memory with the same messages in that conversation."""
        return await self._of(other).follow(other, scope, conversation)

    def _of(self, other: Any) -> _MemoryMirror:
        try:
            return self._mirrors.setdefault(other, _MemoryMirror())
        except TypeError:
            if id(other) not in self._mirrors_by_id:
                self._mirrors_by_id[id(other)] = (other, _MemoryMirror())
            return self._mirrors_by_id[id(other)][1]


class _MemoryMirror:
    """Copies a conversation of another memory; starts again if its past has changed."""

    def __init__(self) -> None:
        self.memory = Memory()

    async def follow(self, other: Any, scope: str, conversation: str) -> Memory:
        messages = wire.from_dicts(await await_value(other.get_messages_only(scope, conversation)))
        known = (await self.memory.read(scope, conversation)).entries
        same = len(known) <= len(messages) and all(
            _has_same_content(entry.message, message) for entry, message in zip(known, messages, strict=False)
        )
        if not same:
            await self.memory.delete_conversation(scope, conversation)
            known = []
        # Their ids may be missing or used twice; ours count on from what is there.
        start = (await self.memory.head(scope, conversation)).position
        new = [
            _with_id(message, f"{start + number}")
            for number, message in enumerate(messages[len(known) :], start=1)
        ]
        if new:
            await self.memory.append(scope, conversation, *new)
        return self.memory


def _with_id(message: Message, name: str) -> dict[str, Any]:
    return {**wire.to_dict(message), "id": name}


def _has_same_content(kept: Message, message: Message) -> bool:
    return same_content(encode_row(kept), encode_row(wire.from_dict(_with_id(message, kept.id))))
