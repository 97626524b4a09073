"""`TermIndex`: the words of some messages in this process, for ranking with weights.

The full-text index of a store gives all words the same weight and runs in another thread. Recall needs
weights, neighbours and days, in every turn. `TermIndexes` keeps the indexes of the conversations that were
used last; a recall only adds the messages that are new.
"""

from __future__ import annotations

import math
import threading
import time
from bisect import bisect_left
from collections import Counter
from collections.abc import Callable, Container, Iterable, Mapping, Sequence
from datetime import date
from typing import TYPE_CHECKING, NamedTuple

import anyio.to_thread

from autonomy_ctx.memory.cache import ConversationCache, StoreKey, make_store_key
from autonomy_ctx.memory.encoding import approximate_length
from autonomy_ctx.memory.message_keys import KeyIndex, KeyIndexes
from autonomy_ctx.memory.ranking import BM25_B, BM25_K1
from autonomy_ctx.memory.sql.store import Store
from autonomy_ctx.memory.store import Head, IndexedMessage, Key
from autonomy_ctx.messages.message import ChatRole, Message
from autonomy_ctx.messages.transcript import name_before

if TYPE_CHECKING:
    from autonomy_ctx.memory.recall_block import Lines
    from autonomy_ctx.memory.search_terms import IndexTerms

# A message with its terms is about so many bytes, besides its text.
MESSAGE_OVERHEAD_BYTES = 2_500
# A conversation with more is searched in its store.
MAX_INDEXED_MESSAGES = 8_192
MAX_INDEX_BYTES, MAX_CACHE_BYTES = 40_000_000, 80_000_000
# An index that was not used for so long makes room for another.
IDLE_SECONDS = 300.0
MESSAGES_PER_READ = 512
# More new messages than this are taken in by a thread.
MAX_INLINE_MESSAGES = 64
# The shortest prefix by which a joined word is found: a mark and four letters.
MIN_PREFIX_LENGTH = 5
# What a word counts for that a fact made from a message has and the message has not; of a summary of several
# messages less, by the root of their number.
KEY_SHARE = 0.5
# Names count where so many of the messages have one.
MIN_NAMED_PART = 0.5
_QUESTION_MARKS = ("?", "\uff1f", "\u061f")


