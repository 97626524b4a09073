"""`recall`: finds old messages that are relevant to a question.

It ranks messages by weighted words, adds their neighbours (answers rarely repeat the words of the question)
and shows what fits into a token limit, the best first.
"""

from __future__ import annotations

from collections.abc import Container, Iterable, Iterator, Mapping, Sequence
from functools import partial
from types import MappingProxyType
from typing import Any, NamedTuple, TypeAlias, TypeVar

import anyio.to_thread

from autonomy_ctx.memory.memory import Memory
from autonomy_ctx.memory.outline import position_ranges
from autonomy_ctx.memory.ranking import fuse_scores
from autonomy_ctx.memory.recall_block import Candidate, RecallResult, RecallWriter
from autonomy_ctx.memory.recall_query import Period, parse_query
from autonomy_ctx.memory.search_text import FOLDED_WEIGHT
from autonomy_ctx.memory.store import (
    IndexedMessage,
    IndexedMessageReader,
    SearchHit,
    make_key,
)
from autonomy_ctx.memory.term_index import TermIndex
from autonomy_ctx.messages.message import Message
from autonomy_ctx.messages.tokens import TokenCounter
from autonomy_ctx.validation import check_int

# A conversation and a position in it.
Place: TypeAlias = tuple[str, int]
HitT = TypeVar("HitT", SearchHit, IndexedMessage)
EMPTY: Mapping[Any, Any] = MappingProxyType({})
# How many of the messages that are near in meaning are looked at.
NEAREST = 200

# What a message inherits of the score of the one before it, or of the one after it, in each round. Who is
# asked something answers next, often in other words.
SCORE_FROM_PREVIOUS, SCORE_FROM_QUESTION, SCORE_FROM_NEXT, SCORE_ROUNDS = 0.5, 1.0, 0.1, 2
# A message that only asks has seldom what is looked for.
QUESTION_SHARE = 0.8
# What a day that the question names adds, as a part of the best score; and which part of all messages may
# be from such days, or they tell nothing.
PERIOD_SHARE, MAX_PERIOD_PART = 0.5, 0.5
# One message found for so many tokens of room passes its score on, if it has this part of the best score.
TOKENS_PER_SOURCE, MIN_SOURCES, MIN_SOURCE_SHARE = 120, 4, 0.4
# What the other messages that were found keep of their scores: they fill the room.
REST_SHARE = 0.7
# How far around a source is looked for more while there is room, and what it is worth there.
MAX_DISTANCE, DISTANT_SHARE = 40, 0.01
# What a line counts for, with its position and role, if it is short.
MIN_LINE_TOKENS = 16
# Where no index is in this process, so many messages are searched for each source, and for what is hidden.
HITS_PER_SOURCE, EXTRA_HITS, WIDEN_FACTOR, MAX_SEARCHES = 4, 8, 8, 3
# Messages this close are read together.
MAX_GAP = 4
# Characters that are copied in the loop at most; above that, in a worker thread.
MAX_INLINE_COPIES = 4_000_000


async def recall(
    memory: Memory,
    scope: str,
    query: str,
    *,
    conversation: str | None = None,
    max_tokens: int = 1024,
    exclude: Mapping[str, Container[int]] | None = None,
) -> RecallResult:
    """The messages of a scope, or of one conversation, that match the query best, with their neighbours.

    Weaker matches and their neighbours fill the rest of `max_tokens`. `exclude` maps a conversation to the
    positions that the reader already has; they are left out.
    """
    check_int("max_tokens", max_tokens)
    hidden = exclude or {}
    if not isinstance(hidden, Mapping) or not all(isinstance(some, Container) for some in hidden.values()):
        raise TypeError("exclude must map conversations to sets of positions, such as {'trip': {1, 2}}")
    index = None if conversation is None else await index_conversation(memory, scope, conversation)
    is_whole = index is not None
    shared_ends = await _shared_ends(memory, scope, hidden) if conversation is None else {}
    near: list[SearchHit] = []
    if memory.vector_index is not None:
        near = await memory.vector_index.nearest(memory.agent, scope, query, conversation, NEAREST)
    if index is None:
        index = await _index_hits(memory, scope, query, conversation, max_tokens, hidden, shared_ends, near)
    meaning = {(one.conversation, one.position): one.score for one in near}
    ranked = rank_messages(index, query, max_tokens, hidden, meaning=meaning)
    if not ranked.scores:
        return RecallResult()
    if not is_whole:
        missing = [*ranked.scores, *(place for place, _ in _distant_places(ranked, hidden))]
        read = await _read_messages(memory, scope, [at for at in missing if at not in index.numbers])
        new = await _drop_shown(memory, scope, read, shared_ends, hidden)
        index.add(one for one in new if one[:2] not in index.numbers)
    write = partial(
        render_ranked,
        index,
        ranked,
        max_tokens,
        memory.token_counter,
        hidden,
        with_conversation_names=conversation is None,
    )
    # A line is at most so long, but the whole message is copied for it.
    if index.max_length * max_tokens // MIN_LINE_TOKENS <= MAX_INLINE_COPIES:
        return write()
    return await anyio.to_thread.run_sync(write, abandon_on_cancel=True)


