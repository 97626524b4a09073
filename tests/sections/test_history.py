"""The conversation's history: what is shown, what is not, and that nothing is hidden."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from strategies import histories, last_window, may_cut, some, told

from autonomy_ctx import (
    ChatRole,
    ComposedContext,
    ContextTemplate,
    ConversationHistorySection,
    Memory,
    Message,
    SectionError,
)
from autonomy_ctx.messages import wire
from autonomy_ctx.sections import Omission

Filter = Callable[[dict[str, Any]], bool]
# What is generated is the history; that both event loops work is shown by the other tests.
once = pytest.mark.parametrize("anyio_backend", ["asyncio"])


class Bare:
    """A memory of somebody else's, which can only give everything."""

    def __init__(self, history: Sequence[Message]) -> None:
        self.history = list(history)

    async def get_messages_only(self, scope: str, conversation: str) -> list[dict[str, Any]]:
        return [wire.to_dict(message) for message in self.history]


class BareSync:
    """The same without async."""

    def __init__(self, history: Sequence[Message]) -> None:
        self.history = list(history)

    def get_messages_only(self, scope: str, conversation: str) -> list[dict[str, Any]]:
        return [wire.to_dict(message) for message in self.history]


async def filled(history: Sequence[Message]) -> Memory:
    memory = Memory()
    await memory.append("ana", "trip", *history)
    return memory


async def shown(memory: Any, **options: Any) -> ComposedContext:
    return await ContextTemplate([ConversationHistorySection(**options)]).compose(memory, "ana", "trip")


def texts(context: ComposedContext) -> list[str]:
    return [message.text for message in context.messages]


def chat(number: int) -> list[Message]:
    """User and assistant in turn: 1, 2, 3 and so on."""
    return told([("user", ()) if n % 2 == 0 else ("answer", ()) for n in range(number)])


def is_odd(form: dict[str, Any]) -> bool:
    return int(form["id"][1:]) % 2 == 1


def is_no_tool(form: dict[str, Any]) -> bool:
    return bool(form["role"] != "tool")


def is_no_user(form: dict[str, Any]) -> bool:
    return bool(form["role"] != "user")


def drops_newest_user(history: Sequence[Message]) -> Filter:
    users = [message.id for message in history if message.role is ChatRole.USER]
    return lambda form: form["id"] not in users[-1:]


def expected(history: Sequence[Message], limit: int | None) -> list[Message]:
    """The window by the slow rules, with the newest user message before it if it has no user's."""
    window = list(history) if limit is None else last_window(history, limit)
    users = [message for message in history if message.role is ChatRole.USER]
    if users and not any(message.role is ChatRole.USER for message in window):
        window.insert(0, users[-1])
    return window


# -- whole or in part ---------------------------------------------------------------------------------


async def test_without_options_everything_is_shown_in_order(memory: Memory) -> None:
    await memory.append("ana", "trip", *chat(5))
    context = await shown(memory)
    assert texts(context) == ["1", "2", "3", "4", "5"]
    assert context.omitted == []


async def test_a_conversation_nobody_spoke_in_shows_nothing(memory: Memory) -> None:
    for limit in (None, 1):
        context = await shown(memory, max_messages=limit)
        assert (context.messages, context.omitted) == ([], [])


async def test_a_window_is_the_most_recent_messages_and_says_what_it_leaves_out(memory: Memory) -> None:
    await memory.append("ana", "trip", *chat(9))
    context = await shown(memory, max_messages=3)
    assert texts(context) == ["7", "8", "9"]
    assert context.omitted == [Omission(first=1, last=6, count=6, reason="max_messages=3")]
    assert [origin.position for origin in context.origins()] == [7, 8, 9]


async def test_a_window_never_starts_inside_a_tool_pair(memory: Memory) -> None:
    moves = [("user", ()), ("call", ("a", "b")), ("result", ("b",)), ("result", ("a",)), ("answer", ())]
    await memory.append("ana", "trip", *told(moves))
    assert [texts(await shown(memory, max_messages=limit)) for limit in (1, 2, 3, 4, 5)] == [
        ["1", "5"],
        ["1", "5"],
        ["1", "5"],
        ["1", "", "3", "4", "5"],
        ["1", "", "3", "4", "5"],
    ]


