"""Edits of a history: what stays, what goes together, and what an edit says when it cannot do its work."""

from __future__ import annotations

from dataclasses import dataclass, replace
from datetime import timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st
from strategies import NOON, Move, histories, messages, pairs, some, tangled_histories, told

from autonomy_ctx import ImageContent, Message, ToolCall
from autonomy_ctx.errors import ConflictingMessage
from autonomy_ctx.messages import AgentConfigUpdate, AgentHandoff, DirectMessage, Segment, Summary
from autonomy_ctx.messages.cuts import removable_groups, running_calls
from autonomy_ctx.messages.edits import (
    active_config,
    filter_items,
    insert_items,
    item_tokens,
    merge_items,
    recent_turns,
    truncate_items,
    turn_start,
)
from autonomy_ctx.messages.wire import Item
from autonomy_ctx.tokens import Calibration, TokenCounter

USER: Move = ("user", ())
ANSWER: Move = ("answer", ())
THINKING: Move = ("thinking", ())
NOTE: Move = ("note", ())


def call(*ids: str) -> Move:
    return ("call", ids)


def result(call_id: str) -> Move:
    return ("result", (call_id,))


def ids(items: list[Item] | list[Message]) -> list[str]:
    return [item.id for item in items]


def cut(items: list[Item] | list[Message], max_items: int) -> list[str]:
    return ids(truncate_items(list(items), max_items=max_items, counter=TokenCounter()).items)


def later(seconds: float, item: Message) -> Message:
    return replace(item, created_at=NOON + timedelta(seconds=seconds))


# -- what goes together -------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("moves", "groups"),
    [
        ([], []),
        ([USER, ANSWER, USER], [[0], [1]]),
        ([NOTE, USER, ANSWER, USER], [[1], [2]]),
        # A call and its results, parallel and overlapping, whatever stands between them.
        ([call("a", "b"), result("b"), result("a"), USER], [[0, 1, 2]]),
        ([call("a"), call("b"), result("a"), ANSWER, result("b"), USER], [[0, 2], [1, 4], [3]]),
        ([call("a"), USER, result("a")], [[0, 2]]),
        # Still running: it stays with the results it has; what was said meanwhile may go.
        ([USER, call("a", "b"), result("a"), ANSWER, USER], [[0], [3]]),
        ([call("a"), USER], []),
        # The conversation went on without it.
        ([call("a"), USER, ANSWER, USER], [[0], [1], [2]]),
        # Another call is no answer: the first may be running still.
        ([call("a"), USER, call("b"), result("b"), USER], [[1], [2, 3]]),
        # Its id was used again.
        ([call("a"), call("a"), result("a"), USER], [[0], [1, 2]]),
        # A result without a call goes by itself, and so does a call without an id.
        ([result("lost"), call(""), USER], [[0], [1]]),
        ([USER, THINKING, THINKING, ANSWER, USER], [[0], [1, 2, 3]]),
        ([THINKING, call("a"), result("a"), USER], [[0, 1, 2]]),
        ([THINKING, USER, ANSWER], [[0], [2]]),
    ],
)
def test_what_may_go_goes_in_whole_groups(moves: list[Move], groups: list[list[int]]) -> None:
    assert removable_groups(told(moves)) == groups


def test_a_summary_that_makes_a_call_keeps_its_result() -> None:
    history = told([call("a"), result("a"), USER])
    odd = [replace(history[0], extra={"summary": True}), *history[1:]]
    assert removable_groups(odd) == []


def test_only_the_calls_after_the_last_answered_user_are_running() -> None:
    assert running_calls(told([USER, call("a"), USER, ANSWER, USER, call("b"), call("c"), result("c")])) == {
        5
    }


# -- truncating ---------------------------------------------------------------------------------------


def test_the_oldest_go_first_and_what_is_left_keeps_its_order() -> None:
    history = told([NOTE, USER, ANSWER, USER, ANSWER, USER, ANSWER])
    assert cut(history, 4) == ["m1", "m5", "m6", "m7"]


def test_a_call_that_is_still_running_is_not_removed() -> None:
    assert cut(told([USER, ANSWER, USER, call("a")]), 1) == ["m3", "m4"]


