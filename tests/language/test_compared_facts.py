"""Only the newest facts are compared, all are known by their texts, and reading them takes small steps."""

from __future__ import annotations

from datetime import UTC, datetime

from hypothesis import given
from hypothesis import strategies as st

from autonomy_ctx import Message
from autonomy_ctx.language.compared_facts import MAX_COMPARED_FACTS, ComparedFacts, HoldingFact
from autonomy_ctx.language.fact_rules import find_facts
from autonomy_ctx.messages.fact import Fact
from autonomy_ctx.messages.text_cache import TextCache

NOON = datetime(2026, 5, 2, 12, tzinfo=UTC)


def fact(number: int, text: str, position: int | None = None, kind: str = "value") -> Fact:
    at = number if position is None else position
    return Fact(id=f"F{number}", kind=kind, text=text, position=at, created_at=NOON)  # type: ignore[arg-type]


def read(standing: list[Fact]) -> ComparedFacts:
    facts = ComparedFacts(standing)
    for _ in facts.read():
        pass
    return facts


@given(
    positions=st.lists(st.integers(0, 500), max_size=3 * MAX_COMPARED_FACTS),
    changes=st.lists(st.one_of(st.just("add"), st.integers(0, MAX_COMPARED_FACTS - 1)), max_size=60),
)
def test_facts_are_compared_as_if_all_were_kept_in_one_list(
    positions: list[int], changes: list[str | int]
) -> None:
    standing = [fact(number, f"port {number}", at) for number, at in enumerate(positions)]
    facts = read(standing)
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


@given(st.integers(2, 9), st.lists(st.integers(0, 12), max_size=80))
def test_a_cache_of_texts_is_bounded_and_gives_what_would_be_made(size: int, keys: list[int]) -> None:
    cache = TextCache[int](size)
    for key in keys:
        assert cache.get_or_make(key, lambda key=key: -key) == -key  # type: ignore[misc]
        assert cache.get(key) == -key
        assert len(cache) <= size
    cache.clear()
    assert len(cache) == 0
    assert all(cache.get(key) is None for key in keys)


def test_what_is_asked_for_all_the_time_stays_in_a_cache() -> None:
    cache, made = TextCache[str](8), list[str]()

    def make(text: str) -> str:
        made.append(text)
        return text

    for number in range(50):
        cache.get_or_make("often", lambda: make("often"))
        cache.get_or_make(f"{number}", lambda number=number: make(f"{number}"))  # type: ignore[misc]
    assert made.count("often") == 1
