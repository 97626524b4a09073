"""What a question to memory asks for, and which messages state a rule or a preference."""

from __future__ import annotations

from datetime import date

import pytest

from autonomy_ctx.language.facts import states_rule
from autonomy_ctx.language.questions import find_aims


@pytest.mark.parametrize(
    ("question", "kinds"),
    [
        ("How should I light the kitchen?", {"advice"}),
        ("Kannst du mir ein Hotel vorschlagen?", {"advice"}),
        ("Peux-tu me recommander un hôtel ?", {"advice"}),
        ("What did I say about the kitchen?", {"told"}),
        ("In which order did we visit the towns?", {"told", "order"}),
        ("The kitchen", set()),
    ],
)
def test_a_question_tells_what_kind_of_answer_it_asks_for(question: str, kinds: set[str]) -> None:
    assert find_aims(question, None).kinds == kinds


@pytest.mark.parametrize(
    ("question", "first", "last"),
    [
        ("What did we plan last spring?", (2024, 3, 1), (2024, 5, 15)),
        ("Where was I last winter?", (2023, 12, 1), (2024, 2, 29)),
        ("Was habe ich letzten Sommer gesagt?", (2023, 6, 1), (2023, 8, 31)),
        ("Qu'est-ce que j'ai dit l'été dernier ?", (2023, 6, 1), (2023, 8, 31)),
        ("¿Dónde estuve el otoño pasado?", (2023, 9, 1), (2023, 11, 30)),
        ("去年夏天我说了什么", (2023, 6, 1), (2023, 8, 31)),
        ("What did I eat last Friday?", (2024, 5, 10), (2024, 5, 10)),
        ("What did I tell you last night?", (2024, 5, 14), (2024, 5, 14)),
        ("What did we plan two weeks ago?", (2024, 4, 28), (2024, 5, 4)),
    ],
)
def test_days_that_a_question_names_are_counted_from_its_day(
    question: str, first: tuple[int, int, int], last: tuple[int, int, int]
) -> None:
    [period] = find_aims(question, date(2024, 5, 15)).periods
    assert (period.first, period.last) == (first, last)


@pytest.mark.parametrize(
    "question",
    [
        "What is due next Friday?",
        "Where do we go next summer?",
        "Who comes on Friday?",
        "Which towns in summer 2021?",
    ],
)
def test_days_to_come_and_seasons_of_other_years_are_no_days_of_which_something_was_said(
    question: str,
) -> None:
    assert find_aims(question, date(2024, 5, 15)).periods == ()


@pytest.mark.parametrize(
    ("text", "stands"),
    [
        ("Always name the price when I ask about hotels.", True),
        ("I prefer trains, so can you book one for Friday?", True),
        ("Ich bevorzuge den Zug.", True),
        ("It rained again, and the train was late.", False),
        ("Which trains do you prefer?", False),
    ],
)
def test_a_rule_or_a_preference_is_told_from_other_messages(text: str, stands: bool) -> None:
    assert states_rule(text) is stands
