"""Finds a framework's history in memory: in a conversation or a fork of it, by ids made from content.

The id of a message is a hash of its content and the id before it. So one comparison of ids compares a whole
history with the log.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from hashlib import sha256
from weakref import WeakValueDictionary

import anyio

from autonomy_ctx.background import Chunks
from autonomy_ctx.engine.framework_context import SourcedMessage
from autonomy_ctx.errors import HistoryMismatch, InvalidFork
from autonomy_ctx.items.message import ChatRole, Message
from autonomy_ctx.memory.conversation_cache import ConversationCache
from autonomy_ctx.memory.memory import Memory
from autonomy_ctx.memory.store import Key
from autonomy_ctx.template.composed import visible_fields

BRANCH_RECORD = "branch"
# How many messages are read at a time to find where a history left the log.
LOOKBACK = 64
# How many conversations a process remembers.
CACHED_CONVERSATIONS = 256


class Branches:
    """The conversations of a memory that frameworks' histories are in.

    A framework names a conversation. When it goes on from an earlier message, that is a fork in memory,
    and its name stands for the fork from then on.
    """

    def __init__(self, memory: Memory) -> None:
        self.memory = memory
        self._current: ConversationCache[Key, Key] = ConversationCache(CACHED_CONVERSATIONS)
        self._locks: WeakValueDictionary[Key, anyio.Lock] = WeakValueDictionary()

    def lock(self, key: Key) -> anyio.Lock:
        """One call of a conversation at a time stores messages."""
        lock = self._locks.get(key)
        if lock is None:
            lock = self._locks[key] = anyio.Lock()
        return lock

    async def current(self, key: Key) -> Key:
        """The conversation in memory that the framework was in last."""
        known = self._current.get(key)
        if known is None:
            records = await self.memory.store.read_records(key, BRANCH_RECORD, limit=1)
            known = key._replace(conversation=records[-1].body) if records else key
            self._current[key] = known
        return known

    async def store_history(
        self, key: Key, said: Sequence[SourcedMessage], after: str = "", *, may_begin_anew: bool = False
    ) -> Key:
        """Append the messages that the log does not have; the branch that they are in.

        A history that shares nothing with what was answered raises `HistoryMismatch`. If it
        `may_begin_anew`, it goes into a branch of its own.
        """
        indexes = {one.stored_id: index for index, one in enumerate(said)}
        if after:
            indexes[after] = -1
        before = await self.current(key)
        branch, start = await self._find_branch(key, before, indexes, may_begin_anew)
        if branch != before:
            self._current[key] = branch
            await self.memory.store.put_records(
                key, BRANCH_RECORD, [("current", branch.conversation)], keep=1
            )
        new: list[Message] = []
        async for some in Chunks(said[start:]):
            new += [to_store(one) for one in some]
        if new:
            await self.memory.append(branch.scope, branch.conversation, *new)
        return branch

    async def _find_branch(
        self, key: Key, hint: Key, indexes: Mapping[str, int], may_begin_anew: bool
    ) -> tuple[Key, int]:
        """The log that a history continues, and the index of its first message that is not in it.

        A framework may go on from an earlier message: a failed run that it forgot, an edit, a step back.
        What was stored stays; the history goes on in a fork, named after the last message they share.
        """
        for branch in dict.fromkeys((hint, key)):
            newest = await self.memory.read(branch.scope, branch.conversation, limit=1)
            if not newest.entries and branch == key:
                return branch, 0
            if newest.entries and newest.entries[-1].message.id in indexes:
                return branch, indexes[newest.entries[-1].message.id] + 1
        branch = key
        while True:
            shared = await self._last_shared(branch, indexes)
            if shared is None and branch == key and hint != key:
                # A part of a history, without its beginning, may be in the newest branch alone.
                branch = hint
            elif shared is None:
                branch = key if branch == hint else branch
                newest = await self.memory.read(branch.scope, branch.conversation, limit=LOOKBACK)
                if not newest.entries:
                    return branch, 0
                if not may_begin_anew and any(_is_answer(entry.message) for entry in newest.entries):
                    raise HistoryMismatch(conversation=key.conversation, messages=len(indexes))
                # Perhaps no stored message was answered, and the framework has started again after a failure.
                branch, hint = _branch_key(branch, next(iter(indexes), "")), key
            elif shared.is_newest:
                return branch, indexes[shared.message_id] + 1
            else:
                fork = _branch_key(branch, shared.message_id)
                await self._make_fork(branch, shared.position, fork)
                branch = fork

    async def _last_shared(self, branch: Key, indexes: Mapping[str, int]) -> _SharedMessage | None:
        """The newest message of a log that a history has, too."""
        before: int | None = None
        is_newest = True
        while True:
            window = await self.memory.read(branch.scope, branch.conversation, before=before, limit=LOOKBACK)
            for entry in reversed(window.entries):
                if entry.message.id in indexes:
                    return _SharedMessage(entry.position, entry.message.id, is_newest)
                is_newest = False
            if not window.entries:
                return None
            before = window.entries[0].position

    async def _make_fork(self, branch: Key, position: int, fork: Key) -> None:
        """Fork a conversation unless that was done before."""
        if (await self.memory.head(fork.scope, fork.conversation)).count:
            return
        try:
            await self.memory.fork(branch.scope, branch.conversation, at=position, name=fork.conversation)
        except InvalidFork:
            # Another process has just made it, or its messages were deleted: then it is not used again.
            if not (await self.memory.head(fork.scope, fork.conversation)).count:
                raise


def identify(history: Sequence[SourcedMessage], before: str = "") -> list[SourcedMessage]:
    """The messages under ids that tell them and all before them apart from any other history.

    A message that has such an id already keeps it.
    """
    said = []
    for one in history:
        if one.stored_id:
            before = one.stored_id
            said.append(one)
            continue
        shown = json.dumps(visible_fields(one.message), ensure_ascii=True, sort_keys=True)
        before = sha256(f"{before}\n{shown}".encode()).hexdigest()[:32]
        said.append(SourcedMessage(one.message, one.source, before))
    return said


def to_store(one: SourcedMessage) -> Message:
    """A message under the id that it has in memory."""
    return replace(one.message, id=one.stored_id)


@dataclass(frozen=True, slots=True)
class _SharedMessage:
    """The last message that a history and a log share, and whether the log ends with it."""

    position: int
    message_id: str
    is_newest: bool


def _branch_key(key: Key, message_id: str) -> Key:
    """Where a history goes on that leaves a log after a message."""
    return key._replace(conversation=f"{key.conversation}~{message_id[:8]}")


def _is_answer(message: Message) -> bool:
    return message.role is ChatRole.ASSISTANT and not message.tool_calls
