"""`KeyIndex`: texts that were made from messages, by whose words these messages are found, too.

A model writes a fact or a summary in words that the messages often do not have. `KeyIndexes` keeps those of
the conversations and scopes that were recalled from last; a recall only reads what has changed.
"""

from __future__ import annotations

import math
import threading
from collections.abc import Collection, Container, Iterable, Iterator, Mapping
from itertools import islice
from typing import NamedTuple, TypeAlias

import anyio.to_thread

from autonomy_ctx.memory.cache import ConversationCache, StoreKey, make_store_key
from autonomy_ctx.memory.sql.store import Store
from autonomy_ctx.memory.store import Head, Key, SummaryState

# A word in summaries of more messages than this, taken together, says too little of each.
MAX_KEY_MESSAGES = 100
# A text with its stems is about so many bytes, besides its characters.
KEY_OVERHEAD_BYTES = 2_500
# More new texts than this are split in a thread.
MAX_INLINE_KEYS = 16
# The newest conversations of a scope that have keys; and the most bytes of the keys of one scope, and of all.
MAX_KEY_CONVERSATIONS, MAX_INDEX_BYTES, MAX_CACHE_BYTES = 256, 20_000_000, 40_000_000
# In place of a conversation, because no name has this character: all of a scope.
_ALL = "\0"
# The generation and the revision of a conversation: while they are the same, so are its keys.
Version: TypeAlias = tuple[int, int]


class MessageKey(NamedTuple):
    """A text, and the messages of a conversation that it was made from."""

    conversation: str
    first: int
    last: int
    text: str

    @property
    def share(self) -> float:
        """The worth of one of its words for each of its messages."""
        return 1 / math.sqrt(self.last - self.first + 1)


def summary_keys(conversation: str, state: SummaryState) -> Iterator[MessageKey]:
    """The current facts of a conversation, and the parts of its summary.

    A provisional summary only quotes, and what a user wrote as a fact was made from no message.
    """
    for fact in state.facts:
        if fact.state == "holds" and fact.source != "user":
            yield MessageKey(conversation, fact.position, fact.position, fact.text)
    for segment in state.segments:
        if not segment.provisional:
            yield MessageKey(conversation, segment.first, segment.last, segment.text)


class KeyIndex:
    """Keys of messages by their stems."""

    def __init__(self, identity: object = None) -> None:
        # That of the store that it was read from.
        self.identity = identity
        self.size = 0
        self.versions: dict[str, Version] = {}
        self._stems: dict[str, dict[MessageKey, frozenset[str]]] = {}
        # By stem: keys of one message, and of several.
        self._postings: tuple[dict[str, set[MessageKey]], dict[str, set[MessageKey]]] = ({}, {})
        # Memory may be used from several threads.
        self._lock = threading.Lock()

    async def update(self, conversation: str, version: Version, keys: Iterable[MessageKey]) -> None:
        """Have these keys of a conversation and no others; only new texts are split into stems."""
        current = set(keys)
        new = current - self._stems.get(conversation, {}).keys()
        if len(new) > MAX_INLINE_KEYS:
            split = await anyio.to_thread.run_sync(_split_keys, new)
        else:
            split = _split_keys(new)
        with self._lock:
            known = self._stems.setdefault(conversation, {})
            for gone in known.keys() - current:
                self._drop(gone, known.pop(gone))
            for key, stems in split.items():
                if key not in known:
                    known[key] = stems
                    self.size += len(key.text) + KEY_OVERHEAD_BYTES
                    postings = self._postings[key.first < key.last]
                    for stem in stems:
                        postings.setdefault(stem, set()).add(key)
            self.versions[conversation] = version

    def retain(self, conversations: Container[str]) -> None:
        """Drop the keys of all other conversations."""
        with self._lock:
            for name in [name for name in self.versions if name not in conversations]:
                del self.versions[name]
                for key, stems in self._stems.pop(name).items():
                    self._drop(key, stems)

    def _drop(self, key: MessageKey, stems: Iterable[str]) -> None:
        self.size -= len(key.text) + KEY_OVERHEAD_BYTES
        postings = self._postings[key.first < key.last]
        for stem in stems:
            having = postings[stem]
            having.discard(key)
            if not having:
                del postings[stem]

    def having(self, stem: str) -> tuple[Collection[MessageKey], Collection[MessageKey]]:
        """The facts with a stem, and the summaries if these are not of too many messages."""
        with self._lock:
            facts, summaries = (tuple(some.get(stem, ())) for some in self._postings)
        covered = sum(key.last - key.first + 1 for key in summaries)
        return facts, summaries if covered <= MAX_KEY_MESSAGES else ()

    def best_places(self, weights: Mapping[str, float], limit: int) -> list[tuple[str, int]]:
        """The messages whose keys have most of the stems, as conversations and positions."""
        count = sum(map(len, self._stems.values()))
        scores: dict[MessageKey, float] = {}
        for stem, weight in weights.items():
            keys = [key for some in self.having(stem) for key in some]
            worth = weight * math.log(1 + (count - len(keys) + 0.5) / (len(keys) + 0.5))
            for key in keys:
                scores[key] = scores.get(key, 0.0) + worth * key.share
        best = sorted(scores, key=lambda key: (-scores[key], key))
        places = ((key.conversation, at) for key in best for at in range(key.first, key.last + 1))
        return list(islice(dict.fromkeys(islice(places, 4 * limit)), limit))


def _split_keys(keys: Iterable[MessageKey]) -> dict[MessageKey, frozenset[str]]:
    # Imported here: a memory that nobody recalls from needs no words.
    from autonomy_ctx.memory.search_terms import index_terms

    split = {key: index_terms(key.text) for key in keys}
    return {key: frozenset((*terms.words, *terms.forms)) for key, terms in split.items()}


class KeyIndexes:
    """The keys of the conversations and scopes that were recalled from last, each up to date."""

    def __init__(self) -> None:
        self._indexes: ConversationCache[StoreKey, KeyIndex] = ConversationCache(
            MAX_CACHE_BYTES, getsizeof=lambda index: index.size, holds_texts=True
        )
        # The cache is not made for threads; memory may be used from several.
        self._lock = threading.Lock()

    async def of_scope(self, store: Store, agent: str, scope: str) -> KeyIndex:
        """The keys of the newest conversations of a scope with an agent."""
        versions = await store.list_revisions(agent, scope, limit=MAX_KEY_CONVERSATIONS)
        return await self._get(store, Key(agent, scope, _ALL), versions)

    async def of_conversation(self, store: Store, key: Key, head: Head) -> KeyIndex:
        """The keys of a conversation with this head."""
        versions = {key.conversation: (head.generation, head.revision)} if head.revision else {}
        return await self._get(store, key, versions)

    async def _get(self, store: Store, place: Key, versions: Mapping[str, Version]) -> KeyIndex:
        if not versions:
            return KeyIndex()
        store_key = make_store_key(store, place)
        with self._lock:
            index = self._indexes.get(store_key)
        if index is None or index.identity != store.identity:
            index = KeyIndex(store.identity)
        if index.versions == versions:
            return index
        index.retain(versions)
        for name, version in versions.items():
            if index.versions.get(name) == version:
                continue
            state = await store.summary(place._replace(conversation=name))
            # Where there is no more room, older conversations have no keys.
            has_room = index.size <= MAX_INDEX_BYTES
            await index.update(name, version, summary_keys(name, state) if has_room else ())
            with self._lock:
                # With its new size. What was read so far is kept if the rest takes too long.
                self._indexes.pop(store_key, None)
                if index.size <= self._indexes.maxsize:
                    self._indexes[store_key] = index
        return index
