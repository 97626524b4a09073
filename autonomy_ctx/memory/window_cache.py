"""`WindowCache`: recently read messages, used only if they are known to be current.

Every read first reads the messages after the cached window, together with the conversation's head: one
indexed row if there is nothing new. Both together are the result. After a deletion the window is read again.
"""

from __future__ import annotations

import threading
from bisect import bisect_left, bisect_right
from collections.abc import Sequence

from autonomy_ctx.memory.conversation_cache import ConversationCache
from autonomy_ctx.memory.encoding import approximate_length
from autonomy_ctx.memory.entries import EntryColumns
from autonomy_ctx.memory.store import Draft, Head, Key, Store, TurnToken, Window

# A message in memory is about so many bytes, besides its text.
MESSAGE_OVERHEAD_BYTES = 1_500
MAX_WINDOW_MESSAGES = 2048
# How long a window gets by what is read before it.
MAX_LOOKBACK_MESSAGES = 512
# Of one window, and of all of them: in bytes, more or less.
MAX_WINDOW_BYTES = 3_500_000
MAX_CACHE_BYTES = 48_000_000
CACHED_CONVERSATIONS = 256


class _CachedWindow:
    """All entries after `base`, as of `head`, of the log with that identity, and their size in bytes."""

    __slots__ = ("base", "entries", "head", "identity", "size")

    def __init__(self, identity: object, base: int, head: Head, entries: EntryColumns, size: int) -> None:
        self.identity, self.base, self.head = identity, base, head
        self.entries, self.size = entries, size


