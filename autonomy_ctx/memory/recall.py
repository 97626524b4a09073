"""`recall`: finds old messages that are relevant to a question.

There is one score. Words and meaning find messages, also the words of facts and summaries that were made from
them; days that the question names add to it; who said it and whether it only asks lower it, and where the
question names a speaker, what others say; neighbours inherit of it (answers rarely repeat the words of the
question). A question that asks how to do something also needs the rules and preferences of the user, and one
about an order the first messages of each day. What fits into a token limit is shown, the best first.
"""

from __future__ import annotations

import dataclasses
from collections import defaultdict
from collections.abc import Callable, Collection, Container, Iterable, Iterator, Mapping, Sequence
from datetime import date
from functools import partial
from itertools import islice
from types import MappingProxyType
from typing import Any, NamedTuple, TypeAlias, TypeVar

import anyio.to_thread

from autonomy_ctx.language.questions import ADVICE, ORDER, PAST, Period, find_aims
from autonomy_ctx.language.words import text_ends
from autonomy_ctx.memory.encoding import approximate_length
from autonomy_ctx.memory.memory import Memory
from autonomy_ctx.memory.message_keys import KeyIndex
from autonomy_ctx.memory.ranking import MEANING_SHARE, fuse_scores
from autonomy_ctx.memory.recall_block import (
    FILLS_ROOM,
    MAX_MESSAGE_TOKENS,
    Candidate,
    RecallReason,
    RecallResult,
    RecallWriter,
)
from autonomy_ctx.memory.search_terms import related_stems
from autonomy_ctx.memory.search_text import FOLDED_WEIGHT, MAX_QUERY_TERMS, QueryTerms, query_terms
from autonomy_ctx.memory.store import IndexedMessage, SearchHit, make_key
from autonomy_ctx.memory.term_index import TermIndex
from autonomy_ctx.messages.message import ChatRole
from autonomy_ctx.messages.tokens import TokenCounter
from autonomy_ctx.validation import check_int

# Of a longer text so many characters at each end are read as the question.
MAX_QUESTION = 1_000
# A conversation and a position in it.
Place: TypeAlias = tuple[str, int]
EMPTY: Mapping[Any, Any] = MappingProxyType({})

# What a message inherits of the score of the one before it, or of the one after it, in each round. Who is
# asked something answers next, often in other words.
SCORE_FROM_PREVIOUS, SCORE_FROM_QUESTION, SCORE_FROM_NEXT, SCORE_ROUNDS = 0.5, 1.0, 0.12, 2
# A message that only asks has seldom what is looked for.
QUESTION_SHARE = 0.8
# Where the question names somebody who speaks, what others say keeps this part of its score, and the name
# itself counts for this much.
OTHERS_SHARE, NAME_WEIGHT = 0.5, 0.1
# What a day that the question names adds, as a part of the best score; and which part of all messages may
# be from such days, or they tell nothing.
PERIOD_SHARE, MAX_PERIOD_PART = 0.5, 0.5
# What a rule or a preference of the user adds to a question that asks how to do something, and to one that
# asks neither that nor what was said.
ADVICE_SHARE, RULE_SHARE = 0.6, 0.15
# What the best messages of each day add to a question about an order: the first so much, each next less.
ORDER_SHARE, ORDER_FALL, ORDER_PER_DAY = 0.5, 0.7, 3
# One message found for so many tokens of room passes its score on, if it has this part of the best score.
TOKENS_PER_SOURCE, MIN_SOURCES, MIN_SOURCE_SHARE = 120, 4, 0.4
# What the other messages that were found keep of their scores: they fill the room.
REST_SHARE = 0.7
# How far around a source is looked for more while there is room, and what it is worth there.
MAX_DISTANCE, DISTANT_SHARE = 40, 0.01
# A shorter text that is said again is no copy: "Yes." belongs to what stands before it.
MIN_COPY_LENGTH = 40
# What a line counts for, with its position and role, if it is short.
MIN_LINE_TOKENS = 16
# A token of usual text has fewer characters.
MAX_TOKEN_LENGTH = 8
# A smaller part of a score is no reason.
MIN_PART = 1e-6
HitT = TypeVar("HitT", SearchHit, IndexedMessage)
# How many of the messages that are near in meaning are looked at.
NEAREST = 200

