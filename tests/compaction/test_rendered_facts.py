"""Facts that are rendered once are rendered as if they were every time."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime, timedelta, timezone
from pathlib import Path

import anyio.lowlevel
import pytest
from hypothesis import given
from hypothesis import strategies as st

from autonomy_ctx import (
    ContextSummaryConfig,
    ContextTemplate,
    Memory,
    Message,
    SummarizedHistorySection,
    background,
)
from autonomy_ctx.background import Urgent
from autonomy_ctx.compaction import view
from autonomy_ctx.compaction.config import resolve_settings
from autonomy_ctx.compaction.view import facts_until, render_summary_facts
from autonomy_ctx.language import fact as fact_module
from autonomy_ctx.language.fact import FACT_KINDS, Fact, active_facts, render_facts
from autonomy_ctx.messages.text_cache import count_cached_texts, forget_texts
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


@given(
    facts=some_facts,
    changes=st.lists(st.tuples(st.integers(0, 40), st.integers(0, 40), st.booleans()), max_size=12),
    most=st.sampled_from([0, 2, 32]),
)
def test_changed_facts_are_rendered_as_if_all_were_new(
    facts: tuple[Fact, ...], changes: list[tuple[int, int, bool]], most: int
) -> None:
    counter, settings = TokenCounter(), replace(SETTINGS, size=400)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(fact_module, "MAX_ENDED", most)
        for at, (gone, kind, is_first) in enumerate(changes):
            new = make_fact(100 + at if at % 4 else 40 - at, kind % len(FACT_KINDS), None)
            # Some end, one is added, and one that was replaced may come before all others.
            before = make_fact(204 + 5 * at, 0, None)
            facts = (*((before,) if is_first else ()), *facts[:gone], *facts[gone + at % 3 :], new)
            found = render_summary_facts(facts, settings, counter)
            # A list is never compared with what was known before.
            wanted = render_facts(list(facts), settings.facts_tokens, counter.count_text)
            assert found == wanted
            assert active_facts(facts) == active_facts(list(facts))


def test_rendered_facts_are_forgotten_with_texts() -> None:
    render_summary_facts((make_fact(1, 0, None),), SETTINGS, TokenCounter())
    assert count_cached_texts() > 0
    forget_texts()
    assert count_cached_texts() == 0


@pytest.mark.parametrize("kind", ["in process", "SQLite"])
async def test_no_context_renders_facts_that_were_committed_before(kind: str, tmp_path: Path) -> None:
    memory = Memory(None if kind == "in process" else f"sqlite:///{tmp_path}/memory.db")
    section = SummarizedHistorySection(None, floor=2, ceiling=4)
    async with memory, ContextTemplate([section]) as template:
        for number in range(20):
            said = [
                Message("user", f"The port of host h{number} is {8000 + number}."),
                Message("assistant", "Ok."),
            ]
            await memory.append("ana", "trip", *said)
            await template.compose(memory, "ana", "trip")
            await section.settled()
            rendered = len(view._rendered_facts)
            context = await template.compose(memory, "ana", "trip")
            assert len(view._rendered_facts) == rendered
            assert number < 3 or "F1 value: The port of host h0 is 8000" in context.messages[0].text


async def test_a_summary_is_committed_when_nothing_is_urgent(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(background, "URGENT_SECONDS", 1000)
    monkeypatch.setattr(background, "GIVE_WAY_SECONDS", 1000)
    section, key = SummarizedHistorySection(None, floor=2, ceiling=4), ("ana", "trip")
    async with Memory() as memory, ContextTemplate([section]) as template:
        await memory.append(*key, *(Message("user", f"message {number}") for number in range(8)))
        urgent = Urgent()
        await template.compose(memory, *key)
        for _ in range(200):
            await anyio.lowlevel.checkpoint()
        assert not (await memory.summary(*key)).segments
        urgent.end()
        await section.settled()
        assert (await memory.summary(*key)).segments


@given(facts=some_facts, last=st.integers(0, 31))
def test_facts_until_a_position_are_those_of_users_and_of_messages_before(
    facts: tuple[Fact, ...], last: int
) -> None:
    found = facts_until(facts, last)
    assert found == tuple(fact for fact in facts if fact.source == "user" or fact.position <= last)
    assert len(found) < len(facts) or found is facts
