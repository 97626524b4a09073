"""Caches of the conversations that were used last: their newest messages, and anything else by conversation.

Every cache of conversation data is a `ConversationCache`, so that one rule deletes cached data when a user's
data is deleted. `WindowCache` keeps the newest messages of conversations, and uses them only if they are
known to be current.
"""

from __future__ import annotations

import threading
from bisect import bisect_right
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import count
from typing import Any, NamedTuple, TypeAlias, TypeVar
from weakref import WeakKeyDictionary, WeakValueDictionary

from cachetools import LRUCache

from autonomy_ctx.memory.encoding import approximate_length
from autonomy_ctx.memory.sql.store import Store
from autonomy_ctx.memory.store import Draft, Entry, Head, Key, TurnToken, Window


class StoreKey(NamedTuple):
    """A conversation in one of several stores, which may have conversations of the same name."""

    store: int
    key: Key


CacheKey: TypeAlias = Key | StoreKey
K = TypeVar("K", bound=CacheKey)
V = TypeVar("V")

# Not by `id`: that of a store that is gone may come to mean another one.
_numbers: WeakKeyDictionary[Any, int] = WeakKeyDictionary()
_next = count(1)


def make_store_key(store: Store, key: Key) -> StoreKey:
    """The key of a conversation in a store; two memories on one store have the same."""
    number = _numbers.get(store)
    if number is None:
        number = _numbers.setdefault(store, next(_next))
    return StoreKey(number, key)


class ConversationCache(LRUCache[K, V]):
    """A bounded cache by conversation; what was not used for longest goes first.

    The bound is a number of entries, or of what `getsizeof` says that they weigh. With `holds_texts`, the
    entries of a scope are dropped when something in it is deleted.
    """

    def __init__(
        self, maxsize: int, getsizeof: Callable[[V], float] | None = None, *, holds_texts: bool = False
    ) -> None:
        super().__init__(maxsize, getsizeof)
        if holds_texts:
            _text_caches[id(self)] = self

    def forget(
        self, *, agent: str | None = None, scope: str | None = None, conversation: str | None = None
    ) -> None:
        """Drop all entries of an agent, a scope, a conversation, or what is common to those given."""
        for entry in list(self):
            key = entry.key if isinstance(entry, StoreKey) else entry
            if (
                agent in (None, key.agent)
                and scope in (None, key.scope)
                and conversation in (None, key.conversation)
            ):
                self.pop(entry, None)


_text_caches: WeakValueDictionary[int, ConversationCache[Any, Any]] = WeakValueDictionary()


def forget_deleted(store: Store, scope: str) -> None:
    """Drop cached texts of a scope: forks may show what was deleted in another conversation of it."""
    number = _numbers.get(store)
    for cache in list(_text_caches.values()):
        for entry in [one for one in cache if (one.store, one.key.scope) == (number, scope)]:
            cache.pop(entry, None)


# A message in memory is about so many bytes, besides its text.
MESSAGE_OVERHEAD_BYTES = 1_500
MAX_WINDOW_MESSAGES = 2048
# Of one window, and of all of them: in bytes, more or less.
MAX_WINDOW_BYTES = 3_500_000
MAX_CACHE_BYTES = 48_000_000
CACHED_CONVERSATIONS = 256
# So many more messages than the longest read are kept when a window is shortened.
SPARE_MESSAGES = 16


@dataclass(slots=True)
class _CachedWindow:
    """All entries after `base`, as of `head`, of the log with that identity, and their size in bytes."""

    identity: object
    base: int
    head: Head
    entries: list[Entry]
    size: int
    # The most entries that one read has asked for.
    longest_read: int = 0
    # The turn that has just written its end, and may read it once as it is.
    written_by: TurnToken | None = None

    def covers(self, after: int, limit: int | None) -> bool:
        """Tell whether it has all that a read would give."""
        return self.base <= after or (limit is not None and len(self.entries) >= limit)

    def select(self, after: int, limit: int | None) -> list[Entry]:
        """The newest `limit` entries after a position."""
        first = 0 if limit is None else max(len(self.entries) - limit, 0)
        found = self.entries[bisect_right(self.entries, after, lo=first, key=_position) :]
        self.longest_read = max(self.longest_read, len(found))
        return found

    def extend(self, new: Window) -> _CachedWindow:
        """The window with newer messages; older ones go when no read has asked for half as many."""
        entries = [*self.entries, *new.entries]
        most, asked = MAX_WINDOW_MESSAGES, self.longest_read + SPARE_MESSAGES
        if len(entries) > 2 * asked:
            most = min(most, asked)
        dropped = entries[:-most]
        return _CachedWindow(
            identity=self.identity,
            base=dropped[-1].position if dropped else self.base,
            head=new.head,
            entries=entries[-most:],
            # Only what came and went is measured: a window is long, and a turn adds little to it.
            size=self.size + _entry_bytes(new.entries) - _entry_bytes(dropped),
            longest_read=self.longest_read,
        )


