"""Facts in a summary message: rendered within their tokens, up to a position."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime, timedelta, timezone

from hypothesis import given
from hypothesis import strategies as st

from autonomy_ctx import (
    ContextSummaryConfig,
)
from autonomy_ctx.compaction.config import resolve_settings
from autonomy_ctx.compaction.view import facts_until, render_summary_facts
from autonomy_ctx.messages.fact import FACT_KINDS, Fact, render_facts
from autonomy_ctx.messages.tokens import TokenCounter

SETTINGS = resolve_settings(ContextSummaryConfig(model=None), None)
DAY = datetime(2026, 5, 2, 23, 30, tzinfo=UTC)


def make_fact(number: int, kind_at: int, before: int | None) -> Fact:
    return Fact(
        id=f"F{number}",
        kind=FACT_KINDS[kind_at],
        text=f"the port of host {number} is {8000 + number}",
        position=number,
        created_at=DAY,
        replaces=None if before is None else f"F{before}",
        state="replaced" if number % 5 == 4 else "holds",
        source="user" if number % 7 == 3 else "rules",
    )


some_facts = st.lists(
    st.tuples(st.integers(0, len(FACT_KINDS) - 1), st.none() | st.integers(0, 30)), max_size=30
).map(lambda given: tuple(make_fact(number, *one) for number, one in enumerate(given)))


@given(
    facts=some_facts, sizes=st.lists(st.integers(8, 2000), min_size=1, max_size=4), hours=st.integers(0, 3)
)
def test_facts_are_rendered_as_without_a_cache(facts: tuple[Fact, ...], sizes: list[int], hours: int) -> None:
    counter = TokenCounter()
    for size in (*sizes, *sizes):
        # Another list of equal facts is rendered for itself.
        for given_facts in (facts, (*facts[:1], *facts[1:])):
            zone = timezone(timedelta(hours=hours))
            settings = replace(SETTINGS, size=size, zone=zone)
            found = render_summary_facts(given_facts, settings, counter)
            wanted = render_facts(given_facts, settings.facts_tokens, counter.count_text, zone)
            assert found == wanted


@given(facts=some_facts, last=st.integers(0, 31))
def test_facts_until_a_position_are_those_of_users_and_of_messages_before(
    facts: tuple[Fact, ...], last: int
) -> None:
    found = facts_until(facts, last)
    assert found == tuple(fact for fact in facts if fact.source == "user" or fact.position <= last)
