"""`KeyIndex`: texts that were made from messages, by whose words these messages are found, too.

A model writes a fact or a summary in words that the messages often do not have.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator
from typing import NamedTuple

from autonomy_ctx.memory.store import SummaryState

# A word in summaries of more messages than this, taken together, says too little of each.
MAX_KEY_MESSAGES = 100
# A text with its stems is about so many bytes, besides its characters.
KEY_OVERHEAD_BYTES = 2_500


class MessageKey(NamedTuple):
    """A text, and the messages of a conversation that it was made from."""

    conversation: str
    first: int
    last: int
    text: str


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

    def __init__(self) -> None:
        self.size = 0
        self._stems: dict[MessageKey, frozenset[str]] = {}
        self._postings: dict[str, set[MessageKey]] = {}

    def count_new(self, keys: Iterable[MessageKey]) -> int:
        """The number of these keys that are not known yet."""
        return len(set(keys) - self._stems.keys())

    def update(self, keys: Iterable[MessageKey]) -> None:
        """Have these keys and no others; only new texts are split into stems."""
        # Imported here: a memory that nobody recalls from needs no words.
        from autonomy_ctx.memory.search_terms import index_terms

        current = set(keys)
        for gone in self._stems.keys() - current:
            for stem in self._stems.pop(gone):
                having = self._postings[stem]
                having.discard(gone)
                if not having:
                    del self._postings[stem]
        for key in current - self._stems.keys():
            terms = index_terms(key.text)
            self._stems[key] = stems = frozenset((*terms.words, *terms.forms))
            for stem in stems:
                self._postings.setdefault(stem, set()).add(key)
        self.size = sum(len(key.text) + KEY_OVERHEAD_BYTES for key in self._stems)

    def having(self, stem: str) -> Collection[MessageKey]:
        """The keys with a stem, without the summaries if these are of too many messages."""
        keys = self._postings.get(stem, ())
        covered = sum(key.last - key.first + 1 for key in keys if key.first < key.last)
        return [key for key in keys if key.first == key.last] if covered > MAX_KEY_MESSAGES else keys
