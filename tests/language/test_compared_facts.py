"""Only the newest facts are compared, and all are known by their texts."""

from __future__ import annotations

from datetime import UTC, datetime

from hypothesis import given
from hypothesis import strategies as st

from autonomy_ctx import Message
from autonomy_ctx.language.compared_facts import MAX_COMPARED_FACTS, ComparedFacts, HoldingFact
from autonomy_ctx.language.fact import Fact
from autonomy_ctx.language.fact_rules import find_facts

NOON = datetime(2026, 5, 2, 12, tzinfo=UTC)


def fact(number: int, text: str, position: int | None = None, kind: str = "value") -> Fact:
    at = number if position is None else position
    return Fact(id=f"F{number}", kind=kind, text=text, position=at, created_at=NOON)  # type: ignore[arg-type]


@given(
    positions=st.lists(st.integers(0, 500), max_size=3 * MAX_COMPARED_FACTS),
    changes=st.lists(st.one_of(st.just("add"), st.integers(0, MAX_COMPARED_FACTS - 1)), max_size=60),
)
def test_facts_are_compared_as_if_all_were_kept_in_one_list(
    positions: list[int], changes: list[str | int]
) -> None:
    standing = [fact(number, f"port {number}", at) for number, at in enumerate(positions)]
    facts = ComparedFacts(standing)
    expected = [one.id for one in sorted(standing, key=lambda one: one.position)]
    texts = {one.id: one.text for one in standing}
    for number, change in enumerate(changes):
        newest = list(facts.newest())
        assert [one.target for one in newest] == expected[: -MAX_COMPARED_FACTS - 1 : -1]
        if change == "add":
            expected.append(f"+{number}")
            texts[f"+{number}"] = f"new port {number}"
            facts.add(HoldingFact(f"+{number}", "value", f"new port {number}", 600))
        elif isinstance(change, int) and change < len(newest):
            expected.remove(newest[change].target)
            facts.drop(newest[change])
    assert all(facts.has_text(text) == (name in expected) for name, text in texts.items())


def test_a_fact_that_is_too_old_to_be_compared_is_not_added_again() -> None:
    standing = [fact(number, f"The port of host h{number} is {8000 + number}") for number in range(300)]
    message = Message("user", "The port of host h7 is 8007.", created_at=NOON)
    assert find_facts([(400, message)], standing) == []


def test_an_old_goal_is_still_the_goal() -> None:
    goal = fact(0, "I want to move to Lisbon", kind="goal")
    standing = [goal, *(fact(number, f"The rent of flat f{number} is {number}") for number in range(1, 300))]
    message = Message("user", "I want to rent a van in May.", created_at=NOON)
    assert all(change.kind != "goal" for change in find_facts([(3, message)], standing))
    assert any(change.kind == "goal" for change in find_facts([(3, message)], standing[1:]))
