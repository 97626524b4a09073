"""Finds a framework's history in memory: in a conversation or a fork of it, by ids made from content.

The id of a message is a hash of its content and the id before it. So one comparison of ids compares a whole
history with the log.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from hashlib import sha256
from typing import NamedTuple
from weakref import WeakValueDictionary

import anyio

from autonomy_ctx.background import Chunks
from autonomy_ctx.engine.framework_context import SourcedMessage
from autonomy_ctx.errors import HistoryMismatch, InvalidFork
from autonomy_ctx.memory.cache import ConversationCache
from autonomy_ctx.memory.memory import Memory
from autonomy_ctx.memory.store import Head, Key, RecordDraft
from autonomy_ctx.messages.message import ChatRole, Message
from autonomy_ctx.messages.summary import visible_fields
from autonomy_ctx.template.epoch_store import fork_log

BRANCH_RECORD = "branch"
START_RECORD = "history_start"
_ANSWERS = (ChatRole.ASSISTANT, ChatRole.TOOL)
# How many messages are read at a time to find where a history left the log.
LOOKBACK = 64
# How many conversations a process remembers.
CACHED_CONVERSATIONS = 256


class StoredHistory(NamedTuple):
    """A history in memory: its branch, all messages under their ids, and the log before and after them.

    `head` is None if it is not known. `user` is the message at its `last_user`, if it is new.
    """

    branch: Key
    said: list[SourcedMessage]
    before: Head
    head: Head | None
    user: Message | None = None


class Branches:
    """The conversations of a memory that frameworks' histories are in.

    A framework names a conversation. When it goes on from an earlier message, that is a fork in memory,
    and its name stands for the fork from then on. When it has lost its history and goes on with a new
    message alone, its history begins in the middle of the log from then on.
    """

    def __init__(self, memory: Memory) -> None:
        self.memory = memory
        self._current: ConversationCache[Key, Key] = ConversationCache(CACHED_CONVERSATIONS)
        # The stored message after which the framework's history begins; "" if it has all of the log.
        self._starts: ConversationCache[Key, str] = ConversationCache(CACHED_CONVERSATIONS)
        self._locks: WeakValueDictionary[Key, anyio.Lock] = WeakValueDictionary()

    def lock(self, key: Key) -> anyio.Lock:
        """One call of a conversation at a time stores messages."""
        return self._locks.setdefault(key, anyio.Lock())

    def forget(self, key: Key) -> None:
        """Forget where a conversation is, and where its history begins."""
        self._current.pop(key, None)
        self._starts.pop(key, None)

    async def current(self, key: Key) -> Key:
        """The conversation in memory that the framework was in last."""
        known = self._current.get(key)
        if known is None:
            records = await self.memory.store.read_records(key, BRANCH_RECORD, limit=1)
            known = key._replace(conversation=records[-1].body) if records else key
            self._current[key] = known
        return known

    async def store_history(
        self,
        key: Key,
        history: Sequence[SourcedMessage],
        after: str = "",
        *,
        may_begin_anew: bool = False,
        may_continue: bool = False,
        records: Sequence[RecordDraft] = (),
        recorded: Key | None = None,
    ) -> StoredHistory:
        """Append the messages that the log does not have.

        A history that shares nothing with what was answered raises `HistoryMismatch`. If it
        `may_begin_anew`, it goes into a branch of its own. If it `may_continue` and has no answer, it is
        all that a framework without its history has: it goes on after the newest stored message. `records`
        of the branch `recorded` are stored too, in the same transaction if the messages go there.
        """
        before = await self.current(key)
        starts = [after] if after else await self._read_starts(key)
        if may_continue and not any(one.message.role in _ANSWERS for one in history):
            end = await self._find_end(before, history, starts)
            if end:
                after, starts = end, [end]
                self._starts[key] = end
                await self.memory.store.put_records(key, START_RECORD, [("current", end)], keep=1)
        while True:
            said, indexes, found = await self._locate(key, before, history, starts, after)
            if found is None and not after and key in self._starts:
                # Another process may have gone on without a history.
                del self._starts[key]
                starts = await self._read_starts(key)
                said, indexes, found = await self._locate(key, before, history, starts, after)
            place = found or await self._begin_anew(key, indexes, may_begin_anew)
            new: list[Message] = []
            async for some in Chunks(said[place.first :]):
                new += [to_store(one) for one in some]
            together = records if new and place.branch == recorded else ()
            # Another process may have gone on from the same message: then this goes into a fork.
            positions = await self._append(place.branch, new, together, place.head) if new else []
            if positions or not new:
                break
        if place.branch != before:
            self._current[key] = place.branch
            name = place.branch.conversation
            await self.memory.store.put_records(key, BRANCH_RECORD, [("current", name)], keep=1)
        if records and not together and recorded is not None:
            await self.memory.store.append(recorded, (), records)
        return _history_after(place, said, new, positions)

    async def append_reply(
        self,
        key: Key,
        branch: Key,
        reply: Sequence[SourcedMessage],
        records: Sequence[RecordDraft],
        head: Head,
    ) -> bool:
        """Append to a log that was read to its end; false, with nothing stored, if it has gone on since."""
        if not reply or self._current.get(key) != branch:
            return False
        return bool(await self._append(branch, list(map(to_store, reply)), records, head))

    async def _append(
        self, branch: Key, messages: Sequence[Message], records: Sequence[RecordDraft], head: Head
    ) -> list[int]:
        """Append to a log that ends where it was read; the positions, none if it has gone on since."""
        return await self.memory.append(
            branch.scope, branch.conversation, *messages, records=records, after=head.position or None
        )

    async def shares(self, key: Key, history: Sequence[SourcedMessage]) -> bool:
        """Tell whether a history may be in a conversation: it has some of the newest messages, or is new."""
        branch = await self.current(key)
        newest = await self.memory.read(branch.scope, branch.conversation, limit=LOOKBACK)
        known = {entry.message.id for entry in newest.entries}
        starts = await self._read_starts(key)
        return not known or any(
            one.stored_id in known for start in starts for one in identify(history, start)
        )

    async def _read_starts(self, key: Key) -> list[str]:
        """After which stored messages the framework's history may begin."""
        start = self._starts.get(key)
        if start is None:
            records = await self.memory.store.read_records(key, START_RECORD, limit=1)
            start = self._starts[key] = records[-1].body if records else ""
        if start and (await self.memory.head(key.scope, key.conversation)).count:
            return [start, ""]
        return [""]

    async def _find_end(self, branch: Key, history: Sequence[SourcedMessage], starts: Sequence[str]) -> str:
        """The stored message after which a history without an answer goes on; "" if not at the end.

        The same message again, before there was an answer, is another attempt at the same turn.
        """
        window = await self.memory.read(branch.scope, branch.conversation, limit=LOOKBACK)
        entries = window.entries[::-1]
        first = {_first_id(history, start) for start in starts}
        if len(entries) > 1 and entries[0].message.id == _first_id(history, entries[1].message.id):
            return entries[1].message.id
        has_ended = False
        for entry in entries:
            if entry.message.id in first:
                return entries[0].message.id if has_ended else ""
            has_ended = has_ended or _is_answer(entry.message) or entry.message.role is ChatRole.USER
        return entries[0].message.id if entries else ""

    async def _locate(
        self, key: Key, hint: Key, history: Sequence[SourcedMessage], starts: Sequence[str], after: str
    ) -> tuple[list[SourcedMessage], dict[str, int], _Place | None]:
        """The messages under ids, their indexes, and where they go on in memory; None if nowhere."""
        for start in starts:
            said = identify(history, start)
            indexes = {one.stored_id: index for index, one in enumerate(said)}
            if after:
                indexes[after] = -1
            found = await self._find_branch(key, hint, indexes)
            if found is not None:
                break
        return said, indexes, found

    async def _find_branch(self, key: Key, hint: Key, indexes: Mapping[str, int]) -> _Place | None:
        """Where a history goes on; None if it shares nothing with the logs."""
        for branch in dict.fromkeys((hint, key)):
            newest = await self.memory.read(branch.scope, branch.conversation, limit=1)
            if not newest.entries and branch == key:
                return _Place(branch, 0, newest.head)
            if newest.entries and newest.entries[-1].message.id in indexes:
                return _Place(branch, indexes[newest.entries[-1].message.id] + 1, newest.head)
        # A part of a history, without its beginning, may be in the newest branch alone.
        for branch in dict.fromkeys((key, hint)):
            found = await self._follow_forks(branch, indexes)
            if found is not None:
                return found
        return None

    async def _follow_forks(self, branch: Key, indexes: Mapping[str, int]) -> _Place | None:
        """Find the conversation among a log and its forks.

        A framework may go on from an earlier message: a failed run that it forgot, an edit, a step back.
        What was stored stays; the history goes on in a fork, named after the last message they share.
        """
        while True:
            shared = await self._last_shared(branch, indexes)
            if shared is None:
                return None
            if shared.is_newest:
                return _Place(branch, indexes[shared.message_id] + 1, shared.head)
            fork = _branch_key(branch, shared.message_id)
            await self._make_fork(branch, shared.position, fork)
            branch = fork

    async def _begin_anew(self, key: Key, indexes: Mapping[str, int], may_begin_anew: bool) -> _Place:
        """Where a history goes that shares nothing with the log."""
        newest = await self.memory.read(key.scope, key.conversation, limit=LOOKBACK)
        # Perhaps no stored message was answered, and the framework has started again after a failure.
        if not may_begin_anew and any(_is_answer(entry.message) for entry in newest.entries):
            raise HistoryMismatch(conversation=key.conversation, messages=len(indexes))
        branch = key
        while True:
            branch = _branch_key(branch, next(iter(indexes), ""))
            head = await self.memory.head(branch.scope, branch.conversation)
            if not head.count:
                return _Place(branch, 0, head)
            found = await self._follow_forks(branch, indexes)
            if found is not None:
                return found

    async def _last_shared(self, branch: Key, indexes: Mapping[str, int]) -> _SharedMessage | None:
        """The newest message of a log that a history has, too."""
        before: int | None = None
        is_newest = True
        while True:
            window = await self.memory.read(branch.scope, branch.conversation, before=before, limit=LOOKBACK)
            for entry in reversed(window.entries):
                if entry.message.id in indexes:
                    return _SharedMessage(entry.position, entry.message.id, is_newest, window.head)
                is_newest = False
            if not window.entries:
                return None
            before = window.entries[0].position

    async def _make_fork(self, branch: Key, position: int, fork: Key) -> None:
        """Fork a conversation unless that was done before."""
        if (await self.memory.head(fork.scope, fork.conversation)).count:
            return
        try:
            await fork_log(self.memory, branch, position, fork.conversation)
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
    """The last message that a history and a log share, whether the log ends with it, and its head."""

    position: int
    message_id: str
    is_newest: bool
    head: Head


