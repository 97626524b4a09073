"""Which texts say most about a question."""

from __future__ import annotations

import math

from hypothesis import given
from hypothesis import strategies as st

from autonomy_ctx.language.stemmer import normalized_words
from autonomy_ctx.models.offline import RankedText, rank

TEXTS = [
    "The dog sleeps.",
    "Our cat is called Minka and our dog is called Bello.",
    "Bello",
    "猫在沙发上睡觉",
    "",
]


def order(query: str) -> list[int]:
    return [one.index for one in rank(query, TEXTS)]


def test_only_texts_that_share_a_word_are_ranked() -> None:
    assert order("Where is Minka?") == [1]
    assert order("elephant") == []
    assert order("") == order("?!") == []


def test_shorter_texts_and_rarer_words_say_more() -> None:
    assert order("bello") == [2, 1]
    assert order("cat dog")[0] == 1


def test_case_width_accents_plural_and_possessive_make_no_difference() -> None:
    assert order("DOGS") == order("dog's") == order("dog\u2019s") == order("ｄｏｇ") == order("dog")  # noqa: RUF001
    assert normalized_words("Überfahrt, CAFÉS") == ["uberfahrt", "cafe"]
    assert normalized_words("The glass of Ana's dogs, PR-1234") == [
        "the",
        "glass",
        "of",
        "ana",
        "dog",
        "pr",
        "1234",
    ]


def test_scripts_without_spaces_are_compared_by_character() -> None:
    assert normalized_words("猫が3匹 cats") == ["猫", "が", "3", "匹", "cat"]
    assert order("猫呢") == [3]


def test_the_score_is_that_of_the_formula() -> None:
    (found,) = rank("minka", ["minka minka", "x", "y z w"])
    weight = math.log(1 + (3 - 1 + 0.5) / (1 + 0.5))
    assert math.isclose(found.score, weight * 2 * 2.2 / (2 + 1.2 * (1 - 0.75 + 0.75 * 2 / 2)))


def test_of_equals_the_earlier_comes_first() -> None:
    assert [one.index for one in rank("a", ["a b", "a c", "a d"])] == [0, 1, 2]


def test_words_may_be_given_instead_of_a_text() -> None:
    assert rank(["bello"], TEXTS) == rank("Bello?", TEXTS)


@given(st.text(max_size=30), st.lists(st.text(max_size=40), max_size=8))
def test_every_ranked_text_shares_a_word_and_scores_fall(query: str, texts: list[str]) -> None:
    found = rank(query, texts)
    shared = {
        at for at, text in enumerate(texts) if set(normalized_words(text)) & set(normalized_words(query))
    }
    assert {one.index for one in found} == shared
    assert all(isinstance(one, RankedText) and one.score > 0 for one in found)
    assert [one.score for one in found] == sorted((one.score for one in found), reverse=True)