async def index_conversation(memory: Memory, scope: str, conversation: str) -> TermIndex | None:
    """The words of a conversation in this process; None for one that is too long for that."""
    return await memory.term_indexes.get(memory.store, make_key(memory.agent, scope, conversation))


def spread_scores(scores: Mapping[int, float], questions: Container[int] = ()) -> dict[int, float]:
    """The scores by position in one conversation, with what neighbours inherit of each other.

    `questions` are the positions of messages that only ask.
    """
    known = dict(scores)
    for _ in range(SCORE_ROUNDS):
        gains: dict[int, float] = {}
        for position, score in known.items():
            gain = score * (SCORE_FROM_QUESTION if position in questions else SCORE_FROM_PREVIOUS)
            if gain > gains.get(position + 1, 0.0):
                gains[position + 1] = gain
            gain = score * SCORE_FROM_NEXT
            if position > 1 and gain > gains.get(position - 1, 0.0):
                gains[position - 1] = gain
        for position, gain in gains.items():
            known[position] = known.get(position, 0.0) + gain
    return known


class RankedPlaces(NamedTuple):
    """Places with their scores for a question, and the best of them, which passed scores on."""

    scores: dict[Place, float]
    sources: list[Place]


def rank_messages(
    index: TermIndex,
    query: str,
    max_tokens: int,
    hidden: Mapping[str, Container[int]] = EMPTY,
    *,
    meaning: Mapping[Place, float] = EMPTY,
) -> RankedPlaces:
    """The messages of an index that have to do with a question, and their neighbours, with scores.

    `meaning` has the places that are near to the question in meaning, and how near they are.
    """
    asked = parse_query(query, index.newest_day)
    weights = dict.fromkeys(asked.forms, FOLDED_WEIGHT) | asked.weights
    for prefix in asked.prefixes:
        weights |= dict.fromkeys(index.forms_with(prefix), FOLDED_WEIGHT)
    scores = index.score(weights)
    if meaning:
        numbers = index.numbers
        near = {numbers[place]: score for place, score in meaning.items() if place in numbers}
        scores = fuse_scores(scores, near)
    if asked.periods:
        _add_periods(index, scores, asked.periods)
    messages, questions, asks = index.messages, index.questions, index.asks
    ranked = [(QUESTION_SHARE * score if asks[number] else score, number) for number, score in scores.items()]
    ranked.sort(reverse=True)
    if hidden:
        ranked = [one for one in ranked if not _is_hidden(messages[one[1]], hidden)]
    if not ranked:
        return RankedPlaces({}, [])
    # More lines than this never fit.
    del ranked[max_tokens // MIN_LINE_TOKENS + MIN_SOURCES :]
    count = max(max_tokens // TOKENS_PER_SOURCE, MIN_SOURCES)
    least = MIN_SOURCE_SHARE * ranked[0][0]
    sources: list[Place] = []
    by_conversation: dict[str, dict[int, float]] = {}
    places: dict[Place, float] = {}
    for score, number in ranked:
        conversation, position, _ = messages[number]
        if len(sources) == count or score < least:
            places[conversation, position] = REST_SHARE * score
            continue
        sources.append((conversation, position))
        by_conversation.setdefault(conversation, {})[position] = score
    for conversation, some in by_conversation.items():
        hidden_here = hidden.get(conversation, ())
        for position, score in spread_scores(some, questions.get(conversation, ())).items():
            if position not in hidden_here and score > places.get((conversation, position), 0.0):
                places[conversation, position] = score
    return RankedPlaces(places, sources)


def _is_hidden(one: IndexedMessage, hidden: Mapping[str, Container[int]]) -> bool:
    return one.conversation in hidden and one.position in hidden[one.conversation]


def _add_periods(index: TermIndex, scores: dict[int, float], periods: Sequence[Period]) -> None:
    """Raise what was said on the days that a question names, if that was not on most days."""
    days = {day for day in set(index.days) if any(period.has(day) for period in periods)}
    numbers = [number for number, day in enumerate(index.days) if day in days]
    if len(numbers) <= MAX_PERIOD_PART * len(index.days):
        gain = PERIOD_SHARE * max(scores.values(), default=1.0)
        for number in numbers:
            scores[number] = scores.get(number, 0.0) + gain


def render_ranked(
    index: TermIndex,
    ranked: RankedPlaces,
    max_tokens: int,
    counter: TokenCounter,
    hidden: Mapping[str, Container[int]] = EMPTY,
    *,
    with_conversation_names: bool,
) -> RecallResult:
    """Write what was found, and while there is room, what stands further around it."""
    writer = RecallWriter(max_tokens, counter, index.tool_names, with_conversation_names)
    best = _candidates(index, ranked.scores)
    found = (_candidate(index, place, score) for place, score in _distant_places(ranked, hidden))
    distant: Iterator[Candidate] = (candidate for candidate in found if candidate is not None)
    if with_conversation_names:
        seen: set[tuple[int, Message]] = set()
        best, distant = _drop_copies(best, seen), _drop_copies(distant, seen)
    writer.fill(best)
    if writer.has_room:
        writer.fill(distant)
    return writer.result()


def _drop_copies(candidates: Iterable[Candidate], seen: set[tuple[int, Message]]) -> Iterator[Candidate]:
    """Each message once: a fork and its source have the same messages at the same positions."""
    for candidate in candidates:
        if (shared := (candidate.position, candidate.message)) not in seen:
            seen.add(shared)
            yield candidate


def _candidates(index: TermIndex, scores: Mapping[Place, float]) -> Iterator[Candidate]:
    """The messages at these places, the best first, of equals the newest."""
    ranked = [(score, place[1], place) for place, score in scores.items()]
    ranked.sort(reverse=True)
    for score, _, place in ranked:
        candidate = _candidate(index, place, score)
        if candidate is not None:
            yield candidate


def _candidate(index: TermIndex, place: Place, score: float) -> Candidate | None:
    number = index.numbers.get(place)
    if number is None:
        return None
    return Candidate(score, place[1], place[0], index.days[number], index.messages[number][2])


def _distant_places(
    ranked: RankedPlaces, hidden: Mapping[str, Container[int]]
) -> Iterator[tuple[Place, float]]:
    """The places around the sources that have no score yet, the nearest first, and what they are worth."""
    known = set(ranked.scores)
    for distance in range(1, MAX_DISTANCE + 1):
        for conversation, position in ranked.sources:
            for near in (position + distance, position - distance):
                place = conversation, near
                if near > 0 and place not in known and near not in hidden.get(conversation, ()):
                    known.add(place)
                    yield place, DISTANT_SHARE / distance


async def _index_hits(
    memory: Memory,
    scope: str,
    query: str,
    conversation: str | None,
    max_tokens: int,
    hidden: Mapping[str, Container[int]],
    shared_ends: Mapping[str, int],
    near: Sequence[SearchHit],
) -> TermIndex:
    """An index of what the store finds for a question's words and synonyms, and of what is near to it."""
    words = f"{query} {parse_query(query, None).words}"
    wanted = HITS_PER_SOURCE * max(max_tokens // TOKENS_PER_SOURCE, MIN_SOURCES)
    limit = wanted + EXTRA_HITS if hidden else wanted
    new: list[SearchHit] = []
    for _ in range(MAX_SEARCHES):
        found = await memory.store.search(memory.agent, scope, words, conversation=conversation, limit=limit)
        new = (await _drop_shown(memory, scope, found, shared_ends, hidden))[:wanted]
        if len(new) == wanted or len(found) < limit:
            break
        limit *= WIDEN_FACTOR
    new += await _drop_shown(memory, scope, near, shared_ends, hidden)
    found_once = {(one.conversation, one.position): one.message for one in new}
    return TermIndex(IndexedMessage(*place, message) for place, message in found_once.items())


async def _shared_ends(memory: Memory, scope: str, hidden: Mapping[str, Container[int]]) -> dict[str, int]:
    """The conversations that the reader knows and that share messages with others, and up to where."""
    ends = {name: await memory.store.shared_until(make_key(memory.agent, scope, name)) for name in hidden}
    return {name: end for name, end in ends.items() if end}


async def _drop_shown(
    memory: Memory,
    scope: str,
    found: Sequence[HitT],
    shared_ends: Mapping[str, int],
    hidden: Mapping[str, Container[int]],
) -> list[HitT]:
    """Drop what the reader already has, under this name or as a message that a fork shares."""
    new = [one for one in found if one.position not in hidden.get(one.conversation, ())]
    # A shared message has the same position in all conversations.
    places = {
        (name, one.position)
        for one in new
        for name, end in shared_ends.items()
        if one.position <= end and one.position in hidden[name]
    }
    read = await _read_messages(memory, scope, sorted(places))
    shown = {(one.position, one.message) for one in read if one[:2] in places}
    return [one for one in new if (one.position, one.message) not in shown]


async def _read_messages(memory: Memory, scope: str, places: Sequence[Place]) -> list[IndexedMessage]:
    """The messages at these places, in one step where the store can do that."""
    store = memory.store
    if not places:
        return []
    if isinstance(store, IndexedMessageReader):
        return list(await store.read_indexed(memory.agent, scope, places))
    read: list[IndexedMessage] = []
    for conversation in dict.fromkeys(name for name, _ in places):
        for first, last in position_ranges(
            (position for name, position in places if name == conversation), max_gap=MAX_GAP
        ):
            window = await memory.read(scope, conversation, after=first - 1, before=last + 1)
            read += [IndexedMessage(conversation, *entry) for entry in window.entries]
    return read