class _Place(NamedTuple):
    """The log that a history continues, the index of its first message not in it, and the log's head."""

    branch: Key
    first: int
    head: Head


def _history_after(
    place: _Place, said: list[SourcedMessage], new: Sequence[Message], positions: Sequence[int]
) -> StoredHistory:
    """A history after its new messages were stored; what the log is now follows from what it was."""
    before = place.head
    if list(positions) != list(range(before.position + 1, before.position + len(new) + 1)):
        # Some were there already.
        return StoredHistory(place.branch, said, before, None)
    last = max((at for at, one in enumerate(new) if one.role is ChatRole.USER), default=None)
    head = replace(
        before,
        position=before.position + len(new),
        count=before.count + len(new),
        last_user=before.last_user if last is None else positions[last],
    )
    return StoredHistory(place.branch, said, before, head, None if last is None else new[last])


def _branch_key(key: Key, message_id: str) -> Key:
    """Where a history goes on that leaves a log after a message; numbered if others left it there, too."""
    name, left_at = key.conversation, message_id[:8]
    parent, _, mark = name.rpartition("~")
    known, _, number = mark.partition(".")
    if parent and known == left_at:
        return key._replace(conversation=f"{parent}~{left_at}.{int(number or 1) + 1}")
    return key._replace(conversation=f"{name}~{left_at}")


def _first_id(history: Sequence[SourcedMessage], start: str) -> str:
    return identify(history[:1], start)[0].stored_id if history else ""


def _is_answer(message: Message) -> bool:
    return message.role is ChatRole.ASSISTANT and not message.tool_calls
