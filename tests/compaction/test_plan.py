"""Floor and ceiling as arithmetic, judged by slow and plain rules."""

from __future__ import annotations

from collections.abc import Sequence

import pytest
from hypothesis import given
from hypothesis import strategies as st
from strategies import histories, may_cut, some
from summary_models import calls, results, users

from autonomy_ctx import Message
from autonomy_ctx.compaction.calls import CachedRequest
from autonomy_ctx.compaction.plan import (
    Limits,
    bounded_start,
    chunk_end,
    is_due,
    last_cut,
    nearest_cut,
    request_cut,
    window_start,
)
from autonomy_ctx.messages.message import ChatRole
from autonomy_ctx.stores import Entry

LIMITS = Limits(floor=4, ceiling=8, hard=16)


def entries(messages: Sequence[Message], start: int = 1) -> list[Entry]:
    return [Entry(start + index, message) for index, message in enumerate(messages)]


def one(message: Message) -> int:
    """Every message costs one token."""
    return 1


def ten(message: Message) -> int:
    return 10


logs = histories.map(entries)


@pytest.mark.parametrize(("number", "due"), [(0, False), (8, False), (9, True), (100, True)])
def test_a_summary_is_due_above_the_ceiling(number: int, due: bool) -> None:
    assert is_due(entries(users(number)), LIMITS, one) is due


@pytest.mark.parametrize(
    ("number", "lead", "due"), [(7, 1, False), (8, 1, True), (6, 99, True), (5, 99, False)]
)
def test_with_a_lead_it_is_due_earlier_but_never_at_the_floor(number: int, lead: int, due: bool) -> None:
    assert is_due(entries(users(number)), LIMITS, one, lead) is due


def test_tokens_make_a_summary_due_too() -> None:
    limits = Limits(floor=4, ceiling=8, hard=16, ceiling_tokens=50)
    assert not is_due(entries(users(5)), limits, ten)
    assert is_due(entries(users(6)), limits, ten)


@pytest.mark.parametrize("number", [9, 12, 40])
def test_the_window_after_a_summary_has_floor_messages(number: int) -> None:
    assert number - window_start(entries(users(number)), LIMITS, one) == 4


def test_a_floor_in_tokens_makes_the_window_shorter() -> None:
    limits = Limits(floor=4, ceiling=8, hard=16, floor_tokens=20)
    assert window_start(entries(users(9)), limits, ten) == 7
    wide = Limits(floor=4, ceiling=8, hard=16, floor_tokens=2000)
    assert window_start(entries(users(9)), wide, ten) == 5


@some
@given(logs, st.integers(-1, 16))
def test_the_cut_that_is_used_is_safe_and_near(log: list[Entry], wanted: int) -> None:
    talk = [entry.message for entry in log]
    cut = nearest_cut(log, wanted)
    safe = [at for at in range(1, len(talk)) if may_cut(talk, at)]
    if wanted <= 0 or not safe:
        assert cut == 0
        return
    assert cut in safe
    if wanted in safe:
        assert cut == wanted
    assert abs(cut - wanted) <= min(abs(at - wanted) for at in safe) + 2


@some
@given(logs)
def test_the_last_cut_is_safe_or_the_end(log: list[Entry]) -> None:
    talk = [entry.message for entry in log]
    safe = [at for at in range(1, len(talk)) if may_cut(talk, at)]
    assert last_cut(log) == (safe[-1] if safe else len(log))


@some
@given(logs, st.integers(1, 3), st.integers(1, 3), st.integers(0, 40), st.none() | st.integers(1, 12))
def test_a_bounded_window_keeps_the_limits_or_is_one_group(
    log: list[Entry], floor: int, batch: int, covered: int, tokens: int | None
) -> None:
    limits = Limits(floor=floor, ceiling=floor + batch, hard=floor + batch + 1)
    log = [Entry(covered + entry.position, entry.message) for entry in log]
    talk = [entry.message for entry in log]
    start = bounded_start(log, covered, limits, tokens, one)
    assert start == 0 or may_cut(talk, start)
    most = min(limits.hard, tokens or limits.hard)
    if len(log) <= most:
        assert start == 0
        return
    if len(log) - start > most:
        assert not any(may_cut(talk, at) for at in range(start + 1, len(talk)))
    else:
        # Not more is cut off than a batch beyond what must be, unless no cut is nearer.
        needed = len(log) - most
        nearer = [at for at in range(needed, start) if may_cut(talk, at)]
        assert start - needed < batch or not nearer


