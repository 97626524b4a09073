"""Which segments become one: neighbours only, oldest first, and each message a few times at most."""

from __future__ import annotations

from itertools import pairwise
from math import log

import pytest
from hypothesis import given
from hypothesis import strategies as st
from strategies import some
from summary_models import ScriptedModel, asks, shown, summarized

from autonomy_ctx import Memory, Message
from autonomy_ctx.compaction.plan import (
    MERGE_FAN_IN,
    MERGED_DIGEST_SHARE,
    digests_to_merge,
    merged_digest_tokens,
    merging_size,
    segments_to_merge,
)
from autonomy_ctx.language.digest import digest, digest_texts
from autonomy_ctx.stores import StoredSegment
from autonomy_ctx.tokens import TokenCounter


def segment(
    first: int, last: int, tokens: int = 100, level: int = 0, provisional: bool = False
) -> StoredSegment:
    return StoredSegment(first=first, last=last, text="", tokens=tokens, level=level, provisional=provisional)


def row(*levels: int, tokens: int = 100) -> list[StoredSegment]:
    return [segment(at, at, tokens, level) for at, level in enumerate(levels, start=1)]


def test_nothing_is_merged_while_all_keep_the_size() -> None:
    assert segments_to_merge([], 400) == ()
    assert segments_to_merge(row(0, 0, 0, 0), 400) == ()
    assert segments_to_merge(row(0, tokens=900), 400) == ()


def test_the_oldest_four_of_a_level_are_merged() -> None:
    rows = row(0, 0, 0, 0, 0)
    assert segments_to_merge(rows, 400) == tuple(rows[:4])
    rows = row(1, 0, 0, 0, 0)
    assert segments_to_merge(rows, 400) == tuple(rows[1:])


def test_a_full_run_of_a_lower_level_goes_first() -> None:
    rows = row(1, 1, 1, 1, 0, 0, 0, 0)
    assert segments_to_merge(rows, 400) == tuple(rows[4:])


def test_without_a_full_run_the_lowest_neighbours_are_merged() -> None:
    rows = row(2, 1, 1, 1, 0)
    assert segments_to_merge(rows, 400) == tuple(rows[1:])
    rows = row(3, 2, 1, 0)
    assert segments_to_merge(rows, 300) == tuple(rows[2:])
    rows = row(3, 3, 1, 0, 2)
    assert segments_to_merge(rows, 400) == tuple(rows[2:4])


def test_a_merge_of_small_segments_frees_enough_room() -> None:
    """Four of them would be written anew without becoming shorter, one level up, again and again."""
    rows = row(*[0] * 9, tokens=50)
    assert segments_to_merge(rows, 400) == tuple(rows[:6])


def test_short_segments_are_merged_before_the_lines_above_them_fill_the_summary() -> None:
    rows = row(*[0] * 10, tokens=5)
    assert segments_to_merge(rows[:9], 400) == ()
    assert segments_to_merge(rows, 400) == tuple(rows[:7])


def test_stand_ins_are_never_merged_with_what_a_model_wrote() -> None:
    rows = [*row(0, 0, 0), segment(4, 4, provisional=True), segment(5, 5, provisional=True)]
    assert segments_to_merge(rows, 400) == ()
    assert segments_to_merge(rows, 200) == tuple(rows[:3])


@some
@given(st.lists(st.tuples(st.integers(1, 300), st.integers(0, 4)), max_size=20), st.integers(128, 2000))
def test_what_is_merged_are_neighbours_and_only_above_the_size(
    made: list[tuple[int, int]], size: int
) -> None:
    rows = [segment(at, at, tokens, level) for at, (tokens, level) in enumerate(made, start=1)]
    chosen = segments_to_merge(rows, size)
    if merging_size(rows) <= size or len(rows) < 2:
        assert chosen == ()
    else:
        assert len(chosen) >= 2
        assert all(after.first == before.last + 1 for before, after in pairwise(chosen))


@pytest.mark.parametrize("number", [100, 1000])
def test_a_message_is_merged_a_few_times_however_long_the_conversation(number: int) -> None:
    size, merged_tokens = 1000, 0
    rows: list[StoredSegment] = []
    for at in range(1, number + 1):
        rows.append(segment(at, at, 250))
        while chosen := segments_to_merge(rows, size):
            merged_tokens += sum(one.tokens for one in chosen)
            level = 1 + max(one.level for one in chosen)
            made = segment(chosen[0].first, chosen[-1].last, 250, level)
            start = rows.index(chosen[0])
            rows[start : start + len(chosen)] = [made]
        assert sum(one.tokens for one in rows) <= size
    # A log-structured store reads everything about once per level.
    assert merged_tokens <= 250 * number * (2 + log(number, MERGE_FAN_IN))


