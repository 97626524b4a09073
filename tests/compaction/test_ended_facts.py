"""Marks behind what no longer holds in a segment."""

from __future__ import annotations

import pytest

from autonomy_ctx.compaction.facts import mark_segments
from autonomy_ctx.memory.store import StoredSegment
from autonomy_ctx.messages.fact import EndedText
from autonomy_ctx.messages.tokens import TokenCounter

BUDGET = EndedText("the budget is 11,500 EUR", "the budget is 9,200 EUR", 30)


def marked(text: str, *ended: EndedText, covered: int = 40) -> str:
    [segment] = mark_segments(
        [StoredSegment(first=1, last=20, text=text, tokens=3)], ended, covered, TokenCounter()
    )
    return segment.text


@pytest.mark.parametrize(
    ("text", "ended", "expected"),
    [
        (
            "- Budget: 11,500 EUR\n- Hotel in Porto",
            BUDGET,
            "- Budget: 11,500 EUR (no longer: now the budget is 9,200 EUR)\n- Hotel in Porto",
        ),
        (
            "They have 11,500 EUR as a budget. They like trains.",
            BUDGET,
            "They have 11,500 EUR as a budget. (no longer: now the budget is 9,200 EUR) They like trains.",
        ),
        (
            "Das Budget ist 400 EUR.",
            EndedText("Das Budget ist 400 EUR", "Das Budget ist 450 EUR", 30),
            "Das Budget ist 400 EUR. (no longer: now Das Budget ist 450 EUR)",
        ),
        (
            "予算は400ユーロ。",
            EndedText("予算は400ユーロ", "予算は450ユーロ", 30),
            "予算は400ユーロ。 (no longer: now 予算は450ユーロ)",
        ),
        (
            "- Call the hotel in Porto",
            EndedText("call the hotel in Porto", "", 30),
            "- Call the hotel in Porto (done since)",
        ),
    ],
)
def test_a_sentence_that_states_what_has_ended_says_so(text: str, ended: EndedText, expected: str) -> None:
    assert marked(text, ended) == expected


@pytest.mark.parametrize(
    "text",
    [
        "The budget went from 11,500 EUR to 9,200 EUR.",
        "The insurance paid 11,500 for the car.",
        "The budget of the neighbour is 4,000 EUR.",
        "Order 11,500 was sent.",
    ],
)
def test_other_sentences_stay_as_they_are(text: str) -> None:
    assert marked(text, BUDGET) == text


def test_what_ended_after_the_summary_is_not_known_to_it() -> None:
    assert marked("Budget: 11,500 EUR", BUDGET, covered=29) == "Budget: 11,500 EUR"


def test_a_value_that_holds_again_is_not_marked() -> None:
    again = EndedText("the budget is 11,500 EUR", "the budget is 11,500 EUR", 30)
    assert marked("Budget: 11,500 EUR", again) == "Budget: 11,500 EUR"


def test_a_long_text_is_not_repeated_and_the_tokens_are_counted() -> None:
    long = EndedText("the budget is 11,500 EUR", "the budget is 9,200 EUR " + "and so on " * 20, 30)
    segment = StoredSegment(first=1, last=20, text="Budget: 11,500 EUR", tokens=3)
    [found] = mark_segments([segment], [long], 40, TokenCounter())
    assert found.text == "Budget: 11,500 EUR (no longer)"
    assert found.tokens == TokenCounter().count_text(found.text)