def test_nothing_is_removed_from_a_context_that_is_within_its_limits() -> None:
    history = told([USER, call("a"), USER, result("lost"), ANSWER])
    assert cut(history, 5) == ids(history)
    everything = truncate_items(history, counter=TokenCounter())
    assert everything.items == history
    assert everything.limits_met


def test_structural_items_and_summaries_are_never_removed() -> None:
    structural: list[Item] = [
        Message("system", "rules"),
        Message("developer", "more rules"),
        Message("assistant", "[Conversation Summary]\n...", extra={"summary": True}),
        Summary([Segment(text="long ago", first=1, last=9)]),
        AgentHandoff(to_agent="b"),
        AgentConfigUpdate(tools=("search",)),
    ]
    mixed = [*structural, DirectMessage(source_agent="a", target_agent="b", content="hi"), *told([ANSWER])]
    found = truncate_items(mixed, max_items=0, counter=TokenCounter())
    assert found.items == structural


def test_a_limit_that_cannot_be_met_is_reported_with_what_is_too_much() -> None:
    counter = TokenCounter()
    history = [Message("system", "word " * 2000), Message("user", "hi"), Message("assistant", "hello")]
    found = truncate_items(history, max_items=1, max_tokens=100, counter=counter)
    assert found.items == history[:2]
    assert not found.limits_met
    assert found.over_items == 1
    assert found.over_tokens == counter.count_messages(history[:2]) - 100


def test_tokens_are_counted_as_calibrated() -> None:
    calibration = Calibration()
    for _ in range(20):
        calibration.observe(100, 200)
    counter = TokenCounter(calibration=calibration)
    history = [Message("assistant", "one two three four five six"), Message("user", "hi")]
    found = truncate_items(history, max_tokens=counter.count_messages(history) - 1, counter=counter)
    assert found.items == history[1:]
    assert (
        truncate_items(history, max_tokens=counter.count_messages(history), counter=counter).items == history
    )


@pytest.mark.parametrize("limit", [-1, -100])
def test_a_negative_limit_is_refused(limit: int) -> None:
    with pytest.raises(ValueError, match=f"max_items must be >= 0 or None, not {limit}"):
        truncate_items([], max_items=limit, counter=TokenCounter())


@pytest.mark.parametrize("limit", [True, 1.5, "9"])
def test_a_limit_that_is_no_number_is_refused(limit: object) -> None:
    with pytest.raises(TypeError, match="max_tokens must be a whole number"):
        truncate_items([], max_tokens=limit, counter=TokenCounter())  # type: ignore[arg-type]


@some
@given(histories | tangled_histories, st.integers(0, 14))
def test_no_pair_is_ever_split(history: list[Message], limit: int) -> None:
    left = set(cut(history, limit))
    for start, end in pairs(history):
        if end is not None:
            assert (history[start].id in left) == (history[end].id in left)


@some
@given(histories | tangled_histories, st.integers(0, 14))
def test_no_more_is_removed_than_it_takes(history: list[Message], limit: int) -> None:
    groups = removable_groups(history)
    gone = {item.id for item in history} - set(cut(history, limit))
    removed = [group for group in groups if history[group[0]].id in gone]
    assert removed == groups[: len(removed)]
    assert sum(map(len, removed)) == len(gone)
    if removed:
        assert len(history) - len(gone) + len(removed[-1]) > limit


def test_an_event_costs_what_it_says() -> None:
    counter = TokenCounter()
    short = item_tokens(AgentConfigUpdate(instructions="be kind"), counter)
    assert item_tokens(AgentConfigUpdate(instructions="be kind " * 50), counter) > 10 * short
    assert item_tokens(AgentHandoff(to_agent="b", reason="words " * 50), counter) > 45
    mail = DirectMessage(source_agent="a", target_agent="b", content="words " * 50)
    assert item_tokens(mail, counter) > 45


# -- turns --------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("moves", "turns", "start"),
    [
        ([USER, ANSWER, USER, ANSWER], 1, 2),
        ([USER, ANSWER, USER, ANSWER], 2, 0),
        ([ANSWER, USER, ANSWER], 1, 0),
        ([USER, ANSWER, USER, ANSWER], 0, 4),
        # A user spoke while the tool ran: the turn starts at the call.
        ([USER, call("a"), USER, result("a"), ANSWER], 1, 1),
        ([], 3, 0),
    ],
)
def test_turns_start_at_a_user_and_never_inside_a_pair(moves: list[Move], turns: int, start: int) -> None:
    assert turn_start(told(moves), turns) == start