def test_old_digests_are_as_good_as_new_ones_in_a_merge() -> None:
    """1,200 messages in batches of ten, digested and merged as a summary without a model is."""
    counter, size = TokenCounter(), 2048
    rows: list[StoredSegment] = []
    for at in range(1, 181):
        talk = [
            Message("user", f"how does the {word} usually work, just curious")
            for word in ("oven", "lamp", "door", "roof", "wall", "sink", "fan", "bell")
        ]
        done = f"Ordered, the number is ORD-{4000 + at}." if at % 6 == 0 else "It is fine as it is."
        messages = [*talk, Message("user", "Go on."), Message("assistant", done)]
        text = digest(messages, tokens=size // 4, counter=counter)
        rows.append(StoredSegment(first=at, last=at, text=text, tokens=counter.count_text(text)))
        if chosen := digests_to_merge(rows, size):
            tokens = merged_digest_tokens(rows, chosen, size)
            text = digest_texts([one.text for one in chosen], tokens=tokens, counter=counter)
            rows = [StoredSegment(first=1, last=at, text=text, tokens=counter.count_text(text))]
        assert merging_size(rows) <= size
    shown = "\n".join(one.text for one in rows)
    assert all(f"ORD-{4000 + at}" in shown for at in range(6, 181, 6))
    assert rows[0].text.count("just curious") <= 0.25 * len(rows[0].text.splitlines())


def test_digests_are_merged_beside_what_a_model_wrote() -> None:
    rows = [*row(0, 0, 0), segment(4, 4, provisional=True), segment(5, 5, provisional=True)]
    assert digests_to_merge(rows, 500, provisional=True) == ()
    chosen = digests_to_merge(rows, 400, provisional=True)
    assert chosen == tuple(rows[3:])
    assert merged_digest_tokens(rows, chosen, 400) == int(
        (400 - merging_size(rows[:3])) * MERGED_DIGEST_SHARE
    )


async def test_a_long_conversation_keeps_the_size_and_the_input_stays_linear(memory: Memory) -> None:
    words = "The trip goes to Lisbon in May with Ana, who books the hotel and the flight on Friday. "
    model = ScriptedModel([lambda call: words * 2])
    async with summarized(model, 4, 8, size=256) as section:
        spent: list[int] = []
        for turn in range(1, 241):
            await asks(memory, 1)
            await shown(section, memory)
            await section.settled()
            state = await memory.summary("ana", "trip")
            assert sum(one.tokens for one in state.segments) <= 256
            assert all(after.first == before.last + 1 for before, after in pairwise(state.segments))
            if turn in (120, 240):
                spent.append(section.get_metrics()["summarizer_input_tokens"])
        assert section.get_metrics()["summaries_merged"] > 0
        assert spent[1] <= 2.6 * spent[0]


async def test_a_summary_and_the_merge_after_it_change_a_context_once(memory: Memory) -> None:
    words = "The trip goes to Lisbon in May with Ana, who books the hotel and the flight on Friday. "
    async with summarized(ScriptedModel([lambda call: words * 2]), 4, 8, size=256) as section:
        for _ in range(60):
            await asks(memory, 1)
            await shown(section, memory)
            await section.settled()
        metrics, head = section.get_metrics(), (await memory.summary("ana", "trip")).head
        assert metrics["summaries_merged"] > 0
        assert head.revision == metrics["summaries_committed"]


async def test_a_merge_that_the_model_fails_is_made_without_it(memory: Memory) -> None:
    text = "The trip goes to Lisbon in May with Ana, who books the hotel and the flight on Friday. "
    model = ScriptedModel([lambda call: "" if "consecutive stretches" in call.prompt else text * 2])
    async with summarized(model, 4, 8, size=256) as section:
        for _ in range(60):
            await asks(memory, 1)
            await shown(section, memory)
            await section.settled()
            state = await memory.summary("ana", "trip")
            assert sum(one.tokens for one in state.segments) <= 256
        assert any(one.model == "digest" and not one.provisional for one in state.segments)
        assert len((await shown(section, memory)).window) <= 8
