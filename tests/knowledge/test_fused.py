"""Several bases as one."""

from __future__ import annotations

import logging
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from knowledge.bases import CountsTopics, Gives, Hangs, Plain
from strategies import some

from autonomy_ctx.errors import KnowledgeError
from autonomy_ctx.knowledge import (
    FusedKnowledge,
    InProcessVectorStore,
    Passage,
    TextKnowledge,
    VectorKnowledgeBase,
)
from autonomy_ctx.knowledge.fused import fuse_answers, standard_scores


def scored(*pairs: tuple[str, float]) -> list[Passage]:
    return [Passage(text, score=score) for text, score in pairs]


async def texts(knowledge: Any, limit: int = 10) -> list[str]:
    return [passage.text for passage in await knowledge.search("ferry", limit)]


async def test_words_and_meaning_together_find_what_either_would_miss() -> None:
    words, meaning = TextKnowledge(), VectorKnowledgeBase(CountsTopics(), InProcessVectorStore())
    for base in (words, meaning):
        await base.add("Ferry, ferry, ferry: all about it.", source="ferry")
        await base.add("Departures: quay C-113.", source="quay")
        await base.add("The tram is slow.", source="tram")
    both = FusedKnowledge(words, meaning)
    assert [passage.source for passage in await both.search("ferry C-113", 2)] == ["ferry", "quay"]
    await words.close()


async def test_what_both_find_comes_before_what_one_finds() -> None:
    one = Gives(scored(("a", 9.0), ("both", 8.0), ("c", 1.0)))
    other = Gives(scored(("d", 0.9), ("both", 0.8), ("e", 0.1)))
    assert (await texts(FusedKnowledge(one, other)))[0] == "both"
    assert one.asked == [("ferry", 40)]


async def test_the_same_text_is_shown_once_however_it_is_spaced() -> None:
    one, other = Gives(["The  Ferry", "a"]), Plain([{"content": "the ferry"}, "b"])
    assert sorted(await texts(FusedKnowledge(one, other))) == ["The  Ferry", "a", "b"]


async def test_large_scores_do_not_drown_small_ones() -> None:
    one = Gives(scored(("a", 1e6), ("b", 9e5)))
    other = Gives(scored(("x", 0.9), ("y", 0.1)))
    assert set((await texts(FusedKnowledge(one, other)))[:2]) == {"a", "x"}


def test_an_order_without_scores_counts_and_distances_are_turned_round() -> None:
    order = standard_scores([Passage("a"), Passage("b"), Passage("c")])
    assert order[0] > order[1] > order[2]
    distances = standard_scores(scored(("a", 0.1), ("b", 0.5)))
    assert distances[0] > distances[1]
    assert standard_scores([Passage("a")]) == [0.0]
    assert standard_scores([]) == []


@pytest.mark.parametrize(
    "bad",
    [Gives(RuntimeError("away")), Gives(None), Gives([7]), Hangs()],
    ids=["raises", "none", "garbage", "hangs"],
)
async def test_a_base_that_fails_or_hangs_is_left_out_and_logged(
    bad: Any, caplog: pytest.LogCaptureFixture
) -> None:
    with caplog.at_level(logging.WARNING, "autonomy_ctx.knowledge"):
        assert await texts(FusedKnowledge(bad, Gives(["found"]), timeout=0.05)) == ["found"]
    assert type(bad).__name__ in caplog.text


async def test_if_no_base_answers_that_is_an_error_that_names_each() -> None:
    hangs = Hangs()
    both = FusedKnowledge(hangs, Gives(RuntimeError("away")), timeout=0.05)
    with pytest.raises(
        KnowledgeError, match=r"Gives failed: RuntimeError: away; Hangs took longer than 0\.05 s"
    ):
        await both.search("ferry", 3)
    assert hangs.left


async def test_an_empty_answer_is_an_answer() -> None:
    assert await texts(FusedKnowledge(Gives([]), Gives(RuntimeError("away")))) == []


def test_wrong_arguments_are_said_at_once() -> None:
    with pytest.raises(ValueError, match="at least one knowledge base"):
        FusedKnowledge()
    with pytest.raises(TypeError, match="object is not a knowledge base"):
        FusedKnowledge(object())
    with pytest.raises(ValueError, match="timeout must be a number of seconds > 0 or None, not 0"):
        FusedKnowledge(Gives([]), timeout=0)


answers = st.lists(
    st.lists(
        st.builds(Passage, st.sampled_from("abcdef"), score=st.floats(-1e9, 1e9, allow_nan=False)), max_size=6
    ),
    max_size=3,
)


@some
@given(answers)
def test_each_text_comes_once_best_first_and_none_is_lost(given_answers: list[list[Passage]]) -> None:
    found = fuse_answers(given_answers)
    names = [passage.text for passage in found]
    assert sorted(names) == sorted({passage.text for answer in given_answers for passage in answer})
    scores = [passage.score for passage in found]
    assert scores == sorted(scores, reverse=True)
    assert fuse_answers(given_answers) == found
