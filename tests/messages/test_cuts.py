"""Where a history may be cut, against rules written down a second time, slowly."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any, overload

import pytest
from hypothesis import given
from hypothesis import strategies as st
from strategies import Move, histories, last_window, many, may_cut, pairs, tangled_histories, told

from autonomy_ctx import ChatRole, Message, ToolCall
from autonomy_ctx.messages import (
    find_safe_trim_count,
    find_tool_pair_boundary,
    get_tool_result_id,
    get_tool_use_ids,
    safe_cuts,
    validate_tool_pairing,
    wire,
)
from autonomy_ctx.messages.cuts import find_window_start, orphaned_results

USER: Move = ("user", ())
ANSWER: Move = ("answer", ())
THINKING: Move = ("thinking", ())


def call(*ids: str) -> Move:
    return ("call", ids)


def result(call_id: str) -> Move:
    return ("result", (call_id,))


@many
@given(histories)
def test_safe_cuts_are_those_the_rules_allow(history: list[Message]) -> None:
    assert safe_cuts(history) == [cut for cut in range(len(history) + 1) if may_cut(history, cut)]


@pytest.mark.parametrize(
    ("moves", "safe"),
    [
        ([], [0]),
        ([USER, ANSWER, USER], [0, 1, 2, 3]),
        ([USER, call("a"), result("a"), ANSWER], [0, 1, 3, 4]),
        # Parallel: the group ends with the last result, in whatever order they came.
        ([call("a", "b"), result("b"), result("a"), ANSWER], [0, 3, 4]),
        # Overlapping: two calls that share a stretch are one group.
        ([call("a"), call("b"), result("a"), ANSWER, result("b"), USER], [0, 5, 6]),
        # A user who spoke while the tool ran does not part the call from its result.
        ([call("a"), USER, result("a"), USER], [0, 3, 4]),
        # Never answered: forbidden until the next user message, and at the end while it still waits.
        ([call("a"), ANSWER, ANSWER, USER, ANSWER], [0, 3, 4, 5]),
        ([USER, call("a")], [0, 1]),
        ([call("a", "b"), result("a"), USER, ANSWER], [0, 2, 3, 4]),
        # A result of a call that is nowhere does not start a window.
        ([USER, result("lost"), ANSWER], [0, 2, 3]),
        ([result("a"), call("a"), USER], [0, 1, 2, 3]),
        # Thinking of its own stays with the answer that follows, and with nothing else.
        ([USER, THINKING, ANSWER, USER], [0, 1, 3, 4]),
        ([THINKING, THINKING, ANSWER], [0, 3]),
        ([THINKING, USER], [0, 1, 2]),
        # No id, no pair.
        ([call(""), ANSWER], [0, 1, 2]),
        # An id used again belongs to the later call.
        ([call("a"), result("a"), USER, call("a"), result("a"), USER], [0, 2, 3, 5, 6]),
        # One call may have several results; none of them may lose it.
        ([call("a"), result("a"), result("a"), ANSWER], [0, 3, 4]),
        ([call("a"), result("a"), USER, result("a"), USER], [0, 4, 5]),
    ],
)
def test_each_rule_by_example(moves: list[Move], safe: list[int]) -> None:
    history = told(moves)
    assert [cut for cut in range(len(history) + 1) if may_cut(history, cut)] == safe
    assert safe_cuts(history) == safe


@many
@given(histories, st.integers(1, 16))
def test_a_window_starts_at_the_first_safe_cut_that_leaves_few_enough(
    history: list[Message], limit: int
) -> None:
    start = find_window_start(history, limit)
    assert history[start:] == last_window(history, limit)
    assert start in safe_cuts(history)


def test_a_last_group_larger_than_the_limit_is_kept_whole() -> None:
    history = told([USER, call("a", "b", "c"), result("a"), result("b"), result("c")])
    assert find_window_start(history, 2) == 1


def test_a_limit_over_the_length_keeps_everything() -> None:
    assert find_window_start(told([result("lost"), USER]), 2) == 0
    assert find_window_start([], 5) == 0


# -- public helpers -----------------------------------------------------------------------------------


def test_ids_of_calls_are_read_in_every_spelling() -> None:
    flat = {"role": "assistant", "tool_calls": [{"id": "a", "name": "f"}, {"name": "no id"}]}
    nested = {
        "role": "assistant",
        "content": None,
        "tool_calls": [{"id": "b", "type": "function", "function": {"name": "f", "arguments": "{}"}}],
    }
    built = Message("assistant", tool_calls=[ToolCall("c", "f"), ToolCall(None, "f")])
    assert [get_tool_use_ids(message) for message in (flat, nested, built)] == [["a"], ["b"], ["c"]]
    assert get_tool_use_ids({"role": "assistant", "content": "no calls"}) == []
    assert get_tool_use_ids({"role": "assistant", "tool_calls": None}) == []


def test_only_a_tool_message_answers_a_call() -> None:
    assert get_tool_result_id({"role": "tool", "tool_call_id": "a", "content": "x"}) == "a"
    assert get_tool_result_id(Message("tool", "x", tool_call_id="a")) == "a"
    assert get_tool_result_id({"role": "user", "tool_call_id": "a", "content": "x"}) is None
    assert get_tool_result_id(Message("user", "x", tool_call_id="a")) is None
    assert get_tool_result_id({"role": "tool", "content": "x"}) is None


def test_only_an_assistant_makes_calls_as_a_message_and_as_a_dict() -> None:
    for role in ChatRole:
        message = Message(role, "x", tool_calls=[ToolCall("a", "f")])
        expected = ["a"] if role is ChatRole.ASSISTANT else []
        assert get_tool_use_ids(message) == get_tool_use_ids(wire.to_dict(message)) == expected


@many
@given(histories | tangled_histories, st.integers(0, 16))
def test_the_helpers_say_the_same_of_messages_and_of_their_dicts(history: list[Message], at: int) -> None:
    dicts = [wire.to_dict(message) for message in history]
    assert validate_tool_pairing(dicts) == validate_tool_pairing(history)
    assert find_tool_pair_boundary(dicts, at) == find_tool_pair_boundary(history, at)
    assert find_safe_trim_count(dicts, at) == find_safe_trim_count(history, at)


def test_calls_and_results_that_match_are_valid() -> None:
    history = told([USER, call("a", "b"), result("b"), result("a"), ANSWER])
    assert validate_tool_pairing(history) == (True, None)
    assert validate_tool_pairing([]) == (True, None)


def test_an_unanswered_call_is_reported_with_its_id() -> None:
    ok, error = validate_tool_pairing(told([USER, call("a", "b"), result("b")]))
    assert (ok, error) == (False, "Orphaned tool uses (no result after them): ['a']")


def test_a_result_without_a_call_is_reported_with_its_id() -> None:
    ok, error = validate_tool_pairing(told([USER, result("a")]))
    assert (ok, error) == (False, "Orphaned tool results (no call before them): ['a']")


@many
@given(histories)
def test_a_history_is_valid_when_every_call_and_every_result_has_its_other_half(
    history: list[Message],
) -> None:
    unanswered = any(end is None for _, end in pairs(history))
    assert validate_tool_pairing(history)[0] is (not unanswered and not lost_results(history))


def lost_results(history: Sequence[Message]) -> set[str]:
    """The ids of results before which no call has that id."""
    lost = set()
    for index, message in enumerate(history):
        wanted = get_tool_result_id(message)
        made = {call_id for before in history[:index] for call_id in get_tool_use_ids(before)}
        if wanted and wanted not in made:
            lost.add(wanted)
    return lost


@many
@given(histories | tangled_histories)
def test_a_result_is_orphaned_when_no_call_stands_before_it(history: list[Message]) -> None:
    assert orphaned_results(history) == lost_results(history)


def test_a_boundary_moves_back_to_the_call() -> None:
    history = told([USER, call("a", "b"), result("a"), result("b"), ANSWER])
    assert [find_tool_pair_boundary(history, start) for start in range(6)] == [0, 1, 1, 1, 4, 5]


@pytest.mark.parametrize(
    ("moves", "boundaries"),
    [
        ([USER, result("a"), call("a"), ANSWER], [0, 1, 1, 3, 4]),
        ([USER, result("a"), USER, result("a"), call("a"), USER], [0, 1, 1, 1, 1, 5, 6]),
        # A call with a result after it has its own; so has a later call of the same id.
        ([result("a"), call("a"), result("a"), USER], [0, 1, 1, 3, 4]),
        ([result("a"), call("a"), USER, call("a"), USER], [0, 0, 2, 3, 4, 5]),
    ],
)
def test_a_boundary_moves_back_to_a_result_that_stands_before_its_call(
    moves: list[Move], boundaries: list[int]
) -> None:
    history = told(moves)
    assert [find_tool_pair_boundary(history, start) for start in range(len(boundaries))] == boundaries
    assert [find_safe_trim_count(history, count) for count in range(len(boundaries))] == boundaries


@many
@given(histories | tangled_histories)
def test_no_result_loses_its_call_at_a_safe_cut(history: list[Message]) -> None:
    for cut in safe_cuts(history)[1:]:
        assert lost_results(history[cut:]) <= lost_results(history)


@many
@given(histories | tangled_histories, st.integers(0, 16))
def test_no_result_loses_its_call_at_a_boundary(history: list[Message], start: int) -> None:
    boundary = find_tool_pair_boundary(history, start)
    assert 0 <= boundary <= start
    assert lost_results(history[boundary:]) <= lost_results(history)


@many
@given(histories | tangled_histories, st.integers(0, 16))
def test_a_boundary_stands_between_no_result_and_a_call_after_it(history: list[Message], start: int) -> None:
    boundary = find_tool_pair_boundary(history, start)
    if boundary < len(history):
        assert not any(first < boundary <= last for first, last in early_pairs(history))


@many
@given(histories, st.integers(0, 16))
def test_a_boundary_moves_no_further_than_it_must(history: list[Message], start: int) -> None:
    boundary = find_tool_pair_boundary(history, start)
    for at in range(boundary + 1, min(start, len(history) - 1) + 1):
        found = [(first, last) for first, last in pairs(history) if last is not None] + early_pairs(history)
        assert any(first < at <= last for first, last in found)


def early_pairs(history: Sequence[Message]) -> list[tuple[int, int]]:
    """The first result and the first call of an id, where the result comes first and none comes after."""
    found = []
    ids = {get_tool_result_id(message) for message in history} - {None}
    for wanted in ids:
        results = [at for at, message in enumerate(history) if get_tool_result_id(message) == wanted]
        made = [at for at, message in enumerate(history) if wanted in get_tool_use_ids(message)]
        if made and results[0] < made[0]:
            end = made[1] if len(made) > 1 else len(history)
            if not any(made[0] < at < end for at in results):
                found.append((results[0], made[0]))
    return found


def test_trimming_stops_before_a_call_whose_result_stays() -> None:
    history = told([USER, call("a"), result("a"), USER])
    assert [find_safe_trim_count(history, count) for count in range(5)] == [0, 1, 1, 3, 4]


@many
@given(histories | tangled_histories, st.integers(-3, 20))
def test_trimming_never_takes_more_than_asked_or_than_there_is(history: list[Message], count: int) -> None:
    trimmed = find_safe_trim_count(history, count)
    assert 0 <= trimmed <= max(0, min(count, len(history)))
    assert lost_results(history[trimmed:]) <= lost_results(history)


# -- cost ---------------------------------------------------------------------------------------------


class Counted(Sequence[Message]):
    """A history that counts how often a message is looked at."""

    def __init__(self, history: list[Message]) -> None:
        self.history = history
        self.looks = 0

    @overload
    def __getitem__(self, index: int) -> Message: ...
    @overload
    def __getitem__(self, index: slice) -> list[Message]: ...
    def __getitem__(self, index: int | slice) -> Message | list[Message]:
        found = self.history[index]
        self.looks += len(found) if isinstance(found, list) else 1
        return found

    def __iter__(self) -> Iterator[Message]:
        for message in self.history:
            self.looks += 1
            yield message

    def __len__(self) -> int:
        return len(self.history)


def open_calls(number: int) -> list[Message]:
    """The worst there is: every call open until the very end."""
    return told([call(str(n)) for n in range(number)] + [result(str(n)) for n in range(number)])


@pytest.mark.parametrize(
    "work",
    [
        safe_cuts,
        validate_tool_pairing,
        orphaned_results,
        lambda history: find_window_start(history, 1),
        lambda history: find_tool_pair_boundary(history, len(history) - 1),
        lambda history: find_safe_trim_count(history, len(history) - 1),
    ],
    ids=["safe_cuts", "validate", "orphaned", "start_of_last", "boundary", "trim"],
)
def test_four_times_the_history_is_looked_at_four_times_as_often(work: Callable[[Any], Any]) -> None:
    short, long = Counted(open_calls(50)), Counted(open_calls(200))
    work(short)
    work(long)
    assert 0 < long.looks <= 4 * short.looks + 4
    assert long.looks <= 5 * len(long)
