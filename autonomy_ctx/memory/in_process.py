"""A store that lives and dies with the process: for tests, demos and throw-away agents."""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Sequence

from autonomy_ctx.errors import ConflictingMessage, StoreClosed
from autonomy_ctx.items.message import ChatRole
from autonomy_ctx.memory.key import Key
from autonomy_ctx.memory.rows import encoded, same_content
from autonomy_ctx.memory.store import Draft, Entry, Head, Window


class _Conversation:
    """One log: entries by position, positions by id."""

    __slots__ = ("entries", "head", "positions", "wholes")

    def __init__(self) -> None:
        self.head = Head()
        self.entries: list[Entry] = []
        self.positions: dict[str, int] = {}
        self.wholes: dict[int, str] = {}

    def body(self, message_id: str) -> str | None:
        """What an id stands for, uncut, to tell a retry from a conflict."""
        position = self.positions.get(message_id)
        if position is None:
            return None
        entry = self.entries[bisect_left(self.entries, position, key=_position)]
        return self.wholes.get(position) or encoded(entry.message)


class InProcessStore:
    """Logs in plain lists."""

    def __init__(self) -> None:
        self._conversations: dict[Key, _Conversation] = {}
        self._closed = False

    async def append(self, key: Key, drafts: Sequence[Draft]) -> list[int]:
        self._open()
        kept = self._conversations.get(key) or _Conversation()
        positions: dict[str, int] = {}
        fresh: dict[str, Draft] = {}
        for draft in drafts:
            message_id = draft.message.id
            known = _uncut(fresh[message_id]) if message_id in fresh else kept.body(message_id)
            if known is None:
                fresh[message_id] = draft
                positions[message_id] = kept.head.position + len(fresh)
                continue
            positions.setdefault(message_id, kept.positions.get(message_id, 0))
            if not same_content(known, _uncut(draft)):
                raise ConflictingMessage(message_id=message_id, position=positions[message_id])
        position, last_user = kept.head.position, kept.head.last_user
        for message_id, draft in fresh.items():
            position += 1
            kept.entries.append(Entry(position, draft.message))
            kept.positions[message_id] = position
            if draft.whole is not None:
                kept.wholes[position] = draft.whole
            if draft.message.role is ChatRole.USER:
                last_user = position
        kept.head = Head(position, kept.head.count + len(fresh), kept.head.generation, last_user)
        self._conversations[key] = kept
        return [positions[draft.message.id] for draft in drafts]

    async def read(
        self, key: Key, *, after: int = 0, before: int | None = None, limit: int | None = None
    ) -> Window:
        self._open()
        kept = self._conversations.get(key)
        if kept is None:
            return Window(Head(), [])
        entries = kept.entries
        start = bisect_right(entries, after, key=_position) if after else 0
        stop = len(entries) if before is None else bisect_left(entries, before, key=_position)
        if limit is not None:
            start = max(start, stop - limit)
        return Window(kept.head, entries[start:stop])

    async def head(self, key: Key) -> Head:
        self._open()
        kept = self._conversations.get(key)
        return Head() if kept is None else kept.head

    async def whole(self, key: Key, message_id: str) -> str | None:
        self._open()
        kept = self._conversations.get(key)
        return None if kept is None else kept.wholes.get(kept.positions.get(message_id, 0))

    async def delete(
        self,
        scope: str,
        agent: str | None = None,
        conversation: str | None = None,
        ids: Sequence[str] | None = None,
    ) -> int:
        self._open()
        deleted = 0
        for key, kept in self._conversations.items():
            if key.scope != scope or agent not in (None, key.agent):
                continue
            if conversation in (None, key.conversation):
                deleted += _delete(kept, ids)
        return deleted

    @property
    def identity(self) -> object:
        return None

    async def check(self) -> None:
        self._open()

    async def close(self) -> None:
        self._closed = True
        self._conversations.clear()

    def _open(self) -> None:
        if self._closed:
            raise StoreClosed("this process")


def _delete(kept: _Conversation, ids: Sequence[str] | None) -> int:
    gone = set(kept.positions) if ids is None else kept.positions.keys() & set(ids)
    if not gone:
        return 0
    for message_id in gone:
        kept.wholes.pop(kept.positions.pop(message_id), None)
    kept.entries = [entry for entry in kept.entries if entry.message.id not in gone]
    users = (entry.position for entry in reversed(kept.entries) if entry.message.role is ChatRole.USER)
    kept.head = Head(kept.head.position, len(kept.entries), kept.head.generation + 1, next(users, 0))
    return len(gone)


def _uncut(draft: Draft) -> str:
    return draft.whole or draft.body


def _position(entry: Entry) -> int:
    return entry.position
