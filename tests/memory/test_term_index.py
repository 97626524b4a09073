"""The index of a conversation in the process: what a question looks for, how words weigh, what is held."""

from __future__ import annotations

from datetime import date

import pytest
from hypothesis import given
from hypothesis import strategies as st

from autonomy_ctx import Memory, Message
from autonomy_ctx.language.stemmer import stem_word
from autonomy_ctx.memory.recall import index_conversation, parse_query
from autonomy_ctx.memory.search_terms import related_stems
from autonomy_ctx.memory.store import IndexedMessage, Key
from autonomy_ctx.memory.term_index import (
    IDLE_SECONDS,
    MESSAGE_OVERHEAD_BYTES,
    TermIndex,
    TermIndexes,
    is_question,
)
from benchmarks.recall_talks import read_cases

TODAY = date(2024, 7, 20)


def index_of(*texts: str) -> TermIndex:
    return TermIndex(IndexedMessage("trip", at, Message("user", text)) for at, text in enumerate(texts, 1))


def score(index: TermIndex, question: str) -> list[float]:
    scores = index.score(parse_query(question, None).weights)
    return [scores.get(number, 0.0) for number in range(len(index.messages))]


# -- the question -------------------------------------------------------------------------------------


def test_a_word_counts_more_than_one_that_may_stand_for_it() -> None:
    weights = parse_query("Which pet did you buy?", None).weights
    assert weights["pet"] == weights[stem_word("bought")] == 1.0
    assert 0 < weights["dog"] < 1


def test_synonyms_go_both_ways_and_kinds_only_one() -> None:
    assert "profess" in related_stems("job")
    assert "job" in related_stems("profess")
    assert "cello" in related_stems(stem_word("instrument"))
    assert stem_word("instrument") not in related_stems("cello")
    assert not related_stems("zyzzyva")


@pytest.mark.parametrize(
    ("question", "inside", "outside"),
    [
        ("What broke in March?", date(2023, 3, 31), date(2023, 4, 1)),
        ("What broke in March 2024?", date(2024, 3, 1), date(2023, 3, 1)),
        ("What broke at the end of May?", date(2024, 5, 30), date(2024, 5, 3)),
        ("Who came on 8 May 2024?", date(2024, 5, 8), date(2024, 5, 9)),
        ("Who came on May 8th?", date(2024, 5, 8), date(2024, 5, 9)),
        ("Who came on 2024-05-08?", date(2024, 5, 8), date(2024, 5, 9)),
        ("Where were we in 2022?", date(2022, 2, 2), date(2023, 2, 2)),
        ("What did I eat yesterday?", date(2024, 7, 19), date(2024, 7, 20)),
        ("What did we plan last week?", date(2024, 7, 12), date(2024, 7, 1)),
        ("What did we plan two months ago?", date(2024, 5, 21), date(2024, 7, 1)),
    ],
)
def test_days_that_a_question_names(question: str, inside: date, outside: date) -> None:
    [period] = parse_query(question, TODAY).periods
    assert period.has(inside)
    assert not period.has(outside)


@pytest.mark.parametrize("question", ["May I come in?", "march on", "It may rain, call 911", ""])
def test_a_question_without_a_day_names_none(question: str) -> None:
    assert parse_query(question, TODAY).periods == ()


@given(st.text(max_size=80))
def test_any_text_can_be_asked(text: str) -> None:
    query = parse_query(text, TODAY)
    assert all(0 < weight <= 1 for weight in query.weights.values())
    assert set(index_of("one", text).score(query.weights)) <= {0, 1}


# -- the index ----------------------------------------------------------------------------------------


def test_rare_words_and_short_messages_weigh_more() -> None:
    index = index_of("ferry museum", "ferry hotel", "ferry rain", "ferry " + "and so on for long " * 9)
    rare, *common = score(index, "museum ferry")
    assert rare > max(common)
    assert common[0] > common[-1] > 0
    assert score(index, "zebra") == [0, 0, 0, 0]


def test_a_word_said_twice_counts_more_than_once_and_less_than_double() -> None:
    once, twice, _ = score(index_of("ferry boat sea", "ferry ferry sea", "rain"), "ferry")
    assert once < twice < 2 * once


@pytest.mark.parametrize(
    ("text", "asks"),
    [
        ("Where is it?", True),
        ("Ana: Where is it?", True),
        ("どこですか\uff1f", True),
        ("We moved to Porto in May, near the river. And you?", False),
        ("We moved.", False),
        ("", False),
    ],
)
def test_a_message_that_does_little_else_than_ask(text: str, asks: bool) -> None:
    assert is_question(text) is asks


async def test_what_is_held_of_a_scope_goes_with_it(memory: Memory) -> None:
    for scope in ("ana", "bob"):
        await memory.append(scope, "trip", {"role": "user", "content": "The museum of Faro"})
    first = {scope: await index_conversation(memory, scope, "trip") for scope in ("ana", "bob")}
    assert await index_conversation(memory, "ana", "trip") is first["ana"], "made once"
    await memory.clear_short_term_memory("ana")
    assert await index_conversation(memory, "ana", "trip") is not first["ana"]
    assert await index_conversation(memory, "bob", "trip") is first["bob"]


async def test_indexes_in_use_are_not_driven_out_by_others(memory: Memory) -> None:
    now = 1000.0
    indexes = TermIndexes(10 * (MESSAGE_OVERHEAD_BYTES + 100), clock=lambda: now)

    async def get(conversation: str) -> TermIndex | None:
        return await indexes.get(memory.store, Key("", "ana", conversation))

    for conversation in ("first", "second"):
        await memory.append("ana", conversation, *[{"role": "user", "content": "museum"}] * 8)
    first = await get("first")
    assert first is not None
    now += IDLE_SECONDS - 1
    assert await get("second") is None, "the first is in use"
    assert await get("first") is first
    now += IDLE_SECONDS
    assert await get("second") is not None
    assert await get("first") is None


# -- what it is measured with -------------------------------------------------------------------------


def test_both_halves_of_the_talks_have_every_kind_of_question() -> None:
    cases = read_cases()
    for is_held_out in (False, True):
        half = [case for case in cases if case.is_held_out == is_held_out]
        kinds = {question.kind for case in half for question in case.questions}
        chats = {"direct", "paraphrase", "temporal", "update", "hops", "negation"}
        assert kinds == chats | {"single", "multi"}
        assert sum(len(case.questions) for case in half) > 170
    for case in cases:
        known = {message["id"] for message in case.messages}
        assert all(set(question.evidence) <= known for question in case.questions)
        assert case.messages == next(one for one in read_cases() if one.name == case.name).messages