def test_recent_turns_come_with_the_structure_before_them() -> None:
    handoff = AgentHandoff(to_agent="b")
    first, *rest = told([NOTE, USER, ANSWER, USER, ANSWER])
    assert recent_turns([first, handoff, *rest], 1) == [first, handoff, *rest[2:]]
    with pytest.raises(ValueError, match="turns must be >= 0, not -1"):
        recent_turns([], -1)


def test_events_before_a_turn_do_not_shift_its_start() -> None:
    handoff = AgentHandoff(to_agent="b")
    history = told([USER, call("a"), USER, result("a")])
    assert turn_start([handoff, history[0], handoff, *history[1:]], 1) == 3


# -- filters ------------------------------------------------------------------------------------------


@dataclass
class Tool:
    name: str


SEARCH = Message("assistant", tool_calls=[ToolCall("s", "search", "{}")])
FOUND = Message("tool", "found", tool_call_id="s", name="search")
BOTH = Message("assistant", "Looking.", tool_calls=[ToolCall("t", "search"), ToolCall("u", "mail")])
MAILED = Message("tool", "sent", tool_call_id="u")


def test_no_tools_means_no_calls_and_no_results_but_what_was_said_stays() -> None:
    (left,) = filter_items([SEARCH, FOUND, BOTH, MAILED], tools=[])
    assert isinstance(left, Message)
    assert (left.id, left.text, left.tool_calls) == (BOTH.id, "Looking.", ())


def test_tools_are_given_by_name_or_as_objects() -> None:
    for tools in (["mail"], [Tool("mail")], {"mail"}):
        left = filter_items([SEARCH, FOUND, BOTH, MAILED], tools=tools)
        assert ids(left) == [BOTH.id, MAILED.id]
        assert isinstance(left[0], Message)
        assert [call.name for call in left[0].tool_calls] == ["mail"]
    assert filter_items([SEARCH, FOUND], tools=["search"]) == [SEARCH, FOUND]
    assert filter_items([SEARCH, FOUND], tools=None) == [SEARCH, FOUND]


def test_a_result_whose_call_is_nowhere_is_judged_by_its_name() -> None:
    assert filter_items([FOUND], tools=["search"]) == [FOUND]
    assert filter_items([FOUND], tools=["mail"]) == []


@pytest.mark.parametrize("tools", ["search", [1], [object()]])
def test_what_names_no_tool_is_refused(tools: object) -> None:
    with pytest.raises(TypeError, match="tools"):
        filter_items([], tools=tools)  # type: ignore[arg-type]


def test_an_agents_items_are_picked_with_the_results_of_its_calls() -> None:
    mine = replace(SEARCH, agent="a")
    others = Message("user", "to b", agent="b")
    rules, handoff = Message("system", "x"), AgentHandoff(to_agent="b", agent="b")
    assert filter_items([rules, mine, others, handoff, FOUND], filter_agent_id="a") == [
        rules,
        mine,
        handoff,
        FOUND,
    ]
    assert filter_items([SEARCH, replace(FOUND, agent="a")], filter_agent_id="a") == []


def test_a_message_is_empty_when_it_has_nothing_but_white_space() -> None:
    empty: list[Item] = [
        Message("user", " \n"),
        Message("assistant"),
        Message("user", ["", " "]),
        Message("system", ""),
    ]
    full: list[Item] = [Message("user", ImageContent("https://x.test/a.png")), SEARCH, FOUND]
    silent = Message("tool", "", tool_call_id="s")
    assert filter_items([*empty, *full, silent], exclude_empty_messages=True) == [*full, silent]


@some
@given(histories, st.sampled_from([None, [], ["look"]]), st.booleans())
def test_a_filter_never_splits_a_pair(history: list[Message], tools: list[str] | None, empty: bool) -> None:
    left = {item.id for item in filter_items(history, tools=tools, exclude_empty_messages=empty)}
    for start, end in pairs(history):
        if end is not None and history[start].id not in left:
            assert history[end].id not in left


# -- merging and inserting ----------------------------------------------------------------------------