class TermIndex:
    """Messages, the stems in them, and which of them ask something."""

    def __init__(self, messages: Iterable[IndexedMessage] = (), *, find_rules: bool = True) -> None:
        self._find_rules = find_rules
        self.messages: list[IndexedMessage] = []
        self.numbers: dict[tuple[str, int], int] = {}
        self.days: list[date] = []
        # Which messages are of the assistant, and which do little else than ask; the positions of these.
        self.answers: list[bool] = []
        self.asks: list[bool] = []
        self.questions: dict[str, set[int]] = {}
        # Who said each message, by name, and how many messages each has said; "" where nobody is named.
        self.speakers: list[str] = []
        self._messages_by_speaker: Counter[str] = Counter()
        self._named_texts = 0
        # Messages in which a user states a rule or a preference.
        self.rules: list[int] = []
        self.tool_names: dict[str, str] = {}
        # Of messages that were recalled: their lines.
        self.lines: Lines = {}
        self.size = 0
        # Of the newest message and of the longest.
        self.newest_day: date | None = None
        self.max_length = 0
        # For each stem the messages that have it, and how often where that is more than once.
        self._postings: dict[str, list[int]] = {}
        self._repeats: dict[str, dict[int, int]] = {}
        self._joined_words: dict[str, set[str]] = {}
        self._lengths: list[int] = []
        # The terms of all messages of a role, and how many messages these are.
        self._terms_by_role: Counter[ChatRole] = Counter()
        self._messages_by_role: Counter[ChatRole] = Counter()
        self._norms: list[float] = []
        # Facts and summaries, of which some were made from the messages.
        self.keys = KeyIndex()
        # Memory may be used from several threads.
        self._lock = threading.Lock()
        self.add(messages)

    def add(self, messages: Iterable[IndexedMessage]) -> None:
        """Take in messages; those of one conversation in order."""
        # Imported here: a memory that nobody recalls from needs no words.
        from autonomy_ctx.language.facts import states_rule
        from autonomy_ctx.memory.search_terms import index_terms
        from autonomy_ctx.memory.search_text import searchable_text

        for one in messages:
            text = searchable_text(one.message)
            terms = index_terms(text)
            counts = Counter(terms.words)
            is_user = one.message.role is ChatRole.USER
            has_rule = self._find_rules and is_user and states_rule(text)
            with self._lock:
                self._add_message(one, terms, counts, is_question(text))
                if has_rule:
                    self.rules.append(self.numbers[one.conversation, one.position])

    def add_shown(self, messages: Iterable[IndexedMessage]) -> None:
        """Take in messages that are only shown: they are ranked already, so their words are not read."""
        from autonomy_ctx.memory.search_terms import IndexTerms

        for one in messages:
            with self._lock:
                self._add_message(one, IndexTerms([], []), Counter(), False)

    def _add_message(self, one: IndexedMessage, terms: IndexTerms, counts: Counter[str], asks: bool) -> None:
        number, message = len(self.messages), one.message
        day, length = message.created_at.date(), approximate_length(message)
        self.messages.append(one)
        self.numbers[one.conversation, one.position] = number
        self.days.append(day)
        self.newest_day = max(day, self.newest_day or day)
        self.answers.append(message.role is ChatRole.ASSISTANT)
        self.speakers.append(speaker := speaker_name(message))
        self._messages_by_speaker[speaker] += 1
        self._named_texts += bool(speaker) and not (message.name or message.agent)
        self.asks.append(asks)
        if asks:
            self.questions.setdefault(one.conversation, set()).add(one.position)
        self.tool_names.update((call.id, call.name) for call in message.tool_calls if call.id)
        self.max_length = max(length, self.max_length)
        self.size += length + MESSAGE_OVERHEAD_BYTES
        self._lengths.append(counts.total())
        self._terms_by_role[message.role] += counts.total()
        self._messages_by_role[message.role] += 1
        for stem, count in counts.items():
            self._postings.setdefault(stem, []).append(number)
            if count > 1:
                self._repeats.setdefault(stem, {})[number] = count
        # Other forms of its words do not make a message longer.
        for form in terms.forms:
            self._postings.setdefault(form, []).append(number)
        for form in terms.joined_words:
            self._joined_words.setdefault(form[:MIN_PREFIX_LENGTH], set()).add(form)

    def forms_with(self, prefix: str) -> list[str]:
        """The joined words of the messages that begin so."""
        return [
            form for form in self._joined_words.get(prefix[:MIN_PREFIX_LENGTH], ()) if form.startswith(prefix)
        ]

    @property
    def names_before_texts(self) -> bool:
        """True if most texts begin with the name of who said them."""
        return self._named_texts >= MIN_NAMED_PART * len(self.messages)

    def speakers_named(self, stems: Container[str]) -> dict[str, frozenset[str]]:
        """The speakers whose names have one of these stems, with all stems of the names.

        None where most messages name nobody, and where all speakers are named: that tells nothing.
        """
        # Imported here: a memory that nobody recalls from needs no words.
        from autonomy_ctx.memory.search_terms import search_terms

        if self._messages_by_speaker[""] > (1 - MIN_NAMED_PART) * len(self.messages):
            return {}
        names = {name: frozenset(search_terms(name)) for name in self._messages_by_speaker if name}
        named = {name: own for name, own in names.items() if any(stem in stems for stem in own)}
        return named if len(named) < len(names) else {}

    def words_of(self, number: int, weights: Mapping[str, float]) -> tuple[str, ...]:
        """The stems among these that a message has, as they are looked for."""
        return tuple(stem for stem in weights if self._has(number, stem))

    def score(self, weights: Mapping[str, float]) -> dict[int, float]:
        """Score the messages that have one of the stems by BM25, each stem with its weight."""
        with self._lock:
            return self._score(weights)

    def score_keys(self, weights: Mapping[str, float]) -> dict[int, float]:
        """Score messages by the stems that they have not, but a fact or a summary that was made from them."""
        with self._lock:
            norms = self._current_norms()
            scores: dict[int, float] = {}
            for stem, weight in weights.items():
                shares = self._key_shares(stem)
                worth = self._stem_worth(stem, weight) if shares else 0.0
                for number, share in shares.items():
                    scores[number] = scores.get(number, 0.0) + worth * share / (1 + norms[number])
            return scores

    def key_words_of(self, number: int, weights: Mapping[str, float]) -> tuple[str, ...]:
        """The stems among these that `score_keys` counts for a message."""
        with self._lock:
            return tuple(stem for stem in weights if number in self._key_shares(stem))

    def _key_shares(self, stem: str) -> dict[int, float]:
        """The share of a stem in each message that has it only in its keys."""
        facts, summaries = self.keys.having(stem)
        if not facts and not summaries:
            return {}
        own, numbers = set(self._postings.get(stem, ())), self.numbers
        shares: dict[int, float] = {}
        for key in summaries:
            share = KEY_SHARE * key.share
            for position in range(key.first, key.last + 1):
                number = numbers.get((key.conversation, position))
                if number is not None and number not in own:
                    shares[number] = max(share, shares.get(number, 0.0))
        for conversation, position, _, _ in facts:
            number = numbers.get((conversation, position))
            if number is not None and number not in own:
                shares[number] = KEY_SHARE
        return shares

    def _has(self, number: int, stem: str) -> bool:
        having = self._postings.get(stem, ())
        at = bisect_left(having, number)
        return at < len(having) and having[at] == number

    def _stem_worth(self, stem: str, weight: float) -> float:
        """The part of BM25 that depends on how rare a stem is."""
        count, having = len(self.messages), len(self._postings.get(stem, ()))
        return weight * (BM25_K1 + 1) * math.log(1 + (count - having + 0.5) / (having + 0.5))

    @property
    def assistant_share(self) -> float:
        """The worth of a message of the assistant beside one of the user, at most 1.

        What people ask for is mostly what they have said. Answers that are many times as long have most
        words of every question, and take the room of as many messages.
        """
        mean = {role: self._terms_by_role[role] / count for role, count in self._messages_by_role.items()}
        said, answered = mean.get(ChatRole.USER, 0.0), mean.get(ChatRole.ASSISTANT, 0.0)
        return min(said / answered, 1.0) if said and answered else 1.0

    def _score(self, weights: Mapping[str, float]) -> dict[int, float]:
        norms = self._current_norms()
        scores: dict[int, float] = {}
        for stem, weight in weights.items():
            having = self._postings.get(stem)
            if having is None:
                continue
            worth = self._stem_worth(stem, weight)
            for number in having:
                scores[number] = scores.get(number, 0.0) + worth / (1 + norms[number])
            for number, often in self._repeats.get(stem, {}).items():
                scores[number] += worth * (often / (often + norms[number]) - 1 / (1 + norms[number]))
        return scores

    def _current_norms(self) -> list[float]:
        """The part of BM25 that depends on the length of each message."""
        if len(self._norms) < len(self._lengths):
            usual = sum(self._lengths) / len(self._lengths) or 1.0
            self._norms = [BM25_K1 * (1 - BM25_B + BM25_B * length / usual) for length in self._lengths]
        return self._norms


