"""A cache of data about the conversations that were used last, which can be cleared by scope.

Every cache of conversation data has this type, so that one rule deletes cached data when a user's data is
deleted.
"""

from __future__ import annotations

from itertools import count
from typing import Any, NamedTuple, TypeAlias, TypeVar
from weakref import WeakKeyDictionary

from cachetools import LRUCache

from autonomy_ctx.memory.store import Key, Store


class StoreKey(NamedTuple):
    """A conversation in one of several stores, which may have conversations of the same name."""

    store: int
    key: Key


# A conversation, or something in it: what follows says what, such as the position of a message.
CacheKey: TypeAlias = Key | StoreKey | tuple[StoreKey, *tuple[int, ...]]
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

    The bound is a number of entries, or of what `getsizeof` says that they weigh.
    """

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