class WindowCache:
    """A log that remembers the windows it read last; bounded in number and in length."""

    def __init__(self, log: Store, conversations: int = CACHED_CONVERSATIONS) -> None:
        self._log = log
        least = MAX_CACHE_BYTES // conversations
        self._windows: ConversationCache[Key, _CachedWindow] = ConversationCache(
            MAX_CACHE_BYTES, getsizeof=lambda cached: max(cached.size, least)
        )
        # The cache is not made for threads; memory may be used from several.
        self._lock = threading.Lock()
        self.hits = 0
        self.misses = 0

    async def append(
        self, key: Key, drafts: Sequence[Draft], *, turn: TurnToken | None = None, ends: bool = False
    ) -> list[int]:
        return await self._log.append(key, drafts, turn=turn, ends=ends)

    async def read(
        self, key: Key, *, after: int = 0, before: int | None = None, limit: int | None = None
    ) -> Window:
        if limit is not None and limit > MAX_WINDOW_MESSAGES:
            return await self._log.read(key, after=after, before=before, limit=limit)
        with self._lock:
            cached = self._windows.get(key)
        if before is not None and (cached is None or not _reaches_back_to(cached, before)):
            return await self._log.read(key, after=after, before=before, limit=limit)
        if cached is not None:
            # One round trip, whether there is something new or not.
            new = await self._log.read(key, after=cached.head.position, limit=MAX_WINDOW_MESSAGES)
            if cached.identity != self._log.identity:
                cached = None
            elif new.head is not cached.head and new.head != cached.head:
                cached = self._extend(key, cached, new)
        if before is not None:
            return await self._read_before(key, cached, after, before, limit)
        if cached is None or not _covers_read(cached, after, limit):
            self.misses += 1
            window = await self._log.read(key, after=after, limit=limit)
            if len(window.entries) > MAX_WINDOW_MESSAGES:
                self._drop(key)
                return window
            entries = EntryColumns.of(window.entries)
            base, size = _window_base(window.head, entries, after, limit), _message_bytes(entries)
            self._put(key, _CachedWindow(self._log.identity, base, window.head, entries, size))
            return window
        self.hits += 1
        if after >= cached.head.position:
            # Nothing was said since, as often when a context is composed.
            return Window(cached.head, [])
        positions = cached.entries.positions
        first = 0 if limit is None else max(len(positions) - limit, 0)
        return Window(cached.head, cached.entries[bisect_right(positions, after, lo=first) :])

    async def _read_before(
        self, key: Key, cached: _CachedWindow | None, after: int, before: int, limit: int | None
    ) -> Window:
        """A window that ends inside the log; one that ends where the cached one begins is cached with it."""
        if cached is not None:
            end = bisect_left(cached.entries.positions, before)
            start = bisect_right(cached.entries.positions, after, hi=end)
            if cached.base <= after or (limit is not None and end - start >= limit):
                self.hits += 1
                first = start if limit is None else max(start, end - limit)
                return Window(cached.head, cached.entries[first:end])
        window = await self._log.read(key, after=after, before=before, limit=limit)
        if (
            cached is not None
            and window.entries
            and window.head == cached.head
            and before == cached.entries.positions[0]
            and len(window.entries) + len(cached.entries) <= MAX_LOOKBACK_MESSAGES
        ):
            older = EntryColumns.of(window.entries)
            size = cached.size + _message_bytes(older)
            if size <= MAX_WINDOW_BYTES:
                base, entries = _window_base(window.head, older, after, limit), older + cached.entries
                self._put(key, _CachedWindow(cached.identity, base, cached.head, entries, size))
        return window

    async def head(self, key: Key) -> Head:
        return await self._log.head(key)

    async def full_text(self, key: Key, message_id: str) -> str | None:
        return await self._log.full_text(key, message_id)

    async def delete(
        self,
        scope: str,
        agent: str | None = None,
        conversation: str | None = None,
        ids: Sequence[str] | None = None,
    ) -> int:
        deleted = await self._log.delete(scope, agent, conversation, ids)
        self.forget(agent, scope, conversation)
        return deleted

    def forget(self, agent: str | None, scope: str, conversation: str | None) -> None:
        """Drop the cached windows of a scope, or of one conversation in it."""
        with self._lock:
            self._windows.forget(agent=agent, scope=scope, conversation=conversation)

    def _extend(self, key: Key, cached: _CachedWindow, new: Window) -> _CachedWindow | None:
        """The cached window with the newer messages, or None if it must be read again."""
        grown = new.head.position - cached.head.position
        if new.head.generation != cached.head.generation or not 0 <= grown <= MAX_WINDOW_MESSAGES:
            return None
        came = EntryColumns.of(new.entries)
        entries = cached.entries + came if came else cached.entries
        dropped = entries[:-MAX_WINDOW_MESSAGES]
        base = dropped.positions[-1] if dropped else cached.base
        # Only what came and went is measured: a window is long, and a turn adds little to it.
        size = cached.size + _message_bytes(came) - _message_bytes(dropped)
        extended = _CachedWindow(cached.identity, base, new.head, entries[-MAX_WINDOW_MESSAGES:], size)
        self._put(key, extended)
        return extended

    def _put(self, key: Key, cached: _CachedWindow) -> None:
        if cached.size > MAX_WINDOW_BYTES:
            self._drop(key)
            return
        with self._lock:
            self._windows[key] = cached

    def _drop(self, key: Key) -> None:
        with self._lock:
            self._windows.pop(key, None)


def _covers_read(cached: _CachedWindow, after: int, limit: int | None) -> bool:
    """Whether the cached entries are all that a read would give."""
    return cached.base <= after or (limit is not None and len(cached.entries) >= limit)


def _reaches_back_to(cached: _CachedWindow, before: int) -> bool:
    """Whether a window up to there is one of the cached entries, or stands right before them."""
    return bool(cached.entries) and cached.entries.positions[0] <= before


def _window_base(head: Head, entries: EntryColumns, after: int, limit: int | None) -> int:
    """The position after which nothing is missing from a window."""
    if limit is None or len(entries) < limit:
        return after
    return entries.positions[0] - 1 if entries else head.position


def _message_bytes(entries: EntryColumns) -> int:
    return sum(map(approximate_length, entries.messages)) + MESSAGE_OVERHEAD_BYTES * len(entries)
