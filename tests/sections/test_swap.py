"""Swaps: a summary that is ready is shown when that is cheapest, and whatever is shown, nothing is hidden."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sections.test_summary_machine import CI, SummaryMachine
from summary_models import HeldModel, ScriptedModel, Shown, asks, shown, summarized, users

from autonomy_ctx import (
    AdditionalContextSection,
    ContextSummaryConfig,
    ContextTemplate,
    Memory,
    Message,
    SummarizedHistorySection,
)
from autonomy_ctx.compaction import SwapChoice
from autonomy_ctx.compaction.config import resolve_settings
from autonomy_ctx.compaction.cost_model import cheapest
from autonomy_ctx.compaction.metrics import SummaryMetrics
from autonomy_ctx.compaction.snapshot import ConversationSnapshot, ConversationState
from autonomy_ctx.compaction.swap import choose_snapshot
from autonomy_ctx.memory.facts import MAX_FACTS_OF_KIND
from autonomy_ctx.stores import Entry, Fact, Head, StoredSegment, SummaryState
from autonomy_ctx.testing import StoppedClock

# What is generated is the talk; that both event loops work is shown by the other tests.
once = pytest.mark.parametrize("anyio_backend", ["asyncio"])


def never(choice: SwapChoice) -> bool:
    return False


async def talked(section: SummarizedHistorySection, memory: Memory, number: int) -> Shown:
    """So many turns of one message, each with a summarizer that is prompt; the last context."""
    for _ in range(number):
        await asks(memory, 1)
        found = await shown(section, memory)
        await section.settled()
    return found


def whole(found: Shown, count: int) -> None:
    """Summary and window are the log: every position once."""
    covered = found.segments[-1].last if found.segments else 0
    assert found.window == list(range(covered + 1, count + 1))
    assert found.omitted == ()


# -- when ---------------------------------------------------------------------------------------------


async def test_a_summary_that_is_ready_waits_behind_the_older_one() -> None:
    memory = Memory()
    async with summarized(ScriptedModel(), 4, 8, hard_limit=40, swap=never) as section:
        found = await talked(section, memory, 12)
        assert (await memory.summary("ana", "trip")).covered == 5
        assert found.segments == ()
        whole(found, 12)
        assert section.get_metrics()["swaps_put_off"] == 3


async def test_eager_is_the_default_and_shows_it_at_once() -> None:
    memory = Memory()
    async with summarized(ScriptedModel(), 4, 8) as section:
        found = await talked(section, memory, 10)
        assert section.config.swap == "eager"
        assert found.segments[-1].last == 5
        assert section.get_metrics()["swaps_put_off"] == 0


async def test_several_that_are_ready_come_at_once() -> None:
    memory, allowed = Memory(), [False]
    async with summarized(ScriptedModel(), 4, 8, hard_limit=40, swap=lambda choice: allowed[0]) as section:
        await talked(section, memory, 16)
        allowed[0] = True
        found = await talked(section, memory, 1)
        assert len(found.segments) == 2
        whole(found, 17)
        assert section.get_metrics()["swaps"] == 1


async def test_a_cold_cache_makes_the_swap_free() -> None:
    memory, clock = Memory(), StoppedClock()
    async with summarized(
        ScriptedModel(),
        4,
        8,
        hard_limit=40,
        swap="cost",
        cache_seconds=100,
        clock=lambda: clock().timestamp(),
    ) as section:
        assert (await talked(section, memory, 10)).segments == ()
        clock.advance(99)
        assert (await talked(section, memory, 1)).segments == ()
        clock.advance(100)
        found = await talked(section, memory, 1)
        assert found.segments
        whole(found, 12)


BUDGET, CHANGED = "My budget is 900 EUR.", "My budget is 700 EUR."


async def test_facts_wait_with_the_summary_they_belong_to() -> None:
    memory, shows = Memory(), [True]
    async with summarized(None, 4, 8, hard_limit=80, swap=lambda choice: shows[0]) as section:
        await memory.append("ana", "trip", Message("user", BUDGET, id="m1"))
        before = await talked(section, memory, 9)
        assert BUDGET.rstrip(".") in before.summary_text
        shows[0] = False
        await memory.append("ana", "trip", Message("user", CHANGED, id="m11"))
        after = await talked(section, memory, 9)
        assert (await memory.summary("ana", "trip")).covered > 11
        # Between two swaps a context begins with the one before it, and the change is there word for word.
        assert after.messages[: len(before.messages)] == before.messages
        assert CHANGED in [message.text for message in after.messages]
        shows[0] = True
        swapped = await talked(section, memory, 1)
        assert CHANGED.rstrip(".") in swapped.summary_text


async def test_what_a_user_does_with_facts_is_shown_at_once() -> None:
    memory, shows = Memory(), [True]
    async with summarized(None, 4, 8, hard_limit=80, swap=lambda choice: shows[0]) as section:
        await memory.append("ana", "trip", Message("user", BUDGET, id="m1"))
        await talked(section, memory, 9)
        shows[0] = False
        assert BUDGET.rstrip(".") in (await talked(section, memory, 5)).summary_text
        facts = memory.facts("ana", "trip")
        await facts.add("rule", "Never book by phone")
        assert "Never book by phone" in (await talked(section, memory, 1)).summary_text
        [budget] = [fact for fact in await facts if "budget" in fact.text]
        await facts.remove(budget.id)
        found = await talked(section, memory, 5)
        assert found.summary is not None
        assert "budget" not in found.summary.facts


async def test_the_hard_limit_in_messages_does_not_wait() -> None:
    memory = Memory()
    async with summarized(ScriptedModel(), 4, 8, hard_limit=10, swap=never) as section:
        assert (await talked(section, memory, 10)).segments == ()
        found = await talked(section, memory, 1)
        assert found.segments
        whole(found, 11)
        assert section.get_metrics()["digests_served"] == 0


async def test_the_hard_limit_in_tokens_does_not_wait() -> None:
    memory = Memory()
    long = "word " * 60
    async with summarized(
        ScriptedModel(), 2, 4, hard_limit=40, size=128, hard_limit_tokens=600, swap=never
    ) as section:
        for _ in range(12):
            await memory.append("ana", "trip", Message("user", long))
            found = await shown(section, memory)
            assert found.tokens(memory.token_counter) <= 600
            await section.settled()
        assert found.segments
        assert section.get_metrics()["digests_served"] == 0


async def test_a_budget_that_cuts_the_history_ends_the_waiting() -> None:
    memory = Memory()
    async with summarized(ScriptedModel(), 2, 6, hard_limit=60, swap=never) as section:
        template = ContextTemplate([section], max_tokens=400)
        for number in range(20):
            await memory.append("ana", "trip", Message("user", f"{number} " + "word " * 30))
            context = await template.compose(memory, "ana", "trip")
            if context.cut:
                break
            await section.settled()
        assert context.cut
        context = await template.compose(memory, "ana", "trip")
        assert not context.cut
        assert context.messages[0].text.startswith("CONVERSATION SUMMARY")


async def test_a_new_process_shows_the_newest_summary() -> None:
    memory = Memory()
    async with summarized(ScriptedModel(), 4, 8, hard_limit=40, swap=never) as section:
        assert (await talked(section, memory, 12)).segments == ()
    async with summarized(ScriptedModel(), 4, 8, hard_limit=40, swap=never) as section:
        found = await shown(section, memory)
        assert found.segments[-1].last == 5
        whole(found, 12)
        section.clear_cache("ana")
        assert (await shown(section, memory)).segments


async def test_what_was_deleted_is_not_kept_for_the_sake_of_the_cache() -> None:
    memory = Memory()
    async with summarized(ScriptedModel(), 4, 8, hard_limit=40, swap=never) as section:
        await talked(section, memory, 12)
        await memory.delete_message("ana", "trip", "m2")
        found = await shown(section, memory)
        assert "said 2" not in found.texts
        assert found.window == [1, *range(3, 13)]


async def test_a_summary_of_what_another_process_deleted_is_not_kept_either() -> None:
    memory, allowed = Memory(), [True]
    told = ScriptedModel(["tells of m2", "tells no more of it"])
    async with (
        summarized(told, 4, 8, hard_limit=40, swap=lambda choice: allowed[0]) as here,
        summarized(told, 4, 8, hard_limit=40) as elsewhere,
    ):
        assert "tells of m2" in (await talked(here, memory, 10)).summary_text
        allowed[0] = False
        await memory.delete_message("ana", "trip", "m2")
        await talked(elsewhere, memory, 2)
        found = await shown(here, memory)
        assert "tells no more of it" in found.summary_text
        assert "tells of m2" not in found.summary_text


async def test_a_digest_is_not_kept_when_the_real_summary_is_there() -> None:
    memory, model = Memory(), HeldModel()
    async with summarized(model, 2, 4, hard_limit=6, swap=never) as section:
        await asks(memory, 9)
        assert (await shown(section, memory)).segments[0].provisional
        (await model.wait_for_call()).answer("the real one")
        await section.settled()
        found = await shown(section, memory)
        assert [segment.provisional for segment in found.segments] == [False]
        assert "the real one" in found.summary_text


async def test_two_contexts_at_the_same_time_hide_and_double_nothing() -> None:
    memory, turn = Memory(), [0]

    def every_third(choice: SwapChoice) -> bool:
        turn[0] += 1
        return turn[0] % 3 == 0

    async with summarized(ScriptedModel(), 3, 6, hard_limit=30, swap=every_third) as section:
        for count in range(1, 40):
            await asks(memory, 1)
            whole(await shown(section, memory), count)
            whole(await shown(section, memory), count)
            await section.settled()
        counts = section.get_metrics()
        assert counts["swaps"] > 0
        assert counts["swaps_put_off"] > 0


# -- what was read beside what was shown ------------------------------------------------------------------

WAITING = resolve_settings(ContextSummaryConfig(floor=2, ceiling=4, hard_limit=20, swap=never))


def segment(first: int, last: int, *, provisional: bool = False) -> StoredSegment:
    return StoredSegment(first=first, last=last, text=f"{first} to {last}", tokens=5, provisional=provisional)


def seen(*segments: StoredSegment, since: int = 0, head: int = 10) -> ConversationSnapshot:
    """A snapshot of a conversation of so many messages."""
    state = SummaryState(Head(head, head), segments)
    entries = [Entry(at, message) for at, message in enumerate(users(head), start=1)]
    return ConversationSnapshot(
        state,
        state.head,
        [entry for entry in entries if entry.position > state.covered],
        True,
        [entry for entry in entries if since < entry.position <= state.covered],
        since,
    )


def view(before: ConversationState, found: ConversationSnapshot) -> tuple[int, list[int]]:
    """What is covered in what is to be shown, and the positions after it."""
    made = choose_snapshot(before, found, WAITING, lambda message: 10, 0.0, SummaryMetrics())
    return made.state.covered, [entry.position for entry in made.entries]


def test_messages_that_the_shown_summary_covers_are_not_shown_again() -> None:
    before = ConversationState()
    view(before, seen(segment(1, 3)))
    assert view(before, seen(segment(1, 3), segment(4, 8), since=1)) == (3, [4, 5, 6, 7, 8, 9, 10])


def test_without_all_that_the_shown_summary_leaves_the_newest_is_shown() -> None:
    before = ConversationState()
    view(before, seen(segment(1, 3)))
    assert view(before, seen(segment(1, 3), segment(4, 8), since=5)) == (8, [9, 10])


def value(number: int) -> Fact:
    at = datetime(2026, 5, 1, tzinfo=UTC)
    return Fact(id=f"F{number}", kind="value", text=f"port {number}", position=number // 200, created_at=at)


def test_a_summary_waits_though_old_facts_are_no_longer_read_beside_new_ones() -> None:
    """What had ended, in the list that was shown, would have to go from it at once."""
    for missing, covered in (None, 3), ("F500", 8):
        before, known = ConversationState(), tuple(map(value, range(400, 400 + MAX_FACTS_OF_KIND)))
        old = seen(segment(1, 3))
        view(before, replace(old, state=replace(old.state, facts=known)))
        new = seen(segment(1, 3), segment(4, 8), since=1)
        read = tuple(fact for fact in (*known[2:], value(900), value(901)) if fact.id != missing)
        assert view(before, replace(new, state=replace(new.state, facts=read)))[0] == covered


def test_a_stand_in_that_was_shown_does_not_wait() -> None:
    before = ConversationState()
    view(before, seen(segment(1, 3, provisional=True)))
    assert view(before, seen(segment(1, 5), since=3)) == (5, [6, 7, 8, 9, 10])


# -- the policy -----------------------------------------------------------------------------------------


def choice(**known: Any) -> SwapChoice:
    usual: dict[str, Any] = {
        "idle_seconds": 10.0,
        "cache_seconds": 300.0,
        "carried": 0.0,
        "swap_cost": 1000.0,
        "fresh": True,
        "room": 20,
        "batch": 10,
    }
    return SwapChoice(**usual | known)


def test_cost_waits_until_waiting_has_cost_as_much_as_the_swap() -> None:
    assert not cheapest(choice(carried=999.0))
    assert cheapest(choice(carried=1000.0))


def test_cost_swaps_when_a_segment_has_just_become_ready() -> None:
    assert not cheapest(choice(carried=5000.0, fresh=False))


def test_cost_swaps_when_the_cache_is_cold() -> None:
    assert cheapest(choice(idle_seconds=300.0, fresh=False))


def test_cost_swaps_when_the_limit_will_not_let_it_wait_for_the_next() -> None:
    assert cheapest(choice(room=9))
    assert not cheapest(choice(room=10))


async def test_a_policy_is_a_function_that_is_told_the_costs() -> None:
    memory, told = Memory(), list[SwapChoice]()

    def noted(known: SwapChoice) -> bool:
        told.append(known)
        return False

    async with summarized(ScriptedModel(), 4, 8, hard_limit=40, swap=noted) as section:
        await talked(section, memory, 11)
    assert [known.fresh for known in told] == [True, False]
    assert [known.room for known in told] == [30, 29]
    assert 0 < told[0].carried < told[1].carried
    assert 0 < told[0].swap_cost < told[1].swap_cost


@pytest.mark.parametrize("wrong", ["late", None, 3])
def test_another_policy_is_refused(wrong: Any) -> None:
    with pytest.raises(ValueError, match="eager, cost, or a function"):
        ContextSummaryConfig(swap=wrong)


async def test_a_policy_that_fails_costs_no_turn(caplog: pytest.LogCaptureFixture) -> None:
    def fails(choice: SwapChoice) -> bool:
        raise ZeroDivisionError

    memory = Memory()
    async with summarized(ScriptedModel(), 4, 8, swap=fails) as section:
        found = await talked(section, memory, 10)
        assert [one.last for one in found.segments] == [5]
        whole(found, 10)
    assert "the newest summary is shown" in caplog.text


def test_a_policy_that_would_have_to_be_awaited_is_refused() -> None:
    async def later(choice: SwapChoice) -> bool:
        return False

    with pytest.raises(TypeError, match="give a plain one, because its result is needed at once"):
        ContextSummaryConfig(swap=later)  # type: ignore[arg-type]


def test_a_cache_that_lives_no_time_is_refused() -> None:
    with pytest.raises(ValueError, match="cache_seconds"):
        ContextSummaryConfig(cache_seconds=0)


# -- what it is for -------------------------------------------------------------------------------------


async def broken(swap: Any, roles: list[str]) -> int:
    """How many contexts of a talk do not begin with the one before."""
    memory, breaks = Memory(), 0
    async with summarized(ScriptedModel(), 4, 8, hard_limit=30, swap=swap) as section:
        before: list[str] = []
        for number, role in enumerate(roles):
            await memory.append("ana", "trip", Message(role, f"{number} " + "word " * 20))
            found = (await shown(section, memory)).texts
            await section.settled()
            breaks += found[: len(before)] != before
            before = found
    return breaks


@once
@pytest.mark.nightly
@given(roles=st.lists(st.sampled_from(["user", "user", "assistant"]), min_size=25, max_size=60))
async def test_cost_breaks_the_prefix_less_often_than_eager(roles: list[str]) -> None:
    assert await broken("cost", roles) < await broken("eager", roles)


async def test_between_swaps_a_context_begins_with_the_one_before() -> None:
    memory, before = Memory(), list[str]()
    async with summarized(ScriptedModel(), 4, 8, hard_limit=60, swap=never) as section:
        for _ in range(50):
            found = (await talked(section, memory, 1)).texts
            assert found[: len(before)] == before
            before = found


class CostSwapMachine(SummaryMachine):
    """The same talks, deletions, restarts and late summaries, with swaps that wait."""

    options: dict[str, Any] = {**SummaryMachine.options, "hard_limit": 14, "swap": "cost"}  # noqa: RUF012


class NeverSwapMachine(SummaryMachine):
    """The same when only the limits make it swap."""

    options: dict[str, Any] = {**SummaryMachine.options, "hard_limit": 14, "swap": never}  # noqa: RUF012


class LongCostSwapMachine(CostSwapMachine):
    """The same for a night."""


CostSwapMachine.TestCase.settings = NeverSwapMachine.TestCase.settings = settings(CI, max_examples=20)
LongCostSwapMachine.TestCase.settings = settings(
    CI, max_examples=2000, stateful_step_count=80, derandomize=False
)
TestCostSwapsForLong = pytest.mark.nightly(LongCostSwapMachine.TestCase)


class TestCostSwaps(CostSwapMachine.TestCase):  # type: ignore[misc,valid-type]  # made by hypothesis
    """Any history, with summaries that are swapped when it costs least."""


class TestNeverSwaps(NeverSwapMachine.TestCase):  # type: ignore[misc,valid-type]  # made by hypothesis
    """Any history, with summaries that are never swapped before they must be."""


# -- beside other sections --------------------------------------------------------------------------------


async def test_summaries_pins_and_volatile_sections_go_together() -> None:
    memory, clock = Memory(), [0]
    section = SummarizedHistorySection(ScriptedModel(), 4, 8, swap="cost", hard_limit=30)

    def now(*_: Any) -> list[Message]:
        clock[0] += 1
        return [Message("system", f"it is {clock[0]}")]

    template = ContextTemplate([AdditionalContextSection("now", provider_fn=now), section], arrange="cache")
    await asks(memory, 1)
    await memory.pin("ana", "trip", "m1")
    before = await template.compose(memory, "ana", "trip")
    for _ in range(30):
        await asks(memory, 1)
        context = await template.compose(memory, "ana", "trip", previous=before)
        await section.settled()
        positions = [origin.position for origin in context.origins() if origin.section != "now"]
        assert positions[-1] == (await memory.head("ana", "trip")).position
        assert context.messages[-1].text.endswith(f"it is {clock[0]}")
        before = context
    assert section.get_metrics()["swaps"] >= 1
    await template.close()
