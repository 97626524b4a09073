"""The fusion of two ranks, for any lists."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from autonomy_ctx.memory.ranking import fuse_ranks
from autonomy_ctx.stores import SearchHit
from autonomy_ctx.testing import make_message


def hit(position: int, score: float, conversation: str = "trip") -> SearchHit:
    message = make_message(str(position), id=str(position))
    return SearchHit(conversation=conversation, position=position, message=message, score=score)


def ranked(scores: dict[int, float]) -> list[SearchHit]:
    return [hit(position, score) for position, score in sorted(scores.items(), key=lambda one: -one[1])]


def positions(hits: list[SearchHit]) -> list[int]:
    return [one.position for one in hits]


PLACES = st.integers(1, 30)
WORDS = st.dictionaries(PLACES, st.floats(0.001, 50.0), max_size=20).map(ranked)
MEANING = st.dictionaries(PLACES, st.floats(-1.0, 1.0), max_size=20).map(ranked)
LIMITS = st.integers(1, 40)


@given(WORDS, MEANING, LIMITS)
def test_each_message_comes_once_best_first_and_within_the_limit(
    words: list[SearchHit], meaning: list[SearchHit], limit: int
) -> None:
    fused = fuse_ranks(words, meaning, limit)
    found = positions(fused)
    every = {*positions(words), *positions(meaning)}
    assert len(found) == len(set(found)) == min(limit, len(every))
    assert set(found) <= every
    scores = [one.score for one in fused]
    assert scores == sorted(scores, reverse=True)
    assert all(0.0 <= score <= 1.0 for score in scores)


@given(WORDS, MEANING)
def test_a_smaller_limit_gives_the_beginning_of_the_same_list(
    words: list[SearchHit], meaning: list[SearchHit]
) -> None:
    assert fuse_ranks(words, meaning, 3) == fuse_ranks(words, meaning, 99)[:3]


@given(WORDS)
def test_without_one_list_the_other_keeps_its_order(hits: list[SearchHit]) -> None:
    assert positions(fuse_ranks(hits, [], 99)) == positions(hits)
    assert positions(fuse_ranks([], hits, 99)) == positions(hits)


@given(WORDS, MEANING, st.floats(0.01, 100.0))
def test_how_a_store_scales_its_scores_does_not_matter(
    words: list[SearchHit], meaning: list[SearchHit], factor: float
) -> None:
    larger = [hit(one.position, one.score * factor) for one in words]
    before = {one.position: one.score for one in fuse_ranks(words, meaning, 99)}
    after = {one.position: one.score for one in fuse_ranks(larger, meaning, 99)}
    assert after == pytest.approx(before)


@given(WORDS.filter(bool), MEANING.filter(bool))
def test_what_is_best_in_both_lists_is_best(words: list[SearchHit], meaning: list[SearchHit]) -> None:
    best = hit(99, 1.0)
    fused = fuse_ranks([hit(99, 51.0), *words], [hit(99, 1.5), *meaning], 99)
    assert fused[0].position == best.position
    assert fused[0].score == pytest.approx(1.0)


def test_a_message_of_the_same_position_in_another_conversation_is_another_message() -> None:
    fused = fuse_ranks([hit(1, 2.0, "a")], [hit(1, 0.5, "b")], 9)
    assert {(one.conversation, one.position) for one in fused} == {("a", 1), ("b", 1)}


def test_of_equals_what_was_found_by_words_comes_first() -> None:
    assert positions(fuse_ranks([hit(1, 2.0)], [hit(2, 0.5)], 9)) == [1, 2]


def test_nothing_found_is_nothing() -> None:
    assert fuse_ranks([], [], 9) == []
