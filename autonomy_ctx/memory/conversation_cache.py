"""A cache of data about the conversations that were used last, which can be cleared by scope.

Every cache of conversation data has this type, so that one rule deletes cached data when a user's data is
deleted.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, ItemsView, Iterator, MutableMapping, ValuesView
from itertools import count
from typing import Any, NamedTuple, TypeAlias, TypeVar, overload
from weakref import WeakKeyDictionary

from autonomy_ctx.memory.store import Key, Store


class StoreKey(NamedTuple):
    """A conversation in one of several stores, which may have conversations of the same name."""

    store: int
    key: Key


# A conversation, or something in it: what follows says what, such as the position of a message.
CacheKey: TypeAlias = Key | StoreKey | tuple[StoreKey, *tuple[int, ...]]
K = TypeVar("K", bound=CacheKey)
V = TypeVar("V")
T = TypeVar("T")

# Not by `id`: that of a store that is gone may come to mean another one.
_numbers: WeakKeyDictionary[Any, int] = WeakKeyDictionary()
_next = count(1)


def make_store_key(store: Store, key: Key) -> StoreKey:
    """The key of a conversation in a store; two memories on one store have the same."""
    number = _numbers.get(store)
    if number is None:
        number = _numbers.setdefault(store, next(_next))
    # What `StoreKey(...)` comes to, in half the time.
    return tuple.__new__(StoreKey, (number, key))


class ConversationCache(MutableMapping[K, V]):
    """A bounded cache by conversation; what was not used for longest goes first.

    The bound is a number of entries, or of what `getsizeof` says that they weigh. An entry that alone weighs
    more is refused. Composing asks several of these: `get` is all it needs, and takes a quarter of what a
    cache of `cachetools` takes for it.
    """

    def __init__(self, maxsize: int, getsizeof: Callable[[V], int] | None = None) -> None:
        self.maxsize = maxsize
        self.currsize = 0
        self._getsizeof = getsizeof
        self._entries: OrderedDict[K, V] = OrderedDict()

    @overload
    def get(self, key: K, default: None = None, /) -> V | None: ...

    @overload
    def get(self, key: K, default: T, /) -> V | T: ...

    def get(self, key: K, default: T | None = None, /) -> V | T | None:
        """An entry, which is then the one that was used last."""
        try:
            self._entries.move_to_end(key)
            return self._entries[key]
        except KeyError:
            return default

    def __getitem__(self, key: K) -> V:
        self._entries.move_to_end(key)
        return self._entries[key]

    def __setitem__(self, key: K, value: V) -> None:
        size = self._weigh(value)
        if size > self.maxsize:
            raise ValueError("value too large")
        if key in self._entries:
            del self[key]
        while self.currsize + size > self.maxsize:
            _, oldest = self._entries.popitem(last=False)
            self.currsize -= self._weigh(oldest)
        self._entries[key] = value
        self.currsize += size

    def __delitem__(self, key: K) -> None:
        self.currsize -= self._weigh(self._entries.pop(key))

    def __contains__(self, key: object) -> bool:
        return key in self._entries

    def __iter__(self) -> Iterator[K]:
        return iter(self._entries)

    def __len__(self) -> int:
        return len(self._entries)

    @overload
    def pop(self, key: K, /) -> V: ...

    @overload
    def pop(self, key: K, default: T, /) -> V | T: ...

    def pop(self, key: K, /, *default: T) -> V | T:
        """Take an entry out; the default, or `KeyError`, when there is none."""
        if default and key not in self._entries:
            return default[0]
        value = self._entries.pop(key)
        self.currsize -= self._weigh(value)
        return value

    # Going through all of it is no use of each.
    def items(self) -> ItemsView[K, V]:
        return self._entries.items()

    def values(self) -> ValuesView[V]:
        return self._entries.values()

    def __repr__(self) -> str:
        return f"{type(self).__name__}({dict(self._entries)!r}, maxsize={self.maxsize})"

    def _weigh(self, value: V) -> int:
        return 1 if self._getsizeof is None else self._getsizeof(value)

    def forget(
        self, *, agent: str | None = None, scope: str | None = None, conversation: str | None = None
    ) -> None:
        """Drop all entries of an agent, a scope, a conversation, or what is common to those given."""
        for entry in list(self):
            key = _conversation(entry)
            if (
                agent in (None, key.agent)
                and scope in (None, key.scope)
                and conversation in (None, key.conversation)
            ):
                self.pop(entry, None)


def _conversation(entry: CacheKey) -> Key:
    if isinstance(entry, Key):
        return entry
    return entry.key if isinstance(entry, StoreKey) else entry[0].key