# Where no index is in this process, so many messages are searched for each source, and for what is hidden.
HITS_PER_SOURCE, EXTRA_HITS, WIDEN_FACTOR, MAX_SEARCHES = 4, 8, 8, 3
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
    explain: bool = False,
) -> RecallResult:
    """The messages of a scope, or of one conversation, that match the query best, with their neighbours.

    Weaker matches and their neighbours fill the rest of `max_tokens`. `exclude` maps a conversation to the
    positions that the reader already has; they are left out. With `explain`, each message has the parts of
    its score in `reasons`.
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
        # Of what stands far around no more is read than has room beside the rest.
        distant = islice(distant_places(ranked, hidden), _spare_lines(index, ranked, max_tokens))
        missing = [*ranked.scores, *(place for place, _ in distant)]
        read = await _read_messages(memory, scope, [at for at in missing if at not in index.numbers])
        new = await _drop_shown(memory, scope, read, shared_ends, hidden)
        index.add_shown(one for one in new if one[:2] not in index.numbers)
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
        found = write()
    else:
        found = await anyio.to_thread.run_sync(write, abandon_on_cancel=True)
    return _add_reasons(found, ranked) if explain else found


async def index_conversation(memory: Memory, scope: str, conversation: str) -> TermIndex | None:
    """The words of a conversation in this process; None for one that is too long for that."""
    return await memory.term_indexes.get(memory.store, make_key(memory.agent, scope, conversation))


@dataclasses.dataclass(frozen=True, slots=True)
class RecallQuery:
    """The stems to look for, each with its weight, the days that the question names, and its kinds.

    `forms` are other forms of its words, and `prefixes` beginnings and ends of joined words, as in a search;
    they count for less. `kinds` tells whether it asks for advice, for what was told or for an order.
    """

    weights: dict[str, float]
    periods: tuple[Period, ...] = ()
    forms: tuple[str, ...] = ()
    prefixes: tuple[str, ...] = ()
    kinds: frozenset[str] = frozenset()


def parse_query(query: str, today: date | None) -> RecallQuery:
    """Parse a question; `today` is the day of the question."""
    terms = query_terms(query, 1)
    weights = dict.fromkeys(terms.exact, 1.0)
    for stem in list(weights):
        for other, weight in related_stems(stem).items():
            weights[other] = max(weight, weights.get(other, 0.0))
    for word in terms.folded.words:
        weights.setdefault(word, FOLDED_WEIGHT)
    aims = find_aims(text_ends(query, MAX_QUESTION), today)
    return RecallQuery(
        weights, aims.periods, tuple(terms.folded.forms), tuple(terms.folded.prefixes), aims.kinds
    )


def _query_weights(asked: RecallQuery) -> dict[str, float]:
    return dict.fromkeys(asked.forms, FOLDED_WEIGHT) | asked.weights


class RankedPlaces(NamedTuple):
    """Places with their scores for a question, and the best of them, which passed scores on."""

    scores: dict[Place, float]
    sources: list[Place]
    # The parts of the score of a place.
    explain: Callable[[Place], tuple[RecallReason, ...]] = lambda place: FILLS_ROOM


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
    weights = _query_weights(asked)
    named = index.speakers_named(asked.weights)
    for stem in frozenset().union(*named.values()):
        # Their messages are theirs, whether or not they have the name; with it they fill the room.
        weights[stem] = weights.get(stem, 1.0) * NAME_WEIGHT
    for prefix in asked.prefixes:
        weights |= dict.fromkeys(index.forms_with(prefix), FOLDED_WEIGHT)
    by_words = scores = index.score(weights)
    by_keys = index.score_keys(weights)
    if by_keys:
        scores = by_words | {at: by_words.get(at, 0.0) + gain for at, gain in by_keys.items()}
    by_text = scores
    if meaning:
        numbers = index.numbers
        near = {numbers[place]: score for place, score in meaning.items() if place in numbers}
        scores = fuse_scores(scores, near)
    best = max(scores.values(), default=1.0)
    by_period = _period_gains(index, asked.periods, best) if asked.periods else {}
    by_order = _order_gains(index, scores, best) if ORDER in asked.kinds else {}
    messages, questions = index.messages, index.questions
    worth = _message_worth(index, ORDER in asked.kinds, named)
    total = dict(scores)
    for gains in (by_period, by_order):
        for number, gain in gains.items():
            total[number] = total.get(number, 0.0) + gain
    ranked = [(worth(number) * score, number) for number, score in total.items()]
    ranked.sort(reverse=True)
    by_rule = _rule_gains(index, asked, best)
    if hidden:
        ranked = [one for one in ranked if not _is_hidden(messages[one[1]], hidden)]
        by_rule = {at: gain for at, gain in by_rule.items() if not _is_hidden(messages[at], hidden)}
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
        for position, spread in spread_scores(some, questions.get(conversation, ())).items():
            place, own = (conversation, position), some.get(position, 0.0)
            at = index.numbers.get(place)
            score = spread if at is None else own + worth(at) * (spread - own)
            if position not in hidden_here and score > places.get(place, 0.0):
                places[place] = score
    # After the spread: what stands beside a rule has nothing to do with the question.
    for number, gain in by_rule.items():
        place = messages[number][:2]
        places[place] = places.get(place, 0.0) + gain

    def explain(place: Place) -> tuple[RecallReason, ...]:
        gains: dict[str, Mapping[int, float]] = {"words": by_text, "day": by_period, "order": by_order}
        if meaning:
            gains |= _split_fused(by_text, scores)
        number = index.numbers.get(place)
        parts = {} if number is None else {name: some.get(number, 0.0) for name, some in gains.items()}
        if number is not None:
            if number in by_keys:
                told = parts["words"] * by_keys[number] / by_text[number]
                parts |= {"words": parts["words"] - told, "summary": told}
            found, asking = sum(parts.values()), QUESTION_SHARE if index.asks[number] else 1.0
            by_speaker = OTHERS_SHARE if _is_other(index, number, named) else 1.0
            by_role = worth(number) / asking / by_speaker
            parts |= {"role": (by_role - 1) * found, "question": by_role * (asking - 1) * found}
            parts["speaker"] = by_role * asking * (by_speaker - 1) * found
        kept = 1.0 if place in sources else REST_SHARE
        rule = 0.0 if number is None else by_rule.get(number, 0.0)
        score = places.get(place, 0.0)
        if place not in sources and abs(score - rule - kept * sum(parts.values())) > MIN_PART * score:
            # It was reached only from a neighbour.
            parts = {}
        parts = {name: kept * part for name, part in parts.items()} | {"rule": rule}
        parts["neighbour"] = score - sum(parts.values())
        words: dict[str, tuple[str, ...]] = {}
        if number is not None:
            words = {
                "words": index.words_of(number, weights),
                "summary": index.key_words_of(number, weights),
            }
        return (
            tuple(
                RecallReason(kind=name, score=part, words=words.get(name, ()))
                for name, part in sorted(parts.items(), key=lambda one: -one[1])
                if abs(part) > MIN_PART * score
            )
            or FILLS_ROOM
        )

    return RankedPlaces(places, sources, explain)


def _message_worth(index: TermIndex, is_order: bool, named: Collection[str]) -> Callable[[int], float]:
    """The part of its score that a message keeps: less if it only asks, or is one of many long answers.

    In an order of what a user brought up, answers count for even less. If the question names a speaker, so
    does what others say.
    """
    share = index.assistant_share ** (2 if is_order else 1)
    asks, answers = index.asks, index.answers

    def worth(number: int) -> float:
        own = (share if answers[number] else 1.0) * (QUESTION_SHARE if asks[number] else 1.0)
        return OTHERS_SHARE * own if _is_other(index, number, named) else own

    return worth


def _is_other(index: TermIndex, number: int, named: Collection[str]) -> bool:
    """True for a message of somebody else than the speakers that a question names."""
    return bool(named) and index.speakers[number] not in named


def _period_gains(index: TermIndex, periods: Sequence[Period], best: float) -> dict[int, float]:
    """Give messages of the days that a question names a gain, if those are not most days."""
    days = {day for day in set(index.days) if any(period.has(day) for period in periods)}
    numbers = [number for number, day in enumerate(index.days) if day in days]
    is_telling = len(numbers) <= MAX_PERIOD_PART * len(index.days)
    return dict.fromkeys(numbers, PERIOD_SHARE * best) if is_telling else {}


def _order_gains(index: TermIndex, scores: Mapping[int, float], best: float) -> dict[int, float]:
    """Give the best messages of the user on each day a gain, for a question about an order."""
    by_day: defaultdict[Any, list[tuple[float, int]]] = defaultdict(list)
    for number, score in scores.items():
        if index.messages[number].message.role is ChatRole.USER:
            by_day[index.messages[number].conversation, index.days[number]].append((score, -number))
    return {
        -number: ORDER_SHARE * best * ORDER_FALL**rank
        for some in by_day.values()
        for rank, (_, number) in enumerate(sorted(some, reverse=True)[:ORDER_PER_DAY])
    }


def _rule_gains(index: TermIndex, asked: RecallQuery, best: float) -> dict[int, float]:
    """Give rules and preferences of the user a gain, if the question is not about what was said."""
    if asked.kinds & {PAST, ORDER}:
        return {}
    # Two people who say about as much give each other no rules.
    share = (1 - index.assistant_share) * (ADVICE_SHARE if ADVICE in asked.kinds else RULE_SHARE)
    gain = best * share
    return dict.fromkeys(index.rules, gain)


def _is_hidden(one: IndexedMessage, hidden: Mapping[str, Container[int]]) -> bool:
    return one.conversation in hidden and one.position in hidden[one.conversation]


def distant_places(
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


def _spare_lines(index: TermIndex, ranked: RankedPlaces, max_tokens: int) -> int:
    """The most lines that may fit beside the places with a score; those that are not read yet are short."""
    numbers = [index.numbers.get(place) for place in ranked.scores]
    sizes = [0 if at is None else approximate_length(index.messages[at].message) for at in numbers]
    tokens = [min(max(size // MAX_TOKEN_LENGTH, MIN_LINE_TOKENS), MAX_MESSAGE_TOKENS) for size in sizes]
    return max(max_tokens - sum(tokens), 0) // MIN_LINE_TOKENS


def _split_fused(words: Mapping[int, float], fused: Mapping[int, float]) -> dict[str, Mapping[int, float]]:
    """The parts of fused scores that words and meaning have."""
    by_words = fuse_scores(words, {}, meaning_share=0.0)
    share = (1 - MEANING_SHARE) if words else 0.0
    own = {number: share * score for number, score in by_words.items()}
    return {"words": own, "meaning": {at: score - own.get(at, 0.0) for at, score in fused.items()}}


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
    writer = RecallWriter(
        max_tokens,
        counter,
        index.tool_names,
        with_conversation_names,
        index.lines,
        names_before_texts=index.names_before_texts,
    )
    best = _candidates(index, ranked.scores)
    found = (_candidate(index, place, score) for place, score in distant_places(ranked, hidden))
    distant: Iterator[Candidate] = (candidate for candidate in found if candidate is not None)
    seen: set[tuple[object, ...]] = set()
    writer.fill(_drop_copies(best, seen))
    if writer.has_room:
        writer.fill(_drop_copies(distant, seen))
    return writer.result()


def _add_reasons(found: RecallResult, ranked: RankedPlaces) -> RecallResult:
    """Add to each message that was found the parts of its score."""
    passages = [
        dataclasses.replace(one, reasons=ranked.explain((one.conversation, one.position)))
        for one in found.passages
    ]
    return dataclasses.replace(found, passages=tuple(passages))


def _drop_copies(candidates: Iterable[Candidate], seen: set[tuple[object, ...]]) -> Iterator[Candidate]:
    """Each message once, and each longer text of a role once: the best, of equals the newest.

    A fork and its source have the same messages at the same positions.
    """
    for candidate in candidates:
        message, text = candidate.message, candidate.message.text
        is_long = len(text) >= MIN_COPY_LENGTH and not message.tool_calls
        name = (message.role, text) if is_long else (candidate.position, message)
        if name not in seen:
            seen.add(name)
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
    terms = _search_terms(query)
    wanted = HITS_PER_SOURCE * max(max_tokens // TOKENS_PER_SOURCE, MIN_SOURCES)
    limit = wanted + EXTRA_HITS if hidden else wanted
    new: list[SearchHit] = []
    for _ in range(MAX_SEARCHES):
        found = await memory.store.search(memory.agent, scope, terms, conversation=conversation, limit=limit)
        new = (await _drop_shown(memory, scope, found, shared_ends, hidden))[:wanted]
        if len(new) == wanted or len(found) < limit:
            break
        limit *= WIDEN_FACTOR
    new += await _drop_shown(memory, scope, near, shared_ends, hidden)
    found_once = {(one.conversation, one.position): one.message for one in new}
    keys = await _read_keys(memory, scope, conversation)
    if keys.versions:
        told = keys.best_places(_query_weights(parse_query(query, None)), wanted // HITS_PER_SOURCE)
        places = [place for place in told if place[1] not in hidden.get(place[0], ())]
        read = await _read_messages(memory, scope, places)
        for name, position, message in await _drop_shown(memory, scope, read, shared_ends, hidden):
            found_once.setdefault((name, position), message)
    found_messages = (IndexedMessage(*place, message) for place, message in found_once.items())
    # An index of some messages is made for each question: rules in it would cost as much as all the rest.
    index = TermIndex(found_messages, find_rules=False)
    index.keys = keys
    return index


async def _read_keys(memory: Memory, scope: str, conversation: str | None) -> KeyIndex:
    """The facts and summaries of a scope or a conversation."""
    indexes = memory.term_indexes.keys
    if conversation is None:
        return await indexes.of_scope(memory.store, memory.agent, scope)
    key = make_key(memory.agent, scope, conversation)
    return await indexes.of_conversation(memory.store, key, await memory.store.head(key))


def _search_terms(query: str) -> QueryTerms:
    """The terms of a question and what is related to them; of those no other forms are looked for."""
    terms = query_terms(query, 1)
    related = [other for stem in terms.exact for other in related_stems(stem)]
    return QueryTerms(list(dict.fromkeys([*terms.exact, *related]))[:MAX_QUERY_TERMS], terms.folded)


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
    """The messages at these places, in one step."""
    return await memory.store.read_indexed(memory.agent, scope, places) if places else []