class WindowCache:
    """The windows of a store that were read last; bounded in number and in length.

    Every read first reads the messages after the cached window, together with the conversation's head: one
    indexed row if there is nothing new. After a deletion the window is read again. Only a turn that has just
    appended reads nothing: the head that its append returned tells that nobody else has written before.
    """

    def __init__(self, store: Store, conversations: int = CACHED_CONVERSATIONS) -> None:
        self._store = store
        least = MAX_CACHE_BYTES // conversations
        self._windows: ConversationCache[Key, _CachedWindow] = ConversationCache(
            MAX_CACHE_BYTES, getsizeof=lambda cached: max(cached.size, least)
        )
        # The cache is not made for threads; memory may be used from several.
        self._lock = threading.Lock()
        self.hits = 0
        self.misses = 0

    async def read(
        self,
        key: Key,
        *,
        after: int = 0,
        before: int | None = None,
        limit: int | None = None,
        turn: TurnToken | None = None,
    ) -> Window:
        """The newest `limit` entries between two positions, as `Store.read` gives them."""
        if before is not None or (limit is not None and limit > MAX_WINDOW_MESSAGES):
            return await self._store.read(key, after=after, before=before, limit=limit)
        cached = await self._refresh(key, turn)
        if cached is not None and cached.covers(after, limit):
            self.hits += 1
        else:
            self.misses += 1
            window = await self._store.read(key, after=after, limit=limit)
            entries, base = list(window.entries), after
            if limit is not None and len(entries) >= limit:
                base = entries[0].position - 1 if entries else window.head.position
            size = _entry_bytes(entries)
            cached = _CachedWindow(self._store.identity, base, window.head, entries, size)
            self._put(key, cached)
        return Window(cached.head, cached.select(after, limit))

    def forget(self, agent: str | None, scope: str, conversation: str | None) -> None:
        """Drop the cached windows of a scope, or of one conversation in it."""
        with self._lock:
            self._windows.forget(agent=agent, scope=scope, conversation=conversation)

    def note_writing(self, key: Key) -> None:
        """The end of a log is about to be written, by a turn or by somebody else of this process."""
        with self._lock:
            if (cached := self._windows.get(key)) is not None:
                cached.written_by = None

    def note_appended(
        self, turn: TurnToken, head: Head, positions: Sequence[int], drafts: Sequence[Draft]
    ) -> None:
        """Extend the window by what a turn has appended, if these are all the messages since it was read."""
        with self._lock:
            cached = self._windows.get(turn.key)
        if cached is None or cached.identity != self._store.identity:
            return
        is_next = list(positions) == list(range(cached.head.position + 1, head.position + 1))
        if is_next and cached.head.generation == head.generation:
            grown = cached.extend(Window(head, list(map(Entry, positions, (one.message for one in drafts)))))
            grown.written_by = turn
            self._put(turn.key, grown)

    async def _refresh(self, key: Key, turn: TurnToken | None) -> _CachedWindow | None:
        """The cached window as of now, or None if there is none or messages of it were deleted."""
        with self._lock:
            cached = self._windows.get(key)
        if cached is None:
            return None
        if turn is not None and cached.written_by == turn:
            cached.written_by = None
            return cached
        # One round trip, whether there is something new or not.
        new = await self._store.read(key, after=cached.head.position, limit=MAX_WINDOW_MESSAGES)
        if cached.identity != self._store.identity:
            return None
        if new.head == cached.head:
            return cached
        grown = new.head.position - cached.head.position
        if new.head.generation != cached.head.generation or not 0 <= grown <= MAX_WINDOW_MESSAGES:
            return None
        cached = cached.extend(new)
        self._put(key, cached)
        return cached

    def _put(self, key: Key, cached: _CachedWindow) -> None:
        fits = cached.size <= MAX_WINDOW_BYTES and len(cached.entries) <= MAX_WINDOW_MESSAGES
        with self._lock:
            if fits:
                self._windows[key] = cached
            else:
                self._windows.pop(key, None)


def _position(entry: Entry) -> int:
    return entry.position


def _entry_bytes(entries: Sequence[Entry]) -> int:
    return sum(MESSAGE_OVERHEAD_BYTES + approximate_length(entry.message) for entry in entries)
