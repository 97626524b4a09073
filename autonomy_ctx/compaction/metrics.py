"""Counters of summaries.

`SummaryMetrics` has plain numbers for any monitoring system. `PrefixReuse` measures how much of each context
is the same as the beginning of the context before it.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from itertools import chain
from typing import Any, NamedTuple, TypeAlias

from autonomy_ctx.memory.conversation_cache import ConversationCache, StoreKey
from autonomy_ctx.messages.message import Message
from autonomy_ctx.messages.summary import Summary
from autonomy_ctx.messages.tokens import TokenCounter

COUNTERS = (
    "cache_hits",
    "cache_misses",
    "summary_reads",
    "background_tasks_started",
    "background_tasks_completed",
    "background_tasks_failed",
    "summaries_committed",
    "summaries_merged",
    "summaries_timed_out",
    "summaries_refused",
    "summaries_repaired",
    "summaries_doubtful",
    "summaries_discarded",
    "summaries_shared",
    "summaries_not_shared",
    "swaps",
    "swaps_put_off",
    "digests_served",
    "digests_committed",
    "omissions_served",
    "hooks_failed",
    "summarizer_calls",
    "summarizer_input_tokens",
    "summarizer_output_tokens",
    "context_tokens",
    "context_tokens_shared",
)


class SummaryMetrics:
    """Counters since the section was made."""

    def __init__(self) -> None:
        self._counts: Counter[str] = Counter(dict.fromkeys(COUNTERS, 0))
        self._refused: Counter[str] = Counter()
        # Since a summary was stored.
        self.refused_in_row = 0
        self.lag_messages = 0
        self.lag_seconds = 0.0
        self.summary_seconds = 0.0

    def add(self, name: str, number: int = 1) -> None:
        """Count something."""
        self._counts[name] += number

    def count_refusal(self, reason: str) -> None:
        """Count a rejected answer of the model, by the reason."""
        self.refused_in_row += 1
        self._counts["summaries_refused"] += 1
        self._refused[reason] += 1

    def note_duration(self, seconds: float) -> None:
        """Note how long a summary took; newer durations count more."""
        known = self.summary_seconds
        self.summary_seconds = seconds if not known else 0.7 * known + 0.3 * seconds

    def dump(self) -> dict[str, Any]:
        """All numbers, as a dict that belongs to the caller."""
        sent, shared = self._counts["context_tokens"], self._counts["context_tokens_shared"]
        return {
            **self._counts,
            "refused_by_reason": dict(self._refused),
            "coverage_lag_messages": self.lag_messages,
            "coverage_lag_seconds": self.lag_seconds,
            "summary_seconds": self.summary_seconds,
            "prefix_reuse": shared / sent if sent else 0.0,
        }


# A hashable part of a message, and its tokens.
_Piece: TypeAlias = tuple[str, int]


class _SentContext(NamedTuple):
    """What was sent last, each message also as parts with their tokens."""

    messages: Sequence[Message]
    pieces: list[list[_Piece]]
    tokens: int


_NOTHING_SENT = _SentContext((), [], 0)


class PrefixReuse:
    """Measures the prefix that each context shares with the one before it: a provider can cache it."""

    def __init__(self, metrics: SummaryMetrics, conversations: int = 512) -> None:
        self._metrics = metrics
        self._sent: ConversationCache[StoreKey, _SentContext] = ConversationCache(conversations)
        # A summary is sent many times and its id stands for its text: its parts are counted once.
        self._parts: ConversationCache[StoreKey, tuple[str, list[_Piece]]] = ConversationCache(conversations)

    def note(self, store_key: StoreKey, messages: Sequence[Message], counter: TokenCounter) -> None:
        """Compare what is sent for a conversation now with what was sent before."""
        known = self._sent.get(store_key, _NOTHING_SENT)
        # A tuple that is the same has the same messages.
        if messages is known.messages and type(messages) is tuple:
            self._metrics.add("context_tokens", known.tokens)
            self._metrics.add("context_tokens_shared", known.tokens)
            return
        # The beginning is mostly made of the very same messages.
        same = 0
        for message, before in zip(messages, known.messages, strict=False):
            if message is not before:
                break
            same += 1
        pieces = known.pieces[:same]
        pieces += [self._pieces(store_key, message, counter) for message in messages[same:]]
        tokens = sum(tokens for parts in pieces for _, tokens in parts)
        self._sent[store_key] = _SentContext(messages, pieces, tokens)
        self._metrics.add("context_tokens", tokens)
        self._metrics.add("context_tokens_shared", _shared_tokens(pieces, known.pieces))

    def clear(self, scope: str | None, conversation: str | None) -> None:
        """Forget the contexts of a conversation, a scope or all; they contain the text of summaries."""
        self._sent.forget(scope=scope, conversation=conversation)
        self._parts.forget(scope=scope, conversation=conversation)

    def _pieces(self, store_key: StoreKey, message: Message, counter: TokenCounter) -> list[_Piece]:
        """A message as hashable parts; a summary has one for each of its own parts."""
        if not isinstance(message, Summary):
            tokens = counter.count_uncalibrated(message)
            return [(f"{message.id} {tokens}", tokens)]
        known, parts = self._parts.get(store_key, ("", []))
        if known != message.id:
            # Most of its parts were in the summary before.
            counts = dict(parts)
            parts = [(text, counts.get(text) or counter.count_text(text)) for text in message.texts]
            self._parts[store_key] = (message.id, parts)
        return parts


def _shared_tokens(pieces: Sequence[Sequence[_Piece]], before: Sequence[Sequence[_Piece]]) -> int:
    """The tokens of the parts that stand at the beginning of both."""
    shared = 0
    for piece, other in zip(chain.from_iterable(pieces), chain.from_iterable(before), strict=False):
        if piece != other:
            break
        shared += piece[1]
    return shared