def test_an_item_goes_before_the_first_that_is_later() -> None:
    first, second, third = (later(at, Message("user", str(at), id=str(at))) for at in (1, 2, 3))
    same = later(2, Message("user", "same", id="same"))
    assert ids(insert_items([first, second, third], same)) == ["1", "2", "same", "3"]
    assert ids(insert_items([first, third], same, second)) == ["1", "same", "2", "3"]
    assert ids(insert_items([third, first], second)) == ["2", "3", "1"]
    assert insert_items([], third, first) == [first, third]


@some
@given(st.lists(messages, max_size=6), st.lists(messages, max_size=4))
def test_inserting_many_is_inserting_one_after_the_other(items: list[Message], new: list[Message]) -> None:
    one_by_one: list[Item] = list(items)
    for item in sorted(new, key=lambda item: item.created_at):
        one_by_one = insert_items(one_by_one, item)
    assert insert_items(items, *new) == one_by_one


def test_merging_is_by_time_and_ties_keep_mine_first() -> None:
    mine = [later(1, Message("user", "a", id="a")), later(3, Message("user", "c", id="c"))]
    other = [later(1, Message("user", "b", id="b")), later(2, Message("user", "d", id="d"))]
    assert ids(merge_items(mine, other)) == ["a", "b", "d", "c"]


def test_a_result_stays_behind_its_call_when_the_clock_was_set_back() -> None:
    found = merge_items([later(10, SEARCH)], [later(5, FOUND), later(7, Message("user", "x", id="x"))])
    assert ids(found) == ["x", SEARCH.id, FOUND.id]


def test_an_edit_in_the_other_comes_back_and_what_a_filter_left_does_not() -> None:
    edited = replace(SEARCH, content="Let me see.")
    assert merge_items([SEARCH, FOUND], [edited]) == [edited, FOUND]
    scoped = filter_items([BOTH, MAILED], tools=[])
    assert merge_items([BOTH, MAILED], scoped) == [BOTH, MAILED]
    stamped = replace(FOUND, agent="a")
    assert merge_items([stamped], [FOUND]) == [stamped]
    signed = replace(SEARCH, tool_calls=(ToolCall("s", "search", "{}", {"signature": "x"}),))
    assert merge_items([SEARCH], [signed]) == [signed]


def test_two_different_items_under_one_id_are_a_conflict() -> None:
    mine = later(1, Message("user", "mine", id="m1"))
    with pytest.raises(ConflictingMessage, match="'m1' is already at position 0"):
        merge_items([mine], [later(2, Message("user", "theirs", id="m1"))])
    with pytest.raises(ConflictingMessage):
        merge_items([mine], [AgentHandoff(to_agent="x", id="m1", created_at=mine.created_at)])


def test_a_changed_summary_of_the_log_comes_back_like_any_edit() -> None:
    old = Summary([Segment(text="old", first=1, last=2)], id="s", created_at=NOON)
    new = Summary([Segment(text="new", first=1, last=2)], id="s", created_at=NOON)
    assert merge_items([old], [new]) == [new]


# -- configuration ------------------------------------------------------------------------------------


def test_the_latest_instructions_and_tools_are_in_force() -> None:
    items: list[Item] = [
        Message("system", "first", id="1"),
        AgentConfigUpdate(tools=("search",), id="2"),
        Message("user", "hi", id="3"),
        AgentConfigUpdate(instructions="second", id="4"),
        Message("developer", ["third", "and more"], id="5"),
        AgentConfigUpdate(tools=(), id="6"),
    ]
    assert active_config(items) == ("third\nand more", [])
    assert active_config(items, "1") == ("first", None)
    assert active_config(items, 3) == ("second", ["search"])
    assert active_config(items, -3) == active_config(items, "4")
    assert active_config(items, "nobody") == active_config(items, 99) == active_config(items)
    assert active_config(items, -99) == (None, None)
    assert active_config(items, ignored_ids={"4", "5"}).instructions == "first"


def test_a_summary_is_no_instruction() -> None:
    summary = Summary([Segment(text="long ago", first=1, last=9)])
    marked = Message("system", "long ago", extra={"summary": True})
    assert active_config([Message("system", "rules"), summary, marked]).instructions == "rules"


def test_a_target_that_is_neither_id_nor_index_is_refused() -> None:
    with pytest.raises(TypeError, match="target must be an item's id"):
        active_config([], 1.5)  # type: ignore[arg-type]