async def test_the_newest_user_message_is_there_however_long_ago_it_was(memory: Memory) -> None:
    history = told([("answer", ()), ("user", ()), *[("answer", ())] * 200])
    await memory.append("ana", "trip", *history)
    context = await shown(memory, max_messages=2)
    assert texts(context) == ["2", "201", "202"]
    assert [origin.position for origin in context.origins()] == [2, 201, 202]
    assert context.omitted == [Omission(first=1, last=200, count=199, reason="max_messages=2")]


@pytest.mark.parametrize("calls", [5, 70, 150])
async def test_a_group_larger_than_the_window_is_shown_whole(memory: Memory, calls: int) -> None:
    ids = [f"c{n}" for n in range(calls)]
    history = told(
        [*[("answer", ())] * 9, ("user", ()), ("call", tuple(ids)), *[("result", (i,)) for i in ids]]
    )
    await memory.append("ana", "trip", *history)
    assert (await shown(memory, max_messages=5)).messages == history[9:]


async def test_the_number_of_messages_shown_is_left_for_later_sections(memory: Memory) -> None:
    await memory.append("ana", "trip", *chat(9))
    params: dict[str, Any] = {}
    await ConversationHistorySection(max_messages=4).get_messages(memory, "ana", "trip", params)
    assert params == {"conversation_message_count": 4}


async def test_a_deleted_message_is_neither_shown_nor_counted_as_left_out(memory: Memory) -> None:
    await memory.append("ana", "trip", *chat(6))
    for message_id in ("m2", "m6"):
        await memory.delete_message("ana", "trip", message_id)
    assert texts(await shown(memory)) == ["1", "3", "4", "5"]
    context = await shown(memory, max_messages=2)
    assert texts(context) == ["4", "5"]
    assert [omission.count for omission in context.omitted] == [2]


# -- generated ----------------------------------------------------------------------------------------


@once
@some
@given(histories, st.none() | st.integers(1, 12))
async def test_every_window_is_the_one_the_rules_give(history: list[Message], limit: int | None) -> None:
    context = await shown(await filled(history), max_messages=limit)
    assert context.messages == expected(history, limit)


@once
@some
@given(histories, st.integers(1, 12))
async def test_no_window_separates_a_pair_loses_the_user_or_changes_the_order(
    history: list[Message], limit: int
) -> None:
    found = (await shown(await filled(history), max_messages=limit)).messages
    places = [history.index(message) for message in found]
    assert places == sorted(set(places))
    users = [message for message in history if message.role is ChatRole.USER]
    assert users[-1:] == [message for message in found if message.role is ChatRole.USER][-1:]
    # After the user's message that was fetched from further back, nothing is skipped.
    starts = [at for at in places if at - 1 not in places]
    assert len(starts) <= 2
    assert all(may_cut(history, at) or history[at] == users[-1] for at in starts)
    assert not starts or may_cut(history, starts[-1])


@once
@some
@given(histories, st.none() | st.integers(1, 12), st.sampled_from([None, is_odd, is_no_tool, is_no_user]))
async def test_what_is_shown_and_what_is_named_as_left_out_is_all_there_is(
    history: list[Message], limit: int | None, filter_fn: Filter | None
) -> None:
    context = await shown(await filled(history), max_messages=limit, filter_fn=filter_fn)
    positions = [origin.position for origin in context.origins()]
    assert [history[position - 1] for position in positions if position] == context.messages
    left_out = set(range(1, len(history) + 1)) - set(positions)
    assert sum(omission.count for omission in context.omitted) == len(left_out)
    assert all(any(o.first <= at <= o.last for o in context.omitted) for at in left_out if at)


@once
@some
@given(
    histories,
    st.none() | st.integers(1, 12),
    st.sampled_from([lambda _: None, lambda _: is_odd, lambda _: is_no_tool, lambda _: is_no_user])
    | st.just(drops_newest_user),
)
async def test_every_kind_of_memory_gives_the_same_window(
    history: list[Message], limit: int | None, make_filter: Callable[[list[Message]], Filter | None]
) -> None:
    options = {"max_messages": limit, "filter_fn": make_filter(history)}
    own = await shown(await filled(history), **options)
    bare = await shown(Bare(history), **options)
    assert own.messages == bare.messages
    assert own.messages == (await shown(BareSync(history), **options)).messages
    assert (own.omitted, own.origins()) == (bare.omitted, bare.origins())


