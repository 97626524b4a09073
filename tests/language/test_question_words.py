"""What a question to memory asks for, and which messages state a rule or a preference."""

from __future__ import annotations

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