def speaker_name(message: Message) -> str:
    """The name of who said a message, from its fields or before its text; "" if there is none."""
    if message.role is ChatRole.TOOL:
        return ""
    return message.name or message.agent or name_before(message.text)


def is_question(text: str) -> bool:
    """True for a text that does little else than ask."""
    text = text.rstrip()
    if not text.endswith(_QUESTION_MARKS):
        return False
    start = max(text.rfind(mark) for mark in (". ", "! ", ": ", "\n"))
    return 2 * (start + 1) <= len(text)


class _CachedIndex(NamedTuple):
    """The index of a conversation as of a head, in the log with that identity."""

    identity: object
    head: Head
    terms: TermIndex


class TermIndexes:
    """The indexes of the conversations that were recalled from last, each up to date when it is given."""

    def __init__(
        self, max_bytes: int = MAX_CACHE_BYTES, *, clock: Callable[[], float] = time.monotonic
    ) -> None:
        self._clock = clock
        self._used_at: dict[StoreKey, float] = {}
        self._indexes: ConversationCache[StoreKey, _CachedIndex] = ConversationCache(
            max_bytes, getsizeof=lambda cached: cached.terms.size
        )
        self.keys = KeyIndexes()
        # The cache is not made for threads; memory may be used from several.
        self._lock = threading.Lock()

    async def get(self, store: Store, key: Key) -> TermIndex | None:
        """The index of a conversation with everything that was said; None where the store should be asked.

        That is for a conversation that is too large, and for one without an index while others, which are
        in use, have all the room: to make an index takes far longer than to ask the store.
        """
        store_key = make_store_key(store, key)
        with self._lock:
            cached = self._indexes.get(store_key)
        if cached is None and not self._has_room(await store.head(key)):
            return None
        after = 0 if cached is None else cached.head.position
        window = await store.read(key, after=after, before=after + MESSAGES_PER_READ + 1)
        if cached is not None and (
            cached.identity != store.identity or cached.head.generation != window.head.generation
        ):
            cached, after = None, 0
            window = await store.read(key, after=0, before=MESSAGES_PER_READ + 1)
        if window.head.count > MAX_INDEXED_MESSAGES:
            return None
        keys = await self.keys.of_conversation(store, key, window.head)
        if cached is not None and window.head.position == cached.head.position:
            cached.terms.keys = keys
            self._used_at[store_key] = self._clock()
            return cached.terms
        entries = list(window.entries)
        while (after := after + MESSAGES_PER_READ) < window.head.position:
            more = await store.read(key, after=after, before=after + MESSAGES_PER_READ + 1)
            if more.head.generation != window.head.generation:
                # Something was deleted meanwhile: this once, ask the store.
                return None
            entries += [entry for entry in more.entries if entry.position <= window.head.position]
        new = [IndexedMessage(key.conversation, *entry) for entry in entries]
        if cached is not None and len(new) <= MAX_INLINE_MESSAGES:
            index = self._extend(cached.terms, new)
        else:
            known = [] if cached is None else cached.terms.messages[:]
            index = await anyio.to_thread.run_sync(TermIndex, [*known, *new])
        index.keys = keys
        with self._lock:
            self._indexes.pop(store_key, None)
            if index.size > MAX_INDEX_BYTES:
                return None
            self._indexes[store_key] = _CachedIndex(store.identity, window.head, index)
            self._used_at[store_key] = self._clock()
        return index

    def _has_room(self, head: Head) -> bool:
        """True when there is room for another index, or an unused index can be dropped."""
        with self._lock:
            self._used_at = {key: at for key, at in self._used_at.items() if key in self._indexes}
            if self._indexes.currsize + head.count * MESSAGE_OVERHEAD_BYTES <= self._indexes.maxsize:
                return True
            return min(self._used_at.values(), default=0.0) + IDLE_SECONDS <= self._clock()

    def _extend(self, index: TermIndex, new: Sequence[IndexedMessage]) -> TermIndex:
        """The index with what is new; another recall may have added some of it."""
        with self._lock:
            index.add(one for one in new if (one.conversation, one.position) not in index.numbers)
            return index

    def forget(self, *, agent: str | None, scope: str, conversation: str | None) -> None:
        """Drop the indexes of a scope, or of one conversation in it."""
        with self._lock:
            self._indexes.forget(agent=agent, scope=scope, conversation=conversation)