# -- filter, limit, transform -------------------------------------------------------------------------


async def test_the_filter_comes_before_the_limit_and_the_transform_last(memory: Memory) -> None:
    await memory.append("ana", "trip", *told([("answer", ())] * 9))
    seen: list[str] = []

    def shout(form: dict[str, Any]) -> dict[str, Any]:
        seen.append(form["content"])
        return {**form, "content": form["content"] + "!"}

    context = await shown(memory, max_messages=3, filter_fn=is_odd, transform_fn=shout)
    assert texts(context) == ["5!", "7!", "9!"]
    assert seen == ["5", "7", "9"]
    assert context.omitted == [Omission(first=1, last=8, count=6, reason="max_messages=3 and filter_fn")]


async def test_a_filter_alone_is_named_as_the_reason(memory: Memory) -> None:
    await memory.append("ana", "trip", *chat(4))
    context = await shown(memory, filter_fn=is_odd)
    assert texts(context) == ["1", "3"]
    assert context.omitted == [Omission(first=1, last=4, count=2, reason="filter_fn")]


async def test_a_filter_that_passes_few_still_fills_the_window(memory: Memory) -> None:
    history = chat(400)
    await memory.append("ana", "trip", *history)
    context = await shown(memory, max_messages=3, filter_fn=lambda form: int(form["content"]) % 100 == 1)
    assert texts(context) == ["101", "201", "301"]


async def test_a_transform_may_return_a_message_or_a_dict(memory: Memory) -> None:
    await memory.append("ana", "trip", *chat(1))
    for made in (Message("system", "new"), {"role": "system", "content": "new"}):
        assert texts(await shown(memory, transform_fn=lambda form, made=made: made)) == ["new"]


async def test_a_transform_that_returns_nothing_is_told_to_use_the_filter(memory: Memory) -> None:
    await memory.append("ana", "trip", *chat(1))
    with pytest.raises(SectionError) as caught:
        await shown(memory, transform_fn=lambda form: None)
    assert str(caught.value) == (
        "required section `conversation_history` failed: InvalidMessage: invalid message: `transform_fn` "
        "returned None; leave messages out with `filter_fn`; no context was composed. "
        "Fix the section. If a turn may do without it, set `required = False` on it before "
        "you add it to the template"
    )


async def test_nobody_who_sees_the_history_can_edit_memory(memory: Memory) -> None:
    form = {"role": "user", "content": [{"type": "text", "text": "hi"}], "id": "m1", "own": {"list": [1]}}
    await memory.append("ana", "trip", form)
    before = await memory.get_messages_only("ana", "trip")

    def spoil(given_form: dict[str, Any]) -> dict[str, Any]:
        given_form["content"][0]["text"] = "spoiled"
        given_form["own"]["list"].append("spoiled")
        return given_form

    template = ContextTemplate(
        [ConversationHistorySection(filter_fn=lambda given_form: bool(spoil(given_form)), transform_fn=spoil)]
    )
    [built] = await template.build_context(memory, "ana", "trip")
    assert built["content"] == [{"type": "text", "text": "spoiled"}]
    for handed in (
        await memory.get_messages_only("ana", "trip"),
        await ContextTemplate([ConversationHistorySection()]).build_context(memory, "ana", "trip"),
        await ConversationHistorySection().get_messages(memory, "ana", "trip", {}),
    ):
        assert handed == before
        spoil(handed[0])
    assert await memory.get_messages_only("ana", "trip") == before


# -- cost ---------------------------------------------------------------------------------------------


class CountingReads(Memory):
    """A memory that counts the messages it hands out."""

    handed = 0

    async def read(self, *args: Any, **options: Any) -> Any:
        window = await super().read(*args, **options)
        self.handed += len(window.entries)
        return window


@pytest.mark.parametrize("limit", [1, 2, 9, 20])
async def test_a_window_costs_the_same_however_long_the_history(limit: int) -> None:
    handed = []
    for length in (200, 2000):
        memory = CountingReads()
        await memory.append("ana", "trip", *chat(length))
        await shown(memory, max_messages=limit)
        handed.append(memory.handed)
    assert handed[0] == handed[1] <= limit + 1 + max(64, 2 * limit)
