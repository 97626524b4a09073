"""`ComposeCache`: results of composing for the conversations that were used last.

A context is mostly the same as the one before it, plus a few messages. So sections and templates store their
results for a conversation here, together with what the results depend on, and continue from there the next
time. The cache is never the source of truth: a reader compares what a state was made from (the head of the
log, its own options) with the current values, and computes everything again if they differ.

There is one cache for each memory, by agent, scope and conversation, with one bound in bytes for all of it.
Every deletion empties all of them (`text_cache.py`): forks, and other memories on the same store, may
have what was deleted.
"""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Sequence
from itertools import count
from typing import Any, Generic, TypeVar
from weakref import WeakSet

from autonomy_ctx.memory.encoding import approximate_length
from autonomy_ctx.memory.store import Key
from autonomy_ctx.messages.message import Message
from autonomy_ctx.messages.text_cache import forget_with_texts

MAX_BYTES = 64_000_000
# Of a store that is not in this process; so many windows are kept of it, too (`window_cache`).
STORED_CONVERSATIONS = 256
# So many conversations and owners are noted as composed once; then the notes begin anew. More in this
# process, where a state is worth keeping of more conversations.
COMPOSED_ONCE, COMPOSED_ONCE_RESIDENT = 1024, 32_768
# A state takes about so much by itself, and for each of its messages: references, a position, a count.
STATE_BYTES, REFERENCE_BYTES = 1_000, 40
# A message that nothing else keeps takes so much, besides its text.
MESSAGE_BYTES = 1_500

T = TypeVar("T")
_owners = count(1)


class _Conversation:
    """The states of one conversation by their owners, and their size in bytes."""

    __slots__ = ("size", "sizes", "states")

    def __init__(self) -> None:
        self.states: dict[int, Any] = {}
        self.sizes: dict[int, int] = {}
        self.size = 0


class ComposeCache:
    """States by conversation and owner; the conversation that was not used for longest goes first."""

    def __init__(self, *, resident: bool, max_bytes: int = MAX_BYTES) -> None:
        # Whether the store has its messages in this process: then a state only refers to them.
        self.resident = resident
        self._max_bytes = max_bytes
        self._least_bytes = 0 if resident else max_bytes // STORED_CONVERSATIONS
        self._conversations: OrderedDict[tuple[str, str, str], _Conversation] = OrderedDict()
        # Who has composed which conversations once; see `admits`.
        self._composed_once: set[int] = set()
        self._max_composed_once = COMPOSED_ONCE_RESIDENT if resident else COMPOSED_ONCE
        self._lock = threading.Lock()
        self.size = 0
        # Grows when something is forgotten: what was read before that may not be kept any more.
        self.epoch = 0
        _caches.add(self)

    def __len__(self) -> int:
        return len(self._conversations)

    def get(self, owner: int, key: tuple[str, str, str]) -> Any:
        """The state that an owner has stored for a conversation, or None."""
        found = self._conversations.get(key)
        if found is None:
            return None
        try:
            self._conversations.move_to_end(key)
        except KeyError:
            # Another thread has dropped it meanwhile: here is no lock, for speed.
            return None
        return found.states.get(owner)

    def admits(self, owner: int, key: tuple[str, str, str]) -> bool:
        """Whether a state is worth keeping: from the second time on.

        Where many conversations are composed once in a while, keeping would cost more than it saves. They
        are noted without the lock: each step is one of Python's own, and a note that is lost costs nothing.
        """
        # As a number, which takes a quarter of the memory. Two that share one only mean that a state is kept.
        once = hash((owner, key))
        if once in self._composed_once or key in self._conversations:
            return True
        if len(self._composed_once) >= self._max_composed_once:
            self._composed_once.clear()
        self._composed_once.add(once)
        return False

    def put(self, owner: int, key: Key, state: Any, size: int, epoch: int) -> None:
        """Keep what an owner worked out, in place of what it had; not if it is larger than all may be.

        `epoch` is that of the cache before anything was read for it.
        """
        with self._lock:
            if epoch != self.epoch:
                return
            kept = self._conversations.pop(key, None) or _Conversation()
            self.size -= self._weigh(kept) if kept.states else 0
            kept.size += size - kept.sizes.get(owner, 0)
            kept.states[owner], kept.sizes[owner] = state, size
            weight = self._weigh(kept)
            if weight > self._max_bytes:
                return
            self._conversations[key] = kept
            self.size += weight
            while self.size > self._max_bytes:
                _, oldest = self._conversations.popitem(last=False)
                self.size -= self._weigh(oldest)

    def forget(
        self, *, agent: str | None = None, scope: str | None = None, conversation: str | None = None
    ) -> None:
        """Drop all states of an agent, a scope, a conversation, or what is common to those given."""
        with self._lock:
            self.epoch += 1
            if agent is None and scope is None:
                # These are names, not what was said: they go with a deletion, which forgets all.
                self._composed_once.clear()
            names = (agent, scope, conversation)
            for key in list(self._conversations):
                if all(wanted in (None, name) for wanted, name in zip(names, key, strict=True)):
                    self.size -= self._weigh(self._conversations.pop(key))

    def _weigh(self, conversation: _Conversation) -> int:
        return max(conversation.size, self._least_bytes)


_caches: WeakSet[ComposeCache] = WeakSet()


def forget_states(*, scope: str | None = None, conversation: str | None = None) -> None:
    """Drop what is kept of a conversation, a scope or all, in every memory of this process."""
    for cache in list(_caches):
        cache.forget(scope=scope, conversation=conversation)


forget_with_texts(forget_states)


class ComposeStates(Generic[T]):
    """The states of one owner, in whatever memory it composes from."""

    def __init__(self) -> None:
        self._owner = next(_owners)

    def get(self, cache: ComposeCache, key: tuple[str, str, str]) -> T | None:
        """What was kept of a conversation, by its agent, scope and name."""
        found: T | None = cache.get(self._owner, key)
        return found

    def admits(self, cache: ComposeCache, key: tuple[str, str, str]) -> bool:
        """Whether a state is worth making: from the second time on that a conversation is composed."""
        return cache.admits(self._owner, key)

    def put(
        self,
        cache: ComposeCache,
        key: Key,
        state: T,
        *,
        epoch: int,
        references: int,
        text_bytes: int = 0,
    ) -> None:
        """Keep a state that refers to so many messages; `text_bytes` are of those that nothing else has.

        `epoch` is that of the cache before anything was read for it.
        """
        size = STATE_BYTES + REFERENCE_BYTES * references + text_bytes
        cache.put(self._owner, key, state, size, epoch)


def measure_texts(messages: Sequence[Message]) -> int:
    """About how many bytes these messages take, if nothing else has them."""
    return MESSAGE_BYTES * len(messages) + sum(map(approximate_length, messages))