@some
@given(logs, st.integers(4, 12), st.integers(1, 6))
def test_a_question_before_a_bounded_window_takes_room_from_it(
    log: list[Entry], tokens: int, size: int
) -> None:
    question = Entry(1, Message("user", "Which one?"))
    log = [question, *(Entry(entry.position + 1, entry.message) for entry in log)]
    limits = Limits(floor=1, ceiling=2, hard=100)

    def count(message: Message) -> int:
        return size if message is question.message else 1

    start = bounded_start(log, 0, limits, tokens, count, question)
    most = tokens if start == 0 else tokens - (size if size <= tokens else tokens // 2)
    shown = sum(min(count(entry.message), tokens // 2) for entry in log[start:])
    cuts = [at for at in range(start + 1, len(log)) if may_cut([entry.message for entry in log], at)]
    assert shown <= max(most, 1) or not cuts
    assert bounded_start([], 0, limits, tokens, count, question) == 0


@pytest.mark.parametrize("covered", [0, 3, 40])
def test_a_bounded_window_moves_a_batch_at_a_time(covered: int) -> None:
    starts = []
    for number in range(17, 40):
        log = entries(users(number), covered + 1)
        start = bounded_start(log, covered, LIMITS, None, one)
        assert number - start <= 16
        starts.append(start)
    assert starts == [-(-(number - 16) // 4) * 4 for number in range(17, 40)]


def test_one_large_message_leaves_half_of_the_room_to_those_before_it() -> None:
    log = entries([*users(12), Message("user", "large"), *users(2)])

    def count(message: Message) -> int:
        return 5000 if message.text == "large" else 10

    # Half of 160 is for the large one, so that eight others fit.
    assert bounded_start(log[:13], 0, LIMITS, 160, count) == 4
    assert bounded_start(log, 0, LIMITS, 160, count) == 8


@some
@given(logs, st.integers(0, 16))
def test_a_chunk_ends_at_a_safe_cut_and_is_never_empty(log: list[Entry], most: int) -> None:
    talk = [entry.message for entry in log]
    end = chunk_end(log, most, one)
    if not log:
        assert end == 0
        return
    assert 1 <= end <= len(log)
    assert end == len(log) or may_cut(talk, end)
    if end > most:
        assert not any(may_cut(talk, at) for at in range(1, min(end, most + 1)))


def test_a_group_that_is_too_large_is_a_chunk_of_its_own() -> None:
    log = entries([calls("a", "b", "c", name="x"), *results("a", "b", "c"), *users(2)])
    assert chunk_end(log, 2, one) == 4
    assert chunk_end(log[:4], 2, one) == 4


@given(logs, st.integers(0, 16), st.integers(0, 12), st.integers(0, 8))
def test_a_request_ended_where_a_reply_follows_and_the_epoch_had_begun(
    log: list[Entry], wanted: int, began: int, least: int
) -> None:
    cut = request_cut(log, wanted, LIMITS, began=began, least=least)
    if not cut:
        return
    assert may_cut([entry.message for entry in log], cut)
    assert log[cut].message.role is ChatRole.ASSISTANT
    assert log[cut - 1].message.role in (ChatRole.USER, ChatRole.TOOL)
    assert log[cut - 1].position >= began
    assert cut >= least
    assert len(log) - cut >= LIMITS.floor // 2


@pytest.mark.parametrize(
    ("number", "wanted", "began", "cut"),
    # Of questions and answers: replies have odd indexes.
    [(9, 4, 1, 3), (9, 5, 1, 5), (9, 4, 6, 7), (9, 4, 20, 0), (12, 4, 1, 5), (3, 1, 1, 1)],
)
def test_a_cut_at_a_request_leaves_the_floor_and_no_other_summary_due(
    number: int, wanted: int, began: int, cut: int
) -> None:
    talk = entries([Message("user" if at % 2 == 0 else "assistant", str(at)) for at in range(number)])
    assert request_cut(talk, wanted, LIMITS, began=began) == cut


def test_the_request_before_a_reply_is_the_part_before_it() -> None:
    messages = [Message("system", "Rules"), Message("user", "One"), Message("user", "Note")]
    messages += [Message("assistant", "Yes"), Message("user", "Two")]
    request = CachedRequest(
        messages=messages,
        tokens=9,
        tools=(),
        breakpoints=(),
        generation=0,
        at=0.0,
        positions=(None, 4, None, 5, 6),
        began=4,
    )
    assert request.before_reply(5) == messages[:3]
    # The reply to the request itself; one that is not known; one of the epoch before.
    assert request.before_reply(7) == messages
    assert request.before_reply(9) is None
    assert request.before_reply(4) is None
